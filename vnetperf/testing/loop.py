"""A generator connected to itself over one wire, on this machine, undone afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from vnetperf import registry
from vnetperf.bench.scenarios import make_scenario
from vnetperf.host.machine import Machine
from vnetperf.host.session import HostRun
from vnetperf.model.errors import CapabilityError
from vnetperf.model.ports import WireEnd
from vnetperf.model.testbed import Testbed
from vnetperf.testbed import turns
from vnetperf.testbed.deploy import MACHINE_LOCK
from vnetperf.testbed.inventory import take_inventory
from vnetperf.testbed.plan import make_loop_plan
from vnetperf.testing.stage import REQUIRE, TURN_S, configuration
from vnetperf.traffic.base import TrafficGenerator


@dataclass(frozen=True)
class Loop:
    """A generator in a loop.

    Attributes:
        generator: The generator, connected.
        ends: Both ends of the wire, the one that listens first.
    """

    generator: TrafficGenerator
    ends: tuple[WireEnd, WireEnd]

    def connect(self) -> None:
        """Connect the generator again; a socket that it left is not in its way."""
        for end in self.ends:
            if end.socket:
                Path(end.socket).unlink(missing_ok=True)
        self.generator.connect(self.ends)
        # Whatever else the machine does must not pass for the generator's limit.
        turns.prefer(self.generator.pollers(), self.generator.plan.placement.slice_us)


@contextmanager
def looped(name: str, wire: str, testbed: Testbed | None = None) -> Iterator[Loop]:
    """Connect a generator to itself, as a calibration does; skips what cannot be had here.

    Args:
        name: Registered name of the generator.
        wire: Kind of wire.
        testbed: Testbed; None for that of whoever runs the tests.

    Yields:
        The loop.
    """
    if os.geteuid() != 0:
        _cannot(name, "generators are looped for real, which needs root: run pytest with sudo")
    settings = configuration({"generator": name, "wire": wire, "preset": "smoke"})
    testbed = testbed or settings.testbed
    facts = take_inventory(testbed)
    try:
        plan = make_loop_plan(make_scenario("phy2phy_dpdk", settings), testbed, facts)
    except CapabilityError as error:
        _cannot(name, str(error).replace("\n", ";"))
        raise
    with HostRun.open(testbed=MACHINE_LOCK, timeout_s=TURN_S) as run:
        machine = Machine(run, facts)
        for memory in plan.memory:
            machine.reserve_hugepages(memory.node, memory.size_kb, memory.pages)
        generator: TrafficGenerator = registry.load("traffic", name)(machine, plan)
        try:
            connecting, listening = registry.load("wires", plan.wire)(machine, plan, 0).lay()
            loop = Loop(generator, (listening, connecting))
            loop.connect()
            yield loop
        finally:
            generator.close()


def _cannot(name: str, reason: str) -> None:
    required = [one.strip() for one in os.environ.get(REQUIRE, "").split(",")]
    if name in required:
        pytest.fail(f"{REQUIRE} names {name}, but {reason}", pytrace=False)
    pytest.skip(reason)
