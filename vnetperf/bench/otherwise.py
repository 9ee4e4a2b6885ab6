"""Searches of another version of this tool, which asked for other trials than this one would."""

from __future__ import annotations

from collections.abc import Sequence

from vnetperf.bench.logged import LoggedTest
from vnetperf.results.records import SEALED_SINCE, RunRecord, SearchRecord

#: Algorithms whose bounds are no classification of single loads by their trials.
_OF_THEIR_OWN = ("tst009",)


def is_as_written(logged: LoggedTest, run: RunRecord) -> bool:
    """Whether trials that a search does not ask for are nevertheless those that were run.

    Without checksums nobody knows whether the search has changed since, or the log.

    Args:
        logged: The search.
        run: What opened its log.

    Returns:
        True where its bounds can be taken of its trials.
    """
    begin = logged.begin
    sealed = run.version >= SEALED_SINCE
    return sealed and isinstance(begin, SearchRecord) and begin.algorithm not in _OF_THEIR_OWN


def warnings_about(otherwise: Sequence[LoggedTest], run: RunRecord) -> list[str]:
    """What a reader must know of them.

    Args:
        otherwise: Searches whose trials this version's would not have asked for.
        run: What opened the log.

    Returns:
        A sentence, or none.
    """
    if not otherwise:
        return []
    names = ", ".join(dict.fromkeys(logged.begin.scenario for logged in otherwise))
    return [
        f"{names}: {run.identity.tool} ({run.identity.git}) searched by other trials than this "
        "version would: bounds are those that the trials show by themselves"
    ]
