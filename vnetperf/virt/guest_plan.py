"""The domain of a guest by plan and options: pins, memory, boot files, disk overlay, NICs."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vnetperf.host.cpu import format_cpus, parse_cpus
from vnetperf.host.dpdk import STANDARD_MTU
from vnetperf.model.deployment import Attachment
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.options import DISKS, GuestOptions
from vnetperf.model.scenario import Placement
from vnetperf.virt.domain import (
    BootFiles,
    Domain,
    GuestNic,
    NetdevBacking,
    Offloads,
    VfBacking,
    VhostUserBacking,
    on_off,
)
from vnetperf.virt.images import Image

Cpus = tuple[int, ...]


@dataclass(frozen=True)
class GuestPins:
    """Where a guest goes: processors of its threads, and the node of its memory, None for any."""

    vcpus: tuple[Cpus, ...]
    emulator: Cpus
    vhost: Cpus
    iothreads: tuple[Cpus, ...]
    node: int | None


def vcpu_count(options: GuestOptions) -> int:
    """Number of vCPUs."""
    return options.vcpus or len(options.vcpu_pins) or 2


def guest_pins(options: GuestOptions, placement: Placement, role: str) -> GuestPins:
    """Where a guest goes."""
    count, housekeeping = vcpu_count(options), placement.housekeeping
    pollers = placement.cores.get(role, housekeeping)
    forwarding = tuple((pollers[n % len(pollers)],) for n in range(count - 1))
    planned = ((housekeeping if count > 1 else pollers), *forwarding)
    home: int | None = placement.vnf_home_node
    if role in placement.unpinned:
        housekeeping, home = placement.unpinned[role], None
        planned = (housekeeping,) * count
    return GuestPins(
        vcpus=tuple(map(parse_cpus, options.vcpu_pins)) or planned,
        emulator=parse_cpus(options.emulator_pin or "") or housekeeping,
        vhost=parse_cpus(options.vhost_pin or "") or housekeeping,
        iothreads=tuple(map(parse_cpus, options.iothread_pins)),
        node=home if options.node is None else options.node,
    )


def pins_line(options: GuestOptions, placement: Placement, role: str, *, vhost_net: bool) -> str:
    """Where a guest goes, as `--plan` shows it."""
    pins = guest_pins(options, placement, role)
    size = options.hugepage_kb
    parts = [f"vCPU {n} on {format_cpus(cpus)}" for n, cpus in enumerate(pins.vcpus)]
    parts.append(f"emulator on {format_cpus(pins.emulator)}")
    if options.nic == "virtio" and (vhost_net if options.vhost is None else options.vhost):
        parts.append(f"vhost threads of taps on {format_cpus(pins.vhost)}")
    parts += [f"I/O thread {n} on {format_cpus(c)}" for n, c in enumerate(pins.iothreads, 1)]
    pages = f"hugepages of {size} KiB" if size else "ordinary pages"
    where = "any node" if pins.node is None else f"node {pins.node}"
    parts.append(f"{options.memory_mib} MiB of {pages} on {where}")
    return ", ".join([*parts, f"NICs {options.nic}"])


QCOW2_MAGIC = b"QFI\xfb"
CLUSTER_BITS = 16
CLUSTER = 1 << CLUSTER_BITS
#: Guest octets that one entry of the first table stands for.
TABLE_REACH = CLUSTER * (CLUSTER // 8)
QCOW2_HEADER = ">4sIQIIQIIQQIIQ"
#: Header extension that names the format of the other image.
BACKING_FORMAT = 0xE2792ACA


#: Bit of the features of version 3 that a reader has to know: its data are in a file of their own.
DATA_FILE = 1 << 2
_FLATTEN = "`qemu-img convert -O qcow2 IN OUT` makes one that is whole"


def disk_image_problem(image: Path, disk_format: str) -> str:
    """Why an image is not all of its disk, and the cure; "" where it is, or cannot be read.

    QEMU would open whatever other file it names, with its own rights, as a part of the guest's
    disk; and its hash would not be that of what was booted.
    """
    if disk_format == "raw":
        return ""
    try:
        with image.open("rb") as file:
            octets = file.read(struct.calcsize(QCOW2_HEADER) + 8)
    except OSError:
        return ""
    if octets[:4] != QCOW2_MAGIC or len(octets) < struct.calcsize(QCOW2_HEADER):
        return ""
    version, backing = struct.unpack_from(QCOW2_HEADER, octets)[1:3]
    if backing:
        return f"stands on another image; {_FLATTEN}"
    if version > 2 and int.from_bytes(octets[72:80]) & DATA_FILE:
        return f"has its data in another file; {_FLATTEN}"
    return ""


def disk_size(image: Path, disk_format: str) -> int:
    """Size of the disk that an image holds."""
    with HostError.explain_os_error("cannot be read", where=str(image)):
        if disk_format == "raw":
            return image.stat().st_size
        with image.open("rb") as file:
            header = file.read(struct.calcsize(QCOW2_HEADER))
    if header[:4] != QCOW2_MAGIC or len(header) < struct.calcsize(QCOW2_HEADER):
        raise HostError(
            "is no qcow2 image", where=str(image), cure="a raw disk image is called NAME.img"
        )
    return int(struct.unpack(QCOW2_HEADER, header)[5])


def make_overlay(overlay: Path, base: Path, base_format: str) -> None:
    """Write an overlay that holds nothing yet."""
    size, name = disk_size(base, base_format), str(base).encode()
    entries = -(-size // TABLE_REACH)
    clusters = -(-entries * 8 // CLUSTER)  # of the first table, which is the last thing in it
    text = base_format.encode()
    extension = struct.pack(">II", BACKING_FORMAT, len(text)) + text.ljust(-(-len(text) // 8) * 8)
    start = struct.calcsize(QCOW2_HEADER)
    version, tables, blocks = 2, CLUSTER, 1
    backing_at = start + len(extension) + 8
    header = struct.pack(
        QCOW2_HEADER,
        *(QCOW2_MAGIC, version, backing_at, len(name), CLUSTER_BITS, size, 0),
        *(entries, 3 * CLUSTER, tables, blocks, 0, 0),
    )
    counts = b"".join(struct.pack(">H", 1) for _ in range(3 + clusters))
    overlay.write_bytes(
        (header + extension + bytes(8) + name).ljust(CLUSTER, b"\0")
        + struct.pack(">Q", 2 * CLUSTER).ljust(CLUSTER, b"\0")
        + counts.ljust(CLUSTER, b"\0")
        + bytes(clusters * CLUSTER)
    )


#: vCPU that does everything but forwarding; the next ones forward.
SYSTEM_VCPU = 0
#: A kernel that panics must not wait for somebody to look: the guest ends, and its console stays.
#: Emulated on a busy machine it must not take a timer that comes late for one that does not work.
GUEST_CMDLINE = "no_timer_check panic=-1"
VFIO_DRIVER = "vfio-pci"
GUEST_OCTET = f"{ord('g'):02x}"
#: Only vhost-user has transmit rings of more than this.
TAP_TX_RING, RX_RING = 256, 1024


@dataclass(frozen=True)
class GuestResources:
    """What a guest is given of the machine.

    Attributes:
        role: Role of its forwarding threads.
        output: File of testpmd's output.
        own_macs: True gives NICs other addresses than the frames for them carry.
    """

    name: str
    boot: BootFiles
    mtu: int
    role: str
    qemu: str
    accelerator: str
    console: Path
    output: Path
    own_macs: bool
    vhost_net: bool
    placement: Placement


def guest_domain(
    attachments: tuple[Attachment, ...], options: GuestOptions, where: GuestResources
) -> Domain:
    """The guest."""
    placement, go = where.placement, guest_pins(options, where.placement, where.role)
    bound = len(placement.nodes) > 1 or options.node is not None
    return Domain(
        name=where.name,
        accelerator="kvm" if where.accelerator == "kvm" else "tcg",
        emulator=Path(where.qemu),
        vcpus=len(go.vcpus),
        memory_mib=options.memory_mib,
        boot=where.boot,
        nics=tuple(guest_nic(attachment, options, where) for attachment in attachments),
        console=where.console,
        output=where.output,
        vcpu_pins=go.vcpus,
        emulator_pin=go.emulator,
        iothread_pins=go.iothreads,
        hugepage_kb=options.hugepage_kb,
        node=go.node if bound else None,
    )


def image_boot(image: Image) -> BootFiles:
    """How a built image is booted."""
    return BootFiles(
        kernel=image.kernel,
        initrd=image.initrd,
        cmdline=f"{image.cmdline} {GUEST_CMDLINE}",
        disk=image.disk,
    )


def disk_boot(options: GuestOptions, directory: Path) -> BootFiles:
    """How a disk image of the user's is booted: through an overlay that takes what it writes."""
    disk = Path(options.image)
    if problem := disk_image_problem(disk, DISKS[disk.suffix]):
        raise HostError(f"the image {problem}", where=str(disk))
    for file in filter(None, (options.kernel, options.initrd)):
        if not os.access(file, os.R_OK):
            raise HostError("cannot be read", where=str(file), cure="name a file that is there")
    overlay = directory / "overlay.qcow2"
    make_overlay(overlay, disk, DISKS[disk.suffix])
    return BootFiles(
        kernel=options.kernel,
        initrd=options.initrd,
        cmdline=options.cmdline,
        disk=overlay,
        disk_format="qcow2",
        disk_writable=True,
    )


def guest_nic(attachment: Attachment, options: GuestOptions, where: GuestResources) -> GuestNic:
    """A NIC of the guest."""
    vhost = where.vhost_net if options.vhost is None else options.vhost
    vhost = vhost and options.nic == "virtio"
    backing: VhostUserBacking | NetdevBacking | VfBacking
    if attachment.kind == "vhost-user":
        backing = VhostUserBacking(
            socket=attachment.require("socket"), server=attachment.vnf_is_server
        )
    elif attachment.kind in ("tap", "macvtap"):
        kind: Literal["tap", "macvtap"] = "tap" if attachment.kind == "tap" else "macvtap"
        backing = NetdevBacking(kind=kind, netdev=attachment.require("netdev"), vhost=vhost)
    elif attachment.kind == "vf":
        backing = _vf_backing(attachment)
    else:
        raise DutError(
            f"a guest cannot plug into a {attachment.kind} attachment", where=str(attachment.port)
        )
    offloads = {key: getattr(options, key) for key in Offloads.model_fields}
    if not attachment.offloads and options.nic == "virtio":
        offloads = {key: bool(setting) for key, setting in offloads.items()}
    is_socket, virtio = attachment.kind == "vhost-user", options.nic == "virtio"
    return GuestNic(
        mac=derive_guest_mac(attachment) if where.own_macs else attachment.mac or "",
        backing=backing,
        model=options.nic,
        queues=attachment.queues,
        rx_ring=options.rx_ring or RX_RING if virtio else None,
        tx_ring=options.tx_ring or (RX_RING if is_socket else TAP_TX_RING) if virtio else None,
        mergeable=options.mergeable,
        packed=options.packed,
        offloads=Offloads(**offloads),
        mtu=attachment.mtu or (where.mtu if where.mtu > STANDARD_MTU else None),
    )


def _vf_backing(attachment: Attachment) -> VfBacking:
    """A virtual function, which must be free for the guest."""
    if attachment.driver != VFIO_DRIVER:
        raise DutError(
            f"a guest requires a virtual function bound to {VFIO_DRIVER}; its driver is "
            f"{attachment.driver}",
            where=str(attachment.port),
            cure="turn the IOMMU on (boot with intel_iommu=on or amd_iommu=on), and leave "
            "vf_driver out",
        )
    return VfBacking(pci=attachment.require("pci"))


def describe_nic(nic: GuestNic) -> str:
    """A NIC for the result."""
    if isinstance(nic.backing, VfBacking):
        return f"{nic.backing.pci} by vfio, {nic.mac}"
    parts = [nic.model, nic.mac, f"{nic.queues} queue pair(s)"]
    if nic.rx_ring is not None:
        parts.append(f"rings {nic.rx_ring}/{nic.tx_ring}")
    settings = {"mergeable buffers": nic.mergeable, "packed rings": nic.packed}
    settings |= dict(nic.offloads)
    parts += [f"{key} {on_off(value)}" for key, value in settings.items() if value is not None]
    if not isinstance(nic.backing, VhostUserBacking) and nic.model == "virtio":
        parts.append("vhost-net" if nic.backing.vhost else "moved by QEMU")
    return ", ".join(parts)


def derive_guest_mac(attachment: Attachment) -> str:
    """An address that no frame carries."""
    octets = (attachment.mac or "").split(":")
    return ":".join((*octets[:2], GUEST_OCTET, *octets[3:]))
