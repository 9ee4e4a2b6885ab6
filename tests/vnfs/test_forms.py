"""Forms of VNFs: where they run, and what they do."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.machine import facts
from vnetperf import config
from vnetperf.host.links import LinkStatistics
from vnetperf.host.xdp import compile_program
from vnetperf.model.deployment import DEPLOYMENTS, VnfPort, make_deployment
from vnetperf.model.errors import ConfigError, DutError, HostError
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import NicFacts
from vnetperf.model.traffic import TrafficProfile
from vnetperf.plugin import registry
from vnetperf.plugin.vnf import Vnf
from vnetperf.runner.scenarios import make_scenario
from vnetperf.vnfs.vloop import Vloop, kernel_forwarders
from vnetperf.vnfs.vloop.container import ContainerVloop
from vnetperf.vnfs.vloop.kernel_forwarders import (
    FORMS,
    NETWORKS,
    FormPort,
    KernelForwarder,
    PutProgram,
    network_beyond,
)

PORTS = (
    FormPort(netdev="in0", index=7, peer_mac="02:76:65:00:00:00", network=NETWORKS[0]),
    FormPort(netdev="in1", index=9, peer_mac="02:76:65:01:00:00", network=NETWORKS[1]),
)


class Paper:
    """A place that writes down what is asked of it."""

    def __init__(
        self,
        links: Sequence[str] = ("in0", "in1", "vloop"),
        refuses: str = "",
        settings: str = "core\nipv4\n",
    ) -> None:
        self.links = list(links)
        self.settings = settings
        self.refuses = refuses
        self.ran: list[str] = []
        self.files: dict[str, bytes] = {}

    def run(self, argv: Sequence[str]) -> str:
        line = " ".join(argv)
        if self.refuses and self.refuses in line:
            raise HostError("RTNETLINK answers: no", where=line)
        self.ran.append(line)
        return self.settings if argv[0] == "ls" else ""

    def write(self, name: str, content: bytes) -> str:
        self.files[name] = content
        return f"/there/{name}"

    def statistics(self) -> dict[str, LinkStatistics]:
        return {name: LinkStatistics(10 + n, 20 + n, 1, 2) for n, name in enumerate(self.links)}


def forwarder(place: Paper, form: str) -> KernelForwarder:
    return KernelForwarder(place, FORMS[form], "vnf0", PORTS, facts())


def test_a_bridge_learns_nothing_and_floods() -> None:
    place = Paper(settings="bridge\ncore\nipv4\n")
    forwarder(place, "bridge").set_up()
    added = place.ran.index("ip link add vloop type bridge stp_state 0 mcast_snooping 0")
    # A new namespace has these on where br_netfilter is there: no other form goes through them.
    tables = ("iptables", "ip6tables", "arptables")
    filters = [f"net.bridge.bridge-nf-call-{of}=0" for of in tables]
    assert place.ran[added - 1].split() == ["sysctl", "-q", "-w", *filters]
    assert place.ran[-1] == "ip link set dev vloop up"
    for name in ("in0", "in1"):
        joined = place.ran.index(f"ip link set dev {name} master vloop")
        told = place.ran.index(f"bridge link set dev {name} learning off flood on")
        assert added < joined < told


def test_a_kernel_without_packet_filters_of_bridges_has_none_to_turn_off() -> None:
    place = Paper()
    forwarder(place, "bridge").set_up()
    assert not [line for line in place.ran if line.startswith("sysctl")]


def test_routes_lead_to_neighbours_that_are_told() -> None:
    place = Paper()
    forwarder(place, "route").set_up()
    assert "sysctl -q -w net.ipv4.ip_forward=1" in place.ran
    for port, hop in zip(PORTS, ("169.254.0.1", "169.254.0.2"), strict=True):
        told = f"ip neigh replace {hop} lladdr {port.peer_mac} dev {port.netdev} nud permanent"
        route = f"ip route replace {port.network} via {hop} dev {port.netdev} onlink"
        assert place.ran.index(told) < place.ran.index(route)


def test_a_port_that_sends_nothing_has_no_route() -> None:
    silent = FormPort(netdev="in1", index=9, peer_mac="", network=NETWORKS[1])
    lines = [s for s in FORMS["route"].steps((PORTS[0], silent)) if isinstance(s, str)]
    assert not [line for line in lines if line.startswith("ip") and "in1" in line]


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_what_leaves_by_a_port_is_for_the_tester_beyond_it(name: str) -> None:
    graph = make_deployment(name)
    for number in graph.directions:
        for chain in range(graph.chains):
            path = graph.path(graph.ends[number], chain)
            for port in path[2::2]:  # where a VNF sends
                assert isinstance(port, VnfPort)
                assert network_beyond(graph, port) == NETWORKS[1 - number]


def test_each_port_gets_the_program_that_sends_to_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def compiled(clang: str, source: Path, **numbers: int) -> bytes:
        assert (clang, source.name) == ("/usr/bin/clang", "forward.c")
        return str(numbers).encode()

    monkeypatch.setattr(kernel_forwarders, "compile_program", compiled)
    place = Paper()
    forwarder(place, "xdp").set_up()
    assert place.files == {"forward0.o": b"{'TARGET': 9}", "forward1.o": b"{'TARGET': 7}"}
    assert place.ran == [
        "unshare --mount ip link set dev in0 xdpgeneric object /there/forward0.o section xdp",
        "unshare --mount ip link set dev in1 xdpgeneric object /there/forward1.o section xdp",
    ]


@pytest.mark.skipif(not shutil.which("clang"), reason="clang is not installed")
@pytest.mark.parametrize("index", [1, 0x7E57DA7A])
def test_the_program_redirects_to_the_index(index: int) -> None:
    program = compile_program("clang", kernel_forwarders.XDP_SOURCE, TARGET=index)
    assert program.startswith(b"\x7fELF")
    # r1 = index: opcode 0xb7 of the kernel's virtual machine, register 1, no offset.
    assert struct.pack("<BBHI", 0xB7, 1, 0, index) in program
    assert b"\0xdp\0" in program, "its section"


def test_a_step_that_fails_says_which() -> None:
    with pytest.raises(DutError, match=r"form bridge could not be set up.*no") as caught:
        forwarder(Paper(refuses="learning off"), "bridge").set_up()
    assert "bridge link set dev in0" in str(caught.value)


def test_counters_are_those_of_the_interfaces_inside() -> None:
    first, second = forwarder(Paper(), "xdp").counters()
    assert (first.port, first.rx, first.tx, first.rx_dropped) == ("vnf0.0 (inside)", 10, 20, 1)
    assert (second.port, second.rx, second.tx, second.tx_dropped) == ("vnf0.1 (inside)", 11, 21, 2)


@pytest.mark.parametrize(("form", "gone"), [("bridge", "vloop"), ("xdp", "in1"), ("route", "in0")])
def test_what_is_gone_is_named(form: str, gone: str) -> None:
    place = Paper()
    works = forwarder(place, form)
    works.check_alive()
    place.links.remove(gone)
    with pytest.raises(DutError, match=f"gone: the interface {gone} of form {form}"):
        works.check_alive()


def test_every_form_has_a_mode_and_takes_attachments_of_a_container() -> None:
    for name, form in FORMS.items():
        assert form.name == name
        assert name in ContainerVloop.modes
        assert set(form.attachments) & set(ContainerVloop.attachments)
        files = [step for step in form.steps(PORTS) if isinstance(step, PutProgram)]
        assert len({file.name for file in files}) == len(files)


def deploying(**wishes: object) -> Scenario:
    plain: dict[str, Any] = {"deployment": make_deployment("pvp"), "traffic": TrafficProfile()}
    return Scenario(vswitch="bridge", **(plain | wishes))


@pytest.mark.parametrize(
    ("mode", "kinds"),
    [
        ("io", ("veth", "vhost-user", "memif", "vf", "macvlan")),
        ("bridge", ("veth",)),
        ("route", ("veth", "vf", "macvlan")),
        ("xdp", ("veth", "macvlan")),
    ],
)
def test_a_form_plugs_in_where_it_works(mode: str, kinds: tuple[str, ...]) -> None:
    assert ContainerVloop.accepts(deploying(vnf_mode=mode)) == kinds


@pytest.mark.parametrize(("mode", "polls"), [("io", True), ("bridge", False), ("xdp", False)])
def test_the_kernel_takes_no_processor_and_no_hugepages(mode: str, *, polls: bool) -> None:
    scenario = deploying(vnf_mode=mode)
    assert bool(ContainerVloop.roles(scenario, 0)) is polls
    assert bool(ContainerVloop.memory(scenario, "vhost-user").mib) is polls


def test_what_the_kernel_lacks_is_told_and_testpmd_is_not_asked_for() -> None:
    without = facts(programs={}, modules={"bridge": "it is not there"})
    for mode, lack in (("bridge", "no module bridge"), ("xdp", "clang"), ("io", "dpdk-testpmd")):
        assert lack in ContainerVloop.missing(without, deploying(vnf_mode=mode))
    compiler = without.model_copy(update={"programs": {"clang": "/usr/bin/clang"}})
    assert ContainerVloop.missing(compiler, deploying(vnf_mode="xdp")) == ""


@pytest.mark.parametrize("wishes", [{"forwarding": "l3"}, {"rules": "stream"}])
def test_swapped_ip_addresses_are_refused_where_they_decide(wishes: dict[str, str]) -> None:
    refused = deploying(vnf_mode="5tswap", **wishes)
    assert "5tswap" in Vloop.missing(facts(), refused)
    assert Vloop.missing(facts(), deploying(vnf_mode="5tswap")) == ""


WITH_IOMMU = NicFacts(address="0000:01:00.0", max_vfs=7, iommu_group=3)
WITHOUT = NicFacts(address="0000:01:00.0", max_vfs=7)


@pytest.mark.parametrize(
    ("scenario", "settings", "nic", "says"),
    [
        ("pvp_sriov", {}, WITH_IOMMU, "where there is an IOMMU they go to vfio-pci"),
        ("pvp_sriov", {}, WITHOUT, ""),
        ("pvp_sriov", {"set": ("vf_driver=vfio-pci",)}, WITHOUT, "vf_driver is vfio-pci"),
        ("pvp_sriov", {"set": ("vf_driver=kernel",)}, WITH_IOMMU, ""),
        ("pvp_bridge", {}, WITH_IOMMU, ""),
        ("pvp_sriov", {"vnf_mode": "mac"}, WITH_IOMMU, ""),  # testpmd takes PCI devices
    ],
)
def test_a_kernel_form_is_not_planned_on_pci_devices(
    scenario: str, settings: dict[str, Any], nic: NicFacts, says: str
) -> None:
    typed = {"vnf": "vloop:container", "vnf_mode": "route", **settings}
    asked = make_scenario(scenario, config.load(typed, environment={}))
    missing = registry.load_vnf("vloop:container").missing(facts(nics=(nic,)), asked)
    assert bool(missing) == bool(says)
    assert says in missing
    if says:
        assert "mode route needs interfaces" in missing
        assert missing.endswith("--set vf_driver=kernel")


def test_a_name_alone_is_a_process_on_the_host() -> None:
    assert registry.load_vnf("vloop") is Vloop


def test_a_place_is_a_class_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Vloop, "places", {"moon": "vnetperf.plugin.vnf:Vnf"})
    assert registry.load_vnf("vloop:moon") is Vnf


def test_a_place_it_does_not_run_in_is_told_with_those_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Vloop, "places", {"moon": "vnetperf.plugin.vnf:Vnf"})
    with pytest.raises(ConfigError, match=r"does not run in 'mars'.*vloop, vloop:moon"):
        registry.load_vnf("vloop:mars")
