"""Receive queues that a scenario pins to workers: what cannot be meant."""

from __future__ import annotations

from vnetperf.model.scenario import Scenario


def why_not(scenario: Scenario) -> str:
    """Why the pins of a scenario cannot be followed.

    Args:
        scenario: The scenario.

    Returns:
        "" when they can; otherwise the reason and the cure.
    """
    names = [str(port) for port in scenario.deployment.ports]
    strangers = [pin.port for pin in scenario.options.rxq_affinity if pin.port not in names]
    if not strangers:
        return ""
    return (
        f"rxq_affinity names port {strangers[0]}, which {scenario.deployment.name} has not; "
        f"name one of {', '.join(names)}"
    )
