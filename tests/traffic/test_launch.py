"""The engine's command line for a plan: as many workers as have something to do."""

from __future__ import annotations

import pytest

from vnetperf.model.deployment import WireEnd, make_deployment
from vnetperf.model.scenario import Placement, Plan, Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.traffic.loadgen.driver import (
    NIC_QUEUES,
    EnginePort,
    Loadgen,
    engine_config,
    engine_port,
    memory_mib,
)

SCENARIO = Scenario(deployment=make_deployment("phy2phy"), vswitch="ovs", traffic=TrafficProfile())
NIC = WireEnd(wire=0, kind="nic", side="tester", pci="0000:3b:00.0", driver="vfio-pci")


def plan(cpus: tuple[int, ...]) -> Plan:
    return Plan(
        scenario=SCENARIO,
        testbed=Testbed(),
        wire="memif",
        placement=Placement(mode="dedicated", reason="", cores={"tester": cpus}, housekeeping=(0,)),
        memory=(),
    )


@pytest.mark.parametrize(
    ("queues", "started"), [((1, 1), 2), ((2, 1), 3), ((3, 1), 4), ((1, 4), 4)]
)
def test_a_worker_has_a_queue(queues: tuple[int, int], started: int) -> None:
    rx, tx = queues
    ports = [EnginePort("--vdev=a", rx_queues=rx, tx_queues=tx), EnginePort("--vdev=b")]
    config = engine_config(plan((4, 5, 6, 7)), ports, ())
    assert config.cpus == (4, 5, 6, 7)[:started]


@pytest.mark.parametrize(("workers", "queues"), [(1, 1), (2, 1), (3, 2), (4, 2), (9, NIC_QUEUES)])
def test_a_nic_has_queues_for_its_workers(workers: int, queues: int) -> None:
    port = engine_port(0, NIC, SCENARIO, 5, vhost_net=False, workers=workers)
    assert (port.rx_queues, port.tx_queues) == (queues, queues)


def test_memory_is_planned_for_a_nics_queues() -> None:
    needed = memory_mib(2, NIC_QUEUES, NIC_QUEUES, SCENARIO.mtu)
    assert Loadgen.hugepage_mib(SCENARIO, ("nic", "nic")) >= needed
    assert Loadgen.hugepage_mib(SCENARIO, ("memif",)) == 0
