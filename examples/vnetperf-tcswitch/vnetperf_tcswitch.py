"""A vSwitch of one rule a port: the kernel's traffic control redirects every frame to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from pydantic import Field

from vnetperf.host.tc_redirect import INGRESS, add_redirect
from vnetperf.model.base import Frozen
from vnetperf.model.deployment import Port
from vnetperf.model.scenario import Plan
from vnetperf.model.testbed import KernelModule, MachineFacts, Program
from vnetperf.model.traffic import Stream
from vnetperf.plugin.vswitch import VSwitchCapabilities
from vnetperf.vswitches.kernelports import KernelSwitch, netlink

TC = Program(name="tc", package="iproute2", version_args=("-V",))
MODULES = (
    KernelModule(name="sch_ingress", purpose="tcswitch", symbol="ingress_init"),
    KernelModule(name="cls_u32", purpose="tcswitch", symbol="u32_classify"),
    KernelModule(name="act_mirred", purpose="tcswitch", symbol="tcf_mirred_act"),
)


class TcOptions(Frozen):
    """Options that only this switch has: `--set tc_priority=5`."""

    tc_priority: int = Field(default=1, ge=1, le=0xFFFF)


class TcSection(Frozen):
    """The section [tcswitch] of a testbed file."""

    show_filters: bool = False


class TcSwitch(KernelSwitch):
    """Filters that redirect: veth wires, veth pairs for VNFs, no processes."""

    name: ClassVar[str] = "tcswitch"
    programs: ClassVar[tuple[Program, ...]] = (TC,)
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = MODULES
    Options: ClassVar[type[Frozen]] = TcOptions
    Section: ClassVar[type[Frozen]] = TcSection
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("veth",), attachments=("veth",), chains=False, max_frame_size=9018, options=("mtu",)
    )

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """What `--plan` shows."""
        return {
            f"tc on {hop.src}": f"redirect to {hop.dst}" for hop in plan.scenario.deployment.hops
        }

    def start(self) -> None:
        """Nothing runs: the switch begins with its first port."""
        for module in self.kernel_modules:
            self.machine.load_module(module)

    def plug(self, port: Port, netdev: str) -> None:
        """Give the interface a place for filters."""
        self._tc(lambda route, index: route.tc("add", "ingress", index[netdev], INGRESS))

    def unplug(self, port: Port, netdev: str) -> None:
        """Take the filters away that lead to the port, and its own."""
        self._tc(lambda route, index: route.tc("del", "ingress", index[netdev], INGRESS))
        for hop in self.plan.scenario.deployment.hops:
            if hop.dst == port and hop.src in self.netdevs:
                self._clear(self.netdevs[hop.src])

    def _clear(self, netdev: str) -> None:
        def clear(route: Any, index: dict[str, int]) -> None:
            for order in ("del", "add"):
                route.tc(order, "ingress", index[netdev], INGRESS)

        self._tc(clear)

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """One filter for each hop."""
        for hop in self.plan.scenario.deployment.hops:
            self._redirect(self.netdevs[hop.src], self.netdevs[hop.dst])

    def _redirect(self, src: str, dst: str) -> None:
        prio = self.options.tc_priority
        self._tc(lambda route, index: add_redirect(route, "u32", index[src], index[dst], prio))

    def _tc(self, do: Callable[..., Any]) -> None:
        """Speak netlink in the run's namespace, where the interfaces are."""

        def speak() -> None:
            with netlink("set up tc", self.name) as (route, index):
                do(route, index)

        self.machine.in_netns(speak)

    def facts(self) -> dict[str, Any]:
        """What the result says of it."""
        hops = self.plan.scenario.deployment.hops
        found = {
            **super().facts(),
            "mtu": self.plan.scenario.mtu,
            "filters": [f"{hop.src} -> {hop.dst}" for hop in hops],
            "priority": self.options.tc_priority,
        }
        if self.section.show_filters:
            found["tc filter show"] = {port: self._show(n) for port, n in found["ports"].items()}
        return found

    def _show(self, netdev: str) -> list[str]:
        tc = self.machine.facts.programs["tc"]
        text = self.machine.run([tc, "filter", "show", "dev", netdev, "ingress"], isolated=True)
        return str(text).splitlines()

    def stop(self) -> None:
        """Take the filters away; interfaces go with the run, and VNFs may have them open."""
        for netdev in self.netdevs.values():
            self._tc(lambda route, index, n=netdev: route.tc("del", "ingress", index[n], INGRESS))
        self.netdevs = {}
