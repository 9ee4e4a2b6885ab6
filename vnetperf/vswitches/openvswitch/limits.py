"""How many flows the datapath may hold."""

from __future__ import annotations

from vnetperf.model.flows import flow_count
from vnetperf.model.scenario import Scenario

#: OVS's own limit of the datapath's flows.
OWN_LIMIT = 200_000


def flow_limit(scenario: Scenario) -> dict[str, str]:
    """Room for a flow of the datapath for each rule or address.

    Beyond the limit every frame of a flow that found no room takes the slow way through the
    daemon.

    Args:
        scenario: The scenario.

    Returns:
        Key and value for other_config; empty where OVS's own limit will do.
    """
    if scenario.rules == "port":
        return {}
    flows = flow_count(scenario.traffic) * len(scenario.streams) * len(scenario.deployment.hops)
    return {"flow-limit": str(2 * flows)} if 2 * flows > OWN_LIMIT else {}
