"""Variants side by side, in every report."""

import re

import pytest

from vnetperf.analysis import results_from_log
from vnetperf.log.records import ComparisonRecord
from vnetperf.model.outcomes import SessionTable
from vnetperf.model.result import (
    ComparedVariant,
    Deployments,
    Observation,
    RepeatedNumber,
    ScenarioFacts,
    ThreadUse,
)
from vnetperf.model.scenario import Comparison, Variant
from vnetperf.report import write_all
from vnetperf.report.comparison import list_comparisons
from vnetperf.report.markdown import markdown_report
from vnetperf.report.page import html_report, variants_plot
from vnetperf.report.plot import RIGHT, svg
from vnetperf.report.terminal import terminal_text

from . import chromium
from .sample_comparison import FACTORS, _scaled, with_comparison
from .test_browser import OVERFLOW, TEXT


@pytest.fixture(scope="module")
def found(results):
    return with_comparison(results)


@pytest.fixture(scope="module")
def page(found, tmp_path_factory):
    written = write_all(found, tmp_path_factory.mktemp("comparison"))
    return next(p for p in written if p.name == "report.html")


def _section(run):
    """The part of the page that shows the first comparison."""
    return html_report(run).partition('<section id="compare-0">')[2].partition("</section>")[0]


def test_rates_are_held_against_the_first_variant_where_both_are_numbers(found):
    (one,) = list_comparisons(found)
    virtio, slower, e1000, rtl8139 = one.comparison.variants
    assert one.relative(virtio, 64, "ndr") == ""
    assert one.relative(slower, 64, "ndr") == "0.810\N{MULTIPLICATION SIGN}"
    assert one.relative(slower, 1518, "ndr") == ""  # both carry all that can be offered
    assert one.absence(e1000, 64) == ("skipped", "e1000: the switch has no taps")
    assert one.absence(rtl8139, 64)[0] == "not measured"


def test_markdown_has_a_row_for_each_variant_goal_and_size(found):
    said = markdown_report(found).split("by nic\n")[1].split("\n##")[0]
    assert len(re.findall(r"^\| (?!variant|---)", said, re.MULTILINE)) == len(FACTORS) * 2 * 2
    assert "**skipped**" in said
    assert "0.810\N{MULTIPLICATION SIGN}" in said
    assert "`--guest nic=virtio`" in said


def _repeated(run, factors):
    """The run with its lower bounds in several deployments, each with a factor of its own."""
    results = []
    for place, result in enumerate(run.results):
        numbers = []
        for goal in result.goals:
            bound = goal.lower_bound_fps or 1.0
            each = tuple(
                Observation(round=n, value=v, low=v, high=v * 1.005)
                for n, v in enumerate((bound * f * (1 + 0.002 * (place % 3)) for f in factors), 1)
            )
            numbers.append(
                RepeatedNumber(label=goal.name, unit="fps", main=True, observations=each)
            )
        n = len(factors)
        held = Deployments(planned=n, attempted=n, measured=n, shown=1, numbers=tuple(numbers))
        results.append(result.model_copy(update={"deployments": held}))
    return run.model_copy(update={"results": tuple(results)})


@pytest.mark.slow
def test_a_ratio_of_several_deployments_has_an_interval_and_one_of_a_single_says_so(found, texts):
    run = _repeated(found, (1.0, 1.3, 0.8, 1.1, 0.9))  # drift that both variants share
    said = markdown_report(run).split("by nic\n")[1].split("\n##")[0]
    ratio = "0.808\N{MULTIPLICATION SIGN} (0.804\N{MULTIPLICATION SIGN} to 0.813"
    assert ratio in said
    assert "95 % interval over deployments" in said
    page = _section(run).replace("&#215;", "\N{MULTIPLICATION SIGN}")
    assert ratio in page
    assert "95 % interval over deployments" in page
    single = markdown_report(found).split("by nic\n")[1].split("\n##")[0]
    texts.check(line for line in single.splitlines() if "One deployment" in line)
    for shown in (single, _section(found)):
        assert "One deployment each" in shown
        assert "interval" not in shown


def test_the_terminal_shows_it_in_eighty_columns(found):
    said = terminal_text(found, plain=True)
    assert max(map(len, said.splitlines())) <= 80
    assert "pvp_dpdk - throughput by nic, ndr" in said
    assert "14.65M 0.810x" in said
    reason = "the switch has no taps"
    assert f"e1000: skipped: e1000: {reason}" in said


def test_a_plot_shows_every_variant_and_stays_inside_its_frame(found):
    (one,) = list_comparisons(found)
    shown = svg(variants_plot(one, 64))
    for variant in FACTORS:
        assert f">{variant}</text>" in shown
    assert ">skipped</text>" in shown
    assert ">not measured</text>" in shown
    for x in re.findall(r'cx="([\d.]+)"', shown):
        assert 12 <= float(x) <= RIGHT
    assert shown.count("<circle") == 4


def test_a_comparison_of_which_nothing_was_measured_says_why(found):
    (comparison,) = found.comparisons
    none = tuple(v.model_copy(update={"skipped": "no guests here"}) for v in comparison.variants)
    empty = found.model_copy(
        update={
            "comparisons": (comparison.model_copy(update={"variants": none}),),
            "results": tuple(r for r in found.results if "," not in r.scenario),
        }
    )
    shown = _section(empty)
    assert shown.count("no guests here") == len(FACTORS)
    assert "<svg" not in shown
    assert markdown_report(empty).count("no guests here") == len(FACTORS)
    assert "no guests here" in terminal_text(empty)


def test_events_of_the_dut_stand_beside_each_other(found):
    def counted(result, factor):
        uses = [
            ThreadUse(
                role=role,
                thread="lcore",
                cpu=1,
                user=1.0,
                system=0.0,
                involuntary_switches_per_s=0.0,
                events_per_frame={"dTLB load misses": factor},
            )
            for role in ("tester", "west:tester", "pmd", "west:vnf0")
        ]
        goals = tuple(g.model_copy(update={"threads": tuple(uses)}) for g in result.goals)
        return result.model_copy(update={"goals": goals})

    results = tuple(counted(r, 0.25) for r in found.results if "," in r.scenario)
    run = found.model_copy(update={"results": results})
    (one,) = list_comparisons(run)
    assert one.events == ("dTLB load misses",)
    assert next(iter(one.event_rows())) == ("nic=virtio", "64", "ndr", "0.500")
    assert "0.500" in _section(run)


def test_a_sum_over_some_threads_says_so(found):
    def use(events):
        return ThreadUse(
            role="pmd",
            thread="lcore",
            cpu=1,
            user=1.0,
            system=0.0,
            involuntary_switches_per_s=0.0,
            events_per_frame=events,
        )

    uses = (use({"dTLB load misses": 0.25}), use({}))
    results = tuple(
        r.model_copy(
            update={"goals": tuple(g.model_copy(update={"threads": uses}) for g in r.goals)}
        )
        for r in found.results
    )
    (one,) = list_comparisons(found.model_copy(update={"results": results}))
    assert next(iter(one.event_rows()))[-1] == "0.250 (1 of 2 threads)"


def test_what_could_not_be_counted_is_told_once(found):
    why = {"events": "not measured: no counters here"}
    results = tuple(
        r.model_copy(
            update={"goals": tuple(g.model_copy(update={"uncollected": why}) for g in r.goals)}
        )
        for r in found.results
    )
    run = found.model_copy(update={"results": results})
    assert _section(run).count("no counters here") == 1


def test_a_run_without_comparisons_says_nothing_of_them(results):
    assert "compare-0" not in html_report(results)


@pytest.mark.browser
@pytest.mark.skipif(chromium.BINARY is None, reason="no chromium on the PATH")
def test_it_fits_every_page(page):
    script = chromium.each(TEXT, OVERFLOW)
    for texts, found in chromium.probe_framed(*((page, width, script) for width in (400, 1600))):
        assert found["scroll"] <= found["client"], found["wide"]
        assert found["wide"] == []
        assert texts["out"] == []


def _scaled_by(found, key, numbers, *, shared=()):
    """The comparison with variants that differ by a number, each half as fast again."""
    (comparison,) = found.comparisons
    plain = [r for r in found.results if r.scenario == "pvp_dpdk,nic=virtio"]
    variants, results = [], []
    for place, number in enumerate(numbers):
        variant = f"{key}={number}"
        scenario = f"pvp_dpdk,{variant}"
        variants.append(
            ComparedVariant(variant=variant, scenario=scenario, typed=(f"--set {variant}",))
        )
        results += [
            r.model_copy(
                update={
                    "scenario": scenario,
                    "goals": tuple(_scaled(goal, 1 + place / 2) for goal in r.goals),
                }
            )
            for r in plain
        ]
    variants.append(
        ComparedVariant(variant=f"{key}=16", scenario=f"pvp_dpdk,{key}=16", skipped="16 workers")
    )
    facts = tuple(
        ScenarioFacts(
            scenario=v.scenario,
            plan={"placement": {"mode": "shared", "reason": "5 pollers share 2 processors"}},
        )
        for v in variants
        if v.variant in shared
    )
    update = {"variants": tuple(variants)}
    return found.model_copy(
        update={
            "comparisons": (comparison.model_copy(update=update),),
            "results": (*found.results, *results),
            "scenarios": (*found.scenarios, *facts),
        }
    )


@pytest.mark.slow
def test_variants_that_differ_by_a_number_are_a_curve_over_it(found):
    run = _scaled_by(found, "workers", (1, 2, 4), shared=("workers=4",))
    (one,) = list_comparisons(run)
    plot = variants_plot(one, 64)
    assert plot.x.name == "workers"
    ideal, *goals = plot.series
    assert [p.x for p in ideal.points] == [1, 4]
    assert ideal.points[1].y == 4 * ideal.points[0].y
    assert [[p.x for p in goal.points] for goal in goals] == [[1, 2, 4]] * len(goals)
    assert goals[0].points[2].y == pytest.approx(2 * goals[0].points[0].y)
    assert "no number: workers=16" in plot.note
    assert plot.caption == "64 octets, shared cores"
    for said in (markdown_report(run).replace("\\", ""), _section(run)):
        assert "workers=4: 5 pollers share 2" in said
    assert 'class="plot' in html_report(run)


def test_many_flows_are_on_a_logarithmic_axis_without_an_ideal(found):
    (one,) = list_comparisons(_scaled_by(found, "flows", (1, 1000, 1_000_000)))
    plot = variants_plot(one, 64)
    assert (plot.x.name, plot.x.scale) == ("flows", "log")
    assert all(goal.mark == "dot" for goal in plot.series)


def test_new_sessions_stand_beside_each_other_and_apart_from_throughput(results):
    variants = tuple(Variant(id=f"lb={n}") for n in (1, 9))
    records = [
        ComparisonRecord(
            comparison=Comparison(
                name=f"f::test_{name}", scenario="phy2phy_lb", variants=variants, measures=measures
            )
        )
        for name, measures in (("established", ""), ("new", "connection_rate"))
    ]
    compared = results_from_log.merge_comparisons(records)
    plain = next(r for r in results.results if r.goals)
    measured = []
    for variant, rate in (("lb=1", 90_000.0), ("lb=9", 20_000.0)):
        scenario = f"phy2phy_lb,{variant}"
        measured.append(plain.model_copy(update={"scenario": scenario}))
        made = SessionTable(sessions=500, rate_per_s=rate, ended_per_s=1e6, capped=rate > 80_000)
        update = {"scenario": f"{scenario},new sessions", "test": "connection_rate", "goals": ()}
        measured.append(plain.model_copy(update={**update, "sessions": made}))
    run = results.model_copy(update={"comparisons": compared, "results": tuple(measured)})
    established, new = list_comparisons(run)
    assert (established.test, established.has_sessions) == (plain.test, False)
    assert new.has_sessions
    text = terminal_text(run, width=100)
    assert re.search(r"lb=1 +64 +at least 90\.00k +1\.000M", text)
    assert re.search(r"lb=9 +64 +20\.00k +1\.000M", text)
    assert "| lb=9 | 64 | **20.00k** | 1.000M |" in markdown_report(run)
    plot = variants_plot(new, 64)
    assert plot is not None
    assert [(p.x, p.open) for p in plot.series[0].points] == [
        (90_000.0, "at least"),
        (20_000.0, ""),
    ]
    rest = run.model_copy(update={"comparisons": compared[1:]})
    assert "new sessions/s" in _section(rest)
