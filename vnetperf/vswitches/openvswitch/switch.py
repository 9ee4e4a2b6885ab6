"""What both Open vSwitch backends do alike; they differ in ports and in the datapath."""

from __future__ import annotations

from abc import abstractmethod
from itertools import islice
from typing import Any, ClassVar

from vnetperf.host.machine import Machine
from vnetperf.model.errors import DutError
from vnetperf.model.machine import MachineFacts
from vnetperf.model.plan import Plan
from vnetperf.model.ports import Attachment, Port
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.vswitches.base import VSwitch
from vnetperf.vswitches.openvswitch import layout, learning, rules, tunnel
from vnetperf.vswitches.openvswitch.counters import parse_dpctl_show
from vnetperf.vswitches.openvswitch.instance import PrivateOvs

#: Rules that are shown in plans and results; there may be a million.
SHOWN = 20


class OpenVSwitch(VSwitch):
    """A private Open vSwitch. A backend says which daemon, which datapath, and how ports are made.

    Args:
        machine: The machine.
        plan: The plan.
    """

    #: Name of the daemon among the machine's programs.
    daemon: ClassVar[str]
    datapath_type: ClassVar[str]

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        programs = machine.facts.programs
        self.ovs = PrivateOvs(machine, programs[self.daemon], programs["ovsdb-server"])
        self.version_text = machine.facts.versions.get(self.daemon, "")
        self.bridges = layout.bridges(plan.scenario)
        #: Interface of the switch -> port of the deployment.
        self.interfaces: dict[str, str] = {}
        self.installed: dict[str, int] = {}
        self.config: dict[str, str] = {}

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """The configuration and rules that `--plan` can show."""
        config = cls.other_config(plan, facts)
        shown = "".join(f" {key}={value}" for key, value in config.items())
        return {
            "ovs-vswitchd": "ovs-vswitchd unix:RUN_DIR/ovs/db.sock"
            + (f"; other_config{shown}" if shown else ""),
            "ovs-ofctl": "; ".join(
                f"{bridge.name}: {_abridged(plan.scenario, bridge)}"
                for bridge in layout.bridges(plan.scenario)
            ),
        }

    @classmethod
    @abstractmethod
    def other_config(cls, plan: Plan, facts: MachineFacts | None) -> dict[str, str]:
        """The Open_vSwitch table's other_config.

        Args:
            plan: The plan.
            facts: The machine; None assumes the oldest supported version.

        Returns:
            Key -> value.
        """

    @abstractmethod
    def launch(self) -> None:
        """Start the daemon and wait until it is ready.

        Raises:
            DutError: With the log's tail, when it does not come up.
        """

    def start(self) -> None:
        """Start the private database and daemon, and make the bridges."""
        self.interfaces.clear()
        self.installed.clear()
        self.config = self.other_config(self.plan, self.machine.facts)
        self.ovs.start_database()
        self.ovs.configure(self.config)
        self.launch()
        for bridge in self.bridges:
            self._add_bridge(bridge)
        if self.plan.scenario.deployment.tunnelled:
            self._add_tunnel()

    def _add_bridge(self, bridge: layout.Bridge) -> None:
        name, settings = bridge.name, [f"datapath_type={self.datapath_type}", "fail-mode=secure"]
        if bridge.learns:
            settings += learning.settings(self.plan.scenario)
        if name == layout.UNDERLAY:
            settings.append(f'other_config:hwaddr="{tunnel.underlay_mac(self.plan.scenario)}"')
        self.ovs.vsctl(
            *("add-br", name, "--", "set", "bridge", name, *settings),
            *("--", "set", "Interface", name, f"mtu_request={self.plan.scenario.mtu}"),
        )
        self._check_port(name)

    def _add_tunnel(self) -> None:
        """The overlay's port on the bridge that needs it; and the address below."""
        tunnel.give_address(self.machine, self.plan.scenario)
        self.know_neighbour()
        bridge = next(bridge for bridge in self.bridges if bridge.tunnel)
        settings = tunnel.settings(self.plan.scenario.tunnel)
        self._add_interface(bridge.name, layout.TUNNEL, layout.TUNNEL_NUMBER, settings)

    def know_neighbour(self) -> None:
        """Tell a datapath that does not look at the kernel's neighbours who the tester is."""

    def add_port(self, port: Port, interface: str, *settings: str) -> None:
        """Add a port of the deployment to its bridge.

        Args:
            port: The port.
            interface: Name of the switch's interface.
            *settings: Columns of the interface, as `ovs-vsctl set` takes them.

        Raises:
            DutError: When the switch refuses it.
        """
        bridge = next(bridge for bridge in self.bridges if port in bridge.ports)
        self.interfaces[interface] = str(port)
        mtu = f"mtu_request={self.plan.scenario.mtu}"
        self._add_interface(bridge.name, interface, layout.ofport(port), (*settings, mtu))

    def _add_interface(
        self, bridge: str, name: str, number: int, settings: tuple[str, ...]
    ) -> None:
        self.ovs.vsctl(
            *("add-port", bridge, name, "--", "set", "Interface", name),
            *(*settings, f"ofport_request={number}"),
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
            raise DutError(f"the switch refuses port {name}: {reason}{tail}", where=self.name)

    def remove_port(self, port: Port) -> None:
        """Delete a port of its bridge."""
        interface = next((i for i, p in self.interfaces.items() if p == str(port)), None)
        if interface is None:
            raise DutError(
                f"there is no port {port}",
                where=self.name,
                accepted=", ".join(self.interfaces.values()) or "none",
            )
        self.ovs.vsctl("del-port", interface)
        del self.interfaces[interface]

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Install the deployment's rules."""
        del streams
        scenario = self.plan.scenario
        for bridge in self.bridges:
            found = rules.of_bridge(scenario, bridge)
            count = rules.rule_count(scenario)
            self.installed[bridge.name] = self.ovs.install(bridge.name, found, count)

    def offered(self, attachment: Attachment) -> Attachment:
        """Check that an attachment is of a kind that is offered.

        Args:
            attachment: The attachment.

        Returns:
            The same.

        Raises:
            DutError: It is not.
        """
        if attachment.kind not in self.capabilities.attachments:
            raise self.no_attachment(attachment.kind)
        return attachment

    def links_down(self) -> tuple[str, ...]:
        """Ports whose link is down."""
        states = {r["name"]: r["link_state"] for r in self.ovs.rows("Interface", *_LINK)}
        return tuple(port for i, port in self.interfaces.items() if states.get(i) != "up")

    def counters(self) -> tuple[HopCounters, ...]:
        """Counters of every port."""
        return parse_dpctl_show(self.ovs.appctl("dpctl/show", "-s"), self.interfaces)

    def facts(self) -> dict[str, Any]:
        """Version, launch line, configuration, ports and rules."""
        scenario = self.plan.scenario
        return {
            "backend": self.name,
            "version": self.version_text.splitlines()[0] if self.version_text else "unknown",
            "launch line": " ".join(self.ovs.switch_argv()),
            "other_config": self.config,
            "ports": self.ovs.rows("Interface", "name", "type", "options", "mtu", "link_state"),
            "rules": {b.name: _abridged(scenario, b) for b in self.bridges},
            "rules installed": self.installed,
            **learning.facts(self.ovs, self.bridges),
        }

    def check_alive(self) -> None:
        """Raise when a daemon has ended."""
        self.ovs.check_alive()

    def stop(self) -> None:
        """Stop both daemons."""
        self.ovs.stop()


_LINK = ("name", "link_state")


def missing(scenario: Scenario) -> str:
    """What no Open vSwitch can carry.

    Args:
        scenario: The scenario.

    Returns:
        "" or the reason and the cure.
    """
    return rules.why_no_rules(scenario) or learning.why_not(scenario)


def _abridged(scenario: Scenario, bridge: layout.Bridge) -> str:
    found = rules.of_bridge(scenario, bridge)
    text = "; ".join(islice(found, SHOWN))
    return text + ("; ..." if next(found, None) is not None else "")
