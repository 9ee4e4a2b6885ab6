"""Hugepages per NUMA node: read, reserve for a run, give back what no other run claims."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, MutableSequence
from dataclasses import dataclass
from pathlib import Path

from vnetperf.host import locks
from vnetperf.host.facts import file_number
from vnetperf.host.journal import Change, Journal, UndoData, pending_changes, read_journal
from vnetperf.host.linux import PROC, boot_id, close_after, numbered_entries, parse_number
from vnetperf.host.paths import HostRoots, list_files
from vnetperf.model.errors import HostError

#: Longest wait for another process that is changing the same pool, seconds.
POOL_LOCK_S = 30.0


def make_claim(journal: Journal, directory: Path, total: int) -> dict[str, str | int]:
    """What undoing requires to separate a run's pages from those of others; the pool is locked."""
    machine = journal.roots.machine or journal.roots
    others = _all_claims(machine.journals, directory)
    floor = total - sum(map(pages_claimed, others))
    # One that was announced and never made must not push it below what there was at first.
    least = min((int(other["floor"]) for other in others), default=floor)
    return {
        "journals": str(machine.journals),
        "claim": secrets.token_hex(8),
        "floor": max(floor, least),
    }


def pages_claimed(data: UndoData) -> int:
    """Pages that a change adds."""
    return int(data["wanted"]) - int(data["previous"])


def lowest_total(data: UndoData, directory: Path) -> int:
    """Pages that must stay when a change is undone: nobody's, and those that others claim."""
    if "claim" not in data:  # back to what the pool had, whoever added pages
        return int(data["previous"])
    others = [
        o for o in _all_claims(Path(data["journals"]), directory) if o["claim"] != data["claim"]
    ]
    return int(data["floor"]) + sum(map(pages_claimed, others))


def _all_claims(journals: Path, directory: Path) -> list[UndoData]:
    """Changes of a pool, by any run since the machine was booted, that are not undone.

    Of the machine and of every host within it: the pool is one, whoever keeps the journal.
    """
    claims: list[UndoData] = []
    roots = HostRoots(state=journals.parent).on_machine
    for path in (path for root in roots for path in list_files(root.journals, "*.jsonl")):
        with contextlib.suppress(OSError):  # that run has just ended
            for record in pending_changes(read_journal(path).records):
                data = record["data"]
                is_claim = record["kind"] == "hugepages" and record["boot"] == boot_id()
                if is_claim and data["directory"] == str(directory) and "claim" in data:
                    claims.append(data)
    return claims


@contextlib.contextmanager
def pool_lock(directory: Path) -> Iterator[None]:
    """Hold a pool against other processes that would read and write it at the same time."""
    with HostError.explain_os_error(
        "cannot be opened",
        where=str(directory),
        cure="check that this kernel still has these pages, and run as root",
    ):
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with close_after(fd):
        locks.lock_file(
            fd,
            POOL_LOCK_S,
            lambda: HostError(
                f"another process has been changing this pool for {POOL_LOCK_S:.0f} s",
                where=str(directory),
                cure="wait for it, or find and end it",
            ),
        )
        yield


def hold_pool(data: UndoData) -> contextlib.AbstractContextManager[None]:
    """Hold the pool of a change that is undone: until it is marked, others count its pages."""
    return pool_lock(Path(data["directory"]))


SYS = Path("/sys")
RESERVE_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class HugepagePool:
    """The hugepages of one size on one NUMA node, in pages.

    Attributes:
        total: Pages in the pool, without surplus: what writing ``nr_hugepages`` sets.
        free: Pages that nobody has, and nobody was promised.
        promised: Pages that may be taken at any time by who has mapped them and not yet touched
            them. The kernel counts these of all nodes together: any of them may have to give them.
        surplus: Pages beyond the pool that their users have not freed yet.
    """

    node: int
    size_kb: int
    total: int
    free: int
    promised: int
    surplus: int


def pools(
    *, sys: Path = SYS, troubles: MutableSequence[str] | None = None
) -> tuple[HugepagePool, ...]:
    """All pools of this machine, by node and size; empty without hugepage support.

    One that cannot be read is left out, and `troubles` gets the reason.
    """
    readable_pools = []
    for node, directory in _pool_directories(sys):
        for entry in directory.glob("hugepages-*kB"):
            size_kb = parse_number(entry.name.removeprefix("hugepages-").removesuffix("kB"))
            try:
                if size_kb is not None:
                    readable_pools.append(_read_pool(entry, node, size_kb, sys))
            except HostError as error:
                if troubles is not None:
                    troubles.append(f"{error.where}: {error.what}")
    return tuple(sorted(readable_pools, key=lambda pool: (pool.node, pool.size_kb)))


def pool(node: int, size_kb: int, *, sys: Path = SYS) -> HugepagePool:
    """One pool."""
    return _read_pool(_pool_directory(node, size_kb, sys), node, size_kb, sys)


def reserve(
    journal: Journal,
    node: int,
    size_kb: int,
    free_pages_needed: int,
    *,
    sys: Path = SYS,
    proc: Path = PROC,
) -> Change | None:
    """Make so many pages free on a node, adding only what is missing; None when nothing is."""
    directory = _pool_directory(node, size_kb, sys)
    with contextlib.ExitStack() as turn:
        turn.enter_context(pool_lock(directory))
        before = _read_pool(directory, node, size_kb, sys)
        missing = free_pages_needed - before.free
        if missing <= 0:
            return None
        total = before.total + missing
        data = {
            "directory": str(directory),
            "previous": before.total,
            "wanted": total,
            "surplus": before.surplus,
            **make_claim(journal, directory, before.total),
        }
        description = f"node{node} hugepages of {size_kb} kB: {before.total} -> {total}"
        # The turn ends before what failed is undone, which takes a turn of its own.
        with journal.changing("hugepages", description, data) as change, turn:
            for attempt in range(RESERVE_ATTEMPTS):
                if attempt:
                    # Memory is there but in pieces: moving pages together changes nothing lasting.
                    with contextlib.suppress(OSError):
                        (proc / "sys/vm/compact_memory").write_text("1\n")
                write_total(directory, total)
                after = _read_pool(directory, node, size_kb, sys)
                # Promises that other nodes have to keep are not kept by pages made here.
                free = after.free + after.promised - before.promised
                if free >= free_pages_needed:
                    return change
            raise HostError(
                f"{free_pages_needed} free hugepages of {size_kb} kB are needed and the kernel "
                f"could make only {free} free (of {after.total} in all)",
                where=f"NUMA node {node}",
                accepted=f"{free_pages_needed * size_kb // 1024} MiB in contiguous pieces",
                cure="end programs that use memory, request less memory, or reserve the pages at "
                "boot (hugepages= on the kernel's command line)",
            )


def undo_hugepages(data: UndoData) -> str:
    """Take away the pages that a run added, and none that others added or had before.

    The pool is held by the caller (`hold_pool`).

    What other journals still claim stays, so a second undo finds nothing to take, and neither does
    that of a change that was announced and never made. When somebody without a journal raised the
    pool during the run, only as many go as the run added. Surplus pages block nothing: they are not
    the pool's, the kernel frees each with its last user, and the run's own processes have ended.
    """
    directory = Path(data["directory"])
    lowest = lowest_total(data, directory)
    surplus = _read_number(directory / "surplus_hugepages")
    now = _persistent(directory)
    target = min(now, max(lowest, now - pages_claimed(data)))
    if now > target:
        write_total(directory, target)
    after = _persistent(directory)
    # What somebody uses of the pages that are taken away becomes surplus.
    in_use = _read_number(directory / "surplus_hugepages") - surplus
    if after > target:
        raise HostError(
            f"{after - target} pages above {target} are still there",
            where=str(directory),
            cure="see dmesg, then run `vnetperf restore`",
        )
    if now == target:
        return f"already {now}"
    note = f" (not {lowest}: somebody else raised it too)" if target > lowest else ""
    if in_use > 0:
        note += f"; others still use {in_use} of them, which go with their users"
    return f"{now} -> {target}{note}"


def _pool_directories(sys: Path) -> list[tuple[int, Path]]:
    folders = numbered_entries(sys / "devices/system/node", "node")
    nodes = [(node, path / "hugepages") for node, path in folders.items()]
    # A kernel without NUMA has one pool a size and no node directories.
    return nodes or [(0, sys / "kernel/mm/hugepages")]


def _pool_directory(node: int, size_kb: int, sys: Path) -> Path:
    directories = dict(_pool_directories(sys))
    directory = directories.get(node, sys / "nonexistent") / f"hugepages-{size_kb}kB"
    if directory.is_dir():
        return directory
    available = [f"node{pool.node} {pool.size_kb} kB" for pool in pools(sys=sys)]
    raise HostError(
        f"there are no hugepages of {size_kb} kB on NUMA node {node}",
        where=str(sys / "devices/system/node"),
        accepted=", ".join(available) or "none: this kernel has no hugepages",
        cure="choose one of these in the testbed's configuration",
    )


def _read_pool(directory: Path, node: int, size_kb: int, sys: Path) -> HugepagePool:
    unused = _read_number(directory / "free_hugepages")
    promises = sys / "kernel/mm/hugepages" / directory.name / "resv_hugepages"
    promised = min(unused, _read_number(promises)) if promises.exists() else 0
    return HugepagePool(
        node=node,
        size_kb=size_kb,
        total=_persistent(directory),
        free=unused - promised,
        promised=promised,
        surplus=_read_number(directory / "surplus_hugepages"),
    )


def _persistent(directory: Path) -> int:
    """Pages without surplus: reading nr_hugepages counts surplus pages, writing it does not."""
    total, surplus = (
        _read_number(directory / name) for name in ("nr_hugepages", "surplus_hugepages")
    )
    return max(0, total - surplus)  # a page may be freed between the two looks


def _read_number(path: Path) -> int:
    number = file_number(path)
    if isinstance(number, int) and number >= 0:
        return number
    raise HostError(
        f"is no number of pages: {number}",
        where=str(path),
        accepted="a number that is not negative",
        cure="check that this kernel still has these pages, and run as root",
    )


def write_total(directory: Path, pages: int) -> None:
    """Set how many pages a pool is to have; the kernel may make fewer.

    Raises:
        HostError: The kernel refuses the number.
    """
    path = directory / "nr_hugepages"
    with HostError.explain_os_error(
        f"the kernel refused {pages}", where=str(path), cure="run as root"
    ):
        path.write_text(f"{pages}\n")
