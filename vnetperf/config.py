"""Configuration: TOML files, environment and options become one frozen Settings value.

Precedence, lowest first: built-in default, test case, vnetperf.toml, environment (VNETPERF_*),
command line. Where each value came from is kept and shown by `vnetperf show-config`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from vnetperf.model.base import Frozen
from vnetperf.model.errors import ConfigError
from vnetperf.model.guest import GuestOptions
from vnetperf.model.options import SwitchOptions
from vnetperf.model.preset import FrameSizes, Preset
from vnetperf.model.scenario import Forwarding, Rules
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.model.tunnel import TunnelKind

USER_FILE = "vnetperf.toml"
ENV_PREFIX = "VNETPERF_"
Model = TypeVar("Model", bound=BaseModel)


class Settings(Frozen):
    """What a run is asked to do, apart from which scenarios.

    Attributes:
        testbed: Name of a file under conf/testbeds/, or a path.
        preset: Name of a file under conf/presets/, or a path.
        traffic: Name of a file under conf/traffic/, or a path.
        frame_sizes: Octets including FCS; empty for the preset's.
        vnf: Registered name of the VNF loader.
        vnf_mode: Forwarding mode of the VNF; "auto" rewrites addresses where the vSwitch needs it.
        vnfs: Number of VNFs in pvvp and pvpv; None for two.
        switch: Name of a file under conf/switch/, or a path: options of the vSwitch.
        set: Single options of the vSwitch as "key=value", over those of the file.
        guest: Options of guests, where VNFs run in VMs: "key=value", and at most one name of a file
            under conf/guest/, or a path.
        forwarding: "l2" switches frames, "l3" routes packets.
        rules: What the vSwitch forwards by: "port", "stream" (a rule per flow), "learning".
        tunnel: Kind of tunnel of the overlay deployments: "vxlan", "gre", "geneve".
        generator: Registered name of the traffic generator.
        wire: Kind of wire, or "auto".
        results_dir: Folder that gets one folder for each run.
        notes: The operator's notes, quoted in the report.
    """

    testbed: str = "local"
    preset: str = "quick"
    traffic: str = "single-flow"
    frame_sizes: FrameSizes = ()
    vnf: str = "vloop"
    vnf_mode: str = "auto"
    vnfs: Annotated[int, Field(ge=1, le=64)] | None = None
    switch: str = "default"
    set: tuple[str, ...] = ()
    guest: tuple[str, ...] = ()
    forwarding: Forwarding = "l2"
    rules: Rules = "port"
    tunnel: TunnelKind = "vxlan"
    generator: str = "loadgen"
    wire: str = "auto"
    results_dir: str = "results"
    notes: str = ""


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings, the files they name, and where each value came from.

    Attributes:
        settings: Effective settings.
        sources: Key -> "default", "vnetperf.toml", "environment VNETPERF_X", "command line".
        testbed: The testbed file.
        preset: The preset file, with the settings' frame sizes applied.
        traffic: The traffic file.
        switch: The options of the vSwitch, with the settings' single ones applied.
        guest: The options of guests, likewise.
    """

    settings: Settings
    sources: dict[str, str]
    testbed: Testbed
    preset: Preset
    traffic: TrafficProfile
    switch: SwitchOptions
    guest: GuestOptions

    def as_record(self) -> dict[str, dict[str, Any]]:
        """Settings with their sources, for the log and `show-config`.

        Returns:
            Key -> {"value", "source"}.
        """
        values = self.settings.model_dump(mode="json")
        return {key: {"value": values[key], "source": self.sources[key]} for key in values}


def conf_dirs() -> tuple[Path, ...]:
    """Folders searched for configuration files, in order.

    Returns:
        ./conf of the working directory, then the files shipped with the project.
    """
    shipped = (Path(__file__).parent / "conf").resolve()  # in a checkout a link to its conf/
    return tuple(dict.fromkeys((Path.cwd() / "conf", shipped)))


def find_file(kind: str, name: str) -> Path:
    """The file of a named testbed, preset or traffic profile.

    Args:
        kind: "testbeds", "presets", "traffic", "switch" or "guest".
        name: Name without ".toml", or a path ending in ".toml".

    Returns:
        Path of the file.

    Raises:
        ConfigError: When there is none, naming those there are.
    """
    if name.endswith(".toml"):
        if _is_file(Path(name)):
            return Path(name)
        raise ConfigError(f"there is no file {name}", where=kind)
    for directory in conf_dirs():
        path = directory / kind / f"{name}.toml"
        if _is_file(path):
            return path
    known = available(kind)
    near = get_close_matches(name, known, 1)
    raise ConfigError(
        f"unknown name {name!r}" + (f", did you mean {near[0]!r}?" if near else ""),
        where=kind,
        accepted=", ".join(known) + ", or a path ending in .toml",
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # e.g. a name that is too long to be one
        return False


def available(kind: str) -> list[str]:
    """Names of all files of a kind.

    Args:
        kind: "testbeds", "presets", "traffic" or "switch".

    Returns:
        Names, sorted.
    """
    return sorted({path.stem for d in conf_dirs() for path in (d / kind).glob("*.toml")})


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Args:
        path: The file.

    Returns:
        Its content.

    Raises:
        ConfigError: When it cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", where=str(path)) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"is not valid TOML: {error}", where=str(path)) from error


def load_model(model: type[Model], path: Path) -> Model:
    """Read a file into a model; its name defaults to the file's.

    Args:
        model: Testbed, Preset or TrafficProfile.
        path: The file.

    Returns:
        The value.

    Raises:
        ConfigError: Unknown keys, wrong types or impossible values.
    """
    content = read_toml(path)
    content.setdefault("name", path.stem)
    return validate(model, content, str(path))


def validate(model: type[Model], content: Mapping[str, Any], where: str) -> Model:
    """Validate values, with one clear error.

    Args:
        model: What they should be.
        content: The values.
        where: File or option they come from.

    Returns:
        The model's value.

    Raises:
        ConfigError: With key path, what is wrong and what is accepted.
    """
    try:
        return model.model_validate(dict(content))
    except ValidationError as error:
        raise _as_config_error(model, error, where) from None
    except ConfigError as error:  # a goal checks itself and names its own key
        raise ConfigError(
            error.what,
            where=f"{where}: {error.where}" if error.where else where,
            accepted=error.accepted,
            cure=error.cure,
        ) from None


def _as_config_error(model: type[BaseModel], error: ValidationError, where: str) -> ConfigError:
    first, *more = error.errors()
    path = ".".join(str(part) for part in first["loc"])
    accepted = ""
    what = first["msg"].removeprefix("Value error, ")
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        keys = _keys_at(model, first["loc"][:-1])
        near = get_close_matches(str(first["loc"][-1]), keys, 1)
        what = "unknown key" + (f", did you mean {near[0]!r}?" if near else "")
        accepted = ", ".join(keys)
    elif first["type"] != "value_error":
        what = f"{what}, got {first['input']!r}"
    if more:
        what += f" (and {len(more)} more wrong values in the same place)"
    return ConfigError(what, where=f"{where}: {path}" if path else where, accepted=accepted)


def _keys_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Keys accepted at a place, read from the model's JSON schema."""
    schema: dict[str, Any] = TypeAdapter(model).json_schema()
    definitions = schema.get("$defs", {})
    here = schema
    for part in path:
        here = here.get("items", {}) if isinstance(part, int) else here["properties"].get(part, {})
        here = here["allOf"][0] if "allOf" in here else here
        reference = here.get("$ref", "").rpartition("/")[2]
        here = definitions.get(reference, here)
    return sorted(here.get("properties", {}))


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
    return tuple(text.split(";")) if key in ("set", "guest") else text


def switch_options(settings: Settings) -> SwitchOptions:
    """Options of the vSwitch: those of the file, and single ones over them.

    Args:
        settings: Names the file and the single options.

    Returns:
        The options.

    Raises:
        ConfigError: Anything wrong in either.
    """
    path = find_file("switch", settings.switch)
    return _options(SwitchOptions, path, settings.set, "--set")


def guest_options(settings: Settings) -> GuestOptions:
    """Options of guests: those of a file, if one is named, and single ones over them.

    Args:
        settings: Names the file and the single options.

    Returns:
        The options.

    Raises:
        ConfigError: Anything wrong in either.
    """
    files = [given for given in settings.guest if "=" not in given]
    if len(files) > 1:
        raise ConfigError(
            f"{files[1]!r} is a second file beside {files[0]!r}",
            where="--guest",
            accepted="one file and any number of KEY=VALUE",
        )
    path = find_file("guest", files[0]) if files else None
    pairs = tuple(given for given in settings.guest if "=" in given)
    return _options(GuestOptions, path, pairs, "--guest")


def _options(model: type[Model], path: Path | None, pairs: tuple[str, ...], option: str) -> Model:
    content: dict[str, Any] = {}
    if path is not None:
        content = {"name": path.stem, **read_toml(path)}
        validate(model, content, str(path))  # so that an error names the layer it is in
    keys = [key for key in model.model_fields if key != "name"]
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or key not in keys:
            near = get_close_matches(key, keys, 1)
            raise ConfigError(
                f"{pair!r} sets no option" + (f", did you mean {near[0]!r}?" if near else ""),
                where=option,
                accepted=f"KEY=VALUE with KEY one of {', '.join(keys)}",
            )
        content[key] = _toml_value(text)
    return validate(model, content, option if pairs else str(path or option))


def _toml_value(text: str) -> Any:
    """A value as TOML has it; a bare word is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def parse_frame_sizes(text: str, where: str = "--frame-sizes") -> tuple[int, ...]:
    """Frame sizes from "64,512,1518".

    Args:
        text: The text.
        where: Option or variable it comes from.

    Returns:
        Octets including FCS.

    Raises:
        ConfigError: When it is not a list of whole numbers.
    """
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ConfigError(
            f"{text!r} is no list of frame sizes",
            where=where,
            accepted="whole numbers with commas, e.g. 64,512,1518",
        ) from None


def load(
    command_line: Mapping[str, Any] | None = None,
    *,
    test_case: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Configuration:
    """Merge all layers and read the files they name.

    Args:
        command_line: Options given, without those left at None.
        test_case: What a test case asks for.
        environment: Environment variables; None for the process's own.
        directory: Where vnetperf.toml is looked for; None for the working directory.

    Returns:
        The configuration.

    Raises:
        ConfigError: Anything wrong in any layer.
    """
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
    settings = validate(Settings, merged, "settings")
    preset = load_model(Preset, find_file("presets", settings.preset))
    if settings.frame_sizes:
        preset = preset.model_copy(update={"frame_sizes": settings.frame_sizes})
    return Configuration(
        settings=settings,
        sources=sources,
        testbed=load_model(Testbed, find_file("testbeds", settings.testbed)),
        preset=preset,
        traffic=load_model(TrafficProfile, find_file("traffic", settings.traffic)),
        switch=switch_options(settings),
        guest=guest_options(settings),
    )
