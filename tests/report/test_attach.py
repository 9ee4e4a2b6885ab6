"""The attach phase of a mobile core, as reports show it."""

from __future__ import annotations

import io

from rich.console import Console

from tests.texts import Texts
from vnetperf.model.result import RunResults
from vnetperf.report.markdown import markdown_report
from vnetperf.report.page import html_report
from vnetperf.report.terminal import renderables
from vnetperf.vnfs.vepc.gtpc import Context
from vnetperf.vnfs.vepc.sgsn import AttachPhase

TITLE = "Attach phase"


def attached(results: RunResults, phase: object) -> RunResults:
    first, *others = results.scenarios
    facts = {**first.facts, "vnfs": [{"attach": phase}]}
    return results.model_copy(
        update={"scenarios": (first.model_copy(update={"facts": facts}), *others)}
    )


def test_what_the_sgsn_says_stands_in_every_report(few: RunResults, texts: Texts) -> None:
    phase = AttachPhase(
        requested=50, ramp=25.0, seconds=2.0, requesting_s=1.96, answer_s=[0.001] * 49 + [0.003]
    )
    phase.contexts = [Context(1, 1, "198.18.0.1", "192.0.2.1")] * 50
    run = attached(few, phase.facts())
    row = "| 50 of 50 | 100 % | 25.00/s | 25.00/s | 2 s | 1.000 ms | 2.020 ms |"
    assert row in markdown_report(run).split(f"## {TITLE}")[1]
    page = html_report(run)
    assert 'href="#attach"' in page
    assert "50 of 50" in page.split('id="attach"')[1]
    said = io.StringIO()
    Console(file=said, width=200).print(*renderables(run))
    texts.check(line for line in said.getvalue().splitlines() if "sessions attached" in line)


def test_a_stack_with_a_command_of_its_own_was_not_timed(few: RunResults) -> None:
    for phase in ({}, "by the stack's own command", {"attached": "a plugin's own"}):
        assert TITLE not in markdown_report(attached(few, phase))
        assert 'href="#attach"' not in html_report(attached(few, phase))
