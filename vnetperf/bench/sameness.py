"""What must not have changed on a machine for trials of two sessions to be one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vnetperf.model.errors import ConfigError
from vnetperf.model.machine import MachineFacts

_ABSENT = "none"


def identity_of(facts: MachineFacts) -> dict[str, str]:
    """The facts of a machine that its rates depend on.

    Args:
        facts: The machine.

    Returns:
        Kernel release, CPU model, and version by program.
    """
    return {
        "kernel": _part(facts.record.get("kernel"), "release"),
        "CPU model": _part(facts.record.get("cpu"), "model"),
        **{f"version of {name}": text for name, text in facts.versions.items()},
    }


def _part(fact: Any, key: str) -> str:
    """A value of a group of facts; the group is a text when it could not be read."""
    return str(fact.get(key, _ABSENT) if isinstance(fact, Mapping) else fact)


def require_same(then: Mapping[str, str], now: Mapping[str, str], where: str) -> None:
    """Refuse to go on with a run on a machine that has changed.

    Args:
        then: The machine as the log has it.
        now: The machine as it is.
        where: The log.

    Raises:
        ConfigError: Something differs; it is named.
    """
    differing = [
        f"{name} was {_line(then.get(name, _ABSENT))}, is {_line(now.get(name, _ABSENT))}"
        for name in dict.fromkeys([*then, *now])
        if then.get(name, _ABSENT) != now.get(name, _ABSENT)
    ]
    if differing:
        raise ConfigError(
            "the machine is not the one this run began on, and its trials must not be mixed with "
            "new ones: " + "; ".join(differing),
            where=where,
            cure="start a new run without --resume",
        )


def _line(text: str) -> str:
    return repr(" ".join(text.split()))
