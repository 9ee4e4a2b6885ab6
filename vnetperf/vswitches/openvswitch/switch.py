"""The base class of both Open vSwitch backends; they differ in ports and in the datapath."""

from __future__ import annotations

from abc import abstractmethod
from itertools import islice
from typing import Any, ClassVar

from vnetperf.host.machine import Machine
from vnetperf.model.deployment import Port, dut_mac
from vnetperf.model.scenario import Plan, Scenario, TunnelEnd
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.openvswitch.private import PrivateOvs, tunnel_settings
from vnetperf.plugin.vswitch import VSwitch
from vnetperf.vswitches.kernelports import give_underlay_address
from vnetperf.vswitches.openvswitch import openflow

#: Rules that are shown in plans and results; there may be a million.
RULES_SHOWN = 20


class OpenVSwitch(VSwitch):
    """A private Open vSwitch. A backend chooses the daemon, the datapath and how ports are made."""

    #: Name of the daemon among the machine's programs.
    daemon: ClassVar[str]
    datapath_type: ClassVar[str]

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        programs = machine.facts.programs
        self.ovs = PrivateOvs(machine, programs[self.daemon], programs["ovsdb-server"])
        self.version_text = machine.facts.versions.get(self.daemon, "")
        self.bridges = openflow.bridges(plan.scenario)
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
                f"{bridge.name}: {_abridged_rules(plan.scenario, bridge)}"
                for bridge in openflow.bridges(plan.scenario)
            ),
        }

    @classmethod
    @abstractmethod
    def other_config(cls, plan: Plan, facts: MachineFacts | None) -> dict[str, str]:
        """The Open_vSwitch table's other_config."""

    @abstractmethod
    def launch(self) -> None:
        """Start the daemon and wait until it is ready."""

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
        for end in self.plan.scenario.tunnel_ends:
            self._add_tunnel(end)

    def _add_bridge(self, bridge: openflow.OvsBridge) -> None:
        name, settings = bridge.name, [f"datapath_type={self.datapath_type}", "fail-mode=secure"]
        if bridge.learns:
            settings += openflow.learning_settings(self.plan.scenario)
        if bridge.underlay:
            settings.append(f'other_config:hwaddr="{dut_mac(bridge.ports[0])}"')
        self.ovs.vsctl(
            *("add-br", name, "--", "set", "bridge", name, *settings),
            *("--", "set", "Interface", name, f"mtu_request={self.plan.scenario.mtu}"),
        )
        self.ovs.check_port(name)

    def _add_tunnel(self, end: TunnelEnd) -> None:
        """A tunnel's interface on the bridge that needs it; and the address below."""
        below = f"{openflow.UNDERLAY}{end.number}"
        give_underlay_address(self.machine, below, end)
        self.add_neighbour(below, end)
        bridge = next(bridge for bridge in self.bridges if end.port in bridge.tunnels)
        name, number = f"{openflow.TUNNEL_PORT}{end.number}", openflow.tunnel_ofport(end.number)
        settings = tunnel_settings(self.plan.scenario.tunnel, end.local, end.remote, end.vni)
        self._add_interface(bridge.name, name, number, settings)

    def add_neighbour(self, interface: str, end: TunnelEnd) -> None:
        """Add a tunnel's other end to a datapath that does not use the kernel's neighbours."""

    def add_port(self, port: Port, interface: str, *settings: str) -> None:
        """Add a port of the deployment to its bridge."""
        bridge = next(bridge for bridge in self.bridges if port in bridge.ports)
        self.interfaces[interface] = str(port)
        mtu = f"mtu_request={self.plan.scenario.mtu}"
        self._add_interface(bridge.name, interface, openflow.ofport(port), (*settings, mtu))

    def _add_interface(
        self, bridge: str, name: str, number: int, settings: tuple[str, ...]
    ) -> None:
        self.ovs.add_interface(bridge, name, *settings, f"ofport_request={number}")

    def remove_port(self, port: Port) -> None:
        """Delete a port of its bridge."""
        interface = next((i for i, p in self.interfaces.items() if p == str(port)), None)
        if interface is None:
            raise self.no_port(port, self.interfaces.values())
        self.ovs.vsctl("del-port", interface)
        del self.interfaces[interface]

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Install the deployment's rules."""
        scenario = self.plan.scenario
        for bridge in self.bridges:
            rules = openflow.bridge_rules(scenario, bridge)
            count = openflow.rule_count(scenario)
            self.installed[bridge.name] = self.ovs.install(bridge.name, rules, count)

    def links_down(self) -> tuple[str, ...]:
        """Ports whose link is down."""
        return self.ovs.links_down(self.interfaces)

    def counters(self) -> tuple[HopCounters, ...]:
        """Counters of every port."""
        return self.ovs.counters(self.interfaces)

    def facts(self) -> dict[str, Any]:
        """Version, launch line, configuration, ports and rules."""
        scenario = self.plan.scenario
        return {
            "backend": self.name,
            "version": self.version_text.splitlines()[0] if self.version_text else "unknown",
            "launch line": " ".join(self.ovs.switch_argv()),
            "other_config": self.config,
            "ports": self.ovs.interfaces("name", "type", "options", "mtu", "link_state"),
            "rules": {b.name: _abridged_rules(scenario, b) for b in self.bridges},
            "rules installed": self.installed,
            **openflow.learning_facts(self.ovs, self.bridges),
        }

    def check_alive(self) -> None:
        """Raise when a daemon has ended."""
        self.ovs.check_alive()

    def stop(self) -> None:
        """Stop both daemons."""
        self.ovs.stop()


def ovs_scenario_problem(scenario: Scenario) -> str:
    """What no Open vSwitch can carry."""
    return openflow.rules_problem(scenario) or openflow.learning_problem(scenario)


def _abridged_rules(scenario: Scenario, bridge: openflow.OvsBridge) -> str:
    rules = openflow.bridge_rules(scenario, bridge)
    text = "; ".join(islice(rules, RULES_SHOWN))
    return text + ("; ..." if next(rules, None) is not None else "")
