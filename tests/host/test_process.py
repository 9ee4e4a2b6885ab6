from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from vnetperf.host import guardian, linux
from vnetperf.host import processes as kill
from vnetperf.host import processes as spawner
from vnetperf.host.journal import Journal
from vnetperf.host.linux import PROC, ProcessId
from vnetperf.host.paths import is_full
from vnetperf.host.processes import Processes
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import DutError, HostError
from vnetperf.plugin.backend import check_process


@pytest.fixture
def processes(journal: Journal, tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(journal, tmp_path)
    yield processes
    processes.stop_all(1)


def test_output_goes_to_a_log_and_the_exit_code_is_kept(processes: Processes) -> None:
    process = processes.spawn("hello", ["sh", "-c", "echo out; echo err >&2; exit 3"])
    wait_for(lambda: process.returncode is not None, 60, "its end")
    assert process.returncode == 3
    assert process.log_tail().splitlines() == ["out", "err"]
    again = processes.spawn("hello", ["true"])
    assert again.log != process.log
    again.stop()


def test_a_usage_does_not_hide_why_it_was_printed(processes: Processes) -> None:
    """As of DPDK, which has a hundred lines of options between the reason and the end."""
    script = (
        "echo 'EAL: core 77 unavailable'; echo; echo 'Usage: xx [options]'; echo 'Options:'; "
        'for n in $(seq 60); do echo "  --option$n  what it does"; done; '
        "echo 'EAL: Error - exiting with code: 1'; exit 1"
    )
    process = processes.spawn("picky", ["sh", "-c", script])
    wait_for(lambda: process.returncode is not None, 60, "its end")
    said = ["EAL: core 77 unavailable", "", "Usage: xx [options]"]
    assert process.log_tail().splitlines() == [*said, "EAL: Error - exiting with code: 1"]
    later = (
        "echo 'Usage: x'; echo '  -a  foo'; echo 'error: no memory'; echo '   at line 5'; exit 1"
    )
    failed = processes.spawn("later", ["sh", "-c", later])
    wait_for(lambda: failed.returncode is not None, 60, "its end")
    assert failed.log_tail().splitlines() == ["Usage: x", "error: no memory", "   at line 5"]
    terse = processes.spawn("terse", ["sh", "-c", "echo 'usage: terse FILE'; exit 2"])
    wait_for(lambda: terse.returncode is not None, 60, "its end")
    assert terse.log_tail() == "usage: terse FILE"


def test_a_log_is_no_file_that_a_link_names(processes: Processes, tmp_path: Path) -> None:
    """Who can write to the run's directory would have root write where they like."""
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "hello.log").symlink_to(elsewhere)
    process = processes.spawn("hello", ["echo", "out"])
    process.stop()
    assert not elsewhere.exists()
    assert process.log == tmp_path / "hello-2.log"


def test_a_process_that_dies_while_waited_for_is_told_at_once(processes: Processes) -> None:
    process = processes.spawn("switch", ["sh", "-c", "echo no memory left; exit 1"])
    begin = time.monotonic()
    with pytest.raises(HostError, match=r"(?s)switch ended by exit code 1.*no memory left"):
        process.wait_for(lambda: False, 600, "its socket")
    assert time.monotonic() - begin < 300


def test_a_full_disk_is_named_where_a_process_could_write_no_reason(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DPDK maps files of the run's directory; without room there it ends by SIGBUS."""
    process = processes.spawn("engine", ["sh", "-c", "kill -BUS $$"])
    wait_for(lambda: process.returncode is not None, 60, "its end")
    usage = SimpleNamespace(total=1 << 30, free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(HostError, match=r"ended by signal SIGBUS") as told:
        process.expect_alive()
    with pytest.raises(DutError) as failed:
        check_process(process, "engine")
    for error in (told.value, failed.value):
        assert f"{process.log.parent} is full" in str(error)


def test_a_disk_that_states_no_size_is_not_full() -> None:
    assert not is_full(PROC / "self")


def test_a_process_that_never_gets_ready_is_told(processes: Processes) -> None:
    process = processes.spawn("switch", ["sleep", "60"])
    with pytest.raises(HostError, match=r"its socket .* 0\.1 s"):
        process.wait_for(lambda: False, 0.1, "its socket")
    assert process.stop() == -signal.SIGTERM


#: Its first thread ends, and the other one goes on: so is a killed process whose memory is large.
HALF_ENDED = (
    "import ctypes, threading, time\n"
    "threading.Thread(target=time.sleep, args=(600,)).start()\n"
    "print('half', flush=True)\n"
    "ctypes.CDLL(None).pthread_exit(None)\n"
)


@pytest.mark.slow
def test_what_has_begun_to_end_does_not_live_any_more(processes: Processes) -> None:
    process = processes.spawn("switch", [sys.executable, "-c", HALF_ENDED])
    wait_for(lambda: not process.alive(), 60, "the end of its first thread")
    ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    assert ended is None  # the kernel does not report it yet
    with pytest.raises(HostError, match="switch has begun to end"):
        process.expect_alive()
    with pytest.raises(DutError, match=r"(?s)OVS has ended \(status not known yet\).*half"):
        check_process(process, "OVS")
    assert process.stop() == -signal.SIGTERM


@pytest.mark.slow
def test_stop_kills_what_ignores_the_first_signal(processes: Processes) -> None:
    process = processes.spawn("stubborn", ["sh", "-c", "trap '' TERM; echo on; sleep 60 & wait"])
    process.wait_for(lambda: "on" in process.log_text(), 60, "its trap")
    assert process.stop(0.1) in (-signal.SIGKILL, 0)
    assert not process.alive()


def test_an_unknown_program_is_told(processes: Processes) -> None:
    with pytest.raises(HostError, match="'no-such-program' is not installed"):
        processes.spawn("x", ["no-such-program"])


def test_cpus_are_set_and_the_spawner_keeps_its_own(processes: Processes) -> None:
    mine = os.sched_getaffinity(0)
    last = max(mine)
    first = processes.spawn("pinned", ["sleep", "60"], cpus=[last])
    second = processes.spawn("free", ["sleep", "60"])
    assert os.sched_getaffinity(first.pid) == {last}
    assert os.sched_getaffinity(second.pid) == mine


def test_standard_input(processes: Processes) -> None:
    process = processes.spawn("cat", ["cat"], stdin=True)
    process.write_line("hello")
    process.wait_for(lambda: "hello" in process.log_text(), 60, "its echo")
    process.stop()
    with pytest.raises(HostError, match=r"cat: does not take 'more'"):
        process.write_line("more")


def test_a_program_without_standard_input_takes_no_line(processes: Processes) -> None:
    process = processes.spawn("sleep", ["sleep", "60"])
    with pytest.raises(ValueError, match="no standard input"):
        process.write_line("hello")


def test_grandchildren_in_their_own_session_are_ended(
    processes: Processes, journal: Journal
) -> None:
    script = "setsid sh -c 'setsid sleep 61 & sleep 62' & sleep 63"
    process = processes.spawn("family", ["sh", "-c", script])
    process.wait_for(lambda: len(kill.find_processes(journal.run_id)) >= 5, 60, "its family")
    report = journal.undo()
    assert report.complete
    assert kill.find_processes(journal.run_id) == []


def test_a_process_that_hides_its_environment_is_ended(
    processes: Processes, journal: Journal
) -> None:
    hider = "import ctypes,os,time; e=os.environ; os.execve('/bin/sleep', ['sleep', '64'], {})"
    process = processes.spawn("hider", [sys.executable, "-c", hider])
    process.wait_for(
        lambda: Path(f"/proc/{process.pid}/cmdline").read_text().startswith("sleep"), 60, "exec"
    )
    assert kill.find_processes(journal.run_id) == []
    journal.undo()
    assert not process.alive()


def test_others_are_left_alone(journal: Journal, processes: Processes) -> None:
    other = subprocess.Popen(["sleep", "60"], env={linux.RUN_ID_VARIABLE: journal.run_id + "x"})
    try:
        processes.spawn("ours", ["sleep", "60"])
        journal.undo()
        assert other.poll() is None
        who = ProcessId.read(other.pid)
        assert who is not None
        assert kill.end_processes("nobody", [ProcessId(who.pid, who.start + 1)]) == []
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_children_outlive_the_thread_that_asked_for_them(processes: Processes) -> None:
    made = []
    thread = threading.Thread(target=lambda: made.append(processes.spawn("x", ["sleep", "60"])))
    thread.start()
    thread.join()
    time.sleep(0.1)
    assert made[0].alive()


@pytest.mark.slow
@pytest.mark.parametrize("with_setpriv", [True, False])
def test_children_die_with_a_killed_parent(tmp_path: Path, with_setpriv: bool) -> None:
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time\n"
            "from vnetperf.host import processes as p\n"
            "if sys.argv[1] == 'False': p.shutil.which = lambda *a, **k: None\n"
            "import os\n"
            "r = p.SpawnRequest(['sleep', '60'], dict(os.environ), -3, -3)\n"
            "print(p.spawn_process(r).pid, flush=True); time.sleep(60)\n",
            str(with_setpriv),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    _until(lambda: Path(f"/proc/{pid}/cmdline").read_text().startswith("sleep"))
    child = ProcessId.read(pid)
    assert child is not None
    parent.kill()
    parent.wait()
    _until(lambda: not child.alive())


#: Python 3.12 and later warn of it: another thread may hold a lock that the child then waits for.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_gets_a_spawner_of_its_own() -> None:
    request = spawner.SpawnRequest(["true"], dict(os.environ), -3, -3)
    assert spawner.spawn_process(request).wait() == 0
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(spawner.spawn_process(request).wait())
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _until(condition: Callable[[], object], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_wait_for_ends_sleeps_in_the_kernel_for_its_time_alone(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vnetperf.host.wait.time_factor", lambda: 50.0)
    sleep = time.sleep

    def no_sleep(seconds: float) -> None:  # but of threads that other tests left
        if threading.current_thread() is threading.main_thread():
            pytest.fail(f"it sleeps for {seconds:g} s")
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", no_sleep)
    process = processes.spawn("stays", ["sh", "-c", "trap '' TERM; echo on; exec sleep 60"])
    while "on" not in process.log_text():
        os.sched_yield()
    monkeypatch.setattr(kill, "TERM_GRACE_S", 0.1)
    stubborn = ProcessId.read(process.pid)
    assert stubborn is not None
    begin = time.monotonic()
    assert kill.end_processes("another-run", [stubborn]) == [process.pid]
    # Fifty times as long by the patience of the lab's, which is not for a wait in the kernel.
    assert 0.1 <= time.monotonic() - begin < 5
    assert not process.alive()


@pytest.fixture
def scoped(processes: Processes) -> Processes:
    if processes.scope is None:
        pytest.skip("cgroup v2 is not writable here")
    return processes


def test_a_daemon_that_clears_its_environment_ends_with_the_run(
    scoped: Processes, journal: Journal, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    script = f"setsid env -i sh -c 'echo $$ >{pid_file}; exec sleep 4321' & sleep 300"
    scoped.spawn("daemon", ["sh", "-c", script])
    wait_for(lambda: pid_file.exists() and pid_file.read_text().strip(), 10, "the daemon")
    daemon = ProcessId.read(int(pid_file.read_text()))
    assert daemon is not None
    assert not linux.belongs_to_run(daemon.pid, journal.run_id)
    scoped.stop_all()
    assert daemon.alive()
    assert journal.undo().complete
    assert not daemon.alive()
    assert scoped.scope is not None
    assert not scoped.scope.exists()


def test_a_scope_with_groups_in_it_goes_too(scoped: Processes, journal: Journal) -> None:
    assert scoped.scope is not None
    inner = scoped.scope / "inner"
    inner.mkdir()
    process = scoped.spawn("stubborn", ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"])
    (inner / "cgroup.procs").write_text(str(process.pid))
    assert journal.undo().complete
    assert not scoped.scope.exists()


def test_a_process_starts_in_the_scope_and_we_stay_outside(scoped: Processes) -> None:
    assert scoped.scope is not None
    process = scoped.spawn("x", ["sh", "-c", "cat /proc/self/cgroup; sleep 60"])
    process.wait_for(lambda: scoped.scope.name in process.log_text(), 60, "its group")  # type: ignore[union-attr]  # asserted above
    assert scoped.scope.name not in Path("/proc/self/cgroup").read_text()


def test_without_cgroup_v2_there_is_no_scope(journal: Journal, tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("sysfs /sys sysfs rw 0 0\n")
    processes = Processes(journal, tmp_path, mounts=mounts)
    assert processes.scope is None
    process = processes.spawn("x", ["sh", "-c", "exit 3"])
    wait_for(lambda: process.returncode == 3, 60, "its end")


def test_a_group_that_takes_no_child_is_no_error(journal: Journal, tmp_path: Path) -> None:
    (tmp_path / "mounts").write_text(f"cgroup2 {tmp_path}/tree cgroup2 rw 0 0\n")
    (tmp_path / "tree").mkdir()
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text("0::/\n")  # a folder that has no cgroup.type: no cgroup
    processes = Processes(journal, tmp_path, mounts=tmp_path / "mounts", proc=tmp_path)
    assert processes.scope is None


def test_the_guardian_carries_no_mark_by_which_it_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*guardian.CI_MARKS, linux.RUN_ID_VARIABLE, "LANG"):
        monkeypatch.setenv(name, "kept")
    found = guardian.make_environment()
    assert {name for name, value in found.items() if value == "kept"} == {"LANG"}


def test_the_guardian_leaves_the_groups_that_are_stopped_together(tmp_path: Path) -> None:
    for name in ("unified", "systemd", "memory"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").touch()
    (tmp_path / "mounts").write_text(
        f"cgroup2 {tmp_path}/unified cgroup2 rw 0 0\n"
        f"cgroup {tmp_path}/systemd cgroup rw,name=systemd 0 0\n"
        f"cgroup {tmp_path}/memory cgroup rw,memory 0 0\n"
        f"cgroup {tmp_path}/none cgroup2 rw 0 0\n"
    )
    guardian.leave_groups(mounts=tmp_path / "mounts")
    written = [
        (tmp_path / n / "cgroup.procs").read_text() for n in ("unified", "systemd", "memory")
    ]
    assert written == ["0", "0", ""]


def test_a_stopped_process_lives_and_is_ended_without_waiting(processes: Processes) -> None:
    sleeper = processes.spawn("sleeper", ["sleep", "60"])
    assert not sleeper.stopped
    sleeper.signal(signal.SIGSTOP)
    wait_for(lambda: sleeper.stopped, 60, "the stop")
    assert sleeper.alive()
    assert sleeper.stopped
    with pytest.raises(DutError, match=r"sleeper \(pid \d+\) .*SIGSTOP"):
        check_process(sleeper, "sleeper")
    began = time.monotonic()
    assert sleeper.stop(timeout_s=600.0) == -signal.SIGKILL
    assert time.monotonic() - began < 300
    assert not sleeper.stopped


def test_one_that_is_held_for_a_moment_as_it_ends_is_not_killed(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by LeakSanitizer, which stops all threads of a program that returns from main."""
    held = "trap '(sleep 0.5; kill -CONT $$) & kill -STOP $$; exit 7' TERM; echo on; "
    held += "sleep 60 & wait"
    process = processes.spawn("held", ["sh", "-c", held])
    wait_for(lambda: "on" in process.log_text(), 60, "its trap")
    terminate = subprocess.Popen.terminate

    def terminate_slowly(program: subprocess.Popen[bytes]) -> None:  # another had the processor
        terminate(program)
        wait_for(lambda: process.stopped, 60, "the stop")

    monkeypatch.setattr(subprocess.Popen, "terminate", terminate_slowly)
    assert process.stop(60) == 7
