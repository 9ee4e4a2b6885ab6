"""The XDP backend on a machine and a kernel that only take notes."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from tests.fakes.machine import facts
from vnetperf.host import xdp
from vnetperf.host.links import LinkStatistics
from vnetperf.host.machine import Machine
from vnetperf.model.deployment import PhyPort, WireEnd, make_deployment
from vnetperf.model.errors import CapabilityError, DutError, HostError
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.planning.planner import make_plan
from vnetperf.plugin import registry
from vnetperf.vswitches.xdp import switch as module
from vnetperf.vswitches.xdp.switch import COUNTS, SOURCES, Xdp


def scenario(deployment: str = "phy2phy", **changes: Any) -> Scenario:
    plain: dict[str, Any] = {"wire": "veth", "traffic": TrafficProfile()} | changes
    return Scenario(deployment=make_deployment(deployment), vswitch="xdp", **plain)


def plan(**changes: Any) -> Plan:
    return make_plan(scenario(**changes), Testbed(), facts())


class Kernel:
    """Programs and maps that are only noted."""

    made: ClassVar[list[Kernel]] = []
    attached: ClassVar[dict[str, xdp.Attached]] = {}
    counts: ClassVar[dict[bytes, tuple[int, ...]]] = {}
    refuses: ClassVar[str] = ""

    def __init__(self, name: str, code: bytes) -> None:
        self.name, self.code = name, code
        self.traced: list[str] = []
        self.maps: dict[str, dict[bytes, bytes]] = {}
        self.netdev = ""
        self.open = True
        Kernel.made.append(self)

    def map(self, name: str) -> Table:
        return Table(self.maps.setdefault(name, {}))

    def trace(self, program: str) -> None:
        assert program in {"xmit", "exception", "redirect_err"}
        self.traced.append(program)

    def attach(self, program: str, netdev: str, mode: str) -> xdp.Attached:
        assert program == "forward"
        if Kernel.refuses:
            raise HostError(Kernel.refuses, where=netdev, cure="--set mode=generic")
        self.netdev = netdev
        Kernel.attached[netdev] = xdp.Attached(mode, 40 + len(Kernel.attached))
        return Kernel.attached[netdev]

    def is_attached(self) -> bool:
        return self.netdev in Kernel.attached

    def close(self) -> None:
        self.open = False
        Kernel.attached.pop(self.netdev, None)


class Table:
    """A map."""

    def __init__(self, content: dict[bytes, bytes]) -> None:
        self.content = content

    def update(self, key: bytes, value: bytes) -> None:
        self.content[key] = value

    update_per_cpu = update

    def delete(self, key: bytes) -> None:
        self.content.pop(key, None)

    def sums(self, key: bytes, count: int = 1) -> tuple[int, ...]:
        return Kernel.counts.get(key, (0,) * count)


class Notes:
    """What the backend uses of a machine."""

    def __init__(self, tmp_path: Path) -> None:
        self.facts = facts()
        self.netns = tmp_path
        self.macs: dict[str, str] = {}
        self.kind = "veth"
        self.table = {n: LinkStatistics(100, 90, 3, 4) for n in ("d0", "d1", "t0", "t1")}

    def in_netns(self, call: Callable[[], Any]) -> Any:
        return call()

    def link(self, name: str) -> Any:
        return type("Link", (), {"index": 10 + int(name[-1]), "kind": self.kind})

    def link_statistics(self) -> dict[str, LinkStatistics]:
        return self.table

    def set_link(self, name: str, *, mac: str) -> None:
        self.macs[name] = mac


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Notes:
    Kernel.made, Kernel.attached, Kernel.counts, Kernel.refuses = [], {}, {}, ""
    monkeypatch.setattr(module, "BpfObject", Kernel)
    monkeypatch.setattr(module, "compile_program", lambda clang, source: source.stem.encode())
    monkeypatch.setattr(xdp, "attached", lambda: dict(Kernel.attached))
    monkeypatch.setattr(xdp, "let_peer_receive", lambda netdev: netdev.replace("d", "t"))
    return Notes(tmp_path)


def running(machine: Notes, **changes: Any) -> Xdp:
    switch = Xdp(cast("Machine", machine), plan(**changes))
    switch.start()
    for n in (0, 1):
        switch.add_phy_port(WireEnd(wire=n, kind="veth", side="dut", netdev=f"d{n}"))
    return switch


def gro_of(facts: dict[str, Any]) -> dict[str, str]:
    """The ends with GRO, which native frames need there."""
    (ends,) = (value for name, value in facts.items() if name.startswith("GRO is on"))
    assert isinstance(ends, dict)
    return ends


def test_each_port_sends_to_the_other_and_is_read_back(machine: Notes) -> None:
    switch = running(machine)
    switch.connect(())
    watch, first, second = Kernel.made
    assert (watch.code, first.code, second.code) == (b"watch", b"redirect", b"redirect")
    assert first.maps["target"] == {struct.pack("=I", 0): struct.pack("=I", 11)}
    assert second.maps["target"] == {struct.pack("=I", 0): struct.pack("=I", 10)}
    found = switch.facts()
    assert found["program"] == "redirect"
    assert found["modes as the kernel has them"] == {"phy0": "native", "phy1": "native"}
    assert set(gro_of(found).values()) == {"t0", "t1"}
    switch.check_alive()
    switch.stop()
    switch.stop()
    assert not any(one.open for one in Kernel.made)
    assert Kernel.attached == {}


def test_generic_mode_leaves_the_other_end_as_it_is(machine: Notes) -> None:
    switch = running(machine, options=SwitchOptions(mode="generic"))
    found = switch.facts()
    assert found["modes as the kernel has them"] == {"phy0": "generic", "phy1": "generic"}
    assert gro_of(found) == {}


def test_what_was_redirected_is_counted_where_it_went(machine: Notes) -> None:
    switch = running(machine)
    inode = machine.netns.stat().st_ino
    Kernel.counts = {
        struct.pack("=I", 0): (50,),  # taken
        struct.pack("=I", COUNTS.index("no route")): (2,),
        struct.pack("=II", 10, inode): (40, 6, 1),
    }
    hop = switch.counters()[0]
    # 2 by the program, 1 that could not be redirected, 4 that the ring of the pair had no room for.
    assert (hop.port, hop.rx, hop.tx, hop.rx_dropped, hop.tx_dropped) == ("phy0", 50, 40, 7, 6)
    assert switch.facts()["dropped by programs until then"]["phy0"] == {"no route": 2}


def test_in_generic_mode_the_kernel_counts_what_goes_out(machine: Notes) -> None:
    switch = running(machine, options=SwitchOptions(mode="generic"))
    Kernel.counts = {struct.pack("=I", 0): (50,)}
    hop = switch.counters()[0]
    assert (hop.rx, hop.tx, hop.rx_dropped, hop.tx_dropped) == (50, 90, 3, 4)


@pytest.mark.parametrize(
    ("mode", "traced"),
    [
        ("native", ["xmit", "exception", "redirect_err"]),
        # What a target did not take the kernel has in its statistics, too.
        ("generic", ["xmit", "redirect_err"]),
    ],
)
def test_what_the_kernel_counts_itself_is_not_counted_again(
    mode: str, traced: list[str], machine: Notes
) -> None:
    running(machine, options=SwitchOptions(mode=mode))
    assert Kernel.made[0].traced == traced


def test_what_the_ring_of_a_nic_had_no_room_for_was_dropped_coming_in(
    machine: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xdp, "let_peer_receive", lambda netdev: "")
    machine.kind = ""
    hop = running(machine).counters()[0]
    assert (hop.rx_dropped, hop.tx_dropped) == (3, 0)


def test_a_pair_whose_other_end_is_another_hosts_counts_no_drop_twice(
    machine: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a program drops is in the statistics of its veth end as well."""
    monkeypatch.setattr(xdp, "let_peer_receive", lambda netdev: "")
    switch = running(machine)
    Kernel.counts = {struct.pack("=I", COUNTS.index("no route")): (2,)}
    assert switch.counters()[0].rx_dropped == 2


@pytest.mark.parametrize(
    ("vswitch", "mode", "native"),
    [
        ("xdp", "", True),
        ("xdp", "generic", False),
        ("cgnat", "xdp", True),
        ("cgnat", "", False),
        ("lb", "xdp", True),
        ("lb", "tc", False),
        ("bridge", "", False),
    ],
)
def test_cables_between_hosts_are_told_of_native_frames(
    vswitch: str, mode: str, native: bool
) -> None:
    of_mode = scenario(options=SwitchOptions(mode=mode))
    assert registry.load("vswitches", vswitch).sends_native_xdp(of_mode) is native


def test_a_program_that_is_gone_is_no_switch(machine: Notes) -> None:
    switch = running(machine)
    del Kernel.attached["d1"]
    with pytest.raises(DutError, match=r"gone: the program of port phy1 \(d1\)"):
        switch.check_alive()


def test_a_port_that_goes_is_no_target_any_more(machine: Notes) -> None:
    switch = running(machine)
    switch.connect(())
    switch.remove_port(PhyPort(index=1))
    _, first, second = Kernel.made
    assert first.maps["target"] == {}
    assert (first.open, second.open) == (True, False)
    with pytest.raises(DutError, match="no port phy1"):
        switch.remove_port(PhyPort(index=1))


def test_what_the_kernel_refuses_is_the_duts_error_with_its_cure(machine: Notes) -> None:
    Kernel.refuses = "the interface takes no XDP program in mode native: Operation not supported"
    with pytest.raises(DutError, match="takes no XDP program") as caught:
        running(machine)
    assert caught.value.cure == "--set mode=generic"
    assert not Kernel.made[-1].open


def test_a_router_knows_its_own_addresses(machine: Notes) -> None:
    switch = running(machine, forwarding="l3")
    _, first, second = Kernel.made
    assert (first.code, second.code) == (b"fib", b"fib")
    for name, program in (("d0", first), ("d1", second)):
        mac = bytes.fromhex(machine.macs[name].replace(":", ""))
        assert program.maps["port"] == {struct.pack("=I", 0): mac}
    assert switch.facts()["program"] == "fib"


def test_the_program_decides_the_layer() -> None:
    options = SwitchOptions.model_validate({"program": "fib"})
    assert Xdp.adapted(scenario(options=options), Testbed()).forwarding == "l3"
    options = SwitchOptions.model_validate({"program": "redirect"})
    assert Xdp.adapted(scenario(options=options), Testbed()).forwarding == "l2"
    problem = Xdp.missing(facts(), scenario(options=options, forwarding="l3"))
    assert "the program redirect does not route" in problem


@pytest.mark.parametrize(
    ("lacks", "says"),
    [
        ({"programs": {}}, "clang is not installed; install the package clang, or run `make deps`"),
        ({"bpf": "libbpf.so.1 is not installed"}, "libbpf.so.1 is not installed"),
    ],
)
def test_what_a_machine_lacks_is_told_before_deployment(lacks: dict[str, Any], says: str) -> None:
    assert says in Xdp.missing(facts().model_copy(update=lacks), scenario())
    assert Xdp.missing(facts(), scenario()) == ""


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"options": SwitchOptions(mode="offload")}, "no mode 'offload'"),
        ({"deployment": "pvpv"}, "parallel chains"),
        ({"deployment": "pvp", "vnf": "vloop:vm"}, "does not report it; --set mode=generic"),
        ({"rules": "learning"}, "rules = learning"),
        ({"forwarding": "l3", "deployment": "pvp"}, "use --vnf-mode mac"),
    ],
)
def test_what_it_cannot_do_is_refused_before_deployment(changes: dict[str, Any], says: str) -> None:
    name = changes.pop("deployment", "phy2phy")
    with pytest.raises(CapabilityError, match=re.escape(says)):
        make_plan(scenario(name, **{"vnf": "vloop:container"} | changes), Testbed(), facts())


def test_the_plan_shows_each_ports_program() -> None:
    lines = plan(options=SwitchOptions(mode="generic", mtu=2000)).commands
    words = lines["XDP at phy0"].split(", ")
    assert words == ["redirect", "mode generic", "to phy1", "MTU 2000"]


def test_counts_have_the_places_that_the_programs_use() -> None:
    text = (SOURCES / "port.h").read_text().partition("enum count {")[2].partition("COUNTS,")[0]
    assert len(re.findall(r"^\t[A-Z0-9_]+,", text, re.MULTILINE)) == len(COUNTS)
