"""The machine as a whole: what is read of it, what is not, and what disturbs a trial."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from vnetperf.host.machine_load import MachineSampler, interrupts_apart
from vnetperf.host.proc import kernel_threads
from vnetperf.model.machine_load import (
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
