"""The process that holds the connection to libvirt."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from pathlib import Path

import pytest

from vnetperf.model.errors import HostError
from vnetperf.virt import session_server


def test_threads_that_libvirt_starts_may_be_anywhere_afterwards() -> None:
    every = os.sched_getaffinity(0)
    started, end = threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        end.wait(20)

    worker = threading.Thread(target=wait)
    with session_server._on_one_processor():
        worker.start()
        assert started.wait(20)
        assert worker.native_id is not None
        assert os.sched_getaffinity(worker.native_id) == {min(every)}
    try:
        assert os.sched_getaffinity(worker.native_id) == every
        assert os.sched_getaffinity(0) == every
    finally:
        end.set()
        worker.join()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (subprocess.CalledProcessError(32, ["mount"], stderr=b"mount: denied\n"), "mount: denied"),
        (subprocess.TimeoutExpired(["mount"], 10), "timed out"),
        (FileNotFoundError(errno.ENOENT, "no mount"), "no mount"),
    ],
)
def test_a_mount_that_fails_is_an_error_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, error: Exception, text: str
) -> None:
    """What may be left out was not: nothing caught what came."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(HostError, match=text):
        session_server._mount("--bind", "/a", "/a")


def test_a_kernel_that_cannot_confine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(session_server, "raw_syscall", fail)
    with pytest.raises(HostError, match=r"no mount_setattr.*Linux 5\.12"):
        session_server._set_read_only(Path("/"), True)

    def old(uri: str, directory: Path) -> None:
        session_server._set_read_only(directory, True)

    monkeypatch.setattr(session_server, "Libvirt", old)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(session_server, "_end_with_input", lambda: None)
    with pytest.raises(SystemExit, match=r"Linux 5\.12"):
        session_server.main("socket", "uri", "/")
