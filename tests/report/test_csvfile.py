import csv
import io
import json

from vnetperf.model.figures import Outcome
from vnetperf.model.outcomes import Curve
from vnetperf.model.result import Result
from vnetperf.report.csv_files import curves_csv, results_csv, trials_csv
from vnetperf.report.page import html_report


def _rows(said: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(said)))


def test_a_goal_has_a_row_for_the_sum_and_one_for_each_direction(results):
    rows = [
        r
        for r in _rows(results_csv(results))
        if (r["scenario"], r["frame_size_octets"], r["goal"]) == ("pvp_dpdk", "64", "ndr")
    ]
    assert [r["direction"] for r in rows] == ["aggregate", "phy0->phy1", "phy1->phy0"]
    total, *each = (float(r["lower_bound_fps"]) for r in rows)
    assert total == sum(each)
    assert rows[1]["latency_p99_ns"]
    assert not rows[0]["latency_p99_ns"]


def test_numbers_are_exact(results):
    goal = results.results[0].goals[0]
    assert float(_rows(results_csv(results))[0]["upper_bound_fps"]) == goal.upper_bound_fps


def test_qualifiers_and_irregular_results_are_columns(results, texts):
    row = next(r for r in _rows(results_csv(results)) if r["qualifier"])
    assert (row["qualifier"], row["regular"]) == ("at least", "false")
    texts.check(row["irregular_reason"])


def test_not_measured_is_a_row_without_numbers(results):
    row = next(r for r in _rows(results_csv(results)) if r["status"] == "not measured")
    assert row["why"].startswith("the path check")
    assert row["lower_bound_fps"] == ""


def test_every_trial_is_a_row(results):
    rows = _rows(trials_csv(results))
    assert [int(r["number"]) for r in rows] == [t.number for t in results.trials]
    lossy = next(r for r in rows if r["lost_at"])
    assert "phy0 rx ring" in json.loads(lossy["lost_at"])


def test_a_row_says_which_transfer_it_is_of_and_what_the_worse_direction_offered(results):
    one = next(r for r in results.results if r.status == "not measured")
    failed = one.model_copy(update={"test": "TCP_STREAM forth", "of": "8 instances"})
    trial = results.trials[0].model_copy(update={"offered_ratio": 0.9, "least_offered_ratio": 0.8})
    run = results.model_copy(update={"results": (failed,), "trials": (trial,)})
    assert _rows(results_csv(run))[0]["of"] == "8 instances"
    row = _rows(trials_csv(run))[0]
    assert (row["offered_ratio"], row["offered_ratio_worse_direction"]) == ("0.9", "0.8")


def test_a_name_is_no_formula(results):
    goal = results.results[0].goals[0].model_copy(update={"reason": "=1+1", "regular": False})
    first = results.results[0].model_copy(update={"goals": (goal,)})
    row = _rows(results_csv(results.model_copy(update={"results": (first,)})))[0]
    assert row["irregular_reason"] == "'=1+1"


def test_curves_that_an_outcome_has_are_rows_and_drawn(results):
    curve = Curve(trial=3, bin_s=0.5, offered=(9, 9), lost=(0, 2), arrived=(9, 7))
    outcome = Outcome(kind="other", title="Other", curves={"flow 1": (curve,)})
    result = Result(scenario="pvp_dpdk", test="other", frame_size=64, outcome=outcome)
    others = results.model_copy(update={"results": (*results.results, result)})
    rows = [row for row in _rows(curves_csv(others)) if row["test"] == "other"]
    assert [(row["item"], row["from_s"], row["lost_frames"]) for row in rows] == [
        ("flow 1", "0.0", "0"),
        ("flow 1", "0.5", "2"),
    ]
    assert "flow 1" in html_report(others)
