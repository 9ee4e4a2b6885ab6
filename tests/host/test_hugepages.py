from __future__ import annotations

from pathlib import Path

import pytest

from vnetperf.host import hugepages
from vnetperf.host.journal import Journal
from vnetperf.model.errors import HostError

GIB_KB = 1048576  # others on a shared machine use 2 MiB pages


def make_pool(
    sys: Path, node: int, size_kb: int, total: int, free: int, *, surplus: int = 0
) -> Path:
    path = sys / f"devices/system/node/node{node}/hugepages/hugepages-{size_kb}kB"
    path.mkdir(parents=True)
    (path / "nr_hugepages").write_text(f"{total + surplus}\n")
    (path / "free_hugepages").write_text(f"{free}\n")
    (path / "surplus_hugepages").write_text(f"{surplus}\n")
    return path


def test_pools_of_two_nodes(tmp_path: Path) -> None:
    make_pool(tmp_path, 1, 2048, 8, 3)
    make_pool(tmp_path, 0, 2048, 4, 4, surplus=2)
    found = hugepages.pools(sys=tmp_path)
    assert [(pool.node, pool.total, pool.free, pool.surplus) for pool in found] == [
        (0, 4, 4, 2),
        (1, 8, 3, 0),
    ]


def test_nothing_is_changed_when_enough_are_free(journal: Journal, tmp_path: Path) -> None:
    path = make_pool(tmp_path, 0, 2048, 8, 6)
    reservation = hugepages.reserve(journal, 0, 2048, 6, sys=tmp_path)
    assert reservation.change is None
    assert (path / "nr_hugepages").read_text() == "8\n"


def test_a_kernel_that_gives_too_few_is_told_and_the_old_number_is_back(
    journal: Journal, tmp_path: Path
) -> None:
    path = make_pool(tmp_path, 1, 2048, 8, 6)  # "free" never grows here
    with pytest.raises(HostError, match=r"NUMA node 1: 100 free hugepages .* only 6 free"):
        hugepages.reserve(journal, 1, 2048, 100, sys=tmp_path, proc=tmp_path)
    assert (path / "nr_hugepages").read_text() == "8\n"


def test_an_unknown_size_or_node_is_told(journal: Journal, tmp_path: Path) -> None:
    make_pool(tmp_path, 0, 2048, 8, 6)
    with pytest.raises(HostError, match="accepted: node0 2048 kB"):
        hugepages.reserve(journal, 3, 2048, 1, sys=tmp_path)
    with pytest.raises(HostError, match="this kernel has no hugepages"):
        hugepages.pool(0, 2048, sys=tmp_path / "none")


@pytest.mark.parametrize(
    ("now", "after"),
    [(8, 8), (20, 8), (14, 8), (5, 5), (24, 12)],
    ids=["never made", "made", "partly", "lowered by another", "raised by another"],
)
def test_undo_takes_only_what_the_run_added(tmp_path: Path, now: int, after: int) -> None:
    path = make_pool(tmp_path, 0, 2048, now, 0)
    data = {"directory": str(path), "previous": 8, "wanted": 20, "surplus": 0}
    hugepages.undo_hugepages(data)
    assert int((path / "nr_hugepages").read_text()) == after
    if now <= 20:
        hugepages.undo_hugepages(data)
        assert int((path / "nr_hugepages").read_text()) == after


def test_pages_still_in_use_are_told(tmp_path: Path) -> None:
    path = make_pool(tmp_path, 0, 2048, 0, 0, surplus=3)
    data = {"directory": str(path), "previous": 0, "wanted": 3, "surplus": 0}
    with pytest.raises(HostError, match="3 pages above 0 are still in use"):
        hugepages.undo_hugepages(data)


@pytest.mark.real
@pytest.mark.usefixtures("hugepages_to_ourselves")
@pytest.mark.skipif(
    not any(pool.size_kb == GIB_KB for pool in hugepages.pools()), reason="no 1 GiB pages here"
)
def test_real_pages(journal: Journal) -> None:
    before = hugepages.pool(0, GIB_KB)
    reservation = hugepages.reserve(journal, 0, GIB_KB, before.free + 1)
    assert reservation.pool.free >= before.free + 1
    assert reservation.previous == before.total
    with pytest.raises(HostError, match="only"):
        hugepages.reserve(journal, 0, GIB_KB, 100_000)
    assert hugepages.pool(0, GIB_KB).total == before.total + 1
    assert journal.undo().complete
    assert hugepages.pool(0, GIB_KB) == before
