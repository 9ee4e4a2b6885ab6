"""Events in the middle of a trial: a part of the DUT is restarted, or a link goes down."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from vnetperf.deployment.path_check import check_path
from vnetperf.deployment.pods import switch_class
from vnetperf.host.nic.switchdev import SWITCHDEV, nic_mode
from vnetperf.host.wait import wait_for
from vnetperf.model.deployment import Deployment as Graph
from vnetperf.model.deployment import PhyPort
from vnetperf.model.errors import CapabilityError, DutError, VnetperfError
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.trial import EventSpec, EventTimes
from vnetperf.plugin import registry
from vnetperf.plugin.vnf import UserPlane

if TYPE_CHECKING:
    from vnetperf.deployment.deploy import LiveDeployment

log = logging.getLogger(__name__)
#: From this long before an event on nothing else is looked at, seconds.
EVENT_AHEAD_S = 0.6
#: An event later than this before the end of sending would not be seen in the trial, seconds.
EVENT_LEAST_AFTER_S = 0.5
#: Longest wait for the tester's links after a restart, seconds.
LINKS_S = 5.0


def find_event_problem(plan: Plan, event: str) -> str:
    """What keeps an event from happening in the middle of a trial, before anything is deployed."""
    kind, _, port = event.partition(" ")
    if switch_class(plan.scenario.deployment, plan.scenario.vswitch).elsewhere:
        return f"somebody else runs the external DUT: nothing here can reset its {event}"
    if plan.hosts:
        part, local_event = event_place(plan, event)
        return f"no host has {event}" if part is None else find_event_problem(part, local_event)
    if event == "vswitch":
        return _find_restart_problem(plan.scenario)
    if kind == "link":
        return _find_link_problem(plan, port)
    return _find_vnf_problem(plan, event)


def _find_restart_problem(scenario: Scenario) -> str:
    if scenario.deployment.pods:
        return f"network {scenario.vswitch} of pods is not restarted in a trial by this version"
    if scenario.nat is not None and scenario.nat.mapping == "learnt":
        return (
            "a NAT that is started again may map sessions otherwise, and mappings are learnt "
            "between trials, not within one"
        )
    return ""


def event_place(plan: Plan, event: str) -> tuple[Plan | None, str]:
    """The plan of the host where an event happens, and its name there; None where none has it."""
    name, _, host = event.partition(" on ")
    ports = plan.host_of
    if name.startswith("link "):
        host = ports.get(name.removeprefix("link "), "")
    elif name != "vswitch":
        host = ports.get(f"{name}.0", "")
    duts = [part for part in plan.hosts if part.has_dut]
    if name == "vswitch" and not host and len(duts) == 1:
        return duts[0], name
    return next((part for part in duts if part.host == host), None), name


def _find_vnf_problem(plan: Plan, vnf: str) -> str:
    graph = plan.scenario.deployment
    if vnf not in [f"vnf{number}" for number in graph.vnf_numbers]:
        return f"{graph.name} has no {vnf}; it has {_parts(graph)}"
    if graph.chains > 1:
        return (
            f"{graph.name} has {graph.chains} VNFs side by side: while one is restarted, frames "
            "come through the others, and neither loss nor pause is its time; pvp has one"
        )
    if issubclass(registry.load_vnf(plan.scenario.vnf), UserPlane):
        return f"sessions of {plan.scenario.vnf} end with it, so that no frame could come after"
    return ""


def _find_link_problem(plan: Plan, port: str) -> str:
    graph = plan.scenario.deployment
    if port not in map(str, graph.phy_ports):
        return f"{graph.name} has no physical port {port}; it has {_parts(graph)}"
    if nic_mode(plan.scenario) == SWITCHDEV:
        return (
            "in mode switchdev a physical port's interface is back in the machine's own namespace, "
            "maybe by another name, and is not taken down there; --set mode=legacy"
        )
    dut = [n for n in plan.nics if n.side == "dut" and f"phy{n.wire}" == port]
    if plan.wire == "veth" or (dut and all(nic.kernel for nic in dut)):
        return ""
    if plan.wire == "nic":
        return (
            "a NIC that the vSwitch drives itself has no interface to be taken down; give it to "
            "its kernel driver, where the vSwitch takes that"
        )
    return f"a {plan.wire} wire has no link that can be taken down; --wire veth has one"


def _parts(graph: Graph) -> str:
    vnfs = [f"vnf{number}" for number in graph.vnf_numbers]
    return ", ".join(["vswitch", *vnfs, *(f"link {p}" for p in graph.phy_ports)])


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
    """

    def __init__(self, deployment: LiveDeployment, event: EventSpec) -> None:
        self.times: EventTimes | None = None
        self._deployment = deployment
        self._event = event
        self._armed = time.monotonic()

    def poll(self) -> None:
        """Let it happen if it is time to; returns when it is over."""
        if self.times is not None:
            return
        first = self._first_frame()
        if first + self._event.at_s - time.monotonic() <= EVENT_AHEAD_S:
            self.happen(first)

    def happen(self, first: float) -> EventTimes:
        """Let it happen at its time after `first`, when sending began by this machine's clock."""
        time.sleep(max(0.0, first + self._event.at_s - time.monotonic()))
        began, failure = time.monotonic(), ""
        log.info("event: %s", self._event.what)
        try:
            self._do()
        except VnetperfError as error:
            failure = f"{self._event.what} does not come back: {error}"
        self.times = EventTimes(
            what=self._event.what,
            began_s=round(began - first, 6),
            ended_s=round(time.monotonic() - first, 6),
            failure=failure,
        )
        return self.times

    @property
    def failed(self) -> bool:
        """Whether what was restarted did not come back."""
        return self.times is not None and bool(self.times.failure)

    @property
    def resets_counters(self) -> bool:
        """Whether counters of the DUT began anew."""
        return not self._event.what.startswith("link ")

    def result(self) -> EventTimes:
        """When it happened, once the trial is over."""
        if self.times is None:
            raise DutError(f"the trial ended before {self._event.what}", where="event")
        return self.times

    def _first_frame(self) -> float:
        """When sending began, by this process's clock."""
        live = self._deployment.generator.live()
        return self._armed if live is None else time.monotonic() - live.elapsed_s

    def _do(self) -> None:
        kind, _, port = self._event.what.partition(" ")
        if kind == "link":
            machine, netdev = self._deployment.machine, self._deployment.dut_netdev(port)
            machine.set_link(netdev, up=False)
            try:
                time.sleep(self._event.down_s)
            finally:
                machine.set_link(netdev, up=True)
                phy = PhyPort(index=int(port.removeprefix("phy")))
                self._deployment.vswitch.link_came_up(phy)
        elif kind == "vswitch":
            self._deployment.restart_vswitch()
            if self._deployment.plan.has_tester:
                self._links_up()
        else:
            self._deployment.restart_vnf(int(kind.removeprefix("vnf")))

    def _links_up(self) -> None:
        """A tester on virtio-user takes the switch's connection when its link is read."""
        generator = self._deployment.generator
        wait_for(
            lambda: not generator.links_down(),
            LINKS_S,
            "the links of the tester",
            error=lambda: DutError(
                f"links down after {LINKS_S:g} s: {', '.join(generator.links_down())}",
                where="restart",
            ),
        )
