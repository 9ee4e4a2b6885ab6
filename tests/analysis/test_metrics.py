"""Every test's numbers are taken apart for those who compare them."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import Any

import pytest

from tests.report import sample, sample_outcomes
from tests.texts import Texts
from vnetperf.analysis.comparison import _observation
from vnetperf.analysis.metrics import (
    Metric,
    compared_metrics_of,
    explain_missing_number,
    metrics_of,
    repeated_number,
)
from vnetperf.analysis.run_metrics import compared_metrics, transfer_metrics
from vnetperf.model.outcomes import (
    MAXIMUM_OFFERED,
    MOST_FORWARDED,
    ForwardingRate,
    LatencyAt,
    SessionTable,
)
from vnetperf.model.result import Result, RunResults
from vnetperf.model.transfer import Transfer, Transfers, TransferSpec
from vnetperf.model.trial import Latency
from vnetperf.statistics import spread
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


def test_work_over_the_testers_is_compared_where_the_tester_sent_alike(
    results: RunResults, texts: Texts
) -> None:
    (found,) = (r for r in results.results if r.test == "cpu_load")
    costs = [m for m in metrics_of(found) if m.name == "relative_cost"]
    first, vnf = costs[:2]
    texts.check(first.title)
    assert (first.value, first.better, first.main, first.load_fps) == (1.92, "less", True, 1e5)
    assert first.conditions["tester's turn"] == "100 us"
    assert (vnf.value, vnf.why, vnf.main) == (None, "vnf0 polls", False)


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


def test_numbers_of_clients_and_rates_have_names_of_their_own(texts: Texts) -> None:
    """Else the last would stand for all of them where runs are compared."""
    specs = [
        TransferSpec(kind="UDP_STREAM", way="forth", duration_s=5, instances=n, rate_bps=rate)
        for n in (1, 8)
        for rate in (0.0, 1e9)
    ]
    found = [
        next(transfer_metrics("x", Transfer(spec=spec, bits_per_second=1e9), ())) for spec in specs
    ]
    assert [one.label for one in found] == ["UDP_STREAM forth"] * 4
    texts.check(one.title for one in found)
    assert len({one.key for one in found}) == 4


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        ("the tester stood still in trial 3", {"stalled_trials": (3,)}),
        ("of the load was offered", {"intended": 10**12}),
    ],
)
def test_a_loss_that_is_not_judged_is_not_compared(
    results: RunResults, why: str, changes: dict[str, Any]
) -> None:
    soak = next(r for r in results.results if r.test == "soak" and r.soak is not None)
    assert soak.soak is not None
    own = next(m for m in compared_metrics_of(soak) if m.main)
    assert own.measured is not None
    changed = soak.model_copy(update={"soak": soak.soak.model_copy(update=changes)})
    main, *others = compared_metrics_of(changed)
    assert (main.label, main.main, main.measured) == (own.label, True, None)
    assert why in main.why
    assert not any("loss" in other.label for other in others)
    assert any(m.name == "loss_ratio" and m.measured is not None for m in metrics_of(changed))


def test_a_service_that_is_not_judged_is_not_compared(results: RunResults) -> None:
    service = next(r for r in results.results if r.test == "service" and r.service is not None)
    assert service.service is not None
    steps = tuple(
        s.model_copy(update={"met": None, "why": "the tester stood still"})
        for s in service.service.steps
    )
    held = service.service.model_copy(update={"steps": steps, "performance": None})
    found = [*compared_metrics_of(service.model_copy(update={"service": held}))]
    assert found
    assert {(m.measured, m.why) for m in found if "loss" in m.label or "delay" in m.label} == {
        (None, "not compared: the tester stood still")
    }


def test_the_largest_forwarding_rate_is_at_no_given_load() -> None:
    """Another deployment finds it at another load, and is compared all the same."""
    rates = [
        ForwardingRate(
            load_fps=load,
            of=of,
            duration_s=1,
            forwarded_fps=spread([1e6]),
            loss_ratio=spread([0.1]),
        )
        for of, load in ((MAXIMUM_OFFERED, 2e6), (MOST_FORWARDED, 1.3e6))
    ]
    result = Result(scenario="x", test="forwarding_rate", frame_size=64, rates=tuple(rates))
    assert {m.label: (m.load_fps, m.offered_fps) for m in compared_metrics_of(result)} == {
        f"forwarded at {MAXIMUM_OFFERED}": (2e6, 2e6),
        f"loss at {MAXIMUM_OFFERED}": (2e6, 2e6),
        f"forwarded at {MOST_FORWARDED}": (1.3e6, None),
        f"loss at {MOST_FORWARDED}": (1.3e6, 1.3e6),
    }


def test_a_latency_above_the_largest_load_has_its_reason() -> None:
    at = LatencyAt(load_fps=2e6, of="2 Mfps", repeats=0, discarded=0, note="not measured: too much")
    result = Result(scenario="x", test="latency", frame_size=64, latency_at=(at,))
    assert explain_missing_number(result) == "too much"
    (only,) = compared_metrics_of(result)
    assert (only.label, only.measured) == ("", None)
    # Where one load has a latency, that of another is no number that was lost.
    timed = at.model_copy(update={"mean_ns": {"phy0->phy1": spread([5.0])}, "note": ""})
    both = result.model_copy(update={"latency_at": (at, timed)})
    assert explain_missing_number(both) == ""
    assert all(metric.measured is not None for metric in compared_metrics_of(both))


def test_a_search_that_ended_before_it_found_too_much_has_a_limit(results: RunResults) -> None:
    """No mean has it, and what found no bound at all is no number."""
    found = next(r for r in results.results if r.test == "throughput" and r.throughput_goal)

    def main_of(**bounds: float | None) -> Metric:
        goal = found.goals[0].model_copy(
            update={"qualifier": "", "reason": "no upper bound: ended", **bounds}
        )
        every = metrics_of(found.model_copy(update={"goals": (goal,), "deployments": None}))
        return next(one for one in every if one.main)

    limit = main_of(lower_bound_fps=1e6, upper_bound_fps=None)
    assert (limit.censored, limit.measured) == ("at least", Measurand(1e6, 1e6, inf))
    assert repeated_number("ndr", {1: limit, 2: limit}).spread is None
    nothing = main_of(lower_bound_fps=None, upper_bound_fps=None)
    assert (nothing.measured, nothing.why) == (None, "no upper bound: ended")


@pytest.mark.parametrize(
    ("test", "resolution"), [("connection_rate", 0.05), ("session_capacity", 0.0)]
)
def test_rates_of_a_search_are_open_by_its_step(test: str, resolution: float) -> None:
    """Two that stop one step apart may have been the same."""
    result = Result(
        scenario="phy2phy_cgnat",
        test=test,
        frame_size=64,
        sessions=SessionTable(sessions=9, rate_per_s=1e5, rates=(1e5,)),
        test_inputs={"resolution": resolution},
    )
    found = next(one for one in metrics_of(result) if one.name == "connection_rate")
    assert found.resolution == 1e5 * resolution
    assert _observation(found, Measurand.exact(1e5)).high == 1e5 * (1 + resolution)
