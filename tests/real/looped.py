"""A generator looped to itself over one wire of this machine, as calibration has it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from vnetperf import config
from vnetperf.agent.inventory import take_inventory
from vnetperf.deployment import calibrate
from vnetperf.host.machine import Machine
from vnetperf.model.deployment import WireEnd, make_deployment
from vnetperf.model.traffic import Stream, TrafficProfile, make_streams
from vnetperf.planning.planner import make_loop_plan
from vnetperf.runner.scenarios import make_scenario

LOCK_S = 600.0


class Loop:
    """A looped generator.

    Attributes:
        machine: The machine.
        ends: Ends of the wire, by port of the generator.
        generator: The generator, connected.
    """

    def __init__(self, machine: Machine, ends: tuple[WireEnd, WireEnd], generator: Any) -> None:
        self.machine = machine
        self.ends = ends
        self.generator = generator

    def prepare(self, profile: TrafficProfile | None = None, size: int = 64) -> tuple[Stream, ...]:
        """Prepare the streams of a profile between the generator's two ports."""
        profile = profile or TrafficProfile()
        streams = make_streams(make_deployment("phy2phy"), profile)
        self.generator.prepare(streams, profile, size)
        return streams


@contextlib.contextmanager
def looped(name: str, wire: str = "memif", **settings: Any) -> Iterator[Loop]:
    """Start a generator and loop it to itself.

    Args:
        name: Registered name of the generator.
        wire: Kind of wire.
        **settings: As on the command line.

    Yields:
        The loop; the machine is as it was afterwards.
    """
    testbed_changes = settings.pop("testbed_changes", {})
    wishes = {"generator": name, "wire": wire, "preset": "smoke", "frame_sizes": (64,), **settings}
    configuration = config.load(wishes, environment={})
    changes = {"lock_timeout_s": LOCK_S, **testbed_changes}
    testbed = configuration.testbed.model_copy(update=changes)
    facts = take_inventory(testbed)
    plan = make_loop_plan(make_scenario("phy2phy_bridge", configuration), testbed, facts)
    with calibrate.looped(plan, facts) as (generator, ends):
        yield Loop(generator.machine, ends, generator)
