"""What `make` says while it works."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def steps(tmp_path: Path) -> list[str]:
    """The commands of `make install` in a checkout where nothing is installed; none is run."""
    quiet = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", "install", f"VENV={tmp_path / 'venv'}"],
        cwd=ROOT,
        env=quiet,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.replace("\\\n", " ").splitlines()


def said_by(step: str) -> str:
    """What a step prints, when it does no more than that."""
    done = subprocess.run(["sh", "-c", step], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("long", "about"),
    [
        ("scripts/install-deps run", "packages"),
        ("pip install", "Python packages"),
        ("vnetperf.traffic.loadgen.build", "engine"),
    ],
)
def test_each_step_of_install_that_takes_minutes_is_told_before_it(
    steps: list[str], long: str, about: str
) -> None:
    (at,) = [number for number, step in enumerate(steps) if long in step]
    assert " echo " in f" {steps[at - 1]}"
    told = said_by(steps[at - 1])
    assert told.startswith("make: ")
    assert about in told


def test_install_ends_with_what_to_do_next(steps: list[str], tmp_path: Path) -> None:
    command = said_by(steps[-1]).partition("next: ")[2]
    assert command == f". {tmp_path / 'venv'}/bin/activate; vnetperf doctor"
    assert not (tmp_path / "venv").exists()
