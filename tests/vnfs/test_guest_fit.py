"""What is asked of guests and cannot be had: refused in the plan, in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.machine import facts
from vnetperf import config
from vnetperf.deployment.capability_check import check_capabilities
from vnetperf.model.errors import CapabilityError
from vnetperf.model.options import GuestOptions
from vnetperf.model.scenario import Placement, Scenario
from vnetperf.runner.scenarios import make_scenario
from vnetperf.traffic.loadgen.driver import Loadgen
from vnetperf.virt import guest_facts, guest_plan
from vnetperf.vnfs.vloop import guest_requirements
from vnetperf.vnfs.vloop.vm import VmVloop
from vnetperf.vswitches.bridge import LinuxBridge
from vnetperf.vswitches.dpdk import OvsDpdk

SHIPPED = Path(__file__).parents[2] / "conf/guest"


def asked(*guest: str, scenario: str = "pvp_bridge", **settings: Any) -> Scenario:
    given = {"vnf": "vloop:vm", "guest": guest, **settings}
    return make_scenario(scenario, config.load(given, environment={}))


@pytest.mark.parametrize(
    ("scenario", "says"),
    [
        (asked("vcpu_pins=['0']", "vcpus=2"), "vcpu_pins has 1 entries for 2 vCPUs"),
        (asked("vcpu_pins=['0','500']"), "vcpu_pins names processor 500"),
        (asked("emulator_pin='0-900'"), "emulator_pin names processor"),
        (asked("iothread_pins=['77']"), "iothread_pins names processor 77"),
        (asked("vhost_pin='64'"), "vhost_pin names processor 64"),
        (asked("node=7"), "there is no node 7"),
        (asked("nic=e1000", "csum=false"), "csum is an option of virtio NICs, and nic is e1000"),
        (asked("nic=e1000", set=("rx_queues=2",)), "e1000 has one queue pair; leave rx_queues"),
        (asked("nic=rtl8139"), "DPDK has no driver of the rtl8139, and mode io is testpmd's"),
        (
            asked("nic=rtl8139", vnf_mode="bridge", frame_sizes=(9018,)),
            "MTU of at most 4096, not 9000",
        ),
        (asked("gro=false"), "gro is done by the guest's kernel, which has no part in mode io"),
        (asked("nic=e1000", "vhost=true"), "vhost is for virtio NICs, and nic is e1000"),
        (asked("vhost=false", "vhost_pin='0'"), "vhost_pin has nothing to pin with vhost off"),
        (asked(set=("vf_driver=kernel",)), "leaves virtual functions to the host"),
        (asked("memory_mib=128"), "a guest of 128 MiB is too small"),
        (asked(vnf_mode="buildin"), "name it: --guest image=/path/NAME.qcow2"),
        (asked("image=/x/y.qcow2"), "y.qcow2 is a disk image"),
        (asked("image=/x/y.qcow2", vnf_mode="buildin"), "image /x/y.qcow2 cannot be read"),
        (asked("cmdline=quiet"), "cmdline is for a disk image of yours"),
        (asked(), ""),
        (asked("nic=e1000"), ""),
        (asked("nic=rtl8139", vnf_mode="route"), ""),
        (asked("gro=false", vnf_mode="bridge"), ""),
        (asked("vcpu_pins=['0','2-3']", "vhost_pin='1'", "csum=false", "packed=true"), ""),
    ],
    ids=lambda value: value.replace(" ", "-")[:40] if isinstance(value, str) else "",
)
def test_what_cannot_be_had_is_told_before_anything_is_done(scenario: Scenario, says: str) -> None:
    told = guest_requirements.guest_problem(scenario, facts(), 192)
    assert says in told
    assert bool(told) == bool(says)


def test_vhost_needs_its_module() -> None:
    machine = facts(modules={"vhost_net": "it is not there"})
    assert "vhost_net, which vhost needs" in guest_requirements.guest_problem(
        asked("vhost=true"), machine, 0
    )


@pytest.mark.parametrize(
    ("scenario", "says"),
    [
        (asked("nic=e1000", scenario="pvp_dpdk"), "vhost-user; vloop:vm with e1000 accepts tap"),
        (asked(scenario="pvp_dpdk"), ""),
        (asked("nic=e1000"), ""),
    ],
)
def test_a_model_without_virtio_cannot_be_at_a_vhost_user_socket(
    scenario: Scenario, says: str
) -> None:
    vswitch = OvsDpdk if scenario.vswitch == "dpdk" else LinuxBridge
    if not says:
        check_capabilities(scenario, vswitch, VmVloop, Loadgen)
        return
    with pytest.raises(CapabilityError, match=says):
        check_capabilities(scenario, vswitch, VmVloop, Loadgen)


def test_virtio_options_say_nothing_to_a_function_that_is_passed_through() -> None:
    kinds = ("tap", "vf")
    assert guest_requirements.fitting_kinds(GuestOptions(packed=True), kinds) == ("tap",)
    assert guest_requirements.fitting_kinds(GuestOptions(memory_mib=1024), kinds) == kinds


PLACEMENT = Placement(mode="dedicated", reason="", cores={"vnf0": (3, 4)}, housekeeping=(0,))


def test_the_plan_shows_where_a_guest_goes() -> None:
    line = guest_plan.pins_line(GuestOptions(vcpus=3), PLACEMENT, "vnf0", vhost_net=False)
    assert line.startswith("vCPU 0 on 0, vCPU 1 on 3, vCPU 2 on 4, emulator on 0, 512 MiB of")
    pinned = GuestOptions(vcpu_pins=("1", "2-3"), vhost_pin="5", iothread_pins=("6",), node=1)
    line = guest_plan.pins_line(pinned, PLACEMENT, "vnf0", vhost_net=True)
    assert "vCPU 1 on 2-3" in line
    assert "vhost threads of taps on 5" in line
    assert "I/O thread 1 on 6" in line
    assert "on node 1" in line


@pytest.mark.parametrize(
    ("guest", "queues", "threads"),
    [((), 1, 1), (("vcpus=3",), 1, 2), (("vcpus=8",), 2, 4), (("vcpus=1",), 2, 1)],
)
def test_as_many_processors_as_vcpus_that_have_a_queue(
    guest: tuple[str, ...], queues: int, threads: int
) -> None:
    (demand,) = VmVloop.roles(asked(*guest, set=(f"rx_queues={queues}",)), 0)
    assert demand.threads == threads


def test_relative_paths_are_those_of_whoever_typed_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = GuestOptions(image="mine.qcow2", kernel=Path("vmlinuz"))
    assert (options.disk, options.kernel) == (tmp_path / "mine.qcow2", tmp_path / "vmlinuz")
    assert GuestOptions().disk is None


def test_features_are_read_from_what_ethtool_prints() -> None:
    said = (
        "Features for eth0:\nrx-checksumming: on [fixed]\ntx-checksumming: off\n"
        "\ttx-checksum-ipv4: off [fixed]\ngeneric-receive-offload: on\n"
    )
    found = guest_facts.parse_ethtool(said)
    assert found["rx-checksumming"] == "on (fixed)"
    assert found["tx-checksumming"] == "off"
    assert found["generic-receive-offload"] == "on"
    assert found["tcp-segmentation-offload"] == "unknown"


def test_features_of_virtio_are_read_from_its_bits() -> None:
    bits = "".join("1" if bit in (0, 15, 34) else "0" for bit in range(64))
    said = guest_facts.parse_virtio_bits(bits)
    assert said == (
        "checksum on, checksum in off, TSO off, TSO in off, mergeable buffers on, "
        "several queues off, packed rings on"
    )


@pytest.mark.parametrize("file", sorted(SHIPPED.glob("*.toml")), ids=lambda file: file.stem)
def test_every_file_that_is_shipped_asks_for_what_can_be_had(file: Path) -> None:
    guest = asked(file.stem, vnf_mode="bridge")
    assert guest.guest.name == file.stem
    assert guest.guest.description
    assert guest_requirements.guest_problem(guest, facts(), 0) == ""


def test_a_guest_goes_where_vnfs_are_to_be() -> None:
    far = PLACEMENT.model_copy(update={"vnf_node": 1, "nodes": (0, 1)})
    assert "on node 1" in guest_plan.pins_line(GuestOptions(), far, "vnf0", vhost_net=False)
    cores = {role: cpus for role, cpus in PLACEMENT.cores.items() if role != "vnf0"}
    loose = far.model_copy(update={"cores": cores, "unpinned": {"vnf0": (0, 1, 2, 3)}})
    line = guest_plan.pins_line(GuestOptions(), loose, "vnf0", vhost_net=True)
    assert "vCPU 0 on 0-3, vCPU 1 on 0-3, emulator on 0-3" in line
    assert "on any node" in line
    assert guest_plan.guest_pins(GuestOptions(node=1), loose, "vnf0").node == 1


def test_a_guest_of_half_a_page_is_refused() -> None:
    half = asked("hugepage_kb=1048576", scenario="pvp_dpdk")
    text = guest_requirements.guest_problem(half, facts(), 0)
    assert "memory_mib=512 is no whole number of pages of 1024 MiB" in text
    assert "--guest memory_mib=1024" in text
    whole = asked("hugepage_kb=1048576", "memory_mib=1024", scenario="pvp_dpdk")
    assert guest_requirements.guest_problem(whole, facts(), 0) == ""
