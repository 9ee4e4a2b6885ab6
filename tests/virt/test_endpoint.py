"""Programs of endpoints: their ends, their last words, their processor time."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vnetperf.host.processes import ManagedProcess
from vnetperf.model.errors import DutError, HostError
from vnetperf.virt.container import ContainerProgram
from vnetperf.virt.endpoint import CpuTime, GuestProgram, cpu_time
from vnetperf.virt.guest_agent import GuestAgent

BUSY = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"
POLITE = (
    "import signal, sys, time\n"
    "def bye(*_): print('last words', flush=True); sys.exit(3)\n"
    "signal.signal(signal.SIGINT, bye)\n"
    "print('up', flush=True)\n"
    "time.sleep(60)\n"
)
DEAF = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)\n"


def program(tmp_path: Path, script: str) -> ContainerProgram:
    return start(tmp_path, script)[0]


def start(tmp_path: Path, script: str) -> tuple[ContainerProgram, subprocess.Popen[bytes]]:
    log, argv = tmp_path / "log", (sys.executable, "-c", script)
    with log.open("wb") as out:
        popen = subprocess.Popen(argv, stdout=out, stderr=out)
    return ContainerProgram(ManagedProcess("tool", argv, log, popen)), popen


def wait(one: ContainerProgram) -> int:
    deadline = time.monotonic() + 20
    while (code := one.ended()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return code


def test_processor_time_is_known_to_the_end(tmp_path: Path) -> None:
    one, popen = start(tmp_path, BUSY)
    assert wait(one) == 0
    spent = one.cpu()
    assert spent is not None
    assert 0.25 <= spent.user_s + spent.system_s <= 2
    assert one.ended() == 0  # asked again, it is still known
    popen.pid = os.getpid()  # its number is another process's now
    assert one.cpu() == spent


def test_last_words_are_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vnetperf.virt.endpoint.END_S", 60.0)  # a busy machine gives it its time
    one = program(tmp_path, POLITE)
    deadline = time.monotonic() + 20
    while "up" not in one.output():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert one.ended() is None
    one.end(signal.SIGINT)
    assert one.ended() == 3
    assert "last words" in one.output()
    one.end(signal.SIGINT)  # nothing happens


@pytest.mark.slow
def test_what_does_not_listen_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vnetperf.virt.endpoint.END_S", 0.2)
    one = program(tmp_path, DEAF)
    time.sleep(0.1)
    one.end(signal.SIGTERM)
    assert one.ended() in {-signal.SIGKILL, -signal.SIGTERM}


@pytest.mark.parametrize("name", ["iperf3", "a b) S 1 (c"])
def test_a_name_may_hold_anything(name: str) -> None:
    stat = f"42 ({name}) S 1 2 3 4 5 6 7 8 9 10 {11 * 100} {12 * 100} 0 0 20"
    assert cpu_time(stat) == CpuTime(11.0, 12.0)


class FakeGuest:
    """A guest's agent with one process, which ends by a signal."""

    def __init__(self) -> None:
        self.killed_by = 0
        self.agent = GuestAgent("guest", self._ask)
        self.domain = SimpleNamespace(name="guest")
        self._files: dict[int, bytes] = {}

    def _ask(self, command: str, seconds: int) -> str:
        del seconds
        asked: dict[str, Any] = json.loads(command)
        name, args = asked["execute"], asked.get("arguments", {})
        return json.dumps({"return": getattr(self, name.replace("-", "_"))(args)})

    def guest_exec(self, args: dict[str, Any]) -> Any:
        assert args["path"] == "sh"
        self.killed_by = int(args["arg"][2])
        return {"pid": 99}

    def guest_exec_status(self, args: dict[str, Any]) -> Any:
        if args["pid"] == 99:
            return {"exited": True, "exitcode": 0}
        words = base64.b64encode(b"Total 5 messages").decode()
        return (
            {"exited": True, "signal": self.killed_by, "out-data": words}
            if self.killed_by
            else {"exited": False}
        )

    def guest_file_open(self, args: dict[str, Any]) -> int:
        assert args["path"] == "/proc/7/stat"
        self._files[1] = b"7 (sockperf) R 1 1 1 0 -1 0 0 0 0 0 150 50 0 0"
        return 1

    def guest_file_read(self, args: dict[str, Any]) -> Any:
        return {"buf-b64": base64.b64encode(self._files.pop(args["handle"], b"")).decode()}

    def guest_file_close(self, args: dict[str, Any]) -> Any:
        del args
        return {}


def test_a_program_in_a_guest_ends_by_the_agent_and_its_time_is_that_of_the_last_look() -> None:
    guest = FakeGuest()
    one = GuestProgram(guest, 7)  # type: ignore[arg-type]  # a double
    assert one.ended() is None
    assert one.cpu() == CpuTime(1.5, 0.5)
    one.end(signal.SIGINT)
    assert guest.killed_by == signal.SIGINT
    assert one.ended() == 128 + signal.SIGINT
    assert one.output() == "Total 5 messages"
    assert one.cpu() == CpuTime(1.5, 0.5)


def test_the_time_of_a_program_in_a_guest_is_one_look_that_may_fail() -> None:
    class Failing(FakeGuest):
        fails, looks = False, 0

        def guest_exec_status(self, args: dict[str, Any]) -> Any:
            if self.fails:
                raise HostError("the agent does not answer")
            return super().guest_exec_status(args)

        def guest_file_open(self, args: dict[str, Any]) -> int:
            self.looks += 1
            if self.fails:
                raise HostError("the agent does not answer")
            return super().guest_file_open(args)

    guest = Failing()
    one = GuestProgram(guest, 7)  # type: ignore[arg-type]  # a double
    assert one.cpu() == CpuTime(1.5, 0.5)
    assert guest.looks == 1
    guest.fails = True
    assert one.cpu() == CpuTime(1.5, 0.5)


def test_a_program_in_a_guest_that_ends_before_its_signal_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Late(FakeGuest):
        def guest_exec_status(self, args: dict[str, Any]) -> Any:
            if args["pid"] == 99:  # there is no such process
                return {"exited": True, "exitcode": 1}
            return super().guest_exec_status(args)

    one = GuestProgram(Late(), 7)  # type: ignore[arg-type]  # a double
    one.end(signal.SIGINT)
    assert one.ended() == 128 + signal.SIGINT

    class Stuck(FakeGuest):
        def guest_exec(self, args: dict[str, Any]) -> Any:
            return {"pid": 99}

    monkeypatch.setattr("vnetperf.virt.endpoint.END_S", 0.05)
    with pytest.raises(DutError, match="process 7 does not end in the guest"):
        GuestProgram(Stuck(), 7).end(signal.SIGINT)  # type: ignore[arg-type]  # a double
