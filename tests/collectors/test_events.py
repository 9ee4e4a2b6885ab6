"""Counting events of the processor by thread: proved with one that every kernel counts."""

from __future__ import annotations

import errno
import gc
import mmap
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from vnetperf.collectors.events import EventCollector
from vnetperf.deployment.trial import CollectorSession
from vnetperf.host import threads
from vnetperf.host.machine_load import MachineSampler
from vnetperf.host.threads import PerfCount, PerfEvent
from vnetperf.model.errors import HostError
from vnetperf.model.machine_load import ThreadEvents
from vnetperf.model.scenario import Pollers
from vnetperf.plugin import registry

PERF_SOFTWARE, PAGE_FAULTS, PAGES = 1, 2, 500


class FaultCollector(EventCollector):
    """The same, of an event that needs no counter of the processor."""

    events: ClassVar[tuple[PerfEvent, ...]] = (
        PerfEvent("page faults", PERF_SOFTWARE, PAGE_FAULTS),
    )


class TlbEvents(EventCollector):
    """Two events."""

    events = EventCollector.events[-2:]


def _allowed() -> bool:
    try:
        os.close(threads.open_counter(FaultCollector.events[0], threading.get_native_id()))
    except HostError:
        return False
    return True


def me(prefix: str) -> tuple[Pollers, ...]:
    return (Pollers(role="pmd", pid=os.getpid(), thread_prefix=prefix),)


@contextmanager
def toucher() -> Iterator[tuple[threading.Event, threading.Event]]:
    """A thread that touches new pages once it is told, tells it, and is done when this ends."""
    go, ready, touched, end = (threading.Event() for _ in range(4))

    def touch() -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text("pmd-c01")
        ready.set()
        go.wait(20)
        with mmap.mmap(-1, PAGES * mmap.PAGESIZE) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            for page in range(PAGES):
                memory[page * mmap.PAGESIZE] = 1
        touched.set()
        end.wait(20)

    thread = threading.Thread(target=touch)
    thread.start()
    assert ready.wait(20)
    try:
        yield go, touched
    finally:
        go.set()
        end.set()
        thread.join()


def open_files() -> int:
    gc.collect()  # what other tests have left open may go at any time
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not _allowed(), reason="the kernel lets this process count nothing")
def test_events_of_a_busy_thread_are_counted_and_no_others() -> None:
    fds = open_files()
    with toucher() as (go, touched):
        collector = FaultCollector(me("pmd-"))
        collector.start()
        go.set()
        assert touched.wait(20)
        (told,) = collector.stop()
    assert (told.role, told.thread) == ("pmd", "pmd-c01")
    assert PAGES * 0.8 <= told.counts["page faults"] <= PAGES * 2
    assert collector.reason == ""
    assert open_files() == fds


def test_a_thread_that_is_not_busy_is_not_counted() -> None:
    collector = FaultCollector(me("no such thread"))
    collector.start()
    assert collector.stop() == ()


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOENT, "neither this processor nor a hypervisor under this machine counts them"),
        (errno.EACCES, "root and CAP_PERFMON are needed"),
        (errno.ENOSYS, "CONFIG_PERF_EVENTS"),
        (errno.EMFILE, "Too many open files"),
    ],
)
def test_what_cannot_be_counted_says_why_once(
    number: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(threads, "raw_syscall", refuse)
    collector = EventCollector(me(""))
    collector.start()
    assert collector.stop() == ()
    assert collector.reason.startswith("not measured: ")
    assert says in collector.reason
    collecting = CollectorSession(me(""))
    collecting.start()
    told = collecting.stop()
    assert told["events"] == ()
    assert told["uncollected"]["events"] == collector.reason
    assert 0 < told["watched_cpu_s"] < 5
    assert told["collected_s"] > 0
    assert told["threads"]  # processor time is told all the same


def test_samples_of_the_end_of_sending_are_not_taken_again_after_the_wait() -> None:
    collecting = CollectorSession(me(""))
    collecting.start()
    sampled = collecting.sample()
    time.sleep(0.02)
    told = collecting.stop()
    assert {name: told[name] for name in sampled} == sampled
    assert told["stacks"] == {}


def test_what_has_to_be_asked_is_asked_when_all_others_have_sampled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collecting, order = CollectorSession(me("")), list[str]()
    classes = [registry.load("collectors", name) for name in registry.names("collectors")]
    for cls, stop in [(cls, cls.stop) for cls in (*classes, MachineSampler)]:
        name = getattr(cls, "name", "machine")
        monkeypatch.setattr(cls, "stop", lambda c, n=name, s=stop: (order.append(n), s(c))[1])
    collecting.start()
    collecting.stop()
    assert sorted(order) == ["cpu", "energy", "events", "machine"]
    assert order[-2:] == ["machine", "energy"]


def test_a_counter_that_counts_no_loop_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "open_counter", lambda *_: os.open("/dev/null", os.O_RDONLY))
    monkeypatch.setattr(threads, "read_counter", lambda _: PerfCount(0, 10, 10))
    fds = open_files()
    collector = EventCollector(me(""))
    collector.start()
    assert collector.stop() == ()
    assert "counted nothing" in collector.reason
    assert open_files() == fds


def test_an_event_that_is_not_counted_takes_no_other_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(event: PerfEvent, _: int) -> int:
        if event.name.startswith("iTLB"):
            raise HostError("this processor has none")
        return os.open("/dev/null", os.O_RDONLY)

    states = iter([PerfCount(5, 10, 10), PerfCount(9, 30, 30)])
    monkeypatch.setattr(threads, "open_counter", refuse)
    monkeypatch.setattr(threads, "read_counter", lambda _: next(states))
    with toucher():
        collector = TlbEvents(me("pmd-"))
        collector.start()
        (told,) = collector.stop()
    assert told.counts == {"dTLB load misses": 4}
    for words in ("iTLB load misses: ", "this processor has none"):
        assert words in collector.reason


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        (PerfCount(100, 10, 10), PerfCount(160, 40, 40), 60),
        (
            PerfCount(100, 10, 10),
            PerfCount(160, 70, 40),
            120,
        ),  # half of the time somebody else counted
        (PerfCount(100, 10, 10), PerfCount(100, 40, 10), None),  # all of the time
        (PerfCount(100, 10, 10), PerfCount(100, 10, 10), 0),  # the thread did not run
    ],
)
def test_a_shared_counter_is_scaled_up(
    before: PerfCount, after: PerfCount, events: int | None
) -> None:
    assert after.since(before) == events


def test_a_count_that_is_none_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    states = iter(
        [PerfCount(5, 10, 10), PerfCount(7, 10, 10), PerfCount(9, 30, 30), PerfCount(7, 30, 10)]
    )
    monkeypatch.setattr(threads, "open_counter", lambda *_: os.open("/dev/null", os.O_RDONLY))
    monkeypatch.setattr(threads, "read_counter", lambda _: next(states))
    with toucher():
        collector = TlbEvents(me("pmd-"))
        collector.start()
        assert collector.stop() == (
            ThreadEvents(role="pmd", thread="pmd-c01", counts={"dTLB load misses": 4}),
        )
