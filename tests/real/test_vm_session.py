"""The session with libvirt: what it keeps from one run to the next, and how it ends."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from vnetperf.host.machine import Machine
from vnetperf.host.paths import HostRoots
from vnetperf.host.session import HostRun
from vnetperf.model.testbed import MachineFacts
from vnetperf.virt.guest import LibvirtSession

pytestmark = [
    pytest.mark.daily,
    pytest.mark.skipif(
        importlib.util.find_spec("libvirt") is None, reason="libvirt-python is not installed"
    ),
]


@pytest.fixture
def roots() -> Iterator[HostRoots]:
    with tempfile.TemporaryDirectory(prefix="v") as directory:  # sockets want short paths
        yield HostRoots(Path(directory, "s"), Path(directory, "r"))


def _ask(roots: HostRoots) -> int | None:
    """Ask a new session for QEMU's version, end it, and say how it ended."""
    with HostRun.open(testbed="vm", roots=roots, timeout_s=9) as run:
        session = LibvirtSession(Machine(run, MachineFacts(cpus=())))
        session.learn(Path("/usr/bin/qemu-system-x86_64"), "tcg")
        session.close()
        return session.process.returncode


def test_qemu_is_asked_once_what_it_can_and_a_session_ends_when_told(
    roots: HostRoots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def kept() -> dict[str, tuple[int, int]]:
        found = (tmp_path / "vnetperf/vm/capabilities").glob("*/*.xml")
        return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}

    # Killed it would be -9, after all the time that it has to end by itself.
    assert _ask(roots) == 0
    first = kept()
    assert first
    assert _ask(roots) == 0
    assert kept() == first
    for name in first:
        next(tmp_path.rglob(name)).write_text("<qemuCaps>")  # the disk was full
    assert _ask(roots) == 0
    assert {path.read_text()[-12:-1] for path in tmp_path.rglob("*.xml")} == {"</qemuCaps>"}
