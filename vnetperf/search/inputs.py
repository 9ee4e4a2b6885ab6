"""What a search was given besides goals and loads, as a report prints it."""

from __future__ import annotations

from vnetperf.model.goal import SearchLimits
from vnetperf.search.tst009 import OfferedLoads


def inputs_told(limits: SearchLimits) -> dict[str, str]:
    """Name the inputs of a search.

    Args:
        limits: What it was given.

    Returns:
        Name -> value with its unit; empty for a search that was given no more than its loads.
    """
    told: dict[str, str] = {}
    if limits.steps is not None:
        loads = OfferedLoads(limits.max_load_fps, limits.steps.step_fps)
        z = limits.steps.z
        told |= {
            "StepSize": f"{limits.steps.step_fps:.10g} frames/s per interface",
            "n": str(loads.count),
            "max(r)": str(limits.steps.max_r),
            "z": "unset" if z is None else f"{z} frames",
        }
    if limits.max_trial_seconds is not None:
        told["budget"] = f"{limits.max_trial_seconds:g} s"
        if limits.trial_overhead_s:
            told["budget"] += f", {limits.trial_overhead_s:g} s around each trial included"
    return told
