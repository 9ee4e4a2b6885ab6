import pytest

from vnetperf.model.result import RunResults

from .sample import build, no_benchmark
from .sample_outcomes import with_outcomes


@pytest.fixture(scope="session")
def results() -> RunResults:
    """A benchmark: two scenarios, seven sizes, two goals, some 370 trials."""
    return build()


@pytest.fixture(scope="session")
def every(results: RunResults) -> RunResults:
    """The same with an outcome of every other test."""
    return with_outcomes(results)


@pytest.fixture(scope="session")
def few(results: RunResults) -> RunResults:
    """The benchmark's first result and trials, for what does not depend on what was measured."""
    return results.model_copy(
        update={"results": results.results[:1], "trials": results.trials[:20]}
    )


@pytest.fixture(scope="session")
def smoke(results: RunResults) -> RunResults:
    """The same by a preset that is no benchmark."""
    return results.model_copy(update=no_benchmark())


@pytest.fixture(scope="session")
def hostile(results: RunResults) -> RunResults:
    """A run whose every name tries to become markup, a formula or an escape sequence."""
    evil = (
        "<img src=x onerror=alert(1)>\"'&|`*_[a](javascript:b)\x00\x1b[31m\u202e</script><script>"
    )
    first = results.results[0]
    goal = first.goals[0].model_copy(
        update={"name": evil, "reason": evil, "regular": False, "latency": {evil: _latency(first)}}
    )
    result = first.model_copy(update={"scenario": evil, "test": evil, "goals": (goal,)})
    missing = result.model_copy(
        update={"frame_size": 128, "status": "not measured", "why": evil, "goals": ()}
    )
    trials = tuple(
        t.model_copy(
            update={"scenario": evil, "test": evil, "reason": evil, "lost_at": {evil: 7}},
        )
        for t in results.trials[:20]
    )
    run = results.run.model_copy(
        update=dict.fromkeys(("tool", "git", "command", "testbed", "notes", "isolation"), evil)
    )
    scenario = results.scenarios[0].model_copy(
        update={
            "scenario": evil,
            "error": evil,
            "facts": {evil: [evil, "-x"]},
            "plan": {evil: evil},
        }
    )
    entry = results.ledger[0].model_copy(update={"clause": evil, "value": evil, "reason": evil})
    return results.model_copy(
        update={
            "run": run,
            "preset": evil,
            "benchmark": False,
            "preset_note": evil,
            "warnings": (evil, "=cmd|' /C calc'!A0"),
            "settings": {evil: {"value": evil, "source": evil}},
            "environment": {evil: [evil, {"unknown": f"unknown: {evil}"}]},
            "scenarios": (scenario,),
            "results": (result, missing),
            "trials": trials,
            "ledger": (entry,),
            "deviations": (),
        }
    )


def _latency(result):
    return next(iter(result.goals[0].latency.values()))
