"""How a journal is undone: order, reboots, second tries, and marks so that no step is repeated."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from vnetperf.host import journal_file
from vnetperf.host.identity import boot_id
from vnetperf.host.journal_file import Record
from vnetperf.host.undo import UndoReport, UndoStep, kind_of
from vnetperf.model.errors import HostError

if TYPE_CHECKING:
    from vnetperf.host.journal import Journal

SECOND_TRY_AFTER_S = 0.3


def pending(records: Iterable[Record]) -> list[Record]:
    """The changes not undone yet, in the order to undo them."""
    changes: dict[int, Record] = {}
    for record in records:
        if record.get("t") == "change":
            changes[record["n"]] = record
        elif record.get("t") == "undone":
            changes.pop(record["n"], None)
    return sorted(changes.values(), key=lambda record: (not _first(record), -record["n"]))


def undo_record(record: Record) -> str:
    """Undo one change.

    Args:
        record: A record of the journal that announced a change.

    Returns:
        What was done, in a few words.

    Raises:
        HostError: The machine refused, or the record cannot be understood.
    """
    kind = kind_of(record["kind"])
    if kind.volatile and record["boot"] != boot_id():
        # Writing an old value now would overwrite what the new boot configured.
        return "gone with the reboot"
    try:
        return kind.load()(record["data"])
    except HostError:
        raise
    except Exception as error:
        raise HostError(
            f"{type(error).__name__}: {error}",
            where=str(record["what"]),
            cure="remove the cause, then run `vnetperf restore`",
        ) from error


def undo_all(journal: Journal) -> UndoReport:
    """Undo every pending change of a journal that the caller holds exclusively."""
    content = journal_file.read(journal.path)
    journal_file.repair(journal.fd, content)
    undone: list[UndoStep] = []
    failed: list[UndoStep] = []
    left = pending(content.records)
    for attempt in (1, 2):
        failed = []
        again: list[Record] = []
        for record in left:
            try:
                outcome = undo_record(record)
            except HostError as error:
                failed.append(UndoStep(record["kind"], record["what"], str(error)))
                again.append(record)
                continue
            undone.append(UndoStep(record["kind"], record["what"], outcome))
            # A full disk must not stop the undo: a step without its mark is merely repeated.
            with contextlib.suppress(HostError):
                journal.append({"t": "undone", "n": record["n"]})
        left = again
        if left and attempt == 1:
            time.sleep(SECOND_TRY_AFTER_S)  # the kernel frees what the dead held a little later
    return UndoReport(journal.run_id, tuple(undone), tuple(failed), content.damage)


def _first(record: Record) -> bool:
    try:
        return kind_of(record["kind"]).first
    except HostError:
        return False
