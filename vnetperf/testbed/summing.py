"""Figures of several instances of a tool as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vnetperf.model.transfer import Figures

#: Of times of round trips: how those of instances become one; percentiles cannot be merged.
_ROUND_TRIP: dict[str, Callable[[Sequence[float]], float]] = {"min": min}


def total(found: Sequence[Figures], *, of_machine: bool = False) -> Figures:
    """Figures of all instances, each way, together.

    Args:
        found: Theirs, one or more.
        of_machine: True where each tells the processor use of its whole machine.

    Returns:
        Rates, segments and processors added up; loss by what was sent; the largest jitter and the
        largest of each percentile; the mean time of a round trip by messages. What one instance
        does not tell is not told.
    """
    sent = _each(found, lambda one: one.sent_bits_per_second)
    losses = _each(found, lambda one: one.loss_ratio)
    jitters = _each(found, lambda one: one.jitter_ms)
    again = _each(found, lambda one: one.retransmits)
    cpu = _largest if of_machine else _sum
    return Figures(
        bits_per_second=_sum(_each(found, lambda one: one.bits_per_second)),
        sent_bits_per_second=_sum(sent),
        retransmits=None if again is None else int(sum(again)),
        loss_ratio=None if losses is None else _mean(losses, sent or [1.0] * len(losses)),
        jitter_ms=_largest(jitters),
        transactions_per_second=_sum(_each(found, lambda one: one.transactions_per_second)),
        round_trip_us=_round_trips(found),
        client_cpu_percent=cpu(_each(found, lambda one: one.client_cpu_percent)),
        server_cpu_percent=cpu(_each(found, lambda one: one.server_cpu_percent)),
    )


def _each(found: Sequence[Figures], get: Callable[[Figures], float | None]) -> list[float] | None:
    values = [get(one) for one in found]
    known = [value for value in values if value is not None]
    return known if known and len(known) == len(values) else None


def _sum(values: list[float] | None) -> float | None:
    return None if values is None else sum(values)


def _largest(values: list[float] | None) -> float | None:
    return None if values is None else max(values)


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    whole = sum(weights)
    pairs = zip(values, weights, strict=True)
    return sum(value * (weight / whole) for value, weight in pairs) if whole else max(values)


def _round_trips(found: Sequence[Figures]) -> dict[str, float]:
    merged = {}
    for name in found[0].round_trip_us:
        times = [one.round_trip_us[name] for one in found if name in one.round_trip_us]
        if len(times) != len(found):
            continue
        if name == "mean":
            merged[name] = _mean(times, [one.transactions_per_second or 0.0 for one in found])
        else:
            merged[name] = _ROUND_TRIP.get(name, max)(times)
    return merged
