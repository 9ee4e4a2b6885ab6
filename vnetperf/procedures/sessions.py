"""Sessions of a NAT or a load balancer, RFC 9693: how fast made and ended, and how many it holds.

Each trial begins with an empty table and sends one frame of each of a number of sessions, from
inside. A session is there when its frame came out with the address and port of its binding, and
when at the end the table holds as many sessions as were sent. So what a full table makes room for
by forgetting others counts as not held; what ends by a timer while others are made would too, so
that no trial lasts as long. Frames that the generator left out count neither way: the
rate is of those that were sent, over the time that they took where they left late.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, sqrt
from statistics import median
from typing import Any

from vnetperf.model.errors import NoResultError
from vnetperf.model.figures import Figure, figure
from vnetperf.model.machine_load import MachineLoad
from vnetperf.model.outcomes import SessionsTried, SessionTable
from vnetperf.model.parameters import SessionTest
from vnetperf.model.result import Result
from vnetperf.model.trial import NUMBER_SHORTFALL, TrialRequest, TrialResult
from vnetperf.plugin.procedure import FrameTest, ProcedureInputs
from vnetperf.search import Procedure

#: Sessions that the search for the capacity begins with.
FIRST = 1024
#: Where the search for the capacity ends: relative distance of what is held and what is not.
RESOLUTION = 0.01
#: Share of the frames that the generator may leave out of a trial: on a machine that has other work
#: it is held up at any rate, and the slower the trial the more often.
LEFT_OUT = NUMBER_SHORTFALL
#: Trials at most where it left out more, or where not all were made on a busy machine: whose NAT
#: has no processor for the 4 ms in which 500,000 frames/s fill a ring refuses some at any rate.
ATTEMPTS = 3
#: What makes a machine busy: share of a processor that a hypervisor took, and runnable threads
#: beside those of the deployment. They are small, since one more trial costs little. A log is read
#: by the rule that it was written by.
BUSY_STEAL, BUSY_LOAD = 0.01, 1.0
#: From the last frame of a trial until its sessions have been counted, at most, seconds.
COUNTED_S = 5.0
#: Sessions from which on a rate is the NAT's: twenty rings of a memif wire, whose frames are made
#: into sessions after the last was sent.
SESSIONS_OF_RATE = 20 * 2048


@dataclass(frozen=True)
class _Try:
    """Sessions made at a rate: whether the generator kept up."""

    row: SessionsTried  # Of the last trial of the rate
    #: Frames/s of those that were sent, in the time that was requested: what a search goes by, so
    #: that its steps do not depend on how late frames were.
    in_time_per_s: float
    sent: bool  # Whether the generator offered them all
    again: int  # Trials of the rate before that one
    #: Before each trial of the rate: sessions of the one before, and sessions/s at which they were
    #: taken away.
    emptied: tuple[tuple[int, float], ...]


def connection_rate(inputs: ProcedureInputs[SessionTest]) -> Procedure[SessionTable]:
    """Find the highest rate at which all sessions are made, several times."""
    test, count = inputs.parameters, _sessions(inputs)
    rates, at_most, tries = list[float](), list[float](), list[_Try]()
    for _ in range(test.searches):
        rate, of_tester = yield from _search_rate(inputs, count, tries)
        rates.append(rate)
        at_most.append(inf if of_tester else rate)
    rate = median(rates)
    # What the generator limited may be faster: the median is exact where that does not move it.
    capped = bool(rate) and median(at_most) > rate
    return SessionTable(
        sessions=count,
        rate_per_s=rate,
        rates=tuple(rates),
        tried=tuple(attempt.row for attempt in tries),
        ended_per_s=_ended(tries, count),
        capped=capped,
        note="; ".join(_describe_rate(count, rate, tries, capped=capped)),
    )


def session_capacity(inputs: ProcedureInputs[SessionTest]) -> Procedure[SessionTable]:
    """Find the largest number of sessions that are all held: doubled, then halved."""
    test, sessions = inputs.parameters, _sessions(inputs)
    fps, tries = min(test.filling_fps, inputs.ceiling_fps), list[_Try]()
    _require_outlived(inputs, min(sessions, FIRST), fps)
    of_all = min(sessions, _most_outlived(inputs, fps))
    most, too_many, most_held = 0, of_all + 1, 0
    # As long as none was too many, nothing limits the table: then all are tried.
    while most < of_all and (
        (grows := too_many > of_all) or too_many - most > max(1.0, RESOLUTION * most)
    ):
        count = min(of_all, max(FIRST, 2 * most)) if grows else (most + too_many) // 2
        attempt = yield from _try(inputs, count, fps)
        if not attempt.sent:
            raise NoResultError(
                f"the generator left out more than {100 * LEFT_OUT:g} % of {count} sessions in "
                f"each of {ATTEMPTS} attempts",
                where=f"{inputs.frame_size} octets",
                cure="set nat.filling_fps lower, or give the tester a core of its own",
            )
        tries.append(attempt)
        if attempt.row.made:
            most, most_held = count, max(most_held, attempt.row.sessions)
        else:
            too_many = count
    capped, note = most == of_all, "more sessions were not tried: --nat or --lb"
    if of_all < sessions:
        note = (
            f"of more sessions, made {fps:.0f} a second, the first end by their timer before the "
            "last is made: nat.filling_fps, or --set udp_timeout=..."
        )
    return SessionTable(
        sessions=most_held,
        rate_per_s=fps,
        tried=tuple(attempt.row for attempt in tries),
        ended_per_s=_ended(tries, most_held),
        capped=capped,
        note=note if capped else "",
    )


def _describe_rate(
    count: int, rate: float, tries: Sequence[_Try], *, capped: bool
) -> Iterator[str]:
    if not rate:
        yield "not all sessions were made at the slowest rate tried"
    if capped:
        yield "faster could not be offered"
    if again := sum(attempt.again for attempt in tries):
        yield f"{again} trials made again: frames were left out, or the machine was disturbed"
    if count < SESSIONS_OF_RATE:
        yield (
            f"of {count} sessions a good part fits the rings of the wires: their frames may come "
            f"out after the trial has sent all, so the rate is too high; {SESSIONS_OF_RATE} or more"
        )


def _sessions(inputs: ProcedureInputs[SessionTest]) -> int:
    if not inputs.sessions:
        raise NoResultError(
            "the vSwitch is no NAT and balances no services: it holds no sessions",
            where=f"{inputs.frame_size} octets",
            cure="measure a vSwitch that translates, e.g. -k phy2phy_cgnat, or -k phy2phy_lb",
        )
    return inputs.sessions


def _outlives_fps(inputs: ProcedureInputs[SessionTest], count: int) -> float:
    """The slowest rate at which the first session is there when the last has been made."""
    if inputs.session_timeout_s is None:
        return 0.0
    left_s = inputs.session_timeout_s - COUNTED_S
    return count / left_s if left_s > 0 else inf


def _most_outlived(inputs: ProcedureInputs[SessionTest], fps: float) -> int:
    """The largest number of sessions of which the first is there when the last has been made."""
    if inputs.session_timeout_s is None:
        return sys.maxsize
    return max(0, floor(fps * (inputs.session_timeout_s - COUNTED_S)))


def _require_outlived(inputs: ProcedureInputs[SessionTest], count: int, fps: float) -> None:
    """Refuse to make sessions of which the first have ended before the last is there."""
    if fps < (slowest := _outlives_fps(inputs, count)):
        faster = "set nat.filling_fps higher, " if fps < inputs.ceiling_fps else ""
        raise NoResultError(
            f"{count} sessions at {fps:.0f} a second are made in {count / fps:.0f} s, and the "
            f"first ends by its timer after {inputs.session_timeout_s:g} s",
            where=f"{inputs.frame_size} octets",
            accepted="" if slowest == inf else f"{ceil(slowest)} sessions a second, or faster",
            cure=f"{faster}choose fewer sessions, or a longer timer (--set udp_timeout=...)",
        )


def _ended(tries: list[_Try], count: int) -> float | None:
    """Median of the rates at which a table with most of the sessions was emptied."""
    rates = [rate for attempt in tries for ended, rate in attempt.emptied if ended >= count / 2]
    return median(rates) if rates else None


def _search_rate(
    inputs: ProcedureInputs[SessionTest], count: int, tries: list[_Try]
) -> Procedure[tuple[float, bool]]:
    """The highest rate of one search; whether the generator was its limit."""
    test = inputs.parameters
    low, high, of_tester, rising = 0.0, inputs.ceiling_fps, True, True
    best = 0.0
    fps = min(test.filling_fps, inputs.ceiling_fps)
    _require_outlived(inputs, count, fps)
    slowest = max(inputs.min_load_fps, _outlives_fps(inputs, count))
    while True:
        attempt = yield from _try(inputs, count, fps)
        tries.append(attempt)
        # What was sent was sent at a rate of its own, which is evidence of the NAT even where the
        # generator left some out. It is the limit where more is requested and not more is sent.
        threshold = low if attempt.sent else low * (1 + test.resolution)
        if attempt.row.made and attempt.in_time_per_s > threshold:
            low, best = attempt.in_time_per_s, max(best, attempt.row.rate_per_s)
        else:
            high, of_tester, rising = max(low, fps), attempt.row.made, False
        if (low and high <= low * (1 + test.resolution)) or high <= slowest:
            return best, of_tester
        if low and rising:
            fps = min(high, 2 * fps)
        else:
            fps = sqrt(low * high) if low else max(slowest, high / 4)


def _was_busy(result: TrialResult) -> bool:
    """Whether the NAT may have lacked a processor for a while."""
    return bool(result.disturbed_by(inf)) or any(map(_is_busy, result.hosts.values()))


def _is_busy(machine: MachineLoad) -> bool:
    usual = max(machine.busy_threads, machine.processors) + BUSY_LOAD
    return (machine.steal or 0.0) > BUSY_STEAL or (machine.load_average or 0.0) > usual


def _try(inputs: ProcedureInputs[SessionTest], count: int, fps: float) -> Procedure[_Try]:
    """Make so many sessions from none at a rate; again when that says nothing of the NAT."""
    request = TrialRequest(
        load_fps=fps,
        duration_s=count / fps,
        new_sessions=True,
        histogram_up_to_loss=-1.0,
        when_limited="count",
    )
    emptied = list[tuple[int, float]]()
    again = -1
    while True:
        again += 1
        outcome = yield request
        sessions = outcome.result.sessions
        if sessions is None:
            raise NoResultError(
                "the vSwitch does not count its sessions", where=f"trial {outcome.number}"
            )
        counts = outcome.result.directions[0]
        offered = outcome.result.offered(counts)
        sent = offered >= counts.intended * (1 - LEFT_OUT)
        in_time = fps * offered / count
        took_s = counts.tx_seconds
        row = SessionsTried(
            sessions=offered,
            rate_per_s=min(in_time, offered / took_s) if took_s else in_time,
            made=0 < offered <= min(counts.received, sessions.held),
            came=counts.received,
            held=sessions.held,
            trial=outcome.number,
        )
        if sessions.ended_s:
            emptied.append((sessions.ended, sessions.ended / sessions.ended_s))
        says = sent and (row.made or not _was_busy(outcome.result))
        if says or again + 1 == ATTEMPTS:
            return _Try(row, in_time, sent, again, tuple(emptied))


def _list_figures(result: Result, session_table: SessionTable) -> Iterator[Figure]:
    about: dict[str, Any] = {
        "qualifiers": ("at least",) if session_table.capped else (),
        "note": session_table.note,
    }
    rate, count = result.test == "connection_rate", float(session_table.sessions)
    label = "connection establishment rate"
    yield figure("sessions", "sessions", count, more="sessions", main=not rate, **about)
    about["resolution"] = result.test_inputs.get("resolution", 0.0) * (
        session_table.rate_per_s or 0.0
    )
    yield figure("connection_rate", "1/s", session_table.rate_per_s, more=label, main=rate, **about)
    reason, label = "no time of ending sessions was recorded", "connection tear-down rate"
    yield figure("tear_down_rate", "1/s", session_table.ended_per_s, more=label, why=reason)
    yield figure("capped", "", session_table.capped)


class ConnectionRateProcedure(FrameTest):
    """Connection establishment rate of a NAT, RFC 9693."""

    name = "connection_rate"
    run = staticmethod(connection_rate)
    list_figures = staticmethod(_list_figures)
    section = "nat"
    fills = "sessions"


class SessionCapacityProcedure(FrameTest):
    """Sessions that a NAT holds, RFC 9693."""

    name = "session_capacity"
    run = staticmethod(session_capacity)
    list_figures = staticmethod(_list_figures)
    section = "nat"
    fills = "sessions"
