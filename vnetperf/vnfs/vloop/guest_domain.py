"""Which guest a vloop needs: its processors, memory and NICs, from scenario and placement."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vnetperf.host.cpulist import parse_cpus
from vnetperf.images.image import Image
from vnetperf.launchers.vm.domain import (
    Boot,
    Cell,
    Domain,
    Function,
    Macvtap,
    Nic,
    Offloads,
    Tap,
    VhostUser,
)
from vnetperf.model.errors import DutError
from vnetperf.model.guest import GuestOptions
from vnetperf.model.machine import MachineFacts
from vnetperf.model.plan import Placement
from vnetperf.model.ports import Attachment

STANDARD_MTU = 1500
#: vCPU that does everything but forwarding; the next ones forward.
SYSTEM_VCPU = 0
#: A kernel that panics must not wait for somebody to look: the guest ends, and its console stays.
PANIC = "panic=-1"
OWN = f"{ord('g'):02x}"
#: The taps of switches are made for several queues, and libvirt opens one for a single queue
#: otherwise, which the kernel refuses. A guest that uses one queue pair leaves the other alone.
TAP_QUEUES = 2
#: Only vhost-user has transmit rings of more than this.
TX_RING, RX_RING = 256, 1024


@dataclass(frozen=True)
class Where:
    """What a guest is given of the machine.

    Attributes:
        name: Name of the guest.
        image: What it boots.
        mtu: MTU of its NICs.
        role: Role of its forwarding threads.
        qemu: Path of QEMU.
        accelerator: "kvm" or "tcg".
        console: File of its serial console.
        output: File of what testpmd says in it.
        own_macs: True gives NICs other addresses than the frames for them carry.
        vhost_net: True when the kernel has vhost-net.
        placement: The plan's.
    """

    name: str
    image: Image
    mtu: int
    role: str
    qemu: str
    accelerator: str
    console: Path
    output: Path
    own_macs: bool
    vhost_net: bool
    placement: Placement


def vcpus(options: GuestOptions) -> int:
    """Number of vCPUs.

    Args:
        options: What is asked of guests.

    Returns:
        As asked for; as many as pins where those are given; otherwise two.
    """
    return options.vcpus or len(options.vcpu_pins) or 2


def domain(attachments: tuple[Attachment, ...], options: GuestOptions, where: Where) -> Domain:
    """The guest.

    Args:
        attachments: Where its NICs plug in.
        options: What is asked of it.
        where: What it is given.

    Returns:
        The guest.
    """
    count, placement, image = vcpus(options), where.placement, where.image
    cells: tuple[Cell, ...] = ()
    node = placement.node if options.node is None else options.node
    if len(placement.nodes) > 1 or options.node is not None:
        cells = (Cell(cpus=tuple(range(count)), memory_mib=options.memory_mib, host_node=node),)
    return Domain(
        name=where.name,
        accelerator="kvm" if where.accelerator == "kvm" else "tcg",
        emulator=Path(where.qemu),
        vcpus=count,
        memory_mib=options.memory_mib,
        boot=Boot(
            kernel=image.kernel,
            initrd=image.initrd,
            cmdline=f"{image.cmdline} {PANIC}",
            disk=image.disk,
            disk_format="qcow2" if image.disk_format == "qcow2" else "raw",
        ),
        nics=tuple(nic(attachment, options, where) for attachment in attachments),
        console=where.console,
        output=where.output,
        vcpu_pins=_pins(count, options, where),
        emulator_pin=parse_cpus(options.emulator_pin)
        if options.emulator_pin
        else placement.housekeeping,
        hugepage_kb=options.hugepage_kb,
        cells=cells,
    )


def _pins(count: int, options: GuestOptions, where: Where) -> tuple[tuple[int, ...], ...]:
    if options.vcpu_pins:
        return tuple(parse_cpus(text) for text in options.vcpu_pins)
    housekeeping = where.placement.housekeeping
    pollers = where.placement.cores.get(where.role, housekeeping)
    forwarding = tuple((pollers[n % len(pollers)],) for n in range(count - 1))
    return ((housekeeping if count > 1 else pollers), *forwarding)


def nic(attachment: Attachment, options: GuestOptions, where: Where) -> Nic:
    """A NIC of the guest.

    Args:
        attachment: Where it plugs in.
        options: What is asked of it.
        where: What the machine has.

    Returns:
        The NIC.

    Raises:
        DutError: The kind is unknown, or the attachment does not say where to plug in.
    """
    vhost = where.vhost_net if options.vhost is None else options.vhost
    backing: VhostUser | Tap | Macvtap | Function
    if attachment.kind == "vhost-user":
        backing = VhostUser(socket=_needs(attachment, "socket"), server=attachment.vnf_is_server)
    elif attachment.kind == "tap":
        backing = Tap(netdev=_needs(attachment, "netdev"), vhost=vhost)
    elif attachment.kind == "macvtap":
        backing = Macvtap(netdev=_needs(attachment, "netdev"), vhost=vhost)
    elif attachment.kind == "vf":
        backing = Function(pci=_needs(attachment, "pci"))
    else:
        raise DutError(
            f"a guest cannot plug into a {attachment.kind} attachment", where=str(attachment.port)
        )
    is_socket = attachment.kind == "vhost-user"
    return Nic(
        mac=own_mac(attachment) if where.own_macs else attachment.mac or "",
        backing=backing,
        model=options.nic,
        queues=max(TAP_QUEUES, attachment.queues)
        if attachment.kind == "tap"
        else attachment.queues,
        rx_ring=options.rx_ring or RX_RING,
        tx_ring=options.tx_ring or (RX_RING if is_socket else TX_RING),
        mergeable=options.mergeable,
        packed=options.packed,
        offloads=Offloads(
            csum=options.csum,
            tso=options.tso,
            ufo=options.ufo,
            ecn=options.ecn,
            gso=options.gso,
        ),
        mtu=where.mtu if where.mtu > STANDARD_MTU else None,
    )


def own_mac(attachment: Attachment) -> str:
    """An address that no frame carries.

    Args:
        attachment: Where the NIC plugs in.

    Returns:
        Six hexadecimal octets, "g" for guest in the third.
    """
    octets = (attachment.mac or "").split(":")
    return ":".join((*octets[:2], OWN, *octets[3:]))


def _needs(attachment: Attachment, what: str) -> str:
    value = getattr(attachment, what)
    if not value:
        raise DutError(
            f"the {attachment.kind} attachment has no {what}", where=str(attachment.port)
        )
    return str(value)


def trouble(options: GuestOptions, facts: MachineFacts) -> str:
    """What is asked of guests and cannot be had on a machine.

    Args:
        options: What is asked.
        facts: The machine.

    Returns:
        "" when all can; otherwise what cannot, and the cure, in one sentence.
    """
    count, known = vcpus(options), {cpu.cpu for cpu in facts.cpus}
    if options.vcpu_pins and len(options.vcpu_pins) != count:
        return (
            f"vcpu_pins has {len(options.vcpu_pins)} entries for {count} vCPUs; "
            "name the processors of each vCPU, or leave vcpus out"
        )
    for key, texts in (
        ("vcpu_pins", options.vcpu_pins),
        ("emulator_pin", (options.emulator_pin or "",)),
    ):
        strange = sorted({cpu for text in texts for cpu in parse_cpus(text)} - known)
        if strange:
            return (
                f"{key} names processor {strange[0]}, which is not there or not allowed; "
                f"choose among {', '.join(map(str, sorted(known)))}"
            )
    nodes = {pool.node for pool in facts.hugepages} | set(facts.nodes)
    if options.node is not None and options.node not in nodes:
        return f"there is no node {options.node}; choose among {', '.join(map(str, sorted(nodes)))}"
    return ""
