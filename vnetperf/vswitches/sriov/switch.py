"""The SR-IOV backend: the NIC switches between wire and virtual functions."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any, ClassVar

from vnetperf.host import ethtool, tc_redirect
from vnetperf.host.machine import Machine
from vnetperf.host.nic import pci, vfs
from vnetperf.host.nic.switchdev import (
    MODES,
    SWITCHDEV,
    explain_no_switchdev,
    explain_switchdev_conflict,
    nic_mode,
)
from vnetperf.host.nic.vfs import VfOptions
from vnetperf.model.base import Frozen
from vnetperf.model.deployment import Attachment, PhyPort, Port, VnfPort, WireEnd
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.scenario import NicUse, Plan, Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.plugin.dut import JUMBO_FRAME_SIZE
from vnetperf.plugin.vswitch import VSwitch, VSwitchCapabilities
from vnetperf.vswitches.sriov import virtual_functions
from vnetperf.vswitches.sriov.eswitch import EswitchMode, LegacyMode, SwitchdevMode
from vnetperf.vswitches.sriov.virtual_functions import VFIO, VfPort, vf_driver, vfio_problem

#: Driver -> names of its counters of received and sent frames. They count at the port, frames to
#: and from virtual functions too; an interface's own statistics leave those out.
PORT_COUNTERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "igb": (("rx_packets",), ("tx_packets",)),
    "ixgbe": (("rx_pkts_nic",), ("tx_pkts_nic",)),
    "i40e": (
        ("port.rx_unicast", "port.rx_multicast", "port.rx_broadcast"),
        ("port.tx_unicast", "port.tx_multicast", "port.tx_broadcast"),
    ),
    "ice": (
        ("rx_unicast.nic", "rx_multicast.nic", "rx_broadcast.nic"),
        ("tx_unicast.nic", "tx_multicast.nic", "tx_broadcast.nic"),
    ),
    "mlx5_core": (("rx_packets_phy",), ("tx_packets_phy",)),
    "bnxt_en": (("rx_total_frames",), ("tx_total_frames",)),
}
#: Frames that the port dropped for want of buffers, whatever the driver.
DROP_COUNTERS = (
    *("rx_missed_errors", "rx_no_dma_resources", "port.rx_dropped", "rx_dropped.nic"),
    "rx_discards_phy",
)


def phy_port_counters(port: str, driver: str, statistics: Mapping[str, int]) -> HopCounters | None:
    """Counters of a physical port."""
    received, sent = PORT_COUNTERS.get(driver, ((), ()))
    if not received or not {*received, *sent} <= set(statistics):
        return None
    return HopCounters(
        port=port,
        rx=sum(statistics[name] for name in received),
        tx=sum(statistics[name] for name in sent),
        rx_dropped=sum(statistics.get(name, 0) for name in DROP_COUNTERS),
    )


class Sriov(VSwitch):
    """A NIC that switches between wire and virtual functions: by MAC address, or by rules."""

    name: ClassVar[str] = "sriov"
    Options: ClassVar[type[Frozen]] = VfOptions
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = (
        *tc_redirect.MODULES,
        tc_redirect.CLS_FLOWER,
    )
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("nic",),
        attachments=("vf",),
        max_frame_size=JUMBO_FRAME_SIZE,
        modes=MODES,
        options=("rx_queues", "mtu", "vf_driver"),
        addressing="port",
        nic_drivers=("kernel",),
    )

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self.deployment = plan.scenario.deployment
        self.functions: dict[str, VfPort] = {}
        self._removed: set[str] = set()
        mode: type[EswitchMode] = SwitchdevMode if self.mode == SWITCHDEV else LegacyMode
        self.eswitch = mode(machine, plan.scenario, self.functions, self._removed)

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps the scenario from a NIC's switch."""
        if reason := vfs.explain_no_vfs(facts):
            return reason
        if nic_mode(scenario) == SWITCHDEV:
            trouble = explain_switchdev_conflict(facts, scenario)
        else:
            trouble = tc_redirect.redirect_problem(facts, scenario.deployment)
        return trouble or virtual_functions.sriov_problem(scenario)

    @classmethod
    def nics_missing(cls, nics: tuple[NicUse, ...], facts: MachineFacts, scenario: Scenario) -> str:
        """Whether the DUT's NICs can have the virtual functions, and VNFs can be given them."""
        places = virtual_functions.vf_specs(scenario)
        for use in (nic for nic in nics if nic.side == "dut"):
            function_count = sum(place.physical == use.wire for place in places)
            deployment_name, cure = scenario.deployment.name, "choose fewer --vnfs"
            if problem := vfs.explain_too_few_vfs(
                facts, use.pci, function_count, subject=deployment_name, cure=cure
            ):
                return problem
            if scenario.options.vf_driver == VFIO and (reason := vfio_problem(use, facts)):
                return f"vf_driver is vfio-pci, and {reason}"
            if scenario.has_guests and (reason := vfio_problem(use, facts)):
                return f"guests are given virtual functions by vfio-pci, and {reason}"
            if nic_mode(scenario) == SWITCHDEV and (reason := explain_no_switchdev(use)):
                return reason
        return ""

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """The virtual functions that `--plan` can show."""
        lines = {}
        vlan = plan.scenario.options.own(VfOptions).vlan
        for place in virtual_functions.vf_specs(plan.scenario):
            nic = plan.nic(place.physical, "dut")
            driver = vf_driver(place, plan, facts)
            lines[f"VF {place.number} of {nic.pci if nic else '?'}"] = (
                f"{place.port}, MAC {place.mac}, driver {driver}"
                + f", VLAN {vlan}" * (place.inner and vlan is not None)
            )
        if nic_mode(plan.scenario) == SWITCHDEV:
            lines["rules"] = ", ".join(
                str(rule) for rule in virtual_functions.switch_rules(plan.scenario)
            )
        return lines

    def start(self) -> None:
        """Bring the physical functions up, and make the virtual ones unless a VNF has them."""
        self._make()
        self.eswitch.bring_all(up=True)

    def _make(self) -> None:
        """Virtual functions are made once: VNFs hold on to them while the switch restarts."""
        if self.eswitch.parents:
            return
        scenario = self.plan.scenario
        options, mtu = scenario.options, scenario.mtu
        places = virtual_functions.vf_specs(scenario)
        addresses = {}
        on = tuple(dict.fromkeys(place.physical for place in places))
        try:
            for index in self.eswitch.select_nics(on):
                use = self._nic(index)
                # Before the virtual functions are there, or their drivers find it resetting.
                netdev = self.machine.borrow_nic(
                    use.pci, mtu=mtu, isolated=self.plan.testbed.isolated
                )
                ports = tuple(place.port for place in places if place.physical == index)
                addresses[index] = self.eswitch.make(index, use, netdev, ports)
        except HostError as error:
            raise DutError(
                error.what, where=error.where, accepted=error.accepted, cure=error.cure
            ) from error
        for place in places:
            pci_address = addresses[place.physical][place.number]
            function = VfPort(place, pci_address, self.eswitch.parents[place.physical])
            legacy = self.mode != SWITCHDEV
            function.configure(self.eswitch.netns, self.options, legacy=legacy)
            driver = vf_driver(place, self.plan, self.machine.facts)
            function.bind(self.machine, driver, mtu=mtu, queues=options.rx_queues)
            self.functions[str(place.port)] = function

    def _nic(self, index: int) -> NicUse:
        use = self.plan.nic(index, "dut")
        if use is None:
            raise DutError(f"the plan has no NIC for phy{index}", where=self.name)
        return use

    def add_phy_port(self, end: WireEnd) -> None:
        """The wire's end is the physical function's interface, which is up."""
        if end.netdev is None:
            raise self.cannot_plug(end)
        self.eswitch.plug(end)
        self._removed.discard(f"phy{end.wire}")

    def offer_vnf_port(self, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
        """A virtual function."""
        self.check_kind(kind)
        self._make()
        function = self.functions[str(port)]
        return Attachment(
            port=port,
            kind=kind,
            pci=function.address,
            driver=pci.nic(function.address).driver,
            netdev=function.netdev or None,
            queues=queues,
        )

    def add_vnf_port(self, attachment: Attachment) -> None:
        """It is there since it was offered."""
        function = self.functions[str(attachment.port)]
        if str(attachment.port) in self._removed:
            self.eswitch.restore(function)
            self._removed.discard(str(attachment.port))

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Join the ports that the NIC does not join by address."""
        self.eswitch.connect()

    def remove_port(self, port: Port) -> None:
        """Cut a virtual function off, or bring a physical function down with all of its."""
        name = str(port)
        names = [*(f"phy{index}" for index in self.eswitch.parents), *self.functions]
        if name not in names or name in self._removed:
            raise self.no_port(port, (n for n in names if n not in self._removed))
        self.eswitch.cut_off(port)
        self._removed.add(name)

    def links_down(self) -> tuple[str, ...]:
        """Physical ports without carrier, and virtual functions that see none."""
        down = [
            f"phy{index} ({name} of {self._nic(index).pci})"
            for index, name in self.eswitch.interfaces().items()
            if f"phy{index}" not in self._removed and not self.eswitch.link(name).carrier
        ]
        down += [
            f"{port} ({function.netdev}, virtual function {function.address})"
            for port, function in self.functions.items()
            if port not in self._removed
            and function.netdev
            and not self.machine.link(function.netdev).carrier
        ]
        return tuple(down)

    def counters(self) -> tuple[HopCounters, ...]:
        """Counters of physical ports and of virtual functions, as far as drivers have them."""
        netns = self.eswitch.netns
        hops = []
        interfaces = self.eswitch.interfaces()
        for index, name in interfaces.items():
            statistics = ethtool.statistics(name, netns=netns)
            hops.append(phy_port_counters(f"phy{index}", self._nic(index).driver, statistics))
        table = self.machine.link_statistics()
        states = {index: vfs.read_vfs(name, netns) for index, name in interfaces.items()}
        for port, function in self.functions.items():
            if isinstance(function.place.port, PhyPort):
                continue
            if link := table.get(function.netdev):
                # Its own side: what it sends comes in here.
                counted = HopCounters(port=port, rx=link.tx, tx=link.rx, tx_dropped=link.rx_dropped)
                hops.append(counted)
                continue
            state = states[function.place.physical][function.place.number]
            if state.rx is not None and state.tx is not None:
                hops.append(
                    HopCounters(port=port, rx=state.tx, tx=state.rx, tx_dropped=state.rx_dropped)
                )
        return tuple(c for c in hops if c is not None and c.port not in self._removed)

    def facts(self) -> dict[str, Any]:
        """NICs and their virtual functions, as they are."""
        netns = self.eswitch.netns
        nics, functions = {}, {}
        for index, name in self.eswitch.interfaces().items():
            link, nic = self.eswitch.link(name), pci.nic(self._nic(index).pci)
            nics[f"phy{index}"] = (
                f"{nic.address} ({name}), {nic.driver}, {nic.vfs} of {nic.max_vfs} virtual "
                f"functions, MTU {link.mtu}"
            )
            for port, function in self.functions.items():
                if function.place.physical == index:
                    state = vfs.read_vfs(name, netns)[function.place.number]
                    functions[port] = function.describe(state)
        return {
            "backend": self.name,
            "version": f"Linux {platform.release()}, and each NIC's firmware in the environment",
            "launch line": "none: it is in the NIC",
            "mode": self.mode,
            "physical functions": nics,
            "virtual functions": functions,
            **self.eswitch.facts(),
        }

    def check_alive(self) -> None:
        """Raise when virtual functions have gone, or the NIC with them, or its mode."""
        self.eswitch.check()
        for function in self.functions.values():
            if not pci.exists(function.address):
                raise DutError(
                    f"virtual function {function.address} of {function.place.port} is gone",
                    where=self.name,
                    cure="see dmesg; somebody changed sriov_numvfs or reset the NIC",
                )

    def stop(self) -> None:
        """Bring the physical functions down; the run's end takes virtual functions away."""
        self.eswitch.bring_all(up=False)
