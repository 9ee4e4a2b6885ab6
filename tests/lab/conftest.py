"""What the lab's tests share: a lab directory of their own, and programs that are not real."""

from __future__ import annotations

from pathlib import Path

import pytest

from vnetperf.virt.kernel import Kernel


@pytest.fixture
def lab_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The lab's directory, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "vnetperf" / "lab"


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    """A kernel that nothing boots."""
    return Kernel("6.1.0-test", tmp_path / "vmlinuz", tmp_path / "modules")
