"""Pods with virtual functions: what is planned and refused, and what is done to NICs, on no NIC."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.machine import facts
from tests.fakes.nics import CABLES, DUT0, TESTER0, with_nics
from tests.networks.test_plans import FIRST, SECOND, configured, scenario
from vnetperf.host.nic.switch_rules import RuleFilter, SwitchRule
from vnetperf.model.deployment import PhyPort, Port, VnfPort, vnf_mac
from vnetperf.model.errors import CapabilityError, DutError
from vnetperf.model.scenario import Plan
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.networks.sriov import SriovNetwork, pod_rules
from vnetperf.planning.planner import make_plan
from vnetperf.plugin.network import Pod
from vnetperf.runner.scenarios import make_scenario
from vnetperf.runner.transfers import endpoint_scenario, workload_scenario
from vnetperf.virt.pod_host import PodHost
from vnetperf.workloads.mpi import Mpi

NETNS, WIRES = Path("/run/netns"), ("nic", "memif", "veth")
#: Stands for the machine's own namespace, which has no path.
MACHINE = Path("/")


def planned(*, machine: MachineFacts | None = None, **wishes: Any) -> Plan:
    testbed = Testbed(nics=CABLES, wires=WIRES)
    return make_plan(scenario("sriov", **wishes), testbed, machine or with_nics(facts()))


def ranked(pods: int, **wishes: Any) -> Plan:
    found = workload_scenario(Mpi(), scenario("sriov", pods=pods, **wishes))
    return make_plan(found, Testbed(nics=CABLES, wires=WIRES), with_nics(facts()))


@pytest.mark.parametrize("place", ["same", "other"])
def test_the_cable_between_two_nics_is_the_hosts_link(place: str) -> None:
    plan = planned(hosts=place)
    assert plan.wire == "nic"
    # Both are the network's, by the kernel's driver: the tester is at the pods' ports.
    assert [(nic.pci, nic.driver) for nic in plan.nics] == [(TESTER0, "igb"), (DUT0, "igb")]
    forth, back = plan.scenario.streams
    assert (forth.eth_dst, back.eth_dst) == (vnf_mac(SECOND), vnf_mac(FIRST))


def test_sockets_take_the_nics_too() -> None:
    sockets = endpoint_scenario(configured(), scenario("sriov"))
    assert make_plan(sockets, Testbed(nics=CABLES), with_nics(facts())).wire == "nic"
    assert endpoint_scenario(configured(), scenario("macvlan")).wire == "veth"


def test_without_nics_the_lab_is_the_cure() -> None:
    with pytest.raises(CapabilityError, match=r"no NIC of this machine has SR-IOV.*vnetperf lab"):
        planned(machine=facts())
    for wires, says in (
        (("memif", "veth"), r"no wire joins[^$]*accepted: nic"),
        (("nic",), r"names no NICs; add \[\[nics\]\]"),
    ):
        with pytest.raises(CapabilityError, match=says):
            make_plan(scenario("sriov"), Testbed(wires=wires), with_nics(facts()))
    plain = with_nics(facts(), tester0={"max_vfs": 0})
    with pytest.raises(CapabilityError, match=f"{TESTER0} has no SR-IOV; turn it on"):
        planned(machine=plain)
    assert planned(machine=plain, hosts="same")  # whose pods are on the other


@pytest.mark.usefixtures("guests")
@pytest.mark.parametrize("name", ["bmp2vmp_sriov", "vmp2vmp_sriov"])
@pytest.mark.parametrize("place", ["same", "other"])
def test_a_pod_in_a_vm_has_no_virtual_function(name: str, place: str) -> None:
    wishes = configured(hosts=place)
    frames = make_scenario(name, wishes)
    for asked in (frames, endpoint_scenario(wishes, frames)):
        with pytest.raises(CapabilityError, match=r"-k pvp_sriov --vnf vloop:vm.*choose macvlan"):
            make_plan(asked, Testbed(nics=CABLES, wires=WIRES), with_nics(facts()))


def test_more_pods_than_functions_are_refused() -> None:
    assert ranked(14).scenario.pods == 14
    with pytest.raises(CapabilityError, match=rf"needs 8 virtual functions of {TESTER0}.*--pods"):
        ranked(15)
    with pytest.raises(CapabilityError, match=rf"needs 8 virtual functions of {DUT0}, .* have 7"):
        ranked(8, hosts="same")


def test_hosts_of_a_testbed_are_refused() -> None:
    configuration = configured(testbed="two-hosts")
    machine = with_nics(facts())
    machine = machine.model_copy(update={"hosts": {"east": machine, "west": machine}})
    with pytest.raises(CapabilityError, match=r"sriov cannot plug it in[^$]*a testbed of one host"):
        make_plan(scenario("sriov", testbed="two-hosts"), configuration.testbed, machine)


def test_a_nic_that_checks_sources_takes_no_others(tmp_path: Path) -> None:
    varying = tmp_path / "sources.toml"
    varying.write_text('flows = 4\nvary = ["eth_src"]\n')
    with pytest.raises(CapabilityError, match="with another source address"):
        planned(traffic=str(varying))
    assert planned(traffic=str(varying), set=("spoof_check=false",))


def test_a_nic_without_switchdev_mode_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = ("mode=switchdev",)
    for there in ("", "legacy"):
        monkeypatch.setattr(
            "vnetperf.host.nic.eswitch.read_mode",
            lambda address, there=there: there if address == DUT0 else "legacy",
        )
        if there:
            assert planned(set=chosen).scenario.options.mode == "switchdev"
        else:
            with pytest.raises(CapabilityError, match=f"{DUT0} has no switchdev mode: .*igb"):
                planned(set=chosen)
    with pytest.raises(CapabilityError, match="vlan cannot be set in switchdev mode"):
        planned(set=(*chosen, "vlan=7"))
    bare = with_nics(facts()).model_copy(update={"modules": {"cls_flower": "not in this kernel"}})
    with pytest.raises(CapabilityError, match="no module cls_flower"):
        planned(machine=bare, set=chosen)


RANKED = workload_scenario(Mpi(), scenario("sriov"))


@given(st.integers(2, 6), st.sampled_from(["same", "other"]))
def test_rules_lead_from_each_pod_to_each(pods: int, place: str) -> None:
    rules = pod_rules(RANKED.model_copy(update={"pods": pods, "pod_hosts": place}))
    assert len({rule.prio for rule in rules}) == len(rules)

    def goes_to(source: Port, mac: str) -> Port:
        here = sorted((rule for rule in rules if rule.src == source), key=lambda rule: rule.prio)
        return next(rule.dst for rule in here if not rule.only or rule.eth_dst == mac)

    every = [VnfPort(vnf=number, index=0) for number in range(pods)]
    for pod in every:
        for far in (other for other in every if other != pod):
            at = goes_to(pod, vnf_mac(far))
            if isinstance(at, PhyPort):  # by the cable, and in at the other NIC's wire
                at = goes_to(PhyPort(index=1 - at.index), vnf_mac(far))
            assert at == far


def place(netns: Path | None) -> str:
    """What a namespace is called here."""
    if netns is None:
        return "the machine"
    return "the run" if netns == NETNS else netns.parent.name


def uplink(address: str) -> str:
    """The interface of a NIC's wire."""
    return f"up{address[5:7]}"


def representor(address: str, number: int) -> str:
    """The interface that stands for a virtual function."""
    return f"r{address[5:7]}.{number}"


class Nics:
    """NICs of two hosts: what is done to them, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.rules: set[str] = set()
        self.netns, self.facts = NETNS, with_nics(facts())
        self.carrier = True
        self.there: dict[str, Path] = {}
        for name, double in {
            "vfs.set_up_vf": self.set_up_vf,
            "switchdev.uplink_name": uplink,
            "switchdev.representor_name": representor,
            "switchdev.wait_for_representors": lambda *_: (),
            "switchdev.eswitch.take_representor": lambda name, mtu: self.say(f"take {name}"),
            "flower.install_rule": self.install,
            "flower.remove_filters": lambda parts, source: self.rules.discard(
                f"{source} {parts[0].prio}"
            ),
        }.items():
            monkeypatch.setattr(f"vnetperf.host.nic.{name}", double)
        for name in ("set_up", "move", "make_ready"):
            monkeypatch.setattr(f"vnetperf.host.links.{name}", getattr(self, name))

    def say(self, text: str) -> None:
        self.done.append(text)

    def seen(self) -> list[str]:
        found, self.done = self.done, []
        return found

    def interface_name(self, role: str) -> str:
        return role

    def subdir(self, name: str) -> Path:
        return Path("/run") / name

    def load_module(self, module: object) -> None:
        pass

    def link_statistics(self) -> dict[str, None]:
        return {name: None for name, where in self.there.items() if where == NETNS}

    def link(self, name: str) -> Any:
        assert self.there[name] == NETNS
        return SimpleNamespace(carrier=self.carrier)

    def borrow_nic(self, address: str, *, netns: Path, name: str = "", **_: Any) -> str:
        name = name or uplink(address)
        self.there[name] = netns
        self.say(f"borrow {address} as {name} in {place(netns)}")
        return name

    def make_vfs(self, address: str, count: int) -> tuple[str, ...]:
        self.say(f"functions {address} {count}")
        return tuple(f"{address[:-1]}{number + 1}" for number in range(count))

    def make_switchdev(self, address: str, count: int) -> tuple[str, ...]:
        assert self.there[uplink(address)] != MACHINE, "it was not borrowed"
        made = self.make_vfs(address, count)
        self.there[uplink(address)] = MACHINE
        self.there |= {representor(address, number): MACHINE for number in range(count)}
        return made

    def take_uplink(self, name: str, **_: Any) -> None:
        assert self.there[name] == MACHINE, "it is elsewhere"
        self.say(f"take {name}")

    def set_up_vf(
        self, name: str, number: int, netns: Path | None, *_: Any, **__: Any
    ) -> tuple[str, ...]:
        assert self.there[name] == (netns or MACHINE), "it is elsewhere"
        self.say(f"set {number} of {name} in {place(netns)}")
        return ()

    def set_up(self, name: str, *, up: bool = True, netns: Path | None = None) -> None:
        assert self.there[name] == (netns or MACHINE), "it is elsewhere"
        self.say(f"{name} {'up' if up else 'down'} in {place(netns)}")

    def move(self, name: str, target: Path, *, netns: Path) -> None:
        assert self.there[name] == netns, "it is elsewhere"
        self.there[name] = target
        self.say(f"move {name} to {place(target)}")

    def make_ready(self, name: str, *_: Any, **__: Any) -> None:
        pass

    def install(
        self, rule: SwitchRule, source: str, target: str
    ) -> tuple[tuple[RuleFilter, ...], str]:
        self.rules.add(f"{source} {rule.prio}")
        del target
        return (RuleFilter(flags=2, eth_dst="", prio=rule.prio),), ""


def deployed(nics: Nics, *options: str, hosts: str = "other") -> tuple[SriovNetwork, Any]:
    """A network with both pods, and their ports."""
    network = SriovNetwork(nics, planned(hosts=hosts, set=options))  # type: ignore[arg-type]
    of_pods = [PodHost(nics, number) for number in (0, 1)]  # type: ignore[arg-type]
    network.lay_link(of_pods)
    ports = []
    for port, host in ((FIRST, 0), (SECOND, int(hosts == "other"))):
        if hosts == "other" or (not host and port == FIRST):
            network.prepare(of_pods[host])
        pod = Pod(
            port=port,
            netdev=network.netdev(port.vnf),
            mac=vnf_mac(port),
            address="198.18.0.1",
            gateway_mac="",
        )
        ports.append(network.attach(of_pods[host], pod))
    network.join(of_pods, ports)
    return network, (of_pods, ports)


def test_each_host_has_its_nic_and_each_pod_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    nics = Nics(monkeypatch)
    deployed(nics)
    assert nics.done == [
        # Before there are functions: their drivers would find it resetting.
        f"borrow {TESTER0} as up21 in host0",
        f"borrow {DUT0} as up41 in host1",
        *(f"functions {TESTER0} 1", "up21 up in host0", "set 0 of up21 in host0"),
        *(f"borrow {TESTER0[:-1]}1 as p0 in host0", "move p0 to the run"),
        *(f"functions {DUT0} 1", "up41 up in host1", "set 0 of up41 in host1"),
        *(f"borrow {DUT0[:-1]}1 as p1 in host1", "move p1 to the run"),
    ]


def test_pods_of_one_host_are_on_one_nic(monkeypatch: pytest.MonkeyPatch) -> None:
    nics = Nics(monkeypatch)
    deployed(nics, hosts="same")
    assert f"functions {DUT0} 2" in nics.done
    assert not [done for done in nics.done if TESTER0 in done]


def test_a_pod_that_goes_leaves_its_function_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    nics = Nics(monkeypatch)
    network, (hosts, (_, port)) = deployed(nics)
    nics.seen()
    network.detach(hosts[1], port)
    assert not network.is_plugged(port.pod)
    assert network.attach(hosts[1], port.pod) == port
    assert network.attach(hosts[1], port.pod) == port  # as after a restart
    assert nics.seen() == ["move p1 to host1", "move p1 to the run"]


def test_a_network_that_is_stopped_has_no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    nics = Nics(monkeypatch)
    network, (hosts, _) = deployed(nics)
    nics.seen()
    network.remove(hosts)
    network.prepare(hosts[0])
    assert nics.seen() == ["up21 down in host0", "up41 down in host1", "up21 up in host0"]
    SriovNetwork(nics, planned()).remove(hosts)  # type: ignore[arg-type]  # nothing was made
    assert nics.seen() == []


def test_pods_without_a_link_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    nics = Nics(monkeypatch)
    nics.carrier = False
    monkeypatch.setattr("vnetperf.networks.sriov.CARRIER_S", 0.0)
    with pytest.raises(DutError, match="no link on p0 and p1"):
        deployed(nics)


def test_in_switchdev_mode_rules_join_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vnetperf.host.nic.eswitch.read_mode", lambda _: "legacy")
    nics = Nics(monkeypatch)
    network, (hosts, ports) = deployed(nics, "mode=switchdev")
    # Uplinks and representors are in the machine's own namespace, and ready before functions are.
    at = [
        nics.done.index(done)
        for done in ("take up41", "take r41.0", "set 0 of up41 in the machine")
    ]
    assert at == sorted(at)
    assert {rule.split()[0] for rule in nics.rules} == {"up21", "r21.0", "up41", "r41.0"}
    nics.seen()
    network.check_alive()
    monkeypatch.setattr("vnetperf.host.nic.switchdev.representor_name", lambda *_: "")
    with pytest.raises(DutError, match=r"interface of vnf0\.0 on the NIC .* is gone"):
        network.check_alive()
    monkeypatch.setattr("vnetperf.host.nic.switchdev.representor_name", representor)
    network.detach(hosts[1], ports[1])
    assert {rule.split()[0] for rule in nics.rules} == {"up21", "r21.0"}
    assert nics.seen() == ["r41.0 down in the machine", "move p1 to host1"]
    network.join(hosts, ports[:1])
    assert len(nics.rules) == 1 + 1
    network.attach(hosts[1], ports[1].pod)
    network.join(hosts, ports)
    assert {rule.split()[0] for rule in nics.rules} == {"up21", "r21.0", "up41", "r41.0"}
    nics.seen()
    network.remove(hosts)
    assert sorted(nics.seen()) == [
        f"{name} down in the machine" for name in ("r21.0", "r41.0", "up21", "up41")
    ]


@pytest.mark.parametrize(
    ("name", "sockets", "says", "not_there"),
    [
        ("bmp2bmp_macvlan", True, "no wire joins the pods", ("tester", "vSwitch")),
        ("bmp2bmp_macvlan", False, "the tester and the pods", ("vSwitch",)),
        ("phy2phy_bridge", False, "the tester and the vSwitch", ()),
    ],
)
def test_a_wire_that_lacks_names_what_it_would_join(
    name: str, sockets: bool, says: str, not_there: tuple[str, ...]
) -> None:
    wishes = configured()
    made = make_scenario(name, wishes)
    asked = endpoint_scenario(wishes, made) if sockets else made
    wire = "nic" if "bridge" in name else "memif"
    with pytest.raises(CapabilityError) as refused:
        make_plan(asked.model_copy(update={"wire": wire}), Testbed(wires=(wire,)), facts())
    assert says in refused.value.what
    assert not any(word in refused.value.what.partition(":")[0] for word in not_there)
