"""A test of frames of a plugin, as docs/plugins.md has it: one file says all of it."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator

import pytest

from tests.plugin.conftest import ROOT, Site
from vnetperf.analysis.results_from_log import derive
from vnetperf.log.folder import read_run
from vnetperf.model.parameters import SoakTest
from vnetperf.model.preset import Preset
from vnetperf.plugin import registry
from vnetperf.report import REPORTS, write_all

PAGE = (ROOT / "docs/plugins.md").read_text()
FILES = dict(re.findall(r"```python\n# (my_\w+)\.py\n(.*?)```", PAGE, re.DOTALL))
CONFTEST = """
from tests.fakes import agent
agent.install()

def pytest_vnetperf_register(register):
    register("procedures", "fairness", "my_test:Fairness")
"""
TABLES = "[tests.throughput]\n[tests.fairness]\nduration_s = 1\nrepeats = 3\nshares = [0.5, 1]\n"


@pytest.fixture
def fair(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site whose preset measures the test."""
    monkeypatch.syspath_prepend(site.path)
    (site.path / "my_test.py").write_text(FILES["my_test"])
    site.pytester.makeconftest(CONFTEST)
    site.pytester.makepyfile(test_fairness=FILES["my_cases"])
    presets = site.path / "conf/presets"
    (presets / "fair.toml").write_text((presets / "fast.toml").read_text() + TABLES)
    monkeypatch.setenv("VNETPERF_PRESET", "fair")
    yield site
    sys.modules.pop("my_test", None)


def test_a_test_of_a_plugin_is_measured_and_reported(fair: Site) -> None:
    fair.run("-k", "pvp_dpdk", "--frame-sizes", "64").assert_outcomes(passed=2)
    (folder,) = fair.folders
    _, result = fair.results()["results"]
    assert (result["test"], result["status"]) == ("fairness", "measured")
    assert result["test_inputs"] == {"duration_s": 1}
    main = [f for f in result["outcome"]["figures"] if f["main"]]
    assert [(f["name"], f["of"], f["value"]["n"]) for f in main] == [
        ("imbalance", "100% of throughput", 3)
    ]
    with (folder / "outcomes.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["test"] == "fairness"]
    rates = {row["direction"] for row in rows if row["quantity"] == "forwarding_rate"}
    assert rates == {"phy0->phy1", "phy1->phy0"}
    markdown = (folder / "report.md").read_text()
    assert "### Fairness" in markdown
    assert "Imbalance: what one way gets less than the other" in markdown
    assert "Imbalance against load" in (folder / "report.html").read_text()


def test_a_log_is_reported_whole_where_the_test_is_not_installed(fair: Site) -> None:
    fair.run("-k", "pvp_dpdk", "--frame-sizes", "64").assert_outcomes(passed=2)
    (folder,) = fair.folders
    before = {name: (folder / name).read_text() for name in REPORTS}
    registry.unregister("procedures", "fairness")
    sys.modules.pop("my_test", None)
    assert "fairness" not in registry.test_names()
    write_all(derive(read_run(folder)), folder)
    assert {name: (folder / name).read_text() for name in REPORTS} == before


def test_what_it_measures_is_held_to_thresholds(fair: Site) -> None:
    limits = fair.path / "limits.toml"
    args = ("-k", "pvp_dpdk and fairness", "--frame-sizes", "64", "--expect", "limits.toml")
    for limit, outcome in (("at_most", "passed"), ("at_least", "failed")):
        limits.write_text(
            '[[expect]]\nscenario = "pvp_*"\ntest = "fairness"\nnumber = "imbalance*"\n'
            f"{limit} = 0.5\n"
        )
        fair.run(*args).assert_outcomes(**{outcome: 1})


def test_parameters_are_those_that_the_test_has(fair: Site) -> None:
    preset = fair.path / "conf/presets/fair.toml"
    preset.write_text(preset.read_text() + "repeat = 4\n")
    result = fair.run("-k", "pvp_dpdk")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "tests.fairness: repeat" in result.stderr.str()


def test_a_plan_says_how_long_it_takes(fair: Site) -> None:
    result = fair.run("-k", "pvp_dpdk", "--frame-sizes", "64", "--plan")
    assert "fairness: at most 6 trials" in result.stdout.str()


def test_a_preset_of_a_test_that_is_not_there_is_refused(site: Site) -> None:
    preset = site.path / "conf/presets/fast.toml"
    preset.write_text('tests = ["fairnes"]\n' + preset.read_text())
    result = site.run("-k", "pvp_dpdk")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "'fairnes' is not a test" in result.stderr.str()


def test_tables_of_tests_are_those_of_the_preset() -> None:
    tables = {"throughput": {}, "soak": {"trial_s": 1}, "fairness": {"repeats": 3}}
    preset = Preset.model_validate({"goals": [{"name": "ndr"}], "tests": tables})
    assert preset.tests == ("throughput", "soak", "fairness")
    assert preset.soak == SoakTest(trial_s=1)
    assert preset.test_parameters == {"fairness": {"repeats": 3}}
