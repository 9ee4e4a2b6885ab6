"""PCI NICs, cabled to each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from vnetperf.host.wait import wait_for
from vnetperf.model.deployment import WireEnd
from vnetperf.model.errors import HostError
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.plugin.dut import load_dut
from vnetperf.plugin.wire import Wire

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
    dut = load_dut(scenario.deployment, scenario.vswitch)
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
