"""What a guest is made of: processors, memory, boot files, NICs. Frozen values, no I/O."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from vnetperf.model.base import Frozen

NicModel = Literal["virtio", "e1000", "rtl8139"]
Cpus = tuple[Annotated[int, Field(ge=0)], ...]
RingSize = Annotated[int, Field(ge=256, le=1024)]


class Boot(Frozen):
    """What a guest boots.

    Attributes:
        kernel: Kernel; None boots from the disk.
        initrd: First file system.
        cmdline: The kernel's command line.
        disk: Root disk, attached read-only.
        disk_format: "raw" or "qcow2".
        disk_writable: True lets the guest change the disk: a private copy of it.
    """

    kernel: Path | None = None
    initrd: Path | None = None
    cmdline: str = ""
    disk: Path | None = None
    disk_format: Literal["raw", "qcow2"] = "raw"
    disk_writable: bool = False

    @model_validator(mode="after")
    def _boots(self) -> Boot:
        if self.kernel is None and self.disk is None:
            raise ValueError("a guest boots a kernel or a disk")
        return self


class Cell(Frozen):
    """One NUMA node of a guest.

    Attributes:
        cpus: Its vCPUs.
        memory_mib: Its memory, MiB.
        host_node: Node of the host that its memory is on.
    """

    cpus: Cpus
    memory_mib: int = Field(ge=1)
    host_node: int = Field(ge=0)


class VhostUser(Frozen):
    """A NIC at a vhost-user socket.

    Attributes:
        socket: Path of the socket.
        server: True when QEMU listens on it, False when the switch does.
    """

    kind: Literal["vhost-user"] = "vhost-user"
    socket: str
    server: bool


class Tap(Frozen):
    """A NIC at a tap that is there already, in the network namespace of the session.

    Attributes:
        netdev: Name of the tap.
        vhost: True when vhost-net in the kernel moves the frames, False when QEMU does.
    """

    kind: Literal["tap"] = "tap"
    netdev: str
    vhost: bool = False


class Macvtap(Frozen):
    """A NIC at a macvtap that is there already.

    Attributes:
        netdev: Name of the macvtap.
        vhost: As of a tap.
    """

    kind: Literal["macvtap"] = "macvtap"
    netdev: str
    vhost: bool = False


class Function(Frozen):
    """A PCI function of the host, given to the guest by vfio.

    Attributes:
        pci: Its address, bound to vfio-pci.
    """

    kind: Literal["vf"] = "vf"
    pci: str = Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")


Backing = Annotated[VhostUser | Tap | Macvtap | Function, Field(discriminator="kind")]


class Offloads(Frozen):
    """Offloads of a virtio NIC, each both ways; None leaves QEMU's own.

    Attributes:
        csum: Checksums.
        tso: TCP segmentation, IPv4 and IPv6.
        ufo: UDP fragmentation.
        ecn: Segments with ECN.
        gso: Segmentation by the host of what the guest sends.
    """

    csum: bool | None = None
    tso: bool | None = None
    ufo: bool | None = None
    ecn: bool | None = None
    gso: bool | None = None


class Nic(Frozen):
    """A NIC of a guest.

    Attributes:
        mac: Its address, by which it is found in the guest.
        backing: What it is plugged into.
        model: What the guest sees; means nothing for a PCI function.
        queues: Queue pairs.
        rx_ring: Receive descriptors of each queue; None for QEMU's own.
        tx_ring: Transmit descriptors; only vhost-user has more than 256.
        mergeable: Mergeable receive buffers; None for QEMU's own.
        packed: Packed rings; None for QEMU's own.
        offloads: Offloads.
        mtu: MTU that the guest is told, octets; None tells none. At a vhost-user socket it is
            never told, and set in the guest.
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
    def _power_of_two(cls, value: int | None) -> int | None:
        if value is not None and value & (value - 1):
            raise ValueError("a number of descriptors is a power of two")
        return value

    @model_validator(mode="after")
    def _fits(self) -> Nic:
        if self.model != "virtio" and self.backing.kind == "vhost-user":
            raise ValueError(f"a vhost-user NIC is virtio, not {self.model}")
        if self.model != "virtio" and self.queues > 1:
            raise ValueError(f"{self.model} has one queue pair, not {self.queues}")
        return self


class Domain(Frozen):
    """A guest.

    Attributes:
        name: Its name.
        accelerator: "kvm", or "tcg" where processors are emulated.
        emulator: Path of QEMU.
        vcpus: Number of vCPUs.
        memory_mib: Memory, MiB.
        boot: What it boots.
        nics: NICs.
        console: File that gets what the guest writes to its serial console.
        output: File that gets what a program of the guest writes to its terminal /dev/hvc0, where
            a C library does not keep lines back; None for none.
        vcpu_pins: Host processors of each vCPU; empty pins none.
        emulator_pin: Host processors of QEMU's other threads; empty for any.
        iothread_pins: Host processors of each I/O thread.
        hugepage_kb: Size of the pages that back its memory, KiB; 0 for ordinary pages.
        cells: NUMA nodes; empty for one that is tied to no host node.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    accelerator: Literal["kvm", "tcg"]
    emulator: Path
    vcpus: int = Field(ge=1, le=64)
    memory_mib: int = Field(ge=64)
    boot: Boot
    nics: tuple[Nic, ...] = ()
    console: Path
    output: Path | None = None
    vcpu_pins: tuple[Cpus, ...] = ()
    emulator_pin: Cpus = ()
    iothread_pins: tuple[Cpus, ...] = ()
    hugepage_kb: Literal[0, 2048, 1048576] = 0
    cells: tuple[Cell, ...] = ()

    @model_validator(mode="after")
    def _adds_up(self) -> Domain:
        if self.vcpu_pins and len(self.vcpu_pins) != self.vcpus:
            raise ValueError(f"{len(self.vcpu_pins)} pins for {self.vcpus} vCPUs")
        if self.cells:
            cpus = sorted(cpu for cell in self.cells for cpu in cell.cpus)
            if cpus != list(range(self.vcpus)):
                raise ValueError(f"cells hold vCPUs {cpus}, the guest has {self.vcpus}")
            memory = sum(cell.memory_mib for cell in self.cells)
            if memory != self.memory_mib:
                raise ValueError(f"cells hold {memory} MiB, the guest has {self.memory_mib}")
        return self

    @property
    def shares_memory(self) -> bool:
        """True when another process maps its memory."""
        return any(nic.backing.kind == "vhost-user" for nic in self.nics)
