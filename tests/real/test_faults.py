"""What is stopped, or flaps, in the middle of a measurement is named in the same trial."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.real.conftest import UserRun, pids_of
from tests.real.test_bad_luck import Start, Unchanged, agents, trials

#: Longest time from a fault to its record in the log, seconds.
NOTICED_S = 10.0


def is_logged(records: list[dict[str, Any]], words: str) -> bool:
    return any(words in r.get("reason", "") for r in records if r["type"] == "trial")


def notice(run: UserRun, act: Callable[[], None], words: str) -> float:
    """Seconds from an act in the middle of a trial until the log has its cause."""
    run.wait_for(lambda records: trials(records) >= 2)
    act()
    began = time.monotonic()
    while not is_logged(run.records(), words):
        assert time.monotonic() - began < NOTICED_S, run.finish() and run.output
        assert run.process.poll() is None, run.finish() and run.output
        time.sleep(0.02)
    return time.monotonic() - began


@pytest.mark.parametrize(
    ("victim", "words", "verdict"),
    [
        ("ovs-vswitchd-dpdk unix:", "ovs-vswitchd (pid {}) is stopped", "DUT_FAILED"),
        ("dpdk-testpmd", "vnf0 (dpdk-testpmd) (pid {}) is stopped", "DUT_FAILED"),
        ("--rx-burst=", "the engine (pid {}) is stopped", "GENERATOR_LIMITED"),
    ],
    ids=["vswitch", "vnf", "engine"],
)
def test_a_part_that_is_stopped_is_named_and_is_no_loss(
    victim: str, words: str, verdict: str, start: Start, unchanged: Unchanged
) -> None:
    run = start("-k", "pvp_dpdk", "--frame-sizes=64")
    stopped: list[int] = []

    def stop() -> None:
        stopped.extend(pids_of(victim))
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)

    notice(run, stop, "is stopped")
    assert run.finish() == 1
    assert "Traceback" not in run.output
    (found,) = [r for r in run.records() if r["type"] == "trial" and "is stopped" in r["reason"]]
    assert words.format(stopped[0]) in found["reason"]
    assert found["verdict"] == verdict
    lost = [r["result"]["directions"] for r in run.records() if r["type"] == "trial"]
    assert all(d["received"] for directions in lost for d in directions)  # none lost everything
    (result,) = run.json()["results"]
    assert result["status"] == "not measured"
    assert unchanged() == ()


def test_an_agent_that_is_stopped_is_named_and_ended(start: Start, unchanged: Unchanged) -> None:
    run = start("-k", "pvp_dpdk", "--frame-sizes=64,1518")
    run.wait_for(lambda records: trials(records) >= 2)
    (agent,) = agents(run.process.pid)
    os.kill(agent, signal.SIGSTOP)
    assert run.finish() == 1
    first, second = run.json()["results"]
    assert f"the agent (pid {agent}) is stopped" in first["why"], run.output
    assert second["status"] == "measured", run.output  # the next case was deployed anew
    assert "Traceback" not in run.output
    assert unchanged() == ()
