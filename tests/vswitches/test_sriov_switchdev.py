"""Switchdev mode of the SR-IOV backend, on made-up NICs: no real one with it was at hand."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroute2.iproute.linux import get_arguments_processor
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from tests.fakes.machine import facts
from tests.fakes.nics import DUT0, DUT1, with_nics
from tests.vswitches.test_sriov import plan, scenario
from vnetperf.host.nic import flower
from vnetperf.host.nic import switchdev as nics_switch
from vnetperf.host.nic.switch_rules import (
    SKIP_HW,
    SKIP_SW,
    RuleFilter,
    SwitchRule,
    filter_attempts,
)
from vnetperf.model.deployment import (
    DEPLOYMENTS,
    PHY_PORTS,
    Attachment,
    PhyPort,
    Port,
    VnfPort,
    WireEnd,
    make_deployment,
)
from vnetperf.model.errors import CapabilityError, DutError, HostError
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import Scenario
from vnetperf.vswitches.sriov import Sriov
from vnetperf.vswitches.sriov.eswitch import SwitchdevMode
from vnetperf.vswitches.sriov.virtual_functions import switch_rules

#: Those without tunnels, which a NIC's switch does not make.
PLAIN = st.sampled_from(sorted(set(DEPLOYMENTS) - {"encap", "decap"}))


def switchdev(deployment: str = "pvp", **changes: Any) -> Scenario:
    options = SwitchOptions(mode="switchdev", **changes.pop("options", {}))
    return scenario(deployment, options=options, **changes)


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nics_switch.eswitch, "read_mode", lambda _: "legacy")


# --- What stands for which port -------------------------------------------------------------------


class Sysfs:
    """Interfaces as drivers make them."""

    def __init__(self, sys: Path) -> None:
        self.sys = sys

    def add(self, name: str, *, at: str = "", switch: str = "", port: str = "") -> None:
        real = self.sys / "class/net" / name
        real.mkdir(parents=True)
        for what, text in (("phys_switch_id", switch), ("phys_port_name", port)):
            if text:
                (real / what).write_text(f"{text}\n")
        if at:
            device = self.sys / "bus/pci/devices" / at / "net"
            device.mkdir(parents=True, exist_ok=True)
            (device / name).mkdir()


@pytest.mark.parametrize("beside", [True, False], ids=["as mlx5", "as ice"])
@pytest.mark.parametrize("form", ["pf0vf{}", "p0pf0vf{}", "{}"])
def test_representors_are_told_by_their_ports(tmp_path: Path, beside: bool, form: str) -> None:
    there = Sysfs(tmp_path)
    # The names say nothing: the wire's is neither first nor last.
    there.add("m0", at=DUT0, switch="aa", port="p0")
    for number, name in ((0, "z0"), (1, "a0"), (11, "b0")):
        there.add(name, at=DUT0 * beside, switch="aa", port=form.format(number))
    there.add("other", switch="bb", port="pf0vf1")
    there.add("host", switch="aa", port="c1pf0vf2")  # of another controller, not ours
    there.add("eth0")
    assert nics_switch.uplink_name(DUT0, sys=tmp_path) == "m0"
    assert nics_switch.representor_name(DUT0, 1, sys=tmp_path) == "a0"
    assert nics_switch.representor_name(DUT0, 11, sys=tmp_path) == "b0"
    assert nics_switch.representor_name(DUT0, 2, sys=tmp_path) == ""
    assert nics_switch.representor_name(DUT1, 0, sys=tmp_path) == ""


def test_representors_may_have_the_number_of_a_controller(tmp_path: Path) -> None:
    there = Sysfs(tmp_path)
    there.add("up0", at=DUT0, switch="aa", port="p0")
    there.add("eth0", switch="aa", port="c1pf0vf0")
    there.add("eth1", switch="aa", port="c1pf0vf1")
    there.add("eth2", switch="aa", port="c1pf1vf1")
    assert nics_switch.representor_name(DUT0, 0, sys=tmp_path) == "eth0"
    assert nics_switch.representor_name(DUT0, 1, sys=tmp_path) == "eth1"
    # A second controller: which one is this host is not known.
    there.add("eth3", switch="aa", port="c2pf0vf0")
    assert nics_switch.representor_name(DUT0, 0, sys=tmp_path) == ""


def test_representors_of_another_host_are_not_taken_while_its_own_are_made(tmp_path: Path) -> None:
    """As on a DPU, which has a representor of the host's whole function too."""
    there = Sysfs(tmp_path)
    there.add("up0", at=DUT0, switch="aa", port="p0")
    there.add("hpf", switch="aa", port="c1pf0")
    there.add("h0", switch="aa", port="c1pf0vf0")
    assert nics_switch.representor_name(DUT0, 0, sys=tmp_path) == ""
    there.add("own0", switch="aa", port="pf0vf0")
    assert nics_switch.representor_name(DUT0, 0, sys=tmp_path) == "own0"


def test_physical_functions_that_share_a_switch_are_told_apart(tmp_path: Path) -> None:
    there, second = Sysfs(tmp_path), DUT0.replace(".0", ".1")
    there.add("up0", at=DUT0, switch="aa", port="p0")
    there.add("up1", at=second, switch="aa", port="p1")
    there.add("r0", switch="aa", port="pf0vf0")
    there.add("r1", switch="aa", port="pf1vf0")
    assert nics_switch.representor_name(DUT0, 0, sys=tmp_path) == "r0"
    assert nics_switch.representor_name(second, 0, sys=tmp_path) == "r1"


def test_a_wire_without_a_name_is_told_from_what_has_one(tmp_path: Path) -> None:
    there = Sysfs(tmp_path)
    there.add("a0", at=DUT0, switch="aa", port="pf0vf0")
    there.add("up0", at=DUT0, switch="aa")
    assert nics_switch.uplink_name(DUT0, sys=tmp_path) == "up0"


def test_representors_that_do_not_come_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Sysfs(tmp_path)
    there.add("up0", at=DUT0, switch="aa", port="p0")
    there.add("r0", switch="aa", port="pf0vf0")
    assert nics_switch.wait_for_representors(DUT0, 1, sys=tmp_path) == ("r0",)
    monkeypatch.setattr(nics_switch, "REPRESENTORS_S", 0.0)
    with pytest.raises(DutError, match=r"no representor of virtual function 1, 2"):
        nics_switch.wait_for_representors(DUT0, 3, sys=tmp_path)


# --- The rules ------------------------------------------------------------------------------------


@given(PLAIN, st.integers(1, 6))
def test_frames_that_follow_the_rules_take_the_path_of_the_deployment(name: str, vnfs: int) -> None:
    wanted = switchdev(name, vnfs=vnfs)
    made = switch_rules(wanted)
    assert [(rule.src, rule.dst) for rule in made] == [
        (hop.src, hop.dst) for hop in wanted.deployment.hops
    ]
    places = [prio for rule in made for prio in (rule.prio, rule.prio + 1)]
    assert len(set(places)) == len(places)
    for stream in wanted.streams:
        path = wanted.deployment.path(wanted.deployment.ends[stream.direction], stream.chain)
        # A physical port tells chains apart by what the tester sends.
        (first,) = [
            rule
            for rule in made
            if rule.src == path[0] and (not rule.only or rule.eth_dst == stream.eth_dst)
        ]
        assert first.dst == path[1]
        for at, then in zip(path[2::2], path[3::2], strict=True):
            assert [rule.dst for rule in made if rule.src == at] == [then]


@given(PLAIN, st.integers(1, 6))
def test_an_address_that_a_rule_knows_is_the_one_that_frames_have(name: str, vnfs: int) -> None:
    wanted = switchdev(name, vnfs=vnfs)
    ends = wanted.deployment.ends
    for rule in switch_rules(wanted):
        if rule.src in ends and rule.eth_dst:
            sent = {s.eth_dst for s in wanted.streams if ends[s.direction] == rule.src}
            assert rule.eth_dst in sent
        elif isinstance(rule.src, VnfPort) and rule.eth_dst:
            assert rule.eth_dst == wanted.peer_mac(rule.src)


def test_what_a_vnf_leaves_as_it_is_has_no_known_address() -> None:
    known = {str(rule): rule.eth_dst for rule in switch_rules(switchdev(vnf_mode="io"))}
    assert known["vnf0.1 -> phy1"] == ""
    assert known["phy0 -> vnf0.0"] != ""
    assert all(rule.eth_dst for rule in switch_rules(switchdev("pvvp")))


MACS = st.sampled_from(["02:00:00:00:00:01", "02:00:00:00:00:02"])


@given(MACS | st.just(""), st.booleans(), MACS)
def test_every_way_to_make_a_rule_forwards_the_same_frames(
    known: str, only: bool, carried: str
) -> None:
    rule = SwitchRule(
        src=PHY_PORTS[0], dst=PHY_PORTS[1], eth_dst=known or MAC * only, only=only, prio=5
    )
    for parts in filter_attempts(rule):
        taken = [part for part in parts if part.eth_dst in ("", carried)]
        assert bool(taken) == (not only or carried == rule.eth_dst)
        assert len({part.prio for part in parts}) == len(parts)
        assert {part.prio for part in parts} <= {5, 6}


MAC = "02:00:00:00:00:01"


def test_hardware_is_tried_first_and_the_kernel_last() -> None:
    rule = SwitchRule(src=PHY_PORTS[0], dst=VnfPort(vnf=0, index=0), eth_dst=MAC)
    flags = [[part.flags for part in parts] for parts in filter_attempts(rule)]
    assert flags == [[SKIP_SW], [SKIP_SW, SKIP_HW], [SKIP_HW]]


# --- The filter -----------------------------------------------------------------------------------


@given(MACS | st.just(""), st.sampled_from([SKIP_SW, SKIP_HW]), st.integers(1, 99))
def test_a_filter_is_sent_as_the_kernel_reads_it(mac: str, flags: int, prio: int) -> None:
    """Attributes 3, 4, 5 and 22 of flower in <linux/pkt_cls.h>, inside TCA_OPTIONS (2)."""
    action = {"kind": "mirred", "direction": "egress", "action": "redirect", "ifindex": 9}
    wanted = {"kind": "flower", "index": 5, "parent": flower.INGRESS, "prio": prio}
    wanted |= {"protocol": flower.ETH_P_ALL, "flags": flags, "eth_dst": mac, "action": action}
    asked = dict(get_arguments_processor("tc", "add-filter", wanted))
    assert asked["info"] == prio << 16 | 0x0300  # ETH_P_ALL in the order of the network
    message: Any = tcmsg()
    message["attrs"] = [["TCA_KIND", "flower"], ["TCA_OPTIONS", asked["options"]]]
    message["info"] = asked["info"]
    message.encode()
    options = attributes(attributes(bytes(message.data)[36:])[2])
    assert int.from_bytes(options[22], "little") == flags
    assert (4 in options, 5 in options) == (bool(mac), bool(mac))
    if mac:
        assert options[4].hex(":") == mac
        assert options[5] == b"\xff" * 6
    (first,) = attributes(options[3]).values()
    assert attributes(first)[1] == b"mirred\0"
    read_back: Any = tcmsg(bytes(message.data))
    read_back.decode()
    assert flower.parse_filters([read_back]) == {prio: False}


def attributes(data: bytes) -> dict[int, bytes]:
    at, found = 0, {}
    while at < len(data):
        size = int.from_bytes(data[at : at + 2], "little")
        kind = int.from_bytes(data[at + 2 : at + 4], "little") & 0x3FFF
        found[kind] = data[at + 4 : at + size]
        at += (size + 3) // 4 * 4
    return found


class Route:
    """tc of a kernel whose NIC takes some filters: `takes` says which."""

    def __init__(self, takes: Any) -> None:
        self.takes = takes
        self.filters: dict[tuple[int, int], dict[str, Any]] = {}

    def __call__(self) -> Route:
        return self

    def __enter__(self) -> Route:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def link_lookup(self, ifname: str) -> list[int]:
        return [hash(ifname) & 0xFFFF]

    def tc(self, command: str, kind: str = "", index: int = 0, **wanted: Any) -> None:
        if command == "del-filter":
            self.filters.pop((index, wanted["info"] >> 16))
            return
        assert kind == "flower"
        if wanted["flags"] == SKIP_SW and not self.takes(wanted):
            raise NetlinkError(errno.EOPNOTSUPP, "Operation not supported")
        self.filters[index, wanted["prio"]] = wanted


@pytest.mark.parametrize(
    ("takes", "made"),
    [
        (lambda _: True, [(SKIP_SW, "", 1)]),
        (lambda wanted: wanted["eth_dst"], [(SKIP_SW, MAC, 1), (SKIP_HW, "", 2)]),
        (lambda _: False, [(SKIP_HW, "", 2)]),
    ],
)
def test_the_nic_is_given_what_it_takes(
    monkeypatch: pytest.MonkeyPatch, takes: Any, made: list[tuple[int, str, int]]
) -> None:
    route = Route(takes)
    monkeypatch.setattr(flower, "IPRoute", route)
    rule = SwitchRule(src=PHY_PORTS[0], dst=VnfPort(vnf=0, index=0), eth_dst=MAC)
    parts, refused = flower.install_rule(rule, "up0", "r0")
    expected = [RuleFilter(flags=flags, eth_dst=mac, prio=prio) for flags, mac, prio in made]
    assert list(parts) == expected
    assert [(f["flags"], f["eth_dst"], f["prio"]) for f in route.filters.values()] == made
    assert ("not supported" in refused) == (len(made) != 1 or made[0][0] == SKIP_HW)
    flower.remove_filters(parts, "up0")
    assert route.filters == {}


def test_a_kernel_without_the_filter_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Poor(Route):
        def tc(self, command: str, kind: str = "", index: int = 0, **wanted: Any) -> None:
            raise NetlinkError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(flower, "IPRoute", Poor(None))
    with pytest.raises(DutError, match=r"cannot forward phy0 -> phy1[^$]*cls_flower"):
        flower.install_rule(SwitchRule(src=PHY_PORTS[0], dst=PHY_PORTS[1]), "up0", "up1")


def test_where_filters_are_is_read_from_the_kernel() -> None:
    def told(prio: int, flags: int | None, kind: str = "flower") -> Any:
        options = None if flags is None else {"TCA_FLOWER_FLAGS": flags}
        found = {"TCA_KIND": kind, "TCA_OPTIONS": SimpleNamespace(get_attr=(options or {}).get)}
        found |= {} if options else {"TCA_OPTIONS": None}
        return type("M", (dict,), {"get_attr": lambda _, name: found[name]})(info=prio << 16)

    messages = [told(1, None), told(1, SKIP_SW | 4), told(2, SKIP_HW | 8), told(3, 4, "u32")]
    assert flower.parse_filters(messages) == {1: True, 2: False}


# --- What is refused before anything is changed ---------------------------------------------------


@pytest.mark.parametrize("option", [{"vlan": 7}, {"trust": True}, {"spoof_check": False}])
def test_settings_of_the_legacy_mode_are_refused_with_the_reason(option: dict[str, Any]) -> None:
    (name,) = option
    found = Sriov.missing(with_nics(facts()), switchdev("v2v", options=option))
    assert found.startswith(f"{name} ")
    assert "choose mode legacy" in found
    legacy = scenario("v2v", options=SwitchOptions(**option))
    assert Sriov.missing(with_nics(facts()), legacy) == ""


def test_a_rate_and_a_kernel_driver_are_for_both_modes() -> None:
    wanted = switchdev(options={"rate_mbps": 100, "vf_driver": "kernel", "rx_queues": 2})
    assert Sriov.missing(with_nics(facts()), wanted) == ""


@pytest.mark.parametrize(("deployment", "refused"), [("phy2phy", True), ("v2v", False)])
@pytest.mark.parametrize("option", [{"rx_queues": 2}, {"vf_driver": "kernel"}, {"rate_mbps": 100}])
def test_what_is_of_virtual_functions_needs_some(
    deployment: str, refused: bool, option: dict[str, Any]
) -> None:
    """Of physical ports that the NIC joins itself nobody receives, and no function sends."""
    found = Sriov.missing(with_nics(facts()), switchdev(deployment, options=option))
    (name,) = option
    assert found.startswith(f"{name}: ") is refused
    for other in (switchdev(deployment), scenario("phy2phy", options=SwitchOptions(rx_queues=2))):
        assert "rx_queues" not in Sriov.missing(with_nics(facts()), other)


def test_a_kernel_without_flower_is_told() -> None:
    machine = with_nics(facts().model_copy(update={"modules": {"cls_flower": "no such file"}}))
    assert "no module cls_flower" in Sriov.missing(machine, switchdev())
    assert Sriov.missing(machine, scenario()) == ""


def test_a_nic_without_the_mode_is_refused_by_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        nics_switch.eswitch, "read_mode", lambda address: "legacy" * (address == DUT0)
    )
    said = rf"{DUT1} has no switchdev mode: its driver igb .*leave mode=switchdev out"
    with pytest.raises(CapabilityError, match=said):
        plan(switchdev())
    plan(switchdev("p2v"))  # takes the first NIC only
    plan(scenario())


def test_a_switch_that_cannot_be_asked_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> str:
        raise HostError("its driver ice refuses to tell its eswitch mode: (1, 'EPERM')")

    monkeypatch.setattr(nics_switch.eswitch, "read_mode", refuse)
    with pytest.raises(CapabilityError, match="refuses to tell its eswitch mode"):
        plan(switchdev())


def test_the_legacy_mode_asks_no_devlink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nics_switch.eswitch, "read_mode", lambda _: pytest.fail("asked"))
    for mode in ("", "legacy"):
        plan(scenario(options=SwitchOptions(mode=mode)))


@pytest.mark.usefixtures("able")
def test_the_plan_shows_the_rules() -> None:
    made = plan(switchdev("phy2phy"))
    assert made.commands == {"rules": "phy0 -> phy1, phy1 -> phy0"}
    made = plan(switchdev("pvp"))
    assert made.commands["rules"].startswith("phy0 -> vnf0.0")
    assert made.commands[f"VF 0 of {DUT0}"].startswith("vnf0.0")


# --- A deployment ---------------------------------------------------------------------------------


class Nics:
    """The machine with two NICs in switchdev mode: what is done to it, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.up: dict[str, bool] = {}
        self.functions: dict[str, int] = {}
        self.netns, self.facts = Path("/nowhere"), with_nics(facts())
        self.rules: dict[str, str] = {}
        self.renamed = False
        self.modules: set[str] = set()
        for name, double in {
            "host.nic.switchdev.uplink_name": self.uplink,
            "host.nic.switchdev.representor_name": self.representor,
            "host.nic.switchdev.wait_for_representors": lambda *_: (),
            "host.nic.switchdev.eswitch.take_representor": lambda name, mtu: self.say(
                f"take {name} {mtu}"
            ),
            "host.nic.switchdev.links.set_up": lambda name, *, up: self.up.update({name: up}),
            "host.nic.vfs.configure_vf": self.configure,
            "host.nic.vfs.try_configure_vf": lambda *_, **__: pytest.fail("a legacy setting"),
            "vswitches.sriov.virtual_functions.VfPort.bind": lambda function, *_, **__: self.say(
                f"bind {function.address}"
            ),
            "host.nic.switchdev.links.get": lambda name: SimpleNamespace(
                carrier=self.up.get(name, True)
            ),
            "host.nic.flower.install_rule": self.install,
            "host.nic.flower.remove_filters": lambda parts, source: self.rules.pop(
                f"{source} {parts[0].prio}"
            ),
        }.items():
            monkeypatch.setattr(f"vnetperf.{name}", double)

    def say(self, text: str) -> None:
        self.done.append(text)

    def uplink(self, address: str) -> str:
        return f"{'new' if self.renamed else 'up'}{int(address[5:7], 16) - 0x41}"

    def representor(self, address: str, number: int) -> str:
        there = self.functions.get(address, 0)
        return f"r{self.uplink(address)[-1]}{number}" if number < there else ""

    def configure(self, name: str, number: int, netns: Path | None, **settings: Any) -> None:
        assert netns is None
        self.say(f"set {name} {number} {' '.join(settings)}")

    def borrow_nic(self, address: str, **_: Any) -> str:
        self.say(f"borrow {address}")
        return "borrowed"

    def make_switchdev(self, address: str, count: int) -> tuple[str, ...]:
        self.say(f"switchdev {address} {count}")
        self.functions[address] = count
        return tuple(f"{address[:-1]}{n + 1}" for n in range(count))

    def take_uplink(self, name: str, *, mtu: int, promiscuous: bool) -> None:
        assert self.modules == set(nics_switch.MODULES)  # or its queue's would stay loaded
        self.say(f"take {name} {mtu}" + " promiscuous" * promiscuous)

    def load_module(self, name: str) -> None:
        assert name in nics_switch.MODULES
        self.modules.add(name)

    def install(
        self, rule: SwitchRule, source: str, target: str
    ) -> tuple[tuple[RuleFilter, ...], str]:
        self.rules[f"{source} {rule.prio}"] = target
        return (RuleFilter(flags=SKIP_SW, eth_dst="", prio=rule.prio),), ""

    def remove(self, parts: tuple[RuleFilter, ...], source: str) -> None:
        self.rules.pop(f"{source} {parts[0].prio}")

    @staticmethod
    def no_legacy_setting(*_: Any, **__: Any) -> None:
        pytest.fail("a legacy setting")

    def joined(self) -> set[tuple[str, str]]:
        return {(source.split()[0], target) for source, target in self.rules.items()}


def started(monkeypatch: pytest.MonkeyPatch, wanted: Scenario) -> tuple[Sriov, Nics]:
    monkeypatch.setattr(nics_switch.eswitch, "read_mode", lambda _: "legacy")
    nics = Nics(monkeypatch)
    switch = Sriov(nics, plan(wanted))  # type: ignore[arg-type]  # a double
    switch.start()
    for port in wanted.deployment.phy_ports:
        switch.add_phy_port(WireEnd(wire=port.index, kind="nic", side="dut", netdev="borrowed"))
    switch.connect(wanted.streams)
    return switch, nics


def test_the_uplink_is_ready_before_functions_get_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    _, nics = started(monkeypatch, switchdev(options={"rate_mbps": 9}))
    assert nics.done == [
        *(f"borrow {DUT0}", f"switchdev {DUT0} 1", "take up0 1500", "take r00 1500"),
        *(f"borrow {DUT1}", f"switchdev {DUT1} 1", "take up1 1500", "take r10 1500"),
        *("set up0 0 mac rate_mbps", f"bind {DUT0[:-1]}1"),
        *("set up1 0 mac rate_mbps", f"bind {DUT1[:-1]}1"),
    ]


@pytest.mark.parametrize(
    ("deployment", "expected"),
    [
        ("phy2phy", {("up0", "up1"), ("up1", "up0")}),
        ("pvp", {("up0", "r00"), ("r00", "up0"), ("up1", "r10"), ("r10", "up1")}),
        (
            "pvvp",
            {
                *(("up0", "r00"), ("r00", "up0"), ("up1", "r10"), ("r10", "up1")),
                *(("r01", "r02"), ("r02", "r01")),
            },
        ),
        ("v2v", {("r00", "r01"), ("r01", "r00")}),
        ("p2v", {("up0", "r00")}),
    ],
)
def test_every_port_is_joined_to_the_one_it_meets(
    monkeypatch: pytest.MonkeyPatch, deployment: str, expected: set[tuple[str, str]]
) -> None:
    _, nics = started(monkeypatch, switchdev(deployment))
    assert nics.joined() == expected
    is_promiscuous = any("promiscuous" in done for done in nics.done)
    assert is_promiscuous == (deployment == "phy2phy")


def test_a_removed_port_has_neither_rules_nor_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    switch, nics = started(monkeypatch, switchdev())
    before, port = nics.joined(), VnfPort(vnf=0, index=0)
    switch.remove_port(port)
    assert nics.joined() == {("up1", "r10"), ("r10", "up1")}
    assert nics.up["r00"] is False
    with pytest.raises(DutError, match="there is no port"):
        switch.remove_port(port)
    switch.add_vnf_port(Attachment(port=port, kind="vf"))
    switch.connect(())
    assert nics.up["r00"] is True
    assert nics.joined() == before


def test_after_a_restart_the_same_rules_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    switch, nics = started(monkeypatch, switchdev("pvvp"))
    before, done = nics.joined(), list(nics.done)
    switch.stop()
    assert set(nics.up.values()) == {False}
    assert sorted(switch.links_down())[0].startswith("phy0 (up0")
    switch.start()
    assert set(nics.up.values()) == {True}
    switch.connect(())
    assert nics.joined() == before
    assert nics.done == done


def test_an_interface_that_udev_renames_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    switch, nics = started(monkeypatch, switchdev())
    nics.renamed = True
    switch.stop()
    assert nics.up["new0"] is False
    assert nics.up["new1"] is False


def test_a_representor_that_is_gone_ends_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    switch, nics = started(monkeypatch, switchdev())
    monkeypatch.setattr("vnetperf.vswitches.sriov.switch.pci.exists", lambda _: True)
    switch.check_alive()
    nics.functions.clear()
    with pytest.raises(DutError, match=r"interface of vnf0\.0 on the NIC .* is gone"):
        switch.check_alive()


def test_the_facts_say_where_each_rule_is(monkeypatch: pytest.MonkeyPatch) -> None:
    switch, _ = started(monkeypatch, switchdev("phy2phy"))
    monkeypatch.setattr(flower, "in_hardware", lambda source: {1: source == "up0"})
    assert switch.eswitch.facts()["rules"] == {
        "phy0 -> phy1": "up0 to up1: every frame in hardware only",
        "phy1 -> phy0": "up1 to up0: every frame: the rule is gone",
    }


@given(PLAIN)
def test_nics_of_wires_are_taken_without_functions_too(name: str) -> None:
    wanted = switchdev(name)
    taken = SwitchdevMode(MagicMock(), wanted, {}, set()).select_nics((0,))
    ports: tuple[Port, ...] = make_deployment(name).phy_ports
    assert {p.index for p in ports if isinstance(p, PhyPort)} | {0} == set(taken)
