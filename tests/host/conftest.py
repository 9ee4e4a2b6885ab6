from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from vnetperf.deployment.deploy import MACHINE_LOCK
from vnetperf.host.journal import Journal
from vnetperf.host.kernel import read_value
from vnetperf.host.locks import TestbedLock
from vnetperf.host.paths import HostRoots

#: Longest wait for a measurement, or other tests, on this machine, seconds.
TURN_S = 600.0


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
    lock = TestbedLock.acquire(HostRoots(), MACHINE_LOCK, "tests-host", timeout_s=TURN_S)
    journal = Journal.create(HostRoots(), f"tests-{secrets.token_hex(4)}")
    for path in Path("/sys/devices/system/node").glob("node*/hugepages/hugepages-1048576kB"):
        pages = str(path / "nr_hugepages")
        data = {"path": pages, "previous": read_value(Path(pages)), "zero_first": False}
        journal.intend("value", pages, data)
    yield
    journal.undo()
    lock.release()


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
