"""The path check: a few frames each way through a deployment, before and between trials."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from vnetperf.host.wait import wait_for
from vnetperf.model.errors import DutError, GeneratorError
from vnetperf.model.frames import MIN_FRAME_SIZE
from vnetperf.model.scenario import Scenario
from vnetperf.model.trial import HopCounters, TrialResult, TrialSpec

if TYPE_CHECKING:
    from vnetperf.deployment.deploy import LiveDeployment

log = logging.getLogger(__name__)
PATH_TIMEOUT_S = 15.0
#: Few and slow: a path check must not meet the DUT's limits.
PATH_TRIAL = TrialSpec(
    frame_size=MIN_FRAME_SIZE,
    load_fps=1000,
    duration_s=0.03,
    drain_s=0.3,
    histogram_up_to_loss=-1.0,
)
#: Frames of each direction that must come back, one after the other.
PATH_FRAMES = round(PATH_TRIAL.load_fps * PATH_TRIAL.duration_s)
#: Longest trial of a path check whose tester is late, seconds.
PATH_MOST_S = 1.0
#: Sessions of a NAT that the path check goes through: more than frames are sent of it.
PATH_SESSIONS = 2048


def check_path(
    deployment: LiveDeployment, timeout_s: float | None = None, least: int = PATH_FRAMES
) -> dict[str, Any]:
    """Send a few frames each way until all of them come back."""
    if not deployment.plan.sends_frames:
        return {"frames": "none were sent: only programs in pods communicate here"}
    deployment.prepare(deployment.plan.scenario.traffic.least_frame_size)
    before: dict[str, HopCounters] = {}
    change = deployment.plan.scenario.change
    learned = 8 if change is None else min(change.sessions, PATH_SESSIONS)

    def attempt(check: TrialSpec) -> TrialResult:
        deployment.check_alive()
        deployment.generator.learn(learned)
        before.update(deployment.counters())
        return deployment.generator.run(check, deployment.check_alive)

    return send_until_complete(
        deployment.plan.scenario,
        attempt,
        timeout_s or max((PATH_TIMEOUT_S, *(vnf.path_s for vnf in deployment.guests))),
        lambda result: make_path_error(deployment, result, before),
        least,
    )


def send_until_complete(
    scenario: Scenario,
    attempt: Callable[[TrialSpec], TrialResult],
    timeout_s: float,
    lost: Callable[[TrialResult], DutError],
    least: int = PATH_FRAMES,
) -> dict[str, Any]:
    """Repeat a short trial until the frames of a path check were sent, and all came back.

    Links need a moment after they are plugged in, so the check is repeated until it passes. A
    tester without a processor of its own gives frames up that it cannot send in time: what it sent
    counts, it must come back whole, and the next try has more time for it.
    """
    began = time.monotonic()
    check = PATH_TRIAL.model_copy(update={"frame_size": scenario.traffic.least_frame_size})
    tries: list[TrialResult] = []
    returned: Counter[int] = Counter()  # frames of each direction since the last loss

    def frames_come_back() -> bool:
        longer = 2.0 ** sum(map(_came_back, tries))
        duration_s = min(PATH_MOST_S, check.duration_s * longer)
        result = attempt(check.model_copy(update={"duration_s": duration_s}))
        tries.append(result)
        if not _came_back(result):
            returned.clear()
            return False
        returned.update({d.direction: d.sent for d in result.directions})
        due = {d.direction: min(least, d.intended) for d in result.directions}
        return all(returned[direction] >= frames for direction, frames in due.items())

    def failed() -> DutError | GeneratorError:
        if not _came_back(tries[-1]):
            return lost(tries[-1])
        return GeneratorError(
            "the tester was not on time for the path check: the frames that it sent came back, but "
            f"it gave others up ({counts_text(tries[-1])})",
            where=scenario.id,
            cure="leave the tester processors that nothing else uses; see what else runs there",
        )

    wait_for(frames_come_back, timeout_s, "frames through the deployment", error=failed)
    frames = [returned[d.direction] for d in tries[-1].directions]
    return {
        "sent": frames,
        "received": frames,
        "tries": len(tries),
        "seconds": round(time.monotonic() - began, 3),
    }


def _came_back(result: TrialResult) -> bool:
    """Whether every frame that was offered came back; the tester may have given others up."""
    return all(d.received == d.sent and not d.refused for d in result.directions)


#: Longest wait for a way through after a trial from which nothing came back, seconds.
SILENT_S = 5.0


def silent_directions(result: TrialResult) -> list[str]:
    """Directions from which nothing came back."""
    return [str(d.direction) for d in result.directions if d.sent and not d.received]


def check_way_through(deployment: LiveDeployment, silent: Sequence[str]) -> None:
    """Tell a DUT that drops every frame of a load from one that does nothing any more.

    A guest that hangs, or a VNF that nobody can ask, forwards no frame at any load.
    """
    if not silent:
        return
    which = f"nothing came back in direction {' and '.join(silent)}"
    log.warning("%s: looking for a way through", which)
    try:
        check_path(deployment, SILENT_S, least=1)
    except DutError as error:
        raise DutError(
            f"{which}, and nothing does at a low load either: {error.what}",
            where=error.where,
            cure=error.cure,
        ) from None


def make_path_error(
    deployment: LiveDeployment, result: TrialResult, before: dict[str, Any]
) -> DutError:
    """Make the error of a path check whose frames did not all come back.

    Args:
        deployment: What was checked.
        result: Counts of the last try.
        before: Counters of hops before it, by hop.
    """
    counts = f"frames that came back: {counts_text(result)}"
    if deployment.vswitch.elsewhere:
        return _external_path_error(deployment, counts, result)
    after = deployment.counters()
    hops = ", ".join(
        f"{name} rx {now.rx - before[name].rx} tx {now.tx - before[name].tx}"
        for name, now in after.items()
        if name in before
    )
    of_dut = deployment.vswitch.links_down() if deployment.plan.has_dut else ()
    down = (*deployment.generator.links_down(), *of_dut)
    return DutError(
        f"the path check failed: {counts}; counters of the last try: {hops}"
        + (f"; links down: {', '.join(down)}" if down else "")
        + "".join(f"; {lines}" for vnf in deployment.guests if (lines := vnf.last_output())),
        where=deployment.plan.scenario.id,
        cure=_path_cure(deployment, down),
    )


def _external_path_error(deployment: LiveDeployment, counts: str, result: TrialResult) -> DutError:
    """A DUT without counters: only the tester knows where frames were seen last."""
    name = deployment.vswitch.facts().get("name", "")
    ends = [end.netdev or str(end.wire) for end in deployment.tester_ends]
    silent = [d.direction for d in result.directions if not d.received]
    ways = " and ".join(f"{ends[d]} to {ends[1 - d]}" for d in silent)
    down = deployment.generator.links_down()
    outcome = f"nothing came back from the external DUT {name}" if silent else "not all came back"
    return DutError(
        f"the path check failed: {outcome}"
        + (f" on the way {ways}" if silent else f" from the external DUT {name}")
        + f"; {counts}; all of them had left the tester"
        + (f"; links down: {', '.join(down)}" if down else ""),
        where=deployment.plan.scenario.id,
        cure="see whether it forwards between the ports that these interfaces are cabled to, "
        "whether it takes frames with the MAC address and VLAN of [[external.ports]], and its own "
        "counters",
    )


def _path_cure(deployment: LiveDeployment, down: tuple[str, ...]) -> str:
    cure = "the hop where frames stop shows which part does not forward; see its log"
    wires = sorted({nic.wire for nic in deployment.plan.nics}) if down else ()
    cables = (" - ".join(n.pci for n in deployment.plan.nics if n.wire == w) for w in wires)
    joined = ", ".join(cables)
    return f"see whether cables join these NICs: {joined}; or {cure}" if joined else cure


def counts_text(result: TrialResult) -> str:
    """What came of each direction, in words."""
    return ", ".join(
        f"direction {d.direction}: {d.received} of {d.intended}"
        + (
            f", and {d.altered} of another length or payload, or with other headers"
            if d.altered
            else ""
        )
        for d in result.directions
    )
