"""Hosts and cables of a testbed; deployments with a vSwitch on each of several hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vnetperf.config.files import SHIPPED
from vnetperf.config.settings import read_testbed
from vnetperf.model.deployment import (
    ACROSS,
    SPANNING,
    PhyPort,
    VnfPort,
    make_deployment,
    peer_mac,
    port_mac,
)
from vnetperf.model.errors import ConfigError
from vnetperf.model.testbed import CableConfig, CoresConfig, HostConfig, Testbed

EAST_WEST = {"east": HostConfig(transport="netns"), "west": HostConfig(transport="netns")}
TWO_CABLES = (
    CableConfig(ends=("east:c0", "west:c0")),
    CableConfig(ends=("east:c1", "west:c1")),
)


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("testbeds/*.toml")), ids=lambda p: p.stem)
def test_every_shipped_testbed_loads(path: Path) -> None:
    assert read_testbed(path.stem).name == path.stem


def test_the_shipped_two_hosts_are_namespaces_with_two_cables() -> None:
    testbed = read_testbed("two-hosts")
    assert testbed.host_names == ("east", "west")
    assert {host.transport for host in testbed.hosts.values()} == {"netns"}
    assert [cable.ends for cable in testbed.cables] == [c.ends for c in TWO_CABLES]


def test_a_testbed_of_one_host_is_that_host() -> None:
    testbed = Testbed(name="local")
    assert testbed.host_names == ("",)
    assert testbed.of_host("") is testbed


def test_a_host_has_what_the_file_says_but_for_its_own() -> None:
    east = HostConfig(
        transport="netns",
        isolation="rack 1",
        cores=CoresConfig(allowed=(2, 3)),
        programs={"vpp": "/opt/vpp"},
        hugepage_kb=1048576,
    )
    testbed = Testbed(
        isolation="no frame leaves",
        programs={"vpp": "/usr/bin/vpp", "qemu": "/usr/bin/qemu"},
        hosts={**EAST_WEST, "east": east},
        cables=TWO_CABLES,
    )
    mine, other = testbed.of_host("east"), testbed.of_host("west")
    assert mine.agent.netns_host == "east"
    assert (mine.hosts, mine.cables) == ({}, ())
    assert mine.programs == {"vpp": "/opt/vpp", "qemu": "/usr/bin/qemu"}
    assert (mine.cores.allowed, mine.hugepage_kb) == ((2, 3), 1048576)
    assert mine.isolation == "no frame leaves; rack 1"
    assert (other.cores, other.hugepage_kb) == (testbed.cores, 2048)
    assert testbed.isolation_statement == "no frame leaves; host east: rack 1"


@pytest.mark.parametrize(
    ("transports", "isolation", "isolated", "allowed"),
    [
        (("ssh=a", "ssh=b"), "", True, True),
        (("ssh=a", "ssh=b"), "rack 1", True, True),
        (("local", "ssh=b"), "", True, True),
        (("ssh=a", "ssh=b"), "rack 1", False, False),
        (("netns", "netns"), "rack 1", True, False),
    ],
)
def test_it_is_stated_that_nics_of_hosts_could_be_taken(
    transports: tuple[str, str], isolation: str, isolated: bool, allowed: bool
) -> None:
    east, west = (HostConfig(transport=transport) for transport in transports)
    testbed = Testbed(
        isolation="lab",
        isolated=isolated,
        hosts={"east": east.model_copy(update={"isolation": isolation}), "west": west},
        cables=TWO_CABLES,
    )
    statement = testbed.isolation_statement
    assert statement.startswith("lab")
    assert ("host east: rack 1" in statement) is bool(isolation)
    assert ("isolated = true" in statement) is allowed


def written(tmp_path: Path, text: str) -> Testbed:
    path = tmp_path / "lab.toml"
    path.write_text(text)
    return read_testbed(str(path))


def test_one_host_with_a_name_is_the_same_as_one_without(tmp_path: Path) -> None:
    named = written(tmp_path, '[hosts.lab1]\ntransport = "ssh=root@lab1"\n')
    plain = written(tmp_path, '[agent]\ntransport = "ssh=root@lab1"\n')
    assert named.agent == plain.agent
    assert not named.hosts
    assert written(tmp_path, '[hosts.a]\ntransport = "netns"\n').agent.netns_host == "a"


def test_one_host_with_a_name_has_nics_as_one_without(tmp_path: Path) -> None:
    nics = '[[nics]]\ntester = "0000:3b:00.0"\ndut = "0000:5e:00.0"\n'
    named = written(tmp_path, f'[hosts.lab1]\ntransport = "ssh=root@lab1"\n{nics}')
    plain = written(tmp_path, f'[agent]\ntransport = "ssh=root@lab1"\n{nics}')
    assert named.nics == plain.nics
    assert len(named.nics) == 1


NORTH = '[hosts.north]\ntransport = "netns"\n'
HOSTS = '[hosts.east]\ntransport = "netns"\n[hosts.west]\ntransport = "netns"\n'
CABLE = '[[cables]]\nends = ["east:c0", "west:c0"]\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (CABLE, "cables: cables join hosts"),
        (HOSTS, "cables: no cable leads from east to west"),
        (HOSTS + '[[cables]]\nends = ["east:c0", "wets:c0"]\n', "did you mean 'west'?"),
        (HOSTS + CABLE + '[[cables]]\nends = ["west:c1", "east:c0"]\n', "cables.1.ends: east:c0"),
        (HOSTS + '[[cables]]\nends = ["east:c0", "east:c1"]\n', "both ends are at east"),
        (HOSTS + '[[cables]]\nends = ["east", "west:c0"]\n', "HOST:NIC"),
        (HOSTS + CABLE + '[agent]\ntransport = "ssh=root@x"\n', "agent.transport: "),
        (HOSTS + CABLE + '[[nics]]\ntester = "a"\ndut = "b"\n', "nics: "),
        (HOSTS.replace("netns", "local") + CABLE, "are the same machine"),
        (HOSTS.replace("netns", "local", 1) + CABLE, "accepted: two netns hosts"),
        (HOSTS.replace("netns", "telnet=x") + CABLE, "hosts.east.transport"),
        (HOSTS.replace("hosts.east", "hosts.East") + CABLE, "hosts.East"),
        ((HOSTS + NORTH).replace('"netns"', '"netns"\nrole = "tester"') + CABLE, "all the tester"),
        (HOSTS.replace('"netns"', '"netns"\nrole = "dut"') + CABLE, "every host is a DUT"),
        (HOSTS.replace('"netns"', '"netns"\nrole = "vnf"') + CABLE, "hosts.east.role"),
        (HOSTS + CABLE + '[hosts.west.programs]\nvqp = "/x"\n', "hosts.west.programs.vqp"),
        (HOSTS + NORTH + CABLE, "to north"),
    ],
)
def test_a_wrong_graph_is_refused_with_file_and_key(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        written(tmp_path, text)
    assert says in str(refused.value)
    assert "lab.toml" in str(refused.value)


@pytest.mark.parametrize("name", SPANNING)
def test_each_vswitch_of_a_spanning_deployment_has_a_graph_of_its_own(name: str) -> None:
    whole = make_deployment(name)
    sites = [whole.site(number) for number in range(len(whole.sites))]
    assert sum(site.vnf_count for site in sites) == whole.vnf_count
    assert {hop for site in sites for hop in site.hops} == {*whole.hops}
    assert sorted(str(p) for s in sites for p in s.ports) == sorted(map(str, whole.ports))
    for site in sites:
        assert {p for segment in site.segments() for p in segment} == {*site.ports}


def test_a_path_goes_over_the_cables_and_back() -> None:
    whole = make_deployment("v2p2v")
    forth = [str(port) for port in whole.path(whole.ends[0], 0)]
    assert forth == ["vnf1.0", "phy0", "phy2", "vnf0.0", "vnf0.1", "phy3", "phy1", "vnf1.1"]
    assert [str(port) for port in whole.path(whole.ends[1], 0)] == forth[::-1]


def test_a_vswitch_that_no_frame_passes_is_none() -> None:
    whole = make_deployment("v2p2v")
    lonely: Any = whole.model_copy(update={"sites": ((VnfPort(vnf=7, index=0),),)})
    with pytest.raises(ValueError, match="no frame passes vSwitch 0"):
        lonely.site(0)
    assert PhyPort(index=2) in whole.site(1).phy_ports


def test_a_chain_over_two_vswitches_has_a_vnf_at_each() -> None:
    whole = make_deployment("pvp2pvp")
    forth = "phy0 vnf0.0 vnf0.1 phy1 phy2 vnf1.0 vnf1.1 phy3"
    assert " ".join(map(str, whole.path(whole.ends[0], 0))) == forth
    near, far = whole.site(0), whole.site(1)
    assert [*near.vnf_numbers, *far.vnf_numbers] == [0, 1]
    # What a vSwitch's frames come by: the tester's port, or the cable in its stead.
    assert [[str(end) for end in site.ends] for site in (near, far)] == [
        ["phy0", "phy1"],
        ["phy2", "phy3"],
    ]
    assert {str(port) for port in far.ports} == {"phy2", "phy3", "vnf1.0", "vnf1.1"}


@pytest.mark.parametrize("name", [name for name in SPANNING if name not in ACROSS])
def test_addresses_over_a_cable_are_those_of_what_takes_frames_in(name: str) -> None:
    whole = make_deployment(name)
    for end in whole.ends:
        ports = whole.path(end, 0)
        for port in ports[:-1:2]:  # where frames enter a vSwitch: those are of the next VNF, or end
            at = ports.index(port)
            after = [p for p in ports[at + 1 :] if isinstance(p, VnfPort)] or [ports[-1]]
            wanted = port_mac(whole, after[0], 0)
            assert peer_mac(whole, port) == wanted
            site = next(s for n, s in enumerate(map(whole.site, (0, 1))) if port in whole.sites[n])
            assert peer_mac(site, port) == wanted
