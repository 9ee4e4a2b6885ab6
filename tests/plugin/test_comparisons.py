"""Variants of a scenario: their ids, how they are asked for, run, resumed and reported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from tests.plugin.conftest import ROOT, Site, without_numbers
from tests.plugin.test_selection import collected
from tests.texts import Texts, lines_with
from vnetperf.model.scenario import Variant
from vnetperf.pytest_plugin.cases import combine_variants
from vnetperf.report import REPORTS

QUEUES = """
import pytest

@pytest.mark.vary("set", ["rx_queues=1", "rx_queues=2"])
def test_throughput_by_queues(bench, frame_size):
    '''How much more queues carry.

    Not part of the title.
    '''
    bench.search_throughput(frame_size).check_expectations()
"""
CROSS = """
import pytest

pytestmark = pytest.mark.vary("wire", ["memif"])

@pytest.mark.vary("set", [pytest.param((), id="default"), ("rx_queues=2", "offloads=true")])
@pytest.mark.vary("guest", ["tso=true", pytest.param("nic=e1000", marks=pytest.mark.skip("no"))])
def test_cross(bench): pass
"""


def write(site: Site, text: str) -> None:
    path = site.path / FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


@pytest.fixture
def queues(site: Site) -> Site:
    write(site, QUEUES)
    return site


def test_a_comparison_is_of_the_variants_that_are_selected(queues: Site) -> None:
    args = ("-k", "pvp_dpdk and rx_queues:2", "--frame-sizes", "64")
    queues.run(*args).assert_outcomes(passed=1)
    (comparison,) = queues.results()["comparisons"]
    assert [variant["variant"] for variant in comparison["variants"]] == ["rx_queues=2"]
    report = (queues.path / "results/latest/report.md").read_text()
    assert "rx_queues=1" not in report
    # What is measured later in the same run stands beside it.
    queues.run("-k", "pvp_dpdk", "--frame-sizes", "64", "--resume=results/latest")
    (comparison,) = queues.results()["comparisons"]
    assert len(comparison["variants"]) == 2


@pytest.mark.slow
def test_a_variant_that_changes_nothing_is_skipped_and_says_why(site: Site) -> None:
    mark = 'pytest.mark.vary("vnf_mode", ["mac", "macswap"])'
    site.pytester.makepyfile(
        test_modes=f"import pytest\n@{mark}\ndef test_throughput_by_mode(bench, frame_size):\n"
        "    bench.search_throughput(frame_size).check_expectations()\n"
    )
    args = ("test_modes.py", "-k", "phy2phy_dpdk or pvp_dpdk", "--frame-sizes", "64")
    site.run(*args).assert_outcomes(passed=2, skipped=2)
    skipped, measured = sorted(site.results()["comparisons"], key=lambda c: str(c["scenario"]))
    for variant in skipped["variants"]:
        assert "changes nothing: phy2phy has no VNF" in variant["skipped"]
    assert [v["skipped"] for v in measured["variants"]] == ["", ""]
    # Typed by a user it may be for the other scenario.
    typed = ("test_rfc2544.py", *args[1:], "--vnf-mode", "mac")
    site.run(*typed).assert_outcomes(passed=2)


FOLDER, FILE = "testcases", "comparisons/test_multiqueue.py"
VARIANTS = ("rx_queues=1", "rx_queues=2")


def test_a_variant_stands_between_scenario_and_frame_size(queues: Site) -> None:
    assert collected(queues, FILE, "-k", "pvp_dpdk") == [
        f"test_throughput_by_queues[pvp_dpdk-{variant}-{size}]"
        for variant in VARIANTS
        for size in (64, 1518)
    ]


def test_several_marks_are_a_cross_product_in_the_order_they_are_written(site: Site) -> None:
    site.pytester.makepyfile(test_cross=CROSS)
    assert collected(site, "test_cross.py", "-k", "pvp_dpdk") == [
        "test_cross[pvp_dpdk-wire=memif,default,tso=true]",
        "test_cross[pvp_dpdk-wire=memif,default,nic=e1000]",
        "test_cross[pvp_dpdk-wire=memif,rx_queues=2,offloads=true,tso=true]",
        "test_cross[pvp_dpdk-wire=memif,rx_queues=2,offloads=true,nic=e1000]",
    ]
    result = site.run("test_cross.py", "-k", "pvp_dpdk and e1000")
    result.assert_outcomes(skipped=2)


SELECTED = {
    (): 0,
    (".",): 0,
    ("-k", "pvp_dpdk"): 0,
    ("-m", "vary"): 0,
    (f"{FOLDER}/comparisons",): 4,
    (f"{FOLDER}/{FILE}",): 4,
    (f"{FOLDER}/{FILE}::test_throughput_by_queues",): 4,
    (f"{FOLDER}/comparisons", "-k", "pvp_dpdk and multiqueue"): 4,
    (f"{FOLDER}/comparisons", "-k", "pvp_dpdk-rx_queues"): 4,
    (f"{FOLDER}/comparisons", "-k", "pvp_dpdk and rx_queues:2"): 2,
    (f"{FOLDER}/comparisons", "-k", "numa"): 0,
}


@pytest.mark.slow
@pytest.mark.parametrize(("args", "count"), SELECTED.items(), ids=str)
def test_comparisons_run_only_when_their_path_is_given(
    site: Site, args: tuple[str, ...], count: int
) -> None:
    folder = site.pytester.mkpydir(FOLDER)
    (folder / "conftest.py").write_text((ROOT / FOLDER / "conftest.py").read_text())
    (folder / "comparisons").mkdir()
    (folder / "comparisons" / "__init__.py").write_text("")
    (folder / FILE).write_text(QUEUES)
    found = [i for i in collected(site, *args) if "[pvp_dpdk-rx_queues" in i]
    assert len(found) == count


def test_each_variant_is_deployed_once_with_what_it_lays_over(queues: Site) -> None:
    queues.run(FILE, "-k", "pvp_dpdk", "--set", "rx_queues=4", "--set", "mtu=9000").assert_outcomes(
        passed=4
    )
    assert queues.calls("deploy") == {f"deploy pvp_dpdk,{variant}": 1 for variant in VARIANTS}
    log = (queues.folders[0] / "trials.jsonl").read_text().splitlines()
    scenarios = [r["scenario"] for r in map(json.loads, log) if r["type"] == "scenario"]
    assert [(s["variant"], s["options"]["rx_queues"], s["options"]["mtu"]) for s in scenarios] == [
        ("rx_queues=1", 1, 9000),
        ("rx_queues=2", 2, 9000),
    ]


def test_results_name_variants_and_the_comparison(queues: Site) -> None:
    queues.run(FILE, "-k", "pvp_dpdk", "--frame-sizes", "64").assert_outcomes(passed=2)
    content = queues.results()
    names = [f"pvp_dpdk,{variant}" for variant in VARIANTS]
    assert [r["scenario"] for r in content["results"]] == names
    (comparison,) = content["comparisons"]
    assert comparison["name"].split("::") == ["test_multiqueue", "test_throughput_by_queues"]
    assert comparison["title"] == "How much more queues carry."
    assert [(v["variant"], v["scenario"], v["typed"]) for v in comparison["variants"]] == [
        (variant, name, [f"--set {variant}"]) for variant, name in zip(VARIANTS, names, strict=True)
    ]
    folder = queues.folders[0]
    assert {p.name for p in folder.iterdir()} == {*REPORTS, "run.log", "trials.jsonl"}
    for name in ("report.html", "results.csv", "junit.xml"):
        assert names[1] in (folder / name).read_text(), name


def test_a_variant_that_cannot_be_had_is_skipped_alone(site: Site) -> None:
    text = QUEUES.replace('"rx_queues=1"', '"vlan=5"')  # no option of this vSwitch
    write(site, text)
    result = site.run(FILE, "-k", "pvp_dpdk")
    result.assert_outcomes(passed=2, skipped=2)
    assert result.ret == 0
    assert "dpdk has no option vlan" in result.stdout.str()
    (comparison,) = site.results()["comparisons"]
    assert ["no option vlan" in v["skipped"] for v in comparison["variants"]] == [True, False]


def test_a_mode_that_a_variants_vnf_has_not_is_a_skip(site: Site) -> None:
    text = QUEUES.replace('"set"', '"vnf_mode"').replace(
        '"rx_queues=1", "rx_queues=2"', '"io", "x"'
    )
    site.pytester.makepyfile(test_modes=text)
    result = site.run("test_modes.py", "-k", "pvp_dpdk", "--frame-sizes", "64")
    result.assert_outcomes(passed=1, skipped=1)
    assert "vloop has no mode 'x'" in result.stdout.str()


def test_plan_shows_each_variant(queues: Site) -> None:
    text = queues.run("--plan", FILE, "-k", "pvp_dpdk").stdout.str()
    for variant in VARIANTS:
        assert text.count(f"plan of pvp_dpdk,{variant}") == 1
        assert f"variant     --set {variant}" in text
    assert "rx_queues = 2" in text
    assert queues.calls() == {"start": 1, "inventory": 1, "close": 1}


@pytest.mark.slow
def test_a_comparison_is_resumed_with_the_case_it_was_in(queues: Site) -> None:
    queues.run(FILE, "-k", "pvp_dpdk", "--frame-sizes", "64").assert_outcomes(passed=2)
    before = queues.results()
    log = queues.folders[0] / "trials.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    kept = len(lines) * 3 // 4
    log.write_bytes(b"".join(lines[:kept]))
    queues.calls_file.unlink()
    again = ("--frame-sizes", "64", "--resume", "results/latest")
    queues.run(FILE, "-k", "pvp_dpdk", *again).assert_outcomes(passed=2)
    after = queues.results()
    goals = [[without_numbers(r["goals"]) for r in found["results"]] for found in (before, after)]
    assert goals[0] == goals[1]
    assert after["comparisons"] == before["comparisons"]
    ended = max(n for n in range(kept) if b'"type":"search-end"' in lines[n])
    anew = sum(b'"type":"trial"' in line for line in lines[ended:])
    assert queues.calls("trial").total() == anew
    assert queues.calls("deploy") == {"deploy pvp_dpdk,rx_queues=2": 1}


@pytest.mark.slow
def test_a_variant_that_means_something_else_is_not_resumed(site: Site) -> None:
    named = 'pytest.param("rx_queues={}", id="more")'
    for queues, outcome in (("2", {"passed": 2}), ("4", {"failed": 1, "passed": 1})):
        text = QUEUES.replace('"rx_queues=2"', named.format(queues))
        write(site, text)
        again = ("--resume", "results/latest") if queues == "4" else ()
        result = site.run(FILE, "-k", "pvp_dpdk", "--frame-sizes", "64", *again)
        result.assert_outcomes(**outcome)
    assert "pvp_dpdk,more now stands for other" in result.stdout.str()


@pytest.mark.slow
def test_workers_deploy_each_variant_once(queues: Site) -> None:
    result = queues.run("-n", "2", FILE, "-k", "pvp_dpdk")
    result.assert_outcomes(passed=4)
    assert queues.calls("deploy") == {f"deploy pvp_dpdk,{variant}": 1 for variant in VARIANTS}
    (comparison,) = queues.results()["comparisons"]
    assert [v["variant"] for v in comparison["variants"]] == list(VARIANTS)


WRONG = {
    'vary("rx_queues=2")': "takes the name of a setting and a list of its values",
    'vary("set", "rx_queues=2")': "'rx_queues=2' is no list",
    'vary("set", [])': "the list is empty",
    'vary("set", [1.5])': "(1.5,) is none",
    'vary("set", [()])': "'' cannot be the id of a variant",
    'vary("set", [pytest.param("mtu=1500", id="a b")])': "'a b' cannot be the id of a variant",
    'vary("set", ["mtu=1500", "mtu=1500"])': "two variants are called 'mtu=1500'",
    'vary("set", ["rx_queus=2"])': "did you mean 'rx_queues'?",
    'vary("sett", ["rx_queues=2"])': "did you mean 'set'?",
    'vary("preset", ["smoke"])': "preset belongs to the whole run and cannot be varied",
    'vary("wire", ["rj45"])': "unknown wires backend 'rj45'",
    'vary("vnf", ["nonesuch"])': "unknown vnfs backend 'nonesuch'",
}


@pytest.mark.parametrize(("mark", "message"), WRONG.items())
def test_a_wrong_mark_is_one_usage_error(site: Site, mark: str, message: str) -> None:
    text = f"import pytest\n\n@pytest.mark.{mark}\ndef test_wrong(bench): pass\n"
    site.pytester.makepyfile(test_wrong=text)
    result = site.run("test_wrong.py", "-k", "pvp_dpdk")
    output = result.stderr.str() + result.stdout.str()
    assert result.ret == 4, output
    assert output.count(message) == 1, output
    assert "Traceback" not in output
    assert "INTERNALERROR" not in output
    assert not (site.path / "results").exists()


def test_one_name_for_different_variants_is_refused(site: Site) -> None:
    case = (
        '@pytest.mark.vary("set", [pytest.param("mtu={}", id="big")])\ndef test_{}(bench): pass\n'
    )
    text = "import pytest\n\n" + case.format(4000, "one") + case.format(9000, "two")
    site.pytester.makepyfile(test_twice=text)
    result = site.run("test_twice.py", "-k", "pvp_dpdk")
    assert result.ret == 4
    assert "call different variants 'big'" in result.stderr.str() + result.stdout.str()


@pytest.mark.slow
def test_workers_tell_a_wrong_mark_in_each_case(site: Site) -> None:
    mark = 'vary("set", ["rx_queus=2"])'
    text = f"import pytest\n\n@pytest.mark.{mark}\ndef test_wrong(bench): pass\n"
    site.pytester.makepyfile(test_wrong=text)
    result = site.run("-n", "1", "test_wrong.py", "-k", "pvp_dpdk")
    output = result.stderr.str() + result.stdout.str()
    result.assert_outcomes(errors=1)
    assert WRONG[mark] in output
    assert "INTERNALERROR" not in output
    assert "Traceback" not in output


def test_wishes_of_a_comparison_hold_unless_the_user_has_others(site: Site) -> None:
    own = '@pytest.mark.vnetperf(traffic="multi-flow", frame_sizes=(128,))\n@pytest.mark.vary'
    write(site, QUEUES.replace("@pytest.mark.vary", own))
    text = site.run("--plan", FILE, "-k", "pvp_dpdk").stdout.str()
    assert text.count("traffic     multi-flow") == 2
    assert text.count("variant     --traffic multi-flow") == 2
    text = site.run("--plan", FILE, "-k", "pvp_dpdk", "--traffic", "unidirectional").stdout.str()
    assert text.count("traffic     unidirectional") == 2
    assert "--traffic" not in text
    found = collected(site, FILE, "-k", "pvp_dpdk")
    assert len(found) == 2
    assert all(i.endswith("-128]") for i in found)


def test_a_case_that_varies_nothing_has_no_settings_of_its_own(site: Site, texts: Texts) -> None:
    site.pytester.makepyfile(
        test_own="import pytest\n\n"
        '@pytest.mark.vnetperf(traffic="multi-flow")\ndef test_own(bench): pass\n'
    )
    result = site.run("test_own.py", "-k", "pvp_dpdk")
    assert result.ret == 4
    texts.check(lines_with(result.stderr.str(), "whole run"))


def shipped(site: Site, name: str, *args: str) -> tuple[pytest.RunResult, list[dict[str, Any]]]:
    """Run a shipped comparison of pvp_dpdk; the scenarios that it deployed."""
    write(site, (ROOT / FOLDER / "comparisons" / name).read_text())
    result = site.run(FILE, "-k", "pvp_dpdk", "--frame-sizes", "64", "-rs", *args)
    log = (site.folders[0] / "trials.jsonl").read_text().splitlines()
    return result, [r["scenario"] for r in map(json.loads, log) if r["type"] == "scenario"]


@pytest.mark.slow
def test_flows_are_scaled_to_a_million_in_each_direction(site: Site) -> None:
    result, deployed = shipped(site, "test_flow_scale.py")
    result.assert_outcomes(passed=7)
    assert [one["traffic"]["flows"] for one in deployed] == [10**n for n in range(7)]
    found = {r["scenario"]: r["status"] for r in site.results()["results"]}
    assert found == {f"pvp_dpdk,flows={10**n}": "measured" for n in range(7)}


@pytest.mark.slow
def test_workers_are_scaled_as_far_as_there_are_processors(site: Site) -> None:
    result, deployed = shipped(site, "test_core_scale.py", "-k", "pvp_dpdk and test_core_scale")
    counts = [(one["options"]["workers"], one["options"]["rx_queues"]) for one in deployed]
    assert counts == [(n, n) for n in (1, 2, 3, 4, 6, 8, 12, 16)[: len(counts)]]
    assert counts
    left = 8 - len(counts)
    result.assert_outcomes(passed=len(counts), skipped=left)
    if left:
        result.stdout.fnmatch_lines(["*workers*processors*"])


@pytest.mark.slow
def test_workers_are_placed_as_far_as_there_are_siblings_and_nodes(site: Site) -> None:
    result, deployed = shipped(site, "test_core_scale.py", "-k", "pvp_dpdk and test_core_placement")
    assert [one["options"]["placement"] for one in deployed][:1] == [None]
    result.assert_outcomes(passed=len(deployed), skipped=3 - len(deployed))
    for where in ("siblings", "nodes"):
        if where not in [one["options"]["placement"] for one in deployed]:
            result.stdout.fnmatch_lines([f"*placement = {where}: *"])


class Marked:
    """A function of a test file, as far as its variants are concerned."""

    def __init__(self, function: Any) -> None:
        self.nodeid, self.marks = function.__name__, list(getattr(function, "pytestmark", ()))

    def iter_markers(self, name: str) -> Iterator[pytest.Mark]:
        return (mark for mark in self.marks if mark.name == name)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next(self.iter_markers(name), None)


def test_what_one_name_calls_is_one_variant_in_all_shipped_comparisons() -> None:
    """The whole folder runs at once: a scenario's variants of different files meet there."""
    meant: dict[str, set[Variant]] = {}
    for file in sorted((ROOT / FOLDER / "comparisons").glob("test_*.py")):
        module = import_module(f"vnetperf.testcases.comparisons.{file.stem}")
        for name, function in vars(module).items():
            if name.startswith("test_"):
                for variant, _ in combine_variants(Marked(function), {}):
                    meant.setdefault(variant.id, set()).add(variant)
    assert {one for one, variants in meant.items() if len(variants) > 1} == set()
    assert len(meant) > 40
