"""Load balancing of services: flows and their two sides, rules, and what is refused."""

from __future__ import annotations

import re
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from pydantic import ValidationError

from tests.fakes.machine import PROGRAMS, facts
from vnetperf.config.settings import change_options
from vnetperf.model.balancing import BACKENDS, CLIENTS, CLUSTER, VIRTUAL, Services
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import CapabilityError
from vnetperf.model.options import SwitchOptions
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.planning.capability_check import deployment_errors
from vnetperf.planning.planner import make_plan
from vnetperf.plugin import registry
from vnetperf.plugin.compiled_frames import CompiledFrame, compile_traffic
from vnetperf.vswitches.lb import ipvs
from vnetperf.vswitches.lb.ipvs import count_connections, ipvs_rules
from vnetperf.vswitches.lb.rules import RuleBalancer, iptables_rules, nft_rules
from vnetperf.vswitches.lb.switch import ServiceBalancer

SERVICES = Services(services=3, flows=11, clients=2)
ONE_WAY = TrafficProfile(bidirectional=False)


def scenario(
    services: Services = SERVICES, profile: TrafficProfile | None = None, **options: Any
) -> Scenario:
    made = Scenario(
        deployment=make_deployment("phy2phy"),
        vswitch="lb",
        traffic=profile or TrafficProfile(),
        wire="veth",
        change=services,
        options=SwitchOptions(**options),
    )
    return ServiceBalancer.adapted(made, Testbed())


def plan(mode: str, **have: Any) -> Plan:
    programs = {**PROGRAMS, "nft": "/x", "iptables-restore": "/x", "clang": "/x"}
    return make_plan(scenario(mode=mode), Testbed(), facts(programs=programs, **have))


def compiled(services: Services, profile: TrafficProfile) -> tuple[CompiledFrame, ...]:
    return compile_traffic(scenario(services, profile).streams, profile, profile.least_frame_size)


def ends(octets: bytes) -> tuple[str, int, str, int]:
    """Source and destination of a frame: addresses and ports."""
    source, target = (str(IPv4Address(octets[at : at + 4])) for at in (26, 30))
    ports = [int.from_bytes(octets[at : at + 2]) for at in (34, 36)]
    return source, ports[0], target, ports[1]


def with_fields(octets: bytes, frame: CompiledFrame, number: int, *, back: bool) -> bytes:
    written = bytearray(octets)
    for one in frame.expected if back else frame.fields:
        value = one.value(number).to_bytes(one.width, "big")
        written[one.offset : one.offset + one.width] = value
    return bytes(written)


def test_each_flow_is_on_both_sides_what_its_service_says() -> None:
    out, answers = compiled(SERVICES, TrafficProfile())
    seen = set()
    for number in range(SERVICES.flows):
        service = number % SERVICES.services
        sent = ends(with_fields(out.template, out, number, back=False))
        came = ends(with_fields(bytes(60), out, number, back=True))
        assert sent[2:] == (str(SERVICES.virtual(service)), 80)
        assert came[2:] == (str(SERVICES.service_backends(service)[0]), 8080)
        assert came[:2] == sent[:2]
        # The answer goes the same way back.
        assert (
            ends(with_fields(answers.template, answers, number, back=False)) == came[2:] + came[:2]
        )
        assert ends(with_fields(bytes(60), answers, number, back=True)) == sent[2:] + sent[:2]
        seen.add(sent)
        assert IPv4Address(sent[0]) in CLIENTS
    assert len(seen) == SERVICES.flows
    # The next frame after the last flow is of the first again, in every field.
    around = with_fields(out.template, out, SERVICES.flows, back=False)
    assert around == with_fields(out.template, out, 0, back=False)


def test_of_several_backends_the_network_of_the_service_is_looked_at() -> None:
    several = Services(services=300, backends=254, flows=300)
    (out,) = compiled(several, ONE_WAY)
    for number in (0, 1, 255, 299):
        came = ends(with_fields(bytes(60), out, number, back=True))
        networks = {str(one).rpartition(".")[0] for one in several.service_backends(number)}
        assert networks == {came[2].rpartition(".")[0]}
    every = [one for n in range(300) for one in several.service_backends(n)]
    assert len(set(every)) == len(every)
    assert all(one in BACKENDS for one in every)


def test_no_address_is_of_two_kinds() -> None:
    kinds = VIRTUAL, CLIENTS, BACKENDS
    assert all(kind.subnet_of(CLUSTER) for kind in kinds)
    assert not any(a.overlaps(b) for a in kinds for b in kinds if a is not b)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"services": 100, "flows": 99}, "99 flows leave some of 100 services without any"),
        ({"services": 1, "clients": 1, "flows": 64_513}, "have 64512 flows to 1 services at most"),
        ({"services": 40_000}, "less than or equal to 32768"),
        ({"backends": 255}, "less than or equal to 254"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_numbers(given: dict[str, int], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Services.model_validate(given)


def test_the_setting_is_typed_in_one_or_in_pieces() -> None:
    assert change_options("lb", ("services=2,flows=3", "backends=4")) == Services(
        services=2, flows=3, backends=4
    )


def test_answers_of_several_backends_cannot_be_sent() -> None:
    several = Services(backends=2)
    (error,) = deployment_errors(scenario(several))
    assert "which of 2 backends" in str(error)
    assert not list(deployment_errors(scenario(several, ONE_WAY)))


def test_nft_finds_a_service_by_one_map() -> None:
    text = nft_rules(Services(services=3, backends=2), "tcp")
    chains = re.findall(r"goto (service-\S+?)[,\s]", text)
    assert len(chains) == 3
    for chain in chains:
        assert text.count(f"chain {chain} {{") == 1
    assert text.count("numgen random mod 2 vmap { 0 : goto endpoint-") == 3
    assert "dnat to 10.128.2.2:8080" in text
    assert "10.96.0.3 . tcp . 80 : goto service-00000002-" in text


def test_ipvs_has_a_service_and_its_backends_and_nothing_else() -> None:
    lines = list(ipvs_rules(Services(services=2, backends=2), "udp"))
    assert lines == [
        "-A -u 10.96.0.1:80 -s rr",
        "-a -u 10.96.0.1:80 -r 10.128.0.1:8080 -m -w 1",
        "-a -u 10.96.0.1:80 -r 10.128.0.2:8080 -m -w 1",
        "-A -u 10.96.0.2:80 -s rr",
        "-a -u 10.96.0.2:80 -r 10.128.1.1:8080 -m -w 1",
        "-a -u 10.96.0.2:80 -r 10.128.1.2:8080 -m -w 1",
    ]
    assert next(ipvs_rules(Services(), "tcp")).startswith("-A -t ")


IPVS_HEADER = """\
IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
"""
#: As Linux 6.12 told it of 30 flows, but for spaces at the ends of lines.
IPVS_UDP = """\
UDP  0A600001:0050 rr
  -> 0A800001:1F90      Masq    1      0          15
UDP  0A600002:0050 rr
  -> 0A800101:1F90      Masq    1      0          15
"""
IPVS_TCP = """\
TCP  0A600002:0050 rr
  -> 0A800101:1F90      Masq    1      15         0
TCP  0A600001:0050 rr
  -> 0A800001:1F90      Masq    1      15         0
"""


@pytest.mark.parametrize(
    ("told", "sessions"), [("", 0), (IPVS_UDP, 30), (IPVS_TCP, 30), (IPVS_UDP + IPVS_TCP, 60)]
)
def test_ipvs_holds_what_its_backends_have_active_or_not(told: str, sessions: int) -> None:
    assert count_connections(IPVS_HEADER + told) == sessions


def test_settings_of_ipvs_are_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that does not have one ignores it: so the result has what it was measured with."""
    for name, value in {"conntrack": 1, "expire_nodest_conn": 0, "sloppy_tcp": 1}.items():
        (tmp_path / name).write_text(f"{value}\n")
    monkeypatch.setattr(ipvs, "IPVS_SETTINGS", tmp_path)
    monkeypatch.setattr(RuleBalancer, "facts", lambda _: {"mode": "ipvs"})
    switch = ipvs.IpvsBalancer.__new__(ipvs.IpvsBalancer)
    switch.machine = MagicMock(in_netns=lambda function: function())
    assert switch.facts()["settings of IPVS"] == {
        "conntrack": "1",
        "expire_nodest_conn": "0",
        "expire_quiescent_template": "not there",
        "sloppy_tcp": "1",
    }


@pytest.mark.parametrize(
    ("have", "why"),
    [
        ({"programs": {**PROGRAMS}}, "install the package ipvsadm"),
        ({"modules": {"ip_vs_rr": "it is not there"}}, "ip_vs_rr"),
        ({"modules": {"ip_vs": "it is not there"}}, "ip_vs"),
    ],
)
def test_ipvs_needs_its_modules_and_its_program(have: dict[str, Any], why: str) -> None:
    machine = {"programs": {**PROGRAMS, "ipvsadm": "/x"}, **have}
    assert why in ServiceBalancer.missing(facts(**machine), scenario(mode="ipvs"))
    assert not ServiceBalancer.missing(
        facts(programs={**PROGRAMS, "ipvsadm": "/x"}), scenario(mode="ipvs")
    )


def test_what_a_mode_needs_is_looked_for_and_keeps_no_other_mode_back() -> None:
    assert {"nf_conntrack", "nf_nat", "ip_vs", "ip_vs_rr"} <= registry.kernel_modules().keys()
    assert {"nft", "iptables-restore", "ipvsadm", "clang"} <= registry.programs().keys()
    programs = {**PROGRAMS, "nft": "/x", "clang": "/x"}
    lacking = facts(programs=programs, modules={"nf_nat": "it is not there"})
    problem = ServiceBalancer.missing(lacking, scenario(mode="nft"))
    assert "nf_nat" in problem
    assert not ServiceBalancer.missing(lacking, scenario(mode="tc"))


def test_iptables_has_a_rule_for_each_service_and_a_chance_for_each_backend() -> None:
    lines = list(iptables_rules(Services(services=4, backends=3), "udp"))
    assert sum(line.startswith("-A KUBE-SERVICES") and "dport 80" in line for line in lines) == 4
    one = [line for line in lines if line.startswith(f"-A KUBE-SVC-{1:016X}")]
    assert [re.findall(r"probability (\S+)", line) for line in one] == [
        [],
        ["0.3333333333"],
        ["0.5000000000"],
        [],
    ]
    jumps = {line.split(" -j ")[1].split()[0] for line in lines if " -j KUBE" in line}
    assert {line[1:].split()[0] for line in lines if line.startswith(":")} == jumps


def test_a_plan_names_rules_or_programs() -> None:
    (line,) = ServiceBalancer.launch_lines(plan("iptables")).values()
    assert line == f"kube-proxy's rules for {SERVICES}"
    (line,) = ServiceBalancer.launch_lines(plan("tc")).values()
    for words in ("both ports", "3 services", "1 backend", "11 flows"):
        assert words in line


@pytest.mark.parametrize("mode", ["tc", "xdp"])
def test_programs_are_refused_where_the_kernel_loads_none(mode: str) -> None:
    with pytest.raises(CapabilityError, match="no programs here"):
        plan(mode, bpf="no programs here")
    plan("nft", bpf="no programs here")


def test_the_kernel_must_link_programs_to_traffic_control() -> None:
    with pytest.raises(CapabilityError, match=r"boot Linux 6\.6"):
        plan("tc", tcx="none here; boot Linux 6.6 or later")
    plan("xdp", tcx="none here")
