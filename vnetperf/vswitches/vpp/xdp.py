"""AF_XDP: kernel interfaces whose frames go past the kernel's network stack."""

from __future__ import annotations

from typing import Any

from vnetperf.model.addresses import dut_mac
from vnetperf.model.options import SwitchOptions
from vnetperf.model.ports import Port
from vnetperf.model.scenario import ETHERNET_OCTETS, Scenario
from vnetperf.vswitches.vpp.api import VppApi
from vnetperf.vswitches.vpp.forwarding import AF_XDP

#: libxdp's dispatcher would mount a BPF file system and pin programs there, which nobody takes away
#: after a VPP that was killed. Without it the program is the interface's and goes with it.
ENVIRONMENT = {"LIBXDP_SKIP_DISPATCHER": "1", "LIBXDP_BPFFS_AUTOMOUNT": "0"}
#: VPP locks system calls for kernels before 5.6, and then has no interrupt mode.
NO_SYSCALL_LOCK = 1
RING, SMALLEST_RING = 2048, 256
#: Since 23.10, and the one of 23.06; the fields that are used here are the same.
#: Largest MTU: of frames of 1917 octets with FCS some did not come through, of 1718 all did.
MAX_MTU = 1700
MAX_FRAME = MAX_MTU + ETHERNET_OCTETS
MESSAGES = ("af_xdp_create_v3", "af_xdp_create_v2")


def asked(options: SwitchOptions) -> bool:
    """Whether kernel interfaces are to be taken by AF_XDP.

    Args:
        options: What is asked of the switch.

    Returns:
        True when they are.
    """
    return options.mode == AF_XDP


def trouble(scenario: Scenario) -> str:
    """Why a scenario cannot have AF_XDP.

    Args:
        scenario: The scenario.

    Returns:
        "" or the reason with its cure, in one sentence.
    """
    options = scenario.options
    if not asked(options):
        return ""
    if not scenario.deployment.phy_ports:
        return f"{scenario.deployment.name} has no physical port for AF_XDP; leave the mode out"
    if scenario.mtu > MAX_MTU:
        return (
            f"AF_XDP keeps a frame in one page of memory, and an MTU of {scenario.mtu} does not "
            f"fit: up to {MAX_MTU}; ask for smaller frames, or leave the mode out"
        )
    rings = [r for r in (options.rx_descriptors, options.tx_descriptors) if r is not None]
    if min(rings, default=SMALLEST_RING) < SMALLEST_RING:
        return f"VPP's AF_XDP rings have {SMALLEST_RING} descriptors or more; ask for more"
    if scenario.wire != "auto":
        return trouble_on_wire(scenario, scenario.wire)
    return ""


def trouble_on_wire(scenario: Scenario, wire: str) -> str:
    """Why a wire does not do for AF_XDP.

    Args:
        scenario: The scenario.
        wire: Kind of wire.

    Returns:
        "" or the reason with its cure, in one sentence.
    """
    if not asked(scenario.options):
        return ""
    if wire == "nic":
        return trouble_with_nics(scenario)
    if wire != "veth":
        return f"AF_XDP takes kernel interfaces, and a {wire} wire has none; add --wire veth"
    if (scenario.options.rx_queues or 1) > 1:
        return (
            f"a veth interface has one queue, and AF_XDP takes a queue each: rx_queues is "
            f"{scenario.options.rx_queues}; leave it out, or leave the mode out"
        )
    return ""


def trouble_with_nics(scenario: Scenario) -> str:
    """Why NICs are not taken by AF_XDP.

    Args:
        scenario: The scenario.

    Returns:
        "" or the reason with its cure, in one sentence.
    """
    if not asked(scenario.options):
        return ""
    return (
        "VPP leaves its XDP program on a NIC when it is killed, and the NIC would not be given "
        "back as it was: AF_XDP is for veth; add --wire veth, or leave the mode out"
    )


def create(api: VppApi, port: Port, netdev: str, options: SwitchOptions) -> Any:
    """Make the interface.

    Args:
        api: The running VPP.
        port: Port of the deployment.
        netdev: The kernel's interface.
        options: What is asked of the switch.

    Returns:
        VPP's answer, with the interface's number.

    Raises:
        DutError: VPP refuses it.
    """
    message = next((name for name in MESSAGES if api.knows(name)), MESSAGES[0])
    made = api.call(
        message,
        host_if=netdev,
        name=f"xdp-{netdev}",
        rxq_num=options.rx_queues or 1,
        rxq_size=options.rx_descriptors or RING,
        txq_size=options.tx_descriptors or RING,
        mode=0,  # without copies where the driver can
        flags=NO_SYSCALL_LOCK,
    )
    api.call(
        "sw_interface_set_mac_address",
        sw_if_index=made.sw_if_index,
        mac_address=dut_mac(port),
    )
    return made
