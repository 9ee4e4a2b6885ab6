"""What the lab's doctor makes of a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from vnetperf.virt import lab_checks


@pytest.mark.parametrize(
    ("meminfo", "says"),
    [
        ("MemTotal: 9 kB\nMemAvailable:   2097152 kB\n", "2048 MiB free, 1024 MiB wanted"),
        ("MemAvailable: 1048575 kB\n", "1023 MiB free, 1024 MiB wanted"),
        ("MemAvailable:\n", "does not report"),
        ("MemAvailable: many kB\n", "does not report"),
        (None, "does not report"),
    ],
)
def test_memory_is_what_the_kernel_says_or_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meminfo: str | None, says: str
) -> None:
    file = tmp_path / "meminfo"
    if meminfo is not None:
        file.write_text(meminfo)
    monkeypatch.setattr(lab_checks, "MEMINFO", file)
    assert says in lab_checks.check_memory(1024).says
