"""Options of the guests in a scenario whose VNF runs in VMs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from vnetperf.model.base import Frozen

#: Processors as the kernel writes them: "2", "2-3,8".
CpuList = Annotated[str, Field(pattern=r"^\d+(-\d+)?(,\d+(-\d+)?)*$")]
RingSize = Annotated[int, Field(ge=256, le=1024)]
#: Endings of disk images of users, and their formats.
DISKS = {".qcow2": "qcow2", ".img": "raw", ".raw": "raw"}
#: Options that only a virtio NIC has.
VIRTIO_ONLY = ("rx_ring", "tx_ring", "mergeable", "packed", "csum", "tso", "ufo", "ecn", "gso")


class GuestOptions(Frozen):
    """What a scenario asks of its guests; a file under conf/guest/.

    A value of None, or an empty one, leaves the launcher's own, or the plan's.

    Attributes:
        name: Name of the file.
        description: One sentence for the report.
        image: Name of a built image; or path of a disk image, ending in .qcow2 or .img (raw), that
            forwards by itself (mode "buildin").
        kernel: Kernel that a disk image is booted with; None for the one that is on the disk.
        initrd: First file system of that kernel.
        cmdline: Command line of that kernel.
        uri: URI of libvirt's driver; "" for a private one of the run.
        accel: "kvm", "tcg" (emulated), or "auto" for kvm where it is proved to work.
        vcpus: Number of vCPUs; None for one that forwards beside one that does all else.
        vcpu_pins: Processors of the host for each vCPU.
        emulator_pin: Processors of the host for QEMU's other threads.
        vhost_pin: Processors of the host for the threads of vhost-net.
        iothread_pins: Processors of the host for each I/O thread of disks; empty has none.
        memory_mib: Memory, MiB.
        hugepage_kb: Size of the host's pages under its memory, KiB; 0 for ordinary pages.
        node: Node of the host that its memory is on; None for the pollers'.
        nic: What its NICs are, where the attachment leaves a choice.
        rx_ring: Receive descriptors of each queue of a virtio NIC.
        tx_ring: Transmit descriptors of each queue of a virtio NIC.
        mergeable: Mergeable receive buffers.
        packed: Packed rings.
        csum: Checksum offload.
        tso: TCP segmentation offload.
        ufo: UDP fragmentation offload.
        ecn: Segmentation of packets with ECN.
        gso: Segmentation by the host of what the guest sends.
        gro: Reassembly by the guest's kernel of what it receives.
        vhost: vhost-net in the kernel for taps; None where the kernel has it.
        boot_s: Longest wait for the guest's agent, seconds.
    """

    name: str = ""
    description: str = ""
    image: str = "vloop"
    kernel: Path | None = None
    initrd: Path | None = None
    cmdline: str = ""
    uri: str = ""
    accel: Literal["auto", "kvm", "tcg"] = "auto"
    vcpus: Annotated[int, Field(ge=1, le=64)] | None = None
    vcpu_pins: tuple[CpuList, ...] = ()
    emulator_pin: CpuList | None = None
    vhost_pin: CpuList | None = None
    iothread_pins: tuple[CpuList, ...] = ()
    memory_mib: int = Field(default=512, ge=128, le=1 << 20)
    hugepage_kb: Literal[0, 2048, 1048576] = 2048
    node: Annotated[int, Field(ge=0)] | None = None
    nic: Literal["virtio", "e1000", "rtl8139"] = "virtio"
    rx_ring: RingSize | None = None
    tx_ring: RingSize | None = None
    mergeable: bool | None = None
    packed: bool | None = None
    csum: bool | None = None
    tso: bool | None = None
    ufo: bool | None = None
    ecn: bool | None = None
    gso: bool | None = None
    gro: bool | None = None
    vhost: bool | None = None
    boot_s: float = Field(default=60.0, gt=0, le=3600)

    @field_validator("rx_ring", "tx_ring")
    @classmethod
    def _power_of_two(cls, value: int | None) -> int | None:
        if value is not None and value & (value - 1):
            raise ValueError("a number of descriptors is a power of two")
        return value

    @property
    def disk(self) -> Path | None:
        """Disk image of the user's; None when `image` is the name of a built one."""
        path = Path(self.image)
        return path if path.suffix in DISKS else None

    @field_validator("image")
    @classmethod
    def _found_from_anywhere(cls, value: str) -> str:
        path = Path(value)
        return str(path.expanduser().absolute()) if path.suffix in DISKS else value

    @field_validator("kernel", "initrd")
    @classmethod
    def _whole(cls, value: Path | None) -> Path | None:
        return value.expanduser().absolute() if value is not None else None

    @property
    def virtio_only(self) -> tuple[str, ...]:
        """Names of the options given that only a virtio NIC has."""
        return tuple(name for name in VIRTIO_ONLY if getattr(self, name) is not None)

    def given(self) -> dict[str, Any]:
        """Options that are set.

        Returns:
            Name -> value.
        """
        plain = GuestOptions()
        values = {name: getattr(self, name) for name in GuestOptions.model_fields}
        return {
            name: value
            for name, value in values.items()
            if name not in ("name", "description") and value != getattr(plain, name)
        }
