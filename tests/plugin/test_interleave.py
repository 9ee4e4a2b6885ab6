"""`--interleave N`: cases in turn, A B A B, each deployed anew, and one result of them all."""

from __future__ import annotations

import json

import pytest

from tests.plugin.conftest import Site

TWO = ("-k", "phy2phy_dpdk or pvp_dpdk", "--frame-sizes", "64")


def deployed(site: Site) -> list[str]:
    lines = [json.loads(line)[1] for line in site.calls_file.read_text().splitlines()]
    return [line for line in lines if line.startswith("deploy")]


def test_scenarios_take_turns_and_are_deployed_anew(site: Site) -> None:
    result = site.run(*TWO, "--interleave", "3")
    result.assert_outcomes(passed=6)
    assert deployed(site) == ["deploy phy2phy_dpdk", "deploy pvp_dpdk"] * 3
    measured = [r for r in site.results()["results"] if r["status"] == "measured"]
    assert [r["scenario"] for r in measured] == ["phy2phy_dpdk", "pvp_dpdk"]
    for found in measured:
        for goal in found["goals"]:
            assert goal["repeats"]["n"] == 3
            assert goal["lower_bound_fps"] in goal["repeats"]["values"]


def test_a_single_scenario_is_deployed_anew_in_each_round(site: Site) -> None:
    site.run("-k", "pvp_dpdk", "--frame-sizes", "64,512", "--interleave", "2").assert_outcomes(
        passed=4
    )
    assert deployed(site) == ["deploy pvp_dpdk"] * 2


def test_a_run_that_was_cut_goes_on_in_its_round(site: Site) -> None:
    site.run(*TWO, "--interleave", "2")
    (folder,) = site.folders
    log = folder / "trials.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    rounds = [n for n, line in enumerate(lines) if line.startswith(b'{"type":"round"')]
    assert len(rounds) == 2
    log.write_bytes(b"".join(lines[: rounds[1] + 4]))  # within the second round's first case
    site.calls_file.unlink()
    site.run(*TWO, "--interleave", "2", "--resume", "results/latest").assert_outcomes(passed=4)
    assert deployed(site) == ["deploy phy2phy_dpdk", "deploy pvp_dpdk"]
    assert all(g["repeats"]["n"] == 2 for r in site.results()["results"] for g in r["goals"])


def test_a_plan_names_each_scenario_once(site: Site) -> None:
    plain, repeated = (site.run(*TWO, "--plan", *more) for more in ([], ["--interleave", "4"]))
    assert (
        repeated.stdout.str().count("phy2phy_dpdk") == plain.stdout.str().count("phy2phy_dpdk") > 0
    )


def test_one_round_is_no_repeat_and_is_refused(site: Site) -> None:
    result = site.run(*TWO, "--interleave", "1")
    result.stderr.fnmatch_lines(["ERROR:*--interleave 1: a case is repeated from 2 on*"])
    assert not site.folders


@pytest.mark.slow
def test_workers_cannot_take_turns(site: Site) -> None:
    result = site.run_apart(*TWO, "--interleave", "2", "-n", "2")
    assert "leave -n out" in result.stdout.str() + result.stderr.str()
    assert not site.calls("deploy")
