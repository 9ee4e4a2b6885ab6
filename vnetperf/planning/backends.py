"""The classes of a scenario's backends."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from vnetperf.model.scenario import Scenario
from vnetperf.plugin import registry
from vnetperf.plugin.dut import Dut, load_dut
from vnetperf.plugin.generator import TrafficGenerator
from vnetperf.plugin.vnf import Vnf


@dataclass(frozen=True)
class Backends:
    """The classes of a scenario's backends, each looked up once: when it is first needed.

    Made where a scenario is planned or deployed, and handed on with it.

    Attributes:
        scenario: The scenario, or a host's part of it.
    """

    scenario: Scenario

    @cached_property
    def vswitch(self) -> type[Dut]:
        """The vSwitch, or the container network.

        Raises:
            ConfigError: There is none of this name, or it cannot be loaded; as of the others.
        """
        return load_dut(self.scenario.deployment, self.scenario.vswitch)

    @cached_property
    def vnf(self) -> type[Vnf]:
        """The VNF, also where the deployment has none."""
        vnf: type[Vnf] = registry.load_vnf(self.scenario.vnf)
        return vnf

    @cached_property
    def generator(self) -> type[TrafficGenerator]:
        """The traffic generator."""
        generator: type[TrafficGenerator] = registry.load("traffic", self.scenario.generator)
        return generator
