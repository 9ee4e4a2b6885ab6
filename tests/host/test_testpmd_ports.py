"""Questions to a testpmd, one that is late or gone among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vnetperf.host import dpdk
from vnetperf.host.dpdk import TestpmdPorts
from vnetperf.model.errors import HostError

STATS = {"ipackets": 9, "opackets": 8, "imissed": 3, "rx_nombuf": 2, "oerrors": 1}
INFO = {"name": "net_memif0", "mac_addr": "02:00:00:00:00:01", "mtu": 1500, "nb_rx_queues": 2}


class Program:
    """A testpmd that does not answer its second question in time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.greeting = {"version": "DPDK 22.11.7"}
        self.asked = 0
        self.closed = False

    def ask(self, command: str) -> Any:
        assert not self.closed
        self.asked += 1
        if self.asked == 2:
            raise HostError("no answer in time")
        return {"/ethdev/stats,0": STATS, "/ethdev/info,0": INFO}.get(command)

    def close(self) -> None:
        self.closed = True


def test_after_a_late_answer_the_next_question_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpdk, "DpdkTelemetry", Program)
    ports = TestpmdPorts(Path("/r"), "vnf0")
    counted = ports.counters(0, "vnf0.0 (inside)")
    assert (counted.rx, counted.tx, counted.rx_dropped, counted.tx_dropped) == (9, 8, 5, 1)
    with pytest.raises(HostError, match="in time"):
        ports.counters(0, "vnf0.0 (inside)")
    assert ports.counters(0, "vnf0.0 (inside)") == counted
    ports.close()
    with pytest.raises(HostError, match="no statistics of port 1"):
        ports.counters(1, "vnf0.1 (inside)")


def test_a_port_is_described_or_why_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = TestpmdPorts(Path("/nowhere"), "vnf0")
    assert gone.describe(0).startswith("unknown: ")
    assert gone.version() == "unknown: it does not answer"
    with pytest.raises(HostError, match="testpmd is not there"):
        gone.link_up(0)
    monkeypatch.setattr(dpdk, "DpdkTelemetry", Program)
    there = TestpmdPorts(Path("/r"), "vnf0")
    assert there.version() == "DPDK 22.11.7"
    there.close()
    assert there.describe(0) == "02:00:00:00:00:01, MTU 1500, 2/? rx/tx queues"
    there.close()
    assert not there.link_up(0)  # it knows no such port
