from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from vnetperf.model.errors import ConfigError
from vnetperf.model.parameters import SearchGoal, SearchLimits
from vnetperf.search import make_search

from .support import LIMITS, NDR


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"loss_ratio": 1.0}, "loss_ratio = 1 is not possible; accepted: [0, 1)"),
        ({"loss_ratio": -0.1}, "loss_ratio = -0.1"),
        ({"loss_ratio": float("nan")}, "loss_ratio = nan"),
        ({"exceed_ratio": 1.0}, "exceed_ratio = 1"),
        ({"final_trial_s": 0.0}, "final_trial_s = 0"),
        ({"duration_sum_s": 59.0}, "duration_sum_s = 59 is not possible; accepted: at least"),
        ({"initial_trial_s": 61.0}, "initial_trial_s = 61"),
        ({"width": 0.0}, "width = 0"),
        ({"width": 1.0}, "width = 1"),
        ({"name": " "}, "no goal name"),
    ],
)
def test_an_impossible_goal_is_refused_with_one_message(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        SearchGoal(**{"name": "NDR", **changes})
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "values",
    [
        {"min_load_fps": 0.0, "max_load_fps": 1.0},
        {"min_load_fps": 2.0, "max_load_fps": 2.0},
        {"min_load_fps": 1.0, "max_load_fps": float("inf")},
        {"min_load_fps": 1.0, "max_load_fps": 2.0, "max_trial_seconds": 0.0},
    ],
)
def test_impossible_limits_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="search limits"):
        SearchLimits(**values)


def test_every_attribute_of_goals_and_limits_has_a_docstring() -> None:
    for model in (SearchGoal, SearchLimits):
        lines = inspect.getsource(model).splitlines()
        for attribute in dataclasses.fields(model):
            at = next(
                i for i, line in enumerate(lines) if line.startswith(f"    {attribute.name}:")
            )
            assert lines[at + 1].startswith('    """'), attribute.name


def test_a_settings_model_holds_goals_and_refuses_misspelt_keys() -> None:
    class Preset(BaseModel):
        goals: tuple[SearchGoal, ...]

    preset = Preset.model_validate({"goals": [{"name": "NDR", "width": 0.01}]})
    assert preset.goals == (SearchGoal(name="NDR", width=0.01),)
    with pytest.raises(ValidationError, match="loss_ration"):
        Preset.model_validate({"goals": [{"name": "NDR", "loss_ration": 0.0}]})


def test_a_search_is_made_by_name() -> None:
    assert next(make_search("mlr", [NDR], LIMITS)).load_fps == LIMITS.max_load_fps
    assert next(make_search("binary", [NDR], LIMITS)).load_fps == LIMITS.max_load_fps


def test_an_unknown_search_names_those_accepted() -> None:
    with pytest.raises(ConfigError, match="'bisect'") as caught:
        make_search("bisect", [NDR], LIMITS)
    assert caught.value.accepted.startswith("binary, mlr")


@pytest.mark.parametrize("goals", [[], [NDR, NDR]])
def test_goals_need_names_of_their_own(goals: list[SearchGoal]) -> None:
    with pytest.raises(ConfigError, match="a name of its own"):
        make_search("mlr", goals, LIMITS)
