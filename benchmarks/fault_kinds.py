"""Faults: what is done to a run in the middle of a trial, and by what it has to be named."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.controllers import Controller, pids_of
from vnetperf.host import links
from vnetperf.host.linux import run_in
from vnetperf.host.paths import HostRoots
from vnetperf.model.errors import HostError

#: Deployment -> settings that it is made with, and parts that it has besides tester and agent.
DEPLOYMENTS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "pvp_dpdk": ({}, ("switch", "VNF")),
    "phy2phy_dpdk": ({"wire": "veth"}, ("switch",)),
    "phy2phy_bridge": ({"wire": "veth"}, ()),
    "pvp_bridge": ({"wire": "veth"}, ("VNF",)),
    "pvp_dpdk+vm": ({"vnf": "vloop:vm"}, ("switch", "guest")),
}
#: Low, so that nothing is lost without a fault; and more than the rings hold of a short stall.
LOAD_FPS, STALL_FPS, TRIAL_S = 5_000.0, 20_000.0, 2.0
#: Longest times until a fault is named, seconds. The end of a controller counts when the
#: machine is as it was; it is silent for 60 s until its agent takes that for its end.
KILLED_S, STOPPED_S, SILENT_S = 1.0, 10.0, 75.0
#: How long a ring is flooded, seconds, and what then stands beside a trial.
FLOOD_S, DROPPED = 0.15, "the tester's ports dropped"
YEAR_S = 365 * 86_400
NO_SPACE = ("No space left on device",)
#: The fault of a whole run of pytest.
RESULTS = ("pytest", "no space for results")
STOPPED = "controller stopped"

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
        return any(word in split_words(line) for word in self.words)


def split_words(line: Values) -> str:
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
        set_offset(Path(path.decode().partition("=")[2]), 0, years * YEAR_S)

    return act


def set_offset(path: Path, pid: int, seconds: int) -> None:
    """Set the clock of a process; 0 is that of all for which the file is."""
    with path.open("r+b") as file:  # it is mapped
        file.seek(8 * pid)
        file.write(seconds.to_bytes(8, sys.byteorder, signed=True))


def make_clock(folder: Path) -> None:
    """Build the library, and its offsets of 0 s: of all processes, then of each."""
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    with (folder / "s").open("wb") as file:
        file.truncate(8 * (most + 1))
    source = Path(__file__).with_name("clock.c")
    argv = ["gcc", "-shared", "-fPIC", "-O2", "-o", f"{folder}/clock.so", f"{source}", "-ldl"]
    subprocess.run(argv, check=True)


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
    found["agent killed"] = Fault(to(kill, lambda c: c.agent), KILLED_S, gone)
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
