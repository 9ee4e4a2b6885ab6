"""Modes of a NIC's switch: legacy, and switchdev with uplinks, representors and rules between."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vnetperf.host import links, tc_redirect
from vnetperf.host.machine import Machine
from vnetperf.host.nic.switchdev import Switchdev
from vnetperf.host.nic.vfs import VfOptions
from vnetperf.model.deployment import PhyPort, Port, WireEnd
from vnetperf.model.scenario import NicUse, Scenario
from vnetperf.vswitches.sriov.virtual_functions import VfPort, switch_rules

Ports = tuple[Port, ...]


@dataclass(eq=False)
class EswitchMode(ABC):
    """How NICs switch between wire and virtual functions.

    The vSwitch adds to `functions`, the virtual functions by port, and keeps `removed`, the names
    of ports that were taken away. `parents` are the interfaces of the physical functions when
    they were made, by physical port.
    """

    _machine: Machine
    _scenario: Scenario
    _functions: Mapping[str, VfPort]
    _removed: AbstractSet[str]
    parents: dict[int, str] = field(default_factory=dict, init=False)

    @property
    def netns(self) -> Path | None:
        """Namespace of the physical functions' interfaces; None is the machine's own."""
        return None

    def select_nics(self, on: tuple[int, ...]) -> tuple[int, ...]:
        """Physical ports whose NICs are taken: by default those with virtual functions."""
        return on

    def make(self, index: int, use: NicUse, netdev: str, ports: Ports) -> tuple[str, ...]:
        """Make a NIC's virtual functions; their addresses."""
        addresses = self.make_functions(index, use, ports)
        self.parents.setdefault(index, netdev)
        return addresses

    @abstractmethod
    def make_functions(self, index: int, use: NicUse, ports: Ports) -> tuple[str, ...]:
        """Make them, and set `parents` where the interface gets another name by that."""

    def interfaces(self) -> dict[int, str]:
        """Interfaces of the physical functions by physical port, by their present names."""
        return self.parents

    @abstractmethod
    def link(self, name: str) -> links.Link:
        """A physical function's interface."""

    @abstractmethod
    def plug(self, end: WireEnd) -> None:
        """Take a wire's end."""

    @abstractmethod
    def restore(self, function: VfPort) -> None:
        """Connect a VNF's port again that was cut off."""

    @abstractmethod
    def connect(self) -> None:
        """Install the forwarding that the NIC does not do by address."""

    @abstractmethod
    def cut_off(self, port: Port) -> None:
        """Cut a port off."""

    @abstractmethod
    def bring_all(self, *, up: bool) -> None:
        """Bring the ports up or down."""

    def check(self) -> None:  # noqa: B027 - one mode has nothing else
        """Raise when something of this mode is gone, its virtual functions aside."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What switches, and how."""


class LegacyMode(EswitchMode):
    """NICs that switch by MAC address between wire and virtual functions."""

    _redirected = ""

    @property
    def netns(self) -> Path | None:
        """The run's namespace."""
        return self._machine.netns

    def make_functions(self, index: int, use: NicUse, ports: Ports) -> tuple[str, ...]:
        """Make a NIC's virtual functions; their addresses."""
        if tc_redirect.joined_phy_ports(self._scenario.deployment):
            tc_redirect.load_modules(self._machine)  # filters go with the functions
        return self._machine.make_vfs(use.pci, len(ports))

    def link(self, name: str) -> links.Link:
        """A physical function's interface."""
        return self._machine.link(name)

    def plug(self, end: WireEnd) -> None:
        """Take a wire's end, which is the physical function's interface."""
        self.parents[end.wire] = str(end.netdev)

    def restore(self, function: VfPort) -> None:
        """Connect a VNF's port again that was cut off."""
        function.join(self._machine.netns, self._scenario.options.own(VfOptions))

    def connect(self) -> None:
        """Join physical ports between which there is no VNF; the rest goes by address."""
        pairs = {
            self._functions[str(a)].netdev: self._functions[str(b)].netdev
            for a, b in tc_redirect.joined_phy_ports(self._scenario.deployment)
        }
        if pairs and not self._redirected:
            self._redirected = tc_redirect.redirect(self._machine, pairs)

    def cut_off(self, port: Port) -> None:
        """Cut a virtual function off, or bring a physical function down with all of its."""
        if isinstance(port, PhyPort):
            self._machine.set_link(self.parents[port.index], up=False)
        else:
            self._functions[str(port)].cut_off(self._machine.netns)

    def bring_all(self, *, up: bool) -> None:
        """Bring the physical functions up or down, and with them their virtual functions."""
        for name in self.parents.values():
            self._machine.set_link(name, up=up)

    def facts(self) -> dict[str, Any]:
        """What switches, and what joins physical ports."""
        joined = "nothing: every frame meets a virtual function"
        if self._redirected:
            joined = f"tc ingress, {self._redirected}, mirred redirect"
        return {
            "switch": "the NIC's own, by MAC address (legacy mode)",
            "physical ports are joined by": joined,
        }


@dataclass(eq=False)
class SwitchdevMode(EswitchMode):
    """NICs that switch by rules between uplinks and representors."""

    def __post_init__(self) -> None:
        self._switch = Switchdev(self._machine, self._scenario.mtu)

    def select_nics(self, on: tuple[int, ...]) -> tuple[int, ...]:
        """Physical ports whose NICs are taken: with virtual functions, and with a wire."""
        wires = (port.index for port in self._scenario.deployment.phy_ports)
        return tuple(sorted({*on, *wires}))

    def make_functions(self, index: int, use: NicUse, ports: Ports) -> tuple[str, ...]:
        """Put a NIC's switch into switchdev mode; addresses of its virtual functions."""
        addresses = self._switch.make(index, use.pci, ports)
        self.parents[index] = self._switch.name(f"phy{index}")
        return addresses

    def interfaces(self) -> dict[int, str]:
        """Interfaces of the physical functions by physical port, by their present names."""
        return {index: self._switch.name(f"phy{index}") for index in self.parents}

    def link(self, name: str) -> links.Link:
        """A physical function's interface."""
        return links.get(name)

    def plug(self, end: WireEnd) -> None:
        """Bring a wire's end up: it went back to its namespace when the mode was set."""
        self._switch.bring(f"phy{end.wire}", up=True)

    def restore(self, function: VfPort) -> None:
        """Connect a VNF's port again that was cut off."""
        self._switch.bring(function.place.port, up=True)

    def connect(self) -> None:
        """Make the rules that are not there yet: nothing goes by address."""
        self._switch.connect(switch_rules(self._scenario), self._removed)

    def cut_off(self, port: Port) -> None:
        """Take a port's rules away, and its link from whoever is behind it."""
        self._switch.cut_off(port)

    def bring_all(self, *, up: bool) -> None:
        """Bring all ports up or down, those that were taken away aside."""
        self._switch.bring_all(up=up, without=self._removed)

    def check(self) -> None:
        """Raise when a representor is gone."""
        self._switch.representors()

    def facts(self) -> dict[str, Any]:
        """What switches, representors and rules."""
        return self._switch.facts()
