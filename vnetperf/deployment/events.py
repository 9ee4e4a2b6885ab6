"""Events in the middle of a trial: found by their text, checked, placed, and let happen in time."""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING

from vnetperf.deployment.path_check import check_path
from vnetperf.model.deployment import Deployment as Graph
from vnetperf.model.errors import CapabilityError, DutError, VnetperfError
from vnetperf.model.scenario import Plan
from vnetperf.model.trial import EventSpec, EventTimes
from vnetperf.plugin import registry
from vnetperf.plugin.dut import load_dut
from vnetperf.plugin.event import Event

if TYPE_CHECKING:
    from vnetperf.deployment.deploy import LiveDeployment

log = logging.getLogger(__name__)
#: From this long before an event on nothing else is looked at, seconds.
EVENT_AHEAD_S = 0.6
#: An event later than this before the end of sending would not be seen in the trial, seconds.
EVENT_LEAST_AFTER_S = 0.5


def parse_event(text: str) -> Event | None:
    """Make the event of a text; None where no kind has such texts."""
    for name in registry.names("events"):
        kind: type[Event] = registry.load("events", name)
        if match := re.fullmatch(kind.pattern, text):
            return kind(*match.groups())
    return None


def list_events(graph: Graph) -> tuple[str, ...]:
    """List the texts of all events that a deployment allows: vswitch, then VNFs, then links."""
    kinds = [registry.load("events", name) for name in reversed(registry.names("events"))]
    return tuple(text for kind in kinds for text in kind.choices(graph))


def find_event_problem(plan: Plan, text: str) -> str:
    """What keeps an event from happening in the middle of a trial, before anything is deployed."""
    graph = plan.scenario.deployment
    if load_dut(graph, plan.scenario.vswitch).elsewhere:
        return f"somebody else runs the external DUT: nothing here can reset its {text}"
    if plan.hosts:
        part = locate_event(plan, text)
        return f"no host has {text}" if part is None else find_event_problem(part, text)
    event, choices = parse_event(text), list_events(graph)
    # On a testbed of several hosts the text may name the host as well, which `locate_event` read.
    if event is None or (str(event) if plan.host else text) not in choices:
        missing = text if event is None or str(event) in choices else event.part
        return f"{graph.name} has no {missing}; it has {', '.join(choices)}"
    return event.problem(plan)


def locate_event(plan: Plan, text: str) -> Plan | None:
    """The plan of the host where an event happens; None where none has what it happens to."""
    event = parse_event(text)
    host = event.host(plan) if event is not None else ""
    return next((part for part in plan.hosts if part.has_dut and part.host == host), None)


def check_event(plan: Plan, event: EventSpec, duration_s: float) -> None:
    """Refuse an event that cannot happen."""
    where = f"{plan.scenario.id}, in the middle of a trial: {event.what}"
    if problem := find_event_problem(plan, event.what):
        raise CapabilityError(problem, where=where)
    if event.at_s > duration_s - EVENT_LEAST_AFTER_S:
        raise CapabilityError(
            f"an event after {event.at_s:g} s of a trial of {duration_s:g} s",
            where=where,
            accepted=f"at least {EVENT_LEAST_AFTER_S:g} s before its end",
        )


def check_after_event(deployment: LiveDeployment, times: EventTimes) -> EventTimes:
    """Check the path once all counters are read; what came back may still forward nothing."""
    if times.failure:
        return times
    try:
        check_path(deployment)
    except VnetperfError as error:
        failure = f"after the trial still no way through: {error}"
        return times.model_copy(update={"failure": failure})
    return times


class EventInjector:
    """An event of the trial that is going on.

    Attributes:
        times: When it happened; None before.
        resets_counters: Whether counters of the DUT begin anew.
    """

    def __init__(self, deployment: LiveDeployment, spec: EventSpec) -> None:
        event = parse_event(spec.what)
        if event is None:
            raise CapabilityError(f"there is no event {spec.what}", where="event")
        self.times: EventTimes | None = None
        self.resets_counters = event.resets_counters
        self._deployment = deployment
        self._spec, self._event = spec, event
        self._armed = time.monotonic()

    def poll(self) -> None:
        """Let it happen if it is time to; returns when it is over."""
        if self.times is not None:
            return
        first = self._first_frame()
        if first + self._spec.at_s - time.monotonic() <= EVENT_AHEAD_S:
            self.happen(first)

    def happen(self, first: float) -> EventTimes:
        """Let it happen at its time after `first`, when sending began by this machine's clock."""
        time.sleep(max(0.0, first + self._spec.at_s - time.monotonic()))
        began, failure = time.monotonic(), ""
        log.info("event: %s", self._event)
        try:
            self._event.act(self._deployment, self._spec.down_s)
        except VnetperfError as error:
            failure = f"{self._event} does not come back: {error}"
        self.times = EventTimes(
            what=self._spec.what,
            began_s=round(began - first, 6),
            ended_s=round(time.monotonic() - first, 6),
            failure=failure,
        )
        return self.times

    @property
    def failed(self) -> bool:
        """Whether what was restarted did not come back."""
        return self.times is not None and bool(self.times.failure)

    def result(self) -> EventTimes:
        """When it happened, once the trial is over."""
        if self.times is None:
            raise DutError(f"the trial ended before {self._event}", where="event")
        return self.times

    def _first_frame(self) -> float:
        """When sending began, by this process's clock."""
        live = self._deployment.generator.live()
        return self._armed if live is None else time.monotonic() - live.elapsed_s
