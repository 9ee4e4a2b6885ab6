"""The engine's pure parts, tested in C; their histogram against another implementation."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "suite",
    [
        "seqtrack",
        "hdr",
        "gaps",
        "echo",
        "worker_phase",
        "pacing",
        "fields",
        "params",
        "args",
        "stream",
        "bindings",
        "neighbour",
        "capture",
        "nicclock",
        "fuzz",
        "steps",
        "thread",
        "tscoffset",
        "turns",
        "wallclock",
        "timeline",
    ],
)
def test_suite_finds_no_fault(unit_tests: Path, suite: str) -> None:
    run = subprocess.run(
        [unit_tests, suite], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert " 0 failures" in run.stderr


def test_an_unknown_suite_is_not_a_success(unit_tests: Path) -> None:
    assert subprocess.run([unit_tests, "nosuch"], capture_output=True, check=False).returncode == 2


def test_histogram_buckets_are_those_of_hdrhistogram(unit_tests: Path) -> None:
    run = subprocess.run([unit_tests, "hdr-layout"], capture_output=True, text=True, check=True)
    reference = HdrHistogram(1, 10_000_000_000, 3)
    lines = run.stdout.splitlines()
    assert len(lines) > 5000
    for line in lines:
        value, index, lowest = map(int, line.split())
        assert reference.get_lowest_equivalent_value(value) == lowest
        assert reference.get_value_from_index(index) == lowest
    assert reference.counts_len == 25600
