"""What the lab's tests share: a lab directory of their own, and programs that are not real."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vnetperf.lab.kernel import Kernel

Programs = Callable[[dict[str, str]], Path]


@pytest.fixture
def lab_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The lab's directory, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "vnetperf" / "lab"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Put made-up programs first in PATH: name -> shell script."""

    def make(scripts: dict[str, str]) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        for name, text in scripts.items():
            path = folder / name
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin:/usr/sbin:/sbin")
        return folder

    return make


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    """A kernel that nothing boots."""
    return Kernel("6.1.0-test", tmp_path / "vmlinuz", tmp_path / "modules")
