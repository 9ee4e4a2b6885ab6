"""Address caching capacity and address learning rate, RFC 2889 sections 5.7 and 5.8.

The RFC sees flooding at a third port. Here two are enough, since a switch that learns sends no
frame back to where it came from: the tester's port 0 first sends from each of n addresses, so that
they are learned there, and then to each of them from the same port. A frame to an address that was
learned is dropped, being at home already; one to an address that was not is flooded and arrives at
port 1. What arrives is what was not learned.

All frames are of one series: frame i comes from address i and goes to address i + `SPARE`. A trial
sends the series from its beginning, so the first one learns and the second one checks. The last
`SPARE` frames go to addresses that nobody has: they must arrive in every trial, which shows that
the DUT floods at all and that the way is free.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from math import sqrt

from vnetperf.model.errors import NoResultError
from vnetperf.model.outcomes import AddressTable
from vnetperf.model.procedures import Rfc2889Test
from vnetperf.model.trial import EventSpec
from vnetperf.procedures.base import Ask, Inputs, Procedure, Seen

#: Frames of a series to addresses that nobody has. A path check must not reach beyond them.
SPARE = 64
#: Addresses that a search for the capacity begins with.
FIRST = 256
#: Addresses that the learning rate is measured with, at most.
LEARNED = 4096
#: Where a search ends: relative distance of what was learned and what was not.
RESOLUTION = 0.01
RATE_RESOLUTION = 0.1

_LINK = EventSpec(what="link phy0", at_s=0.3, down_s=0.3)
#: A link that goes down makes a DUT forget; few frames, to addresses that are not checked.
_FORGET = Ask(load_fps=50.0, duration_s=1.0, event=_LINK, histogram_up_to_loss=-1.0)


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


def address_caching(inputs: Inputs[Rfc2889Test]) -> Procedure[AddressTable]:
    """Find the largest number of addresses that are all learned: doubled, then halved.

    Args:
        inputs: What it is given.

    Returns:
        The number, within a hundredth.

    Raises:
        NoResultError: The DUT does not flood what it has not learned.
    """  # noqa: DOC405
    asked = inputs.parameters
    fps = min(asked.learning_fps, inputs.ceiling_fps)
    tried: list[_Tried] = []
    most, too_many = 0, asked.max_addresses + 1
    while too_many - most > max(1.0, RESOLUTION * most):
        count = min(asked.max_addresses, max(FIRST, 2 * most))
        if too_many <= asked.max_addresses:
            count = (most + too_many) // 2
        one = yield from _try(inputs, count, fps, fps)
        tried.append(one)
        most, too_many = (count, too_many) if one.learned else (most, count)
    capped = most == asked.max_addresses
    return AddressTable(
        addresses=most,
        learning_fps=fps,
        tried=tuple(one.row for one in tried),
        capped=capped,
        note="more were not tried: rfc2889.max_addresses" if capped else "",
    )


def address_learning(inputs: Inputs[Rfc2889Test]) -> Procedure[AddressTable]:
    """Find the highest rate at which addresses are all learned.

    Args:
        inputs: What it is given.

    Returns:
        The rate, within a tenth.

    Raises:
        NoResultError: The DUT does not flood what it has not learned, or cannot be made to forget.
    """  # noqa: DOC405
    asked = inputs.parameters
    count = min(asked.max_addresses, LEARNED)
    slow, fast = min(asked.learning_fps, inputs.ceiling_fps), inputs.ceiling_fps
    tried = [(yield from _anew(inputs, count, slow))]
    low, high = (slow, fast) if tried[0].learned else (0.0, slow)
    if low and fast > slow:
        tried.append((yield from _anew(inputs, count, fast)))
        low, high = (fast, fast) if tried[-1].learned else (slow, fast)
    while low and high > low * (1 + RATE_RESOLUTION):
        tried.append((yield from _anew(inputs, count, sqrt(low * high))))
        low, high = (tried[-1].fps, high) if tried[-1].learned else (low, tried[-1].fps)
    notes = []
    if not low:
        notes.append(f"not all were learned at {slow:g} frames/s, the slowest rate tried")
    elif low == fast:
        notes.append("faster could not be offered")
    how = f"{asked.ageing_s:g} s of waiting" if asked.ageing_s else "its first port going down"
    return AddressTable(
        addresses=count,
        learning_fps=low,
        tried=tuple(one.row for one in tried),
        capped=low == fast,
        note="; ".join((*notes, f"between trials the DUT forgot by {how}")),
    )


def _anew(inputs: Inputs[Rfc2889Test], count: int, fps: float) -> Generator[Ask, Seen, _Tried]:
    """Make the DUT forget, then learn at a rate."""
    if not inputs.parameters.ageing_s:
        yield _FORGET
    return (yield from _try(inputs, count, fps, min(fps, inputs.parameters.learning_fps), new=True))


def _try(
    inputs: Inputs[Rfc2889Test], count: int, fps: float, check_fps: float, *, new: bool = False
) -> Generator[Ask, Seen, _Tried]:
    """Learn at one rate, check at another one."""
    learning = yield _series(count, fps)
    arrived = _arrived(learning)
    if new and fps == check_fps and arrived < count // 2:
        raise NoResultError(
            f"the DUT still knew {count + SPARE - arrived} of {count} addresses that it should "
            "have forgotten",
            where=f"{inputs.frame_size} octets",
            cure="set rfc2889.ageing_s in the preset to the time after which it forgets",
        )
    checked = yield _series(count, check_fps, idle_s=inputs.parameters.ageing_s if new else 0.0)
    arrived = _arrived(checked)
    if arrived < SPARE // 2:
        raise NoResultError(
            f"of {SPARE} frames to addresses that nobody has {arrived} arrived: the DUT does not "
            "flood, so that what it has learned cannot be told",
            where=f"{inputs.frame_size} octets, trial {checked.number}",
            cure="measure a switch that learns, with --rules learning",
        )
    return _Tried(count, fps, arrived <= SPARE, checked.number)


def _series(count: int, fps: float, idle_s: float = 0.0) -> Ask:
    frames = count + SPARE
    return Ask(
        load_fps=fps,
        duration_s=frames / fps,
        histogram_up_to_loss=-1.0,
        idle_s=idle_s,
        when_limited="lower",
    )


def _arrived(seen: Seen) -> int:
    return sum(counts.received for counts in seen.result.directions)
