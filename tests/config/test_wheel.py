"""The wheel: what it carries, and that it measures without a checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "vnetperf", "testcases")
PYTHON = sys.executable


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, built of a copy: setuptools writes into the folder that it builds."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, folder)
        else:
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignore)
    command = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "dist", "."]
    subprocess.run([PYTHON, "-m", *command], cwd=folder, check=True)
    (built,) = (folder / "dist").glob("vnetperf-*.whl")
    return built


@pytest.mark.slow
def test_wheel_carries_every_file_of_the_package(wheel: Path) -> None:
    here = {
        str((Path(folder) / name).relative_to(ROOT))
        for folder, _, names in os.walk(ROOT / "vnetperf", followlinks=True)
        for name in names
        if "__pycache__" not in folder and not name.startswith(".")
    }
    carried = set(zipfile.ZipFile(wheel).namelist())
    assert here == {name for name in carried if name.startswith("vnetperf/")}
    assert {
        "vnetperf/conf/testbeds/local.toml",
        "vnetperf/testcases/comparisons/test_vnic.py",
        "vnetperf/report/templates/page.html.j2",
        "vnetperf/traffic/loadgen/engine/main.c",
        "vnetperf/traffic/loadgen/engine/Makefile",
    } <= carried


@pytest.mark.slow
def test_installed_wheel_plans_the_shipped_cases_without_a_checkout(
    wheel: Path, tmp_path: Path
) -> None:
    site, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    install = ["pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run([PYTHON, "-m", *install], check=True)

    def run(*command: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(site)}
        done = subprocess.run(
            [PYTHON, "-m", *command],
            cwd=empty,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not done.returncode, done.stdout + done.stderr
        return done.stdout

    cases = run(
        *("pytest", "--pyargs", "vnetperf.testcases", "-k", "pvp_dpdk", "--collect-only", "-q")
    )
    assert "test_throughput[pvp_dpdk-64]" in cases
    shown = run("vnetperf.cli", "show-config", "--preset", "smoke")
    preset = site / "vnetperf/conf/presets/smoke.toml"
    assert str(preset) in shown
