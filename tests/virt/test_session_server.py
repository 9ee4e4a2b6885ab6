"""The process that holds the connection to libvirt."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from socket import if_nametoindex
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.fakes.machine import PROGRAMS, facts
from vnetperf.host import linux
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import HostError
from vnetperf.model.options import GuestOptions
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import TrafficProfile
from vnetperf.virt import guest, session_server
from vnetperf.virt.guest import LibvirtSession
from vnetperf.vnfs.vloop.vm import VmVloop


def test_threads_that_libvirt_starts_may_be_anywhere_afterwards() -> None:
    every = os.sched_getaffinity(0)
    started, end = threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        end.wait(20)

    worker = threading.Thread(target=wait)
    with session_server._confine_thread():
        worker.start()
        assert started.wait(20)
        assert worker.native_id is not None
        assert os.sched_getaffinity(worker.native_id) == {min(every)}
    try:
        assert os.sched_getaffinity(worker.native_id) == every
        assert os.sched_getaffinity(0) == every
    finally:
        end.set()
        worker.join()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (subprocess.CalledProcessError(32, ["mount"], stderr=b"mount: denied\n"), "mount: denied"),
        (subprocess.TimeoutExpired(["mount"], 10), "timed out"),
        (FileNotFoundError(errno.ENOENT, "no mount"), "no mount"),
    ],
)
def test_a_mount_that_fails_is_an_error_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, error: Exception, text: str
) -> None:
    """What may be left out was not: nothing caught what came."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(HostError, match=text):
        session_server.mount("--bind", "/a", "/a")


#: Run as the first process of a mount namespace: what it, and a program that it starts, can open.
CONFINED = """
import errno, json, os, subprocess, sys
from pathlib import Path
from vnetperf.virt import session_server

def mount(kind, place):
    subprocess.run(["mount", "-t", kind, "none", place], check=True)

mount("tmpfs", "/run")  # in this namespace alone
for place in ("/run/huge", sys.argv[3]):
    os.makedirs(place)
    mount("hugetlbfs", place)
    Path(place, "others").touch()
devices = session_server.confine(Path(sys.argv[1]))
devices.give(["kmsg", "no-such-device", "null"])
session_server.open_directory(Path(sys.argv[1]).with_name("vnf0"))
tried = {path: mode for path, mode in json.loads(sys.argv[2])}
attempt = (
    "import errno, json, os, sys; found = {}\\n"
    "for path, mode in json.loads(sys.argv[1]).items():\\n"
    "    try: os.close(os.open(path, mode))\\n"
    "    except OSError as error: found[path] = errno.errorcode[error.errno]\\n"
    "print(json.dumps(found))"
)
child = [sys.executable, "-c", attempt, json.dumps(tried)]
done = subprocess.run(child, check=True, capture_output=True, text=True)
seen = sorted(str(path) for path in Path("/dev").rglob("*") if path.is_char_device())
print(json.dumps([json.loads(done.stdout), seen]))
"""


@pytest.fixture
def visible() -> Iterator[Path]:
    """A folder that is not below /dev, as pytest's may be."""
    with tempfile.TemporaryDirectory(prefix="v") as folder:
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has mount namespaces and device files")
def test_qemu_can_open_no_device_but_those_it_was_given(visible: Path) -> None:
    """A read-only mount keeps nobody from writing to a disk by its device file."""
    libvirts = visible / "run/lv"
    libvirts.mkdir(parents=True)
    run = libvirts.parent
    for name in ("log", "vnf0", "ovs"):
        (run / name).mkdir()
    (run / "ovs/conf.db").touch()
    disk = visible / "disk"
    os.mknod(disk, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # as /dev/zero, which is harmless
    disk.open("rb").close()
    huge = visible / "huge"
    allowed = [
        ("/run/huge/mine", os.O_WRONLY | os.O_CREAT),
        (f"{huge}/mine", os.O_WRONLY | os.O_CREAT),
        ("/dev/null", os.O_RDWR),
        ("/dev/kmsg", os.O_WRONLY),
        (str(run / "lv/file"), os.O_WRONLY | os.O_CREAT),
        (str(run / "vnf0/console.log"), os.O_WRONLY | os.O_CREAT),
        (str(run / "ovs/conf.db"), os.O_RDONLY),
    ]
    refused = {
        str(disk): (os.O_RDONLY, "EACCES"),
        "/run/huge/others": (os.O_RDONLY, "ENOENT"),
        f"{huge}/others": (os.O_RDONLY, "ENOENT"),
        "/dev/ptmx": (os.O_RDONLY, "ENOENT"),
        str(visible / "new"): (os.O_WRONLY | os.O_CREAT, "EROFS"),
        "/sys/devices/system/cpu/uevent": (os.O_WRONLY | os.O_CREAT, "EROFS"),
        "/proc/sys/kernel/core_pattern": (os.O_WRONLY | os.O_CREAT, "EROFS"),
        "/proc/1/root/dev/null": (os.O_RDONLY, "EACCES"),
        # What root writes to later, and the places of directories, which links could replace.
        str(run / "log/next.log"): (os.O_WRONLY | os.O_CREAT, "EROFS"),
        str(run / "ovs/conf.db"): (os.O_WRONLY, "EROFS"),
        str(run / "ovs/link"): (os.O_WRONLY | os.O_CREAT, "EROFS"),
        str(run / "vnf02"): (os.O_WRONLY | os.O_CREAT, "EROFS"),
    }
    tried = json.dumps([*allowed, *((path, mode) for path, (mode, _) in refused.items())])
    child = [sys.executable, "-c", CONFINED, str(libvirts), tried, str(huge)]
    done = subprocess.run(
        [*linux.UNSHARE, *child], check=False, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    found, seen = json.loads(done.stdout)
    assert found == {path: error for path, (_, error) in refused.items()}
    common = {
        f"/dev/{name}" for name in session_server.COMMON_DEVICES if Path("/dev", name).exists()
    }
    assert set(seen) == {*common, "/dev/kmsg"}
    assert not {*session_server.KEPT_CAPABILITIES} & {2, 21, 27}  # by handle, mount, make devices


#: Run as the first process of a namespace: it serves, and a program that it starts makes a call.
SERVES = """
import subprocess, sys, threading
from vnetperf.virt import session_server

class Libvirt:
    def answer(self, line):
        return {"ok": 1}

server = session_server._Server(sys.argv[1], session_server._Handler)
server.libvirt = Libvirt()
threading.Thread(target=server.serve_forever, daemon=True).start()
subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[1]], check=True)
sys.stdin.readline()
"""
CALLS = """
import socket, sys
with socket.socket(socket.AF_UNIX) as there:
    there.connect(sys.argv[1])
    try:
        there.sendall(b'{"call": "start"}\\n')
        answer = there.recv(99)
    except OSError:  # it was closed
        answer = b""
    print(answer.decode().strip(), flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has process namespaces")
def test_qemu_is_given_no_answer(visible: Path) -> None:
    """It could have a guest started that has any device of the machine."""
    path = str(visible / "session.sock")
    server = [*linux.UNSHARE, sys.executable, "-c", SERVES, path, CALLS]
    pipe = subprocess.PIPE
    with subprocess.Popen(server, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "\n"
        agent = [sys.executable, "-c", CALLS, path]
        done = subprocess.run(agent, capture_output=True, text=True, check=True, timeout=30)
        assert json.loads(done.stdout) == {"ok": 1}
        process.communicate("\n", timeout=30)


def test_a_guest_is_given_the_devices_of_its_own_nics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = tmp_path / "kernel/iommu_groups/17"
    function = tmp_path / "devices/0000:3b:02.1"
    for place in (groups, function):
        place.mkdir(parents=True)
    (function / "iommu_group").symlink_to(groups)
    monkeypatch.setattr(session_server, "PCI_DEVICES", tmp_path / "devices")

    of = session_server.list_devices
    assert of([], []) == ()
    assert set(of(["lo"], [])) == {"net/tun", "vhost-net", f"tap{if_nametoindex('lo')}"}
    assert set(of(["gone"], [])) == {"net/tun", "vhost-net"}
    assert set(of([], ["0000:3b:02.1"])) == {"vfio/vfio", "vfio/17", "vfio/noiommu-17"}
    assert of([], ["0000:3b:02.2"]) == ()


def test_what_libvirt_found_is_kept_before_a_guest_could_change_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    machine = MagicMock()
    machine.new_subdir.return_value = tmp_path
    session = LibvirtSession(machine)
    monkeypatch.setattr(session, "call", lambda name, **_: calls.append(name))
    monkeypatch.setattr(guest, "save_capabilities", lambda _: calls.append("saved"))
    for _ in range(2):
        session.learn(Path("/usr/bin/qemu-system-x86_64"), "tcg")
        session.call("start")
    assert calls == ["capabilities", "saved", "start", "start"]


def test_a_kernel_that_cannot_confine_is_named_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert linux.explain_writable_mounts() == ""

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(linux, "raw_syscall", fail)
    why = linux.explain_writable_mounts()
    assert re.search(r"no mount_setattr.*Linux 5\.12", why)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: True)
    plain: dict[str, Any] = {
        "deployment": make_deployment("pvp"),
        "traffic": TrafficProfile(),
        "vswitch": "dpdk",
    }
    programs = PROGRAMS | {"qemu-system-x86_64": "/usr/bin/qemu-system-x86_64"}
    old = facts(programs=programs, confinement=why)
    assert VmVloop.missing(old, Scenario(**plain)) == why
    daemon = GuestOptions(uri="qemu:///system")
    assert why not in VmVloop.missing(old, Scenario(**plain, guest=daemon))


def test_every_call_of_a_session_is_one_that_its_server_answers() -> None:
    package = Path(session_server.__file__).parents[1]
    called = {
        name
        for file in (*package.glob("virt/*.py"), *package.glob("vnfs/**/*.py"))
        for name in re.findall(r'(?:session|self)\.call\(\s*"(\w+)"', file.read_text())
    }
    assert called >= {"start", "destroy", "version", "capabilities"}
    assert [name for name in called if not callable(getattr(session_server.Libvirt, name, 0))] == []
