import math
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model.outcomes import LatencyAt, Spread
from vnetperf.model.result import TrialPoint
from vnetperf.model.trial import Latency, Verdict
from vnetperf.report.goal_text import account_losses
from vnetperf.report.page import html_report
from vnetperf.report.plot import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    LinearScale,
    LogScale,
    LossScale,
    data,
    fitting_scale,
    legend,
    series_css,
    svg,
)
from vnetperf.report.plots import (
    bounds_so_far,
    by_size_plot,
    hop_css,
    latencies_plot,
    latency_curve,
    latency_load_plot,
    loss_plot,
    service_plot,
    spread_plot,
    throughput_plot,
)
from vnetperf.report.summary import groups

from .sample import histogram

rates = st.floats(min_value=1.0, max_value=1e10)


@given(st.lists(rates, min_size=1, max_size=20), st.booleans())
def test_a_fitting_scale_keeps_every_value_inside(values, zero):
    scale = fitting_scale(values, 0, 100, ratio=10, zero=zero)
    assert all(-1e-6 <= scale(v) <= 100 + 1e-6 for v in values)
    assert all(-1e-6 <= scale(t) <= 100 + 1e-6 for t in scale.ticks())
    assert len(scale.ticks()) <= 12


def test_the_axis_is_logarithmic_where_the_range_needs_it():
    assert fitting_scale([1e6, 9e6], 0, 1, ratio=10, zero=True) == LinearScale(0, 9e6 * 1.08, 0, 1)
    assert isinstance(fitting_scale([1e6, 11e6], 0, 1, ratio=10, zero=True), LogScale)


def test_the_axis_is_linear_where_a_value_or_an_interval_reaches_0_or_below():
    scale = fitting_scale([-5.0, 1.0, 1000.0], 0, 100, ratio=10, zero=True)
    assert isinstance(scale, LinearScale)
    assert 0 < scale(-5.0) < scale(1.0) < scale(1000.0) < 100


def _around(mean: float, half: float) -> Spread:
    ends = {"low": mean - half, "high": mean + half, "method": "t"}
    held = {"n": 2, "mean": mean, "median": mean, "minimum": mean, "maximum": mean}
    return Spread.model_validate(held | ends | {"values": (mean, mean)})


def test_an_interval_below_0_is_drawn_where_it_is(results):
    held = {"rate": {64: _around(19.0, 137.0), 128: _around(900.0, 1.0)}}
    plot = by_size_plot("Latency", "latency", groups(results)[0].results, held, "ns")
    ((_, first),) = [(p.x, p) for p in plot.series[0].points if p.x == 0]
    assert (first.low, first.high) == (-118.0, 156.0)
    shown = svg(plot)
    assert "linear scale" in shown
    (bar,) = re.findall(r'<path d="M[\d.]+ ([\d.]+)V([\d.]+)M[^"]*" class="bar', shown)[:1]
    middle = float(re.findall(r'cy="([\d.]+)"', shown)[0])
    assert BOTTOM > float(bar[0]) > middle > float(bar[1])
    assert float(bar[0]) - middle == pytest.approx(middle - float(bar[1]), abs=0.2)


def test_a_hop_keeps_its_colour_and_twelve_differ():
    names = [f"hop {i}" for i in range(15)]
    assert len({hop_css(name, names) for name in names}) == 15
    assert hop_css("hop 3", names) == hop_css("hop 3", names[:4])


def test_the_same_hop_has_one_colour_in_every_section(results):
    page = html_report(results)
    colours = dict.fromkeys(
        re.findall(r'class="box hop (h\d+)" d="[^"]+"></path></svg>([^<]+)', page)
    )
    hops = [name for _, name in colours if "ring" in name]
    assert len(hops) == len(set(hops)) > 2


def test_each_plot_has_its_data_as_a_table(results, texts):
    group = groups(results)[1]
    head, rows = data(throughput_plot(group))
    texts.check(head[:3])
    assert ("512", "ndr", "4.445 Mfps", "4.445 Mfps", "4.801 Mfps") in rows
    head, rows = data(spread_plot("Rounds", "rate", [("all", _around(5e6, 1e5))], "fps"))
    assert ("all", "mean", "5.000 Mfps", "4.900 Mfps", "5.100 Mfps") in rows
    assert sum(row[1] == "one measurement" for row in rows) == 2


def test_the_legend_names_what_occurs_and_nothing_else(results):
    shown = legend([throughput_plot(groups(results)[0])])
    assert "at least" in shown
    assert "at most" not in shown


def test_no_loss_has_a_lane_of_its_own_below_every_loss():
    y = LossScale(1e-6, 10, 180, 200)
    assert y(0.0) == 200
    assert y(1e-6) == pytest.approx(180)
    assert y(1.0) == pytest.approx(10)
    assert y(1e-9) == pytest.approx(180)
    assert 10 < y(0.5) < y(0.001) < 180


def _point(number: int, verdict: Verdict, loss: float | None, **more: object) -> TrialPoint:
    return TrialPoint(
        number=number,
        scenario="s",
        test="t",
        frame_size=64,
        load_fps=1e6 * number,
        duration_s=1.0,
        loss_ratio=loss,
        forwarded_fps=None,
        offered_ratio=None,
        verdict=verdict,
        **more,
    )


def test_every_verdict_has_a_mark_of_its_own(results):
    trials = [_point(i, v, 0.01) for i, v in enumerate(Verdict, start=1)]
    shown = svg(loss_plot(results.results[0], trials, ("ndr", "pdr")))
    shapes = {
        re.sub(r"M[\d.]+ [\d.]+", "", d): css
        for d, css in re.findall(r'<path d="([^"]+)" class="([^"]+)" data-n', shown)
    }
    assert len(shapes) == len(Verdict)
    assert len(set(shapes.values())) == len(Verdict)


def test_a_trial_without_number_lies_above_the_axis(results):
    trials = [_point(1, Verdict.VALID, 0.0), _point(2, Verdict.TIMED_OUT, None)]
    shown = svg(loss_plot(results.results[0], trials, ("ndr", "pdr")))
    assert ">no number</text>" in shown
    heights = dict(re.findall(r'd="M[\d.]+ ([\d.]+)[^"]*" class="(\w+) v-', shown))
    by_mark = {mark: float(height) for height, mark in heights.items()}
    assert TOP <= by_mark["cross"] < TOP + 10
    assert BOTTOM - 22 < by_mark["dot"] < BOTTOM


def test_marks_lie_inside_the_frame(results):
    group = groups(results)[0]
    mine = [t for t in results.trials if (t.scenario, t.frame_size) == (group.scenario, 64)]
    shown = svg(loss_plot(group.results[0], mine, group.goal_names))
    for d in re.findall(r'<path d="([^"]+)" class="[^"]+" data-n', shown):
        for x, y in re.findall(r"M([\d.]+) ([\d.]+)", d):
            assert LEFT <= float(x) <= RIGHT
            assert TOP <= float(y) <= BOTTOM


def test_the_curve_of_a_histogram_is_that_of_its_values():
    latency = histogram(random.Random(1), 10.0)
    found = latency_curve(latency)
    assert found.exact
    levels = [level for level, _ in found.points]
    assert levels[0] == 1.0
    assert levels[-1] == pytest.approx(latency.count, rel=1e-6)
    values = [v for _, v in found.points]
    assert values == sorted(values)
    assert values[-1] == pytest.approx(latency.max_ns, rel=0.002)
    near = min(found.points, key=lambda p: abs(math.log(p[0] / 100)))
    assert near[1] == pytest.approx(latency.percentiles["99"], rel=0.05)


@pytest.mark.parametrize("hdr", ["", "not base64 at all", "HISTFAAAAB94nJ", "AAAA", "é"])
def test_without_a_readable_histogram_the_percentiles_are_drawn(hdr):
    latency = Latency(
        count=10,
        min_ns=1,
        mean_ns=2,
        max_ns=9,
        percentiles={"50": 5.0, "99.9": 9.0, "100": 9.0, "odd": 1.0},
        hdr=hdr,
    )
    found = latency_curve(latency)
    assert not found.exact
    assert found.points[0] == (2.0, 5.0)
    assert found.points[1] == (pytest.approx(1000.0), 9.0)
    assert len(found.points) == 2


def test_throughput_shows_limits_bounds_and_qualifiers(results):
    group = groups(results)[1]
    shown = svg(throughput_plot(group))
    assert 'class="series limit medium"' in shown
    assert 'class="series limit generator"' in shown
    assert "log scale" in shown
    assert ">not measured</text>" in shown
    assert "ndr: 4.445 Mfps (irregular, " in shown
    assert "upper bound: 4.801 Mfps" in shown
    assert 'class="point hollow g0"' in shown


def test_only_valid_trials_account_for_lost_frames():
    trials = [
        _point(1, Verdict.VALID, 0.1, lost_at={"ring": 30, "tap": 10}),
        _point(2, Verdict.VALID, 0.1, lost_at={"tap": 50}),
        _point(3, Verdict.GENERATOR_LIMITED, 0.5, lost_at={"ring": 999}),
        _point(4, Verdict.VALID, 0.1),
        _point(5, Verdict.VALID, 0.0),
    ]
    found = account_losses(trials)
    assert found.by_hop == {"tap": 60, "ring": 30}
    assert list(found.by_hop) == ["tap", "ring"]
    assert (found.trials, found.lossy, found.unattributed, found.total) == (4, 3, 1, 90)


def test_bounds_so_far_follow_every_trial(results):
    result = next(r for r in results.results if r.goals)
    goal = result.goals[0].model_copy(update={"loss_ratio": 0.0, "exceed_ratio": 0.5})
    point = results.trials[0]

    def trial(load, loss, seconds=1.0, verdict=Verdict.VALID, **more):
        changes = {"load_fps": load, "loss_ratio": loss, "duration_s": seconds, "verdict": verdict}
        return point.model_copy(update={"phase": "", "search": 1} | changes | more)

    trials = [
        trial(50.0, 0.1, verdict=Verdict.GENERATOR_LIMITED),  # classifies nothing
        trial(10.0, 0.0),
        trial(30.0, 0.1),
        trial(20.0, 0.1),
        trial(20.0, 0.0, seconds=3.0),  # a quarter of its time lost frames: carried after all
        trial(20.0, 0.1, seconds=9.0),
        trial(30.0, 0.0, seconds=99.0, phase="warm-up"),  # moves no bound
        trial(5.0, 0.1, phase="sweep"),
        trial(20.0, 0.0, search=2),  # another round knows nothing of this one
    ]
    assert list(bounds_so_far(goal, trials)) == [
        (None, None),
        (10.0, None),
        (10.0, 30.0),
        (10.0, 20.0),
        (20.0, 30.0),
        *[(10.0, 20.0)] * 2,
        (None, 5.0),
        (20.0, None),
    ]


def test_steps_of_a_service_stand_against_their_limits(every):
    found = next(r for r in every.results if r.service is not None and not r.service.met)
    plot = service_plot(found)
    assert plot is not None
    assert found.service is not None
    last = found.service.all_steps[-1]
    lost = next(series for series in plot.series if series.name == "FLR")
    worst = max(lost.points, key=lambda point: point.x)
    assert worst.x == pytest.approx(last.flows[0].loss_ratio / found.service.loss_ratio)
    place = f"{last.of}, {last.flows[0].direction}"
    assert worst.hover == f"{place}: FLR 0.002 of 0.0001"
    assert [rule.value for rule in plot.rules] == [1.0]
    assert plot.row_ends[-1] == "not met"
    assert len(plot.y.names) == 2 * len(found.service.all_steps)
    unknown = [flow.model_copy(update={"variation_ns": None}) for flow in last.flows]
    step = last.model_copy(update={"flows": tuple(unknown)})
    service = found.service.model_copy(update={"steps": (step,), "performance": None})
    plot = service_plot(found.model_copy(update={"service": service}))
    assert plot is not None
    assert {note.text for note in plot.notes} == {"FDV not measured"}
    assert service_plot(found.model_copy(update={"service": None})) is None


def test_lines_of_fourteen_networks_differ() -> None:
    assert len({series_css(index) for index in range(14)}) == 14
    assert [series_css(index) for index in (0, 6, 7)] == ["s0", "s6", "s0 second"]


def test_one_way_and_the_round_trip_are_never_in_one_plot(every):
    """A scenario whose trials have the one or the other, beside one that has one way alone."""
    curve = next(r for r in every.results if r.test == "latency_load" and r.latency_at)

    def also_both_ways(at: LatencyAt) -> LatencyAt:
        timed = next(iter(at.latency.values()), None)
        if timed is None:
            return at
        longer = {level: 10 * value for level, value in timed.percentiles.items()}
        both_ways = timed.model_copy(update={"percentiles": longer})
        return at.model_copy(update={"latency": {**at.latency, "a->b->a": both_ways}})

    loads = tuple(map(also_both_ways, curve.latency_at))
    mixed = curve.model_copy(update={"scenario": "other", "latency_at": loads})
    assert latency_load_plot(curve, both_ways=True) is None
    one_way = latency_load_plot(mixed, both_ways=False)
    assert one_way.series == latency_load_plot(curve, both_ways=False).series
    both = latency_load_plot(mixed, both_ways=True)
    assert both.title.startswith("Round trip against load")
    assert all("a->b->a" in p.hover for one in both.series[1:] for p in one.points)
    assert latencies_plot([curve, mixed], "99", both_ways=True) is None
    beside = latencies_plot([curve, mixed], "99", both_ways=False)
    assert not any("a->b->a" in p.hover for one in beside.series for p in one.points)
