"""What a preset asks for that contradicts itself, or a clause that it names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from vnetperf.model.errors import ConfigError

if TYPE_CHECKING:
    from vnetperf.model.preset import Preset
    from vnetperf.model.profile import TrafficProfile

#: Tests that say nothing without the throughput of no loss.
_OF_NO_LOSS = {
    "back_to_back": "RFC 9004 takes the zero-loss throughput for granted",
    "recovery": "RFC 2544 section 26.5 overloads by 110 % of the throughput",
    "reset": "RFC 2544 section 26.6 sends at the throughput",
}

#: Tests of a preset that is for back-to-back frames and nothing else.
_FOR_BURSTS = {"throughput", "back_to_back"}


def check_alone(preset: Preset) -> None:
    """Refuse a preset that contradicts itself.

    Args:
        preset: The preset.

    Raises:
        ConfigError: With key, clause, what is accepted and the cure.
    """
    _names(preset)
    _algorithm(preset)
    _tests(preset)


def check_goals(preset: Preset, where: str) -> None:
    """Refuse a preset file whose goals do not give what its own tests need.

    Tests that `--tests` names take the throughput there is, and say which.

    Args:
        preset: The preset as its file has it.
        where: The file.

    Raises:
        ConfigError: With the clause and the cure.
    """
    for test, why in _OF_NO_LOSS.items():
        if test in preset.tests and not any(goal.loss_ratio == 0 for goal in preset.goals):
            raise ConfigError(
                f"{test} needs a throughput without loss ({why}), and no goal has loss_ratio = 0",
                where=f"{where}: goals",
                accepted="a goal with loss_ratio = 0 beside the others",
                cure=f"add one, or take {test} out of tests",
            )


def check_traffic(preset: Preset, traffic: TrafficProfile) -> None:
    """Refuse a preset together with a traffic profile that one of them rules out.

    A preset of several tests leaves out the one that the traffic rules out; one that is for
    nothing else has nothing left to measure.

    Args:
        preset: The preset.
        traffic: The traffic profile.

    Raises:
        ConfigError: With the clause and the cure.
    """
    for_bursts = "back_to_back" in preset.tests
    if for_bursts and traffic.mix is not None and set(preset.tests) <= _FOR_BURSTS:
        raise ConfigError(
            f"the tests of preset {preset.name} are {', '.join(preset.tests)}; bursts are of one "
            f"frame size (RFC 9004: no IMIX), and traffic profile {traffic.name} has a mix",
            where="traffic",
            accepted="a profile without imix",
            cure="leave --traffic out, or choose another --preset or other --tests",
        )


def check_budget(preset: Preset, source: str) -> None:
    """Refuse a time budget where the preset's method leaves no room for one.

    Args:
        preset: The preset.
        source: Where the budget comes from.

    Raises:
        ConfigError: With the clause and the cure.
    """
    promises = {
        "binary": "RFC 2544 section 24 wants final values from trials of full length",
        "tst009": "TST009 section 12.3.2 knows no shorter trials",
    }
    if preset.algorithm in promises:
        raise ConfigError(
            f"a time budget ({source}) makes an estimate of whatever fits it, and preset "
            f"{preset.name} searches by {preset.algorithm!r}: {promises[preset.algorithm]}",
            where="time_budget",
            accepted='presets with algorithm = "mlr"',
            cure="leave --time-budget out, or take --preset quick or mlr-strict",
        )


def doubts(preset: Preset) -> Iterator[str]:
    """What is allowed and worth a warning.

    Args:
        preset: The preset.

    Yields:
        Sentences for the report.
    """
    for goal in preset.goals:
        if preset.algorithm != "tst009" and goal.width < goal.loss_ratio:
            yield (
                f"goal {goal.name}: its width, {goal.width:g}, is below its loss ratio, "
                f"{goal.loss_ratio:g}; the MLRsearch draft recommends at least that"
            )
    if preset.algorithm == "tst009" and preset.tst009 is not None and preset.tst009.max_r == 1:
        yield "max_r = 1: TST009 loss verification (section 12.3.3) is off, one lossy trial decides"


def _names(preset: Preset) -> None:
    names = [goal.name for goal in preset.goals]
    if len(set(names)) != len(names):
        raise ConfigError(f"goal names must differ, got {', '.join(names)}", where="goals")
    for key in ("tests", "smallest_only"):
        tests: tuple[str, ...] = getattr(preset, key)
        if len(set(tests)) != len(tests):
            raise ConfigError(f"a test is named twice in {', '.join(tests)}", where=key)


def _algorithm(preset: Preset) -> None:
    if preset.algorithm == "tst009" and preset.tst009 is None:
        raise ConfigError(
            "TST009 section 12.3.2 searches an array of offered loads, and there is no StepSize",
            where="tst009",
            accepted="a table [tst009] with step_fps or step_share",
        )
    if preset.algorithm != "tst009" and preset.tst009 is not None:
        raise ConfigError(
            f"inputs of TST009 sections 12.3.2 and 12.3.3 say nothing to algorithm "
            f"{preset.algorithm!r}",
            where="tst009",
            accepted='a table [tst009] beside algorithm = "tst009"',
        )


def _tests(preset: Preset) -> None:
    latency, soak = preset.latency, preset.soak
    if latency.tag_at_s >= latency.duration_s:
        raise ConfigError(
            f"tag_at_s = {latency.tag_at_s:g} s is not within the stream of "
            f"{latency.duration_s:g} s (RFC 2544 section 26.2: after 60 s of 120 s)",
            where="latency.tag_at_s",
            accepted=f"less than duration_s = {latency.duration_s:g}",
        )
    if soak.trial_s > soak.duration_s:
        raise ConfigError(
            f"trial_s = {soak.trial_s:g} s is longer than the whole soak of {soak.duration_s:g} s",
            where="soak.trial_s",
            accepted=f"up to duration_s = {soak.duration_s:g}",
        )
