"""The machine side: runs as root in a process of its own and answers the controller's calls.

When the controller goes away or falls silent, whatever is deployed is taken away; when this process
is killed, its guardian does it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import signal
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from vnetperf import __version__
from vnetperf.agent.channel import Channel, ControllerGoneError, Line
from vnetperf.agent.inventory import take_inventory
from vnetperf.agent.launcher import (
    refuse_part,
    refuse_plan,
    refuse_plugins,
    refuse_scenario,
    refuse_testbed,
)
from vnetperf.deployment.calibrate import calibrate
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.endpoints import EndAddresses, LocalEnd
from vnetperf.deployment.path_check import check_path
from vnetperf.deployment.transfers import run_workload, transfer_endpoints, transfer_users
from vnetperf.deployment.trial import (
    NO_NEWS,
    PartEndedError,
    run_part,
    watch_machine,
)
from vnetperf.host.clock import read_sync
from vnetperf.host.environment import VARIABLES
from vnetperf.host.journal import UndoReport
from vnetperf.host.linux import (
    ProcessId,
    caller_uid,
    is_root,
    parse_json,
    raise_limits,
)
from vnetperf.host.locks import LockHolder
from vnetperf.host.log import ROOT, ForwardingHandler
from vnetperf.host.paths import HostRoots, is_full
from vnetperf.host.programs import trust_programs
from vnetperf.host.session import LiveRun, RestoreReport, restore_patiently
from vnetperf.host.snapshot import read_last
from vnetperf.host.trust import explain_distrust
from vnetperf.model import errors
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.model.transfer import ServerPlace, TransferSpec
from vnetperf.model.trial import LiveCounts, TrialSpec, TrialWindow
from vnetperf.planning.planner import make_loop_plan, make_plan
from vnetperf.plugin import registry
from vnetperf.plugin.backend import Backend
from vnetperf.plugin.generator import WATCH_S
from vnetperf.plugin.workload import find_workload

log = logging.getLogger(__name__)

#: Longest wait for a guardian that restores the machine, seconds.
GUARDIAN_S = 15.0
#: Longest wait for the controller's confirmation after a NIC was moved, seconds.
CONFIRM_S = 20.0
#: What is restored when no scenario was deployed.
CALIBRATION = "calibration"

MakePlan = Callable[[Scenario, Testbed, MachineFacts], Plan]


class TerminatedError(BaseException):
    """SIGTERM came. It may come anywhere, also where a controller that has gone is no matter."""


class Agent:
    """Answers calls, by its methods `call_...`; holds at most one deployment.

    A restricted one's controller may not choose what is started as root (docs/security.md).
    """

    def __init__(
        self, channel: Channel, roots: HostRoots | None = None, *, restricted: bool = False
    ) -> None:
        self.channel = channel
        self.restricted = restricted
        self.roots = roots or HostRoots()
        self.facts: MachineFacts | None = None
        self.deployment: LiveDeployment | None = None
        self._end: LocalEnd | None = None
        self._confirmed = 0
        #: Why directories of the controller's import path were left out.
        self._left_out: list[str] = []

    def serve(self) -> None:
        """Answer until the controller goes away, then take everything away."""
        try:
            while True:
                try:
                    message = parse_json(self.channel.receive())
                except OSError:
                    break
                self._send(self.answer(message))
        except (EOFError, ControllerGoneError, TerminatedError):
            pass  # nobody waits for an answer any more
        finally:
            self.call_teardown()

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Answer a call: {"ok": its result}, or {"error": class, what, where, accepted, cure}."""
        try:
            if message["call"] not in CALLS:
                raise errors.HostError(
                    "the agent has no such call",
                    where=str(message["call"]),
                    accepted=", ".join(sorted(CALLS)),
                )
            return {"ok": getattr(self, f"call_{message['call']}")(**message["args"])}
        except errors.VnetperfError as error:
            notes = [*getattr(error, "__notes__", [])]
            if isinstance(error.__cause__, ImportError) and self._left_out:
                left_out = "; ".join(self._left_out)
                notes.append(
                    f"nothing is imported as root from where {left_out} (chown, chmod o-w)"
                )
            description = "\n  ".join([error.what, *notes])
            rest = {key: getattr(error, key) for key in ("where", "accepted", "cure")}
            return {"error": {"class": type(error).__name__, "what": description, **rest}}
        except ValidationError as error:  # a controller of another version
            log.exception("call %s failed", message["call"])
            description = f"not understood: {error}"
            accepted = "what this version of vnetperf sends"
            cure = "install the same version on both sides"
        except OSError as error:  # of a backend's own files, sockets or programs
            log.exception("call %s failed", message["call"])
            description, accepted = f"{type(error).__name__}: {error}", ""
            cure = "remove the cause; run.log has the place in the program"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                description = f"a disk is full{self._full_places()}: {error}"
                cure = "make room there, and run the case again"
        rest = {"where": message["call"], "accepted": accepted, "cure": cure}
        return {"error": {"class": "HostError", "what": description, **rest}}

    def _full_places(self) -> str:
        """Directories of this agent's that are on a full disk, for an error."""
        places = [str(place) for place in (self.roots.state, self.roots.run) if is_full(place)]
        return f" ({' and '.join(places)})" if places else ""

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self.channel.send(json.dumps(message))
        except OSError:
            raise ControllerGoneError from None

    def _confirm(self, change: str) -> None:
        """Make sure that the controller still hears us after a NIC was moved."""
        self._confirmed += 1
        self._send({"event": "confirm", "number": self._confirmed, "what": change})
        if self.channel.confirmation(self._confirmed, CONFIRM_S) is None:
            raise errors.HostError(
                f"the controller did not confirm within {CONFIRM_S:g} s that it still hears this "
                f"machine, so it is undone: {change}",
                accepted="a NIC that neither the controller's connection nor anything else needs",
                cure="choose another NIC for the test",
            )

    def make_callbacks(self, scenario: str) -> dict[str, Any]:
        """Callbacks of a deployment or a calibration, each of which tells the controller."""

        def restored(report: UndoReport) -> None:
            event = {"event": "restored", "scenario": scenario, "troubles": report.troubles}
            with contextlib.suppress(ControllerGoneError):
                self._send({**event, "differences": report.differences})

        def notice(text: str) -> None:
            with contextlib.suppress(ControllerGoneError):
                self._send({"event": "notice", "text": text})

        calls = {"on_wait": self._on_wait, "confirm": self._confirm, "on_restored": restored}
        return {**calls, "on_notice": notice}

    def _watch(self) -> None:
        if self.channel.isclosed():
            raise ControllerGoneError

    def _on_wait(self, holder: LockHolder | None, waited_s: float) -> None:
        self._watch()
        text = holder.describe() if holder else "a run that is just beginning or ending"
        self._send({"event": "wait", "holder": text, "seconds": waited_s})

    def call_hello(
        self,
        path: list[str],
        plugins: dict[Any, dict[str, str]],
        predecessor: Sequence[int] = (),
        version: str = __version__,
        variables: Mapping[str, str | None] | None = None,
    ) -> dict[str, Any]:
        """Learn the controller's import path and plugins; refuse one of another version.

        Programs get the variables that the testbed file names besides the usual ones, with the
        controller's values. A restricted agent takes no value from its caller: LD_PRELOAD would
        run anything as root. There those count with which the agent was started.

        A predecessor is this controller's earlier agent, by pid and start time: one that lives on
        does not answer, and is ended, so that its run is restored. A restricted agent ends only
        runs of its own caller: pid and start time of anybody's agent can be read by all.
        """
        if version != __version__:
            raise errors.HostError(
                f"the controller is vnetperf {version}, its agent {__version__}",
                where=str(Path(__file__).parents[1]),
                cure="install the same version on both sides",
            )
        named = variables or {}
        VARIABLES.let_through(dict.fromkeys(named) if self.restricted else named)
        if self.restricted:
            refuse_plugins(plugins)
            path, plugins = [], {}
        # From a folder that others may write to, nothing is imported as root.
        for place in (p for p in path if p not in sys.path and Path(p).exists()):
            if reason := explain_distrust(Path(place)):
                log.warning("nothing is imported as root from %s: %s", place, reason)
                self._left_out.append(reason)
            else:
                sys.path.append(place)
        for family, backends in plugins.items():
            for name, target in backends.items():
                registry.register(family, name, target)
        # One that is not root only reads and plans.
        only = caller_uid() if self.restricted else None
        report = _restore_patiently(self.roots, predecessor, only) if is_root() else RestoreReport()
        hung = [run for run in report.live if not run.is_undone and run.matches(predecessor)]
        me = ProcessId.me()
        return {
            "process": [me.pid, me.start],
            "restored": {
                **asdict(report),
                "restored": [{**asdict(o), "troubles": o.troubles} for o in report.restored],
            },
            "plugins": registry.plugins(),
            "last": read_last(self.roots),
            "troubles": [*report.troubles, *(run.describe() for run in hung)],
        }

    def call_clock(self) -> float:
        """The time of this host's clock, seconds since 1970."""
        return time.time()

    def call_clock_sync(self) -> Any:
        """What this host's services state of its clock, by their programs."""
        return read_sync().model_dump(mode="json")

    def call_inventory(self, testbed: dict[str, Any]) -> Any:
        """Read the facts of the machine."""
        parsed_testbed = Testbed.model_validate(testbed)
        if self.restricted:
            refuse_testbed(parsed_testbed)
        facts = take_inventory(parsed_testbed)
        builds = {
            name: registry.load("traffic", name).identity() for name in registry.names("traffic")
        }
        versions = {**facts.versions, **{name: build for name, build in builds.items() if build}}
        self.facts = facts.model_copy(update={"versions": versions})
        return self.facts.model_dump(mode="json")

    def call_open(self, plan: dict[str, Any]) -> str:
        """Take this host for its part of a deployment; its network namespace.

        An earlier deployment is taken away first.
        """
        self.call_teardown()
        checked = self._check_plan(plan, make_plan)
        facts = self._facts(checked.testbed)
        self.deployment = LiveDeployment.open(
            checked, facts, roots=self.roots, **self.make_callbacks(checked.scenario.id)
        )
        return str(self.deployment.machine.netns)

    def call_lay_cables(self, cables: dict[str, str]) -> dict[str, str]:
        """Join this host to others' namespaces: number of a cable -> interface at both ends."""
        if self.restricted:  # the namespaces are the controller's to name
            raise errors.HostError(
                "the launcher joins no namespaces",
                where="lay_cables",
                cure="run as root, or on a testbed of one host",
            )
        deployment = self._require_deployment("lay_cables")
        machine, backends = deployment.machine, deployment.backends
        scenario = deployment.plan.scenario
        users: list[type[Backend]] = [backends.vswitch]
        if not scenario.apart:
            users.append(backends.generator)
        cable_options = {
            "offloads": backends.vswitch.offloads_cables(scenario),
            "native_xdp": any(user.sends_native_xdp(scenario) for user in users),
        }
        return {
            number: machine.lay_cable(int(number), Path(far), scenario.mtu, **cable_options)
            for number, far in cables.items()
        }

    def call_plug_nics(self) -> dict[str, int | None]:
        """Give NICs that are ends of cables their drivers: cable -> ring of a DUT's end here."""
        rings = self._require_deployment("plug_nics").plug_nics()
        return {str(number): ring for number, ring in rings.items()}

    def call_bring_up(self, cables: dict[str, str], rings: dict[str, int | None]) -> None:
        """Start this host's parts, with the interface of each cable, and rings at its far end."""
        named = {int(number): netdev for number, netdev in cables.items()}
        rings_by_cable = {int(number): ring for number, ring in rings.items()}
        self._require_deployment("bring_up").bring_up(named, rings_by_cable)

    def call_check_path(self) -> dict[str, Any]:
        """Check, from the tester's host, that frames come through."""
        return check_path(self._require_deployment("check_path"))

    def call_facts(self, path_check: dict[str, Any]) -> Any:
        """What is known of this host's parts."""
        deployment = self._require_deployment("facts")
        deployment.note_facts(path_check)
        return deployment.facts.model_dump(mode="json")

    def call_counters(self) -> Any:
        """Counters of the DUT's ports here."""
        hops = self._require_deployment("counters").counters()
        return {name: hop.model_dump(mode="json") for name, hop in hops.items()}

    def meet(
        self, point: str, watch: Callable[[], None], news: Mapping[str, Any] = NO_NEWS
    ) -> Mapping[str, Any]:
        """Have the controller tell when all hosts of a trial have come to a point."""
        self._confirmed += 1
        number = self._confirmed
        self._send({"event": "meet", "number": number, "point": point, "news": dict(news)})
        while (answer := self.channel.confirmation(number, WATCH_S)) is None:
            self._watch()
            watch()
        if answer["news"] is None:
            raise PartEndedError
        all_news: dict[str, Any] = answer["news"]
        return all_news

    def receives(self) -> None:
        """Tell that a tester with one of its two ports here counts frames from now on."""
        self._send({"event": "receives"})

    def _on_live(self, counts: LiveCounts) -> None:
        self._send({"event": "live", "counts": counts.model_dump(mode="json")})

    def call_run_trial(
        self,
        spec: dict[str, Any],
        follow: bool = False,
        together: bool = False,
        event_is_here: bool = True,
        window: dict[str, Any] | None = None,
    ) -> Any:
        """Run what this host has of a trial; `follow` sends its counts meanwhile.

        `together`: other hosts have parts of it as well.
        """
        part = run_part(
            self._require_deployment("run_trial"),
            TrialSpec.model_validate(spec),
            self._watch,
            self._on_live if follow else None,
            others=self if together else None,
            window=TrialWindow.model_validate(window) if window is not None else None,
            event_is_here=event_is_here,
        )
        return part.model_dump(mode="json")

    def call_watch(self, seconds: float) -> Any:
        """What threads and machine do here for a while in which nothing is sent."""
        deployment = self._require_deployment("watch")
        return watch_machine(deployment, seconds, self._watch).model_dump(mode="json")

    def call_captured(self) -> dict[str, str]:
        """Hand over the frames that the last trial kept."""
        files = self._require_deployment("captured").generator.captured()
        return {name: b64encode(octets).decode() for name, octets in files.items()}

    def call_users_transfer(self, specs: list[dict[str, Any]]) -> Any:
        """Let users of the deployed scenario's VNF talk to a server."""
        requests = [TransferSpec.model_validate(spec) for spec in specs]
        transfers = transfer_users(
            self._require_deployment("users_transfer"), requests, self._watch
        )
        return [transfer.model_dump(mode="json") for transfer in transfers]

    def call_transfer(self, specs: list[dict[str, Any]], server: ServerPlace) -> Any:
        """Let endpoints talk through the deployed scenario, or programs run in its VNFs."""
        requests = [TransferSpec.model_validate(spec) for spec in specs]
        deployment = self._require_deployment("transfer")
        if workload := find_workload(requests[0].kind):
            transfers = run_workload(deployment, workload, requests, self._watch)
        else:
            transfers = transfer_endpoints(deployment, requests, server, self._watch)
        return [transfer.model_dump(mode="json") for transfer in transfers]

    def call_open_end(self, number: int, addresses: list[Any]) -> dict[str, str]:
        """Put an endpoint here whose counterpart is on another host; what it is."""
        if self.restricted:  # whoever calls chooses what is started in it
            raise errors.HostError(
                "the launcher starts no endpoints for other hosts",
                where="open_end",
                cure="run as root, or on a testbed of one host",
            )
        self.call_close_end()
        local_end = LocalEnd(self._require_deployment("open_end"), number, EndAddresses(*addresses))
        self._end = local_end
        end = local_end.endpoint
        return {"what": end.what, "netdev": end.netdev, "processors": end.place.processors}

    def call_drive_end(
        self, do: str, argv: Sequence[str] = (), program: int = 0, by: int = 0
    ) -> Any:
        """Do something at the endpoint here, or with a program that was started in it."""
        if self._end is None:
            raise errors.HostError("there is no endpoint", where="drive_end")
        if do == "run":
            return self._end.endpoint.place.run(argv)
        if do == "start":
            return self._end.start(f"end-{Path(argv[0]).name}", argv)
        if do == "look":
            return self._end.look()
        started = self._end.program(program)
        if do == "cpu":
            time_s = started.cpu()
            return None if time_s is None else [time_s.user_s, time_s.system_s]
        if do == "output":
            return started.output()
        if do == "end":
            return started.end(signal.Signals(by))
        raise errors.HostError("nothing of that name is done", where=f"drive_end, {do}")

    def call_close_end(self) -> None:
        """Take the endpoint away; the deployment stays."""
        end, self._end = self._end, None
        if end is not None:
            end.close()

    def call_check_alive(self) -> None:
        """Fail with what of the DUT here has died."""
        self._require_deployment("check_alive").check_alive()

    def _require_deployment(self, call: str) -> LiveDeployment:
        if self.deployment is None:
            raise errors.HostError("no scenario is deployed", where=call)
        return self.deployment

    def call_calibrate(
        self, plan: dict[str, Any], frame_sizes: list[int], *, brief: bool = False
    ) -> Any:
        """Loop the generator to itself and measure it."""
        self.call_teardown()
        checked = self._check_plan(plan, make_loop_plan)
        result = calibrate(
            checked,
            self._facts(checked.testbed),
            tuple(frame_sizes),
            brief=brief,
            roots=self.roots,
            watch=self._watch,
            **self.make_callbacks(CALIBRATION),
        )
        return result.model_dump(mode="json")

    def _check_plan(self, plan: dict[str, Any], planner: MakePlan) -> Plan:
        checked = Plan.model_validate(plan)
        if not self.restricted:
            return checked
        refuse_part(checked)
        refuse_testbed(checked.testbed)
        refuse_scenario(checked.scenario)
        # The plan too decides on NICs, drivers and memory: it must be this agent's own, of now.
        self.call_inventory(checked.testbed.model_dump(mode="json"))
        local_plan = planner(checked.scenario, checked.testbed, self._facts(checked.testbed))
        refuse_plan(checked, local_plan)
        return local_plan

    def _facts(self, testbed: Testbed) -> MachineFacts:
        if self.facts is None:
            self.facts = take_inventory(testbed)
        return self.facts

    def call_teardown(self) -> list[str]:
        """Take the deployment away, if there is one."""
        deployment, self.deployment = self.deployment, None
        self._end = None  # its programs and namespace end with the run
        return deployment.teardown() if deployment is not None else []


#: What a controller may call; nothing else of the agent is reached by a message.
CALLS = frozenset(name.removeprefix("call_") for name in vars(Agent) if name.startswith("call_"))


def _restore_patiently(
    roots: HostRoots, predecessor: Sequence[int] = (), only: int | None = None
) -> RestoreReport:
    """Undo what dead runs left; a guardian that is at it already is waited for.

    The predecessor is ended, with `only` when its run is that user's.
    """

    def is_waited_for(run: LiveRun) -> bool:
        hung = not run.is_undone and run.matches(predecessor) and only in (None, run.uid)
        if hung:
            log.warning("agent %d does not answer and is ended", run.pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(run.pid, signal.SIGKILL)
        return hung or run.is_undone

    return restore_patiently(roots, GUARDIAN_S, is_waited_for)


def serve(channel: Any, *, restricted: bool = False, host: str = "") -> None:
    """Entry point of the agent's process, of a host that is namespaces of a machine by its name."""
    os.chdir("/")  # where it was started is the controller's
    raise_limits()
    # Ctrl-C and Ctrl-Z reach the whole foreground group; the controller decides what the first one
    # means, and while the second one stops it, this process has to see its silence.
    for number in (signal.SIGINT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _on_sigterm)
    line = Line(channel)
    ROOT.addHandler(ForwardingHandler(line.send_record))
    ROOT.setLevel(logging.DEBUG)
    VARIABLES.keep()
    trust_programs()
    Agent(line, HostRoots.for_host(host), restricted=restricted).serve()
    if line.silent:
        # It may read this when it goes on. Its pipe may be full: nothing here waits for that.
        reason = f"the controller was silent for {line.silence_s:g} s, so all was taken away"
        with contextlib.suppress(ControllerGoneError):
            line.send(json.dumps({"event": "farewell", "why": reason}))
        line.flush()
        os._exit(0)
    line.flush()


def _on_sigterm(number: int, frame: object) -> None:
    raise TerminatedError(f"signal {number}")
