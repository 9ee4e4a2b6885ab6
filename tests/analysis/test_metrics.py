"""Every test's numbers are taken apart for those who compare them."""

from __future__ import annotations

from collections import Counter
from math import inf

import pytest

from tests.report import sample, sample_outcomes
from vnetperf.analysis.comparison import _observation
from vnetperf.model.outcomes import NatSessions, Transfer, Transfers, TransferSpec
from vnetperf.model.result import Result, RunResults
from vnetperf.model.trial import Latency
from vnetperf.results.metrics import (
    Metric,
    compared_metrics,
    compared_metrics_of,
    metrics_of,
    repeated_number,
)
from vnetperf.statistics.difference import Measurand


@pytest.fixture(scope="module")
def results() -> RunResults:
    latency = Latency(
        count=9,
        min_ns=1.0,
        mean_ns=5.0,
        max_ns=9.0,
        percentiles={"50": 4.0, "99": 9.0, "99.9": 9.0},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_outcomes, "SIZES", (64,))
        for module in (sample, sample_outcomes):  # real ones take long, and nobody looks at them
            patch.setattr(module, "histogram", lambda *_, **__: latency)
        return sample_outcomes.with_outcomes(sample.build(trials=8))


def test_every_test_has_a_number_that_it_is_for(results: RunResults) -> None:
    seen = set()
    for result in results.results:
        found = list(compared_metrics_of(result))
        assert found
        if result.status == "measured":
            assert any(metric.main for metric in found), result.test
            seen.add(result.test)
    assert seen >= {"throughput", *sample_outcomes.TESTS}


def test_no_two_numbers_of_a_run_have_one_name(results: RunResults) -> None:
    names = Counter((q.scenario, *q.key) for q in compared_metrics(results))
    assert [name for name, count in names.items() if count > 1] == []


def test_a_number_lies_within_what_it_leaves_open(results: RunResults) -> None:
    for quantity in compared_metrics(results):
        found = quantity.measured
        if found is not None and found.value is not None:
            assert found.low <= found.value <= found.high, quantity
        if found is None:
            assert quantity.why, quantity


def test_what_a_further_frame_takes_is_judged_where_it_is_clear(results: RunResults) -> None:
    (found,) = (r for r in results.results if r.test == "cpu_load")
    fits = {m.direction: m for m in metrics_of(found) if m.name == "time_of_further_frame"}
    assert {role: bool(m.label) for role, m in fits.items()} == {
        **{"kernel": True, "pmd": False},  # that of the one that polls is about 0
        **{"tester": False, "others": False},  # none of the DUT's
    }
    labels = [m.label for m in metrics_of(found) if m.name == "time_per_frame"]
    assert any("of pmd at" in label for label in labels)
    assert not any("others" in label for label in labels)


def test_a_test_without_a_result_says_why() -> None:
    missing = Result(
        scenario="x", test="throughput", frame_size=64, status="not measured", why="no room"
    )
    (only,) = compared_metrics_of(missing)
    assert (only.measured, only.why, only.label) == (None, "no room", "")


def test_transfers_are_numbers_too(results: RunResults) -> None:
    specs = [
        TransferSpec(kind="TCP_STREAM", way="forth", duration_s=5),
        TransferSpec(kind="TCP_RR", way="forth", duration_s=5),
    ]
    transfers = (
        Transfer(spec=specs[0], bits_per_second=1e9, version="iperf 3.12"),
        Transfer(spec=specs[1], transactions_per_second=5e3, round_trip_us={"50": 90.0}),
    )
    ours = Transfers(scenario="vepc_bridge", transfers=transfers)
    found = list(compared_metrics(results.model_copy(update={"transfers": (ours,)})))[-3:]
    assert [(q.label, q.unit, q.value) for q in found] == [
        ("TCP_STREAM forth", "bit/s", 1e9),
        ("TCP_RR forth", "1/s", 5e3),
        ("TCP_RR forth round trip p50", "ns", 90e3),
    ]


def test_a_search_that_ended_before_it_found_too_much_has_a_limit(results: RunResults) -> None:
    """No mean has it, and what found no bound at all is no number."""
    found = next(r for r in results.results if r.test == "throughput" and r.throughput_goal)

    def main_of(**bounds: float | None) -> Metric:
        goal = found.goals[0].model_copy(
            update={"qualifier": "", "unstable": False, "reason": "no upper bound: ended", **bounds}
        )
        every = metrics_of(found.model_copy(update={"goals": (goal,), "deployments": None}))
        return next(one for one in every if one.main)

    limit = main_of(lower_bound_fps=1e6, upper_bound_fps=None)
    assert (limit.censored, limit.measured) == ("at least", Measurand(1e6, 1e6, inf))
    assert repeated_number("ndr", {1: limit, 2: limit}).spread is None
    nothing = main_of(lower_bound_fps=None, upper_bound_fps=None)
    assert (nothing.measured, nothing.why) == (None, "no upper bound: ended")


@pytest.mark.parametrize(("test", "resolution"), [("connection_rate", 0.05), ("throughput", 0.0)])
def test_rates_of_a_search_are_open_by_its_step(test: str, resolution: float) -> None:
    """Two that stop one step apart may have been the same."""
    result = Result(
        scenario="phy2phy_cgnat",
        test=test,
        frame_size=64,
        sessions=NatSessions(sessions=9, rate_per_s=1e5, rates=(1e5,)),
        test_inputs={"resolution": resolution},
    )
    found = next(one for one in metrics_of(result) if one.name == "connection_rate")
    assert found.resolution == 1e5 * resolution
    assert _observation(found, Measurand.exact(1e5)).high == 1e5 * (1 + resolution)
