"""The numbers of users' own traffic, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from vnetperf.bench.quantity import Quantity, Unit
from vnetperf.model.result import RunResults
from vnetperf.model.transfer import Transfer
from vnetperf.statistics.difference import Measured

TEST = "transfers"


def transfer_quantities(results: RunResults) -> Iterator[Quantity]:
    """Every number of every transfer of a run.

    Args:
        results: The run.

    Yields:
        Payload that arrived, or transactions; and beside it round trips and losses.
    """
    for found in results.transfers:
        for transfer in found.transfers:
            yield from _of(found.scenario, transfer)


def _of(scenario: str, transfer: Transfer) -> Iterator[Quantity]:
    spec = transfer.spec
    name = f"{spec.kind} {spec.way}"
    asked: dict[str, Any] = {
        "seconds": spec.duration_s,
        "instances": spec.instances,
        "tool": transfer.version.partition(" ")[0],
    }

    def make(
        what: str,
        unit: Unit,
        better: Literal["more", "less"],
        value: float | None,
        *,
        main: bool,
    ) -> Quantity:
        return Quantity(
            scenario=scenario,
            test=TEST,
            size="" if spec.message_size is None else str(spec.message_size),
            name=what,
            unit=unit,
            better=better,
            measured=None if value is None else Measured.exact(value),
            main=main,
            why="the tool does not tell",
            asked=asked,
        )

    if spec.is_stream:
        yield make(name, "bit/s", "more", transfer.bits_per_second, main=True)
    else:
        yield make(name, "1/s", "more", transfer.transactions_per_second, main=True)
    for percentile in ("50", "99"):
        microseconds = transfer.round_trip_us.get(percentile)
        if microseconds is not None:
            yield make(
                f"{name} round trip p{percentile}", "ns", "less", microseconds * 1e3, main=False
            )
    if transfer.loss_ratio is not None:
        yield make(f"{name} loss", "ratio", "less", transfer.loss_ratio, main=False)
