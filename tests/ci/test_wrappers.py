"""The wrappers of CI systems stay thin: they call the scripts, and name nobody's machines."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from vnetperf.config import ENV_PREFIX, Settings

TOP = Path(__file__).parents[2]
WRAPPERS = [
    TOP / "ci/jenkins/Jenkinsfile",
    TOP / "ci/gitlab/gitlab-ci.yml",
    TOP / ".github/workflows/ci.yml",
]
BASH = [*(TOP / "ci" / name for name in ("verify", "merge", "daily", "keep_run", "lib.sh"))]


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda path: path.name)
def test_wrappers_call_the_scripts_and_do_nothing_themselves(wrapper: Path) -> None:
    text = wrapper.read_text()
    assert "ci-artefacts" in text
    for script in ("verify", "merge", "daily"):
        assert script in text
    assert not re.search(r"pytest|pip install|apt-get|make ", text)


@pytest.mark.parametrize("path", [*WRAPPERS, *BASH], ids=lambda path: path.name)
def test_no_machine_registry_or_secret_is_named(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"https?://", text)
    assert not re.search(r"\b\d{1,3}(?:\.\d{1,3}){3}\b", text)
    assert not re.search(r"image:|registry", text)
    for line in text.splitlines():
        if re.search(r"TOKEN\s*[:=]", line):
            assert "secrets." in line


@pytest.mark.parametrize("script", BASH, ids=lambda path: path.name)
def test_scripts_are_bash_that_parses(script: Path) -> None:
    subprocess.run(["bash", "-n", str(script)], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "-x", str(script)], check=True, cwd=TOP)


def test_scripts_of_users_are_executable() -> None:
    for script in BASH[:-1]:
        assert script.stat().st_mode & 0o111


def test_no_variable_is_one_that_vnetperf_refuses() -> None:
    """Variables that begin as its settings do and are none are errors of every run."""
    known = {f"{ENV_PREFIX}{name.upper()}" for name in Settings.model_fields}
    for path in [*WRAPPERS, *BASH, TOP / "vnetperf/report/publish.py"]:
        assert set(re.findall(rf"\b{ENV_PREFIX}[A-Z_]+\b", path.read_text())) <= known, path
