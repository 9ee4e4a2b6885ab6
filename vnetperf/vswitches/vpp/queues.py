"""Receive queues: which worker polls which, and whether it polls or waits for interrupts.

VPP forgets both whenever a port's peer connects anew, so they are set after each connect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from vnetperf.model.options import QueuePin
from vnetperf.vswitches.vpp.api import VppApi
from vnetperf.vswitches.vpp.ports import Interface

RxMode = Literal["polling", "interrupt", "adaptive"]
#: Answers for a port whose peer does not tell when it has sent, or has not connected yet.
NO_INTERRUPTS = (-9, -126)
RX_MODES: dict[int, RxMode] = {1: "polling", 2: "interrupt", 3: "adaptive"}
#: Kinds of interface that wake a worker once and not again for what one vector left in the ring: up
#: to a ring of frames then lies there until its peer sends more.
STRANDING = ("memif", "vhost-user")


class Queue(NamedTuple):
    """A receive queue as VPP has it.

    Attributes:
        interface: Number of its interface.
        queue: Number of the queue.
        worker: 0-based number of the worker that polls it; -1 for the main thread.
        mode: Number of its mode, a key of RX_MODES.
    """

    interface: int
    queue: int
    worker: int
    mode: int


def read(api: VppApi, interface: Interface) -> list[Queue]:
    """Receive queues of an interface; none before its peer has connected.

    Args:
        api: The running VPP.
        interface: The interface.

    Returns:
        Queues in order. VPP's dump counts threads, the main thread being 0; its messages that set
        a place count workers.
    """
    found = api.call("sw_interface_rx_placement_dump", sw_if_index=interface.index)
    queues = [
        Queue(int(d.sw_if_index), int(d.queue_id), int(d.worker_id) - 1, int(d.mode)) for d in found
    ]
    return sorted(q for q in queues if q.interface == interface.index)


def wanted(
    queues: Sequence[tuple[Interface, Queue]], workers: int, pins: Sequence[QueuePin]
) -> dict[tuple[int, int], int]:
    """Which worker is to poll which queue: pinned ones as asked, the others in turn.

    Args:
        queues: Every queue with its interface, in the order of the deployment's ports.
        workers: Number of workers.
        pins: What is asked.

    Returns:
        (Interface, queue) -> 0-based worker; empty without workers.
    """
    if not workers:
        return {}
    pinned = {(pin.port, pin.queue): pin.worker for pin in pins}
    places: dict[tuple[int, int], int] = {}
    turn = 0
    for interface, queue in queues:
        worker = pinned.get((str(interface.port), queue.queue))
        if worker is None:
            worker, turn = turn % workers, turn + 1
        places[(queue.interface, queue.queue)] = worker
    return places


def mode_of(interface: Interface, mode: RxMode) -> RxMode:
    """How the queues of an interface are to be served.

    Args:
        interface: The interface.
        mode: The worker's wish.

    Returns:
        The wish; "polling" where anything else would leave frames lying.
    """
    return "polling" if interface.kind in STRANDING else mode


def arrange(
    api: VppApi,
    interfaces: Sequence[Interface],
    *,
    workers: int,
    pins: Sequence[QueuePin],
    mode: RxMode,
) -> None:
    """Put every queue where it belongs, as far as it is there and elsewhere.

    Args:
        api: The running VPP.
        interfaces: All interfaces, in the order of the deployment's ports.
        workers: Number of workers.
        pins: What is asked.
        mode: How queues are to be served where frames are not left lying.

    Raises:
        DutError: VPP refuses.
    """
    queues = [(interface, queue) for interface in interfaces for queue in read(api, interface)]
    places = wanted(queues, workers, pins)
    for _, queue in queues:
        worker = places.get((queue.interface, queue.queue))
        if worker is not None and worker != queue.worker:
            api.call(
                "sw_interface_set_rx_placement",
                sw_if_index=queue.interface,
                queue_id=queue.queue,
                worker_id=worker,
                is_main=False,
            )
    numbers = {name: number for number, name in RX_MODES.items()}
    modes = {i: mode_of(i, mode) for i, queue in queues if queue.mode != numbers[mode_of(i, mode)]}
    for interface, chosen in modes.items():
        api.call(
            "sw_interface_set_rx_mode",
            sw_if_index=interface.index,
            queue_id_valid=False,
            queue_id=0,
            mode=numbers[chosen],
            tolerated=() if chosen == "polling" else NO_INTERRUPTS,  # it goes on polling then
        )


def describe(api: VppApi, interfaces: Sequence[Interface]) -> list[dict[str, Any]]:
    """Effective queues, read back.

    Args:
        api: The running VPP.
        interfaces: All interfaces.

    Returns:
        One entry per queue, as JSON values.
    """
    return [
        {
            "port": str(interface.port),
            "queue": queue.queue,
            "worker": queue.worker if queue.worker >= 0 else "main thread",
            "rx mode": RX_MODES.get(queue.mode, str(queue.mode)),
        }
        for interface in interfaces
        for queue in read(api, interface)
    ]
