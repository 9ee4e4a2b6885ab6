"""Lets busy threads take turns on shared cores: short slices, and who goes first."""

from __future__ import annotations

from vnetperf.host import sched
from vnetperf.model.plan import Pollers

#: Niceness of pollers on shared cores: they go before whatever else the machine does, and the
#: tester before the DUT, so that a shortage shows as the DUT's loss and not as a load not offered.
SHARED_NICE, TESTER_NICE = -10, -15


def prefer(pollers: tuple[Pollers, ...], slice_us: int) -> dict[str, str]:
    """Set slice and niceness of every thread of the pollers' processes.

    Nothing is lasting: it ends with the processes.

    Args:
        pollers: The busy threads.
        slice_us: EEVDF slice, microseconds; 0 leaves the kernel's own.

    Returns:
        Role -> what the threads took, read back.
    """
    taken = {}
    for poller in pollers:
        nice = TESTER_NICE if poller.role == "tester" else SHARED_NICE
        # Apart from each other: who may not be preferred can still have short turns.
        preferred = sched.set_nice(poller.pid, nice).describe()
        described = (
            sched.set_slice(poller.pid, slice_us * 1000).describe()
            if slice_us
            else "the kernel's own slices"
        )
        group = sched.favour(poller.pid, nice)
        taken[poller.role] = f"{described}, {preferred} (session: {group})"
    return taken
