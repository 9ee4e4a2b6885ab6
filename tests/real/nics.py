"""NICs that real tests may take: those of the virtual lab."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vnetperf.host import snapshot
from vnetperf.host.nic import pci
from vnetperf.host.paths import HostRoots

LAB = "vnetperf.virt=1"
AREAS = ("hugepages", "mounts", "links", "netns", "modules", "drivers", "values")


def why_no_lab_nics() -> str:
    """Why NICs cannot be taken here.

    Returns:
        "" in the lab.
    """
    if os.geteuid() != 0:
        return "needs root"
    if LAB not in Path("/proc/cmdline").read_text().split():
        return "needs NICs that nobody uses: run it with `vnetperf lab run -- pytest tests/real`"
    if sum(nic.max_vfs > 0 for nic in pci.nics()) < 4:
        return "the lab has no four NICs with SR-IOV"
    return ""


needs_nics = pytest.mark.skipif(bool(why_no_lab_nics()), reason=why_no_lab_nics())


def machine() -> snapshot.Snapshot:
    """The machine without the indexes of links: a driver that is bound anew makes a new one."""
    taken = snapshot.take_snapshot(HostRoots(), AREAS)
    areas = {name: dict(entries) for name, entries in taken.areas.items()}
    areas["links"] = {
        name: re.sub(r"index \d+ ", "", text) for name, text in areas["links"].items()
    }
    return snapshot.Snapshot(areas)


@pytest.fixture
def nics_unchanged() -> Iterator[Callable[[], tuple[str, ...]]]:
    """Compare the machine with what it was; checked once more when the test ends."""
    before = machine()

    def differences(patience_s: float = 60.0) -> tuple[str, ...]:
        deadline = time.monotonic() + patience_s
        while (
            found := snapshot.compare_snapshots(before, machine())
        ) and time.monotonic() < deadline:
            time.sleep(0.2)
        return found

    yield differences
    assert differences() == ()
