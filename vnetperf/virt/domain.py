"""A guest as frozen values, and as libvirt's domain XML (https://libvirt.org/formatdomain.html)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from pydantic import Field, field_validator, model_validator

from vnetperf.host.cpu import format_cpus
from vnetperf.model.base import Frozen, HugepageSize

NicModel = Literal["virtio", "e1000", "rtl8139"]
Cpus = tuple[Annotated[int, Field(ge=0)], ...]
RingSize = Annotated[int, Field(ge=256, le=1024)]


class BootFiles(Frozen):
    """What a guest boots: the disk, where no kernel is given, of which a writable one is a copy."""

    kernel: Path | None = None
    initrd: Path | None = None
    cmdline: str = ""
    disk: Path | None = None
    disk_format: Literal["raw", "qcow2"] = "raw"
    disk_writable: bool = False

    @model_validator(mode="after")
    def _boots(self) -> BootFiles:
        if self.kernel is None and self.disk is None:
            raise ValueError("a guest boots a kernel or a disk")
        return self


class VhostUserBacking(Frozen):
    """A NIC at a vhost-user socket; `server`: QEMU listens on it, not the switch."""

    kind: Literal["vhost-user"] = "vhost-user"
    socket: str
    server: bool


class NetdevBacking(Frozen):
    """A NIC at a tap or macvtap that is there already, in the network namespace of the session.

    `vhost`: vhost-net in the kernel moves the frames, not QEMU.
    """

    kind: Literal["tap", "macvtap"] = "tap"
    netdev: str
    vhost: bool = False


class VfBacking(Frozen):
    """A PCI function of the host, bound to vfio-pci, for the guest."""

    kind: Literal["vf"] = "vf"
    pci: str = Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")


Backing = VhostUserBacking | NetdevBacking | VfBacking


class Offloads(Frozen):
    """Offloads of a virtio NIC, each both ways; None leaves QEMU's own."""

    csum: bool | None = None
    tso: bool | None = None
    ufo: bool | None = None
    ecn: bool | None = None
    gso: bool | None = None


class GuestNic(Frozen):
    """A NIC of a guest.

    Attributes:
        mac: Its address, by which it is found in the guest.
        model: What the guest sees; means nothing for a PCI function.
        rx_ring: Receive descriptors of each queue; None for QEMU's own.
        tx_ring: Transmit descriptors; only vhost-user has more than 256.
        mtu: MTU that the device offers the guest, octets; None offers none. At a vhost-user socket
            it is never offered, and set in the guest.
    """

    mac: str
    backing: Backing
    model: NicModel = "virtio"
    queues: int = Field(default=1, ge=1, le=64)
    rx_ring: RingSize | None = None
    tx_ring: RingSize | None = None
    mergeable: bool | None = None
    packed: bool | None = None
    offloads: Offloads = Offloads()
    mtu: int | None = None

    @field_validator("rx_ring", "tx_ring")
    @classmethod
    def _check_descriptors(cls, value: int | None) -> int | None:
        if value is not None and value & (value - 1):
            raise ValueError("a number of descriptors is a power of two")
        return value

    @model_validator(mode="after")
    def _fits(self) -> GuestNic:
        if self.model != "virtio" and self.backing.kind == "vhost-user":
            raise ValueError(f"a vhost-user NIC is virtio, not {self.model}")
        if self.model != "virtio" and self.queues > 1:
            raise ValueError(f"{self.model} has one queue pair, not {self.queues}")
        return self


class Domain(Frozen):
    """A guest.

    Attributes:
        accelerator: "kvm", or "tcg" where processors are emulated.
        console: File that gets what the guest writes to its serial console.
        output: File that gets what a program of the guest writes to its terminal /dev/hvc0, where
            a C library does not keep lines back; None for none.
        vcpu_pins: Host processors of each vCPU; empty pins none.
        hugepage_kb: Size of the pages that back its memory, KiB; 0 for ordinary pages.
        node: Node of the host that its memory is on; None for any.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    accelerator: Literal["kvm", "tcg"]
    emulator: Path
    vcpus: int = Field(ge=1, le=64)
    memory_mib: int = Field(ge=64)
    boot: BootFiles
    nics: tuple[GuestNic, ...] = ()
    console: Path
    output: Path | None = None
    vcpu_pins: tuple[Cpus, ...] = ()
    emulator_pin: Cpus = ()
    iothread_pins: tuple[Cpus, ...] = ()
    hugepage_kb: Literal[0] | HugepageSize = 0
    node: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _adds_up(self) -> Domain:
        if self.vcpu_pins and len(self.vcpu_pins) != self.vcpus:
            raise ValueError(f"{len(self.vcpu_pins)} pins for {self.vcpus} vCPUs")
        return self

    @property
    def shares_memory(self) -> bool:
        """True when another process maps its memory."""
        return any(nic.backing.kind == "vhost-user" for nic in self.nics)

    @property
    def written_directories(self) -> list[str]:
        """Directories in which its QEMU makes files: of its console and disk, and of sockets."""
        backings = (nic.backing for nic in self.nics)
        vhost = (
            backing
            for backing in backings
            if isinstance(backing, VhostUserBacking) and backing.server
        )
        sockets = (Path(backing.socket) for backing in vhost)
        return sorted({str(path.parent) for path in (self.console, *sockets)})


AGENT = "org.qemu.guest_agent.0"
#: The serial number by which a guest's image finds its root disk.
ROOT_SERIAL = "vnetperf-root"
#: Without a kernel's word this many seconds later QEMU's socket is tried again.
RECONNECT_S = 1


def domain_xml(domain: Domain) -> str:
    """Render a guest."""
    root = Element("domain", type="kvm" if domain.accelerator == "kvm" else "qemu")
    SubElement(root, "name").text = domain.name
    SubElement(root, "memory", unit="MiB").text = str(domain.memory_mib)
    _memory_backing(root, domain)
    SubElement(root, "vcpu", placement="static").text = str(domain.vcpus)
    if domain.iothread_pins:
        SubElement(root, "iothreads").text = str(len(domain.iothread_pins))
    _pins(root, domain)
    if domain.node is not None:
        _numa_memory(root, domain.node)
    _boot(root, domain)
    # Without it libvirt 9.0 starts no guest of QEMU 9 or later.
    SubElement(SubElement(root, "features"), "acpi")
    _cpu(root, domain)
    SubElement(root, "clock", offset="utc")
    # A kernel that panics starts anew at once: for us that is the end of the guest.
    for event in ("poweroff", "reboot", "crash"):
        SubElement(root, f"on_{event}").text = "destroy"
    _devices(root, domain)
    indent(root)
    return tostring(root, encoding="unicode") + "\n"


def _memory_backing(root: Element, domain: Domain) -> None:
    if not (domain.hugepage_kb or domain.shares_memory):
        return
    backing = SubElement(root, "memoryBacking")
    if domain.hugepage_kb:
        pages = SubElement(backing, "hugepages")
        SubElement(pages, "page", size=str(domain.hugepage_kb), unit="KiB")
    SubElement(backing, "source", type="memfd")
    if domain.shares_memory:
        SubElement(backing, "access", mode="shared")
    SubElement(backing, "allocation", mode="immediate")


def _pins(root: Element, domain: Domain) -> None:
    if not (domain.vcpu_pins or domain.emulator_pin or domain.iothread_pins):
        return
    tune = SubElement(root, "cputune")
    for number, cpus in enumerate(domain.vcpu_pins):
        SubElement(tune, "vcpupin", vcpu=str(number), cpuset=format_cpus(cpus))
    if domain.emulator_pin:
        SubElement(tune, "emulatorpin", cpuset=format_cpus(domain.emulator_pin))
    for number, cpus in enumerate(domain.iothread_pins, 1):
        SubElement(tune, "iothreadpin", iothread=str(number), cpuset=format_cpus(cpus))


def _numa_memory(root: Element, node: int) -> None:
    tune = SubElement(root, "numatune")
    SubElement(tune, "memory", mode="strict", nodeset=str(node))
    SubElement(tune, "memnode", cellid="0", mode="strict", nodeset=str(node))


def _boot(root: Element, domain: Domain) -> None:
    system = SubElement(root, "os")
    SubElement(system, "type", arch="x86_64", machine="q35").text = "hvm"
    boot = domain.boot
    if boot.kernel is None:
        SubElement(system, "boot", dev="hd")
        return
    SubElement(system, "kernel").text = str(boot.kernel)
    if boot.initrd is not None:
        SubElement(system, "initrd").text = str(boot.initrd)
    SubElement(system, "cmdline").text = boot.cmdline


def _cpu(root: Element, domain: Domain) -> None:
    mode = "host-passthrough" if domain.accelerator == "kvm" else "maximum"
    cpu = SubElement(root, "cpu", mode=mode, check="none")
    if domain.node is not None:
        cpus = format_cpus(range(domain.vcpus))
        size = str(domain.memory_mib)
        cell = {"id": "0", "cpus": cpus, "memory": size, "unit": "MiB"}
        if domain.shares_memory:
            cell["memAccess"] = "shared"
        SubElement(SubElement(cpu, "numa"), "cell", cell)


def _devices(root: Element, domain: Domain) -> None:
    devices = SubElement(root, "devices")
    SubElement(devices, "emulator").text = str(domain.emulator)
    if domain.boot.disk is not None:
        _disk(devices, domain)
    SubElement(devices, "controller", type="usb", model="none")
    SubElement(devices, "controller", type="virtio-serial", index="0")
    for nic in domain.nics:
        _nic(devices, nic)
    _log_file(devices, "serial", domain.console, port="0")
    _log_file(devices, "console", domain.console, type="serial", port="0")
    if domain.output is not None:
        _log_file(devices, "console", domain.output, type="virtio", port="1")
    channel = SubElement(devices, "channel", type="unix")
    # libvirt's own place for the socket is too deep for a socket's path.
    SubElement(channel, "source", mode="bind", path=str(domain.console.with_suffix(".agent")))
    SubElement(channel, "target", type="virtio", name=AGENT)
    rng = SubElement(devices, "rng", model="virtio")
    SubElement(rng, "backend", model="random").text = "/dev/urandom"
    SubElement(devices, "memballoon", model="none")


def _log_file(devices: Element, kind: str, path: Path, **target: str) -> None:
    element = SubElement(devices, kind, type="file")
    SubElement(element, "source", path=str(path))
    SubElement(element, "target", target)


def _disk(devices: Element, domain: Domain) -> None:
    boot = domain.boot
    disk = SubElement(devices, "disk", type="file", device="disk")
    driver = SubElement(disk, "driver", name="qemu", type=boot.disk_format)
    if domain.iothread_pins:
        driver.set("iothread", "1")
    SubElement(disk, "source", file=str(boot.disk))
    SubElement(disk, "target", dev="vda", bus="virtio")
    if not boot.disk_writable:
        SubElement(disk, "readonly")
    SubElement(disk, "serial").text = ROOT_SERIAL


def _nic(devices: Element, nic: GuestNic) -> None:
    backing = nic.backing
    if isinstance(backing, VfBacking):
        _function(devices, backing)
        return
    is_socket = isinstance(backing, VhostUserBacking)
    element = SubElement(devices, "interface", type="vhostuser" if is_socket else "ethernet")
    SubElement(element, "mac", address=nic.mac)
    if isinstance(backing, VhostUserBacking):
        mode = "server" if backing.server else "client"
        source = SubElement(element, "source", type="unix", path=backing.socket, mode=mode)
        if not backing.server:
            SubElement(source, "reconnect", enabled="yes", timeout=str(RECONNECT_S))
    else:
        SubElement(element, "target", dev=backing.netdev, managed="no")
    SubElement(element, "model", type=nic.model)
    if nic.model == "virtio":
        _virtio(element, nic, backing)
    # libvirt would set the MTU of an interface of the host, which a socket has not.
    if nic.mtu is not None and nic.model == "virtio" and not is_socket:
        SubElement(element, "mtu", size=str(nic.mtu))
    # No boot ROM: nothing boots from the network under test.
    SubElement(element, "rom", enabled="no")


def _virtio(element: Element, nic: GuestNic, backing: VhostUserBacking | NetdevBacking) -> None:
    driver = SubElement(element, "driver")
    if isinstance(backing, NetdevBacking):
        driver.set("name", "vhost" if backing.vhost else "qemu")
    if nic.queues > 1:
        driver.set("queues", str(nic.queues))
    for key, size in (("rx_queue_size", nic.rx_ring), ("tx_queue_size", nic.tx_ring)):
        if size is not None:
            driver.set(key, str(size))
    if nic.packed is not None:
        driver.set("packed", on_off(nic.packed))
    offloads = nic.offloads
    shared = {
        "csum": offloads.csum,
        "tso4": offloads.tso,
        "tso6": offloads.tso,
        "ecn": offloads.ecn,
    }
    shared["ufo"] = offloads.ufo
    host = {"gso": offloads.gso, **shared, "mrg_rxbuf": nic.mergeable}
    for side, choices in (("host", host), ("guest", shared)):
        attributes = {key: on_off(value) for key, value in choices.items() if value is not None}
        if attributes:
            SubElement(driver, side, attributes)


def _function(devices: Element, function: VfBacking) -> None:
    parts = re.split("[:.]", function.pci)
    names = ("domain", "bus", "slot", "function")
    address = {name: f"0x{part}" for name, part in zip(names, parts, strict=True)}
    device = SubElement(devices, "hostdev", mode="subsystem", type="pci", managed="no")
    SubElement(device, "driver", name="vfio")
    source = SubElement(device, "source")
    SubElement(source, "address", address)
    SubElement(device, "rom", enabled="no")


def on_off(value: object) -> str:
    """A setting as libvirt and reports write it."""
    return "on" if value else "off"
