"""A VNF is restarted."""

from __future__ import annotations

from typing import ClassVar

from vnetperf.model.deployment import Deployment
from vnetperf.model.scenario import Plan
from vnetperf.plugin import registry
from vnetperf.plugin.event import Event, EventTarget
from vnetperf.plugin.vnf import UserPlane


class VnfRestart(Event):
    """A restart of a VNF: "vnf0", "vnf1" ...

    Args:
        number: 0-based number of the VNF.
    """

    name: ClassVar[str] = "vnf"
    pattern: ClassVar[str] = r"vnf(\d+)"

    def __init__(self, number: str) -> None:
        self._number = int(number)

    @classmethod
    def choices(cls, graph: Deployment) -> tuple[str, ...]:
        """Each of its VNFs."""
        return tuple(f"vnf{number}" for number in graph.vnf_numbers)

    def __str__(self) -> str:
        """As it was requested."""
        return f"vnf{self._number}"

    def host(self, plan: Plan) -> str:
        """The host of its first port."""
        return plan.port_hosts.get(f"{self}.0", "")

    def problem(self, plan: Plan) -> str:
        """Others may carry its frames, and sessions may end with it."""
        graph, vnf = plan.scenario.deployment, plan.scenario.vnf
        if graph.chains > 1:
            return (
                f"{graph.name} has {graph.chains} VNFs side by side: while one is restarted, "
                "frames come through the others, and neither loss nor pause is its time; pvp has "
                "one"
            )
        if issubclass(registry.load_vnf(vnf), UserPlane):
            return f"sessions of {vnf} end with it, so that no frame could come after"
        return ""

    def act(self, dut: EventTarget, down_s: float) -> None:
        """Restart it."""
        dut.restart_vnf(self._number)
