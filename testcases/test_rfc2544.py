"""RFC 2544 benchmarks."""

from vnetperf.bench.bench import Bench


def test_throughput(bench: Bench, frame_size: int) -> None:
    """RFC 2544 section 26.1: the highest rate at which the DUT forwards every frame."""
    throughput = bench.search_throughput(frame_size)
    throughput.check_expectations()
