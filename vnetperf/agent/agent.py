"""The machine side: runs as root in a process of its own and answers the controller's calls.

Messages are JSON texts over an execnet channel: {"call", "args"} in; {"event", ...} any number of
times and then {"ok"} or {"error"} out. When the controller goes away, whatever is deployed is
taken away; when this process is killed, its guardian does it.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from base64 import b64encode
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from vnetperf import registry
from vnetperf.agent.inventory import take_inventory
from vnetperf.agent.launcher import refuse_plugins, refuse_scenario, refuse_testbed
from vnetperf.config.files import why_untrusted
from vnetperf.deployment.calibrate import calibrate
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.transfers import transfer_endpoints, transfer_users
from vnetperf.host.locks import LockHolder
from vnetperf.host.log import ROOT, ForwardingHandler
from vnetperf.host.paths import HostRoots
from vnetperf.host.session import RestoreReport, is_root, restore
from vnetperf.host.wait import wait_at_most
from vnetperf.model import errors
from vnetperf.model.outcomes import ServerPlace, TransferSpec
from vnetperf.model.scenario import Plan
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.model.trial import LiveCounts, TrialSpec

#: Longest wait for a guardian that restores the machine, seconds.
GUARDIAN_S = 15.0


class Channel(Protocol):
    """What an execnet channel gives us."""

    def send(self, item: str) -> None:
        """Send a text."""

    def receive(self) -> str:
        """Wait for a text; EOFError when the controller has gone."""

    def isclosed(self) -> bool:
        """Whether the controller has gone."""


#: What a controller may call; nothing else of the agent is reached by a message.
CALLS = frozenset(
    [
        "hello",
        "inventory",
        "deploy",
        "run_trial",
        "captured",
        "users_transfer",
        "transfer",
        "calibrate",
        "teardown",
    ]
)


class ControllerGoneError(Exception):
    """The controller went away in the middle of a call."""


class Agent:
    """Answers calls; holds at most one deployment.

    Attributes:
        restricted: True when the controller may not choose what is started as root: the agent of
            the launcher (docs/security.md).
    """

    def __init__(
        self, channel: Channel, roots: HostRoots | None = None, *, restricted: bool = False
    ) -> None:
        self.channel = channel
        self.restricted = restricted
        self.roots = roots or HostRoots()
        self.facts: MachineFacts | None = None
        self.deployment: LiveDeployment | None = None

    def serve(self) -> None:
        """Answer until the controller goes away, then take everything away."""
        try:
            while True:
                message = json.loads(self.channel.receive())
                self.channel.send(json.dumps(self._answer(message)))
        except (EOFError, OSError, ControllerGoneError):
            pass  # the controller has gone
        finally:
            self.call_teardown()

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            if message["call"] not in CALLS:
                raise errors.HostError(
                    "the agent has no such call",
                    where=str(message["call"]),
                    accepted=", ".join(sorted(CALLS)),
                )
            return {"ok": getattr(self, f"call_{message['call']}")(**message["args"])}
        except errors.VnetperfError as error:
            notes = getattr(error, "__notes__", [])
            return {
                "error": {
                    "class": type(error).__name__,
                    "what": "\n  ".join([error.what, *notes]),
                    **{key: getattr(error, key) for key in ("where", "accepted", "cure")},
                }
            }

    def _watch(self) -> None:
        if self.channel.isclosed():
            raise ControllerGoneError

    def _on_wait(self, holder: LockHolder | None, waited_s: float) -> None:
        self._watch()
        text = holder.describe() if holder else "a run that is just beginning or ending"
        self.channel.send(json.dumps({"event": "wait", "holder": text, "seconds": waited_s}))

    def call_hello(self, path: list[str], plugins: dict[Any, dict[str, str]]) -> dict[str, Any]:
        """Learn the controller's import path and plugins."""
        if self.restricted:
            refuse_plugins(plugins)
            path, plugins = [], {}
        # From a folder that others may write to, nothing is imported as root.
        sys.path += [p for p in path if p not in sys.path and not why_untrusted(Path(p))]
        for family, backends in plugins.items():
            for name, target in backends.items():
                registry.register(family, name, target)
        # One that is not root only reads and plans.
        report = _restore_patiently(self.roots) if is_root() else RestoreReport()
        return {"pid": os.getpid(), "restored": asdict(report), "complete": report.complete}

    def call_inventory(self, testbed: dict[str, Any]) -> Any:
        """Read the facts of the machine."""
        seen = Testbed.model_validate(testbed)
        if self.restricted:
            refuse_testbed(seen)
        facts = take_inventory(seen)
        builds = {
            name: registry.load("traffic", name).identity() for name in registry.names("traffic")
        }
        versions = {**facts.versions, **{name: build for name, build in builds.items() if build}}
        self.facts = facts.model_copy(update={"versions": versions})
        return self.facts.model_dump(mode="json")

    def call_deploy(self, plan: dict[str, Any]) -> Any:
        """Deploy a plan; an earlier deployment is taken away first."""
        self.call_teardown()
        checked = self._checked(plan)
        facts = self._facts(checked.testbed)
        self.deployment = LiveDeployment.deploy(
            checked, facts, roots=self.roots, on_wait=self._on_wait
        )
        return self.deployment.facts.model_dump(mode="json")

    def _on_live(self, counts: LiveCounts) -> None:
        self.channel.send(json.dumps({"event": "live", "counts": counts.model_dump(mode="json")}))

    def call_run_trial(self, spec: dict[str, Any], follow: bool = False) -> Any:
        """Run a trial of the deployed scenario; `follow` sends its counts meanwhile."""
        deployment = self._deployed("run_trial")
        on_live = self._on_live if follow else None
        result = deployment.run_trial(TrialSpec.model_validate(spec), self._watch, on_live)
        return result.model_dump(mode="json")

    def call_captured(self) -> dict[str, str]:
        """Hand over the frames that the last trial kept."""
        files = self._deployed("captured").generator.captured()
        return {name: b64encode(octets).decode() for name, octets in files.items()}

    def call_users_transfer(self, specs: list[dict[str, Any]]) -> Any:
        """Let users of the deployed scenario's VNF talk to a server."""
        requests = [TransferSpec.model_validate(spec) for spec in specs]
        found = transfer_users(self._deployed("users_transfer"), requests, self._watch)
        return [one.model_dump(mode="json") for one in found]

    def call_transfer(self, specs: list[dict[str, Any]], server: ServerPlace) -> Any:
        """Let endpoints talk through the deployed scenario."""
        requests = [TransferSpec.model_validate(spec) for spec in specs]
        found = transfer_endpoints(self._deployed("transfer"), requests, server, self._watch)
        return [one.model_dump(mode="json") for one in found]

    def _deployed(self, what: str) -> LiveDeployment:
        if self.deployment is None:
            raise errors.HostError("no scenario is deployed", where=what)
        return self.deployment

    def call_calibrate(
        self, plan: dict[str, Any], frame_sizes: list[int], *, brief: bool = False
    ) -> Any:
        """Loop the generator to itself and measure it."""
        self.call_teardown()
        checked = self._checked(plan)
        result = calibrate(
            checked,
            self._facts(checked.testbed),
            tuple(frame_sizes),
            brief=brief,
            roots=self.roots,
            watch=self._watch,
            on_wait=self._on_wait,
        )
        return result.model_dump(mode="json")

    def _checked(self, plan: dict[str, Any]) -> Plan:
        checked = Plan.model_validate(plan)
        if self.restricted:
            refuse_testbed(checked.testbed)
            refuse_scenario(checked.scenario)
        return checked

    def _facts(self, testbed: Testbed) -> MachineFacts:
        if self.facts is None:
            self.facts = take_inventory(testbed)
        return self.facts

    def call_teardown(self) -> list[str]:
        """Take the deployment away, if there is one."""
        deployment, self.deployment = self.deployment, None
        return deployment.teardown() if deployment is not None else []


def _restore_patiently(roots: HostRoots) -> RestoreReport:
    """Undo what dead runs left; a guardian that is at it already is waited for."""
    reports: list[RestoreReport] = []

    def restored() -> bool:
        reports.append(restore(roots))
        busy = any(live.role == "guardian" for live in reports[-1].live)
        return bool(reports[-1].restored) or not busy

    what = "a guardian that restores this machine"
    wait_at_most(restored, GUARDIAN_S, what, poll_s=0.1)
    return reports[-1]


def serve(channel: Channel, *, restricted: bool = False) -> None:
    """Entry point of the agent's process."""
    os.chdir("/")  # where it was started is the controller's
    # Ctrl-C reaches the whole foreground group; the controller decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _on_sigterm)
    ROOT.addHandler(
        ForwardingHandler(
            lambda record: channel.send(json.dumps({"event": "log", "record": record}))
        )
    )
    ROOT.setLevel(logging.DEBUG)
    Agent(channel, restricted=restricted).serve()


def _on_sigterm(number: int, frame: object) -> None:
    raise EOFError(f"signal {number}")
