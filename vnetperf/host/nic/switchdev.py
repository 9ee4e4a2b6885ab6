"""NICs whose switches follow rules (switchdev mode) between wires and virtual functions.

Representors are in the machine's own network namespace and are identified by phys_switch_id and
phys_port_name; udev may rename them at any time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path

from vnetperf.host import links, tc_redirect
from vnetperf.host.linux import try_read
from vnetperf.host.machine import Machine
from vnetperf.host.nic import eswitch
from vnetperf.host.nic.pci import SYS
from vnetperf.host.nic.switch_rules import SKIP_SW, RuleFilter, SwitchRule
from vnetperf.host.nic.vfs import VfOptions
from vnetperf.host.wait import wait_for
from vnetperf.model.deployment import Port
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.scenario import NicUse, Scenario
from vnetperf.model.testbed import MachineFacts

#: Modes of a NIC's switch, as the backend and devlink call them.
LEGACY, SWITCHDEV = MODES = ("legacy", "switchdev")
MODULES = (tc_redirect.SCH_INGRESS, tc_redirect.CLS_FLOWER, tc_redirect.ACT_MIRRED)
UPLINK_PORT_NAME = re.compile(r"p\d+(s\d+)?")
#: With the number of its physical function, and with that of its controller where the driver names
#: one; old drivers give the bare number.
VF_PORT_NAME = re.compile(
    r"(?:c(?P<controller>[0-9]{1,9})(?=pf))?(?:p[0-9]+)?(?:pf(?P<physical>[0-9]{1,9})vf)?"
    r"(?P<number>[0-9]{1,9})"
)
#: The port of a whole physical function: of another host's, since a host's own is the wire's.
PF_PORT_NAME = re.compile(r"c(?P<controller>\d+)pf\d+")
#: Longest wait for the interfaces of virtual functions that were just made, seconds.
REPRESENTORS_S = 10.0
#: How often an interface may be renamed while it is taken.
RENAME_TRIES = 3
#: Settings of virtual functions that the kernel's drivers refuse in switchdev mode, and why.
LEGACY_ONLY = {
    "vlan": "there a VLAN is pushed by rules on representors and not set on the virtual function",
    "trust": "there rules decide what it receives, not its own requests",
    "spoof_check": "there rules decide what it may send",
}


def nic_mode(scenario: Scenario) -> str:
    """The requested mode, or the default."""
    return scenario.options.mode or LEGACY


def explain_switchdev_conflict(facts: MachineFacts, scenario: Scenario) -> str:
    """What of this kernel, or of a scenario's options, does not go with switchdev mode."""
    troubles = (facts.missing_module(module, "mode switchdev") for module in MODULES)
    if trouble := next(filter(None, troubles), ""):
        return trouble
    for option, reason in LEGACY_ONLY.items():
        if getattr(scenario.options.own(VfOptions), option) is not None:
            return (
                f"{option} cannot be set in switchdev mode: {reason}; leave it out, or choose "
                "mode legacy"
            )
    return ""


def explain_no_switchdev(use: NicUse) -> str:
    """Why a NIC's switch cannot be put into switchdev mode; nothing is changed."""
    cure = (
        "leave mode=switchdev out, or name a NIC that has it (`devlink dev eswitch show "
        "pci/ADDRESS`), e.g. one of mlx5_core or ice"
    )
    try:
        mode = eswitch.read_mode(use.pci)
    except HostError as error:
        return f"{use.pci}: {error.what}; {cure}"
    if mode:
        return ""
    driver = use.driver or "(none)"
    return f"{use.pci} has no switchdev mode: its driver {driver} has no eswitch in devlink; {cure}"


def uplink_name(address: str, *, sys: Path = SYS) -> str:
    """The interface of a switch's wire, by devlink, else by the ports' names.

    Some drivers put representors beside it.
    """
    uplinks = eswitch.uplinks(address) if sys == SYS else ()
    if len(uplinks) == 1:
        return uplinks[0]
    names = sorted(path.name for path in (sys / "bus/pci/devices" / address / "net").glob("*"))
    named = [
        name
        for name in names
        if UPLINK_PORT_NAME.fullmatch(_net_attribute(sys, name, "phys_port_name"))
    ]
    # A driver may leave the wire's without a name.
    nameless = [name for name in names if not _net_attribute(sys, name, "phys_port_name")]
    return next(iter(named or nameless), "")


def representor_name(address: str, number: int, *, sys: Path = SYS) -> str:
    """The interface that stands for a virtual function: by devlink, else by the ports' names."""
    function = int(address.rpartition(".")[2], 16)
    representors = eswitch.representors(address, number) if sys == SYS else {}
    if representors:
        return (
            next(iter(representors.values()))
            if len(representors) == 1
            else representors.get(function, "")
        )
    wire = uplink_name(address, sys=sys)
    switch = _net_attribute(sys, wire, "phys_switch_id") if wire else ""
    if not switch:
        return ""
    #: By controller and physical function: without a controller's number it is this host's own.
    by_controller: dict[str, dict[str, str]] = {}
    foreign = set()
    for path in sorted((sys / "class/net").glob("*")):
        if path.name == wire or _net_attribute(sys, path.name, "phys_switch_id") != switch:
            continue
        port = _net_attribute(sys, path.name, "phys_port_name")
        if pf_match := PF_PORT_NAME.fullmatch(port):
            foreign.add(pf_match["controller"])
        if match := VF_PORT_NAME.fullmatch(port):
            by_physical = by_controller.setdefault(match["controller"] or "", {})
            if int(match["number"]) == number:
                by_physical[match["physical"] or ""] = path.name
    # Beside this host's own, those with a controller's number are another host's; where they are of
    # several controllers, it is not known which one this host is.
    local = [
        by_physical
        for controller, by_physical in by_controller.items()
        if controller not in foreign
    ]
    names = by_controller.get("", local[0] if len(local) == 1 else {})
    if len(names) == 1:
        return next(iter(names.values()))
    # Several physical functions share the switch.
    return names.get(str(function), "")


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


def _net_attribute(sys: Path, name: str, attribute: str) -> str:
    """An attribute of an interface; "" where its driver has none, or it is just renamed."""
    return try_read(sys / "class/net" / name / attribute)


class Switchdev:
    """The NICs of a deployment whose switches are in switchdev mode, and their rules.

    A NIC's wire is the physical port of its number ("phy0").
    """

    def __init__(self, machine: Machine, mtu: int) -> None:
        self._machine = machine
        self._mtu = mtu
        #: PCI addresses of physical functions, by number.
        self._nics: dict[int, str] = {}
        #: Place of a port: number of its NIC, and that of its virtual function.
        self._places: dict[str, tuple[int, int]] = {}
        self._filters: dict[SwitchRule, tuple[RuleFilter, ...]] = {}
        self._refused: dict[SwitchRule, str] = {}

    def make(self, index: int, address: str, ports: Collection[Port]) -> tuple[str, ...]:
        """Put a NIC's switch into the mode; addresses of virtual functions for its ports."""
        for module in MODULES:
            self._machine.load_module(module)
        functions = self._machine.make_switchdev(address, len(ports))
        wait_for_representors(address, len(ports))
        # Without virtual functions some drivers let the wire's interface filter addresses.
        _retry_renamed(
            lambda: uplink_name(address),
            lambda name: self._machine.take_uplink(name, mtu=self._mtu, promiscuous=not ports),
        )
        for number in range(len(ports)):
            _retry_renamed(
                partial(representor_name, address, number),
                lambda name: eswitch.take_representor(name, self._mtu),
            )
        self._nics[index] = address
        self._places |= {str(port): (index, number) for number, port in enumerate(ports)}
        return functions

    def name(self, port: Port | str) -> str:
        """The interface of a port: its uplink, or its representor; udev may have renamed it."""
        text = str(port)
        if text in self._places:
            index, number = self._places[text]
            interface = representor_name(self._nics[index], number)
        else:
            index = int(text.removeprefix("phy"))
            interface = uplink_name(self._nics[index])
        if not interface:
            raise DutError(
                f"the interface of {text} on the NIC {self._nics[index]} is gone",
                where="mode switchdev",
                cure="see dmesg; somebody changed the eswitch mode or reset the NIC",
            )
        return interface

    def connect(self, rules: Iterable[SwitchRule], without: Collection[str] = ()) -> None:
        """Make the rules that are not there yet, those of some ports aside."""
        from vnetperf.host.nic import flower  # noqa: PLC0415 - it loads pyroute2, slow

        for rule in rules:
            if rule in self._filters or {str(rule.src), str(rule.dst)} & {*without}:
                continue
            source, target = self.name(rule.src), self.name(rule.dst)
            self._filters[rule], self._refused[rule] = flower.install_rule(rule, source, target)

    def cut_off(self, port: Port) -> None:
        """Take a port's rules away, and its link from whoever is behind it."""
        from vnetperf.host.nic import flower  # noqa: PLC0415 - it loads pyroute2, slow

        for rule in [rule for rule in self._filters if port in (rule.src, rule.dst)]:
            flower.remove_filters(self._filters.pop(rule), self.name(rule.src))
            self._refused.pop(rule, None)
        self.bring(port, up=False)

    def bring(self, port: Port | str, *, up: bool) -> None:
        """Bring a port's interface up or down; what is behind a representor sees its link."""
        links.set_up(self.name(port), up=up)

    def bring_all(self, *, up: bool, without: Collection[str] = ()) -> None:
        """Bring all ports up or down, some aside."""
        for port in (*(f"phy{index}" for index in self._nics), *self._places):
            if port not in without:
                self.bring(port, up=up)

    def facts(self) -> dict[str, object]:
        """What switches, representors and rules, as the kernel reports now."""
        return {
            "switch": "the NIC's own, by rules (switchdev mode)",
            "representors": self.representors(),
            "rules": self.rules(),
        }

    def rules(self) -> dict[str, str]:
        """Where each rule is, as the kernel reports now."""
        from vnetperf.host.nic import flower  # noqa: PLC0415 - it loads pyroute2, slow

        places = {}
        for rule, parts in self._filters.items():
            hardware_by_prio = flower.in_hardware(self.name(rule.src))
            texts = [_describe_filter(part, hardware_by_prio.get(part.prio)) for part in parts]
            if reason := self._refused.get(rule):
                texts.append(f"the NIC refused others: {reason}")
            places[str(rule)] = f"{self.name(rule.src)} to {self.name(rule.dst)}: " + "; ".join(
                texts
            )
        return places

    def representors(self) -> dict[str, str]:
        """Interfaces that stand for ports; one that is gone is an error."""
        return {port: self.name(port) for port in self._places}


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
    frames = f"frames to {part.eth_dst}" if part.eth_dst else "every frame"
    if in_hardware is None:
        return f"{frames}: the rule is gone"
    where = "in hardware" if in_hardware else "in the kernel"
    return f"{frames} {where}" + (" only" if part.flags == SKIP_SW else "")
