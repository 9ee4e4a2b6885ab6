"""Warnings of a run: what makes its numbers worth less, and what was set besides."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vnetperf.analysis.attribution import lost_behind_dut
from vnetperf.analysis.disturbance import DisturbedTrials
from vnetperf.analysis.logged_tests import LoggedTest
from vnetperf.analysis.sharing import emulated_guests, joined, refused_priorities, sharing_of
from vnetperf.log.records import (
    EndRecord,
    EnvironmentRecord,
    Record,
    RestoredRecord,
    RunRecord,
    ScenarioRecord,
    TrialRecord,
)
from vnetperf.model.frames import overhead
from vnetperf.model.machine_load import DISTURBING_LINE
from vnetperf.model.result import Result
from vnetperf.model.transfer import Transfers
from vnetperf.model.trial import TrialResult, Verdict


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


def _skipped_cases_warning(skipped: Sequence[str]) -> str:
    count = len(skipped)
    others = f" and {count - _NAMED} more" if count > _NAMED else ""
    return (
        f"this run was interrupted, and continued without {count} of its cases, of which some "
        f"results may be missing: {', '.join(skipped[:_NAMED])}{others}"
    )


#: What stands for a machine without any difference.
AS_BEFORE = "as before"
#: What the facts have for a variable that the testbed names and nobody has set.
NOT_SET = "not set"


def derive_warnings(
    run: RunRecord,
    records: Sequence[Record],
    scenarios: Sequence[ScenarioRecord],
    trial_warnings: TrialWarnings,
    skipped_cases: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return every warning of a run, also those that its trials caused.

    A run that was resumed went on without the cases in `skipped_cases`.
    """
    warnings = _restore_warnings(records) + _clock_warnings(records) + _unset_variables(records)
    if is_interrupted(records):
        warnings.append(
            "this run was interrupted or is still going on: some results may be missing"
        )
    elif skipped_cases:
        warnings.append(_skipped_cases_warning(skipped_cases))
    warnings += _merge_equal_texts(
        (record.facts.scenario, text)
        for look in (_placement_warnings, _scenario_warnings)
        for record in scenarios
        for text in look(record)
    )
    warnings += _merge_equal_texts(_contended_cores(scenarios, trial_warnings.waits))
    warnings += run.preset.warnings
    warnings += trial_warnings.texts()
    commits = dict.fromkeys(r.identity.git for r in records if isinstance(r, RunRecord))
    if len(commits) > 1:
        warnings.append(
            f"this run was continued by another commit of {run.identity.tool}: "
            + ", then ".join(commits)
        )
    return tuple(warnings)


class TrialWarnings:
    """What trials show that holds for the run, of which no trial has to be kept.

    Args:
        limit: What matters when others take it, in processors.
    """

    def __init__(self, limit: float) -> None:
        self.waits: dict[str, _Waits] = {}  # By scenario
        self._count = 0
        self._inconsistent: list[str] = []
        self._altered: dict[str, None] = {}
        self._turns: dict[str, _Turns] = {}
        self._disturbed = DisturbedTrials(limit)
        self._doubts = _Doubts()
        self._distances = _Distances()
        self._latencies = _Latencies()
        self._unjudged = _Unjudged()

    def add(self, scenario: str, trial: TrialRecord) -> None:
        """Look at the next trial of the log, test by test."""
        result = trial.result
        self._count += 1
        self.waits.setdefault(scenario, _Waits()).add(result)
        self._turns.setdefault(scenario, _Turns()).add(result)
        if trial.verdict is Verdict.INCONSISTENT:
            self._inconsistent.append(f"trial {trial.number}: {trial.reason}")
        self._disturbed.add(trial)
        self._doubts.add(trial)
        self._distances.add(trial)
        if any(counts.altered for counts in result.directions):
            self._altered[scenario] = None
        self._latencies.add(scenario, result)
        self._unjudged.add(scenario, trial)

    def texts(self) -> list[str]:
        """The warnings."""
        warnings = _merge_equal_texts(
            (scenario, text) for scenario, turns in self._turns.items() for text in turns.texts()
        )
        if inconsistent := self._inconsistent:
            warnings.append(
                f"{len(inconsistent)} INCONSISTENT: counts that contradict each other end the test "
                f"({'; '.join(inconsistent)})"
            )
        warnings += self._disturbed.texts()
        warnings += self._doubts.texts(self._count)
        warnings += self._distances.texts(self._count)
        if self._altered:
            warnings.append(
                f"{', '.join(self._altered)}: frames came back with another length or payload than "
                "was sent and count as lost: a tag or a tunnel's header is still there, octets "
                "changed, or a NAT gave them other addresses or ports than those of their session; "
                "--pcap keeps some"
            )
        return [*warnings, *self._latencies.texts(), *self._unjudged.texts()]


def restore_facts(records: Iterable[Record]) -> dict[str, Any]:
    """Whether the machine was as before each deployment once that was taken away."""
    texts_by_scenario: dict[str, dict[str, None]] = {}
    for record in records:
        if isinstance(record, RestoredRecord):
            texts = texts_by_scenario.setdefault(record.scenario or "runs before this one", {})
            texts |= dict.fromkeys((*record.troubles, *(record.differences or ())))
            if record.differences is None and record.scenario:
                texts |= {"not compared": None}
    return (
        {"restored": {k: list(v) or AS_BEFORE for k, v in texts_by_scenario.items()}}
        if texts_by_scenario
        else {}
    )


def _restore_warnings(records: Iterable[Record]) -> list[str]:
    """What a reader must know of a machine that was not as it should be."""
    before: dict[str, None] = {}
    unrestored: dict[str, None] = {}
    changed: dict[str, None] = {}
    for record in records:
        if isinstance(record, RestoredRecord):
            (unrestored if record.scenario else before).update(dict.fromkeys(record.troubles))
            changed |= dict.fromkeys(record.differences or ())
    texts = {
        "this machine was not restored after an earlier run, which may show in the numbers": before,
        "after this run not all could be undone": unrestored,
        "after this run the machine was not as before, which others may have caused": changed,
    }
    return [f"{text}: {'; '.join(remarks)}" for text, remarks in texts.items() if remarks]


#: Clock sources that are the counters of the processors themselves (drivers/clocksource, arch/).
_COUNTERS = frozenset({"tsc", "arch_sys_counter", "timebase", "tod"})


def _clock_warnings(records: Iterable[Record]) -> list[str]:
    """What a reader must know of the clocks that time stamps are taken from."""
    kernels = (r.facts.get("kernel") for r in records if isinstance(r, EnvironmentRecord))
    kernel_facts = (kernel for kernel in kernels if isinstance(kernel, dict))
    sources = dict.fromkeys(str(kernel.get("clocksource") or "unknown") for kernel in kernel_facts)
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
        and isinstance(variables := record.facts.get("variables"), dict)
        for name, value in dict(variables.get("let through by the testbed") or {}).items()
        if value == NOT_SET
    )
    return [
        f"`environment` of the testbed names {name}, which was set neither where the test run was "
        "started nor where its agent ran: programs ran without it"
        for name in unset
    ]


class _Latencies:
    """Where a latency is from one host to another, or of both ways: how wrong it may be."""

    def __init__(self) -> None:
        self._bounds: dict[str, float] = {}
        self._omitted: dict[str, dict[str, None]] = {}
        self._both_ways: dict[str, tuple[int, float]] = {}  # Trials, and the largest error

    def add(self, scenario: str, result: TrialResult) -> None:
        if result.clock_bound_s:
            bound_s = max(result.clock_bound_s, self._bounds.get(scenario, 0.0))
            self._bounds[scenario] = bound_s
        if reason := result.uncollected.get("latency", ""):
            self._omitted.setdefault(scenario, {})[reason] = None
        if (both_ways := result.round_trip) is not None:
            count, error_s = self._both_ways.get(scenario, (0, both_ways.uncertainty_s))
            self._both_ways[scenario] = count + 1, max(error_s, both_ways.uncertainty_s)

    def texts(self) -> Iterator[str]:
        for name, (count, error_s) in self._both_ways.items():
            trials = "1 trial" if count == 1 else f"{count} trials"
            whose = f"latency of {trials}" if name in self._bounds else "latency"
            yield (
                f"{name}: {whose} is the round trip, both ways through the DUT, and is compared "
                f"with no latency that is one way; it is wrong by {error_s * 1e6:.3g} us at most, "
                "since the clocks of the tester's two hosts are not equally fast"
            )
        for name, bound_s in self._bounds.items():
            has_both_ways = name in self._both_ways
            whose = "latencies of the other trials" if has_both_ways else "latencies"
            instead = "the round trip, or none" if has_both_ways else "none"
            yield (
                f"{name}: {whose} are one way and wrong by {bound_s * 1e6:.3g} us at most: the "
                "clocks of the tester's two hosts were so far apart, as their services stated "
                "after each trial"
            ) + (
                f"; trials in which that was too much have {instead} "
                f"({'; '.join(self._omitted[name])})"
                if name in self._omitted
                else ""
            )


#: What a stall of each kind overflows.
_RINGS = {"sending": "the DUT's receive ring", "polling": "the tester's receive ring"}


class _Unjudged:
    """Where lost frames may be the tester's, and no verdict can tell, or only by assuming."""

    def __init__(self) -> None:
        self._unknown: dict[str, dict[str, None]] = {kind: {} for kind in _RINGS}
        self._assumed: dict[int, dict[str, None]] = {}

    def add(self, scenario: str, trial: TrialRecord) -> None:
        gaps = trial.result.gaps
        if gaps is None or not trial.result.worst_loss_ratio() > 0:
            return
        if gaps.send.assumed and gaps.send.max_s > 0:
            self._assumed.setdefault(gaps.catch_up_frames, {})[scenario] = None
        for kind, gap in (("sending", gaps.send), ("polling", gaps.poll)):
            paced = kind == "polling" or not trial.spec.burst  # a burst has nothing to catch up
            if gap.hold_s is None and gap.max_s > 0 and paced:
                self._unknown[kind][scenario] = None

    def texts(self) -> Iterator[str]:
        for count, names in self._assumed.items():
            yield (
                f"{', '.join(names)}: it is not known what the DUT's receive ring holds: stalls of "
                f"the tester's sending were judged as if that were {count} frames, which is what "
                "is sent after one at most; what a smaller ring lost counts as the DUT's loss"
            )
        for kind, names in self._unknown.items():
            if names:
                yield (
                    f"{', '.join(names)}: stalls of the tester's {kind} could not be judged, since "
                    f"it is not known what {_RINGS[kind]} holds: frames lost after one count as "
                    "the DUT's loss (the longest gaps stand with each trial)"
                )


def deployment_warnings(results: Sequence[Result]) -> list[str]:
    """Deployments without a result, which the others must not hide."""
    return _merge_equal_texts(
        (f"{result.scenario}, {result.test}, {result.size_name}", deployments.sentence)
        for result in results
        if (deployments := result.deployments) is not None
        and deployments.failures
        and deployments.measured
    )


def transfer_warnings(transfers: Sequence[Transfers]) -> list[str]:
    """Transfers that others took a part of the processors of, or whose figures do not agree."""
    return _merge_equal_texts(
        (f"{scenario_transfers.scenario}, {transfer.spec.kind} {transfer.spec.way}", text)
        for scenario_transfers in transfers
        for repeats in map(scenario_transfers.list_rounds, scenario_transfers.transfers)
        for transfer in repeats
        for text in (*transfer.disturbed, *transfer.notes)
    )


def _merge_equal_texts(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Merge equal texts; all their names stand before the text."""
    names_by_text: dict[str, list[str]] = {}
    for name, text in texts:
        names_by_text.setdefault(text, []).append(name)
    return [f"{'; '.join(names)}: {text}" for text, names in names_by_text.items()]


#: Share of a trial's frames without a latency from which on that is told for the run.
_NOTABLE_SHARE = 0.01


class _Doubts:
    """What was counted beside the frames of trials, and makes their numbers worth less."""

    def __init__(self) -> None:
        self._numbers: set[int] = set()
        self._stale: dict[int, int] = {}
        self._counts: dict[str, tuple[int, str]] = {}  # By text: how many, and the first

    def add(self, trial: TrialRecord) -> None:
        self._numbers.add(trial.number)
        if trial.result.stale:
            self._stale[trial.number] = trial.result.stale
        for text, amount in _doubts(trial):
            count, first = self._counts.get(text, (0, f"trial {trial.number}: {amount}"))
            self._counts[text] = count + 1, first

    def texts(self, trials: int) -> Iterator[str]:
        late = [number for number in sorted(self._stale) if number - 1 in self._numbers]
        if late:
            yield (
                f"in {len(late)} of {trials} trials frames came after the end of their trial and "
                "count as lost in it; more time to drain would count them "
                f"({self._stale[late[0]]} of trial {late[0] - 1})"
            )
        for text, (count, first) in self._counts.items():
            yield f"in {count} of {trials} trials {text} ({first})"


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


class _Distances:
    """Trials whose processors were further apart than in others, by the hypervisor's choice."""

    def __init__(self) -> None:
        self._numbers, self._lines_ns = array("q"), array("d")

    def add(self, trial: TrialRecord) -> None:
        machine = trial.result.machine
        if machine is not None and machine.line_ns is not None:
            self._numbers.append(trial.number)
            self._lines_ns.append(max(machine.line_ns))

    def texts(self, trials: int) -> Iterator[str]:
        least = min(self._lines_ns, default=0.0)
        far = [place for place, ns in enumerate(self._lines_ns) if ns > DISTURBING_LINE * least]
        if far:
            yield (
                f"in {len(far)} of {trials} trials the hypervisor had the processors of DUT and "
                "tester on cores without a cache in common: a cache line took "
                f"{self._lines_ns[far[0]]:.0f} ns there and back "
                f"(trial {self._numbers[far[0]]}), {least:.0f} ns in the best; each frame costs "
                "both about twice as much then, and less is carried"
            )


def _placement_warnings(record: ScenarioRecord) -> list[str]:
    sharing = sharing_of(record.facts)
    warnings = [sharing.warning] if sharing is not None and sharing.shared else []
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


def _contended_cores(
    scenarios: Sequence[ScenarioRecord], waits_of: Mapping[str, _Waits]
) -> Iterator[tuple[str, str]]:
    """Scenarios, and what kept pollers from processors that the plan gives to them alone."""
    for record in scenarios:
        name, sharing = record.facts.scenario, sharing_of(record.facts)
        waits = waits_of[name].shares if name in waits_of else {}
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


class _Waits:
    """For how long threads could run and had no processor, in the trials of a scenario."""

    def __init__(self) -> None:
        self._waited: dict[str, float] = {}
        self._watched: dict[str, float] = {}

    def add(self, result: TrialResult) -> None:
        for load in result.threads:
            if load.wait_s is not None:
                self._waited[load.role] = self._waited.get(load.role, 0.0) + load.wait_s
                seconds = load.watched_s or result.watch_time(load.role)
                self._watched[load.role] = self._watched.get(load.role, 0.0) + seconds

    @property
    def shares(self) -> dict[str, float]:
        """Role -> share of the time."""
        watched = self._watched.items()
        return {role: self._waited[role] / seconds for role, seconds in watched if seconds > 0}


#: What it costs that a thread which wakes does not run at once, and what may be done about it.
_WAITS_FOR_TICK = (
    "when it wakes it waits for the scheduler's tick, up to 4 ms, and more frames are unsent or "
    "lost; cure: run as root with CAP_SYS_NICE, and set sysctl kernel.sched_rt_runtime_us to 950000"
    "; in a container of a kernel with CONFIG_RT_GROUP_SCHED give its control group real-time "
    "runtime (cpu.rt_runtime_us)"
)


def _refused_text(role: str, words: str) -> str:
    return f"the kernel refused {role} SCHED_FIFO ({words}): {_WAITS_FOR_TICK}"


class _Turns:
    """What the turns of a tester that shares its processor did to the trials of a scenario."""

    def __init__(self) -> None:
        self._count = self._throttled = 0
        self._share = 0.0  # Of the first that was held back
        self._refused: dict[str, None] = {}

    def add(self, result: TrialResult) -> None:
        self._count += 1
        if (turns := result.turns) is None:
            return
        if turns.refused:
            self._refused[turns.refused] = None
        if result.held_back:
            self._share = self._share if self._throttled else turns.share
            self._throttled += 1

    def texts(self) -> Iterator[str]:
        for words in self._refused:
            yield _refused_text("the tester", words)
        if self._throttled:
            yield (
                f"in {self._throttled} of {self._count} trials the tester used up its share of its "
                f"processor ({self._share:.0%}) and left frames unsent: that load was too "
                "much for this machine, whatever the DUT did"
            )


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
        warnings.append(
            f"the tester is in a {graph.end_kind}'s place at {places}; "
            "what it can do there was not calibrated, only what it can do on a wire"
        )
    cables = {part["wire"] for part in record.facts.plan.get("hosts", ())}
    wire = record.facts.plan.get("wire")
    if cables - {wire} and not (scenario.deployment.tester_vnf_ports or scenario.sockets):
        warnings.append(
            f"the tester was calibrated over {wire} within its machine and not over its cables of "
            f"{' and '.join(sorted(cables))}: the largest load is what it offered there"
        )
    all_facts = [record.facts.facts, *record.facts.facts.get("hosts", {}).values()]
    offsets = [line for facts in all_facts for line in _offset_warnings(facts.get("generator", {}))]
    return warnings + list(dict.fromkeys(offsets))


#: Scenarios from which on what they have in common is told once for all.
_MANY_SCENARIOS = 4


def derive_conditions(scenarios: Sequence[ScenarioRecord]) -> tuple[str, ...]:
    """Derive what was set and how to read the numbers; none of it is a warning."""
    names = list(dict.fromkeys(record.facts.scenario for record in scenarios))
    if len(names) < _MANY_SCENARIOS:
        return tuple(
            _merge_equal_texts(
                (r.facts.scenario, text) for r in scenarios for text in _conditions(r)
            )
        )
    holders: dict[str, list[str]] = {}
    for record in scenarios:
        for text in (*record.scenario.conditions, *_further_conditions(record)):
            holders.setdefault(text, []).append(record.facts.scenario)
    texts_by_scope: dict[str, list[str]] = {}
    for text, holder_names in holders.items():
        which = _in_common(list(dict.fromkeys(holder_names)), names)
        if text != which.replace("=", " "):  # else the name has said it
            texts_by_scope.setdefault(which, []).append(text)
    return tuple(f"{which}: {', '.join(texts)}" for which, texts in texts_by_scope.items())


def _in_common(holder_names: Sequence[str], names: Sequence[str]) -> str:
    """Some of many scenarios: by what only their names have, else one by one."""
    if len(holder_names) == len(names):
        return f"all {len(names)} scenarios"
    shared = set.intersection(*(set(name.split(",")) for name in holder_names))
    others = {part for name in names if name not in holder_names for part in name.split(",")}
    common_parts = [part for part in holder_names[0].split(",") if part in shared - others]
    return common_parts[0] if common_parts and len(holder_names) > 1 else "; ".join(holder_names)


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
