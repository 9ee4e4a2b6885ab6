"""How guests' processors and memory scale: over threads, guests, pages under them, and distance.

`pytest testcases/comparisons/test_guest_scale.py -k pvpv_bridge --vnf vloop:vm`: the section "Speed
of guests" has each beside the host's. Guests get a virtual processor for each thread by `--guest
vcpus=4`; pinning is `--guest vcpu_pins` and `--vnf-placement`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.model.transfer import Kind
    from vnetperf.runner.bench import Bench

_KINDS = pytest.mark.parametrize("kind", ["GUEST_CPU", "GUEST_READ", "GUEST_RANDOM_READ"])
_MEMORY = pytest.mark.parametrize("kind", ["GUEST_READ", "GUEST_WRITE", "GUEST_RANDOM_READ"])


def measure(bench: Bench, kind: Kind) -> None:
    """Measure one kind, or skip it with what is missing, as the plan tells it."""
    bench.run_workload(kind).check_expectations()


@pytest.mark.deployments("pvp")
@pytest.mark.vary("instances", [1, 2, 4])
@_KINDS
def test_guest_speed_by_threads(bench: Bench, kind: Kind) -> None:
    """Speed of a guest by the number of threads in it."""
    measure(bench, kind)


@pytest.mark.deployments("pvvp", "pvpv")
@pytest.mark.vary("vnfs", [1, 2, 3, 4])
@_KINDS
def test_guest_speed_by_vnfs(bench: Bench, kind: Kind) -> None:
    """Speed of as many guests at once."""
    measure(bench, kind)


@pytest.mark.deployments("pvp")
@pytest.mark.vary("vnf", [pytest.param("vloop:vm", id="vm")])
@pytest.mark.vary(
    "guest",
    [
        # 1 GiB each, so that a page of any size fits it.
        pytest.param(("hugepage_kb=0", "memory_mib=1024"), id="pages=4K"),
        pytest.param(("hugepage_kb=2048", "memory_mib=1024"), id="pages=2M"),
        pytest.param(("hugepage_kb=1048576", "memory_mib=1024"), id="pages=1G"),
    ],
)
@_MEMORY
def test_guest_speed_by_pages(bench: Bench, kind: Kind) -> None:
    """Memory of a guest by the size of the pages under it."""
    measure(bench, kind)


@pytest.mark.deployments("pvp")
@pytest.mark.vary("vnf_placement", ["local", "remote", "unpinned"])
@_KINDS
def test_guest_speed_by_placement(bench: Bench, kind: Kind) -> None:
    """Speed of a guest by where it is, seen from the pollers: on their NUMA node or not, pinned."""
    measure(bench, kind)
