"""What is done to all VNFs at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from vnetperf.deployment.deploy import run_all, run_all_to_end
from vnetperf.model.errors import DutError


def _fail(what: str) -> None:
    raise DutError(what)


def test_calls_meet() -> None:
    meeting = threading.Barrier(8, timeout=20)
    run_all([partial(meeting.wait)] * 8)
    assert run_all_to_end([partial(meeting.wait)] * 8) == []


def test_the_first_error_ends_the_waiting() -> None:
    never = threading.Event()
    try:
        with pytest.raises(DutError, match="guest 5"):
            run_all([partial(never.wait)] * 5 + [partial(_fail, "guest 5")])
    finally:
        never.set()


@pytest.mark.parametrize("others", [0, 3])
def test_every_call_is_made_whatever_others_raise(others: int) -> None:
    made: list[int] = []
    calls: list[Callable[[], object]] = [partial(made.append, n) for n in range(others)]
    errors = run_all_to_end(
        [partial(_fail, "a"), *calls, *([partial(_fail, "b")] if others else [])]
    )
    assert [str(error) for error in errors] == (["a", "b"] if others else ["a"])
    assert sorted(made) == list(range(others))


def test_nothing_is_an_easy_thing() -> None:
    run_all([])
    assert run_all_to_end([]) == []
