"""Kernel interfaces of PCI devices, lent to a run: moved into its namespace, or gone with a driver.

An interface is put back by its device, since neither its name nor its place can be relied upon: a
driver that is bound anew makes a new interface, and the kernel sends the interfaces of a namespace
that ends back to the first one, down.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from vnetperf.host import links, netdev_state, offloads, pci
from vnetperf.host.journal import Change, Journal
from vnetperf.host.netdev_state import PROMISCUOUS, UP, request
from vnetperf.host.netns import run_in
from vnetperf.host.patience import patient
from vnetperf.host.undo import Data
from vnetperf.model.errors import HostError

#: Longest wait for the interface of a driver that was just bound, seconds.
APPEARS_S = 10.0
OWN_NETNS = Path("/proc/thread-self/ns/net")


def keep(journal: Journal, address: str, *, netns: Path | None = None) -> Change | None:
    """Write down the interface of a device before it is moved, changed, or lost to a driver.

    Args:
        journal: The run's journal; undoing puts the interface back as it was.
        address: PCI address.
        netns: Namespace that it will be moved to, if any.

    Returns:
        Handle to undo it before the run ends; None when the device has no interface here.

    Raises:
        HostError: No such device, or the journal cannot be written.
    """
    name = interface_of(address)
    if not name:
        return None
    data = {"pci": address, "netns": str(netns) if netns else "", **netdev_state.read(name)}
    return journal.intend("netdev", f"interface {name} of {address}", data)


def interface_of(address: str, *, wait_s: float = 0.0) -> str:
    """The interface of a device in the caller's namespace.

    Args:
        address: PCI address.
        wait_s: Longest wait for it, seconds.

    Returns:
        Its name; "" when there is none.

    Raises:
        HostError: No such device.
    """
    deadline = time.monotonic() + wait_s
    while True:
        names = pci.nic(address).interfaces
        if names or time.monotonic() >= deadline:
            return names[0] if names else ""
        time.sleep(0.02)


def move(address: str, netns: Path, *, name: str = "") -> str:
    """Move the interface of a device into a namespace; the caller has written it down.

    Args:
        address: PCI address.
        netns: Where to.
        name: New name; "" keeps it.

    Returns:
        Its name there.

    Raises:
        HostError: The driver made no interface in time, or the kernel refuses.
    """
    # udev may rename an interface while we look: the index stays.
    deadline = time.monotonic() + patient(APPEARS_S)
    while True:
        here = interface_of(address, wait_s=max(0.0, deadline - time.monotonic()))
        link = links.find(here) if here else None
        if link is not None:
            break
        if time.monotonic() >= deadline:
            raise HostError(
                f"its driver {pci.nic(address).driver or '(none)'} made no network interface "
                f"within {patient(APPEARS_S):.0f} s",
                where=address,
                cure="see dmesg for what the driver says of the device",
            )
    with netns.open("rb") as target:
        request("set", index=link.index, flags=0, change=UP)
        request("set", index=link.index, net_ns_fd=target.fileno(), ifname=name or link.name)
    return name or link.name


def prepare(
    name: str, *, netns: Path, mtu: int, promiscuous: bool, mac: str = "", offload: bool = False
) -> None:
    """Make an interface in a run's namespace carry test frames and nothing else, and bring it up.

    Args:
        name: Interface name.
        netns: Its namespace.
        mtu: MTU, octets.
        promiscuous: Take frames for all addresses.
        mac: MAC address; "" leaves it.
        offload: True leaves checksum and segmentation offloads on.

    Raises:
        HostError: The driver refuses.
    """
    if mac and links.get(name, netns).mac != mac:
        links.set_address(name, mac, netns=netns)
    if links.get(name, netns).mtu != mtu:
        try:
            links.set_mtu(name, mtu, netns=netns)
        except HostError as error:
            raise HostError(
                f"the driver refuses an MTU of {mtu}: {error.what}",
                where=f"link {name}",
                cure="measure smaller frames, or leave mtu out of the options",
            ) from error
    if not offload:
        offloads.disable_offloads(name, netns=netns)
    links.silence(name, netns=netns)
    index = links.get(name, netns).index
    flags = (PROMISCUOUS if promiscuous else 0) | UP
    run_in(netns, lambda: request("set", index=index, flags=flags, change=PROMISCUOUS | UP))


def undo_netdev(data: Data) -> str:
    """Put an interface back: into this namespace, with its name, settings, addresses, routes."""
    address, wanted = str(data["pci"]), str(data["name"])
    if not pci.exists(address):
        return "gone with its device"
    name = interface_of(address)
    if not name and data["netns"] and Path(data["netns"]).exists():
        _fetch(address, wanted, Path(data["netns"]))
    name = interface_of(address, wait_s=APPEARS_S)
    if not name:
        raise HostError(
            f"interface {wanted} did not come back",
            where=address,
            cure=f"see dmesg; its driver is {pci.nic(address).driver or 'none'}",
        )
    return netdev_state.put_back(name, data)


def _fetch(address: str, name: str, netns: Path) -> None:
    """Bring the interface of a device back from a namespace."""
    with OWN_NETNS.open("rb") as home:

        def send() -> None:
            found = [m for m in _dump() if _device(m) == address]
            found = found or [m for m in _dump() if m.get_attr("IFLA_IFNAME") == name]
            for message in found:
                request("set", index=message["index"], flags=0, change=UP)
                request("set", index=message["index"], net_ns_fd=home.fileno())

        run_in(netns, send)


def _device(message: Any) -> str:
    return str(message.get_attr("IFLA_PARENT_DEV_NAME") or "")


def _dump() -> list[Any]:
    from pyroute2 import IPRoute  # noqa: PLC0415 - takes 0.2 s to import

    with IPRoute() as route:
        return list(route.get_links())
