"""The key of an image: the same for the same inputs, another for any other."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.virt.conftest import package
from vnetperf.model.errors import ConfigError
from vnetperf.virt.recipe import RECIPES, VLOOP, recipe
from vnetperf.virt.tools import Package

names = st.text("abcdefgh-123", min_size=1, max_size=12)
packages = st.lists(
    st.builds(package, names, names), min_size=1, max_size=8, unique_by=lambda p: p.name
)


@given(packages, st.randoms())
def test_the_order_of_packages_does_not_matter(found: list[Package], order: Random) -> None:
    shuffled = list(found)
    order.shuffle(shuffled)
    assert VLOOP.key(found, "x86_64") == VLOOP.key(shuffled, "x86_64")


@given(packages, st.sampled_from(["version", "sha256", "name"]), st.data())
def test_any_other_package_is_another_key(
    found: list[Package], field: str, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(found) - 1))
    changed = list(found)
    other = getattr(found[index], field) + "x"
    changed[index] = dataclasses.replace(found[index], **{field: other})
    assert VLOOP.key(found, "x86_64") != VLOOP.key(changed, "x86_64")


def test_recipe_and_processor_are_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [package("dpdk-dev")]
    own = VLOOP.key(found, "x86_64")
    assert own != VLOOP.key(found, "aarch64")
    for field in dataclasses.fields(VLOOP):
        value = getattr(VLOOP, field.name)
        other = value + 1 if isinstance(value, int) else value + value[:1]
        changed = dataclasses.replace(VLOOP, **{field.name: other})
        assert changed.key(found, "x86_64") != own, field.name
    monkeypatch.setattr("vnetperf.virt.recipe.METHOD", 99)
    assert VLOOP.key(found, "x86_64") != own


def test_the_guest_s_scripts_are_in_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = VLOOP.key([], "x86_64")
    (tmp_path / "init").write_text("#!/bin/sh\n")
    monkeypatch.setattr("vnetperf.virt.recipe.SCRIPTS", tmp_path)
    assert VLOOP.key([], "x86_64") != own


def test_an_unknown_image_is_refused() -> None:
    with pytest.raises(ConfigError, match="accepted: endpoint, vepc, vloop"):
        recipe("vlop")
    assert all(name == each.name for name, each in RECIPES.items())
