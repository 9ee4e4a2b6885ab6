"""One trial of what is deployed: learning frames, counters, traffic, drain, counters."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vnetperf.model.errors import (
    CapabilityError,
    DutError,
    GeneratorError,
    HostError,
    TrialTimeoutError,
)
from vnetperf.model.trial import LiveCounts, TrialResult, TrialSpec
from vnetperf.testbed import events
from vnetperf.testbed.collecting import Collecting
from vnetperf.testbed.counting import difference, settled

if TYPE_CHECKING:
    from vnetperf.testbed.deploy import Deployment

#: Share of the wait after learning frames by which they have come through; counters are read in
#: the rest of it.
SETTLED = 0.7


def conduct(
    deployment: Deployment,
    spec: TrialSpec,
    watch: Callable[[], None],
    on_live: Callable[[LiveCounts], None] | None,
) -> TrialResult:
    """Run one trial.

    A DUT or generator that dies gives a result without numbers that says so. A part that does not
    come back after the trial's event is said in `TrialResult.event`: what was lost counts.

    Args:
        deployment: What is deployed.
        spec: The trial.
        watch: Called while traffic runs; what it raises goes through.
        on_live: Told the counts so far now and then, where the generator can tell.

    Returns:
        The result.

    Raises:
        CapabilityError: The trial asks for what the generator or the DUT cannot do.
    """
    _check(deployment, spec)
    began = time.monotonic()
    happening = events.Happening(deployment, spec.event) if spec.event else None

    def watch_all() -> None:
        watch()
        if happening is not None:
            happening.look()
        if happening is None or not happening.failed:
            deployment.check_alive()
        if on_live is not None and (counts := deployment.generator.live()) is not None:
            on_live(counts)

    try:
        result = _run(deployment, spec, watch_all, happening)
    except TrialTimeoutError as error:
        result = TrialResult(directions=(), failed="timeout", failure=str(error))
    except GeneratorError as error:
        result = TrialResult(directions=(), failed="generator", failure=str(error))
    except (DutError, HostError) as error:
        result = TrialResult(directions=(), failed="dut", failure=str(deployment.cause(error)))
    return result.model_copy(update={"wall_s": round(time.monotonic() - began, 4)})


def _check(deployment: Deployment, spec: TrialSpec) -> None:
    scenario = deployment.plan.scenario
    if why := type(deployment.generator).lacks(spec):
        raise CapabilityError(
            f"{scenario.generator} cannot {why}",
            where=scenario.id,
            cure="--generator loadgen can",
        )
    if spec.event is not None:
        events.check(deployment.plan, spec.event, spec.duration_s)


def _run(
    deployment: Deployment,
    spec: TrialSpec,
    watch: Callable[[], None],
    happening: events.Happening | None,
) -> TrialResult:
    generator = deployment.generator
    deployment.check_alive()
    deployment.prepare(spec.frame_size)
    if spec.learning_frames:
        generator.learn(spec.learning_frames)
    learned = time.monotonic()
    collecting = Collecting(deployment.pollers())
    time.sleep(spec.learning_wait_s * SETTLED)
    before = settled(deployment.counters)
    time.sleep(max(0.0, learned + spec.learning_wait_s - time.monotonic()))
    collecting.start()
    try:
        result = generator.run(spec, watch)
    finally:
        collected = collecting.stop()
    told: dict[str, Any] = {"refusal_is_loss": deployment.plan.refusal_is_loss}
    uncollected = result.uncollected | collected["uncollected"]
    if happening is not None:
        told = {"event": happening.over()}
    if happening is not None and happening.resets_counters:
        uncollected["hops"] = "not measured: counters began anew in the middle of the trial"
    else:
        deployment.check_alive()
        after = deployment.counters()
        told["hops"] = tuple(difference(before.get(name), now) for name, now in after.items())
    return result.model_copy(update={**collected, **told, "uncollected": uncollected})
