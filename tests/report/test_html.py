import base64
import hashlib
import re
import time
from html.parser import HTMLParser

import pytest

from vnetperf.report import REPORTS, run_tables, summary
from vnetperf.report.page import html_report

from .sample import build
from .sample_outcomes import with_outcomes

VOID = {"meta", "wbr", "br"}
#: Elements whose end tag HTML lets an author leave out; the list of trials does.
OPTIONAL = {"td", "tr"}


class Page(HTMLParser):
    """Reads a page, keeps its elements and checks that they nest."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        while self.open[-1] != tag and self.open[-1] in OPTIONAL:
            self.open.pop()
        place = f"</{tag}> at {self.getpos()}"
        assert self.open.pop() == tag, place

    def handle_data(self, data):
        if not self.open or self.open[-1] not in {"style", "script"}:
            self.text.append(data)

    @property
    def shown(self) -> str:
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module")
def source(results) -> str:
    return html_report(results)


@pytest.fixture(scope="module")
def page(source) -> Page:
    return Page(source)


@pytest.mark.slow
def test_elements_nest(page):
    assert page.open == []


def test_ids_are_unique_and_links_lead_somewhere(page):
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    links = {a["href"] for tag, a in page.elements if tag == "a"}
    beside = {link for link in links if not link.startswith("#")}
    assert links - beside
    assert links - beside <= {f"#{i}" for i in ids}
    assert {"results.csv", "outcomes.csv", "trials.csv"} <= beside <= REPORTS.keys()


def test_nothing_is_loaded_from_elsewhere(source, page):
    assert {"img", "link", "iframe", "object", "embed", "form", "base"}.isdisjoint(
        tag for tag, _ in page.elements
    )
    assert not any({"src", "style", "onload", "onclick"} & a.keys() for _, a in page.elements)
    outside = set(re.findall(r"https?://[^\s\"'<)]+", source))
    assert outside == {"http://www.w3.org/2000/svg"}  # the name of a namespace, never fetched
    assert "url(" not in source
    assert "@import" not in source


def test_the_policy_allows_the_page_own_script_and_style_alone(source, page):
    policy = next(a["content"] for _, a in page.elements if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; ")
    for tag in ("script", "style"):
        content = re.search(rf"<{tag}>(.*?)</{tag}>", source, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


@pytest.mark.slow
def test_the_first_line_says_that_it_is_no_benchmark(smoke, page, texts):
    shown = Page(html_report(smoke)).shown
    title = "vnetperf: phy2phy_dpdk and pvp_dpdk, 2 scenarios: throughput "
    assert shown.startswith(title)
    texts.check(shown.removeprefix(title).partition(". ")[0])
    assert "Not a benchmark" not in page.shown


@pytest.mark.parametrize(
    "said",
    [
        "cores are shared: DUT and tester run on processor 1",
        "at least 11.75 Mfps irregular",
        "at least 11.75M 100 % irregular",
        "4.445 Mfps irregular",
        "512 octets, ndr: irregular: bounds are 7.4 % apart",
        "1518 octets: not measured: the path check lost 3 of 32 frames",
        "pvp_vpp : not deployed: vpp: exited with status 1",
        "theoretical maximum of the reference medium",
        "the generator's calibrated clean maximum",
        "frames/s, sum of 2 direction(s), log scale",
        "load per sending interface, frames/s, linear scale",
        "loss, worse direction, log scale",
        "latency, log scale",
        "GENERATOR_LIMITED trial",
        "phy0 rx ring",
        "RFC 2544 section 24 trials of at least 60 s deviated 1 s",
        "preset mlr-csit command line --preset",
        "unknown: /proc/cpuinfo has no microcode line",
        "ovs-vswitchd-dpdk unix:/run/vnetperf/r1/db.sock --pidfile",
        "offered of intended",
    ],
)
def test_everything_is_there(page, said):
    assert said in page.shown


def test_every_trial_is_a_row_and_a_mark(results, page):
    rows = {a["id"] for tag, a in page.elements if tag == "tr" and "id" in a}
    assert rows == {f"t{t.number}" for t in results.trials}
    marks = [a for tag, a in page.elements if "data-n" in a]
    # Once by its load and loss, once in the order of its search.
    numbers = [int(n) for a in marks for n in a["data-n"].split(",")]
    assert sorted(numbers) == sorted(2 * [t.number for t in results.trials])
    for mark in marks:
        assert mark["d"].count("M") == len(mark["data-n"].split(","))


def test_each_plot_has_a_name(page):
    plots = [a for tag, a in page.elements if tag == "svg" and "plot" in (a.get("class") or "")]
    # two throughput plots, two across the scenarios, for each of 13 measured sizes one of loss,
    # order and latency, and for each scenario and goal one of cores
    assert len(plots) == 2 + 2 + 13 * 3 + 2 * 2
    assert all(a["role"] == "img" and a["aria-label"] for a in plots)


def test_each_plot_shows_its_data_or_leads_to_its_trials(source):
    figures = re.findall(r"<figure>.*?</figure>", source, re.DOTALL)
    assert figures
    for figure in figures:
        assert figure.count("<table>") == ("trial-marks" not in figure)
        assert ('<p class="data"><a href="#t' in figure) == ("trial-marks" in figure)


def test_the_page_opens_with_what_was_measured_on_what_and_what_it_is_worth(page):
    said = page.shown.partition("Measured")[2].partition("Overview")[0]
    for words in (
        "throughput of phy2phy_dpdk and pvp_dpdk at 7 frame sizes, 64 to 1518 octets",
        "Example 8-core server processor",
        "Linux 6.12.9-amd64",
        "ovs-vswitchd (Open vSwitch) 3.1.0, DPDK 22.11",
        "pvp_dpdk, PVP: carries 5.96 million frames a second at 64 octets and 4.29 million at 1280",
        "an estimate by trials of 1 s (RFC 2544 section 24: 60 s); 9 of 26 bounds irregular",
        "1 of 14 cases not measured",
    ):
        assert words in said


def test_the_headline_has_measured_what_has_numbers(few, texts):
    (first, *_) = (r for r in few.results if r.status == "measured")
    lost = {"status": "not measured", "why": "it broke", "goals": ()}
    one = few.model_copy(
        update={
            "results": (
                first,
                first.model_copy(update={"frame_size": 9000, **lost}),
                first.model_copy(update={"scenario": "pvvp_dpdk", **lost}),
            )
        }
    )
    ((name, words), *_) = run_tables.headline(one, summary.groups(one))
    assert name == "Measured"
    texts.check(words)


def many_rates(few, rates):
    """Results of scenarios by frame size -> rates of each, None where no load met the goal."""
    (first, *_) = [r for r in few.results if r.goals]

    def result(n, size, rate):
        carried = {"conditional_throughput_fps": rate, "lower_bound_fps": rate, "qualifier": ""}
        goal = first.goals[0].model_copy(update=carried)
        update = {"scenario": f"pvp_dpdk,workers={n}", "frame_size": size, "goals": (goal,)}
        return first.model_copy(update=update)

    results = tuple(
        result(n, size, rate) for size, each in rates.items() for n, rate in enumerate(each)
    )
    return few.model_copy(update={"results": results})


def told_result(results):
    return dict(run_tables.headline(results, summary.groups(results)))["Result"]


def test_many_scenarios_are_one_sentence_from_the_least_to_the_most(few, texts):
    told = told_result(many_rates(few, {64: [3e6, 1e6, 2e6, 5e6, 4e6, 6e6]}))
    texts.check(told)


def test_scenarios_that_carry_nothing_are_counted_as_such(few, texts):
    told = told_result(many_rates(few, {64: [3e6, None, 2e6, None, 4e6, None]}))
    texts.check(told, "some")
    texts.check(told_result(many_rates(few, {64: [None] * 6})), "none")


def test_many_scenarios_are_named_at_the_smallest_and_the_largest_size(few):
    sizes = (512, 1518, 64, 256)
    every = many_rates(few, {size: [1e6] * 5 + [size * 1e4] for size in sizes})
    some = [r for r in every.results if r.frame_size != 64 or not r.scenario.endswith("=0")]
    told = told_result(every.model_copy(update={"results": (*some,)}))
    assert 0 < told.index(" at 64 octets") < told.index(" at 1518 octets")
    assert "512" not in told
    assert "256" not in told


def test_tests_of_a_scenario_make_no_more_scenarios(few):
    one = many_rates(few, {64: [3e6, 1e6, 2e6, 5e6]})
    also = (r.model_copy(update={"test": "soak"}) for r in one.results)
    both = one.model_copy(update={"results": (*one.results, *also)})
    assert told_result(both).startswith("4 scenarios carry ")


def test_a_page_of_no_benchmark_says_so_in_its_headline(smoke):
    said = Page(html_report(smoke)).shown.partition("Worth")[2]
    assert said.startswith(" not a benchmark")


def test_names_never_become_markup(hostile):
    page = Page(html_report(hostile))
    tags = [tag for tag, _ in page.elements]
    assert "img" not in tags
    assert tags.count("script") == 1
    assert not any(k.startswith("on") for _, a in page.elements for k in a)
    assert "<img src=x onerror=alert(1)>" in page.shown
    raw = html_report(hostile)
    assert not {"\x00", "\x1b", "\u202e"} & set(raw)


@pytest.mark.slow
def test_ten_thousand_trials_stay_light():
    results = with_outcomes(build(trials=10_800))
    assert len(results.trials) >= 10_000
    assert len(html_report(results).encode()) < 6_000_000


@pytest.mark.daily  # a time, of which a machine that others use too tells little
def test_ten_thousand_trials_take_no_more_than_in_proportion(every, capsys):
    results = with_outcomes(build(trials=10_800))
    few = min(_seconds(every) for _ in range(3))
    started = time.perf_counter()
    source = html_report(results)
    took = time.perf_counter() - started
    size = len(source.encode())
    with capsys.disabled():
        print(f"\n{len(results.trials)} trials: {size / 1e6:.2f} MB in {took:.2f} s")  # noqa: T201 - a figure to read
    # No more than in proportion (some 20 times the trials), with room for a busy machine.
    assert took < 60 * few


def _seconds(results):
    started = time.perf_counter()
    html_report(results)
    return time.perf_counter() - started
