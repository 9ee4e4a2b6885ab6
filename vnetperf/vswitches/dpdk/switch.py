"""The OVS-DPDK backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from vnetperf.model.machine import MachineFacts
from vnetperf.model.plan import NicUse, Placement, Plan, Pollers, RoleDemand
from vnetperf.model.ports import Attachment, PhyPort, VnfPort, WireEnd
from vnetperf.model.scenario import STANDARD_FRAME_SIZE, Scenario
from vnetperf.model.tunnel import TESTER_ADDRESS
from vnetperf.vswitches.base import VSwitchCapabilities
from vnetperf.vswitches.dpdk import config, devices, memory
from vnetperf.vswitches.openvswitch import OpenVSwitch
from vnetperf.vswitches.openvswitch.layout import UNDERLAY
from vnetperf.vswitches.openvswitch.switch import missing
from vnetperf.vswitches.openvswitch.tunnel import tester_mac
from vnetperf.vswitches.openvswitch.version import missing_programs


class OvsDpdk(OpenVSwitch):
    """Open vSwitch with poll-mode threads: memif, af_packet or PCI wires, vhost-user VNF ports."""

    name: ClassVar[str] = "dpdk"
    daemon: ClassVar[str] = config.DAEMON
    datapath_type: ClassVar[str] = "netdev"
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("memif", "veth", "nic"),
        attachments=("vhost-user",),
        max_frame_size=9018,
        wire_frame_sizes={
            "veth": STANDARD_FRAME_SIZE
        },  # DPDK's af_packet driver tells OVS no larger one
        rules=("port", "stream", "learning"),
        forwarding=("l2", "l3"),
        tunnels=("vxlan", "gre", "geneve"),
        options=(
            *("rx_queues", "rx_descriptors", "tx_descriptors", "workers", "rxq_affinity"),
            *("mtu", "offloads", "memory_mib"),
        ),
        nic_drivers=("vfio-pci", "kernel"),
    )

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps OVS-DPDK from running here."""
        package = "openvswitch-switch-dpdk"
        return (
            missing_programs(facts, cls.daemon, package, "ovs_vswitchd")
            or missing(scenario)
            or devices.why_not(scenario)
        )

    @classmethod
    def nics_missing(cls, nics: tuple[NicUse, ...], facts: MachineFacts, scenario: Scenario) -> str:
        """What NICs under their kernel driver cannot be."""
        del facts
        return devices.nics_missing(nics, scenario)

    @classmethod
    def roles(cls, scenario: Scenario) -> tuple[RoleDemand, ...]:
        """Its poll-mode threads."""
        workers = scenario.options.workers or 1
        return (RoleDemand(role="pmd", threads=workers, group="switch"),)

    @classmethod
    def hugepage_mib(cls, scenario: Scenario) -> int:
        """Memory of the switch."""
        return memory.switch_mib(scenario)

    @classmethod
    def tx_queues(cls, scenario: Scenario, placement: Placement) -> int:
        """One per PMD and one for the other threads.

        A memif client that has fewer receive queues makes OVS drop what it sends on the others.
        """
        del scenario
        return len(placement.cores["pmd"]) + 1

    @classmethod
    def other_config(cls, plan: Plan, facts: MachineFacts | None) -> dict[str, str]:
        """Cores, memory and what else the daemon is told."""
        return config.other_config(plan, facts)

    def launch(self) -> None:
        """Start the daemon and wait until DPDK is initialised."""
        self.ovs.start_switch(
            self._initialised,
            "DPDK",
            cure="see the log above; not enough free hugepages is the usual cause",
        )

    def _initialised(self) -> bool:
        return self.ovs.vsctl("get", "Open_vSwitch", ".", "dpdk_initialized").strip() == "true"

    def add_phy_port(self, end: WireEnd) -> None:
        """Plug in a wire as a DPDK device."""
        if end.kind == "memif" and end.role == "server" and end.socket:
            # A killed switch leaves its socket, and memif does not listen where one is.
            Path(end.socket).unlink(missing_ok=True)
        port = PhyPort(index=end.wire)
        pins = devices.affinity(port, self.plan)
        self.add_port(port, str(port), *devices.device_settings(end, self.plan), *pins)

    def offer_vnf_port(self, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
        """A vhost-user client port: the VNF is the server, and either may restart."""
        socket = str(self.ovs.directory / f"{port}.sock")
        return self.offered(
            Attachment(port=port, kind=kind, socket=socket, vnf_is_server=True, queues=queues)
        )

    def add_vnf_port(self, attachment: Attachment) -> None:
        """Make the vhost-user client port; its queues are those of the VNF."""
        path = f"options:vhost-server-path={attachment.socket}"
        pins = devices.affinity(attachment.port, self.plan)
        self.add_port(
            attachment.port, str(attachment.port), "type=dpdkvhostuserclient", path, *pins
        )

    def know_neighbour(self) -> None:
        """Tell the datapath the tester's address: it does not look at the kernel's neighbours."""
        mac = tester_mac(self.plan.scenario)
        self.ovs.appctl("tnl/arp/set", UNDERLAY, TESTER_ADDRESS, mac)

    def pollers(self) -> tuple[Pollers, ...]:
        """PMD threads are called pmd-cNN/id:N."""
        process = self.ovs.switch_process
        if process is None:
            return ()
        return (Pollers(role="pmd", pid=process.pid, thread_prefix="pmd-c"),)

    def facts(self) -> dict[str, Any]:
        """What every Open vSwitch says, DPDK's version, and which thread polls which queue."""
        get = self.ovs.vsctl("get", "Open_vSwitch", ".", "dpdk_version")
        placement = self.ovs.appctl("dpif-netdev/pmd-rxq-show").splitlines()
        shown = [line.strip() for line in self.ovs.appctl("dpctl/show").splitlines()]
        return {
            **super().facts(),
            "dpdk": get.strip().strip('"'),
            "workers": sum(line.startswith("pmd thread") for line in placement),
            "rx queue placement": placement,
            "ports of the datapath": [line for line in shown if line.startswith("port ")],
        }
