"""What processors and memory of VNFs do, beside the host's on the same processors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from vnetperf.analysis.run_metrics import ran_apart
from vnetperf.model import units
from vnetperf.model.result import RunResults
from vnetperf.model.scenario import ENDPOINTS_VARIANT
from vnetperf.model.transfer import Figures
from vnetperf.report.plot import Axis, Plot, Series, series_css
from vnetperf.report.table import NONE, Column, Table
from vnetperf.report.text import text_or_none
from vnetperf.report.transfers import (
    HeldTransfer,
    but_for,
    choose_scale,
    compared_values,
    interval_text,
    notes_on_rounds,
    rounds_point,
)

GUESTS_TITLE = "Speed of guests"
_NOTES = (
    "Work of all threads of all VNFs at once: of GUEST_CPU the tool's events (each the primes up "
    "to 10000), of GUEST_READ and GUEST_WRITE blocks of 64 MiB from end to end, of "
    "GUEST_RANDOM_READ words in random places of 16 MiB.",
    "Of the host's: value over that of the same programs on the host afterwards, as many at once, "
    "on the processors of the VNFs; below 1 is slower. With --repeat its 95 % interval.",
    "Stolen: the largest share of its processors' time that a VNF itself counts as taken from it.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row(HeldTransfer):
    """One kind of work in a scenario's VNFs; what it is held against is the host's."""

    scenario: str
    vnfs: str

    @property
    def count(self) -> int:
        return len(self.transfer.flows)


def _rows(results: RunResults) -> list[_Row]:
    facts = {scenario.scenario: scenario.facts for scenario in results.scenarios}
    rows = []
    for scenario_transfers in results.transfers:
        for transfer in scenario_transfers.transfers:
            if not transfer.spec.is_guest:
                continue
            rounds = scenario_transfers.list_rounds(transfer)
            rows.append(
                _Row(
                    scenario=scenario_transfers.scenario.removesuffix(f",{ENDPOINTS_VARIANT}"),
                    vnfs=_kind(facts.get(scenario_transfers.scenario, {})),
                    rounds=rounds,
                    baseline=tuple(r.on_host for r in rounds if r.on_host is not None),
                )
            )
    return rows


def _kind(facts: Mapping[str, Any]) -> str:
    """What VNFs are, and whether their processors are real ones."""
    vnfs = [vnf for vnf in facts.get("vnfs", ()) if isinstance(vnf, dict)]
    kinds = {
        "VM, emulated" if str(vnf.get("acceleration", "")).startswith("none") else launcher
        for vnf in vnfs
        if (launcher := str(vnf.get("launcher", "")))
    }
    return ", ".join(sorted(kinds))


def _misses_text(figures: Figures) -> str | None:
    """Misses by the work that was done: a quicker VNF has more of them a second."""
    misses, events, octets = (
        figures.tlb_misses_per_second,
        figures.events_per_second,
        figures.octets_per_second,
    )
    if misses is None or not (events or octets):
        return None
    if events:
        return f"{units.short_fps(misses / events)} an event"
    return f"{units.short_fps(misses / (octets or 1) * (1 << 20))} a MiB"


def _host_text(row: _Row) -> str | None:
    values, scale = compared_values(row.baseline), choose_scale(row.transfer)
    return scale.text(fmean(values) * scale.factor) if values else None


def _host(row: _Row) -> Figures:
    return row.transfer.on_host or Figures()


_GUESTS: tuple[Column[_Row], ...] = (
    Column("scenario", lambda row: row.scenario, words=True),
    Column("work", lambda row: row.transfer.spec.kind, words=True),
    Column("VNFs", lambda row: " x ".join(filter(None, (str(row.count), row.vnfs))), words=True),
    Column("threads in each", lambda row: str(row.transfer.spec.instances)),
    Column("in VNFs", lambda row: row.text, bold=True),
    Column("on the host", _host_text),
    Column("of the host's", lambda row: interval_text(row.ratio)),
    Column("TLB misses in VNFs", lambda row: _misses_text(row.transfer)),
    Column("TLB misses on the host", lambda row: _misses_text(_host(row))),
    Column("stolen", lambda row: text_or_none(row.transfer.steal, units.percent)),
    Column("processors", lambda row: row.transfer.client.cpus, words=True),
    Column("rounds", lambda row: str(len(row.rounds))),
)


def guests_table(results: RunResults) -> Table:
    """Every kind of work, beside the host's."""
    rows = _rows(results)
    notes = [*_NOTES]
    notes += _apart_notes(rows)
    notes += notes_on_rounds((f"{r.scenario}, {r.transfer.spec.kind}", r.rounds) for r in rows)
    notes += [f"Measured by {tool}." for tool in dict.fromkeys(r.transfer.version for r in rows)]
    notes += [
        f"TLB misses (of loads): {reason}."
        for reason in dict.fromkeys(row.transfer.events_why for row in rows)
        if reason
    ]
    if any("emulated" in row.vnfs for row in rows):
        notes.append(
            "Emulated: another program executes the guest's instructions one by one, so that the "
            "ratio is that of the emulator and says nothing of virtual machines."
        )
    return Table.from_items(GUESTS_TITLE, _GUESTS, rows, notes)


def _apart_notes(rows: Sequence[_Row]) -> list[str]:
    """Which VNFs did not run at once."""
    return [
        f"{row.scenario}, {row.transfer.spec.kind}: all of them ran at once for "
        f"{units.percent(row.transfer.at_once)} of their runs, and each counts its own: together "
        "they reach less than this sum. Longer runs overlap more."
        for row in rows
        if row.transfer.at_once is not None and ran_apart(row.transfer)
    ]


def guest_sentences(results: RunResults) -> list[str]:
    """The same for a terminal, with why something was not counted."""
    table = guests_table(results)
    sentences = []
    for scenario, work, vnfs, threads, value, host, ratio, *rest in table.texts:
        comparison = f", host {host}: {ratio} of it" if ratio != NONE else ""
        steal = f", {rest[2]} stolen" if rest[2] not in (NONE, "0 %") else ""
        sentences.append(
            f"{scenario}: {work}, {vnfs}, threads in each: {threads}; {value}{comparison}{steal}"
        )
    rows = _rows(results)
    reasons = {row.transfer.events_why for row in rows}
    return (
        sentences
        + _apart_notes(rows)
        + [f"TLB misses: {reason}" for reason in sorted(reasons) if reason]
    )


def guest_plots(results: RunResults) -> Iterator[Plot]:
    """Curves over threads, and over VNFs: in VNFs and on the host."""
    rows = [row for row in _rows(results) if row.value is not None]
    axes: tuple[tuple[Literal["instances", "vnfs"], str], ...] = (
        ("instances", "threads in each VNF"),
        ("vnfs", "VNFs at once"),
    )
    for field, axis in axes:
        curves: dict[tuple[str, str, str, int], dict[int, _Row]] = {}
        for row in rows:
            threads = row.transfer.spec.instances
            count, other = (threads, row.count) if field == "instances" else (row.count, threads)
            key = (but_for(field, row.scenario), row.transfer.spec.kind, row.vnfs, other)
            curves.setdefault(key, {}).setdefault(count, row)
        for (scenario, kind, vnfs, other), curve in curves.items():
            if len(curve) < 2:
                continue
            fixed = f"{other} VNF(s)" if field == "instances" else f"{other} thread(s) in each"
            yield _plot(", ".join(filter(None, (scenario, kind, vnfs, fixed))), axis, curve)


def _plot(caption: str, axis: str, rows: Mapping[int, _Row]) -> Plot:
    places = sorted(rows)
    scale = choose_scale(rows[places[0]].transfer)
    series = []
    for index, name in enumerate(("in VNFs", "on the host")):
        points = []
        for place, count in enumerate(places):
            sides = rows[count].rounds if index == 0 else rows[count].baseline
            if values := compared_values(sides):
                points.append(rounds_point(values, scale, place, f"{name}, {count}"))
        series.append(Series(name, points, css=series_css(index), line=True, shift=index * 5 - 2))
    return Plot(
        title=f"{caption}: by {axis}",
        caption=caption,
        x=Axis(name=axis, names=[str(count) for count in places]),
        y=Axis(name=scale.unit, tick=scale.tick, value=scale.text, zero=True),
        series=series,
        css="by-size",
        key=True,
    )
