"""Kills in the middle of real runs of pytest: what is left, and what the run says of itself.

    python -m benchmarks.kills [--kills 1-60] [--seed 1] [--only WORDS] ... [--append FILE]
    python -m benchmarks.kills --list
    python -m benchmarks.kills --table FILE [FILE ...]

Each kill has a run of its own (`pytest -k ... --preset smoke`). A part of it is drawn, and a
moment: at the start, in the deployment, or in a trial. Kill number N of a seed is the same,
whichever others are made before it, so that many short calls make one series. Then it is waited
for: the session ends, the guardians restore, and `vnetperf restore` does where both agent and
guardian were killed. Compared with before the run are processes, network namespaces, links,
routes, hugepages, mounts, modules, sysctls, nftables, iptables, BPF, control groups, IPC, and files
in /run, /var/lib and /dev/shm. Wrong is also an exit status of 0 after something that a run does
not outlive, a valid trial with loss in which a part did not forward, a traceback, a session that
does not end, and a log of which `vnetperf report` makes no report. Needs root, and for most runs
OVS-DPDK and testpmd.

A run of a user who has `sudo` for the launcher alone (docs/security.md) takes `--user NAME` and
`--installation FOLDER`; without these its kills are left out. No other clock than that of a run's
own processes is set, and a full disk or little memory are the run's own too.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.controllers import TOP, on_small_tmpfs
from benchmarks.fault_kinds import make_clock
from benchmarks.kill_victims import VICTIMS, Session, Victim, left, open_session, whole_machine
from vnetperf.host.paths import HostRoots
from vnetperf.host.wait import wait_at_most
from vnetperf.log.folder import read_up_to_damage
from vnetperf.model.errors import VnetperfError

#: Longest waits, seconds: for the moment of a kill, a part that is not there yet, the session's end
#: (an agent waits a minute for a silent controller), and the machine as it was.
MOMENT_S, PART_S, END_S, RESTORED_S = 240.0, 20.0, 100.0, 40.0
#: Latest moments of a kill after the session, a guardian, or a trial began, seconds.
START, DEPLOY, TRIAL = "start", "deploy", "trial"
LATEST_S = {START: 5.0, DEPLOY: 1.5, TRIAL: 1.0}
#: What pytest prints, and a log has, of an error that nobody has thought of.
TRACEBACK = re.compile(r"^Traceback \(most recent call last\)|^INTERNALERROR", re.MULTILINE)
#: A kill so shortly before a trial's last frame loses less than a load may, seconds.
EDGE_S = 0.05


@dataclass(frozen=True)
class Run:
    """A run of pytest.

    Attributes:
        options: Which cases, and their settings.
        victims: What of it is killed besides what every run has.
        sizes: Whether it has sizes of frames.
        links: Whether interfaces of the kernel are in its path.
        common: Whether its session, agents and guardians are killed too.
        by: Who starts it: `root`, a `user` with the launcher, or `root` in front of a `lab`.
        deploy_s: Latest moment of a kill in the deployment after a guardian is there, seconds.
    """

    options: tuple[str, ...]
    victims: tuple[str, ...] = ()
    sizes: bool = True
    links: bool = False
    common: bool = True
    by: str = "root"
    deploy_s: float = LATEST_S[DEPLOY]


def throughput(scenario: str, *options: str) -> tuple[str, ...]:
    """Options of a search for the throughput."""
    return ("testcases/test_rfc2544.py", "-k", f"{scenario} and test_throughput", *options)


#: Killed in every run.
COMMON = (
    *("controller KILL", "controller TERM", "controller INT", "controller INT twice"),
    *("session KILL", "agent KILL", "agent TERM", "agent STOP", "guardian KILL"),
    *("agent and guardian KILL", "agent KILL, guardian later", "everything KILL"),
    *("all but guardians KILL", "guardian STOP, agent KILL", "agent STOP, controller KILL"),
    *("no space", "little memory", "controller STOP"),
    *("clock of controller", "clock of agent"),
)
SOCKETS = ("testcases/test_endpoints.py", "--message-sizes", "16384", "-k")
RUNS: Mapping[str, Run] = {
    "pvp_dpdk": Run(
        throughput("pvp_dpdk"),
        ("switch KILL", "switch STOP", "switch TERM", "VNF KILL", "VNF STOP"),
    ),
    "pvp_dpdk, container": Run(
        throughput("pvp_dpdk", "--vnf", "vloop:container"), ("VNF KILL", "VNF TERM")
    ),
    "pvp_bridge, container": Run(
        throughput("pvp_bridge", "--vnf", "vloop:container", "--vnf-mode", "bridge"), links=True
    ),
    "bmp2bmp_vxlan": Run(throughput("bmp2bmp_vxlan"), links=True),
    "cgnat, rtc": Run(
        throughput("phy2phy_cgnat", "--set", "mode=rtc"), ("NAT KILL", "NAT STOP", "NAT TERM")
    ),
    "cgnat, nft": Run(throughput("phy2phy_cgnat", "--set", "mode=nft"), links=True),
    "v2p2v, hosts": Run(throughput("v2p2v_bridge", "--testbed", "two-hosts"), links=True),
    "pvp2pvp, hosts": Run(throughput("pvp2pvp_bridge", "--testbed", "two-hosts"), links=True),
    "docker_overlay": Run(
        throughput("bmp2bmp_docker_overlay"), ("daemon KILL", "daemon STOP"), links=True
    ),
    "docker_overlay, sockets": Run(
        (*SOCKETS, "bmp2bmp_docker_overlay and TCP_STREAM"),
        ("daemon KILL", "tool KILL"),
        sizes=False,
    ),
    "cni": Run(throughput("bmp2bmp_cni"), links=True),
    "vxlan, runc": Run(
        (*SOCKETS, "bmp2bmp_vxlan and TCP_STREAM", "--pod", "runc"),
        ("tool KILL", "tool STOP"),
        sizes=False,
    ),
    "pvp_bridge, guest": Run(
        throughput("pvp_bridge", "--vnf", "vloop:vm", "--vnf-mode", "bridge"),
        ("guest KILL", "guest STOP", "guest TERM", "libvirt KILL"),
        deploy_s=15.0,
    ),
    "pvp_dpdk, guest": Run(
        throughput("pvp_dpdk", "--vnf", "vloop:vm"),
        ("guest KILL", "switch KILL", "libvirt KILL"),
        deploy_s=15.0,
    ),
    "pvp_dpdk, launcher": Run(
        throughput("pvp_dpdk"), ("sudo KILL", "sudo TERM", "switch KILL"), by="user"
    ),
    "phy2phy_bridge, lab": Run(
        throughput("phy2phy_bridge"),
        ("machine KILL", "machine STOP", "ssh KILL", "far agent KILL", "controller KILL"),
        common=False,
        by="lab",
        deploy_s=6.0,
    ),
}
#: Of a user's processes no environment is taken over, and a user may mount nothing.
ROOTS_ONLY = ("no space", "little memory", "clock of controller", "clock of agent")


@dataclass(frozen=True)
class Kill:
    """What became of a kill.

    Attributes:
        number: Its number in the series.
        run: Which run.
        victim: What was killed, and how.
        phase: When: at the start, in the deployment, or in a trial.
        made: Whether it was there to be killed.
        wrong: What is wrong, one line each: verdicts, exit status, tracebacks, no end, no report.
        left: What was left, after `vnetperf restore` where that was needed.
        restored: Whether `vnetperf restore` had something to do.
        ended_s: From the kill to the end of the session, seconds.
        gone_s: From its end until the machine was as before, seconds; without `restore`.
        status: Exit status of pytest; below 0 the signal that ended it.
        said: The first line of the reason that the log, or pytest, gives.
        verdicts: Verdicts of the trials that had not ended at the kill.
        load: Load average of the machine over a minute.
    """

    number: int
    run: str
    victim: str
    phase: str
    made: bool
    wrong: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    restored: bool = False
    ended_s: float | None = None
    gone_s: float | None = None
    status: int | None = None
    said: str = ""
    verdicts: tuple[str, ...] = ()
    load: float = 0.0


def deck(seed: int, only: Sequence[str], *, user: bool) -> list[tuple[str, str]]:
    """Every run with each of its victims, in an order that the seed decides; runs take turns.

    Args:
        seed: Decides the order.
        only: Words of which one has to be in "RUN: VICTIM"; all without any.
        user: Whether there is a user with the launcher.
    """
    piles = []
    for name, run in RUNS.items():
        if run.by == "user" and not user:
            continue
        victims = [*run.victims, *(COMMON if run.common else ())]
        victims += ["link deleted"] if run.links else []
        victims += ["engine KILL", "engine STOP", "engine TERM"] if run.common and run.sizes else []
        if run.by == "user":
            victims = [one for one in victims if one not in ROOTS_ONLY]
        pile = [(name, one) for one in victims if _wanted(f"{name}: {one}", only)]
        # Another victim of one run changes nothing of the others'.
        random.Random(f"{seed} {name}").shuffle(pile)  # noqa: S311 - an order, no secret
        piles.append(pile)
    random.Random(seed).shuffle(piles)  # noqa: S311 - the same
    longest = max(map(len, piles), default=0)
    return [pile[turn] for turn in range(longest) for pile in piles if turn < len(pile)]


def _wanted(name: str, only: Sequence[str]) -> bool:
    return not only or any(word in name for word in only)


@dataclass(frozen=True)
class Started:
    """How a run is started.

    Attributes:
        command: Its command line.
        environment: Its environment.
        folder: Where its results are.
        user: Who starts it; "" is root.
        cwd: Where it is started.
    """

    command: list[str]
    environment: dict[str, str]
    folder: Path
    user: str = ""
    cwd: Path = TOP


@contextmanager
def prepared(run: Run, victim: Victim, options: argparse.Namespace) -> Iterator[Started]:
    """What a run needs; its folders, library and control group are removed afterwards."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kills-")))
        folder = place / "results"
        folder.mkdir()
        arguments = [*run.options, "--preset=smoke", f"--results-dir={folder}", "-q"]
        arguments += ["-p", "no:cacheprovider", *(["--frame-sizes=64"] if run.sizes else [])]
        command = [sys.executable, "-m", "pytest", *arguments]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("VNETPERF_")}
        cwd = TOP
        if run.by == "user":
            python = str(options.installation / "bin/python")
            module = f"vnetperf.{Path(arguments[0]).with_suffix('').as_posix().replace('/', '.')}"
            command = [python, "-m", "pytest", "--pyargs", module, *arguments[1:]]
            environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(place)}
            cwd = place
            for path in (place, folder):
                shutil.chown(path, options.user)
        elif run.by == "lab":
            lab = ["-m", "vnetperf.cli", "lab", "run", "--machines", "2", "--"]
            command = [sys.executable, *lab, *command]
        if victim.needs == "clock":
            make_clock(place)
            clock = {"LD_PRELOAD": str(place / "clock.so"), "FAULTS_CLOCK": str(place / "s")}
            environment |= clock
        elif victim.needs == "tmpfs":
            command = on_small_tmpfs(command, str(HostRoots().run))
            stack.callback(_removed, HostRoots().run)
        elif victim.needs == "memory":
            command = stack.enter_context(within_memory(command, options.draw))
        user = options.user if run.by == "user" else ""
        yield Started(command, environment, folder, user, cwd)


@contextmanager
def within_memory(command: Sequence[str], draw: random.Random) -> Iterator[list[str]]:
    """A command in a control group that has less memory than a run needs."""
    top = Path("/sys/fs/cgroup")
    old = (top / "memory").is_dir()
    group = (top / "memory" if old else top) / f"kills-{os.getpid()}"
    group.mkdir()
    limit = group / ("memory.limit_in_bytes" if old else "memory.max")
    limit.write_text(f"{draw.choice((170, 200, 230, 260)) << 20}")
    try:
        script = 'echo $$ > "$0" && exec "$@"'
        yield ["sh", "-c", script, str(group / "cgroup.procs"), *command]
    finally:
        # The kernel lets go of it a little after its last process.
        wait_at_most(lambda: _removed(group), 6.0, "the end of a control group", poll_s=0.2)


def _removed(folder: Path) -> bool:
    with suppress(OSError):
        folder.rmdir()
    return not folder.exists()


def records_of(folder: Path) -> list[Any]:
    """What the log of a run has so far."""
    with suppress(VnetperfError, OSError):
        found: list[Any] = list(read_up_to_damage((folder / "latest").resolve())[0])
        return found
    return []


def has_trial(folder: Path) -> bool:
    """Whether a trial, or a transfer, of the run has ended."""
    marks = (b'"type":"trial"', b'"type":"transfer')
    return any(
        any(mark in log.read_bytes() for mark in marks) for log in folder.glob("2*/trials*.jsonl")
    )


def wait_for_moment(session: Session, phase: str, run: Run, draw: random.Random) -> bool:
    """Wait for the moment of a kill; False where the session has ended before."""

    def has_come() -> bool:
        if phase == TRIAL:
            return session.ended or has_trial(session.folder)
        # In the lab guardians are on its machines.
        begun = run.by == "lab" and bool([*session.folder.glob("2*/trials.jsonl")])
        return session.ended or phase == START or begun or bool(session.guardians())

    wait_at_most(has_come, MOMENT_S, phase, poll_s=0.05)
    latest = run.deploy_s if phase == DEPLOY else LATEST_S[phase]
    time.sleep(draw.uniform(0.0, latest))
    return not session.ended


def make_kill(number: int, name: str, victim_name: str, options: argparse.Namespace) -> Kill:
    """Start a run, kill a part of it, and look at what became of both."""
    draw = random.Random(f"{options.seed} {number} {name} {victim_name}")  # noqa: S311 - a moment
    run, victim = RUNS[name], VICTIMS[victim_name]
    phase = draw.choice(victim.phases)
    options.draw, load = draw, os.getloadavg()[0]
    made = False
    with prepared(run, victim, options) as started:
        before = whole_machine()
        with open_session(
            started.command, started.folder, started.environment, started.cwd, started.user
        ) as session:
            came = wait_for_moment(session, phase, run, draw)
            if came:

                def acted() -> bool:
                    nonlocal made
                    made = made or (not session.ended and victim.act(session, draw))
                    return made or session.ended

                wait_at_most(acted, PART_S, victim_name, poll_s=0.05)
            if not made:  # a run that goes on shows nothing
                session.finish()
            killed = time.time()

            def is_over() -> bool:
                return session.ended or (victim.silences and session.is_empty())

            hangs = not wait_at_most(is_over, END_S, "the end of the session", poll_s=0.1)
            ended = time.time()
            status = session.status
            session.resume()
            wait_at_most(lambda: session.ended, 5.0, "the end of the session", poll_s=0.1)
            session.finish()
            unrestored: tuple[str, ...] = ()

            def is_as_before() -> bool:
                nonlocal unrestored
                unrestored = left(before, session)
                return not unrestored

            # Who restores where nobody is left is `restore`: soon is as good as late.
            patience = 6.0 if victim.unguarded else RESTORED_S
            wait_at_most(is_as_before, patience, "the machine as it was", poll_s=0.25)
            gone = time.time()
            done_by_hand = subprocess.run(
                [sys.executable, "-m", "vnetperf.cli", "restore"],
                capture_output=True,
                text=True,
                check=False,
            )
            wait_at_most(is_as_before, 5.0, "the machine as it was", poll_s=0.25)
            still = left(before, session)
        restored = "nothing to restore" not in done_by_hand.stdout
        wrong = list(wrongs(session, victim, killed)) if made else []
        if hangs:
            wrong.append(f"the session did not end in {END_S:g} s")
        if done_by_hand.returncode or TRACEBACK.search(done_by_hand.stderr):
            wrong.append(f"vnetperf restore: {(done_by_hand.stdout + done_by_hand.stderr)[-300:]}")
        if unrestored and made and not victim.unguarded:
            wrong += [f"left until restore: {line}" for line in unrestored[:4]]
        if options.keep and (wrong or still):
            shutil.copytree(started.folder, options.keep / str(number), dirs_exist_ok=True)
            (options.keep / f"{number}.out").write_text(session.output)
        trials = after(session.folder, killed)
        return Kill(
            number=number,
            run=name,
            victim=victim_name,
            phase=phase,
            made=made,
            wrong=tuple(wrong),
            left=still,
            restored=restored,
            ended_s=round(ended - killed, 2),
            gone_s=None if unrestored else round(gone - ended, 2),
            status=status,
            said=reason(session),
            verdicts=tuple(str(trial.verdict) for trial in trials)[:8],
            load=round(load, 1),
        )


def began(trial: Any) -> float:
    """When a trial began, by the controller's clock."""
    return datetime.fromisoformat(trial.started).timestamp()


def after(folder: Path, killed: float) -> list[Any]:
    """Trials that had not ended when something was killed."""
    trials = [one for one in records_of(folder) if one.type == "trial"]
    return [one for one in trials if began(one) + (one.result.wall_s or 0.0) > killed]


def is_wrong(trial: Any, killed: float) -> bool:
    """Whether a trial is valid and has loss although a part of its path did not forward."""
    last = began(trial) + trial.spec.learning_wait_s + trial.spec.duration_s - EDGE_S
    lost = any(one.received < one.sent for one in trial.result.directions)
    return str(trial.verdict) == "VALID" and lost and killed < last


def wrongs(session: Session, victim: Victim, killed: float) -> Iterator[str]:
    """What is wrong with what a run says of itself after a kill."""
    folder = session.folder
    if victim.forwards:
        for trial in after(folder, killed):
            if is_wrong(trial, killed):
                yield f"trial {trial.number} is VALID with loss, and a part did not forward"
    records = records_of(folder)
    trials = [one for one in records if one.type == "trial"]
    had_ended = bool(trials) and all(began(t) + (t.result.wall_s or 0.0) < killed for t in trials)
    had_ended = had_ended and any(one.type == "search-end" for one in records)
    # A case of sockets has one record, when its transfers have ended.
    had_ended = had_ended or any(one.type.startswith("transfer") for one in records)
    if session.status == 0 and not victim.outlives and not had_ended:
        yield "exit status 0"
    texts = {"pytest": session.output}
    texts |= {log.name: log.read_text(errors="replace") for log in folder.glob("2*/run*.log")}
    for where, text in texts.items():
        if found := TRACEBACK.search(text):
            yield f"{where}: {text[found.start() :][-600:]}"
    if any(folder.glob("2*/trials.jsonl")):
        made = subprocess.run(
            [sys.executable, "-m", "vnetperf.cli", "report", str((folder / "latest").resolve())],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        if made.returncode or TRACEBACK.search(made.stdout + made.stderr):
            yield f"vnetperf report: {(made.stdout + made.stderr)[-300:]}"


def reason(session: Session) -> str:
    """Why the run ended, by its log or what pytest printed."""
    for record in records_of(session.folder):
        if record.type == "not-measured":
            return str(record.why).splitlines()[0][:200]
    lines = [line for line in session.output.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("E  ")), (lines or [""])[-1])[:200]


COLUMNS = ("Run", "Killed", "Times", "Made", "Restored by hand", "Median, s", "Longest, s")


def table(kills: Sequence[Kill]) -> str:
    """Kills by run and victim, in Markdown, then what was wrong or left."""
    lines = [f"| {' | '.join((*COLUMNS, 'Wrong', 'Left'))} |", "|---" * 9 + "|"]
    kinds = {(one.run, one.victim): None for one in sorted(kills, key=lambda k: (k.run, k.victim))}
    for run, victim in [*kinds, ("all", "")]:
        mine = [k for k in kills if run == "all" or (k.run, k.victim) == (run, victim)]
        times = [
            k.ended_s + k.gone_s for k in mine if k.ended_s is not None and k.gone_s is not None
        ]
        seconds = (f"{statistics.median(times):.1f}", f"{max(times):.1f}") if times else ("", "")
        counts = (len(mine), sum(k.made for k in mine), sum(k.restored for k in mine))
        bad = (sum(bool(k.wrong) for k in mine), sum(bool(k.left) for k in mine))
        lines.append(f"| {' | '.join(map(str, (run, victim, *counts, *seconds, *bad)))} |")
    for one in kills:
        for line in (*one.wrong, *(f"left: {text}" for text in one.left[:5])):
            lines.append(f"! {one.number}, {one.run}, {one.victim}, {one.phase}: {line}")
    return "\n".join(lines)


def read(path: Path) -> list[Kill]:
    """The kills that a file holds."""
    found = []
    for line in path.read_text().splitlines():
        values: dict[str, Any] = json.loads(line)
        values |= {name: tuple(values[name]) for name in ("wrong", "left", "verdicts")}
        found.append(Kill(**values))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Make kills, and say what was wrong or left."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", default="1-60", metavar="FIRST-LAST")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=7200.0, help="begin no kill after these")
    parser.add_argument("--only", action="append", default=[], help="words of RUN: VICTIM")
    parser.add_argument("--append", type=Path, help="file that each kill is appended to")
    parser.add_argument("--keep", type=Path, help="folder for results of what was wrong")
    parser.add_argument("--user", default="", help="a user with sudo for the launcher")
    parser.add_argument("--installation", type=Path, default=Path("/opt/vnetperf"))
    parser.add_argument("--list", action="store_true", help="print the series, and end")
    parser.add_argument("--table", type=Path, nargs="+", help="print what these files hold")
    options = parser.parse_args(argv)
    if options.table:
        print(table([kill for path in options.table for kill in read(path)]))
        return 0
    kinds = deck(options.seed, options.only, user=bool(options.user))
    if not kinds:
        parser.error(f"no kill has one of {options.only}: --list prints all")
    first, _, last = options.kills.partition("-")
    until, kills = time.monotonic() + options.seconds, list[Kill]()
    for number in range(int(first), int(last or first) + 1):
        name, victim = kinds[(number - 1) % len(kinds)]
        if options.list:
            print(f"{number}: {name}: {victim}")
        elif time.monotonic() < until:
            kills.append(make_kill(number, name, victim, options))
            line = json.dumps(asdict(kills[-1]))
            print(line, flush=True)
            if options.append:
                with options.append.open("a") as file:
                    file.write(f"{line}\n")
    if not options.list:
        print(table(kills))
    return int(any(kill.wrong or kill.left for kill in kills))


if __name__ == "__main__":
    sys.exit(main())
