"""Which events of a reset test cannot happen in a scenario, found out before anything is sent."""

from __future__ import annotations

from typing import Any

from vnetperf.bench.run import Run
from vnetperf.model.scenario import Scenario
from vnetperf.procedures import Kind
from vnetperf.procedures.reset import ResetInputs, events_of
from vnetperf.testbed.events import why_not


def inputs_of_events(
    run: Run, scenario: Scenario, kind: Kind, ends: tuple[str, str]
) -> dict[str, Any]:
    """What a test that resets something is given besides.

    Args:
        run: The run.
        scenario: What is deployed.
        kind: The test.
        ends: Ports of the DUT that the tester's ports 0 and 1 plug in at.

    Returns:
        Fields of its inputs; empty for other tests.
    """
    if kind.inputs is not ResetInputs:
        return {}
    plan = run.plan(scenario)
    whys = {what: why_not(plan, what) for what in events_of(run.configuration.preset.reset, ends)}
    return {"impossible": {what: why for what, why in whys.items() if why}}
