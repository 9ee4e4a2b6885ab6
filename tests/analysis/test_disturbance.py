"""What others take of the pollers' processors: it marks results, and discards nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.agent import FakeAgent, machine_with_others
from tests.runner.support import NDR, PRESET, Bench, configuration
from tests.texts import Texts
from vnetperf.analysis.disturbance import disturbing_share
from vnetperf.analysis.reanalysis import WantedGoal, answer_goals
from vnetperf.analysis.results_from_log import derive
from vnetperf.analysis.sharing import emulated_guests
from vnetperf.log.records import TransfersRecord
from vnetperf.log.trial_log import LOG_NAME, read_log
from vnetperf.model.machine_load import MachineLoad
from vnetperf.model.preset import Preset
from vnetperf.model.result import Result, RunResults, ScenarioFacts
from vnetperf.model.scenario import Plan
from vnetperf.model.transfer import Transfer, Transfers, TransferSpec
from vnetperf.model.trial import TrialResult
from vnetperf.runner.run import NoProgress
from vnetperf.testing.sim import SimulatedDut


def measured(
    folder: Path, others: Callable[[int], float], preset: Preset = PRESET
) -> tuple[RunResults, Result]:
    """A search while others take a share of the tester's processor, by the number of the trial."""
    folder.mkdir()

    def spoil(number: int, result: TrialResult) -> TrialResult:
        return result.model_copy(update=machine_with_others(others(number)))

    bench = Bench(folder, FakeAgent(spoil=spoil), configuration(preset))
    bench.throughput()
    bench.run.close()
    results = derive(read_log(folder / LOG_NAME))
    return results, results.results[0]


def test_a_search_beside_others_is_irregular_and_says_by_how_much(
    tmp_path: Path, texts: Texts
) -> None:
    _, calm = measured(tmp_path / "calm", lambda _: 0.0)
    results, busy = measured(tmp_path / "busy", lambda number: 0.28 if number > 1 else 0.0)
    for goal, beside in zip(calm.goals, busy.goals, strict=True):
        assert goal.regular
        assert not beside.regular
        assert re.search(r"0\.28 .* (8|9)\d % of its trials", beside.reason)
        # All trials count: the bounds are those of the same trials.
        assert beside.lower_bound_fps == goal.lower_bound_fps
        assert beside.upper_bound_fps == goal.upper_bound_fps
    assert busy.discarded == 0
    assert busy.trial_count == calm.trial_count
    disturbed = [trial.disturbed for trial in results.trials]
    assert disturbed[0] == ()
    assert all("others took 0.28" in one[0] for one in disturbed[1:])
    texts.check(text for text in results.warnings if "disturbed" in text)


def test_processors_that_a_hypervisor_moved_between_rounds_are_named(tmp_path: Path) -> None:
    """It is a reason of rounds that do not agree, and none of its own."""

    def searched(folder: Path, capacities: tuple[float, ...]) -> str:
        agent = FakeAgent(duts=(SimulatedDut(capacities[0]),) * 2)
        ended: list[int] = []

        def spoil(_: int, result: TrialResult) -> TrialResult:
            line_ns = (54.0, 56.0) if len(ended) != 1 else (300.0, 310.0)
            return result.model_copy(update={"machine": MachineLoad(line_ns=line_ns)})

        class Turning(NoProgress):
            def round_ends(self, _: object) -> None:
                ended.append(1)
                agent.duts = (SimulatedDut(capacities[len(ended) % 3]),) * 2

        agent.spoil = spoil
        settings = {"rounds": 3, "most_rounds": 3, "round_gap_s": 0, "goals": (NDR,)}
        bench = Bench(folder, agent, configuration(PRESET.model_copy(update=settings)))
        bench.run.progress = Turning()
        return bench.throughput().goals[0].reason

    apart = searched(tmp_path, (700e3, 400e3, 700e3))
    assert re.search("56 ns .* round 1, 310 ns .* round 2", apart)


def test_the_smallest_width_says_what_matters(tmp_path: Path) -> None:
    assert disturbing_share(()) == 0.05
    for width, regular in ((0.02, False), (0.1, True)):
        preset = PRESET.model_copy(update={"goals": (replace(NDR, width=width),)})
        assert disturbing_share(preset.goals) == width
        _, result = measured(tmp_path / f"{width}", lambda _: 0.06, preset)
        assert result.goals[0].regular is regular


def test_one_disturbed_trial_of_many_marks_itself_alone(tmp_path: Path) -> None:
    results, result = measured(tmp_path / "run", lambda number: 0.1 if number == 3 else 0.0)
    assert all(goal.regular for goal in result.goals)
    assert [trial.number for trial in results.trials if trial.disturbed] == [3]


def test_another_goal_of_the_same_trials_is_as_irregular(tmp_path: Path) -> None:
    measured(tmp_path / "run", lambda _: 0.5)
    records = read_log(tmp_path / "run" / LOG_NAME)
    (result,) = answer_goals(records, [WantedGoal(name="mine", loss_ratio=0.2)]).results.results
    (mine,) = (goal for goal in result.goals if goal.name == "mine")
    assert "others took 0.50 processors" in mine.reason


def test_a_transfer_is_judged_by_the_same_share(tmp_path: Path) -> None:
    measured(tmp_path / "run", lambda _: 0.0)
    spec = TransferSpec(kind="TCP_STREAM", duration_s=1)
    taken = [Transfer(spec=spec, others=share) for share in (0.01, 0.12)]
    moved = Transfers(scenario="pvp_dpdk,endpoints", transfers=(taken[0],))
    for one, disturbed in zip(taken, (False, True), strict=True):
        records = [*read_log(tmp_path / "run" / LOG_NAME)]
        result = moved.model_copy(update={"transfers": (one,)})
        results = derive([*records[:-1], TransfersRecord(result=result), records[-1]])
        assert bool(results.transfers[0].transfers[0].disturbed) is disturbed
        named = [w for w in results.warnings if w.startswith("pvp_dpdk,endpoints, TCP_STREAM")]
        assert ["12.0%" in w for w in named] == [True] * disturbed


def test_trials_that_do_not_tell_who_ran_mark_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    bench = Bench(folder, FakeAgent(), configuration())
    bench.throughput()
    bench.run.close()
    assert all(goal.regular for goal in derive(read_log(folder / LOG_NAME)).results[0].goals)


@pytest.mark.parametrize(
    ("facts", "names"),
    [
        ({}, []),
        ({"vnfs": [{"acceleration": "kvm"}, {"launcher": "container"}]}, []),
        ({"vnfs": [{"acceleration": "none: no /dev/kvm"}]}, ["vnf0"]),
        (
            {
                "vnfs": [{"acceleration": "none"}],
                "hosts": {"east": {"vnfs": [{"acceleration": "none"}]}, "west": {}},
            },
            ["east:vnf0"],
        ),
    ],
)
def test_guests_without_kvm_are_named(facts: dict[str, object], names: list[str]) -> None:
    assert emulated_guests(facts) == names


def test_an_emulated_guest_is_a_warning(tmp_path: Path, texts: Texts) -> None:
    class Emulated(FakeAgent):
        def deploy(self, plan: Plan) -> ScenarioFacts:
            found = super().deploy(plan)
            return found.model_copy(update={"facts": {"vnfs": [{"acceleration": "none"}]}})

    bench = Bench(tmp_path, Emulated(), configuration())
    bench.throughput()
    bench.run.close()
    warnings = derive(read_log(tmp_path / LOG_NAME)).warnings
    texts.check(text for text in warnings if "vnf0" in text)


@pytest.mark.parametrize(("exceed", "regular"), [(0.5, True), (0.0, False)])
def test_what_was_discarded_marks_a_bound_that_it_could_change(
    tmp_path: Path, exceed: float, regular: bool
) -> None:
    """One trial in four that says nothing: a majority stays one, a bound without loss does not."""
    goal = replace(NDR, exceed_ratio=exceed, duration_sum_s=4.0, final_trial_s=1.0)
    preset = PRESET.model_copy(update={"goals": (goal,)})
    calm = Bench(tmp_path, FakeAgent(), configuration(preset), name="calm.jsonl")
    (before,) = calm.throughput().goals
    assert before.regular
    silent = before.trials_at_lower_bound[-1]

    def spoil(number: int, result: TrialResult) -> TrialResult:
        if number != silent:
            return result
        short = [
            d.model_copy(update={"sent": d.sent * 9 // 10, "received": d.sent * 9 // 10})
            for d in result.directions
        ]
        unsent = [d.model_copy(update={"unsent": d.intended - d.sent}) for d in short]
        return result.model_copy(update={"directions": tuple(unsent)})

    bench = Bench(tmp_path, FakeAgent(spoil=spoil), configuration(preset))
    (found,) = bench.throughput().goals
    assert found.lower_bound_load_fps == before.lower_bound_load_fps
    assert found.at_lower_bound is not None
    assert found.at_lower_bound.discarded == 1
    assert found.at_lower_bound.could_differ is not regular
    assert found.regular is (regular or not found.at_lower_bound.is_selection)
