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

from vnetperf import registry
from vnetperf.config import ENV_PREFIX, Settings
from vnetperf.config.settings import settings_table
from vnetperf.model.balancing import Services
from vnetperf.model.nat import Nat
from vnetperf.model.options import GuestOptions, MobileCoreOptions
from vnetperf.model.parameters import SearchGoal
from vnetperf.model.preset import Preset
from vnetperf.model.result import DirectionBound, GoalResult, Result, RunResults
from vnetperf.model.traffic import TrafficProfile
from vnetperf.model.trial import Verdict
from vnetperf.results.records import Record

TOP = Path(__file__).parents[2]
DOCUMENTS = [TOP / "README.md", *sorted((TOP / "docs").glob("**/*.md"))]
CONFIGURATION = (TOP / "docs/configuration.md").read_text()
RESULTS = (TOP / "docs/results.md").read_text()
LINK = re.compile(r"\]\(([^)\s]+)\)")
#: A path of the package; not one below / or in a variable, nor a name that stands for others.
PACKAGE_PATH = re.compile(r"(?<![\w/$~.])vnetperf/[\w./-]*\w")


def section(title: str) -> str:
    return CONFIGURATION.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(text: str) -> dict[str, list[str]]:
    """Rows of the tables in a text, by the key in their first cell."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `"):
            found[cells[0].strip("| `")] = cells
    return found


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, field in model.model_fields.items():
        if isinstance(field.default, BaseModel):
            yield from keys_of(type(field.default), f"{prefix}{name}.")
        else:
            yield prefix + name, None if field.is_required() else field.default


def goal_keys() -> list[tuple[str, Any]]:
    return [
        (field.name, None if field.default is dataclasses.MISSING else field.default)
        for field in dataclasses.fields(SearchGoal)
    ]


KEYS = [
    *(("Settings", *key) for key in keys_of(Settings)),
    *(("Testbed", *key) for key in keys_of(registry.testbed_model())),
    *(("Preset", *key) for key in keys_of(Preset)),
    *(("Preset", *key) for key in goal_keys()),
    *(("Traffic profile", *key) for key in keys_of(TrafficProfile)),
    *(("vSwitch options", *key) for key in keys_of(registry.switch_options_model())),
    *(("Guest options", *key) for key in keys_of(GuestOptions)),
    *(("Core options", *key) for key in keys_of(MobileCoreOptions)),
]


@pytest.mark.parametrize(("title", "key", "default"), KEYS)
def test_every_key_stands_in_its_table_with_its_default(title: str, key: str, default: Any) -> None:
    table = rows(section(title))
    assert key in table, f"docs/configuration.md, {title}: {key} is missing"
    said = table[key][2]
    if isinstance(default, bool):
        assert said == str(default).lower()
    elif isinstance(default, int | float):
        assert float(said) == default
    elif isinstance(default, str) and default:
        assert said.startswith(f'`"{default}"`')


@pytest.mark.parametrize(
    ("title", "keys"),
    [
        ("Settings", {key for key, _ in keys_of(Settings)}),
        ("Testbed", {key for key, _ in keys_of(registry.testbed_model())}),
        ("Preset", {key for key, _ in (*keys_of(Preset), *goal_keys())}),
        ("Traffic profile", {key for key, _ in keys_of(TrafficProfile)}),
        ("vSwitch options", {key for key, _ in keys_of(registry.switch_options_model())}),
        ("Guest options", {key for key, _ in keys_of(GuestOptions)}),
        ("Core options", {key for key, _ in keys_of(MobileCoreOptions)}),
    ],
)
def test_no_table_describes_a_key_that_is_gone(title: str, keys: set[str]) -> None:
    # The settings' section has a second table, of other variables.
    described = {key for key in rows(section(title)) if not key.isupper()}
    assert described == keys


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


def test_the_table_of_settings_is_the_declared_one() -> None:
    table = "\n".join(settings_table())
    assert table in CONFIGURATION, "paste the output of `vnetperf show-config --table`"


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


@pytest.mark.parametrize("model", [RunResults, Result, GoalResult, DirectionBound])
def test_stable_names_are_listed(model: type[BaseModel]) -> None:
    # A direction's own two names are told in words.
    told = {"direction", "loss_ratio_at_lower_bound"} if model is DirectionBound else set()
    missing = {n for n in model.model_fields if f"`{n}`" not in RESULTS} - told
    assert not missing


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
