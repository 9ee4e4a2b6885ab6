"""Which addresses frames carry where they pass the vSwitch; what a bridge makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from vnetperf.model.addresses import vnf_mac
from vnetperf.model.ports import Port, VnfPort
from vnetperf.model.scenario import Scenario


class Passage(NamedTuple):
    """Frames of one stream on one hop.

    Attributes:
        src: Port they enter by.
        dst: Port they must leave by.
        eth_src: Source MAC address.
        eth_dst: Destination MAC address.
    """

    src: Port
    dst: Port
    eth_src: str
    eth_dst: str


def passages(scenario: Scenario) -> Iterator[Passage]:
    """Follow every stream through the deployment.

    Args:
        scenario: Its graph, streams and the VNF's mode.

    Yields:
        One passage per stream and hop.
    """
    graph = scenario.deployment
    for stream in scenario.streams:
        eth_src, eth_dst = stream.eth_src, stream.eth_dst
        path = graph.path(graph.ends[stream.direction], stream.chain)
        for src, dst in zip(path[0::2], path[1::2], strict=True):
            if src != path[0]:
                eth_src, eth_dst = _through_vnf(scenario, src, eth_src, eth_dst)
            yield Passage(src, dst, eth_src, eth_dst)


def _through_vnf(scenario: Scenario, out: Port, eth_src: str, eth_dst: str) -> tuple[str, str]:
    """Addresses of a frame that a VNF sends from its port `out`."""
    if scenario.vnf_swaps:
        return eth_dst, eth_src
    if scenario.vnf_addresses and isinstance(out, VnfPort):
        return vnf_mac(out), scenario.peer_mac(out)
    return eth_src, eth_dst


def entries(scenario: Scenario) -> dict[tuple[int, str], Port]:
    """Where a bridge must send each address, segment by segment.

    Args:
        scenario: The scenario.

    Returns:
        (Number of the segment, destination MAC address) -> port; addresses that lead to different
        ports are left out, a bridge then floods them.
    """
    found: dict[tuple[int, str], Port] = {}
    unclear = set()
    for segment, passage in _by_segment(scenario):
        key = segment, passage.eth_dst
        if found.setdefault(key, passage.dst) != passage.dst:
            unclear.add(key)
    return {key: port for key, port in found.items() if key not in unclear}


def bridge_trouble(scenario: Scenario, *, learning: bool) -> str:
    """Why a bridge could not carry the scenario.

    Args:
        scenario: The scenario.
        learning: True when the bridge learns addresses.

    Returns:
        "" or the reason with its cure.
    """
    sizes = [len(segment) for segment in scenario.deployment.segments()]
    if max(sizes, default=0) > 2 and "eth_dst" in scenario.traffic.vary:
        return (
            "a bridge tells parallel chains apart by destination MAC, which this traffic varies; "
            "vary another field than eth_dst"
        )
    clear = entries(scenario)
    seen: dict[tuple[int, str], Port] = {}
    for segment, passage in _by_segment(scenario):
        if sizes[segment] > 2 and (segment, passage.eth_dst) not in clear:
            return (
                f"frames to {passage.eth_dst} must leave a bridge by different ports, since the "
                f"VNF's mode {scenario.vnf_mode} sends them back to where they come from; "
                "use --vnf-mode io or mac"
            )
        if learning and seen.setdefault((segment, passage.eth_src), passage.src) != passage.src:
            return (
                f"a learning bridge would see {passage.eth_src} at two ports and move it with "
                f"every frame, since the VNF's mode is {scenario.vnf_mode}; use --vnf-mode io or "
                "mac"
            )
    if learning:
        for segment, passage in _by_segment(scenario):
            if sizes[segment] > 2 and seen.get((segment, passage.eth_dst)) != passage.dst:
                return (
                    f"a learning bridge would never see {passage.eth_dst} and flood what is sent "
                    "to it into every chain; send both ways, with --vnf-mode mac"
                )
    return ""


def _by_segment(scenario: Scenario) -> Iterator[tuple[int, Passage]]:
    segments = scenario.deployment.segments()
    for passage in passages(scenario):
        yield next(n for n, ports in enumerate(segments) if passage.src in ports), passage
