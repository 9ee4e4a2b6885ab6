"""Which port of a deployment is a virtual function of which NIC: pure."""

from __future__ import annotations

from vnetperf.model.addresses import dut_mac, vnf_mac
from vnetperf.model.base import Frozen
from vnetperf.model.deployment import Deployment
from vnetperf.model.ports import PhyPort, Port, VnfPort
from vnetperf.model.scenario import Scenario
from vnetperf.vswitches import redirect


class Place(Frozen):
    """A virtual function.

    Attributes:
        port: Port of the deployment that it is; a physical port when no VNF is behind it.
        physical: Physical port, and wire, of its NIC.
        number: Its number on that NIC.
        mac: Its address, by which the NIC steers frames to it.
        inner: True when it meets only other virtual functions.
    """

    port: Port
    physical: int
    number: int
    mac: str
    inner: bool = False


#: Modes of a NIC's switch, as the backend and devlink call them.
LEGACY, SWITCHDEV = MODES = ("legacy", "switchdev")


def places_of(scenario: Scenario) -> tuple[Place, ...]:
    """Virtual functions of a scenario.

    Args:
        scenario: The scenario.

    Returns:
        Places, by NIC and number; in switchdev mode none for physical ports, which rules join.
    """
    found = places(scenario.deployment)
    if mode_of(scenario) == LEGACY:
        return found
    return tuple(place for place in found if isinstance(place.port, VnfPort))


def mode_of(scenario: Scenario) -> str:
    """Mode that a scenario asks for.

    Args:
        scenario: The scenario.

    Returns:
        "legacy" or "switchdev".
    """
    return scenario.options.mode or LEGACY


def places(deployment: Deployment) -> tuple[Place, ...]:
    """Virtual functions of a deployment.

    A VNF's port that exchanges frames with a physical port is on that port's NIC. Ports that meet
    only each other share the first NIC, which switches between its virtual functions by address.
    Physical ports that are joined without a VNF get one each.

    Args:
        deployment: The graph.

    Returns:
        Places, by NIC and number.
    """
    found: list[Place] = []
    ends: list[Port] = [port for pair in redirect.joined(deployment) for port in pair]
    for port in (*ends, *deployment.vnf_ports()):
        if any(place.port == port for place in found):
            continue
        meets = {hop.dst for hop in deployment.hops if hop.src == port}
        meets |= {hop.src for hop in deployment.hops if hop.dst == port}
        outer = sorted(p.index for p in meets if isinstance(p, PhyPort))
        nic = port.index if isinstance(port, PhyPort) else next(iter(outer), 0)
        number = sum(place.physical == nic for place in found)
        mac = vnf_mac(port) if isinstance(port, VnfPort) else dut_mac(port)
        inner = isinstance(port, VnfPort) and not outer
        found.append(Place(port=port, physical=nic, number=number, mac=mac, inner=inner))
    return tuple(sorted(found, key=lambda place: (place.physical, place.number)))


def refusal(scenario: Scenario) -> str:
    """What a NIC's switch cannot do of a scenario.

    Args:
        scenario: The scenario.

    Returns:
        "" or why not, with the cure.
    """
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
    if scenario.options.vlan is not None and not any(p.inner for p in places(deployment)):
        return (
            "vlan keeps virtual functions that meet only each other apart from the wires, and "
            f"{deployment.name} has none; leave it out, or measure v2v or pvvp"
        )
    return ""
