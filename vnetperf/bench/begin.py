"""How a test is asked for: the record that opens it, with everything that decides its outcome."""

from __future__ import annotations

from typing import Any

from vnetperf import registry
from vnetperf.bench.events import inputs_of_events
from vnetperf.bench.run import Run
from vnetperf.model.errors import GeneratorError, NoResultError
from vnetperf.model.result import GoalResult, Result
from vnetperf.model.scenario import Scenario
from vnetperf.model.units import LinkSpeed
from vnetperf.procedures import KnownThroughput, kind_of
from vnetperf.results.records import BeginRecord, ProcedureRecord, SearchRecord


def begin_search(run: Run, scenario: Scenario, frame_size: int) -> SearchRecord:
    """Open a throughput search.

    Args:
        run: The run.
        scenario: What is deployed.
        frame_size: Octets including FCS.

    Returns:
        The record, with the next free number.

    Raises:
        GeneratorError: Next to nothing can be offered.
    """
    preset = run.configuration.preset
    ceiling, _ = _ceiling(run, scenario, frame_size)
    return SearchRecord(
        test="throughput",
        algorithm=preset.algorithm,
        goals=preset.goals,
        limits=preset.limits(ceiling),
        **_common(run, scenario, frame_size),
    )


def begin_procedure(
    run: Run, scenario: Scenario, test: str, frame_size: int, known: KnownThroughput | None
) -> ProcedureRecord:
    """Open a test that is no throughput search.

    Args:
        run: The run.
        scenario: What is deployed.
        test: Its name.
        frame_size: Octets including FCS.
        known: The throughput, for a test that needs it.

    Returns:
        The record, with the next free number.

    Raises:
        GeneratorError: Next to nothing can be offered.
    """
    kind, preset = kind_of(test), run.configuration.preset
    media = run.configuration.testbed.media
    ceiling, reason = _ceiling(run, scenario, frame_size)
    common = _common(run, scenario, frame_size)
    inputs = kind.inputs(
        parameters=kind.parameters(preset),
        frame_size=frame_size,
        directions=common["directions"],
        ends=common["ends"],
        loads=common["loads"],
        min_load_fps=preset.min_load_fps,
        ceiling_fps=ceiling,
        ceiling_reason=reason,
        media_fps=LinkSpeed(media.bits_per_second).max_frame_rate(
            common["mean_size"] or frame_size
        ),
        nominal=media.nominal,
        definition=registry.load("traffic", scenario.generator).capabilities.latency_definition,
        throughput=known,
        **inputs_of_events(run, scenario, kind, common["ends"]),
    )
    return ProcedureRecord(test=test, inputs=inputs.model_dump(mode="json"), **common)


def _ceiling(run: Run, scenario: Scenario, frame_size: int) -> tuple[float, str]:
    preset = run.configuration.preset
    ceiling, reason = run.ceiling(scenario, frame_size)
    if ceiling <= preset.min_load_fps:
        raise GeneratorError(
            f"the largest load that can be offered, {ceiling:.0f} frames/s, is not above the "
            f"preset's smallest, {preset.min_load_fps:.0f}",
            where=f"{scenario.id}, {frame_size} octets",
            cure="lower min_load_fps in the preset file",
        )
    return ceiling, reason


def _common(run: Run, scenario: Scenario, frame_size: int) -> dict[str, Any]:
    """Fields of `BeginRecord` that all tests have alike."""
    directions = len({stream.direction for stream in scenario.streams})
    profile = scenario.traffic
    mix, equal = profile.mix, profile.loads == (1.0, 1.0)
    loads = () if equal or directions < 2 else profile.loads
    first, second = scenario.deployment.ends
    point = run.calibrated(frame_size)
    _, reason = run.ceiling(scenario, frame_size)
    return {
        "search": run.log.next_search(),
        "scenario": scenario.id,
        "frame_size": frame_size,
        "directions": directions,
        "ends": (str(first), str(second)),
        # Both ports' sum; a test that sends one way can use half of it.
        "generator_max_fps": point.max_clean_fps * (sum(loads) or directions) / 2
        if point
        else None,
        "limit_reason": f"limited by {reason}",
        "imix": mix.name if mix is not None else "",
        "mean_size": mix.mean_size if mix is not None else None,
        "loads": loads,
    }


def throughput_of(result: Result, begin: BeginRecord) -> KnownThroughput:
    """The throughput that other tests take their loads of.

    Args:
        result: What the search found.
        begin: How it was asked for.

    Returns:
        The lower bound of the first goal without loss, else of the first goal.

    Raises:
        NoResultError: No load met that goal.
    """
    goal = _goal_of(result)
    if goal.lower_bound_fps is None:
        raise NoResultError(
            f"no load met goal {goal.name}, down to {result.min_load_fps or 0:.0f} frames/s per "
            f"interface ({goal.reason}), and this test takes its loads of that throughput",
            where=f"{result.scenario}, {result.size_text}",
        )
    notes = []
    if goal.loss_ratio:
        notes.append(f"the throughput is that of goal {goal.name}, loss {goal.loss_ratio:g}")
    if goal.qualifier == "at least":
        notes.append(f"the throughput is at least that: {goal.reason}")
    elif not goal.regular:
        notes.append(f"the throughput is the lower bound of an irregular result: {goal.reason}")
    return KnownThroughput(
        load_fps=goal.lower_bound_fps / begin.in_sum,
        search=begin.search,
        goal=goal.name,
        loss_ratio=goal.loss_ratio,
        qualifier="at least" if goal.qualifier == "at least" else "",
        note="; ".join(notes),
    )


def _goal_of(result: Result) -> GoalResult:
    zero = [g for g in result.goals if g.loss_ratio == 0 and g.exceed_ratio == 0]
    no_loss = [g for g in result.goals if g.loss_ratio == 0]
    return (zero or no_loss or list(result.goals))[0]
