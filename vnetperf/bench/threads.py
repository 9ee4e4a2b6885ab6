"""How busy the threads of the tester and the DUT were at a lower bound."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from vnetperf.model.result import ThreadUse
from vnetperf.model.trial import ThreadEvents
from vnetperf.results.records import TrialRecord


def last_of_longest(trials: Sequence[TrialRecord]) -> TrialRecord | None:
    """The trial that stands for those at a load.

    Args:
        trials: Valid trials at the lower bound.

    Returns:
        The last of the longest; None without trials.
    """
    longest = max((t.spec.duration_s for t in trials), default=0.0)
    return next((t for t in reversed(trials) if t.spec.duration_s == longest), None)


def threads_of(trials: Sequence[TrialRecord]) -> tuple[ThreadUse, ...]:
    """What the threads did in that trial.

    Args:
        trials: Valid trials at the lower bound.

    Returns:
        One for each thread, as the log has them.
    """
    trial = last_of_longest(trials)
    if trial is None:
        return ()
    result = trial.result
    # Threads are watched while the generator arms and waits for the last frames, too.
    seconds = result.collected_s or trial.spec.duration_s
    frames = sum(d.received for d in result.directions)
    # Threads of a role may have one name: they are told in the same order by every collector.
    events: dict[tuple[str, str], list[ThreadEvents]] = defaultdict(list)
    for told in result.events:
        events[told.role, told.thread].append(told)
    found = []
    for load in result.threads:
        same = events[load.role, load.thread]
        counts = same.pop(0).counts if same else {}
        found.append(
            ThreadUse(
                role=load.role,
                thread=load.thread,
                cpu=load.cpu,
                user=load.user,
                system=load.system,
                involuntary_switches_per_s=load.involuntary_switches / seconds,
                events_per_s={name: count / seconds for name, count in counts.items()},
                events_per_frame={name: n / frames for name, n in counts.items() if frames},
            )
        )
    return tuple(found)


def uncollected_at(trials: Sequence[TrialRecord]) -> dict[str, str]:
    """What could not be told of the threads in that trial.

    Args:
        trials: Valid trials at the lower bound.

    Returns:
        Collector -> "not measured: why".
    """
    trial = last_of_longest(trials)
    return {} if trial is None else dict(trial.result.uncollected)
