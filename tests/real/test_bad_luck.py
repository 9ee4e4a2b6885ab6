"""Runs that are killed and go on, and the machine comes back exactly."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import TOP, UserRun, pids_of

Start = Callable[..., UserRun]
Unchanged = Callable[[], tuple[str, ...]]
#: Raise for a soak: TEST_RUN_KILLS=50.
KILLS = int(os.environ.get("TEST_RUN_KILLS", "6"))


def seeds(count: int) -> list[Any]:
    """Numbers of random moments: one for every merge, all of them daily."""
    return [0, *(pytest.param(seed, marks=pytest.mark.daily) for seed in range(1, count))]


def trials(records: list[dict[str, Any]]) -> int:
    return sum(r["type"] == "trial" for r in records)


def interrupt(run: UserRun) -> None:
    os.killpg(run.process.pid, signal.SIGINT)  # as a terminal's Ctrl-C does


def terminate(run: UserRun) -> None:
    run.process.terminate()


def kill(run: UserRun) -> None:
    run.process.kill()


def kill_agent(run: UserRun) -> None:
    deadline = time.monotonic() + 30
    while not (found := agents(run.process.pid)):  # the moment came before it was started
        assert run.process.poll() is None, run.finish() and run.output
        assert time.monotonic() < deadline, "no agent was started"
        time.sleep(0.01)
    for pid in found:
        os.kill(pid, signal.SIGKILL)


def agents(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(entry.name))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(KILLS))
@pytest.mark.parametrize(
    "how",
    # SIGTERM has a handler as SIGINT has: tests/plugin/test_interrupted.py sees both.
    [interrupt, pytest.param(terminate, marks=pytest.mark.daily), kill, kill_agent],
    ids=lambda f: f.__name__,
)
def test_killed_at_a_random_moment(
    how: Callable[[UserRun], None], seed: int, start: Start, unchanged: Unchanged
) -> None:
    moment = random.Random(f"{how.__name__} {seed}").uniform(0.0, 3.5)
    run = start("-k", "pvp_dpdk", "--frame-sizes=64")
    run.wait_until_begun()
    time.sleep(moment)
    assert run.process.poll() is None, run.finish() and run.output
    how(run)
    run.finish()
    assert unchanged() == (), f"after {moment:.2f} s"


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(max(1, KILLS // 2)))
def test_agent_and_guardian_killed_then_restored_and_resumed(
    seed: int, start: Start, unchanged: Unchanged
) -> None:
    # The shorter run for each merge: the guardian undoes the other one, in tests above.
    chosen = ("-k", "pvp_dpdk" if seed else "phy2phy_testpmd", "--frame-sizes=64")
    run = start(*chosen)
    run.wait_for(lambda records: trials(records) >= 1 + seed)
    for pid in [*pids_of("vnetperf.host.guardian"), *agents(run.process.pid)]:
        os.kill(pid, signal.SIGKILL)
    run.process.kill()
    run.finish()
    restored = subprocess.run(
        [sys.executable, "-m", "vnetperf.cli", "restore"],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )
    assert restored.returncode == 0, restored.stderr
    assert unchanged() == ()
    folder = (run.results / "latest").resolve()
    resumed = start(*chosen, f"--resume={folder}")
    assert resumed.finish() == 0, resumed.output
    (result,) = run.json()["results"]
    assert (result["frame_size"], result["status"]) == (64, "measured")
    assert unchanged() == ()


@pytest.mark.daily  # waits for the whole run that it finds
def test_a_second_run_says_who_holds_the_testbed(
    start: Start, tmp_path: Path, unchanged: Unchanged
) -> None:
    impatient = tmp_path / "local.toml"
    impatient.write_text('name = "local"\nisolation = "test"\nlock_timeout_s = 0.5\n')
    first = start("-k", "pvp_dpdk", "--frame-sizes=64,128,256,512,1024,1280,1518")
    first.wait_for(lambda records: trials(records) >= 1)
    (holder,) = agents(first.process.pid)
    second = start("-k", "phy2phy_dpdk", "--frame-sizes=64", f"--testbed={impatient}")
    assert second.finish() == 1
    assert "TestbedBusyError" in second.output
    assert f"pid {holder}" in second.output
    assert first.finish() == 0, first.output


@pytest.mark.daily  # each merge resumes a run of one case, above; of several in tests/results
def test_resume_goes_on_where_a_killed_run_stopped(start: Start, unchanged: Unchanged) -> None:
    first = start("-k", "phy2phy_testpmd", "--frame-sizes=64,1518")
    first.wait_for(lambda records: any(r["type"] == "search-end" for r in records))
    first.wait_for(lambda records: records[-1]["type"] == "trial")
    first.process.kill()
    first.finish()
    done = trials(first.records())
    folder = (first.results / "latest").resolve()
    second = start("-k", "phy2phy_testpmd", "--frame-sizes=64,1518", f"--resume={folder}")
    assert second.finish() == 0, second.output
    records = first.records()
    numbers = [r["number"] for r in records if r["type"] == "trial"]
    assert numbers == sorted(set(numbers))
    assert len(numbers) > done
    results = first.json()["results"]
    assert [r["frame_size"] for r in results if r["status"] == "measured"] == [64, 1518]
    assert unchanged() == ()
