"""What OVS-DPDK is configured with as a whole, by version (2.17 to 4.0)."""

from __future__ import annotations

from vnetperf.model.errors import CapabilityError
from vnetperf.model.machine import MachineFacts
from vnetperf.model.plan import Placement, Plan
from vnetperf.vswitches.dpdk import devices
from vnetperf.vswitches.dpdk.memory import switch_mib
from vnetperf.vswitches.openvswitch.limits import flow_limit
from vnetperf.vswitches.openvswitch.version import SUPPORTED, parse_version

#: Longest sleep of an idle PMD on shared cores, microseconds; it gives its core to the tester.
PMD_SLEEP_US = 50
DAEMON = "ovs-vswitchd-dpdk"


def cpu_mask(cpus: tuple[int, ...]) -> str:
    """A set of processors as OVS wants it.

    Args:
        cpus: Processors.

    Returns:
        Hexadecimal mask, e.g. "0x5".
    """
    return hex(sum(1 << cpu for cpu in cpus))


def other_config(plan: Plan, facts: MachineFacts | None) -> dict[str, str]:
    """The Open_vSwitch table's other_config.

    Args:
        plan: Cores, memory, options.
        facts: The machine; None assumes the oldest supported version and one node.

    Returns:
        Key -> value.

    Raises:
        CapabilityError: There are fewer processors than workers, or a wire has no such rings.
    """
    placement, options = plan.placement, plan.scenario.options
    if (options.workers or 1) > len(placement.cores["pmd"]):
        raise CapabilityError(
            f"{options.workers} workers need as many processors; there are "
            f"{len(placement.cores['pmd'])} for them",
            where=plan.scenario.id,
            cure="ask for fewer with --set workers=N, or allow more processors under [cores]",
        )
    devices.check_rings(plan)
    version = parse_version(facts.versions[DAEMON]) if facts is not None else SUPPORTED[0]
    memory = memory_by_node(plan)
    config = {
        "dpdk-init": "true",
        "dpdk-lcore-mask": cpu_mask((main_lcore(placement, facts),)),
        "pmd-cpu-mask": cpu_mask(placement.cores["pmd"]),
        "dpdk-socket-mem": ",".join(str(mib) for mib in memory),
        # Without a limit OVS takes every free hugepage of a node, and 0 is no limit.
        "dpdk-socket-limit": ",".join(str(mib or 1) for mib in memory),
        # Otherwise DPDK takes every NIC that it can, the tester's too. One that is plugged in is
        # taken by its address.
        "dpdk-extra": "-a 0000:00:00.0" if plan.wire == "nic" else "--no-pci",
    }
    if placement.takes_turns("pmd") and version >= (3, 1):
        config["pmd-sleep-max" if version >= (3, 2) else "pmd-maxsleep"] = str(PMD_SLEEP_US)
    if options.offloads is not None:
        config["userspace-tso-enable"] = str(options.offloads).lower()
    if options.rxq_affinity:
        # A worker with a pinned queue would otherwise take no others, and those nobody takes are
        # not polled at all.
        config |= {"pmd-rxq-assign": "group", "pmd-rxq-isolate": "false"}
    return config | flow_limit(plan.scenario)


def memory_by_node(plan: Plan) -> tuple[int, ...]:
    """Hugepage memory on each node: the pollers', and those of NICs, whose buffers are there.

    Args:
        plan: The plan; its memory is what was reserved.

    Returns:
        MiB by node, up to the machine's last.
    """
    home, given = plan.placement.node, plan.scenario.options.memory_mib
    nics = [n.node for n in plan.nics if n.side == "dut" and not n.kernel and n.node >= 0]
    nics.append(plan.placement.home_of_vnfs)  # vhost has buffers beside the rings of a guest
    count = 1 + max(home, *plan.placement.nodes, *nics, len(given) - 1)
    if given:
        return (*given, *(0,) * (count - len(given)))
    return tuple(switch_mib(plan.scenario) if n in (home, *nics) else 0 for n in range(count))


def main_lcore(placement: Placement, facts: MachineFacts | None) -> int:
    """Processor of DPDK's main thread: virtual devices get their memory from its node.

    OVS gives that thread its other processors back once DPDK is initialised, so it may be a
    poller's.

    Args:
        placement: Cores.
        facts: The machine; None for one node.

    Returns:
        Processor on the pollers' node, one left to the system if there is one.
    """
    if facts is None:
        return placement.housekeeping[0]
    here = {cpu.cpu for cpu in facts.cpus if cpu.node == placement.node}
    choice = [cpu for cpu in placement.housekeeping if cpu in here]
    return choice[0] if choice else placement.cores["pmd"][0]
