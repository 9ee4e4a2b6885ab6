"""Options of a scenario's parts: vSwitch, guests, mobile core."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from vnetperf.model.addresses import TEST_ADDRESSES
from vnetperf.model.base import Frozen, HugepageSize, given, text_like

Own = TypeVar("Own", bound=Frozen)


def _check_descriptors(value: int) -> int:
    if value & (value - 1):
        raise ValueError("a number of descriptors is a power of two")
    return value


PowerOfTwo = Annotated[int, AfterValidator(_check_descriptors)]


class QueuePin(Frozen):
    """One receive queue given to one worker.

    Attributes:
        port: Port of the deployment, "phy0" or "vnf0.1".
        queue: 0-based number of the receive queue.
        worker: 0-based number of the worker, a place in the placement's cores.
    """

    port: str
    queue: int = Field(ge=0)
    worker: int = Field(ge=0)


class SwitchOptions(Frozen):
    """What a scenario asks of its vSwitch; a file under conf/switch/.

    A value of None leaves the backend's own. A backend names the options it renders in its
    capabilities; a scenario that sets another one is refused before anything is deployed. Keys
    beyond these are of the `Options` models that backends declare.

    Attributes:
        name: The file's unless given.
        description: One sentence for the report.
        mode: One of the backend's modes, e.g. `l2patch` of `vpp`, `vepa` of `macvtap`. Left out:
            the first.
        rx_queues: 1 to 64 receive queues of each port; of vSwitches in the kernel, of each VNF
            port: a deployment without any refuses it.
        rx_descriptors: 64 to 32768, a power of two: receive descriptors of each queue.
        tx_descriptors: 64 to 32768, a power of two: transmit descriptors of each queue.
        workers: 1 to 64 poll-mode threads.
        placement: Poll-mode threads, two at least: `siblings` on both hardware threads of cores,
            `nodes` on NUMA nodes in turn. Left out: a core each, of one node. On dedicated cores
            only (`dpdk`, `testpmd`, `vpp`, `cgnat`).
        rxq_affinity: `port`, `queue`, `worker`: this receive queue is polled by this worker,
            counted from 0. Queues that are not named go where the backend likes.
        mtu: 68 to 9198 octets without Ethernet header and FCS, at every port. Left out: what fits
            the frame sizes.
        offloads: Checksum and segmentation offloads of every port.
        memory_mib: Poll-mode memory by NUMA node, MiB. Left out: what the backend needs.
        napi: Whose thread does the kernel's receive work at veth ends: `softirq` that of whoever
            sends, `threaded` one of the kernel's for each end, placed and accounted as role `napi`.
            Left out: the kernel's, `softirq`. For `bridge`, `xdp`, `lb`, `cgnat` in the kernel's
            modes, and VNFs in which the kernel forwards.
        vf_driver: `vfio-pci` gives a VNF a virtual function as a PCI device, `kernel` as an
            interface. Left out: `vfio-pci` where it can.
    """

    model_config = ConfigDict(extra="allow")

    name: str = ""
    description: str = ""
    mode: str = ""
    rx_queues: Annotated[int, Field(ge=1, le=64)] | None = None
    rx_descriptors: Annotated[PowerOfTwo, Field(ge=64, le=32768)] | None = None
    tx_descriptors: Annotated[PowerOfTwo, Field(ge=64, le=32768)] | None = None
    workers: Annotated[int, Field(ge=1, le=64)] | None = None
    placement: Literal["siblings", "nodes"] | None = None
    rxq_affinity: tuple[QueuePin, ...] = ()
    mtu: Annotated[int, Field(ge=68, le=9198)] | None = None
    offloads: bool | None = None
    memory_mib: tuple[Annotated[int, Field(ge=0)], ...] = ()
    napi: Literal["softirq", "threaded"] | None = None
    vf_driver: Literal["vfio-pci", "kernel"] | None = None

    @model_validator(mode="after")
    def _pins_fit(self) -> SwitchOptions:
        for pin in self.rxq_affinity:
            if pin.queue >= (self.rx_queues or 1):
                raise ValueError(
                    f"rxq_affinity names queue {pin.queue} of {pin.port}, "
                    f"but rx_queues is {self.rx_queues or 1}"
                )
            if pin.worker >= (self.workers or 1):
                raise ValueError(
                    f"rxq_affinity names worker {pin.worker}, but workers is {self.workers or 1}"
                )
        return self

    def given(self) -> dict[str, Any]:
        """Options that are set, apart from the mode: name -> value."""
        declared = (self.model_extra or {}).items()
        set_ = given(self, SwitchOptions(), "name", "description", "mode")
        return set_ | {name: value for name, value in declared if value is not None}

    def own(self, model: type[Own]) -> Own:
        """The options that a backend declares, with defaults for those not given."""
        extra = (self.model_extra or {}).items()
        return model.model_validate({k: v for k, v in extra if k in model.model_fields})


def _rising(text: str) -> str:
    for part in text.split(","):
        first, _, last = part.partition("-")
        if last and int(last) < int(first):
            raise ValueError(f"the range {part} runs downwards; write {last}-{first}")
    return text


#: Processors as the kernel writes them: "2", "2-3,8".
CpuList = Annotated[
    str,
    text_like(r"^\d+(-\d+)?(,\d+(-\d+)?)*$", "processors as in 2-3,8"),
    AfterValidator(_rising),
]
RingSize = Annotated[PowerOfTwo, Field(ge=256, le=1024)]
#: Endings of disk images of users, and their formats.
DISKS = {".qcow2": "qcow2", ".img": "raw", ".raw": "raw"}
#: Options that only a virtio NIC has.
VIRTIO_ONLY = ("rx_ring", "tx_ring", "mergeable", "packed", "csum", "tso", "ufo", "ecn", "gso")


class GuestOptions(Frozen):
    """What a scenario asks of its guests; a file under conf/guest/.

    A value of None, or an empty one, leaves the launcher's own, or the plan's.

    Attributes:
        name: The file's unless given.
        description: One sentence for the report.
        image: A built image (`vnetperf image list`), or a path that ends in `.qcow2`, `.img` or
            `.raw`: a disk that forwards by itself (mode `buildin`).
        kernel: Kernel that such a disk is booted with. Left out: the disk's own.
        initrd: First file system of that kernel.
        cmdline: Command line of that kernel.
        uri: URI of libvirt's driver. Left out: a private one.
        accel: `auto`: `kvm` where it is proved to work, else `tcg`; `kvm`; `tcg`, emulated.
        vcpus: 1 to 64. Left out: two, one that forwards and one that does all else.
        vcpu_pins: Processors of the host for each vCPU, `"2"` or `"2-3,8"`. Left out: the plan's.
        emulator_pin: Processors of the host for QEMU's other threads. Left out: the system's.
        vhost_pin: Processors of the host for the threads of vhost-net. Left out: the system's.
        iothread_pins: Processors of the host for each I/O thread of disks. Left out: no I/O
            threads.
        memory_mib: 128 or more MiB.
        hugepage_kb: The host's pages under its memory, KiB: a size that the host's kernel has, or
            `0` for ordinary pages.
        node: Node of the host that its memory is on. Left out: the pollers'.
        nic: `virtio`, `e1000`, `rtl8139`: its NICs, where the attachment leaves a choice.
        rx_ring: 256, 512 or 1024 receive descriptors of each queue of a virtio NIC.
        tx_ring: 256, 512 or 1024 transmit descriptors.
        mergeable: Mergeable receive buffers.
        packed: Packed rings.
        csum: Checksum offload.
        tso: TCP segmentation offload.
        ufo: UDP fragmentation offload.
        ecn: Segmentation of packets with ECN.
        gso: Segmentation by the host of what the guest sends.
        gro: Reassembly by the guest's kernel of what it receives. Left out: as that kernel has it.
        vhost: vhost-net for taps. Left out: where the kernel has it.
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
    hugepage_kb: Literal[0] | HugepageSize = 2048
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

    @property
    def disk(self) -> Path | None:
        """Disk image of the user's; None when `image` is the name of a built one."""
        path = Path(self.image)
        return path if path.suffix in DISKS else None

    @field_validator("image")
    @classmethod
    def _resolve_image(cls, value: str) -> str:
        path = Path(value)
        return str(path.expanduser().absolute()) if path.suffix in DISKS else value

    @field_validator("kernel", "initrd")
    @classmethod
    def _resolve_path(cls, value: Path | None) -> Path | None:
        return value.expanduser().absolute() if value is not None else None

    @property
    def virtio_only(self) -> tuple[str, ...]:
        """Names of the options given that only a virtio NIC has."""
        return tuple(name for name in VIRTIO_ONLY if getattr(self, name) is not None)

    def given(self) -> dict[str, Any]:
        """Options that are set: name -> value."""
        return given(self, GuestOptions(), "name", "description")


GtpuMode = Literal["tun", "kernel"]
#: Addresses of the mobile core and of the tester on Gn, from TEST-NET-1 (RFC 5737).
GN_VEPC, GN_TESTER, GN_PREFIX = "192.0.2.1", "192.0.2.2", 24
#: Where UEs and servers are: the test networks beyond tester ports 0 and 1.
UE_NETWORK, SERVER_NETWORK = map(str, TEST_ADDRESSES.networks)
#: File under conf/stacks/ of the mobile core that is taken when none is named.
DEFAULT_STACK = "osmo-ggsn"
#: Sessions that a stream carries at most: addresses of UEs in 198.18.0.0/16.
MOST_SESSIONS = 65_000
#: What no file of a mobile core can be called in its directory: its network namespace is there.
RESERVED_NAMES = frozenset({"netns", ".", ".."})


class Bearers(Frozen):
    """Sessions whose tunnel endpoints and addresses rise by one.

    Attributes:
        teid: Tunnel endpoint of the first, at the mobile core for uplink.
        ue: Address of the first one's UE.
    """

    teid: int = Field(ge=0, lt=1 << 32)
    ue: str
    count: int = Field(ge=1)


class StackProgram(Frozen):
    """One program of a stack.

    Attributes:
        role: What it is, "core".
        argv: Program and arguments; `${NAME}` stands for a value or the path of a file.
        ready: Text in its log that says that it is up.
        package: Distribution's package that has it.
    """

    role: str
    argv: Annotated[tuple[str, ...], Field(min_length=1)]
    ready: str
    package: str = ""


class UeAttach(Frozen):
    """How UEs attach to a stack.

    Attributes:
        by: "gtpc" for GTPv1-C to the mobile core's Gn address, "command" for a program that prints
            a line of JSON for each session: {"ue": "198.18.0.1", "teid": 1}.
        apn: Access point name, for gtpc.
        argv: The program, for command.
    """

    by: Literal["gtpc", "command"] = "gtpc"
    apn: str = "internet"
    argv: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_argv(self) -> UeAttach:
        if (self.by == "command") != bool(self.argv):
            raise ValueError('argv is for by = "command", which needs it')
        return self


class MobileCore(Frozen):
    """A mobile core that can be deployed; a file under conf/stacks/.

    Attributes:
        description: One sentence for the report.
        programs: What runs, in order of its start; the first is the mobile core's user plane.
        files: Name -> text of files that programs read, with `${NAME}` for values.
        gtpu_modes: Ways in which it forwards user traffic: "tun", "kernel" -> its own name for it.
        mode_marks: Mode -> library that the first program must be linked with to have it.
        max_sessions: Sessions that it has room for, one more kept for the UE of users' traffic.
        tun: Name of the interface that UEs' packets leave and enter the mobile core's kernel by.
        image: Guest image that has it, where it runs in a VM.
        ue: A UE that makes itself an interface `${tun}` and routes by it, for users' own traffic.
    """

    name: str = ""
    description: str = ""
    programs: Annotated[tuple[StackProgram, ...], Field(min_length=1)]
    files: dict[str, str] = Field(default_factory=dict)
    gtpu_modes: Annotated[dict[GtpuMode, str], Field(min_length=1)]
    mode_marks: dict[GtpuMode, str] = Field(default_factory=dict)
    max_sessions: int = Field(default=MOST_SESSIONS, ge=1, le=MOST_SESSIONS)
    tun: str
    image: str = "vepc"
    attach: UeAttach = UeAttach()
    ue: StackProgram | None = None

    @field_validator("files")
    @classmethod
    def _plain_names(cls, files: dict[str, str]) -> dict[str, str]:
        for name in files:
            if "/" in name or not name or name in RESERVED_NAMES:
                raise ValueError(
                    f"{name!r} is no plain name of a file in the mobile core's directory"
                )
        return files


class MobileCoreOptions(Frozen):
    """What a scenario asks of its mobile core.

    Attributes:
        sessions: 1 to 65000 UEs that attach before anything is measured, as many as the core has
            room for (osmo-ggsn: 1023); user traffic is of all of them.
        ramp: Sessions requested in a second; 0: one after the other, as fast as they are made.
        gtpu_mode: `tun`: the core's own program moves users' packets; `kernel`: the kernel's gtp
            module does.
    """

    sessions: int = Field(default=1, ge=1, le=MOST_SESSIONS)
    ramp: float = Field(default=0.0, ge=0, le=100_000)
    gtpu_mode: GtpuMode = "tun"

    def given(self) -> dict[str, Any]:
        """Options that are set: name -> value."""
        return given(self, MobileCoreOptions())
