"""How the kernel takes frames in: XDP's modes, and whose thread does the work.

A vSwitch that has no such mode or threads is skipped. Without threads of its own the kernel
forwards on the processor of whoever sends: the tester's. On veth a packet socket is the limit of
all of them; `python -m benchmarks.xdp` shows what XDP itself can do there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.runner.bench import Bench


@pytest.mark.vary("set", [("mode=native",), ("mode=generic",)])
def test_xdp_modes(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput of XDP programs in the driver and behind it."""
    bench.search_throughput(frame_size).check_expectations()


@pytest.mark.vary("set", [("napi=softirq",), ("napi=threaded",)])
def test_kernel_threads(bench: Bench, frame_size: int) -> None:
    """RFC 2544 throughput with the kernel's receive work on the sender's processor and apart."""
    bench.search_throughput(frame_size).check_expectations()
