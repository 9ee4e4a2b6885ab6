"""Parts of a run that are killed, how they are found, and what of a run is left on the machine."""

from __future__ import annotations

import ctypes
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.controllers import run_processes
from benchmarks.fault_kinds import YEAR_S, fill, set_offset
from vnetperf.host import kernel, links, snapshot
from vnetperf.host.linux import ProcessId, run_in
from vnetperf.host.paths import HostRoots
from vnetperf.model.errors import VnetperfError

AREAS = ("hugepages", "mounts", "links", "routes", "netns", "modules", "values", "files")
#: Folders in which daemons keep what they have, and names in them that a run could make.
KEPT = (Path("/run"), Path("/var/lib"), Path("/etc"))
OF_A_RUN = re.compile(r"vnetperf|docker|containerd|cni|libpod|containers|libvirt|openvswitch")
#: Commands of bpf(2) that give the next id of a program, a map, a link.
NEXT_IDS = {"programs": 11, "maps": 12, "links": 31}
BPF = 321  # x86-64
#: Part -> what the command line of its process has.
PARTS = {
    "switch": re.compile(r"/ovs-vswitchd"),
    "VNF": re.compile(r"/vloop .*--file-prefix=vnf"),
    "NAT": re.compile(r"/cgnat "),
    "engine": re.compile(r"/loadgen .*--lcores"),
    "guest": re.compile(r"qemu-system.* -name"),
    "libvirt": re.compile(r"vnetperf\.virt\.session_server"),
    "daemon": re.compile(r"^(\S*/)?(dockerd|containerd) "),
    "tool": re.compile(r"^(\S*/)?(iperf3?|netperf|netserver|sockperf) "),
    "machine": re.compile(r"qemu-system.*vnetperf/lab"),
    "ssh": re.compile(r"^(\S*/)?ssh(:| )"),
    "sudo": re.compile(r"^(\S*/)?sudo "),
}
AGENT = re.compile(r"^\S*python\S* .*exec\(eval\(sys\.stdin\.readline\(\)\)\)")
GUARDIAN = "vnetperf.host.guardian"


@dataclass(frozen=True)
class Process:
    """A process: its parent and its command line."""

    parent: int
    line: str


def processes() -> dict[int, Process]:
    """All processes."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):  # ended meanwhile
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            stat = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if stat[0] != "Z":
                found[int(entry.name)] = Process(int(stat[1]), line)
    return found


@dataclass
class Session:
    """A session of pytest, and the processes of its runs.

    Attributes:
        process: What was started: pytest, or `vnetperf lab` in front of it.
        folder: Where its results are.
        printed: What it prints.
        seen: Processes that were its own at some moment.
        names: Ids of its runs.
        stopped: Processes that were stopped, and go on once the session has ended.
    """

    process: subprocess.Popen[bytes]
    folder: Path
    printed: Path
    seen: set[ProcessId] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    stopped: list[int] = field(default_factory=list)

    @property
    def status(self) -> int | None:
        """Its exit status; None while it runs."""
        return self.process.poll()

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.status is not None

    @property
    def output(self) -> str:
        """What it has printed."""
        return self.printed.read_text(errors="replace")

    def tree(self) -> dict[int, Process]:
        """Its process and all below it."""
        every = processes()
        found = [self.process.pid]
        for parent in found:
            found += [pid for pid, one in every.items() if one.parent == parent]
        mine = {pid: every[pid] for pid in found if pid in every}
        self.seen |= {one for one in map(ProcessId.read, mine) if one is not None}
        return mine

    def agents(self) -> list[int]:
        """Its agents on this machine."""
        return [pid for pid, one in self.tree().items() if AGENT.search(one.line)]

    def guardians(self) -> list[int]:
        """Guardians of its agents; ids of the runs that they guard are noted."""
        found = []
        for pid, one in self.tree().items():
            if GUARDIAN in one.line and (run := re.search(r"([^/ ]+)\.jsonl", one.line)):
                self.names.add(run[1])
                found.append(pid)
        return found

    def programs(self) -> dict[int, str]:
        """Processes of its runs, whoever started them: pid and command line."""
        self.guardians()
        found = {p: one.line for p, one in run_processes().items() if one.run in self.names}
        self.seen |= {one for one in map(ProcessId.read, found) if one is not None}
        return found

    def part(self, name: str) -> list[int]:
        """Processes of a part, of the runs or of the session itself."""
        mine = {pid: one.line for pid, one in self.tree().items()} | self.programs()
        return sorted(pid for pid, line in mine.items() if PARTS[name].search(line))

    def alive(self) -> list[ProcessId]:
        """Processes of it that are still there."""
        return [one for one in self.seen if ProcessId.read(one.pid) == one]

    def is_empty(self) -> bool:
        """Whether nothing is left of it but its controller."""
        self.programs()
        return {one.pid for one in self.alive()} <= {self.process.pid}

    def resume(self) -> None:
        """Let what was stopped go on."""
        for pid in self.stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def finish(self) -> None:
        """End its controller, where it has not ended."""
        if not self.ended:
            self.process.kill()
            self.process.wait()


@contextmanager
def open_session(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], cwd: Path, user: str
) -> Iterator[Session]:
    """Start a session in a process group of its own; its controller is killed at the end.

    Args:
        command: Its command line.
        folder: Where its results will be; what it prints is written beside it.
        environment: Its environment.
        cwd: Where it is started.
        user: Who starts it; "" is who calls this.
    """
    printed = folder.with_suffix(".out")
    with printed.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            user=user or None,
            group=user or None,
            extra_groups=[] if user else None,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        session = Session(process, folder, printed)
        try:
            yield session
        finally:
            session.resume()
            session.finish()


Act = Callable[[Session, random.Random], bool]


@dataclass(frozen=True)
class Victim:
    """What is killed, and how.

    Attributes:
        act: Does it; False where it is not there, or not yet.
        phases: When it can be done.
        forwards: Whether frames under test pass it.
        outlives: Whether a run may go on after it, and be right.
        silences: Whether it is the controller that is there and says nothing any more.
        unguarded: Whether it can leave a host with neither agent nor guardian.
        needs: What its session has to be started with: a `clock`, a `tmpfs`, little `memory`.
    """

    act: Act
    phases: tuple[str, ...] = ("deploy", "trial")
    forwards: bool = False
    outlives: bool = False
    silences: bool = False
    unguarded: bool = False
    needs: str = ""


def send(pids: Collection[int], number: signal.Signals) -> bool:
    """Send a signal to processes; False without any."""
    sent = False
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            sent = True
    return sent


def to_part(name: str, number: signal.Signals) -> Act:
    """An act that sends a signal to one process of a part."""

    def act(session: Session, draw: random.Random) -> bool:
        found = session.part(name)
        chosen = [draw.choice(found)] if found else []
        session.stopped += chosen if number == signal.SIGSTOP else []
        return send(chosen, number)

    return act


def to_agent(number: signal.Signals) -> Act:
    """An act that sends a signal to one of the agents."""

    def act(session: Session, draw: random.Random) -> bool:
        session.programs()
        found = session.agents()
        chosen = [draw.choice(found)] if found else []
        session.stopped += chosen if number == signal.SIGSTOP else []
        return send(chosen, number)

    return act


def controller_of(session: Session) -> int:
    """pytest: the session's first process, or the first below `vnetperf lab` or a shell."""
    mine = session.tree()
    return next((pid for pid, one in mine.items() if re.search(r" -m pytest ", one.line)), 0)


def to_controller(*numbers: signal.Signals) -> Act:
    """An act that sends signals to pytest, one after the other."""

    def act(session: Session, draw: random.Random) -> bool:
        session.programs()
        pid = controller_of(session)
        session.stopped += [pid] if signal.SIGSTOP in numbers else []
        sent = bool(pid)
        for number in numbers if pid else ():
            sent = send([pid], number)
            time.sleep(draw.uniform(0.0, 0.6) if len(numbers) > 1 else 0.0)
        return sent

    return act


def kill_guardian(session: Session, draw: random.Random) -> bool:
    """Kill one of the guardians."""
    session.programs()
    found = session.guardians()
    return send([draw.choice(found)] if found else [], signal.SIGKILL)


def kill_both(session: Session, draw: random.Random, *, later_s: float = 0.0) -> bool:
    """Kill all agents and guardians; the guardians a while later, where that is wanted."""
    session.programs()
    agents, guardians = session.agents(), session.guardians()
    if not guardians:
        return False
    if later_s:
        send(agents, signal.SIGKILL)
        time.sleep(draw.uniform(0.02, later_s))
    send(guardians, signal.SIGKILL)
    send(agents, signal.SIGKILL)
    return True


def stop_and_kill(session: Session, _: random.Random, *, guardian: bool) -> bool:
    """Stop the guardians and kill the agents, or stop the agents and kill the controller.

    What was stopped goes on once the session has ended.
    """
    session.programs()
    agents, guardians = session.agents(), session.guardians()
    if not guardians:
        return False
    stopped = guardians if guardian else agents
    session.stopped += stopped
    send(stopped, signal.SIGSTOP)
    return send(agents if guardian else [controller_of(session)], signal.SIGKILL)


def kill_all(session: Session, _: random.Random, *, guardians: bool) -> bool:
    """Kill everything of a run and its session, but for the guardians unless these too."""
    programs, guards = session.programs(), session.guardians()
    if not guards:
        return False
    others = [*programs, *session.agents(), *(p for p in session.tree() if p not in guards)]
    send([*(guards if guardians else ()), *others], signal.SIGKILL)
    return True


def kill_group(session: Session, _: random.Random) -> bool:
    """Kill the session's process group, as a terminal or a CI does."""
    session.programs()
    os.killpg(session.process.pid, signal.SIGKILL)
    return True


def delete_link(session: Session, draw: random.Random) -> bool:
    """Delete a link in one of the network namespaces of the runs."""
    session.programs()
    places = [HostRoots(), *HostRoots().on_machine]
    spaces = [
        p for root in places for name in session.names for p in root.run.glob(f"{name}/**/netns")
    ]
    for space in draw.sample(spaces, len(spaces)):
        with suppress(VnetperfError, OSError):
            there = [one.name for one in run_in(space, links.links) if one.name.startswith("vp")]
            if there:
                run_in(space, partial(links.delete, draw.choice(sorted(there))))
                return True
    return False


def fill_run_directory(session: Session, _: random.Random) -> bool:
    """Leave no space in the run directory, which is a small tmpfs of the session's own."""
    session.programs()
    folder = Path(f"/proc/{session.process.pid}/root") / HostRoots().run.relative_to("/")
    fill(folder)
    return (folder / ".full").exists()


def wait_for_oom(session: Session, _: random.Random) -> bool:
    """Nothing: the kernel kills what it wants when it wants."""
    return bool(session.process.pid)


def set_clock(session: Session, draw: random.Random, *, agent: bool) -> bool:
    """Set the clock of the controller, or of the agents, a year off."""
    session.programs()
    pids = session.agents() if agent else [controller_of(session)]
    years = draw.choice((-1, 1))
    for pid in filter(None, pids):
        set_offset(session.folder.with_name("s"), pid, years * YEAR_S)
    return any(pids)


def kill_far_agent(session: Session, _: random.Random) -> bool:
    """Kill the agent on a machine of the lab, by its own ssh."""
    line = next((one.line for one in session.tree().values() if "ssh_config" in one.line), "")
    config = re.search(r"-F *(\S*ssh_config)", line)
    if not config:
        return False
    # Everything on that machine is the lab's own.
    argv = ["ssh", "-F", config[1], "m2", "pkill -KILL -o -f 'exec.eval.sys.stdin'"]
    return subprocess.run(argv, check=False, capture_output=True, timeout=60).returncode == 0


K, T, S, INT = signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGINT
ANY = ("start", "deploy", "trial")
VICTIMS: Mapping[str, Victim] = {
    "controller KILL": Victim(to_controller(K), ANY),
    "controller TERM": Victim(to_controller(T), ANY),
    "controller INT": Victim(to_controller(INT), ANY),
    "controller INT twice": Victim(to_controller(INT, INT), ANY),
    "controller STOP": Victim(to_controller(S), silences=True),
    "session KILL": Victim(kill_group, ANY),
    "agent KILL": Victim(to_agent(K), ANY),
    "agent TERM": Victim(to_agent(T)),
    "agent STOP": Victim(to_agent(S)),
    "guardian KILL": Victim(kill_guardian, outlives=True),
    "agent and guardian KILL": Victim(kill_both, unguarded=True),
    "agent KILL, guardian later": Victim(partial(kill_both, later_s=0.5), unguarded=True),
    "guardian STOP, agent KILL": Victim(partial(stop_and_kill, guardian=True)),
    "agent STOP, controller KILL": Victim(partial(stop_and_kill, guardian=False)),
    "everything KILL": Victim(partial(kill_all, guardians=True), unguarded=True),
    "all but guardians KILL": Victim(partial(kill_all, guardians=False)),
    "link deleted": Victim(delete_link, forwards=True),
    "no space": Victim(fill_run_directory, outlives=True, needs="tmpfs"),
    "little memory": Victim(
        wait_for_oom, ("start",), outlives=True, unguarded=True, needs="memory"
    ),
    "clock of controller": Victim(partial(set_clock, agent=False), outlives=True, needs="clock"),
    "clock of agent": Victim(partial(set_clock, agent=True), outlives=True, needs="clock"),
    **{
        f"{part} {number.name.removeprefix('SIG')}": Victim(
            to_part(part, number), ("trial",), forwards=True
        )
        for part in ("switch", "VNF", "NAT", "engine", "guest")
        for number in (K, T, S)
    },
    "libvirt KILL": Victim(to_part("libvirt", K), forwards=True),
    "daemon KILL": Victim(to_part("daemon", K)),
    "daemon STOP": Victim(to_part("daemon", S), outlives=True),
    # A transfer has ended by the time that the log has it: as soon as the tool is there.
    "tool KILL": Victim(to_part("tool", K), ("deploy",)),
    "tool STOP": Victim(to_part("tool", S), ("deploy",)),
    # The agent below it goes on, and keeps its pipes.
    "sudo KILL": Victim(to_part("sudo", K), ANY, outlives=True),
    "sudo TERM": Victim(to_part("sudo", T), ANY),
    "machine KILL": Victim(to_part("machine", K), ("deploy", "trial")),
    "machine STOP": Victim(to_part("machine", S), ("trial",)),
    "ssh KILL": Victim(to_part("ssh", K), ("deploy", "trial")),
    "far agent KILL": Victim(kill_far_agent, ("deploy", "trial")),
}


def _groups() -> Iterator[str]:
    for where, names, _ in os.walk("/sys/fs/cgroup"):
        yield from (f"{where}/{name}" for name in names if OF_A_RUN.search(name))


def _paths() -> Iterator[str]:
    for place in KEPT:
        for path in place.iterdir() if place.is_dir() else ():
            if OF_A_RUN.search(path.name):
                yield str(path)
                for where, folders, files in os.walk(path):
                    yield from (f"{where}/{name}" for name in (*folders, *files))


def _objects(command: int) -> int:
    """How many objects of BPF there are of a kind."""
    libc, request, found = ctypes.CDLL(None), (ctypes.c_uint32 * 32)(), 0
    while libc.syscall(BPF, command, ctypes.byref(request), ctypes.sizeof(request)) == 0:
        request[0], found = request[1], found + 1
    return found


def _rules(*argv: str) -> str:
    """What a program prints of rules, without counters."""
    if shutil.which(argv[0]) is None:
        return ""
    text = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    return re.sub(r"\[\d+:\d+\]|#.*|packets \d+ bytes \d+", "", text).strip()


def whole_machine() -> snapshot.Snapshot:
    """The machine, as far as no run may change it."""
    areas = dict(snapshot.take_snapshot(HostRoots(), AREAS).areas)
    every = processes()
    of_runs = {pid: f"{one.run} {one.line}" for pid, one in run_processes().items()}
    of_runs |= {pid: one.line for pid, one in every.items() if GUARDIAN in one.line}
    areas["processes"] = {str(pid): line[:120] for pid, line in of_runs.items()}
    areas["cgroups"] = dict.fromkeys(_groups(), "exists")
    areas["paths"] = dict.fromkeys(_paths(), "exists")
    areas["bpf"] = {name: str(_objects(command)) for name, command in NEXT_IDS.items()}
    areas["rules"] = {
        program: _rules(program, *arguments)
        for program, arguments in {"nft": ["list", "ruleset"], "iptables-save": []}.items()
    }
    areas["ipc"] = {
        f"{kind} {line.split()[1]}": "exists"
        for kind in ("shm", "sem", "msg")
        for line in Path("/proc/sysvipc", kind).read_text().splitlines()[1:]
    }
    return snapshot.Snapshot(areas)


#: Areas in which what a run makes has the run's id, or its end, in its name.
MARKED = ("processes: ", "netns: ", "paths: ", "files: ", "cgroups: ", "mounts: ", "links: ")


def left(before: snapshot.Snapshot, session: Session) -> tuple[str, ...]:
    """How the machine differs from before, and processes of the session that have not ended.

    While others have runs on the machine only what has a mark of the session's own is known to be
    the session's, and what BPF has is not.
    """
    now = whole_machine()
    loaded = now.areas["modules"].keys() - before.areas["modules"].keys()
    stay = {module for module in loaded if kernel.explain_unload_risk(module)}
    found = list(snapshot.compare_snapshots(before, snapshot.without_loaded(now, before, stay)))
    # What others had before and have no longer is not left behind.
    gone = re.compile(r"(processes|netns|paths|files|cgroups): .* is gone")
    found = [line for line in found if not gone.match(line)]
    marks = {*session.names, *(f"vp{name.rpartition('-')[2]}" for name in session.names)}
    if _others(session, {*before.areas["processes"]}):
        marked = tuple(marks)
        found = [
            line
            for line in found
            if any(mark in line for mark in marked) or not line.startswith((*MARKED, "bpf: "))
        ]
    every = processes()
    there = [(one.pid, every[one.pid].line) for one in session.alive() if one.pid in every]
    return (*found, *(f"process {pid}: {line[:100]}" for pid, line in there))


def _others(session: Session, before: Collection[str]) -> bool:
    """Whether somebody else has a run, or had one before."""
    guardians = [one.line for one in processes().values() if GUARDIAN in one.line]
    journals = [
        path.stem for root in HostRoots().on_machine for path in root.journals.glob("*.jsonl")
    ]
    runs = [one.run for one in run_processes().values()]
    mine = [any(name in text for name in session.names) for text in (*guardians, *journals, *runs)]
    return bool(before) or not all(mine)
