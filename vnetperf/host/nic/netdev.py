"""A NIC's network interface: recorded, moved to a run's namespace, put back."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vnetperf.host import ethtool, links
from vnetperf.host.journal import Journal, UndoData
from vnetperf.host.linux import netlink, read_file, run_in
from vnetperf.host.nic import pci
from vnetperf.host.wait import wait_at_most, wait_for
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import SEVERAL_CURE, several_interfaces

#: Flags of an interface that a run may change: NOARP, PROMISC, ALLMULTI, MULTICAST.
UP, PROMISCUOUS = 0x1, 0x100
RESTORED_FLAGS = 0x80 | PROMISCUOUS | 0x200 | 0x1000
AF_INET, AF_INET6, LINK_SCOPE, PERMANENT, UNICAST, BY_KERNEL = 2, 10, 253, 0x80, 1, 2
ON_LINK = 0x4  # Flag of a route whose gateway needs no route of its own
NO_PREFIX_ROUTE = 0x200  # Flag of an address whose route somebody else sets, as NetworkManager does
#: Flags that whoever adds an address gives it: that one, NODAD, HOMEADDRESS, MANAGETEMPADDR,
#: MCAUTOJOIN.
GIVEN_FLAGS = NO_PREFIX_ROUTE | 0x02 | 0x10 | 0x100 | 0x400
GENERATE_NONE = "1"  # Of net.ipv6.conf.NAME.addr_gen_mode
NET = Path("/proc/sys/net")
_SYSCTL = ("ipv4/conf", "ipv6/conf", "ipv4/neigh", "ipv6/neigh")
_FIRST = "stable_secret"
_ROUTE = ("RTA_DST", "RTA_GATEWAY", "RTA_PRIORITY", "RTA_PREFSRC")
#: Setting of a virtual function, as a request has it -> attribute, and its fields where several.
_OF_VF: dict[str, tuple[str, tuple[str, ...]]] = {
    "mac": ("IFLA_VF_MAC", ()),
    "vlan": ("IFLA_VF_VLAN", ("vlan", "qos")),
    "rate": ("IFLA_VF_RATE", ("min_tx_rate", "max_tx_rate")),
    "spoofchk": ("IFLA_VF_SPOOFCHK", ()),
    "link_state": ("IFLA_VF_LINK_STATE", ()),
    "trust": ("IFLA_VF_TRUST", ()),
}
_VF_UNKNOWN = 0xFFFFFFFF


def read_state(name: str) -> dict[str, Any]:
    """All of an interface that is put back."""
    link, sysctl = links.get(name), _sysctl(name)
    by_hand = sysctl.get(f"ipv6/conf/{name}/addr_gen_mode") == GENERATE_NONE
    with netlink("read addresses and routes", f"link {name}") as route:
        (message,) = route.get_links(link.index)
        all_addresses: list[Any] = list(route.get_addr(index=link.index))
        addresses = [a for a in all_addresses if _is_kept(a, link_local=by_hand)]
        bare = {a["family"] for a in addresses if _flags(a) & NO_PREFIX_ROUTE}
        routes: list[Any] = [
            r
            for family in (AF_INET, AF_INET6)
            for r in route.get_routes(family=family)
            if r.get_attr("RTA_OIF") == link.index and r["type"] == UNICAST
            if r["family"] in bare or r["proto"] != BY_KERNEL  # or it comes with its address
        ]
    return {
        "name": name,
        "mac": link.mac,
        "mtu": link.mtu,
        "flags": message["flags"] & (RESTORED_FLAGS | UP),
        "offloads": ethtool.features(name),
        "queues": ethtool.channels(name),
        "sysctl": sysctl,
        "addresses": [_address_entry(a) for a in addresses],
        "routes": [_route_entry(r) for r in routes],
        "functions": _vf_settings(name),
    }


def _vf_settings(name: str) -> list[dict[str, Any]]:
    """What an administrator has given to the virtual functions of an interface's NIC.

    The kernel forgets it where a run has other functions meanwhile.
    """
    with netlink("list virtual functions", f"link {name}") as route:
        (message,) = route.link("get", ifname=name, ext_mask=1)
    functions = message.get_attr("IFLA_VFINFO_LIST")
    all_settings = []
    for function in functions.get_attrs("IFLA_VF_INFO") if functions else ():
        settings: dict[str, Any] = {"vf": function.get_attr("IFLA_VF_MAC")["vf"]}
        for key, (attribute, fields) in _OF_VF.items():
            value = function.get_attr(attribute)
            if value is not None:
                settings[key] = {f: value[f] for f in fields} if fields else value[key]
        all_settings.append({k: v for k, v in settings.items() if v != _VF_UNKNOWN})
    return all_settings


def _sysctl(name: str) -> dict[str, str]:
    """What net.ipv4 and net.ipv6 have of an interface: path below `NET` -> value.

    They begin anew when it leaves its namespace or its driver, by the caller's defaults and by what
    it is at that moment: without ARP duplicate addresses are never looked for again.
    """
    values = {}
    for file in (file for folder in _SYSCTL for file in (NET / folder / name).glob("*")):
        with contextlib.suppress(OSError):  # a secret that there is none of
            # The MTU of IPv6 is the link's again whenever it comes up.
            if file.stat().st_mode & 0o200 and file.name != "mtu":
                values[str(file.relative_to(NET))] = read_file(file).strip()
    return values


def _put_sysctl_back(values: Mapping[str, str]) -> tuple[bool, list[str]]:
    """Whether a value was set, and the files that did not take theirs, with the reasons."""
    changed, refused = False, list[str]()
    # A secret sets the mode of addresses, too, and one of the modes needs it.
    for path in sorted(values, key=lambda path: (not path.endswith(_FIRST), path)):
        file = NET / path
        try:
            if not file.exists() or read_file(file).strip() == values[path]:
                continue
        except OSError:  # no secret yet
            pass
        try:
            file.write_text(values[path])
            changed = True
        except OSError as error:
            value = "its secret" if path.endswith(_FIRST) else values[path]
            refused.append(f"{file} does not take {value}: {error.strerror}")
    return changed, refused


def _flags(message: Any) -> int:
    return int(message.get_attr("IFA_FLAGS") or message["flags"])


def _is_kept(message: Any, *, link_local: bool) -> bool:
    """Whether an address would not come back by itself: autoconfigured ones do.

    So do link-local ones, unless the kernel makes none there.
    """
    permanent = bool(_flags(message) & PERMANENT)
    if message["family"] == AF_INET:
        return True
    return permanent and (message["scope"] != LINK_SCOPE or link_local)


def _address_entry(message: Any) -> dict[str, Any]:
    entry = {
        "family": message["family"],
        "address": message.get_attr("IFA_ADDRESS"),
        "local": message.get_attr("IFA_LOCAL"),
        "broadcast": message.get_attr("IFA_BROADCAST"),
        "prefixlen": message["prefixlen"],
        "scope": message["scope"],
        "flags": _flags(message) & GIVEN_FLAGS or None,
        "label": message.get_attr("IFA_LABEL"),
        "rt_priority": message.get_attr("IFA_RT_PRIORITY"),
    }
    return {key: value for key, value in entry.items() if value is not None}


def _route_entry(message: Any) -> dict[str, Any]:
    entry = {key.removeprefix("RTA_").lower(): message.get_attr(key) for key in _ROUTE}
    if entry["dst"] is not None:
        entry["dst"] = f"{entry['dst']}/{message['dst_len']}"
    fields = {key: message[key] for key in ("family", "proto", "scope")}
    table = message.get_attr("RTA_TABLE")
    route_fields = {**fields, "table": table, "flags": message["flags"] & ON_LINK or None, **entry}
    return {key: value for key, value in route_fields.items() if value is not None}


def restore_state(name: str, data: UndoData) -> str:
    """Bring an interface to what was read of it."""
    done = []
    index = links.get(name).index
    now = read_state(name)
    if name != data["name"]:
        request_link("set", index=index, flags=0, change=UP)
        request_link("set", index=index, ifname=str(data["name"]))
        name = str(data["name"])
        done.append("name")
    for setting in ("mac", "mtu"):
        if now[setting] != data[setting]:
            key = "address" if setting == "mac" else setting
            request_link("set", index=index, **{key: data[setting]})
            done.append(setting)
    differing = {k: v for k, v in data["offloads"].items() if now["offloads"].get(k) != v}
    if differing:
        ethtool.set_features(name, differing)
        done.append("offloads")
    if data.get("queues") and now["queues"] != data["queues"]:
        ethtool.set_channels(name, data["queues"])
        done.append("queues")
    changed, refused = _put_sysctl_back(data.get("sysctl", {}))
    if changed:
        done.append("sysctl")
    flags = read_state(name)["flags"]
    if flags != data["flags"]:
        request_link("set", index=index, flags=data["flags"], change=RESTORED_FLAGS | UP)
        done.append("flags")
    if differ := _put_vfs_back(name, index, data, now["functions"], refused):
        done.append(f"settings of {differ} virtual function{'s' * (differ > 1)}")
    if _put_addresses_back(index, data, refused):
        done.append("addresses")
    if refused:  # when all else is back
        cure = "set them by hand, then run `vnetperf restore`"
        raise HostError("; ".join(refused), where=f"interface {name}", cure=cure)
    return "put back: " + ", ".join(done) if done else "already as before"


def _put_vfs_back(
    name: str, index: int, data: UndoData, now: list[dict[str, Any]], refused: list[str]
) -> int:
    """Set virtual functions as they were, each setting by itself; returns how many differed.

    The interface is up by then, if it was: a function's driver asks its driver for the address, and
    takes a random one where nobody answers; drivers refuse rates as long as there is no link.
    """
    by_number = {function["vf"]: function for function in now}
    # Where the number of functions did not come back, that is told by who has changed it.
    differing = [f for f in data.get("functions", []) if by_number.get(f["vf"], f) != f]
    rates = ((f.get("rate"), by_number[f["vf"]].get("rate")) for f in differing)
    if data["flags"] & UP and any(was and was != is_now for was, is_now in rates):
        wait_at_most(lambda: links.get(name).carrier, CARRIER_S, f"a link of {name}")
    for function in differing:
        number = function["vf"]
        for key in (k for k, v in function.items() if by_number[number].get(k) != v):
            try:
                request_link("set", index=index, vf={"vf": number, key: function[key]})
                if key == "mac":
                    pci.reprobe_vf(data["pci"], number)
            except HostError as error:
                refused.append(f"{key} {function[key]} of virtual function {number}: {error.what}")
    return len(differing)


def _put_addresses_back(index: int, data: UndoData, refused: list[str]) -> bool:
    from pyroute2.netlink.exceptions import NetlinkError  # noqa: PLC0415 - takes 0.2 s to import

    changed = False
    remaining: list[dict[str, Any]] = list(data["routes"])
    reason = ""
    with netlink("read addresses", f"link {index}") as route:
        present = {(a.get_attr("IFA_ADDRESS"), a["prefixlen"]) for a in route.get_addr(index=index)}
        for entry in data["addresses"]:
            if (entry["address"], entry["prefixlen"]) not in present:
                changed = True
                try:
                    route.addr("add", index=index, **entry)
                except NetlinkError as error:
                    if error.code != errno.EEXIST:  # else a DHCP client was faster
                        refused.append(f"its address {entry['address']}: {error.args[-1]}")

        def add_routes() -> bool:
            nonlocal changed, reason
            for entry in remaining.copy():
                try:
                    # "add" fails for IPv6 where another interface has a route of that prefix.
                    local = entry.get("family") == AF_INET6 and "gateway" not in entry
                    route.route("append" if local else "add", oif=index, **entry)
                    changed = True
                except NetlinkError as error:
                    if error.code != errno.EEXIST:
                        reason = f"its route to {entry.get('dst', 'default')}: {error.args[-1]}"
                        continue
                remaining.remove(entry)
            return not remaining

        # A gateway may be behind a route that follows, and an address of IPv6 not be its yet.
        wait_at_most(add_routes, ROUTES_S, "routes", poll_s=0.1)
    if remaining:
        cure = f"set it by hand, then run `vnetperf restore`: {remaining[0]}"
        raise HostError(f"{reason}; it cannot be put back", where=f"link {index}", cure=cure)
    return changed


def request_link(command: str, **attributes: Any) -> None:
    """Make one link request in the calling thread's namespace.

    Drivers are busy for a moment after they were bound, so it is repeated twice.
    """
    name = str(attributes.get("ifname") or attributes["index"])
    for last in (False, False, True):
        try:
            links.request(name, None, command, **attributes)
            return
        except HostError:
            if last:
                raise
            time.sleep(0.1)


#: Longest wait until routes can be put back, seconds: an address of IPv6 is tested for 1 s first.
ROUTES_S = 3.0
#: Longest wait for the interface of a driver that was just bound, seconds.
APPEARS_S = 10.0
#: Longest wait for the link of an interface that has just come up, seconds.
CARRIER_S = 10.0


@contextlib.contextmanager
def interface_noted(
    journal: Journal, address: str, *, netns: Path | None = None, sys: Path = pci.SYS
) -> Iterator[None]:
    """Write the interface of a device down before it is moved, or lost to a driver.

    It is put back at once when the block fails: whoever controls the run may be cut off. A device
    with several is refused: all go with its driver, and only one is known by the device's address.
    """
    names = pci.nic(address, sys=sys).interfaces
    if reason := several_interfaces(names):
        raise HostError(
            reason,
            where=f"NIC {address}",
            accepted="a PCI function with one interface",
            cure=SEVERAL_CURE,
        )
    name = next(iter(names), "")
    data = {"pci": address, "netns": str(netns) if netns else ""}
    description = f"interface {name} of {address}"
    with (
        journal.changing("netdev", description, data | read_state(name))
        if name
        else contextlib.nullcontext()
    ):
        yield


def take_interface(journal: Journal, name: str, netns: Path) -> None:
    """Move an interface that need not be of a device into a namespace; its undo brings it back."""
    if links.find(name) is None:
        raise HostError(
            f"there is no interface {name} in this machine's own namespace",
            where=f"interface {name}",
            cure="name one that `ip link` lists",
        )
    data = {"pci": "", "netns": str(netns), **read_state(name)}
    with journal.changing("netdev", f"interface {name}", data), netns.open("rb") as target:
        index = links.get(name).index
        request_link("set", index=index, flags=0, change=UP)
        request_link("set", index=index, net_ns_fd=target.fileno())
        journal.require_heard(f"interface {name} moved away")


def find_interface(address: str, *, wait_s: float = 0.0) -> str:
    """The interface of a device in the caller's namespace."""
    description = f"an interface of {address}"
    names = wait_at_most(lambda: pci.nic(address).interfaces, wait_s, description)
    return names[0] if names else ""


def move_interface(address: str, netns: Path, *, name: str = "") -> str:
    """Move the interface of a device into a namespace; the caller has written it down."""

    def interface() -> links.Link | None:
        # udev may rename an interface while we look: the index stays.
        current_name = find_interface(address)
        return links.find(current_name) if current_name else None

    link = wait_for(
        interface,
        APPEARS_S,
        f"an interface of {address}",
        error=lambda: HostError(
            f"its driver {pci.nic(address).driver or '(none)'} made no network interface "
            f"within {APPEARS_S:.0f} s",
            where=address,
            cure="see dmesg for the messages of the driver",
        ),
    )
    with netns.open("rb") as target:
        request_link("set", index=link.index, flags=0, change=UP)
        request_link("set", index=link.index, net_ns_fd=target.fileno(), ifname=name or link.name)
    return name or link.name


def prepare_interface(
    name: str, *, netns: Path, mtu: int, promiscuous: bool, mac: str = "", offloads: bool = False
) -> None:
    """Make an interface in a run's namespace carry test frames alone, and bring it up."""
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
    if not offloads:
        ethtool.disable_offloads(name, netns=netns)
    links.silence(name, netns=netns)
    index = links.get(name, netns).index
    flags = (PROMISCUOUS if promiscuous else 0) | UP
    run_in(netns, lambda: request_link("set", index=index, flags=flags, change=PROMISCUOUS | UP))


def undo_netdev(data: UndoData) -> str:
    """Put an interface back: into this namespace, with its name, settings, addresses, routes."""
    address, original_name = str(data["pci"]), str(data["name"])
    if not address:  # of no device: it is known by its name
        if links.find(original_name) is None and Path(data["netns"]).exists():
            _move_home(address, original_name, Path(data["netns"]))
        return (
            restore_state(original_name, data)
            if links.find(original_name)
            else "gone with its other end"
        )
    if not pci.exists(address):
        return "gone with its device"
    name = find_interface(address)
    if not name and data["netns"] and Path(data["netns"]).exists():
        _move_home(address, original_name, Path(data["netns"]))
    name = find_interface(address, wait_s=APPEARS_S)
    if not name:
        raise HostError(
            f"interface {original_name} did not come back",
            where=address,
            cure=f"see dmesg; its driver is {pci.nic(address).driver or 'none'}",
        )
    return restore_state(name, data)


def _move_home(address: str, name: str, netns: Path) -> None:
    """Bring the interface of a device back from a namespace."""
    with links.OWN_NETNS.open("rb") as home:

        def send() -> None:
            with netlink("list the links") as route:
                messages = list(route.get_links())
            matching = [m for m in messages if m.get_attr("IFLA_PARENT_DEV_NAME") == address]
            matching = matching or [m for m in messages if m.get_attr("IFLA_IFNAME") == name]
            for message in matching:
                request_link("set", index=message["index"], flags=0, change=UP)
                request_link("set", index=message["index"], net_ns_fd=home.fileno())

        run_in(netns, send)
