"""Ids, commands, plans and command lines are as they were recorded.

`python -m tests.pins.faces` and `python -m tests.pins.plans` show the differences, and with
`--record` record them once they are wanted.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pins import faces, plans


@pytest.mark.parametrize("name", faces.FACES)
def test_what_users_type_is_as_recorded(name: str) -> None:
    assert faces.differences(name) == []


def test_every_scenario_is_planned_as_recorded(tmp_path: Path) -> None:
    now = plans.lines(plans.plans(tmp_path), tmp_path)
    assert list(plans.differences(plans.recorded(), now)) == []
