"""Configuration files.

Where they are looked for, and how one is read into a model with one clear error.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from vnetperf.model.errors import ConfigError, did_you_mean
from vnetperf.model.preset import Preset

Model = TypeVar("Model", bound=BaseModel)


#: The machine's own configuration files, which root alone writes.
SYSTEM = Path("/etc/vnetperf")
SHIPPED = Path(__file__).parents[1] / "conf"


def conf_dirs() -> tuple[Path, ...]:
    """Folders searched for configuration files, in order."""
    return Path.cwd() / "conf", SYSTEM, SHIPPED


def find_file(kind: str, name: str, where: str = "") -> Path:
    """The file of a named testbed, preset or traffic profile; `where` it is named, for an error."""
    if name.endswith(".toml"):
        if is_file(Path(name)):
            return Path(name)
        raise ConfigError(f"there is no file {name}", where=where or kind)
    for directory in conf_dirs():
        path = directory / kind / f"{name}.toml"
        if is_file(path):
            return path
    known = available(kind)
    raise ConfigError(
        f"unknown name {name!r}{did_you_mean(name, known)}",
        where=where or kind,
        accepted=", ".join(known) + ", or a path ending in .toml",
    )


def is_file(path: Path) -> bool:
    """Whether a name given by the user is a regular file; one that is too long is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def available(kind: str) -> list[str]:
    """Names of all files of a kind."""
    return sorted({path.stem for d in conf_dirs() for path in (d / kind).glob("*.toml")})


def read_text_of_user(path: Path) -> str:
    """Text of a file that a user has written: UTF-8, after a byte order mark of some editors too.

    Raises:
        OSError: It cannot be read.
        UnicodeDecodeError: It is no UTF-8.
    """
    return path.read_text(encoding="utf-8-sig")


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        return tomllib.loads(read_text_of_user(path))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"cannot be read: {why}", where=str(path), accepted="a TOML file of UTF-8 text"
        ) from error
    except RecursionError:
        raise ConfigError("is nested too deeply for a TOML file", where=str(path)) from None
    except ValueError as error:  # TOML's own, and integers of thousands of digits
        raise ConfigError(f"is not valid TOML: {error}", where=str(path)) from error


def load_model(model: type[Model], path: Path) -> Model:
    """Read a file into a model; its name defaults to the file's.

    A preset's may say `base = "NAME"`: what it does not say is as in that file. A table is laid
    over the base's key by key; a list, as of goals, takes the place of the base's.
    """
    content = read_toml(path)
    if issubclass(model, Preset) and "base" in content:
        content = _with_base(content, path)
    content.setdefault("name", path.stem)
    return validate(model, content, str(path))


def _with_base(content: dict[str, Any], path: Path) -> dict[str, Any]:
    where, name = f"{path}: base", content.pop("base")
    if not isinstance(name, str):
        raise ConfigError("base is no name", where=where, accepted="the name of a preset")
    base = read_toml(find_file("presets", name, where))
    if "base" in base:
        raise ConfigError(
            f"{name} has a base of its own, {base['base']}",
            where=where,
            accepted="a preset without one",
        )
    base.pop("name", None)
    return _laid_over(base, content)


def _laid_over(base: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    found = {**base}
    for key, value in content.items():
        below = base.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            found[key] = _laid_over(below, value)
        else:
            found[key] = value
    return found


def validate(model: type[Model], content: Mapping[str, Any], where: str) -> Model:
    """Validate values, with one clear error."""
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
    every = error.errors()
    # Items that are wrong are missing from their list, which is then too short besides.
    above = {one["loc"][:depth] for one in every for depth in range(len(one["loc"]))}
    first, *more = [one for one in every if one["type"] != "too_short" or one["loc"] not in above]
    path = ".".join(str(part) for part in first["loc"])
    accepted = ""
    what = first["msg"].removeprefix("Value error, ")
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        keys = _keys_at(model, first["loc"][:-1])
        what = f"unknown key{did_you_mean(str(first['loc'][-1]), keys)}"
        accepted = ", ".join(keys)
    elif first["type"] != "value_error":
        what = f"{what}, got {first['input']!r}"
        if first["type"] == "literal_error" and isinstance(first["input"], str):
            known = re.findall(r"'([^']+)'", first["ctx"]["expected"])
            what += did_you_mean(first["input"], known)
    if more:
        plural = "s" if len(more) > 1 else ""
        what += f" (and {len(more)} more wrong value{plural} in the same place)"
    return ConfigError(what, where=f"{where}: {path}" if path else where, accepted=accepted)


def _keys_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Keys accepted at a place, read from the model's JSON schema."""
    schema: dict[str, Any] = TypeAdapter(model).json_schema()
    definitions = schema.get("$defs", {})
    here = _choices(schema, definitions)
    for part in path:
        below = [_choices(one, definitions) for choice in here for one in _below(choice, part)]
        here = [one for choices in below for one in choices]
    return sorted({key for choice in here for key in choice.get("properties", {})})


def _choices(schema: dict[str, Any], definitions: dict[str, Any]) -> list[dict[str, Any]]:
    """The schemas that a place may have: those that one refers to or is made of."""
    if "$ref" in schema:
        return _choices(definitions.get(schema["$ref"].rpartition("/")[2], {}), definitions)
    parts = [part for word in ("allOf", "anyOf", "oneOf") for part in schema.get(word, ())]
    return [schema, *(one for part in parts for one in _choices(part, definitions))]


def _below(schema: dict[str, Any], part: int | str) -> list[dict[str, Any]]:
    """What a list's item or a table's key may be; keys may be fixed, or anybody's names."""
    if isinstance(part, int):
        found = [schema.get("items", {}), *schema.get("prefixItems", ())]
    elif part in schema.get("properties", {}):
        found = [schema["properties"][part]]
    else:
        found = [schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
    return [one for one in found if isinstance(one, dict)]
