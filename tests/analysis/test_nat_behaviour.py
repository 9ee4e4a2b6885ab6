"""What the ledger makes of how a NAT behaves, of each mode and by its options."""

from __future__ import annotations

from typing import Any, cast

import pytest

from vnetperf.analysis.compliance.rfc4787 import behaviours, check_behaviour
from vnetperf.log.records import ScenarioRecord
from vnetperf.model.deployment import make_deployment
from vnetperf.model.nat import Nat, NatBehaviour
from vnetperf.model.options import SwitchOptions
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.result import LedgerEntry, ScenarioFacts
from vnetperf.model.scenario import Scenario
from vnetperf.vswitches.cgnat.base import NatSwitch
from vnetperf.vswitches.cgnat.switch import Cgnat

MODES = Cgnat.capabilities.modes


def scenario(mode: str, variant: str = "", **options: Any) -> Scenario:
    return Scenario(
        deployment=make_deployment("phy2phy"),
        vswitch="cgnat",
        traffic=TrafficProfile(),
        change=Nat(),
        variant=variant,
        options=SwitchOptions(mode=mode, **options),
    )


def deployed(of: Scenario, told: dict[str, Any] | None = None, host: str = "") -> ScenarioRecord:
    mode = cast("type[NatSwitch]", Cgnat.mode_class(of))
    behaviour = mode.behaviour(of).model_dump(exclude_none=True)
    facts: dict[str, Any] = {"vswitch": {"behaviour": behaviour if told is None else told}}
    facts = {"hosts": {host: facts}} if host else facts
    return ScenarioRecord(scenario=of, facts=ScenarioFacts(scenario=of.id, facts=facts))


def clause(entries: list[LedgerEntry], name: str) -> LedgerEntry:
    names = (f"{name} ", f"{name},")
    (found,) = (one for one in entries if one.clause.startswith(names))
    return found


def status(mode: str, name: str, **options: Any) -> str:
    return clause(list(check_behaviour([deployed(scenario(mode, **options))])), name).status


def test_a_nat_of_our_own_meets_what_it_is_made_for() -> None:
    found = list(check_behaviour([deployed(scenario("rtc"))]))
    assert {
        one.clause.removesuffix(" (from a secondary source)") for one in found if one.reason
    } == {
        "RFC 6888 REQ-5",  # session_limit is 0
        "RFC 6888 REQ-15",  # ports are kept
    }
    assert clause(found, "RFC 6888 REQ-8").value.startswith("no other ever has them")
    assert all(one.status in ("met", "deviated") for one in found)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("RFC 4787 REQ-5", {"udp_timeout": 119}),
        ("RFC 5382 REQ-5", {"tcp_timeout": 7439}),
        ("RFC 5382 REQ-5", {"tcp_transitory_timeout": 239}),
        ("RFC 7857 section 2", {"tcp_transitory_timeout": 239}),
        ("RFC 5508 REQ-2", {"icmp_timeout": 59}),
        ("RFC 4787 REQ-8", {"filtering": "address-and-port"}),
        ("RFC 6888 REQ-8", {"blocks": "dynamic", "block_hold": 119}),
    ],
)
def test_an_option_below_what_is_asked_deviates(name: str, options: dict[str, Any]) -> None:
    assert status("rtc", name) == "met"
    assert status("rtc", name, **options) == "deviated"


@pytest.mark.parametrize(
    ("name", "options"),
    [("RFC 6888 REQ-5", {"session_limit": 1000}), ("RFC 6888 REQ-8", {"blocks": "dynamic"})],
)
def test_an_option_meets_what_is_asked(name: str, options: dict[str, Any]) -> None:
    assert status("pipeline", name, **options) == "met"


def test_modes_differ() -> None:
    assert status("xdp", "RFC 4787 REQ-14") == "deviated"
    assert status("nft", "RFC 4787 REQ-8") == "deviated"
    assert status("nft", "RFC 6888 REQ-15", random_ports=True) == "met"
    assert status("nft", "RFC 4787 REQ-1") == "not looked at"
    assert status("vpp-det44", "RFC 6888 REQ-2") == "met"
    assert status("vpp-nat44", "RFC 6888 REQ-2") == "not looked at"


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_knows_its_timers(mode: str) -> None:
    told = behaviours([deployed(scenario(mode, udp_timeout=77))])
    (one,) = told.values()
    assert (one.udp_s, one.tcp_s, one.icmp_s) == (77, 7440, 60)


def test_scenarios_that_differ_stand_apart_and_equal_clauses_once() -> None:
    both = [deployed(scenario("rtc", "a")), deployed(scenario("xdp", "b"), host="h2")]
    found = list(check_behaviour(both))
    fragments = [one for one in found if one.clause.startswith("RFC 4787 REQ-14 ")]
    assert [(one.scenario, one.status) for one in fragments] == [
        ("phy2phy_cgnat,a", "met"),
        ("phy2phy_cgnat,b", "deviated"),
    ]
    assert clause(found, "RFC 4787 REQ-1").scenario == ""


@pytest.mark.parametrize("told", [{"mapping": "other"}, {"of": "a plugin"}])
def test_what_is_in_no_known_form_is_left_out(told: dict[str, Any]) -> None:
    assert list(check_behaviour([deployed(scenario("rtc"), told)])) == []


def test_a_run_without_a_nat_has_none_of_them() -> None:
    plain = scenario("rtc").model_copy(update={"change": None})
    record = ScenarioRecord(scenario=plain, facts=ScenarioFacts(scenario=plain.id, facts={}))
    assert list(check_behaviour([record])) == []
    assert NatBehaviour().model_dump(exclude_none=True) == {}
