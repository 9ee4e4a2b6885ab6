"""A deployment's NICs in switchdev mode: uplinks, representors, and the rules between them.

They are in the machine's own network namespace, where the kernel makes them; virtual functions are
where they always are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vnetperf.host import devlink, links, uplink
from vnetperf.host.machine import Machine
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.plan import NicUse
from vnetperf.model.ports import PhyPort, Port
from vnetperf.model.scenario import Scenario
from vnetperf.vswitches.sriov import representors
from vnetperf.vswitches.sriov.rules import SKIP_SW, Part, Rule, rules

MODULES = ("sch_ingress", "cls_flower", "act_mirred")
#: How often an interface may be renamed while it is taken.
RENAMED = 3


class Eswitch:
    """The switches of a deployment's NICs.

    Args:
        machine: The machine.
        scenario: What is deployed.
    """

    def __init__(self, machine: Machine, scenario: Scenario) -> None:
        self._machine = machine
        self._scenario = scenario
        #: PCI addresses of physical functions, by physical port.
        self._nics: dict[int, str] = {}
        #: Place of a VNF's port: physical port and number of its virtual function.
        self._places: dict[str, tuple[int, int]] = {}
        self._made: dict[Rule, tuple[Part, ...]] = {}
        self._refused: dict[Rule, str] = {}

    def make(self, index: int, use: NicUse, ports: tuple[Port, ...]) -> tuple[str, ...]:
        """Put a NIC's switch into switchdev mode, with virtual functions.

        Args:
            index: Its physical port.
            use: The NIC; its interface has been borrowed.
            ports: VNF ports that are on it, by number.

        Returns:
            PCI addresses of the virtual functions, by number.

        Raises:
            HostError: The NIC cannot, or refuses.
            DutError: Its representors do not appear.
        """
        mtu = self._scenario.mtu
        for module in MODULES:
            self._machine.load_module(module)
        made = self._machine.make_switchdev(use.pci, len(ports))
        representors.wait_for(use.pci, len(ports))
        # Without virtual functions some drivers let the wire's interface filter addresses.
        _once_named(
            lambda: representors.uplink(use.pci),
            lambda name: self._machine.take_uplink(name, mtu=mtu, promiscuous=not ports),
        )
        for number in range(len(ports)):
            _once_named(
                partial(representors.representor, use.pci, number),
                lambda name: uplink.take_representor(name, mtu),
            )
        self._nics[index] = use.pci
        self._places |= {str(port): (index, number) for number, port in enumerate(ports)}
        return made

    def name(self, port: Port | str) -> str:
        """The interface of a port: its uplink, or its representor; udev may have renamed it.

        Args:
            port: A port of the deployment.

        Returns:
            Interface name, in the machine's own namespace.

        Raises:
            DutError: It is gone.
        """
        text = str(port)
        if text in self._places:
            index, number = self._places[text]
            found = representors.representor(self._nics[index], number)
        else:
            index = int(text.removeprefix("phy"))
            found = representors.uplink(self._nics[index])
        if not found:
            raise DutError(
                f"the interface of {text} on the NIC {self._nics[index]} is gone",
                where="sriov, mode switchdev",
                cure="see dmesg; somebody changed the eswitch mode or reset the NIC",
            )
        return found

    def join(self, without: set[str] | None = None) -> None:
        """Make the rules that are not there yet.

        Args:
            without: Ports that were removed.

        Raises:
            DutError: The kernel refuses one.
        """
        from vnetperf.vswitches.sriov import flower  # noqa: PLC0415 - it loads pyroute2, slow

        for rule in rules(self._scenario):
            if rule in self._made or {str(rule.src), str(rule.dst)} & (without or set()):
                continue
            source, target = self.name(rule.src), self.name(rule.dst)
            self._made[rule], self._refused[rule] = flower.install(rule, source, target)

    def cut_off(self, port: Port) -> None:
        """Take a port's rules away, and its link from whoever is behind it.

        Args:
            port: The port.

        Raises:
            DutError: The kernel refuses.
        """
        from vnetperf.vswitches.sriov import flower  # noqa: PLC0415 - it loads pyroute2, slow

        for rule in [rule for rule in self._made if port in (rule.src, rule.dst)]:
            flower.remove(self._made.pop(rule), self.name(rule.src))
            self._refused.pop(rule, None)
        self.bring(port, up=False)

    def bring(self, port: Port | str, *, up: bool) -> None:
        """Bring a port's interface up or down; what is behind a representor sees its link.

        Args:
            port: The port.
            up: False for down.

        Raises:
            HostError: The kernel refuses.
        """
        links.set_up(self.name(port), up=up)

    def bring_all(self, *, up: bool, without: set[str]) -> None:
        """Bring all ports up or down.

        Args:
            up: False for down.
            without: Ports to leave: those that were removed.
        """
        for port in (*(f"phy{index}" for index in self._nics), *self._places):
            if port not in without:
                self.bring(port, up=up)

    def facts(self) -> dict[str, str]:
        """Where each rule is, as the kernel tells now.

        Returns:
            Rule -> what and where.
        """
        from vnetperf.vswitches.sriov import flower  # noqa: PLC0415 - it loads pyroute2, slow

        found = {}
        for rule, parts in self._made.items():
            there = flower.in_hardware(self.name(rule.src))
            texts = [_describe(part, there.get(part.prio)) for part in parts]
            if reason := self._refused.get(rule):
                texts.append(f"the NIC refused others: {reason}")
            found[str(rule)] = f"{self.name(rule.src)} to {self.name(rule.dst)}: " + "; ".join(
                texts
            )
        return found

    def representors(self) -> dict[str, str]:
        """Interfaces of VNF ports.

        Returns:
            Port -> interface.
        """
        return {port: self.name(port) for port in self._places}


def parents(scenario: Scenario, on: tuple[int, ...]) -> tuple[int, ...]:
    """Physical ports whose NICs are taken: those with virtual functions, and those with a wire.

    Args:
        scenario: The scenario.
        on: Physical ports of its virtual functions.

    Returns:
        Numbers in order.
    """
    wires = (port.index for port in scenario.deployment.phy_ports if isinstance(port, PhyPort))
    return tuple(sorted({*on, *wires}))


def why_not(use: NicUse) -> str:
    """Why a NIC's switch cannot be put into switchdev mode; nothing is changed.

    Args:
        use: The NIC.

    Returns:
        "" or the reason, with the cure.
    """
    cure = (
        "leave mode=switchdev out, or name a NIC that has it (`devlink dev eswitch show "
        "pci/ADDRESS`), e.g. one of mlx5_core or ice"
    )
    try:
        found = devlink.mode(use.pci)
    except HostError as error:
        return f"{use.pci}: {error.what}; {cure}"
    if found:
        return ""
    driver = use.driver or "(none)"
    return f"{use.pci} has no switchdev mode: its driver {driver} has no eswitch in devlink; {cure}"


def _once_named(ask: Callable[[], str], take: Callable[[str], None]) -> None:
    """Take an interface that udev may be renaming."""
    for _ in range(RENAMED):
        name = ask()
        try:
            return take(name)
        except HostError:
            if ask() == name:
                raise
    return take(ask())


def _describe(part: Part, in_hardware: bool | None) -> str:
    what = f"frames to {part.eth_dst}" if part.eth_dst else "every frame"
    if in_hardware is None:
        return f"{what}: the rule is gone"
    where = "in hardware" if in_hardware else "in the kernel"
    return f"{what} {where}" + (" only" if part.flags == SKIP_SW else "")
