"""Memif: rings in memory that tester and DUT share."""

from __future__ import annotations

from typing import ClassVar

from vnetperf.model.deployment import WireEnd
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.plugin.wire import Wire


class Memif(Wire):
    """A memif wire; its rings live in memory that both processes map."""

    name: ClassVar[str] = "memif"
    refusal_is_loss: ClassVar[bool] = True

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario, testbed: Testbed) -> str:
        """Memif needs nothing of the machine."""
        return ""

    def lay(self) -> tuple[WireEnd, WireEnd]:
        """Name the socket; the two programs make the rest when they connect."""
        socket = str(self.machine.run_dir / f"wire{self.index}.sock")
        return (
            WireEnd(wire=self.index, kind=self.name, side="tester", socket=socket, role="client"),
            WireEnd(wire=self.index, kind=self.name, side="dut", socket=socket, role="server"),
        )
