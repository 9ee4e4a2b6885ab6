"""The pages for plugin writers say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.testing.backends_page import PAGE, render
from vnetperf.plugin import registry
from vnetperf.plugin.dut import DutCapabilities
from vnetperf.plugin.vswitch import VSwitchCapabilities

TOP = Path(__file__).parents[2]
EXAMPLE = TOP / "examples/vnetperf-tcswitch"
TUTORIAL = (TOP / "docs/plugins.md").read_text()
FILES = ("pyproject.toml", "vnetperf_tcswitch.py", "tests/test_tcswitch.py")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TUTORIAL, re.DOTALL)


def test_the_table_of_backends_is_that_of_their_capabilities() -> None:
    assert PAGE.read_text() == render(), "run python -m tests.testing.backends_page"


@pytest.mark.parametrize("name", FILES)
def test_who_follows_the_tutorial_has_the_example(name: str) -> None:
    """Its code blocks, put together in order, are the example's files to the last line."""
    text = (EXAMPLE / name).read_text()
    language = "toml" if name.endswith(".toml") else "python"
    parts = [block for block in blocks(language) if block.strip() in text]
    assert [line for part in parts for line in part.splitlines() if line.strip()] == [
        line for line in text.splitlines() if line.strip()
    ]


def test_every_code_block_is_the_examples_or_stands_for_another() -> None:
    whole = "".join((EXAMPLE / name).read_text() for name in FILES)
    strange = [b for b in [*blocks("toml"), *blocks("python")] if b.strip() not in whole]
    beginnings = [block.partition("\n")[0] for block in strange]
    # Those of other families run in test_families.py.
    assert [line for line in beginnings if not line.startswith("# my_")] == [
        "class TestOther(VSwitchContract):",
        "def pytest_vnetperf_register(register):",
        "from vnetperf.testing import CollectorContract",
    ]


def test_every_capability_is_described() -> None:
    text = "".join(cls.__doc__ or "" for cls in (DutCapabilities, VSwitchCapabilities))
    assert [f for f in VSwitchCapabilities.model_fields if f"    {f}: " not in text] == []


def test_the_page_names_the_contract_of_every_family_and_no_other_room() -> None:
    rows = re.findall(r"^\| `(\w+)`.* \| `vnetperf/[\w/]+\.py` \|", TUTORIAL, re.MULTILINE)
    assert {*rows} == {*registry.FAMILIES}
    prose = re.sub(r"```.*?```", "", TUTORIAL, flags=re.DOTALL)
    files = {TOP / file for file in re.findall(r"`(vnetperf/[\w/.]+)`", prose)}
    tools_of_a_workload = TOP / "vnetperf/workloads/mpi/program.py"
    assert {file.parent for file in files - {tools_of_a_workload}} == {TOP / "vnetperf/plugin"}
    assert all(file.exists() for file in files)
    assert len(prose.partition("## Other families")[0].split()) <= 900


def test_the_example_is_short() -> None:
    assert len((EXAMPLE / "vnetperf_tcswitch.py").read_text().splitlines()) < 160
