"""Limits are longer where processors are emulated, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from vnetperf.host import wait
from vnetperf.host.wait import LAB_MARK


@pytest.mark.parametrize(
    ("cmdline", "expected"),
    [("root=/dev/vda1 quiet", 1.0), (f"quiet {LAB_MARK}", wait.LAB_TIME_FACTOR)],
)
def test_only_the_lab_takes_longer(tmp_path: Path, cmdline: str, expected: float) -> None:
    (tmp_path / "cmdline").write_text(f"{cmdline}\n")
    assert wait.time_factor(tmp_path) == expected


def test_what_cannot_be_read_is_a_real_machine(tmp_path: Path) -> None:
    assert wait.time_factor(tmp_path / "nowhere") == 1.0
