"""What a log says of comparisons: which variants belong together, and in which order."""

from __future__ import annotations

from collections.abc import Sequence

from vnetperf.model.result import ComparedVariant, ComparisonResult
from vnetperf.model.scenario import variant_id
from vnetperf.model.variant import Variant
from vnetperf.results.records import ComparisonRecord, Record, SkippedRecord


def comparisons_of(records: Sequence[Record]) -> tuple[ComparisonResult, ...]:
    """Every comparison once: a run that is resumed, or each worker of one, notes it again.

    Args:
        records: The log.

    Returns:
        In the order in which they were noted.
    """
    skipped = {r.scenario: r.why for r in records if isinstance(r, SkippedRecord)}
    found: dict[tuple[str, str], dict[str, Variant]] = {}
    titles: dict[str, str] = {}
    for record in records:
        if isinstance(record, ComparisonRecord):
            noted = record.comparison
            titles[noted.name] = noted.title
            known = found.setdefault((noted.name, noted.scenario), {})
            known.update({variant.id: variant for variant in noted.variants})
    return tuple(
        ComparisonResult(
            name=name,
            title=titles[name],
            scenario=scenario,
            variants=tuple(_compared(scenario, v, skipped) for v in variants.values()),
        )
        for (name, scenario), variants in found.items()
    )


def _compared(scenario: str, variant: Variant, skipped: dict[str, str]) -> ComparedVariant:
    name = variant_id(scenario, variant.id)
    return ComparedVariant(
        variant=variant.id, scenario=name, typed=variant.typed, skipped=skipped.get(name, "")
    )


def reading_order(comparisons: Sequence[ComparisonResult]) -> dict[str, int]:
    """Places of variants among those of their scenario, as their comparisons show them.

    Args:
        comparisons: The comparisons.

    Returns:
        Scenario with its variant -> place, from 1.
    """
    order: dict[str, int] = {}
    for comparison in comparisons:
        for variant in comparison.variants:
            order.setdefault(variant.scenario, len(order) + 1)
    return order
