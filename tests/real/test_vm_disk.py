"""A disk image of the user's, without an agent: it forwards, and what it writes is not on it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real.switches import deployed, forwards
from tests.real.test_vm import _why_not
from vnetperf.virt import images

MODULES = ("failover", "net_failover", "virtio_net", "virtio_blk", "llc", "stp", "bridge")
#: What the guest writes to its disk, and where.
MARK, SECTOR = b"written by the guest", 100
INIT = f"""#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc; $b mount -t sysfs sysfs /sys; $b mount -t devtmpfs dev /dev
for m in {" ".join(MODULES)}; do $b insmod /$m.ko; done
echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
echo pfifo_fast > /proc/sys/net/core/default_qdisc
echo {MARK.decode()} | $b dd of=/dev/vda bs=512 seek={SECTOR} conv=notrunc,sync,fsync
$b brctl addbr br0
for n in 0 1; do
    $b ip link set dev eth$n address 02:00:00:00:00:0$n
    $b ip link set dev eth$n up
    $b brctl addif br0 eth$n
    echo 0 > /sys/class/net/eth$n/brport/learning
done
echo 0 > /sys/class/net/br0/bridge/multicast_snooping
$b ip link set dev br0 up
while :; do $b sleep 1000; done
"""

pytestmark = [
    pytest.mark.daily,
    pytest.mark.slow,
    pytest.mark.skipif(bool(_why_not()), reason=_why_not() or "guests can be had"),
    pytest.mark.skipif(
        not (shutil.which("unsquashfs") and shutil.which("busybox")),
        reason="squashfs-tools and busybox-static make the disk's first file system",
    ),
]


def first_file_system(directory: Path) -> Path:
    """An archive for a kernel: busybox, modules out of the built image, and the script."""
    image = images.find()
    assert image is not None
    assert image.disk is not None
    subprocess.run(
        ["unsquashfs", "-q", "-n", "-d", directory / "root", image.disk, "usr/lib/modules"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    found = {path.name: path for path in (directory / "root").rglob("*.ko")}
    files: dict[str, bytes | None] = dict.fromkeys(("bin", "proc", "sys", "dev"))
    busybox = shutil.which("busybox")
    assert busybox is not None
    files["bin/busybox"] = Path(busybox).read_bytes()
    for name in MODULES:
        if f"{name}.ko" in found:  # others are built into the kernel
            files[f"{name}.ko"] = found[f"{name}.ko"].read_bytes()
    files["init"] = INIT.encode()
    archive = directory / "initrd"
    archive.write_bytes(b"".join(entry(*item) for item in files.items()) + entry("TRAILER!!!", b""))
    return archive


def entry(name: str, content: bytes | None) -> bytes:
    """A file, or a directory, of a "newc" archive."""
    mode, data = (0o40755, b"") if content is None else (0o100755, content)
    fields = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)


def test_a_disk_of_the_users_forwards_and_stays_as_it_is(
    tmp_path: Path, unchanged: Callable[[], tuple[str, ...]]
) -> None:
    image, disk = images.find(), tmp_path / "mine.img"
    assert image is not None
    disk.write_bytes(bytes(1 << 20))
    guest = (
        f"image={disk}",
        f"kernel={image.kernel}",
        f"initrd={first_file_system(tmp_path)}",
        "cmdline=console=ttyS0 net.ifnames=0 panic=-1",
    )
    with deployed("pvp_testpmd", vnf="vloop:vm", vnf_mode="buildin", guest=guest) as deployment:
        forwards(deployment)
        (overlay,) = deployment.machine.run_dir.rglob("overlay.qcow2")
        assert MARK in overlay.read_bytes()
    assert disk.read_bytes() == bytes(1 << 20)
    assert unchanged() == ()
