"""What a configuration makes of variants: checked before the first case, and as scenarios."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

from vnetperf.model.errors import CapabilityError, ConfigError
from vnetperf.pytest_plugin.options import check_mode, check_names

if TYPE_CHECKING:
    from vnetperf.config import Configuration
    from vnetperf.model.machine import MachineFacts
    from vnetperf.model.scenario import Scenario
    from vnetperf.model.variant import Comparison, Variant
    from vnetperf.pytest_plugin.variants import Selected


def check_variants(configuration: Configuration, comparisons: Iterable[Comparison]) -> None:
    """Refuse variants that are wrong whatever the machine is.

    Args:
        configuration: What they are laid over.
        comparisons: Comparisons that will be run.

    Raises:
        UsageError: A setting that is none, or a wrong value of it.
    """
    checked: set[Variant] = set()
    for comparison in comparisons:
        for variant in comparison.variants:
            if variant in checked:
                continue
            checked.add(variant)
            try:
                check_names(configuration.varied(variant).settings)
            except ConfigError as error:
                raise pytest.UsageError(f"{comparison.name}: {error}") from None


def scenario_of(configuration: Configuration, selected: Selected, facts: MachineFacts) -> Scenario:
    """A scenario as the configuration and its variant have it.

    Args:
        configuration: What the variant is laid over.
        selected: Scenario and variant.
        facts: The machine.

    Returns:
        The scenario.

    Raises:
        CapabilityError: A variant's parts do not fit together, or change nothing.
    """
    from vnetperf.bench.effect import check_effect
    from vnetperf.bench.scenarios import make_scenario

    varied = configuration.varied(selected.variant)
    try:
        check_mode(varied.settings)
    except ConfigError as error:  # what is wrong for a variant may be right for others
        raise CapabilityError(error.what, where=selected.id, accepted=error.accepted) from None
    scenario = make_scenario(selected.scenario, varied, selected.variant.id)
    check_effect(scenario, selected.variant, facts)
    return scenario
