"""Contract kit: set-ups and option values that a vSwitch's capabilities promise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from vnetperf.model.deployment import DEPLOYMENTS, make_deployment

#: What a test on one machine can lay by itself; the others need a testbed that has them.
LAID_ANYWHERE = ("memif", "veth")


@dataclass(frozen=True, slots=True)
class Case:
    """One set-up.

    Attributes:
        deployment: Name of the deployment.
        wire: Kind of wire; "auto" for the first that fits.
        rules: "port", "stream" or "learning".
        forwarding: "l2" or "l3".
        tunnel: Kind of tunnel; "" where the deployment has none.
        mode: One of the backend's modes; "" for its first.
        vnfs: Number of VNFs, None for the deployment's own.
    """

    deployment: str
    wire: str = "auto"
    rules: str = "port"
    forwarding: str = "l2"
    tunnel: str = ""
    mode: str = ""
    vnfs: int | None = None

    @property
    def id(self) -> str:
        """Name as it stands in a test id: the deployment and whatever is not usual."""
        unusual = [
            self.wire if self.wire != "auto" else "",
            self.rules if self.rules != "port" else "",
            self.forwarding if self.forwarding != "l2" else "",
            self.tunnel,
            self.mode,
        ]
        return "_".join([self.deployment, *filter(None, unusual)])

    @property
    def has_vnfs(self) -> bool:
        """True when a VNF forwards on the way."""
        return make_deployment(self.deployment, self.vnfs).vnf_count > 0


def plain_cases(can: Any) -> list[Case]:
    """Every deployment without a tunnel, in the backend's own way.

    Args:
        can: Capabilities of the vSwitch.

    Returns:
        Cases; "port" rules, or the first it has.
    """
    usual: dict[str, Any] = {
        "rules": "port" if "port" in can.rules else can.rules[0],
        "forwarding": "l2" if "l2" in can.forwarding else can.forwarding[0],
    }
    cases = []
    for name in DEPLOYMENTS:
        graph = make_deployment(name)
        at_vnf_ports = graph.vnf_count or graph.tester_vnf_ports
        if graph.tunnelled or graph.gtp or (at_vnf_ports and not can.attachments):
            continue
        if graph.chains > 1 and not can.chains:
            continue
        if graph.phy_ports and not can.wires:
            continue
        cases.append(Case(name, **usual))
    return cases


def other_cases(can: Any) -> list[Case]:
    """The simplest deployment on every wire, by every kind of rule, at every layer, in every mode.

    Args:
        can: Capabilities of the vSwitch.

    Returns:
        Cases, those in the backend's own way first.
    """
    cases = plain_cases(can)
    if not cases:
        return []
    first = cases[0]

    laid = [wire for wire in can.wires if wire in LAID_ANYWHERE]
    others = [replace(first, wire=wire, mode=_mode_on(can, wire)) for wire in laid] or [first]
    if first.deployment != "phy2phy":
        others = [first]
    others += [replace(first, mode=mode) for mode in can.modes[1:]]
    others += [replace(first, rules=rules) for rules in can.rules if rules != first.rules]
    others += [
        replace(first, forwarding=layer) for layer in can.forwarding if layer != first.forwarding
    ]
    return others


def _mode_on(can: Any, wire: str) -> str:
    """The first mode that a wire reaches; "" for the backend's first."""
    fitting = [mode for mode in can.modes if wire in can.mode_wires.get(mode, (wire,))]
    return "" if fitting[:1] == list(can.modes[:1]) else fitting[0]


#: A value for each option that differs from what a backend does by itself.
OPTION_VALUES: dict[str, str] = {
    "rx_queues": "2",
    "rx_descriptors": "512",
    "tx_descriptors": "512",
    "workers": "1",
    "rxq_affinity": '[{port = "phy0", queue = 0, worker = 0}]',
    "mtu": "2000",
    "offloads": "false",
    "napi": "threaded",
    "memory_mib": "[384]",
}
#: Option -> others without which it makes no sense.
NEEDED_OPTIONS: dict[str, tuple[str, ...]] = {"rxq_affinity": ("rx_queues", "workers")}
