"""What a number may owe to the tester stands beside it in every report."""

from __future__ import annotations

import csv
import io
import re

import pytest

from vnetperf.analysis.metrics import metrics_of
from vnetperf.model.result import BoundTrials, RunResults
from vnetperf.model.trial import Gaps, TrialGaps, Verdict
from vnetperf.report.csv_files import results_csv, trials_csv
from vnetperf.report.markdown import markdown_report
from vnetperf.report.page import html_report
from vnetperf.report.terminal import terminal_text

SLOW = TrialGaps(
    poll=Gaps(max_s=5.0, percentiles={"50": 4.0, "99": 4.5, "99.9": 4.9}, hold_s=0.002, over_s=5.0),
    send=Gaps(max_s=5.1),
    catch_up_frames=2048,
)


@pytest.fixture
def doubtful(results: RunResults) -> RunResults:
    """The sample, whose first goal has discarded trials and a tester that waits for seconds."""
    place = next(n for n, r in enumerate(results.results) if r.goals and r.goals[0].latency)
    result = results.results[place]
    goal, *others = result.goals
    latency = {
        name: one.model_copy(update={"before_departure": 3, "above_range": 2})
        for name, one in goal.latency.items()
    }
    goal = goal.model_copy(
        update={
            "gaps": SLOW,
            "latency": latency,
            "at_lower_bound": BoundTrials(load_fps=1e6, valid=3, discarded=0),
            "at_upper_bound": BoundTrials(load_fps=1.1e6, valid=3, discarded=2),
            "regular": False,
            "reason": "2 of 5 trials at the upper bound were discarded",
        }
    )
    changed = result.model_copy(update={"goals": (goal, *others), "discarded": 2})
    first, *trials = results.trials
    first = first.model_copy(
        update={"unsent": 9, "poll_gap_s": 5.0, "send_gap_s": 5.1, "late": 4, "disturbed": ("x",)}
    )
    return results.model_copy(
        update={
            "results": (*results.results[:place], changed, *results.results[place + 1 :]),
            "trials": (first, *trials),
        }
    )


def test_every_report_has_the_discarded_trials_and_the_gaps(doubtful: RunResults) -> None:
    texts = {
        "terminal": " ".join(terminal_text(doubtful, width=200).split()),
        "markdown": markdown_report(doubtful),
        "page": html_report(doubtful),
    }
    for name, text in texts.items():
        assert "lower 0 of 3, upper 2 of 5" in text, name
        assert "tester-bound" in text, name
        gap = "5000000" if name == "terminal" else "max 5.000 s"
        assert gap in text.replace("\N{NO-BREAK SPACE}", " "), name
        assert "arrived before they had left" in text, name
    assert "trials, 2 discarded" in texts["terminal"]
    assert "5.000 s / 5.100 s" in texts["page"].replace("\N{NO-BREAK SPACE}", " ")


def test_files_for_programs_have_them_too(doubtful: RunResults) -> None:
    rows = list(csv.DictReader(io.StringIO(results_csv(doubtful))))
    row = next(r for r in rows if r["discarded_trials_at_upper_bound"] == "2")
    assert (row["discarded_trials"], row["valid_trials_at_upper_bound"]) == ("2", "3")
    assert row["tester_poll_gap_p99_s"] == "4.5"
    assert any(r["frames_before_departure"] == "3" for r in rows)
    trial = next(csv.DictReader(io.StringIO(trials_csv(doubtful))))
    assert (trial["unsent_frames"], trial["tester_poll_gap_s"]) == ("9", "5.0")
    assert (trial["late_frames"], trial["disturbed"]) == ("4", "x")
    result = next(r for r in doubtful.results if r.discarded)
    found = {m.name: m.value for m in metrics_of(result) if not m.direction}
    assert found["discarded_at_upper_bound"] == 2.0
    assert found["tester_poll_gap_max"] == 5.0


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["warm-up", "sweep"])
def test_a_trial_that_found_no_bound_says_what_it_was_for(results: RunResults, phase: str) -> None:
    first, *others = results.trials
    trials = (first.model_copy(update={"phase": phase, "verdict": Verdict.VALID}), *others)
    marked = results.model_copy(update={"trials": trials})
    row = re.search(rf'<tr id="t{first.number}".*', html_report(marked))
    assert row is not None
    assert f"<td>VALID, {phase}" in row[0]


def test_the_phase_of_a_search_is_a_column_of_the_trials(every: RunResults) -> None:
    first, *others = (t for t in every.trials if t.test == "throughput")
    warming = first.model_copy(update={"phase": "warm-up"})
    besides = first.model_copy(update={"test": "soak"})
    run = every.model_copy(update={"trials": (warming, *others, besides)})
    phases = [row["phase"] for row in csv.DictReader(io.StringIO(trials_csv(run)))]
    assert phases == ["warm-up", *["search"] * len(others), ""]


def test_what_was_not_recorded_is_not_zero(results: RunResults) -> None:
    assert "tester-bound" not in terminal_text(results)
    assert "not recorded" in markdown_report(results)
    row = next(csv.DictReader(io.StringIO(trials_csv(results))))
    assert row["tester_poll_gap_s"] == row["late_frames"] == row["unsent_frames"] == ""


def test_a_result_of_selected_trials_is_marked(every: RunResults) -> None:
    latency = next(r for r in every.results if r.latency_at)
    marked = latency.model_copy(update={"trial_count": 10, "discarded": 3})
    assert all("irregular" in m.marks for m in metrics_of(marked) if m.main)
    few = latency.model_copy(update={"trial_count": 10, "discarded": 2})
    assert not any("irregular" in m.marks for m in metrics_of(few) if m.main)
