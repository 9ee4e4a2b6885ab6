"""Modes of a NIC's switch: legacy, and switchdev with uplinks, representors and rules between them.

Representors are in the machine's own network namespace and are identified by phys_switch_id and
phys_port_name; udev may rename them at any time.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from vnetperf.host import links, tc_redirect
from vnetperf.host.machine import Machine
from vnetperf.host.nic import eswitch
from vnetperf.host.nic.pci import SYS
from vnetperf.host.wait import wait_for
from vnetperf.model.deployment import PhyPort, Port, WireEnd
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.scenario import NicUse, Scenario
from vnetperf.vswitches.sriov.virtual_functions import (
    SKIP_SW,
    SWITCHDEV_MODULES,
    RuleFilter,
    SriovOptions,
    SwitchRule,
    VfPort,
    switch_rules,
)

UPLINK_PORT_NAME = re.compile(r"p\d+(s\d+)?")
#: With the number of its physical function; old drivers give the bare number.
VF_PORT_NAME = re.compile(r"(?:p\d+)?(?:pf(?P<physical>\d+)vf)?(?P<number>\d+)")
#: Longest wait for the interfaces of virtual functions that were just made, seconds.
REPRESENTORS_S = 10.0


def uplink_name(address: str, *, sys: Path = SYS) -> str:
    """The interface of a switch's wire; some drivers put representors beside it."""
    there = sorted(path.name for path in (sys / "bus/pci/devices" / address / "net").glob("*"))
    named = [
        name
        for name in there
        if UPLINK_PORT_NAME.fullmatch(_net_attribute(sys, name, "phys_port_name"))
    ]
    # A driver may leave the wire's without a name.
    nameless = [name for name in there if not _net_attribute(sys, name, "phys_port_name")]
    return next(iter(named or nameless), "")


def representor_name(address: str, number: int, *, sys: Path = SYS) -> str:
    """The interface that stands for a virtual function."""
    wire = uplink_name(address, sys=sys)
    switch = _net_attribute(sys, wire, "phys_switch_id") if wire else ""
    if not switch:
        return ""
    found: dict[str, str] = {}
    for path in sorted((sys / "class/net").glob("*")):
        if path.name == wire or _net_attribute(sys, path.name, "phys_switch_id") != switch:
            continue
        match = VF_PORT_NAME.fullmatch(_net_attribute(sys, path.name, "phys_port_name"))
        if match and int(match["number"]) == number:
            found[match["physical"] or ""] = path.name
    if len(found) == 1:
        return next(iter(found.values()))
    # Several physical functions share the switch.
    return found.get(str(int(address.rpartition(".")[2], 16)), "")


def wait_for_representors(address: str, count: int, *, sys: Path = SYS) -> tuple[str, ...]:
    """Interfaces of all virtual functions, once they are there."""

    def names() -> tuple[str, ...]:
        return tuple(representor_name(address, number, sys=sys) for number in range(count))

    def missing() -> DutError:
        without = ", ".join(str(number) for number, name in enumerate(names()) if not name)
        return DutError(
            f"there is no representor of virtual function {without}" * bool(without)
            or "there is no interface of its wire",
            where=address,
            cure="see dmesg; they are identified by phys_switch_id and phys_port_name in "
            "/sys/class/net, in the machine's own network namespace",
        )

    wait_for(
        lambda: bool(uplink_name(address, sys=sys)) and all(names()),
        REPRESENTORS_S,
        f"representors of {address}",
        poll_s=0.05,
        error=missing,
    )
    return names()


def _net_attribute(sys: Path, name: str, what: str) -> str:
    try:
        return (sys / "class/net" / name / what).read_text().strip()
    except OSError:  # the driver has no such thing, or the interface is just renamed
        return ""


#: How often an interface may be renamed while it is taken.
RENAME_TRIES = 3
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

    def taken_nics(self, on: tuple[int, ...]) -> tuple[int, ...]:
        """Physical ports whose NICs are taken: by default those with virtual functions."""
        return on

    def make(self, index: int, use: NicUse, netdev: str, ports: Ports) -> tuple[str, ...]:
        """Make a NIC's virtual functions; their addresses."""
        made = self.make_functions(index, use, ports)
        self.parents.setdefault(index, netdev)
        return made

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
        function.join(self._machine.netns, self._scenario.options.own(SriovOptions))

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

    #: PCI addresses of physical functions, by physical port.
    _nics: dict[int, str] = field(default_factory=dict, init=False)
    #: Place of a VNF's port: physical port and number of its virtual function.
    _places: dict[str, tuple[int, int]] = field(default_factory=dict, init=False)
    _made: dict[SwitchRule, tuple[RuleFilter, ...]] = field(default_factory=dict, init=False)
    _refused: dict[SwitchRule, str] = field(default_factory=dict, init=False)

    def taken_nics(self, on: tuple[int, ...]) -> tuple[int, ...]:
        """Physical ports whose NICs are taken: with virtual functions, and with a wire."""
        wires = (port.index for port in self._scenario.deployment.phy_ports)
        return tuple(sorted({*on, *wires}))

    def make_functions(self, index: int, use: NicUse, ports: Ports) -> tuple[str, ...]:
        """Put a NIC's switch into switchdev mode; addresses of its virtual functions."""
        mtu = self._scenario.mtu
        for module in SWITCHDEV_MODULES:
            self._machine.load_module(module)
        made = self._machine.make_switchdev(use.pci, len(ports))
        wait_for_representors(use.pci, len(ports))
        # Without virtual functions some drivers let the wire's interface filter addresses.
        _retry_renamed(
            lambda: uplink_name(use.pci),
            lambda name: self._machine.take_uplink(name, mtu=mtu, promiscuous=not ports),
        )
        for number in range(len(ports)):
            _retry_renamed(
                partial(representor_name, use.pci, number),
                lambda name: eswitch.take_representor(name, mtu),
            )
        self._nics[index] = use.pci
        self._places |= {str(port): (index, number) for number, port in enumerate(ports)}
        self.parents[index] = self.name(f"phy{index}")
        return made

    def interfaces(self) -> dict[int, str]:
        """Interfaces of the physical functions by physical port, by their present names."""
        return {index: self.name(f"phy{index}") for index in self.parents}

    def link(self, name: str) -> links.Link:
        """A physical function's interface."""
        return links.get(name)

    def name(self, port: Port | str) -> str:
        """The interface of a port: its uplink, or its representor; udev may have renamed it."""
        text = str(port)
        if text in self._places:
            index, number = self._places[text]
            found = representor_name(self._nics[index], number)
        else:
            index = int(text.removeprefix("phy"))
            found = uplink_name(self._nics[index])
        if not found:
            raise DutError(
                f"the interface of {text} on the NIC {self._nics[index]} is gone",
                where="sriov, mode switchdev",
                cure="see dmesg; somebody changed the eswitch mode or reset the NIC",
            )
        return found

    def plug(self, end: WireEnd) -> None:
        """Bring a wire's end up: it went back to its namespace when the mode was set."""
        self.bring(f"phy{end.wire}", up=True)

    def restore(self, function: VfPort) -> None:
        """Connect a VNF's port again that was cut off."""
        self.bring(function.place.port, up=True)

    def connect(self) -> None:
        """Make the rules that are not there yet: nothing goes by address."""
        from vnetperf.vswitches.sriov import flower  # noqa: PLC0415 - it loads pyroute2, slow

        for rule in switch_rules(self._scenario):
            if rule in self._made or {str(rule.src), str(rule.dst)} & self._removed:
                continue
            source, target = self.name(rule.src), self.name(rule.dst)
            self._made[rule], self._refused[rule] = flower.install_rule(rule, source, target)

    def cut_off(self, port: Port) -> None:
        """Take a port's rules away, and its link from whoever is behind it."""
        from vnetperf.vswitches.sriov import flower  # noqa: PLC0415 - it loads pyroute2, slow

        for rule in [rule for rule in self._made if port in (rule.src, rule.dst)]:
            flower.remove_filters(self._made.pop(rule), self.name(rule.src))
            self._refused.pop(rule, None)
        self.bring(port, up=False)

    def bring(self, port: Port | str, *, up: bool) -> None:
        """Bring a port's interface up or down; what is behind a representor sees its link."""
        links.set_up(self.name(port), up=up)

    def bring_all(self, *, up: bool) -> None:
        """Bring all ports up or down, those that were taken away aside."""
        for port in (*(f"phy{index}" for index in self._nics), *self._places):
            if port not in self._removed:
                self.bring(port, up=up)

    def check(self) -> None:
        """Raise when a representor is gone."""
        self.representors()

    def facts(self) -> dict[str, Any]:
        """What switches, representors and rules."""
        return {
            "switch": "the NIC's own, by rules (switchdev mode)",
            "representors": self.representors(),
            "rules": self.rules(),
        }

    def rules(self) -> dict[str, str]:
        """Where each rule is, as the kernel reports now."""
        from vnetperf.vswitches.sriov import flower  # noqa: PLC0415 - it loads pyroute2, slow

        found = {}
        for rule, parts in self._made.items():
            there = flower.in_hardware(self.name(rule.src))
            texts = [_describe_filter(part, there.get(part.prio)) for part in parts]
            if reason := self._refused.get(rule):
                texts.append(f"the NIC refused others: {reason}")
            found[str(rule)] = f"{self.name(rule.src)} to {self.name(rule.dst)}: " + "; ".join(
                texts
            )
        return found

    def representors(self) -> dict[str, str]:
        """Interfaces of VNF ports."""
        return {port: self.name(port) for port in self._places}


def switchdev_problem(use: NicUse) -> str:
    """Why a NIC's switch cannot be put into switchdev mode; nothing is changed."""
    cure = (
        "leave mode=switchdev out, or name a NIC that has it (`devlink dev eswitch show "
        "pci/ADDRESS`), e.g. one of mlx5_core or ice"
    )
    try:
        found = eswitch.read_mode(use.pci)
    except HostError as error:
        return f"{use.pci}: {error.what}; {cure}"
    if found:
        return ""
    driver = use.driver or "(none)"
    return f"{use.pci} has no switchdev mode: its driver {driver} has no eswitch in devlink; {cure}"


def _retry_renamed(find: Callable[[], str], take: Callable[[str], None]) -> None:
    """Take an interface that udev may be renaming."""
    for _ in range(RENAME_TRIES):
        name = find()
        try:
            return take(name)
        except HostError:
            if find() == name:
                raise
    return take(find())


def _describe_filter(part: RuleFilter, in_hardware: bool | None) -> str:
    what = f"frames to {part.eth_dst}" if part.eth_dst else "every frame"
    if in_hardware is None:
        return f"{what}: the rule is gone"
    where = "in hardware" if in_hardware else "in the kernel"
    return f"{what} {where}" + (" only" if part.flags == SKIP_SW else "")
