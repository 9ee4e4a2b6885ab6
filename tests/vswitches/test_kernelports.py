"""VNF ports of switches in the kernel, on a machine that only takes notes."""

from __future__ import annotations

from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from vnetperf.host.links import LinkStatistics
from vnetperf.host.machine import Machine
from vnetperf.model.deployment import PhyPort, VnfPort
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.trial import HopCounters
from vnetperf.vswitches import kernelports
from vnetperf.vswitches.bridge import LinuxBridge


class Notes:
    """What a switch in the kernel asks of a machine for its ports."""

    def __init__(self) -> None:
        self.made: dict[str, tuple[Any, ...]] = {}
        self.deleted: list[str] = []

    def interface_name(self, role: str) -> str:
        assert len(role) <= 5
        return f"vp12345678{role}"

    def create_tap(self, name: str, mtu: int, **options: Any) -> None:
        self.made[name] = ("tap", mtu, options)

    def create_veth(self, a: str, b: str, mtu: int, **options: Any) -> None:
        self.made[b] = ("veth", a, mtu, options)

    def delete_link(self, name: str) -> None:
        self.deleted.append(name)

    def link_statistics(self) -> dict[str, LinkStatistics]:
        return {name: LinkStatistics(5, 7, 1, 2) for name in self.made}


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def machine(notes: Notes) -> Machine:
    return cast("Machine", notes)


PORT = VnfPort(vnf=12, index=1)


def bridge(machine: Machine, mtu: int = 1500, *, offloads: bool | None = None) -> LinuxBridge:
    plan = MagicMock()
    plan.scenario.mtu, plan.scenario.options.offloads = mtu, offloads
    return LinuxBridge(machine, plan)


def test_a_tap_is_one_device_for_both(machine: Machine, notes: Notes) -> None:
    switch = bridge(machine, 9000)
    offer = switch.offer_vnf_port(PORT, "tap", 4)
    assert not notes.made
    assert switch.make_attachment(offer) == offer.netdev
    assert notes.made == {"vp12345678v12b": ("tap", 9000, {"offloads": False, "multi_queue": True})}


def test_a_tap_is_made_for_one_queue_where_it_is_opened_so(machine: Machine, notes: Notes) -> None:
    switch = bridge(machine)
    offer = switch.offer_vnf_port(PORT, "tap").model_copy(update={"multi_queue": False})
    made = switch.make_attachment(offer)
    assert notes.made[made] == ("tap", 1500, {"offloads": False, "multi_queue": False})


def test_the_vnf_has_one_end_of_a_pair_and_the_switch_the_other(
    machine: Machine, notes: Notes
) -> None:
    switch = bridge(machine, offloads=True)
    offer = switch.offer_vnf_port(PORT, "veth", 4)
    made = switch.make_attachment(offer)
    assert made != offer.netdev
    assert notes.made == {made: ("veth", offer.netdev, 1500, {"offloads": True, "queues": 4})}


@pytest.mark.parametrize("kind", kernelports.KINDS)
def test_a_port_that_a_vnf_has_open_is_kept(machine: Machine, notes: Notes, kind: str) -> None:
    switch = bridge(machine)
    offer = switch.offer_vnf_port(PORT, kind)
    made = switch.make_attachment(offer)
    notes.made[made] = ("as it was",)
    assert switch.make_attachment(offer) == made
    assert notes.made == {made: ("as it was",)}


@pytest.mark.parametrize("kind", kernelports.KINDS)
def test_what_was_made_is_what_is_removed(machine: Machine, notes: Notes, kind: str) -> None:
    switch = bridge(machine)
    made = switch.make_attachment(switch.offer_vnf_port(PORT, kind))
    switch.delete_attachment(PORT)
    assert notes.deleted == [made]


def test_ports_of_a_deployment_have_names_of_their_own(machine: Machine) -> None:
    ports = [VnfPort(vnf=v, index=i) for v in range(100) for i in (0, 1)]
    names = {bridge(machine).offer_vnf_port(port, "tap").netdev for port in ports}
    assert len(names) == len(ports)
    assert all(len(str(name)) <= 15 for name in names)


def test_counters_are_the_switchs_and_those_of_what_is_gone_are_left_out(
    machine: Machine,
) -> None:
    switch = bridge(machine)
    made = switch.make_attachment(switch.offer_vnf_port(PORT, "tap"))
    switch.netdevs = {PORT: made, PhyPort(index=0): "gone"}
    counts = HopCounters(port="vnf12.1", rx=5, tx=7, rx_dropped=1, tx_dropped=2)
    assert switch.counters() == (counts,)


def test_an_unknown_kind_names_those_there_are(machine: Machine) -> None:
    with pytest.raises(DutError, match="accepted: veth, tap"):
        bridge(machine).offer_vnf_port(PORT, "vhost-user")


def test_a_port_that_could_not_be_made_is_not_recorded() -> None:
    class Full(Notes):
        def create_tap(self, name: str, mtu: int, **options: Any) -> None:
            raise HostError("no room", where=name)

    switch = bridge(cast("Machine", Full()))
    with pytest.raises(HostError, match="no room"):
        switch.make_attachment(switch.offer_vnf_port(PORT, "tap"))
    assert not switch.attachments
