"""Guests: what is planned for them, and where they run."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from vnetperf.host.linux import ProcessId
from vnetperf.model.errors import DutError, HostError
from vnetperf.virt import guest as module
from vnetperf.virt.domain import BootFiles, Domain
from vnetperf.virt.guest import Guest, LibvirtSession
from vnetperf.virt.guest_plan import CLUSTER, QCOW2_HEADER, QCOW2_MAGIC, disk_size, make_overlay
from vnetperf.virt.lab_guest import run_dir

ABORT = "qemu-system-x86_64: physmem.c:2678: iotlb_to_section: Assertion `x < 3' failed.\n"


class Stage:
    """A session with one guest, of which each start does what is asked.

    Attributes:
        log: QEMU's log.
        console: The guest's console.
        starts: What each start does; True when the guest then lives.
        destroyed: How often it was ended.
    """

    def __init__(self, directory: Path) -> None:
        self.directory, self.private = directory, False
        self.log = directory / "log/qemu/g.log"
        self.log.parent.mkdir(parents=True)
        self.console = directory / "console"
        self.starts: list[Callable[[], bool]] = []
        self.lives = False
        self.destroyed = self.known = 0

    def learn(self, emulator: Path, accelerator: str) -> None:
        """Nothing is asked."""

    def call(self, name: str, **_: Any) -> Any:
        if name == "start":
            assert not self.known, "domain 'g' already exists"
            self.lives = self.starts.pop(0)()
            self.known = 0 if self.lives else 3  # libvirt sees the end of QEMU a moment later
        elif name == "destroy":
            self.destroyed += self.lives
            self.lives = False
            if self.known:
                raise HostError("domain is not running")
        elif name == "has_guest":
            self.known = max(0, self.known - 1)
            return self.known > 0
        elif name == "running":
            return self.lives
        elif not self.lives:
            raise HostError("the agent is not connected")
        return '{"return": {}}'

    def dies(self, *, qemu: str = "", kernel: str = "") -> bool:
        with self.log.open("a") as log:
            log.write("qemu-system-x86_64 -name guest=g,...\n" + qemu)
        self.console.write_text(kernel)
        return False

    def guest(self, accelerator: Any = "tcg") -> Guest:
        domain = Domain(
            name="g",
            accelerator=accelerator,
            emulator=Path("/usr/bin/qemu-system-x86_64"),
            vcpus=2,
            memory_mib=128,
            boot=BootFiles(kernel=Path("/k")),
            console=self.console,
        )
        return Guest(cast("LibvirtSession", self), domain)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


class Listening:
    """A session's process as a call sees it."""

    def wait_for(self, predicate: Callable[[], bool], *_: object) -> None:
        assert predicate()


def test_an_emulation_that_aborts_is_started_again(stage: Stage) -> None:
    stage.starts = [
        lambda: stage.dies(qemu=ABORT, kernel="[ 0.1] Linux"),
        stage.dies,
        lambda: True,
    ]
    stage.guest().boot(5)
    assert stage.lives
    assert not stage.starts


@pytest.mark.parametrize(
    ("accelerator", "qemu", "kernel", "says"),
    [
        ("tcg", "", "[ 0.1] Kernel panic - not syncing: no root\n", "panicked: no root"),
        ("tcg", "", "[ 0.1] there is no disk, power off\n", "has ended"),
        ("kvm", ABORT, "", "has ended; QEMU.s last message: .* Assertion"),
    ],
)
def test_a_guest_that_ends_for_a_reason_of_its_own_is_not(
    stage: Stage, accelerator: str, qemu: str, kernel: str, says: str
) -> None:
    stage.starts = [lambda: stage.dies(qemu=qemu, kernel=kernel), lambda: True]
    with pytest.raises(DutError, match=says):
        stage.guest(accelerator).boot(5)
    assert len(stage.starts) == 1


def test_an_emulation_that_always_aborts_is_told(stage: Stage) -> None:
    stage.starts = [lambda: stage.dies(qemu=ABORT, kernel="[ 0.1] Linux")] * 4
    with pytest.raises(DutError, match="Assertion"):
        stage.guest().boot(5)
    assert len(stage.starts) == 1


def test_a_guest_that_is_stopped_while_it_starts_does_not_live(stage: Stage) -> None:
    guest = stage.guest()

    def started() -> bool:
        guest.stop()  # another thread does
        return True

    stage.starts = [started, lambda: True]
    with pytest.raises(DutError, match="stopped while it started"):
        guest.boot(5)
    assert (stage.lives, stage.destroyed, len(stage.starts)) == (False, 1, 1)


@pytest.mark.slow
def test_a_guest_that_is_stopped_is_named_while_its_agent_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(tmp_path / "session.sock"))
    server.listen()
    machine = SimpleNamespace(new_subdir=lambda _: tmp_path, spawn=lambda *_, **__: Listening())
    session = LibvirtSession(cast("Any", machine), "test")
    guest = Stage(tmp_path / "stage").guest()
    guest.session = session
    looks: list[int] = []

    def check() -> None:
        looks.append(1)
        if len(looks) > 1:
            raise DutError("QEMU is stopped", where="g")

    guest.process = ProcessId.me()
    monkeypatch.setattr(guest, "check_alive", check)
    began = time.monotonic()
    with server, pytest.raises(DutError, match="QEMU is stopped"):
        guest.agent.call("guest-ping")
    assert time.monotonic() - began < 8.0  # its own time limit is 20 s


def test_what_qemu_put_in_the_place_of_its_console_is_not_read(tmp_path: Path) -> None:
    """Its directory is its own: root follows no link there, and waits for no writer of a pipe."""
    secret, link, pipe, file = (tmp_path / name for name in ("secret", "link", "pipe", "file"))
    secret.write_text("secret")
    link.symlink_to(secret)
    os.mkfifo(pipe)
    file.write_bytes(b"x" * 100 + b"\x1b[2Jup\n")
    assert [module.read_output(path, 50) for path in (link, pipe, tmp_path, tmp_path / "none")] == [
        ""
    ] * 4
    assert module.read_output(file, 7) == "[2Jup\n"


@pytest.mark.parametrize("mib", [1, 512, 513, 5 << 20])
def test_an_overlay_is_as_large_as_what_is_beneath(tmp_path: Path, mib: int) -> None:
    base, overlay = tmp_path / "base.img", tmp_path / "overlay.qcow2"
    with base.open("wb") as file:
        file.truncate(mib << 20)
    make_overlay(overlay, base, "raw")
    assert disk_size(overlay, "qcow2") == mib << 20
    again = tmp_path / "again.qcow2"
    make_overlay(again, overlay, "qcow2")
    assert disk_size(again, "qcow2") == mib << 20
    content = overlay.read_bytes()
    fields = struct.unpack(QCOW2_HEADER, content[: struct.calcsize(QCOW2_HEADER)])
    at, length, entries, table = fields[2], fields[3], fields[7], fields[8]
    assert content[at : at + length].decode() == str(base)
    assert entries * 512 >= mib  # an entry stands for 512 MiB
    assert len(content) >= table + entries * 8
    used = len(content) // CLUSTER
    assert content[2 * CLUSTER : 2 * CLUSTER + 2 * used] == b"\0\1" * used


def test_what_is_no_image_is_told(tmp_path: Path) -> None:
    (tmp_path / "text.qcow2").write_text("hello")
    with pytest.raises(HostError, match="is no qcow2 image"):
        make_overlay(tmp_path / "o", tmp_path / "text.qcow2", "qcow2")
    (tmp_path / "short.qcow2").write_bytes(QCOW2_MAGIC)
    with pytest.raises(HostError, match="is no qcow2 image"):
        disk_size(tmp_path / "short.qcow2", "qcow2")
    with pytest.raises(HostError, match="cannot be read"):
        make_overlay(tmp_path / "o", tmp_path / "none.img", "raw")


def test_a_run_without_a_place_says_what_to_do(lab_home: Path) -> None:
    lab_home.mkdir(parents=True)
    (lab_home / "runs").touch()
    with pytest.raises(HostError) as caught, run_dir():
        pass
    assert "XDG_CACHE_HOME" in caught.value.cure


def test_a_run_leaves_nothing(lab_home: Path) -> None:
    with run_dir() as path:
        (path / "file").touch()
    assert list((lab_home / "runs").iterdir()) == []


def test_a_run_removes_what_nobody_has_and_no_other_run(lab_home: Path) -> None:
    """Another container that shares the directory has processes of its own numbers."""
    with run_dir() as other:
        elsewhere = other.rename(other.with_name("999999999-abcdef"))
        killed = other.with_name("1-abcdef")  # a number that is somebody's now
        killed.mkdir()
        (killed / "lock").touch()
        with run_dir() as own:
            assert sorted((lab_home / "runs").iterdir()) == sorted([own, elsewhere])
        elsewhere.rename(other)
