from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vnetperf.host import hugepages
from vnetperf.host.journal import Journal
from vnetperf.host.paths import HostRoots
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


def test_a_page_that_is_freed_between_two_looks_makes_no_pool_negative(tmp_path: Path) -> None:
    make_pool(tmp_path, 0, 2048, -1, 0, surplus=3)  # 2 in all, of which 3 were surplus
    (found,) = hugepages.pools(sys=tmp_path)
    assert (found.total, found.surplus) == (0, 3)


def test_nothing_is_changed_when_enough_are_free(journal: Journal, tmp_path: Path) -> None:
    path = make_pool(tmp_path, 0, 2048, 8, 6)
    assert hugepages.reserve(journal, 0, 2048, 6, sys=tmp_path) is None
    assert (path / "nr_hugepages").read_text() == "8\n"


@pytest.mark.parametrize(
    ("total", "free", "promised", "needed", "wanted"),
    [(8, 6, 4, 2, 8), (8, 6, 4, 3, 9), (8, 6, 6, 6, 14), (8, 0, 0, 2, 10), (8, 3, 90, 5, 13)],
    ids=["enough", "one is missing", "all promised", "none", "most promised by other nodes"],
)
def test_pages_that_somebody_has_mapped_and_not_touched_are_not_free(
    journal: Journal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    total: int,
    free: int,
    promised: int,
    needed: int,
    wanted: int,
) -> None:
    path = make_pool(tmp_path, 0, 2048, total, free)
    promises = tmp_path / "kernel/mm/hugepages/hugepages-2048kB/resv_hugepages"
    promises.parent.mkdir(parents=True)
    promises.write_text(f"{promised}\n")
    assert hugepages.pool(0, 2048, sys=tmp_path).free == max(0, free - promised)

    def as_the_kernel(directory: Path, pages: int) -> None:
        (directory / "nr_hugepages").write_text(f"{pages}\n")
        (directory / "free_hugepages").write_text(f"{free + pages - total}\n")

    monkeypatch.setattr(hugepages, "write_total", as_the_kernel)
    hugepages.reserve(journal, 0, 2048, needed, sys=tmp_path, proc=tmp_path)
    assert int((path / "nr_hugepages").read_text()) == wanted
    assert journal.undo().complete
    assert int((path / "nr_hugepages").read_text()) == total


def test_a_kernel_that_gives_too_few_is_told_and_the_old_number_is_back(
    journal: Journal, tmp_path: Path
) -> None:
    path = make_pool(tmp_path, 1, 2048, 8, 6)  # "free" never grows here
    with pytest.raises(HostError, match=r"NUMA node 1: 100 free hugepages .* only 6 free"):
        hugepages.reserve(journal, 1, 2048, 100, sys=tmp_path, proc=tmp_path)
    assert (path / "nr_hugepages").read_text() == "8\n"


def test_a_pool_that_the_kernel_fills_partly_is_tried_again(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its memory is in pieces, which are moved together before it is asked once more."""
    path = make_pool(tmp_path, 0, 2048, 0, 0)
    compact = tmp_path / "sys/vm/compact_memory"
    compact.parent.mkdir(parents=True)
    fills = iter([60, 90, 128])

    def as_the_kernel(directory: Path, pages: int) -> None:
        given = min(pages, next(fills, pages))
        (directory / "nr_hugepages").write_text(f"{given}\n")
        (directory / "free_hugepages").write_text(f"{given}\n")

    monkeypatch.setattr(hugepages, "write_total", as_the_kernel)
    assert hugepages.reserve(journal, 0, 2048, 128, sys=tmp_path, proc=tmp_path)
    assert (path / "nr_hugepages").read_text() == "128\n"
    assert compact.read_text() == "1\n"


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


def test_surplus_pages_of_strangers_block_no_restore(tmp_path: Path) -> None:
    """A database takes 5 overcommitted pages while a run has 512."""
    path = make_pool(tmp_path, 0, 2048, 512, 512, surplus=5)
    data = {"directory": str(path), "previous": 0, "wanted": 512, "surplus": 0}

    def as_the_kernel(directory: Path, pages: int) -> None:
        (directory / "nr_hugepages").write_text(f"{pages + 5}\n")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hugepages, "write_total", as_the_kernel)
        assert hugepages.undo_hugepages(data) == "512 -> 0"
        assert hugepages.undo_hugepages(data) == "already 0"


def test_pages_that_others_took_from_the_pool_are_told(tmp_path: Path) -> None:
    path = make_pool(tmp_path, 0, 2048, 10, 7)
    data = {"directory": str(path), "previous": 0, "wanted": 10, "surplus": 0}

    def as_the_kernel(directory: Path, pages: int) -> None:
        (directory / "nr_hugepages").write_text(f"{pages + 3}\n")
        (directory / "surplus_hugepages").write_text("3\n")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hugepages, "write_total", as_the_kernel)
        outcome = hugepages.undo_hugepages(data)
    assert outcome.startswith("10 -> 0; others ")
    assert "3 of them" in outcome


def test_a_kernel_that_keeps_pages_is_told(tmp_path: Path) -> None:
    path = make_pool(tmp_path, 0, 2048, 10, 7)
    data = {"directory": str(path), "previous": 0, "wanted": 10, "surplus": 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hugepages, "write_total", lambda *_: None)
        with pytest.raises(HostError, match="10 pages above 0 are still there"):
            hugepages.undo_hugepages(data)


class Killed(BaseException):
    """The process ends here, and nothing of it runs any more."""


class Machine:
    """A pool that somebody has given two pages, the way the kernel keeps it, and runs on it."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.roots = HostRoots(base / "state", base / "run")
        self.sys = base / "sys"
        self.path = make_pool(self.sys, 0, 2048, 2, 2)
        self.dying = ""
        monkeypatch.setattr(hugepages, "write_total", self.write)

    def write(self, directory: Path, pages: int) -> None:
        if self.dying == "before":
            raise Killed
        for name in ("nr_hugepages", "free_hugepages"):
            (directory / name).write_text(f"{pages}\n")
        if self.dying == "after":
            raise Killed

    @property
    def pages(self) -> int:
        return int((self.path / "nr_hugepages").read_text())

    def run(self, pages: int, *, dying: str = "", host: str = "") -> Journal:
        """A run that adds pages, and may be killed before or after the kernel has them."""
        roots = self.roots.host_roots(host) if host else self.roots
        journal = Journal.create(roots, f"t{secrets.token_hex(4)}")
        self.dying = dying
        with contextlib.suppress(Killed), pytest.MonkeyPatch.context() as patch:
            if dying:  # the dead undo nothing
                patch.setattr(Journal, "undo_change", lambda *_: "")
            # Refused, it would compact the memory of the machine itself.
            hugepages.reserve(
                journal, 0, 2048, self.pages + pages, sys=self.sys, proc=self.roots.state.parent
            )
        self.dying = ""
        return journal

    def end(self, journal: Journal, *, dying: str = "") -> None:
        """A run's end; killed on the way, the guardian ends it once more."""
        self.dying = dying
        with contextlib.suppress(Killed):
            journal.undo()
        self.dying = ""
        if dying:
            path = journal.path
            journal.close()
            if path.exists():
                with Journal.open(path) as again:
                    assert again.undo().complete


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.mark.parametrize("first", [0, 1], ids=["A+ B+ A- B-", "A+ B+ B- A-"])
def test_runs_that_overlap_leave_what_was_there(machine: Machine, first: int) -> None:
    runs = [machine.run(10), machine.run(5)]
    assert machine.pages == 17
    machine.end(runs[first])
    assert machine.pages == (7, 12)[first], "the other still has its pages"
    machine.end(runs[1 - first])
    assert machine.pages == 2


@pytest.mark.parametrize("hosts", [("east", "west"), ("", "east"), ("east", "")])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("dying", ["", "before", "after"])
def test_hosts_within_a_machine_have_one_pool(
    machine: Machine, hosts: tuple[str, str], first: int, dying: str
) -> None:
    runs = [machine.run(pages, host=host) for host, pages in zip(hosts, (10, 5), strict=True)]
    assert machine.pages == 17
    machine.end(runs[first], dying=dying)
    assert machine.pages == (7, 12)[first]
    machine.end(runs[1 - first])
    assert machine.pages == 2


def test_a_pool_is_held_until_its_change_is_marked(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = machine.run(10)
    append = Journal.append

    def look(journal: Journal, record: dict[str, object]) -> None:
        if record["t"] == "undone":  # another run that would undo its own now has to wait
            monkeypatch.setattr(hugepages, "POOL_LOCK_S", 0.0)
            with pytest.raises(HostError, match="changing this pool"):
                hugepages.pool_lock(machine.path).__enter__()
        append(journal, record)

    monkeypatch.setattr(Journal, "append", look)
    machine.end(run)
    assert machine.pages == 2


@pytest.mark.parametrize("dying", ["before", "after"])
def test_an_undo_that_is_killed_and_repeated_takes_nothing_of_others(
    machine: Machine, dying: str
) -> None:
    one, other = machine.run(10), machine.run(10)
    machine.end(other, dying=dying)
    assert machine.pages == 12
    machine.end(one)
    assert machine.pages == 2


def test_pages_that_were_announced_and_never_made_are_not_taken(machine: Machine) -> None:
    one, dead = machine.run(10), machine.run(5, dying="before")
    assert machine.pages == 12
    machine.end(dead)
    assert machine.pages == 12
    machine.end(one)
    assert machine.pages == 2


def test_a_run_that_the_kernel_refuses_takes_nothing_of_others(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = machine.run(10)
    write: Callable[[Path, int], None] = machine.write
    monkeypatch.setattr(hugepages, "write_total", lambda path, pages: write(path, min(pages, 15)))
    with pytest.raises(HostError, match="could make only 15 free"):
        machine.run(10)
    assert machine.pages == 12
    machine.end(one)
    assert machine.pages == 2


def test_pages_that_an_administrator_adds_meanwhile_stay(machine: Machine) -> None:
    one = machine.run(10)
    machine.write(machine.path, machine.pages + 30)
    other = machine.run(10)
    machine.end(one)
    assert machine.pages == 42
    machine.end(other)
    assert machine.pages == 32


DEATHS = st.sampled_from(["", "", "before", "after"])
Step = tuple[bool, int, int, str]
STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(1, 9), DEATHS))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_any_order_of_runs_leaves_what_was_there(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, steps: list[Step]
) -> None:
    machine = Machine(tmp_path_factory.mktemp("machine"), monkeypatch)
    runs: list[tuple[Journal, int]] = []
    for begins, which, pages, dying in steps:
        if begins or not runs:
            # One that was killed before the kernel had its pages is a test of its own above.
            runs.append((machine.run(pages, dying=dying.replace("before", "")), pages))
        else:
            machine.end(runs.pop(which % len(runs))[0], dying=dying)
        assert machine.pages == 2 + sum(pages for _, pages in runs)
    for journal, _ in runs:
        machine.end(journal)
    assert machine.pages == 2


@pytest.mark.real
@pytest.mark.usefixtures("hugepages_to_ourselves")
@pytest.mark.skipif(
    not any(pool.size_kb == GIB_KB for pool in hugepages.pools()), reason="no 1 GiB pages here"
)
def test_real_pages(journal: Journal) -> None:
    before = hugepages.pool(0, GIB_KB)
    assert hugepages.reserve(journal, 0, GIB_KB, before.free + 1) is not None
    assert hugepages.pool(0, GIB_KB).free >= before.free + 1
    with pytest.raises(HostError, match="only"):
        hugepages.reserve(journal, 0, GIB_KB, 100_000)
    assert hugepages.pool(0, GIB_KB).total == before.total + 1
    assert journal.undo().complete
    assert hugepages.pool(0, GIB_KB) == before
