"""Open vSwitch's programs, its kernel module, and the versions that are supported."""

from __future__ import annotations

import re

from vnetperf.model.errors import DutError
from vnetperf.model.testbed import KernelModule, MachineFacts, Program

SUPPORTED_OVS = ((2, 17), (4, 99))
DPDK_DAEMON, KERNEL_DAEMON = "ovs-vswitchd-dpdk", "ovs-vswitchd"
#: Tools of the private instance; those of another version may not understand a daemon's database.
OVS_TOOLS = tuple(
    Program(name=name, package=package, beside=(DPDK_DAEMON, KERNEL_DAEMON), by_make=True)
    for name, package in (
        ("ovsdb-server", "openvswitch-common"),
        ("ovs-vsctl", "openvswitch-switch"),
        ("ovs-ofctl", "openvswitch-common"),
        ("ovsdb-tool", "openvswitch-common"),
    )
)

#: The kernel's datapath, and one of threads without DPDK, can be driven by either build.
DAEMON = Program(
    name=KERNEL_DAEMON,
    package="openvswitch-switch",
    places=(
        "ovs-vswitchd",
        "/usr/lib/openvswitch-switch/ovs-vswitchd",
        "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk",
    ),
    version_args=("--version",),
    key="ovs_kernel",
    beside=(DPDK_DAEMON,),
    software="ovs",
    debian=("openvswitch-switch", "openvswitch-common"),
    by_make=True,
)
#: Its datapath with DPDK; a distribution's ovs-vswitchd may be built without.
DAEMON_WITH_DPDK = Program(
    name=DPDK_DAEMON,
    package="openvswitch-switch-dpdk",
    places=(
        "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk",
        "ovs-vswitchd-dpdk",
        "ovs-vswitchd",
    ),
    version_args=("--version",),
    version_contains="DPDK",
    key="ovs_vswitchd",
    beside=(KERNEL_DAEMON,),
    software="ovs-dpdk",
    by_make=True,
)
DATAPATH = KernelModule(
    name="openvswitch", purpose="the kernel's datapath", symbol="ovs_dp_process_packet"
)


def parse_ovs_version(text: str) -> tuple[int, int]:
    """Version of OVS."""
    match = re.search(r"\(Open vSwitch\)\s+([0-9]{1,4})\.([0-9]{1,4})\b", text)
    if match is None:
        raise DutError(f"no version in {text.strip()[:80]!r}", where="ovs-vswitchd --version")
    return int(match[1]), int(match[2])


def ovs_version_problem(facts: MachineFacts, daemon: Program) -> str:
    """Whether the version of a daemon is supported."""
    try:
        version = parse_ovs_version(facts.versions.get(daemon.name, ""))
    except DutError as error:
        return str(error)
    low, high = SUPPORTED_OVS
    if low <= version <= high:
        return ""
    return (
        f"OVS {version[0]}.{version[1]} is not supported; "
        f"accepted: {low[0]}.{low[1]} to {high[0]}.x; install another version and name it "
        f"in the testbed file under [programs] {daemon.setting}"
    )
