"""Which device each macvtap sits on, and what a mode cannot do: pure."""

from __future__ import annotations

from vnetperf.model.deployment import Deployment
from vnetperf.model.ports import PhyPort, Port, VnfPort
from vnetperf.model.scenario import Scenario

#: What macvtap's modes do with a frame from one macvtap to another on the same device: "bridge"
#: hands it over, "vepa" leaves it to the switch outside, "private" drops what comes back as well,
#: "passthru" has the device to itself.
MODES = ("bridge", "vepa", "private", "passthru")

#: A physical port, or the number of a segment that has none: VNFs among themselves.
Lower = PhyPort | int


def lower_of(deployment: Deployment, port: Port) -> Lower:
    """The device under a port's macvtap.

    Args:
        deployment: The graph.
        port: One of its ports.

    Returns:
        The physical port of the port's segment, or the segment's number when there is none.

    Raises:
        ValueError: No hop touches the port.
    """
    if isinstance(port, PhyPort):
        return port
    for number, segment in enumerate(deployment.segments()):
        if port in segment:
            return next((p for p in segment if isinstance(p, PhyPort)), number)
    raise ValueError(f"{deployment.name}: no hop touches {port}")


def inner(deployment: Deployment) -> tuple[int, ...]:
    """Segments between VNFs alone, which need a device of their own.

    Args:
        deployment: The graph.

    Returns:
        Numbers of the segments.
    """
    segments = enumerate(deployment.segments())
    return tuple(n for n, s in segments if not any(isinstance(p, PhyPort) for p in s))


def refusal(scenario: Scenario) -> str:
    """What the scenario's mode and traffic cannot do on macvtaps.

    Args:
        scenario: The scenario.

    Returns:
        "" or what cannot be, with its cure.
    """
    deployment, mode = scenario.deployment, scenario.options.mode or MODES[0]
    between = bool(inner(deployment))
    vnf_to_vnf = any(
        isinstance(hop.src, VnfPort) and isinstance(hop.dst, VnfPort) for hop in deployment.hops
    )
    if between and mode != "bridge":
        return (
            f"macvtap in mode {mode} passes nothing from VNF to VNF on its own; choose the mode "
            "bridge, or a deployment without links between VNFs"
        )
    crowded = any(
        sum(isinstance(port, VnfPort) for port in segment) > 1 for segment in deployment.segments()
    )
    if crowded and mode == "passthru":
        return (
            "macvtap in mode passthru has a physical port to itself, and this deployment puts "
            "several VNFs on one; choose another mode"
        )
    if vnf_to_vnf and deployment.vnf_count and not scenario.vnf_addresses:
        return (
            "between VNFs macvtap finds the next one by destination MAC, which a VNF in mode "
            f"{scenario.vnf_mode} does not write; choose --vnf-mode mac"
        )
    if "eth_dst" in scenario.traffic.vary and mode != "passthru":
        return (
            "macvtap takes frames by their destination MAC, which this traffic varies; vary "
            "another field than eth_dst"
        )
    return ""
