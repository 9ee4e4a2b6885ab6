from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from vnetperf.deployment.deploy import MACHINE_LOCK
from vnetperf.host import hugepages
from vnetperf.host.journal import Journal
from vnetperf.host.locks import TestbedLock
from vnetperf.host.paths import HostRoots

#: Longest wait for a measurement, or other tests, on this machine, seconds.
TURN_S = 600.0
GIB_KB = 1 << 20
#: More 1 GiB pages than any test adds.
ANY_NUMBER = 1 << 20


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() == 0:
        return
    for item in items:
        if item.get_closest_marker("real") and "tests/host" in str(item.path):
            item.add_marker(pytest.mark.skip(reason="changes the machine: needs root"))


@pytest.fixture
def hugepages_to_ourselves() -> Iterator[None]:
    """Keep parallel test workers from counting each other's pages, and measurements from both.

    The journals of these tests are in folders of their own, where no later run looks: were this
    process killed, their pages would stay. So the number there was is in the machine's journal too.
    """
    with ExitStack() as last:
        lock = TestbedLock.acquire(HostRoots(), MACHINE_LOCK, "tests-host", timeout_s=TURN_S)
        last.callback(lock.release)
        journal = Journal.create(HostRoots(), f"tests-{secrets.token_hex(4)}")
        last.callback(journal.close)
        last.callback(lambda: journal.undo().raise_if_incomplete())
        for path in Path("/sys/devices/system/node").glob(f"node*/hugepages/hugepages-{GIB_KB}kB"):
            journal.intend("hugepages", f"1 GiB pages of {path}", _pages_to_restore(path))
        yield


def _pages_to_restore(directory: Path) -> dict[str, str | int]:
    """A change that is undone to what a pool has now, however many pages a test adds."""
    node = int(directory.parents[1].name.removeprefix("node"))
    pool = hugepages.pool(node, GIB_KB)
    return {
        "directory": str(directory),
        "previous": pool.total,
        "wanted": pool.total + ANY_NUMBER,
        "surplus": pool.surplus,
    }


@pytest.fixture
def roots(tmp_path: Path) -> HostRoots:
    return HostRoots(tmp_path / "state", tmp_path / "run")


@pytest.fixture
def run_id() -> str:
    return f"t{secrets.token_hex(4)}"


@pytest.fixture
def journal(roots: HostRoots, run_id: str) -> Iterator[Journal]:
    journal = Journal.create(roots, run_id)
    yield journal
    report = journal.undo()
    assert report.complete, report
