"""The controller's side of the agent, on a channel to a real Agent in this process."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import Register
from tests.fakes.machine import facts
from vnetperf.agent import agent as agent_module
from vnetperf.agent import client as client_module
from vnetperf.agent.agent import Agent
from vnetperf.agent.client import AgentClient
from vnetperf.host.linux import ProcessId
from vnetperf.model.errors import CapabilityError, DutError, HostError
from vnetperf.model.testbed import AgentConfig, Testbed
from vnetperf.model.trial import LiveCounts, PartResult, TrialResult, TrialSpec
from vnetperf.plugin import registry

SPEC = TrialSpec(frame_size=64, load_fps=1.0, duration_s=1.0)


class Loop:
    """Both ends of an execnet channel: what is sent is answered at once by the agent."""

    RemoteError = TimeoutError = RuntimeError

    def __init__(self) -> None:
        self.agent = Agent(self)
        self.answers: list[str] = []
        self.dead = False

    def send(self, item: str) -> None:
        message = json.loads(item)
        if "call" in message:
            if self.dead:
                raise OSError("cannot send: the agent is gone")
            self.answers.append(json.dumps(self.agent.answer(message)))
        else:
            self.answers.append(item)

    def receive(self, timeout: float | None = None) -> str:
        if not self.answers:
            raise EOFError
        return self.answers.pop(0)

    def isclosed(self) -> bool:
        return self.dead


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    monkeypatch.setattr(agent_module, "take_inventory", lambda testbed: facts(3))
    return Loop()


@pytest.fixture
def client(loop: Loop) -> AgentClient:
    connected = AgentClient(Testbed())
    connected.channel = loop
    return connected


@pytest.fixture
def stopped() -> Iterator[ProcessId]:
    """A process that stands for an agent and is stopped."""
    with subprocess.Popen(["sleep", "600"]) as process:
        found = ProcessId.read(process.pid)
        assert found is not None
        process.send_signal(signal.SIGSTOP)
        yield found
        process.kill()


def test_the_machine_is_seen_as_the_agent_saw_it(client: AgentClient) -> None:
    seen = client.inventory()
    # The agent adds what stored calibrations depend on: each generator's own build.
    assert seen.versions.pop("loadgen")
    assert seen == facts(3)


def test_a_trial_without_a_deployment_is_the_agents_error_here(client: AgentClient) -> None:
    with pytest.raises(HostError, match="no scenario is deployed") as caught:
        client.call("run_trial", spec=SPEC.model_dump(mode="json"))
    assert caught.value.where == "run_trial"


@pytest.mark.parametrize("kind", [DutError, CapabilityError])
def test_errors_keep_class_place_cure_and_notes(
    client: AgentClient, loop: Loop, monkeypatch: pytest.MonkeyPatch, kind: type[Any]
) -> None:
    def fail(**args: object) -> None:
        error = kind("it died", where="dpdk", accepted="alive", cure="see the log")
        error.add_note("last words: segfault")
        raise error

    monkeypatch.setattr(loop.agent, "call_inventory", fail)
    with pytest.raises(kind) as caught:
        client.inventory()
    error = caught.value
    assert (error.where, error.accepted, error.cure) == ("dpdk", "alive", "see the log")
    assert "last words: segfault" in str(error)


def test_events_on_the_way_are_told(loop: Loop) -> None:
    told: list[dict[str, Any]] = []
    client = AgentClient(Testbed(), told.append)
    client.channel = loop
    loop.answers.append(json.dumps({"event": "wait", "holder": "another run", "seconds": 1}))
    client.inventory()
    assert [e["holder"] for e in told] == ["another run"]


@pytest.mark.parametrize("said", ["RuntimeError: can't start new thread", "MemoryError"])
def test_an_agent_that_the_kernel_gives_no_more_says_where_limits_are(
    said: str, client: AgentClient, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(item: str) -> None:
        raise RuntimeError(f"Traceback\n  File x\n{said}")

    monkeypatch.setattr(loop, "send", send)
    monkeypatch.setattr(client, "_connect", lambda: client.channel)
    with pytest.raises(HostError, match="the agent ended during inventory") as caught:
        client.inventory()
    assert "pids.max" in caught.value.cure
    assert "ulimit" in caught.value.cure


def test_an_agent_that_is_gone_is_told_with_what_became_of_the_machine(
    client: AgentClient,
    loop: Loop,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop.dead = True
    before: list[str] = []

    def connect() -> Loop | None:
        before.append(caplog.text)  # a new agent restores the machine, which may take long
        return client.channel

    monkeypatch.setattr(client, "_connect", connect)
    with pytest.raises(HostError, match="the agent ended during inventory") as caught:
        client.inventory()
    assert "the machine has been restored" in str(caught.value)
    assert "the agent ended during inventory" in before[-1]
    client.troubles, client.channel = ("link vp0: still there",), loop
    with pytest.raises(HostError, match="link vp0: still there"):
        client.inventory()
    assert "`vnetperf restore` shows" in caught.value.cure
    client.testbed = Testbed(agent=AgentConfig(transport="ssh=lab1"))
    client.named, client.channel = "my beds/far.toml", loop
    with pytest.raises(HostError) as caught:
        client.inventory()
    assert "`vnetperf restore --testbed 'my beds/far.toml'`" in caught.value.cure


@pytest.mark.parametrize("transport", ["local", "netns=east"])
def test_an_agent_that_is_stopped_is_named_and_its_machine_restored(
    client: AgentClient,
    loop: Loop,
    monkeypatch: pytest.MonkeyPatch,
    stopped: ProcessId,
    transport: str,
) -> None:
    client.testbed = Testbed(agent=AgentConfig(transport=transport))
    monkeypatch.setattr(client, "_connect", lambda: client.channel)
    monkeypatch.setattr(loop.agent, "answer", lambda message: {"event": "log", "record": None})

    def nothing_comes(timeout: float | None = None) -> str:
        assert timeout is not None
        assert timeout < 5.0  # it is looked at in between
        raise loop.TimeoutError

    monkeypatch.setattr(loop, "receive", nothing_comes)
    client.process = (stopped.pid, stopped.start)
    with pytest.raises(HostError, match=rf"pid {stopped.pid}\) is stopped") as caught:
        client.call("run_trial", spec=SPEC.model_dump(mode="json"))
    assert "the machine has been restored" in str(caught.value)


@pytest.mark.parametrize("fails", [False, True])
def test_a_slow_agent_is_not_taken_for_its_stopped_predecessor(
    monkeypatch: pytest.MonkeyPatch, stopped: ProcessId, fails: bool
) -> None:
    """A start ends the predecessor and restores its run, which may take longer than 2 s."""
    sent: list[Any] = []
    greeting = {"process": [1, 1], "restored": {"restored": []}, "troubles": [], "last": {}}
    coming: list[Any] = [RuntimeError()] * 10  # more looks than a stopped agent gets
    coming.append(EOFError() if fails else json.dumps({"ok": greeting}))

    class Slow(Loop):
        def send(self, item: str) -> None:
            sent.append(json.loads(item))

        def receive(self, timeout: float | None = None) -> str:
            found = coming.pop(0) if coming else EOFError()
            if isinstance(found, Exception):
                raise found
            return str(found)

    ended: list[float] = []
    gateway = SimpleNamespace(remote_exec=lambda program: Slow())

    def terminate(timeout: float) -> None:
        ended.append(timeout)

    group = SimpleNamespace(makegateway=lambda specification: gateway, terminate=terminate)
    monkeypatch.setattr("execnet.Group", lambda: group)
    client = AgentClient(Testbed())
    client.process = (stopped.pid, stopped.start)
    if fails:
        with pytest.raises(HostError, match="the agent cannot be started"):
            client.hello()
        # The new one gets its time to restore, and the next start ends the same predecessor.
        assert ended == [client_module.FAREWELL_S]
        assert client.process == (stopped.pid, stopped.start)
    else:
        assert client.hello() == greeting
        assert ended == []
        assert client.process == (1, 1)
    assert not coming
    assert tuple(sent[0]["args"]["predecessor"]) == (stopped.pid, stopped.start)


def test_an_agent_that_restores_for_too_long_is_no_python_that_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Silent(Loop):
        def send(self, item: str) -> None:
            pass

        def receive(self, timeout: float | None = None) -> str:
            raise RuntimeError

    gateway = SimpleNamespace(remote_exec=lambda program: Silent())
    group = SimpleNamespace(
        makegateway=lambda specification: gateway, terminate=lambda timeout: None
    )
    monkeypatch.setattr("execnet.Group", lambda: group)
    monkeypatch.setattr(client_module, "PATIENCE_S", 0.0)
    with pytest.raises(HostError, match="has not answered in time") as refused:
        AgentClient(Testbed()).hello()
    assert "vnetperf restore" in refused.value.cure


def test_an_oserror_of_who_handles_an_event_is_not_the_agents_end(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk here, or a closed terminal, was reported as an agent that had died."""

    def full(event: dict[str, Any]) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "events.txt")

    client = AgentClient(Testbed(), full)
    client.channel = loop
    aborted: list[bool] = []
    monkeypatch.setattr(client, "abort", lambda: aborted.append(True))
    monkeypatch.setattr(
        client, "_restore_after_death", lambda *_: pytest.fail("taken for the agent's end")
    )
    loop.answers.append(json.dumps({"event": "wait", "holder": "another run", "seconds": 1}))
    with pytest.raises(OSError, match=r"events\.txt"):
        client.inventory()
    assert aborted == [True]


def test_closing_is_idempotent_and_needs_no_agent(client: AgentClient, loop: Loop) -> None:
    unused = AgentClient(Testbed())
    unused.close()
    assert unused.teardown() == []
    client.close()
    client.close()
    assert client.channel is None


@pytest.fixture
def far(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> AgentClient:
    """A client whose agent is on another machine, as it seems."""
    monkeypatch.setattr(agent_module, "is_root", lambda: False)  # it restores nothing
    gateway = SimpleNamespace(remote_exec=lambda program: loop)
    group = SimpleNamespace(makegateway=lambda spec: gateway, terminate=lambda timeout: None)
    monkeypatch.setattr("execnet.Group", lambda: group)
    monkeypatch.setattr(AgentClient, "_expect_quiet_login", lambda self: None)
    return AgentClient(Testbed(agent=AgentConfig(transport="ssh=lab1")))


@pytest.mark.parametrize(
    ("ahead_s", "says"),
    [(365 * 86_400, "365 days ahead of"), (-7300, "2 hours behind"), (-30, "")],
)
def test_a_host_whose_clock_is_far_off_is_refused_and_can_be_restored(
    far: AgentClient, loop: Loop, monkeypatch: pytest.MonkeyPatch, ahead_s: float, says: str
) -> None:
    monkeypatch.setattr(loop.agent, "call_clock", lambda: time.time() + ahead_s)
    if not says:
        clock = far.inventory().record["clock"]
        assert isinstance(clock, dict)
        assert abs(clock["offset_s"] - ahead_s) <= clock["bound_s"] + 1e-6
        offset = far.clock_offset()
        assert offset is not None
        assert offset.bound_s < 1
        return
    with pytest.raises(HostError, match=says) as refused:
        far.inventory()
    assert (refused.value.where, "timedatectl" in refused.value.cure) == ("ssh=lab1", True)
    assert far.hello()["troubles"] == []  # as `vnetperf restore` does


def test_records_of_another_machine_have_the_controllers_time(
    far: AgentClient, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed: list[float] = []
    monkeypatch.setattr(loop.agent, "call_clock", lambda: time.time() - 600)
    monkeypatch.setattr(client_module, "replay_record", lambda r: replayed.append(r["created"]))
    far.hello()
    loop.answers.append(json.dumps({"event": "log", "record": {"created": 1000.0}}))
    far.inventory()
    assert replayed == [pytest.approx(1600.0, abs=0.5)]


@pytest.mark.parametrize("there", ["mine-package 1.1", ""])
def test_plugins_of_another_machine_are_compared(
    far: AgentClient, monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    theirs = {"vswitches mine": there, "collectors more": "more 1"} if there else {}
    answers = iter((theirs, {"vswitches mine": "mine-package 1.2"}))  # the agent is called first
    monkeypatch.setattr(registry, "plugins", lambda: next(answers))
    with pytest.raises(HostError) as refused:
        far.inventory()
    for words in (f"vswitches mine is {there or 'not there'}", "mine-package 1.2"):
        assert words in refused.value.what
    assert "collectors more" not in refused.value.what
    assert refused.value.where == "ssh=lab1"
    assert "install the same packages" in refused.value.cure


def test_a_plugin_of_a_conftest_is_compared_by_its_content(register_backend: Register) -> None:
    register_backend("vswitches", "mine", "tests.fakes.backends:Some")
    register_backend("vswitches", "gone", "no_such_module_at_all:Some")
    register_backend("procedures", "own", "tests.fakes.backends:Test")  # no machine imports it
    assert registry.plugins().keys() == {"vswitches mine"}
    assert registry.plugins()["vswitches mine"].startswith("module tests.fakes.backends ")


def test_an_agent_that_refuses_the_greeting_is_not_called_without_one(
    far: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "__version__", "0.0.1")
    for _ in range(2):  # it was taken for greeted the second time
        with pytest.raises(HostError, match=r"the controller is vnetperf 0\.0\.1"):
            far.inventory()
        assert far.channel is None


@pytest.mark.parametrize(
    ("there", "says", "cure"),
    [
        ("echo 'sh: 1: /x/python: not found' >&2; exit 127", "there is no Python", "//python="),
        ("echo 'sudo: a password is required' >&2; exit 1", "a password is req", "security.md"),
        ("echo 3 9", "Python 3.9 there is too old", "install Python 3.11"),
    ],
)
def test_why_no_agent_starts_on_a_host_that_can_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str, says: str, cure: str
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\n{there}\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    client = AgentClient(Testbed(agent=AgentConfig(transport="ssh=lab1//python=sudo -n /x/python")))
    with pytest.raises(HostError) as refused:
        client.hello()
    assert says in refused.value.what
    assert cure in refused.value.cure
    assert refused.value.where == "ssh=lab1//python=sudo -n /x/python"
    assert client.channel is None


def test_a_login_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(client_module, "LOGIN_S", 0.5)
    client = AgentClient(Testbed(agent=AgentConfig(transport="ssh=lab1")))
    began = time.monotonic()
    with pytest.raises(HostError, match=r"runs no command within 0\.5 s") as refused:
        client.hello()
    assert time.monotonic() - began < 30
    assert (refused.value.where, client.channel) == ("ssh=lab1", None)


def test_a_full_disk_is_named_with_the_directory(
    client: AgentClient, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(testbed: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(loop.agent, "call_inventory", full)
    usage = SimpleNamespace(total=1 << 30, free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(HostError, match="a disk is full") as refused:
        client.inventory()
    for place in (loop.agent.roots.state, loop.agent.roots.run):
        assert str(place) in refused.value.what
    assert "make room there" in refused.value.cure


def test_the_launchers_agent_starts_no_program_for_another_host(
    client: AgentClient, loop: Loop
) -> None:
    loop.agent.restricted = True
    with pytest.raises(HostError, match="starts no endpoints for other hosts"):
        client.call("open_end", number=0, addresses=["", "", "", ""])
    with pytest.raises(HostError, match="there is no endpoint"):
        client.call("drive_end", do="run", argv=["id"])


class Deployed:
    """A deployment that keeps a frame."""

    def __init__(self) -> None:
        self.generator = SimpleNamespace(captured=lambda: {"port0-sent.pcap": b"\x00\xff"})

    def teardown(self) -> list[str]:
        return []


def run_part_live(
    deployment: Deployed,
    spec: TrialSpec,
    watch: Callable[[], None],
    on_live: Callable[[LiveCounts], None] | None,
    **others: object,
) -> PartResult:
    """A trial that tells how it goes."""
    assert others == {"others": None, "window": None, "event_is_here": True}
    watch()
    if on_live is not None:
        on_live(LiveCounts(elapsed_s=0.5, sent=10, refused=1, received=9))
    return PartResult(result=TrialResult(directions=()))


@pytest.mark.parametrize("follow", [True, False])
def test_a_trial_that_goes_on_is_told_to_who_follows(
    loop: Loop, client: AgentClient, follow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "run_part", run_part_live)
    told: list[dict[str, Any]] = []
    client.on_event = told.append
    loop.agent.deployment = Deployed()  # type: ignore[assignment]  # a double
    client.call("run_trial", follow=follow, spec=SPEC.model_dump(mode="json"))
    counts = {"elapsed_s": 0.5, "sent": 10, "refused": 1, "received": 9}
    assert told == ([{"event": "live", "counts": counts}] if follow else [])


def test_captured_frames_come_whole(client: AgentClient, loop: Loop) -> None:
    loop.agent.deployment = Deployed()  # type: ignore[assignment]  # a double
    assert client.captured() == {"port0-sent.pcap": b"\x00\xff"}


@pytest.mark.parametrize(("read_only", "sudo"), [(True, False), (False, True)])
def test_only_an_agent_that_changes_the_machine_needs_root(
    monkeypatch: pytest.MonkeyPatch, read_only: bool, sudo: bool
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(client_module, "can_sudo", lambda: False)
    client = AgentClient(Testbed(), read_only=read_only)
    assert ("sudo -n" in client.specification()) is sudo
    monkeypatch.setattr("execnet.Group", NoProgram)
    with pytest.raises(HostError) as refused:
        client.hello()
    assert "not root" in str(refused.value)


class NoProgram:
    """An execnet group whose agent cannot be started."""

    def makegateway(self, specification: str) -> None:
        raise OSError("no sudo")

    def terminate(self, timeout: float) -> None:
        pass


NOISY = """#!/bin/sh
# What a login shell's start files print comes first; then the command, which is the last argument.
printf '{noise}'
for command; do :; done
exec sh -c "$command"
"""


def noisy_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noise: str) -> AgentClient:
    ssh = tmp_path / "ssh"
    ssh.write_text(NOISY.format(noise=noise))
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    transport = f"ssh=root@lab1//python={sys.executable}"
    return AgentClient(Testbed(agent=AgentConfig(transport=transport)))


@pytest.mark.parametrize(
    "noise", ["hello from .bashrc\\n", "1 user logged in\\n", "\\n\\n  motd\\n", "1", "\\377\\n"]
)
def test_what_a_login_prints_is_named_and_nothing_waits(
    noise: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.monotonic()
    with pytest.raises(HostError) as refused:
        noisy_client(tmp_path, monkeypatch, noise).hello()
    assert time.monotonic() - began < 10
    assert "start files" in refused.value.cure
    assert "AssertionError" not in str(refused.value)
    words = noise.replace("\\n", " ").replace("\\377", "").split()
    assert all(word in refused.value.what for word in words)


def test_a_login_that_hangs_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = noisy_client(tmp_path, monkeypatch, "")
    (tmp_path / "ssh").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr("vnetperf.agent.client.LOGIN_S", 0.2)
    with pytest.raises(HostError, match=r"within 0\.2 s"):
        client.hello()


def test_an_answer_that_is_not_the_agents_is_no_bare_assertion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of an account without a shell: its sentence, whatever the command is."""
    client = noisy_client(tmp_path, monkeypatch, "")
    (tmp_path / "ssh").write_text("#!/bin/sh\necho This account is not available.\nexit 1\n")
    with pytest.raises(HostError) as refused:
        client.hello()
    assert "AssertionError" not in str(refused.value)
    assert refused.value.what != "the agent cannot be started: "
