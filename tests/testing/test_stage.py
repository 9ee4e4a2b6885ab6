"""The repetition of a disturbed trial, with a scripted tester."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from vnetperf.host import snapshot
from vnetperf.host.paths import HostRoots
from vnetperf.model.trial import DirectionCounts, TrialResult
from vnetperf.testing import stage
from vnetperf.testing.stage import ATTEMPTS, ON_TIME_ATTEMPTS, told_apart, whole_trial


def result(*, lost: int = 0, unsent: int = 0, lag_s: float = 0.0) -> TrialResult:
    counts = DirectionCounts(
        direction=0,
        intended=100,
        sent=100 - unsent,
        refused=0,
        unsent=unsent,
        received=100 - unsent - lost,
    )
    return TrialResult(directions=(counts,), max_lag_s=lag_s)


@pytest.mark.parametrize(
    ("each", "all_sent", "trials"),
    [
        (result(), True, 1),
        (result(unsent=5, lag_s=0.02), False, 1),
        (result(unsent=5, lag_s=0.02), True, ATTEMPTS),
        (result(lost=5, lag_s=0.02), False, ATTEMPTS),
        (result(lost=5), False, ATTEMPTS),  # a tester without a record of its lag
        (result(lost=5, lag_s=0.0001), False, ON_TIME_ATTEMPTS),
    ],
)
def test_a_trial_is_repeated_while_it_is_disturbed(
    each: TrialResult, all_sent: bool, trials: int
) -> None:
    runs: list[TrialResult] = []

    def run() -> TrialResult:
        runs.append(each)
        return each

    assert whole_trial(run, all_sent=all_sent) is each
    assert len(runs) == trials


def test_the_first_whole_trial_is_the_result() -> None:
    seen = iter([result(lost=1, lag_s=0.02), result(lost=2, lag_s=0.0001), result(), result()])
    assert whole_trial(lambda: next(seen)).directions[0].received == 100
    assert len(list(seen)) == 1


def test_a_mount_of_another_test_process_is_none_of_a_deployments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = {"/tmp/pytest-of-root/pytest-1/space (42)": "nsfs rw", "/run/x (43)": "nsfs rw"}
    taken = snapshot.Snapshot({"mounts": mounts})
    monkeypatch.setattr(snapshot, "take_snapshot", lambda *_: taken)
    monkeypatch.setattr(stage, "HostRoots", lambda: HostRoots(state=tmp_path, run=tmp_path))
    assert list(stage._machine().areas["mounts"]) == ["/run/x (43)"]


@pytest.mark.parametrize(("worker", "of_others"), [("gw77", True), ("", False)])
def test_what_a_test_beside_left_without_parents_is_of_it(worker: str, of_others: bool) -> None:
    """A guardian whose agent was killed, say: the worker's name is in its environment."""
    env = {**os.environ, **({"PYTEST_XDIST_WORKER": worker} if worker else {})}
    script = "sleep 60 >/dev/null 2>&1 & echo $!"
    done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, check=True)
    pid = int(done.stdout)
    try:
        assert stage.of_other_tests(Path(f"/proc/{pid}")) is of_others
    finally:
        os.kill(pid, signal.SIGKILL)


def test_what_others_changed_meanwhile_is_told_apart() -> None:
    journal = [
        {"kind": "link", "what": "link vp3", "data": {"name": "vp3"}},
        {"kind": "sysctl", "what": "net/ipv4/ip_forward", "data": {"path": "net/ipv4/ip_forward"}},
    ]
    mine = [
        "links: vp3 is new (veth)",
        "sysctl: net/ipv4/ip_forward was 0, is 1",
        "files: /run/vnetperf/r-17/switch.sock is new (0)",
        "processes: 4711 is new (nft -f -)",
    ]
    of_others = ["mounts: /sys/fs/bpf is new (bpf)", "links: docker0 is new (bridge)"]
    assert told_apart([*of_others, *mine], "r-17", journal) == (mine, of_others)
    assert told_apart([], "r-17", journal) == ([], [])
