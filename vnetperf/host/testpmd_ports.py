"""What a running dpdk-testpmd tells of its ports, by its telemetry socket."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from vnetperf.host.telemetry import DpdkTelemetry
from vnetperf.model.errors import HostError, VnetperfError
from vnetperf.model.trial import HopCounters


class TestpmdPorts:
    """Ports of a testpmd. A connection that broke, or answered too late, is made anew.

    Args:
        runtime: RUNTIME_DIRECTORY it was started with.
        name: Its file prefix.
    """

    __test__ = False  # pytest would otherwise try to collect the name

    def __init__(self, runtime: Path, name: str) -> None:
        self._path = runtime / "dpdk" / name / "dpdk_telemetry.v2"
        self._telemetry: DpdkTelemetry | None = None

    def ask(self, command: str) -> Any:
        """Ask one thing.

        Args:
            command: Command and parameters.

        Returns:
            The answer; None when it knows no such command or refuses it.

        Raises:
            HostError: It is not there, or does not answer.
        """
        if self._telemetry is None:
            try:
                self._telemetry = DpdkTelemetry(self._path)
            except (OSError, ValueError) as error:
                raise HostError(f"testpmd is not there: {error}", where=str(self._path)) from error
        try:
            return self._telemetry.ask(command)
        except VnetperfError:
            self.close()
            raise

    def version(self) -> str:
        """Version of DPDK, or why it is not known."""
        with contextlib.suppress(HostError):
            self.info(0)
        if self._telemetry is None:
            return "unknown: it does not answer"
        return str(self._telemetry.greeting.get("version", "unknown: telemetry does not say"))

    def info(self, number: int) -> dict[str, Any]:
        """What it tells of a port.

        Args:
            number: DPDK's number of the port.

        Returns:
            "name", "mac_addr", "mtu", "nb_rx_queues" ...; empty when it knows no such port.

        Raises:
            HostError: It has gone.
        """
        answer = self.ask(f"/ethdev/info,{number}")
        return answer if isinstance(answer, dict) else {}

    def describe(self, number: int) -> str:
        """A port as its driver has it, for the result.

        Args:
            number: DPDK's number of the port.

        Returns:
            "02:76:61:00:00:00, MTU 1500, 1/1 rx/tx queues", or why it is not known.
        """
        try:
            info = self.info(number)
        except HostError as error:
            return f"unknown: {error}"
        return (
            f"{info.get('mac_addr', 'no address')}, MTU {info.get('mtu', 'unknown')}, "
            f"{info.get('nb_rx_queues', '?')}/{info.get('nb_tx_queues', '?')} rx/tx queues"
        )

    def link_up(self, number: int) -> bool:
        """Whether a port's link is up.

        Args:
            number: DPDK's number of the port.

        Returns:
            True when it is.

        Raises:
            HostError: It has gone.
        """
        answer = self.ask(f"/ethdev/link_status,{number}")
        return isinstance(answer, dict) and answer.get("status") == "UP"

    def counters(self, number: int, name: str) -> HopCounters:
        """Counters of a port.

        Args:
            number: DPDK's number of the port.
            name: What the port is called in the result.

        Returns:
            The counters.

        Raises:
            HostError: It has gone, or knows no such port.
        """
        stats = self.ask(f"/ethdev/stats,{number}")
        if not isinstance(stats, dict):
            raise HostError(f"testpmd has no statistics of port {number}", where=str(self._path))
        return HopCounters(
            port=name,
            rx=stats["ipackets"],
            tx=stats["opackets"],
            rx_dropped=stats["imissed"] + stats["rx_nombuf"],
            tx_dropped=stats["oerrors"],
        )

    def close(self) -> None:
        """Close the connection; the next question opens it again."""
        if self._telemetry is not None:
            self._telemetry.close()
            self._telemetry = None
