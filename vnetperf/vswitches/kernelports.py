"""VNF ports of switches in the kernel: taps and veth pairs in the run's network namespace.

A tap is one device: the switch has the device, the VNF opens it as a file (/dev/net/tun). A veth
pair has two ends, one for each. Seen from the switch both count alike: what the VNF sends is
received (rx), what the switch puts out is sent (tx).
"""

from __future__ import annotations

from collections.abc import Mapping

from vnetperf.host.machine import Machine
from vnetperf.model.deployment import Attachment, VnfPort
from vnetperf.model.errors import DutError
from vnetperf.model.trial import HopCounters

#: Kinds of attachment made here, a VM's first.
KINDS = ("tap", "veth")


def offer(machine: Machine, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
    """Say where a VNF port will be; nothing is made yet."""
    if kind not in KINDS:
        raise DutError(
            f"cannot make a {kind} for a VNF", where=str(port), accepted=", ".join(KINDS)
        )
    return Attachment(port=port, kind=kind, netdev=_name(machine, port, "v"), queues=queues)


def make(machine: Machine, attachment: Attachment, mtu: int, *, offloads: bool = False) -> str:
    """Make what was offered, up and quiet; a switch that restarts finds it as it left it."""
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
    """Delete what was made; that it is gone is not an error."""
    machine.delete_link(_sides(machine, attachment)[1])  # a pair's other end goes with it


def counters(machine: Machine, netdevs: Mapping[str, str]) -> tuple[HopCounters, ...]:
    """What went through ports, as the switch sees them."""
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
