"""The metrics of a run: of results, and of what its tester's frames have no part in.

These are transfers between sockets and between ranks of MPI, the speed of guests, and the lives of
pods.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from vnetperf.analysis.metrics import (
    PODS_TEST,
    TRANSFERS_TEST,
    Metric,
    compared_metrics_of,
    main_number,
    partial_mark,
    repeated_number,
)
from vnetperf.analysis.transport import cpu_per_gigabit, ip_capacity, tcp_quality
from vnetperf.model.result import RunResults, ScenarioFacts
from vnetperf.model.transfer import (
    MPI_PAIRS,
    POD_ATTACHED,
    POD_FIRST_PACKET,
    POD_REMOVED,
    Figures,
    Transfer,
)
from vnetperf.model.units import Unit
from vnetperf.procedures.latency import COMPARED_PERCENTILES, CURVE_PERCENTILES

#: Makes a metric of one transfer.
_Make: TypeAlias = Callable[..., Metric]
#: What a pod's life is timed by: fact, and name of the metric.
POD_TIMES = {
    POD_ATTACHED: "pod start",
    POD_FIRST_PACKET: "first packet",
    POD_REMOVED: "pod removal",
}


def compared_metrics(results: RunResults) -> Iterator[Metric]:
    """What of a run, or of a round of it, is compared with others."""
    for result in results.results:
        yield from compared_metrics_of(result)
    for transfers in results.transfers:
        for repeats in transfers.rounds:
            yield from transfer_metrics(transfers.scenario, *repeats[-1])
    for facts in results.scenarios:
        yield from pod_metrics(facts)


def pod_metrics(facts: ScenarioFacts) -> Iterator[Metric]:
    """How long it took to start and to remove the pod that was attached last, seconds."""
    network = facts.facts.get("vswitch")
    pods = network.get("pods") if isinstance(network, dict) else None
    complete = (
        [times for times in pods.values() if POD_REMOVED in times] if isinstance(pods, dict) else []
    )
    for pod in complete[-1:]:
        for fact, name in POD_TIMES.items():
            value = pod.get(fact)
            if value is not None:
                yield Metric(
                    scenario=facts.scenario,
                    test=PODS_TEST,
                    size="",
                    label=name,
                    unit="s",
                    value=value,
                    better="less",
                )


def transfer_metrics(
    scenario: str, transfer: Transfer, siblings: Sequence[Transfer]
) -> Iterator[Metric]:
    """What of a transfer is compared; `siblings` are those of its deployment, itself too."""
    spec = transfer.spec
    name = f"{spec.kind} {spec.way}"
    _, main_unit, _ = main_number(spec.kind, spec.way)
    disturbed = ("irregular",) if transfer.disturbed else ()

    def make(
        label: str,
        unit: Unit,
        better: Literal["more", "less"],
        value: float | None,
        **settings: Any,
    ) -> Metric:
        return Metric(
            scenario=scenario,
            test=TRANSFERS_TEST,
            size="" if spec.message_size is None else str(spec.message_size),
            label=label,
            of=spec.several,
            unit=unit,
            better=better,
            value=value,
            why="the tool does not report it",
            load_fps=spec.rate_bps or None,
            conditions={
                "seconds": spec.duration_s,
                "instances": spec.instances,
                "tool": spec.tool if spec.is_mpi else transfer.version.partition(" ")[0],
                **({"pods": spec.pods, "ranks": spec.ranks} if spec.is_mpi else {}),
            },
            **settings | {"qualifiers": (*settings.get("qualifiers", ()), *disturbed)},
        )

    if spec.is_mpi or spec.is_guest:
        yield from (_list_mpi_metrics if spec.is_mpi else _list_guest_metrics)(make, transfer)
        return
    rate = transfer.bits_per_second if spec.is_stream else transfer.transactions_per_second
    yield make(name, main_unit, "more", rate, main=True)
    for percentile in CURVE_PERCENTILES if spec.kind.endswith("_LOAD") else COMPARED_PERCENTILES:
        microseconds = transfer.round_trip_us.get(percentile)
        if microseconds is not None:
            yield make(f"{name} round trip p{percentile}", "ns", "less", microseconds * 1e3)
    if transfer.loss_ratio is not None:
        yield make(f"{name} loss", "ratio", "less", transfer.loss_ratio)
    if spec.is_stream:
        yield from _list_stream_metrics(make, name, transfer, siblings)


def metrics_over_deployments(
    results: RunResults,
) -> Iterator[tuple[str, Transfer, list[Metric]]]:
    """Scenario, transfer and its metrics: of several deployments what all of them gave."""
    failed = {
        result.identity: result.deployments
        for result in results.results
        if result.deployments is not None
    }
    for transfers in results.transfers:
        for repeats in transfers.rounds:
            last, _ = repeats[-1]
            spec = last.spec
            name = f"{spec.kind} {spec.way}"
            case = (transfers.scenario, name, spec.message_size or 0, spec.several)
            attempted = len(repeats)
            deployments = failed.get(case)
            if deployments and attempted + len(deployments.failures) <= deployments.planned:
                # Else another transfer of that name has failed.
                attempted += len(deployments.failures)
            numbers: dict[str, list[Metric]] = {}
            for transfer, siblings in repeats:
                for metric in transfer_metrics(transfers.scenario, transfer, siblings):
                    numbers.setdefault(metric.label, []).append(metric)
            joined = [_over_deployments(metrics, attempted) for metrics in numbers.values()]
            yield transfers.scenario, last, joined


def _over_deployments(rounds: Sequence[Metric], attempted: int) -> Metric:
    last = rounds[-1]
    measured = {
        number: metric for number, metric in enumerate(rounds, 1) if metric.measured is not None
    }
    if attempted < 2 or not measured:
        return last
    over, partial = repeated_number(last.label, measured), partial_mark(len(measured), attempted)
    return replace(last, over=over, partial=partial)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherCase:
    """What was measured without frames of the tester, as files for programs have it."""

    scenario: str
    test: str  # "TCP_STREAM forth" ..., or "pods"
    size: str = "-"  # Octets of a message; "-" where it has none
    of: str = ""  # What a run may have several of with that name and size: "8 instances"
    seconds: float  # How long it took
    conditions: Mapping[str, Any] = field(default_factory=dict)
    #: Each has a name, and of several deployments their spread as its value.
    metrics: tuple[Metric, ...]


def other_cases(results: RunResults) -> Iterator[OtherCase]:
    """Transfers between sockets, ranks of MPI, guests, and the lives of pods."""
    for scenario, transfer, metrics in metrics_over_deployments(results):
        spec = transfer.spec
        offered = {
            "rate_bps": None if spec.rate_of_tcp else spec.rate_bps or None,
            "message_rate": spec.message_rate if spec.kind.endswith("_LOAD") else None,
        }
        named = [_named(metric, (f"{spec.kind} {spec.way}", spec.kind)) for metric in metrics]
        yield OtherCase(
            scenario=scenario,
            test=f"{spec.kind} {spec.way}",
            size=str(spec.message_size or "-"),
            of=spec.several,
            seconds=transfer.elapsed_s or float(spec.length_s),
            conditions={**metrics[0].conditions, **offered},
            metrics=tuple(named),
        )
    for facts in results.scenarios:
        lives = [_named(metric) for metric in pod_metrics(facts)]
        if lives:
            seconds = sum(float(life.number or 0.0) for life in lives)
            yield OtherCase(
                scenario=facts.scenario, test=PODS_TEST, seconds=seconds, metrics=tuple(lives)
            )


def _named(metric: Metric, kinds: Sequence[str] = ()) -> Metric:
    """With a name made of its label: "TCP_STREAM forth round trip p99" -> "round_trip_p99"."""
    rest = next((metric.label.removeprefix(k) for k in kinds if metric.label.startswith(k)), None)
    words = re.findall("[a-z0-9.]+", (metric.label if rest is None else rest).lower())
    spread = metric.over and metric.over.spread
    return replace(metric, name="_".join(words) or "rate", value=spread or metric.value)


def _list_stream_metrics(
    make: _Make, name: str, transfer: Transfer, siblings: Sequence[Transfer]
) -> Iterator[Metric]:
    spec, cost = transfer.spec, cpu_per_gigabit(transfer)
    for part, seconds in (("tools", cost.tools_s), ("machine", cost.machine_s)):
        if seconds is not None:
            yield make(f"{name} CPU per Gbit, {part}", "s", "less", seconds)
    if spec.kind == "TCP_STREAM":
        tcp = tcp_quality(transfer, siblings)
        if tcp.efficiency is not None:  # RFC 6349 section 4.2
            yield make(f"{name} TCP efficiency", "ratio", "more", tcp.efficiency)
        if tcp.buffer_delay is not None:  # section 4.3
            yield make(f"{name} TCP buffer delay", "ratio", "less", tcp.buffer_delay)
        if tcp.time_ratio is not None:  # section 4.1
            yield make(f"{name} TCP transfer time ratio", "ratio", "less", tcp.time_ratio)
    if spec.kind == "UDP_STREAM":
        for way in spec.ways:
            capacity = ip_capacity(transfer, way).bits_per_second  # RFC 9097 section 5
            if capacity is not None:
                yield make(f"{name} IP-layer capacity {way}", "bit/s", "more", capacity)


#: Share of their runs in which all VNFs have to run, so that their sum counts as what they reach.
AT_ONCE = 0.9


def known_apart(figures: Figures) -> bool:
    """Whether programs in several VNFs did not run at once."""
    return figures.at_once is not None and figures.at_once < AT_ONCE


def _list_guest_metrics(make: _Make, transfer: Transfer) -> Iterator[Metric]:
    """Of VNFs: what they did, and its ratio to the host's."""
    kind, host = transfer.spec.kind, transfer.on_host or Figures()
    of_cpu = kind == "GUEST_CPU"
    unit: Unit = "1/s" if of_cpu else "octet/s"
    value, host_value = (
        figures.events_per_second if of_cpu else figures.octets_per_second
        for figures in (transfer, host)
    )
    # Each counted its own run: the sum is more than they reach together.
    apart = ("at most",) if known_apart(transfer) else ()
    yield make(kind, unit, "more", value, main=True, qualifiers=apart)
    if value is not None and host_value:
        yield make(f"{kind} of the host's", "ratio", "more", value / host_value, qualifiers=apart)
    if transfer.tlb_misses_per_second is not None and value:
        work, per = ("event", 1) if of_cpu else ("MiB", 1 << 20)
        misses = transfer.tlb_misses_per_second / value * per
        yield make(f"{kind} TLB misses per {work}", "", "less", misses)


def _list_mpi_metrics(make: _Make, transfer: Transfer) -> Iterator[Metric]:
    """Of ranks of MPI: HPL's rate, or that of messages in windows, or the time of an operation."""
    kind, times = transfer.spec.kind, transfer.operation_us
    if kind == "MPI_HPL":
        yield make("MPI_HPL flop/s", "1/s", "more", transfer.flops, main=True)
    elif kind in MPI_PAIRS and kind != "MPI_LATENCY":
        yield make(kind, "bit/s", "more", transfer.bits_per_second, main=True)
        return
    mean = times.get("mean")
    label = "MPI_HPL ping-pong" if kind == "MPI_HPL" else kind
    yield make(
        f"{label} time", "ns", "less", None if mean is None else mean * 1e3, main=label == kind
    )
    for percentile in COMPARED_PERCENTILES:
        if percentile in times:
            yield make(f"{label} time p{percentile}", "ns", "less", times[percentile] * 1e3)
