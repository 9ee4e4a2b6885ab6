"""The base class of both Open vSwitch backends; they differ in ports and in the datapath."""

from __future__ import annotations

import re
from abc import abstractmethod
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host.machine import Machine
from vnetperf.model.deployment import Port, dut_mac, port_mac
from vnetperf.model.errors import DutError
from vnetperf.model.frames import DUT_ADDRESS, PREFIX, TESTER_ADDRESS, VNI, TunnelKind
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.vswitches.base import VSwitch
from vnetperf.vswitches.kernelports import netlink
from vnetperf.vswitches.openvswitch import openflow
from vnetperf.vswitches.openvswitch.instance import PrivateOvs
from vnetperf.vswitches.openvswitch.openflow import UNDERLAY

_TUNNELS: dict[TunnelKind, tuple[str, str]] = {
    "vxlan": ("vxlan", "vxlan_xmit"),
    "geneve": ("geneve", "geneve_xmit"),
    "gre": ("ip_gre", "gre_tap_xmit"),
}
#: Modules of the kernel's datapath by kind of tunnel.
TUNNEL_MODULES = {
    kind: KernelModule(name=name, purpose="the tunnel", symbol=symbol, optional=True)
    for kind, (name, symbol) in _TUNNELS.items()
}
DISABLE_IPV6 = Path("/proc/sys/net/ipv6/conf") / UNDERLAY / "disable_ipv6"


def tunnel_settings(kind: TunnelKind) -> tuple[str, ...]:
    """Settings of the tunnel's interface."""
    ends = (f"options:remote_ip={TESTER_ADDRESS}", f"options:local_ip={DUT_ADDRESS}")
    key = () if kind == "gre" else (f"options:key={VNI}",)
    return (f"type={kind}", *ends, *key)


def underlay_mac(scenario: Scenario) -> str:
    """Address that tunnelled frames for the DUT carry."""
    return dut_mac(scenario.deployment.tunnelled[0])


def tester_mac(scenario: Scenario) -> str:
    """Address of the tester at the tunnelled port."""
    return port_mac(scenario.deployment, scenario.deployment.tunnelled[0], 0)


def give_underlay_address(machine: Machine, scenario: Scenario) -> None:
    """Give the underlay's interface the DUT's address, and name the tester as its neighbour.

    The interface is in the run's network namespace and goes with the switch.
    """

    def give() -> None:
        with netlink("give the tunnel's interface its address", UNDERLAY) as (route, indexes):
            if DISABLE_IPV6.exists():  # its own neighbour discovery would leave by the wire
                DISABLE_IPV6.write_text("1\n")
            index = indexes[UNDERLAY]
            route.addr("replace", index=index, address=DUT_ADDRESS, prefixlen=PREFIX)
            route.link("set", index=index, state="up")
            mac = tester_mac(scenario)
            neighbour = {"dst": TESTER_ADDRESS, "lladdr": mac, "state": "permanent"}
            route.neigh("replace", ifindex=index, **neighbour)

    machine.in_netns(give)


_PORT_LINE = re.compile(r"^\s*port \d+: (\S+)", re.MULTILINE)
_COUNTERS_LINE = re.compile(r"\b(RX|TX) packets:(\d+|\?).*?dropped:(\d+|\?)")


def parse_dpctl_show(text: str, names: dict[str, str]) -> tuple[HopCounters, ...]:
    """Counters from the command's text."""
    pieces = _PORT_LINE.split(text)
    found = []
    for interface, block in zip(pieces[1::2], pieces[2::2], strict=True):
        if interface not in names:
            continue
        counts = {
            side: (packets, dropped) for side, packets, dropped in _COUNTERS_LINE.findall(block)
        }
        (rx, rx_dropped), (tx, tx_dropped) = (counts.get(side, ("?", "?")) for side in ("RX", "TX"))
        if "?" in (rx, tx):
            continue  # a port that is not counted is unknown, not empty
        found.append(
            HopCounters(
                port=names[interface],
                rx=int(rx),
                tx=int(tx),
                rx_dropped=_count(rx_dropped),
                tx_dropped=_count(tx_dropped),
            )
        )
    return tuple(sorted(found, key=lambda counters: counters.port))


def _count(text: str) -> int:
    return 0 if text == "?" else int(text)


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
        if self.plan.scenario.deployment.tunnelled:
            self._add_tunnel()

    def _add_bridge(self, bridge: openflow.OvsBridge) -> None:
        name, settings = bridge.name, [f"datapath_type={self.datapath_type}", "fail-mode=secure"]
        if bridge.learns:
            settings += openflow.learning_settings(self.plan.scenario)
        if name == openflow.UNDERLAY:
            settings.append(f'other_config:hwaddr="{underlay_mac(self.plan.scenario)}"')
        self.ovs.vsctl(
            *("add-br", name, "--", "set", "bridge", name, *settings),
            *("--", "set", "Interface", name, f"mtu_request={self.plan.scenario.mtu}"),
        )
        self._check_port(name)

    def _add_tunnel(self) -> None:
        """The overlay's port on the bridge that needs it; and the address below."""
        give_underlay_address(self.machine, self.plan.scenario)
        self.add_neighbour()
        bridge = next(bridge for bridge in self.bridges if bridge.tunnel)
        settings = tunnel_settings(self.plan.scenario.tunnel)
        self._add_interface(bridge.name, openflow.TUNNEL_PORT, openflow.TUNNEL_OFPORT, settings)

    def add_neighbour(self) -> None:
        """Add the tester to a datapath that does not use the kernel's neighbours."""

    def add_port(self, port: Port, interface: str, *settings: str) -> None:
        """Add a port of the deployment to its bridge."""
        bridge = next(bridge for bridge in self.bridges if port in bridge.ports)
        self.interfaces[interface] = str(port)
        mtu = f"mtu_request={self.plan.scenario.mtu}"
        self._add_interface(bridge.name, interface, openflow.ofport(port), (*settings, mtu))

    def _add_interface(
        self, bridge: str, name: str, number: int, settings: tuple[str, ...]
    ) -> None:
        self.ovs.vsctl(
            *("add-port", bridge, name, "--", "set", "Interface", name),
            *(*settings, f"ofport_request={number}"),
        )
        self._check_port(name)

    def _check_port(self, name: str) -> None:
        """Raise when a port is not there: ovs-vsctl succeeds all the same, the database has it."""
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
            raise self.no_port(port, self.interfaces.values())
        self.ovs.vsctl("del-port", interface)
        del self.interfaces[interface]

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Install the deployment's rules."""
        del streams
        scenario = self.plan.scenario
        for bridge in self.bridges:
            found = openflow.bridge_rules(scenario, bridge)
            count = openflow.rule_count(scenario)
            self.installed[bridge.name] = self.ovs.install(bridge.name, found, count)

    def links_down(self) -> tuple[str, ...]:
        """Ports whose link is down."""
        rows = self.ovs.rows("Interface", "name", "link_state")
        states = {row["name"]: row["link_state"] for row in rows}
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
    found = openflow.bridge_rules(scenario, bridge)
    text = "; ".join(islice(found, RULES_SHOWN))
    return text + ("; ..." if next(found, None) is not None else "")
