"""`--repeat N`: cases in turn, A B A B, each deployed anew, and one result of them all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.plugin.conftest import ROOT, Site
from vnetperf.analysis.logged_tests import by_round, select_searches
from vnetperf.config.files import load_model
from vnetperf.log.trial_log import read_log
from vnetperf.model.preset import Preset

RESUME = ("--resume", "results/latest")
TWO = ("-k", "phy2phy_dpdk or pvp_dpdk", "--frame-sizes", "64")


def spread_of(result: dict[str, Any], label: str) -> dict[str, Any]:
    numbers = result["deployments"]["numbers"]
    found: dict[str, Any] = next(one["spread"] for one in numbers if one["label"] == label)
    return found


def deployed(site: Site) -> list[str]:
    lines = [json.loads(line)[1] for line in site.calls_file.read_text().splitlines()]
    return [line for line in lines if line.startswith("deploy")]


def test_scenarios_take_turns_and_are_deployed_anew(site: Site) -> None:
    result = site.run(*TWO, "--repeat", "3")
    result.assert_outcomes(passed=6)
    assert deployed(site) == ["deploy phy2phy_dpdk", "deploy pvp_dpdk"] * 3
    measured = [r for r in site.results()["results"] if r["status"] == "measured"]
    assert [r["scenario"] for r in measured] == ["phy2phy_dpdk", "pvp_dpdk"]
    for found in measured:
        for goal in found["goals"]:
            spread = spread_of(found, goal["name"])
            assert spread["n"] == 3
            assert goal["lower_bound_fps"] in spread["values"]


def test_a_single_scenario_is_deployed_anew_in_each_round(site: Site) -> None:
    site.run("-k", "pvp_dpdk", "--frame-sizes", "64,512", "--repeat", "2").assert_outcomes(passed=4)
    assert deployed(site) == ["deploy pvp_dpdk"] * 2


@pytest.mark.slow
def test_a_run_that_was_cut_goes_on_in_its_round(site: Site) -> None:
    site.run(*TWO, "--repeat", "2")
    (folder,) = site.folders
    log = folder / "trials.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    rounds = [n for n, line in enumerate(lines) if line.startswith(b'{"type":"round"')]
    assert len(rounds) == 2
    log.write_bytes(b"".join(lines[: rounds[1] + 4]))  # within the second round's first case
    site.calls_file.unlink()
    site.run(*TWO, "--resume", "results/latest").assert_outcomes(passed=4)  # repeated as then
    assert deployed(site) == ["deploy phy2phy_dpdk", "deploy pvp_dpdk"]
    results = site.results()["results"]
    assert all(spread_of(r, g["name"])["n"] == 2 for r in results for g in r["goals"])


def test_a_run_of_rounds_that_goes_on_without_any_goes_on_in_the_first(site: Site) -> None:
    site.run(*TWO, "--repeat", "2")
    (folder,) = site.folders
    again = site.run("-k", "pvp_dpdk", "--frame-sizes", "64,512", *RESUME, "--repeat", "1")
    again.assert_outcomes(passed=2)
    rounds = by_round(read_log(folder / "trials.jsonl"))
    sizes = {n: [t.case[2] for t in select_searches(part)] for n, part in rounds.items()}
    assert sizes == {1: [64, 64, 512], 2: [64, 64]}
    site.run("-k", "pvp_dpdk", "--frame-sizes", "64,512", *RESUME).assert_outcomes(passed=4)
    assert all(r["deployments"]["measured"] == 2 for r in site.results()["results"])


def test_a_plan_names_each_scenario_once(site: Site) -> None:
    plain, repeated = (site.run(*TWO, "--plan", *more) for more in ([], ["--repeat", "4"]))
    assert (
        repeated.stdout.str().count("phy2phy_dpdk") == plain.stdout.str().count("phy2phy_dpdk") > 0
    )
    assert "all of it in each of 4 deployments" in repeated.stdout.str()
    assert "deployments" not in plain.stdout.str()


def test_no_deployment_at_all_is_refused(site: Site) -> None:
    for count in ("0", "-1"):
        result = site.run(*TWO, f"--repeat={count}")
        result.stderr.fnmatch_lines([f"ERROR:*--repeat {count}: a case is deployed once or more*"])
        assert not site.folders


def test_interleave_is_another_name_of_repeat(site: Site) -> None:
    site.run(*TWO, "--interleave", "2").assert_outcomes(passed=4)
    assert deployed(site) == ["deploy phy2phy_dpdk", "deploy pvp_dpdk"] * 2


def test_a_preset_has_its_own_number_of_deployments(site: Site) -> None:
    preset = site.path / "conf" / "presets" / "fast.toml"
    preset.write_text("repeat = 3\n" + preset.read_text())
    site.run("-k", "pvp_dpdk", "--frame-sizes", "64").assert_outcomes(passed=3)
    assert deployed(site) == ["deploy pvp_dpdk"] * 3
    site.run("-k", "pvp_dpdk", "--frame-sizes", "64", "--repeat", "1").assert_outcomes(passed=1)


def test_published_presets_are_repeated_in_five_deployments() -> None:
    for path in (ROOT / "vnetperf" / "conf" / "presets").glob("*.toml"):
        preset = load_model(Preset, path)
        # Two estimate in minutes, the third is no benchmark.
        assert preset.repeat >= 5 or path.stem in ("quick", "shared", "smoke"), path.stem


@pytest.mark.slow
def test_workers_cannot_take_turns(site: Site) -> None:
    result = site.run(*TWO, "--repeat", "2", "-n", "2")
    assert "leave -n out" in result.stdout.str() + result.stderr.str()
    assert not site.calls("deploy")
    preset = site.path / "conf" / "presets" / "fast.toml"
    preset.write_text("repeat = 3\n" + preset.read_text())
    result = site.run(*TWO, "-n", "2")
    assert "--repeat 1" in result.stdout.str() + result.stderr.str()
    assert not site.calls("deploy")
