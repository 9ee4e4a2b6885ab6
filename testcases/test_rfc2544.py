"""RFC 2544 benchmarks.

Which of them run, the preset says, or `--tests throughput,latency` or `--tests all`. The throughput
that a test takes its loads of is that of the same run; it is searched first where there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.runner.bench import Bench


@pytest.mark.measures("throughput")
def test_throughput(bench: Bench, frame_size: int) -> None:
    """RFC 2544 section 26.1: the highest rate at which the DUT forwards every frame."""
    throughput = bench.search_throughput(frame_size)
    throughput.check_expectations()


@pytest.mark.measures("latency")
def test_latency(bench: Bench, frame_size: int) -> None:
    """RFC 2544 section 26.2: latency at the throughput and at other loads, repeated."""
    bench.measure("latency", frame_size).check_expectations()


@pytest.mark.measures("frame_loss")
def test_frame_loss(bench: Bench, frame_size: int) -> None:
    """RFC 2544 section 26.3: the share of frames lost, from the largest load down in steps."""
    bench.measure("frame_loss", frame_size).check_expectations()


@pytest.mark.measures("back_to_back")
def test_back_to_back(bench: Bench, frame_size: int) -> None:
    """RFC 9004, for RFC 2544 section 26.4: the longest burst without loss, and the buffer."""
    bench.measure("back_to_back", frame_size).check_expectations()


@pytest.mark.measures("recovery")
def test_recovery(bench: Bench, frame_size: int) -> None:
    """RFC 2544 section 26.5: how long frames are lost after an overload has ended."""
    bench.measure("recovery", frame_size).check_expectations()


@pytest.mark.measures("reset")
def test_reset(bench: Bench, frame_size: int) -> None:
    """RFC 2544 section 26.6, RFC 6201: how long nothing comes through what is restarted."""
    bench.measure("reset", frame_size).check_expectations()
