"""Two sides: what differs, what is inside the noise, and what is not comparable."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.agent import FakeAgent
from tests.runner.support import NDR, PDR, PRESET, Bench, configuration
from vnetperf.analysis.comparison import NO_DIFFERENCE, Side, SideComparison, compare
from vnetperf.analysis.runs import find_run, load_run
from vnetperf.model.errors import ConfigError, LogError
from vnetperf.model.preset import Preset
from vnetperf.results.log import LOG_NAME
from vnetperf.testing.sim import SimulatedDut


def measured(
    folder: Path,
    capacity: float,
    *,
    sizes: tuple[int, ...] = (64,),
    scenario: str = "pvp_dpdk",
    rounds: tuple[float, ...] = (),
    preset: Preset = PRESET,
) -> Path:
    """A run on a DUT of a capacity, or with another one in each round."""
    folder.mkdir(exist_ok=True)
    agent = FakeAgent(duts=(SimulatedDut(capacity), SimulatedDut(capacity)))
    bench = Bench(folder, agent, configuration(preset))
    for number, factor in enumerate(rounds or (1.0,), 1):
        if rounds:
            bench.run.begin_round(number, len(rounds))
            bench.agent.duts = (SimulatedDut(capacity * factor),) * 2
        for size in sizes:
            bench.throughput(size, scenario)
    bench.run.close()
    return folder


def side(*folders: Path, scenario: str = "") -> Side:
    runs = tuple(load_run(folder) for folder in folders)
    return Side("+".join(f.name for f in folders), runs, scenario)


def verdicts(found: SideComparison) -> dict[str, str]:
    return {row.metric.label: row.verdict for row in found.rows if row.metric.main}


def test_single_runs_apart_by_more_than_their_bounds_differ(tmp_path: Path) -> None:
    a, b = measured(tmp_path / "a", 600e3), measured(tmp_path / "b", 500e3)
    found = compare(side(a), side(b))
    assert verdicts(found) == dict.fromkeys(("ndr", "pdr"), "bounds apart: B has less (worse)")
    assert all(row.is_worse for row in found.rows if row.metric.main)
    assert not any(row.is_worse for row in compare(side(b), side(a)).rows)


def test_single_runs_within_their_bounds_do_not_differ(tmp_path: Path) -> None:
    a, b = measured(tmp_path / "a", 600e3), measured(tmp_path / "b", 601e3)
    assert set(verdicts(compare(side(a), side(b))).values()) == {NO_DIFFERENCE}


def test_repeats_show_what_single_runs_would_not(tmp_path: Path) -> None:
    noise = (1.0, 1.06, 0.95, 1.03, 0.97)
    a = measured(tmp_path / "a", 600e3, rounds=noise)
    near = measured(tmp_path / "b", 606e3, rounds=noise[::-1])
    far = measured(tmp_path / "c", 800e3, rounds=noise[::-1])
    assert verdicts(compare(side(a), side(near)))["ndr"] == NO_DIFFERENCE
    found = compare(side(a), side(far))
    assert verdicts(found)["ndr"] == "B has more (better)"
    (ndr,) = (row for row in found.rows if row.metric.label == "ndr")
    assert (ndr.found.method, ndr.found.n) == ("welch", (5, 5))
    assert ndr.found.low < 2 * 200e3 < ndr.found.high


def test_runs_of_one_side_are_repeats_too(tmp_path: Path) -> None:
    folders = [measured(tmp_path / str(n), 600e3 * f) for n, f in enumerate((1, 1.05, 0.97))]
    other = [measured(tmp_path / f"o{n}", 800e3 * f) for n, f in enumerate((1, 1.05, 0.97))]
    found = compare(side(*folders), side(*other))
    assert found.rows[0].found.n == (3, 3)
    assert not found.paired


def test_scenarios_of_one_run_are_paired_by_round(tmp_path: Path) -> None:
    agent = FakeAgent()
    bench = Bench(tmp_path, agent)
    for number, drift in enumerate((1.0, 0.8, 1.3, 0.9), 1):
        bench.run.begin_round(number, 4)
        for scenario, capacity in (("pvp_dpdk", 600e3), ("phy2phy_dpdk", 660e3)):
            agent.duts = (SimulatedDut(capacity * drift),) * 2
            bench.throughput(64, scenario)
    bench.run.close()
    found = compare(side(tmp_path, scenario="pvp_dpdk"), side(tmp_path, scenario="phy2phy_dpdk"))
    assert found.paired
    assert found.rows[0].found.method == "paired"
    assert verdicts(found)["ndr"] == "B has more (better)"  # though drift is larger than it
    assert found.rows[0].scenario == "pvp_dpdk / phy2phy_dpdk"


def test_other_sizes_and_scenarios_are_listed_and_not_compared(tmp_path: Path) -> None:
    a = measured(tmp_path / "a", 600e3, sizes=(64, 128, 256))
    b = measured(tmp_path / "b", 600e3, sizes=(64, 1518))
    found = compare(side(a), side(b))
    assert {row.metric.size for row in found.rows} == {"64"}
    assert "pvp_dpdk, throughput: only A has frame size 128, 256" in found.not_compared
    assert "pvp_dpdk, throughput: only B has frame size 1518" in found.not_compared


def test_goals_that_were_not_asked_alike_are_not_compared(tmp_path: Path) -> None:
    longer = replace(NDR, final_trial_s=2.0, duration_sum_s=2.0)
    a = measured(tmp_path / "a", 600e3)
    b = measured(tmp_path / "b", 600e3, preset=PRESET.model_copy(update={"goals": (longer, PDR)}))
    found = compare(side(a), side(b))
    assert list(verdicts(found)) == ["pdr"]
    (why,) = found.not_compared[:1]
    assert "ndr: different conditions: final trial, s is 1.0 in A and 2.0 in B" in why


def test_environments_are_set_beside_each_other(tmp_path: Path) -> None:
    other = PRESET.model_copy(update={"name": "other"})
    a, b = measured(tmp_path / "a", 600e3), measured(tmp_path / "b", 600e3, preset=other)
    (preset,) = (d for d in compare(side(a), side(b)).environment if d.path == "preset")
    assert (preset.a, preset.b) == ("test", "other")


def test_nothing_in_common_is_refused_with_what_there_is(tmp_path: Path) -> None:
    a = measured(tmp_path / "a", 600e3, sizes=(128,))
    b = measured(tmp_path / "b", 600e3, sizes=(64,))
    with pytest.raises(ConfigError, match="nothing can be compared") as caught:
        compare(side(a), side(b))
    assert "only A has frame size 128" in str(caught.value)
    with pytest.raises(ConfigError, match="no scenario 'pvp_ovs'") as caught:
        compare(side(a, scenario="pvp_ovs"), side(b))
    assert "pvp_dpdk" in caught.value.accepted
    with pytest.raises(ConfigError, match="are the same"):
        compare(side(a), side(a))


def test_what_was_not_measured_is_said_with_its_reason(tmp_path: Path) -> None:
    a = measured(tmp_path / "a", 600e3, sizes=(64, 128))
    folder = tmp_path / "b"
    folder.mkdir()
    agent = FakeAgent()
    bench = Bench(folder, agent)
    bench.throughput(64)
    agent.fail_deploy = "no hugepages"
    bench.run.forget_deployment()
    with pytest.raises(Exception, match="no hugepages"):
        bench.throughput(128)
    bench.run.close(1)
    found = compare(side(a), side(folder))
    assert any("128" in line and "no hugepages" in line for line in found.not_compared)


def test_a_run_is_found_by_its_name_or_path(tmp_path: Path) -> None:
    folder = measured(tmp_path / "a", 600e3)
    assert find_run("a", tmp_path) == folder
    assert find_run(str(folder)) == folder
    assert find_run(str(folder / LOG_NAME)) == folder / LOG_NAME
    with pytest.raises(LogError, match="no such run"):
        find_run("b", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(LogError, match=r"no trials\.jsonl in it"):
        find_run("empty", tmp_path)


def test_an_edited_log_is_not_compared(tmp_path: Path) -> None:
    folder = measured(tmp_path / "a", 600e3)
    (folder / "results.json").write_text("{}")
    log = folder / LOG_NAME
    log.write_text(log.read_text().replace('"received":', '"received":1', 1))
    with pytest.raises(LogError, match="not as it was written"):
        load_run(folder)
