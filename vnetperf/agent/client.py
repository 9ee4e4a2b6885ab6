"""The controller's side of the agent: starts it, calls it, and survives its death."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shlex
import subprocess
import sys
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vnetperf import __version__
from vnetperf.host.linux import (
    ProcessId,
    is_stopped,
    parse_json,
    run_program,
)
from vnetperf.host.log import replay_record
from vnetperf.host.trust import explain_distrust, watch_starts
from vnetperf.host.wait import patient, wait_at_most
from vnetperf.model import errors
from vnetperf.model.calibration import Calibration
from vnetperf.model.scenario import Plan
from vnetperf.model.testbed import ClockOffset, ClockSync, MachineFacts, Testbed
from vnetperf.plugin import registry
from vnetperf.plugin.backend import IS_STOPPED

log = logging.getLogger(__name__)

_AGENT_PROGRAM = "from vnetperf.agent.agent import serve; serve(channel)"
#: What sudo may start without being able to start anything else: `vnetperf launcher`.
LAUNCHER = Path("/usr/local/sbin/vnetperf-agent")
#: Longest wait for a call's answer beyond its own known length, seconds.
PATIENCE_S = 120.0
#: What is said of a call that was not answered within it.
LATE = "it has not answered in time"
#: Longest wait for an agent to clean up after its controller has closed the channel, seconds.
FAREWELL_S = 20.0
#: An agent of this machine that was seen stopped for so long does not answer, seconds.
STOPPED_S = 2.0
#: Longest wait for a channel to close to an agent that is stopped, seconds.
STOPPED_FAREWELL_S = 0.5
#: Time between two looks at an agent whose answer is waited for, seconds.
LOOK_S = 0.5
#: Time between two signs of life to the agent, seconds; it waits for `SILENCE_S` of channel.py.
BEAT_S = 5.0
#: No question is put to a terminal, no unknown host is trusted, a host that is not there is found
#: in time, and a connection that is lost ends.
SSH_OPTIONS = (
    "-o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=8 "
    "-o ServerAliveInterval=5 -o ServerAliveCountMax=6"
)
RESTORED = "the machine has been restored"
#: Looks at a host's clock; the one with the shortest round trip counts.
CLOCK_LOOKS = 5
#: A clock that is farther off than this gives files, journals and certificates there a wrong time,
#: seconds.
MOST_OFFSET_S = 3600.0
#: Longest time from a call of ssh or sudo until Python runs there, seconds.
LOGIN_S = 45.0
#: Longest wait for the Python of a host whose agent did not start, seconds.
PROBE_S = 20.0
#: Oldest Python that an agent runs on.
LEAST_PYTHON = (3, 11)
#: What a login there is to print, and nothing before it.
_MARK = "vnetperf-is-let-in"
#: Status of ssh itself, where it could not log in.
_SSH_FAILED = 255
_PROBE = "import sys; print(*sys.version_info[:2])"
Event = Callable[[dict[str, Any]], None]


#: What Python says where the kernel gives it no memory or no thread more.
_OUT_OF_SOMETHING = ("start new thread", "MemoryError", "Cannot allocate memory")
_LIMITED = (
    "the kernel gives the agent no more: see `ulimit -Ha` of the shell (address space, data), and "
    "memory.max and pids.max of the control group; `vnetperf doctor` tells them"
)


class _AgentDiedError(Exception):
    """The agent's process has ended, or does not answer any more."""


class Heartbeat:
    """Tells the agent every few seconds that its controller lives, from a thread of its own.

    A controller that is stopped (Ctrl-Z, SIGSTOP), or whose machine is, falls silent by that.
    """

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._over = threading.Event()
        threading.Thread(target=self._beat, name="vnetperf-heartbeat", daemon=True).start()

    def _beat(self) -> None:
        while not self._over.wait(BEAT_S):
            try:
                self._channel.send(json.dumps({"beat": True}))
            except OSError:  # the agent has gone, which the next call finds
                return

    def end(self) -> None:
        """Beat no more."""
        self._over.set()


def restore_command(transports: Iterable[str], named: str) -> str:
    """What shows what is left on a testbed's hosts, and undoes it; `named` as a user names it."""
    is_remote = any(transport.startswith("ssh=") for transport in transports)
    return f"vnetperf restore --testbed {shlex.quote(named)}" if is_remote else "vnetperf restore"


def duration(seconds: float) -> str:
    """A length of time in its largest unit: "365 days", "2 hours", "90 s"."""
    for unit, length in (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _last_line(error: Exception) -> str:
    if isinstance(error, AssertionError):
        return "what came back from there was not the agent's answer, but another program's output"
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def local_program(host: str = "") -> str:
    """The agent's program on this machine, or for a host that is namespaces of it.

    Its isolated Python knows neither the user's own packages nor PYTHONPATH, where this package's
    dependencies may be. The package's own directory is what already runs as this user.
    """
    path = [str(Path(p).absolute()) for p in sys.path if p and not explain_distrust(Path(p))]
    path.append(str(Path(__file__).parents[2]))
    extend = f"sys.path += [p for p in {path!r} if p not in sys.path]"
    serve = f"serve(channel, host={host!r})" if host else "serve(channel)"
    return f"import sys; {extend}; from vnetperf.agent.agent import serve; {serve}"


def can_start_by_sudo(*argv: str) -> bool:
    """Whether sudo starts a command line as root without a password."""
    try:
        done = subprocess.run(["sudo", "-n", *argv], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def _has_general_sudo() -> bool:
    # "-l", which starts nothing: what is not allowed at all is not tried, which would be reported.
    return can_start_by_sudo("-l", sys.executable) and can_start_by_sudo(
        sys.executable, "-I", "-c", ""
    )


def can_sudo() -> bool:
    """Whether this user may start an agent as root: any Python, or the launcher."""
    return _has_general_sudo() or (LAUNCHER.exists() and can_start_by_sudo("-l", str(LAUNCHER)))


class AgentClient:
    """A connection to the agent of a testbed; the agent is started on first use.

    One that only looks and plans need not be root: without root and sudo it is the user's own.

    Attributes:
        named: The testbed as a user names it: its name, or the path of its file.
        given_up: True while calls are ended from another thread: no new agent is started.
        channel: To the agent; None while none runs for this client.
        process: Pid and start time of the agent, of the last one when it is gone.
        clock: The host's clock against this machine's when the agent was greeted; None on this
            machine, which has one clock.
        last_restore: What was found on the machine after the last run before: its id, when,
            troubles and differences; empty when nothing is known.
    """

    def __init__(
        self, testbed: Testbed, on_event: Event | None = None, *, read_only: bool = False
    ) -> None:
        self.testbed = testbed
        self.named = testbed.name
        self._read_only = read_only
        self.on_event = on_event or (lambda event: None)
        #: Answers an agent that waits for the other hosts of a trial: what all have told.
        self.on_meet: Callable[[dict[str, Any]], Mapping[str, Any] | None] = lambda event: {}
        self.given_up = False
        self.restored: list[dict[str, Any]] = []
        self.process: tuple[int, ...] = ()
        self.troubles: tuple[str, ...] = ()
        self.last_restore: dict[str, Any] = {}
        self.clock: ClockOffset | None = None
        self._greeted: dict[str, Any] = {}
        self._unfit: errors.HostError | None = None
        self._heartbeat: Heartbeat | None = None
        self._group: Any = None
        self.channel: Any = None

    @property
    def _is_local(self) -> bool:
        """Whether the agent is on this machine, be it for a host within it."""
        return not self.testbed.agent.transport.startswith("ssh=")

    @property
    def _restore_command(self) -> str:
        return restore_command([self.testbed.agent.transport], self.named)

    def _connect(self) -> Any:
        if self.channel is not None:
            return self.channel
        self._require_active()
        watch_starts()  # ssh, and this Python: a test run of root has PATH as its user left it
        import execnet  # noqa: PLC0415 - not needed to plan or to report

        group = self._group = execnet.Group()
        try:
            self._expect_quiet_login()
            gateway = group.makegateway(self.specification())
            program = local_program(self.testbed.agent.netns_host)
            channel = gateway.remote_exec(program if self._is_local else _AGENT_PROGRAM)
            self._group, self.channel = group, channel  # which an abort meanwhile has not seen
            self._require_active()
            self._heartbeat = Heartbeat(self.channel)
        except errors.VnetperfError:
            self._drop()
            raise
        except (OSError, EOFError, AssertionError, execnet.HostNotFound) as error:
            self._drop()  # an AssertionError is execnet's, of an answer that is not the agent's
            raise self._cannot_start(error) from error
        path = [p for p in sys.path if p] if self._is_local else []
        # While the new agent starts nobody looks at the old one, which may be stopped still.
        predecessor, self.process = self.process, ()
        try:
            hello = {
                "path": path,
                "plugins": registry.registered_on_machines(),
                "predecessor": predecessor,
            }
            named = {name: os.environ.get(name) for name in self.testbed.environment}
            hello |= {"version": __version__, "variables": named}
            if not self._is_local:
                with contextlib.suppress(errors.VnetperfError):  # of another version, says hello
                    self.clock = self._measure_clock()
            answer = self._exchange("hello", 0.0, hello)
        except _AgentDiedError as error:
            self.abort()
            raise self._cannot_start(error) from None
        except errors.VnetperfError:  # it is not to be called without having been greeted
            self.abort()
            raise
        finally:
            self.process = predecessor  # whose end the next start sees to, if this one failed
        for report in answer["restored"]["restored"] if predecessor else ():
            report_fields = {key: report[key] for key in ("troubles", "differences")}
            self.on_event({"event": "restored", "scenario": "an agent that died", **report_fields})
        self._greeted, self._unfit = answer, self._describe_unfitness(answer)
        self.process = tuple(answer["process"])
        self.troubles = tuple(answer["troubles"])
        self.last_restore = dict(answer["last"])
        if answer["restored"].get("restored"):
            self.restored.append(answer["restored"])
        return self.channel

    def _expect_quiet_login(self) -> None:
        """Refuse a host whose shell prints where the agent is to answer.

        Its lines would be read as the agent's: one that begins with "1" as its first answer, after
        which each side waits for the other.
        """
        if self._is_local:
            return
        import execnet  # noqa: PLC0415 - not needed to plan or to report

        where = self.testbed.agent.transport
        options = str(execnet.XSpec(self.specification()).ssh).split()
        try:
            login = ["ssh", *options, f"echo {_MARK}"]
            done = run_program(login, LOGIN_S, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise errors.HostError(
                f"a login there runs no command within {LOGIN_S:g} s",
                where=where,
                accepted=f"a host where `ssh {shlex.join(options)} true` ends by itself",
                cure="see what its shell's start files wait for, and whether the host is loaded",
            ) from None
        if done.returncode == _SSH_FAILED and _MARK not in done.stdout:
            sys.stderr.write(done.stderr)
            raise execnet.HostNotFound(where)
        printed, mark, _ = done.stdout.partition(_MARK)
        if mark and printed.strip():
            raise errors.HostError(
                f"the login there prints {printed.strip().splitlines()[0][:80]!r} before anything "
                "is run, where the agent's answer is expected",
                where=where,
                accepted="a login without a terminal that prints nothing to standard output",
                cure="silence the start files of that user's shell (~/.bashrc, ~/.profile, "
                "/etc/profile.d, ~/.ssh/rc): let them print behind `[ -t 1 ] &&` alone",
            )

    def _measure_clock(self) -> ClockOffset:
        looks = []
        for _ in range(CLOCK_LOOKS):
            sent = time.time()
            remote_s = float(self._exchange("clock", 0.0, {}))
            half = (time.time() - sent) / 2
            looks.append(ClockOffset(offset_s=remote_s - sent - half, bound_s=half))
        return min(looks, key=lambda look: look.bound_s)

    def _describe_unfitness(self, greeted: dict[str, Any]) -> errors.HostError | None:
        """Describe why a remote agent is unfit to measure; it can still restore its machine."""
        if self._is_local:
            return None
        offset_s = self.clock.offset_s if self.clock is not None else 0.0
        if abs(offset_s) > MOST_OFFSET_S:
            return errors.HostError(
                f"its clock is {duration(abs(offset_s))} {'ahead of' if offset_s > 0 else 'behind'}"
                " this machine's",
                where=self.testbed.agent.transport,
                accepted=f"at most {duration(MOST_OFFSET_S)}",
                cure="set the one that is wrong, e.g. `timedatectl set-ntp true`",
            )
        local_plugins, remote_plugins = registry.plugins(), greeted.get("plugins", {})
        other = {name: remote_plugins.get(name, "not there") for name in local_plugins}
        wrong = [
            f"{n} is {other[n]}, here {local_plugins[n]}"
            for n in local_plugins
            if other[n] != local_plugins[n]
        ]
        if not wrong:
            return None
        return errors.HostError(
            f"its plugins are not those of this machine: {'; '.join(wrong)}",
            where=self.testbed.agent.transport,
            cure="install the same packages in the Python there, or leave the plugin out here",
        )

    def _require_active(self) -> None:
        if self.given_up:
            raise errors.HostError("no agent is started: calls are being ended")

    def _cannot_start(self, error: Exception) -> errors.HostError:
        where = self.testbed.agent.transport
        if self._is_local and os.geteuid() and not can_sudo():
            return errors.HostError(
                "the agent cannot be started: it changes this machine as root, you are not root, "
                "and `sudo -n` does not start it",
                where=where,
                cure="run as root, or have `vnetperf launcher --install` allow this user to start "
                "it (docs/security.md)",
            )
        if not self._is_local and type(error).__name__ == "HostNotFound":
            to = where.removeprefix("ssh=").partition("//")[0]
            return errors.HostError(
                "the host cannot be reached by ssh, which states above why",
                where=where,
                accepted=f"a host that `ssh -o BatchMode=yes {to} true` reaches without a question",
                cure="log in once by hand, so that its key is known and yours is accepted there",
            )
        if str(error) == LATE:  # it has started, and restores before it answers
            return errors.HostError(
                f"the agent was started, and {LATE}: it may still be undoing what an earlier run "
                "left",
                where=where,
                cure=f"run `{self._restore_command}`, which tells what is left and what keeps it; "
                "then start again",
            )
        diagnosis = ("", "") if self._is_local else self._diagnose_python()
        return errors.HostError(
            f"the agent cannot be started: {diagnosis[0] or _last_line(error)}",
            where=where,
            cure=diagnosis[1] or "check that this Python and vnetperf are installed there",
        )

    def _diagnose_python(self) -> tuple[str, str]:
        """Find what is wrong with the Python of a reachable host, and the cure; or "" twice.

        A connection that ends gives no reason, so that the host is called once more for it.
        """
        import execnet  # noqa: PLC0415 - not needed to plan or to report

        spec = execnet.XSpec(self.specification())
        python = spec.python or "python"
        argv = ["ssh", *str(spec.ssh).split(), f"{python} -c '{_PROBE}'"]
        try:
            done = run_program(argv, PROBE_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error), ""
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        if sudo := [line for line in lines if line.startswith("sudo:")]:
            return (
                f"sudo does not start it there: {sudo[-1].removeprefix('sudo:').strip()}",
                "allow that user `sudo -n` without a password for the agent (docs/security.md)",
            )
        least = ".".join(map(str, LEAST_PYTHON))
        cure = f"install Python {least} or newer with vnetperf there, and name it: "
        cure += "//python=/path/to/python in the host's transport"
        if done.returncode:
            return f"there is no Python {python!r} there: {' / '.join(lines[-2:])}", cure
        version = tuple(int(word) for word in done.stdout.split()[-2:] if word.isdecimal())
        if version and version < LEAST_PYTHON:
            return f"Python {'.'.join(map(str, version))} there is too old", cure
        return "", ""

    def require_fit(self) -> None:
        """Start the agent; refuse one that nothing can be measured with, before anything is."""
        self._connect()
        if self._unfit is not None:
            raise self._unfit

    def specification(self) -> str:
        """How execnet starts the agent.

        Raises:
            HostError: Only root can start it, and this user cannot become root for it.
        """
        transport = self.testbed.agent.transport
        if transport.startswith("ssh="):
            return f"ssh={SSH_OPTIONS} {transport.removeprefix('ssh=')}//execmodel=main_thread_only"
        # Only the agent needs root; the controller keeps the user's rights.
        without_sudo = os.geteuid() == 0 or (self._read_only and not can_sudo())
        if self.testbed.agent.netns_host and not without_sudo and not _has_general_sudo():
            raise errors.HostError(
                "hosts within this machine are made by root, and the launcher makes none",
                where=self.testbed.agent.transport,
                cure="run as root, or on a testbed of one host",
            )
        if not without_sudo and LAUNCHER.exists() and not _has_general_sudo():
            return f"popen//python=sudo -n {LAUNCHER}//execmodel=main_thread_only"
        # Isolated: nothing is imported from the current directory or what variables name.
        sudo = "" if without_sudo else "sudo -n "
        if self.testbed.agent.netns_host and (sudo or os.geteuid() == 0):
            sudo += "unshare --net -- "  # a namespace of the host's own, which ends with the agent
        return f"popen//python={sudo}{sys.executable} -I//execmodel=main_thread_only"

    def call(self, name: str, *, length_s: float = 0.0, **args: Any) -> Any:
        """Call the agent and wait for its answer."""
        if name == "teardown":
            self._connect()
        else:
            self.require_fit()
        try:
            return self._exchange(name, length_s, args)
        except _AgentDiedError as error:
            raise self._restore_after_death(name, error) from None

    def _exchange(self, name: str, length_s: float, args: dict[str, Any]) -> Any:
        """Send a call and wait for its answer, without any care for a dead agent."""
        channel = self.channel
        deadline = time.monotonic() + length_s + patient(PATIENCE_S)
        try:
            with _translate_channel_errors(channel):
                channel.send(json.dumps({"call": name, "args": args}))
            while True:
                with _translate_channel_errors(channel):
                    answer = parse_json(self._receive(channel, deadline))
                if "event" not in answer:
                    break
                if answer["event"] == "log":
                    ahead_s = self.clock.offset_s if self.clock is not None else 0.0
                    record = answer["record"]
                    replay_record({**record, "created": record["created"] - ahead_s})
                elif answer["event"] == "confirm":
                    with _translate_channel_errors(channel):
                        channel.send(json.dumps({"confirm": answer["number"]}))
                elif answer["event"] == "meet":
                    news = self.on_meet(answer)
                    with _translate_channel_errors(channel):
                        channel.send(json.dumps({"confirm": answer["number"], "news": news}))
                elif answer["event"] == "farewell":
                    raise _AgentDiedError(answer["why"])
                else:
                    self.on_event(answer)
        except _AgentDiedError:
            raise
        except BaseException:  # Ctrl-C, or a full disk here: the agent must clean up now
            self.abort()
            raise
        if "error" in answer:
            raise _rebuild_error(answer["error"])
        return answer["ok"]

    def _receive(self, channel: Any, deadline: float) -> str:
        """What the agent sends next; an agent of this machine is looked at meanwhile."""
        stopped_s = 0.0
        while True:
            remaining_s = max(1.0, deadline - time.monotonic())
            try:
                text: str = channel.receive(timeout=min(remaining_s, LOOK_S))
                return text
            except channel.TimeoutError:
                if time.monotonic() > deadline:
                    raise _AgentDiedError(LATE) from None
            stopped_s = stopped_s + LOOK_S if self._agent_is_stopped() else 0.0
            if stopped_s >= STOPPED_S:
                raise _AgentDiedError(f"the agent (pid {self.process[0]}) {IS_STOPPED}")

    def _agent_is_stopped(self) -> bool:
        has_local_agent = self._is_local and bool(self.process)
        return has_local_agent and ProcessId(*self.process).alive() and is_stopped(self.process[0])

    def _restore_after_death(self, name: str, error: Exception) -> errors.HostError:
        """The agent is gone: see that its guardian has restored the machine, or do it."""
        log.warning("the agent ended during %s (%s); the machine is restored now", name, error)
        self.abort()
        try:
            self._connect()  # a new agent waits for guardians and restores what they did not
            troubles = "; ".join(self.troubles)
            restored = f"the machine is not fully restored: {troubles}" if troubles else RESTORED
        except errors.VnetperfError as trouble:
            restored = f"the machine may not be restored: {trouble}"
        return errors.HostError(
            f"the agent ended during {name} ({error}); {restored}",
            where=self.testbed.agent.transport,
            cure=f"`{self._restore_command}` shows whether anything is left; run the case again"
            + f"; {_LIMITED}" * any(text in str(error) for text in _OUT_OF_SOMETHING),
        )

    def hello(self) -> dict[str, Any]:
        """Start the agent, which restores its machine first; what it found."""
        self._connect()
        return self._greeted

    def inventory(self) -> MachineFacts:
        """Look at the machine."""
        answer = self.call("inventory", testbed=self.testbed.model_dump(mode="json"))
        facts = MachineFacts.model_validate(answer)
        if self.clock is None:
            return facts
        clock = self.clock.model_dump(mode="json")
        return facts.model_copy(update={"record": {**facts.record, "clock": clock}})

    def clock_sync(self) -> ClockSync:
        """What the host's own services state of its clock."""
        return ClockSync.model_validate(self.call("clock_sync"))

    def clock_offset(self) -> ClockOffset | None:
        """The clock against this machine's as it is now; None where there is one clock."""
        if self._is_local or self.channel is None:
            return None
        try:
            return self._measure_clock()
        except _AgentDiedError as error:
            raise self._restore_after_death("clock", error) from None

    def captured(self) -> dict[str, bytes]:
        """Frames that the last trial kept."""
        answer: dict[str, str] = self.call("captured", length_s=30)
        return {name: b64decode(text) for name, text in answer.items()}

    def calibrate(
        self, plan: Plan, frame_sizes: Sequence[int], *, brief: bool = False
    ) -> Calibration:
        """Loop the generator to itself and measure it; brief: for what is no benchmark."""
        answer = self.call(
            "calibrate",
            length_s=120.0 * len(frame_sizes) + self.testbed.lock_timeout_s,
            plan=plan.model_dump(mode="json"),
            frame_sizes=list(frame_sizes),
            brief=brief,
        )
        return Calibration.model_validate(answer)

    def teardown(self) -> list[str]:
        """Take the deployment away."""
        if self.channel is None:
            return []
        troubles: list[str] = self.call("teardown", length_s=30)
        return troubles

    def abort(self) -> None:
        """Close the connection in the middle of a call, and wait until the agent has cleaned up."""
        if self._agent_is_stopped():  # the next one ends it
            self._drop(STOPPED_FAREWELL_S)
            return
        self._drop()
        if self._is_local and self.process:
            agent = ProcessId(*self.process)
            wait_at_most(lambda: not agent.alive(), FAREWELL_S, "the agent's end", poll_s=0.05)

    def _drop(self, farewell_s: float = FAREWELL_S) -> None:
        if self._heartbeat is not None:
            self._heartbeat.end()
            self._heartbeat = None
        group, self._group, self.channel = self._group, None, None
        if group is not None:
            with contextlib.suppress(Exception):  # a dying gateway may raise anything
                group.terminate(timeout=farewell_s)

    def close(self) -> None:
        """Take everything away and end the agent. Idempotent."""
        if self.channel is not None:
            try:
                self.teardown()
            finally:
                self.abort()


@contextlib.contextmanager
def _translate_channel_errors(channel: Any) -> Iterator[None]:
    """Raise _AgentDiedError for any error of the channel; errors of event handlers stay."""
    try:
        yield
    except (EOFError, OSError, channel.RemoteError, channel.TimeoutError) as error:
        raise _AgentDiedError(_farewell(channel) or _last_line(error)) from None


def _farewell(channel: Any) -> str:
    """Why an agent has gone, when it gave a reason before it went; "" otherwise."""
    with contextlib.suppress(EOFError, OSError, channel.RemoteError, channel.TimeoutError):
        while True:
            message = parse_json(channel.receive(timeout=0.1))
            if message.get("event") == "farewell":
                return str(message["why"])
    return ""


def _rebuild_error(error: dict[str, str]) -> errors.VnetperfError:
    """The agent's error as an exception of the same class here."""
    cls = getattr(errors, error["class"], errors.VnetperfError)
    rebuilt: errors.VnetperfError = cls(
        error["what"], where=error["where"], accepted=error["accepted"], cure=error["cure"]
    )
    return rebuilt
