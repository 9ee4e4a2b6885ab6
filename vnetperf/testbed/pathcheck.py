"""Shows that a deployment forwards, both ways, before anything is measured."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from vnetperf.host.patience import patient
from vnetperf.model.errors import DutError
from vnetperf.model.trial import TrialResult, TrialSpec
from vnetperf.model.units import MIN_FRAME_SIZE

if TYPE_CHECKING:
    from vnetperf.testbed.deploy import Deployment

TIMEOUT_S = 15.0
#: Few and slow: a path check must not meet the DUT's limits.
CHECK = TrialSpec(
    frame_size=MIN_FRAME_SIZE,
    load_fps=1000,
    duration_s=0.03,
    drain_s=0.3,
    histogram_up_to_loss=-1.0,
)


def check_path(deployment: Deployment) -> dict[str, Any]:
    """Send a few frames each way until all of them come back.

    Links need a moment after they are plugged in, so the check is repeated until it passes.

    Args:
        deployment: The deployed scenario.

    Returns:
        Frames sent and received per direction, and how long it took.

    Raises:
        DutError: When frames still do not come back: where they died, and which links are down.
    """
    began = time.monotonic()
    size = deployment.plan.scenario.traffic.least_frame_size
    check = CHECK.model_copy(update={"frame_size": size})
    deployment.prepare(size)
    tries = 0
    limit_s = max((TIMEOUT_S, *(vnf.path_s for vnf in deployment.vnfs)))
    while True:
        deployment.check_alive()
        deployment.generator.learn(8)
        before = deployment.counters()
        result = deployment.generator.run(check, deployment.check_alive)
        tries += 1
        if all(d.received == d.intended for d in result.directions):
            break
        if time.monotonic() - began > patient(limit_s):
            raise _no_path(deployment, result, before)
        time.sleep(0.02)
    return {
        "sent": [d.intended for d in result.directions],
        "received": [d.received for d in result.directions],
        "tries": tries,
        "seconds": round(time.monotonic() - began, 3),
    }


def _no_path(deployment: Deployment, result: TrialResult, before: dict[str, Any]) -> DutError:
    counts = ", ".join(
        f"port {d.direction}: {d.received} of {d.intended} frames came back"
        for d in result.directions
    )
    after = deployment.counters()
    hops = ", ".join(
        f"{name} rx {now.rx - before[name].rx} tx {now.tx - before[name].tx}"
        for name, now in after.items()
        if name in before
    )
    down = (*deployment.generator.links_down(), *deployment.vswitch.links_down())
    return DutError(
        f"the path check failed: {counts}; counters of the last try: {hops}"
        + (f"; links down: {', '.join(down)}" if down else "")
        + "".join(f"; {said}" for vnf in deployment.vnfs if (said := vnf.last_words())),
        where=deployment.plan.scenario.id,
        cure=_cure(deployment, down),
    )


def _cure(deployment: Deployment, down: tuple[str, ...]) -> str:
    cure = "the hop where frames stop says which part does not forward; see its log"
    wires = sorted({nic.wire for nic in deployment.plan.nics}) if down else ()
    cables = (" - ".join(n.pci for n in deployment.plan.nics if n.wire == w) for w in wires)
    joined = ", ".join(cables)
    return f"see whether cables join these NICs: {joined}; or {cure}" if joined else cure
