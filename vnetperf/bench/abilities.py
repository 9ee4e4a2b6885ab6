"""Whether a generator can do the trials of a test, asked before anything is deployed."""

from __future__ import annotations

from vnetperf import registry
from vnetperf.bench.run import Run
from vnetperf.model.errors import CapabilityError, NoResultError
from vnetperf.model.scenario import Scenario
from vnetperf.model.trial import TrialSpec
from vnetperf.procedures import KnownThroughput, kind_of

#: Figures that no test stumbles over: its first trial is looked at, and never run.
_RATE = 1e6
_KNOWN = KnownThroughput(load_fps=_RATE / 2, search=0, goal="any")


def require_generator(run: Run, scenario: Scenario, test: str) -> None:
    """Refuse a test whose trials the generator cannot do.

    Args:
        run: The run.
        scenario: The scenario.
        test: Name of a test that is no search.

    Raises:
        CapabilityError: It cannot; says what.
    """
    kind = kind_of(test)
    procedure = kind.run(
        kind.inputs(
            parameters=kind.parameters(run.configuration.preset),
            frame_size=64,
            ceiling_fps=_RATE,
            media_fps=_RATE,
            throughput=_KNOWN,
        )
    )
    try:
        ask = next(procedure)
    except (StopIteration, NoResultError):
        return  # it asks for none
    trial = TrialSpec(
        frame_size=64,
        load_fps=ask.load_fps,
        duration_s=ask.duration_s,
        burst=ask.burst,
        steps=ask.steps,
        event=ask.event,
        bin_s=ask.bin_s,
        tag_at_s=ask.tag_at_s,
    )
    if why := registry.load("traffic", scenario.generator).lacks(trial):
        raise CapabilityError(
            f"{scenario.generator} cannot {why}",
            where=f"{scenario.id}, test {test}",
            cure="--generator loadgen can",
        )
