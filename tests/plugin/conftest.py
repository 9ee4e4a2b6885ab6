from __future__ import annotations

import importlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runner.support import NDR, PDR
from vnetperf.agent import hosts as hosts_module
from vnetperf.plugin import registry
from vnetperf.pytest_plugin import plans as plans_module
from vnetperf.runner import run as run_module

ROOT = Path(__file__).resolve().parents[2]

CASE = """
def test_throughput(bench, frame_size):
    bench.search_throughput(frame_size).check_expectations()
"""
CONFTEST = """
from tests.fakes import agent
agent.install()
"""
REGISTER = (
    CONFTEST
    + """
def pytest_vnetperf_register(register):
    register("vswitches", "fake", "tests.fakes.backends:FakeSwitch")
"""
)


def without_numbers(goals: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Goals of results.json without the numbers of their trials."""
    found = []
    for goal in goals:
        own = ("trials_at_lower_bound", "trial", "search")
        found.append({key: value for key, value in goal.items() if key not in own})
    return found


def _goal(goal: Any) -> str:
    lines = [f"{key} = {getattr(goal, key)!r}" for key in goal.__slots__]
    return "[[goals]]\n" + "\n".join(lines).replace("'", '"') + "\n"


class Site:
    """A folder in which a user runs pytest, with a fake agent.

    Args:
        pytester: Runs pytest.
        calls: Where the agent notes its calls.
    """

    def __init__(self, pytester: pytest.Pytester, calls: Path) -> None:
        self.pytester = pytester
        self.calls_file = calls
        self.path = pytester.path

    def run(self, *args: str) -> pytest.RunResult:
        """pytest in this process: fast; workers are processes of their own."""
        plain = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:randomly")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["pytest", *plain, *args])  # a log has it, for --resume
            return self.pytester.runpytest_inprocess(*plain, *args)

    def run_apart(self, *args: str) -> pytest.RunResult:
        """pytest in a process of its own, as a user starts it."""
        plain = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
        return self.pytester.runpytest_subprocess(*plain, *args)

    def calls(self, *kinds: str) -> Counter[str]:
        if not self.calls_file.exists():
            return Counter()
        lines = [json.loads(line)[1] for line in self.calls_file.read_text().splitlines()]
        return Counter(c for c in lines if not kinds or c.split()[0] in kinds)

    @property
    def folders(self) -> list[Path]:
        results = self.path / "results"
        return (
            sorted(p for p in results.iterdir() if not p.is_symlink()) if results.exists() else []
        )

    def results(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(
            (self.path / "results" / "latest" / "results.json").read_text()
        )
        return content


@pytest.fixture(scope="session")
def loaded() -> None:
    """What runs load, once a process: pytester forgets it after each, and backends take longest."""
    registry.backends()
    for module in ("pytest_plugin.session", "runner.bench"):
        importlib.import_module(f"vnetperf.{module}")
    importlib.import_module("scipy.special")


@pytest.fixture
def site(
    loaded: None, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Site]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_AGENT_LOG", str(tmp_path / "calls"))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    for module in (run_module, plans_module, hosts_module):  # put back what conftest replaces
        monkeypatch.setattr(module, "TestbedClient", module.TestbedClient)
    before = registry.registered()
    pytester.makeini("[pytest]\naddopts = -ra\n")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_rfc2544=CASE)
    presets = pytester.mkdir("conf") / "presets"
    presets.mkdir()
    (presets / "fast.toml").write_text(
        "frame_sizes = [64, 1518]\nwarm_up_s = 0\n"
        f"{_goal(NDR)}{_goal(PDR)}"
        "[trial]\nlearning_wait_s = 0\nsettle_s = 0\nfull_drain = false\n"
    )
    monkeypatch.setenv("VNETPERF_PRESET", "fast")
    yield Site(pytester, tmp_path / "calls")
    for family, held in registry._registered.items():
        held.clear()
        held.update(before[family])
