import xml.etree.ElementTree as ET

import pytest

from vnetperf.model.outcomes import Recovery, Soak
from vnetperf.report.junit import junit_xml


def parsed(results):
    return ET.fromstring(junit_xml(results))  # noqa: S314 - our own text


@pytest.fixture
def root(results):
    return parsed(results)


def test_a_suite_per_scenario_and_a_case_per_size(root):
    suites = {s.get("name"): s for s in root}
    assert list(suites) == ["phy2phy_dpdk", "pvp_dpdk", "pvp_vpp"]
    names = [c.get("name") for c in suites["pvp_dpdk"].iter("testcase")]
    assert names[0] == "throughput[pvp_dpdk-64]"
    assert len(names) == 7


def test_counts_are_those_of_the_elements(root):
    for suite in root:
        cases = suite.findall("testcase")
        assert int(suite.get("tests")) == len(cases)
        assert int(suite.get("skipped")) == sum(c.find("skipped") is not None for c in cases)
        assert int(suite.get("errors")) == sum(c.find("error") is not None for c in cases)
    assert int(root.get("tests")) == len(list(root.iter("testcase"))) == 15


def outcome(results, **changes):
    """What stands in the case of a first result that is changed, and its suite's counts."""
    changed = results.results[0].model_copy(update=changes)
    suite = parsed(results.model_copy(update={"results": (changed,)}))[0]
    case = suite.find("testcase")
    (found,) = [e for e in case if e.tag in ("error", "failure", "skipped")]
    return found, tuple(int(suite.get(key)) for key in ("errors", "failures", "skipped"))


def test_a_case_that_broke_is_an_error_with_its_reason(root, texts):
    messages = [e.get("message", "") for e in root.iter("error")]
    texts.check(message for message in messages if "path check" in message)


def test_only_what_the_testbed_cannot_carry_is_skipped(results):
    said = {"status": "not measured", "goals": (), "why": "no wire"}
    found, counts = outcome(results, **said)
    assert (found.tag, found.get("message"), counts) == ("skipped", "no wire", (0, 0, 1))
    found, counts = outcome(results, **said, failed=True)
    assert (found.tag, counts) == ("error", (1, 0, 0))


def test_a_test_that_ran_and_has_no_number_is_skipped_with_the_reason(results):
    rates = {"throughput_fps": 1e6, "overload_fps": 1.1e6, "relaxed_fps": 5e5}
    recovery = Recovery(**rates, overload_s=60, why="no trial was overloaded")
    found, counts = outcome(results, test="recovery", goals=(), recovery=recovery)
    assert (found.tag, counts) == ("skipped", (0, 0, 1))
    assert found.get("message") == "no trial was overloaded"


@pytest.mark.parametrize("intended", [100, None])
def test_a_number_that_is_not_compared_is_one(results, intended):
    numbers = {"load_fps": 1e6, "seconds": 60, "offered": 100, "lost": 1, "goal": 0.0}
    loss = {"loss_ratio": 0.01, "loss_low": 0.0, "loss_high": 0.1}
    soak = Soak(of="throughput", **numbers, **loss, intended=intended)
    assert bool(soak.not_judged) is (intended is None)
    changed = results.results[0].model_copy(update={"test": "soak", "goals": (), "soak": soak})
    (suite,) = parsed(results.model_copy(update={"results": (changed,)}))[:1]
    assert suite.get("skipped") == "0"


def test_no_load_that_met_a_goal_is_a_failure(results, texts):
    ndr, pdr = results.results[0].goals
    found, counts = outcome(results, goals=(ndr.model_copy(update={"lower_bound_fps": None}), pdr))
    assert (found.tag, counts) == ("failure", (0, 1, 0))
    texts.check(found.get("message"))


def test_a_scenario_that_could_not_be_deployed_is_an_error(root, results):
    messages = [e.get("message") for e in root.iter("error")]
    assert {scenario.error for scenario in results.scenarios if scenario.error} <= set(messages)


def test_numbers_are_properties_and_the_qualifier_is_in_the_text(root, results, texts):
    case = next(c for c in root.iter("testcase") if c.get("name", "").endswith("phy2phy_dpdk-512]"))
    held = {p.get("name"): p.get("value") for p in case.iter("property")}
    goal = results.results[3].goals[0]
    assert float(held["ndr.lower_bound_fps"]) == goal.lower_bound_fps
    assert held["ndr.qualifier"] == "at least"
    assert held["ndr.regular"] == "false"
    texts.check(held["ndr.meaning"], "meaning")
    texts.check(case.findtext("system-out"), "output")


def test_a_suite_says_that_it_is_no_benchmark(smoke):
    root = parsed(smoke)
    held = {p.get("name"): p.get("value") for p in root[0].find("properties")}
    assert held["benchmark"] == "false"
    assert held["note"].startswith("Not a benchmark")


def test_hostile_names_leave_it_well_formed(hostile):
    root = parsed(hostile)
    assert "<img src=x" in root[0].get("name")
    assert "\x00" not in junit_xml(hostile)
