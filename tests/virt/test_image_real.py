"""A real image out of the distribution's packages, booted with plain QEMU until its agent answers.

The packages are downloaded unless a build before has left them in the user's store.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vnetperf.virt import image_build, images
from vnetperf.virt.images import Image
from vnetperf.virt.recipe import VLOOP
from vnetperf.virt.tools import QEMU, which, with_pdeathsig

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(which(QEMU) is None, reason=f"{QEMU} is not installed"),
    pytest.mark.skipif(which("mksquashfs") is None, reason="squashfs-tools is not installed"),
]

LIMIT_S = 120.0
#: Time from the kernel's start to the agent's first answer, at most, in that of the kernel alone:
#: how fast the machine is, and what else it does, has little part in it.
READY_RATIO = 3.0
MACS = {"virtio-net-pci": "52:54:00:00:00:01", "e1000": "52:54:00:00:00:02",
        "rtl8139": "52:54:00:00:00:03"}  # fmt: skip


@pytest.fixture(scope="module")
def vloop() -> Image:
    return images.build("vloop", print)


class Guest:
    """A guest of plain QEMU, and its agent."""

    def __init__(self, process: subprocess.Popen[bytes], channel: Path, console: Path) -> None:
        self.process = process
        self.console = console
        deadline = time.monotonic() + LIMIT_S
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(LIMIT_S)
        while True:
            with contextlib.suppress(OSError):
                self._socket.connect(str(channel))
                break
            assert process.poll() is None, "QEMU ended"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        self._answers = self._socket.makefile("rb")

    def ask(self, command: str, **arguments: Any) -> Any:
        asked = {"execute": command, "arguments": arguments}
        self._socket.sendall(json.dumps(asked).encode() + b"\n")
        answer = json.loads(self._answers.readline())
        assert "return" in answer, answer
        return answer["return"]

    def run(self, *argv: str) -> str:
        pid = self.ask("guest-exec", path=argv[0], arg=argv[1:], **{"capture-output": True})["pid"]
        deadline = time.monotonic() + LIMIT_S
        while not (status := self.ask("guest-exec-status", pid=pid))["exited"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        said = base64.b64decode(status.get("out-data", "")).decode(errors="replace")
        error = base64.b64decode(status.get("err-data", "")).decode(errors="replace")
        assert status.get("exitcode") == 0, f"{argv}: {status}\n{said}\n{error}"
        return said

    def ready_s(self) -> tuple[float, float]:
        """How long it has been up, and was when its kernel had started, seconds."""
        up_s = float(self.run("cat", "/proc/uptime").split()[0])
        begun = re.search(r"\[ *([0-9.]+)\] Run /init as init process", self.run("dmesg"))
        assert begun
        return up_s, float(begun[1])


@contextlib.contextmanager
def qemu(booted: Image, folder: Path, disk: Path | None) -> Iterator[subprocess.Popen[bytes]]:
    argv = [str(which(QEMU)), "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "384M"]
    argv += ["-nodefaults", "-display", "none", "-no-reboot", "-serial", f"file:{folder}/console"]
    argv += ["-kernel", str(booted.kernel), "-initrd", str(booted.initrd)]
    argv += ["-append", booted.cmdline, "-device", "virtio-serial-pci"]
    argv += ["-chardev", f"socket,id=ga,path={folder}/agent,server=on,wait=off"]
    argv += ["-device", "virtserialport,chardev=ga,name=org.qemu.guest_agent.0"]
    if disk is not None:
        argv += ["-drive", f"file={disk},if=none,id=root,format=raw,readonly=on"]
        argv += ["-device", "virtio-blk-pci,drive=root"]
    for number, (model, mac) in enumerate(MACS.items()):
        argv += ["-netdev", f"hubport,id=n{number},hubid={number}"]
        argv += ["-device", f"{model},netdev=n{number},mac={mac}"]
    process = subprocess.Popen(with_pdeathsig(argv), stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait(20)


@pytest.mark.daily  # each merge boots the image under libvirt: tests/real/test_vm.py
def test_a_guest_is_ready_in_time_and_does_what_vloop_needs(vloop: Image, tmp_path: Path) -> None:
    assert vloop.facts["size"] <= 200 << 20
    with qemu(vloop, tmp_path, vloop.disk) as process:
        guest = Guest(process, tmp_path / "agent", tmp_path / "console")
        guest.ask("guest-ping")
        up_s, kernel_s = guest.ready_s()
        size_mb = vloop.facts["size"] / 1e6
        print(f"ready: {up_s:.2f} s, {kernel_s:.2f} s of the kernel; {size_mb:.1f} MB")  # noqa: T201 - figures to read
        links = json.loads(guest.run("ip", "-json", "link"))
        devices = {link["address"]: link["ifname"] for link in links}
        assert set(MACS.values()) <= set(devices)
        assert guest.run("uname", "-r").strip() == vloop.facts["kernel_release"]
        one, two = devices[MACS["virtio-net-pci"]], devices[MACS["e1000"]]
        guest.run("ip", "link", "add", "br0", "type", "bridge")
        guest.run("ip", "link", "set", two, "master", "br0")
        guest.run("tc", "qdisc", "add", "dev", one, "ingress")
        guest.run(*f"tc filter add dev {one} parent ffff: matchall action mirred".split(),
                  *f"egress redirect dev {two}".split())  # fmt: skip
        guest.run("modprobe", "-a", "vfio-pci", "uio_pci_generic", "igbvf", "gtp", "8139cp")
        guest.run("sysctl", "-w", "net.ipv4.ip_forward=1", "vm.nr_hugepages=40")
        guest.run("ethtool", "-K", one, "gro", "off")
        assert "testpmd" in guest.run("dpdk-testpmd", "--help")
        # Both are there because the shell's own would not do.
        assert "matchall" in guest.run("sh", "-c", f"tc filter show dev {one} ingress")
        guest.ask("guest-sync", id=4711)
    assert up_s < READY_RATIO * kernel_s


@pytest.mark.daily
def test_a_guest_without_its_disk_says_so_and_ends(vloop: Image, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(bytes(1 << 20))
    with qemu(vloop, tmp_path, other) as process:
        process.wait(LIMIT_S)
    console = (tmp_path / "console").read_text(errors="replace")
    assert f"image {vloop.key}" in console


@pytest.mark.daily
def test_the_same_packages_give_the_same_bytes(vloop: Image, tmp_path: Path) -> None:
    work, out = tmp_path / "work", tmp_path / "image"
    work.mkdir()
    out.mkdir()
    made_of = image_build.image_inputs(VLOOP, work)
    assert made_of.key == vloop.key
    image_build.build_files(made_of, images.packages_dir(), work, out, print)
    files = (image_build.KERNEL, image_build.INITRD, image_build.DISK)
    assert sorted(path.name for path in out.iterdir()) == sorted(files)
    folder = vloop.kernel.parent
    differing = [n for n in files if (out / n).read_bytes() != (folder / n).read_bytes()]
    assert differing == []
