"""The figure of who is on which processor: every role is in it, in its processor, and in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.analysis.test_sharing import ALONE, BESIDE, FACTS, sharing
from tests.report import chromium
from tests.texts import Texts
from vnetperf.model.result import RunResults, ScenarioFacts
from vnetperf.report.markdown import markdown_report
from vnetperf.report.page import html_report
from vnetperf.report.picture import WIDTH
from vnetperf.report.placement import MOST, ProcessorsFigure, figure
from vnetperf.report.terminal import terminal_text

TOPOLOGY: dict[str, Any] = {
    "cpu": {
        "topology": {
            "isolated": "0",
            "numa": {"node0": "0-3", "node1": "4-7"},
            "siblings": ["0,4", "1,5"],
        }
    }
}


def drawn(placement: dict[str, Any], environment: dict[str, Any] | None = None) -> ProcessorsFigure:
    found = figure(sharing(placement, FACTS), environment or {})
    assert found is not None
    return found


def on(found: ProcessorsFigure, processor: str) -> dict[str, tuple[str, ...]]:
    """Blocks within the box of a processor."""
    (box,) = (one for one in found.processors if one.name == processor)
    return {
        block.name: block.lines
        for block in found.blocks
        if box.x < block.x
        and block.x + block.width < box.x + box.width
        and box.y < block.y
        and block.y + block.height < box.y + box.height
    }


def test_each_role_is_in_its_processor_with_its_turns() -> None:
    found = drawn(ALONE)
    assert on(found, "processor 0") == {"pmd": ("alone",)}
    turns = ("turns of 100 \N{MICRO SIGN}s",)
    assert on(found, "processor 1") == {"tester": turns, "vnf0": turns, "the system": ()}
    assert {block.css for block in found.blocks} == {"switch", "tester", "vnf", "system"}
    assert "shared: tester and VNF" in found.title
    assert "alone" not in str(on(drawn(BESIDE), "processor 0"))


def test_what_is_known_of_a_processor_is_in_its_box() -> None:
    first, second = drawn(ALONE, TOPOLOGY).processors
    assert first.lines == ("node 0, isolated", "one core with 4")
    assert second.lines == ("node 0", "one core with 5")
    assert all(box.lines == () for box in drawn(ALONE).processors)
    one_node = {"cpu": {"topology": {"numa": {"node0": "0-1"}, "isolated": ""}}}
    assert all(box.lines == () for box in drawn(ALONE, one_node).processors)


def test_many_processors_are_in_rows_and_some_are_left_out(texts: Texts) -> None:
    many = {"pmd": [*range(20)], "tester": [20]}
    found = drawn(ALONE | {"mode": "dedicated", "cores": many, "housekeeping": [21]})
    assert len(found.processors) == MOST
    texts.check(found.notes)
    for box in (*found.processors, *found.blocks):
        assert box.x > 0
        assert box.x + box.width < WIDTH
        assert box.y + box.height < found.height
    assert len({(box.x, box.y) for box in found.processors}) == MOST


@pytest.fixture
def run(results: RunResults) -> RunResults:
    facts = [
        ScenarioFacts(scenario="pvp_dpdk", plan={"placement": ALONE}, facts=FACTS),
        ScenarioFacts(
            scenario="phy2phy_dpdk",
            plan={"placement": {"mode": "dedicated", "cores": {"pmd": [2]}, "housekeeping": [0]}},
        ),
    ]
    return results.model_copy(update={"scenarios": tuple(facts)})


def test_reports_have_it_with_words_beside_the_figure(run: RunResults, texts: Texts) -> None:
    page, text = html_report(run), "pmd has processor 0 to itself; tester and vnf0 share"
    start = page.index("pvp_dpdk: processors")
    svg = page[start : page.index("</figure>", start)]
    assert 'role="img"' in svg
    title = svg.partition("<title>")[2].partition("</title>")[0]
    texts.check(title, "title")
    assert f"<desc>{text}" in svg
    assert f'<p class="muted">{text}' in svg
    assert 'href="#deployment"' in page
    assert f"{title}: {text}" in markdown_report(run)
    said = " ".join(terminal_text(run).split())
    texts.check([part for part in said.split(". ") if "Processors of" in part], "terminal")


INSIDE = """
const figure = document.querySelector(".picture rect.processor").closest("figure");
const texts = [...figure.querySelectorAll("svg text")];
const within = (t) => {
  const b = t.getBoundingClientRect();
  return [...figure.querySelectorAll("rect.part, rect.processor")].some((r) => {
    const box = r.getBoundingClientRect();
    return box.left <= b.left && b.right <= box.right
      && box.top <= b.top && b.bottom <= box.bottom + 1;
  });
};
let saved = "";
const before = XMLSerializer.prototype.serializeToString;
XMLSerializer.prototype.serializeToString = function (node) {
  return saved = before.call(this, node);
};
URL.createObjectURL = () => "#";
HTMLAnchorElement.prototype.click = () => {};
figure.querySelector(".save").click();
const strokes = [...figure.querySelectorAll("rect.part")].map((r) => getComputedStyle(r).stroke);
return { outside: texts.filter((t) => !within(t)).map((t) => t.textContent), texts: texts.length,
  wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
  colours: new Set(strokes).size,
  saved: saved.includes("processor 0") };
"""


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.skipif(chromium.BINARY is None, reason="no chromium on the PATH")
def test_a_browser_shows_every_word_in_its_box(run: RunResults, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(html_report(run), encoding="utf-8")
    for found in chromium.probe_framed((page, 400, INSIDE), (page, 1600, INSIDE)):
        assert found["texts"] >= 7
        assert found["outside"] == []
        assert not found["wide"]
        assert found["colours"] == 4  # the DUT's, the tester's, the VNF's, the system's
        assert found["saved"]


def test_a_run_without_a_placement_has_no_figure(results: RunResults) -> None:
    assert "Who is on which processor" not in html_report(results)
    assert "Processors of" not in terminal_text(results)
