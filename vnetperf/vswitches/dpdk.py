"""The OVS-DPDK backend: memory, devices, other_config (OVS 2.17 to 4.0) and poll-mode ports."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host import dpdk
from vnetperf.host.nic.pci import DPDK_DRIVERS
from vnetperf.model.deployment import Attachment, PhyPort, Port, VnfPort, WireEnd
from vnetperf.model.errors import CapabilityError, DutError
from vnetperf.model.machine_load import DatapathWork
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import (
    STANDARD_FRAME_SIZE,
    NicUse,
    Placement,
    Plan,
    Pollers,
    RoleDemand,
    Scenario,
    TunnelEnd,
)
from vnetperf.model.testbed import MachineFacts, Program
from vnetperf.openvswitch.dpdk import DEFAULT_DESCRIPTORS, dpdk_config, dpdk_memory_mib
from vnetperf.openvswitch.programs import (
    DAEMON_WITH_DPDK,
    DPDK_DAEMON,
    OVS_TOOLS,
    ovs_version_problem,
)
from vnetperf.plugin import vswitch
from vnetperf.plugin.dut import JUMBO_FRAME_SIZE
from vnetperf.plugin.vswitch import VSwitchCapabilities
from vnetperf.vswitches.openvswitch import OpenVSwitch
from vnetperf.vswitches.openvswitch.openflow import flow_limit
from vnetperf.vswitches.openvswitch.switch import ovs_scenario_problem

#: Rings by default, and the largest that OVS takes.
DEFAULT_RING, LARGEST_RING = 2048, 4096
#: Octets that a frame has beside its MTU, and that a ring's slot has beside its frame: an 802.1Q
#: tag, the ring's own header.
FRAME_OCTETS, SLOT_OCTETS = 18, 4 + 80


def device_settings(end: WireEnd, plan: Plan) -> tuple[str, ...]:
    """Settings of the port that a wire is plugged into."""
    options = plan.scenario.options
    settings = ["type=dpdk", f'options:dpdk-devargs="{devargs(end, plan)}"']
    for option, value in (
        ("n_rxq", options.rx_queues),
        ("n_rxq_desc", options.rx_descriptors),
        ("n_txq_desc", options.tx_descriptors),
    ):
        if value is not None:
            settings.append(f"options:{option}={value}")
    return tuple(settings)


def devargs(end: WireEnd, plan: Plan) -> str:
    """The DUT's end of a wire as a DPDK device."""
    options, slot = plan.scenario.options, slot_octets(plan.scenario.mtu)
    if end.kind == "memif":
        return (
            f"net_memif{end.wire},role={end.role},id={end.wire},socket={end.socket},"
            f"socket-abstract=no,bsize={slot},rsize={copied_ring(options).bit_length() - 1}"
        )
    if end.kind == "nic" and end.driver in DPDK_DRIVERS and end.pci:
        return end.pci
    if end.kind in ("veth", "nic") and end.netdev:
        ring = dpdk.af_packet_ring(slot, copied_ring(options))
        queues = options.rx_queues or 1
        return f"net_af_packet{end.wire},iface={end.netdev},{ring},qpairs={queues},qdisc_bypass=1"
    raise DutError(f"cannot plug a {end.kind} wire in", where="dpdk", accepted="memif, veth, nic")


def slot_octets(mtu: int) -> int:
    """Size of a buffer in a ring that frames are copied through."""
    octets = 2048
    while octets < mtu + FRAME_OCTETS + SLOT_OCTETS:
        octets *= 2
    return octets


def copied_ring(options: SwitchOptions) -> int:
    """Size of the rings of a wire that frames are copied through, one for both directions."""
    return options.rx_descriptors or options.tx_descriptors or DEFAULT_RING


def check_rings(plan: Plan) -> None:
    """Refuse rings that the chosen wire cannot have."""
    options = plan.scenario.options
    sizes = {size for size in (options.rx_descriptors, options.tx_descriptors) if size}
    nics = [nic for nic in plan.nics if nic.side == "dut"]
    copied = plan.wire != "nic" or any(nic.kernel for nic in nics)
    if len(sizes) > 1 and copied and plan.scenario.deployment.phy_ports:
        raise CapabilityError(
            f"memif and af_packet have rings of one size, not {options.rx_descriptors} receive "
            f"and {options.tx_descriptors} transmit descriptors",
            where="rx_descriptors, tx_descriptors",
            cure="set both alike, or one of them",
        )


def ring_problem(scenario: Scenario) -> str:
    """Why ports cannot have the rings and pins of a scenario."""
    for name in ("rx_descriptors", "tx_descriptors"):
        if (getattr(scenario.options, name) or 0) > LARGEST_RING:
            return f"OVS has at most {LARGEST_RING} descriptors; set {name} to that or less"
    return vswitch.rxq_affinity_problem(scenario)


def pmd_rxq_affinity(port: Port, plan: Plan) -> tuple[str, ...]:
    """Receive queues of a port that are pinned to workers."""
    cores = plan.placement.cores["pmd"]
    pinned = [
        f"{pin.queue}:{cores[pin.worker % len(cores)]}"
        for pin in plan.scenario.options.rxq_affinity
        if pin.port == str(port)
    ]
    return (f'other_config:pmd-rxq-affinity="{",".join(pinned)}"',) if pinned else ()


class OvsDpdk(OpenVSwitch):
    """Open vSwitch with poll-mode threads: memif, af_packet or PCI wires, vhost-user VNF ports."""

    name: ClassVar[str] = "dpdk"
    daemon: ClassVar[str] = DPDK_DAEMON
    programs: ClassVar[tuple[Program, ...]] = (DAEMON_WITH_DPDK, *OVS_TOOLS)
    datapath_type: ClassVar[str] = "netdev"
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("memif", "veth", "nic"),
        attachments=("vhost-user",),
        max_frame_size=JUMBO_FRAME_SIZE,
        wire_frame_sizes={
            "veth": STANDARD_FRAME_SIZE
        },  # the largest that DPDK's af_packet driver reports
        rules=("port", "stream", "learning"),
        forwarding=("l2", "l3"),
        tunnels=("vxlan", "gre", "geneve"),
        options=(
            *("rx_queues", "rx_descriptors", "tx_descriptors", "workers", "rxq_affinity"),
            *("placement", "mtu", "offloads", "memory_mib"),
        ),
        nic_drivers=("vfio-pci", "kernel"),
    )

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps OVS-DPDK from running here."""
        return (
            cls.missing_requirement(facts)
            or ovs_version_problem(facts, DAEMON_WITH_DPDK)
            or ovs_scenario_problem(scenario)
            or ring_problem(scenario)
        )

    @classmethod
    def nics_missing(cls, nics: tuple[NicUse, ...], facts: MachineFacts, scenario: Scenario) -> str:
        """What NICs under their kernel driver cannot be."""
        kernel = [nic for nic in nics if nic.side == "dut" and nic.kernel]
        if not kernel or scenario.mtu + FRAME_OCTETS <= STANDARD_FRAME_SIZE:
            return ""
        note = f" ({kernel[0].note})" if kernel[0].note else ""
        return (
            f"{kernel[0].pci} is used through its kernel driver{note}, and DPDK's af_packet driver "
            f"reports no frames above {STANDARD_FRAME_SIZE} octets to OVS; give it to vfio-pci, or "
            "leave larger frames out"
        )

    @classmethod
    def roles(cls, scenario: Scenario) -> tuple[RoleDemand, ...]:
        """Its poll-mode threads."""
        workers = scenario.options.workers or 1
        return (RoleDemand(role="pmd", threads=workers, group="switch"),)

    @classmethod
    def hugepage_mib(cls, scenario: Scenario) -> int:
        """Memory of the switch."""
        options, ports = scenario.options, len(scenario.deployment.ports)
        receive = (options.rx_queues or 1) * (options.rx_descriptors or DEFAULT_DESCRIPTORS)
        send = ((options.workers or 1) + 1) * (options.tx_descriptors or DEFAULT_DESCRIPTORS)
        return dpdk_memory_mib(ports * (receive + send), scenario.mtu)

    @classmethod
    def fixed_mib(cls, scenario: Scenario, kinds: Collection[str]) -> dict[int, int]:
        """Buffers of ports whose driver names no node, where OVS has them then."""
        return {dpdk.MEMIF_NODE: cls.hugepage_mib(scenario)} if "memif" in kinds else {}

    @classmethod
    def tx_queues(cls, scenario: Scenario, placement: Placement) -> int:
        """One per PMD and one for the other threads.

        A memif client that has fewer receive queues makes OVS drop what it sends on the others.
        """
        return len(placement.cores["pmd"]) + 1

    @classmethod
    def other_config(cls, plan: Plan, facts: MachineFacts | None) -> dict[str, str]:
        """Cores, memory, and how workers take queues and sleep."""
        options = plan.scenario.options
        check_rings(plan)
        pmds, mib = plan.placement.cores["pmd"], cls.hugepage_mib(plan.scenario)
        memif = plan.wire == "memif" and bool(plan.scenario.deployment.phy_ports)
        config = dpdk_config(plan, facts, pmds, mib, memif=memif)
        if options.offloads is not None:
            config["userspace-tso-enable"] = str(options.offloads).lower()
        if options.rxq_affinity:
            # A worker with a pinned queue would otherwise take no others, and those nobody takes
            # are not polled at all.
            config |= {"pmd-rxq-assign": "group", "pmd-rxq-isolate": "false"}
        return config | flow_limit(plan.scenario)

    def launch(self) -> None:
        """Start the daemon and wait until DPDK is initialised."""
        self.ovs.start_dpdk()

    def add_phy_port(self, end: WireEnd) -> None:
        """Plug in a wire as a DPDK device."""
        if end.kind == "memif" and end.role == "server" and end.socket:
            # A killed switch leaves its socket, and memif does not listen where one is.
            Path(end.socket).unlink(missing_ok=True)
        port = PhyPort(index=end.wire)
        pins = pmd_rxq_affinity(port, self.plan)
        self.add_port(port, str(port), *device_settings(end, self.plan), *pins)

    def offer_vnf_port(self, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
        """A vhost-user client port: the VNF is the server, and either may restart."""
        self.check_kind(kind)
        socket = self.machine.vnf_socket(str(port))
        return Attachment(port=port, kind=kind, socket=socket, vnf_is_server=True, queues=queues)

    def add_vnf_port(self, attachment: Attachment) -> None:
        """Make the vhost-user client port; its queues are those of the VNF."""
        path = f"options:vhost-server-path={attachment.socket}"
        pins = pmd_rxq_affinity(attachment.port, self.plan)
        self.add_port(
            attachment.port, str(attachment.port), "type=dpdkvhostuserclient", path, *pins
        )

    def add_neighbour(self, interface: str, end: TunnelEnd) -> None:
        """Add the other end to the datapath, which does not use the kernel's neighbours."""
        self.ovs.appctl("tnl/arp/set", interface, end.remote, end.peer_mac)

    def pollers(self) -> tuple[Pollers, ...]:
        """PMD threads."""
        return self.ovs.pollers()

    def datapath_work(self) -> tuple[DatapathWork, ...]:
        """Packets, cycles, lookups and rounds of each PMD thread."""
        return self.ovs.pmd_work()

    def facts(self) -> dict[str, Any]:
        """The facts of every Open vSwitch, DPDK's version, and which thread polls which queue."""
        return {**super().facts(), **self.ovs.dpdk_facts()}
