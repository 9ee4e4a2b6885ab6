"""vloop in a VM: which guest it asks for, what it cannot have, how its settings are read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vnetperf import config
from vnetperf.model.deployment import Attachment, VnfPort
from vnetperf.model.errors import ConfigError, DutError
from vnetperf.model.options import GuestOptions
from vnetperf.model.scenario import Placement, Scenario
from vnetperf.plugin import registry
from vnetperf.runner.scenarios import make_scenario
from vnetperf.virt import guest_plan
from vnetperf.virt.domain import NetdevBacking, VfBacking, VhostUserBacking
from vnetperf.virt.images import Image
from vnetperf.vnfs.vloop.guest_forwarders import STATS_BLOCK, STATS_FIELD
from vnetperf.vnfs.vloop.vm import VmVloop

MACS = ("02:76:61:00:00:00", "02:76:61:01:00:00")
IMAGE = Image("vloop", "k", Path("/i/k"), Path("/i/i"), Path("/i/root"), "console=ttyS0", {})
PLACEMENT = Placement(mode="dedicated", reason="", cores={"vnf0": (3,)}, housekeeping=(0,))


def attachments(kind: str, **changes: Any) -> tuple[Attachment, ...]:
    return tuple(
        Attachment(
            port=VnfPort(vnf=0, index=n),
            kind=kind,
            socket=f"/r/{n}" if kind == "vhost-user" else None,
            netdev=f"t{n}" if kind in ("tap", "macvtap") else None,
            vnf_is_server=True,
            mac=MACS[n],
            **changes,
        )
        for n in (0, 1)
    )


def domain(kind: str = "vhost-user", **changes: Any) -> Any:
    placement = changes.pop("placement", PLACEMENT)
    own_macs, mtu = changes.pop("own_macs", False), changes.pop("mtu", 1500)
    ports = {
        key: changes.pop(key)
        for key in ("queues", "multi_queue", "pci", "driver", "offloads")
        if key in changes
    }
    if "port_mtu" in changes:
        ports["mtu"] = changes.pop("port_mtu")
    where = guest_plan.GuestResources(
        name="vnf0-1",
        boot=guest_plan.image_boot(IMAGE),
        mtu=mtu,
        role="vnf0",
        qemu="/q",
        accelerator="tcg",
        console=Path("/r/c"),
        output=Path("/r/o"),
        own_macs=own_macs,
        vhost_net=False,
        placement=placement,
    )
    return guest_plan.guest_domain(attachments(kind, **ports), GuestOptions(**changes), where)


def test_it_is_a_place_of_vloop() -> None:
    assert registry.load_vnf("vloop:vm") is VmVloop


def test_the_forwarding_vcpu_is_where_the_plan_says_and_the_rest_beside_the_system() -> None:
    guest = domain()
    assert (guest.vcpu_pins, guest.emulator_pin) == (((0,), (3,)), (0,))
    assert guest.node is None
    assert guest.boot.cmdline.endswith("panic=-1")


@pytest.mark.parametrize(
    ("kind", "vhost", "mode", "names"),
    [
        ("vhost-user", False, "io", ["CPU 1/"]),
        ("tap", True, "io", ["CPU 1/"]),
        ("tap", False, "io", ["CPU 1/", "qemu-system-x86"]),  # which carries the frames
        ("tap", True, "route", ["CPU 0/", "CPU 1/"]),
        ("tap", False, "buildin", ["CPU 0/", "CPU 1/", "qemu-system-x86"]),
    ],
)
def test_the_work_of_a_guest_is_its_own(
    kind: str, vhost: bool, mode: str, names: list[str]
) -> None:
    scenario = make_scenario(
        "pvp_bridge", config.load({"vnf": "vloop:vm", "vnf_mode": mode}, environment={})
    )
    made = domain(kind, vhost=vhost).model_copy(update={"emulator": Path("/q/qemu-system-x86_64")})
    vnf: Any = object.__new__(VmVloop)
    vnf.number, vnf.plan = 0, SimpleNamespace(scenario=scenario)
    vnf.guest = SimpleNamespace(pid=7, domain=made)
    assert [(one.role, one.pid) for one in vnf.pollers()] == [("vnf0", 7)] * len(names)
    assert [one.thread_prefix for one in vnf.pollers()] == names
    # Who waits for frames is measured, and not preferred.
    assert [one.thread_prefix for one in vnf.pollers() if not one.sleeps] == [
        name for name in names if mode == "io" and name.startswith("CPU")
    ]
    vnf.guest.pid = 0
    assert vnf.pollers() == ()


def test_memory_is_tied_to_the_pollers_node_where_there_are_several() -> None:
    two = PLACEMENT.model_copy(update={"node": 1, "nodes": (0, 1)})
    assert domain(placement=two).node == 1
    assert domain(placement=two, node=0).node == 0


def test_nics_plug_in_where_they_are_told() -> None:
    first, second = domain().nics
    assert first.backing == VhostUserBacking(socket="/r/0", server=True)
    assert (second.mac, second.tx_ring, second.queues) == (MACS[1], 1024, 1)
    tap = domain("tap", mtu=9000).nics[0]
    assert (tap.backing, tap.tx_ring, tap.mtu) == (NetdevBacking(netdev="t0"), 256, 9000)
    assert tap.queues == 1
    assert domain("tap", queues=2).nics[0].queues == 2
    with pytest.raises(DutError, match="cannot plug into a memif"):
        domain("memif")


def test_a_nic_is_what_its_attachment_needs_where_no_option_says_otherwise() -> None:
    needed = {"offloads": False, "port_mtu": 1450}
    nic = domain("tap", tso=True, **needed).nics[0]
    assert (nic.mtu, nic.offloads.csum, nic.offloads.tso) == (1450, False, True)
    assert domain("tap", nic="e1000", **needed).nics[0].offloads.csum is None
    assert domain("tap").nics[0].offloads.csum is None


@pytest.mark.parametrize("kind", ["tap", "macvtap"])
def test_a_model_without_virtio_has_no_rings_and_no_vhost(kind: str) -> None:
    nic = domain(kind, multi_queue=False, nic="e1000", vhost=True).nics[0]
    assert (nic.model, nic.queues, nic.rx_ring, nic.tx_ring) == ("e1000", 1, None, None)
    assert not nic.backing.vhost
    assert domain(kind, multi_queue=False, vhost=True).nics[0].backing.vhost


def test_a_virtual_function_must_be_free_for_the_guest() -> None:
    given = {"pci": "0000:41:10.0", "driver": "vfio-pci"}
    assert domain("vf", **given).nics[0].backing == VfBacking(pci="0000:41:10.0")
    with pytest.raises(DutError, match="its driver is igbvf"):
        domain("vf", **(given | {"driver": "igbvf"}))


def test_a_form_that_takes_every_frame_is_not_at_a_virtual_function() -> None:
    accepts = {mode: VmVloop.accepts(_scenario(mode)) for mode in ("mac", "route", "bridge", "xdp")}
    assert [mode for mode, kinds in accepts.items() if "vf" in kinds] == ["mac", "route"]


def _scenario(mode: str) -> Scenario:
    given = {"vnf": "vloop:vm", "vnf_mode": mode}
    return make_scenario("pvp_sriov", config.load(given, environment={}))


def test_a_kernel_that_passes_frames_on_does_not_take_them_for_its_own() -> None:
    macs = [nic.mac for nic in domain(own_macs=True).nics]
    assert macs == ["02:76:67:00:00:00", "02:76:67:01:00:00"]


def test_options_of_guests_come_from_a_file_and_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "big.toml"
    file.write_text("memory_mib = 1024\npacked = true\n")
    given = {"guest": (str(file), "memory_mib=2048")}
    guest = config.load(given, environment={}).guest
    assert (guest.name, guest.memory_mib, guest.packed) == ("big", 2048, True)
    assert guest.given() == {"memory_mib": 2048, "packed": True}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("memory=2048", "did you mean 'memory_mib'"),
        ("rx_ring=300", "power of two"),
        ("nic=ne2000", "nic"),
        ("nowhere", "nowhere"),
    ],
)
def test_a_wrong_option_is_told(given: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        config.load({"guest": (given,)}, environment={})


def test_counters_are_read_from_what_testpmd_prints() -> None:
    said = """
  ######################## NIC statistics for port 0  ########################
  RX-packets: 600        RX-missed: 2          RX-bytes:  36000
  RX-errors: 0
  RX-nombuf:  0
  TX-packets: 599        TX-errors: 1          TX-bytes:  36000

  Throughput (since last show)
  Rx-pps:            0          Rx-bps:            0
  ############################################################################
"""
    (block,) = STATS_BLOCK.finditer(said)
    assert block[1] == "0"
    found = dict(STATS_FIELD.findall(block[2]))
    assert (found["RX-packets"], found["RX-missed"], found["TX-errors"]) == ("600", "2", "1")
