"""Settings of a run, and how each is parsed from text."""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from vnetperf import registry
from vnetperf.config.files import Model, find_file, load_model, read_toml, validate
from vnetperf.model.errors import ConfigError
from vnetperf.model.options import (
    DEFAULT_STACK,
    CoreOptions,
    GuestOptions,
    MobileCore,
    SwitchOptions,
)
from vnetperf.model.parameters import TestName
from vnetperf.model.testbed import Testbed


def switch_options(name: str, pairs: tuple[str, ...]) -> SwitchOptions:
    """Options of the vSwitch: those of a file, and single ones over them."""
    path = find_file("switch", name)
    keys = {*read_toml(path), *(pair.partition("=")[0] for pair in pairs)}
    if keys <= {*SwitchOptions.model_fields}:
        return _options(SwitchOptions, path, pairs, "--set")
    found = _options(registry.switch_options_model(), path, pairs, "--set")
    return SwitchOptions.model_validate(found.model_dump(exclude_unset=True))


def read_testbed(name: str) -> Testbed:
    """A testbed file, with the sections that backends declare for it."""
    path = find_file("testbeds", name)
    content = read_toml(path)
    if not content.get("programs") and set(content) <= set(Testbed.model_fields):
        return load_model(Testbed, path)
    whole = load_model(registry.testbed_model(), path)
    return Testbed.model_validate(whole.model_dump(exclude_unset=True))


def guest_options(given: tuple[str, ...]) -> GuestOptions:
    """Options of guests: those of a file, if one is named, and single ones over them."""
    name, pairs = _name_and_pairs(given, "--guest")
    path = find_file("guest", name) if name else None
    return _options(GuestOptions, path, pairs, "--guest")


def core_options(given: tuple[str, ...]) -> CoreOptions:
    """Options of a mobile core."""
    _, pairs = _name_and_pairs(given, "--core")
    return _options(CoreOptions, None, pairs, "--core")


def mobile_core(given: tuple[str, ...]) -> MobileCore:
    """The mobile core that is asked for."""
    name, _ = _name_and_pairs(given, "--core")
    return load_model(MobileCore, find_file("stacks", name or DEFAULT_STACK))


def _name_and_pairs(given: tuple[str, ...], option: str) -> tuple[str, tuple[str, ...]]:
    """The file's name, "" for none, and the KEY=VALUE among what is given."""
    files = [one for one in given if "=" not in one]
    if len(files) > 1:
        raise ConfigError(
            f"{files[1]!r} is a second file beside {files[0]!r}",
            where=option,
            accepted="one file and any number of KEY=VALUE",
        )
    return (files or [""])[0], tuple(one for one in given if "=" in one)


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
    """Frame sizes from "64,512,1518"."""
    try:
        return _numbers(text)
    except ValueError:
        raise ConfigError(
            f"{text!r} is no list of frame sizes",
            where=where,
            accepted="whole numbers with commas, e.g. 64,512,1518",
        ) from None


def parse_tests(text: str, where: str = "--tests") -> tuple[str, ...]:
    """Tests from "throughput,latency", or "all"."""
    known: tuple[str, ...] = get_args(TestName)
    if text.strip() == "all":
        return known
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in found or ("",):
        if name not in known:
            near = get_close_matches(name, known, 1)
            raise ConfigError(
                f"{name!r} is no test" + (f", did you mean {near[0]!r}?" if near else ""),
                where=where,
                accepted=f"all, or a list of {', '.join(known)}",
            )
    return found


def parse_message_sizes(text: str, where: str = "--message-sizes") -> tuple[int, ...]:
    """Message sizes from "64,1024,16384"."""
    try:
        return _numbers(text)
    except ValueError:
        raise ConfigError(
            f"{text!r} is no list of message sizes",
            where=where,
            accepted="whole numbers with commas, e.g. 64,1024,16384",
        ) from None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())


#: Unit of a time -> seconds.
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parse_seconds(text: str, where: str) -> float | None:
    """A time from "300", "90s", "5m" or "1h"."""
    text = text.strip()
    if not text:
        return None
    number, unit = (text[:-1], text[-1]) if text[-1] in _UNITS else (text, "s")
    try:
        seconds = float(number) * _UNITS[unit]
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < float("inf"):
        raise ConfigError(
            f"{text!r} is no time",
            where=where,
            accepted="seconds above 0, or with a unit: 90s, 5m, 1h",
        )
    return seconds
