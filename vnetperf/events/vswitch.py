"""The vSwitch is restarted."""

from __future__ import annotations

from typing import ClassVar

from vnetperf.host.wait import wait_for
from vnetperf.model.errors import DutError
from vnetperf.model.scenario import Plan
from vnetperf.plugin.dut import load_dut
from vnetperf.plugin.event import Event, EventTarget

#: Longest wait for the tester's links after a restart, seconds.
LINKS_S = 5.0


class VSwitchRestart(Event):
    """A restart of the vSwitch: "vswitch", or "vswitch on HOST" where several hosts have one.

    Args:
        host_name: Name of the host; None where one host alone has a vSwitch.
    """

    name: ClassVar[str] = "vswitch"
    pattern: ClassVar[str] = r"vswitch(?: on (.+))?"

    def __init__(self, host_name: str | None = None) -> None:
        self._host_name = host_name

    def host(self, plan: Plan) -> str:
        """The host that is named, or the only one that has a vSwitch."""
        return super().host(plan) if self._host_name is None else self._host_name

    def problem(self, plan: Plan) -> str:
        """A network of pods, and what a NAT has learnt, are not brought back in a trial."""
        scenario = plan.scenario
        dut = load_dut(scenario.deployment, scenario.vswitch)
        if problem := dut.find_restart_problem(scenario):
            return problem
        if scenario.change is not None and scenario.change.learns_ends:
            return (
                "a NAT that is started again may map sessions otherwise, and mappings are learnt "
                "between trials, not within one"
            )
        return ""

    def act(self, dut: EventTarget, down_s: float) -> None:
        """Restart it; a tester on virtio-user takes its connection when its links are read."""
        dut.restart_vswitch()
        if not dut.plan.has_tester:
            return
        generator = dut.generator
        wait_for(
            lambda: not generator.links_down(),
            LINKS_S,
            "the links of the tester",
            error=lambda: DutError(
                f"links down after {LINKS_S:g} s: {', '.join(generator.links_down())}",
                where="restart",
            ),
        )
