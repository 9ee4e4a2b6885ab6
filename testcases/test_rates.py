"""Loads that are chosen, not searched: MRR, loss profile, latency and processors by load, soak.

Which of them run, the preset says (`mrr`, `soak`), or `--tests mrr,latency_load`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.runner.bench import Bench


@pytest.mark.measures("mrr")
def test_mrr(bench: Bench, frame_size: int) -> None:
    """Maximum receive rate: what is forwarded at the largest load, as FD.io CSIT measures it."""
    bench.measure("mrr", frame_size).check_expectations()


@pytest.mark.measures("loss_profile")
def test_loss_profile(bench: Bench, frame_size: int) -> None:
    """Loss around the throughput: how the DUT goes from none to much."""
    bench.measure("loss_profile", frame_size).check_expectations()


@pytest.mark.measures("latency_load")
def test_latency_load(bench: Bench, frame_size: int) -> None:
    """Latency against load: the same absolute loads for every switch, whatever each carries."""
    bench.measure("latency_load", frame_size).check_expectations()


@pytest.mark.measures("cpu_load")
def test_cpu_load(bench: Bench, frame_size: int) -> None:
    """Processors against load: what tester, vSwitch, VNFs and the kernel take for each frame."""
    bench.measure("cpu_load", frame_size).check_expectations()


@pytest.mark.measures("soak")
def test_soak(bench: Bench, frame_size: int) -> None:
    """A long run at the throughput, held against a small loss ratio."""
    bench.measure("soak", frame_size).check_expectations()


@pytest.mark.measures("service")
def test_service(bench: Bench, frame_size: int) -> None:
    """ITU-T Y.1564: steps up to a committed rate with limits of loss and delay, then for long."""
    bench.measure("service", frame_size).check_expectations()
