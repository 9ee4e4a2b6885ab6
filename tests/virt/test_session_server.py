"""The process that holds the connection to libvirt."""

from __future__ import annotations

import os
import threading

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
