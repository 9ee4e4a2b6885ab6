"""Backends that the running kernel cannot carry keep the contract in the virtual lab."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vnetperf import registry

TOP = Path(__file__).parents[2]
#: What needs the lab's kernel: Open vSwitch's module, NICs with virtual functions.
NEEDY = ("ovs", "sriov")


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDY)
def test_the_contract_is_kept_in_the_lab(name: str) -> None:
    if name not in registry.names("vswitches"):
        pytest.skip(f"there is no backend {name}")
    lab = [sys.executable, "-m", "vnetperf.cli", "lab"]
    doctor = subprocess.run([*lab, "doctor"], capture_output=True, text=True, check=False, cwd=TOP)
    if doctor.returncode:
        pytest.skip(f"the lab cannot run here: {doctor.stdout.strip() or doctor.stderr.strip()}")
    done = subprocess.run(
        [
            *(*lab, "run", "--timeout=1500", f"--env=VNETPERF_REQUIRE={name}", "--"),
            *("python", "-m", "pytest", "tests/contract/test_vswitches.py", "-q"),
            *("-p", "no:cacheprovider", "-k", f"Test_{name}"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=TOP,
        env={k: v for k, v in os.environ.items() if not k.startswith("VNETPERF_")},
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
