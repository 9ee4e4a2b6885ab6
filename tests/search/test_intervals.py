"""Searches on a tester that falls short and stands still: they end, and claim nothing untrue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.search.support import NDR, PDR, STEPPED, STRICT, TST009, goals, lower_fps, upper_fps
from tests.texts import Texts
from vnetperf.model.parameters import SearchGoal, SearchLimits, SweepInputs
from vnetperf.model.trial import (
    DirectionCounts,
    LossInterval,
    PortCounts,
    TrialOutcome,
    TrialRequest,
    TrialResult,
    TrialSpec,
)
from vnetperf.runner.verdict import judge
from vnetperf.search import Search, SearchOutcome, StopSearch, make_search, replay
from vnetperf.search.classification import (
    FAR_SHORT,
    Criterion,
    DurationSums,
    History,
    LoadClass,
)
from vnetperf.search.mlr import best_bounds, derive_targets
from vnetperf.search.session import Budget, GeometricGrid, SearchSession

TOLERANCE = 0.0005
TRIES = 4
#: More trials than any search of these goals needs: one that asks for more would never end.
ENDLESS = 20_000
LIMITS = replace(STEPPED, tries=TRIES)
ALGORITHM = st.sampled_from(["mlr", "binary", "tst009"])


@dataclass
class Weather:
    """A DUT that forwards its capacity, behind a tester that leaves frames out and loses some.

    Attributes:
        capacity_fps: What the DUT forwards, frames/s.
        most_fps: Most that the tester offers, frames/s.
        shorts: Shares of the load that it leaves unsent, one drawn for each trial.
        losses: Shares of what came back that its port loses, likewise.
        seed: Of what is drawn.
    """

    capacity_fps: float
    most_fps: float = float("inf")
    shorts: Sequence[float] = (0.0,)
    losses: Sequence[float] = (0.0,)
    seed: int = 0
    log: list[TrialOutcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    def run(self, request: TrialRequest) -> TrialOutcome:
        """One trial, judged as a run judges it."""
        seconds = request.duration_s
        intended = max(1, round(request.load_fps * seconds))
        sent = min(intended, int(self.most_fps * seconds)) if self.most_fps < 1e12 else intended
        sent = round(sent * (1 - self._random.choice(self.shorts)))
        forwarded = min(sent, int(self.capacity_fps * seconds))
        missed = round(forwarded * self._random.choice(self.losses))
        counts = DirectionCounts(
            direction=0,
            intended=intended,
            sent=sent,
            refused=0,
            unsent=intended - sent,
            received=forwarded - missed,
            tx_seconds=seconds,
        )
        result = TrialResult(directions=(counts,), tester=(PortCounts(port=1, missed=missed),))
        spec = TrialSpec(frame_size=64, offered_tolerance=TOLERANCE, **request.model_dump())
        verdict, _ = judge(
            result,
            TOLERANCE,
            request.classifies,
            request.loss_limits,
            overload=request.overload,
        )
        self.log.append(TrialOutcome.of(spec, result, verdict, number=len(self.log) + 1))
        return self.log[-1]


def drive(search: Search, weather: Weather) -> tuple[SearchOutcome, str]:
    """Run a search as the conductor does; its outcome, and why it was stopped."""
    stopped = ""
    try:
        request = next(search)
        while len(weather.log) < ENDLESS:
            for _ in range(TRIES):
                if (outcome := weather.run(request)).answers(request):
                    request = search.send(outcome)
                    break
            else:
                assert request.phase  # a search itself takes every trial
                stopped = f"{outcome.verdict}"
                request = search.throw(StopSearch(stopped))
    except StopIteration as end:
        return end.value, stopped
    raise AssertionError(f"the search goes on after {ENDLESS} trials: {request}")


SHARES = st.lists(st.sampled_from([0.0, 0.0003, 0.001, 0.0065, 0.02, 0.3]), min_size=1, max_size=5)


@st.composite
def weathers(draw: st.DrawFn) -> Weather:
    top = LIMITS.max_load_fps
    return Weather(
        top * draw(st.floats(5e-4, 1.3)),
        most_fps=draw(st.sampled_from([float("inf"), 0.6 * top, 0.05 * top, 5e3])),
        shorts=draw(SHARES),
        losses=draw(SHARES),
        seed=draw(st.integers(0, 999)),
    )


@settings(max_examples=150, deadline=None)
@given(
    algorithm=ALGORITHM,
    wanted=st.lists(goals(), min_size=1, max_size=2),
    weather=weathers(),
    sweeps=st.booleans(),
    warms=st.booleans(),
)
def test_a_search_ends_and_claims_nothing_that_the_dut_does_not_do(
    *, algorithm: str, wanted: list[SearchGoal], weather: Weather, sweeps: bool, warms: bool
) -> None:
    wanted = [replace(goal, name=f"goal {n}") for n, goal in enumerate(wanted)]
    limits: SearchLimits = replace(
        LIMITS, sweep=SweepInputs() if sweeps else None, warm_up_s=3.0 if warms else 0.0
    )
    outcome, stopped = drive(make_search(algorithm, wanted, limits), weather)
    for goal, result in zip(wanted, outcome.results, strict=True):
        rounding = 1 + 2 / (weather.capacity_fps * goal.initial_trial_s)
        if result.relevant_lower_bound is not None:
            # The whole load, as far as a load is accurate, loses no more than the goal allows.
            carried = lower_fps(result) * (1 - goal.loss_ratio) * (1 - TOLERANCE)
            assert carried <= weather.capacity_fps * rounding
        if result.relevant_upper_bound is not None:
            left = upper_fps(result) * (1 - goal.loss_ratio) * rounding
            assert left >= weather.capacity_fps * (1 - 1e-9)
        rate = result.conditional_throughput_fps
        if rate is not None:
            assert rate <= min(weather.capacity_fps, weather.most_fps) * rounding / (1 - TOLERANCE)
        assert result.reason or result.regular
        if result.at_least:
            assert result.relevant_lower_bound is not None
            assert result.relevant_upper_bound is None
    again = replay(make_search(algorithm, wanted, limits), weather.log)
    if stopped:
        assert again.next_request is not None
    else:
        assert again.outcome == outcome


@settings(deadline=None)
@given(ALGORITHM, st.floats(1e5, 1e7), st.integers(0, 999))
def test_trials_that_are_short_by_a_little_cost_a_goal_that_tolerates_it_nothing(
    algorithm: str, capacity: float, seed: int
) -> None:
    """What is open is a load within 0.1 % of the truth; MLRsearch has loads beside it."""
    weather = Weather(capacity, shorts=(0.0, 0.001, 0.001), seed=seed)
    outcome, _ = drive(make_search(algorithm, [PDR], LIMITS), weather)
    result = outcome.result("PDR")
    assert result.regular or (algorithm != "mlr" and "decided nothing" in result.reason)
    assert not result.at_least
    step = 100_000.0 if algorithm == "tst009" else 0.011 * capacity
    assert lower_fps(result) >= capacity - step


@pytest.mark.parametrize("algorithm", ["mlr", "binary", "tst009"])
@pytest.mark.parametrize("most", [0.3, 0.6])
def test_what_the_generator_offers_is_the_limit_within_a_width(algorithm: str, most: float) -> None:
    top = LIMITS.max_load_fps
    weather = Weather(0.9 * top, most_fps=most * top)
    outcome, _ = drive(make_search(algorithm, [STRICT], LIMITS), weather)
    (result,) = outcome.results
    assert result.at_least
    assert result.relevant_upper_bound is None
    assert 0.985 * most * top <= lower_fps(result) <= most * top * (1 + TOLERANCE)
    assert "offered" in result.reason


@pytest.mark.parametrize("algorithm", ["mlr", "binary", "tst009"])
def test_a_load_out_of_reach_is_given_up_by_two_trials_of_any_length(algorithm: str) -> None:
    """Far fewer frames come of it than a stall leaves out; longer trials would offer no more."""
    top = LIMITS.max_load_fps
    goal = replace(STRICT, initial_trial_s=0.5, final_trial_s=1.0, duration_sum_s=4.0, width=0.02)
    spent = {}
    for short_tries in (0, 2):
        weather = Weather(0.9 * top, most_fps=0.6 * top)
        limits = replace(LIMITS, short_tries=short_tries)
        outcome, _ = drive(make_search(algorithm, [goal], limits), weather)
        (result,) = outcome.results
        assert result.at_least
        assert "offered" in result.reason
        assert 0.97 * 0.6 * top <= lower_fps(result) <= 0.6 * top * (1 + TOLERANCE)
        far = [t for t in weather.log if t.missing > FAR_SHORT and not t.request.phase]
        loads = {t.request.load_fps for t in far}
        spent[short_tries] = len(far) / max(1, len(loads))
    assert spent[2] <= 2
    assert spent[0] >= spent[2]
    assert spent[0] > spent[2] or algorithm == "mlr"  # which comes there once, from the rate it saw


def stopped_after(trials: int, search: Search, weather: Weather) -> SearchOutcome | None:
    """What a search knows that is stopped after so many trials; None where it ended before."""
    try:
        request = next(search)
        for _ in range(trials):
            request = search.send(weather.run(request))
    except StopIteration:
        return None
    with pytest.raises(StopIteration) as end:
        search.throw(StopSearch("the time is up"))
    found: SearchOutcome = end.value.value
    return found


@pytest.mark.parametrize(
    ("algorithm", "initial_trial_s", "ends"),
    [
        ("mlr", 1.0, True),  # with shorter trials it reaches an end before
        ("binary", 60.0, False),
        ("tst009", 60.0, False),
    ],
)
def test_a_search_that_was_stopped_is_not_at_its_own_end(
    *, algorithm: str, initial_trial_s: float, ends: bool
) -> None:
    """Its bound may be far below what the generator offers, which is not all there is to say."""
    goal = replace(STRICT, initial_trial_s=initial_trial_s)
    most = 0.3 * LIMITS.max_load_fps
    both, limits = 0, 0
    for trials in range(1, ENDLESS):
        weather = Weather(3 * most, most_fps=most)
        outcome = stopped_after(trials, make_search(algorithm, [goal], LIMITS), weather)
        if outcome is None:
            break
        (result,) = outcome.results
        by_generator = "the limit is what the generator offered on its core" in result.reason
        if result.at_least:
            assert lower_fps(result) >= 0.985 * most
            assert by_generator
            assert "maximum load" not in result.reason
            limits += result.goal != goal or "the time is up" in result.reason
        else:
            assert "the time is up" in result.reason
            both += by_generator
    assert (limits > 0, both > 0) == (ends, not ends)


def test_a_loose_bound_below_a_load_given_up_does_not_hide_an_estimate(texts: Texts) -> None:
    top = LIMITS.max_load_fps
    grid = GeometricGrid(LIMITS, TST009.width)
    session = SearchSession(grid, Budget(None), [TST009], TRIES)
    tester, dut = Weather(top, most_fps=0.3 * top), Weather(0.35 * top)

    def tried(weather: Weather, load_fps: float, *durations: float) -> float:
        rung = grid.rung_below(load_fps)
        for seconds in durations:
            request = TrialRequest(load_fps=grid.load(rung), duration_s=seconds)
            session.history.add(rung, weather.run(request))
        return grid.load(rung)

    loose = tried(tester, 0.2 * top, 60.0, 60.0)
    tried(tester, 0.4 * top, *[60.0] * TRIES)
    own = session.result(TST009, "the time is up")
    assert own.relevant_lower_bound is not None
    assert own.relevant_lower_bound.load_fps == loose
    assert not own.at_least
    assert "no upper bound: 4 trials" in own.reason
    assert own.reason.endswith("; the time is up")

    lower = tried(dut, 0.35 * top, 1.0)
    upper = tried(dut, lower * 1.008, 1.0)
    assert upper > lower
    best = best_bounds(TST009, derive_targets(TST009), session, "the time is up")
    assert (lower_fps(best), upper_fps(best)) == (lower, upper)
    texts.check(best.reason)
    assert not best.regular


@pytest.mark.parametrize("algorithm", ["binary", "tst009"])
@pytest.mark.parametrize("most", [0.3, 2.0])
def test_what_stops_one_goal_is_no_reason_of_another(algorithm: str, most: float) -> None:
    top = LIMITS.max_load_fps

    def weather() -> Weather:
        return Weather(0.5 * top, most_fps=most * top, shorts=(0.001,))

    alone = weather()
    outcome, _ = drive(make_search(algorithm, [STRICT], LIMITS), alone)
    goals_ = [STRICT, replace(STRICT, name="next")]
    found = stopped_after(len(alone.log) + 1, make_search(algorithm, goals_, LIMITS), weather())
    assert found is not None
    assert found.results[0] == outcome.results[0]
    assert "decided nothing" in found.results[0].reason
    assert "the time is up" in found.results[1].reason


def test_a_goal_that_stays_open_takes_no_load_from_another() -> None:
    """Always 0.1 % short: 0.5 % is found, no loss is not."""
    weather = Weather(5e6, shorts=(0.001,))
    outcome, _ = drive(make_search("mlr", [NDR, PDR], LIMITS), weather)
    assert outcome.result("NDR").relevant_lower_bound is None
    pdr = outcome.result("PDR")
    assert pdr.regular
    assert lower_fps(pdr) <= 5e6 / 0.995 < upper_fps(pdr)
    tried = [one.load_fps for one in weather.log if not one.loss.decides(0.0)]
    # A load is given up after so many full-length trials; the short one before them is none.
    assert max(map(tried.count, tried)) <= TRIES + PDR.duration_sum_s


def undecided(load_fps: float, seconds: float) -> TrialOutcome:
    request = TrialRequest(load_fps=load_fps, duration_s=seconds)
    return TrialOutcome(request=request, loss_ratio=0.0, interval=LossInterval(0.0, 0.01))


def test_a_trial_that_decides_nothing_adds_to_no_sum() -> None:
    criterion = Criterion.from_goal(replace(STRICT, final_trial_s=1.0, duration_sum_s=1.0))
    assert DurationSums.sum_trials([undecided(1e6, 1.0)] * 9, criterion) == DurationSums()
    history = History()
    for _ in range(TRIES):
        assert not history.gives_up(0, criterion, TRIES)
        history.add(0, undecided(1e6, 1.0))
    assert history.classify(0, criterion) is LoadClass.UNDECIDED
    assert history.gives_up(0, criterion, TRIES)
    assert history.unclassifiable_rungs(criterion, TRIES) == [0]
    assert not history.unclassifiable_rungs(criterion, 0)  # of an older log
    wider = replace(criterion, loss_ratio=0.01)
    assert history.classify(0, wider) is LoadClass.LOWER
    assert not history.gives_up(0, wider, TRIES)


def test_a_load_that_most_trials_decide_is_not_given_up() -> None:
    goal = replace(STRICT, final_trial_s=1.0, duration_sum_s=21.0, exceed_ratio=0.5)
    criterion, history = Criterion.from_goal(goal), History()
    request = TrialRequest(load_fps=1e6, duration_s=1.0)
    for number in range(9):
        history.add(0, TrialOutcome(request=request, loss_ratio=0.0))
        if number < TRIES:
            history.add(0, undecided(1e6, 1.0))
    assert history.classify(0, criterion) is LoadClass.UNDECIDED
    assert not history.gives_up(0, criterion, TRIES)


def test_a_log_of_before_has_no_tries_and_its_searches_are_sent_measurements_alone() -> None:
    request = next(make_search("mlr", [NDR], replace(LIMITS, tries=0)))
    assert request.when_limited == "lower"
    assert next(make_search("mlr", [NDR], LIMITS)).when_limited == "count"
