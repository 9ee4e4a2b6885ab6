"""Numbers against bounds: what is proven, what is not, and what the message says."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.agent import FakeAgent
from tests.runner.support import Bench
from tests.texts import Texts
from vnetperf.analysis.comparison import describe_incomparability
from vnetperf.analysis.metrics import Metric
from vnetperf.analysis.thresholds import (
    Expectation,
    Expectations,
    average_repeats,
    judge_metric,
)
from vnetperf.model.result import (
    Deployments,
    Observation,
    RepeatedNumber,
    Result,
    RunResults,
    ScenarioFacts,
    Transfers,
)
from vnetperf.model.transfer import POD_ATTACHED, POD_REMOVED, Figures, Transfer, TransferSpec
from vnetperf.statistics import spread
from vnetperf.testing.sim import SimulatedDut

RATES = st.floats(1.0, 1e9)


def number(value: float | None, low: float = 0.0, high: float = inf, **more: object) -> Metric:
    fields: dict[str, object] = {
        **{"scenario": "pvp_dpdk", "test": "throughput", "size": "64", "label": "ndr"},
        **{"unit": "fps", "better": "more", "value": value, "bounds": (low, high)},
    }
    return Metric(**(fields | more))  # type: ignore[arg-type]  # as the test says


def repeated(*values: float, high: float | None = None) -> RepeatedNumber:
    """Each is open up to `high`, or ends with itself."""
    ends = {v: v if high is None else high for v in values}
    each = tuple(
        Observation(round=n, value=v, low=v, high=ends[v] if isfinite(ends[v]) else None)
        for n, v in enumerate(values, 1)
    )
    return RepeatedNumber(label="ndr", unit="fps", observations=each, spread=spread(values))


def expected(**bounds: object) -> Expectation:
    return Expectation(scenario="pvp_dpdk", **bounds)  # type: ignore[arg-type]  # see above


def met(quantity: Metric, base: Metric | None = None, **bounds: object) -> bool | None:
    if bounds.get("certain"):
        quantity, base = twice(quantity), None if base is None else twice(base)
    return judge_metric(expected(**bounds), quantity, "file: expect.0", base).met


def twice(quantity: Metric) -> Metric:
    """The same number of two deployments: nothing is certain of one."""
    found = quantity.measured
    if quantity.over is not None or found is None or quantity.repeats:
        return quantity
    high = found.high if isfinite(found.high) else None
    each = tuple(Observation(round=n, value=None, low=found.low, high=high) for n in (1, 2))
    over = RepeatedNumber(label=quantity.label, unit=quantity.unit, observations=each)
    return replace(quantity, over=over)


def test_nothing_is_certain_of_one_deployment(texts: Texts) -> None:
    judged = judge_metric(expected(at_least=1.0, certain=True), number(5.0, 5.0, 5.0), "f")
    assert judged.met is False
    texts.check(judged.text)
    assert met(number(5.0, 5.0, 5.0), at_least=1.0, certain=True)


@pytest.mark.parametrize("mark", ["irregular", "not repeatable"])
def test_a_doubtful_number_is_not_judged_across_a_bound(mark: str) -> None:
    found = number(1.0e6, 0.8e6, 1.2e6, qualifiers=(mark,))
    for bounds in ({"at_least": 0.9e6}, {"at_most": 1.1e6}):
        judged = judge_metric(expected(**bounds), found, "f")
        assert judged.met is False
        assert "not judged" in judged.text
        assert f"it is {mark}" in judged.text
    assert met(found, at_least=0.7e6)
    assert met(found, at_most=1.3e6)
    if mark == "irregular":  # a range has no number that could be judged
        assert met(found, at_least=0.9e6, irregular="allow")


@given(RATES, RATES, RATES)
def test_a_bound_is_kept_or_not(value: float, width: float, bound: float) -> None:
    found = number(value, value, value + width)
    assert met(found, at_least=bound) is (value >= bound)
    assert met(found, at_most=bound) is (value <= bound)
    assert met(found, at_most=bound, certain=True) is (value + width <= bound)


@given(RATES, RATES, RATES)
def test_what_is_certain_is_met_without_certainty_too(
    low: float, more: float, bound: float
) -> None:
    found = number(low + more / 2, low, low + more)
    for key in ("at_least", "at_most"):
        if met(found, **{key: bound}, certain=True):
            assert met(found, **{key: bound})


def test_a_result_that_is_open_above_proves_only_what_it_reached(texts: Texts) -> None:
    found = number(100.0, 100.0, inf, qualifiers=("at least",))
    assert met(found, at_least=90.0)
    judged = judge_metric(expected(at_least=200.0), found, "f")
    assert judged.met is False
    texts.check(str(judged), "at least")
    judged = judge_metric(expected(at_most=200.0), found, "f")
    assert judged.met is False
    texts.check(str(judged), "at most")


@pytest.mark.parametrize(("lost", "most"), [(0.0, inf), (1e-10, 5e-10)])
def test_a_soak_that_lost_nothing_is_judged_as_one_that_lost_little(
    lost: float, most: float
) -> None:
    found = number(lost, 0.0, most, unit="ratio")
    assert met(found, at_most=1e-7)
    assert met(found, at_most=1e-7, certain=True) is (most < 1e-7)
    several = number(lost, 0.0, most, unit="ratio", over=repeated(lost, lost, high=most))
    assert met(several, at_most=1e-7)
    assert met(several, at_most=1e-7, certain=True) is (most < 1e-7)


def test_a_dut_that_carried_nothing_reaches_nothing(texts: Texts) -> None:
    found = number(None, 0.0, 1000.0, qualifiers=("at most",))
    assert met(found, at_least=1.0) is False
    assert met(found, at_most=2000.0)
    texts.check(judge_metric(expected(at_least=1), found, "f").text)


def test_a_ratio_has_an_interval_of_its_own(texts: Texts) -> None:
    ours, theirs = number(900.0, 900.0, 990.0), number(300.0, 300.0, 330.0, scenario="pvp_ovs")
    judged = judge_metric(expected(at_least=3), ours, "f", theirs)
    assert judged.met
    texts.check(judged.text)
    assert met(ours, theirs, at_least=3, certain=True) is False
    assert met(ours, theirs, at_most=3.1)
    assert met(ours, theirs, at_most=3.1, certain=True) is False


def test_no_ratio_is_shown_to_what_is_open_above() -> None:
    ours, theirs = number(900.0, 900.0, 990.0), number(100.0, 100.0, inf, scenario="pvp_ovs")
    assert met(ours, theirs, at_least=3) is False
    assert met(ours, theirs, at_most=10.0)


@pytest.mark.parametrize("base", [number(0.0, 0.0, 0.0), number(None, bounds=None, why="x")])
def test_nothing_is_a_multiple_of_nothing(base: Metric, texts: Texts) -> None:
    judged = judge_metric(expected(at_least=3), number(9.0, 9.0, 9.0), "f", base)
    assert judged.met is False
    texts.check(judged.text)


def test_repeats_are_judged_by_their_mean_and_tell_n() -> None:
    found = number(100.0, 100.0, 102.0, over=repeated(100.0, 80.0, 130.0))
    judged = judge_metric(expected(at_least=103.0), found, "f")
    assert judged.met
    assert ", n = 3: as expected" in judged.text
    assert met(found, at_least=103.0, certain=True) is False


def test_a_mean_is_open_by_what_its_rounds_leave_open_and_not_up_to_the_largest() -> None:
    values = (9.9, 10.0, 10.0, 10.0, 10.0, 10.1, 10.0, 10.0, 10.0, 11.0)
    exact, _ = average_repeats(number(10.0, 10.0, 10.0, over=repeated(*values)))
    found = spread(values)
    assert exact.high == found.high
    each = tuple(
        Observation(round=n, value=v, low=v, high=v + 0.1) for n, v in enumerate(values, 1)
    )
    over = RepeatedNumber(label="ndr", unit="fps", observations=each, spread=found)
    searched, _ = average_repeats(number(10.0, 10.0, 10.1, over=over, resolution=0.1))
    assert found.high is not None
    assert searched.high == pytest.approx(found.high + 0.1)


def test_a_round_that_was_cut_off_leaves_open_what_it_did() -> None:
    each = tuple(
        Observation(round=n, value=1e6, low=1e6, high=1.9e6 if n == 3 else 1.005e6)
        for n in range(1, 5)
    )
    over = RepeatedNumber(label="ndr", unit="fps", observations=each, spread=spread([1e6] * 4))
    found = number(1e6, 1e6, 1.005e6, over=over, resolution=5e3)
    assert met(found, at_most=1.2e6)
    assert met(found, at_most=1.2e6, certain=True) is False
    assert met(found, at_most=1.91e6, certain=True)


def test_nothing_is_certain_where_a_deployment_gave_no_result() -> None:
    found = number(100.0, 100.0, 102.0, partial="measured in 3 of 5 deployments")
    assert met(found, at_least=90.0)
    assert met(found, at_least=90.0, certain=True) is False


def test_a_limit_among_deployments_leaves_no_mean_to_judge() -> None:
    each = (
        Observation(round=1, value=100.0, low=100.0, high=102.0),
        Observation(round=2, value=500.0, low=500.0, qualifier="at least"),
    )
    found = number(
        100.0, 100.0, 102.0, over=RepeatedNumber(label="ndr", unit="fps", observations=each)
    )
    assert met(found, at_least=90.0)
    assert met(found, at_least=110.0) is False
    assert met(found, at_most=200.0) is False


def test_what_was_not_measured_fails_with_its_reason() -> None:
    judged = judge_metric(expected(at_least=1), number(None, bounds=None, why="no\nroom"), "f")
    assert judged.met is False
    assert judged.text.endswith("was not measured: no")


def test_a_number_that_is_not_repeatable_proves_its_range_only() -> None:
    found = number(1.0e6, 0.55e6, 1.02e6, qualifiers=("not repeatable",))
    assert met(found, at_least=0.5e6)
    assert met(found, at_least=0.9e6) is False
    assert met(found, at_most=1.01e6) is False
    assert met(found, at_most=1.1e6)


def stored(folder: Path) -> RunResults:
    bench = Bench(folder, FakeAgent(duts=(SimulatedDut(1e6), SimulatedDut(1e6))))
    bench.throughput()
    bench.run.close()
    return bench.derived()


def transfers(
    run: RunResults,
    seconds: float = 5.0,
    instances: int = 1,
    **rates: float | tuple[float | None, ...],
) -> RunResults:
    """The run with a transfer of each vSwitch, in one deployment or several."""
    spec = TransferSpec(kind="TCP_STREAM", way="forth", duration_s=seconds, instances=instances)
    every = []
    for name, given_ in rates.items():
        values = given_ if isinstance(given_, tuple) else (given_,)
        *earlier, last = (Transfer(spec=spec, bits_per_second=value) for value in values)
        scenario = f"v2v_{name},endpoints"
        every.append(Transfers(scenario=scenario, transfers=(last,), earlier=tuple(earlier)))
    return run.model_copy(update={"transfers": tuple(every), "results": (), "scenarios": ()})


def test_transfers_of_several_deployments_are_judged_by_their_mean(tmp_path: Path) -> None:
    (tmp_path / "e.toml").write_text(
        '[[expect]]\nscenario = "v2v_*"\ntest = "transfers"\nnumber = "TCP*"\nat_least = 1.5e9\n'
    )
    run = transfers(stored(tmp_path), ovs=(2e9, 2e9, 2e9, 2e9, 1e9), bridge=(1e9, 1e9, 1e9, 2e9))
    good, bad = Expectations.load(tmp_path / "e.toml").judge_run(run)
    assert (good.met, bad.met) == (True, False)
    assert "n = 5" in str(good)


def test_transfers_at_other_rates_are_other_numbers(tmp_path: Path) -> None:
    """Two offered rates of UDP have one name, and rounds of their own."""
    (tmp_path / "e.toml").write_text(
        '[[expect]]\nscenario = "v2v_*"\ntest = "transfers"\nnumber = "UDP_STREAM forth"\n'
        "at_least = 0.9e9\n"
    )
    of = {"kind": "UDP_STREAM", "way": "forth", "duration_s": 1}
    slow = TransferSpec(**of, rate_bps=1e6)
    fast = TransferSpec(**of, rate_bps=1e9)
    every = (Transfer(spec=slow, bits_per_second=1e6), Transfer(spec=fast, bits_per_second=1e9))
    run = stored(tmp_path).model_copy(
        update={
            "transfers": (Transfers(scenario="v2v_ovs", transfers=every, earlier=every * 2),),
            "results": (),
            "scenarios": (),
        }
    )
    judged = Expectations.load(tmp_path / "e.toml").judge_run(run)
    assert [one.met for one in judged] == [False, True]
    assert all("n = 3" in str(one) for one in judged)


def test_a_transfer_that_a_deployment_did_not_report_is_not_certain(
    tmp_path: Path, texts: Texts
) -> None:
    (tmp_path / "e.toml").write_text(
        '[[expect]]\nscenario = "v2v_*"\ntest = "transfers"\nnumber = "TCP*"\nat_least = 1e9\n'
        "certain = true\n"
    )
    run = transfers(stored(tmp_path), ovs=(2e9, None, 2e9))
    (judged,) = Expectations.load(tmp_path / "e.toml").judge_run(run)
    assert judged.met is False
    texts.check(str(judged))


@pytest.mark.parametrize("instances", [1, 8])
def test_a_transfer_that_failed_is_no_number_that_was_not_looked_for(
    instances: int, tmp_path: Path, texts: Texts
) -> None:
    (tmp_path / "e.toml").write_text(
        '[[expect]]\nscenario = "v2v_*"\ntest = "transfers"\nnumber = "TCP*"\nat_least = 1e9\n'
        "certain = true\n"
    )
    failed = Result(
        scenario="v2v_ovs,endpoints",
        test="TCP_STREAM forth",
        frame_size=0,
        status="not measured",
        of="8 instances" if instances == 8 else "",
        why="no route",
        failed=True,
        deployments=Deployments(
            planned=4, attempted=2, measured=0, failures={1: "no route", 3: "no route"}
        ),
    )
    run = transfers(stored(tmp_path)).model_copy(update={"results": (failed,)})
    (judged,) = Expectations.load(tmp_path / "e.toml").judge_run(run)
    assert judged.met is False
    texts.check(str(judged), "failed")
    # In another deployment it worked.
    run = transfers(run, instances=instances, ovs=(2e9, 2e9))
    run = run.model_copy(update={"results": (failed,)})
    (judged,) = Expectations.load(tmp_path / "e.toml").judge_run(run)
    assert judged.met is False
    texts.check(str(judged), "failed in some")
    assert ("TCP_STREAM forth, 8 instances" in str(judged)) is (instances == 8)
    # In one deployment it worked, so that another one of its name has failed: of more clients.
    once = Deployments(planned=1, attempted=1, measured=0, failures={1: "no route"})
    other = failed.model_copy(update={"deployments": once})
    run = transfers(run, instances=instances, ovs=2e9).model_copy(update={"results": (other,)})
    text = (tmp_path / "e.toml").read_text()
    (tmp_path / "e.toml").write_text(text.replace("certain = true\n", ""))
    judged = Expectations.load(tmp_path / "e.toml").judge_run(run)
    assert sorted(one.met for one in judged) == [False, True]


def test_a_round_of_a_transfer_that_failed_leaves_the_others_comparable() -> None:
    good = number(1e9, test="transfers", label="TCP_STREAM forth", conditions={"seconds": 5})
    failed = number(None, test="transfers", label="TCP_STREAM forth", why="no route", bounds=None)
    assert describe_incomparability([good, good, failed], [good, good]) == ""
    other = number(1e9, test="transfers", label="TCP_STREAM forth", conditions={"seconds": 60})
    assert "seconds is 5 in A and 60 in B" in describe_incomparability([good, failed], [other])


def test_a_misspelt_number_is_answered_with_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "e.toml").write_text(
        '[[expect]]\nscenario = "v2v_*"\ntest = "transfers"\nnumber = "TPC*"\nat_least = 1\n'
        '[[expect]]\nscenario = "pvp_*"\nnumber = "nrd"\nat_least = 1\n'
    )
    run = transfers(stored(tmp_path), ovs=2e9)
    misspelt, absent = Expectations.load(tmp_path / "e.toml").judge_run(run)
    assert misspelt.met is absent.met is None
    assert "'TPC*'" in str(misspelt)
    assert "TCP_STREAM forth" in str(misspelt)
    assert "this run has no result" in str(absent)


def test_what_has_no_name_where_runs_are_compared_is_not_expected(tmp_path: Path) -> None:
    run = stored(tmp_path)
    told = [Metric(scenario="pvp_dpdk", test="back_to_back", size="64", name="time", unit="s",
                   value=1e-4, why="one search is open")]  # fmt: skip
    (tmp_path / "e.toml").write_text(
        '[[expect]]\nscenario = "pvp_dpdk"\ntest = "back_to_back"\nnumber = "burst"\nat_least = 1\n'
    )
    expectations = Expectations.load(tmp_path / "e.toml")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vnetperf.analysis.thresholds.compared_metrics", lambda _: iter(told))
        (judged,) = expectations.judge_run(run)
    assert judged.met is None


@pytest.mark.parametrize(
    ("keys", "met"),
    [
        ("at_least = 1e9", [True]),
        ("at_least = 3e9", [False]),
        ('at_least = 1.5\nof_scenario = "v2v_bridge,endpoints"', [True]),
        ('at_least = 1.5\nof_scenario = "v2v_vpp,endpoints"', [None]),
        ('at_least = 0.4\nat_most = 0.6\nof_run = "before"\nacross = true', [True]),
    ],
)
def test_what_sockets_did_is_judged_when_the_run_is_over(
    tmp_path: Path, keys: str, met: list[bool | None]
) -> None:
    run = stored(tmp_path)
    text = '[[expect]]\nscenario = "v2v_ovs*"\ntest = "transfers"\nnumber = "TCP_STREAM forth"\n'
    (tmp_path / "e.toml").write_text(text + keys.replace("before", str(tmp_path)))
    expectations = Expectations.load(tmp_path / "e.toml")
    expectations.baselines.update(dict.fromkeys(expectations.baselines, transfers(run, ovs=4e9)))
    judged = expectations.judge_run(transfers(run, bridge=1e9, ovs=2e9))
    assert [one.met for one in judged] == met


MPI = Transfer(
    spec=TransferSpec(kind="MPI_BARRIER", tool="osu", duration_s=5, pods=4),
    operation_us={"mean": 20.0, "99": 80.0},
)
GUEST = Transfer(
    spec=TransferSpec(kind="GUEST_CPU", tool="sysbench", duration_s=5),
    events_per_second=600.0,
    on_host=Figures(events_per_second=1000.0),
)


@pytest.mark.parametrize(
    ("transfer", "keys", "met"),
    [
        (MPI, 'number = "MPI_BARRIER time"\nat_most = 25000', True),
        (MPI, 'number = "MPI_BARRIER time p99"\nat_most = 25000', False),
        (GUEST, 'number = "GUEST_CPU"\nat_least = 600', True),
        (GUEST, 'number = "GUEST_CPU of the host\'s"\nat_least = 0.7', False),
    ],
)
def test_messages_of_mpi_and_speeds_of_guests_are_judged(
    tmp_path: Path, transfer: Transfer, keys: str, met: bool
) -> None:
    text = '[[expect]]\nscenario = "bmp2bmp_*"\ntest = "transfers"\n'
    (tmp_path / "e.toml").write_text(text + keys)
    found = (Transfers(scenario="bmp2bmp_bridge,endpoints", transfers=(transfer,)),)
    run = stored(tmp_path).model_copy(update={"transfers": found})
    (judged,) = Expectations.load(tmp_path / "e.toml").judge_run(run)
    assert judged.met is met


@pytest.mark.parametrize(("removed", "met"), [(0.4, True), (2.5, False), (None, None)])
def test_how_long_a_pod_takes_is_judged(
    tmp_path: Path, removed: float | None, met: bool | None
) -> None:
    """Of the pod that was attached last, once it is gone: a run that was ended says nothing."""
    (tmp_path / "e.toml").write_text(
        '[[expect]]\nscenario = "v2v_cni*"\ntest = "pods"\nnumber = "pod removal"\nat_most = 1\n'
    )
    pod = {POD_ATTACHED: 0.2, **({} if removed is None else {POD_REMOVED: removed})}
    facts = {"vswitch": {"pods": {"pod0": {POD_ATTACHED: 9.0, POD_REMOVED: 9.0}, "pod1": pod}}}
    if removed is None:
        del facts["vswitch"]["pods"]["pod0"]
    found = (ScenarioFacts(scenario="v2v_cni,endpoints", facts=facts),)
    run = stored(tmp_path).model_copy(update={"scenarios": found})
    (judged,) = Expectations.load(tmp_path / "e.toml").judge_run(run)
    assert judged.met is met


def test_a_transfer_is_no_multiple_of_one_under_other_conditions(
    tmp_path: Path, texts: Texts
) -> None:
    run = stored(tmp_path)
    (tmp_path / "e.toml").write_text(
        '[[expect]]\nscenario = "v2v_ovs*"\ntest = "transfers"\nnumber = "TCP*"\n'
        f'at_least = 0.5\nacross = true\nof_run = "{tmp_path}"\n'
    )
    expectations = Expectations.load(tmp_path / "e.toml")
    then = transfers(run, seconds=60.0, ovs=2e9)
    expectations.baselines.update(dict.fromkeys(expectations.baselines, then))
    (judged,) = expectations.judge_run(transfers(run, ovs=2e9))
    assert judged.met is False
    texts.check(str(judged))


def test_a_throughput_is_no_multiple_of_one_of_another_goal(tmp_path: Path) -> None:
    """Zero loss in one trial of 60 s and a loss that may be exceeded have the name "throughput"."""
    run = stored(tmp_path)
    (tmp_path / "e.toml").write_text(
        f'[[expect]]\nscenario = "pvp_*"\nat_least = 0.5\nacross = true\nof_run = "{tmp_path}"\n'
    )
    (result,) = run.results
    goals = tuple(g.model_copy(update={"exceed_ratio": 0.1}) for g in result.goals)
    then = run.model_copy(update={"results": (result.model_copy(update={"goals": goals}),)})
    for before, wanted in ((run, True), (then, False)):
        expectations = Expectations.load(tmp_path / "e.toml")
        expectations.baselines.update(dict.fromkeys(expectations.baselines, before))
        judged = expectations.judge_run(run, cases_too=True)
        assert {one.met for one in judged} == {wanted}
    assert ("different conditions" in str(judged[0])) is not wanted
    assert ("exceed ratio" in str(judged[0])) is not wanted


def test_of_two_modes_the_lower_one_proves_at_least(tmp_path: Path, texts: Texts) -> None:
    """No deployment had their mean."""
    (tmp_path / "e.toml").write_text(
        '[[expect]]\nscenario = "v2v_*"\ntest = "transfers"\nnumber = "TCP*"\nat_least = 1e9\n'
    )
    run = transfers(stored(tmp_path), ovs=(0.5e9, 1.8e9, 0.5e9, 1.8e9, 1.8e9))
    (judged,) = Expectations.load(tmp_path / "e.toml").judge_run(run)
    assert judged.met is False
    texts.check(str(judged))


def test_bounds_may_have_the_unit_of_the_number() -> None:
    rate = number(1e6, 1e6, 1e6)
    assert met(rate, at_least="0.5 Mfps")
    assert met(rate, at_least="14.88 Mpps") is False
    latency = number(9_000.0, 9_000.0, 9_000.0, unit="ns", better="less", test="latency")
    assert met(latency, at_most="12.5 us")
    assert met(latency, at_most="8 us") is False
    share = number(0.002, 0.002, 0.002, unit="ratio", better="less")
    assert met(share, at_most="0.3%")
    assert met(share, at_most="0.1 %") is False


def test_a_bound_of_another_unit_is_said_and_not_met(texts: Texts) -> None:
    judged = judge_metric(expected(at_least="12 us"), number(1e6, 1e6, 1e6), "f")
    assert judged.met is False
    texts.check(judged.text)


@pytest.mark.parametrize(
    "bounds",
    [
        {"at_least": "many"},
        {"at_least": "2 Mfps", "at_most": "3 s"},
        {"at_least": "2 Mfps", "of_scenario": "pvp_vpp"},
    ],
)
def test_a_bound_that_is_no_number_is_refused(bounds: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"at_least"):
        expected(**bounds)
