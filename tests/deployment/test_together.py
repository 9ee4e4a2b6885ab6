"""What is done to all VNFs at once, and whose error counts when parts fail together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from vnetperf.deployment.deploy import LiveDeployment, run_all, run_all_to_end
from vnetperf.model.errors import DutError, GeneratorError
from vnetperf.model.scenario import Plan


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


def test_a_switch_that_died_is_named_rather_than_the_tester_that_missed_it() -> None:
    def refuse(_ends: object) -> None:
        raise GeneratorError("loadgen ended by exit code 1", where="loadgen.log")

    def dead() -> None:
        raise DutError("ovs-vswitchd ended by signal SIGSEGV", where="ovs-vswitchd.log")

    deployment = LiveDeployment.__new__(LiveDeployment)
    scenario = SimpleNamespace(generator="loadgen")
    deployment.plan = cast(
        "Plan", SimpleNamespace(sends_frames=True, has_dut=True, scenario=scenario)
    )
    deployment.generator = cast("Any", SimpleNamespace(connect=refuse))
    deployment.vswitch = cast("Any", SimpleNamespace(check_alive=dead))
    deployment.tester_ends = ()
    with pytest.raises(DutError, match="SIGSEGV"):
        deployment.connect_tester()
