"""What OVS-DPDK is configured with, by version (2.17 to 4.0)."""

from __future__ import annotations

import re

from vnetperf.model.errors import DutError
from vnetperf.model.plan import Plan
from vnetperf.model.ports import WireEnd

#: Longest sleep of an idle PMD on shared cores, microseconds; it gives its core to the tester.
PMD_SLEEP_US = 50
#: Hugepage memory of the switch: mempools of a few ports at an MTU of 1500.
SWITCH_MIB = 256
#: Ring of a memif wire, as a power of two: the DUT's receive descriptors.
MEMIF_RING_LOG2 = 11
SUPPORTED = ((2, 17), (4, 99))


def parse_version(text: str) -> tuple[int, int]:
    """Version of OVS.

    Args:
        text: What `ovs-vswitchd --version` prints.

    Returns:
        Major, minor.

    Raises:
        DutError: When no version is in the text.
    """
    match = re.search(r"\(Open vSwitch\)\s+(\d+)\.(\d+)", text)
    if match is None:
        raise DutError(f"no version in {text.strip()[:80]!r}", where="ovs-vswitchd --version")
    return int(match[1]), int(match[2])


def cpu_mask(cpus: tuple[int, ...]) -> str:
    """A set of processors as OVS wants it.

    Args:
        cpus: Processors.

    Returns:
        Hexadecimal mask, e.g. "0x5".
    """
    return hex(sum(1 << cpu for cpu in cpus))


def other_config(plan: Plan, version: tuple[int, int]) -> dict[str, str]:
    """The Open_vSwitch table's other_config.

    Args:
        plan: Cores and memory.
        version: Version of OVS.

    Returns:
        Key -> value.
    """
    node = plan.placement.node
    last = max(node, *plan.placement.nodes)
    config = {
        "dpdk-init": "true",
        "dpdk-lcore-mask": cpu_mask(plan.placement.housekeeping),
        "pmd-cpu-mask": cpu_mask(plan.placement.cores["pmd"]),
        "dpdk-socket-mem": ",".join(["0"] * node + [str(SWITCH_MIB)]),
        # Without a limit OVS takes every free hugepage of a node, and 0 is no limit.
        "dpdk-socket-limit": ",".join(
            str(SWITCH_MIB if number == node else 1) for number in range(last + 1)
        ),
    }
    if plan.placement.takes_turns("pmd") and version >= (3, 1):
        config["pmd-sleep-max" if version >= (3, 2) else "pmd-maxsleep"] = str(PMD_SLEEP_US)
    return config


def devargs(end: WireEnd) -> str:
    """The DUT's end of a wire as a DPDK device.

    Args:
        end: The wire's end.

    Returns:
        Device arguments.

    Raises:
        DutError: When the kind of wire is unknown.
    """
    if end.kind == "memif":
        return (
            f"net_memif{end.wire},role={end.role},id={end.wire},socket={end.socket},"
            f"socket-abstract=no,bsize=2048,rsize={MEMIF_RING_LOG2}"
        )
    if end.kind == "veth":
        return (
            f"net_af_packet{end.wire},iface={end.netdev},framesz=2048,framecnt=2048,"
            "blocksz=4096,qdisc_bypass=1"
        )
    raise DutError(f"cannot plug a {end.kind} wire in", where="dpdk", accepted="memif, veth")
