"""A third party's vSwitch: installed beside us, it is measured and keeps the contract."""

from __future__ import annotations

import json
import os
import shutil
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


TESTBED = """
wires = ["veth"]

[programs]
tc = "{tc}"

[tcswitch]
{key} = true
"""


def own_testbed(folder: Path, *, tc: str = "", key: str = "show_filters") -> str:
    """A testbed file with a program and a section of the plugin."""
    path = folder / "mine.toml"
    path.write_text(TESTBED.format(tc=tc, key=key))
    return f"--testbed={path}"


def test_it_is_measured(installed: Path, tmp_path: Path, unchanged: Unchanged) -> None:
    done = pytest_run(
        installed,
        *("testcases", "-k", "pvp_tcswitch", "--preset=smoke", "--frame-sizes=64"),
        *("--set=tc_priority=5", own_testbed(tmp_path, tc=str(shutil.which("tc"))), "-rs"),
        f"--results-dir={tmp_path}",
    )
    assert done.returncode == 0, done.stdout
    found = json.loads((tmp_path / "latest/results.json").read_text())
    (result,) = found["results"]
    assert (result["scenario"], result["status"]) == ("pvp_tcswitch", "measured")
    (scenario,) = found["scenarios"]
    plan, switch = scenario["plan"], scenario["facts"]["vswitch"]
    assert plan["scenario"]["options"]["tc_priority"] == 5
    assert plan["testbed"]["tcswitch"] == {"show_filters": True}
    assert switch["priority"] == 5
    assert "pref 5 u32" in str(switch["tc filter show"])
    assert found["environment"]["programs"]["tc"]["version"].startswith("tc utility, iproute2")
    assert unchanged() == ()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tc": "/no/such/tc"}, ["tc cannot be used", "/no/such/tc is not there"]),
        pytest.param(
            {"key": "show_filter"},
            ["tcswitch.show_filter", "did you mean 'show_filters'"],
            marks=pytest.mark.daily,  # sections and options of plugins have fast tests
        ),
    ],
)
def test_what_is_wrong_with_its_own_is_told(
    options: dict[str, str], words: list[str], installed: Path, tmp_path: Path
) -> None:
    arguments = ("testcases", "-k", "phy2phy_tcswitch", "--plan", "-rs")
    done = pytest_run(installed, *arguments, own_testbed(tmp_path, **options))
    assert all(word in done.stdout + done.stderr for word in words), done.stdout + done.stderr


@pytest.mark.daily  # any option that is misspelt is refused alike: tests/config
def test_a_misspelt_option_of_its_own_is_refused(installed: Path) -> None:
    done = pytest_run(installed, "testcases", "-k", "phy2phy_tcswitch", "--set=tc_priorty=5")
    assert "did you mean 'tc_priority'" in done.stdout + done.stderr


@pytest.mark.daily  # the kit has each vSwitch refuse what it does not declare
def test_other_vswitches_do_not_take_its_option(installed: Path) -> None:
    arguments = ("testcases", "-k", "phy2phy_bridge", "--plan", "--set=tc_priority=5", "-rs")
    done = pytest_run(installed, *arguments)
    assert "has no option tc_priority" in done.stdout


@pytest.mark.daily  # the kit runs on every backend that ships
@pytest.mark.slow
def test_it_keeps_the_contract(installed: Path, unchanged: Unchanged) -> None:
    done = pytest_run(installed, str(EXAMPLE / "tests"), "-q")
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout
    assert unchanged() == ()
