"""What tests besides a search found, in every report."""

import csv
import io
import re
import xml.etree.ElementTree as ET

import pytest

from vnetperf.analysis.metrics import compared_metrics_of, explain_missing_number
from vnetperf.model.figures import Figure, Outcome
from vnetperf.model.result import (
    Deployments,
    Observation,
    Redaction,
    RepeatedNumber,
    Result,
)
from vnetperf.report import latency, outcomes
from vnetperf.report.csv_files import curves_csv, outcomes_csv
from vnetperf.report.junit import junit_xml
from vnetperf.report.markdown import markdown_report
from vnetperf.report.page import html_report
from vnetperf.report.summary import groups
from vnetperf.report.terminal import terminal_text
from vnetperf.statistics.samples import spread

from .sample_outcomes import SIZES, TESTS
from .test_html import Page

#: Said of each test in every report.
SAID = {
    "cpu_load": (
        "time per frame",
        "What a further frame takes",
        "cycles per frame",
        "95 % of the vSwitch's TSC cycles, which are wall time, were in rounds with packets, "
        "40 % of its polls found none",
        "in trial 5 the generator offered less",
        "Watching itself took at most 4.040 ms of a processor in each trial, 0.04 % of 10.1 s",
        "Energy by part of the machine",
        "west: threads were watched for 12.1 s, of which frames were sent in 10 s.",
    ),
    "service": ("75 % of CIR", "not met", "CIR"),
    "latency": (
        "latency, mean of the trials",
        "19.392 ± 0.099 µs (n 20)",
        "PDV, D(99.9) - Dmin",
        "typical latency",
    ),
    "frame_loss": ("input rate", "67.02 %"),
    "back_to_back": ("corrected buffer time", "4 502 ± 27 frames", "step size, frames"),
    "recovery": ("throughput used", "172 ± 26 ms"),
    "reset": ("vswitch", "1.684 s (1.", "link phy0", "vnf0 was not back within 30 s"),
    "mrr": ("forwarding rate", "two modes: 3.501 Mfps, 4.063 Mfps", "far from the others"),
    "loss_profile": ("1.961 %",),
    "soak": ("2.69e-08 %", "2.10e-07 %", "undecided"),
    "forwarding_rate": ("80 % of the maximum",),
    "address_caching": ("at least 65 536",),
    "address_learning": ("200.1 kfps",),
    "connection_rate": ("98.06k", "64 512", "2.500M", "establishment rate"),
    "session_capacity": ("20 000", "at least 64 512", "more sessions were not tried"),
    "latency_load": (
        "10000 frames/s per interface",
        "not carried: 22.5 % lost",
        "irregular: 6 trials discarded",
        "tester-bound at p99.9",
        "not measured: above the largest load, 4000000 frames/s per interface",
    ),
}


def _flat(said: str) -> str:
    return " ".join(said.replace("\\", "").replace("**", "").split())


@pytest.fixture(scope="module")
def page(every) -> Page:
    return Page(html_report(every))


@pytest.fixture(scope="module")
def markdown(every) -> str:
    return _flat(markdown_report(every))


@pytest.fixture(scope="module")
def wide(every) -> str:
    return _flat(terminal_text(every, width=200))


@pytest.mark.slow
@pytest.mark.parametrize("test", TESTS)
def test_the_page_and_markdown_say_what_was_found(page, markdown, test):
    for shown in (page.shown, markdown):
        for said in SAID[test]:
            assert said in shown


@pytest.mark.parametrize("test", TESTS)
def test_a_terminal_shows_the_answer_of_each_test(wide, test):
    for said in SAID[test]:
        assert said in wide


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 120])
def test_tables_fit_a_terminal_and_need_no_colour(every, width):
    shown = terminal_text(every, width=width)
    assert max(map(len, shown.splitlines())) <= width
    assert terminal_text(every, width=width, plain=True).isascii()


def test_every_test_has_a_line_in_the_overview(every, page):
    overview = page.shown.partition("pvp_dpdk: other tests")[2].partition("pvp_dpdk · ")[0]
    for words in ("latency", "frame loss", "back-to-back", "recovery", "reset", "MRR", "soak"):
        assert f" {words} " in overview
    assert "19.392 ± 0.099 µs (n 20)" in overview


def test_plots_belong_to_what_was_measured(every, page):
    names = [a["aria-label"] for tag, a in page.elements if tag == "svg" and "aria-label" in a]
    for start, count in (
        ("Latency percentiles, pvp_dpdk, latency", 2),
        ("Frame loss rate, pvp_dpdk", 1),
        ("Loss against input rate, log scale, pvp_dpdk", 2),
        ("Longest burst without loss against frame size", 1),
        ("Recovery time of each trial", 1),
        ("Frame-loss method", 1),
        ("vswitch, trial", 3),
        ("Loss ratio of the long run", 1),
        ("Forwarding rate against load", 1),
        ("Latency against load, pvp_dpdk", 3),
    ):
        assert sum(name.startswith(start) for name in names) == count, start


def test_every_outcome_has_a_line_in_the_csv(every):
    rows = list(csv.DictReader(io.StringIO(outcomes_csv(every))))
    assert {row["test"] for row in rows} == set(TESTS)
    row = next(r for r in rows if r["quantity"] == "recovery_time")
    found = next(r.recovery for r in every.results if r.recovery)
    assert float(row["value"]) == found.seconds.mean
    assert [float(row[k]) for k in ("n", "interval_low", "interval_high")] == [
        *(found.seconds.n, found.seconds.low, found.seconds.high)
    ]


def test_two_modes_have_no_mean_in_csv_and_junit(every):
    rows = csv.DictReader(io.StringIO(outcomes_csv(every)))
    row = next(r for r in rows if r["quantity"] == "forwarding_rate" and r["modes"])
    assert row["value"] == ""
    assert len(row["modes"].split()) == 2
    case = _case(every, "mrr[pvp_dpdk-1518]")
    number = "maximum offered load.forwarding_rate_fps"
    assert number not in case
    assert len(case[f"{number}.modes"].split()) == 2


def _case(results, name: str) -> dict[str, str]:
    root = ET.fromstring(junit_xml(results))  # noqa: S314 - our own text
    case = next(c for c in root.iter("testcase") if c.get("name") == name)
    return {p.get("name"): p.get("value") for p in case.iter("property")}


def test_numbers_of_outcomes_are_properties(every):
    held = _case(every, "back_to_back[pvp_dpdk-64]")
    found = next(r.back_to_back for r in every.results if r.back_to_back)
    assert float(held["corrected_buffer_time_s"]) == found.corrected_s
    assert float(held["back_to_back_frames_frames"]) == found.frames.mean
    assert held["capped"] == "false"
    capped = _case(every, "back_to_back[pvp_dpdk-1518]")
    assert capped["capped"] == "true"
    assert "longest one tried" in capped["back_to_back_frames.note"]
    # Of searches that reached the longest burst there is no mean, and no time is implied.
    assert float(capped["back_to_back_frames_frames"]) == 9000
    assert float(capped["searches_at_longest_burst"]) == 30
    assert "implied_buffer_time_s" not in capped


@pytest.mark.slow
def test_every_bin_of_every_curve_is_a_row(every):
    rows = list(csv.DictReader(io.StringIO(curves_csv(every))))
    bins = sum(
        len(curve.offered)
        for r in every.results
        for curves in (
            *([r.recovery.curves] if r.recovery else []),
            *(found.curves for found in r.resets),
            *([(r.soak.curve,)] if r.soak else []),
        )
        for curve in curves
    )
    assert len(rows) == bins
    assert float(rows[1]["from_s"]) == pytest.approx(0.01)


def test_a_capped_burst_is_no_result(every, texts):
    result = next(r for r in every.results if r.back_to_back and r.back_to_back.capped)
    texts.check(outcomes.headline(result))


def test_every_row_has_as_many_cells_as_its_head(every):
    for group in groups(every):
        for table in outcomes.tables(group):
            assert {len(row) for row in table.rows} == {len(table.columns)}, table.title
            assert sum(column.bold for column in table.columns) <= 1


def _deployed(results, *observations, **of_goal):
    """A run whose first number several deployments gave."""
    first = results.results[0]
    goal = first.goals[0].model_copy(update=of_goal)
    number = RepeatedNumber(
        label=goal.name,
        unit="fps",
        main=True,
        observations=observations,
        spread=None
        if any(one.qualifier for one in observations)
        else spread([one.value for one in observations]),
    )
    n = len(observations)
    held = Deployments(
        planned=n + 1,
        attempted=n + 1,
        measured=n,
        failures={n + 1: "DUT died"},
        shown=1,
        numbers=(number,),
    )
    changed = first.model_copy(update={"goals": (goal, *first.goals[1:]), "deployments": held})
    return results.model_copy(update={"results": (changed,)})


def test_deployments_of_a_search_are_shown_with_those_that_failed(results, texts):
    values = (17.9e6, 18.1e6, 18.3e6, 18.0e6)
    run = _deployed(results, *(Observation(round=n, value=v) for n, v in enumerate(values, 1)))
    for shown in (_flat(markdown_report(run)), Page(html_report(run)).shown):
        assert "Deployments" in shown
        assert "18.07 ± 0.27 Mfps" in shown
        assert "4 of 5" in shown
        assert "1 of 5 deployments gave no result" in shown
        assert "(DUT died)" in shown
    assert "18.07 ± 0.27 Mfps" in terminal_text(run)
    head, _, rest = Page(html_report(run)).shown.partition("Overview")
    texts.check(head.partition("Result ")[2].partition(" Worth ")[0])
    assert "18.07 ± 0.27 Mfps over 4 of 5" in rest
    assert "irregular" not in head
    head = Page(html_report(_irregular(run))).shown.partition("Overview")[0]
    assert "irregular: " in head


def _irregular(run):
    first = run.results[0]
    goal = first.goals[0].model_copy(update={"regular": False, "reason": "a stall"})
    changed = first.model_copy(update={"goals": (goal, *first.goals[1:])})
    return run.model_copy(update={"results": (changed,)})


def test_rounds_that_all_met_the_largest_load_are_a_limit(results):
    ends = [Observation(round=n, value=18e6, low=18e6, qualifier="at least") for n in (1, 2, 3)]
    run = _deployed(results, *ends, qualifier="at least", regular=False)
    for shown in (_flat(markdown_report(run)), Page(html_report(run)).shown):
        rounds = shown.partition("Deployments")[2].partition("All other figures")[0]
        assert "at least 18.00 Mfps" in rounds
        assert "± 0 " not in rounds


def test_a_limit_among_numbers_leaves_no_mean(results):
    ends = [
        Observation(round=1, value=18e6),
        Observation(round=2, value=19e6, low=19e6, qualifier="at least"),
        Observation(round=3, value=17e6),
    ]
    run = _deployed(results, *ends, regular=False)
    for shown in (_flat(markdown_report(run)), Page(html_report(run)).shown):
        assert "no mean: 1 of 3 at least" in shown
        assert "a limit enters no mean" in shown
    shown = Page(html_report(run)).shown
    assert "no mean over 3 of 4 deployments" in shown


def test_a_test_that_was_not_measured_says_why(page, markdown, wide):
    said = "there is no throughput at 1518 octets to measure latency at"
    assert all(said in shown for shown in (page.shown, markdown, wide))


def test_markdown_names_no_markup_and_no_infinite_number(every):
    shown = markdown_report(every)
    assert not re.search(r"\b(nan|inf|None)\b", shown)
    assert len(SIZES) == 3


def test_clauses_of_a_test_stand_beside_it_and_say_what_they_hold_for(every, page):
    part = page.shown.partition("pvp_dpdk · latency 8 trials")[2]
    said = "Clauses of this test 1 met, 1 deviated, 0 not applicable"
    assert said in part
    assert said not in part.partition("pvp_dpdk · frame_loss 12 trials")[2]
    row = (
        "| RFC 2544 section 26.2, load | at the throughput | deviated | not measured | there is no "
    )
    row += "throughput at this size | latency, pvp\\_dpdk, 1518 octets |"
    assert row in markdown_report(every)
    assert "latency, pvp_dpdk, 1518 octets" in page.shown.partition("Standards ledger 6 clauses")[2]


def test_a_recovery_without_overload_is_no_result(every):
    result = next(r for r in every.results if r.recovery)
    why = "not measured: the DUT was not overloaded"
    found = result.recovery.model_copy(
        update={"why": why, "seconds": None, "not_overloaded": (1, 2, 3, 4, 5)}
    )
    changed = result.model_copy(update={"recovery": found})
    assert outcomes.headline(changed) == ("not measured", "the DUT was not overloaded")
    run = every.model_copy(update={"results": (changed,)})
    shown = Page(html_report(run)).shown
    assert f"64 octets: {why}" in shown
    assert "0 of 5" in shown
    assert "Recovery time of each trial" not in shown
    rows = list(csv.DictReader(io.StringIO(outcomes_csv(run))))
    row = next(r for r in rows if r["quantity"] == "recovery_time")
    assert (row["value"], row["note"]) == ("", why)
    idle = next(r for r in rows if r["quantity"] == "trials_not_overloaded")
    assert float(idle["value"]) == 5


def test_a_recovery_without_a_number_is_not_compared(every):
    result = next(r for r in every.results if r.recovery)
    censored = result.recovery.model_copy(
        update={"why": "not measured: at least 10 s", "seconds": None, "censored": (2,)}
    )
    changed = result.model_copy(update={"recovery": censored})
    (metric,) = compared_metrics_of(changed)
    assert (metric.label, metric.measured, metric.why) == (
        *("recovery", None),
        "not measured: at least 10 s",
    )


def test_a_redacted_copy_says_so_first(few):
    redacted = Redaction(when="2026-05-05", values={"host name": 2}, dropped={"captures": "raw"})
    run = few.model_copy(update={"redacted": redacted})
    for said in (terminal_text(run), _flat(markdown_report(run)), Page(html_report(run)).shown):
        assert "a redacted copy: " in " ".join(said.split())
    assert "left out: captures" in _flat(markdown_report(run))


def test_what_all_of_an_input_rate_is_stands_beside_it(every, texts):
    result = next(r for r in every.results if r.loss_steps)
    top = max(step.load_fps / step.input_ratio for step in result.loss_steps)
    alike = result.model_copy(update={"media_max_fps": top * 2})
    said = outcomes.full_load_text(alike)
    texts.check(said, "largest load")
    full = result.model_copy(update={"media_max_fps": top})
    texts.check(outcomes.full_load_text(full), "medium")
    nominal = result.model_copy(update={"media_max_fps": top / 5})  # a wire of no speed of its own
    texts.check(outcomes.full_load_text(nominal), "nominal medium")
    below = tuple(step for step in result.loss_steps if step.input_ratio < 1)
    lower = alike.model_copy(update={"loss_steps": below})
    texts.check(outcomes.full_load_text(lower), "generator")
    assert "medium" not in outcomes.full_load_text(
        result.model_copy(update={"media_max_fps": None})
    )
    run = every.model_copy(update={"results": (alike,)})
    for shown in (terminal_text(run, width=160), _flat(markdown_report(run)), html_report(run)):
        assert said in " ".join(
            shown.replace("\N{NO-BREAK SPACE}", " ").replace("&#39;", "'").split()
        )


def test_the_latency_curve_is_compared_by_percentiles_at_each_load(every):
    result = next(r for r in every.results if r.test == "latency_load" and r.frame_size == 64)
    found = {m.label: m for m in compared_metrics_of(result)}
    low = found["p99 at 10000 frames/s per interface phy0->phy1"]
    assert (low.main, low.load_fps, low.qualifiers, low.better) == (True, 2e4, (), "less")
    main = [label for label, m in found.items() if m.main]
    assert all(label.startswith(("p99 at ", "loss at ")) for label in main)
    loss = found["loss at 10000 frames/s per interface"]
    assert loss.main
    assert not any(label.startswith("mean ") for label in found)
    bound = found["p99.9 at 10000 frames/s per interface phy0->phy1"]
    assert bound.qualifiers == ("tester-bound",)
    irregular = found["p99 at 100000 frames/s per interface phy0->phy1"]
    assert irregular.qualifiers == ("irregular",)
    lossy = found["p99 at 4000000 frames/s per interface phy1->phy0"]
    assert lossy.qualifiers == ("22 % lost",)
    beyond = found["loss at 5000000 frames/s per interface"]
    assert (beyond.number, beyond.main) == (None, False)
    assert beyond.why.startswith("above the largest load")


def test_a_latency_curve_without_a_clean_load_says_what_was_seen(every):
    result = next(r for r in every.results if r.test == "latency_load" and r.latency_at)
    beyond = [at for at in result.latency_at if not at.trials]
    assert latency.headline(result, tuple(beyond)) == ("not measured", beyond[0].note)
    lossy = next(at for at in result.latency_at if at.trials and at.latency)
    lossy = lossy.model_copy(update={"loss_ratio": 1e-6})
    (shown, why) = latency.headline(result, (lossy, *beyond))
    assert shown == "not measured"
    assert lossy.of in why


def test_scenarios_are_drawn_at_the_same_loads_in_one_plot(every):
    curves = [r for r in every.results if r.test == "latency_load"]
    other = [r.model_copy(update={"scenario": "pvp_vpp"}) for r in curves]
    both = every.model_copy(update={"results": (*curves, *other)})
    names = [a.get("aria-label", "") for tag, a in Page(html_report(both)).elements if tag == "svg"]
    shown = [name for name in names if "against load across scenarios" in name]
    assert shown == [
        f"Latency p{level} against load across scenarios, {size} octets"
        for size in SIZES
        for level in ("50", "99")
    ]


def test_figures_without_a_name_or_a_direction_are_shown(every):
    figures = (
        Figure(title="one", unit="ratio", value=0.25),
        Figure(title="two", unit="ratio", value=0.5),
    )
    outcome = Outcome(kind="other", title="Other", figures=figures)
    result = Result(
        scenario="pvp_dpdk", test="other", frame_size=64, status="measured", outcome=outcome
    )
    assert explain_missing_number(result) == ""
    text = terminal_text(every.model_copy(update={"results": (result,)}), width=160)
    head = next(line for line in text.splitlines() if "one" in line and "two" in line)
    assert head.index("one") < head.index("two")
