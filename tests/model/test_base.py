"""What every value of the project has in common."""

from __future__ import annotations

import pytest

from vnetperf.model.base import Frozen
from vnetperf.model.testbed import Testbed
from vnetperf.model.trial import TrialRequest, TrialResult

REQUEST = TrialRequest(load_fps=1e6, duration_s=1.0)


def test_a_copy_has_other_values_of_some_fields() -> None:
    assert REQUEST.model_copy(update={"duration_s": 2.0}) == TrialRequest(
        load_fps=1e6, duration_s=2.0
    )
    assert REQUEST.model_copy() == REQUEST


@pytest.mark.parametrize("model", [REQUEST, TrialResult(directions=())])
def test_a_copy_with_a_field_that_the_model_does_not_have_is_refused(model: Frozen) -> None:
    with pytest.raises(TypeError, match="has no field durations"):
        model.model_copy(update={"durations": 1.0})


def test_a_testbed_may_be_copied_with_tables_of_backends() -> None:
    """They are fields of their plugins."""
    assert Testbed().model_copy(update={"mine": {"socket": 1}}).model_extra == {
        "mine": {"socket": 1}
    }
