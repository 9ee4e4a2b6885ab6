"""QEMU's command line for one start of the lab, as virtme-ng renders it.

virtme-ng knows how to boot a stock kernel on a view of the live root directory. It is asked for
the command only (``--dry-run``): QEMU is then started as a child of our own, so that it ends
with us, whatever ends us, and what it prints does not mix with what the guest's command prints.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from vnetperf.host.facts_system import LAB_GUESTS_MARK, LAB_MARK
from vnetperf.lab.kernel import Kernel
from vnetperf.lab.layout import Machine
from vnetperf.lab.programs import SBIN, VIRTME_RUN
from vnetperf.model.errors import HostError

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


def command(
    kernel: Kernel,
    machine: Machine,
    rundir: Path,
    *,
    script: str,
    shares: Sequence[Path],
    ports: dict[str, int],
) -> list[str]:
    """Render QEMU's command line.

    Args:
        kernel: What to boot.
        machine: What to boot it on.
        rundir: Private directory; gets the initramfs, the kernel's console and more.
        script: Shell command that the guest runs.
        shares: Directories that the guest may write to.
        ports: Name of a port in the guest -> descriptor of a connected socket.

    Returns:
        Program and arguments.

    Raises:
        HostError: virtme-ng refused.
    """
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
    argv += _ports(ports) + _folder(0, ROOT_TAG, Path("/"), writable=False)
    for number, path in enumerate(shares):
        argv += _folder(number + 1, share_tag(number), path, writable=True)
    argv += ["-chardev", f"file,id=kernel-log,path={_quoted(rundir / 'console.log')}"]
    argv += ["-device", "isa-serial,chardev=kernel-log"]
    return _render(argv, rundir)


def initramfs(kernel: Kernel, directory: Path) -> Path:
    """The first file system of the lab's kernel: a shell and the modules for the host's files.

    Args:
        kernel: The kernel.
        directory: Private directory that gets it.

    Returns:
        Its path.

    Raises:
        HostError: virtme-ng refused.
    """
    path = directory / "initramfs"
    argv = [*VIRTME_RUN, "--dry-run", "--show-command", "--mods", "auto", "--disable-kvm"]
    argv += ["--force-9p", "--kimg", str(kernel.image), "--save-initramfs", str(path)]
    _render([*argv, "--script-sh", "true"], directory)
    return path


def share_tag(number: int) -> str:
    """The guest's name for a directory that it may write to."""
    return f"vnetperf.share{number}"


def _render(argv: list[str], rundir: Path) -> list[str]:
    environment = {
        **os.environ,
        "TMPDIR": str(rundir),
        "PATH": f"{os.environ.get('PATH', '')}:{SBIN}",
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
    said = (rundir / "virtme.out").read_text()
    line = next((line for line in said.splitlines() if "qemu-system" in line), None)
    if done.returncode or line is None:
        why = (rundir / "virtme.err").read_text().strip().splitlines()
        raise HostError(
            f"virtme-ng does not start: {why[-1] if why else 'it printed nothing'}",
            where=shlex.join(argv[:4]),
            cure="see `vnetperf lab doctor`",
        )
    return shlex.split(line)


def _ports(ports: dict[str, int]) -> list[str]:
    options = ["-device", "virtio-serial-pci,bus=pcie.0,id=vnetperf"]
    for name, descriptor in ports.items():
        options += ["-chardev", f"socket,id=vnetperf-{name},fd={descriptor}"]
        port = f"virtserialport,bus=vnetperf.0,name=vnetperf.{name},chardev=vnetperf-{name}"
        options += ["-device", port]
    return options


def _folder(number: int, tag: str, path: Path, *, writable: bool) -> list[str]:
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
