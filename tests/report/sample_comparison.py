"""A made-up comparison beside the made-up run: python -m tests.report.sample_comparison DIR."""

from __future__ import annotations

import sys
from pathlib import Path

from vnetperf.model.result import (
    ComparedVariant,
    ComparisonResult,
    GoalResult,
    Result,
    RunResults,
)

from .sample import build

FACTORS = {"nic=virtio": 1.0, "nic=virtio,csum=false": 0.81, "e1000": 0.0, "rtl8139": 0.0}
SIZES = (64, 1518)


def _scaled(goal: GoalResult, factor: float) -> GoalResult:
    upper = goal.upper_bound_fps
    return goal.model_copy(
        update={
            "lower_bound_fps": goal.lower_bound_fps * factor if goal.lower_bound_fps else None,
            "upper_bound_fps": None if upper is None else upper * factor * 1.04,
            "qualifier": "" if upper is not None else goal.qualifier,
        }
    )


def with_comparison(results: RunResults) -> RunResults:
    """The run with four variants of one scenario: two measured, one skipped, one broken."""
    plain = {r.frame_size: r for r in results.results if r.scenario == "phy2phy_dpdk"}
    variants, found = [], []
    for variant, factor in FACTORS.items():
        scenario = f"pvp_dpdk,{variant}"
        variants.append(
            ComparedVariant(
                variant=variant,
                scenario=scenario,
                typed=(f"--guest {variant.partition(',')[0]}",),
                skipped="e1000: the switch has no taps" if variant == "e1000" else "",
            )
        )
        for size in SIZES:
            if variant == "e1000":
                continue
            if not factor:
                found.append(
                    Result(
                        scenario=scenario,
                        test="throughput",
                        frame_size=size,
                        status="not measured",
                        why="vnf0: is not ready within 180 s",
                        failed=True,
                    )
                )
                continue
            goals = tuple(_scaled(goal, factor) for goal in plain[size].goals)
            found.append(plain[size].model_copy(update={"scenario": scenario, "goals": goals}))
    comparison = ComparisonResult(
        name="test_vnic::test_throughput_by_nic",
        title="RFC 2544 throughput of a guest by what its NICs are.",
        scenario="pvp_dpdk",
        variants=tuple(variants),
    )
    return results.model_copy(
        update={"results": (*results.results, *found), "comparisons": (comparison,)}
    )


def main() -> int:
    """Write every report of the run."""
    from vnetperf.report import write_all  # noqa: PLC0415 - tests import this file for its results

    for path in write_all(with_comparison(build()), Path(sys.argv[1])):
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
