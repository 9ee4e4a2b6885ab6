"""Warnings of a run: what makes its numbers worth less, and what was set besides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from vnetperf.analysis.attribution import lost_behind_dut
from vnetperf.analysis.disturbance import disturbing_share, trial_warnings
from vnetperf.analysis.logged_tests import LoggedTest
from vnetperf.model.frames import overhead
from vnetperf.model.machine_load import DISTURBING_LINE
from vnetperf.model.result import Result
from vnetperf.model.transfer import Transfers
from vnetperf.model.trial import TrialResult, Verdict
from vnetperf.results.records import (
    SEALED_SINCE,
    EndRecord,
    EnvironmentRecord,
    Record,
    RestoredRecord,
    RunRecord,
    ScenarioRecord,
    TrialRecord,
)
from vnetperf.results.sharing import emulated_guests, joined, refused_priorities, sharing_of


def version_warnings(otherwise: Sequence[LoggedTest], run: RunRecord) -> list[str]:
    """What a reader must know of them."""
    if not otherwise:
        return []
    names = ", ".join(dict.fromkeys(logged.begin.scenario for logged in otherwise))
    return [
        f"{names}: {run.identity.tool} ({run.identity.git}) searched by other trials than this "
        "version would: bounds are those that the trials show by themselves"
    ]


#: pytest's exit statuses of a session that did not come to its end: Ctrl-C, a bug, wrong use.
_EXITS_EARLY = (2, 3, 4)


def is_interrupted(records: Sequence[Record]) -> bool:
    """Whether a session of the log, or one worker's of several, did not run to its end."""
    interrupted = is_open = False
    for record in records:
        if isinstance(record, RunRecord):
            interrupted = (interrupted or is_open) and not record.resumed
            is_open = True
        elif isinstance(record, EndRecord):
            interrupted |= record.cut or record.exit_status in _EXITS_EARLY
            is_open = False
    return interrupted or is_open


#: Cases that were left out which a warning names.
_NAMED = 5


def _left_warning(left: Sequence[str]) -> str:
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    return (
        f"this run was interrupted, and continued without {len(left)} of its cases, of which some "
        f"results may be missing: {', '.join(left[:_NAMED])}{more}"
    )


#: What stands for a machine without any difference.
AS_BEFORE = "as before"
#: What the facts have for a variable that the testbed names and nobody has set.
NOT_SET = "not set"


def warnings_of(
    run: RunRecord,
    records: Sequence[Record],
    scenarios: Sequence[ScenarioRecord],
    tests: Sequence[LoggedTest],
    left: Sequence[str] = (),
) -> tuple[str, ...]:
    """Every warning of a run; `left` are cases that it was continued without."""
    warnings = _restore_warnings(records) + _clock_warnings(records) + _unset_variables(records)
    if is_interrupted(records):
        warnings.append(
            "this run was interrupted or is still going on: some results may be missing"
        )
    elif left:
        warnings.append(_left_warning(left))
    warnings += _each_once(
        (record.facts.scenario, text)
        for look in (_placement_warnings, _scenario_warnings)
        for record in scenarios
        for text in look(record)
    )
    warnings += _each_once(_taken_cores(scenarios, tests))
    warnings += run.preset.warnings
    warnings += _turn_warnings(tests)
    limit = disturbing_share(run.preset.goals)
    warnings += _trial_warnings([t for test in tests for t in test.trials], limit)
    altered = Counter(
        test.begin.scenario
        for test in tests
        if any(d.altered for t in test.trials for d in t.result.directions)
    )
    if altered:
        warnings.append(
            f"{', '.join(altered)}: frames came back with another length or payload than was sent "
            "and count as lost: a tag or a tunnel's header is still there, octets changed, or a "
            "NAT gave them other addresses or ports than those of their session; --pcap keeps some"
        )
    warnings += _uncertain_latencies(tests) + _unjudged_warnings(tests)
    commits = dict.fromkeys(r.identity.git for r in records if isinstance(r, RunRecord))
    if len(commits) > 1:
        warnings.append(
            f"this run was continued by another commit of {run.identity.tool}: "
            + ", then ".join(commits)
        )
    old = next((r for r in records if isinstance(r, RunRecord) and r.version < SEALED_SINCE), None)
    if old is not None:
        warnings.append(
            f"{old.identity.tool} wrote the trial log without checksums: a number that was changed "
            "by hand could not be told"
        )
    return tuple(warnings)


def restore_facts(records: Iterable[Record]) -> dict[str, Any]:
    """Whether the machine was as before each deployment once that was taken away.

    Empty for logs of before that was recorded.
    """
    found: dict[str, dict[str, None]] = {}
    for record in records:
        if isinstance(record, RestoredRecord):
            texts = found.setdefault(record.scenario or "runs before this one", {})
            texts |= dict.fromkeys((*record.troubles, *(record.differences or ())))
            if record.differences is None and record.scenario:
                texts |= {"not compared": None}
    return {"restored": {k: list(v) or AS_BEFORE for k, v in found.items()}} if found else {}


def _restore_warnings(records: Iterable[Record]) -> list[str]:
    """What a reader must know of a machine that was not as it should be."""
    before: dict[str, None] = {}
    left: dict[str, None] = {}
    changed: dict[str, None] = {}
    for record in records:
        if isinstance(record, RestoredRecord):
            (left if record.scenario else before).update(dict.fromkeys(record.troubles))
            changed |= dict.fromkeys(record.differences or ())
    texts = {
        "this machine was not restored after an earlier run, which may show in the numbers": before,
        "after this run not all could be undone": left,
        "after this run the machine was not as before, which others may have caused": changed,
    }
    return [f"{text}: {'; '.join(found)}" for text, found in texts.items() if found]


#: Clock sources that are the counters of the processors themselves (drivers/clocksource, arch/).
_COUNTERS = frozenset({"tsc", "arch_sys_counter", "timebase", "tod"})


def _clock_warnings(records: Iterable[Record]) -> list[str]:
    """What a reader must know of the clocks that time stamps are taken from."""
    kernels = (r.facts.get("kernel") for r in records if isinstance(r, EnvironmentRecord))
    known = (kernel for kernel in kernels if isinstance(kernel, dict))
    sources = dict.fromkeys(str(kernel.get("clocksource") or "unknown") for kernel in known)
    return [
        f"the kernel's clock source is {source}, not the processors' counters (tsc): whether these "
        "agree, from which every time stamp of the tester is taken, is not known"
        for source in sources
        if source not in _COUNTERS and not source.startswith("unknown")
    ]


def _unset_variables(records: Iterable[Record]) -> list[str]:
    """Variables that the testbed file names, without which the programs ran."""
    unset = dict.fromkeys(
        name
        for record in records
        if isinstance(record, EnvironmentRecord)
        and isinstance(held := record.facts.get("variables"), dict)
        for name, value in dict(held.get("let through by the testbed") or {}).items()
        if value == NOT_SET
    )
    return [
        f"`environment` of the testbed names {name}, which was set neither where the test run was "
        "started nor where its agent ran: programs ran without it"
        for name in unset
    ]


def _uncertain_latencies(tests: Sequence[LoggedTest]) -> list[str]:
    """Where a latency is from one host to another, or of both ways: how wrong it may be."""
    bounds: dict[str, float] = {}
    omitted: dict[str, dict[str, None]] = {}
    held: dict[str, list[float]] = {}
    for test in tests:
        for result in (trial.result for trial in test.trials):
            name = test.begin.scenario
            if result.clock_bound_s:
                bounds[name] = max(result.clock_bound_s, bounds.get(name, 0.0))
            if why := result.uncollected.get("latency", ""):
                omitted.setdefault(name, {})[why] = None
            if (both_ways := result.round_trip) is not None:
                held.setdefault(name, []).append(both_ways.uncertainty_s)
    found = []
    for name, errors_s in held.items():
        trials = "1 trial" if len(errors_s) == 1 else f"{len(errors_s)} trials"
        whose = f"latency of {trials}" if name in bounds else "latency"
        found.append(
            f"{name}: {whose} is the round trip, both ways through the DUT, and is compared with "
            f"no latency that is one way; it is wrong by {max(errors_s) * 1e6:.3g} us at most, "
            "since the clocks of the tester's two hosts are not equally fast"
        )
    for name, bound_s in bounds.items():
        whose = "latencies of the other trials" if name in held else "latencies"
        instead = "the round trip, or none" if name in held else "none"
        found.append(
            f"{name}: {whose} are one way and wrong by {bound_s * 1e6:.3g} us at most: the clocks "
            "of the tester's two hosts were so far apart, as their services stated after each trial"
            + (
                f"; trials in which that was too much have {instead} ({'; '.join(omitted[name])})"
                if name in omitted
                else ""
            )
        )
    return found


#: What a stall of each kind overflows.
_RINGS = {"sending": "the DUT's receive ring", "polling": "the tester's receive ring"}


def _unjudged_warnings(tests: Sequence[LoggedTest]) -> list[str]:
    """Where lost frames may be the tester's, and no verdict can tell, or only by assuming."""
    unknown: dict[str, dict[str, None]] = {kind: {} for kind in _RINGS}
    assumed: dict[int, dict[str, None]] = {}
    for test in tests:
        for trial in test.trials:
            gaps, lossy = trial.result.gaps, trial.result.worst_loss_ratio() > 0
            if gaps is None or not lossy:
                continue
            if gaps.send.assumed and gaps.send.max_s > 0:
                assumed.setdefault(gaps.catch_up_frames, {})[test.begin.scenario] = None
            for kind, one in (("sending", gaps.send), ("polling", gaps.poll)):
                paced = kind == "polling" or not trial.spec.burst  # a burst has nothing to catch up
                if one.hold_s is None and one.max_s > 0 and paced:
                    unknown[kind][test.begin.scenario] = None
    return [
        f"{', '.join(names)}: it is not known what the DUT's receive ring holds: stalls of the "
        f"tester's sending were judged as if that were {count} frames, which is what is sent after "
        "one at most; what a smaller ring lost counts as the DUT's loss"
        for count, names in assumed.items()
    ] + [
        f"{', '.join(names)}: stalls of the tester's {kind} could not be judged, since it is not "
        f"known what {_RINGS[kind]} holds: frames lost after one count as the DUT's loss (the "
        "longest gaps stand with each trial)"
        for kind, names in unknown.items()
        if names
    ]


def deployment_warnings(results: Sequence[Result]) -> list[str]:
    """Deployments without a result, which the others must not hide."""
    return _each_once(
        (f"{result.scenario}, {result.test}, {result.size_name}", held.sentence)
        for result in results
        if (held := result.deployments) is not None and held.failures and held.measured
    )


def transfer_warnings(transfers: Sequence[Transfers]) -> list[str]:
    """Transfers that others took a part of the processors of, or whose figures do not agree."""
    return _each_once(
        (f"{one.scenario}, {transfer.spec.kind} {transfer.spec.way}", text)
        for one in transfers
        for each in map(one.rounds_of, one.transfers)
        for transfer in each
        for text in (*transfer.disturbed, *transfer.notes)
    )


def _each_once(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Names and texts, with all names before a text that they have in common."""
    found: dict[str, list[str]] = {}
    for name, text in texts:
        found.setdefault(text, []).append(name)
    return [f"{'; '.join(names)}: {text}" for text, names in found.items()]


def _trial_warnings(trials: Sequence[TrialRecord], limit: float) -> list[str]:
    """What single trials showed that holds for the run."""
    warnings = []
    found = [t for t in trials if t.verdict is Verdict.INCONSISTENT]
    if found:
        each = "; ".join(f"trial {t.number}: {t.reason}" for t in found)
        warnings.append(
            f"{len(found)} INCONSISTENT: counts that contradict each other end the test ({each})"
        )
    return [
        *warnings,
        *trial_warnings(trials, limit),
        *_doubtful_counts(trials),
        *_distance_warnings(trials),
    ]


#: Share of a trial's frames without a latency from which on that is told for the run.
_NOTABLE_SHARE = 0.01


def _doubtful_counts(trials: Sequence[TrialRecord]) -> list[str]:
    """What was counted beside the frames of trials, and makes their numbers worth less."""
    found: dict[str, list[str]] = {}
    for before, after in pairwise(sorted(trials, key=lambda trial: trial.number)):
        if after.result.stale and after.number == before.number + 1:
            found.setdefault(
                "frames came after the end of their trial and count as lost in it; more time to "
                "drain would count them",
                [],
            ).append(f"{after.result.stale} of trial {before.number}")
    for trial in trials:
        for text, what in _doubts(trial):
            found.setdefault(text, []).append(f"trial {trial.number}: {what}")
    return [
        f"in {len(each)} of {len(trials)} trials {text} ({each[0]})" for text, each in found.items()
    ]


def _doubts(trial: TrialRecord) -> Iterator[tuple[str, str]]:
    """What makes a trial's counts worth less, and how much of it there was."""
    result = trial.result
    if result.verified == 0 and result.received:
        yield (
            "the payload of no frame was compared: one that came back with other octets counts as "
            "received",
            f"{result.received} frames",
        )
    for counts in result.directions:
        early = counts.latency.before_departure if counts.latency is not None else None
        if early and early >= _NOTABLE_SHARE * counts.received:
            yield (
                "frames arrived before they had left, by the tester's time stamps, and are in no "
                "latency: its clocks do not agree, and no latency of these trials is exact",
                f"{early} of {counts.received} of direction {counts.direction}",
            )
    is_counted = result.tester and all(p.is_counted and not p.dropped for p in result.tester)
    if is_counted and (behind := lost_behind_dut(trial.lost_at)):
        lost = sum(behind.values())
        yield (
            "frames were lost between the DUT, which counted them as sent, and the tester, which "
            "neither received nor dropped them: the loss is of what is in between",
            f"{lost} frames, {', '.join(behind)}",
        )


def _distance_warnings(trials: Sequence[TrialRecord]) -> list[str]:
    """Trials whose processors were further apart than in others, by the hypervisor's choice."""
    lines = [(t, t.result.machine.line_ns) for t in trials if t.result.machine is not None]
    found = [(t, max(line)) for t, line in lines if line is not None]
    least = min((ns for _, ns in found), default=0.0)
    far = [(t, ns) for t, ns in found if ns > DISTURBING_LINE * least]
    if not far:
        return []
    trial, ns = far[0]
    return [
        f"in {len(far)} of {len(trials)} trials the hypervisor had the processors of DUT and "
        f"tester on cores without a cache in common: a cache line took {ns:.0f} ns there and back "
        f"(trial {trial.number}), {least:.0f} ns in the best; each frame costs both about twice as "
        "much then, and less is carried"
    ]


def _placement_warnings(record: ScenarioRecord) -> list[str]:
    found = sharing_of(record.facts)
    warnings = [found.warning] if found is not None and found.shared else []
    if emulated := emulated_guests(record.facts.facts):
        warnings.append(
            f"emulated guests: {joined(emulated)} without KVM, whose instructions a program "
            "executes one by one: numbers are the emulator's and say nothing of virtual machines; "
            "cure: a machine with /dev/kvm"
        )
    refused = refused_priorities(record.facts.facts)
    return warnings + [_refused_text(role, words) for role, words in refused.items()]


#: Share of its time for which a poller waits for a processor of its own, from which on that is
#: told: as much as the widths of most searches.
_NOTABLE_WAIT = 0.05


def _taken_cores(
    scenarios: Sequence[ScenarioRecord], tests: Sequence[LoggedTest]
) -> Iterator[tuple[str, str]]:
    """Scenarios, and what kept pollers from processors that the plan gives to them alone."""
    for record in scenarios:
        name, sharing = record.facts.scenario, sharing_of(record.facts)
        trials = [t.result for test in tests if test.begin.scenario == name for t in test.trials]
        waits = _waits(trials)
        for machine in sharing.machines if sharing is not None else ():
            for role, cpus in machine.placement.cores.items():
                # In a trial the roles of the tester's host have no name of a host before them.
                share = waits.get(role, waits.get(role.rpartition(":")[2], 0.0))
                if share > _NOTABLE_WAIT and role not in machine.sharing:
                    yield (
                        name,
                        f"{role} has processor{'s' * (len(cpus) > 1)} {joined(cpus)} to itself by "
                        f"plan alone: for {share:.0%} of the time of its trials it could run and "
                        "had no processor, since other programs or the kernel's threads ran there",
                    )


def _waits(trials: Sequence[TrialResult]) -> dict[str, float]:
    """Role -> share of the time in which its threads could run and had no processor."""
    waited: dict[str, float] = {}
    watched: dict[str, float] = {}
    for result in trials:
        for load in result.threads:
            if load.wait_s is not None:
                waited[load.role] = waited.get(load.role, 0.0) + load.wait_s
                seconds = load.watched_s or result.watched_at(load.role)
                watched[load.role] = watched.get(load.role, 0.0) + seconds
    return {role: waited[role] / seconds for role, seconds in watched.items() if seconds > 0}


#: What it costs that a thread which wakes does not run at once, and what may be done about it.
_WAITS_FOR_TICK = (
    "when it wakes it waits for the scheduler's tick, up to 4 ms, and more frames are unsent or "
    "lost; cure: run as root with CAP_SYS_NICE, and set sysctl kernel.sched_rt_runtime_us to 950000"
    "; in a container of a kernel with CONFIG_RT_GROUP_SCHED give its control group real-time "
    "runtime (cpu.rt_runtime_us)"
)


def _refused_text(role: str, words: str) -> str:
    return f"the kernel refused {role} SCHED_FIFO ({words}): {_WAITS_FOR_TICK}"


def _turn_warnings(tests: Sequence[LoggedTest]) -> list[str]:
    """What the turns of a tester that shares its processor did to the trials of a scenario."""
    trials: dict[str, list[TrialRecord]] = {}
    for test in tests:
        trials.setdefault(test.begin.scenario, []).extend(test.trials)
    found: list[tuple[str, str]] = []
    for scenario, every in trials.items():
        turns = [(t.result.turns, t) for t in every if t.result.turns is not None]
        refused = dict.fromkeys(one.refused for one, _ in turns if one.refused)
        found += [(scenario, _refused_text("the tester", words)) for words in refused]
        held = [one for one, t in turns if t.result.held_back]
        if held:
            found.append(
                (
                    scenario,
                    f"in {len(held)} of {len(every)} trials the tester used up its share of its "
                    f"processor ({held[0].share:.0%}) and left frames unsent: that load was too "
                    "much for this machine, whatever the DUT did",
                )
            )
    return _each_once(found)


def _scenario_warnings(record: ScenarioRecord) -> list[str]:
    """What the numbers of this scenario stand for, where its name could mislead."""
    scenario, warnings = record.scenario, []
    if scenario.traffic.mix is not None:
        warnings.append(
            "the generator's clean maximum is that of a single size, the mean of the mix; "
            "a mix of that mean may reach less or more"
        )
    if scenario.deployment.tester_vnf_ports and not scenario.sockets:
        graph = scenario.deployment
        places = ", ".join(map(graph.port_name, graph.tester_vnf_ports))
        whose = "pod" if graph.pods else "VNF"
        warnings.append(
            f"the tester is in a {whose}'s place at {places}; "
            "what it can do there was not calibrated, only what it can do on a wire"
        )
    cables = {part["wire"] for part in record.facts.plan.get("hosts", ())}
    wire = record.facts.plan.get("wire")
    if cables - {wire} and not (scenario.deployment.tester_vnf_ports or scenario.sockets):
        warnings.append(
            f"the tester was calibrated over {wire} within its machine and not over its cables of "
            f"{' and '.join(sorted(cables))}: the largest load is what it offered there"
        )
    every = [record.facts.facts, *record.facts.facts.get("hosts", {}).values()]
    offsets = [line for facts in every for line in _offset_warnings(facts.get("generator", {}))]
    return warnings + list(dict.fromkeys(offsets))


#: Scenarios from which on what they have in common is told once for all.
_MANY_SCENARIOS = 4


def conditions_of(scenarios: Sequence[ScenarioRecord]) -> tuple[str, ...]:
    """What was set, and what numbers are of: nothing of it makes one worth less."""
    names = list(dict.fromkeys(record.facts.scenario for record in scenarios))
    if len(names) < _MANY_SCENARIOS:
        return tuple(
            _each_once((r.facts.scenario, text) for r in scenarios for text in _conditions(r))
        )
    holders: dict[str, list[str]] = {}
    for record in scenarios:
        for text in (*record.scenario.conditions, *_further_conditions(record)):
            holders.setdefault(text, []).append(record.facts.scenario)
    held: dict[str, list[str]] = {}
    for text, mine in holders.items():
        which = _in_common(list(dict.fromkeys(mine)), names)
        if text != which.replace("=", " "):  # else the name has said it
            held.setdefault(which, []).append(text)
    return tuple(f"{which}: {', '.join(texts)}" for which, texts in held.items())


def _in_common(mine: Sequence[str], names: Sequence[str]) -> str:
    """Some of many scenarios: by what only their names have, else one by one."""
    if len(mine) == len(names):
        return f"all {len(names)} scenarios"
    shared = set.intersection(*(set(name.split(",")) for name in mine))
    others = {part for name in names if name not in mine for part in name.split(",")}
    own = [part for part in mine[0].split(",") if part in shared - others]
    return own[0] if own and len(mine) > 1 else "; ".join(mine)


def _conditions(record: ScenarioRecord) -> Iterator[str]:
    if record.scenario.conditions:
        yield ", ".join(record.scenario.conditions)
    yield from _further_conditions(record)


def _further_conditions(record: ScenarioRecord) -> Iterator[str]:
    scenario = record.scenario
    if scenario.encapsulation:
        yield (
            "sizes and rates are those of the plain frame; "
            f"in the tunnel each is {overhead(scenario.encapsulation)} octets longer, and "
            "theoretical maxima and L1 rates are those of the frame in it"
        )
    if tester := record.facts.facts.get("ports of the tester"):
        yield str(tester)
    if record.facts.facts.get("vswitch", {}).get("forwards in") == "the kernel":
        yield (
            "the kernel forwards in the time of whoever hands it a frame, "
            "so that the processors of tester and VNFs carry the switch's work too"
        )


def _offset_warnings(generator: dict[str, Any]) -> list[str]:
    """Where the tester's time stamps are of clocks that are apart, or may be."""
    offset = generator.get("clock offset between sockets")
    if isinstance(offset, dict):
        least, most = offset["least_ns"], offset["most_ns"]
        if least <= 0 <= most:
            return []
        ends = sorted((abs(least), abs(most)))
        return [
            f"the counters (TSC) of {offset['between']}, on different sockets, are {ends[0]} to "
            f"{ends[1]} ns apart: latencies between them are wrong by that"
        ]
    if isinstance(offset, str) and offset.startswith("unknown"):
        return [f"how far the clocks of the tester's sockets are apart is {offset}"]
    return []
