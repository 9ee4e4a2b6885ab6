"""The repetition of a disturbed trial, with a scripted tester."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from pyroute2 import IPRoute

from vnetperf.host import snapshot
from vnetperf.host.linux import call_in_thread, unshare_network
from vnetperf.host.paths import HostRoots
from vnetperf.host.wait import wait_for
from vnetperf.model.trial import DirectionCounts, TrialResult
from vnetperf.testing import stage
from vnetperf.testing.others import Holders, is_other_test, sort_differences
from vnetperf.testing.stage import ATTEMPTS, ON_TIME_ATTEMPTS, repeat_trial


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

    assert repeat_trial(run, all_sent=all_sent) is each
    assert len(runs) == trials


def test_the_first_whole_trial_is_the_result() -> None:
    seen = iter([result(lost=1, lag_s=0.02), result(lost=2, lag_s=0.0001), result(), result()])
    assert repeat_trial(lambda: next(seen)).directions[0].received == 100
    assert len(list(seen)) == 1


def test_a_mount_of_another_test_process_is_none_of_a_deployments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = {"/tmp/pytest-of-root/pytest-1/space (42)": "nsfs rw", "/run/x (43)": "nsfs rw"}
    taken = snapshot.Snapshot({"mounts": mounts})
    monkeypatch.setattr(snapshot, "take_snapshot", lambda *_: taken)
    monkeypatch.setattr(stage, "HostRoots", lambda: HostRoots(state=tmp_path, run=tmp_path))
    assert list(stage.snapshot_machine().areas["mounts"]) == ["/run/x (43)"]


@pytest.mark.parametrize(("worker", "of_others"), [("gw77", True), ("", False)])
def test_what_a_test_beside_left_without_parents_is_of_it(worker: str, of_others: bool) -> None:
    """A guardian whose agent was killed, say: the worker's name is in its environment."""
    env = {**os.environ, **({"PYTEST_XDIST_WORKER": worker} if worker else {})}
    script = "sleep 60 >/dev/null 2>&1 & echo $!"
    done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, check=True)
    pid = int(done.stdout)
    try:
        assert is_other_test(Path(f"/proc/{pid}")) is of_others
    finally:
        os.kill(pid, signal.SIGKILL)


def test_what_a_deployment_left_is_told_from_what_nothing_shows_to_be_anybodys() -> None:
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
    unclear = ["mounts: /sys/fs/bpf is new (bpf)", "links: docker0 is new (bridge)"]
    assert sort_differences([*unclear, *mine], "r-17", journal) == (mine, [], unclear)
    assert sort_differences([], "r-17", journal) == ([], [], [])


#: Holds what its arguments say until its input ends; the first line of its output says it does.
HOLD = """
import ctypes, fcntl, mmap, os, struct, sys
held = []
for kind, name in zip(sys.argv[1::2], sys.argv[2::2]):
    if kind == "file":
        held.append(open(name, "w"))
    elif kind == "map":
        with open(name, "w+b") as file:
            file.truncate(4096)
            held.append(mmap.mmap(file.fileno(), 4096))
    elif kind == "tap":
        held.append(open("/dev/net/tun", "r+b", buffering=0))
        fcntl.ioctl(held[-1], 0x400454CA, struct.pack("16sH14x", name.encode(), 0x1002))
    elif kind == "netns":
        assert ctypes.CDLL(None).unshare(0x40000000) == 0
print("ready", os.getpid(), flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def holding(*what: str, of_others: bool) -> Iterator[int]:
    """A process that holds something: of a test run beside this one, or a child of ours.

    One that has left its parents is another's by its worker's name; one of ours is a daemon too.
    """
    env = {**os.environ, **({"PYTEST_XDIST_WORKER": "gw77"} if of_others else {})}
    script = '"$0" -c "$@" <&3 & exit'
    with subprocess.Popen(
        ["sh", "-c", f"exec 3<&0; {script}", sys.executable, HOLD, *what],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        word, pid = process.stdout.readline().split()
        assert word == "ready"
        yield int(pid)
        assert process.stdin is not None
        process.stdin.close()


def differing(name: str, area: str = "files", what: str = "is new (0)") -> list[str]:
    return [f"{area}: {name} {what}"]


@pytest.mark.parametrize("kind", ["file", "map"])
@pytest.mark.parametrize("of_others", [True, False])
def test_what_only_processes_of_others_hold_is_theirs(
    tmp_path: Path, kind: str, of_others: bool
) -> None:
    name = str(tmp_path / "held")
    with holding(kind, name, of_others=of_others):
        own, others, unclear = sort_differences(differing(name), "r-17", [], Holders(), Holders())
        assert [bool(own), bool(others), bool(unclear)] == [False, of_others, not of_others]
        # Only what they hold is, and no mount over something that they have open.
        assert sort_differences(differing(name, "mounts"), "r-17", [], None, Holders())[1] == []
        assert sort_differences(differing(f"{name}-2"), "r-17", [], None, Holders())[1] == []
        # Whatever others hold: what the journal has, or what names the run, is the run's.
        named = [{"what": name}]
        assert sort_differences(differing(name), "r-17", named, None, Holders())[0]


def test_what_is_held_at_a_terminal_from_before_is_its_users(tmp_path: Path) -> None:
    """A container of a service's may have a terminal too, which began later."""
    name = str(tmp_path / "held")
    code = (
        "import os, pty, sys, time\n"
        "pid, end = pty.fork()\n"  # a session with a terminal of its own, without our parents
        "if pid == 0:\n"
        f"    held = open({name!r}, 'w')\n"
        "    time.sleep(600)\n"
        "print(pid, flush=True)\n"
        "if os.fork() == 0:\n"
        "    os.close(1); time.sleep(600)\n"  # keeps the terminal
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    pid = int(done.stdout)
    try:
        wait_for(lambda: Path(name).exists(), 30, "its file")
        later = Holders()
        assert sort_differences(differing(name), "r-17", [], None, later)[2] == differing(name)
        before = Holders(since=sys.maxsize)
        assert "a terminal" in sort_differences(differing(name), "r-17", [], None, before)[1][0]
    finally:
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if name.encode() in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)
    assert pid


def test_what_a_process_of_ours_holds_as_well_is_not_others(tmp_path: Path) -> None:
    name = str(tmp_path / "held")
    with holding("file", name, of_others=True), holding("file", name, of_others=False):
        _, others, unclear = sort_differences(differing(name), "r-17", [], None, Holders())
    assert (others, len(unclear)) == ([], 1)


def test_what_has_gone_with_others_that_held_it_is_theirs(tmp_path: Path) -> None:
    name = str(tmp_path / "held")
    gone = differing(name, what="is gone (was 0)")
    with holding("file", name, of_others=True) as pid:
        before = Holders()
        # While they live somebody else may have taken it away.
        assert sort_differences(gone, "r-17", [], before, Holders())[2] == gone
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), 30, "its end")
    assert sort_differences(gone, "r-17", [], before, Holders())[1]
    with holding("file", name, of_others=False) as pid:
        before = Holders()
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), 30, "its end")
    assert sort_differences(gone, "r-17", [], before, Holders())[2] == gone


@pytest.mark.skipif(os.geteuid() != 0, reason="makes interfaces")
@pytest.mark.parametrize("of_others", [True, False])
def test_whose_a_tap_and_a_pair_into_a_namespace_are(of_others: bool) -> None:
    def look() -> tuple[int, int]:
        unshare_network()  # this machine's links are left alone
        with (
            holding("tap", "vt0", of_others=of_others),
            holding("netns", "x", of_others=of_others) as pid,
            IPRoute() as route,
        ):
            route.link("add", ifname="vu0", kind="veth", peer={"ifname": "vp", "net_ns_pid": pid})
            lines = [*differing("vt0", "links"), *differing("vu0", "links")]
            _, others, unclear = sort_differences(lines, "r-17", [], None, Holders())
            return len(others), len(unclear)

    assert call_in_thread(look) == ((2, 0) if of_others else (0, 2))


# What becomes of a test.


class Deployed:
    """A deployment that leaves what the machine has then."""

    plan = SimpleNamespace(scenario=SimpleNamespace(id="pvp_mine"))
    machine = SimpleNamespace(run_id="r-17")
    run = SimpleNamespace(journal=SimpleNamespace(records=lambda _: [{"what": "link vp3"}]))

    def teardown(self) -> list[str]:
        return []


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> tuple[stage.Stage, list[dict[str, str]]]:
    """A stage with that deployment, and the files of the machine, at each look the next."""
    looks: list[dict[str, str]] = [{}]
    monkeypatch.setattr(
        stage,
        "snapshot_machine",
        lambda: snapshot.Snapshot({"files": looks.pop(0) if looks[1:] else looks[0]}),
    )
    monkeypatch.setattr(snapshot, "modules_loaded", lambda _: set[str]())
    monkeypatch.setattr(stage, "PATIENCE_S", 0.5)
    monkeypatch.setattr(stage, "UNCLEAR_S", 1.0)
    monkeypatch.setattr(stage, "deploy_plan", lambda *_: Deployed())
    made = stage.Stage("mine")
    made.facts = MagicMock()
    made.deploy(MagicMock())
    return made, looks


@pytest.mark.slow
@pytest.mark.parametrize("name", ["/run/netns/leak", "/run/x/r-17", "vp3"])
def test_what_a_backend_leaves_fails_whether_it_names_it_or_not(
    staged: tuple[stage.Stage, list[dict[str, str]]], name: str
) -> None:
    made, looks = staged
    looks[:] = [{name: "0"}]
    made.clear()
    with pytest.raises(pytest.fail.Exception, match=name):
        made.require_as_before()


def test_what_others_hold_is_a_warning(
    staged: tuple[stage.Stage, list[dict[str, str]]], tmp_path: Path
) -> None:
    made, looks = staged
    name = str(tmp_path / "held")
    looks[:] = [{name: "0"}]
    with holding("file", name, of_others=True), pytest.warns(UserWarning, match=name):
        made.clear()
    made.require_as_before()


def test_what_is_gone_by_itself_was_nothing_that_was_left(
    staged: tuple[stage.Stage, list[dict[str, str]]],
) -> None:
    made, looks = staged
    looks[:] = [{"/run/netns/x": "0"}, {"/run/netns/x": "0"}, {}]
    made.clear()
    made.require_as_before()
