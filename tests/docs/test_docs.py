"""Keeps the documents true: keys, names, defaults, links and paths are those of the code."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from tests.docs.key_tables import with_tables
from vnetperf.config import ENV_PREFIX, Settings
from vnetperf.log.records import Record
from vnetperf.model.balancing import Services
from vnetperf.model.nat import Nat
from vnetperf.model.parameters import SearchGoal
from vnetperf.model.preset import Preset
from vnetperf.model.trial import Verdict
from vnetperf.plugin import registry

TOP = Path(__file__).parents[2]
DOCUMENTS = [TOP / "README.md", *sorted((TOP / "docs").glob("**/*.md"))]
CONFIGURATION = (TOP / "docs/configuration.md").read_text()
RESULTS = (TOP / "docs/results.md").read_text()
LINK = re.compile(r"\]\(([^)\s]+)\)")
#: A path of the package; not one below / or in a variable, nor a name that stands for others.
PACKAGE_PATH = re.compile(r"(?<![\w/$~.])vnetperf/[\w./-]*\w")


def section(title: str) -> str:
    return CONFIGURATION.split(f"\n## {title}\n")[1].split("\n## ")[0]


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, field in model.model_fields.items():
        if isinstance(field.default, BaseModel):
            yield from keys_of(type(field.default), f"{prefix}{name}.")
        else:
            yield prefix + name, None if field.is_required() else field.default


def rows(text: str) -> dict[str, list[str]]:
    """Rows of the tables in a text, by the key in their first cell."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `"):
            found[cells[0].strip("| `")] = cells
    return found


def test_the_tables_of_keys_are_those_of_the_models() -> None:
    recorded = with_tables(CONFIGURATION) == CONFIGURATION
    assert recorded, "run `python -m tests.docs.key_tables --record`"


def test_every_key_of_a_goal_stands_in_its_table_with_its_default() -> None:
    table = rows(section("Preset").partition("Each `[[goals]]`:")[2])
    fields = dataclasses.fields(SearchGoal)
    assert table.keys() == {field.name for field in fields}
    for field in fields:
        if field.default is dataclasses.MISSING:
            assert table[field.name][2] == "required"
        else:
            assert float(table[field.name][2]) == field.default


@pytest.mark.parametrize(
    ("comment", "model"),
    [
        ("# vnetperf.toml", Settings),
        ("# conf/testbeds/", registry.testbed_model()),
        ("# conf/presets/", Preset),
    ],
)
def test_examples_are_accepted(comment: str, model: type[BaseModel]) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", CONFIGURATION, re.DOTALL)
    (example,) = [block for block in blocks if block.startswith(comment)]
    model.model_validate(tomllib.loads(example))


@pytest.mark.parametrize(("document", "model"), [("cgnat", Nat), ("services", Services)])
def test_keys_of_sessions_stand_in_their_table(document: str, model: type[BaseModel]) -> None:
    text = (TOP / f"docs/{document}.md").read_text()
    table = rows(text.split("\n| Key of `--")[1].split("\n\n")[0])
    assert table.keys() == model.model_fields.keys()
    for key, default in keys_of(model):
        assert table[key][1].startswith(str(default)), f"docs/{document}.md: default of {key}"


def test_every_network_stands_in_the_table_with_its_mtu() -> None:
    text = (TOP / "docs/networks.md").read_text()
    table = rows(text.split("\n| network | path ")[1].split("\n\n")[0])
    for name in registry.names("networks"):
        network = registry.load("networks", name)
        if network.__module__.startswith("vnetperf."):
            assert name in table, f"docs/networks.md: {name} is missing"
            mtu = str(1500 - network.capabilities.overhead)
            assert name in ("cni", "kubernetes") or table[name][3].startswith(mtu)


def test_every_setting_has_its_variable() -> None:
    for name in Settings.model_fields:
        assert f"`{ENV_PREFIX}{name.upper()}`" in CONFIGURATION


def test_every_record_type_has_a_row() -> None:
    union = get_args(Record)[0]
    types = {record.model_fields["type"].default for record in get_args(union)}
    assert types <= set(rows(RESULTS))


def test_every_verdict_is_explained() -> None:
    for verdict in Verdict:
        assert f"| {verdict} |" in RESULTS


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_relative_links_resolve(document: Path) -> None:
    for link in LINK.findall(document.read_text()):
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = document.parent / name if name else document
        assert target.exists(), f"{document.name} links to {link}"
        if anchor:
            assert anchor in anchors(target), f"{document.name} links to {link}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_paths_of_the_package_exist(document: Path) -> None:
    for path in PACKAGE_PATH.findall(document.read_text()):
        assert (TOP / path).exists(), f"{document.name} mentions {path}"


def texts_of_the_code() -> str:
    """Every string of the package's code, the pieces between an f-string's values too."""
    strings: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, str):
            strings.append(value)
        elif isinstance(value, tuple | frozenset):
            for part in value:
                look(part)
        elif isinstance(value, CodeType):
            look(value.co_consts)

    for path in (TOP / "vnetperf").rglob("*.py"):
        look(SourceFileLoader(path.stem, str(path)).get_code(path.stem))  # compiled already
    return "\n".join(strings)


def test_messages_are_those_of_the_code() -> None:
    code, unknown = texts_of_the_code(), []
    for line in (TOP / "docs/troubleshooting.md").read_text().splitlines():
        if not line.startswith("| `"):
            continue
        for message in re.findall(r"`([^`]+)`", line.split(" | ")[0]):
            # Single capitals, quoted values, numbers and dots stand for what differs.
            pieces = re.split(r"\b[A-Z]\b|'[^']*'|\.\.\.|\b[A-Z_]{4,}\b|\d+|: ", message)
            unknown += [p for p in pieces if len(p.strip()) > 7 and p.strip() not in code]
    unknown = [piece for piece in unknown if "Input should be" not in piece]  # pydantic's own
    assert not unknown
