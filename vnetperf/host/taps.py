"""Tap devices that live without a program: a switch has one side, a VNF opens the other."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from vnetperf.host import links
from vnetperf.host.journal import Change, Journal
from vnetperf.host.netns import run_in
from vnetperf.model.errors import HostError

DEVICE = Path("/dev/net/tun")
TUNSETIFF, TUNSETPERSIST = 0x400454CA, 0x400454CB
IFF_TAP, IFF_MULTI_QUEUE, IFF_NO_PI = 0x0002, 0x0100, 0x1000


def create_tap(
    journal: Journal, name: str, *, netns: Path | None = None, multi_queue: bool = True
) -> Change:
    """Create a persistent tap device; it is down, and nobody has it open.

    Whoever opens it must ask for IFF_MULTI_QUEUE exactly when it was made so, as DPDK's tap driver
    always does; the kernel answers "Invalid argument" otherwise.

    Args:
        journal: The run's journal; undoing deletes the device.
        name: Interface name, not in use.
        netns: Namespace to create it in; None is the caller's.
        multi_queue: It may be opened several times, once for each queue.

    Returns:
        Handle to undo it before the run ends.

    Raises:
        HostError: The name is taken or too long, or the kernel refused.
    """
    links.must_be_new(name, netns)
    flags = IFF_TAP | IFF_NO_PI | (IFF_MULTI_QUEUE if multi_queue else 0)

    def make() -> None:
        try:
            device = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise HostError(
                f"cannot be opened: {error.strerror}",
                where=str(DEVICE),
                cure="load the module tun (modprobe tun) and run as root",
            ) from error
        try:
            fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
            fcntl.ioctl(device, TUNSETPERSIST, 1)
        except OSError as error:
            raise HostError(
                f"the kernel refused to make the tap device: {error.strerror}",
                where=f"link {name}",
                cure="run as root, with a name that nothing else has",
            ) from error
        finally:
            os.close(device)

    # The kernel calls the kind of a tap's link "tun".
    data = {"ends": [[name, str(netns) if netns else None]], "kind": "tun"}
    with journal.changing("link", f"create tap {name}", data) as change:
        run_in(netns, make)
    return change
