"""Bridges that learn: how many addresses they must hold, and what OVS allows."""

from __future__ import annotations

from typing import Any

from vnetperf.model.flows import flow_count
from vnetperf.model.scenario import Scenario
from vnetperf.vswitches.openvswitch.instance import PrivateOvs
from vnetperf.vswitches.openvswitch.layout import Bridge

#: Size of a bridge's table since OVS 3.2 (2048 before), and the largest there can be.
TABLE, LARGEST_TABLE = 8192, 1_000_000
#: Seconds after which an address that is not seen is forgotten: OVS's own.
AGEING_S = 300


def addresses(scenario: Scenario) -> int:
    """Addresses that a bridge of a scenario sees at most.

    Args:
        scenario: The scenario.

    Returns:
        Number.
    """
    varied = flow_count(scenario.traffic) if "eth_src" in scenario.traffic.vary else 1
    return varied * len(scenario.streams) + len(scenario.deployment.ports)


def why_not(scenario: Scenario) -> str:
    """Why a bridge cannot learn a scenario's addresses.

    Args:
        scenario: The scenario.

    Returns:
        "" when it can, or does not learn; otherwise the reason and the cure.
    """
    if scenario.rules != "learning" or addresses(scenario) <= LARGEST_TABLE:
        return ""
    each = (LARGEST_TABLE - len(scenario.deployment.ports)) // max(1, len(scenario.streams))
    return (
        f"a bridge of OVS learns at most {LARGEST_TABLE} addresses and this traffic has "
        f"{addresses(scenario)}; set flows to {each} or fewer"
    )


def settings(scenario: Scenario) -> list[str]:
    """Settings of a bridge that learns: room for every address, so that none is forgotten.

    Args:
        scenario: The scenario.

    Returns:
        Columns as `ovs-vsctl set bridge` takes them.
    """
    size = min(LARGEST_TABLE, max(TABLE, addresses(scenario)))
    return [f"other_config:mac-table-size={size}", f"other_config:mac-aging-time={AGEING_S}"]


def facts(ovs: PrivateOvs, bridges: tuple[Bridge, ...]) -> dict[str, Any]:
    """What the bridges have learned so far.

    Args:
        ovs: The running instance.
        bridges: Its bridges.

    Returns:
        JSON values; empty when none learns.
    """
    learning = {
        bridge.name: ovs.appctl("fdb/stats-show", bridge.name).splitlines()
        for bridge in bridges
        if bridge.learns
    }
    return {"address tables": learning} if learning else {}
