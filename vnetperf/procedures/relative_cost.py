"""What a frame costs vSwitch and VNFs, relative to what it costs the tester in the same trials.

The machine does the same to both: clock, caches, a hypervisor and neighbours change the work of all
threads for a frame, and leave their ratio. That is a duet (Bulej et al., "Duet Benchmarking:
Improving Measurement Accuracy in the Cloud", ICPE 2020).

This file decides by which pair of counts, the first of these that both sides have
(`python -m benchmarks.duet` compares them, docs/processors.md has its table):

1. Cycles in rounds that found or sent frames, in empty rounds of the same thread. A neighbour on
   the other half of a core slows one processor and not the other, by up to 1.7: an empty round is
   fixed work on the same processor in the same trial, and takes as much longer. What is left is how
   far the two are apart, which costs both sides alike.
2. Cycles in rounds with frames: enough where both are on one processor.
3. Run time, where both sleep when idle. It says nothing of a thread that polls, and of one that
   sleeps in turns mostly how often it wakes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum
from statistics import median

from vnetperf.model.machine_load import KERNEL, DatapathWork, ThreadLoad
from vnetperf.model.outcomes import VNF, VSWITCH, RelativeCost
from vnetperf.model.trial import TrialOutcome, TrialResult

TESTER = "tester"
#: Pairs of counts, the better one first.
BY_ROUNDS = "TSC cycles of rounds with frames, in empty rounds of the same thread"
BY_CYCLES = "TSC cycles of rounds with frames"
BY_RUN_TIME = "run time of threads that sleep when idle"
#: From this share of a load on that is lost, or not sent, its frames have not cost both sides the
#: same.
MOST_LOST = 0.02
#: Share of rounds from which on they are mostly empty, one after the other.
_MOSTLY_EMPTY = 0.75
#: A thread that could run for so much of its time, and gave its processor up no more often than
#: this each second, polls.
_POLLS_SHARE, _POLLS_SWITCHES = 0.95, 100.0


def relative_costs(trials: Sequence[TrialOutcome]) -> dict[str, RelativeCost]:
    """Cost of vSwitch and VNFs over the tester's in trials at one load; the VNFs' where some run.

    Empty where the trials have no record of any thread.
    """
    results = [trial.result for trial in trials]
    if not any(trial.result.threads or trial.result.tester_work for trial in trials):
        return {}
    parts = [VSWITCH]
    if any(trial.result.vnf_work or _threads(trial.result, VNF) for trial in trials):
        parts.append(VNF)
    reason = _explain_no_trials(trials)
    return {
        part: RelativeCost(why=f"not measured: {reason}") if reason else _cost(part, results)
        for part in parts
    }


def sending_conditions(trials: Sequence[TrialOutcome]) -> dict[str, str]:
    """How the tester sent: costs are comparable where it did alike.

    Turn, priority, and the DUT's receive ring that turns are fitted to; empty: not recorded.
    """
    conditions: dict[str, set[str]] = {}
    for result in (trial.result for trial in trials):
        if result.gaps is not None and result.gaps.ring_frames is not None:
            conditions.setdefault("ring", set()).add(f"{result.gaps.ring_frames} frames")
        if (turns := result.turns) is not None:
            conditions.setdefault("turn", set()).add(f"{turns.length_us} us")
            ordinary = f"ordinary: {turns.refused}" if turns.refused else "ordinary"
            conditions.setdefault("priority", set()).add("SCHED_FIFO" if turns.prompt else ordinary)
    return {name: ", ".join(sorted(settings)) for name, settings in conditions.items()}


def _explain_no_trials(trials: Sequence[TrialOutcome]) -> str:
    """Why the trials tell nothing; "" where they do."""
    if any(trial.result.machines for trial in trials):
        return "tester and DUT are on several hosts"
    for trial in trials:
        if (lost := trial.result.worst_loss_ratio()) >= MOST_LOST:
            return f"{lost:.1%} of the frames were lost in trial {trial.number}"
        if trial.missing >= MOST_LOST:
            return f"{trial.missing:.1%} of the load was not sent in trial {trial.number}"
    return ""


def _cost(part: str, results: Sequence[TrialResult]) -> RelativeCost:
    for by, count in _COUNTS.items():
        above, below = (
            [count(side, trial_result) for trial_result in results] for side in (part, TESTER)
        )
        values = tuple(a / b for a, b in zip(above, below, strict=True) if a and b)
        if len(values) == len(results):
            return RelativeCost(
                value=median(values), least=min(values), most=max(values), values=values, by=by
            )
    reasons = (
        reason
        for side in (TESTER, part)
        for trial_result in results
        if (reason := _explain_no_count(side, trial_result))
    )
    return RelativeCost(why=f"not measured: {next(reasons, 'the tester counted no rounds')}")


def _threads(result: TrialResult, side: str) -> list[ThreadLoad]:
    def belongs(role: str) -> bool:
        if side == VNF:
            return role.startswith("vnf")
        if side == TESTER:
            return role == TESTER
        return role not in (TESTER, KERNEL) and not role.startswith("vnf")

    return [thread for thread in result.threads if belongs(thread.role)]


def _work(result: TrialResult, side: str) -> Sequence[DatapathWork]:
    return {VSWITCH: result.datapath, VNF: result.vnf_work, TESTER: result.tester_work}[side]


def _cycles(side: str, result: TrialResult) -> float | None:
    """TSC cycles of rounds with frames, of all threads; None: one of them is not counted."""
    work = _work(result, side)
    if not work or (
        side == VNF and len(work) < len({thread.role for thread in _threads(result, VNF)})
    ):
        return None
    return float(sum(thread.busy_cycles for thread in work)) or None


def _in_empty_rounds(side: str, result: TrialResult) -> float | None:
    return None if _cycles(side, result) is None else in_empty_rounds(_work(result, side))


def in_empty_rounds(work: Sequence[DatapathWork]) -> float | None:
    """Work for frames, in empty rounds of the thread that did it; None: one does not tell these."""
    rounds_per_thread = []
    for thread in work:
        cycles, rounds = thread.still_cycles, thread.still_polls
        if cycles is None:
            cycles, rounds = thread.idle_cycles, thread.empty_polls
            # A thread that sleeps has an empty round after the sleep, or after frames.
            if not rounds or thread.polls is None or rounds < _MOSTLY_EMPTY * thread.polls:
                return None
        if not cycles or not rounds:
            return None
        rounds_per_thread.append(thread.busy_cycles * rounds / cycles)
    return fsum(rounds_per_thread) or None


def _run_time(side: str, result: TrialResult) -> float | None:
    """Run time of all threads, seconds; None: one of them polls, or it is not recorded."""
    threads = _threads(result, side)
    if not threads or any(thread.run_s is None or _polls(thread, result) for thread in threads):
        return None
    return fsum(thread.run_s or 0.0 for thread in threads) or None


_COUNTS: dict[str, Callable[[str, TrialResult], float | None]] = {
    BY_ROUNDS: _in_empty_rounds,
    BY_CYCLES: _cycles,
    BY_RUN_TIME: _run_time,
}


def _polls(thread: ThreadLoad, result: TrialResult) -> bool:
    """Whether a thread never sleeps: it ran, or could have, nearly all the time."""
    seconds = thread.watched_s or result.watch_time(thread.role)
    if seconds <= 0 or thread.run_s is None or thread.wait_s is None:
        return True  # it may
    could_run = (thread.run_s + thread.wait_s) / seconds
    return (
        could_run >= _POLLS_SHARE and (thread.voluntary_switches or 0) < _POLLS_SWITCHES * seconds
    )


def _explain_no_count(side: str, result: TrialResult) -> str:
    """Why nothing is known of what somebody did for frames; "" where something is."""
    if any(count(side, result) is not None for count in _COUNTS.values()):
        return ""
    threads = _threads(result, side)
    polling = dict.fromkeys(thread.role for thread in threads if _polls(thread, result))
    if polling:
        return f"{', '.join(polling)} polls"
    if side == VSWITCH and not threads and result.hops:  # of one elsewhere nothing is counted
        return "forwards in the tester's context"
    return f"the work of {side} is not recorded"
