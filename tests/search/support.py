"""Goals, limits and DUTs that the search tests share."""

from __future__ import annotations

import importlib.util
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import strategies as st

from vnetperf.model.parameters import SearchGoal, SearchLimits, StepInputs
from vnetperf.model.trial import TrialOutcome, TrialRequest
from vnetperf.search import GoalOutcome
from vnetperf.testing.sim import SimulatedDut

MAX_FPS = 14_880_952.0
LIMITS = SearchLimits(min_load_fps=10_000.0, max_load_fps=MAX_FPS)
#: For "tst009" as well; other algorithms do not look at the inputs.
STEPPED = replace(LIMITS, steps=StepInputs(step_fps=100_000.0, max_r=2, z=1000))
STRICT = SearchGoal(name="strict")
NDR = SearchGoal(name="NDR", exceed_ratio=0.5, final_trial_s=1.0, duration_sum_s=21.0)
PDR = SearchGoal(
    name="PDR", loss_ratio=0.005, exceed_ratio=0.5, final_trial_s=1.0, duration_sum_s=21.0
)
TST009 = SearchGoal(name="TST009", exceed_ratio=0.5, duration_sum_s=120.0)


@st.composite
def goals(draw: st.DrawFn, name: str = "goal") -> SearchGoal:
    """Any goal a user may reasonably write."""
    final = draw(st.sampled_from([0.5, 1.0, 7.3, 30.0, 60.0]))
    return SearchGoal(
        name=name,
        loss_ratio=draw(st.sampled_from([0.0, 1e-5, 0.005, 0.1])),
        exceed_ratio=draw(st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.75])),
        final_trial_s=final,
        duration_sum_s=final * draw(st.sampled_from([1.0, 1.5, 2.0, 5.0, 21.0])),
        initial_trial_s=final * draw(st.sampled_from([1.0, 0.5, 0.1, 0.02])),
        width=draw(st.sampled_from([0.1, 0.03, 0.005])),
    )


@st.composite
def duts(draw: st.DrawFn) -> SimulatedDut:
    """DUTs with every vice, from below the minimum load to above the maximum one."""
    capacity = MAX_FPS * draw(st.floats(5e-4, 1.3))
    return SimulatedDut(
        capacity,
        noise=draw(st.sampled_from([0.0, 0.001, 0.01, 0.1])),
        buffer_frames=capacity * draw(st.sampled_from([0.0, 0.001, 0.1])),
        drop_probability=draw(st.sampled_from([0.0, 1e-9, 1e-6])),
        low_capacity_fps=draw(st.sampled_from([None, 0.99, 0.5])) and 0.7 * capacity,
        low_probability=draw(st.sampled_from([0.05, 0.5])),
        overload_cost=draw(st.sampled_from([0.0, 0.7])),
        generator_limit_fps=draw(st.sampled_from([None, 0.6 * MAX_FPS])),
        seed=draw(st.integers(0, 10_000)),
    )


class Whimsical(SimulatedDut):
    """A DUT whose losses have no rhyme or reason: the worst a search can meet."""

    def measure(self, request: TrialRequest) -> TrialOutcome:
        loss = self._random.choice([0.0, 0.0, 1e-6, 0.003, 0.02, 0.5, 1.0])
        return TrialOutcome(request=request, loss_ratio=loss)


def measured(load_fps: float, duration_s: float, loss_ratio: float = 0.0) -> TrialOutcome:
    """A valid trial."""
    request = TrialRequest(load_fps=load_fps, duration_s=duration_s)
    return TrialOutcome(request=request, loss_ratio=loss_ratio)


def lower_fps(result: GoalOutcome) -> float:
    """The relevant lower bound, which must be there."""
    assert result.relevant_lower_bound is not None, result.reason
    return result.relevant_lower_bound.load_fps


def upper_fps(result: GoalOutcome) -> float:
    """The relevant upper bound, which must be there."""
    assert result.relevant_upper_bound is not None, result.reason
    return result.relevant_upper_bound.load_fps


def daily(*values: object) -> Any:
    """A value for the daily lane: each merge has another of its kind."""
    return pytest.param(*values, marks=[pytest.mark.slow, pytest.mark.daily])


def slow(*values: object) -> Any:
    """Values of a test that is tried with others in the fast lane."""
    return pytest.param(*values, marks=pytest.mark.slow)


def load_benchmark() -> ModuleType:
    """Import benchmarks/search.py, which is no package.

    In a thread, whose stack is short: MLRsearch looks up the source of every caller, ten times.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_load_benchmark).result()


def _load_benchmark() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "search.py"
    spec = importlib.util.spec_from_file_location("benchmarks_search", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
