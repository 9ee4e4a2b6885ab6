"""Transfers of a scenario that were measured in several cases, or again after an interruption."""

from __future__ import annotations

from collections.abc import Iterable

from vnetperf.model.transfer import Transfer, Transfers, TransferSpec


def merged(found: Iterable[Transfers]) -> tuple[Transfers, ...]:
    """All transfers of each scenario, in the order in which they were first run.

    Args:
        found: By case.

    Returns:
        One entry for each scenario; what was run twice is as it was the last time.
    """
    scenarios: dict[str, dict[TransferSpec, Transfer]] = {}
    for one in found:
        transfers = scenarios.setdefault(one.scenario, {})
        for transfer in one.transfers:
            transfers[_asked(transfer.spec)] = transfer
    return tuple(
        Transfers(scenario=scenario, transfers=tuple(transfers.values()))
        for scenario, transfers in scenarios.items()
    )


def _asked(spec: TransferSpec) -> TransferSpec:
    """What was asked, without a rate that an earlier transfer gave."""
    return spec.model_copy(update={"rate_bps": 0.0}) if spec.rate_of_tcp else spec
