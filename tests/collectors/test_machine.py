"""The machine as a whole: what is read of it, what is not, and what disturbs a trial."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vnetperf.collectors import cpu as cpu_collector
from vnetperf.collectors.cpu import CpuCollector, tickless_processors
from vnetperf.collectors.energy import EnergyCollector
from vnetperf.deployment.trial import CollectorSession
from vnetperf.host.linux import counts_running_time
from vnetperf.host.machine_load import MachineSampler, interrupts_apart
from vnetperf.host.proc import kernel_threads
from vnetperf.host.threads import Thread
from vnetperf.host.wait import wait_for
from vnetperf.model.machine_load import (
    EnergyUse,
    MachineLoad,
    OtherThreads,
    ProcessorLoad,
    ProcessorTime,
    TakenTime,
    ThreadLoad,
)
from vnetperf.model.scenario import Pollers

TICKS = os.sysconf("SC_CLK_TCK")


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def machine(root: Path, *, steal: int, ctxt: int, throttled: int, khz: int, quota_us: int) -> None:
    idle = "0 0 0 100 0 0 0"
    cpus = [f"cpu {idle} 9 0 0", f"cpu0 {idle} {steal} 0 0", f"cpu1 {idle} 0 0 0"]
    write(root, "proc/stat", "\n".join([*cpus, f"ctxt {ctxt}", ""]))
    for cpu in (0, 1):
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        write(root, f"{folder}/thermal_throttle/core_throttle_count", f"{throttled}\n")
        write(root, f"{folder}/cpufreq/scaling_cur_freq", f"{khz}\n")
    write(root, "sys/fs/cgroup/cpu.stat", f"usage_usec 1\nthrottled_usec {quota_us}\n")


def test_what_happened_between_the_samples_is_read(tmp_path: Path) -> None:
    machine(tmp_path, steal=5, ctxt=100, throttled=1, khz=3_000_000, quota_us=1000)
    sampler = MachineSampler((), tmp_path)
    sampler.start()
    machine(tmp_path, steal=5 + TICKS, ctxt=5100, throttled=3, khz=2_000_000, quota_us=501_000)
    found = sampler.stop()
    assert found.steal is not None
    assert found.steal > 1  # a second of it within a moment
    assert found.throttled == 4
    assert found.quota_s == 0.5
    assert found.frequency_mhz == (3000.0, 2000.0)
    assert found.processors == 2
    assert found.context_switches_per_s is not None
    assert found.context_switches_per_s > 5000
    assert len(found.disturbances) == 3  # steal is judged where others are, by the trial's length
    first, second = found.by_processor
    assert (first.cpu, second.cpu) == (0, 1)
    assert first.steal == found.steal
    assert (second.steal, second.softirq, second.user) == (0, 0, 0)


def test_the_times_of_each_processor_are_told_apart(tmp_path: Path) -> None:
    # user nice system idle iowait irq softirq steal guest guest_nice
    write(tmp_path, "proc/stat", "cpu3 1 1 1 9 9 1 1 1 1 1\n")
    sampler = MachineSampler((), tmp_path)
    sampler.start()
    write(tmp_path, "proc/stat", "cpu3 11 21 31 99 99 41 51 61 71 81\n")
    (one,) = sampler.stop().by_processor
    assert one.cpu == 3
    tick = one.system / 30
    found = (one.user, one.irq, one.softirq, one.steal, one.guest)
    assert [value / tick for value in found] == pytest.approx([30, 40, 50, 60, 150], rel=1e-3)
    write(tmp_path, "proc/stat", "cpu3 11 21 31 99\n")  # as short as kernels once had it
    sampler = MachineSampler((), tmp_path)
    sampler.start()
    assert sampler.stop().by_processor == ()


def test_what_cannot_be_read_is_not_zero(tmp_path: Path) -> None:
    sampler = MachineSampler((), tmp_path)
    sampler.start()
    found = sampler.stop()
    unknown = (found.steal, found.throttled, found.quota_s, found.frequency_mhz)
    assert unknown == (None, None, None, None)
    assert found.context_switches_per_s is None


def test_this_machine_can_be_sampled() -> None:
    sampler = MachineSampler((Pollers(role="tester", pid=os.getpid(), thread_prefix=""),))
    sampler.start()
    found = sampler.stop()
    assert found.busy_threads >= 1
    assert found.processors >= 1
    assert found.context_switches_per_s is not None


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (MachineLoad(), ""),
        (MachineLoad(steal=0.009, throttled=0, quota_s=0.0, frequency_mhz=(3000, 2900)), ""),
        (MachineLoad(throttled=2), "processors were throttled 2 times"),
        (MachineLoad(frequency_mhz=(3000, 2700)), "the frequency went from 3000 to 2700 MHz"),
        (MachineLoad(line_ns=(55.0, 60.0)), ""),
        (MachineLoad(line_ns=(55.0, 290.0)), "took 55 ns there and back before, 290 ns after"),
        (MachineLoad(load_average=50.0, busy_threads=1, processors=2), ""),
    ],
)
def test_disturbances_in_words(load: MachineLoad, words: str) -> None:
    assert words in "; ".join(load.disturbances)
    assert bool(load.disturbances) == bool(words)


def processor(cpu: int, **shares: float) -> ProcessorLoad:
    known = dict.fromkeys(("user", "system", "irq", "softirq", "guest", "steal"), 0.0)
    return ProcessorLoad(cpu=cpu, **{**known, "idle": 0.0, **shares})


def thread(role: str, cpu: int, run_s: float | None, name: str = "w", **more: Any) -> ThreadLoad:
    known = {"user": run_s or 0.0, "system": 0.0, "watched_s": 1.0}
    return ThreadLoad(role=role, thread=name, cpu=cpu, run_s=run_s, **{**known, **more})


#: A pmd and a tester on processor 0, a VNF on 1, and nobody of ours on 2.
OURS = (thread("pmd", 0, 0.5), thread("tester", 0, 0.2), thread("vnf0", 1, 0.6))
TWO = (processor(0), processor(1, idle=0.4), processor(2))


def test_others_are_who_is_left_on_the_processors_of_pollers() -> None:
    taken = MachineLoad(by_processor=TWO, interrupts_apart=True).taken(OURS, 1.0)
    assert {*taken.processors} == {0, 1}  # what happens elsewhere disturbs nobody
    assert taken.others() == pytest.approx(0.3)
    assert taken.exceeds(0.05)
    assert not taken.exceeds(0.3)
    (text,) = taken.texts(0.05)
    assert text.startswith("others took 0.3 ")


#: Samples until no thread of the machine begins or ends between the two of one.
TRIES = 200

#: The first namespace of process numbers; one of a container's own shows only its own threads.
needs_all_threads = pytest.mark.skipif(
    Path("/proc/self/ns/pid").stat().st_ino != 0xEFFFFFFC,
    reason="not all threads of the machine are seen from this namespace of process numbers",
)


@needs_all_threads
def test_others_are_told_by_their_threads(tmp_path: Path) -> None:
    """A process that runs beside is named with its time; the deployment's own is not."""
    beside, ours = tmp_path / "beside-us", tmp_path / "of-ours"
    for link in (beside, ours):
        link.symlink_to("/bin/sh")
    spin = ("-c", "while :; do :; done")
    with subprocess.Popen([beside, *spin]) as other, subprocess.Popen([ours, *spin]) as own:
        try:
            sampler = MachineSampler((Pollers(role="pmd", pid=own.pid, thread_prefix=""),))
            for _ in range(TRIES):
                sampler.start()
                began = time.monotonic()
                time.sleep(0.05)
                others = sampler.stop().others
                took_s = time.monotonic() - began
                if others is not None:
                    break
        finally:
            other.kill()
            own.kill()
    assert others is not None
    ran_s = {one.thread: one.run_s for one in others}
    assert 0 < ran_s["beside-us"] <= 1.1 * took_s
    assert "of-ours" not in ran_s


@needs_all_threads
def test_a_thread_that_ended_leaves_no_sum_of_the_others() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        sampler = MachineSampler(())
        for _ in range(TRIES):
            sampler.start()
            if sampler.stop().others is not None:
                break
        else:
            pytest.fail("threads began or ended all the time")
        sampler.start()
        other.kill()
        other.wait()
        assert sampler.stop().others is None


def test_a_container_knows_of_no_others(tmp_path: Path) -> None:
    """Its /proc has its own threads alone, and a neighbour's time would pass for nobody's."""
    write(tmp_path, "proc/stat", "cpu0 0 0 0 100 0 0 0 9 0 0\nprocesses 5\n")
    write(tmp_path, "proc/7/task/7/schedstat", "5 5 5\n")
    sampler = MachineSampler((), tmp_path)
    sampler.start()
    assert sampler.stop().others is None


def test_what_others_ran_is_theirs_and_not_what_is_left() -> None:
    """Timers and switches of a deployment that sleeps in turns are in what is left."""
    others = (
        OtherThreads(thread="chrome", cpu=0, run_s=0.2),
        OtherThreads(thread="cron", cpu=1, run_s=0.01),
        OtherThreads(thread="far", cpu=7, run_s=0.9),
    )
    load = MachineLoad(by_processor=TWO, interrupts_apart=True, others=others)
    taken = load.taken(OURS, 1.0)
    assert taken.others() == pytest.approx(0.21)
    assert (taken + taken).most == "most of it chrome"
    (text,) = taken.texts(0.05)
    assert text.startswith("others took 0.2 ")
    assert text.endswith(f", {taken.most}")


def test_a_little_on_each_of_many_processors_is_nothing_to_any() -> None:
    """What the kernel itself does there adds up, but takes no poller's time that matters."""
    many = TakenTime({cpu: ProcessorTime(0.001, 0.0, 1.0) for cpu in range(40)})
    assert many.others() == pytest.approx(0.04)
    assert not many.exceeds(0.005)
    one = TakenTime({**many.processors, 40: ProcessorTime(0.03, 0.0, 1.0)})
    assert one.exceeds(0.005)
    both = TakenTime({0: ProcessorTime(0.04, 0.0, 1.0), 1: ProcessorTime(0.04, 0.0, 1.0)})
    assert both.exceeds(0.05)  # a frame passes both


def test_interrupts_and_the_kernels_threads_are_no_others() -> None:
    kernel = (thread("kernel", 0, 0.1, "ksoftirqd/0"), thread("kernel", 0, 0.05, "vhost-7"))
    load = MachineLoad(by_processor=(processor(0, irq=0.05, softirq=0.2),), interrupts_apart=True)
    # 0.7 of ours, 0.05 of vhost, 0.25 of interrupts, in which ksoftirqd's time is.
    assert load.taken((*OURS[:2], *kernel), 1.0).others() == pytest.approx(0.0, abs=1e-9)
    # Where interrupts count as time of the threads that they come upon, they are in it.
    upon = (thread("pmd", 0, 0.8, system=0.8),)
    among = MachineLoad(by_processor=(processor(0, softirq=0.5, idle=0.2),), interrupts_apart=False)
    assert among.taken(upon, 1.0).others() == pytest.approx(0.0, abs=1e-9)


def test_a_thread_that_the_kernel_moved_makes_nobody_an_other() -> None:
    """It ran on both processors, and its time counts where it ran last."""
    load = MachineLoad(by_processor=(processor(0), processor(1)), interrupts_apart=True)
    moved = (thread("vnf0", 1, 1.4), thread("tester", 0, 0.6))
    assert load.taken(moved, 1.0).others() == pytest.approx(0.0, abs=1e-9)


def test_what_cannot_be_read_is_not_known() -> None:
    whole = MachineLoad(by_processor=TWO, steal=0.3)
    assert whole.taken((thread("pmd", 0, None),), 1.0).others() is None
    assert whole.taken(OURS, 1.0, is_whole=False).others() is None
    (text,) = MachineLoad(steal=0.3).taken(OURS, 2.0).texts(0.05)
    assert "hypervisor took 30.0%" in text
    assert MachineLoad().taken((), 1.0).texts(0.0) == ()


def test_steal_is_judged_by_a_hundred_ticks_or_more() -> None:
    """One tick is 2 % of half a second, and says nothing of what follows."""

    def of(steal: float) -> TakenTime:
        one = MachineLoad(by_processor=(processor(0, steal=steal),), interrupts_apart=True)
        return one.taken((thread("pmd", 0, 0.5 * (1 - steal), watched_s=0.5),), 0.5)

    assert of(0.02).texts(0.01) == ()
    whole = sum([of(0.02), *[of(0.0)] * 9], TakenTime())
    assert whole.watched_s == pytest.approx(5.0)
    assert whole.stolen == pytest.approx(0.002)
    assert whole.texts(0.01) == ()
    often = sum([of(0.02)] * 10, TakenTime())
    (text,) = often.texts(0.01)
    assert "hypervisor took 2.0%" in text


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


#: Linux 5.10 and later: frames, drops, squeezes, ..., the processor; before it has 11 columns.
ROW = "{:08x} {:08x} {:08x} 0 0 0 0 0 0 0 0 0 {:08x} 0 0\n"
OLD = "{:08x} {:08x} {:08x} 0 0 0 0 0 0 0 0\n"


@pytest.mark.parametrize("row", [ROW, OLD])
def test_queues_of_the_kernel_are_counted_by_processor(tmp_path: Path, row: str) -> None:
    times = "0 0 0 100 0 0 0 0 0 0"
    write(tmp_path, "proc/stat", f"cpu0 {times}\ncpu2 {times}\n")
    lines = row.format(2**32 - 10, 5, 1, 0) + row.format(7, 7, 7, 2)
    write(tmp_path, "proc/net/softnet_stat", lines)
    sampler = MachineSampler((), tmp_path)
    sampler.start()
    lines = row.format(90, 8, 1, 0) + row.format(8, 9, 10, 2)  # a counter of 32 bits
    write(tmp_path, "proc/net/softnet_stat", lines)
    found = [
        (one.cpu, one.backlog_frames, one.backlog_dropped, one.backlog_squeezed)
        for one in sampler.stop().by_processor
    ]
    assert found == [(0, 100, 3, 0), (2, 1, 2, 3)]


def test_queues_that_cannot_be_read_are_not_zero(tmp_path: Path) -> None:
    write(tmp_path, "proc/stat", "cpu0 0 0 0 100 0 0 0 0 0 0\n")
    sampler = MachineSampler((), tmp_path)
    sampler.start()
    (one,) = sampler.stop().by_processor
    assert (one.backlog_frames, one.backlog_dropped, one.backlog_squeezed) == (None, None, None)


@pytest.mark.parametrize(
    "place", ["proc/config.gz", "boot/config-{release}", "lib/modules/{release}/config"]
)
def test_how_the_kernel_counts_interrupts_is_in_its_configuration(
    tmp_path: Path, place: str
) -> None:
    assert interrupts_apart(tmp_path / "nothing") is None
    for name, line, apart in (
        ("yes", "CONFIG_IRQ_TIME_ACCOUNTING=y", True),
        ("no", "# CONFIG_IRQ_TIME_ACCOUNTING is not set", False),
    ):
        root, text = tmp_path / name, f"CONFIG_A=y\n{line}\nCONFIG_B=y\n"
        path = root / place.format(release=os.uname().release)
        path.parent.mkdir(parents=True)
        packed = place.endswith(".gz")
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
        assert interrupts_apart(root) is apart


KTHREAD, PROGRAM = 0x208040, 0x400100


def process(root: Path, number: int, name: str, flags: int = KTHREAD) -> None:
    write(root, f"proc/{number}/comm", f"{name}\n")
    write(root, f"proc/{number}/stat", f"{number} ({name}) S 2 0 0 0 -1 {flags} 0 0 0 0 0 0\n")


@pytest.mark.parametrize("listed", [True, False])
def test_threads_of_the_kernel_are_those_that_work_for_frames_here(
    tmp_path: Path, listed: bool
) -> None:
    names = ((1, "ksoftirqd/1"), (2, "kworker/0:1"), (3, "vhost-77"), (4, "vhost-771"))
    for number, name in (*names, (5, "napi/x-3"), (6, "napi/own-1")):
        process(tmp_path, number, name)
    process(tmp_path, 7, "napi/x-4", PROGRAM)  # whoever calls itself so
    if listed:
        write(tmp_path, "proc/2/task/2/children", "1 2 3 4 5 6 ")
    pollers = tuple(Pollers(role="r", pid=pid, thread_prefix="") for pid in (77, 6))

    def found() -> list[tuple[int, str]]:
        return [(one.tid, one.name) for one in kernel_threads(pollers, tmp_path)]

    assert found() == [(1, "ksoftirqd/1"), (3, "vhost-77"), (5, "napi/x-3")]
    if listed:  # names are read once
        write(tmp_path, "proc/2/task/2/children", "1 3 4 5 6 ")
        assert found() == [(1, "ksoftirqd/1"), (3, "vhost-77"), (5, "napi/x-3")]
        write(tmp_path, "proc/2/task/2/children", "1 2 3 4 5 6 ")
    process(tmp_path, 2, "kthreadd")  # a number that was another's, and has no name yet
    assert found() == [(1, "ksoftirqd/1"), (3, "vhost-77"), (5, "napi/x-3")]
    process(tmp_path, 2, "napi/x-9")
    assert found() == [(1, "ksoftirqd/1"), (2, "napi/x-9"), (3, "vhost-77"), (5, "napi/x-3")]


def test_names_of_the_kernels_other_threads_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(tmp_path, 1, "ksoftirqd/0")
    process(tmp_path, 2, "kworker/0:1")
    write(tmp_path, "proc/2/task/2/children", "1 2 ")
    read: list[str] = []
    open_file = os.open

    def note(path: Path | str, *flags: Any, **options: Any) -> int:
        read.append(str(path))
        return open_file(path, *flags, **options)

    monkeypatch.setattr(os, "open", note)
    for _ in range(2):
        assert [one.tid for one in kernel_threads((), tmp_path)] == [1]
    assert sum(path.endswith("/proc/2/comm") for path in read) == 1
    assert sum(path.endswith("/proc/1/comm") for path in read) == 2


def test_a_number_that_another_thread_has_by_now_is_looked_at_anew(tmp_path: Path) -> None:
    process(tmp_path, 3, "kworker/0:1")
    write(tmp_path, "proc/2/task/2/children", "3 ")
    assert not [*kernel_threads((), tmp_path)]
    (tmp_path / "proc/3").rename(tmp_path / "ended")
    process(tmp_path, 3, "napi/x-9")
    assert [one.tid for one in kernel_threads((), tmp_path)] == [3]


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


def meters(
    root: Path,
    *,
    package: int,
    dram: int,
    microwatts: int,
    device: str = "",
    interval: str = "1000",
) -> None:
    zone = "sys/class/powercap/intel-rapl:0"
    write(root, f"{zone}/name", "package-0\n")
    write(root, f"{zone}/energy_uj", f"{package}\n")
    write(root, f"{zone}/max_energy_range_uj", "1000000\n")
    write(root, "sys/class/powercap/intel-rapl:0:1/name", "dram\n")
    write(root, "sys/class/powercap/intel-rapl:0:1/energy_uj", f"{dram}\n")
    for number, name in ((0, "coretemp"), (1, "power_meter")):
        folder = f"sys/class/hwmon/hwmon{number}{device}"
        write(root, f"{folder}/name", f"{name}\n")
        write(root, f"{folder}/power1_average", f"{microwatts}\n")
        write(root, f"{folder}/power1_oem_info", "Chassis\n")
        write(root, f"{folder}/power1_average_interval", f"{interval}\n")


@pytest.mark.parametrize("device", ["", "/device"])
def test_energy_is_that_of_every_meter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    clock = iter([100.0, 102.0])
    monkeypatch.setattr("vnetperf.collectors.energy.time.monotonic", lambda: next(clock))
    meters(tmp_path, package=900_000, dram=5, microwatts=100_000_000, device=device)
    collector = EnergyCollector((), tmp_path)
    collector.start()
    # What it told at the start was of the time before.
    meters(tmp_path, package=100_000, dram=5, microwatts=200_000_000, device=device)
    assert collector.stop() == (  # the memory's meter stands still
        EnergyUse(part="package-0", joules=0.2, source="RAPL", watched_s=2.0),
        EnergyUse(part="Chassis, hwmon1", joules=400.0, source="power meter", watched_s=2.0),
    )
    assert collector.why == ""


def test_a_counter_may_go_round_more_than_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a trial of half an hour it does."""
    monkeypatch.setattr("vnetperf.collectors.energy._READ_EVERY_S", 0.01)
    meters(tmp_path, package=0, dram=0, microwatts=0)
    zone = tmp_path / "sys/class/powercap/intel-rapl:0"
    collector = EnergyCollector((), tmp_path)
    collector.start()
    for microjoules in (600_000, 200_000, 800_000, 400_000):
        (tmp_path / "next").write_text(f"{microjoules}\n")
        (tmp_path / "next").replace(zone / "energy_uj")
        wait_for(lambda now=microjoules: collector._last[zone] == now, 30, "a look at it")
    (used, *_) = collector.stop()
    assert (used.part, used.joules) == ("package-0", pytest.approx(2.4))


@pytest.mark.parametrize(("interval", "says"), [("5000", "over 5 s"), ("", "over unknown")])
def test_a_mean_of_more_than_the_trial_is_none_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval: str, says: str
) -> None:
    clock = iter([100.0, 102.0])
    monkeypatch.setattr("vnetperf.collectors.energy.time.monotonic", lambda: next(clock))
    meters(tmp_path, package=1, dram=5, microwatts=100_000_000, interval=interval)
    collector = EnergyCollector((), tmp_path)
    collector.start()
    meters(tmp_path, package=1_000_000, dram=5, microwatts=200_000_000, interval=interval)
    assert [one.part for one in collector.stop()] == ["package-0"]
    assert collector.why.startswith("not measured: Chassis, hwmon1: ")
    assert says in collector.why


@pytest.mark.parametrize("microwatts", [4294967295, 4294967295000, 65535000000])
def test_power_that_stands_for_none_is_not_measured(tmp_path: Path, microwatts: int) -> None:
    meters(tmp_path, package=5, dram=5, microwatts=microwatts, interval="1")
    collector = EnergyCollector((), tmp_path)
    collector.start()
    meters(tmp_path, package=500_005, dram=5, microwatts=microwatts, interval="1")
    assert [one.part for one in collector.stop()] == ["package-0"]


#: As ipmitool prints it.
READING = """
    Instantaneous power reading:                    50 Watts
    Minimum during sampling period:                  6 Watts
    Maximum during sampling period:                304 Watts
    Average power reading over sample period:       49 Watts
    IPMI timestamp:                           Thu Feb 15 08:36:01 2024
    Sampling period:                          00000001 Seconds.
    Power reading state is:                   activated
"""


@pytest.mark.parametrize(
    ("reading", "wall", "late", "found"),
    [
        (READING, 2.0, 0.05, 98.0),
        (READING, 2.0, 0.5, "its mean is over 1 s that ended 0.5 s after it, the trial was of 2 s"),
        (READING, 0.5, 0.0, "its mean is over 1 s or more, the trial was of 0.5 s"),
        (READING, 2.0, 1.5, "its mean is over 1 s that ended 1.5 s after it, the trial was of 2 s"),
        (READING.replace("00000001", "00000005"), 2.0, 0.0, "its mean is over 5 s"),
        (READING.replace("activated", "deactivated"), 2.0, 0.0, "tells no mean power: Instant"),
        (READING.replace("49", "65535"), 2.0, 0.0, "65535 W"),
        (READING.replace("49", "9" * 5000), 2.0, 0.0, "tells no mean power"),
        (READING.replace("49", "-1"), 2.0, 0.0, "tells no mean power"),
        ("\\xff\\xfe", 2.0, 0.0, "tells no mean power"),
        ("", 2.0, 0.0, "tells no mean power: it ended with 0"),
    ],
)
def test_a_management_controller_is_asked_where_the_kernel_has_no_meter(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    reading: str,
    wall: float,
    late: float,
    found: float | str,
) -> None:
    clock = iter([100.0, 100.0 + wall, 100.0 + wall + late])
    monkeypatch.setattr("vnetperf.collectors.energy.time.monotonic", lambda: next(clock))
    program = tmp_path / "ipmitool"
    program.write_text(f"#!/bin/sh\n[ \"$*\" = 'dcmi power reading' ] && echo '{reading}'\n")
    program.chmod(0o755)
    write(tmp_path, "dev/ipmi0", "")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    collector = EnergyCollector((), tmp_path)
    collector.start()
    joules = [one.joules for one in collector.stop()]
    if isinstance(found, str):
        assert joules == []
        assert found in collector.why
    else:
        assert (joules, collector.why) == ([found], "")


def test_a_controller_that_fails_is_told_unless_the_processor_has_a_meter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ipmitool"
    program.write_text("#!/bin/sh\necho 'DCMI request failed: Invalid command' >&2; exit 1\n")
    program.chmod(0o755)
    write(tmp_path, "dev/ipmi0", "")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for parts, why in (
        ([], "not measured: power by IPMI: ipmitool tells no mean power: DCMI request failed"),
        (["package-0"], ""),
    ):
        clock = iter([100.0, 102.0, 102.0])
        monkeypatch.setattr(
            "vnetperf.collectors.energy.time.monotonic", lambda now=clock: next(now)
        )
        collector = EnergyCollector((), tmp_path)
        collector.start()
        if parts:
            write(tmp_path, "sys/class/powercap/intel-rapl:0/energy_uj", "9000000\n")
        assert [one.part for one in collector.stop()] == parts
        assert collector.why.startswith(why)
        assert bool(collector.why) == bool(why)
        write(tmp_path, "sys/class/powercap/intel-rapl:0/name", "package-0\n")
        write(tmp_path, "sys/class/powercap/intel-rapl:0/energy_uj", "5\n")


def test_where_no_meter_is_the_reason_is_told(tmp_path: Path) -> None:
    collector = EnergyCollector((), tmp_path)
    collector.start()
    assert collector.stop() == ()
    assert "neither RAPL" in collector.why
    write(tmp_path, "sys/class/powercap/intel-rapl:0/energy_uj", "5\n")
    collector = EnergyCollector((), tmp_path)
    collector.start()
    assert collector.stop() == ()
    assert "stand still" in collector.why


@pytest.mark.parametrize("interval", ["0", "4294967295"])
def test_an_interval_that_stands_for_none_is_unknown(tmp_path: Path, interval: str) -> None:
    """A mean over no time is of the moment that it was asked in, and of no trial."""
    meters(tmp_path, package=5, dram=5, microwatts=200_000_000, interval=interval)
    collector = EnergyCollector((), tmp_path)
    collector.start()
    meters(tmp_path, package=500_005, dram=5, microwatts=200_000_000, interval=interval)
    assert [one.part for one in collector.stop()] == ["package-0"]
    assert "its mean is over unknown" in collector.why


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


def test_nobody_is_said_to_have_run_where_no_times_are_kept(tmp_path: Path) -> None:
    write(tmp_path, "proc/stat", "cpu0 0 0 0 100 0 0 0 9 0 0\nprocesses 5\n")
    write(tmp_path, "proc/1/task/1/schedstat", "0 0 0\n")
    write(tmp_path, "proc/thread-self/schedstat", "0 0 0\n")
    sampler = MachineSampler((), tmp_path)
    sampler.start()
    assert sampler.stop().others is None


@pytest.mark.parametrize("processes", ["", "many", "-"])
def test_no_odd_count_of_the_machine_ends_a_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: str
) -> None:
    def masked() -> tuple[float, float, float]:
        raise OSError("Load averages are unobtainable")

    monkeypatch.setattr(os, "getloadavg", masked)
    write(tmp_path, "proc/stat", f"cpu0 0 0 0 100 0 0 0 9 0 0\nprocesses {processes}\n")
    sampler = MachineSampler((), tmp_path)
    sampler.start()
    found = sampler.stop()
    assert (found.load_average, found.others) == (None, None)


def test_times_that_fell_are_none_and_no_less(tmp_path: Path) -> None:
    """Waiting for a disk may be taken back, and so may what a hypervisor took (proc(5))."""
    write(tmp_path, "proc/stat", "cpu0 10 0 10 100 50 5 5 40 0 0\nctxt 90\n")
    sampler = MachineSampler((), tmp_path)
    sampler.start()
    write(tmp_path, "proc/stat", "cpu0 12 0 10 130 20 5 5 10 0 0\nctxt 40\n")
    found = sampler.stop()
    (one,) = found.by_processor
    assert one.steal == found.steal == 0
    assert one.idle == pytest.approx(15 * one.user, rel=0.01)
    assert found.context_switches_per_s is None


@pytest.mark.parametrize(("before", "went_round"), [(500_000, False), (262_143_300_000, True)])
def test_a_meter_that_began_anew_did_not_go_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int, *, went_round: bool
) -> None:
    """262 kJ in 20 s are not used: a sleep of the machine had it begin anew."""
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    zone, whole = "sys/class/powercap/intel-rapl:0", "262143328850\n"
    meters(tmp_path, package=before, dram=5, microwatts=0)
    write(tmp_path, f"{zone}/max_energy_range_uj", whole)
    collector = EnergyCollector((), tmp_path)
    collector.start()
    clock[0] += 20.0
    meters(tmp_path, package=100, dram=1000, microwatts=0)
    write(tmp_path, f"{zone}/max_energy_range_uj", whole)
    parts = [one.part for one in collector.stop()]
    assert ("package-0" in parts) is went_round
    assert ("package-0: its counter began anew" in collector.why) is not went_round
