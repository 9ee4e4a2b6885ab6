"""Backends that plan like real ones and never run; for registry.register()."""

from __future__ import annotations

from typing import ClassVar

from vnetperf.model.scenario import RoleDemand, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.traffic.base import GeneratorCapabilities, TrafficGenerator
from vnetperf.vnfs.base import Vnf, VnfMemory
from vnetperf.vswitches.base import VSwitch, VSwitchCapabilities
from vnetperf.wires import Wire


class FakeSwitch(VSwitch):
    name: ClassVar[str] = "fake"
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("memif", "veth"), attachments=("vhost-user", "tap"), options=("workers",)
    )

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        return ""

    @classmethod
    def roles(cls, scenario: Scenario) -> tuple[RoleDemand, ...]:
        return (RoleDemand(role="pmd", threads=scenario.options.workers or 1, group="switch"),)

    @classmethod
    def hugepage_mib(cls, scenario: Scenario) -> int:
        return 0


class NeedsAProgram(FakeSwitch):
    name: ClassVar[str] = "needy"

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        if facts.programs.get("frobnicate"):
            return ""
        return "frobnicate is not installed; install the package frobnicate-tools"


class NicOnly(FakeSwitch):
    name: ClassVar[str] = "niconly"
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("nic",), attachments=("vhost-user",)
    )


class VethOnly(FakeSwitch):
    name: ClassVar[str] = "vethonly"
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("veth",), attachments=("vhost-user",)
    )


class TapOnly(FakeSwitch):
    name: ClassVar[str] = "taponly"
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("memif",), attachments=("tap", "macvtap")
    )


class NoChains(FakeSwitch):
    name: ClassVar[str] = "nochains"
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("memif",), attachments=("vhost-user",), chains=False
    )


class Hungry(FakeSwitch):
    name: ClassVar[str] = "hungry"

    @classmethod
    def hugepage_mib(cls, scenario: Scenario) -> int:
        return 1 << 20  # a tebibyte


class FakeVnf(Vnf):
    name: ClassVar[str] = "fakevnf"
    attachments: ClassVar[tuple[str, ...]] = ("vhost-user",)
    modes: ClassVar[tuple[str, ...]] = ("io",)

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        return ""

    @classmethod
    def memory(cls, scenario: Scenario, attachment: str) -> VnfMemory:
        return VnfMemory(64)


class FakeGenerator(TrafficGenerator):
    name: ClassVar[str] = "fakegen"
    capabilities: ClassVar[GeneratorCapabilities] = GeneratorCapabilities(wires=("memif", "veth"))

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        return ""

    @classmethod
    def roles(cls) -> tuple[RoleDemand, ...]:
        return (RoleDemand(role="tester", group="switch"),)


class BrokenWire(Wire):
    name: ClassVar[str] = "broken"
    refusal_is_loss: ClassVar[bool] = True

    @classmethod
    def missing(cls, facts: MachineFacts) -> str:
        return "its kernel module is not loaded"
