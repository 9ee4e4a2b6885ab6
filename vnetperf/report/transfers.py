"""Traffic of users: the attach phase of a mobile core, and transfers between sockets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from vnetperf.analysis.run_metrics import POD_TIMES, pod_metrics
from vnetperf.analysis.transport import (
    MOST_LOST,
    IpCapacity,
    TcpQuality,
    cpu_per_gigabit,
    ip_capacity,
    tcp_quality,
)
from vnetperf.model import units
from vnetperf.model.result import RunResults
from vnetperf.model.scenario import ENDPOINTS_VARIANT
from vnetperf.model.transfer import (
    OCTETS_ADDED,
    EndFacts,
    OneWay,
    Transfer,
    TransferSpec,
    Way,
)
from vnetperf.model.units import GIGABITS, TIMES, Scale
from vnetperf.plugin.workload import MeasuredTransfer, kind_name
from vnetperf.report.plot import Axis, Note, Plot, Point, Series, series_css
from vnetperf.report.table import NONE, NOT_RECORDED, Column, Table, group_sentences
from vnetperf.report.text import mean_with_n, text_or_none
from vnetperf.statistics import spread

ATTACH_TITLE = "Attach phase"
#: What a row takes from the facts of a VNF; a plugin's own facts may be called alike.
_ATTACH_KEYS = frozenset(
    (
        "attached",
        "sessions asked for",
        "success rate",
        "ramp, sessions/s",
        "reached, sessions/s",
        "whole, s",
    )
)
_ATTACH_NOTES = (
    "Sessions that were attached before the first trial; their packets are the flows.",
    "Median and 99 % of the time from a session's first request to its answer.",
)


def _attach_phases(results: RunResults) -> list[tuple[str, dict[str, Any]]]:
    """Each mobile core whose attach phase was timed: scenario, and what its VNF reports."""
    return [
        (scenario.scenario, vnf["attach"])
        for scenario in results.scenarios
        for vnf in scenario.facts.get("vnfs", ())
        if isinstance(vnf, dict)
        and isinstance(vnf.get("attach"), dict)
        and vnf["attach"].keys() >= _ATTACH_KEYS
    ]


def _milliseconds(value: float) -> str:
    return units.nanoseconds(value * 1e6)


def _attach_time(phase: dict[str, Any], name: str) -> str | None:
    return text_or_none(phase.get("time of an attach, ms", {}).get(name), _milliseconds)


def _ramp(phase: dict[str, Any]) -> str:
    ramp = phase["ramp, sessions/s"]
    return ramp if isinstance(ramp, str) else f"{units.significant(ramp)}/s"


_ATTACH: tuple[Column[tuple[str, dict[str, Any]]], ...] = (
    Column("scenario", lambda row: row[0], words=True),
    Column("attached", lambda row: f"{row[1]['attached']} of {row[1]['sessions asked for']}"),
    Column("success", lambda row: units.percent(row[1]["success rate"])),
    Column("ramp", lambda row: _ramp(row[1])),
    Column("reached", lambda row: f"{units.significant(row[1]['reached, sessions/s'])}/s"),
    Column("whole", lambda row: units.seconds(row[1]["whole, s"])),
    Column("median", lambda row: _attach_time(row[1], "median")),
    Column("99 %", lambda row: _attach_time(row[1], "99 %")),
)


def attach_table(results: RunResults) -> Table:
    """The attach phase of every mobile core."""
    return Table.from_items(ATTACH_TITLE, _ATTACH, _attach_phases(results), _ATTACH_NOTES)


def attach_sentences(results: RunResults) -> list[str]:
    """The same for a terminal."""
    return [
        f"{scenario}: {attached} sessions attached in {total} ({reached}), median {median}"
        for scenario, attached, _, _, reached, total, median, _ in attach_table(results).texts
    ]


TRANSFERS_TITLE = "Traffic between sockets"
_ARROWS: dict[Way, str] = {
    "forth": "0 \N{RIGHTWARDS ARROW} 1",
    "back": "1 \N{RIGHTWARDS ARROW} 0",
    "both": "both ways",
}
_OF_USERS: dict[Way, str] = {"forth": "uplink", "back": "downlink", "both": "both ways"}


def transfer_text(transfer: Transfer) -> str:
    """What a transfer was, in words."""
    return spec_text(transfer.spec, _ARROWS if transfer.attach_s is None else _OF_USERS)


def spec_text(spec: TransferSpec, ways: Mapping[Way, str] = _ARROWS) -> str:
    """What a transfer is to be, in words."""
    parts = [spec.kind if kind_name(spec.kind) else f"{spec.kind} {ways[spec.way]}"]
    if spec.message_size is not None:
        parts.append(f"{spec.message_size} octets")
    if spec.kind.endswith("_LOAD"):
        parts.append(f"{spec.message_rate} messages/s")
    if spec.instances > 1:
        parts.append(f"{spec.instances} {'threads' if spec.is_alone else 'instances'}")
    return ", ".join([*parts, f"{spec.duration_s} s"])


def _megabits(rate: float) -> str:
    return units.significant(rate / 1e6)


def _time_text(transfer: Transfer, name: str) -> str | None:
    return text_or_none(
        transfer.round_trip_us.get(name), lambda time: units.nanoseconds(time * 1e3)
    )


def _loss_text(transfer: Transfer) -> str | None:
    if transfer.loss_ratio is not None:
        return f"{units.percent(transfer.loss_ratio)} lost"
    if transfer.retransmits is not None:
        return f"{transfer.retransmits} segments again"
    return None


def _cpu_text(transfer: Transfer) -> str | None:
    """Time of the tool's processes, in themselves and in the kernel, while the clients ran."""
    spent = [_cpu_seconds(end) for end in (transfer.client, transfer.server)]
    if not any(spent):
        return None
    times = " + ".join(seconds or NOT_RECORDED for seconds in spent)
    return f"{times} s of {transfer.elapsed_s:.2f} s"


def _cpu_seconds(end: EndFacts) -> str:
    return "" if end.user_s is None or end.system_s is None else f"{end.user_s + end.system_s:.2f}"


@dataclass(frozen=True, slots=True)
class _Row:
    """A transfer with those beside it in its scenario."""

    scenario: str
    transfer: Transfer  # In the last round
    others: tuple[Transfer, ...]
    rounds: tuple[Transfer, ...]  # The transfer in each round

    @property
    def is_stream(self) -> bool:
        """Whether its number is what arrived, and not round trips."""
        return self.transfer.spec.is_stream

    @property
    def rates(self) -> list[float]:
        """Its number in each round that has it: bit/s, or round trips/s."""
        measured = (
            transfer.bits_per_second if self.is_stream else transfer.transactions_per_second
            for transfer in self.rounds
        )
        return [rate for rate in measured if rate is not None]

    @property
    def over(self) -> str | None:
        """Its number over all rounds; None of a single one."""
        if len(self.rates) < 2:
            return None
        return mean_with_n(spread(self.rates), "bit/s" if self.is_stream else "1/s")

    @property
    def mean(self) -> Transfer:
        """The transfer with the mean of all rounds as its number."""
        mean = fmean(self.rates) if self.rates else None
        field = "bits_per_second" if self.is_stream else "transactions_per_second"
        return self.transfer.model_copy(update={field: mean})

    @property
    def name(self) -> str:
        return f"{self.scenario}, {transfer_text(self.transfer)}"

    @property
    def tcp(self) -> TcpQuality:
        """RFC 6349; nothing of a transfer that is no stream of TCP."""
        if self.transfer.spec.kind != "TCP_STREAM":
            return TcpQuality()
        return tcp_quality(self.transfer, self.others)

    @property
    def capacities(self) -> dict[OneWay, IpCapacity]:
        """RFC 9097, of a stream of UDP."""
        spec = self.transfer.spec
        ways = spec.ways if spec.kind == "UDP_STREAM" else ()
        return {way: ip_capacity(self.transfer, way) for way in ways}


def _rows(results: RunResults) -> list[_Row]:
    """Transfers between sockets; workloads have parts of their own."""
    return [
        _Row(scenario.scenario, transfer, others, tuple(t for t, _ in rounds))
        for scenario in results.transfers
        for rounds in scenario.rounds
        for transfer, others in rounds[-1:]
        if not kind_name(transfer.spec.kind)
    ]


def tcp_streams(results: RunResults) -> list[tuple[str, TcpQuality]]:
    """Streams of TCP by name, with what is known of their quality."""
    rows = (row for row in _rows(results) if row.transfer.spec.kind == "TCP_STREAM")
    return [(row.name, row.tcp) for row in rows]


def transfers_by_scenario(results: RunResults) -> list[tuple[str, Transfer]]:
    """All transfers, each with its scenario's name as readers know it, and the mean of rounds."""
    return [
        (row.scenario.removesuffix(f",{ENDPOINTS_VARIANT}"), row.mean) for row in _rows(results)
    ]


def _capacity_text(row: _Row) -> str | None:
    rates = [c.bits_per_second for c in row.capacities.values() if c.bits_per_second is not None]
    return ", ".join(map(_megabits, rates)) or None


_TRANSPORT: tuple[Column[_Row], ...] = (
    Column("scenario", lambda row: row.scenario, words=True),
    Column("transfer", lambda row: transfer_text(row.transfer), words=True),
    Column("TCP efficiency", lambda row: text_or_none(row.tcp.efficiency, units.percent)),
    Column("buffer delay", lambda row: text_or_none(row.tcp.buffer_delay, units.percent)),
    Column("transfer time ratio", lambda row: text_or_none(row.tcp.time_ratio, units.significant)),
    Column("IP-layer capacity, Mbit/s", _capacity_text),
)
TRANSPORT_TITLE = "TCP (RFC 6349) and IP-layer capacity (RFC 9097)"


def transport_table(results: RunResults) -> Table:
    """What transfers show of the network beneath them."""
    rows = [row for row in _rows(results) if row.transfer.spec.is_stream]
    rows_with_values = [
        row for row in rows if any(column.cell(row) is not None for column in _TRANSPORT[2:])
    ]
    baselines = dict.fromkeys(
        row.tcp.baseline_of for row in rows_with_values if row.tcp.buffer_delay is not None
    )
    reasons = [(row.name, f"no buffer delay: {row.tcp.why}.") for row in rows if row.tcp.why]
    reasons += [
        (row.name, f"no IP-layer capacity: {capacity.why}.")
        for row in rows
        for capacity in row.capacities.values()
        if capacity.why and capacity.intervals
    ]
    notes = [
        "TCP efficiency: payload over all that was transmitted, segments that were sent again "
        "counted at their largest size. Buffer delay: mean round-trip time while sending beyond "
        "the baseline" + (f" ({'; '.join(filter(None, baselines))})." if any(baselines) else "."),
        "Transfer time ratio: time over that of an ideal TCP at the IP-layer capacity the same "
        "way. IP-layer capacity: most bits of IP packets that arrived in a second in which "
        f"{units.percent(MOST_LOST)} or less was lost.",
        *group_sentences(reasons),
    ]
    return Table.from_items(TRANSPORT_TITLE, _TRANSPORT, rows_with_values, notes)


def but_for(field: str, scenario: str) -> str:
    """A scenario's name without what a comparison varied in it: what a curve's points share."""
    return ",".join(part for part in scenario.split(",") if not part.startswith(f"{field}="))


def transfer_plots(transfers: Sequence[tuple[str, Transfer]]) -> Iterator[Plot]:
    """What arrived, by message size and by number of clients, a line for each scenario."""
    for plot in _all_transfer_plots([(but_for("instances", name), t) for name, t in transfers]):
        if any(len(line.points) > 1 for line in plot.series):
            yield plot


def _all_transfer_plots(transfers: Sequence[tuple[str, Transfer]]) -> Iterator[Plot]:
    kinds = dict.fromkeys((t.spec.kind, t.spec.way) for _, t in transfers)
    for kind, way in kinds:
        same_kind = [(name, t) for name, t in transfers if (t.spec.kind, t.spec.way) == (kind, way)]
        kind_words = f"{kind} {way}" if way != "forth" else kind
        sizes = sorted({t.spec.message_size for _, t in same_kind if t.spec.message_size})
        clients = sorted({t.spec.instances for _, t in same_kind})
        for number in clients if len(sizes) > 1 else ():
            sized = [(name, t) for name, t in same_kind if t.spec.message_size]
            rows = [(name, t) for name, t in sized if t.spec.instances == number]
            caption = f"{kind_words}, {number} client{'s' * (number > 1)}"
            yield _transfers_by(caption, "message size, octets", sizes, rows, "message_size")
        for size in sizes if len(clients) > 1 else ():
            if size in (sizes[0], sizes[-1]):
                rows = [(name, t) for name, t in same_kind if t.spec.message_size == size]
                caption = f"{kind_words}, {size} octets"
                yield _transfers_by(caption, "parallel clients", clients, rows, "instances")


def _transfers_by(
    caption: str,
    axis: str,
    places: Sequence[int],
    rows: Sequence[tuple[str, Transfer]],
    field: Literal["message_size", "instances"],
) -> Plot:
    """One plot of transfers: Mbit/s of streams, round trips/s of requests and responses."""
    streams = all(transfer.spec.is_stream for _, transfer in rows)
    unit = "arrived, Mbit/s" if streams else "round trips/s"
    series = []
    for index, scenario in enumerate(dict.fromkeys(name for name, _ in rows)):
        points = []
        for transfer in (t for name, t in rows if name == scenario):
            rate = transfer.bits_per_second if streams else transfer.transactions_per_second
            if rate is not None:
                value, setting = rate / 1e6 if streams else rate, getattr(transfer.spec, field)
                hover = (
                    f"{scenario}, {setting}: {units.significant(value)} {unit.partition(', ')[2]}"
                )
                points.append(Point(places.index(setting), value, hover=hover))
        points.sort(key=lambda point: point.x)
        series.append(Series(scenario, points, css=series_css(index), line=True))
    return Plot(
        title=f"{caption}: {unit} by {axis}",
        caption=caption,
        x=Axis(name=axis, names=[str(place) for place in places]),
        y=Axis(name=unit, zero=True, value=units.significant),
        series=series,
        css="by-size",
        key=True,
    )


def tcp_plots(rows: Sequence[tuple[str, TcpQuality]]) -> Iterator[Plot]:
    """Efficiency and buffer delay of streams of TCP (RFC 6349), a row each."""
    kinds = (
        ("TCP efficiency", "share of what was transmitted that was payload", "efficiency"),
        ("Buffer delay", "mean round-trip time beyond the baseline", "buffer_delay"),
    )
    for caption, axis, field in kinds:
        values = [getattr(quality, field) for _, quality in rows]
        if not any(value is not None for value in values):
            continue
        points = [
            Point(value, place, hover=f"{rows[place][0]}: {units.percent(value)}")
            for place, value in enumerate(values)
            if value is not None
        ]
        yield Plot(
            title=f"{caption}, {axis}",
            caption=caption,
            x=Axis.in_unit(axis, "ratio", pad=6),
            y=Axis(name="", names=[name for name, _ in rows]),
            series=[Series(caption, points, mark="mean")],
            notes=[Note("not measured", n) for n, value in enumerate(values) if value is None],
            row=30,
            row_ends=["" if value is None else units.percent(value) for value in values],
        )


def _tools_cost_text(transfer: Transfer) -> str | None:
    return text_or_none(cpu_per_gigabit(transfer).tools_s, units.significant)


def _machine_cost_text(transfer: Transfer) -> str | None:
    cost = cpu_per_gigabit(transfer)
    if cost.machine_s is None or cost.interrupts_s is None:
        return None
    return f"{units.significant(cost.machine_s)} ({units.significant(cost.interrupts_s)})"


_MACHINE_COST = "machine's CPU, s/Gbit (in interrupts)"
_OVER: Column[_Row] = Column("over all deployments", lambda row: row.over, bold=True)
_TRANSFERS: tuple[Column[_Row], ...] = (
    Column("scenario", lambda row: row.scenario, words=True),
    Column("transfer", lambda row: transfer_text(row.transfer), words=True),
    Column("arrived, Mbit/s", lambda row: text_or_none(row.transfer.bits_per_second, _megabits)),
    Column(
        "round trips/s",
        lambda row: text_or_none(row.transfer.transactions_per_second, units.short_fps),
    ),
    Column("median", lambda row: _time_text(row.transfer, "50")),
    Column("99 %", lambda row: _time_text(row.transfer, "99")),
    Column("largest", lambda row: _time_text(row.transfer, "max")),
    Column("lost or sent again", lambda row: _loss_text(row.transfer)),
    Column("jitter", lambda row: text_or_none(row.transfer.jitter_ms, _milliseconds)),
    Column("CPU time, client + server", lambda row: _cpu_text(row.transfer)),
    Column("tools' CPU, s/Gbit", lambda row: _tools_cost_text(row.transfer)),
    Column(_MACHINE_COST, lambda row: _machine_cost_text(row.transfer)),
)


def notes_on_rounds(rows: Iterable[tuple[str, Sequence[Transfer]]]) -> list[str]:
    """What is to be said of transfers, each with its rounds, by their names.

    By how much others' work disturbed them, and which of their figures do not fit together.
    """
    return [
        *group_sentences(
            (name, f"{text}.")
            for name, rounds in rows
            for transfer in rounds
            for text in (
                *(f"irregular, {reason}" for reason in transfer.disturbed),
                *transfer.notes,
            )
        )
    ]


def transfers_table(results: RunResults) -> Table:
    """Every transfer."""
    rows = _rows(results)
    notes = _transfer_notes([row.transfer for row in rows])
    notes += notes_on_rounds((row.name, row.rounds) for row in rows)
    if any(row.over for row in rows):
        notes.append("All figures beside the one over all deployments are of the last.")
        columns = (*_TRANSFERS[:2], _OVER, *_TRANSFERS[2:])
        return Table.from_items(TRANSFERS_TITLE, columns, rows, notes)
    return Table.from_items(TRANSFERS_TITLE, _TRANSFERS, rows, notes)


def transfer_sentences(results: RunResults) -> list[str]:
    """The same for a terminal."""
    sentences = []
    rows = _rows(results)
    for row, texts in zip(rows, Table.from_items("", _TRANSFERS, rows).texts, strict=True):
        over = row.over
        scenario, kind, rate, trips, median, tail, most, *rest = texts
        lost, jitter, processors, _, per_gigabit = rest
        times = f"{trips}/s, 50 % {median}, 99 % {tail}, max {most}"
        parts = [f"{rate} Mbit/s arrived"] if trips == NONE else [f"round trips {times}"]
        parts = [f"over all deployments {over}; of the last {parts[0]}"] if over else parts
        parts += [lost] if lost != NONE else []
        parts += [f"jitter {jitter}"] if jitter != NONE else []
        parts += [f"CPU time {processors}"] if processors != NONE else []
        parts += [f"machine's CPU {per_gigabit} s/Gbit"] if per_gigabit != NONE else []
        parts += ["irregular"] if any(transfer.disturbed for transfer in row.rounds) else []
        sentences.append(f"{scenario}: {kind}: {', '.join(parts)}")
    names = [column.name for column in _TRANSPORT[2:]]
    for scenario, kind, *cells in transport_table(results).texts:
        cell_texts = [f"{n} {cell}" for n, cell in zip(names, cells, strict=True) if cell != NONE]
        sentences.append(f"{scenario}: {kind}: {', '.join(cell_texts)}")
    return sentences


def _transfer_notes(transfers: Sequence[Transfer]) -> list[str]:
    tools = dict.fromkeys(transfer.version for transfer in transfers if transfer.version)
    notes = [f"Payload by what the receiver counted ({', '.join(tools)})."]
    if any(transfer.spec.rate_of_tcp and transfer.spec.is_udp for transfer in transfers):
        notes.append("UDP of users was offered at the rate that TCP reached the same way.")
    if any(
        transfer.spec.is_udp and transfer.spec.is_stream and not transfer.spec.rate_bps
        for transfer in transfers
    ):
        notes.append("UDP of endpoints was sent as fast as the sender can: what is lost says so.")
    if any(transfer.round_trip_us for transfer in transfers):
        notes.append("Times are those from a message to its answer.")
    if any(transfer.spec.instances > 1 for transfer in transfers):
        notes.append("Of several instances rates are sums, percentiles the largest of them.")
    return notes + [f"{where}." for where in dict.fromkeys(map(_transfer_ends, transfers)) if where]


def _transfer_ends(transfer: Transfer) -> str:
    """Both ends, where they run, and how long a UE took to be one."""
    client, server = transfer.client, transfer.server
    if not client.place or not server.place:
        return ""
    ends = f"{client.place} ({client.address}) and {server.place} ({server.address})"
    cores = "" if "vCPU" in client.cpus else "cores "  # a guest's are named by themselves
    where = (
        f"share {cores}{client.cpus}"
        if client.cpus == server.cpus
        else f"are on {cores}{client.cpus} and {server.cpus}"
    )
    attach = transfer.attach_s
    attached = "" if attach is None else f"; the UE attached in {units.seconds(attach)}"
    return f"Programs of {ends} {where}{attached}"


NETWORKS_TITLE = "Container networks"
PLACES = {"same": "one host", "other": "two hosts"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTransfer(MeasuredTransfer):
    """A transfer between pods; what it is held against is the host's own network."""

    network: str  # Name of the network, with the options that it was given: "macvlan, mode = vepa"
    place: str  # Where the pods are: "same" or "other"
    #: What it has in common with its baseline: MTU and offloads of the hosts' link, and the kind of
    #: pods.
    link: str
    is_baseline: bool  # True of pods that have the host's network


def pod_transfers(results: RunResults, workload: str = "") -> list[PodTransfer]:
    """Transfers between pods, of a workload or of sockets.

    They are sorted by place and transfer, the networks in the order of the run.
    """
    rows: list[PodTransfer] = []
    facts = {deployed.scenario: deployed for deployed in results.scenarios}
    for scenario_transfers in results.transfers:
        deployed = facts.get(scenario_transfers.scenario)
        scenario = deployed.plan.get("scenario") if deployed is not None else None
        if deployed is None or not scenario or not scenario.get("deployment", {}).get("pods"):
            continue
        rows += (
            PodTransfer(
                network=_network_name(scenario),
                place=scenario.get("pod_hosts", ""),
                link=_link_name(scenario, deployed.facts.get("vswitch", {})),
                is_baseline=bool(deployed.facts.get("vswitch", {}).get("baseline")),
                scenario=scenario_transfers.scenario,
                rounds=scenario_transfers.list_rounds(transfer),
            )
            for transfer in scenario_transfers.transfers
            if kind_name(transfer.spec.kind) == workload
        )
    base = {_alike(row): row.rounds for row in rows if row.is_baseline}
    with_base = [
        row if row.is_baseline else replace(row, baseline=base.get(_alike(row), ())) for row in rows
    ]
    order = list(dict.fromkeys((row.place, row.transfer.spec) for row in with_base))
    return sorted(
        with_base,
        key=lambda row: (order.index((row.place, row.transfer.spec)), not row.is_baseline),
    )


def _alike(row: PodTransfer) -> tuple[object, ...]:
    """What a transfer and its baseline have in common."""
    return row.place, row.link, row.transfer.spec


#: Options of the hosts' link, which a network and its baseline have in common.
_OF_LINK = ("mtu", "offloads")


def _network_name(scenario: Mapping[str, Any]) -> str:
    """A network with what it was given: networks of one name are told apart by that."""
    settings = [
        f"{name} = {_short_option(value)}"
        for name, value in (scenario.get("options") or {}).items()
        if name not in ("name", "description") and value not in (None, "", [], {})
    ]
    if (pod := scenario.get("pod", "netns")) != "netns":
        settings.append(f"pods by {pod}")
    settings += _in_vms(scenario)
    return ", ".join([scenario.get("vswitch", ""), *settings])


def _short_option(value: Any) -> str:
    """A conflist by its name, and anything else as it is."""
    return str(value.get("name", "")) if isinstance(value, Mapping) else Path(str(value)).name


#: What pods of a cluster have in common with their baseline, and with no others.
IN_CLUSTER = "in a cluster"


def _link_name(scenario: Mapping[str, Any], network: Mapping[str, Any]) -> str:
    options = scenario.get("options") or {}
    of_link = ", ".join(f"{name} = {options.get(name)}" for name in _OF_LINK)
    of_cluster = [IN_CLUSTER] if "cluster" in network else []
    pods = f"pods by {scenario.get('pod', 'netns')}"
    return ", ".join([of_link, pods, *_in_vms(scenario), *of_cluster])


def _in_vms(scenario: Mapping[str, Any]) -> list[str]:
    """The pods in VMs; such transfers have no baseline, since no guest has the host's network."""
    guests = (scenario.get("deployment") or {}).get("guests") or ()
    return [f"pod {number} in a VM" for number in guests]


def ratio_text(row: PodTransfer) -> str | None:
    """A value over the baseline's, with its interval."""
    if row.is_baseline:
        return "baseline"
    return interval_text(row.ratio)


def interval_text(ratio: tuple[float, float | None, float | None] | None) -> str | None:
    """A ratio with its interval."""
    if ratio is None:
        return None
    value, low, high = ratio
    interval = "" if low is None or high is None else f" ({low:.2f} to {high:.2f})"
    return f"{value:.2f}{interval}"


_NETWORKS: tuple[Column[PodTransfer], ...] = (
    Column("pods on", lambda row: PLACES.get(row.place, row.place), words=True),
    Column("transfer", lambda row: transfer_text(row.transfer), words=True),
    Column("network", lambda row: row.network, words=True),
    Column("median round trip, or rate", lambda row: row.text),
    Column("of the host's", ratio_text),
    Column("99 %", lambda row: _time_text(row.transfer, "99")),
    Column("99.9 %", lambda row: _time_text(row.transfer, "99.9")),
    Column("lost or sent again", lambda row: _loss_text(row.transfer)),
    Column("IP fragments", lambda row: text_or_none(row.transfer.fragments, str)),
    Column("tools' CPU, s/Gbit", lambda row: _tools_cost_text(row.transfer)),
    Column(_MACHINE_COST, lambda row: _machine_cost_text(row.transfer)),
    Column("rounds", lambda row: str(len(row.rounds))),
)


def networks_table(results: RunResults) -> Table:
    """Transfers between pods, each beside that of the hosts' own network."""
    notes: tuple[str, ...] = (
        "Of the host's: mean of the rounds over that of the hosts' own network in the same place; "
        "where rounds were repeated (--repeat), geometric means, and of three or more the ratio's "
        "95 % interval. A ratio of round trips above 1 is slower, one of rates faster.",
        "IP fragments: made by pods and hosts of packets too long for a link, in the last round.",
        "CPU: processor time for each gigabit of payload, in the last round: of the tool's "
        "processes at both ends, and of the whole machine, whatever else it did, with the part "
        "spent in interrupts, in which the kernel does most of its forwarding.",
    )
    rows = pod_transfers(results)
    if any(IN_CLUSTER in row.link for row in rows):
        notes += (
            "Pods of a cluster: processor time is not measured, since nodes and what else runs on "
            "them are the cluster's; they are held against its nodes' own network (mode = host), "
            "where that was measured.",
        )
    notes += (
        *notes_on_rounds(
            (f"{row.network}, {transfer_text(row.transfer)}", row.rounds) for row in rows
        ),
    )
    return Table.from_items(NETWORKS_TITLE, _NETWORKS, rows, notes)


PODS_TITLE = "Pods on container networks"


@dataclass(frozen=True, slots=True)
class _PodRow:
    """A network that pods were attached to, by the first scenario of each place with its facts."""

    network: str
    place: str
    facts: dict[str, Any]
    times: dict[str, float]

    def time(self, name: str) -> str | None:
        return text_or_none(self.times.get(name), lambda time: units.nanoseconds(time * 1e9))


def _pod_rows(results: RunResults) -> list[_PodRow]:
    rows: dict[tuple[str, str], _PodRow] = {}
    for deployed in results.scenarios:
        facts, scenario = deployed.facts.get("vswitch"), deployed.plan.get("scenario") or {}
        times = {m.label: m.mean for m in pod_metrics(deployed) if m.mean is not None}
        if times and isinstance(facts, dict):
            network, place = _network_name(scenario), scenario.get("pod_hosts", "")
            rows.setdefault((network, place), _PodRow(network, place, facts, times))
    return list(rows.values())


_PODS: tuple[Column[_PodRow], ...] = (
    Column("network", lambda row: row.network, words=True),
    Column("pods on", lambda row: PLACES.get(row.place, row.place), words=True),
    *(Column(name, partial(_PodRow.time, name=name)) for name in POD_TIMES.values()),
    Column("MTU of pods", lambda row: text_or_none(row.facts.get("MTU of pods"), str)),
    Column(
        "octets added between hosts", lambda row: text_or_none(row.facts.get(OCTETS_ADDED), str)
    ),
)


def pods_table(results: RunResults) -> Table:
    """What a pod's life takes on each network, and what the network leaves of a frame."""
    notes = (
        "Of the second pod, while the first is there: from the call of the network until it had "
        "given the pod its interface; until a packet of the first pod's, sent each millisecond, "
        "arrived there; until its interface was taken away.",
        "Frames between hosts are longer by the octets of the tunnel or tag, which are none of the "
        "rates here; packets of the pods' MTU were seen to pass unfragmented.",
    )
    return Table.from_items(PODS_TITLE, _PODS, _pod_rows(results), notes)


def pod_sentences(results: RunResults) -> list[str]:
    """The same for a terminal."""
    names = list(POD_TIMES.values())
    sentences = []
    for network, place, *cells in pods_table(results).texts:
        times = [f"{n} {c}" for n, c in zip(names, cells, strict=False) if c != NONE]
        sentences.append(f"{network}, pods on {place}: {', '.join(times)}")
    return sentences


def network_sentences(results: RunResults) -> list[str]:
    """The same for a terminal, without what stands beside each transfer already."""
    return [
        f"pods on {place}, {kind}: {network} {value}"
        + (" (baseline)" if ratio == "baseline" else f", {ratio} of the host's")
        for place, kind, network, value, ratio, *_ in networks_table(results).texts
        if ratio != NONE
    ]


def network_plots(results: RunResults) -> Iterator[Plot]:
    """Round trips and rates by message size: a plot for what is alike but for it."""
    rows = pod_transfers(results)
    kinds: dict[tuple[str, TransferSpec], list[PodTransfer]] = {}
    for row in rows:
        if row.value is not None:
            spec = row.transfer.spec.requested.model_copy(update={"message_size": None})
            kinds.setdefault((row.place, spec), []).append(row)
    for (place, spec), alike in kinds.items():
        trips = bool(alike[0].transfer.round_trip_us.get("50"))
        scale = TIMES if trips else GIGABITS
        quantity = "median round trip" if trips else "payload that arrived, Gbit/s"
        caption = f"{spec_text(spec)}, pods on {PLACES.get(place, place)}"
        axis = "message size, octets (equal steps)"
        yield networks_plot(alike, "message_size", (caption, quantity, axis), scale, rows)


def networks_plot(
    rows: Sequence[PodTransfer],
    field: str,
    names: tuple[str, str, str],
    scale: Scale,
    all_rows: Sequence[PodTransfer],
) -> Plot:
    """A line for each network by a field of the transfers; `names`: caption, values, axis.

    A network has one colour in all plots of `all_rows`.
    """
    caption, quantity, axis = names
    networks = list(dict.fromkeys(row.network for row in all_rows))
    places = sorted({getattr(row.transfer.spec, field) or 0 for row in rows})
    repeated = any(len(row.rounds) > 1 for row in rows)
    return Plot(
        title=f"{caption}: {quantity} by {axis.partition(',')[0]}",
        caption=caption,
        note="marks: means of the rounds; bars: least to most" if repeated else "",
        x=Axis(name=axis, names=list(map(str, places))),
        y=Axis(name=quantity, tick=scale.tick, value=scale.text, zero=True),
        series=[
            Series(
                name,
                [_pod_point(row, field, places, scale) for row in rows if row.network == name],
                css=series_css(index),
                line=True,
                shift=(index - (len(networks) - 1) / 2) * 5,
            )
            for index, name in enumerate(networks)
            if any(row.network == name for row in rows)
        ],
        css="by-size",
        key=True,
    )


def _pod_point(row: PodTransfer, field: str, places: Sequence[int], scale: Scale) -> Point:
    setting = getattr(row.transfer.spec, field) or 0
    about = f"{row.network}, {setting} {'octets' if field == 'message_size' else field}"
    return rounds_point(row.values, scale, places.index(setting), about)


def rounds_point(values: Sequence[float], scale: Scale, place: int, about: str) -> Point:
    """The mean of all rounds; its range is least to most."""
    scaled = [value * scale.factor for value in values]
    mean = fmean(scaled)
    low, high = (min(scaled), max(scaled)) if len(scaled) > 1 else (None, None)
    return Point(place, mean, low=low, high=high, hover=f"{about}: {scale.text(mean)}")
