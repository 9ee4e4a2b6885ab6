"""The backend of Open vSwitch with the kernel's datapath.

Datapaths belong to a network namespace: the daemon runs in the run's own, so that its datapath is
separate from that of an OVS of the machine.
"""

from __future__ import annotations

from typing import Any, ClassVar

from vnetperf.model.deployment import Attachment, PhyPort, Port, WireEnd
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts, Program
from vnetperf.openvswitch.programs import (
    DAEMON,
    DATAPATH,
    KERNEL_DAEMON,
    OVS_TOOLS,
    ovs_version_problem,
)
from vnetperf.plugin.backend import TUNNEL_MODULES, optional
from vnetperf.plugin.dut import JUMBO_FRAME_SIZE
from vnetperf.plugin.vswitch import VSwitchCapabilities
from vnetperf.vswitches.kernelports import KINDS, KernelAttachments, queues_problem, tunnel_modules
from vnetperf.vswitches.openvswitch import OpenVSwitch
from vnetperf.vswitches.openvswitch.openflow import flow_limit
from vnetperf.vswitches.openvswitch.switch import ovs_scenario_problem


class OvsKernel(KernelAttachments, OpenVSwitch):
    """Open vSwitch in the kernel: veth wires and NICs, taps and veth pairs for VNFs."""

    name: ClassVar[str] = "ovs"
    daemon: ClassVar[str] = KERNEL_DAEMON
    programs: ClassVar[tuple[Program, ...]] = (DAEMON, *OVS_TOOLS)
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = (
        DATAPATH,
        *optional(*TUNNEL_MODULES.values()),
    )
    datapath_type: ClassVar[str] = "system"
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("veth", "nic"),
        attachments=KINDS,
        max_frame_size=JUMBO_FRAME_SIZE,
        rules=("port", "stream", "learning"),
        forwarding=("l2", "l3"),
        tunnels=("vxlan", "gre", "geneve"),
        options=("rx_queues", "mtu", "offloads"),
        nic_drivers=("kernel",),
    )

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps OVS with the kernel's datapath from running here."""
        problems = (facts.missing_module(module) for module in needed_modules(scenario))
        return (
            next((problem for problem in problems if problem), "")
            or cls.missing_requirement(facts)
            or ovs_version_problem(facts, DAEMON)
            or ovs_scenario_problem(scenario)
            or queues_problem(scenario)
        )

    @classmethod
    def other_config(cls, plan: Plan, facts: MachineFacts | None) -> dict[str, str]:
        """Room for many flows where there will be many."""
        return flow_limit(plan.scenario)

    def start(self) -> None:
        """Load the kernel's modules, start database and daemon, make the bridges."""
        for module in needed_modules(self.plan.scenario):
            self.machine.load_module(module)
        super().start()

    def launch(self) -> None:
        """Start the daemon and wait until it answers."""
        self.ovs.start_switch(self.ovs.answers, "the daemon", cure="see the log above")

    def add_phy_port(self, end: WireEnd) -> None:
        """Plug in a kernel interface."""
        if end.kind not in self.capabilities.wires or end.netdev is None:
            raise self.cannot_plug(end)
        self.add_port(PhyPort(index=end.wire), end.netdev)

    def add_vnf_port(self, attachment: Attachment) -> None:
        """Make the tap or the pair and plug it in."""
        self.check_kind(attachment.kind)
        self.add_port(attachment.port, self.make_attachment(attachment))

    def remove_port(self, port: Port) -> None:
        """Take a port out of its bridge; what was made for a VNF is deleted."""
        super().remove_port(port)
        self.delete_attachment(port)

    def facts(self) -> dict[str, Any]:
        """The facts of every Open vSwitch, and the datapath's own statistics."""
        options = self.plan.scenario.options
        return {
            **super().facts(),
            "attachments": {
                str(port): attachment.kind for port, attachment in self.attachments.items()
            },
            "offloads": "on" if options.offloads else "off",
            "datapath": [
                line.strip()
                for line in self.ovs.appctl("dpctl/show").splitlines()
                if line.strip().startswith(("lookups:", "flows:", "masks:", "caches:"))
            ],
        }


def needed_modules(scenario: Scenario) -> tuple[KernelModule, ...]:
    """Modules of the kernel that a scenario needs."""
    return (DATAPATH, *tunnel_modules(scenario))
