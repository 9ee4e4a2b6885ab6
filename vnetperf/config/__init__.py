"""Configuration: built-in defaults, test case, vnetperf.toml.

Environment and command line merged into one frozen value.

`vnetperf show-config` prints where each value came from.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator

from vnetperf.config.files import available, find_file, load_model, read_toml, validate
from vnetperf.config.settings import (
    core_options,
    guest_options,
    mobile_core,
    parse_frame_sizes,
    parse_message_sizes,
    parse_seconds,
    parse_tests,
    read_testbed,
    switch_options,
)
from vnetperf.model.base import Frozen
from vnetperf.model.errors import ConfigError
from vnetperf.model.frames import TunnelKind
from vnetperf.model.options import CoreOptions, GuestOptions, MobileCore, SwitchOptions
from vnetperf.model.outcomes import AUTO, MAX_INSTANCES, MAX_MESSAGE, ServerPlace
from vnetperf.model.parameters import TestName
from vnetperf.model.preset import FrameSizes, Preset, check_budget, check_goals, check_traffic
from vnetperf.model.scenario import Forwarding, Rules, Variant, VnfPlacement
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.model.trial import CaptureSpec, parse_capture

__all__ = [
    "ENV_PREFIX",
    "OF_THE_RUN",
    "USER_FILE",
    "Configuration",
    "Settings",
    "available",
    "find_file",
    "load",
    "load_model",
    "parse_frame_sizes",
    "parse_message_sizes",
    "parse_tests",
    "read_toml",
    "validate",
]

USER_FILE = "vnetperf.toml"
ENV_PREFIX = "VNETPERF_"

MessageSizes = Annotated[
    tuple[Annotated[int, Field(ge=1, le=MAX_MESSAGE)], ...], Field(min_length=1)
]
#: Settings of which single ones are laid over others; all others are replaced.
_ADDED_UP = ("set", "guest", "core")
#: Settings of a run as a whole: a variant cannot have others.
OF_THE_RUN = (
    *("testbed", "preset", "tests", "frame_sizes", "message_sizes", "pcap", "results_dir"),
    "notes",
)


class Settings(Frozen):
    """What a run is asked to do, apart from which scenarios.

    Attributes:
        testbed: Name of a file under conf/testbeds/, or a path.
        preset: Name of a file under conf/presets/, or a path.
        tests: Tests that are run, as "throughput", "latency" ...; empty for the preset's.
        traffic: Name of a file under conf/traffic/, or a path.
        frame_sizes: Octets including FCS; empty for the preset's.
        time_budget: Longest time of one search with the waits around its trials, "300", "90s",
            "5m", "1h"; "" for what the preset says.
        vnf: Registered name of the VNF loader.
        vnf_mode: Forwarding mode of the VNF; "auto" rewrites addresses where the vSwitch needs it.
        vnf_placement: Where VNFs run: "auto" where there is room, "local" on the pollers' NUMA
            node, "remote" on another one, "unpinned" where the kernel likes.
        vnfs: Number of VNFs in pvvp and pvpv; None for two.
        switch: Name of a file under conf/switch/, or a path: options of the vSwitch.
        set: Single options of the vSwitch as "key=value", over those of the file.
        guest: Options of guests, where VNFs run in VMs: "key=value", and at most one name of a file
            under conf/guest/, or a path.
        core: Options of a mobile core, where the VNF is one: "key=value", and at most one name of a
            file under conf/stacks/, or a path: which core.
        forwarding: "l2" switches frames, "l3" routes packets.
        rules: What the vSwitch forwards by: "port", "stream" (a rule per flow), "learning".
        tunnel: Kind of tunnel of the overlay deployments: "vxlan", "gre", "geneve".
        generator: Registered name of the traffic generator.
        wire: Kind of wire, or "auto".
        endpoint_tool: Registered name of the endpoint tool, or "auto".
        endpoint_server: Where the second endpoint is: "far" at the tester's port 1, "vnf" in the
            VNF.
        message_sizes: Octets of messages between endpoints.
        instances: Parallel processes of the endpoint tool at each end.
        pcap: Frames of each trial to keep as pcap files, "FRAMES" or "FRAMES:WHAT"
            (model/capture.py); "0" keeps none.
        results_dir: Folder that gets one folder for each run.
        notes: The operator's notes, quoted in the report.
    """

    testbed: str = "local"
    preset: str = "quick"
    tests: tuple[TestName, ...] = ()
    traffic: str = "single-flow"
    frame_sizes: FrameSizes = ()
    time_budget: str = ""
    vnf: str = "vloop"
    vnf_mode: str = "auto"
    vnf_placement: VnfPlacement = "auto"
    vnfs: Annotated[int, Field(ge=1, le=64)] | None = None
    switch: str = "default"
    set: tuple[str, ...] = ()
    guest: tuple[str, ...] = ()
    core: tuple[str, ...] = ()
    forwarding: Forwarding = "l2"
    rules: Rules = "port"
    tunnel: TunnelKind = "vxlan"
    generator: str = "loadgen"
    wire: str = "auto"
    endpoint_tool: str = AUTO
    endpoint_server: ServerPlace = "far"
    message_sizes: MessageSizes = (64, 1024, 16384)
    instances: Annotated[int, Field(ge=1, le=MAX_INSTANCES)] = 1
    pcap: str = "0"
    results_dir: str = "results"
    notes: str = ""

    @field_validator("time_budget", mode="before")
    @classmethod
    def _budget_is_a_time(cls, value: object) -> str:
        return str(value) if parse_seconds(str(value), "time_budget") else ""

    @field_validator("pcap", mode="before")
    @classmethod
    def _capture_is_known(cls, value: object) -> str:
        parse_capture(str(value))
        return str(value)


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings, the files they name, and where each value came from.

    Attributes:
        settings: Effective settings.
        sources: Key -> "default", "vnetperf.toml", "environment VNETPERF_X", "command line".
        testbed: The testbed file.
        preset: The preset file, with the settings' frame sizes and tests applied.
        traffic: The traffic file.
        switch: The options of the vSwitch, with the settings' single ones applied.
        guest: The options of guests, likewise.
        core: The options of a mobile core, likewise.
    """

    settings: Settings
    sources: dict[str, str]
    testbed: Testbed
    preset: Preset
    traffic: TrafficProfile
    switch: SwitchOptions
    guest: GuestOptions
    core: CoreOptions

    @property
    def capture(self) -> CaptureSpec | None:
        """Frames of each trial to keep; None for none."""
        asked = parse_capture(self.settings.pcap)
        return asked if asked.frames else None

    @property
    def stack(self) -> MobileCore:
        """Which core; its file is read only for scenarios with one, unless a user names it."""
        return mobile_core(self.settings.core)

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
            if key in _ADDED_UP:
                held = values.get(key, getattr(self.settings, key))
                given = value if isinstance(value, tuple) else (str(value),)
                values[key] = _laid_over(held, given)
            else:
                values[key] = value
        validate(Settings, values, where)
        settings = validate(Settings, self.settings.model_dump() | values, where)
        return _read(settings, self.sources | dict.fromkeys(values, where), self)


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable, text in environment.items():
        if not variable.startswith(ENV_PREFIX):
            continue
        key = variable.removeprefix(ENV_PREFIX).lower()
        if key not in Settings.model_fields:
            if key in ("run_id", "require"):  # of our own child processes, and of the contract kit
                continue
            near = get_close_matches(key, list(Settings.model_fields), 1)
            hint = f", did you mean {ENV_PREFIX}{near[0].upper()}?" if near else ""
            raise ConfigError(
                f"unknown environment variable {variable}{hint}",
                where="environment",
                accepted=", ".join(f"{ENV_PREFIX}{k.upper()}" for k in Settings.model_fields),
            )
        values[key] = _parse(key, text, variable)
    return values


def _parse(key: str, text: str, where: str) -> Any:
    if key == "frame_sizes":
        return parse_frame_sizes(text, where)
    if key == "tests":
        return parse_tests(text, where)
    if key == "message_sizes":
        return parse_message_sizes(text, where)
    return tuple(text.split(";")) if key in _ADDED_UP else text


def load(
    command_line: Mapping[str, Any] | None = None,
    *,
    test_case: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Configuration:
    """Merge all layers and read the files they name."""
    user_file = (directory or Path.cwd()) / USER_FILE
    layers: list[tuple[str, Mapping[str, Any]]] = [
        ("test case", test_case or {}),
        (str(user_file), read_toml(user_file) if user_file.is_file() else {}),
        ("environment", _from_environment(os.environ if environment is None else environment)),
        ("command line", {k: v for k, v in (command_line or {}).items() if v is not None}),
    ]
    merged: dict[str, Any] = {}
    sources = dict.fromkeys(Settings.model_fields, "default")
    for source, values in layers:
        if not values:
            continue
        validate(Settings, values, source)  # so that an error names the layer it is in
        merged.update(values)
        for key in values:
            via = f" {ENV_PREFIX}{key.upper()}" if source == "environment" else ""
            sources[key] = source + via
    return _read(validate(Settings, merged, "settings"), sources)


def _laid_over(held: tuple[str, ...], given: tuple[str, ...]) -> tuple[str, ...]:
    """Single options over others; a file's name replaces the file that was named."""
    names_file = any("=" not in one for one in given)
    kept = tuple(one for one in held if "=" in one or not names_file)
    return (*kept, *given)


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


def _require_same_mix(one: TrafficProfile, other: TrafficProfile) -> None:
    if one.mix != other.mix:
        raise ConfigError(
            f"traffic profiles {one.name} and {other.name} have not the same mix of frame sizes",
            where="traffic",
            cure="compare profiles of one mix, or of none",
        )


def _read(
    settings: Settings, sources: dict[str, str], known: Configuration | None = None
) -> Configuration:
    """Read the files that settings name; the run's own are those of `known`, if there is one."""
    if known is None:
        path = find_file("presets", settings.preset)
        preset = load_model(Preset, path)
        check_goals(preset, str(path))
        if settings.frame_sizes:
            preset = preset.model_copy(update={"frame_sizes": settings.frame_sizes})
        if seconds := parse_seconds(settings.time_budget, "time_budget"):
            check_budget(preset, f"{settings.time_budget}, {sources['time_budget']}")
            preset = preset.model_copy(update={"time_budget_s": seconds})
        if settings.tests:
            preset = preset.model_copy(update={"tests": settings.tests})
        testbed = read_testbed(settings.testbed)
    else:
        preset, testbed = known.preset, known.testbed
    if any("=" not in one for one in settings.core):
        mobile_core(settings.core)  # what is wrong in it is told before anything starts
    traffic = load_model(TrafficProfile, find_file("traffic", settings.traffic))
    if known is not None:
        _require_same_mix(known.traffic, traffic)
    elif traffic.mix is not None:
        preset = _with_the_mix(preset, traffic, settings, sources)
        check_traffic(preset, traffic)
    return Configuration(
        settings=settings,
        sources=sources,
        testbed=testbed,
        preset=preset,
        traffic=traffic,
        switch=switch_options(settings.switch, settings.set),
        guest=guest_options(settings.guest),
        core=core_options(settings.core),
    )
