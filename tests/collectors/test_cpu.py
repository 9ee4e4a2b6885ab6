"""Processor use by thread: what the kernel tells of each, and what it does not."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.host.test_machine_load import TICKS, write
from vnetperf.collectors import cpu as cpu_collector
from vnetperf.collectors.cpu import CpuCollector, tickless_processors
from vnetperf.deployment.trial import CollectorSession
from vnetperf.host.linux import counts_running_time
from vnetperf.host.machine_load import MachineSampler
from vnetperf.host.threads import Thread
from vnetperf.model.machine_load import (
    ThreadLoad,
)
from vnetperf.model.scenario import Pollers


def test_collectors_own_time_is_in_no_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processors' times are read after all collectors have begun, and before any ends."""
    calls: list[str] = []

    class Slow(CpuCollector):
        def start(self) -> None:
            calls.append("collector begins")

        def stop(self) -> tuple[ThreadLoad, ...]:
            calls.append("collector ends")
            return ()

    for name in ("begin", "end"):
        own = getattr(MachineSampler, name)

        def noted(self: MachineSampler, own: Any = own, name: str = name) -> None:
            calls.append(f"machine {name}s")
            own(self)

        monkeypatch.setattr(MachineSampler, name, noted)
    monkeypatch.setattr("vnetperf.plugin.registry.names", lambda _: ["slow"])
    monkeypatch.setattr("vnetperf.plugin.registry.load", lambda *_: Slow)
    session = CollectorSession(())
    session.start()
    session.stop()
    assert calls == ["collector begins", "machine begins", "machine ends", "collector ends"]


@pytest.mark.parametrize(
    ("text", "found"),
    [("3-5,7\n", {3, 4, 5, 7}), ("  (null)\n", set()), ("\n", set()), (None, set())],
)
def test_processors_without_ticks_are_the_kernels(
    tmp_path: Path, text: str | None, found: set[int]
) -> None:
    if text is not None:
        write(tmp_path, "sys/devices/system/cpu/nohz_full", text)
    assert tickless_processors(tmp_path) == found


@pytest.mark.parametrize(
    ("cpu", "release", "run_s"),
    [(0, "6.1.0-9-amd64", 0.2), (1, "6.1.0-9-amd64", 1.0), (1, "5.15.0", None), (1, "5.16", 1.0)],
)
def test_where_no_tick_brings_the_schedulers_count_up_to_date_that_of_now_is_taken(
    cpu: int, release: str, run_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that ran for a second, whose count of the scheduler is 0.8 s old."""
    monkeypatch.setattr(cpu_collector, "tickless_processors", lambda: frozenset({1}))
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release=release))
    monkeypatch.setattr(cpu_collector, "kernel_threads", lambda _: ())
    mine = Thread(os.getpid(), "poller", frozenset())
    poller = Pollers(role="pmd", pid=os.getpid(), thread_prefix="")
    monkeypatch.setattr(cpu_collector, "busy_threads", lambda _: [(poller, mine)])
    about: dict[str, Any] = {"name": "poller", "role": "pmd", "started": 5, "cpu": cpu}
    about |= {"system_ticks": 3, "guest_ticks": 0, "involuntary": 0, "voluntary": 0, "wait_ns": 0}
    samples = iter(
        [
            cpu_collector._Sample(**about, time_s=0.0, user_ticks=0, run_ns=0),
            cpu_collector._Sample(**about, time_s=2.0, user_ticks=TICKS, run_ns=200_000_000),
        ]
    )
    monkeypatch.setattr(cpu_collector, "_sample", lambda *_: next(samples))
    collector = CpuCollector((poller,))
    collector.start()
    (load,) = collector.stop()
    assert load.run_s == run_s
    assert (load.watched_s, load.user) == (2.0, 0.5)


def test_the_scheduler_tells_what_a_thread_ran() -> None:
    collector = CpuCollector((Pollers(role="tester", pid=os.getpid(), thread_prefix=""),))
    collector.start()
    deadline = os.times().elapsed + 0.05
    while os.times().elapsed < deadline:
        pass
    mine = [one for one in collector.stop() if one.role == "tester"]
    assert sum(one.run_s or 0.0 for one in mine) > 0
    assert all(one.wait_s is not None and one.wait_s >= 0 for one in mine)


def test_times_that_a_kernel_does_not_keep_are_not_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without CONFIG_SCHEDSTATS and delay accounting schedstat has zeros for every thread."""
    for text, keeps in (("0 0 0\n", False), ("7 0 1\n", True), ("", False)):
        write(tmp_path, "proc/thread-self/schedstat", text)
        assert counts_running_time(tmp_path / "proc") is keeps
    monkeypatch.setattr(cpu_collector, "_tells_running_time", lambda: False)
    collector = CpuCollector((Pollers(role="tester", pid=os.getpid(), thread_prefix=""),))
    collector.start()
    sum(range(3_000_000))
    found = collector.stop()
    assert found
    assert {(one.run_s, one.wait_s) for one in found} == {(None, None)}
