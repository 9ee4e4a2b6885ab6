"""Which guest a vloop needs: its processors, memory and NICs, from scenario and placement."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
from vnetperf.launchers.vm.overlay import make_overlay
from vnetperf.model.errors import DutError
from vnetperf.model.guest import DISKS, GuestOptions
from vnetperf.model.plan import Placement
from vnetperf.model.ports import Attachment
from vnetperf.vnfs.vloop.guest_pins import pins

STANDARD_MTU = 1500
#: vCPU that does everything but forwarding; the next ones forward.
SYSTEM_VCPU = 0
#: A kernel that panics must not wait for somebody to look: the guest ends, and its console stays.
#: Emulated on a busy machine it must not take a timer that comes late for one that does not work.
CMDLINE = "no_timer_check panic=-1"
VFIO = "vfio-pci"
OWN = f"{ord('g'):02x}"
#: Only vhost-user has transmit rings of more than this.
TX_RING, RX_RING = 256, 1024


@dataclass(frozen=True)
class Where:
    """What a guest is given of the machine.

    Attributes:
        name: Name of the guest.
        boot: What it boots.
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
    boot: Boot
    mtu: int
    role: str
    qemu: str
    accelerator: str
    console: Path
    output: Path
    own_macs: bool
    vhost_net: bool
    placement: Placement


def domain(attachments: tuple[Attachment, ...], options: GuestOptions, where: Where) -> Domain:
    """The guest.

    Args:
        attachments: Where its NICs plug in.
        options: What is asked of it.
        where: What it is given.

    Returns:
        The guest.
    """
    placement, go = where.placement, pins(options, where.placement, where.role)
    count = len(go.vcpus)
    cells: tuple[Cell, ...] = ()
    if go.node is not None and (len(placement.nodes) > 1 or options.node is not None):
        every = tuple(range(count))
        cells = (Cell(cpus=every, memory_mib=options.memory_mib, host_node=go.node),)
    return Domain(
        name=where.name,
        accelerator="kvm" if where.accelerator == "kvm" else "tcg",
        emulator=Path(where.qemu),
        vcpus=count,
        memory_mib=options.memory_mib,
        boot=where.boot,
        nics=tuple(nic(attachment, options, where) for attachment in attachments),
        console=where.console,
        output=where.output,
        vcpu_pins=go.vcpus,
        emulator_pin=go.emulator,
        iothread_pins=go.iothreads,
        hugepage_kb=options.hugepage_kb,
        cells=cells,
    )


def boot(image: Image) -> Boot:
    """How a built image is booted.

    Args:
        image: The image.

    Returns:
        Kernel, first file system, disk.
    """
    return Boot(
        kernel=image.kernel,
        initrd=image.initrd,
        cmdline=f"{image.cmdline} {CMDLINE}",
        disk=image.disk,
        disk_format="qcow2" if image.disk_format == "qcow2" else "raw",
    )


def own_disk(options: GuestOptions, directory: Path) -> Boot:
    """How a disk image of the user's is booted: through an overlay that takes what it writes.

    Args:
        options: Name the image, and a kernel beside it if there is one.
        directory: Where the overlay is made.

    Returns:
        Disk, and kernel and first file system if given.

    Raises:
        HostError: The image cannot be read, or is not what its name says.
    """
    disk = Path(options.image)
    overlay = directory / "overlay.qcow2"
    make_overlay(overlay, disk, DISKS[disk.suffix])
    return Boot(
        kernel=options.kernel,
        initrd=options.initrd,
        cmdline=options.cmdline,
        disk=overlay,
        disk_format="qcow2",
        disk_writable=True,
    )


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
    vhost = vhost and options.nic == "virtio"
    backing: VhostUser | Tap | Macvtap | Function
    if attachment.kind == "vhost-user":
        backing = VhostUser(socket=_needs(attachment, "socket"), server=attachment.vnf_is_server)
    elif attachment.kind == "tap":
        backing = Tap(netdev=_needs(attachment, "netdev"), vhost=vhost)
    elif attachment.kind == "macvtap":
        backing = Macvtap(netdev=_needs(attachment, "netdev"), vhost=vhost)
    elif attachment.kind == "vf":
        backing = _function(attachment)
    else:
        raise DutError(
            f"a guest cannot plug into a {attachment.kind} attachment", where=str(attachment.port)
        )
    is_socket, virtio = attachment.kind == "vhost-user", options.nic == "virtio"
    return Nic(
        mac=own_mac(attachment) if where.own_macs else attachment.mac or "",
        backing=backing,
        model=options.nic,
        queues=attachment.queues,
        rx_ring=options.rx_ring or RX_RING if virtio else None,
        tx_ring=options.tx_ring or (RX_RING if is_socket else TX_RING) if virtio else None,
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


def _function(attachment: Attachment) -> Function:
    """A virtual function, which must be free for the guest."""
    if attachment.driver != VFIO:
        raise DutError(
            f"a guest is given a virtual function by {VFIO}, and its driver is {attachment.driver}",
            where=str(attachment.port),
            cure="turn the IOMMU on (boot with intel_iommu=on or amd_iommu=on), and leave "
            "vf_driver out",
        )
    return Function(pci=_needs(attachment, "pci"))


def describe(nic: Nic) -> str:
    """A NIC as the result tells it.

    Args:
        nic: The NIC.

    Returns:
        "virtio, 02:..., 1 queue pair(s), rings 1024/256, csum off".
    """
    if isinstance(nic.backing, Function):
        return f"{nic.backing.pci} by vfio, {nic.mac}"
    parts = [nic.model, nic.mac, f"{nic.queues} queue pair(s)"]
    if nic.rx_ring is not None:
        parts.append(f"rings {nic.rx_ring}/{nic.tx_ring}")
    asked = {"mergeable buffers": nic.mergeable, "packed rings": nic.packed}
    asked |= {key: getattr(nic.offloads, key) for key in Offloads.model_fields}
    parts += [f"{key} {'on' if v else 'off'}" for key, v in asked.items() if v is not None]
    if not isinstance(nic.backing, VhostUser) and nic.model == "virtio":
        parts.append("vhost-net" if nic.backing.vhost else "moved by QEMU")
    return ", ".join(parts)


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
