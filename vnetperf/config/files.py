"""Configuration files.

Where they are looked for, and how one is read into a model with one clear error.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from vnetperf.model.errors import ConfigError, did_you_mean

Model = TypeVar("Model", bound=BaseModel)


#: The machine's own configuration files, which root alone writes.
SYSTEM = Path("/etc/vnetperf")
SHIPPED = Path(__file__).parents[1] / "conf"
#: Number of /dev/null (the kernel's Documentation/admin-guide/devices.txt).
_NULL_DEVICE = os.makedev(1, 3)


def conf_dirs() -> tuple[Path, ...]:
    """Folders searched for configuration files, in order."""
    return Path.cwd() / "conf", SYSTEM, SHIPPED


def why_untrusted(path: Path, *, only_root: bool = False, may_miss: bool = False) -> str:
    """How others could replace a file, or put something into a directory; "" when they cannot.

    The user, root and whoever called sudo count as oneself. Links are followed. A directory on the
    way that anybody may write to counts unless it is sticky (/tmp): there, nobody replaces another
    user's entries. `only_root` refuses what any other user than root owns or a group may write to;
    `may_miss` trusts what does not exist as far as nobody else could make it.
    """
    users = {0} if only_root else {0, os.geteuid(), *_caller_of_sudo()}
    why = functools.partial(why_untrusted, only_root=only_root, may_miss=may_miss)
    end = path.absolute()
    try:
        with contextlib.suppress(*([FileNotFoundError] if may_miss else [])):
            end.stat()  # no link below leads to itself
        for place in (*reversed(end.parents), end):
            try:
                found = place.lstat()
            except FileNotFoundError:
                if may_miss:
                    return why(place.parent)  # as the end of the way: sticky is no excuse
                raise
            if found.st_uid not in users:
                return f"{place} belongs to user {found.st_uid}"
            if stat.S_ISLNK(found.st_mode):
                if reason := why(place.parent / place.readlink()):
                    return reason
                continue
            sticky = place != end and found.st_mode & stat.S_ISVTX
            if not sticky and _has_other_writers(found, only_root=only_root):
                return f"{place} may be written to by others (mode {found.st_mode & 0o7777:04o})"
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return ""


def _has_other_writers(found: os.stat_result, *, only_root: bool) -> bool:
    """Whether the mode lets others write: anybody, and with `only_root` a group but root's.

    What is written to a socket's file or to /dev/null, nobody can read there.
    """
    null = stat.S_ISCHR(found.st_mode) and found.st_rdev == _NULL_DEVICE
    if null or stat.S_ISSOCK(found.st_mode):
        return False
    return bool(found.st_mode & (0o022 if only_root and found.st_gid else 0o002))


def why_untrusted_below(*tops: Path) -> str:
    """How another user than root could change a directory or anything below it; "" when none can.

    Links are followed, also to directories elsewhere, and to what does not exist.
    """
    left, seen = [top.absolute() for top in tops], set[str]()
    while left:
        top = left.pop()
        if why := why_untrusted(top, only_root=True, may_miss=True):
            return why
        if (real := os.path.realpath(top)) in seen:  # if on another way
            continue
        seen.add(real)
        directories = [real] if top.is_dir() else []
        while directories:
            for path, found in _entries(directories.pop()):
                if stat.S_ISLNK(found.st_mode):
                    left.append(Path(path))
                elif found.st_uid or _has_other_writers(found, only_root=True):
                    if why := why_untrusted(Path(path), only_root=True, may_miss=True):
                        return why
                elif stat.S_ISDIR(found.st_mode):
                    directories.append(path)
    return ""


def _entries(directory: str) -> Iterator[tuple[str, os.stat_result]]:
    """Path and status of what is in a directory, of links their own; what vanishes is left out."""
    names: list[str] = []
    with contextlib.suppress(FileNotFoundError):
        names = os.listdir(directory)  # noqa: PTH208 - a hundred thousand names
    for name in names:
        path = f"{directory}/{name}"
        with contextlib.suppress(FileNotFoundError):
            yield path, os.lstat(path)


def _caller_of_sudo() -> tuple[int, ...]:
    user = os.environ.get("SUDO_UID", "") if os.getuid() == 0 else ""
    return (int(user),) if user.isdecimal() else ()


def check_trusted(path: Path, what: str) -> None:
    """Refuse a file that names what is started as root, and that others could have written."""
    if path.resolve().is_relative_to(SHIPPED.resolve()):
        return  # as trustworthy as this code, which is beside it
    if why := why_untrusted(path):
        raise ConfigError(
            f"{what} is started as root, and {why}",
            where=str(path),
            accepted="a file that, with all folders above it, belongs to you or root and that "
            "nobody else may write to",
            cure=f"look at what is in it, then give it to yourself (chown, chmod o-w), or put it "
            f"into {SYSTEM}",
        )


def find_file(kind: str, name: str) -> Path:
    """The file of a named testbed, preset or traffic profile."""
    if name.endswith(".toml"):
        if _is_file(Path(name)):
            return Path(name)
        raise ConfigError(f"there is no file {name}", where=kind)
    for directory in conf_dirs():
        path = directory / kind / f"{name}.toml"
        if _is_file(path):
            return path
    known = available(kind)
    raise ConfigError(
        f"unknown name {name!r}{did_you_mean(name, known)}",
        where=kind,
        accepted=", ".join(known) + ", or a path ending in .toml",
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # e.g. a name that is too long to be one
        return False


def available(kind: str) -> list[str]:
    """Names of all files of a kind."""
    return sorted({path.stem for d in conf_dirs() for path in (d / kind).glob("*.toml")})


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        return tomllib.loads(path.read_text())
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
    """Read a file into a model; its name defaults to the file's."""
    content = read_toml(path)
    content.setdefault("name", path.stem)
    return validate(model, content, str(path))


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
    first, *more = error.errors()
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
