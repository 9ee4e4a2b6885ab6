"""VNF ports of switches in the kernel: taps and veth pairs in the run's network namespace.

A tap is one device: the switch has the device, the VNF opens it as a file (/dev/net/tun). A veth
pair has two ends, one for each. Seen from the switch both count alike: what the VNF sends is
received (rx), what the switch puts out is sent (tx).
"""

from __future__ import annotations

from collections.abc import Mapping

from vnetperf.host.machine import Machine
from vnetperf.model.errors import DutError
from vnetperf.model.ports import Attachment, VnfPort
from vnetperf.model.trial import HopCounters

#: Kinds of attachment made here, a VM's first.
KINDS = ("tap", "veth")


def offer(machine: Machine, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
    """Say where a VNF port will be; nothing is made yet.

    Args:
        machine: The machine.
        port: Port of the deployment.
        kind: "tap" or "veth".
        queues: Queue pairs.

    Returns:
        The attachment. A tap is made for several queues even when `queues` is 1, unless its
        `multi_queue` is set to False: who opens it must ask for IFF_MULTI_QUEUE exactly then.

    Raises:
        DutError: There is no such kind.
    """
    if kind not in KINDS:
        raise DutError(
            f"cannot make a {kind} for a VNF", where=str(port), accepted=", ".join(KINDS)
        )
    return Attachment(port=port, kind=kind, netdev=_name(machine, port, "v"), queues=queues)


def make(machine: Machine, attachment: Attachment, mtu: int, *, offloads: bool = False) -> str:
    """Make what was offered, up and quiet; a switch that restarts finds it as it left it.

    Args:
        machine: The machine.
        attachment: As offered.
        mtu: MTU, octets.
        offloads: True leaves checksum and segmentation offloads on.

    Returns:
        Name of the interface that the switch takes as its port.

    Raises:
        HostError: The kernel refuses.
    """
    vnf_side, switch_side = _sides(machine, attachment)
    if switch_side in machine.link_statistics():  # a VNF has it open
        return switch_side
    if attachment.kind == "tap":
        multi_queue = attachment.multi_queue
        machine.create_tap(switch_side, mtu, offloads=offloads, multi_queue=multi_queue)
    else:
        queues = attachment.queues
        machine.create_veth(vnf_side, switch_side, mtu, offloads=offloads, queues=queues)
    return switch_side


def remove(machine: Machine, attachment: Attachment) -> None:
    """Delete what was made; that it is gone is not an error.

    Args:
        machine: The machine.
        attachment: As offered.

    Raises:
        HostError: The kernel refuses.
    """
    machine.delete_link(_sides(machine, attachment)[1])  # a pair's other end goes with it


def counters(machine: Machine, netdevs: Mapping[str, str]) -> tuple[HopCounters, ...]:
    """What went through ports, as the switch sees them.

    Args:
        machine: The machine.
        netdevs: Port of the deployment -> name of the switch's interface.

    Returns:
        One entry per port whose interface is there, since the interface was made.
    """
    table = machine.link_statistics()
    return tuple(
        HopCounters(
            port=port,
            rx=table[netdev].rx,
            tx=table[netdev].tx,
            rx_dropped=table[netdev].rx_dropped,
            tx_dropped=table[netdev].tx_dropped,
        )
        for port, netdev in netdevs.items()
        if netdev in table
    )


def _sides(machine: Machine, attachment: Attachment) -> tuple[str, str]:
    """Names of the VNF's interface and the switch's."""
    vnf_side = str(attachment.netdev)
    if attachment.kind == "tap":
        return vnf_side, vnf_side
    return vnf_side, _name(machine, attachment.port, "s")


def _name(machine: Machine, port: VnfPort, side: str) -> str:
    return machine.interface_name(f"{side}{port.vnf}{'ab'[port.index]}")
