"""Which tests run: those of the preset, those of --tests, and those that are named."""

from __future__ import annotations

import pytest

from tests.plugin.conftest import Site
from tests.plugin.test_selection import collected
from tests.texts import Texts, lines_with
from vnetperf.plugin import registry

ALL = [
    v
    for v in registry.names("vswitches")
    if "v" not in v and not registry.load("vswitches", v).deployments
]
CASES = """
import pytest

@pytest.mark.measures("throughput")
def test_throughput(bench, frame_size):
    bench.search_throughput(frame_size).check_expectations()

@pytest.mark.measures("latency")
def test_latency(bench, frame_size):
    bench.measure("latency", frame_size).check_expectations()

@pytest.mark.measures("frame_loss")
def test_frame_loss(bench, frame_size):
    bench.measure("frame_loss", frame_size).check_expectations()

@pytest.mark.measures("back_to_back")
def test_back_to_back(bench, frame_size):
    bench.measure("back_to_back", frame_size).check_expectations()

def test_own(bench, frame_size):
    assert bench
"""
MORE = """
[latency]
duration_s = 0.5
tag_at_s = 0
repeats = 2
[frame_loss]
duration_s = 0.5
[back_to_back]
searches = 2
max_burst_s = 0.001
idle_s = 0
"""


@pytest.fixture
def tests(site: Site) -> Site:
    site.pytester.makepyfile(test_rfc2544=CASES)
    preset = site.path / "conf" / "presets" / "fast.toml"
    preset.write_text(preset.read_text() + MORE)
    return site


def functions(site: Site, *args: str) -> list[str]:
    found = collected(site, "--frame-sizes", "64", "-k", "pvp_dpdk", *args)
    return [one.partition("[")[0] for one in found]


def test_the_preset_says_which_and_an_unmarked_case_always_runs(tests: Site) -> None:
    assert functions(tests) == ["test_throughput", "test_own"]
    preset = tests.path / "conf" / "presets" / "fast.toml"
    preset.write_text('tests = ["frame_loss", "latency"]\n' + preset.read_text())
    assert functions(tests) == ["test_latency", "test_frame_loss", "test_own"]


def left_out(site: Site, *args: str) -> list[str]:
    lines = site.run("--collect-only", "-k", "pvp_dpdk", *args).outlines
    return [line for line in lines if "leaves out" in line]


def test_one_line_names_what_is_left_out_and_how_to_have_it(tests: Site, texts: Texts) -> None:
    texts.check(left_out(tests), "preset")
    assert left_out(tests, "--tests", "all") == []
    texts.check(left_out(tests, "--tests", "latency"), "option")
    # What -k does not select is not left out.
    assert left_out(tests, "-k", "pvp_dpdk and throughput") == []
    (line,) = left_out(tests, "-k", "pvp_dpdk and latency")
    assert "--tests latency" in line


def test_only_cases_that_can_run_are_collected(tests: Site) -> None:
    result = tests.run("--collect-only", "-k", "pvp_dpdk")
    assert "collected 4 items" in result.outlines
    assert "deselected" not in result.stdout.str()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "scenarios"),
    [
        ("phy2phy_bridge or phy2phy_vpp", {"phy2phy_bridge", "phy2phy_vpp"}),
        (
            "not (phy2phy or v or op2p or p2c2p or bmp2bmp)",
            {f"{d}_{v}" for d in ("encap", "decap") for v in ALL},
        ),
        ("pvp_dpdk and not 64", {"pvp_dpdk"}),
        ("PVP_DPDK and Throughput[", {"pvp_dpdk"}),
        ("test_rfc2544 and pvp_bridge", {"pvp_bridge"}),
        ("op2p_bridge and measures", {"op2p_bridge"}),
    ],
)
def test_keywords_are_read_by_pytest_itself(tests: Site, words: str, scenarios: set[str]) -> None:
    found = collected(tests, "-k", words)
    assert {one.partition("[")[2].partition("-")[0] for one in found} == scenarios
    plain = collected(tests, "-k", words, "-p", "tests.fakes.unfiltered")
    assert found == plain


def test_an_option_or_a_variable_says_which(tests: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert functions(tests, "--tests", "latency") == ["test_latency", "test_own"]
    assert functions(tests, "--tests", "back_to_back, throughput") == [
        "test_throughput",
        "test_back_to_back",
        "test_own",
    ]
    assert len(functions(tests, "--tests", "all")) == 5
    monkeypatch.setenv("VNETPERF_TESTS", "frame_loss")
    assert functions(tests) == ["test_frame_loss", "test_own"]


@pytest.mark.slow
def test_a_function_that_is_named_runs_whatever_the_preset_names(tests: Site) -> None:
    assert functions(tests, "-k", "pvp_dpdk and frame_loss") == []
    named = "test_rfc2544.py::test_latency"
    assert functions(tests, named) == ["test_latency"]
    for words in ("pvp_dpdk and test", "pvp_dpdk and rfc2544", "pvp_dpdk and 64"):
        assert functions(tests, "-k", words) == ["test_throughput", "test_own"]
    result = tests.run(named, "-k", "pvp_dpdk", "--tests", "throughput")
    assert result.ret == 4
    assert "--tests does not name latency" in result.stderr.str() + result.stdout.str()


def test_a_wrong_name_is_one_message(
    tests: Site, monkeypatch: pytest.MonkeyPatch, texts: Texts
) -> None:
    result = tests.run("-k", "pvp_dpdk", "--tests", "latncy")
    text = result.stderr.str() + result.stdout.str()
    assert result.ret == 4
    (line,) = lines_with(text, "'latncy'")
    assert "all, or a list of throughput, " in line
    texts.check(line.partition("; accepted: ")[0], "name")
    monkeypatch.setenv("VNETPERF_TESTS", "nothing")
    text = tests.run("-k", "pvp_dpdk").stderr.str()
    (line,) = lines_with(text, "'nothing'")
    texts.check(line.partition("; accepted: ")[0], "environment")
    monkeypatch.delenv("VNETPERF_TESTS")
    tests.pytester.makepyfile(
        test_rfc2544=CASES.replace('measures("latency")', 'measures("lat", 1)')
    )
    result = tests.run("-k", "pvp_dpdk")
    assert result.ret == 4
    (line,) = lines_with(result.stderr.str(), "@pytest.mark.measures")
    texts.check(line.partition(": throughput")[0], "mark")


def test_all_run_on_one_deployment_and_stand_in_the_results(tests: Site) -> None:
    result = tests.run("-k", "pvp_dpdk", "--tests", "all", "--frame-sizes", "64")
    result.assert_outcomes(passed=5)
    assert tests.calls("deploy") == {"deploy pvp_dpdk": 1}
    found = [(r["test"], r["status"]) for r in tests.results()["results"]]
    assert found == [
        ("throughput", "measured"),
        ("latency", "measured"),
        ("frame_loss", "measured"),
        ("back_to_back", "measured"),
    ]


def test_a_test_without_a_result_by_its_own_rules_is_skipped_with_the_reason(
    tests: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_AGENT", '{"duts": [50e6, 50e6]}')
    result = tests.run("-k", "pvp_dpdk", "--tests", "back_to_back", "--frame-sizes", "64")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*nothing tells whether a buffer fills*RFC 9004*"])
    found = {r["test"]: r["status"] for r in tests.results()["results"]}
    assert found == {"throughput": "measured", "back_to_back": "not measured"}


def test_a_run_is_resumed_with_other_tests(tests: Site) -> None:
    tests.run("-k", "pvp_dpdk", "--frame-sizes", "64").assert_outcomes(passed=2)
    before = tests.calls("trial").total()
    more = ("--tests", "throughput,latency", "--resume", "results/latest")
    result = tests.run("-k", "pvp_dpdk", "--frame-sizes", "64", *more)
    result.assert_outcomes(passed=3)
    assert tests.calls("trial").total() == before + 1 + 2  # one that tries the throughput
    assert [r["test"] for r in tests.results()["results"]] == ["throughput", "latency"]


def test_the_plan_says_which_tests(tests: Site) -> None:
    text = tests.run(
        "--plan", "-k", "pvp_dpdk and not own", "--tests", "latency,frame_loss"
    ).stdout.str()
    assert "tests       latency, frame_loss" in text


@pytest.mark.parametrize(
    ("words", "deployments"),
    [
        ("pvp_dpdk", {"pvp"}),
        ("pvp2pvp_dpdk", {"pvp2pvp"}),
        ("p2v_dpdk", {"p2v"}),
        ("(p2v_dpdk or v2p2v) and dpdk", {"p2v", "v2p2v"}),
        ("dpdk and 2p", {"phy2phy", "op2p", "v2p", "v2p2v", "pvp2pvp", "p2c2p"}),
    ],
)
def test_the_whole_name_of_a_scenario_is_no_part_of_another(
    tests: Site, words: str, deployments: set[str]
) -> None:
    found = collected(tests, "--frame-sizes", "64", "-k", words)
    assert {one.partition("[")[2].partition("_")[0] for one in found} == deployments
