"""Kills of whole runs: which trial of a killed part would be a wrong verdict."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import kills
from benchmarks.kill_victims import VICTIMS


def trial(*, verdict: str = "VALID", received: int = 60) -> Any:
    """A trial that began at second 1000, learned for 0.1 s, and then sent for 1 s."""
    return SimpleNamespace(
        started="1970-01-01T00:16:40+00:00",
        spec=SimpleNamespace(learning_wait_s=0.1, duration_s=1.0),
        result=SimpleNamespace(directions=[SimpleNamespace(sent=100, received=received)]),
        verdict=verdict,
    )


@pytest.mark.parametrize(
    ("killed", "wrong"),
    [(1000.05, True), (1000.5, True), (1001.09, False), (999.0, True)],
    ids=["learning", "sending", "its end", "before"],
)
def test_a_valid_trial_with_loss_is_wrong_where_a_part_of_its_path_was_killed(
    killed: float, wrong: bool
) -> None:
    assert kills.is_wrong(trial(), killed) is wrong


def test_a_failed_trial_and_one_without_loss_are_right() -> None:
    assert not kills.is_wrong(trial(verdict="DUT_FAILED"), 1000.5)
    assert not kills.is_wrong(trial(received=100), 1000.5)


def test_kills_of_a_seed_are_the_same_and_each_run_has_its_turn() -> None:
    series = kills.deck(1, (), user=True)
    assert series == kills.deck(1, (), user=True)
    assert series != kills.deck(2, (), user=True)
    assert {run for run, _ in series[: len(kills.RUNS)]} == set(kills.RUNS)
    assert {victim for _, victim in series} == set(VICTIMS)


def test_a_run_of_a_user_is_killed_only_where_there_is_one() -> None:
    assert not any("launcher" in run for run, _ in kills.deck(1, (), user=False))
    user = [victim for run, victim in kills.deck(1, ("launcher",), user=True)]
    assert "sudo KILL" in user
    assert "no space" not in user  # a user mounts nothing
