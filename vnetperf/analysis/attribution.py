"""Attributes lost frames to a place, from the counters of every hop."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from vnetperf.model.deployment import Deployment, Port, VnfPort
from vnetperf.model.trial import DirectionCounts, HopCounters, TrialResult

#: How counters that a VNF keeps itself are named: "vnf0.0 (inside)".
INSIDE_SUFFIX = " (inside)"


def locate_losses(
    deployment: Deployment, result: TrialResult, hosts: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Follow each direction's frames along its path and note where they become fewer.

    Chains of a parallel deployment have paths of equal length; their counters are added up
    position by position. Where there are several hosts, `hosts` has that of each port.
    """
    if not result.hops:
        return {}
    by_port = {hop.port: hop for hop in result.hops}
    places: Counter[str] = Counter()
    for counts in result.directions:
        if result.lost(counts) > 0:
            places.update(_lost_along_path(deployment, by_port, result, counts, hosts or {}))
    return _split_inside(deployment, places, result.hops)


#: What the last place of a path is called, behind the DUT's last counter.
_TO_TESTER: Final = re.compile(r" to tester(?: on \S+)?$")


def lost_behind_dut(places: Mapping[str, int]) -> dict[str, int]:
    """Select the losses between the DUT's last counter and the tester."""
    return {
        place: frames
        for place, frames in places.items()
        if frames and " or " not in place and _TO_TESTER.search(place)
    }


def _inside(deployment: Deployment, number: int) -> str:
    of_pod = deployment.end_kind == "pod"
    return f"inside the VM of pod{number}" if of_pod else f"inside vnf{number}"


def _split_inside(
    deployment: Deployment, places: dict[str, int], hops: tuple[HopCounters, ...]
) -> dict[str, int]:
    """Name the place inside a VNF, as far as the VNF's own counters show where it dropped."""
    frames_by_place: dict[str, int] = {}
    for place, frames in places.items():
        unexplained = frames
        for hop in hops:
            name = hop.port.removesuffix(INSIDE_SUFFIX)
            if name == hop.port:
                continue
            number = int(name.partition(".")[0].removeprefix("vnf"))
            if _inside(deployment, number) != place.partition(" on ")[0]:
                continue
            dropped = min(unexplained, hop.rx_dropped + hop.tx_dropped)
            if dropped > 0:
                frames_by_place[f"{place}, dropped at {name}"] = dropped
                unexplained -= dropped
        if unexplained:
            frames_by_place[place] = unexplained
    return frames_by_place


def _lost_along_path(
    deployment: Deployment,
    by_port: dict[str, HopCounters],
    result: TrialResult,
    counts: DirectionCounts,
    hosts: Mapping[str, str],
) -> dict[str, int]:
    source = deployment.ends[counts.direction]
    paths = [deployment.path(source, chain) for chain in range(deployment.chains)]
    lost_by_place: dict[str, int] = {}
    before = result.offered(counts)
    passed: list[str] = []  # places since the last counter
    causes: Counter[str] = Counter()  # of drops of what came in at the place before
    # Even positions of a path are where the vSwitch takes frames in, odd ones where it puts out.
    for position, ports in enumerate(zip(*paths, strict=True)):
        hop_ports = set(ports)
        passed.append(_place(deployment, position, hop_ports, hosts))
        if not all(str(port) in by_port for port in hop_ports):
            continue
        field = "rx" if position % 2 == 0 else "tx"
        counted = sum(getattr(by_port[str(port)], field) for port in hop_ports)
        counted -= counts.broadcast_received  # these went all the way, and are not of the stream
        # Ports count foreign frames too; ours never become more, nor fewer than came back.
        after = min(before, max(counted, counts.received))
        if before > after:
            lost_by_place |= _by_cause(" or ".join(passed), before - after, causes)
        before, passed, causes = after, [], Counter()
        if position % 2 == 0:
            for port in hop_ports:
                causes.update(by_port[str(port)].causes)
    last = deployment.ends[1 - counts.direction]
    if 1 - counts.direction in deployment.guests and isinstance(last, VnfPort):
        passed.append(f"{_inside(deployment, last.vnf)}{_host_suffix((last,), hosts)}")
    else:
        passed.append(f"{deployment.port_name(last)} to tester{_host_suffix((last,), hosts)}")
    if before > counts.received:
        lost_by_place[" or ".join(passed)] = before - counts.received
    return lost_by_place


def _by_cause(place: str, lost: int, causes: Mapping[str, int]) -> dict[str, int]:
    """Split the frames lost at a place by cause; the others keep the place alone."""
    lost_by_cause, unexplained = dict[str, int](), lost
    for cause, frames in causes.items():
        if explained := min(unexplained, frames):
            lost_by_cause[f"{place}, {cause}"] = explained
            unexplained -= explained
    return {**lost_by_cause, place: unexplained} if unexplained else lost_by_cause


def _place(
    deployment: Deployment, position: int, ports: set[Port], hosts: Mapping[str, str]
) -> str:
    names = ", ".join(sorted(map(deployment.port_name, ports)))
    vnfs = sorted({f"vnf{port.vnf}" for port in ports if isinstance(port, VnfPort)})
    where = _host_suffix(ports, hosts)
    if position == 0:
        behind = [n for n in deployment.guests if deployment.ends[n] in ports]
        if behind:
            return f"{_inside(deployment, behind[0])}{where}"
        return f"tester to {names}{where}"
    if position % 2:
        by = "network" if deployment.dut_family == "networks" else "vSwitch"
        return f"{by} to {names}{where}"
    return f"inside {', '.join(vnfs)}{where}" if vnfs else f"cable to {names}{where}"


def _host_suffix(ports: Iterable[Port], hosts: Mapping[str, str]) -> str:
    names = sorted({hosts[str(port)] for port in ports if str(port) in hosts})
    return f" on {', '.join(names)}" if names else ""
