"""What the hosts of a trial have counted, one or several, as one result.

Where the tester's ports are on two hosts each has a part of what was sent (`merge_parts`); the
other hosts' counters and collectors come beside that (`merge_counts`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

from vnetperf.model.machine_load import DatapathWork, EnergyUse, ThreadEvents, ThreadLoad
from vnetperf.model.testbed import clocks_apart_s
from vnetperf.model.trial import (
    DirectionCounts,
    Latency,
    PartResult,
    RoundTrip,
    TesterTurns,
    TrialGaps,
    TrialResult,
)
from vnetperf.statistics.histogram import HIGHEST_NS, encode_hdr, latency_percentiles

#: Why there is no latency between hosts whose clocks nothing compares.
TWO_CLOCKS = (
    "not measured: each of the tester's ports stamps by the clock of its own machine, and how far "
    "these are apart was not measured"
)


def _clock_bound_s(parts: Sequence[PartResult], clock_bound_s: float | None) -> float | None:
    """Most that stamps of both hosts were apart in a trial, by what was read before and after."""
    if not clock_bound_s:
        return clock_bound_s
    drifts = [part.drift_s for part in parts if part.drift_s is not None]
    apart_s = clocks_apart_s([part.clock for part in parts])
    return apart_s + sum(drifts) if apart_s is not None and len(drifts) == len(parts) else None


def _describe_missing_latency(
    directions: Sequence[DirectionCounts], bound_s: float | None, parts: Mapping[str, PartResult]
) -> str:
    """Describe why the latency of a trial cannot be stated; "" if it can."""
    if bound_s is None:
        clocks = [(host, part.clock) for host, part in parts.items() if part.clock is not None]
        clock_texts = [f"{host}: {c.why or f'it follows {c.reference}'}" for host, c in clocks]
        return f"{TWO_CLOCKS} ({'; '.join(clock_texts)})" if clock_texts else TWO_CLOCKS
    early = sum(d.latency.before_departure or 0 for d in directions if d.latency is not None)
    if bound_s and (early or any(d.received and d.latency is None for d in directions)):
        return (
            "not measured: by the clocks of the tester's two hosts frames arrived before they had "
            f"left; these may be {bound_s * 1e6:.3g} us apart"
        )
    least = [d.latency.min_ns / 1e9 for d in directions if d.latency is not None]
    if bound_s and min(least, default=inf) <= bound_s:
        return (
            f"not measured: the clocks of the tester's two hosts may be {bound_s * 1e6:.3g} us "
            f"apart, and the shortest time of a frame between them is {min(least) * 1e6:.3g} us"
        )
    return ""


#: Longest time that a frame is held by the answering host of which a round trip is told, ns: two
#: clocks that are not equally fast make the time wrong by a thousandth of it.
HELD_AT_MOST_NS = 10_000_000


def _round_trip(asks: PartResult, answers: PartResult) -> RoundTrip | None:
    """Times of frames that asked and whose answers came back, each by the clock of one host."""
    came = {departed_ns: arrived_ns for _, departed_ns, arrived_ns in asks.echoes}
    answered = [
        (came[departed_ns] - asked_ns - held_ns, held_ns)
        for asked_ns, departed_ns, held_ns in answers.echoes
        if departed_ns in came and held_ns <= HELD_AT_MOST_NS
    ]
    times = Counter(ns for ns, _ in answered if ns >= 0)
    if not times:
        return None
    pairs = sorted(times.items())
    in_range = [pair for pair in pairs if pair[0] <= HIGHEST_NS]
    latency = Latency(
        count=times.total(),
        min_ns=pairs[0][0],
        mean_ns=sum(ns * n for ns, n in pairs) / times.total(),
        max_ns=pairs[-1][0],
        percentiles=latency_percentiles(in_range),
        hdr=encode_hdr(in_range),
        before_departure=len(answered) - times.total(),
        above_range=sum(n for _, n in pairs[len(in_range) :]),
    )
    held_s = max(held_ns for _, held_ns in answered) / 1e9
    return RoundTrip(latency=latency, asked=asks.marks, held_s=held_s)


#: Workers of the second host are numbered from here on.
SECOND_WORKERS = 1000


def merge_hosts(
    parts: Mapping[str, PartResult],
    testers: Sequence[str],
    clock_bound_s: float | None,
    boots: Mapping[str, str],
) -> TrialResult:
    """A trial by what each host has of it; of one host the result is its own.

    Args:
        parts: Host -> what it has.
        testers: Hosts of the tester's ports, port 0's first.
        clock_bound_s: As of `merge_parts`.
        boots: Host -> boot of its kernel: hosts of one machine read the same meters.
    """
    if len(parts) == 1:
        return parts[testers[0]].result
    failures = {host: part.result for host, part in parts.items() if part.result.failed}
    if dead := {host: result for host, result in failures.items() if host not in testers}:
        return merge_counts(TrialResult(directions=()), dead)
    for host, result in failures.items():
        failure = f"host {host}: {result.failure}"
        return result.model_copy(update={"directions": (), "failure": failure})
    counted = {host: part.dut for host, part in parts.items() if part.dut is not None}
    if len(testers) == 1:
        read = {boots.get(testers[0], "")}
        return merge_counts(parts[testers[0]].result, _drop_repeated_energy(counted, boots, read))
    machines = [counted[host].machine for host in testers]
    # One that changed its clock source underway has no valid trial, wherever it is.
    changed = (machine for machine in machines if machine and machine.clock_change)
    update = {
        "machine": next(changed, machines[0]),
        "collected_s": counted[testers[0]].collected_s,
    }
    merged = merge_parts({host: parts[host] for host in testers}, clock_bound_s)
    counted = _drop_repeated_energy(counted, boots, set())
    return merge_counts(merged.model_copy(update=update), counted)


def _drop_repeated_energy(
    counted: Mapping[str, TrialResult], boots: Mapping[str, str], read: set[str]
) -> dict[str, TrialResult]:
    """Drop energy that a host of the same machine has counted already; `read` has such boots."""
    results = {}
    for host, result in counted.items():
        boot = boots.get(host, "")
        results[host] = (
            result.model_copy(update={"energy": ()}) if boot and boot in read else result
        )
        read = read | {boot}
    return results


def merge_parts(parts: Mapping[str, PartResult], clock_bound_s: float | None = None) -> TrialResult:
    """A trial by what was counted at each of the tester's ports, port 0 first.

    What was sent is from the sender's host, what came from the receiver's. Latency stays where
    `clock_bound_s` bounds how far the clocks are apart, and is less than the times of all frames:
    0 for one clock; where it is planned with another, by what each host has read at the end.
    """
    results = [part.result for part in parts.values()]
    halves = zip(*(result.directions for result in results), strict=True)
    uncollected = {
        f"{host}: {key}": reason
        for host, part in parts.items()
        for key, reason in part.result.uncollected.items()
    }
    bound_s = _clock_bound_s([*parts.values()], clock_bound_s)
    directions = [_join_halves(half) for half in halves]
    round_trip = None
    if reason := _describe_missing_latency(directions, bound_s, parts):
        round_trip = _round_trip(*parts.values())
        instead = (
            "the round trip is"
            if round_trip
            else "nor is the round trip: no frame was answered within "
            f"{HELD_AT_MOST_NS / 1e6:g} ms whose answer came back"
        )
        uncollected["latency"] = f"{reason}; {instead}"
        directions = [d.model_copy(update={"latency": None}) for d in directions]
    ports = {port for result in results for port in result.foreign}
    summed = ("corrupted", "verified", "answered", "stale")
    largest = ("drain_s", "max_burst", "max_lag_s", "mean_lag_s")
    update: dict[str, Any] = {
        "directions": tuple(directions),
        "clock_bound_s": None if reason else bound_s,
        "round_trip": round_trip,
        "foreign": {port: sum(r.foreign.get(port, 0) for r in results) for port in ports},
        "tester": tuple(port for result in results for port in result.tester),
        "links_down": tuple(link for result in results for link in result.links_down),
        "gaps": _merge_gaps([result.gaps for result in results]),
        "turns": _merge_turns([result.turns for result in results]),
        "refusal_is_loss": all(result.refusal_is_loss for result in results),
        "uncollected": uncollected,
    }
    update |= {name: _sum(getattr(result, name) for result in results) for name in summed}
    update |= {name: max(getattr(result, name) for result in results) for name in largest}
    return TrialResult(**update)


def _sum(values: Iterable[Any]) -> Any:
    """The sum; None where one is not known."""
    all_values = list(values)
    return None if None in all_values else sum(all_values)


def _join_halves(halves: Sequence[DirectionCounts]) -> DirectionCounts:
    """Join the counts of a direction: one host counted frames sent, the other frames received."""
    counts = {
        name: _sum(getattr(half, name) for half in halves)
        for name in DirectionCounts.model_fields
        if name not in ("direction", "tx_seconds", "latency")
    }
    latency = next((half.latency for half in halves if half.latency is not None), None)
    return DirectionCounts(
        direction=halves[0].direction,
        tx_seconds=max(half.tx_seconds for half in halves),
        latency=latency,
        **counts,
    )


def _merge_gaps(all_gaps: Sequence[TrialGaps | None]) -> TrialGaps | None:
    """Gaps of both hosts' testers: the worse of each kind, and all queues."""
    measured = [gaps for gaps in all_gaps if gaps is not None]
    if len(measured) < len(all_gaps):
        return None
    rings = [gaps.ring_frames for gaps in measured]
    return TrialGaps(
        poll=max(
            (gaps.poll for gaps in measured),
            key=lambda gap: (gap.over_s, gap.max_s),
        ),
        send=max(
            (gaps.send for gaps in measured),
            key=lambda gap: (gap.over_s, gap.max_s),
        ),
        queues=tuple(
            queue.model_copy(update={"worker": queue.worker + number * SECOND_WORKERS})
            for number, gaps in enumerate(measured)
            for queue in gaps.queues
        ),
        catch_up_frames=max(gaps.catch_up_frames for gaps in measured),
        ring_frames=None if None in rings else min(filter(None, rings)),
    )


def _merge_turns(all_turns: Sequence[TesterTurns | None]) -> TesterTurns | None:
    """Turns of both hosts' testers: those of the one that slept less, and what either met."""
    measured = [turns for turns in all_turns if turns is not None]
    if not measured:
        return None
    update = {
        "prompt": all(tester_turns.prompt for tester_turns in measured),
        "refused": next(
            (tester_turns.refused for tester_turns in measured if tester_turns.refused), ""
        ),
        "held_back": max(tester_turns.held_back for tester_turns in measured),
        "most_frames": max(tester_turns.most_frames for tester_turns in measured),
    }
    return min(measured, key=lambda tester_turns: tester_turns.asleep).model_copy(update=update)


def merge_counts(result: TrialResult, counted: Mapping[str, TrialResult]) -> TrialResult:
    """A trial's result with what other hosts than the tester's have counted.

    Threads and roles of other hosts have the host's name before their own, as in placements.
    """
    dead = [f"host {host}: {counts.failure}" for host, counts in counted.items() if counts.failed]
    if dead:  # whatever the tester found: this is the cause
        return TrialResult(directions=(), failed="dut", failure="; ".join(dead))
    if result.failed:
        return result
    update: dict[str, Any] = {
        "hops": result.hops + tuple(hop for counts in counted.values() for hop in counts.hops),
        "links_down": result.links_down
        + tuple(
            f"{link} on {host}" for host, counts in counted.items() for link in counts.links_down
        ),
        "uncollected": result.uncollected
        | {
            f"{host}: {key}": reason
            for host, counts in counted.items()
            for key, reason in counts.uncollected.items()
        },
    }
    for field in ("threads", "events", "datapath", "vnf_work", "energy"):
        update[field] = getattr(result, field) + tuple(
            part.model_copy(update=_prefix_names(host, part))
            for host, counts in counted.items()
            for part in getattr(counts, field)
        )
    update["machines"] = {
        host: counts.machine for host, counts in counted.items() if counts.machine is not None
    }
    update["collected_at"] = {host: counts.collected_s for host, counts in counted.items()}
    cost = [counts.watched_cpu_s for counts in (result, *counted.values())]
    update["watched_cpu_s"] = sum(cpu_s for cpu_s in cost if cpu_s is not None) or None
    return result.model_copy(update=update)


def _prefix_names(
    host: str, counts: ThreadLoad | ThreadEvents | DatapathWork | EnergyUse
) -> dict[str, str]:
    if isinstance(counts, EnergyUse):
        return {"part": f"{host}: {counts.part}"}
    named = {"thread": f"{host}: {counts.thread}"}
    return named if isinstance(counts, DatapathWork) else named | {"role": f"{host}:{counts.role}"}
