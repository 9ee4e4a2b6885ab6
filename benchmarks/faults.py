"""Faults in the middle of trials: whether each is noticed, how soon, and what is left behind.

    python -m benchmarks.faults [--faults 30] [--seconds 500] [--append FILE] [--seed 1]
    python -m benchmarks.faults --table FILE [FILE ...]

A controller, an agent and a deployment are made as a run makes them: a trial is begun, and at a
random moment a part is killed or stopped (SIGSTOP), a wire's link goes down and up, the engine
stands still or its ring is flooded, no space is left, or the clock is a year off. Each fault has a
trial of its own; those that were injected least are next. What a deployment outlives comes first: a
part that was stopped goes on, and a trial without a fault has to be valid. After a fault that it
does not outlive all is taken away, the machine is compared with what it was, and the controller
deploys anew, as a run does; of those a guest, which takes a minute to boot, has one. Last are those
that end the controller. Controllers are stopped for good several at a time, each with a state
directory, and thus a lock, of its own. `--append` keeps each fault as a line of JSON, so that many
short calls make one table. Needs root, OVS-DPDK and testpmd.

The machine itself is left alone by faults that would reach others: space ends on a small tmpfs in a
mount namespace of the controller's, and the clock is off in the run's own processes (a library that
is loaded before the C library adds to CLOCK_REALTIME, time() and gettimeofday()).
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import json
import os
import queue
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vnetperf import config
from vnetperf.agent.client import AgentClient
from vnetperf.deployment.planner import make_plan
from vnetperf.host import links, snapshot
from vnetperf.host.linux import RUN_ID_VARIABLE, run_in
from vnetperf.host.paths import HostRoots
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import HostError, VnetperfError
from vnetperf.model.result import Calibration
from vnetperf.model.scenario import Plan
from vnetperf.model.trial import TrialSpec
from vnetperf.results.folder import read_up_to_damage
from vnetperf.runner.calibration_cache import CalibrationCache
from vnetperf.runner.scenarios import make_scenario
from vnetperf.runner.verdict import judge

TOP = Path(__file__).parents[1]
#: Deployment -> settings that it is made with, and parts that it has besides tester and agent.
DEPLOYMENTS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "pvp_dpdk": ({}, ("switch", "VNF")),
    "phy2phy_dpdk": ({"wire": "veth"}, ("switch",)),
    "phy2phy_bridge": ({"wire": "veth"}, ()),
    "pvp_bridge": ({"wire": "veth"}, ("VNF",)),
    "pvp_dpdk+vm": ({"vnf": "vloop:vm"}, ("switch", "guest")),
}
#: Part -> what its command line contains.
PARTS = {
    "switch": "ovs-vswitchd",
    "VNF": "dpdk-testpmd",
    "guest": "qemu-system",
    "engine": "--rx-burst=",
}
#: Low, so that nothing is lost without a fault; and more than the rings hold of a short stall.
LOAD_FPS, STALL_FPS, TRIAL_S = 5_000.0, 20_000.0, 2.0
TOLERANCE = 0.01
#: Longest times until a fault is named, seconds. The end of an agent or a controller counts when
#: the machine is as it was; a controller is silent for 60 s until its agent takes that for its end.
KILLED_S, STOPPED_S, SILENT_S = 1.0, 10.0, 75.0
#: From the end of sending until a trial's result is there, at most: what is done then is too late.
COUNTED_S = 0.5
#: How long a ring is flooded, seconds, and what then stands beside a trial.
FLOOD_S, DROPPED = 0.15, "the tester's ports dropped"
#: Longest wait until the machine is as it was: a guardian may be at work.
RESTORED_S = 25.0
#: Longest waits for a deployment, of guests too, and for the answer of a trial, seconds.
DEPLOY_S, ANSWER_S = 400.0, 60.0
#: What a fault may not change, besides processes of runs: those of others come and go.
AREAS = ("hugepages", "mounts", "links", "modules", "values")
#: Space on the small tmpfs: DPDK keeps its tables in the run directory.
RUN_MIB, OTHER_MIB = 64, 2
YEAR_S = 365 * 86_400
NO_SPACE = ("No space left on device",)
#: The fault of a whole run of pytest.
RESULTS = ("pytest", "no space for results")
STOPPED = "controller stopped"
#: Faults of a controller, of those that a deployment outlives and of those that it does not.
MOST = 4
USUAL = "pvp_dpdk,phy2phy_dpdk,phy2phy_bridge,pvp_bridge,pytest"


@dataclass(frozen=True)
class Outcome:
    """What became of a fault.

    Attributes:
        deployment: What was deployed.
        fault: What was done.
        noticed: Whether it was named, in time and by a verdict that is no measurement; or, of a
            fault that a measurement does not depend on, whether the measurement was right.
        wrong: Whether the trial was a valid one with loss.
        seconds: From the fault until it was named.
        words: The verdict and its reason, or the error.
        left: What was left behind.
        load: Load average of the machine over a minute.
        lives: Whether the deployment is as it was.
    """

    deployment: str
    fault: str
    noticed: bool
    wrong: bool
    seconds: float
    words: str
    left: tuple[str, ...] = ()
    load: float = 0.0
    lives: bool = False


@dataclass(frozen=True)
class RunProcess:
    """A process of a run: the run's id, its parent, and its command line."""

    run: str
    parent: int
    line: str


def run_processes() -> dict[int, RunProcess]:
    """Processes of runs, ours or not: by the mark in their environment, or their parent's.

    libvirt gives QEMU an environment of its own.
    """
    found = {}
    mark = f"{RUN_ID_VARIABLE}=".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
            parent = int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            continue
        run = next((one for one in environment if one.startswith(mark)), mark)
        found[int(entry.name)] = RunProcess(
            run.removeprefix(mark).decode(), parent, line.decode(errors="replace")
        )
    of_runs = {pid: one for pid, one in found.items() if one.run}
    for pid, one in found.items():
        if not one.run and one.parent in of_runs:
            of_runs[pid] = replace(one, run=of_runs[one.parent].run)
    return of_runs


def pids_of(part: str, run: str) -> list[int]:
    """Processes of a part of what is deployed: one at least."""
    found = [p for p, one in run_processes().items() if one.run == run and PARTS[part] in one.line]
    if not found:
        raise ProcessLookupError(f"no process of the {part}")
    return found


class Controller:
    """A process that deploys, runs a trial, and reports in lines of JSON.

    Attributes:
        before: The machine before it.
        pid: Its process.
        agent: Its agent's process, once it has deployed.
        run: The id of its run, once something of it runs.
        marks: What carries one of these is of its runs and agents.
        acted: When something was done to it, where that takes long.
    """

    def __init__(self, argv: Sequence[str], *, tmpfs: str = "", clock: Path | None = None) -> None:
        self.before = machine()
        command = [sys.executable, "-m", "benchmarks.faults", *argv]
        if tmpfs:
            Path(tmpfs).mkdir(mode=0o700, exist_ok=True)
            size = RUN_MIB if tmpfs == str(HostRoots().run) else OTHER_MIB
            script = f'mount -t tmpfs -o size={size}m,mode=700 tmpfs "$0" && exec "$@"'
            command = ["unshare", "--mount", "sh", "-c", script, tmpfs, *command]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("VNETPERF_")}
        if clock is not None:
            environment |= {"LD_PRELOAD": str(clock / "clock.so"), "FAULTS_CLOCK": str(clock / "s")}
        self._process = subprocess.Popen(
            command,
            cwd=TOP,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.agent = 0
        self.run = ""
        self.marks: set[str] = set()
        self.acted = 0.0
        self._ended: dict[str, Any] = {}
        self._waits = False
        self._lines: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(ValueError):  # what a library printed
                self._lines.put(json.loads(line))
        self._lines.put({"is": "end", "at": time.monotonic()})

    def next(self, kinds: str, timeout_s: float) -> dict[str, Any]:
        """Its next line of one of these kinds, or its end; without one its stacks are printed."""
        deadline = time.monotonic() + timeout_s
        while not self._ended:
            try:
                line = self._lines.get(timeout=max(0.1, deadline - time.monotonic()))
            except queue.Empty:
                os.kill(self.pid, signal.SIGUSR1)
                time.sleep(0.5)
                return {"is": "nothing", "at": time.monotonic()}
            if line["is"] == "wait" and not self._waits:
                print(f"  waits for the machine's lock: {line['holder']}", flush=True)
                self._waits = True
            if line["is"] == "end":
                self._ended = line
            elif line["is"] in kinds.split():
                return line
        return self._ended

    def deployed(self, deployment: str) -> bool:
        """Whether it has deployed; the id of its run is learned from what its agent has started."""
        line = self.next("deployed result", DEPLOY_S)
        self.agent = line.get("agent", self.agent)
        self.run = next((p.run for p in run_processes().values() if p.parent == self.agent), "")
        self.marks |= {f"vp{self.agent}", *filter(None, [self.run])}
        if line["is"] != "deployed" or not self.run:
            print(f"  {deployment}: not deployed: {str(line)[:300]}", flush=True)
            return False
        return True

    def go_on(self, order: str = "") -> None:
        """Order a trial (`trial LOAD`), to `deploy`, to take all away (`teardown`), or to end."""
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.write(f"{order}\n")
            self._process.stdin.flush()

    def inside(self, path: Path) -> Path:
        """A path as it is in its mount namespace."""
        return Path(f"/proc/{self.pid}/root") / path.relative_to("/")

    def end(self) -> int:
        """Wait for its end; it is killed when that does not come."""
        for _ in range(2):  # trials, and looking at what is left inside
            self.go_on()
        try:
            self._process.communicate(timeout=RESTORED_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
        return self._process.returncode


Act = Callable[[Controller, random.Random], None]
Values = dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """Something that is done in the middle of a trial.

    Attributes:
        act: Does it.
        limit_s: Longest time until it is named; None: in the same trial.
        words: One of these is in the reason.
        harmless: Whether a valid trial without loss is right as well: nothing depends on it.
        restored: Whether it is named by the machine being as it was: who would name it has ended.
        tmpfs: Folder that has little space.
        deploying: Whether its moment is in the deployment.
        clock: Whether its clock can be set.
        lives: Whether the deployment is the same after it: others may follow in it.
        stops: The part that it stops, and that may go on.
        load_fps: Load of the trial, frames/s in each direction.
    """

    act: Act
    limit_s: float | None = None
    words: tuple[str, ...] = ()
    harmless: bool = False
    restored: bool = False
    tmpfs: str = ""
    deploying: bool = False
    clock: bool = False
    lives: bool = False
    stops: str = ""
    load_fps: float = LOAD_FPS

    @property
    def ends(self) -> bool:
        """Whether its controller cannot go on after it."""
        return self.restored or bool(self.tmpfs)

    def is_named(self, line: Values) -> bool:
        """Whether what became of the trial is right."""
        if self.harmless and line.get("verdict") == "VALID" and not line.get("lossy"):
            return True
        return any(word in words_of(line) for word in self.words)


def words_of(line: Values) -> str:
    """What a controller's line says of a trial."""
    return f"{line.get('wrong', '')}{line.get('verdict', '')} {line.get('words', line)}"


def send(controller: Controller, part: str, number: signal.Signals) -> None:
    """Send a signal to a part."""
    for pid in pids_of(part, controller.run):
        os.kill(pid, number)


def stall(controller: Controller, seconds: float) -> None:
    """Let the engine stand still."""
    send(controller, "engine", signal.SIGSTOP)
    time.sleep(seconds)
    send(controller, "engine", signal.SIGCONT)


def pause(controller: Controller, draw: random.Random) -> None:
    """Stop the controller for a while, as Ctrl-Z and fg do."""
    os.kill(controller.pid, signal.SIGSTOP)
    time.sleep(draw.uniform(1.0, 5.0))
    os.kill(controller.pid, signal.SIGCONT)


def at_once(controller: Controller, act: Callable[[list[str]], None]) -> None:
    """Do something to the veths of a run, in its namespace, whatever else the machine does."""
    netns = Path(f"/proc/{pids_of('engine', controller.run)[0]}/ns/net")

    def body() -> None:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        names = [link.name for link in links.links() if link.kind == "veth"]
        controller.acted = time.monotonic()
        act(names)

    run_in(netns, body)


def flap(controller: Controller, draw: random.Random) -> None:
    """Take a link of the run's namespace down and up again."""

    def act(names: list[str]) -> None:
        name = draw.choice(names)
        links.set_up(name, up=False)
        time.sleep(draw.uniform(0.02, 0.2))
        with suppress(HostError):  # the trial has ended of the first, and it was taken away
            links.set_up(name, up=True)

    at_once(controller, act)


def overflow(controller: Controller, _: random.Random) -> None:
    """Fill the ring of a tester's port from the DUT's end while the engine stands still."""
    engines = pids_of("engine", controller.run)

    def act(names: list[str]) -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
            # Wires end with t0, d0, t1, d1.
            raw.bind((next(name for name in names if name.endswith("d0")), 0))
            for number in (signal.SIGSTOP, signal.SIGCONT):
                for pid in engines:
                    os.kill(pid, number)
                until = time.monotonic() + FLOOD_S
                while number == signal.SIGSTOP and time.monotonic() < until:
                    for _ in range(100):
                        raw.send(bytes(60))

    at_once(controller, act)


def fill(folder: Path) -> None:
    """Leave no space where a folder is."""
    with suppress(OSError), (folder / ".full").open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


def filling(folder: Path) -> Act:
    """An act that leaves no space in the controller's own folder."""
    return lambda controller, _: fill(controller.inside(folder))


def setting(years: int) -> Act:
    """An act that sets the clock of the run's processes."""

    def act(controller: Controller, _: random.Random) -> None:
        lines = Path(f"/proc/{controller.pid}/environ").read_bytes().split(b"\0")
        path = next(line for line in lines if line.startswith(b"FAULTS_CLOCK="))
        with Path(path.decode().partition("=")[2]).open("r+b") as file:  # it is mapped
            file.write((years * YEAR_S).to_bytes(8, sys.byteorder, signed=True))

    return act


CLOCK_C = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
static long none;
static volatile long *off = &none;
static int (*get)(clockid_t, struct timespec *);
__attribute__((constructor)) static void begin(void)
{
	int fd = open(getenv("FAULTS_CLOCK"), O_RDONLY | O_CLOEXEC);
	void *at = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED)
		off = at;
}
int clock_gettime(clockid_t id, struct timespec *t)
{
	if (!get)
		get = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	int r = get(id, t);
	if (!r && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		t->tv_sec += *off;
	return r;
}
/* The kernel's clock is not off, and waits until a time of day are by that. */
int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until)
{
	static int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	struct timespec t = *until;
	if (!wait) {
		void *found = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
		found = found ? found : dlsym(RTLD_NEXT, "pthread_cond_timedwait");
		wait = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))found;
	}
	if (t.tv_sec > 500000000) /* no time since the start of the machine */
		t.tv_sec -= *off;
	return wait(c, m, &t);
}
int gettimeofday(struct timeval *t, void *zone)
{
	struct timespec now;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return 0;
}
time_t time(time_t *t)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (t)
		*t = now.tv_sec;
	return now.tv_sec;
}
"""


def make_clock(folder: Path) -> None:
    """Build the library, and its offset of 0 s."""
    (folder / "clock.c").write_text(CLOCK_C)
    (folder / "s").write_bytes(bytes(8))
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O2", "-o", folder / "clock.so", folder / "clock.c", "-ldl"],
        check=True,
    )


def _signals(part: str) -> dict[str, Fault]:
    kill: Act = lambda c, _: send(c, part, signal.SIGKILL)  # noqa: E731 - one of a pair
    stop: Act = lambda c, _: send(c, part, signal.SIGSTOP)  # noqa: E731 - the other one
    return {
        f"{part} killed": Fault(kill, KILLED_S, ("ended", "closed", "begun to end")),
        # The engine has lost its trial.
        f"{part} stopped": Fault(
            stop, STOPPED_S, ("is stopped",), stops="" if part == "engine" else part
        ),
    }


def faults_of(deployment: str) -> dict[str, Fault]:
    """The faults that a deployment can have."""
    if deployment == RESULTS[0]:
        return {RESULTS[1]: Fault(lambda *_: None)}
    settings, parts = DEPLOYMENTS[deployment]
    found: dict[str, Fault] = {}
    for part in ("engine", *parts):
        found |= _signals(part)

    def to(number: signal.Signals, who: Callable[[Controller], int]) -> Act:
        return lambda controller, _: os.kill(who(controller), number)

    kill, stop = signal.SIGKILL, signal.SIGSTOP
    gone = ("the agent ended", "is stopped")
    found["agent killed"] = Fault(to(kill, lambda c: c.agent), STOPPED_S, gone)
    found["agent stopped"] = Fault(to(stop, lambda c: c.agent), STOPPED_S, gone)
    found["controller killed"] = Fault(to(kill, lambda c: c.pid), STOPPED_S, restored=True)
    found["controller paused"] = Fault(pause, harmless=True, lives=True)
    found[STOPPED] = Fault(to(stop, lambda c: c.pid), SILENT_S, restored=True)
    stalled = ("did not poll", "did not send", "is stopped", "less than intended", "ring")
    found["engine stalled"] = Fault(
        lambda c, _: stall(c, 0.6), None, stalled, harmless=True, lives="guest" not in parts
    )
    if settings.get("wire") == "veth":
        found["ring overflow"] = Fault(overflow, None, (*stalled, DROPPED), lives=True)
        found["link flap"] = Fault(flap, None, ("a link went down",), lives=True)
    elif deployment == "pvp_dpdk":
        found["engine stalled briefly"] = Fault(
            lambda c, draw: stall(c, draw.uniform(0.1, 0.24)),
            None,
            stalled,
            lives=True,
            load_fps=STALL_FPS,
        )
    roots = HostRoots()
    run, state = str(roots.run), str(roots.state)
    full = filling(roots.run)
    found["no space for run"] = Fault(full, None, NO_SPACE, harmless=True, tmpfs=run)
    found["no space for journal"] = Fault(
        filling(roots.state), None, NO_SPACE, harmless=True, tmpfs=state, deploying=True
    )
    for name, years in (("back", -1), ("forward", 1)):
        found[f"clock {name} a year"] = Fault(setting(years), harmless=True, lives=True, clock=True)
    return found


def machine() -> snapshot.Snapshot:
    """The machine as far as a fault may not change it."""
    taken = snapshot.take_snapshot(HostRoots())
    areas = {name: dict(taken.areas.get(name, {})) for name in AREAS}
    areas["processes of runs"] = {str(p): f"{o.run} {o.line}" for p, o in run_processes().items()}
    files = taken.areas.get("files", {})
    ours = (str(HostRoots().run), str(HostRoots().state))
    areas["files"] = {name: value for name, value in files.items() if name.startswith(ours)}
    groups = Path("/sys/fs/cgroup").rglob("vnetperf-*")
    areas["cgroups"] = {str(group): "" for group in groups if group.is_dir()}
    return snapshot.Snapshot(areas)


def left_behind(controller: Controller, limit_s: float = RESTORED_S) -> tuple[str, ...]:
    """What differs from before the controller, once guardians have had their time.

    While others have runs on the machine only what carries the run's id, or the pid of its agent in
    the name of a link, is known to be of the fault.
    """
    deadline = time.monotonic() + limit_s
    while True:
        now = machine()
        found = snapshot.compare_snapshots(controller.before, now)
        both = {**controller.before.areas["processes of runs"], **now.areas["processes of runs"]}
        if controller.run:
            others = [text for text in both.values() if text.split()[0] not in controller.marks]
            if others or any(str(HostRoots().run) in line for line in found):
                found = tuple(f for f in found if any(mark in f for mark in controller.marks))
        # What others had there before is not left behind when it goes, and those are ip-netns(8)'s.
        found = tuple(
            f
            for f in found
            if not (f.startswith("files: ") and " is gone" in f)
            and not f.startswith("mounts: /run/netns/")
        )
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def left_inside(controller: Controller, folder: str) -> tuple[str, ...]:
    """Journals and run directories in a folder of the controller's mount namespace."""
    inside = controller.inside(Path(folder))
    kept = ("lock", ".full")
    return tuple(
        str(path.relative_to(inside))
        for path in inside.rglob("*")
        if path.is_file() and not set(path.relative_to(inside).parts) & set(kept)
    )


def plan_of(deployment: str, client: AgentClient) -> Plan:
    """The plan of a deployment on this machine."""
    settings = {**DEPLOYMENTS[deployment][0], "preset": "smoke"}
    loaded = config.load(settings, environment={}, directory=Path("/nonexistent"))
    scenario = make_scenario(deployment.partition("+")[0], loaded)
    return make_plan(scenario, loaded.testbed, client.inventory())


def report(kind: str, **values: object) -> None:
    """A line for whoever started this controller."""
    print(json.dumps({"is": kind, "at": time.monotonic(), **values}), flush=True)


def control(deployment: str) -> int:
    """Be the controller: deploy, run trials as ordered, report, and take everything away."""
    faulthandler.register(signal.SIGUSR1)
    # PR_SET_PDEATHSIG: one that is stopped would stay when who started it is killed.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    loaded = config.load({}, environment={}, directory=Path("/nonexistent"))

    def on_event(event: dict[str, Any]) -> None:
        if event.get("event") == "wait":
            report("wait", holder=event["holder"])

    client = AgentClient(loaded.testbed, on_event)
    when = datetime.now(UTC).isoformat(timespec="seconds")
    with tempfile.TemporaryDirectory() as folder:
        cache = CalibrationCache(Path(folder))
        stored = Calibration(generator="g", wire="w", cores=(), when=when, points=())
        cache.add("key", stored)
        order = ["deploy"]
        while order:
            try:
                if order[0] == "trial":
                    report("result", **trial(client, float(order[1]), when, cache))
                elif order[0] == "teardown":
                    report("down", troubles=client.teardown())
                else:
                    plan = plan_of(deployment, client)
                    report("begins", agent=client.process[0])
                    client.deploy(plan)
                    report("deployed", agent=client.process[0])
            except VnetperfError as error:
                report("result", verdict="DUT_FAILED", words=str(error))
            order = sys.stdin.readline().split()
        with suppress(VnetperfError):
            client.close()
    report("closed")
    sys.stdin.readline()
    return 0


def trial(client: AgentClient, load_fps: float, when: str, cache: CalibrationCache) -> Values:
    """What becomes of a trial, and whether its times and calibrations are those of the clock.

    Args:
        client: The agent.
        load_fps: Load in each direction, frames/s.
        when: When it was deployed.
        cache: Has a calibration of that moment.
    """
    spec = TrialSpec(frame_size=64, load_fps=load_fps, duration_s=TRIAL_S, learning_frames=8)
    began = time.monotonic()
    result = client.run_trial(spec)
    took = time.monotonic() - began
    verdict, words = judge(result, TOLERANCE)
    truth = ""
    year_off = abs(time.time() - datetime.fromisoformat(when).timestamp()) > YEAR_S / 2
    # A controller that was stopped meanwhile has waited for longer than the trial took.
    known = result.wall_s is not None and 0 <= took - result.wall_s < took / 2
    if year_off and not known:
        truth = f"it took {took:.3f} s, and says {result.wall_s} s; "
    if year_off and cache.load("key") is not None:
        truth += "a calibration of another year is used"
    lossy = bool(result.directions) and result.worst_loss_ratio() > 0
    lives = not result.failed  # else a run deploys anew
    if missed := sum(port.missed or 0 for port in result.tester):
        words += f"; {DROPPED} {missed} frames"
    return {"verdict": verdict, "words": words, "lossy": lossy, "wrong": truth, "lives": lives}


def control_run(folder: str) -> int:
    """Be a session of pytest, in the middle of whose trials its results find no space."""
    argv = ["-m", "pytest", "testcases", "-q", "-k", "phy2phy_dpdk", "--frame-sizes=64"]
    argv += ["--preset=smoke", f"--results-dir={folder}", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, *argv], capture_output=True, text=True, check=False, cwd=TOP
    )
    report("result", status=done.returncode, words=done.stdout + done.stderr)
    sys.stdin.readline()
    return 0


def inject_results(draw: random.Random) -> Outcome:
    """Leave no space for the results of a run of pytest, after one of its first trials."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        controller = Controller(["--control-run", folder], tmpfs=folder)
        inside = controller.inside(Path(folder))
        log = inside / "latest/trials.jsonl"

        def trials() -> int:
            with suppress(OSError):
                return log.read_text().count('"type":"trial"')
            return 0

        least = draw.randint(1, 4)
        wait_for(lambda: trials() >= least, ANSWER_S, "trials in the log", poll_s=0.005)
        time.sleep(draw.uniform(0.0, 0.3))
        held_by = re.search(r"run (\S+) holds testbed", (inside / "latest/run.log").read_text())
        controller.run = held_by[1] if held_by else ""
        fill(inside)
        happened, held = time.monotonic(), trials()
        line = controller.next("result", ANSWER_S)
        kept = sum(record.type == "trial" for record in read_up_to_damage(log)[0])
        controller.end()
    words = str(line.get("words", "nothing"))
    lines = [text for text in words.splitlines() if NO_SPACE[0] in text]
    return Outcome(
        deployment=RESULTS[0],
        fault=RESULTS[1],
        noticed=bool(lines) and bool(line.get("status")) and "Traceback" not in words,
        wrong=kept < held,
        seconds=round(line["at"] - happened, 3),
        words=f"{held} trials before, {kept} after; {lines[0] if lines else words[-300:]}",
        left=left_behind(controller),
        load=load,
    )


@contextmanager
def clock_of(faults: Iterable[Fault]) -> Iterator[Path | None]:
    """A folder with a clock that can be set, where one of the faults is to set one."""
    wanted = any(fault.clock for fault in faults)
    with tempfile.TemporaryDirectory() as folder:
        if wanted:
            make_clock(Path(folder))
        yield Path(folder) if wanted else None


def inject(
    deployment: str, chain: Mapping[str, Fault], draw: random.Random, until: float
) -> list[Outcome]:
    """Deploy, do each at a random moment of a trial of its own, and take everything away.

    After one that the deployment does not outlive the same controller deploys anew.

    Returns:
        What became of each that was done by `until`; without those that the machine was too busy to
        do within the trial.
    """
    last = list(chain.values())[-1]
    outcomes: list[Outcome] = []
    lives, looked = True, 0
    with clock_of(chain.values()) as clock:
        controller = Controller(["--control", deployment], tmpfs=last.tmpfs, clock=clock)
        controller.agent = controller.next("begins", DEPLOY_S).get("agent", 0)
        if last.deploying or controller.deployed(deployment):
            for name, fault in chain.items():
                if not lives:
                    controller.go_on("deploy")
                    if time.monotonic() > until or not controller.deployed(deployment):
                        break
                outcome = inject_one(controller, deployment, name, fault, draw)
                outcomes += [outcome] if outcome else []
                lives = outcome is not None and outcome.lives
                if fault.ends or (lives and time.monotonic() > until):
                    break
                if not lives:
                    controller.go_on("teardown")
                    controller.next("down result", ANSWER_S)
                    left = left_behind(controller)
                    outcomes[looked:] = [replace(one, left=left) for one in outcomes[looked:]]
                    looked = len(outcomes)
        left = take_away(controller, last)
    outcomes[looked:] = [replace(one, left=left) for one in outcomes[looked:]]
    return outcomes


def take_away(controller: Controller, last: Fault) -> tuple[str, ...]:
    """End a controller after its last fault; what is left behind."""
    left: tuple[str, ...] = ()
    controller.go_on()  # no further trial
    if not last.restored:
        controller.next("closed", ANSWER_S)
    if last.tmpfs:
        left = left_inside(controller, last.tmpfs)
    controller.end()
    if last.tmpfs:
        with suppress(OSError):  # it is there while others have runs
            Path(last.tmpfs).rmdir()
    return left + left_behind(controller)


def inject_stops(deployments: Sequence[str], draw: random.Random) -> list[Outcome]:
    """Stop several controllers for good, each in a trial of a deployment of its own."""
    state = str(HostRoots().state)
    found: list[tuple[str, Controller, Fault]] = []
    outcomes = []
    for deployment in deployments:
        fault = replace(faults_of(deployment)[STOPPED], tmpfs=state)
        controller = Controller(["--control", deployment], tmpfs=state)
        controller.agent = controller.next("begins", DEPLOY_S).get("agent", 0)
        if controller.deployed(deployment):
            found.append((deployment, controller, fault))
        else:
            take_away(controller, fault)
    load = os.getloadavg()[0]
    for _, controller, _ in found:
        controller.go_on(f"trial {LOAD_FPS}")
    time.sleep(draw.uniform(0.2, TRIAL_S - 0.8))
    happened = time.monotonic()
    for _, controller, _ in found:
        os.kill(controller.pid, signal.SIGSTOP)
    for deployment, controller, fault in found:
        left_behind(controller, max(0.1, happened + SILENT_S - time.monotonic()))
        seconds = time.monotonic() - happened
        inside = left_inside(controller, state)
        os.kill(controller.pid, signal.SIGCONT)
        outcomes.append(
            Outcome(
                deployment=deployment,
                fault=STOPPED,
                noticed=not inside and seconds <= SILENT_S,
                wrong=False,
                seconds=round(seconds, 3),
                words="everything was taken away",
                load=load,
                left=take_away(controller, fault),
            )
        )
    return outcomes


def inject_one(
    controller: Controller, deployment: str, name: str, fault: Fault, draw: random.Random
) -> Outcome | None:
    """Begin a trial, or see the deployment begin, and do it at a random moment."""
    load = os.getloadavg()[0]
    if fault.deploying:
        time.sleep(draw.uniform(0.0, 4.0))
    else:
        controller.go_on(f"trial {fault.load_fps}")
        time.sleep(draw.uniform(0.2, TRIAL_S - 0.8))
    happened = time.monotonic()
    try:
        fault.act(controller, draw)
    except (OSError, IndexError, HostError) as error:
        print(f"  {deployment}, {name}: nothing to do it to: {error}", flush=True)
        return None
    if fault.restored:
        left = left_behind(controller, fault.limit_s or RESTORED_S)
        line: Values = {"at": time.monotonic(), "words": "everything was taken away"}
        if not left:
            line["is"] = "restored"
        with suppress(ProcessLookupError):
            os.kill(controller.pid, signal.SIGCONT)
    elif fault.deploying:
        line = controller.next("deployed result", ANSWER_S)
        if line["is"] == "deployed":
            controller.go_on(f"trial {fault.load_fps}")
            line = controller.next("result", ANSWER_S)
    else:
        line = controller.next("result", ANSWER_S)
    named = line.get("is") == "restored" if fault.restored else fault.is_named(line)
    is_late = line["at"] < happened or (not named and line["at"] < controller.acted + COUNTED_S)
    if is_late and not fault.deploying:  # it was not injected in the trial
        print(f"  {deployment}, {name}: too late: {str(line)[:300]}", flush=True)
        return None
    valid, lossy = line.get("verdict") == "VALID", bool(line.get("lossy"))
    words = words_of(line)
    seconds = line["at"] - happened
    lives = bool(line.get("lives"))
    if fault.stops and named:
        send(controller, fault.stops, signal.SIGCONT)
        controller.go_on(f"trial {fault.load_fps}")
        after = controller.next("result", ANSWER_S)
        lives = after.get("verdict") == "VALID" and not after.get("lossy")
    if fault.clock:
        setting(0)(controller, draw)
    return Outcome(
        deployment=deployment,
        fault=name,
        noticed=named and (fault.limit_s is None or seconds <= fault.limit_s),
        wrong=(valid and lossy) or bool(line.get("wrong")),
        seconds=round(seconds, 3),
        words=words[:400],
        load=load,
        lives=lives,
    )


COLUMNS = (
    "Fault",
    "Deployments",
    "Injected",
    "Noticed",
    "Wrong",
    "Median, s",
    "Longest, s",
    "Left behind",
)


def row(name: str, mine: Sequence[Outcome]) -> str:
    """A line of the table."""
    times = [o.seconds for o in mine]
    counts = (len(mine), sum(o.noticed for o in mine), sum(o.wrong for o in mine))
    seconds = (f"{statistics.median(times):.2f}", f"{max(times):.2f}")
    left = sum(bool(o.left) for o in mine)
    deployments = ", ".join(sorted({o.deployment for o in mine})) if name != "all" else ""
    return f"| {' | '.join(map(str, (name, deployments, *counts, *seconds, left)))} |"


def table(outcomes: Sequence[Outcome]) -> str:
    """What became of all faults, a line for each kind, in Markdown."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    names = [name for deployment in DEPLOYMENTS for name in faults_of(deployment)]
    for name in [*dict.fromkeys([*names, RESULTS[1]]), "all"]:
        if mine := [o for o in outcomes if name in (o.fault, "all")]:
            lines.append(row(name, mine))
    if loads := [o.load for o in outcomes]:
        lines.append(f"load average: median {statistics.median(loads):.1f}, max {max(loads):.1f}")
    for one in outcomes:
        if not one.noticed or one.wrong or one.left:
            lines.append(f"! {one.deployment}, {one.fault}, {one.seconds:.2f} s: {one.words}")
            lines += [f"    left: {line}" for line in one.left[:5]]
    return "\n".join(lines)


def read(path: Path | None) -> list[Outcome]:
    """The faults that a file holds; none without one."""
    text = path.read_text() if path is not None and path.exists() else ""
    lines = (json.loads(line) for line in text.splitlines())
    return [Outcome(**{**line, "left": tuple(line["left"])}) for line in lines]


Done = Counter[tuple[str, str]]


def choose(
    deployments: Sequence[str], only: Sequence[str], done: Done, draw: random.Random
) -> tuple[str, dict[str, Fault]]:
    """The faults to inject next, in one deployment: those that were injected least."""
    every = {
        (deployment, name): fault
        for deployment in deployments
        for name, fault in faults_of(deployment).items()
        if (name in only if only else name != STOPPED)
    }
    first = min(every, key=lambda key: (done[key], draw.random()))
    if first == RESULTS or every[first].tmpfs:
        return first[0], {first[1]: every[first]}
    mine = [(key, f) for key, f in every.items() if key[0] == first[0] and not f.tmpfs]
    mine.sort(key=lambda one: (done[one[0]], draw.random()))
    lasting = [(key[1], fault) for key, fault in mine if fault.lives or fault.stops]
    others = [(key[1], fault) for key, fault in mine if not (fault.lives or fault.stops)]
    if "vm" in first[0]:  # a guest takes a minute to boot
        return first[0], dict(lasting + others[:1])
    going_on = [one for one in others if not one[1].ends]
    return first[0], dict(lasting[:MOST] + going_on[:MOST] + [o for o in others if o[1].ends][:1])


def main() -> int:
    """Inject faults and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no fault after these")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deployments", default=USUAL)
    parser.add_argument("--only", default="", help="names of faults; those that take long too")
    parser.add_argument("--append", type=Path, help="file that each fault is appended to")
    parser.add_argument("--table", type=Path, nargs="+", help="print what these files hold")
    parser.add_argument("--control", help=argparse.SUPPRESS)
    parser.add_argument("--control-run", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.control:
        return control(arguments.control)
    if arguments.control_run:
        return control_run(arguments.control_run)
    outcomes: list[Outcome] = []
    for path in arguments.table or ():
        outcomes += read(path)
    if arguments.table is None:
        draw, began = random.Random(arguments.seed), time.monotonic()  # noqa: S311 - no secret
        only = [name for name in arguments.only.split(",") if name]
        # It sleeps nearly all the time, and has to be on time beside pollers of high priority.
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        deployments = [name for name in arguments.deployments.split(",") if name]
        # Those that were injected least come first, also over many short calls.
        done: Done = Counter((o.deployment, o.fault) for o in read(arguments.append))
        while len(outcomes) < arguments.faults and time.monotonic() - began < arguments.seconds:
            deployment, chain = choose(deployments, only, done, draw)
            done.update((deployment, name) for name in chain)
            if STOPPED in only:
                found = inject_stops(deployments, draw)
            elif deployment == RESULTS[0]:
                found = [inject_results(draw)]
            else:
                found = inject(deployment, chain, draw, began + arguments.seconds)
            outcomes += found
            for outcome in found:
                print(row(outcome.fault, [outcome]), flush=True)
            if arguments.append is not None:
                with arguments.append.open("a") as file:
                    file.writelines(json.dumps(asdict(outcome)) + "\n" for outcome in found)
    print(table(outcomes))
    return int(any(not o.noticed or o.wrong or o.left for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
