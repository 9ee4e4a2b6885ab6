"""How a guest starts, and starts again, with a session that is a stand-in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from vnetperf.model.errors import DutError, HostError
from vnetperf.virt.domain import BootFiles, Domain
from vnetperf.virt.guest import Guest, LibvirtSession

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
        self.destroyed = 0

    def learn(self, emulator: Path, accelerator: str) -> None:
        """Nothing is asked."""

    def call(self, name: str, **_: Any) -> Any:
        if name == "start":
            self.lives = self.starts.pop(0)()
        elif name == "destroy":
            self.destroyed += self.lives
            self.lives = False
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
