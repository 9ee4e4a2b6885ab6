"""The metrics of a run: of results, and of what its tester's frames have no part in.

These are transfers between sockets, what a workload's programs measure, and the lives of pods.
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
from vnetperf.model.outcomes import Spread
from vnetperf.model.result import RunResults, ScenarioFacts
from vnetperf.model.transfer import (
    POD_ATTACHED,
    POD_FIRST_PACKET,
    POD_REMOVED,
    Transfer,
)
from vnetperf.model.units import Unit
from vnetperf.plugin.workload import find_workload_report
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
    workload = find_workload_report(spec.kind)
    disturbed = ("irregular",) if transfer.disturbed else ()

    def make(
        label: str,
        unit: Unit,
        better: Literal["more", "less", ""],
        value: float | bool | Spread | None,
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
                "tool": transfer.version.partition(" ")[0],
                **(workload.conditions(spec) if workload else {}),
            },
            **settings | {"qualifiers": (*settings.get("qualifiers", ()), *disturbed)},
        )

    if workload:
        for figure in workload.figures(transfer):
            yield make(
                figure.label,
                figure.unit,
                figure.better,
                figure.value,
                main=figure.main,
                qualifiers=figure.qualifiers,
            )
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
    """Transfers between sockets, workloads, and the lives of pods."""
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
