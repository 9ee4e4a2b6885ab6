"""What workloads measure: each beside the hosts' own network, and as curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vnetperf.model.result import RunResults
from vnetperf.model.scenario import ENDPOINTS_VARIANT
from vnetperf.plugin.workload import (
    MeasuredTransfer,
    WorkloadAxis,
    WorkloadColumn,
    WorkloadReport,
    kind_name,
    list_workload_reports,
)
from vnetperf.report.plot import Axis, Plot, Series, series_css
from vnetperf.report.table import NONE, Column, Table
from vnetperf.report.transfers import (
    PLACES,
    PodTransfer,
    but_for,
    interval_text,
    networks_plot,
    notes_on_rounds,
    pod_transfers,
    ratio_text,
    rounds_point,
)


def list_workloads(results: RunResults) -> tuple[WorkloadReport, ...]:
    """All workloads: those of the run too that are not installed here."""
    return list_workload_reports(
        transfer.spec.kind for scenario in results.transfers for transfer in scenario.transfers
    )


def _list_vnf_transfers(results: RunResults, workload: WorkloadReport) -> list[MeasuredTransfer]:
    facts = {scenario.scenario: scenario.facts for scenario in results.scenarios}
    rows = []
    for scenario_transfers in results.transfers:
        for transfer in scenario_transfers.transfers:
            if kind_name(transfer.spec.kind) == workload.name:
                rounds = scenario_transfers.list_rounds(transfer)
                rows.append(
                    MeasuredTransfer(
                        scenario=scenario_transfers.scenario.removesuffix(f",{ENDPOINTS_VARIANT}"),
                        vnfs=_describe_vnfs(facts.get(scenario_transfers.scenario, {})),
                        rounds=rounds,
                        baseline=tuple(r.on_host for r in rounds if r.on_host is not None),
                    )
                )
    return rows


def _describe_vnfs(facts: Mapping[str, Any]) -> str:
    """What VNFs are, and whether their processors are real ones."""
    vnfs = [vnf for vnf in facts.get("vnfs", ()) if isinstance(vnf, dict)]
    kinds = {
        "VM, emulated" if str(vnf.get("acceleration", "")).startswith("none") else launcher
        for vnf in vnfs
        if (launcher := str(vnf.get("launcher", "")))
    }
    return ", ".join(sorted(kinds))


def _place(row: PodTransfer) -> str:
    """Where the pods with programs are; a single one is on a host."""
    return PLACES["same"] if row.transfer.spec.pods == 1 else PLACES.get(row.place, row.place)


def _column(column: WorkloadColumn) -> Column[PodTransfer]:
    return Column(column.name, column.text, words=column.words)


def _list_rows(results: RunResults, workload: WorkloadReport) -> Sequence[MeasuredTransfer]:
    if workload.baseline == "network":
        return pod_transfers(results, workload.name)
    return _list_vnf_transfers(results, workload)


def workload_table(results: RunResults, workload: WorkloadReport) -> Table:
    """Every transfer of a workload, beside its baseline."""
    rows = _list_rows(results, workload)
    settings, details = ([*map(_column, part)] for part in (workload.settings, workload.details))
    rounds: Column[Any] = Column("rounds", lambda row: str(len(row.rounds)))
    columns: list[Column[Any]]
    if workload.baseline == "network":
        columns = [
            Column("pods on", _place, words=True),
            *settings,
            Column("network", lambda row: row.network, words=True),
            Column(workload.value_title, lambda row: row.text),
            Column("of the host's", ratio_text),
            *details,
            rounds,
        ]
    else:
        columns = [
            Column("scenario", lambda row: row.scenario, words=True),
            *settings,
            Column(workload.value_title, lambda row: row.text, bold=True),
            Column("on the host", lambda row: row.baseline_text),
            Column("of the host's", lambda row: interval_text(row.ratio)),
            *details,
            rounds,
        ]
    notes = (
        *workload.notes,
        *workload.remarks(rows),
        *notes_on_rounds(
            (f"{_place_name(row)}, {row.transfer.spec.kind}", row.rounds) for row in rows
        ),
        *workload.describe_means(rows),
    )
    return Table.from_items(workload.title, columns, rows, notes)


def _place_name(row: MeasuredTransfer) -> str:
    return row.network if isinstance(row, PodTransfer) else row.scenario


def workload_sentences(results: RunResults, workload: WorkloadReport) -> list[str]:
    """The same for a terminal, with what limits it."""
    rows = _list_rows(results, workload)
    sentences = [_row_sentence(row, workload) for row in rows]
    if workload.baseline == "host":
        sentences += workload.remarks(rows)
    return sentences + workload.missing_numbers(rows)


def _row_sentence(row: MeasuredTransfer, workload: WorkloadReport) -> str:
    summary, value = workload.summarize(row), row.text or NONE
    if isinstance(row, PodTransfer):
        ratio = ratio_text(row)
        words = " (baseline)" if row.is_baseline else f", {ratio} of the host's" if ratio else ""
        return f"{summary} in pods on {_place(row)}: {row.network} {value}{words}"
    ratio = interval_text(row.ratio)
    words = f", host {row.baseline_text}: {ratio} of it" if ratio else ""
    return f"{row.scenario}: {summary}; {value}{words}{workload.add_words(row)}"


def workload_answers(results: RunResults, workload: WorkloadReport) -> dict[str, str]:
    """Network -> what a workload measured on it, each kind from the least to the greatest value."""
    if workload.baseline != "network":
        return {}
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


def workload_plots(results: RunResults, workload: WorkloadReport) -> Iterator[Plot]:
    """Curves over each axis of a workload, a line for each network, or for VNFs and the host."""
    if workload.baseline == "network":
        yield from _network_plots(results, workload)
    else:
        yield from _vnf_plots(results, workload)


def _network_plots(results: RunResults, workload: WorkloadReport) -> Iterator[Plot]:
    rows = [row for row in pod_transfers(results, workload.name) if row.value is not None]
    for axis in workload.axes:
        others = [other for other in workload.axes if other != axis]
        curves: dict[tuple[object, ...], dict[tuple[str, int], PodTransfer]] = {}
        for row in rows:
            kind = row.transfer.spec.kind
            key = (row.place, kind, *(other.read(row) for other in others))
            # Another comparison may have measured the same.
            point = (row.network, axis.read(row))
            curves.setdefault(key, {}).setdefault(point, row)
        for (place, of_kind, *rest), curve in curves.items():
            if len({point for _, point in curve}) < 2:
                continue
            fixed = zip(others, rest, strict=True)
            parts = [other.words.format(value) for other, value in fixed if value]
            caption = ", ".join((f"{of_kind}", *parts, f"pods on {PLACES.get(str(place), place)}"))
            scale = workload.scale(next(iter(curve.values())).transfer)
            chosen = sorted(curve.values(), key=axis.read)
            names = (caption, scale.quantity, axis.name)
            yield networks_plot(chosen, axis.field, names, scale, rows)


def _vnf_plots(results: RunResults, workload: WorkloadReport) -> Iterator[Plot]:
    rows = [row for row in _list_vnf_transfers(results, workload) if row.value is not None]
    for axis in workload.axes:
        others = [other for other in workload.axes if other != axis]
        curves: dict[tuple[str, ...], dict[int, MeasuredTransfer]] = {}
        for row in rows:
            fixed = (other.words.format(other.read(row)) for other in others)
            key = (but_for(axis.field, row.scenario), row.transfer.spec.kind, row.vnfs, *fixed)
            curves.setdefault(key, {}).setdefault(axis.read(row), row)
        for key, curve in curves.items():
            if len(curve) > 1:
                yield _vnf_plot(", ".join(filter(None, key)), axis, curve)


def _vnf_plot(caption: str, axis: WorkloadAxis, rows: Mapping[int, MeasuredTransfer]) -> Plot:
    places = sorted(rows)
    scale = rows[places[0]].scale
    series = []
    for index, name in enumerate(("in VNFs", "on the host")):
        points = []
        for place, count in enumerate(places):
            row = rows[count]
            if values := row.baseline_values if index else row.values:
                points.append(rounds_point(values, scale, place, f"{name}, {count}"))
        series.append(Series(name, points, css=series_css(index), line=True, shift=index * 5 - 2))
    return Plot(
        title=f"{caption}: by {axis.name}",
        caption=caption,
        x=Axis(name=axis.name, names=[str(count) for count in places]),
        y=Axis(name=scale.unit, tick=scale.tick, value=scale.text, zero=True),
        series=series,
        css="by-size",
        key=True,
    )
