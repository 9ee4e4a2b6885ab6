"""Shares a deployment out to the hosts of a testbed: who has the tester, who has which vSwitch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Literal, NamedTuple

from vnetperf.model.deployment import Deployment, PhyPort, Port, VnfPort
from vnetperf.model.errors import CapabilityError
from vnetperf.model.scenario import CableUse, Scenario
from vnetperf.model.testbed import NETNS, Testbed
from vnetperf.plugin.dut import load_dut

Side = Literal["tester", "dut"]
#: What a cable between hosts of namespaces is, and a wire within a host of several; and what a
#: cable between machines is.
WIRE_WITHIN, CABLE_OF_NICS = "veth", "nic"


def cable_wire(testbed: Testbed) -> str:
    """Kind of the cables between a testbed's hosts: machines have no cable to namespaces."""
    one_machine = all(host.transport == NETNS for host in testbed.hosts.values())
    return WIRE_WITHIN if one_machine else CABLE_OF_NICS


class _End(NamedTuple):
    """An end of a link between two hosts.

    Attributes:
        host: Where.
        side: Who plugs in.
        port: Number of the vSwitch's physical port here, or of the one at the tester's wire.
    """

    host: str
    side: Side
    port: int


@dataclass(frozen=True, slots=True)
class HostShare:
    """What of a deployment is on one host.

    Attributes:
        host: Its name.
        parts: "tester", "dut", or both.
        deployment: The graph of its vSwitch; of a host with the tester alone, the whole.
        cables: Ends of cables that its parts plug into.
        ends: Numbers of the ends here, where they are on two hosts: of the tester's ports, or of
            endpoints.
    """

    host: str
    parts: tuple[Side, ...]
    deployment: Deployment
    cables: tuple[CableUse, ...]
    ends: tuple[int, ...] = ()


def share_out(scenario: Scenario, testbed: Testbed) -> tuple[HostShare, ...]:
    """Place the parts of a deployment on hosts: a share for each that has a part, by name."""
    if scenario.apart:
        return tuple(sorted(_share_ends(scenario, testbed), key=lambda share: share.host))
    graph = scenario.deployment
    if not testbed.hosts:
        return (HostShare("", ("tester", "dut"), graph, ()),)
    if problem := next(_whys_not(scenario), ""):
        raise CapabilityError(
            problem,
            where=f"{scenario.id}, testbed {testbed.name}",
            cure="choose another deployment, or a testbed of one host",
        )
    for testers, sites in _arrangements(graph, testbed):
        cables = _cables(testbed, _links(graph, testers, sites))
        if cables is not None:
            shares = (
                _share(graph, host, testers, sites, cables)
                for host in dict.fromkeys((*testers, *sites))
            )
            return tuple(sorted(shares, key=lambda share: share.host))
    sites = ("first", "second") if graph.sites else ("second",)
    fewest = _links(graph, sites if graph.apart else ("first", "first"), sites)
    raise CapabilityError(
        f"{graph.name} needs two hosts with {len(fewest)} cables between them",
        where=f"{scenario.id}, testbed {testbed.name}",
        cure="add [[cables]] to the testbed file, or see to the roles of its hosts",
    )


def _share_ends(scenario: Scenario, testbed: Testbed) -> tuple[HostShare, ...]:
    """Place two vSwitches with an endpoint each on two cabled hosts: the share of end 0 first."""
    graph, where = scenario.deployment, f"{scenario.id}, testbed {testbed.name}"
    ends = testbed.cables[0].hosts if testbed.cables else ()
    hosts = sorted(ends, key=lambda name: testbed.hosts[name].role != "tester")
    cables = _cables(testbed, _links(graph, hosts, hosts)) if hosts else None
    if cables is None:
        raise CapabilityError(
            f"{graph.name} needs two hosts with a cable between them",
            where=where,
            cure="--testbed two-hosts has two on this machine; docs/machines.md describes others",
        )
    if not _forwards_by_port(scenario):
        raise CapabilityError(
            "over two vSwitches frames are forwarded by port",
            where=where,
            cure="leave --rules and --forwarding out",
        )
    return tuple(
        HostShare(host, ("dut",), graph.site(place), tuple(cables[host]), (place,))
        for place, host in enumerate(hosts)
    )


def _forwards_by_port(scenario: Scenario) -> bool:
    """Whether nothing but forwarding by port is requested of vSwitches; networks may route."""
    routed = scenario.routed and scenario.deployment.dut_family == "vswitches"
    return scenario.rules == "port" and not routed


def _whys_not(scenario: Scenario) -> Iterator[str]:
    """What is not carried over hosts, whichever they are."""
    graph = scenario.deployment
    if graph.sites and not _forwards_by_port(scenario):
        yield "over two vSwitches frames are forwarded by port, neither routed nor by flow"
    name = scenario.vswitch  # "" where the generator alone is calibrated
    steers = bool(name) and load_dut(graph, name).capabilities.addressing == "port"
    if graph.sites and graph.vnf_count and steers and not scenario.vnf_addresses:
        yield (
            f"{scenario.vswitch} finds the next part by destination MAC, which a VNF in mode "
            f"{scenario.vnf_mode} does not write; choose --vnf-mode mac, or route"
        )
    if len(graph.tester_vnf_ports) == 2 and not graph.sites:
        yield (
            f"{graph.name} has the tester in a VNF's place, on the DUT's own host, with nothing "
            "that another host could have"
        )
    if graph.gtp:
        yield "a mobile core needs the radio network at the tester's end, on its own host"


def _arrangements(
    graph: Deployment, testbed: Testbed
) -> Iterator[tuple[tuple[str, str], tuple[str, ...]]]:
    """Hosts of the tester's ports and of each vSwitch, in the order of preference.

    Both ports are on one host, and on one clock, unless the deployment or the testbed has a host
    for each. They are on a host of their own where they can be, else on that of a vSwitch.
    """
    names, roles = testbed.host_names, {n: host.role for n, host in testbed.hosts.items()}
    named = [name for name in names if roles[name] == "tester"]
    count = len(graph.sites) or 1
    if graph.apart:
        for sites in permutations(sorted(names, key=lambda name: name not in named), count):
            yield (sites[0], sites[-1]), sites
        return
    pairs = [(name, name) for name in named or names if roles[name] != "dut"]
    if len(named) > 1:
        pairs = [(named[0], named[1]), (named[1], named[0])]
    for pair in pairs:
        choices: list[tuple[str, ...]] = []
        if not (graph.sites and graph.tester_vnf_ports):
            choices += permutations([name for name in names if name not in pair], count)
        if graph.sites or pair[0] != pair[1]:
            others = [name for name in names if name != pair[0]]
            choices += [(pair[0], *rest) for rest in permutations(others, count - 1)]
        for sites in choices:
            # In a VNF's place a port is on the host of its vSwitch.
            first, second = (
                sites[_find_site(graph, end)] if isinstance(end, VnfPort) else host
                for host, end in zip(pair, graph.ends, strict=True)
            )
            yield (first, second), sites


def _find_site(graph: Deployment, port: Port) -> int:
    """Number of the vSwitch that has a port."""
    return next((n for n, ports in enumerate(graph.sites) if port in ports), 0)


def _links(
    graph: Deployment, testers: Sequence[str], sites: Sequence[str]
) -> list[tuple[_End, _End]]:
    """What must be cables: the tester's wires to other hosts, and those between vSwitches."""

    def dut_end(port: PhyPort) -> _End:
        return _End(sites[_find_site(graph, port)], "dut", port.index)

    links = [
        (_End(host, "tester", end.index), dut_end(end))
        for host, end in zip(testers, graph.ends, strict=True)
        if isinstance(end, PhyPort)
    ]
    links += [(dut_end(a), dut_end(b)) for a, b in graph.cables]
    return [(near, other) for near, other in links if near.host != other.host]


def _cables(
    testbed: Testbed, links: Sequence[tuple[_End, _End]]
) -> dict[str, list[CableUse]] | None:
    """A cable of the testbed for each link: its ends at each host; None where there are too few."""
    free = list(enumerate(testbed.cables))
    uses_by_host: dict[str, list[CableUse]] = {}
    for link in links:
        hosts = {end.host for end in link}
        number, cable = next(
            ((n, cable) for n, cable in free if {*cable.hosts} == hosts), (-1, None)
        )
        if cable is None:
            return None
        free.remove((number, cable))
        for end, far in (link, link[::-1]):
            use = CableUse(
                cable=number,
                port=end.port,
                side=end.side,
                nic=cable.at(end.host).nic,
                far=str(cable.at(far.host)),
            )
            uses_by_host.setdefault(end.host, []).append(use)
    return uses_by_host


def _share(
    graph: Deployment,
    host: str,
    testers: tuple[str, str],
    sites: Sequence[str],
    cables: dict[str, list[CableUse]],
) -> HostShare:
    parts: list[Side] = ["tester"] if host in testers else []
    parts += ["dut"] if host in sites else []
    part = graph.site(sites.index(host)) if graph.sites and host in sites else graph
    numbers = tuple(number for number, tester in enumerate(testers) if tester == host)
    ends = numbers if testers[0] != testers[1] else ()
    return HostShare(host, tuple(parts), part, tuple(cables.get(host, ())), ends)
