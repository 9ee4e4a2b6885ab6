"""Shares a deployment out to the hosts of a testbed: who has the tester, who has which vSwitch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from vnetperf.model.deployment import Deployment
from vnetperf.model.errors import CapabilityError
from vnetperf.model.scenario import CableUse, Scenario
from vnetperf.model.testbed import NETNS, Testbed

#: A cable between two hosts, and the numbers of the ports at its ends: of the tester's wire, or of
#: the vSwitches.
_Join = tuple[int, int]


@dataclass(frozen=True, slots=True)
class HostShare:
    """What of a deployment is on one host.

    Attributes:
        host: Its name.
        parts: "tester", "dut", or both.
        deployment: The graph of its vSwitch; of a host with the tester alone, the whole.
        cables: Ends of cables that its parts plug into.
    """

    host: str
    parts: tuple[Literal["tester", "dut"], ...]
    deployment: Deployment
    cables: tuple[CableUse, ...]


def share_out(scenario: Scenario, testbed: Testbed) -> tuple[HostShare, ...]:
    """Place the parts of a deployment on hosts.

    Args:
        scenario: The scenario.
        testbed: A testbed of several hosts.

    Returns:
        A share for each host that has a part, by name of the host.

    Raises:
        CapabilityError: The testbed has no two hosts that are cabled for it.
    """
    graph = scenario.deployment
    if why := _why_not(scenario, testbed):
        raise CapabilityError(
            why,
            where=f"{scenario.id}, testbed {testbed.name}",
            cure="choose another deployment, or a testbed of one host",
        )
    for first, second in _pairs(testbed):
        wanted: list[_Join]
        if graph.sites:
            wanted = [(a.index, b.index) for a, b in graph.cables]
            shares = _spanning(graph, (first, second))
        else:
            wanted = [(port.index, port.index) for port in graph.phy_ports]
            shares = _tester_apart(graph, (first, second))
        joined = [n for n, cable in enumerate(testbed.cables) if {*cable.hosts} == {first, second}]
        if len(joined) >= len(wanted):
            cabled = [_with_cables(s, testbed, joined, wanted, (first, second)) for s in shares]
            return tuple(sorted(cabled, key=lambda share: share.host))
    needed = len(graph.cables) or len(graph.phy_ports)
    raise CapabilityError(
        f"{graph.name} needs two hosts with {needed} cables between them",
        where=f"{scenario.id}, testbed {testbed.name}",
        cure="add [[cables]] to the testbed file, or see to the roles of its hosts",
    )


def share_ends(scenario: Scenario, testbed: Testbed) -> tuple[HostShare, ...]:
    """Place two vSwitches with an endpoint each on two hosts, by a cable between these.

    Args:
        scenario: A scenario whose ends are apart.
        testbed: A testbed.

    Returns:
        Both shares, the one of end 0 first.

    Raises:
        CapabilityError: The testbed has no such cable, or the deployment is none of plain frames.
    """
    graph, where = scenario.deployment, f"{scenario.id}, testbed {testbed.name}"
    if not testbed.cables:
        raise CapabilityError(
            f"{graph.name} needs two hosts with a cable between them",
            where=where,
            cure="--testbed two-hosts has two on this machine; docs/hosts.md describes others",
        )
    if scenario.rules != "port" or scenario.routed:
        raise CapabilityError(
            "over two vSwitches frames are forwarded by port",
            where=where,
            cure="leave --rules and --forwarding out",
        )
    number, cable = 0, testbed.cables[0]
    if far := [name for name in cable.hosts if testbed.hosts[name].transport != NETNS]:
        raise CapabilityError(
            f"cables between machines ({' and '.join(far)}) are looked at and not plugged in by "
            "this version",
            where=where,
            accepted='hosts with transport = "netns"',
            cure="--testbed two-hosts",
        )
    hosts = tuple(sorted(cable.hosts, key=lambda name: testbed.hosts[name].role != "tester"))
    shares = []
    for place, host in enumerate(hosts):
        use = CableUse(
            cable=number,
            port=graph.cables[0][place].index,
            side="dut",
            nic=cable.at(host).nic,
            far=str(cable.at(hosts[1 - place])),
        )
        shares.append(HostShare(host, ("dut",), graph.site(place), (use,)))
    return tuple(shares)


def _why_not(scenario: Scenario, testbed: Testbed) -> str:
    """What is not carried over hosts, whichever they are."""
    graph = scenario.deployment
    if any(host.transport != NETNS for host in testbed.hosts.values()):
        return (
            "cables between machines are looked at and not plugged in by this version: "
            'deployments span hosts with transport = "netns"'
        )
    plain = scenario.rules == "port" and scenario.addressing == "far" and not scenario.routed
    if graph.sites and not plain:
        return "over two vSwitches frames are forwarded by port, and addressed to the tester"
    if graph.tester_vnf_ports and not graph.sites:
        return (
            f"{graph.name} has the tester in a VNF's place, on the DUT's own host, with nothing "
            "that another host could have"
        )
    if graph.gtp:
        return "a mobile core needs the radio network at the tester's end, on its own host"
    return ""


def _pairs(testbed: Testbed) -> Iterator[tuple[str, str]]:
    """Pairs of hosts in the order of preference: the tester's first."""
    names = testbed.host_names
    tester = next((name for name in names if testbed.hosts[name].role == "tester"), "")
    for first in [tester] if tester else names:
        if testbed.hosts[first].role == "dut":
            continue
        yield from ((first, second) for second in names if second != first)


def _tester_apart(graph: Deployment, hosts: tuple[str, str]) -> tuple[HostShare, ...]:
    tester, dut = hosts
    return (
        HostShare(host=tester, parts=("tester",), deployment=graph, cables=()),
        HostShare(host=dut, parts=("dut",), deployment=graph, cables=()),
    )


def _spanning(graph: Deployment, hosts: tuple[str, str]) -> tuple[HostShare, ...]:
    near, far = (graph.site(number) for number in range(2))
    return (
        HostShare(host=hosts[0], parts=("tester", "dut"), deployment=near, cables=()),
        HostShare(host=hosts[1], parts=("dut",), deployment=far, cables=()),
    )


def _with_cables(
    share: HostShare,
    testbed: Testbed,
    joined: Sequence[int],
    wanted: Sequence[_Join],
    hosts: tuple[str, str],
) -> HostShare:
    """Give a share the ends of the first of the cables that join the hosts."""
    place = hosts.index(share.host)
    other = hosts[1 - place]
    uses = []
    for number, ports in zip(joined, wanted, strict=False):
        cable = testbed.cables[number]
        uses.append(
            CableUse(
                cable=number,
                port=ports[place],
                side="dut" if "dut" in share.parts else "tester",
                nic=cable.at(share.host).nic,
                far=str(cable.at(other)),
            )
        )
    return HostShare(share.host, share.parts, share.deployment, tuple(uses))
