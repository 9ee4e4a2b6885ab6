"""Virtual functions: which port of a scenario is which, their drivers, rules and settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vnetperf.host import tc_redirect
from vnetperf.host.machine import Machine
from vnetperf.host.nic import vfs
from vnetperf.host.nic.switch_rules import SwitchRule
from vnetperf.host.nic.switchdev import LEGACY, nic_mode
from vnetperf.host.nic.vfs import VfOptions
from vnetperf.model.base import Frozen
from vnetperf.model.deployment import Deployment, Hop, PhyPort, Port, VnfPort, dut_mac, vnf_mac
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.scenario import NicUse, Plan, Scenario
from vnetperf.model.testbed import MachineFacts


class VfSpec(Frozen):
    """A virtual function.

    Attributes:
        port: Port of the deployment that it is; a physical port when no VNF is behind it.
        inner: True when it meets only other virtual functions.
    """

    port: Port
    physical: int
    number: int
    mac: str
    inner: bool = False


def vf_specs(scenario: Scenario) -> tuple[VfSpec, ...]:
    """Virtual functions of a scenario."""
    specs = list_vf_specs(scenario.deployment)
    if nic_mode(scenario) == LEGACY:
        return specs
    return tuple(place for place in specs if isinstance(place.port, VnfPort))


def list_vf_specs(deployment: Deployment) -> tuple[VfSpec, ...]:
    """Virtual functions of a deployment.

    A VNF's port that exchanges frames with a physical port is on that port's NIC. Ports that meet
    only each other share the first NIC, which switches between its virtual functions by address.
    Physical ports that are joined without a VNF get one each.
    """
    specs: list[VfSpec] = []
    ends: list[Port] = [port for pair in tc_redirect.joined_phy_ports(deployment) for port in pair]
    for port in (*ends, *deployment.vnf_ports()):
        if any(place.port == port for place in specs):
            continue
        meets = {hop.dst for hop in deployment.hops if hop.src == port}
        meets |= {hop.src for hop in deployment.hops if hop.dst == port}
        outer = sorted(p.index for p in meets if isinstance(p, PhyPort))
        nic = port.index if isinstance(port, PhyPort) else next(iter(outer), 0)
        number = sum(place.physical == nic for place in specs)
        mac = vnf_mac(port) if isinstance(port, VnfPort) else dut_mac(port)
        inner = isinstance(port, VnfPort) and not outer
        specs.append(VfSpec(port=port, physical=nic, number=number, mac=mac, inner=inner))
    return tuple(sorted(specs, key=lambda place: (place.physical, place.number)))


def sriov_problem(scenario: Scenario) -> str:
    """What a NIC's switch cannot do of a scenario."""
    deployment = scenario.deployment
    if "eth_dst" in scenario.traffic.vary:
        return (
            "a NIC steers by destination MAC, which this traffic varies; "
            "vary another field than eth_dst"
        )
    if deployment.vnf_count > 1 and deployment.chains == 1 and not scenario.vnf_addresses:
        return (
            f"in a chain each VNF must address the next, and mode {scenario.vnf_mode} does not; "
            "choose --vnf-mode mac"
        )
    if nic_mode(scenario) == LEGACY and tc_redirect.joins_cable(deployment):
        return (
            "a virtual function takes frames by their destination MAC, and nothing between the "
            "vSwitches of two hosts writes the next one's; --set mode=switchdev takes every "
            "frame, and in pvp2pvp VNFs write it"
        )
    vlan = scenario.options.own(VfOptions).vlan
    if vlan is not None and not any(p.inner for p in list_vf_specs(deployment)):
        return (
            "vlan keeps virtual functions that meet only each other apart from the wires, and "
            f"{deployment.name} has none; leave it out, or measure v2v or pvvp"
        )
    vf_options, options = scenario.options.own(VfOptions), scenario.options
    of_functions = {
        "rx_queues": options.rx_queues,
        "vf_driver": options.vf_driver,
        **{name: getattr(vf_options, name) for name in VfOptions.model_fields},
    }
    settings = [name for name, value in of_functions.items() if value is not None]
    if settings and not vf_specs(scenario):
        return (
            f"{', '.join(settings)}: that is of virtual functions, and {deployment.name} has none "
            f"in mode {nic_mode(scenario)}; leave it out, or measure pvp"
        )
    return ""


VFIO = "vfio-pci"


def vfio_problem(use: NicUse, facts: MachineFacts) -> str:
    """Why virtual functions of a NIC cannot be given to programs."""
    nic = facts.nic(use.pci)
    if nic is None or nic.iommu_group is None:
        return "the machine has no IOMMU, or it is off (boot with intel_iommu=on or amd_iommu=on)"
    for module in ("vfio_pci", "vfio_iommu_type1"):
        if trouble := facts.missing_module(module, "a virtual function in a program"):
            return trouble
    return ""


def vf_driver(place: VfSpec, plan: Plan, facts: MachineFacts | None) -> str:
    """Driver of a virtual function: the kernel's where tc joins them, a program's where it can."""
    if isinstance(place.port, PhyPort):
        return "kernel"
    if plan.scenario.options.vf_driver is not None:
        return plan.scenario.options.vf_driver
    use = plan.nic(place.physical, "dut")
    return "kernel" if use is None or facts is None or vfio_problem(use, facts) else VFIO


def switch_rules(scenario: Scenario) -> tuple[SwitchRule, ...]:
    """Rules of a scenario, one for each hop."""
    hops = scenario.deployment.hops
    return tuple(
        SwitchRule(
            src=hop.src,
            dst=hop.dst,
            eth_dst=_destination_mac(hop, scenario),
            only=sum(other.src == hop.src for other in hops) > 1,
            prio=2 * number + 1,
        )
        for number, hop in enumerate(hops)
    )


def _destination_mac(hop: Hop, scenario: Scenario) -> str:
    """Destination address of frames of a hop; "" when the VNF before it leaves it as it is."""
    writes = scenario.vnf_addresses or hop.src in scenario.deployment.ends
    if isinstance(hop.src, PhyPort):
        return dut_mac(hop.src) if isinstance(hop.dst, PhyPort) else vnf_mac(hop.dst)
    if not writes:
        return ""
    if isinstance(hop.dst, PhyPort):
        # Where the tester sends to a wire in a VNF's place, the streams have the address.
        return "" if hop.src in scenario.deployment.ends else scenario.peer_mac(hop.src)
    return vnf_mac(hop.dst)


#: A VLAN that no port is in: where a virtual function without a link state is put out of reach.
UNUSED_VLAN = 4094


@dataclass(slots=True)
class VfPort:
    """A virtual function of the deployment.

    Attributes:
        parent: Interface of its physical function, in the run's namespace.
        driver: Its driver; "" before it has one.
    """

    place: VfSpec
    address: str
    parent: str
    driver: str = ""
    netdev: str = ""
    refused: tuple[str, ...] = ()

    def configure(self, netns: Path | None, options: VfOptions, *, legacy: bool = True) -> None:
        """Give it its address, and the settings of the options."""
        # VNFs that do not rewrite addresses send the tester's: that is no spoofing here. A NIC
        # that knows neither has no check to turn off.
        usual = {"spoof_check": False, "trust": True, "link": "auto"} if legacy else {}
        vlan, mac = self._vlan(options), self.place.mac
        try:
            self.refused = vfs.set_up_vf(
                self.parent, self.place.number, netns, options, mac=mac, vlan=vlan, usual=usual
            )
        except HostError as error:
            raise DutError(error.what, where=error.where, cure=error.cure) from error

    def bind(self, machine: Machine, driver: str, *, mtu: int, queues: int | None) -> None:
        """Give it to a driver; under the kernel's its interface is up and quiet."""
        port = self.place.port
        try:
            if driver == VFIO:
                machine.give_nic(self.address, VFIO)
                self.driver = VFIO
                return
            letter = f"{'f' if port.kind == 'phy' else 'v'}{str(port).strip('phyvnf')}"
            self.netdev = machine.borrow_nic(
                self.address,
                mtu=mtu,
                mac=self.place.mac,
                name=machine.interface_name(letter.replace(".", "")),
                queues=queues,
            )
            self.driver = "kernel"
        except HostError as error:
            raise DutError(
                f"virtual function {self.address} of {port}: {error.what}",
                where=error.where,
                accepted=error.accepted,
                cure=error.cure,
            ) from error

    def cut_off(self, netns: Path) -> None:
        """Keep frames from it; its VNF keeps the device."""
        number = self.place.number
        if not vfs.try_configure_vf(self.parent, number, netns, link="disable"):
            vfs.configure_vf(self.parent, number, netns, vlan=UNUSED_VLAN)

    def join(self, netns: Path, options: VfOptions) -> None:
        """Undo `cut_off`."""
        number = self.place.number
        if not vfs.try_configure_vf(self.parent, number, netns, link="auto"):
            vfs.configure_vf(self.parent, number, netns, vlan=self._vlan(options))

    def describe(self, state: vfs.VirtualFunction) -> str:
        """The virtual function for the facts of a run."""
        return vfs.describe(state, self.address, self.netdev, self.refused)

    def _vlan(self, options: VfOptions) -> int:
        """The VLAN it belongs into; 0 for none."""
        return options.vlan or 0 if self.place.inner else 0
