"""Where the lab keeps what it makes, when there is no place for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from vnetperf.model.errors import HostError
from vnetperf.virt.lab_guest import run_dir


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
