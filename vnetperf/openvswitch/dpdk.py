"""Hugepages, processors and settings of an ovs-vswitchd with DPDK."""

from __future__ import annotations

from vnetperf.host import dpdk
from vnetperf.model.scenario import ETHERNET_OCTETS, Placement, Plan
from vnetperf.model.testbed import MachineFacts
from vnetperf.openvswitch.programs import DPDK_DAEMON, SUPPORTED_OVS, parse_ovs_version

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
DEFAULT_DESCRIPTORS = 2048
STEP_MIB = 64
#: Longest sleep of an idle PMD on shared cores, microseconds; it gives its core to the tester.
PMD_SLEEP_US = 50


def dpdk_memory_mib(descriptors: int, mtu: int) -> int:
    """Hugepages of a daemon whose ports have so many descriptors together."""
    buffers = LEAST_BUFFERS
    while buffers < descriptors:
        buffers *= 2
    data = -(-(mtu + ETHERNET_OCTETS) // DATA_GRAIN) * DATA_GRAIN
    needed = OTHER_MIB + buffers * (BUFFER_OCTETS + data) // (1 << 20)
    return max(LEAST_MIB, -(-needed // STEP_MIB) * STEP_MIB)


def socket_memory(plan: Plan, mib: int, *, memif: bool) -> tuple[int, ...]:
    """Hugepage memory on each node: the pollers', and those where ports have their buffers.

    A NIC's are on its node, those of vhost beside the rings of a guest, and those of memif on one
    node wherever it is polled: its driver names none, and OVS and the driver itself then take that.
    """
    home, memory_mib = plan.placement.node, plan.scenario.options.memory_mib
    ports = [n.node for n in plan.nics if n.side == "dut" and not n.kernel and n.node >= 0]
    ports.append(plan.placement.vnf_home_node)
    ports += [dpdk.MEMIF_NODE] if memif else []
    count = 1 + max(home, *plan.placement.nodes, *ports, len(memory_mib) - 1)
    if memory_mib:
        return (*memory_mib, *(0,) * (count - len(memory_mib)))
    return tuple(mib if n in (home, *ports) else 0 for n in range(count))


def cpu_mask(cpus: tuple[int, ...]) -> str:
    """A set of processors as OVS takes it."""
    return hex(sum(1 << cpu for cpu in cpus))


def main_lcore(placement: Placement, pmds: tuple[int, ...], facts: MachineFacts | None) -> int:
    """Processor of DPDK's main thread: most virtual devices get their memory from its node.

    OVS gives that thread its other processors back once DPDK is initialised, so it may be a
    poller's.
    """
    if facts is None:
        return placement.housekeeping[0]
    local_cpus = {cpu.cpu for cpu in facts.cpus if cpu.node == placement.node}
    choice = [cpu for cpu in placement.housekeeping if cpu in local_cpus]
    return choice[0] if choice else pmds[0]


def dpdk_config(
    plan: Plan,
    facts: MachineFacts | None,
    pmds: tuple[int, ...],
    mib: int,
    *,
    memif: bool = False,
) -> dict[str, str]:
    """The Open_vSwitch table's other_config for a daemon with DPDK.

    `pmds` are processors of its poll-mode threads, `mib` hugepages on each node that it needs, and
    `memif` tells whether ports are such devices.
    """
    version = (
        parse_ovs_version(facts.versions.get(DPDK_DAEMON, ""))
        if facts is not None
        else SUPPORTED_OVS[0]
    )
    memory = socket_memory(plan, mib, memif=memif)
    config = {
        "dpdk-init": "true",
        "dpdk-lcore-mask": cpu_mask((main_lcore(plan.placement, pmds, facts),)),
        "pmd-cpu-mask": cpu_mask(pmds),
        "dpdk-socket-mem": ",".join(str(mib) for mib in memory),
        # Without a limit OVS takes every free hugepage of a node, and 0 is no limit.
        "dpdk-socket-limit": ",".join(str(mib or 1) for mib in memory),
        # Otherwise DPDK takes every NIC that it can, the tester's too. One that is plugged in
        # is taken by its address.
        "dpdk-extra": "-a 0000:00:00.0" if plan.wire == "nic" else "--no-pci",
    }
    if plan.placement.takes_turns("pmd") and version >= (3, 1):
        config["pmd-sleep-max" if version >= (3, 2) else "pmd-maxsleep"] = str(PMD_SLEEP_US)
    return config
