"""Wires between tester and DUT: the contract, memif, veth, nic, and the way to an external DUT."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from vnetperf.host.machine import Machine
from vnetperf.host.wait import wait_for
from vnetperf.model.deployment import WireEnd
from vnetperf.model.errors import HostError
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.plugin import registry
from vnetperf.plugin.backend import Requirements

#: What a VLAN tag adds to a frame, octets (IEEE 802.1Q).
VLAN_OCTETS = 4


class Wire(Requirements, ABC):
    """A wire of one deployment.

    Args:
        machine: The machine; what is made on it goes through it.
        plan: The plan it belongs to: its testbed's NICs, the MTU of its scenario.
        index: 0-based number of the wire, equal to its physical port's.
    """

    #: True when the far end is the DUT's own receive ring: a frame the wire refuses is then one
    #: that the DUT dropped, as a NIC drops when its ring is full.
    refusal_is_loss: ClassVar[bool]
    #: True when its ends are the testbed's NICs: the planner then chooses their drivers.
    takes_nics: ClassVar[bool] = False
    #: Kind of wire whose tester's end its own is like: generators know that one, and are calibrated
    #: on it. "" for its own kind.
    like: ClassVar[str] = ""

    def __init__(self, machine: Machine, plan: Plan, index: int) -> None:
        self.machine = machine
        self.plan = plan
        self.index = index

    @classmethod
    @abstractmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario, testbed: Testbed) -> str:
        """What keeps this machine from having such wires.

        Args:
            facts: The machine.
            scenario: What is to be deployed; without a vSwitch the tester looped to itself.
            testbed: Names NICs.

        Returns:
            "" when nothing does; otherwise what is missing and the cure.
        """

    @abstractmethod
    def lay(self) -> tuple[WireEnd, WireEnd]:
        """Make the wire.

        Returns:
            The tester's end and the DUT's end.

        Raises:
            HostError: When the machine refuses.
        """


class Memif(Wire):
    """A memif wire; its rings live in memory that both processes map."""

    name: ClassVar[str] = "memif"
    refusal_is_loss: ClassVar[bool] = True

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario, testbed: Testbed) -> str:
        """Memif needs nothing of the machine."""
        return ""

    def lay(self) -> tuple[WireEnd, WireEnd]:
        """Name the socket; the two programs make the rest when they connect."""
        socket = str(self.machine.run_dir / f"wire{self.index}.sock")
        return (
            WireEnd(wire=self.index, kind=self.name, side="tester", socket=socket, role="client"),
            WireEnd(wire=self.index, kind=self.name, side="dut", socket=socket, role="server"),
        )


class Veth(Wire):
    """A veth pair with offloads off and without the kernel's own frames."""

    name: ClassVar[str] = "veth"
    #: A frame that af_packet cannot queue waits in the tester's own ring.
    refusal_is_loss: ClassVar[bool] = False

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario, testbed: Testbed) -> str:
        """Veth needs the right to make interfaces."""
        return "" if facts.is_root else f"veth needs root to make interfaces; {facts.root_cure}"

    def lay(self) -> tuple[WireEnd, WireEnd]:
        """Make the pair and bring both ends up."""
        tester, dut = (self.machine.interface_name(f"{side}{self.index}") for side in "td")
        self.machine.create_veth(tester, dut, mtu=self.plan.scenario.mtu)
        return (
            WireEnd(wire=self.index, kind=self.name, side="tester", netdev=tester),
            WireEnd(wire=self.index, kind=self.name, side="dut", netdev=dut),
        )


class ToExternal(Wire):
    """The tester's interface that is cabled to a DUT which somebody else runs."""

    name: ClassVar[str] = "external"
    refusal_is_loss: ClassVar[bool] = False
    like: ClassVar[str] = "veth"

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario, testbed: Testbed) -> str:
        """Needs `[external]` of the testbed file."""
        problem = cls._section(testbed).problem
        return problem or (
            "" if facts.is_root else f"interfaces need root to be taken; {facts.root_cure}"
        )

    @classmethod
    def _section(cls, testbed: Testbed) -> Any:
        """The section of the testbed file, which is that of the vSwitch of the same name."""
        return registry.load("vswitches", cls.name).read_section(testbed)

    def lay(self) -> tuple[WireEnd, WireEnd]:
        """Take the tester's interface into the run's namespace; it is back with the run's end."""
        testbed = self.plan.testbed
        port = self._section(testbed).ports[self.index]
        self.machine.borrow_interface(
            port.tester,
            mtu=self.plan.scenario.mtu + (VLAN_OCTETS if port.vlan else 0),
            isolated=testbed.isolated,
        )
        return (
            WireEnd(wire=self.index, kind=self.like, side="tester", netdev=port.tester),
            WireEnd(wire=self.index, kind=self.name, side="dut", netdev=port.dut or None),
        )


#: Longest wait for a link: speed and MDI are negotiated, optics come up.
CARRIER_S = 20.0


class Nic(Wire):
    """Two PCI NICs cabled to each other, each under the driver that its end wants."""

    name: ClassVar[str] = "nic"
    takes_nics: ClassVar[bool] = True
    #: A frame that the tester's NIC does not take has not left the tester.
    refusal_is_loss: ClassVar[bool] = False

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario, testbed: Testbed) -> str:
        """Needs two free NICs for each physical port."""
        if not facts.is_root:
            return f"NICs need root to be taken; {facts.root_cure}"
        if not testbed.nics:
            return "the testbed file names no NICs; add [[nics]] with tester and dut for each wire"
        wire_count = max((port.index for port in scenario.deployment.phy_ports), default=0) + 1
        if scenario.vswitch and len(testbed.nics) < wire_count:
            return (
                f"{scenario.deployment.name} has {wire_count} wires and the testbed file names "
                f"NICs of {len(testbed.nics)}; add another [[nics]]"
            )
        return next(_nic_problems(facts, testbed), "")

    def lay(self) -> tuple[WireEnd, WireEnd]:
        """Give each NIC its driver; wait for the link where the kernel can see it."""
        tester, dut = self.plug("tester"), self.plug("dut")
        # A NIC under a program's driver lets its link rise only when that program starts.
        if tester.netdev and dut.netdev:
            self.wait_for_carrier(f"{tester.pci} - {dut.pci}", tester, dut)
        return tester.model_copy(update={"peer_ring": self.ring(dut)}), dut

    def ring(self, end: WireEnd) -> int | None:
        """Frames of an end's receive ring: the driver's word, or what a program makes it of."""
        if end.netdev is not None:
            return self.machine.receive_ring(end.netdev)
        return self.plan.scenario.options.rx_descriptors

    def plug(self, side: str) -> WireEnd:
        """Give the NIC of one end its driver; the other may be another machine's."""
        use = self.plan.nic(self.index, side)
        if use is None:
            raise HostError(f"the plan has no NIC for the {side}", where=f"wire {self.index}")
        isolated = self.plan.testbed.isolated
        netdev = None
        if use.kernel:
            # Whoever steers by addresses takes only its own; all others take every frame, be they
            # addressed to a VNF (--vnf-mode mac) or to nobody here.
            steers = use.side == "dut" and _steers(self.plan.scenario)
            netdev = self.machine.borrow_nic(
                use.pci,
                mtu=self.plan.scenario.mtu,
                promiscuous=not steers,
                isolated=isolated,
            )
        else:
            self.machine.give_nic(use.pci, use.driver, isolated=isolated)
        return WireEnd(
            wire=self.index,
            kind=self.name,
            side=use.side,
            pci=use.pci,
            driver=use.driver,
            netdev=netdev,
        )

    def wait_for_carrier(self, cable: str, *ends: WireEnd) -> None:
        """Wait for the link at ends that the kernel drives."""

        def down() -> list[str]:
            return [name for end in ends if not self.machine.link(name := str(end.netdev)).carrier]

        wait_for(
            lambda: not down(),
            CARRIER_S,
            f"carrier of wire {self.index}",
            poll_s=0.05,
            error=lambda: HostError(
                f"no link on {' and '.join(down())} after {CARRIER_S:.0f} s",
                where=f"wire {self.index}: {cable}",
                cure="see whether the cable joins these two ports, and fits both speeds",
            ),
        )


def _steers(scenario: Scenario) -> bool:
    """Whether what is deployed takes frames by its ports' addresses, as networks of pods do."""
    if not scenario.vswitch:
        return scenario.addressing == "port"
    dut = registry.load_dut(scenario.deployment, scenario.vswitch)
    return dut.capabilities.addressing == "port"


def _nic_problems(facts: MachineFacts, testbed: Testbed) -> Iterator[str]:
    places: dict[str, str] = {}
    for number, pair in enumerate(testbed.nics):
        for side, name in (("tester", pair.tester), ("dut", pair.dut)):
            place = f"nics[{number}].{side}"
            nic = facts.nic(name)
            if nic is None:
                addresses = ", ".join(n.address for n in facts.nics) or "none"
                yield f"{place}: there is no NIC {name!r}; PCI network devices here: {addresses}"
            elif nic.address in places:
                yield f"{place} is the same device as {places[nic.address]}: {nic.address}"
            elif reason := nic.refusal(isolated=testbed.isolated):
                yield f"{place}: {reason}"
            if nic is not None:
                places[nic.address] = place
