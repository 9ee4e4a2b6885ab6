"""`vnetperf show-config`: every effective value and where it came from."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from vnetperf import config
from vnetperf.config.settings import (
    CHANGE_SETTINGS,
    CommandLine,
    add_options,
    read_options,
    settings_table,
)
from vnetperf.log.folder import read_user_settings

#: What a setting changes in a file: key -> the setting.
_LAID_OVER = {
    "preset:frame_sizes": "frame_sizes",
    "preset:tests": "tests",
    "preset:time_budget_s": "time_budget",
    "traffic:flows": "flows",
}
#: Part of the configuration -> the setting that gives single options of it.
_SINGLE = {
    "switch": "set",
    "guest": "guest",
    "core": "core",
    **{name: name for name in CHANGE_SETTINGS},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_options(parser.add_argument)
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.add_argument("--table", action="store_true", help="the settings as docs/ lists them")


def run(arguments: argparse.Namespace) -> int:
    """Print the configuration."""
    if arguments.table:
        print("\n".join(settings_table()))
        return 0
    resume = arguments.resume
    resumed = (f"run of {resume}", read_user_settings(Path(resume)) if resume else {})
    loaded = config.load(read_options(arguments), resumed=resumed)
    rows = [*_rows(loaded), *_list_command_options(arguments)]
    if arguments.json:
        print(json.dumps({k: {"value": v, "source": s} for k, v, s in rows}, indent=2))
        return 0
    width = max(len(key) for key, _, _ in rows)
    for key, value, source in rows:
        print(f"{key:<{width}} = {json.dumps(value)}   # {source}")
    return 0


def _rows(loaded: config.Configuration) -> Iterator[tuple[str, Any, str]]:
    for key, entry in loaded.as_record().items():
        yield key, entry["value"], entry["source"]
    for part, (value, path) in _parts(loaded).items():
        setting = _SINGLE.get(part, "")
        single = _single_keys(loaded.settings, setting)
        for key, item, source in _leaves(f"{part}:", value, path, loaded):
            alone = key.removeprefix(f"{part}:") in single
            yield key, item, f"{loaded.sources[setting]} {setting}" if alone else source


def _parts(loaded: config.Configuration) -> dict[str, tuple[BaseModel, str]]:
    """What settings name or make: its values, and the path of the file that it is of, or ""."""
    settings = loaded.settings
    kinds = {"testbed": "testbeds", "preset": "presets", "traffic": "traffic", "switch": "switch"}
    parts = {
        part: (getattr(loaded, part), str(config.find_file(kind, getattr(settings, part))))
        for part, kind in kinds.items()
    }
    guest = next((option for option in settings.guest if "=" not in option), "")
    parts["guest"] = loaded.guest, str(config.find_file("guest", guest)) if guest else ""
    parts["core"] = loaded.mobile_core, ""
    return parts | {name: (loaded.changes[kind.key], "") for name, kind in CHANGE_SETTINGS.items()}


def _single_keys(settings: config.Settings, setting: str) -> set[str]:
    """Keys of the single options that a setting gives."""
    texts: tuple[str, ...] = getattr(settings, setting, ())
    if setting in CHANGE_SETTINGS:
        texts = tuple(part.strip() for text in texts for part in text.split(","))
    return {text.partition("=")[0] for text in texts if "=" in text}  # others name a file


def _list_command_options(arguments: argparse.Namespace) -> Iterator[tuple[str, Any, str]]:
    """The options that are no settings."""
    typed = read_options(arguments, CommandLine)
    for key, value in config.validate(CommandLine, typed, "command line").model_dump().items():
        yield key, value, "command line" if key in typed else "default"


def _leaves(
    prefix: str, value: Any, source: str, loaded: config.Configuration
) -> Iterator[tuple[str, Any, str]]:
    if not isinstance(value, BaseModel):
        yield prefix, value, source
        return
    for name in type(value).model_fields:
        item = getattr(value, name)
        key = f"{prefix}{'' if prefix.endswith(':') else '.'}{name}"
        if isinstance(item, BaseModel):
            yield from _leaves(key, item, source, loaded)
            continue
        came_from = source if name in value.model_fields_set else "default"
        setting = _LAID_OVER.get(key, "")
        if setting and getattr(loaded.settings, setting):
            came_from = loaded.sources[setting]
        if key == "preset:frame_sizes" and loaded.traffic.mix is not None:
            came_from = loaded.sources["traffic"]  # it is the mix's mean
        plain = value.model_dump(mode="json", include={name})[name]
        yield key, plain, came_from
    yield from _list_extras(prefix, value.model_extra or {}, source)


def _list_extras(
    prefix: str, values: Mapping[str, Any], source: str
) -> Iterator[tuple[str, Any, str]]:
    """What single backends have: options of a vSwitch, sections of a testbed file."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _list_extras(f"{prefix}{name}.", value, source)
        else:
            yield f"{prefix}{name}", value, source
