"""The OVS-DPDK backend."""

from __future__ import annotations

from typing import Any, ClassVar

from vnetperf.host.machine import Machine
from vnetperf.model.errors import DutError
from vnetperf.model.machine import MachineFacts
from vnetperf.model.plan import Placement, Plan, Pollers, RoleDemand
from vnetperf.model.ports import Attachment, PhyPort, Port, VnfPort, WireEnd
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.vswitches.base import VSwitch, VSwitchCapabilities
from vnetperf.vswitches.dpdk import options
from vnetperf.vswitches.dpdk.counters import parse_dpctl_show
from vnetperf.vswitches.dpdk.flows import ofport, rules
from vnetperf.vswitches.dpdk.ovsdb import PrivateOvs

BRIDGE = "br0"


class OvsDpdk(VSwitch):
    """Open vSwitch with poll-mode threads: memif or af_packet wires, vhost-user VNF ports."""

    name: ClassVar[str] = "dpdk"
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("memif", "veth"), attachments=("vhost-user",)
    )

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        programs = machine.facts.programs
        self.ovs = PrivateOvs(machine, programs["ovs-vswitchd-dpdk"], programs["ovsdb-server"])
        self.version_text = machine.facts.versions.get("ovs-vswitchd-dpdk", "")
        self.interfaces: dict[str, str] = {}
        self.flows: list[str] = []
        self.config: dict[str, str] = {}

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps OVS-DPDK from running here.

        Args:
            facts: The machine.
            scenario: The scenario.

        Returns:
            "" or what is missing with its cure.
        """
        for program, package in (
            ("ovs-vswitchd-dpdk", "openvswitch-switch-dpdk"),
            ("ovsdb-server", "openvswitch-common"),
            ("ovs-vsctl", "openvswitch-switch"),
            ("ovs-ofctl", "openvswitch-common"),
            ("ovsdb-tool", "openvswitch-common"),
        ):
            if problem := facts.missing_program(program, package):
                return problem
        try:
            version = options.parse_version(facts.versions["ovs-vswitchd-dpdk"])
        except DutError as error:
            return str(error)
        low, high = options.SUPPORTED
        if not low <= version <= high:
            return (
                f"OVS {version[0]}.{version[1]} is not supported; "
                f"accepted: {low[0]}.{low[1]} to {high[0]}.x; install another version and name it "
                "in the testbed file under [programs] ovs_vswitchd"
            )
        if scenario.deployment.chains > 1 and "eth_dst" in scenario.traffic.vary:
            return (
                "parallel chains are told apart by destination MAC, which this traffic varies; "
                "vary another field than eth_dst"
            )
        return ""

    @classmethod
    def roles(cls, scenario: Scenario) -> tuple[RoleDemand, ...]:
        """One poll-mode thread.

        Args:
            scenario: The scenario.

        Returns:
            The "pmd" demand.
        """
        del scenario
        return (RoleDemand(role="pmd", threads=1, group="switch"),)

    @classmethod
    def hugepage_mib(cls, scenario: Scenario) -> int:
        """Memory of the switch.

        Args:
            scenario: The scenario.

        Returns:
            MiB.
        """
        del scenario
        return options.SWITCH_MIB

    @classmethod
    def tx_queues(cls, placement: Placement) -> int:
        """One per PMD and one for the other threads.

        A memif client that has fewer receive queues makes OVS drop what it sends on the others.

        Args:
            placement: Cores.

        Returns:
            Number of queues.
        """
        return len(placement.cores["pmd"]) + 1

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """The configuration that `--plan` can show.

        Args:
            plan: The plan.
            facts: The machine, for the version of OVS; None assumes the oldest supported.

        Returns:
            Program -> line.
        """
        version = options.SUPPORTED[0]
        if facts is not None:
            version = options.parse_version(facts.versions["ovs-vswitchd-dpdk"])
        config = options.other_config(plan, version)
        return {
            "ovs-vswitchd": "ovs-vswitchd unix:RUN_DIR/ovs/db.sock; other_config "
            + " ".join(f"{key}={value}" for key, value in config.items()),
            "ovs-ofctl": "; ".join(rules(plan.scenario.deployment, plan.scenario.streams)),
        }

    def start(self) -> None:
        """Start the private database and daemon, and make the bridge."""
        self.config = options.other_config(self.plan, options.parse_version(self.version_text))
        self.ovs.start_database()
        settings = [f"other_config:{key}={value}" for key, value in self.config.items()]
        self.ovs.vsctl("--no-wait", "set", "Open_vSwitch", ".", *settings)
        self.ovs.start_switch()
        self.ovs.vsctl(
            *("add-br", BRIDGE, "--", "set", "bridge", BRIDGE),
            *("datapath_type=netdev", "fail-mode=secure"),
        )
        self._check_port(BRIDGE)

    def add_phy_port(self, end: WireEnd) -> None:
        """Plug in a wire as a DPDK device.

        Args:
            end: The DUT's end of the wire.
        """
        port = PhyPort(index=end.wire)
        self._add(port, "type=dpdk", f'options:dpdk-devargs="{options.devargs(end)}"')

    def offer_vnf_port(self, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
        """A vhost-user client port: the VNF is the server, and either may restart.

        Args:
            port: Port of the deployment.
            kind: "vhost-user".
            queues: Queue pairs.

        Returns:
            The attachment.
        """
        if kind not in self.capabilities.attachments:
            raise self.no_attachment(kind)
        socket = str(self.ovs.directory / f"{port}.sock")
        return Attachment(port=port, kind=kind, socket=socket, vnf_is_server=True, queues=queues)

    def add_vnf_port(self, attachment: Attachment) -> None:
        """Make the vhost-user client port.

        Args:
            attachment: As offered.
        """
        path = f"options:vhost-server-path={attachment.socket}"
        self._add(attachment.port, "type=dpdkvhostuserclient", path)

    def _add(self, port: Port, *settings: str) -> None:
        name = str(port)
        self.interfaces[name] = name
        self.ovs.vsctl(
            *("add-port", BRIDGE, name, "--", "set", "Interface", name),
            *(*settings, f"ofport_request={ofport(port)}"),
        )
        self._check_port(name)

    def _check_port(self, name: str) -> None:
        """ovs-vsctl returns well when the daemon could not make a port: the database says so."""
        self.ovs.check_alive()
        rows = self.ovs.rows("Interface", "name", "error", "ofport")
        row = next((r for r in rows if r["name"] == name), None)
        if row is None or row["error"] or not isinstance(row["ofport"], int) or row["ofport"] < 0:
            process = self.ovs.switch_process
            tail = f"; log ends with:\n{process.log_tail(8)}" if process else ""
            reason = row["error"] if row and row["error"] else "it has no OpenFlow port"
            raise DutError(f"the switch refuses port {name}: {reason}{tail}", where="dpdk")

    def remove_port(self, port: Port) -> None:
        """Delete a port of the bridge.

        Args:
            port: The port.
        """
        self.ovs.vsctl("del-port", BRIDGE, str(port))
        del self.interfaces[str(port)]

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Install the deployment's rules.

        Args:
            streams: Streams of the traffic.
        """
        self.flows = rules(self.plan.scenario.deployment, streams)
        file = self.ovs.directory / "flows.txt"
        file.write_text("\n".join(self.flows) + "\n")
        self.ovs.tool("ovs-ofctl", "replace-flows", self._bridge(), str(file))

    def _bridge(self) -> str:
        return f"unix:{self.ovs.directory}/{BRIDGE}.mgmt"

    def links_down(self) -> tuple[str, ...]:
        """Ports whose link is down.

        Returns:
            Names.
        """
        rows = self.ovs.rows("Interface", "name", "link_state")
        return tuple(
            r["name"] for r in rows if r["name"] in self.interfaces and r["link_state"] != "up"
        )

    def counters(self) -> tuple[HopCounters, ...]:
        """Counters of every port.

        Returns:
            One entry per port.
        """
        return parse_dpctl_show(self.ovs.appctl("dpctl/show", "-s"), self.interfaces)

    def pollers(self) -> tuple[Pollers, ...]:
        """PMD threads are called pmd-cNN/id:N.

        Returns:
            The "pmd" role.
        """
        process = self.ovs.switch_process
        if process is None:
            return ()
        return (Pollers(role="pmd", pid=process.pid, thread_prefix="pmd-c"),)

    def facts(self) -> dict[str, Any]:
        """Version, launch line, configuration, ports, rules and queue placement.

        Returns:
            JSON values.
        """
        interfaces = self.ovs.rows("Interface", "name", "type", "options", "mtu", "link_state")
        return {
            "backend": self.name,
            "version": self.version_text.splitlines()[0] if self.version_text else "unknown",
            "dpdk": self.ovs.vsctl("get", "Open_vSwitch", ".", "dpdk_version").strip().strip('"'),
            "launch line": " ".join(self.ovs.switch_argv()),
            "other_config": self.config,
            "ports": interfaces,
            "rules": self.flows,
            "rx queue placement": self.ovs.appctl("dpif-netdev/pmd-rxq-show").splitlines(),
        }

    def check_alive(self) -> None:
        """Raise when a daemon has ended."""
        self.ovs.check_alive()

    def stop(self) -> None:
        """Stop both daemons."""
        self.ovs.stop()
