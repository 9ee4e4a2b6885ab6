"""A third party's vSwitch: installed beside us, it is measured and keeps the contract."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real.conftest import TOP

Unchanged = Callable[[], tuple[str, ...]]
EXAMPLE = TOP / "examples/vnetperf-tcswitch"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, installed into a folder; no line of ours and no environment changes."""
    folder = tmp_path_factory.mktemp("plugin")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "vnetperf_tcswitch.py"):
        (source / name).write_text((EXAMPLE / name).read_text())
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*pip, "--disable-pip-version-check", "--target", str(folder / "site"), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "site"


def pytest_run(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    plain = {k: v for k, v in os.environ.items() if not k.startswith("VNETPERF_")}
    path = os.pathsep.join(filter(None, [str(site), plain.get("PYTHONPATH", "")]))
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=TOP,
        env={**plain, "PYTHONPATH": path, "VNETPERF_REQUIRE": "tcswitch"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize("scenario", ["phy2phy_tcswitch", "pvp_tcswitch"])
def test_it_is_measured(
    scenario: str, installed: Path, tmp_path: Path, unchanged: Unchanged
) -> None:
    done = pytest_run(
        installed,
        *("testcases", "-k", scenario, "--preset=smoke", "--frame-sizes=64"),
        f"--results-dir={tmp_path}",
    )
    assert done.returncode == 0, done.stdout
    (result,) = json.loads((tmp_path / "latest/results.json").read_text())["results"]
    assert (result["scenario"], result["status"]) == (scenario, "measured")
    assert unchanged() == ()


@pytest.mark.daily  # the kit runs on every backend that ships
@pytest.mark.slow
def test_it_keeps_the_contract(installed: Path, unchanged: Unchanged) -> None:
    done = pytest_run(installed, str(EXAMPLE / "tests"), "-q")
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout
    assert unchanged() == ()
