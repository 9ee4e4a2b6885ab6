"""The kinds of change that can be undone, and the report of an undo.

A kind is a function ``undo(data) -> str``: it brings the machine back to what the journal says it
was, says in a few words what it did, raises when it could not, and may be called again at any
time (also when the change was announced but never made).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from vnetperf.model.errors import HostError

Data = Mapping[str, Any]
UndoFunction = Callable[[Data], str]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of change.

    Attributes:
        function: ``module:function`` that undoes it; imported only when needed, so that the
            guardian starts fast.
        volatile: A reboot undoes it: nothing is to be done (and nothing written) after one.
        first: Undone before all others: processes, which hold on to everything else.
    """

    function: str
    volatile: bool = True
    first: bool = False

    def load(self) -> UndoFunction:
        """Import the function that undoes this kind."""
        module, _, name = self.function.partition(":")
        function: UndoFunction = getattr(importlib.import_module(module), name)
        return function


KINDS: dict[str, Kind] = {
    "processes": Kind("vnetperf.host.kill:undo_processes", first=True),
    "value": Kind("vnetperf.host.values:undo_value"),
    "hugepages": Kind("vnetperf.host.hugepages:undo_hugepages"),
    "driver": Kind("vnetperf.host.pci:undo_driver"),
    "link": Kind("vnetperf.host.links:undo_link"),
    "netdev": Kind("vnetperf.host.netdevs:undo_netdev"),
    "link-state": Kind("vnetperf.host.links:undo_link_state"),
    "eswitch": Kind("vnetperf.host.devlink:undo_mode"),
    "uplink": Kind("vnetperf.host.uplink:undo_uplink"),
    "netns": Kind("vnetperf.host.netns:undo_netns"),
    "cgroup": Kind("vnetperf.host.cgroups:undo_cgroup"),
    "mount": Kind("vnetperf.host.mounts:undo_mount"),
    "modules": Kind("vnetperf.host.modules:undo_modules"),
    # Files outlive a reboot, and on some systems /run does too.
    "tree": Kind("vnetperf.host.files:undo_tree", volatile=False),
    "directory": Kind("vnetperf.host.files:undo_directory", volatile=False),
    "content": Kind("vnetperf.host.files:undo_content", volatile=False),
}


def kind_of(name: str) -> Kind:
    """Look a kind up.

    Args:
        name: As the journal has it.

    Returns:
        The kind.

    Raises:
        HostError: No such kind: the journal was written by a newer version.
    """
    try:
        return KINDS[name]
    except KeyError:
        raise HostError(
            f"unknown kind of change {name!r}",
            accepted=", ".join(sorted(KINDS)),
            cure="restore with the version of vnetperf that wrote the journal",
        ) from None


@dataclass(frozen=True, slots=True)
class UndoStep:
    """One change and what became of it.

    Attributes:
        kind: Kind of change.
        what: The change, for a human.
        outcome: What undoing did, or the error that stopped it.
    """

    kind: str
    what: str
    outcome: str


@dataclass(frozen=True, slots=True)
class UndoReport:
    """What undoing one journal did.

    Attributes:
        run_id: The run whose changes these were.
        undone: Steps done, in the order done.
        failed: Steps that failed; the journal stays on disk for another try.
        damaged: Unreadable journal lines; what they announced is unknown.
    """

    run_id: str
    undone: tuple[UndoStep, ...] = ()
    failed: tuple[UndoStep, ...] = ()
    damaged: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether the machine is known to be as it was before the run."""
        return not self.failed and not self.damaged

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, for a log or another machine."""
        return asdict(self)

    def raise_if_incomplete(self) -> None:
        """Turn what could not be undone into one error.

        Raises:
            HostError: Something failed or the journal is damaged.
        """
        if self.complete:
            return
        troubles = [f"{step.what}: {step.outcome}" for step in self.failed] + list(self.damaged)
        raise HostError(
            "not all changes to this machine could be undone: " + "; ".join(troubles),
            where=f"journal of run {self.run_id}",
            cure="remove the cause, then run `vnetperf restore`",
        )
