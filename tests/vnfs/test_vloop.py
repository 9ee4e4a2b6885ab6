"""The command line of testpmd, for every kind of attachment."""

from __future__ import annotations

import re
from typing import Any
from unittest.mock import MagicMock, patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.machine import cpus, facts
from tests.planning.test_placement import demands
from vnetperf.host import dpdk
from vnetperf.host.threads import Thread
from vnetperf.model.deployment import Attachment, VnfPort, make_deployment
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import Placement, Plan, Scenario, VnfPlacement
from vnetperf.model.testbed import CoresConfig, MachineFacts, Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.planning.placement import place_with_vnfs
from vnetperf.vnfs.vloop import Vloop
from vnetperf.vnfs.vloop.container import ContainerVloop
from vnetperf.vnfs.vloop.process import KINDS, RING, device_for

MACS = ("02:76:61:00:00:00", "02:76:61:01:00:00")
PEERS = ("02:76:65:00:00:00", "02:76:65:01:00:00")


def attachment(number: int, kind: str, **changes: object) -> Attachment:
    """Where port `number` plugs in."""
    port = VnfPort(vnf=0, index=number)
    socket = f"/run/{number}.sock" if kind in ("vhost-user", "memif") else None
    netdev = f"vp{number}" if kind not in ("vhost-user", "memif") else None
    plain = Attachment(port=port, kind=kind, socket=socket, netdev=netdev, mac=MACS[number])
    return plain.model_copy(update=changes)


def launched(attachments: tuple[Attachment, Attachment], **changes: Any) -> Vloop:
    """A VNF whose command line is made, between two attachments."""
    options = SwitchOptions(mtu=changes.pop("mtu", 1500))
    placement = Placement(
        mode="dedicated",
        reason="",
        cores={} if "unpinned" in changes else {"vnf0": (changes.pop("worker", 1),)},
        unpinned=changes.pop("unpinned", {}),
        housekeeping=(changes.pop("main", 0),),
        node=changes.pop("node", 0),
        far_nodes=changes.pop("far_nodes", ()),
    )
    plan = Plan(
        scenario=Scenario(
            deployment=make_deployment("pvp"),
            vswitch="any",
            traffic=TrafficProfile(),
            options=options,
            **changes,
        ),
        testbed=Testbed(),
        wire="memif",
        placement=placement,
        memory=(),
    )
    machine = MagicMock(facts=facts())
    vnf = Vloop(machine, plan, 0)
    vnf.launch(attachments)
    return vnf


def command(
    kind: str = "vhost-user",
    *,
    vhost_net: bool = False,
    ports: tuple[dict[str, Any], dict[str, Any]] = ({}, {}),
    **changes: Any,
) -> list[str]:
    first, second = (
        attachment(n, kind, peer_mac=PEERS[n]).model_copy(update=ports[n]) for n in (0, 1)
    )
    with patch("vnetperf.vnfs.vloop.process.Path.exists", return_value=vhost_net):
        return launched((first, second), **changes).argv


@pytest.mark.parametrize(
    ("node", "far", "memory"),
    [
        (0, (), "128"),
        (1, (), "0,128"),
        (2, (), "0,0,128"),
        (0, (1,), "128,16"),
        (1, (0,), "16,128"),
    ],
)
def test_memory_is_taken_where_the_threads_are(
    node: int, far: tuple[int, ...], memory: str
) -> None:
    line = command(node=node, far_nodes=far)
    assert line[line.index("--socket-mem") + 1] == memory
    assert {"--no-numa", f"--socket-num={node}"} <= set(line)
    assert "-m" not in line


@pytest.mark.parametrize(
    ("main", "worker", "lcores", "main_lcore"),
    [
        (8, 9, "8@8,9@9", 8),
        (0, 0, "1@0,0@0", 1),
        (3, 3, "0@3,3@3", 0),
        (200, 201, "1@200,0@201", 1),
    ],
)
def test_lcores_have_the_numbers_of_their_processors_where_they_can(
    main: int, worker: int, lcores: str, main_lcore: int
) -> None:
    line = command(main=main, worker=worker)
    assert f"--lcores={lcores}" in line
    assert f"--main-lcore={main_lcore}" in line


@pytest.mark.parametrize(
    ("machine", "housekeeping", "near", "where", "pmds"),
    [
        (facts(cpus=cpus(16, nodes=2)), (), None, "remote", 1),
        (facts(cpus=cpus(16, nodes=2)), (), None, "unpinned", 1),
        (facts(cpus=cpus(16, nodes=2)), (8,), 0, "auto", 1),
        (facts(cpus=cpus(16, nodes=2)), (0, 8), 1, "auto", 1),
        (facts(cpus=cpus(8, smt=2, nodes=2)), (), None, "auto", 2),
        (facts(4), (), None, "auto", 1),
    ],
)
def test_a_container_has_the_processors_of_all_threads_of_testpmd(
    machine: MachineFacts,
    housekeeping: tuple[int, ...],
    near: int | None,
    where: VnfPlacement,
    pmds: int,
) -> None:
    cores = CoresConfig(housekeeping=housekeeping)
    plan = Plan(
        scenario=Scenario(
            deployment=make_deployment("pvp"),
            vswitch="any",
            traffic=TrafficProfile(),
            vnf_placement=where,
        ),
        testbed=Testbed(cores=cores),
        wire="memif",
        placement=place_with_vnfs(demands(1, pmds), cores, machine, near, where),
        memory=(),
    )
    vnf = ContainerVloop(MagicMock(facts=machine), plan, 0)
    with patch.multiple(vnf.container, create=MagicMock(), spawn=MagicMock()):
        vnf.launch((attachment(0, "memif"), attachment(1, "memif")))
    lcores = next(word for word in vnf.argv if word.startswith("--lcores="))
    used = {int(number) for number in re.findall(r"\d+(?!\d*@)", lcores)}
    assert {*vnf.plan.placement.cores.get("vnf0", ())} <= used <= {*vnf.container.cpus}


def test_threads_that_may_be_anywhere_are_let_loose_when_they_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DPDK that is given processors of several nodes knows no node, and testpmd no memory, then."""
    moved: dict[int, set[int]] = {}
    there = [
        Thread(7, "dpdk-testpmd", frozenset({2})),
        Thread(8, "dpdk-worker2", frozenset({3})),
        Thread(9, "telemetry-v2", frozenset({2})),
    ]
    monkeypatch.setattr("vnetperf.vnfs.vloop.process.list_threads", lambda _: there)
    monkeypatch.setattr(
        "vnetperf.vnfs.vloop.process.pin_thread", lambda tid, cpus: moved.update({tid: {*cpus}})
    )
    pair = (attachment(0, "vhost-user"), attachment(1, "vhost-user"))
    launched(pair).wait_ready(1)
    assert not moved
    vnf = launched(pair, unpinned={"vnf0": (0, 1, 2, 3)})
    (lcores,) = [word for word in vnf.argv if word.startswith("--lcores=")]
    assert "(" not in lcores
    vnf.wait_ready(1)
    assert moved == {8: {0, 1, 2, 3}}


@pytest.mark.parametrize(
    ("kind", "vhost_net", "says", "hugepages", "pci"),
    [
        ("vhost-user", False, "net_virtio_user1,path=/run/1.sock,", True, False),
        ("memif", False, "net_memif1,role=client,id=0,socket=/run/1.sock,", False, False),
        ("veth", False, "net_af_packet1,iface=vp1,", False, False),
        ("macvtap", False, "net_af_packet1,iface=vp1,", False, False),
        ("tap", False, "net_tap1,iface=vp1,", False, False),
        ("tap", True, "net_virtio_user1,path=/dev/vhost-net,iface=vp1,", True, False),
        ("vf", False, "net_af_packet1,iface=vp1,", False, False),
    ],
)
def test_each_kind_of_attachment_has_its_device(
    kind: str, vhost_net: bool, says: str, hugepages: bool, pci: bool
) -> None:
    line = command(kind, vhost_net=vhost_net)
    assert sum(says in argument for argument in line) == 1, line
    assert ("--in-memory" in line) == hugepages
    assert ("--no-huge" in line) == (not hugepages)
    assert ("--no-pci" in line) == (not pci)


def test_a_function_under_vfio_is_a_pci_device() -> None:
    vfs = [
        attachment(n, "vf", pci=f"0000:3b:10.{n}", driver="vfio-pci", netdev=None) for n in (0, 1)
    ]
    line = launched((vfs[0], vfs[1])).argv
    assert {"-a0000:3b:10.0", "-a0000:3b:10.1", "--in-memory"} <= set(line)
    assert "--no-pci" not in line


def test_who_listens_is_said_by_the_attachment() -> None:
    listens = attachment(0, "vhost-user", vnf_is_server=True)
    assert ",server=1," in device_for(0, listens, 1500, vhost_net=False).argument
    listens = attachment(0, "memif", vnf_is_server=True)
    assert ",role=server," in device_for(0, listens, 1500, vhost_net=False).argument


@pytest.mark.parametrize(
    ("kind", "changes", "says"),
    [
        ("carrier-pigeon", {}, "carrier-pigeon"),
        ("vhost-user", {"socket": None}, "no socket"),
        ("veth", {"netdev": None}, "no netdev"),
        ("vf", {"driver": "vfio-pci"}, "no pci"),
    ],
)
def test_what_cannot_be_plugged_in_is_refused(
    kind: str, changes: dict[str, object], says: str
) -> None:
    with pytest.raises(DutError, match=says):
        device_for(0, attachment(0, kind, **changes), 1500, vhost_net=False)


def test_jumbo_frames_through_a_plain_tap_are_refused_with_the_cure() -> None:
    assert command("tap", mtu=1504)
    with pytest.raises(HostError, match="vhost_net"):
        command("tap", mtu=1505)


def test_addresses_are_written_in_mode_mac_only() -> None:
    peers = {f"--eth-peer={n},{mac}" for n, mac in enumerate(PEERS)}
    assert peers <= set(command(vnf_mode="mac"))
    assert not peers & set(command(vnf_mode="macswap"))
    assert f"mac={MACS[0]}" in " ".join(command(vnf_mode="mac"))
    alone = command(vnf_mode="mac", ports=({}, {"peer_mac": None}))
    assert [a for a in alone if "--eth-peer" in a] == [f"--eth-peer=0,{PEERS[0]}"]


@pytest.mark.parametrize("kind", ["veth", "macvtap", "vf"])
def test_a_kernel_interface_has_the_queues_of_its_port(kind: str) -> None:
    line = command(kind, ports=({"queues": 2}, {"queues": 2}))
    assert "--rxq=2" in line
    rings = [argument for argument in line if "net_af_packet" in argument]
    assert all(",qpairs=2" in argument for argument in rings)


@given(st.sampled_from(sorted(set(KINDS) - {"vf"})), st.integers(1500, 9198), st.booleans())
def test_buffers_hold_the_frames_of_the_mtu(kind: str, mtu: int, vhost_net: bool) -> None:
    vhost_net = vhost_net or kind == "tap"  # net_tap carries no jumbo frames
    line = command(kind, mtu=mtu, vhost_net=vhost_net)
    octets = next(int(a.partition("=")[2]) for a in line if a.startswith("--mbuf-size="))
    assert octets - dpdk.HEADROOM >= mtu + 14
    told = [a for a in line if a.startswith("--max-pkt-len=")]
    # Drivers that know no such size refuse to be told.
    assert bool(told) == (mtu > 1500 and "--no-huge" not in line)


@given(st.integers(1500, 9198), st.integers(1, 16))
def test_memory_has_room_for_all_rings_full(mtu: int, queues: int) -> None:
    buffers = dpdk.mbuf_count(2, queues, mtu)
    assert buffers >= 2 * queues * 2 * RING
    octets = buffers * (mtu + 14 + dpdk.HEADROOM)
    assert dpdk.forwarder_memory_mib(2, queues, mtu) * (1 << 20) >= octets + (dpdk.BASE_MIB << 20)


@pytest.mark.parametrize(("kind", "needs"), [("vhost-user", True), ("memif", False)])
def test_hugepages_are_asked_for_where_memory_is_shared(kind: str, needs: bool) -> None:
    plain = Scenario(deployment=make_deployment("pvp"), vswitch="any", traffic=TrafficProfile())
    asked = Vloop.memory(plain, kind).mib
    assert asked == (128 if needs else 0)
    many = plain.model_copy(update={"options": SwitchOptions(rx_queues=16)})
    assert Vloop.memory(many, kind).mib >= asked
