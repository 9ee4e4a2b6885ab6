"""Every test's numbers are taken apart for those who compare them."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.report import sample, sample_outcomes
from vnetperf.model.outcomes import Transfer, Transfers, TransferSpec
from vnetperf.model.result import Result, RunResults
from vnetperf.model.trial import Latency
from vnetperf.results.metrics import compared_metrics, compared_metrics_of, metrics_of


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
