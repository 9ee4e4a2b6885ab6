"""Configuration: built-in defaults, test case, vnetperf.toml.

Environment and command line merged into one frozen value.

`vnetperf show-config` prints where each value came from.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from vnetperf.config.files import (
    available,
    find_file,
    load_model,
    read_toml,
    validate,
)
from vnetperf.config.settings import (
    ADDED_UP,
    CHANGE_SETTINGS,
    ENV_PREFIX,
    OF_THE_RUN,
    CommandLine,
    Settings,
    change_options,
    guest_options,
    mobile_core,
    mobile_core_options,
    parse_seconds,
    read_testbed,
    switch_options,
    variable_name,
)
from vnetperf.model.errors import ConfigError, accepted_names, did_you_mean, join_errors
from vnetperf.model.frame_change import FrameChange
from vnetperf.model.options import GuestOptions, MobileCore, MobileCoreOptions, SwitchOptions
from vnetperf.model.parameters import THROUGHPUT
from vnetperf.model.preset import Preset, check_budget, check_goals, check_traffic
from vnetperf.model.scenario import Variant
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.model.trial import CaptureSpec, parse_capture
from vnetperf.plugin import registry
from vnetperf.plugin.procedure import load_test

__all__ = [
    "ENV_PREFIX",
    "OF_THE_RUN",
    "USER_FILE",
    "CommandLine",
    "Configuration",
    "Settings",
    "available",
    "find_file",
    "load",
    "load_model",
    "read_toml",
    "validate",
]

USER_FILE = "vnetperf.toml"
#: Variables of our own child processes, and of the contract kit.
_NO_SETTINGS = ("run_id", "require")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings, the files they name, and where each value came from."""

    settings: Settings
    #: Key -> "default", "vnetperf.toml", "environment VNETPERF_X", "command line".
    sources: dict[str, str]
    testbed: Testbed  # The testbed file; of several that are named, the one that is measured on
    preset: Preset  # The preset file, with the settings' frame sizes and tests applied
    traffic: TrafficProfile
    switch: SwitchOptions  # The options of the vSwitch, with the settings' single ones applied
    guest: GuestOptions  # The options of guests, likewise
    mobile_core: MobileCoreOptions  # The options of a mobile core, likewise
    #: Kind of change, by its key -> what a DUT does to frames, with the options of its setting.
    changes: dict[str, FrameChange]

    @property
    def capture(self) -> CaptureSpec | None:
        """Frames of each trial to keep; None for none."""
        spec = parse_capture(self.settings.pcap)
        return spec if spec.frames else None

    @property
    def stack(self) -> MobileCore:
        """Which mobile core; its file is read for scenarios with one, or when a user names it."""
        return mobile_core(self.settings.core, f"{self.sources['core']}: core")

    def as_record(self) -> dict[str, dict[str, Any]]:
        """Settings with their sources, for the log and `show-config`."""
        values = self.settings.model_dump(mode="json")
        return {key: {"value": values[key], "source": self.sources[key]} for key in values}

    def varied(self, variant: Variant) -> Configuration:
        """This configuration with a variant's settings laid over, as if typed last."""
        where = f"variant {variant.id}"
        values: dict[str, Any] = {}
        for key, value in variant.settings:
            if key in OF_THE_RUN:
                raise ConfigError(
                    f"{key} belongs to the whole run and cannot be varied",
                    where=where,
                    accepted=", ".join(k for k in Settings.model_fields if k not in OF_THE_RUN),
                )
            if key in ADDED_UP:
                current = values.get(key, getattr(self.settings, key))
                additions = value if isinstance(value, tuple) else (str(value),)
                values[key] = _laid_over(current, additions)
            else:
                values[key] = value
        validate(Settings, values, where)
        settings = validate(Settings, self.settings.model_dump() | values, where)
        return _read(settings, self.sources | dict.fromkeys(values, where), self)


def _from_environment(environment: Mapping[str, str], errors: list[ConfigError]) -> dict[str, str]:
    """Values by key; a variable of ours that is no setting is an error."""
    ours = {
        name.removeprefix(ENV_PREFIX).lower(): text
        for name, text in environment.items()
        if name.startswith(ENV_PREFIX)
    }
    variables = [variable_name(key) for key in Settings.model_fields]
    for key in ours:
        if key not in Settings.model_fields and key not in _NO_SETTINGS:
            near = did_you_mean(variable_name(key), variables).replace("'", "")
            error = ConfigError(
                f"unknown environment variable {variable_name(key)}{near}",
                where="environment",
                accepted=accepted_names(
                    variable_name(key), variables, "docs/configuration.md has all"
                ),
            )
            errors.append(error)
    return {key: text for key, text in ours.items() if key in Settings.model_fields}


def load(
    command_line: Mapping[str, Any] | None = None,
    *,
    test_case: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    resumed: tuple[str, Mapping[str, Any]] = ("", {}),
    number: int | None = None,
) -> Configuration:
    """Merge all layers and read the files they name.

    `resumed` is a log and the settings of its run: only the command line is above them. `number`
    is that of the testbed, from 0, where several may be named; None: one must be.
    """
    user_file = (directory or Path.cwd()) / USER_FILE
    errors: list[ConfigError] = []
    variables = os.environ if environment is None else environment
    layers: list[tuple[str, Mapping[str, Any]]] = [
        ("test case", test_case or {}),
        (str(user_file), read_toml(user_file) if user_file.is_file() else {}),
        ("environment", _from_environment(variables, errors)),
        resumed,
        ("command line", {k: v for k, v in (command_line or {}).items() if v is not None}),
    ]
    merged: dict[str, Any] = {}
    sources = dict.fromkeys(Settings.model_fields, "default")
    for source, layer in layers:
        values = layer
        try:
            validate(Settings, values, source)  # so that an error names the layer it is in
        except ConfigError as error:
            errors.append(error)
            values = {key: value for key, value in layer.items() if _is_right(key, value)}
        if not values:
            continue
        merged.update(values)
        for key in values:
            via = f" {variable_name(key)}" if source == "environment" else ""
            sources[key] = source + via
        _log.debug("%s: %s", source, dict(values))
    settings = validate(Settings, merged, "settings")
    if errors:
        raise join_errors([*errors, *_check_parts(settings, sources)])
    if number is None and len(settings.testbeds) > 1:
        count = len(settings.testbeds)
        raise ConfigError(
            f"{settings.testbed!r} names {count} testbeds",
            where=f"testbed ({sources['testbed']})",
            accepted="one; several are for a run of pytest that gives each a worker of its own",
            cure=f"name one, or measure on all of them at once with pytest -n {count}",
        )
    try:
        return _read(settings, sources, testbed=settings.testbeds[number or 0])
    except ConfigError as error:
        raise join_errors([error, *_check_parts(settings, sources)]) from None


def _catch_error(read: Callable[[], object]) -> ConfigError | None:
    try:
        read()
    except ConfigError as error:
        return error
    return None


def _is_right(key: str, value: Any) -> bool:
    return _catch_error(lambda: validate(Settings, {key: value}, key)) is None


def _check_parts(settings: Settings, sources: Mapping[str, str]) -> list[ConfigError]:
    """Read each file and each set of single options by itself; return the errors."""

    def where(key: str) -> str:
        return f"{sources[key]}: {key}"

    preset = settings.preset or "quick"
    reads: tuple[Callable[[], object], ...] = (
        lambda: [read_testbed(name, where("testbed")) for name in settings.testbeds],
        lambda: _read_preset(find_file("presets", preset, where("preset"))),
        lambda: load_model(
            TrafficProfile, find_file("traffic", settings.traffic, where("traffic"))
        ),
        lambda: switch_options(settings.switch, settings.set, where("switch"), where("set")),
        lambda: guest_options(settings.guest, where("guest")),
        lambda: mobile_core_options(settings.core, where("core")),
        *(partial(_read_change, settings, name, where(name)) for name in CHANGE_SETTINGS),
    )
    return [error for read in reads if (error := _catch_error(read)) is not None]


def _read_change(settings: Settings, setting: str, where: str) -> FrameChange:
    return change_options(setting, getattr(settings, setting), where)


def _read_preset(path: Path) -> Preset:
    """Read a preset file, whose tests are among those there are; each checks its parameters."""
    preset = load_model(Preset, path)
    names = registry.test_names()
    for test in (*preset.tests, *preset.smallest_only, *preset.test_parameters):
        if test not in names:
            raise ConfigError(
                f"{test!r} is not a test{did_you_mean(test, names)}",
                where=f"{path}: tests",
                accepted=", ".join(names),
            )
    for name, table in preset.test_parameters.items():
        kind = None if name == THROUGHPUT else load_test(name)
        if kind is None or kind.section:
            where = f"[{kind.section}]" if kind is not None else "goals and trial"
            raise ConfigError(
                f"the parameters of {name} stand in {where}", where=f"{path}: tests.{name}"
            )
        validate(kind.parameters_model(), table, f"{path}: tests.{name}")
    return preset


def _laid_over(earlier: tuple[str, ...], later: tuple[str, ...]) -> tuple[str, ...]:
    """Single options over others; a file's name replaces the file that was named."""
    names_file = any("=" not in option for option in later)
    kept = tuple(option for option in earlier if "=" in option or not names_file)
    return (*kept, *later)


def _with_the_mix(
    preset: Preset, traffic: TrafficProfile, settings: Settings, sources: Mapping[str, str]
) -> Preset:
    """The preset with the mix's mean as its one frame size, which stands for the whole mix."""
    source = sources["frame_sizes"]
    if settings.frame_sizes and source != "test case":
        raise ConfigError(
            f"frame_sizes = {', '.join(map(str, settings.frame_sizes))} ({source}), and traffic "
            f"profile {traffic.name} has a mix of sizes of its own",
            where="frame_sizes",
            cure="leave --frame-sizes out, or choose a profile without imix",
        )
    assert traffic.mix is not None  # noqa: S101 - for the type checker: the caller looked
    return preset.model_copy(update={"frame_sizes": (traffic.mix.key,)})


def _with_flows(traffic: TrafficProfile, flows: int) -> TrafficProfile:
    """The profile with another number of flows, held to what a file is held to."""
    try:
        return validate(TrafficProfile, traffic.model_dump() | {"flows": flows}, "flows")
    except ConfigError as error:
        raise ConfigError(
            f"traffic profile {traffic.name} cannot have {flows} flows: {error.what}",
            where="flows",
            accepted=error.accepted,
            cure="--traffic million-flows varies fields that make a million and more",
        ) from error


#: With fewer processors the pollers of the smallest deployment share some: its switch, its VNF or
#: the tester, and the system.
FEWEST_OF_THEIR_OWN = 4


def default_preset(testbed: Testbed) -> str:
    """The preset of a run that names none: "shared" where this machine's pollers share."""
    if testbed.agent.transport == "local" and shared_processors():
        return "shared"
    return "quick"


def shared_processors() -> int:
    """How many processors this machine has, where they are too few for pollers; else 0."""
    number = len(os.sched_getaffinity(0))
    return number if number < FEWEST_OF_THEIR_OWN else 0


def _read(
    settings: Settings,
    sources: dict[str, str],
    base: Configuration | None = None,
    *,
    testbed: str = "",
) -> Configuration:
    """Read the files that settings name; the run's own are those of `base`, if there is one."""

    def where(key: str) -> str:
        return f"{sources[key]}: {key}"

    if base is None:
        bed = read_testbed(testbed, where("testbed"))
        if not settings.preset:
            several = len(settings.testbeds) > 1
            settings = settings.model_copy(
                update={"preset": "quick" if several else default_preset(bed)}
            )
        path = find_file("presets", settings.preset, where("preset"))
        preset = _read_preset(path)
        check_goals(preset, str(path))
        if settings.frame_sizes:
            preset = preset.model_copy(update={"frame_sizes": settings.frame_sizes})
        if seconds := parse_seconds(settings.time_budget, "time_budget"):
            check_budget(preset, f"{settings.time_budget}, {sources['time_budget']}")
            preset = preset.model_copy(update={"time_budget_s": seconds})
        if settings.rounds:
            rounds = {"rounds": settings.rounds, "most_rounds": settings.rounds}
            preset = preset.model_copy(update=rounds)
        if settings.tests:
            preset = preset.model_copy(update={"tests": settings.tests})
    else:
        preset, bed = base.preset, base.testbed
    if any("=" not in option for option in settings.core):
        # So that an error in it stops the run before it starts.
        mobile_core(settings.core, where("core"))
    profile = find_file("traffic", settings.traffic, where("traffic"))
    traffic = load_model(TrafficProfile, profile)
    if settings.flows:
        traffic = _with_flows(traffic, settings.flows)
    if base is not None:
        if base.traffic.mix != traffic.mix:
            names = f"{base.traffic.name} and {traffic.name}"
            raise ConfigError(
                f"traffic profiles {names} have different mixes of frame sizes",
                where="traffic",
                cure="compare profiles of one mix, or of none",
            )
    elif traffic.mix is not None:
        preset = _with_the_mix(preset, traffic, settings, sources)
        check_traffic(preset, traffic)
    return Configuration(
        settings=settings,
        sources=sources,
        testbed=bed,
        preset=preset,
        traffic=traffic,
        switch=switch_options(settings.switch, settings.set, where("switch"), where("set")),
        guest=guest_options(settings.guest, where("guest")),
        mobile_core=mobile_core_options(settings.core, where("core")),
        changes={
            kind.key: _read_change(settings, name, where(name))
            for name, kind in CHANGE_SETTINGS.items()
        },
    )
