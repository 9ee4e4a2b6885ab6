"""Two sides: what differs, what is inside the noise, and what is not comparable."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.agent import FakeAgent
from tests.fakes.machine import facts as machine_facts
from tests.runner.support import NDR, PDR, PRESET, Bench, Fading, configuration
from tests.texts import Texts
from vnetperf.analysis.comparison import (
    CANNOT_TELL,
    NOT_IN_TURN,
    NOT_KNOWN,
    ComparisonRow,
    Side,
    SideComparison,
    _MainNumber,
    _undecided,
    compare,
)
from vnetperf.analysis.runs import StoredRun, find_run, load_run
from vnetperf.log.trial_log import LOG_NAME
from vnetperf.model.errors import ConfigError, DutError, LogError
from vnetperf.model.parameters import (
    FrameLossTest,
    LatencyLoadTest,
    LatencyTest,
    MrrTest,
    ProcedureParameters,
    SoakTest,
)
from vnetperf.model.preset import Preset, StepSearch
from vnetperf.model.testbed import MachineFacts
from vnetperf.statistics.difference import Occurrences
from vnetperf.testing.sim import SimulatedDut


def measured(
    folder: Path,
    capacity: float,
    *,
    sizes: tuple[int, ...] = (64,),
    scenario: str = "pvp_dpdk",
    rounds: tuple[float, ...] = (),
    preset: Preset = PRESET,
    settings: Mapping[str, object] | None = None,
    facts: MachineFacts | None = None,
    fades: bool = False,
    fails: Collection[int] = (),
    spared: Collection[int] = (),
    broken: Collection[int] = range(100),
) -> Path:
    """A run on a DUT of a capacity, or with another one in each round.

    fails: rounds that fail to deploy, but at the sizes that are spared; fades: in rounds that are
    broken the DUT has half its capacity once its throughput was searched a first time.
    """
    folder.mkdir(exist_ok=True)
    agent = FakeAgent(duts=_duts(capacity), facts=facts)
    if fades:
        preset = preset.model_copy(update={"rounds": 2, "most_rounds": 2, "round_gap_s": 0})
    bench = Bench(folder, agent, configuration(preset, **(settings or {})))
    for number, factor in enumerate(rounds or (1.0,), 1):
        if rounds:
            bench.run.begin_round(number, len(rounds))
            bench.agent.duts = _duts(capacity * factor)
        left = capacity * factor / (2 if fades and number in broken else 1)
        bench.run.progress = Fading(agent, _duts(left))
        bench.agent.fail_deploy = ""
        for size in sizes:
            if number in fails and size not in spared:
                bench.agent.fail_deploy = "it died"
                bench.run.forget_deployment()
            with suppress(DutError):
                bench.throughput(size, scenario)
    bench.run.close()
    return folder


def _duts(capacity: float) -> tuple[SimulatedDut, ...]:
    return tuple(SimulatedDut(capacity) for _ in range(2))


@lru_cache(maxsize=16)
def stored(folder: Path, _octets: int) -> StoredRun:
    """A run as it is read; what is compared again is not read again."""
    return load_run(folder)


def side(*folders: Path, scenario: str = "") -> Side:
    runs = tuple(stored(folder, (folder / LOG_NAME).stat().st_size) for folder in folders)
    return Side("+".join(f.name for f in folders), runs, scenario)


def verdicts(found: SideComparison) -> dict[str, str]:
    return {row.metric.label: row.verdict for row in found.rows if row.metric.main}


def row_of(found: SideComparison, label: str = "ndr") -> ComparisonRow:
    return next(row for row in found.rows if row.metric.label == label)


def test_one_deployment_of_a_side_shows_no_difference_and_fails_no_gate(tmp_path: Path) -> None:
    a, b = measured(tmp_path / "a", 600e3), measured(tmp_path / "b", 300e3)
    for found in (compare(side(a), side(b)), compare(side(b), side(a))):
        assert set(verdicts(found).values()) == {f"n = 1: {NOT_KNOWN}"}
        assert not any(row.is_worse for row in found.rows)
        assert not found.gated
        assert row_of(found).found.value is not None


def test_repeats_within_a_deployment_are_no_replicates(tmp_path: Path) -> None:
    """Ten trials each of two deployments 8 % apart: nobody knows whether it is the version."""
    preset = PRESET.model_copy(update={"mrr": MrrTest(repeats=10, duration_s=1)})
    runs = []
    for name, capacity in (("a", 600e3), ("b", 552e3)):
        (tmp_path / name).mkdir()
        duts = tuple(SimulatedDut(capacity, noise=0.002, seed=n) for n in (1, 2))
        bench = Bench(tmp_path / name, FakeAgent(duts=duts), configuration(preset))
        bench.measure("mrr")
        bench.run.close()
        runs.append(tmp_path / name)
    found = compare(*(side(run) for run in runs))
    (row,) = (row for row in found.rows if row.metric.main)
    assert row.metric.spread is not None
    assert row.metric.spread.n == 10
    assert row.found.n == (1, 1)
    assert row.verdict == f"n = 1: {NOT_KNOWN}"


@pytest.mark.parametrize(("n", "gated"), [(2, False), (3, True)])
def test_a_gate_needs_three_deployments_of_each_side(tmp_path: Path, n: int, gated: bool) -> None:
    noise = (1.0, 1.01, 0.99)[:n]
    a = measured(tmp_path / "a", 900e3, rounds=noise)
    b = measured(tmp_path / "b", 300e3, rounds=noise)
    found = compare(side(a), side(b), single_run=True)
    assert (found.gated, found.fails_gate) == (gated, gated)
    assert row_of(found).found.n == (n, n)
    assert row_of(found).is_worse is gated
    assert row_of(found).verdict == ("B has less (worse)" if gated else "n = 2: too few to tell")
    assert row_of(found).differs is gated


@pytest.mark.slow
def test_a_difference_below_the_least_effect_does_not_count(tmp_path: Path, texts: Texts) -> None:
    noise = (1.0, 1.001, 0.999, 1.0005, 0.9995)
    fine = replace(NDR, width=0.001)
    preset = PRESET.model_copy(update={"goals": (fine,)})
    a = measured(tmp_path / "a", 900e3, rounds=noise, preset=preset)
    b = measured(tmp_path / "b", 890e3, rounds=noise, preset=preset)
    found = compare(side(a), side(b))
    texts.check(row_of(found).verdict)
    assert not row_of(found).is_worse
    finer = compare(side(a), side(b), least=0.005)
    assert row_of(finer).verdict == "B has less (worse)"
    assert row_of(finer).is_worse
    near = measured(tmp_path / "c", 900.2e3, rounds=noise, preset=preset)
    texts.check(row_of(compare(side(a), side(near))).verdict, "none of 2 %")


@pytest.mark.slow
def test_many_numbers_are_judged_together(tmp_path: Path) -> None:
    noise = (1.0, 1.02, 0.98)
    sizes = (64, 128, 256, 512, 1024)
    a = measured(tmp_path / "a", 600e3, rounds=noise, sizes=sizes)
    b = measured(tmp_path / "b", 640e3, rounds=noise[::-1], sizes=sizes)
    rows = [row for row in compare(side(a), side(b)).rows if row.metric.main]
    assert len(rows) == 10
    for row in rows:
        assert row.p is not None
        assert row.found.p is not None
        assert row.found.p < 0.05 < row.p
        assert "Holm" in row.verdict


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"traffic": "multi-flow"}, "flows"),
        ({"wire": "veth"}, "wire"),
        ({"rules": "stream"}, "rules"),
        ({"set": ("rx_descriptors=256",)}, "options"),
        ({"vnf_mode": "mac"}, "VNF mode"),
        ({"vnfs": 4}, "VNFs"),
    ],
)
def test_what_makes_numbers_comparable_is_their_key(
    tmp_path: Path, settings: dict[str, object], key: str
) -> None:
    scenario = "pvvp_dpdk" if "vnfs" in settings else "pvp_dpdk"
    a = measured(tmp_path / "a", 600e3, scenario=scenario)
    b = measured(tmp_path / "b", 600e3, scenario=scenario, settings=settings)
    with pytest.raises(ConfigError, match=f"{scenario}: .*{key} is .* in A") as caught:
        compare(side(a), side(b))
    assert "--across" in caught.value.cure
    found = compare(side(a), side(b), across=True)
    assert any(f"{key} is" in line for line in found.across)
    assert found.rows


def test_a_deployment_that_failed_before_its_plan_changes_no_key(tmp_path: Path) -> None:
    a = measured(tmp_path / "a", 600e3, rounds=(1.0, 1.01, 0.99))
    (tmp_path / "b").mkdir()
    agent = FakeAgent(duts=(SimulatedDut(600e3), SimulatedDut(600e3)))
    bench = Bench(tmp_path / "b", agent)
    agent.calibrate = None  # type: ignore[method-assign,assignment]  # it breaks
    bench.run.begin_round(1, 4)
    with pytest.raises(TypeError):
        bench.throughput()
    del agent.calibrate
    for number in (2, 3, 4):
        bench.run.begin_round(number, 4)
        bench.throughput()
    bench.run.close()
    found = compare(side(a), side(tmp_path / "b"))
    assert row_of(found).found.n == (3, 3)


def test_another_machine_is_another_key(tmp_path: Path) -> None:
    a = measured(tmp_path / "a", 600e3)
    other = {"cpu": {"model": "another"}, "hostname": "host-2", "kernel": {"release": "6.1"}}
    b = measured(tmp_path / "b", 600e3, facts=machine_facts(record=other))
    with pytest.raises(ConfigError, match=r"machine is .*another"):
        compare(side(a), side(b))
    assert compare(side(a), side(b), across=True).across


def test_results_at_different_offered_loads_never_stand_side_by_side(tmp_path: Path) -> None:
    test = LatencyTest(repeats=1, duration_s=1, tag_at_s=0, shares=(1.0,), loads_fps=(100e3,))
    preset = PRESET.model_copy(update={"latency": test})
    runs = []
    for name, capacity in (("a", 600e3), ("b", 400e3)):
        (tmp_path / name).mkdir()
        agent = FakeAgent(duts=(SimulatedDut(capacity), SimulatedDut(capacity)))
        bench = Bench(tmp_path / name, agent, configuration(preset))
        bench.measure("latency")
        bench.run.close()
        runs.append(tmp_path / name)
    for across in (False, True):
        found = compare(*(side(run) for run in runs), across=across)
        compared = {row.metric.label for row in found.rows if row.metric.test == "latency"}
        assert compared
        assert all(" at throughput " not in label for label in compared)
        assert any("different offered loads" in line for line in found.not_compared)


@pytest.mark.parametrize(
    ("test", "key", "parameters"),
    [
        ("mrr", "duration_s", [MrrTest(duration_s=s, repeats=3) for s in (1.0, 60.0)]),
        ("frame_loss", "duration_s", [FrameLossTest(duration_s=s) for s in (1.0, 60.0)]),
        (
            "latency",
            "tag_at_s",
            [LatencyTest(repeats=1, duration_s=2, tag_at_s=s) for s in (0.0, 1.0)],
        ),
        ("soak", "duration_s", [SoakTest(duration_s=s, trial_s=10.0) for s in (20.0, 60.0)]),
    ],
)
def test_numbers_of_tests_with_other_parameters_are_other_numbers(
    tmp_path: Path, test: str, key: str, parameters: list[ProcedureParameters]
) -> None:
    """A rate over 1 s and one over 60 s stood side by side."""
    runs = []
    for name, given in zip("ab", parameters, strict=True):
        (tmp_path / name).mkdir()
        agent = FakeAgent(duts=(SimulatedDut(600e3), SimulatedDut(600e3)))
        preset = PRESET.model_copy(update={test: given})
        bench = Bench(tmp_path / name, agent, configuration(preset))
        bench.throughput()
        bench.measure(test)
        bench.run.close()
        runs.append(tmp_path / name)
    for across in (False, True):
        found = compare(*(side(run) for run in runs), across=across)
        assert all(row.metric.test != test for row in found.rows)
        assert any(f"different conditions: {key} is " in line for line in found.not_compared)


def test_pairs_are_those_of_one_round_by_its_number(tmp_path: Path, texts: Texts) -> None:
    agent = FakeAgent()
    bench = Bench(tmp_path, agent)
    for number, drift in enumerate((1.0, 0.8, 1.3, 0.9, 1.1), 1):
        bench.run.begin_round(number, 5)
        for scenario, capacity in (("pvp_dpdk", 600e3), ("phy2phy_dpdk", 660e3)):
            agent.duts = (SimulatedDut(capacity * drift),) * 2
            agent.fail_deploy = "busy" if (number, scenario) == (2, "pvp_dpdk") else ""
            if agent.fail_deploy:
                with pytest.raises(Exception, match="busy"):
                    bench.throughput(64, scenario)
            else:
                bench.throughput(64, scenario)
    bench.run.close()
    found = compare(side(tmp_path, scenario="pvp_dpdk"), side(tmp_path, scenario="phy2phy_dpdk"))
    row = row_of(found)
    assert (row.found.method, row.found.n) == ("paired", (4, 4))
    assert row.verdict == "B has more (better)"  # by place in the list, drift would hide it
    texts.check(row.marks)


def test_neighbouring_steps_of_a_search_are_no_two_modes(tmp_path: Path) -> None:
    steps = (1.0, 1.0, 1.021, 1.021, 1.0, 1.021)
    a = measured(tmp_path / "a", 600e3, rounds=steps)
    b = measured(tmp_path / "b", 600e3, rounds=(1.0, 1.0, 1.5, 1.5, 1.0, 1.5))
    marks = row_of(compare(side(a), side(b))).marks
    assert not any(mark.startswith("A: two modes") for mark in marks)
    assert any(mark.startswith("B: two modes") for mark in marks)


@pytest.mark.slow
def test_a_number_that_is_not_repeatable_has_no_mean_and_passes_no_gate(
    tmp_path: Path, texts: Texts
) -> None:
    noise = (1.0, 1.001, 0.999, 1.002, 0.998)
    a = measured(tmp_path / "a", 900e3, rounds=noise)
    b = measured(tmp_path / "b", 900e3, rounds=noise, fades=True)
    found = compare(side(a), side(b))
    row = row_of(found)
    assert {m.value for m in row.b} == {None}
    assert all(m.low < 0.6 * m.high for m in row.b)
    assert row.found.method == "ranks"
    assert found.fails_gate
    (ndr,) = (one for one in found.ungated if one.name.endswith("ndr"))
    assert ndr.lost
    texts.check(ndr.why)
    # Of a baseline that is not repeatable nothing was lost.
    assert not compare(side(b), side(a)).fails_gate


@pytest.mark.slow
def test_a_range_below_all_others_is_worse(tmp_path: Path) -> None:
    noise = (1.0, 1.001, 0.999, 1.002, 0.998)
    a = measured(tmp_path / "a", 900e3, rounds=noise)
    b = measured(tmp_path / "b", 400e3, rounds=noise, fades=True)
    found = compare(side(a), side(b))
    assert row_of(found).is_worse
    assert found.fails_gate


@pytest.mark.slow
def test_rounds_of_one_run_a_side_fail_no_gate_unless_wanted(tmp_path: Path) -> None:
    """What differs between runs, a day or a boot, is in none of their rounds."""
    noise = (1.0, 1.001, 0.999, 1.002, 0.998)
    runs = [
        measured(tmp_path / f"run{n}", 900e3 * factor, rounds=noise)
        for n, factor in enumerate((1.0, 0.9, 0.99, 1.01, 0.91, 0.89))
    ]
    good, worse = (runs[0], *runs[2:4]), (runs[1], *runs[4:])
    for a, b, single in (
        (good[:1], worse[:1], "A and B"),
        (good, worse[:1], "B"),
        (good[:1], worse, "A"),
    ):
        found = compare(side(*a), side(*b))
        assert found.unpaired_sides == single
        assert row_of(found).verdict == "B has less (worse)"
        assert (found.gated, found.fails_gate) == (False, False)
        asked = compare(side(*a), side(*b), single_run=True)
        assert (asked.gated, asked.fails_gate) == (True, True)
    several = compare(side(*good), side(*worse))
    assert row_of(several).found.n == (3, 3)
    assert (several.unpaired_sides, several.fails_gate) == ("", True)


@pytest.mark.slow
def test_runs_of_a_side_are_clusters_whatever_the_other_has(tmp_path: Path) -> None:
    """Three runs of five rounds each are three observations, beside one run too."""
    noise = (1.0, 1.001, 0.999, 1.002, 0.998)
    runs = [
        measured(tmp_path / f"run{n}", 900e3 * factor, rounds=noise)
        for n, factor in enumerate((1.0, 0.92, 0.96, 0.88))
    ]
    found = compare(side(*runs[:3]), side(runs[3]))
    assert row_of(found).found.n == (3, 5)
    assert (found.by_run, found.unpaired_sides) == ("A", "B")


@pytest.mark.slow
@pytest.mark.parametrize(("fails", "left"), [((2, 3, 4, 5), 1), ((1, 2, 3, 4, 5), 0)])
def test_deployments_that_fail_pass_no_gate(
    tmp_path: Path, fails: tuple[int, ...], left: int
) -> None:
    noise = (1.0, 1.001, 0.999, 1.002, 0.998)
    a = measured(tmp_path / "a", 900e3, rounds=noise, sizes=(64, 128))
    b = measured(tmp_path / "b", 900e3, rounds=noise, sizes=(128, 64), fails=fails, spared=(128,))
    c = measured(tmp_path / "c", 900e3, rounds=noise, sizes=(128,))
    found = compare(side(a), side(b))
    lost = {one.name: one for one in found.ungated if one.lost}
    assert {*lost} == {"pvp_dpdk, throughput, 64, ndr", "pvp_dpdk, throughput, 64, pdr"}
    assert found.fails_gate
    why = lost["pvp_dpdk, throughput, 64, ndr"].why
    assert f"5 deployments of A and {left} of B" in why
    assert why.endswith(f"{len(fails)} of 5 of B gave none")
    # What B never tried is no loss, and fewer than three deployments of A are no baseline.
    assert not compare(side(a), side(c)).fails_gate
    assert {one.name for one in compare(side(a), side(c)).ungated} == {*lost}
    few = measured(tmp_path / "few", 900e3, rounds=(1.0, 1.001))
    assert not compare(side(few), side(b)).fails_gate if left else True


def test_what_breaks_as_often_by_chance_is_listed_and_fails_no_gate(
    tmp_path: Path, texts: Texts
) -> None:
    noise = (1.0, 1.001, 0.999, 1.002, 0.998)
    a = measured(tmp_path / "a", 900e3, rounds=noise)
    failed = measured(tmp_path / "b", 900e3, rounds=noise, fails=(3,))
    ranged = measured(tmp_path / "c", 900e3, rounds=noise, fades=True, broken=(3,))
    for b in (failed, ranged):
        found = compare(side(a), side(b), single_run=True)
        assert not found.fails_gate
        (ndr,) = (one for one in found.ungated if one.name.endswith("ndr"))
        texts.check(ndr.why)
        assert (ndr.lost, ndr.needed) == (False, 23)
        # Nor does one of the first side make the second worse.
        assert not compare(side(b), side(a)).ungated


@pytest.mark.parametrize(("broken", "needed"), [((0, 1), 23), ((4, 5), None)])
def test_what_needs_very_many_deployments_is_not_counted(
    broken: tuple[int, int], needed: int | None, texts: Texts
) -> None:
    a, b = (Occurrences(frozenset(range(count)), 9 if needed is None else 5) for count in broken)
    why, found = _undecided(_MainNumber("ndr", None, (5, 4), (a, b)), 1, 0.05)
    texts.check(why)
    assert found == needed


@pytest.mark.slow
def test_most_of_many_deployments_that_break_fail_a_gate_though_three_are_left(
    tmp_path: Path,
) -> None:
    noise = (1.0, 1.001, 0.999, 1.002, 0.998) * 2
    a = measured(tmp_path / "a", 900e3, rounds=noise)
    b = measured(tmp_path / "b", 900e3, rounds=noise, fails=range(4, 11))
    found = compare(side(a), side(b))
    assert row_of(found).found.n == (10, 3)
    assert found.fails_gate
    assert all(one.lost for one in found.ungated if one.name.endswith("ndr"))


def test_numbers_that_ranks_can_never_decide_are_listed(tmp_path: Path, texts: Texts) -> None:
    a = measured(tmp_path / "a", 9e6, rounds=(1.0,) * 3)
    b = measured(tmp_path / "b", 600e3, rounds=(1.0, 1.02, 0.98))
    found = compare(side(a), side(b), single_run=True)
    assert not found.fails_gate
    (ndr,) = (one for one in found.ungated if one.name.endswith("ndr"))
    texts.check(ndr.why)
    assert ndr.needed == 5


def test_loss_at_an_absolute_load_is_what_a_latency_curve_is_for(tmp_path: Path) -> None:
    loads = (100e3, 350e3, 9e6)
    test = LatencyLoadTest(loads_fps=loads, repeats=1, duration_s=1, tag_at_s=0)
    preset = PRESET.model_copy(update={"latency_load": test})
    runs = []
    for name, capacity in (("a", 600e3), ("b", 320e3)):
        (tmp_path / name).mkdir()
        bench = Bench(tmp_path / name, FakeAgent(), configuration(preset))
        for number, factor in enumerate((1.0, 1.01, 0.99), 1):
            bench.run.begin_round(number, 3)
            bench.agent.duts = _duts(capacity * factor)
            bench.measure("latency_load")
        bench.run.close()
        runs.append(tmp_path / name)
    found = compare(*map(side, runs), single_run=True)
    lost = [row for row in found.rows if row.metric.label.startswith("loss at")]
    assert [row.metric.main for row in lost] == [True, True]
    assert [row.is_worse for row in lost] == [False, True]
    assert found.fails_gate
    # What the tester cannot offer is no number that a gate lacks.
    assert not any("9000000" in one.name for one in found.ungated)


def test_a_limit_is_compared_by_rank(tmp_path: Path) -> None:
    a = measured(tmp_path / "a", 9e6, rounds=(1.0,) * 5)
    b = measured(tmp_path / "b", 600e3, rounds=(1.0, 1.02, 0.98, 1.01, 0.99))
    row = row_of(compare(side(a), side(b)))
    assert (row.found.method, row.found.value) == ("ranks", None)
    assert row.verdict == "B has less (worse)"
    assert row.is_worse


def test_a_probability_that_equals_the_level_is_a_difference(tmp_path: Path) -> None:
    """2 of 20 divisions are 0.1, and 1 - 0.9 is less by what rounding leaves."""
    preset = PRESET.model_copy(update={"goals": (NDR,)})
    a = measured(tmp_path / "a", 9e6, rounds=(1.0,) * 3, preset=preset)
    b = measured(tmp_path / "b", 600e3, rounds=(1.0, 1.02, 0.98), preset=preset)
    found = compare(side(a), side(b), confidence=0.9, single_run=True)
    row = row_of(found)
    assert row.found.method == "ranks"
    assert row.p == pytest.approx(0.1)
    assert row.verdict == "B has less (worse)"
    assert found.fails_gate
    assert not found.ungated  # ranks of three decide


def test_a_threshold_of_lost_frames_is_a_condition_of_tst009(tmp_path: Path) -> None:
    def with_step(name: str, capacity: float, **steps: Any) -> Path:
        update = {"algorithm": "tst009", "tst009": StepSearch(**steps), "goals": (NDR,)}
        return measured(tmp_path / name, capacity, preset=PRESET.model_copy(update=update))

    a, b, c, d = (
        with_step("a", 600e3, step_share=0.01, max_r=2),
        with_step("b", 600e3, step_share=0.01, max_r=2, z=1000),
        with_step("c", 500e3, step_share=0.01, max_r=2),
        with_step("d", 600e3, step_fps=9e3, max_r=2),
    )
    with pytest.raises(ConfigError, match="unset in A and 1000 frames in B"):
        compare(side(a), side(b))
    for other in (c, d):  # the width of the step at their bounds is no condition
        assert list(verdicts(compare(side(a), side(other)))) == ["ndr"]


def test_repeats_show_what_single_runs_would_not(tmp_path: Path) -> None:
    noise = (1.0, 1.06, 0.95, 1.03, 0.97)
    a = measured(tmp_path / "a", 600e3, rounds=noise)
    near = measured(tmp_path / "b", 606e3, rounds=noise[::-1])
    far = measured(tmp_path / "c", 800e3, rounds=noise[::-1])
    assert verdicts(compare(side(a), side(near)))["ndr"] == CANNOT_TELL
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


def test_rounds_of_several_runs_are_no_replicates_of_each_other(tmp_path: Path) -> None:
    """Two runs of five rounds a side, 8 % apart by what differs between runs alone."""
    noise = (1.0, 1.001, 0.999, 1.002, 0.998)
    runs = [
        measured(tmp_path / f"run{n}", 900e3 * factor, rounds=noise)
        for n, factor in enumerate((1.0, 0.92, 0.96, 0.88))
    ]
    found = compare(side(*runs[:2]), side(*runs[2:]))
    assert found.by_run
    row = row_of(found)
    assert row.found.n == (2, 2)
    assert len(row.a) == 2
    assert row.a[0].value == pytest.approx(1.8e6, rel=0.02)
    assert not row.differs
    # With one run of a side nobody knows what differs between runs.
    single = compare(side(runs[0]), side(*runs[2:]))
    assert (single.by_run, single.unpaired_sides) == ("B", "A")
    assert compare(side(runs[0]), side(runs[3])).unpaired_sides == "A and B"


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
    back = compare(side(tmp_path, scenario="phy2phy_dpdk"), side(tmp_path, scenario="pvp_dpdk"))
    assert (back.unpaired_sides, back.gated, back.fails_gate) == ("", True, True)


#: Pollers share its processors.
FEW_CORES = machine_facts(2)


@pytest.mark.parametrize("single_run", [False, True])
def test_sides_on_shared_processors_that_took_no_turns_are_not_judged(
    tmp_path: Path, single_run: bool
) -> None:
    """What the machine does lasts from one deployment to the next, whatever its spread says."""
    noise = (1.0, 1.01, 0.99)
    a = measured(tmp_path / "a", 900e3, rounds=noise, facts=FEW_CORES)
    b = measured(tmp_path / "b", 300e3, rounds=noise, facts=FEW_CORES)
    for found in (
        compare(side(a), side(b), single_run=single_run),
        compare(side(b), side(a), single_run=single_run),
    ):
        assert set(verdicts(found).values()) == {NOT_IN_TURN}
        assert not any(row.is_worse or row.differs for row in found.rows)
        assert found.out_of_turn == ("pvp_dpdk",)
        assert (found.gated, found.fails_gate) == (False, True)


def test_runs_in_turn_are_pairs_in_the_order_they_were_run(tmp_path: Path) -> None:
    drift, change = (1.0, 0.6, 1.3, 0.8), 0.85
    old, new = [], []
    for n, factor in enumerate(drift):
        old.append(measured(tmp_path / f"old{n}", 600e3 * factor, facts=FEW_CORES))
        new.append(measured(tmp_path / f"new{n}", 600e3 * factor * change, facts=FEW_CORES))
    found = compare(side(*old), side(*reversed(new)))
    assert (found.turns, found.out_of_turn) == ("runs", ())
    assert row_of(found).found.method == "paired"
    assert row_of(found).verdict == "B has less (worse)"  # though drift is larger than it
    assert (found.gated, found.fails_gate) == (True, True)
    # Runs that are missing are no turns, nor are all of one side before the other.
    for a, b in ((old, new[1:]), ([old[0], *new[:2]], [new[2], *old[2:]])):
        assert compare(side(*a), side(*b)).turns == ""


def test_rounds_in_turn_are_judged_on_shared_processors(tmp_path: Path) -> None:
    agent = FakeAgent(facts=FEW_CORES)
    bench = Bench(tmp_path, agent)
    for number, drift in enumerate((1.0, 0.8, 1.3), 1):
        bench.run.begin_round(number, 3)
        for scenario, capacity in (("pvp_dpdk", 600e3), ("phy2phy_dpdk", 400e3)):
            agent.duts = (SimulatedDut(capacity * drift),) * 2
            bench.throughput(64, scenario)
    bench.run.close()
    sides = (side(tmp_path, scenario=name) for name in ("pvp_dpdk", "phy2phy_dpdk"))
    found = compare(*sides, across=True)  # one of them shares its processors
    assert (found.turns, found.out_of_turn) == ("rounds", ())
    assert (found.gated, found.fails_gate) == (True, True)


def test_other_sizes_and_scenarios_are_listed_and_not_compared(
    tmp_path: Path, texts: Texts
) -> None:
    a = measured(tmp_path / "a", 600e3, sizes=(64, 128, 256))
    b = measured(tmp_path / "b", 600e3, sizes=(64, 1518))
    found = compare(side(a), side(b))
    assert {row.metric.size for row in found.rows} == {"64"}
    texts.check(found.not_compared)


def test_goals_that_were_not_asked_alike_are_not_compared(tmp_path: Path, texts: Texts) -> None:
    longer = replace(NDR, final_trial_s=2.0, duration_sum_s=2.0)
    a = measured(tmp_path / "a", 600e3)
    b = measured(tmp_path / "b", 600e3, preset=PRESET.model_copy(update={"goals": (longer, PDR)}))
    found = compare(side(a), side(b))
    assert list(verdicts(found)) == ["pdr"]
    (why,) = found.not_compared[:1]
    texts.check(why)


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
