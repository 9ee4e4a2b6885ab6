"""The parts of OVS with the kernel's datapath, and of both OVS backends, that need no OVS."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.machine import PROGRAMS, VERSIONS, facts
from vnetperf.model import deployment
from vnetperf.model.deployment import PHY_PORTS, make_deployment
from vnetperf.model.errors import DutError
from vnetperf.model.frames import TUNNELS
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.traffic import TrafficProfile
from vnetperf.openvswitch.private import PrivateOvs, tunnel_settings
from vnetperf.plugin.backend import TUNNEL_MODULES
from vnetperf.vswitches.dpdk import OvsDpdk
from vnetperf.vswitches.openvswitch import openflow
from vnetperf.vswitches.ovs import DATAPATH, OvsKernel, needed_modules


def scenario(name: str = "pvp", **changes: Any) -> Scenario:
    traffic = changes.pop("traffic", TrafficProfile())
    return Scenario(deployment=make_deployment(name), vswitch="ovs", traffic=traffic, **changes)


def without(module: str) -> MachineFacts:
    return facts(modules={module: "it is neither loaded nor under /lib/modules/6.6.6"})


def test_a_kernel_without_the_datapath_is_told_with_the_cure() -> None:
    problem = OvsKernel.missing(without("openvswitch"), scenario())
    assert "no module openvswitch" in problem
    assert "vnetperf lab run" in problem
    assert OvsKernel.missing(facts(), scenario()) == ""


@pytest.mark.parametrize("kind", TUNNELS)
def test_a_tunnel_needs_its_module_and_only_then(kind: Any) -> None:
    module = TUNNEL_MODULES[kind]
    machine = without(module.name)
    assert module.name in OvsKernel.missing(machine, scenario("encap", tunnel=kind))
    assert OvsKernel.missing(machine, scenario("pvp", tunnel=kind)) == ""
    assert needed_modules(scenario("decap", tunnel=kind)) == (DATAPATH, module)


def test_the_daemon_s_version_is_checked() -> None:
    old = facts(versions={**VERSIONS, "ovs-vswitchd": "ovs-vswitchd (Open vSwitch) 2.9.8"})
    assert "[programs] ovs_kernel" in OvsKernel.missing(old, scenario())
    gone = facts(programs={**PROGRAMS, "ovs-vswitchd": ""})
    assert "openvswitch-switch" in OvsKernel.missing(gone, scenario())


@pytest.mark.parametrize("backend", [OvsKernel, OvsDpdk])
def test_more_addresses_than_a_bridge_learns_are_refused(backend: Any) -> None:
    traffic = TrafficProfile(flows=600_000, vary=("eth_src",))
    problem = backend.missing(facts(), scenario(rules="learning", traffic=traffic))
    assert "at most 1000000 addresses" in problem
    most = int(problem.rpartition("set flows to ")[2].split()[0])
    fits = TrafficProfile(flows=most, vary=("eth_src",))
    assert backend.missing(facts(), scenario(rules="learning", traffic=fits)) == ""
    assert backend.missing(facts(), scenario(traffic=traffic)) == ""


def test_a_table_has_room_for_every_address() -> None:
    traffic = TrafficProfile(flows=100_000, vary=("eth_src",))
    size, _ = openflow.learning_settings(scenario(rules="learning", traffic=traffic))
    assert int(size.rpartition("=")[2]) >= 200_000
    small, _ = openflow.learning_settings(scenario(rules="learning"))
    assert small.endswith("=8192")


@pytest.mark.parametrize("kind", TUNNELS)
def test_a_tunnel_s_ends_are_the_models(kind: Any) -> None:
    (end,) = scenario("op2p", tunnel=kind).tunnel_ends
    found = tunnel_settings(kind, end.local, end.remote, end.vni)
    assert found[0] == f"type={kind}"
    assert "options:remote_ip=192.0.2.2" in found
    assert "options:local_ip=192.0.2.1" in found
    assert ("options:key=42" in found) == (kind != "gre")


@pytest.mark.parametrize(("name", "port"), [("encap", 1), ("decap", 0), ("op2p", 1)])
def test_the_underlay_is_addressed_as_the_tester_sends(name: str, port: int) -> None:
    (end,) = scenario(name).tunnel_ends
    assert (end.port, end.number) == (PHY_PORTS[port], 0)
    assert end.mac == deployment.dut_mac(PHY_PORTS[port])
    assert end.peer_mac == deployment.tester_mac(port, 0)


def test_options_are_rendered_or_refused() -> None:
    assert set(OvsKernel.capabilities.options) <= set(SwitchOptions.model_fields)
    assert set(OvsDpdk.capabilities.options) <= set(SwitchOptions.model_fields)
    assert "workers" not in OvsKernel.capabilities.options


# --- the private instance --------------------------------------------------------------------


@pytest.fixture
def instance(tmp_path: Path) -> PrivateOvs:
    calls: list[list[str]] = []

    def run(argv: list[str], **_: Any) -> str:
        calls.append(argv)
        return ""

    machine: Any = SimpleNamespace(
        subdir=lambda name: tmp_path, run=run, facts=facts(programs={}), calls=calls
    )
    return PrivateOvs(machine, str(tmp_path / "sbin/ovs-vswitchd"), "ovsdb-server")


def test_rules_are_written_one_by_one_and_counted(instance: PrivateOvs) -> None:
    assert instance.install("br0", (f"in_port={n}" for n in range(5)), 5) == 5
    (file,) = instance.directory.glob("br0*")
    assert file.read_text().splitlines() == [f"in_port={n}" for n in range(5)]
    calls = instance.machine.calls  # type: ignore[attr-defined]  # a double has it
    assert [argv[1] for argv in calls] == ["del-flows", "add-flows"]


def test_what_an_earlier_start_left_is_removed_and_vnfs_sockets_are_not(
    instance: PrivateOvs, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("conf.db", "db.sock", "br0.mgmt", "vswitchd.ctl", "vnf0.0.sock")
    for name in names:
        (instance.directory / name).write_text("")
    monkeypatch.setattr("vnetperf.openvswitch.private.SCHEMAS", ())
    with pytest.raises(DutError, match="schema"):
        instance.start_database()
    assert [p.name for p in instance.directory.iterdir()] == ["vnf0.0.sock"]
