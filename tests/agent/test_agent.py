"""The agent's end of the connection: a controller that stops, moves of NICs, errors of backends."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import execnet
import pytest

from vnetperf.agent import agent as agent_module
from vnetperf.agent import channel as channel_module
from vnetperf.agent.agent import Agent, TerminatedError
from vnetperf.agent.channel import ControllerGoneError, Line
from vnetperf.agent.client import AgentClient, Heartbeat
from vnetperf.host import files, session
from vnetperf.host.journal import Journal, UndoReport
from vnetperf.host.linux import ProcessId, is_stopped
from vnetperf.host.paths import HostRoots
from vnetperf.host.wait import wait_for
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import HostError
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.planning.backends import Backends


class Channel:
    """execnet's, as far as `Line` uses it; `stuck` is a controller that reads nothing."""

    def __init__(self) -> None:
        self.sent: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.stuck = threading.Event()
        self.take: Callable[[str | None], None] = lambda _: None

    def setcallback(self, callback: Callable[[str | None], None], endmarker: None) -> None:
        self.take = callback

    def send(self, item: str) -> None:
        if self.stuck.is_set():
            time.sleep(60)
        self.sent.put(json.loads(item))


@pytest.fixture
def channel() -> Channel:
    return Channel()


class Clock:
    """A clock that goes on only when it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pass_by(self, line: Line, seconds: float) -> None:
        """Let time go by in steps of a second, at each of which the line looks."""
        for _ in range(round(seconds)):
            self.now += 1.0
            line.look()


@pytest.mark.slow
def test_a_controller_that_beats_is_heard_and_a_silent_one_is_gone(channel: Channel) -> None:
    clock = Clock()
    line = Line(channel, silence_s=60.0, clock=clock)
    for _ in range(6):
        clock.pass_by(line, 59)
        channel.take(json.dumps({"beat": True}))
        assert not line.isclosed()
    channel.take(json.dumps({"call": "teardown", "args": {}}))
    assert json.loads(line.receive())["call"] == "teardown"
    clock.pass_by(line, 60)
    assert not line.silent
    clock.pass_by(line, 1)
    with pytest.raises(EOFError):
        line.receive()
    assert line.silent
    channel.take(json.dumps({"beat": True}))  # too late: what was deployed is being taken away
    assert line.isclosed()


def test_an_agent_that_was_stopped_takes_no_healthy_controller_for_gone(channel: Channel) -> None:
    """Its clock was compared with the last beat before what waits in the pipe was read."""
    clock = Clock()
    line = Line(channel, silence_s=60.0, clock=clock)
    clock.now += 3600.0
    line.look()
    assert not line.isclosed()
    channel.take(json.dumps({"beat": True}))
    clock.pass_by(line, 59)
    assert not line.isclosed()


@pytest.mark.slow
def test_a_controller_that_reads_nothing_blocks_nothing(channel: Channel) -> None:
    channel.stuck.set()
    clock = Clock()
    line = Line(channel, silence_s=60.0, clock=clock)
    for _ in range(1000):
        line.send("{}")  # each of them takes the channel a minute
    clock.pass_by(line, 61)
    with pytest.raises(EOFError):
        line.receive()
    line.flush(0.1)
    assert channel.sent.empty()


def test_a_closed_channel_ends_the_agent(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "LOOK_S", 3600.0)  # at once, not when it is next looked for
    line = Line(channel)
    threading.Timer(0.1, channel.take, [None]).start()
    with pytest.raises(EOFError):
        line.receive()
    with pytest.raises(ControllerGoneError):
        line.send("{}")


def test_a_move_of_a_nic_is_confirmed_by_the_controller(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "CONFIRM_S", 0.2)
    line = Line(channel)
    confirm = Agent(line).make_callbacks("a")["confirm"]
    with pytest.raises(HostError, match="driver of 3b") as refused:
        confirm("driver of 3b")
    assert refused.value.accepted
    assert refused.value.cure
    assert channel.sent.get(timeout=60)["number"] == 1
    channel.take(json.dumps({"confirm": 1}))  # too late: it is no answer to the next
    channel.take(json.dumps({"confirm": 2}))
    confirm("driver of 3b")


class Answering:
    """A channel of the client's whose agent requests a confirmation first."""

    RemoteError = TimeoutError = RuntimeError

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.answers = [{"event": "confirm", "number": 7, "what": "a NIC"}, {"ok": ["done"]}]

    def send(self, item: str) -> None:
        self.sent.append(json.loads(item))

    def receive(self, timeout: float) -> str:
        return json.dumps(self.answers.pop(0))


def test_the_client_confirms_while_it_waits() -> None:
    client = AgentClient(Testbed())
    client.channel = channel = Answering()
    assert client.teardown() == ["done"]
    assert channel.sent == [{"call": "teardown", "args": {}}, {"confirm": 7}]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/run/vnetperf/x/ovs/conf.db"),
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
    ],
)
def test_an_oserror_of_a_backend_reaches_the_user_with_its_cause(
    channel: Channel, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    """It was taken for the controller's end: the agent went away without an answer."""
    agent = Agent(Line(channel))

    def fail(testbed: object) -> None:
        raise error

    monkeypatch.setattr(agent, "call_inventory", fail)
    channel.take(json.dumps({"call": "inventory", "args": {"testbed": {}}}))
    channel.take(json.dumps({"call": "teardown", "args": {}}))
    serving = threading.Thread(target=agent.serve)
    serving.start()
    answer = channel.sent.get(timeout=60)
    assert str(error) in answer["error"]["what"]
    assert answer["error"]["where"] == "inventory"
    assert channel.sent.get(timeout=60) == {"ok": []}  # it lives on
    channel.take(None)
    serving.join(60)
    assert not serving.is_alive()


@pytest.fixture
def impatient() -> Iterator[Any]:
    """The channel to a real agent that gives a silent controller one second."""
    group = execnet.Group()
    gateway = group.makegateway("popen//execmodel=main_thread_only")
    program = (
        "from vnetperf.agent import agent, channel as c; c.SILENCE_S = 1.0; agent.serve(channel)"
    )
    yield gateway.remote_exec(program)
    group.terminate(timeout=20)


@pytest.mark.slow
def test_a_real_agent_ends_when_its_controller_is_silent(impatient: Any) -> None:
    message = json.loads(impatient.receive(timeout=60))
    assert message["event"] == "farewell"
    assert "silent for 1 s" in message["why"]

    def read_on() -> None:
        while True:  # what it logged meanwhile
            impatient.receive(timeout=60)

    with pytest.raises(EOFError):
        read_on()


def test_a_heart_beats_until_it_is_ended(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vnetperf.agent.client.BEAT_S", 0.01)
    heartbeat = Heartbeat(channel)
    for _ in range(5):
        assert channel.sent.get(timeout=60) == {"beat": True}
    heartbeat.end()


@pytest.mark.slow
def test_the_next_call_of_a_controller_that_was_silent_gives_the_reason(
    impatient: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = AgentClient(Testbed())
    client.channel = channel = impatient
    with contextlib.suppress(EOFError):
        channel.waitclose(60)
    monkeypatch.setattr(client, "_connect", lambda: channel)
    with pytest.raises(HostError, match=r"inventory \(the controller was silent"):
        client.call("inventory", testbed={})


#: A controller whose agent has its group, as at a terminal; the first line is the agent's pid.
CONTROLLER = """
import json, os, sys, execnet
gateway = execnet.Group().makegateway("popen//execmodel=main_thread_only")
channel = gateway.remote_exec("from vnetperf.agent.agent import serve; serve(channel)")
for call in ("teardown", "teardown"):
    channel.send(json.dumps({"call": call, "args": {}}))
    assert json.loads(channel.receive(timeout=60)) == {"ok": []}
    print(open(f"/proc/self/task/{os.getpid()}/children").read().split()[0], flush=True)
    sys.stdin.readline()
"""


def test_ctrl_z_stops_the_controller_and_never_the_agent() -> None:
    """The agent was stopped with it: nobody saw the silence, and nothing was ever restored."""
    controller = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,  # of its own, yet in the session of this process: no orphan, which cannot
    )  # be stopped by such a signal
    try:
        assert controller.stdout is not None
        assert controller.stdin is not None
        agent = ProcessId.read(int(controller.stdout.readline()))
        assert agent is not None
        os.killpg(controller.pid, signal.SIGTSTP)
        wait_for(lambda: is_stopped(controller.pid), 60, "the stop of the controller")
        assert os.getpgid(agent.pid) == controller.pid
        assert not is_stopped(agent.pid)
        os.killpg(controller.pid, signal.SIGCONT)
        controller.stdin.write("\n")
        controller.stdin.flush()
        assert int(controller.stdout.readline()) == agent.pid  # it answers as before
    finally:
        os.killpg(controller.pid, signal.SIGKILL)
        controller.communicate(timeout=60)


def test_sigterm_ends_an_agent_wherever_it_comes(
    channel: Channel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of a log record it was taken for a controller that had gone, and ignored."""
    line = Line(channel)
    agent = Agent(line)
    handlers: dict[int, Any] = {}
    monkeypatch.chdir(tmp_path)  # and back: an agent changes to /
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    monkeypatch.setattr(agent_module, "ROOT", logging.getLogger("unused"))
    with monkeypatch.context() as patch:
        patch.setattr(Agent, "serve", lambda _: None)
        agent_module.serve(channel)

    def terminate(item: str) -> None:
        handlers[signal.SIGTERM](signal.SIGTERM, None)

    monkeypatch.setattr(line, "send", terminate)
    with pytest.raises(TerminatedError):
        line.send_record({"msg": "a record"})
    with pytest.raises(TerminatedError):
        agent.make_callbacks("a")["on_restored"](UndoReport("r1"))
    channel.take(json.dumps({"call": "teardown", "args": {}}))
    agent.serve()  # ends


@pytest.fixture
def roots(tmp_path: Path) -> HostRoots:
    return HostRoots(tmp_path / "state", tmp_path / "run")


#: Python 3.12 and later warn of it: another thread may hold a lock that the child then waits for.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_hung_agent_is_ended_by_its_successor_and_its_run_restored(
    roots: HostRoots, tmp_path: Path, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was reported as restored while it held the machine."""
    monkeypatch.setattr(agent_module, "is_root", lambda: True)
    pid = os.fork()
    if pid == 0:
        journal = Journal.create(roots, "r1")
        files.create_tree(journal, tmp_path / "left")
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(1)
    try:
        wait_for((tmp_path / "left").exists, 60, "the change of the other")
        process = ProcessId.read(pid)
        assert process is not None
        agent = Agent(Line(channel), roots)
        other = agent.call_hello([], {}, predecessor=[pid, process.start + 1])
        assert (tmp_path / "left").exists()  # a run of others is left alone
        assert other["troubles"] == []
        found = agent.call_hello([], {}, predecessor=[pid, process.start])
        assert found["troubles"] == []
        assert [one["run_id"] for one in found["restored"]["restored"]] == ["r1"]
        assert not (tmp_path / "left").exists()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_what_a_guardian_still_undoes_is_reported(
    roots: HostRoots, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine was reported as restored while its guardian was at it."""
    monkeypatch.setattr(agent_module, "is_root", lambda: True)
    monkeypatch.setattr(agent_module, "GUARDIAN_S", 0.2)
    Journal.create(roots, "dead").close()
    with Journal.create(roots, "r1", guardian=ProcessId.me()) as journal:
        gone = ProcessId(2**22 + 1, 1)
        text = roots.journal("r1").read_bytes()
        monkeypatch.setattr(session, "find_owners", lambda _: [owner])
        owner = session.LiveRun("r1", "bed", "u", "now", gone.pid, "guardian")
        agent = Agent(Line(channel), roots)
        found = agent.call_hello([], {}, predecessor=[gone.pid, gone.start])
        assert [one["run_id"] for one in found["restored"]["restored"]] == ["dead"]
        assert ["is being restored by its guardian" in one for one in found["troubles"]] == [True]
        assert roots.journal("r1").read_bytes() == text
        journal.undo()


def test_a_launchers_user_ends_only_runs_of_their_own(
    roots: HostRoots, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pid and start time of anybody's agent can be read by all."""
    monkeypatch.setattr(agent_module, "is_root", lambda: True)
    monkeypatch.setattr(agent_module, "GUARDIAN_S", 0.2)
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append(pid))
    me = ProcessId.me()
    monkeypatch.setenv("VNETPERF_CALLER", "1001")
    with Journal.create(roots, "r1") as journal:
        agent = Agent(Line(channel), roots, restricted=True)
        for caller, ended in (("1002", False), ("1001", True)):
            monkeypatch.setenv("VNETPERF_CALLER", caller)
            agent.call_hello([], {}, predecessor=[me.pid, me.start])
            assert bool(killed) is ended
        assert set(killed) == {me.pid}
        journal.undo()


def test_a_hung_agent_that_cannot_be_ended_is_reported(
    roots: HostRoots, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "is_root", lambda: True)
    monkeypatch.setattr(agent_module, "GUARDIAN_S", 0.2)
    monkeypatch.setattr(os, "kill", lambda *_: None)  # it hangs in the kernel
    me = ProcessId.me()
    with Journal.create(roots, "r1") as journal:
        agent = Agent(Line(channel), roots)
        (trouble,) = agent.call_hello([], {}, predecessor=[me.pid, me.start])["troubles"]
        assert f"is running (pid {me.pid}" in trouble
        journal.undo()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"vswitch": "xdp"}, True),
        ({"vswitch": "xdp", "options": SwitchOptions(mode="generic")}, False),
        ({"vswitch": "bridge"}, False),
        ({"vswitch": "bridge", "generator": "xdpgen"}, True),
    ],
)
def test_a_cable_is_laid_for_what_is_sent_through_it(
    changes: dict[str, Any],
    told: bool,
    roots: HostRoots,
    channel: Channel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    laid: list[bool] = []

    class Notes:
        def lay_cable(self, *_: Any, offloads: bool, native_xdp: bool) -> str:
            assert not offloads
            laid.append(native_xdp)
            return "c0"

    graph, traffic = make_deployment("phy2phy"), TrafficProfile()
    scenario = Scenario(deployment=graph, traffic=traffic, **changes)
    agent = Agent(Line(channel), roots)
    live = SimpleNamespace(
        machine=Notes(), plan=SimpleNamespace(scenario=scenario), backends=Backends(scenario)
    )
    monkeypatch.setattr(agent, "deployment", live)
    assert agent.call_lay_cables({"0": "/far"}) == {"0": "c0"}
    assert laid == [told]
