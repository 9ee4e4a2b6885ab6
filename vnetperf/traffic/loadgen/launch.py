"""How the engine is started for a plan: its memory, its cores, its queues."""

from __future__ import annotations

from collections.abc import Sequence

from vnetperf.host import vdev
from vnetperf.model.plan import Plan
from vnetperf.model.ports import WireEnd
from vnetperf.model.scenario import Scenario
from vnetperf.traffic.loadgen.devices import NIC_QUEUES, RING, Port, memory_mib, needs_hugepages
from vnetperf.traffic.loadgen.spec import EngineConfig

#: Least memory without hugepages, MiB: it is touched only where it is used.
ORDINARY_MIB = 512
STANDARD_MTU = 1500


def hugepages_mib(scenario: Scenario, kinds: Sequence[str]) -> int:
    """Memory of the engine, where another process or hardware must see it.

    Args:
        scenario: Its MTU and queues.
        kinds: Kinds of wire and attachment its ports plug into.

    Returns:
        MiB; 0 where ordinary memory will do.
    """
    if not needs_hugepages(kinds):
        return 0
    options = scenario.options
    senders = (options.workers or 1) + 1  # what a switch sends on: its workers and one more
    tx_queues = options.rx_queues or 1
    if {"nic", "vf"} & set(kinds):  # its queues are the tester's own: so many for several workers
        senders, tx_queues = max(senders, NIC_QUEUES), max(tx_queues, NIC_QUEUES)
    return memory_mib(2, max(senders, tx_queues), tx_queues, scenario.mtu)


def _cpus(
    cpus: tuple[int, ...], rx_queues: tuple[int, ...], tx_queues: tuple[int, ...]
) -> tuple[int, ...]:
    """Processors of workers with something to do: a queue is served by one worker."""
    return cpus[: max(sum(rx_queues), sum(tx_queues))]


def engine_config(plan: Plan, ports: Sequence[Port], ends: Sequence[WireEnd]) -> EngineConfig:
    """Configuration of the engine.

    Args:
        plan: Cores, memory node, MTU.
        ports: Its ports.
        ends: What they plug into.

    Returns:
        The configuration, which renders its command line.
    """
    placement, scenario = plan.placement, plan.scenario
    rx_queues = tuple(port.rx_queues for port in ports)
    tx_queues = tuple(port.tx_queues for port in ports)
    # memif and kernel interfaces lose nothing by ordinary memory.
    hugepages = any(port.hugepages for port in ports)
    if hugepages:
        memory_mb = hugepages_mib(scenario, tuple(end.kind for end in ends))
    else:
        asked = memory_mib(len(ports), max(rx_queues), max(tx_queues), scenario.mtu)
        memory_mb = max(ORDINARY_MIB, asked)
    return EngineConfig(
        devices=tuple(port.argument for port in ports),
        cpus=_cpus(placement.cores["tester"], rx_queues, tx_queues),
        hugepages=hugepages,
        memory_mb=memory_mb,
        node=placement.node,
        pci=any(port.pci for port in ports),
        nic_time=plan.testbed.nic_timestamps,
        rx_queues=rx_queues,
        tx_queues=tx_queues,
        rx_descriptors=RING,
        tx_descriptors=RING,
        mtu=scenario.mtu if scenario.mtu != STANDARD_MTU else None,
        room=vdev.room(scenario.mtu),
        sleep_us=plan.testbed.tester_sleep_us if placement.takes_turns("tester") else 0,
    )
