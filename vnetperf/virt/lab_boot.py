"""The lab's machine, QEMU's command line for it (by virtme-ng), and the scripts its guest runs.

Devices have fixed places, because testbed files name NICs by PCI address. virtme-ng only renders
the command: QEMU is a child of our own, so that it ends with us.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from vnetperf.host.linux import read_file
from vnetperf.host.programs import EXTRA_PATH
from vnetperf.host.wait import LAB_GUESTS_MARK, LAB_MARK
from vnetperf.model.errors import ConfigError, HostError
from vnetperf.virt.kernel import Kernel
from vnetperf.virt.tools import VIRTME_RUN

MIB_PER_NODE_LEAST = 1024
NODES = 2

#: Slots of the two buses on the root bus; virtme-ng's own devices are in the slots below.
BUS_SLOTS = (0x10, 0x11)
#: Numbers of the buses that hang off NUMA node 0 and 1; the NICs are on the buses that follow.
BUS_NUMBERS = (0x20, 0x40)

Accelerator = Literal["kvm", "tcg"]
#: As QEMU's ``-accel tcg,thread=``.
Threads = Literal["single", "multi"]


@dataclass(frozen=True, slots=True)
class LabNic:
    """An Intel 82576 (igb): SR-IOV with seven virtual functions.

    Attributes:
        side: Who uses it; "" where that is decided by the deployment.
        cable: Number of the cable it is plugged into; the two NICs of one cable see each other.
        wire: Sockets of this end and the other, of a cable to another machine; None for one within.
    """

    name: str
    side: Literal["tester", "dut", ""]
    cable: int
    node: int
    mac: str
    pci: str
    wire: tuple[Path, Path] | None = None


#: Tester ports on node 0, DUT ports on node 1, cabled in pairs.
NICS = (
    LabNic("tester0", "tester", 0, 0, "52:54:00:1a:b0:00", "0000:21:00.0"),
    LabNic("tester1", "tester", 1, 0, "52:54:00:1a:b0:01", "0000:22:00.0"),
    LabNic("dut0", "dut", 0, 1, "52:54:00:1a:b1:00", "0000:41:00.0"),
    LabNic("dut1", "dut", 1, 1, "52:54:00:1a:b1:01", "0000:42:00.0"),
)


@dataclass(frozen=True, slots=True)
class LabMachine:
    """The lab's machine, half of its processors and memory on each NUMA node.

    `threads`: whether one thread emulates all processors, or each has its own. `ssh`: socket at
    this machine's end of its port for ssh; None for a lab of one machine.
    """

    cpus: int = 4
    #: Above about 2750 MiB firmware puts the NICs' windows beyond 4 GiB, where QEMU (10.0) maps the
    #: registers of virtual functions by half of their address: they read 0.
    memory_mib: int = 2560
    accelerator: Accelerator = "tcg"
    #: With a thread each QEMU (10.0) sometimes aborts or hangs in the firmware (iotlb_to_section),
    #: and on two processors the lab starts no sooner. Guests of its own kernel need it: with one
    #: thread nested virtualisation loses their timers' interrupts, and they stand still.
    threads: Threads = "single"
    nics: tuple[LabNic, ...] = field(default=NICS)
    ssh: Path | None = None

    def __post_init__(self) -> None:
        if self.cpus < NODES or self.cpus % NODES or self.cpus > 64:
            raise ConfigError(
                f"{self.cpus} processors cannot be spread over {NODES} NUMA nodes",
                where="--cpus",
                accepted=f"an even number from {NODES} to 64",
            )
        if self.memory_mib < NODES * MIB_PER_NODE_LEAST:
            raise ConfigError(
                f"{self.memory_mib} MiB are too little for a vSwitch and its hugepages",
                where="--memory",
                accepted=f"at least {NODES * MIB_PER_NODE_LEAST} MiB",
            )

    @property
    def takes_guests(self) -> bool:
        """Whether nested guests get their timers' interrupts."""
        return self.accelerator == "kvm" or self.threads == "multi"

    def numa(self) -> tuple[str, ...]:
        """One text a node for virtme-ng's ``--numa``, e.g. ``2560M,cpus=0-1``."""
        cpus = self.cpus // NODES
        memory = self.memory_mib // NODES
        return tuple(
            f"{memory}M,cpus={node * cpus}-{(node + 1) * cpus - 1}" for node in range(NODES)
        )

    def qemu_options(self) -> list[str]:
        """QEMU arguments for accelerator, IOMMU, buses and NICs."""
        options = ["-accel", f"tcg,thread={self.threads}"]
        if self.accelerator == "kvm":
            # Interrupt remapping by the emulated IOMMU needs the I/O APIC in QEMU.
            options = ["-accel", "kvm", "-machine", "kernel-irqchip=split"]
        options += ["-device", "intel-iommu,intremap=on,caching-mode=on"]
        for node in range(NODES):
            bus = f"pxb-pcie,id=node{node},bus=pcie.0,addr={BUS_SLOTS[node]:#x}"
            options += ["-device", f"{bus},bus_nr={BUS_NUMBERS[node]:#x},numa_node={node}"]
            for slot, nic in enumerate(n for n in self.nics if n.node == node):
                options += _nic(nic, slot, chassis=self.nics.index(nic) + 1)
        return options


def _nic(nic: LabNic, slot: int, *, chassis: int) -> list[str]:
    """A NIC in a slot of its own, as SR-IOV needs it, with its end of a cable."""
    port = f"pcie-root-port,id=port-{nic.name},bus=node{nic.node},addr={slot:#x},chassis={chassis}"
    cable = f"hubport,id=cable-{nic.name},hubid={nic.cable}"
    if nic.wire is not None:  # datagrams: neither machine must be there before the other
        ends = zip(("local", "remote"), map(_quoted, nic.wire), strict=True)
        places = ",".join(f"{end}.type=unix,{end}.path={path}" for end, path in ends)
        cable = f"dgram,id=cable-{nic.name},{places}"
    return [
        *("-device", port),
        *("-netdev", cable),
        *("-device", f"igb,bus=port-{nic.name},netdev=cable-{nic.name},mac={nic.mac}"),
    ]


#: The guest's name for the host's root directory, read-only.
ROOT_TAG = "vnetperf.root"

_IOMMU = ("intel_iommu=on", "iommu=pt")
# An emulated machine pays dearly for what protects real ones, and none of it is measured here.
_LIGHT = ("mitigations=off", "nowatchdog", "audit=0", "apparmor=0", "selinux=0")
# The kernel panics when its timer comes late while it looks for one, as on a busy host it does.
_PATIENT = ("no_timer_check",)
# Loading what nobody in the lab uses takes seconds of every start. By name they can be loaded.
_UNUSED = (
    "iTCO_wdt,lpc_ich,i2c_i801,i6300esb,psmouse,pcspkr,joydev,evdev,serio_raw,button,"
    "ahci,sr_mod,sg,kvm_amd,kvm_intel"
)
_CONSOLE = ("console=ttyS1", "loglevel=5")


def qemu_command(
    kernel: Kernel,
    machine: LabMachine,
    rundir: Path,
    *,
    script: str,
    shares: Sequence[Path],
    ports: dict[str, int],
) -> list[str]:
    """Render QEMU's command line."""
    argv = [*VIRTME_RUN, "--dry-run", "--show-command", "--mods", "auto"]
    argv += ["--kimg", str(kernel.image), "--save-initramfs", str(rundir / "initramfs")]
    argv += ["--disable-kvm", "--force-9p", "--name", "vnetperf-lab"]
    argv += ["--cpus", str(machine.cpus), "--memory", f"{machine.memory_mib}M"]
    for node in machine.numa():
        argv += ["--numa", node]
    for directory in ("/etc", "/var"):  # the least that its init must write to
        argv += ["--overlay-rwdir", directory]
    marks = (LAB_MARK, LAB_GUESTS_MARK) if machine.takes_guests else (LAB_MARK,)
    options = (*marks, *_IOMMU, *_LIGHT, *_PATIENT, f"modprobe.blacklist={_UNUSED}", *_CONSOLE)
    for option in options:
        argv += ["--kopt", option]
    argv += ["--script-sh", script, "--qemu-opts", *machine.qemu_options()]
    argv += _port_devices(ports, machine.ssh) + _share_device(
        0, ROOT_TAG, Path("/"), writable=False
    )
    for number, path in enumerate(shares):
        argv += _share_device(number + 1, share_tag(number), path, writable=True)
    argv += ["-chardev", f"file,id=kernel-log,path={_quoted(rundir / 'console.log')}"]
    argv += ["-device", "isa-serial,chardev=kernel-log"]
    return _render(argv, rundir)


def share_tag(number: int) -> str:
    """The guest's name for a directory that it may write to."""
    return f"vnetperf.share{number}"


def _render(argv: list[str], rundir: Path) -> list[str]:
    environment = {
        **os.environ,
        "TMPDIR": str(rundir),
        "PATH": f"{os.environ.get('PATH', '')}:{EXTRA_PATH}",
    }
    try:
        # Its standard streams must be files that can be opened again, or it wires them otherwise.
        with (rundir / "virtme.out").open("w+") as out, (rundir / "virtme.err").open("w+") as err:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment,
                timeout=120,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise HostError(
            "virtme-ng did not end within 120 s",
            where=shlex.join(argv[:4]),
            cure="try again when the machine is less busy, or see `vnetperf lab doctor`",
        ) from error
    output = read_file(rundir / "virtme.out")
    line = next((line for line in output.splitlines() if "qemu-system" in line), None)
    if done.returncode or line is None:
        error_lines = read_file(rundir / "virtme.err").strip().splitlines()
        raise HostError(
            f"virtme-ng does not start: {error_lines[-1] if error_lines else 'it printed nothing'}",
            where=shlex.join(argv[:4]),
            cure="see `vnetperf lab doctor`",
        )
    return shlex.split(line)


def _port_devices(ports: dict[str, int], ssh: Path | None) -> list[str]:
    options = ["-device", "virtio-serial-pci,bus=pcie.0,id=vnetperf"]
    places = {name: f"fd={descriptor}" for name, descriptor in ports.items()}
    if ssh is not None:
        places["ssh"] = f"path={_quoted(ssh)},server=on,wait=off"
    for name, place in places.items():
        options += ["-chardev", f"socket,id=vnetperf-{name},{place}"]
        port = f"virtserialport,bus=vnetperf.0,name=vnetperf.{name},chardev=vnetperf-{name}"
        options += ["-device", port]
    return options


def _share_device(number: int, tag: str, path: Path, *, writable: bool) -> list[str]:
    access = "" if writable else ",readonly=on"
    return [
        "-fsdev",
        # Files that the guest makes belong to whoever runs QEMU, as if made without a guest.
        f"local,id=folder{number},path={_quoted(path)},security_model=none,multidevs=remap{access}",
        "-device",
        f"virtio-9p-pci,bus=pcie.0,fsdev=folder{number},mount_tag={tag}",
    ]


def _quoted(path: Path) -> str:
    return str(path).replace(",", ",,")


#: Loaded at the start: device files of these are opened by programs that expect them to be there.
GUEST_MODULES = (
    "tun",
    "vhost_net",
    "vfio-pci",
    "vfio_iommu_type1",
    "igb",
    "openvswitch",
    "macvtap",
)
#: Ports between host and guest, as QEMU and the guest call them.
PORTS = ("in", "out", "err", "ctl")
#: Directories of the host that a guest must not see, since it would act on what is in them.
HIDDEN_DIRS = ("/var/lib/vnetperf",)

_STAGE1 = (
    "mount -t tmpfs none /mnt && mkdir /mnt/host && "
    "mount -t 9p -o ro,version=9p2000.L,trans=virtio,msize=512000,cache=loose {tag} /mnt/host "
    "&& exec sh /mnt/host{script}"
)

_SAY = r"""
say() { printf '%s\n' "$*" >&9; }
give_up() { say "failed $*"; sleep 5; exit 125; }
"""

_STAGE2 = (
    r"""exec 9<>/dev/virtio-ports/vnetperf.ctl
"""
    + _SAY
    + r"""
# overlay DIRECTORY: the host's, read once and kept, with all that is written going to memory.
overlay() {
    m=$(mktemp -d /mnt/memory.XXXXXX) && mkdir "$m/upper" "$m/work" && cd "/mnt/host$1" &&
        mount -t overlay -o "lowerdir=.,upperdir=$m/upper,workdir=$m/work" lab "/mnt/root$1" ||
        give_up "the kernel cannot lay memory over $1"
}
mkdir /mnt/root && overlay /
for d in dev sys run; do
    mkdir -p /mnt/root/$d && mount --rbind /$d /mnt/root/$d || give_up "cannot mount /$d"
done
mount -t proc proc /mnt/root/proc || give_up "cannot mount /proc"
modules="/mnt/root/usr/lib/modules/$(uname -r)"
mkdir -p "$modules" && mount --bind /mnt/host@MODULES@ "$modules" ||
    give_up "the kernel's modules are not where they were"
for d in @HIDDEN@; do
    [ ! -d "/mnt/root$d" ] || mount -t tmpfs -o mode=700 none "/mnt/root$d"
done
share() {
    mkdir -p "/mnt/root$2" &&
        mount -t 9p -o version=9p2000.L,trans=virtio,msize=512000 "$1" "/mnt/root$2" ||
        give_up "cannot mount $2"
}
@SHARES@
@KEPT@
cd /
# virtme-ng points these at ports that only one program at a time can open.
for n in 0:stdin 1:stdout 2:stderr; do ln -sf /proc/self/fd/${n%%:*} /dev/${n#*:}; done
exec unshare --mount --propagation private sh /mnt/host@DIRECTORY@/run.sh
"""
)

_STAGE3 = (
    _SAY
    + r"""
mkdir -p /mnt/root/mnt && cd /mnt/root && pivot_root . mnt && cd / && umount -l /mnt ||
    give_up "cannot change the root directory"
for m in @LOADED@; do modprobe -q "$m" || echo "lab: no module $m" >/dev/kmsg; done
mkfifo /run/lab.out /run/lab.err
cat /run/lab.out >/dev/virtio-ports/vnetperf.out & out=$!
cat /run/lab.err >/dev/virtio-ports/vnetperf.err & err=$!
exec 7<>/run/lab.out 8<>/run/lab.err
(
    exec 7>&- 8>&-
    while read -r name <&9; do kill -"$name" -- "-$(cat /run/lab.pid)" 2>/dev/null; done
) & listener=$!
cd @CWD@ || give_up "the guest has no such directory: "@CWD@
say ready
env -i @ENVIRONMENT@ @LAUNCH@ </dev/virtio-ports/vnetperf.in >&7 2>&8 7>&- 8>&- 9>&-
status=$?
kill $listener 2>/dev/null
exec 7>&- 8>&-
# Whoever still holds the command's output must not hold the lab.
( sleep 5; kill $out $err ) 2>/dev/null & limit=$!
wait $out $err
kill $limit 2>/dev/null
sync
say "exit $status"
sleep 5
"""
)

_PID_FILE = "echo $$ >/run/lab.pid; "


def write_scripts(
    directory: Path,
    *,
    modules: Path,
    shares: Sequence[Path],
    kept: Sequence[Path],
    cwd: Path,
    environment: Mapping[str, str],
    argv: Sequence[str],
    terminal: tuple[int, int] | None,
) -> str:
    """Write the guest's scripts."""
    stage2 = {
        "MODULES": shlex.quote(str(modules)),
        "HIDDEN": " ".join(HIDDEN_DIRS),
        "SHARES": "\n".join(
            f"share {share_tag(number)} {shlex.quote(str(path))}"
            for number, path in enumerate(shares)
        ),
        "KEPT": "\n".join(f"overlay {shlex.quote(str(path))}" for path in kept),
        "DIRECTORY": shlex.quote(str(directory)),
    }
    stage3 = {
        "LOADED": " ".join(GUEST_MODULES),
        "CWD": shlex.quote(str(cwd)),
        "ENVIRONMENT": shlex.join(f"{key}={value}" for key, value in environment.items()),
        "LAUNCH": shlex.join(_launch(argv, terminal)),
    }
    (directory / "prepare.sh").write_text(_substituted(_STAGE2, stage2))
    (directory / "run.sh").write_text(_substituted(_STAGE3, stage3))
    return _STAGE1.format(tag=ROOT_TAG, script=shlex.quote(str(directory / "prepare.sh")))


def _launch(argv: Sequence[str], terminal: tuple[int, int] | None) -> list[str]:
    """The command as leader of a session, which a signal from the host then reaches whole."""
    if terminal is None:
        return ["setsid", "sh", "-c", f'{_PID_FILE}exec "$@"', "sh", *argv]
    rows, columns = terminal
    size = f"stty rows {rows} cols {columns}; "
    return ["script", "-qec", f"{_PID_FILE}{size}exec {shlex.join(argv)}", "/dev/null"]


def _substituted(template: str, values: Mapping[str, str]) -> str:
    """The template with its places filled, each once, so that no value is taken for a place."""
    pattern = re.compile("|".join(f"@{key}@" for key in values))
    return pattern.sub(lambda place: values[place[0].strip("@")], template)
