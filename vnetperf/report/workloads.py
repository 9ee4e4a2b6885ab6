"""Ranks of MPI in pods: each benchmark beside the hosts' own network, and its scaling as curves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from vnetperf.model import units
from vnetperf.model.result import RunResults
from vnetperf.report.plot import Plot
from vnetperf.report.table import NONE, Column, Table
from vnetperf.report.transfers import (
    GIGAFLOPS,
    PLACES,
    TIMES,
    PodTransfer,
    mpi_scale,
    networks_plot,
    notes_on_rounds,
    pod_transfers,
    ratio_text,
)

MPI_TITLE = "MPI"
#: What a curve may be over: field of the spec, and the name of its axis.
_AXES: tuple[tuple[Literal["pods", "ranks", "message_size"], str], ...] = (
    ("pods", "pods"),
    ("ranks", "ranks in each pod"),
    ("message_size", "message size, octets (equal steps)"),
)
_WORDS = {"pods": "{} pods", "ranks": "ranks in each pod: {}", "message_size": "{} octets"}
_NOTES = (
    "Time: of MPI_LATENCY a message one way (half a round trip), of a collective the mean over all "
    "ranks of each rank's mean; least and most are the extremes of what is averaged. Rates: of "
    "windows of 64 messages. Of HPL the rate, its times are those of ping-pong between ranks.",
    "Of the host's: value over that of pods with their hosts' network, in the same place; above 1 "
    "is slower where it is a time, and faster where it is a rate.",
    "Contents checked: what arrived was compared with what was sent; a difference is an error.",
)


def _place(row: PodTransfer) -> str:
    """Where the pods with ranks are; a single one is on a host."""
    return PLACES["same"] if row.transfer.spec.pods == 1 else PLACES.get(row.place, row.place)


def _time_text(row: PodTransfer, *names: str) -> str | None:
    times = row.transfer.operation_us
    if any(name not in times for name in names):
        return None
    return " to ".join(units.nanoseconds(times[name] * 1e3) for name in names)


_MPI: tuple[Column[PodTransfer], ...] = (
    Column("pods on", _place, words=True),
    Column("benchmark", lambda row: row.transfer.spec.kind, words=True),
    Column("octets", lambda row: str(row.transfer.spec.message_size or "") or None),
    Column("pods", lambda row: str(row.transfer.spec.pods)),
    Column("ranks in each", lambda row: str(row.transfer.spec.ranks)),
    Column("network", lambda row: row.network, words=True),
    Column("time, or rate", lambda row: row.text),
    Column("of the host's", ratio_text),
    Column("least to most", lambda row: _time_text(row, "min", "max")),
    Column("99 %", lambda row: _time_text(row, "99")),
    Column("contents checked", lambda row: "yes" if row.transfer.contents_checked else None),
    Column("rounds", lambda row: str(len(row.rounds))),
)


def mpi_table(results: RunResults) -> Table:
    """Every benchmark of MPI, beside that of the hosts' own network."""
    rows = pod_transfers(results, mpi=True)
    versions = dict.fromkeys(row.transfer.version for row in rows)
    cpus = {row.transfer.client.cpus for row in rows}
    notes = (
        *_NOTES,
        f"Measured by {'; '.join(versions)}, transports self and tcp, within pods as well; "
        f"ranks on processors {', '.join(sorted(cpus))}.",
        *notes_on_rounds((f"{row.network}, {row.transfer.spec.kind}", row.rounds) for row in rows),
    )
    return Table.from_items(MPI_TITLE, _MPI, rows, notes)


def mpi_sentences(results: RunResults) -> list[str]:
    """The same for a terminal."""
    sentences = []
    for place, kind, octets, pods, ranks, network, value, ratio, *_ in mpi_table(results).texts:
        size = "" if octets == NONE else f", {octets} octets"
        ratio_words = f", {ratio} of the host's" if ratio not in (NONE, "baseline") else ""
        mark = " (baseline)" if ratio == "baseline" else ""
        sentences.append(
            f"{kind}{size}, {pods} x {ranks} ranks in pods on {place}: "
            f"{network} {value}{mark}{ratio_words}"
        )
    return sentences


def mpi_answers(results: RunResults) -> dict[str, str]:
    """Network -> what benchmarks of ranks on it took, each from the least to the greatest value."""
    kinds_by_network: dict[str, dict[str, list[PodTransfer]]] = {}
    for row in pod_transfers(results, mpi=True):
        if row.value is not None:
            kinds = kinds_by_network.setdefault(row.network, {})
            kinds.setdefault(row.transfer.spec.kind, []).append(row)
    return {
        network: "; ".join(f"{kind} {_ends_text(rows)}" for kind, rows in kinds.items())
        for network, kinds in kinds_by_network.items()
    }


def _ends_text(rows: list[PodTransfer]) -> str:
    """The least value and the greatest of one benchmark, with the size of their messages."""
    texts = []
    for choose in (min, max):
        row = choose(rows, key=lambda row: row.value or 0.0)
        size = row.transfer.spec.message_size
        texts.append(f"{row.text} ({size} octets)" if size else str(row.text))
    return " to ".join(dict.fromkeys(texts))


def mpi_plots(results: RunResults) -> Iterator[Plot]:
    """Curves over pods, over ranks in each, and over message sizes, a line for each network."""
    rows = [row for row in pod_transfers(results, mpi=True) if row.value is not None]
    for field, axis in _AXES:
        others = [name for name, _ in _AXES if name != field]
        curves: dict[tuple[object, ...], dict[tuple[str, int], PodTransfer]] = {}
        for row in rows:
            spec = row.transfer.spec
            key = (row.place, spec.kind, *(getattr(spec, name) for name in others))
            # Another comparison may have measured the same.
            point = (row.network, getattr(spec, field) or 0)
            curves.setdefault(key, {}).setdefault(point, row)
        for (place, kind, *rest), curve in curves.items():
            if len({point for _, point in curve}) < 2:
                continue
            fixed = dict(zip(others, rest, strict=True))
            parts = [_WORDS[name].format(value) for name, value in fixed.items() if value]
            caption = ", ".join((f"{kind}", *parts, f"pods on {PLACES.get(str(place), place)}"))
            scale = mpi_scale(next(iter(curve.values())).transfer)
            quantity = "time" if scale is TIMES else "Gflop/s" if scale is GIGAFLOPS else "Gbit/s"
            chosen = sorted(curve.values(), key=lambda row: getattr(row.transfer.spec, field) or 0)
            yield networks_plot(chosen, field, (caption, quantity, axis), scale, rows)
