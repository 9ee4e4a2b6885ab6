"""What workloads measure: each beside the hosts' own network, and as curves."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.result import RunResults
from vnetperf.plugin.workload import Workload, WorkloadColumn
from vnetperf.report.plot import Plot
from vnetperf.report.table import NONE, Column, Table
from vnetperf.report.transfers import (
    PLACES,
    PodTransfer,
    networks_plot,
    notes_on_rounds,
    pod_transfers,
    ratio_text,
)


def _place(row: PodTransfer) -> str:
    """Where the pods with programs are; a single one is on a host."""
    return PLACES["same"] if row.transfer.spec.pods == 1 else PLACES.get(row.place, row.place)


def _column(column: WorkloadColumn) -> Column[PodTransfer]:
    return Column(column.name, column.text, words=column.words)


def workload_table(results: RunResults, workload: Workload) -> Table:
    """Every transfer of a workload, beside that of the hosts' own network."""
    rows = pod_transfers(results, workload.name)
    columns = (
        Column("pods on", _place, words=True),
        *map(_column, workload.settings),
        Column("network", lambda row: row.network, words=True),
        Column(workload.value_title, lambda row: row.text),
        Column("of the host's", ratio_text),
        *map(_column, workload.details),
        Column("rounds", lambda row: str(len(row.rounds))),
    )
    notes = (
        *workload.notes,
        workload.measured_by(rows),
        *notes_on_rounds((f"{row.network}, {row.transfer.spec.kind}", row.rounds) for row in rows),
    )
    return Table.from_items(workload.title, columns, rows, notes)


def workload_sentences(results: RunResults, workload: Workload) -> list[str]:
    """The same for a terminal."""
    sentences = []
    for row in pod_transfers(results, workload.name):
        ratio = ratio_text(row)
        words = " (baseline)" if row.is_baseline else f", {ratio} of the host's" if ratio else ""
        sentences.append(
            f"{workload.summarize(row)} in pods on {_place(row)}: "
            f"{row.network} {row.text or NONE}{words}"
        )
    return sentences


def workload_answers(results: RunResults, workload: Workload) -> dict[str, str]:
    """Network -> what a workload measured on it, each kind from the least to the greatest value."""
    kinds_by_network: dict[str, dict[str, list[PodTransfer]]] = {}
    for row in pod_transfers(results, workload.name):
        if row.value is not None:
            kinds = kinds_by_network.setdefault(row.network, {})
            kinds.setdefault(row.transfer.spec.kind, []).append(row)
    return {
        network: "; ".join(f"{kind} {_ends_text(rows)}" for kind, rows in kinds.items())
        for network, kinds in kinds_by_network.items()
    }


def _ends_text(rows: list[PodTransfer]) -> str:
    """The least value and the greatest of one kind, with the size of their messages."""
    texts = []
    for choose in (min, max):
        row = choose(rows, key=lambda row: row.value or 0.0)
        size = row.transfer.spec.message_size
        texts.append(f"{row.text} ({size} octets)" if size else str(row.text))
    return " to ".join(dict.fromkeys(texts))


def workload_plots(results: RunResults, workload: Workload) -> Iterator[Plot]:
    """Curves over each axis of a workload, a line for each network."""
    rows = [row for row in pod_transfers(results, workload.name) if row.value is not None]
    for axis in workload.axes:
        others = [other for other in workload.axes if other != axis]
        curves: dict[tuple[object, ...], dict[tuple[str, int], PodTransfer]] = {}
        for row in rows:
            spec = row.transfer.spec
            key = (row.place, spec.kind, *(getattr(spec, other.field) for other in others))
            # Another comparison may have measured the same.
            point = (row.network, getattr(spec, axis.field) or 0)
            curves.setdefault(key, {}).setdefault(point, row)
        for (place, kind, *rest), curve in curves.items():
            if len({point for _, point in curve}) < 2:
                continue
            fixed = zip(others, rest, strict=True)
            parts = [other.words.format(value) for other, value in fixed if value]
            caption = ", ".join((f"{kind}", *parts, f"pods on {PLACES.get(str(place), place)}"))
            scale = workload.scale(next(iter(curve.values())).transfer)
            chosen = sorted(
                curve.values(), key=lambda row: getattr(row.transfer.spec, axis.field) or 0
            )
            names = (caption, scale.quantity, axis.name)
            yield networks_plot(chosen, axis.field, names, scale, rows)
