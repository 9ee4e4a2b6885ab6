"""The agent's end of the connection: a controller that stops, moves of NICs, errors of backends."""

from __future__ import annotations

import errno
import json
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import execnet
import pytest

from vnetperf.agent import agent as agent_module
from vnetperf.agent.agent import Agent, ControllerGoneError, Line
from vnetperf.agent.client import AgentClient, _Heartbeat
from vnetperf.host import files
from vnetperf.host.journal import Journal
from vnetperf.host.linux import ProcessId
from vnetperf.host.paths import HostRoots
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import Testbed


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
            time.sleep(5)
        self.sent.put(json.loads(item))


@pytest.fixture
def channel() -> Channel:
    return Channel()


def test_a_controller_that_beats_is_heard_and_a_silent_one_is_gone(channel: Channel) -> None:
    line = Line(channel, silence_s=0.4)
    for _ in range(6):
        time.sleep(0.1)
        channel.take(json.dumps({"beat": True}))
        assert not line.isclosed()
    channel.take(json.dumps({"call": "teardown", "args": {}}))
    assert json.loads(line.receive())["call"] == "teardown"
    began = time.monotonic()
    with pytest.raises(EOFError):
        line.receive()
    assert 0.3 < time.monotonic() - began < 2
    assert line.silent


def test_a_controller_that_reads_nothing_blocks_nothing(channel: Channel) -> None:
    channel.stuck.set()
    line = Line(channel, silence_s=0.2)
    began = time.monotonic()
    for _ in range(1000):
        line.send("{}")
    with pytest.raises(EOFError):
        line.receive()
    line.flush(0.1)
    assert time.monotonic() - began < 2


def test_a_closed_channel_ends_the_agent(channel: Channel) -> None:
    line = Line(channel)
    threading.Timer(0.1, channel.take, [None]).start()
    began = time.monotonic()
    with pytest.raises(EOFError):
        line.receive()
    assert time.monotonic() - began < 0.8  # at once, and not when it is next looked for
    with pytest.raises(ControllerGoneError):
        line.send("{}")


def test_a_move_of_a_nic_is_confirmed_by_the_controller(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "CONFIRM_S", 0.2)
    line = Line(channel)
    agent = Agent(line)
    with pytest.raises(HostError, match=r"did not confirm .* undone: driver of 3b"):
        agent._confirm("driver of 3b")
    assert channel.sent.get(timeout=5)["number"] == 1
    channel.take(json.dumps({"confirm": 1}))  # too late: it is no answer to the next
    channel.take(json.dumps({"confirm": 2}))
    agent._confirm("driver of 3b")


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
    client._channel = channel = Answering()
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
    answer = channel.sent.get(timeout=5)
    assert str(error) in answer["error"]["what"]
    assert answer["error"]["where"] == "inventory"
    assert channel.sent.get(timeout=5) == {"ok": []}  # it lives on
    channel.take(None)
    serving.join(5)
    assert not serving.is_alive()


@pytest.fixture
def remote() -> Iterator[tuple[Any, Any]]:
    """A real agent that gives a silent controller one second."""
    group = execnet.Group()
    gateway = group.makegateway("popen//execmodel=main_thread_only")
    program = "from vnetperf.agent import agent; agent.SILENCE_S = 1.0; agent.serve(channel)"
    channel = gateway.remote_exec(program)
    yield group, channel
    group.terminate(timeout=5)


def test_a_real_agent_ends_when_its_controller_is_silent(remote: tuple[Any, Any]) -> None:
    _, channel = remote
    message = json.loads(channel.receive(timeout=20))
    assert message["event"] == "farewell"
    assert "silent for 1 s" in message["why"]

    def read_on() -> None:
        while True:  # what it logged meanwhile
            channel.receive(timeout=20)

    with pytest.raises(EOFError):
        read_on()


def test_a_real_agent_lives_as_long_as_its_controller_beats(
    remote: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, channel = remote
    monkeypatch.setattr("vnetperf.agent.client.BEAT_S", 0.2)
    heartbeat = _Heartbeat(channel)
    time.sleep(2.5)
    channel.send(json.dumps({"call": "teardown", "args": {}}))
    assert json.loads(channel.receive(timeout=20)) == {"ok": []}
    heartbeat.end()
    assert json.loads(channel.receive(timeout=20))["event"] == "farewell"


def test_the_next_call_of_a_controller_that_was_silent_gives_the_reason(
    remote: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, channel = remote
    client = AgentClient(Testbed())
    client._channel = channel
    time.sleep(2.5)
    monkeypatch.setattr(client, "_connect", lambda: channel)
    with pytest.raises(HostError, match=r"ended during inventory \(the controller was silent"):
        client.call("inventory", testbed={})


@pytest.fixture
def roots(tmp_path: Path) -> HostRoots:
    return HostRoots(tmp_path / "state", tmp_path / "run")


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
        wait_for((tmp_path / "left").exists, 10, "the change of the other")
        process = ProcessId.of(pid)
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
