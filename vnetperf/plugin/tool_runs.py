"""What runs of a tool come to: its version at a place, its processor time, and figures in sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vnetperf.model.errors import CapabilityError, GeneratorError, VnetperfError
from vnetperf.model.transfer import Figures, TransferSpec
from vnetperf.plugin import registry
from vnetperf.plugin.endpoint_tool import EndpointTool
from vnetperf.virt.endpoint import CpuTime, EndpointProgram, Place

Reduction = Callable[[Sequence[float]], float]


def sum_figures(figures: Sequence[Figures], *, of_machine: bool = False) -> Figures:
    """Figures of all instances, each way, together; None where an instance has none."""
    of_cpu: Reduction = max if of_machine else sum
    reductions: dict[str, Reduction] = {
        "bits_per_second": sum,
        "sent_bits_per_second": sum,
        "retransmits": sum,
        "sent_octets": sum,
        "segment_octets": min,
        "jitter_ms": max,
        "transactions_per_second": sum,
        "events_per_second": sum,
        "octets_per_second": sum,
        "tlb_misses_per_second": sum,
        "steal": max,
        "client_cpu_percent": of_cpu,
        "server_cpu_percent": of_cpu,
    }
    values = {
        name: [getattr(instance, name) for instance in figures] for name in Figures.model_fields
    }
    complete = {name for name, column in values.items() if column and None not in column}
    summed: dict[str, Any] = {
        name: reduce(values[name]) for name, reduce in reductions.items() if name in complete
    }
    if "loss_ratio" in complete:
        sent = values["sent_bits_per_second"]
        weights = sent if "sent_bits_per_second" in complete else [1.0] * len(figures)
        summed["loss_ratio"] = _mean(values["loss_ratio"], weights)
    trips = [instance.tcp_round_trip_us for instance in figures]
    same = set.intersection(*map(set, trips)) if trips else set()
    trip_reductions: dict[str, Reduction] = {
        "min": min,
        "mean": lambda t: sum(t) / len(t),
        "max": max,
        "samples": sum,
    }
    return Figures(
        **summed,
        round_trip_us=_round_trips(figures),
        tcp_round_trip_us={
            name: trip_reductions[name]([t[name] for t in trips])
            for name in trip_reductions
            if name in same
        },
        notes=tuple(dict.fromkeys(text for instance in figures for text in instance.notes)),
    )


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    total = sum(weights)
    pairs = zip(values, weights, strict=True)
    return sum(value * (weight / total) for value, weight in pairs) if total else max(values)


def _round_trips(figures: Sequence[Figures]) -> dict[str, float]:
    merged = {}
    for name in figures[0].round_trip_us:
        times = [
            instance.round_trip_us[name] for instance in figures if name in instance.round_trip_us
        ]
        if len(times) != len(figures):
            continue
        if name == "mean":
            merged[name] = _mean(
                times, [instance.transactions_per_second or 0.0 for instance in figures]
            )
        else:
            merged[name] = min(times) if name == "min" else max(times)  # percentiles do not merge
    return merged


def load_tool(spec: TransferSpec) -> EndpointTool:
    """The tool of a transfer; refused where it cannot do it."""
    tool: EndpointTool = registry.load("endpoints", spec.tool)()
    if problem := tool.cannot(spec):
        raise CapabilityError(problem, where="endpoint tool", cure="--endpoint-tool auto")
    return tool


def read_tool_version(tool: EndpointTool, place: Place, label: str) -> str:
    """Version of a tool's client at a place; that it is there at all is seen so."""
    try:
        return place.run(tool.version_argv)
    except VnetperfError as error:
        program = tool.programs[0]
        raise CapabilityError(
            f"{program.name} cannot be run in the {label}: {error.what}",
            where=f"endpoint tool {tool.name}",
            cure=f"install the package {program.package} there; a guest's image needs it",
        ) from error


def sum_cpu_times(times: Sequence[CpuTime | None]) -> CpuTime | None:
    """Processor time of programs together; None where that of one is unknown."""
    measured = [time for time in times if time is not None]
    if len(measured) != len(times):
        return None
    return CpuTime(sum(time.user_s for time in measured), sum(time.system_s for time in measured))


def processor_seconds(time: CpuTime | None) -> dict[str, float | None]:
    """Processor time as fields of an end's facts."""
    if time is None:
        return {"user_s": None, "system_s": None}
    return {"user_s": round(time.user_s, 3), "system_s": round(time.system_s, 3)}


def require_started(program: EndpointProgram | None) -> EndpointProgram:
    """A program that has been started."""
    if program is None:
        raise GeneratorError("it has not been started")
    return program


def quote_tail(program: EndpointProgram | None) -> str:
    """The last that a program has written, for an error."""
    lines = require_started(program).output().strip().splitlines()
    return f"the end of its output: {' / '.join(lines[-3:])[-500:] or '(nothing)'}"
