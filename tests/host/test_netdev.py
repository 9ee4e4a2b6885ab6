"""State, counters and queueing disciplines of network interfaces."""

from __future__ import annotations

import json
import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from vnetperf.host import links
from vnetperf.host.journal import Journal
from vnetperf.host.links import LinkStatistics, add_qdisc_counters
from vnetperf.host.linux import run_in
from vnetperf.host.nic import netdev
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import HostError

WAS: dict[str, Any] = {
    "name": "eth1",
    "mac": "52:54:00:00:00:01",
    "mtu": 1500,
    "flags": 0x1001,
    "offloads": {"rx-gro": 1},
    "queues": [0, 0, 1, 4],
    "addresses": [],
    "routes": [],
    "functions": [],
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(netdev.links, "get", lambda _: SimpleNamespace(index=7))
    monkeypatch.setattr(netdev, "request_link", lambda _, **what: found.append(what))
    route = SimpleNamespace(get_addr=lambda **_: [])
    monkeypatch.setattr(netdev, "netlink", lambda *_: nullcontext(route))
    for name in ("set_features", "set_channels"):
        monkeypatch.setattr(
            netdev.ethtool, name, lambda _, what, name=name: found.append((name, what))
        )
    return found


def test_what_is_as_before_is_left(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netdev, "read_state", lambda _: WAS)
    assert netdev.restore_state("eth1", WAS) == "already as before"
    assert calls == []


def test_all_that_a_run_changes_is_put_back(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = {**WAS, "mtu": 9000, "flags": 0x80, "offloads": {"rx-gro": 0}, "queues": [0, 0, 1, 2]}
    monkeypatch.setattr(netdev, "read_state", lambda _: now)
    done = netdev.restore_state("dev0", WAS)
    assert done.rpartition(": ")[2] == "name, mtu, offloads, queues, flags"
    assert ("set_channels", [0, 0, 1, 4]) in calls
    assert ("set_features", {"rx-gro": 1}) in calls
    assert calls[-1]["flags"] == 0x1001, "it comes up when all else is set"


def test_a_journal_of_an_earlier_version_and_a_driver_without_queues(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(netdev, "read_state", lambda _: WAS)
    netdev.restore_state("eth1", {key: WAS[key] for key in WAS if key != "queues"})
    netdev.restore_state("eth1", {**WAS, "queues": []})
    assert calls == []


FIRST = {"vf": 0, "mac": "02:00:00:00:00:07", "vlan": {"vlan": 7, "qos": 0}, "trust": 1}
SECOND = {"vf": 1, "mac": "02:00:00:00:00:08", "vlan": {"vlan": 8, "qos": 0}}


def test_settings_of_functions_that_were_made_anew_are_put_back(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    anew = {"vf": 0, "mac": "02:00:00:00:00:99", "vlan": {"vlan": 0, "qos": 0}, "trust": 1}
    monkeypatch.setattr(netdev, "read_state", lambda _: {**WAS, "functions": [anew]})
    probed: list[Any] = []
    monkeypatch.setattr(netdev.pci, "reprobe_vf", lambda *where: probed.append(where))
    was = {**WAS, "pci": "0000:3b:00.0", "functions": [FIRST, SECOND]}
    done = netdev.restore_state("eth1", was)
    assert done.endswith("settings of 1 virtual function")
    assert [call["vf"] for call in calls] == [
        {"vf": 0, "mac": FIRST["mac"]},
        {"vf": 0, "vlan": FIRST["vlan"]},
    ]
    assert probed == [("0000:3b:00.0", 0)]  # its driver has read the other address


def test_functions_are_set_when_the_interface_is_up_and_rates_when_it_has_a_link(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its driver tells a function's address while it is up alone, and takes no rate without one."""

    def link(_: str) -> SimpleNamespace:
        calls.append("looked")
        return SimpleNamespace(index=7, carrier=calls.count("looked") > 2)

    monkeypatch.setattr(netdev.links, "get", link)
    monkeypatch.setattr(netdev.pci, "reprobe_vf", lambda *_: calls.append("probed"))
    rates = [{"vf": 0, "rate": {"min_tx_rate": 0, "max_tx_rate": most}} for most in (100, 0)]
    was, anew = ({"mac": mac, **rate} for mac, rate in zip(("was", "anew"), rates, strict=True))
    now = {**WAS, "flags": 0x1000, "functions": [anew]}
    monkeypatch.setattr(netdev, "read_state", lambda _: now)
    done = netdev.restore_state("eth1", {**WAS, "pci": "", "functions": [was]})
    assert done.rpartition(": ")[2].startswith("flags, ")
    assert "1 virtual function" in done
    named = [call if isinstance(call, str) else [*call.get("vf", call)][-1] for call in calls]
    assert named == ["looked", "change", "looked", "looked", "mac", "probed", "rate"]


def test_a_setting_that_the_driver_refuses_hides_no_other(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str, **what: Any) -> None:
        calls.append(what)
        if "trust" in what.get("vf", {}):
            raise HostError("the kernel refused")

    monkeypatch.setattr(netdev, "request_link", refuse)
    there = {**WAS, "functions": [{"vf": 0, "trust": 0, "link_state": 0}]}
    monkeypatch.setattr(netdev, "read_state", lambda _: there)
    was = {**WAS, "functions": [{"vf": 0, "trust": 1, "link_state": 2}]}
    with pytest.raises(HostError, match="trust 1 of virtual function 0: "):
        netdev.restore_state("eth1", was)
    assert calls[-1]["vf"] == {"vf": 0, "link_state": 2}


TABLE = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo \
colls carrier compressed
    lo: 3193      29    0    1    0     0          0         0     3193      28    0    2    0     \
0       0          0
vp78c2s0a: 64 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 0 0
eth0:1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
"""


def test_the_kernels_table_is_read_by_column() -> None:
    found = links.parse_statistics(TABLE)
    assert found["lo"] == links.LinkStatistics(rx=29, tx=28, rx_dropped=1, tx_dropped=2)
    assert found["vp78c2s0a"].rx == 2**64 - 1
    assert found["eth0:1"] == links.LinkStatistics(rx=2, tx=10, rx_dropped=4, tx_dropped=12)


def test_the_running_kernels_table_can_be_read() -> None:
    assert "lo" in links.statistics()


LINKS = {"eth0": LinkStatistics(600, 451, 0, 1), "eth1": LinkStatistics(600, 600, 0, 0)}
#: As iproute2 6.1 prints it: a root of two queues, and those queues.
SHOWN = json.dumps(
    [
        {"kind": "noqueue", "handle": "0:", "dev": "lo", "root": True, "packets": 0, "drops": 0},
        {"kind": "mq", "handle": "0:", "dev": "eth0", "root": True, "packets": 594, "drops": 6},
        {"kind": "pfifo_fast", "dev": "eth0", "parent": ":1", "packets": 594, "drops": 6},
        {"kind": "pfifo_fast", "dev": "eth0", "parent": ":2", "packets": 0, "drops": 0},
    ]
)


def test_a_discipline_knows_of_frames_that_the_driver_has_not_counted_and_of_its_drops() -> None:
    assert add_qdisc_counters(LINKS, SHOWN) == {
        "eth0": LinkStatistics(600, 594, 0, 7),
        "eth1": LinkStatistics(600, 600, 0, 0),
    }


def test_links_without_a_discipline_keep_their_own_numbers() -> None:
    assert add_qdisc_counters(LINKS, "") == LINKS
    # XDP_REDIRECT goes round the discipline: it counts nothing, the driver does.
    empty = [{"kind": "mq", "dev": "eth1", "root": True, "packets": 0, "drops": 0}]
    assert add_qdisc_counters(LINKS, json.dumps(empty)) == LINKS


@pytest.mark.parametrize(
    "shown",
    ["qdisc noqueue 0: dev eth0 root", "null", "{}", "[[]]", '[{"dev": "eth0", "root": true}]'],
)
def test_a_tool_without_counters_of_disciplines_adds_nothing(shown: str) -> None:
    """Busybox's tc knows no JSON; others print null for what they do not count."""
    assert add_qdisc_counters(LINKS, shown) == LINKS
    odd = [{"dev": "eth0", "root": True, "packets": 2**64 - 1, "drops": None}]
    assert add_qdisc_counters(LINKS, json.dumps(odd)) == LINKS


@pytest.mark.real
def test_addresses_and_routes_are_put_back_whatever_their_order(
    tmp_path: Path, journal: Journal
) -> None:
    """The kernel names the default one first, whose gateway another route has to reach."""
    space = tmp_path / "space"
    links.create_netns(journal, space)

    def ip(*lines: str) -> list[str]:
        found = [
            subprocess.run(["ip", *line.split()], check=True, capture_output=True, text=True)
            for line in lines
        ]
        return [line.strip() for one in found for line in one.stdout.splitlines()]

    def there_and_back() -> tuple[list[str], str, list[str]]:
        ip("link add one type veth peer name two", "link set two up", "link set one up")
        ip("addr add 2001:db8::9/64 dev one", "addr add 192.0.2.10/32 dev one")
        # As NetworkManager has them on every interface, with a route of its own.
        for n, name in enumerate(("one", "two")):
            ip(f"addr add fe80::{n + 7}/64 dev {name} noprefixroute nodad")
            ip(f"-6 route append fe80::/64 dev {name} proto kernel metric 1024")
        ip("route add 198.51.100.1 dev one", "route add default via 198.51.100.1 dev one")
        ip("route add 203.0.113.0/24 via 198.51.100.77 dev one onlink")
        wait_for(lambda: not ip("-6 addr show dev one tentative"), 30, "the address of IPv6")
        ip("-6 route add 2001:db8:1::/48 via 2001:db8::77 dev one src 2001:db8::9")
        # As NetworkManager has it: the route of an address is its own, and has a metric.
        ip("addr add 198.18.5.9/24 dev one noprefixroute label one:5")
        ip("addr add 2001:db8:5::9/128 dev one nodad", "link set one addrgenmode none")
        ip("route add 198.18.5.0/24 dev one proto kernel scope link src 198.18.5.9 metric 101")
        shown = ("route show", "-6 route show table main dev one", "-4 -o addr show dev one")
        shown += ("-6 -o addr show dev one to 2001:db8:5::9",)
        was, state = ip(*shown), netdev.read_state("one")
        ip("link set one down", "addr flush dev one", "-6 addr flush dev one")
        return was, netdev.restore_state("one", state), ip(*shown)

    was, outcome, now = run_in(space, there_and_back)
    assert len(was) >= 10
    assert any("nodad" in line for line in was)
    assert any("one:5" in line for line in was)
    assert outcome == "put back: flags, addresses"
    assert sorted(now) == sorted(was)


@pytest.mark.real
@pytest.mark.parametrize("mode", ["1", "2"])
def test_settings_of_the_kernel_come_back_with_an_interface(
    tmp_path: Path, journal: Journal, mode: str
) -> None:
    """They begin anew in each namespace; a secret is given a mode of its own."""
    home, away = tmp_path / "home", tmp_path / "away"
    for space in (home, away):
        links.create_netns(journal, space)
    files = {
        "ipv4/conf/one/rp_filter": "2",
        "ipv4/neigh/one/gc_stale_time": "77",
        "ipv6/conf/one/accept_dad": "1",  # lost without ARP
        "ipv6/conf/one/forwarding": "1",
        "ipv6/conf/one/stable_secret": "2001:0db8:0000:0000:0000:0000:0000:0001",
        "ipv6/conf/one/addr_gen_mode": mode,
    }

    def values() -> dict[str, str]:
        now = netdev.read_state("one")["sysctl"]
        return {name: value for name, value in now.items() if name in files}

    def there_and_back() -> tuple[dict[str, str], str, dict[str, str], str]:
        command = "ip link add one type veth peer name two"
        subprocess.run(command.split(), check=True)
        for name, value in files.items():
            (netdev.NET / name).write_text(value)
        state = netdev.read_state("one")
        links.move("one", away)
        netdev.prepare_interface("one", netns=away, mtu=1500, promiscuous=True)
        links.move("one", home, netns=away)
        lost = values()
        return (
            lost,
            netdev.restore_state("one", state),
            values(),
            netdev.restore_state("one", state),
        )

    lost, outcome, now, again = run_in(home, there_and_back)
    assert lost["ipv6/conf/one/accept_dad"] == "-1"
    assert "sysctl" in outcome
    assert now == files
    assert again == "already as before"


def test_a_value_that_is_not_taken_is_named_when_all_else_is_back(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(netdev, "NET", tmp_path)
    monkeypatch.setattr(netdev, "read_state", lambda _: {**WAS, "flags": 0x80})
    (tmp_path / "ipv4/conf/eth1/rp_filter").mkdir(parents=True)  # what cannot be written
    was = {**WAS, "sysctl": {"ipv4/conf/eth1/rp_filter": "2", "ipv6/conf/eth1/gone": "1"}}
    with pytest.raises(HostError, match="ipv4/conf/eth1/rp_filter does not take 2: Is a"):
        netdev.restore_state("eth1", was)
    assert calls[-1]["flags"] == 0x1001


def answer_with(route: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an interface that is as before, and a double of its netlink socket."""
    monkeypatch.setattr(netdev.links, "get", lambda _: SimpleNamespace(index=7))
    monkeypatch.setattr(netdev, "read_state", lambda _: WAS)
    monkeypatch.setattr(netdev, "netlink", lambda *_: nullcontext(route))


def test_a_route_that_is_refused_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Route:
        def get_addr(self, index: int) -> list[Any]:
            return []

        def route(self, *_: object, **__: object) -> None:
            raise NetlinkError(101, "Network is unreachable")

    answer_with(Route(), monkeypatch)
    monkeypatch.setattr(netdev, "ROUTES_S", 0.0)
    route = {"dst": "192.0.2.0/24", "gateway": "198.51.100.1"}
    with pytest.raises(HostError, match=r"192\.0\.2\.0/24: Network is unreachable") as refused:
        netdev.restore_state("eth1", {**WAS, "routes": [route]})
    assert refused.value.where == "link 7"
    assert str(route) in refused.value.cure


def test_an_address_that_is_refused_is_named_and_one_that_came_back_by_itself_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Route:
        def get_addr(self, index: int) -> list[Any]:
            return []

        def addr(self, _: str, *, address: str, **__: object) -> None:
            if address == "192.0.2.9":
                raise NetlinkError(17, "File exists")
            raise NetlinkError(22, "Invalid argument")

    answer_with(Route(), monkeypatch)
    each = [{"address": f"192.0.2.{n}", "prefixlen": 24} for n in (9, 10)]
    with pytest.raises(HostError, match=r"192\.0\.2\.10: Invalid argument") as refused:
        netdev.restore_state("eth1", {**WAS, "addresses": each})
    assert "192.0.2.9" not in str(refused.value)
    assert refused.value.where == "interface eth1"


@pytest.mark.parametrize(
    "text",
    ["", "Ip: Forwarding FragCreates\n", "Ip: Forwarding\nIp: 1\n", "Ip: FragCreates\nIp: x"],
)
def test_fragments_that_nobody_tells_are_not_known(text: str) -> None:
    assert links.count_fragments(text) is None
    assert links.sum_counts([3, links.count_fragments(text)]) is None
    assert links.sum_counts([3, 0, 4]) == 7


def test_other_names_of_links_are_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """As udev gives them, or `ip link property add altname`: longer than names of links are."""

    def message(name: str, *others: str) -> ifinfmsg:
        told = ifinfmsg()
        told["attrs"] = [["IFLA_IFNAME", name]]
        if others:
            listed = [["IFLA_ALT_IFNAME", other] for other in others]
            told["attrs"].append(["IFLA_PROP_LIST", {"attrs": listed}])
        told.encode()
        heard = ifinfmsg(told.data)
        heard.decode()
        return heard

    every = [message("eth0", "enp3s0f0np0", "front-left-port-0"), message("lo")]

    kernel = SimpleNamespace(get_links=lambda: every)
    monkeypatch.setattr(links, "netlink", lambda _: nullcontext(kernel))
    assert links.altnames() == {"eth0": ("enp3s0f0np0", "front-left-port-0")}
