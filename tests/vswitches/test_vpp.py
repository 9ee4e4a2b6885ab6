"""The parts of VPP's backend that need no VPP: what it is started with, and what it refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.fakes.machine import PROGRAMS, cpus, facts
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.programs import find_programs
from vnetperf.model.deployment import PhyPort, make_deployment
from vnetperf.model.errors import CapabilityError, DutError
from vnetperf.model.options import QueuePin, SwitchOptions
from vnetperf.model.scenario import MemoryPlan, NicUse, Placement, Plan, Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.vswitches.vpp import Vpp, daemon, interfaces
from vnetperf.vswitches.vpp.daemon import PrivateVpp
from vnetperf.vswitches.vpp.install import VppStartup, find_installation, parse_vpp_version
from vnetperf.vswitches.vpp.interfaces import VppInterface

ALL = ("memif", "vhost", "af_packet", "af_xdp", "dpdk", "vxlan", "gre", "geneve")


def install(
    root: Path, version: str = "26.06", plugins: tuple[str, ...] = ALL, lib: str = "lib"
) -> str:
    """A VPP that is not one: a binary that names its library, and plugin files."""
    (root / "bin").mkdir(parents=True)
    (root / lib / "vpp_plugins").mkdir(parents=True)
    binary = root / "bin/vpp"
    binary.write_bytes(f"\x7fELF\0libvlib.so.{version}\0libc.so.6\0".encode())
    binary.chmod(0o755)
    for name in plugins:
        (root / lib / f"vpp_plugins/{name}_plugin.so").touch()
    return str(binary)


def machine(root: Path, **changes: Any) -> MachineFacts:
    binary = install(root, **changes)
    found = find_programs(Vpp.programs, {"vpp": binary})["vpp"]
    return facts(
        cpus=cpus(8),
        programs={**PROGRAMS, "vpp": found.path},
        versions={"vpp": found.version},
        program_troubles={"vpp": found.problem},
    )


def scenario(deployment: str = "pvp", **changes: Any) -> Scenario:
    fields: dict[str, Any] = {"traffic": TrafficProfile(), **changes}
    return Scenario(deployment=make_deployment(deployment), vswitch="vpp", **fields)


def plan(of: Scenario, cores: dict[str, tuple[int, ...]] | None = None, **changes: Any) -> Plan:
    placement = Placement(
        mode="dedicated",
        reason="",
        cores=cores or {"tester": (1,), "worker": (2,), "vnf0": (3,)},
        housekeeping=(0,),
    )
    fields: dict[str, Any] = {"wire": "memif", "memory": (), **changes}
    return Plan(scenario=of, testbed=Testbed(), placement=placement, **fields)


def startup(of: Plan, machine: MachineFacts, *attachments: str) -> VppStartup:
    return daemon.make_startup(of, machine, Path("/r/vpp"), "vnetperf-x", attachments)


# --- the installed VPP -----------------------------------------------------------------------


@pytest.mark.parametrize("lib", ["lib", "lib64", "lib/x86_64-linux-gnu"])
def test_plugins_are_found_from_the_binary(tmp_path: Path, lib: str) -> None:
    found = find_installation(install(tmp_path, lib=lib))
    assert found.plugin_dir == tmp_path / lib / "vpp_plugins"
    assert found.library_dir == tmp_path / lib
    assert found.has("memif")
    assert not found.has("no_such")


def test_a_link_to_a_vpp_leads_to_its_plugins(tmp_path: Path) -> None:
    binary = install(tmp_path / "opt")
    link = tmp_path / "vpp"
    link.symlink_to(binary)
    assert find_installation(str(link)).plugin_dir == tmp_path / "opt/lib/vpp_plugins"


def test_nothing_is_said_of_plugins_that_are_elsewhere(tmp_path: Path) -> None:
    binary = tmp_path / "bin/vpp"
    binary.parent.mkdir()
    binary.touch()
    found = find_installation(str(binary))
    assert found.plugin_dir is None
    assert found.has("memif")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("vpp 26.06", (26, 6)),
        ("v23.06-rc2~3-g0123abc", (23, 6)),
        ("24.10-release", (24, 10)),
        ("rdma: libibverbs 10.20.30 is older\nvpp v25.02-release built by a at 2025.03", (25, 2)),
    ],
)
def test_versions(text: str, version: tuple[int, int]) -> None:
    assert parse_vpp_version(text) == version


def test_the_version_is_read_and_vpp_is_not_started(tmp_path: Path) -> None:
    binary = install(tmp_path, version="23.06")
    started = tmp_path / "started"
    Path(binary).write_bytes(f"#!/bin/sh\ntouch {started}\n#\0libvlib.so.23.06\0".encode())
    found = find_programs(Vpp.programs, {"vpp": binary})["vpp"]
    assert (found.path, found.version) == (binary, "vpp 23.06")
    assert not started.exists()


# --- what it lacks ---------------------------------------------------------------------------


def test_no_vpp_is_told_with_the_package() -> None:
    assert "vpp is not installed" in Vpp.missing(facts(), scenario())


@pytest.mark.parametrize(("version", "runs"), [("22.10", False), ("24.06", True), ("26.06", True)])
def test_versions_that_are_not_supported_are_told(
    tmp_path: Path, version: str, *, runs: bool
) -> None:
    problem = Vpp.missing(machine(tmp_path, version=version), scenario())
    assert (problem == "") == runs
    assert runs or "23.06 or newer" in problem


def test_a_vpp_that_does_not_tell_its_messages_needs_their_definitions(tmp_path: Path) -> None:
    old = machine(tmp_path, version="23.06")
    assert "share/vpp/api" in Vpp.missing(old, scenario())
    (tmp_path / "share/vpp/api").mkdir(parents=True)
    assert Vpp.missing(old, scenario()) == ""


def test_workers_that_leave_the_main_thread_no_processor_are_refused(tmp_path: Path) -> None:
    there = machine(tmp_path)
    as_many = scenario(options=SwitchOptions(workers=8))
    assert "8 workers need 9, and there are 8" in Vpp.missing(there, as_many)
    assert Vpp.missing(there, scenario(options=SwitchOptions(workers=7))) == ""
    alone = there.model_copy(update={"cpus": cpus(1)})
    assert Vpp.missing(alone, scenario(options=SwitchOptions(workers=1))) == ""


def test_plugins_that_are_missing_are_told(tmp_path: Path) -> None:
    poor = machine(tmp_path, plugins=("memif",))
    assert Vpp.missing(poor, scenario(wire="memif")) == ""
    by_veth = scenario(wire="veth")
    assert "af_packet" in Vpp.missing(poor, by_veth)
    assert "vxlan" in Vpp.missing(poor, scenario("op2p"))
    nic = NicUse(wire=0, side="dut", pci="0000:01:00.0", driver="vfio-pci", kernel=False)
    assert "dpdk" in Vpp.nics_missing((nic,), poor, scenario())
    assert "af_packet" in Vpp.nics_missing(
        (nic.model_copy(update={"kernel": True}),), poor, scenario()
    )
    other = nic.model_copy(update={"side": "tester"})
    assert Vpp.nics_missing((other,), poor, scenario()) == ""


@pytest.mark.parametrize(
    ("deployment", "changes", "says"),
    [
        ("pvp", {}, ""),
        ("pvpv", {}, ""),
        ("pvpv", {"options": SwitchOptions(mode="xconnect")}, "parallel chains"),
        ("pvpv", {"traffic": TrafficProfile(flows=4, vary=("eth_dst",))}, "varies"),
        ("pvpv", {"vnf_mode": "macswap"}, "--vnf-mode io"),
        ("pvp", {"rules": "learning"}, ""),
        ("pvp", {"rules": "learning", "vnf_mode": "macswap"}, "--vnf-mode io"),
        ("pvp", {"rules": "learning", "options": SwitchOptions(mode="l2patch")}, "mode bridge"),
        ("pvp", {"rules": "stream"}, "--forwarding l3"),
        ("pvp", {"forwarding": "l3"}, "--vnf-mode mac"),
        ("pvp", {"forwarding": "l3", "vnf_mode": "mac"}, ""),
        ("pvpv", {"forwarding": "l3", "vnf_mode": "mac"}, "parallel chains"),
        ("phy2phy", {"forwarding": "l3", "options": SwitchOptions(mode="bridge")}, "leave"),
        ("phy2phy", {"forwarding": "l3", "rules": "stream"}, ""),
        (
            "phy2phy",
            {
                "forwarding": "l3",
                "rules": "stream",
                "traffic": TrafficProfile(flows=9, vary=("udp_src",)),
            },
            "ipv4_dst",
        ),
        ("op2p", {}, ""),
        ("op2p", {"options": SwitchOptions(mode="l2patch")}, "tunnels"),
    ],
)
def test_what_it_cannot_forward_is_told_with_the_cure(
    tmp_path: Path, deployment: str, changes: dict[str, Any], says: str
) -> None:
    problem = Vpp.missing(machine(tmp_path), scenario(deployment, **changes))
    assert bool(problem) == bool(says), problem
    assert says in problem


XDP = SwitchOptions(mode="af_xdp")


@pytest.mark.parametrize(
    ("deployment", "changes", "says"),
    [
        ("phy2phy", {"wire": "veth"}, ""),
        ("pvp", {}, ""),
        ("pvpv", {"wire": "veth"}, ""),
        ("pvp", {"rules": "learning"}, ""),
        ("phy2phy", {"forwarding": "l3"}, ""),
        ("op2p", {"wire": "veth"}, ""),
        ("phy2phy", {"wire": "memif"}, "--wire veth"),
        ("phy2phy", {"wire": "nic"}, "leaves its XDP program on a NIC"),
        ("v2v", {}, "no physical port"),
        ("phy2phy", {"max_frame_size": 9018}, "up to 1700"),
        ("phy2phy", {"options": SwitchOptions(mode="af_xdp", rx_descriptors=128)}, "256"),
        (
            "phy2phy",
            {"wire": "veth", "options": SwitchOptions(mode="af_xdp", rx_queues=2)},
            "one queue",
        ),
    ],
)
def test_where_af_xdp_cannot_be_is_told_with_the_cure(
    tmp_path: Path, deployment: str, changes: dict[str, Any], says: str
) -> None:
    problem = Vpp.missing(machine(tmp_path), scenario(deployment, **{"options": XDP, **changes}))
    assert bool(problem) == bool(says), problem
    assert says in problem


def test_af_xdp_on_a_wire_that_was_chosen_is_refused_by_the_plan(tmp_path: Path) -> None:
    there = machine(tmp_path)
    of = scenario("phy2phy", options=XDP)
    with pytest.raises(CapabilityError, match=r"memif.*; add --wire veth"):
        Vpp.launch_lines(plan(of), there)
    lines = Vpp.launch_lines(plan(of, wire="veth"), there)
    assert "af_xdp_plugin.so" in lines["startup.conf"]
    assert "af_packet_plugin.so" not in lines["startup.conf"]
    nic = NicUse(wire=0, side="dut", pci="0000:01:00.0", driver="igb", kernel=True)
    assert "--wire veth" in Vpp.nics_missing((nic,), there, of)


def test_the_plugin_of_af_xdp_is_named(tmp_path: Path) -> None:
    poor = machine(tmp_path, plugins=tuple(name for name in ALL if name != "af_xdp"))
    of = scenario("phy2phy", options=XDP, wire="veth")
    assert "plugin af_xdp is not in" in Vpp.missing(poor, of)


@pytest.mark.parametrize("message", ["af_xdp_create_v3", "af_xdp_create_v2"])
def test_af_xdp_is_made_by_the_message_that_this_vpp_has(message: str) -> None:
    api = MagicMock(knows=lambda name: name == message)
    options = SwitchOptions(mode="af_xdp", rx_descriptors=512)
    interfaces.create_xdp(api, PhyPort(index=0), "d0", options)
    (name,), fields = api.call.call_args_list[0]
    assert name == message
    assert (fields["host_if"], fields["rxq_size"], fields["rxq_num"]) == ("d0", 512, 1)


# --- what it is started with -----------------------------------------------------------------


def words(of: VppStartup) -> str:
    return " ".join(of.text().split())


def test_a_private_instance(tmp_path: Path) -> None:
    text = words(startup(plan(scenario()), machine(tmp_path), "vhost-user"))
    assert "nodaemon" in text
    assert "runtime-dir /r/vpp" in text
    assert "api-segment { prefix vnetperf-x }" in text
    for socket in ("cli", "api", "stats"):
        assert f"/r/vpp/{socket}.sock" in text
    assert "main-core 0 corelist-workers 2" in text
    assert "default data-size 2048 page-size 4k" in text
    assert f"path {tmp_path}/lib/vpp_plugins " in text
    assert "plugin default { disable }" in text
    enabled = {w for w in text.split() if w.endswith("_plugin.so")}
    assert enabled == {"memif_plugin.so", "af_packet_plugin.so", "vhost_plugin.so"}
    assert "dpdk {" not in text


def test_pages_are_those_that_the_kernel_has(tmp_path: Path) -> None:
    made = startup(plan(scenario()), machine(tmp_path), "vhost-user")
    text = words(made.model_copy(update={"ordinary_kb": 64}))
    assert text.count("page-size 64k") == 3
    assert "4k" not in text.replace("64k", "")


@pytest.mark.parametrize("page", [4096, 16384, 65536])
@pytest.mark.parametrize("frames", [16, 256, 1024])
@pytest.mark.parametrize("size", [2048, 9728])
def test_a_ring_of_a_kernel_interface_is_of_whole_pages(size: int, frames: int, page: int) -> None:
    octets = interfaces.ring_frame_size(size, frames, page)
    assert octets >= size
    assert octets % 16 == 0
    assert octets * frames % page == 0


def test_only_plugins_that_are_there_are_enabled(tmp_path: Path) -> None:
    text = words(startup(plan(scenario()), machine(tmp_path, plugins=("memif",)), "vhost-user"))
    assert "memif_plugin.so" in text
    assert "vhost_plugin.so" not in text


@pytest.mark.parametrize(
    ("worker", "processors", "main", "workers"),
    [((2,), 8, 0, "2"), ((0,), 8, 1, "0"), ((1, 0), 8, 2, "0,1"), ((0,), 1, 0, None)],
)
def test_the_main_thread_never_shares_a_processor_with_a_worker(
    tmp_path: Path, worker: tuple[int, ...], processors: int, main: int, workers: str | None
) -> None:
    there = machine(tmp_path).model_copy(update={"cpus": cpus(processors)})
    options = SwitchOptions(workers=len(worker))
    text = words(startup(plan(scenario(options=options), {"worker": worker}), there))
    assert f"main-core {main}" in text
    assert (f"corelist-workers {workers} }}" in text) if workers else ("workers" not in text)


def test_jumbo_frames_lie_in_one_buffer_each_in_hugepages(tmp_path: Path) -> None:
    jumbo = scenario(options=SwitchOptions(mtu=9000))
    mib = Vpp.hugepage_mib(jumbo)
    assert mib > 0
    memory = MemoryPlan(node=0, size_kb=2048, pages=mib // 2, users={"vpp": mib})
    made = startup(plan(jumbo, memory=(memory,)), machine(tmp_path))
    assert made.data_size >= 9000 + 18
    assert made.buffers * made.data_size < mib << 20
    assert "page-size 2048k" in words(made)
    assert Vpp.hugepage_mib(scenario()) == 0


def test_nics_of_the_wires_are_named_when_it_starts(tmp_path: Path) -> None:
    uses = [
        NicUse(wire=0, side="dut", pci="0000:01:00.0", driver="vfio-pci", kernel=False),
        NicUse(wire=0, side="tester", pci="0000:02:00.0", driver="vfio-pci", kernel=False),
        NicUse(wire=1, side="dut", pci="0000:01:00.1", driver="igb", kernel=True),
    ]
    asked = scenario(options=SwitchOptions(rx_queues=2, rx_descriptors=512))
    text = words(startup(plan(asked, wire="nic", nics=tuple(uses)), machine(tmp_path)))
    assert "dev 0000:01:00.0 { name nic-phy0" in text
    assert "num-rx-queues 2" in text
    assert "num-rx-desc 512" in text
    assert "0000:02:00.0" not in text
    assert "0000:01:00.1" not in text
    assert "dpdk_plugin.so" in text


def test_the_plan_shows_the_configuration(tmp_path: Path) -> None:
    lines = Vpp.launch_lines(plan(scenario()), machine(tmp_path))
    assert "startup.conf" in lines["vpp"]
    assert "corelist-workers 2" in lines["startup.conf"]
    assert Vpp.launch_lines(plan(scenario()))


@pytest.mark.parametrize(("wire", "plugin"), [("memif", "memif"), ("veth", "af_packet")])
def test_the_plugin_of_a_wire_that_was_chosen_is_named_by_the_plan(
    wire: str, plugin: str, tmp_path: Path
) -> None:
    there = machine(tmp_path, plugins=tuple(name for name in ALL if name != plugin))
    of = plan(scenario(wire="auto"), wire=wire)
    with pytest.raises(CapabilityError, match=f"plugin {plugin}, .* {wire} wire"):
        Vpp.launch_lines(of, there)
    other = plan(scenario(), wire="memif" if wire == "veth" else "veth")
    assert Vpp.launch_lines(other, there)


def test_a_pin_of_a_port_that_is_not_there_is_refused(tmp_path: Path) -> None:
    pin = QueuePin(port="phy2", queue=0, worker=0)
    of = scenario(options=SwitchOptions(rxq_affinity=(pin,)))
    problem = Vpp.missing(machine(tmp_path), of)
    assert "phy0, phy1, vnf0.0, vnf0.1" in problem


# --- a start on starved processors ---


class Starting:
    """A machine on which VPP ends in a way while it starts, some times, and then starts."""

    def __init__(self, directory: Path, failures: int, code: int, says: str) -> None:
        self.directory, self.failures, self.code, self.says = directory, failures, code, says
        self.started = 0

    def subdir(self, name: str) -> Path:
        return self.directory / name

    def schedule_removal(self, path: Path) -> None:
        del path

    def spawn(self, *_: Any, **__: Any) -> Any:
        self.started += 1
        if self.started > self.failures:
            return MagicMock()
        log = self.directory / "vpp.log"
        log.write_text(self.says)
        popen: Any = EndingPopen(self.code)
        return ManagedProcess("vpp", ("vpp",), log, popen)


class EndingPopen:
    """A process with much memory that has begun to end: its code comes after a second."""

    pid, stdin = 1, None

    def __init__(self, code: int) -> None:
        self.code = code
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, limit_s: float) -> int:
        if limit_s < 1.0:
            raise subprocess.TimeoutExpired("vpp", limit_s)
        self.returncode = self.code
        return self.code

    def terminate(self) -> None:
        """Too late."""


@pytest.mark.parametrize(
    ("failures", "how", "tries"),
    [
        (0, (0, ""), 1),
        (2, (-6, "#4 vlib_worker_thread_barrier_sync_int + 0x666"), 3),
        (9, (-6, "#4 vlib_worker_thread_barrier_sync_int + 0x666"), 3),
        (1, (-6, "#4 something_else"), 1),
        (1, (-11, "#4 vlib_worker_thread_barrier_sync_int + 0x666"), 1),
        (1, (1, "unknown input"), 1),
    ],
)
def test_a_vpp_whose_worker_found_no_processor_is_started_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failures: int,
    how: tuple[int, str],
    tries: int,
) -> None:
    (tmp_path / "vpp").mkdir()
    made = Starting(tmp_path, failures, *how)
    monkeypatch.setattr("vnetperf.host.processes.is_ending", lambda pid: True)
    segment = MagicMock()
    monkeypatch.setattr("vnetperf.vswitches.vpp.daemon.StatsSegment", segment)
    there = machine(tmp_path / "opt")
    private = PrivateVpp(
        made,  # type: ignore[arg-type]  # as much of a machine as is asked
        find_installation(there.programs["vpp"]),
        (26, 6),
    )
    of = startup(plan(scenario()), there)
    of = of.model_copy(update={"directory": tmp_path / "vpp"})
    if failures < tries:
        private.start(of)
        assert segment.open.called
    else:
        with pytest.raises(DutError, match="vpp has begun to end"):
            private.start(of)
    assert made.started == tries


# --- ports that go ---------------------------------------------------------------------------


def test_what_led_from_a_tunnel_to_a_port_that_goes_is_taken_back(tmp_path: Path) -> None:
    of = scenario("op2p")
    (outer,) = of.deployment.tunnelled
    (inner,) = set(of.deployment.ports) - {outer}
    switch = Vpp(MagicMock(facts=machine(tmp_path)), plan(of))
    sent: list[tuple[str, dict[str, Any]]] = []

    def call(message: str, **fields: Any) -> Any:
        sent.append((message, fields))
        return SimpleNamespace(sw_if_index=99)

    api = MagicMock(call=call)
    api.interfaces_changed.is_set.return_value = False
    switch.vpp = MagicMock(api=api)
    switch.interfaces = {
        outer: VppInterface(outer, 1, "memif1/0", "memif"),
        inner: VppInterface(inner, 2, "memif2/0", "memif"),
    }
    switch.connect(())
    joined = {
        (fields["rx_sw_if_index"], fields["tx_sw_if_index"])
        for message, fields in sent
        if message == "sw_interface_set_l2_xconnect"
    }
    assert (99, 2) in joined
    del sent[:]
    switch.remove_port(inner)
    taken = {"rx_sw_if_index": 99, "tx_sw_if_index": 2, "enable": False}
    assert ("sw_interface_set_l2_xconnect", taken) in sent
    assert not any(fields.get("rx_sw_if_index") == 1 for _, fields in sent)
