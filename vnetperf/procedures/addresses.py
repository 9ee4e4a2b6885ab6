"""Address caching capacity and address learning rate, RFC 2889 sections 5.7 and 5.8.

The RFC sees flooding at a third port. Here two are enough, since a switch that learns sends no
frame back to where it came from: the tester's port 0 first sends from each of n addresses, so that
they are learned there, and then to each of them from the same port. A frame to an address that was
learned is dropped, being at home already; one to an address that was not is flooded and arrives at
port 1. What arrives is what was not learned.

All frames are of one series: frame i comes from address i and goes to address i +
`SPARE_ADDRESSES`. A trial sends the series from its beginning, so the first one learns and the
second one checks. The last `SPARE_ADDRESSES` frames go to addresses that nobody has: they must all
arrive where addresses are checked, which shows that the DUT floods at all and that no frame was
lost, which would be taken for one to an address that was learned. What an earlier and longer series
has left in the table would be taken for learned, so the DUT is made to forget before a shorter one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from math import sqrt
from typing import Any

from vnetperf.model.errors import NoResultError
from vnetperf.model.figures import Figure, figure
from vnetperf.model.outcomes import AddressTable
from vnetperf.model.parameters import (
    ADDRESSES_RESOLUTION,
    LEARNING_RESOLUTION,
    SPARE_ADDRESSES,
    Rfc2889Test,
)
from vnetperf.model.result import Result
from vnetperf.model.trial import EventSpec, TrialRequest, WhenLimited
from vnetperf.plugin.procedure import FrameTest, ProcedureInputs
from vnetperf.search import Procedure

#: Addresses that a search for the capacity begins with.
FIRST = 256
#: Addresses that the learning rate is measured with, at most.
LEARNED = 4096
#: And at the least: of fewer there is hardly a rate.
FEWEST = 64

#: Times a series is sent again of which something was left out or lost.
ATTEMPTS = 5

_LINK = EventSpec(what="link phy0", at_s=0.3, down_s=0.3)
#: A link that goes down makes a DUT forget; few frames, to addresses that are not checked.
_FORGET = TrialRequest(
    load_fps=50.0, duration_s=1.0, event=_LINK, histogram_up_to_loss=-1.0, when_limited="count"
)
#: Shows that frames pass again, and that nothing is known: to addresses that nobody has yet.
_PROBE = TrialRequest(
    load_fps=50.0, duration_s=1.0, histogram_up_to_loss=-1.0, when_limited="count"
)
#: Probes until they all arrive: a link needs a second or two to be taken for up.
PROBES = 5


class _Not(Enum):
    """Why a try has no result."""

    FORGOTTEN = "the DUT kept addresses that it should have forgotten, or does not flood"
    SENT = "the generator left out some of the series"
    ARRIVED = "some frames to addresses that nobody has were lost, and so may others have been"


@dataclass(frozen=True)
class _Tried:
    """Addresses that were sent and checked once."""

    addresses: int
    fps: float
    learned: bool
    trial: int

    @property
    def row(self) -> tuple[int, float, bool, int]:
        return self.addresses, self.fps, self.learned, self.trial


def address_caching(inputs: ProcedureInputs[Rfc2889Test]) -> Procedure[AddressTable]:
    """Find the largest number of addresses that are all learned: doubled, then halved."""
    test = inputs.parameters
    fps = min(test.learning_fps, inputs.ceiling_fps)
    tried: list[_Tried] = []
    most, too_many, note = 0, test.max_addresses + 1, ""
    while most < test.max_addresses:
        growing = too_many > test.max_addresses
        if not growing and too_many - most <= max(1.0, ADDRESSES_RESOLUTION * most):
            break
        if growing:
            count = min(test.max_addresses, max(FIRST, 2 * most))
            attempt = yield from _try(inputs, count, fps, learned_before=most)
        else:
            count = (most + too_many) // 2
            attempt = _Not.FORGOTTEN
        if isinstance(attempt, _Not):
            attempt = yield from _forget_and_try(inputs, count, fps)
        if attempt is _Not.FORGOTTEN and tried:
            note = (
                f"fewer than {too_many}, and no nearer: the DUT keeps addresses; set "
                "rfc2889.ageing_s to the time after which it forgets"
            )
            break
        if isinstance(attempt, _Not):
            raise _no_result(inputs, attempt)
        tried.append(attempt)
        most, too_many = (count, too_many) if attempt.learned else (most, count)
    capped = most == test.max_addresses
    return AddressTable(
        addresses=most,
        learning_fps=fps,
        tried=tuple(attempt.row for attempt in tried),
        capped=capped,
        note="more were not tried: rfc2889.max_addresses" if capped else note,
    )


def address_learning(inputs: ProcedureInputs[Rfc2889Test]) -> Procedure[AddressTable]:
    """Find the highest rate at which addresses are all learned.

    Where even the slowest rate is too fast there may be no room: half as many are tried then.
    """
    test = inputs.parameters
    most = count = min(test.max_addresses, LEARNED)
    slow, fast = min(test.learning_fps, inputs.ceiling_fps), inputs.ceiling_fps
    tried: list[_Tried] = []
    low, high, fps, of_tester = 0.0, fast, slow, True
    while True:
        attempt = yield from _forget_and_try(inputs, count, fps)
        if isinstance(attempt, _Not) and (attempt is not _Not.SENT or not low):
            raise _no_result(inputs, attempt)
        if isinstance(attempt, _Not):
            high, of_tester = fps, True
        else:
            tried.append(attempt)
            if not (low or attempt.learned):
                count = _half(inputs, count, slow)
                continue
            low, high = (fps, high) if attempt.learned else (low, fps)
            of_tester = of_tester and attempt.learned
        if high <= low * (1 + LEARNING_RESOLUTION):
            break
        fps = fast if fps == slow else sqrt(low * high)
    notes = [f"between trials the DUT forgot by {_describe_forgetting(test)}"]
    if count < most:
        notes.insert(0, f"of {count} addresses: twice as many were not all learned at {slow:g}/s")
    if of_tester:
        notes.insert(0, "faster could not be offered")
    return AddressTable(
        addresses=count,
        learning_fps=low,
        tried=tuple(attempt.row for attempt in tried),
        capped=of_tester,
        note="; ".join(notes),
    )


def _half(inputs: ProcedureInputs[Rfc2889Test], count: int, fps: float) -> int:
    """Half of a number of addresses that were not all learned at the slowest rate."""
    if count // 2 < FEWEST:
        raise NoResultError(
            f"not even {count} addresses were all learned at {fps:g} frames/s, the slowest rate "
            "tried: the DUT has no room for them, or is slower",
            where=f"{inputs.frame_size} octets",
            cure="set rfc2889.learning_fps lower in the preset",
        )
    return count // 2


def forgetting(parameters: Rfc2889Test) -> tuple[TrialRequest, ...]:
    """The trial by which the DUT is made to forget; none where waiting does it."""
    return () if parameters.ageing_s else (_FORGET,)


def _describe_forgetting(test: Rfc2889Test) -> str:
    return f"{test.ageing_s:g} s of waiting" if test.ageing_s else "its first port going down"


def _no_result(inputs: ProcedureInputs[Rfc2889Test], reason: _Not) -> NoResultError:
    kept = reason is _Not.FORGOTTEN
    after = (
        f" after {_describe_forgetting(inputs.parameters)}"
        if kept
        else f" in each of {ATTEMPTS} attempts"
    )
    return NoResultError(
        f"{reason.value}{after}",
        where=f"{inputs.frame_size} octets",
        cure="set rfc2889.ageing_s in the preset to the time after which it forgets"
        if kept
        else "set rfc2889.learning_fps lower, or give the tester a core of its own",
    )


def _forget_and_try(
    inputs: ProcedureInputs[Rfc2889Test], count: int, fps: float
) -> Procedure[_Tried | _Not]:
    """Make the DUT forget, then learn at a rate; again when something was left out or lost."""
    waited = _FORGET.model_copy(
        update={"event": None, "idle_s": inputs.parameters.ageing_s},
    )
    forget = next(iter(forgetting(inputs.parameters)), waited)
    attempt: _Tried | _Not = _Not.SENT
    for _ in range(ATTEMPTS):
        yield forget
        if not (yield from _passes()):
            return _Not.FORGOTTEN
        attempt = yield from _try(inputs, count, fps, learned_before=0)
        if attempt not in (_Not.SENT, _Not.ARRIVED):
            break
    return attempt


def _passes() -> Procedure[bool]:
    for _ in range(PROBES):
        outcome = yield _PROBE
        if outcome.result.received == sum(counts.sent for counts in outcome.result.directions):
            return True
    return False


def _try(
    inputs: ProcedureInputs[Rfc2889Test], count: int, fps: float, *, learned_before: int
) -> Procedure[_Tried | _Not]:
    """Learn at one rate, check at the preset's or a slower one.

    `learned_before` addresses are in the table already; the switch floods the others until it
    learns them.
    """
    slow = min(fps, inputs.parameters.learning_fps)
    learning = yield _series(count, fps, when_limited="count")
    if any(counts.sent < counts.intended for counts in learning.result.directions):
        return _Not.SENT
    # At a high rate some may be lost, which shows nothing of what is known.
    if fps == slow and learning.result.received < count - learned_before + SPARE_ADDRESSES // 2:
        return _Not.FORGOTTEN
    checked = yield _series(count, slow)
    if checked.is_short:
        return _Not.SENT
    arrived = checked.result.received
    if arrived < SPARE_ADDRESSES // 2:
        raise NoResultError(
            f"of {SPARE_ADDRESSES} frames to addresses that nobody has {arrived} arrived: the DUT "
            "does not flood, so that what it has learned cannot be told",
            where=f"{inputs.frame_size} octets, trial {checked.number}",
            cure="measure a switch that learns, with --rules learning",
        )
    if arrived < SPARE_ADDRESSES:
        return _Not.ARRIVED
    return _Tried(count, fps, arrived == SPARE_ADDRESSES, checked.number)


def _series(count: int, fps: float, when_limited: WhenLimited = "fail") -> TrialRequest:
    return TrialRequest(
        load_fps=fps,
        duration_s=(count + SPARE_ADDRESSES) / fps,
        histogram_up_to_loss=-1.0,
        when_limited=when_limited,
    )


def _list_figures(result: Result, table: AddressTable) -> Iterator[Figure]:
    about: dict[str, Any] = {
        "qualifiers": ("at least",) if table.capped else (),
        "note": table.note,
    }
    learning, label = result.test == "address_learning", "learning rate"
    count = float(table.addresses)
    about["resolution"] = max(1.0, count * ADDRESSES_RESOLUTION)
    yield figure("addresses", "addresses", count, more="addresses", main=not learning, **about)
    # The caching test was given its rate.
    about["resolution"] = (table.learning_fps or 0.0) * LEARNING_RESOLUTION * learning
    yield figure("learning_rate", "fps", table.learning_fps, more=label, main=learning, **about)
    yield figure("capped", "", table.capped)


class AddressCachingProcedure(FrameTest):
    """Address caching capacity, RFC 2889 section 5.7."""

    name = "address_caching"
    run = staticmethod(address_caching)
    list_figures = staticmethod(_list_figures)
    section = "rfc2889"
    fills = "addresses"
    later = staticmethod(forgetting)


class AddressLearningProcedure(FrameTest):
    """Address learning rate, RFC 2889 section 5.8."""

    name = "address_learning"
    run = staticmethod(address_learning)
    list_figures = staticmethod(_list_figures)
    section = "rfc2889"
    fills = "addresses"
    later = staticmethod(forgetting)
