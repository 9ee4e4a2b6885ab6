"""What is done to the DUT in the middle of a trial: a restart, or a link that goes down and up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vnetperf import registry
from vnetperf.model.deployment import Deployment as Graph
from vnetperf.model.errors import CapabilityError, DutError, VnetperfError
from vnetperf.model.plan import Plan
from vnetperf.model.trial import EventSpec, EventTimes
from vnetperf.testbed.pathcheck import check_path

if TYPE_CHECKING:
    from vnetperf.testbed.deploy import Deployment

#: From this long before an event on nothing else is looked at, seconds.
AHEAD_S = 0.6
#: An event later than this before the end of sending would not be seen in the trial, seconds.
LEAST_AFTER_S = 0.5
#: Longest wait for the tester's links after a restart, seconds.
LINKS_S = 5.0


def why_not(plan: Plan, what: str) -> str:
    """What keeps an event from happening in the middle of a trial, before anything is deployed.

    Args:
        plan: What is, or would be, deployed.
        what: As in `EventSpec`: "vswitch", "vnf0", "link phy0".

    Returns:
        "" when nothing does; otherwise what and the cure, in one sentence.
    """
    graph, kind, _, port = plan.scenario.deployment, *what.partition(" ")
    if what == "vswitch":
        return ""
    if kind == "link":
        return _why_no_link(plan, port)
    if what not in [f"vnf{number}" for number in range(graph.vnf_count)]:
        return f"{graph.name} has no {what}; it has {_parts(graph)}"
    if registry.load_vnf(plan.scenario.vnf).user_plane:
        return f"sessions of {plan.scenario.vnf} end with it, so that no frame could come after"
    return ""


def _why_no_link(plan: Plan, port: str) -> str:
    graph = plan.scenario.deployment
    if port not in map(str, graph.phy_ports):
        return f"{graph.name} has no physical port {port}; it has {_parts(graph)}"
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
    vnfs = [f"vnf{number}" for number in range(graph.vnf_count)]
    return ", ".join(["vswitch", *vnfs, *(f"link {p}" for p in graph.phy_ports)])


def check(plan: Plan, event: EventSpec, duration_s: float) -> None:
    """Refuse an event that cannot happen.

    Args:
        plan: What is deployed.
        event: The event.
        duration_s: Seconds of sending.

    Raises:
        CapabilityError: It cannot; says why.
    """
    where = f"{plan.scenario.id}, in the middle of a trial: {event.what}"
    if why := why_not(plan, event.what):
        raise CapabilityError(why, where=where)
    if event.at_s > duration_s - LEAST_AFTER_S:
        raise CapabilityError(
            f"an event after {event.at_s:g} s of a trial of {duration_s:g} s",
            where=where,
            accepted=f"at least {LEAST_AFTER_S:g} s before its end",
        )


class Happening:
    """An event of the trial that is going on.

    Args:
        deployment: What it happens to.
        event: The event; `check` has nothing against it.

    Attributes:
        times: When it happened; None before.
    """

    def __init__(self, deployment: Deployment, event: EventSpec) -> None:
        self.times: EventTimes | None = None
        self._deployment = deployment
        self._event = event
        self._armed = time.monotonic()

    def look(self) -> None:
        """Let it happen if it is time to; returns when it is over."""
        if self.times is not None:
            return
        first = self._first_frame()
        wait = first + self._event.at_s - time.monotonic()
        if wait > AHEAD_S:
            return
        time.sleep(max(0.0, wait))
        began, failure = time.monotonic(), ""
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

    @property
    def failed(self) -> bool:
        """Whether what was restarted did not come back."""
        return self.times is not None and bool(self.times.failure)

    @property
    def resets_counters(self) -> bool:
        """Whether counters of the DUT began anew."""
        return not self._event.what.startswith("link ")

    def over(self) -> EventTimes:
        """When it happened, once the trial is over; the path is checked if it came back.

        Returns:
            The times.

        Raises:
            DutError: It has not happened.
        """
        if self.times is None:
            raise DutError(f"the trial ended before {self._event.what}", where="event")
        if not self.failed:
            try:
                check_path(self._deployment)
            except VnetperfError as error:
                failure = f"after the trial still no way through: {error}"
                self.times = self.times.model_copy(update={"failure": failure})
        return self.times

    def _first_frame(self) -> float:
        """When sending began, by this process's clock."""
        live = self._deployment.generator.live()
        return self._armed if live is None else time.monotonic() - live.elapsed_s

    def _do(self) -> None:
        kind, _, port = self._event.what.partition(" ")
        if kind == "link":
            self._link(port)
        elif kind == "vswitch":
            self._deployment.restart_vswitch()
            self._links_up()
        else:
            self._deployment.restart_vnf(int(kind.removeprefix("vnf")))

    def _link(self, port: str) -> None:
        machine = self._deployment.machine
        netdev = self._deployment.dut_netdev(port)
        machine.set_link_up(netdev, up=False)
        try:
            time.sleep(self._event.down_s)
        finally:
            machine.set_link_up(netdev)

    def _links_up(self) -> None:
        """A tester on virtio-user takes the switch's connection when its link is asked for."""
        deadline = time.monotonic() + LINKS_S
        while down := self._deployment.generator.links_down():
            if time.monotonic() > deadline:
                raise DutError(
                    f"links down after {LINKS_S:g} s: {', '.join(down)}", where="restart"
                )
            time.sleep(0.02)
