"""What this machine has of the programs and kernel modules that backends declare."""

from __future__ import annotations

from functools import cache

from vnetperf.host import kernel
from vnetperf.host.programs import find_programs
from vnetperf.plugin import registry


@cache
def program(name: str) -> str:
    """Path of a program; "" when it is missing."""
    return find_programs(registry.programs().values())[name].path


@cache
def module_problem(name: str) -> str:
    """What keeps a kernel module from being used."""
    return kernel.module_problem(registry.kernel_modules().get(name, name))
