"""Hugepage memory of OVS-DPDK: packet buffers for the rings of its ports."""

from __future__ import annotations

from vnetperf.model.scenario import Scenario

#: Enough for a few ports of one queue at an MTU of 1500.
LEAST_MIB = 256
#: What is not packet buffers: rings, flow tables, the virtual devices' own.
OTHER_MIB = 96
#: OVS gives all ports of one MTU a pool of 262144 buffers, or half of that and so on until it
#: fits; it refuses fewer than this.
LEAST_BUFFERS = 16384
#: A buffer beside its data: headroom, metadata, alignment.
BUFFER_OCTETS, DATA_GRAIN = 512, 1024
#: OVS's own ring of a port.
DESCRIPTORS = 2048
STEP_MIB = 64


def switch_mib(scenario: Scenario) -> int:
    """Memory that a scenario needs.

    Args:
        scenario: The scenario.

    Returns:
        MiB.
    """
    options, ports = scenario.options, len(scenario.deployment.ports)
    receive = (options.rx_queues or 1) * (options.rx_descriptors or DESCRIPTORS)
    send = ((options.workers or 1) + 1) * (options.tx_descriptors or DESCRIPTORS)
    buffers = LEAST_BUFFERS
    while buffers < ports * (receive + send):
        buffers *= 2
    octets = buffers * (BUFFER_OCTETS + _grains(scenario.mtu + 18) * DATA_GRAIN)
    needed = OTHER_MIB + octets // (1 << 20)
    return max(LEAST_MIB, -(-needed // STEP_MIB) * STEP_MIB)


def _grains(octets: int) -> int:
    return -(-octets // DATA_GRAIN)
