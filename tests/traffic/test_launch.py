"""The engine's command line for a plan: as many workers as have something to do."""

from __future__ import annotations

import pytest

from vnetperf.host.facts import is_unknown
from vnetperf.model.deployment import WireEnd, make_deployment
from vnetperf.model.scenario import Placement, Plan, Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.traffic.loadgen.driver import (
    NIC_QUEUES,
    EnginePort,
    Loadgen,
    clock_offset,
    engine_config,
    engine_port,
    memory_mib,
)
from vnetperf.traffic.loadgen.telemetry import WorkerInfo

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


def worker(number: int, cpu: int, node: int, *clock: int) -> WorkerInfo:
    exchanges, least, most = clock or (0, 0, 0)
    return WorkerInfo(number, cpu, node, 100 + number, 1, 1, exchanges, least, most)


def test_clocks_of_two_sockets_are_bounded_by_what_the_engine_measured() -> None:
    near, far = worker(0, 4, 0), worker(1, 24, 1, 2000, 4910, 5090)
    assert clock_offset((near, far)) == {
        "between": "processor 4 and processor 24",
        "least_ns": 4910,
        "most_ns": 5090,
    }
    # Neither of the two is the one that the engine compares with: both bounds add up.
    beside = worker(2, 5, 0, 2000, -60, 70)
    assert clock_offset((near, beside, far)) == {
        "between": "processor 5 and processor 24",
        "least_ns": 4910 - 70,
        "most_ns": 5090 + 60,
    }


def test_clocks_that_were_not_compared_are_unknown() -> None:
    near, far = worker(0, 4, 0), worker(1, 24, 1)
    offset = clock_offset((near, far))
    assert is_unknown(offset)
    assert "processor 4 and processor 24" in offset
    of_before = WorkerInfo(1, 24, 1, 101, 1, 1)
    assert is_unknown(clock_offset((near, of_before)))


def test_workers_on_one_socket_have_no_offset() -> None:
    alone = clock_offset((worker(0, 4, 0), worker(1, 5, 0, 2000, -60, 70)))
    assert "one socket" in alone
