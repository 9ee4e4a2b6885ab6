"""Backends that plan like real ones, and do nothing when they run; for registry.register()."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from vnetperf.host.processes import ManagedProcess
from vnetperf.model.deployment import Attachment, Port, VnfPort, WireEnd
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.scenario import Pollers, RoleDemand, Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import DirectionCounts, HopCounters, TrialResult, TrialSpec
from vnetperf.plugin.backend import check_process
from vnetperf.plugin.compiled_frames import CompiledFrame
from vnetperf.plugin.generator import GeneratorCapabilities, TrafficGenerator, sleep_watching
from vnetperf.plugin.vnf import Vnf, VnfMemory
from vnetperf.plugin.vswitch import VSwitch, VSwitchCapabilities
from vnetperf.plugin.wire import Wire


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
        return (RoleDemand(role="tester", group="tester"),)


class BrokenWire(Wire):
    name: ClassVar[str] = "broken"
    refusal_is_loss: ClassVar[bool] = True

    @classmethod
    def missing(cls, facts: MachineFacts) -> str:
        return "its kernel module is not loaded"


class SimulatedSwitch(FakeSwitch):
    """A vSwitch that forwards every frame; its process does nothing."""

    name: ClassVar[str] = "simulated"
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("memif",), attachments=()
    )
    process: ManagedProcess | None = None

    def start(self) -> None:
        self.process = self.machine.spawn("simulated", ["sleep", "infinity"], isolated=False)

    def add_phy_port(self, end: WireEnd) -> None:
        pass

    def offer_vnf_port(self, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
        raise NotImplementedError

    def add_vnf_port(self, attachment: Attachment) -> None:
        pass

    def connect(self, streams: tuple[Stream, ...]) -> None:
        pass

    def remove_port(self, port: Port) -> None:
        pass

    def links_down(self) -> tuple[str, ...]:
        return ()

    def counters(self) -> tuple[HopCounters, ...]:
        ports = self.plan.scenario.deployment.phy_ports
        return tuple(HopCounters(port=str(port), rx=1, tx=1) for port in ports)

    def pollers(self) -> tuple[Pollers, ...]:
        pid = self.process.pid if self.process is not None else 0
        return (Pollers(role="pmd", pid=pid, thread_prefix="sleep"),) if pid else ()

    def facts(self) -> dict[str, Any]:
        return {"backend": self.name}

    def check_alive(self) -> None:
        check_process(self.process, self.name)

    def stop(self) -> None:
        if self.process is not None:
            self.process.stop()


class SimulatedGenerator(FakeGenerator):
    """A generator whose frames all come back."""

    name: ClassVar[str] = "simulated"
    capabilities: ClassVar[GeneratorCapabilities] = GeneratorCapabilities(wires=("memif",))

    def connect(self, ends: tuple[WireEnd, ...]) -> None:
        pass

    def links_down(self) -> tuple[str, ...]:
        return ()

    def prepare(
        self, streams: tuple[Stream, ...], profile: TrafficProfile, frame_size: int
    ) -> None:
        pass

    def learn(self, frames_per_stream: int) -> None:
        pass

    def run(self, trial: TrialSpec, watch: Callable[[], None]) -> TrialResult:
        sleep_watching(time.monotonic() + trial.duration_s, watch)
        watch()
        counts = dict.fromkeys(("intended", "sent", "received"), round(trial.load_fps))
        return TrialResult(
            directions=tuple(
                DirectionCounts(direction=direction, refused=0, unsent=0, **counts)
                for direction in (0, 1)
            )
        )

    def facts(self) -> dict[str, Any]:
        return {"generator": self.name}

    def close(self) -> None:
        pass

    @classmethod
    def check_frames(cls, frames: Sequence[CompiledFrame], testbed: Testbed) -> None:
        pass
