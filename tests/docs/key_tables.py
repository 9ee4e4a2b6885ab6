"""Tables of keys in docs/configuration.md, from the models' fields and docstrings.

`python -m tests.docs.key_tables --record` writes them.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from vnetperf.config.settings import settings_table
from vnetperf.model.options import GuestOptions, MobileCoreOptions
from vnetperf.model.preset import Preset
from vnetperf.model.testbed import Program
from vnetperf.model.traffic import TrafficProfile
from vnetperf.plugin import registry

DOCUMENT = Path(__file__).parents[2] / "docs/configuration.md"
HEAD = ("| Key | Type | Default | Accepted, meaning |", "|---|---|---|---|")
ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n        .*)*)", re.MULTILINE)
#: Elements of a list that have a word of their own; others are text.
ELEMENTS = {int: "whole numbers", float: "numbers"}
#: A program of more backends names three of them.
MOST_USERS = 4


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """What the docstrings of a model and its bases say of each field."""
    texts: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel):
            attributes = inspect.cleandoc(base.__doc__ or "").partition("\nAttributes:\n")[2]
            texts |= {name: " ".join(text.split()) for name, text in ATTRIBUTE.findall(attributes)}
    return texts


def type_of(annotation: Any) -> str:
    """The type of a key as a user writes it in TOML."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_of(arguments[0])
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(type_of(a) for a in arguments if a is not types.NoneType))
    if origin is Literal:
        return "text"
    if origin is tuple:
        element = arguments[0]
        element = get_args(element)[0] if get_origin(element) is Annotated else element
        is_table = inspect.isclass(element) and not issubclass(element, int | float | str | Path)
        return f"list of {'tables' if is_table else ELEMENTS.get(element, 'text')}"
    simple = {bool: "true, false", int: "whole number", float: "number"}
    if annotation in simple:
        return simple[annotation]
    return "text" if annotation in (str, Path) else "table"


def default_of(field: FieldInfo) -> str:
    """The default of a key as a user writes it in TOML."""
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if default is None:
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        elements = [f'"{e}"' if isinstance(e, str) else number_text(e) for e in default]
        return f"`[{', '.join(elements)}]`"
    return f'`"{default}"`' if isinstance(default, str) else number_text(default)


def number_text(number: float) -> str:
    """A number as short as TOML takes it: 16777216, 0.005, 5e4."""
    if isinstance(number, int):
        return str(number)
    return re.sub(r"e([+-])0*", lambda sign: "e" + sign[1].strip("+"), f"{number:g}")


def key_rows(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """A row for each key of a model, and of the tables in it but `[programs]`."""
    texts = meanings(model)
    for name, field in model.model_fields.items():
        if name == "programs":
            continue
        if isinstance(field.default, BaseModel):
            yield from key_rows(type(field.default), f"{prefix}{name}.")
            continue
        default = "`{}`" if field.default_factory is dict else default_of(field)
        yield f"| `{prefix}{name}` | {type_of(field.annotation)} | {default} | {texts[name]} |"


def program_row(program: Program, backends: list[str]) -> str:
    """The row of a program: its file as it is searched, Debian's package, and who uses it."""
    files = dict.fromkeys(place.rpartition("/")[2] for place in program.places or (program.name,))
    meaning = " or ".join(f"`{name}`" for name in files)
    meaning += f"; package {program.package}" if program.package else ""
    users = ", ".join(backends if len(backends) <= MOST_USERS else [*backends[:3], "and others"])
    return f'| `programs.{program.setting}` | text | `""` | {meaning}; for {users} |'


def users_of_programs() -> dict[str, list[str]]:
    """Names of the backends that declare each program, by its key."""
    users: dict[str, list[str]] = {}
    for name, backend in registry.backends().items():
        word = name.rpartition(" ")[2].partition(":")[0]
        for program in getattr(backend, "programs", ()):
            names = users.setdefault(program.setting, [])
            names += [word] if word not in names else []
    return users


def key_tables() -> dict[str, list[str]]:
    """The generated tables by the heading of the section that they begin."""
    models = {
        "## Testbed": registry.testbed_model(),
        "## Preset": Preset,
        "## Traffic profile": TrafficProfile,
        "## vSwitch options": registry.switch_options_model(),
        "## Guest options": GuestOptions,
        "## Core options": MobileCoreOptions,
    }
    programs = {program.setting: program for program in registry.programs().values()}
    users = users_of_programs()
    rows = [program_row(programs[key], users[key]) for key in sorted(programs)]
    tables = {"## Settings": [*settings_table()]}
    tables |= {title: [*HEAD, *key_rows(model)] for title, model in models.items()}
    return tables | {"### Programs": [*HEAD, *rows]}


def with_tables(text: str) -> str:
    """The document with the first table of each section replaced by the generated one."""
    for title, table in key_tables().items():
        head, heading, section = text.partition(f"\n{title}\n")
        prose, _, table_and_tail = section.partition("\n| Key |")
        tail = re.sub(r"\A.*\n(\|.*\n)*", "", table_and_tail)
        text = "\n".join([head + heading + prose, *table, tail])
    return text


if __name__ == "__main__" and "--record" in sys.argv:
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text()))
