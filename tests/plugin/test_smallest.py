"""Tests that a preset runs at the smallest frame size only, and a time for each search."""

from __future__ import annotations

from tests.plugin.conftest import Site
from tests.texts import Texts, lines_with

CASES = """
import pytest

@pytest.mark.measures("reset")
def test_resets(bench, frame_size): pass

@pytest.mark.measures("latency")
def test_delays(bench, frame_size): pass
"""


def test_one_size_where_the_preset_says_so(site: Site) -> None:
    site.pytester.makepyfile(test_a=CASES)
    args = ("--preset", "quick", "--frame-sizes", "512,128", "-k", "phy2phy_dpdk and test_a")
    result = site.run("--collect-only", "-q", *args)
    ids = [line.partition("::")[2] for line in result.outlines if "::" in line]
    assert ids == [
        "test_resets[phy2phy_dpdk-128]",
        "test_delays[phy2phy_dpdk-512]",
        "test_delays[phy2phy_dpdk-128]",
    ]


def test_a_time_budget_that_is_none_says_what_is_accepted(site: Site, texts: Texts) -> None:
    result = site.run("--time-budget", "soon", "--collect-only")
    assert result.ret == 4
    texts.check(lines_with(result.stderr.str(), "'soon'"))
