"""The kernel's way to write a set of CPUs: ``0-3,8,10-11``."""

from __future__ import annotations

from collections.abc import Iterable

from vnetperf.model.errors import HostError


def parse_cpus(text: str) -> tuple[int, ...]:
    """CPUs of a list, in ascending order; an empty text is no CPU.

    Args:
        text: A list as the kernel writes it, e.g. ``0-3,8``.

    Returns:
        CPU numbers.

    Raises:
        HostError: The text is not such a list.
    """
    cpus: set[int] = set()
    for part in text.strip().split(","):
        if not part.strip():
            continue
        first, dash, last = part.partition("-")
        if not first.strip().isdecimal() or (dash and not last.strip().isdecimal()):
            raise HostError(
                f"{text.strip()!r} is not a list of CPUs",
                accepted="numbers and ranges, such as 0-3,8,10-11",
                cure="correct the list",
            )
        cpus.update(range(int(first), int(last if dash else first) + 1))
    return tuple(sorted(cpus))


def format_cpus(cpus: Iterable[int]) -> str:
    """The shortest list for a set of CPUs."""
    parts: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if parts and parts[-1][-1] == cpu - 1:
            parts[-1] = [parts[-1][0], cpu]
        else:
            parts.append([cpu])
    return ",".join("-".join(map(str, part)) for part in parts)
