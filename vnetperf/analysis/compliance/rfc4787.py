"""RFC 4787, 5382, 5508, 6888 and 7857: what a NAT has to do, as its backend knows it.

Of a mode that does not know of something (VPP's, in part) the clause is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from vnetperf.analysis.compliance.clause import entry
from vnetperf.log.records import ScenarioRecord
from vnetperf.model.nat import NatBehaviour
from vnetperf.model.result import LedgerEntry

_SOURCE = "(from a secondary source)"
#: Least idle times, seconds: of UDP (RFC 4787 REQ-5, which recommends 300), of TCP established and
#: not (RFC 5382 REQ-5), of ICMP queries (RFC 5508 REQ-2).
_UDP_S, _TCP_S, _TRANSITORY_S, _ICMP_S = 120.0, 7440.0, 240.0, 60.0
#: Least rest of a block before another subscriber has it, seconds (RFC 6888 REQ-8).
_HOLD_S = 120.0
_FREE = "endpoint-independent"


def behaviours(deployed: Sequence[ScenarioRecord]) -> dict[str, NatBehaviour]:
    """Scenario to what its NAT does; those without a NAT are left out."""
    behaviour_by_scenario = {}
    for record in deployed:
        facts: dict[str, Any] = record.facts.facts
        parts = [facts, *facts.get("hosts", {}).values()]
        for part in parts:
            switch = part.get("vswitch") if isinstance(part, dict) else None
            if isinstance(switch, dict) and isinstance(behaviour := switch.get("behaviour"), dict):
                try:
                    behaviour_by_scenario[record.scenario.id] = NatBehaviour(**behaviour)
                except ValidationError:  # facts of a plugin, which are in no form
                    continue
    return behaviour_by_scenario


def check_behaviour(deployed: Sequence[ScenarioRecord]) -> Iterator[LedgerEntry]:
    """Hold the NATs of a run against the RFCs on NATs; where they differ, each by itself."""
    clauses = {scenario: list(_clauses(nat)) for scenario, nat in behaviours(deployed).items()}
    for rows in zip(*clauses.values(), strict=True):
        if all(row == rows[0] for row in rows):
            yield rows[0]
            continue
        for scenario, row in zip(clauses, rows, strict=True):
            yield row.model_copy(update={"scenario": scenario})


def _clauses(nat: NatBehaviour) -> Iterator[LedgerEntry]:
    yield _entry(
        "RFC 4787 REQ-1",
        "a mapping is independent of endpoints",
        None if nat.mapping is None else nat.mapping == _FREE,
        nat.mapping or "",
    )
    yield _entry(
        "RFC 4787 REQ-5",
        "an idle mapping of UDP ends after 120 s at the earliest; 300 s are recommended",
        _reaches(nat.udp_s, _UDP_S),
        _seconds(nat.udp_s),
    )
    has_timeouts = nat.tcp_s is not None and nat.tcp_transitory_s is not None
    yield _entry(
        "RFC 5382 REQ-5",
        "an idle connection lasts 7440 s at the least, one that opens or closes 240 s",
        all(map(_reaches, (nat.tcp_s, nat.tcp_transitory_s), (_TCP_S, _TRANSITORY_S)))
        if has_timeouts
        else None,
        f"{_seconds(nat.tcp_s)} and {_seconds(nat.tcp_transitory_s)}",
    )
    yield _entry(
        "RFC 5508 REQ-2",
        "an idle mapping of ICMP queries ends after 60 s at the earliest",
        _reaches(nat.icmp_s, _ICMP_S),
        _seconds(nat.icmp_s),
    )
    yield _entry(
        "RFC 4787 REQ-8, RFC 6888 REQ-7",
        "filtering is independent of endpoints, where transparency matters most",
        None if nat.filtering is None else nat.filtering == _FREE,
        "by address and port" if nat.filtering == "address-and-port" else nat.filtering or "",
    )
    yield _entry(
        "RFC 4787 REQ-9",
        "subscribers reach each other by their public addresses (hairpinning)",
        nat.hairpinning,
        "they do" if nat.hairpinning else "they do not",
    )
    yield _entry(
        "RFC 4787 REQ-14",
        "fragments are translated, in whatever order they come",
        nat.fragments,
        "they are" if nat.fragments else "they are dropped",
    )
    yield _entry(
        "RFC 6888 REQ-2",
        "all ports of a subscriber are of one public address",
        nat.paired,
        "they are" if nat.paired else "they are not",
    )
    yield _entry(
        "RFC 6888 REQ-4",
        "ports of a subscriber are limited",
        nat.port_limit,
        "to its blocks" if nat.port_limit else "they are not",
    )
    yield _entry(
        "RFC 6888 REQ-5",
        "what a subscriber can take of the table is limited",
        None if nat.session_limit is None else nat.session_limit > 0,
        f"{nat.session_limit} sessions" if nat.session_limit else "no limit of sessions",
    )
    yield _entry(
        "RFC 6888 REQ-8",
        "ports rest for 120 s before another subscriber has them",
        True if nat.computed_blocks else _reaches(nat.block_hold_s, _HOLD_S),
        "no other ever has them: blocks are computed"
        if nat.computed_blocks
        else _seconds(nat.block_hold_s),
    )
    yield _entry(
        "RFC 6888 REQ-15",
        "ports are hard to guess",
        nat.random_ports,
        "at random inside a block" if nat.random_ports else "kept, or the next one of the block",
    )
    yield _entry(
        "RFC 7857 section 2",
        "a connection that was reset ends after the transitory time, 240 s at the earliest",
        _reaches(nat.reset_s, _TRANSITORY_S),
        _seconds(nat.reset_s),
    )


def _entry(clause: str, requirement: str, ok: bool | None, value: str) -> LedgerEntry:
    clause = f"{clause} {_SOURCE}"
    if ok is None:
        unknown = "the NAT's backend does not know"
        return LedgerEntry(
            clause=clause, requirement=requirement, status="not looked at", value=unknown
        )
    return entry(clause, requirement, ok, value, "so the NAT is in this mode, with these options")


def _reaches(seconds: float | None, least_s: float) -> bool | None:
    return None if seconds is None else seconds >= least_s


def _seconds(seconds: float | None) -> str:
    return "not known" if seconds is None else f"{seconds:g} s"
