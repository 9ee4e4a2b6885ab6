"""Limits are longer where processors are emulated, and nowhere else."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from vnetperf.host import wait
from vnetperf.host.wait import LAB_MARK
from vnetperf.model.errors import HostError


@pytest.mark.parametrize(
    ("cmdline", "expected"),
    [("root=/dev/vda1 quiet", 1.0), (f"quiet {LAB_MARK}", wait.LAB_TIME_FACTOR)],
)
def test_only_the_lab_takes_longer(tmp_path: Path, cmdline: str, expected: float) -> None:
    (tmp_path / "cmdline").write_text(f"{cmdline}\n")
    assert wait.time_factor(tmp_path) == expected


def test_what_cannot_be_read_is_a_real_machine(tmp_path: Path) -> None:
    assert wait.time_factor(tmp_path / "nowhere") == 1.0


def test_a_program_is_looked_at_while_its_answer_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wait, "CHECK_S", 0.01)
    ours, theirs = socket.socketpair()
    looks: list[int] = []

    def check() -> None:
        looks.append(1)
        if len(looks) == 3:
            theirs.send(b"late")

    assert wait.receive(ours, 100, 5.0, check) == b"late"
    assert len(looks) == 3
    assert ours.gettimeout() == 5.0
    with pytest.raises(TimeoutError):
        wait.receive(ours, 100, 0.03, lambda: None)

    def stopped() -> None:
        raise HostError("it is stopped")

    with pytest.raises(HostError, match="it is stopped"):
        wait.receive(ours, 100, 60.0, stopped)
    for end in (ours, theirs):
        end.close()
