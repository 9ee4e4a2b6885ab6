"""Hooks that a conftest or another plugin can implement."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Register = Callable[[str, str, str], None]


@pytest.hookspec
def pytest_vnetperf_register(register: Register) -> None:
    """Register backends that no installed package declares.

    Args:
        register: Called as `register(family, name, "module:Class")`, e.g.
            `register("vswitches", "mine", "my_switch:MySwitch")`. The module must be importable
            by the agent: by name, from the directories on sys.path.
    """
