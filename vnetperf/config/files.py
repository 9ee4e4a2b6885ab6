"""Configuration files.

Where they are looked for, and how one is read into a model with one clear error.
"""

from __future__ import annotations

import copy
import errno
import re
import stat
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from vnetperf.model.base import FORMS
from vnetperf.model.errors import ConfigError, accepted_names, did_you_mean
from vnetperf.model.preset import Preset
from vnetperf.model.units import Unit, parse_quantity

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
    names = available(kind)
    raise ConfigError(
        f"unknown name {name!r}{did_you_mean(name, names)}",
        where=where or kind,
        accepted=f"{accepted_names(name, names, '`vnetperf list`')}, or a path ending in .toml",
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


def read_user_text(path: Path) -> str:
    """Text of a file that a user has written: UTF-8, after a byte order mark of some editors too.

    Raises:
        OSError: It cannot be read, or is a pipe or device, which may never end.
        UnicodeDecodeError: It is no UTF-8.
    """
    status = path.stat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    if status.st_size > _MOST_OCTETS:
        raise OSError(errno.EFBIG, f"it is longer than {_MOST_OCTETS >> 20} MiB", str(path))
    return path.read_text(encoding="utf-8-sig")


#: No file that somebody writes by hand is longer.
_MOST_OCTETS = 16 << 20


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        text = read_user_text(path)
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a name that none can have
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"cannot be read: {reason}", where=str(path), accepted="a TOML file of UTF-8 text"
        ) from error
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError("is nested too deeply for a TOML file", where=str(path)) from None
    except ValueError as error:  # TOML's own, and integers of thousands of digits
        message = f"is not valid TOML: {error}{_name_character(text, str(error))}"
        raise ConfigError(message, where=str(path)) from error


#: Where TOML's own errors say that they are.
_AT = re.compile(r"\(at line (\d+), column (\d+)\)")


def _name_character(text: str, error: str) -> str:
    """What stands where a text is wrong, if few people would see or type it: a mark, a blank."""
    match = _AT.search(error)
    lines = text.split("\n")
    line, column = (int(number) - 1 for number in match.groups()) if match else (len(lines), 0)
    character = lines[line][column : column + 1] if line < len(lines) else ""
    if not character or (character.isascii() and character.isprintable()):
        return ""
    name = unicodedata.name(character, "a control character").lower()
    return f": there is U+{ord(character):04X}, {name}"


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
    merged = {**base}
    for key, value in content.items():
        below = base.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = _laid_over(below, value)
        else:
            merged[key] = value
    return merged


def validate(model: type[Model], content: Mapping[str, Any], where: str) -> Model:
    """Validate values, with one clear error that lists all that is wrong.

    A number may be a text with a unit that reports print, "2 Mfps", where its key has that unit.
    """
    try:
        try:
            validated = model.model_validate(dict(content))
        except ValidationError as error:
            converted = _without_units(content, error)
            if converted is None:
                raise
            validated = model.model_validate(converted)
        _require_as_written(validated, content)
        return validated
    except ValidationError as error:
        raise _as_config_error(model, error, where) from None
    except ConfigError as error:  # a goal checks itself and names its own key
        raise ConfigError(
            error.what,
            where=f"{where}: {error.where}" if error.where else where,
            accepted=error.accepted,
            cure=error.cure,
        ) from None


#: What pydantic (2.14) takes for a number below 0, since it leaves out zeros in front: "0-3" is -3.
_READ_AS_NEGATIVE = re.compile(r"\s*0[0_]*-[0-9_]+\s*")


def _require_as_written(validated: BaseModel, content: Mapping[str, Any]) -> None:
    """Refuse what was taken for another number than anybody would read there: "0-3", true."""
    wrong = [
        (".".join(map(str, path)), _no_number(value, number))
        for path, value, number in _pairs(content, validated)
        if isinstance(number, int | float) and not isinstance(number, bool)
        if isinstance(value, bool)
        or (isinstance(value, str) and _READ_AS_NEGATIVE.fullmatch(value))
    ]
    if wrong:
        (where, message), *others = wrong
        other_lines = "".join(f"\n  {path}: {words}" for path, words in others)
        raise ConfigError(message + other_lines, where=where)


def _no_number(value: object, number: float) -> str:
    if isinstance(value, bool):
        return f"{str(value).lower()} is not a number"
    return f"{value!r} is not a {'whole ' * isinstance(number, int)}number"


def _pairs(
    content: Any, validated: Any, path: tuple[int | str, ...] = ()
) -> Iterator[tuple[tuple[int | str, ...], Any, Any]]:
    """Each value that stands in no table or list, and what became of it."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            below = (
                validated.get(key)
                if isinstance(validated, Mapping)
                else getattr(validated, str(key), None)
            )
            yield from _pairs(value, below, (*path, str(key)))
    elif isinstance(content, tuple | list):
        if isinstance(validated, tuple | list) and len(validated) == len(content):
            for place, (value, below) in enumerate(zip(content, validated, strict=True)):
                yield from _pairs(value, below, (*path, place))
    else:
        yield path, content, validated


@dataclass(frozen=True)
class _Quantity:
    """What a number is of, by the end of its key."""

    unit: Unit | Literal["octets"]
    words: str
    example: str
    per_unit: float = 1.0  # How many of the key's own units one of `unit` is


#: End of a key -> what its number is of.
_QUANTITIES = {
    "_fps": _Quantity("fps", "frames/s", '2000000 or "2 Mfps"'),
    "bits_per_second": _Quantity("bit/s", "bit/s", '10e9 or "10 Gbit/s"'),
    "_us": _Quantity("s", "microseconds", '50 or "50 us"', 1e6),
    "_ms": _Quantity("s", "milliseconds", '5 or "5 ms"', 1e3),
    "_s": _Quantity("s", "seconds", '1.5 or "1.5 s"'),
    "_mib": _Quantity("octets", "MiB", '1024 or "1 GiB"', 2.0**-20),
    "_kb": _Quantity("octets", "KiB", '2048 or "2 MiB"', 2.0**-10),
    "mtu": _Quantity("octets", "octets", "9000"),
    "_size": _Quantity("octets", "octets", "1518"),
    "_sizes": _Quantity("octets", "octets", "64"),
    "_ratio": _Quantity("ratio", "a share of 1", '0.001 or "0.1%"'),
    "width": _Quantity("ratio", "a share of 1", '0.005 or "0.5%"'),
    **dict.fromkeys(
        ("at_least", "at_most"),
        _Quantity("", "a number in the unit of the result, or one with it", '2000000 or "2 Mfps"'),
    ),
    "tolerance": _Quantity("ratio", "a share of 1", '0.005 or "0.5%"'),
}


def _find_quantity(path: Sequence[int | str]) -> _Quantity | None:
    key = next((part for part in reversed(path) if isinstance(part, str)), "")
    return next((quantity for end, quantity in _QUANTITIES.items() if key.endswith(end)), None)


_NUMBERS = ("int_parsing", "int_type", "int_from_float", "float_parsing", "float_type")


def _without_units(content: Mapping[str, Any], error: ValidationError) -> dict[str, Any] | None:
    """Values with plain numbers in place of those with units; None where there are none."""
    converted: dict[str, Any] = copy.deepcopy(dict(content))
    changed = False
    for problem in error.errors():
        quantity, path = _find_quantity(problem["loc"]), problem["loc"]
        if (
            problem["type"] not in _NUMBERS
            or not isinstance(problem["input"], str)
            or quantity is None
        ):
            continue
        parsed = parse_quantity(problem["input"])
        if parsed is None or parsed[1] != quantity.unit:
            continue
        container: Any = converted
        for part in path[:-1]:
            container = _below_value(container, part)
        if (
            isinstance(container, dict | list)
            and _below_value(container, path[-1]) == problem["input"]
        ):
            place: Any = container  # a list's places are numbers, a table's are names
            place[path[-1]] = float(f"{parsed[0] * quantity.per_unit:.15g}")
            changed = True
    return converted if changed else None


def _below_value(value: Any, part: int | str) -> Any:
    """What stands at a place of a list or table; None where it is neither."""
    if isinstance(value, tuple | list) and isinstance(part, int):
        return value[part]
    return value.get(part) if isinstance(value, dict) else None


def _as_config_error(model: type[BaseModel], error: ValidationError, where: str) -> ConfigError:
    problems = error.errors()
    # Items that are wrong are missing from their list, which is then too short besides.
    above = {problem["loc"][:depth] for problem in problems for depth in range(len(problem["loc"]))}
    problems = [
        problem
        for problem in problems
        if problem["type"] != "too_short" or problem["loc"] not in above
    ]
    # A misspelt key is why another one is missing: it comes first.
    problems.sort(key=lambda problem: problem["type"] not in _UNKNOWN)
    words_by_path = {
        path: words for path, *words in (_explained(model, problem) for problem in problems[::-1])
    }
    (path, (message, accepted)), *others = [*words_by_path.items()][::-1]
    lines = [
        f"\n  {where}: {key}: {words}" + (f"; accepted: {names}" if names else "")
        for key, (words, names) in others
    ]
    if accepted:  # which is printed last
        accepted += "".join(lines)
    else:
        message += "".join(lines)
    return ConfigError(message, where=f"{where}: {path}" if path else where, accepted=accepted)


_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")


def _explained(model: type[BaseModel], error: Any) -> tuple[str, str, str]:
    """Path of a wrong value, what is wrong with it in words, and what is accepted."""
    kind, path, value = error["type"], error["loc"], error["input"]
    accepted = ""
    message = error["msg"].removeprefix("Value error, ")
    quantity = _find_quantity(path)
    if kind in _UNKNOWN:
        keys, last = _list_keys(model, path[:-1]), str(path[-1])
        message, accepted = f"unknown key{did_you_mean(last, keys)}", accepted_names(last, keys)
    elif kind == "missing":
        message = "is required, and missing"
    elif kind == "literal_error":
        choices = re.findall(r"'([^']+)'", error["ctx"]["expected"])
        near = did_you_mean(value, choices) if isinstance(value, str) else ""
        message = f"{value!r} is not {error['ctx']['expected']}{near}"
    elif kind in _NUMBERS:
        words = "is not a whole number" if kind.startswith("int") else "is not a number"
        message = f"{value!r} {words}{_describe_range(model, path)}"
        accepted = f"{quantity.words}, e.g. {quantity.example}" if quantity else ""
    elif kind in _KINDS:
        message = f"{value!r} is not {_KINDS[kind]}"
    elif kind in _LIMITS:
        name, words = _LIMITS[kind]
        unit = f", in {quantity.words}" if quantity else ""
        shown = str(value).lower() if isinstance(value, bool) else repr(value)
        message = f"{shown} is not {words} {error['ctx'][name]:g}{unit}"
    elif kind in _TOO_SHORT:
        least = error["ctx"]["min_length"]
        message = "is empty" if not value else f"{value!r} is too short"
        accepted = f"at least {_counted(least, _TOO_SHORT[kind])}"
        if items := _describe_choices(model, [*path, 0]):
            accepted += f" of {items}"
        elif quantity:
            accepted += f": {quantity.words}, e.g. [{quantity.example}]"
    elif kind in _TOO_LONG:
        most = error["ctx"]["max_length"]
        message = f"{_shortened(value)} is too long"
        accepted = f"at most {_counted(most, _TOO_LONG[kind])}"
    elif kind == "string_pattern_mismatch":
        form = error["ctx"]["pattern"]
        message = f"{value!r} is not of the form that is expected"
        accepted = FORMS.get(form, f"a text that matches {form}")
    elif kind != "value_error":
        message += f", got {value!r}"
    return ".".join(map(str, _locate_value(model, error))), message, accepted


def _locate_value(model: type[BaseModel], error: Any) -> tuple[int | str, ...]:
    """The keys that lead to a value, without those that pydantic puts behind them."""
    path: tuple[int | str, ...] = error["loc"]
    if error["type"] in _UNKNOWN or not path or not isinstance(path[-1], str):
        return path
    # A value that may be of several kinds has the name of each kind there.
    is_key_itself = path[-1] == "[key]"
    return path[:-1] if is_key_itself or not _find_schemas(model, path) else path


#: Kind of an error -> name of the limit in it, and words.
_LIMITS = {
    "greater_than": ("gt", "greater than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
#: Kind of an error -> what is counted.
_TOO_SHORT = {"too_short": ("entry", "entries"), "string_too_short": ("character", "characters")}
_TOO_LONG = {"too_long": ("entry", "entries"), "string_too_long": ("character", "characters")}
#: Kind of an error -> what the value should be.
_KINDS = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "a text in quotes",
    "tuple_type": "a list: [...]",
    "list_type": "a list: [...]",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "dataclass_type": "a table",
    "finite_number": "a finite number",
}


def _describe_range(model: type[BaseModel], path: Sequence[int | str]) -> str:
    """The limits of a number: " from 1 to 64"; "" where it has none."""
    for schema in _find_schemas(model, path):
        low, high = schema.get("minimum"), schema.get("maximum")
        if low is not None and high is not None:
            return f" from {low} to {high}"
        if low is not None:
            return f" of {low} or more"
    return ""


def _counted(number: int, words: tuple[str, str]) -> str:
    return f"{number} {words[number != 1]}"


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _describe_choices(model: type[BaseModel], path: Sequence[int | str]) -> str:
    """The values that a place takes where these are few: "'a', 'b'"; "" for any."""
    return ", ".join(
        repr(choice) for schema in _find_schemas(model, path) for choice in schema.get("enum", ())
    )


def _list_keys(model: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    """Keys accepted at a place."""
    schemas = _find_schemas(model, path)
    return sorted({key for choice in schemas for key in choice.get("properties", {})})


def _find_schemas(model: type[BaseModel], path: Sequence[int | str]) -> list[dict[str, Any]]:
    """What a model's JSON schema says of a place: each schema that a value there may have."""
    schema: dict[str, Any] = TypeAdapter(model).json_schema()
    definitions = schema.get("$defs", {})
    schemas = _choices(schema, definitions)
    for part in path:
        below = [
            _choices(subschema, definitions)
            for choice in schemas
            for subschema in _below(choice, part)
        ]
        schemas = [choice for choices in below for choice in choices]
    return schemas


def _choices(schema: dict[str, Any], definitions: dict[str, Any]) -> list[dict[str, Any]]:
    """The schemas that a place may have: those that one refers to or is made of."""
    if "$ref" in schema:
        return _choices(definitions.get(schema["$ref"].rpartition("/")[2], {}), definitions)
    parts = [part for word in ("allOf", "anyOf", "oneOf") for part in schema.get(word, ())]
    return [schema, *(choice for part in parts for choice in _choices(part, definitions))]


def _below(schema: dict[str, Any], part: int | str) -> list[dict[str, Any]]:
    """What a list's item or a table's key may be; keys may be fixed, or anybody's names."""
    if isinstance(part, int):
        schemas = [schema.get("items", {}), *schema.get("prefixItems", ())]
    elif part in schema.get("properties", {}):
        schemas = [schema["properties"][part]]
    else:
        schemas = [
            schema.get("additionalProperties"),
            *schema.get("patternProperties", {}).values(),
        ]
    return [subschema for subschema in schemas if isinstance(subschema, dict)]
