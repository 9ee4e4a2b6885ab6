"""A kernel form at work in a place: set up, counted, watched."""

from __future__ import annotations

from typing import Any

from vnetperf.model.errors import DutError, HostError
from vnetperf.model.trial import HopCounters
from vnetperf.vnfs.vloop.forms.form import Form, Place, Port, follow


class KernelForwarder:
    """What forwards between two interfaces of a place without a program of its own.

    Args:
        place: Where.
        form: How.
        role: Which VNF it is, "vnf0".
        ports: Its ports 0 and 1.
    """

    def __init__(self, place: Place, form: type[Form], role: str, ports: tuple[Port, Port]) -> None:
        self.place = place
        self.form = form
        self.role = role
        self.ports = ports
        self.lines: list[str] = []

    def set_up(self) -> None:
        """Take the form's steps.

        Raises:
            DutError: A step failed, with what its tool said.
        """
        try:
            self.lines = follow(self.place, self.form.steps(self.ports))
        except HostError as error:
            raise DutError(
                f"the form {self.form.name} could not be set up: {error}", where=self.role
            ) from error

    def counters(self) -> tuple[HopCounters, ...]:
        """What the kernel counted at each port, from the VNF's side: rx is what came in.

        Returns:
            One entry per port, since its interface was made.

        Raises:
            DutError: An interface is gone.
        """
        table = self.place.statistics()
        self._check(set(table))
        return tuple(
            HopCounters(
                port=f"{self.role}.{number} (inside)",
                rx=table[port.netdev].rx,
                tx=table[port.netdev].tx,
                rx_dropped=table[port.netdev].rx_dropped,
                tx_dropped=table[port.netdev].tx_dropped,
            )
            for number, port in enumerate(self.ports)
        )

    def check_alive(self) -> None:
        """Raise when what forwards is gone.

        Raises:
            DutError: An interface is, or the place is.
        """
        try:
            there = set(self.place.statistics())
        except HostError as error:
            raise DutError(f"its place is gone: {error}", where=self.role) from error
        self._check(there)

    def _check(self, there: set[str]) -> None:
        wanted = (*(port.netdev for port in self.ports), *self.form.made)
        gone = [name for name in wanted if name not in there]
        if gone:
            raise DutError(
                f"gone: the interface {', '.join(gone)} of form {self.form.name}", where=self.role
            )

    def facts(self) -> dict[str, Any]:
        """How it was set up.

        Returns:
            JSON values.
        """
        return {"application": f"Linux, form {self.form.name}", "set up by": self.lines}
