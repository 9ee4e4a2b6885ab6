"""The machine as a whole: what is read of it, what is not, and what disturbs a trial."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vnetperf.collectors import MachineSampler
from vnetperf.model.scenario import Pollers
from vnetperf.model.trial import MachineLoad

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
    assert len(found.disturbances) >= 4
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
        (MachineLoad(steal=0.02), "a hypervisor took 2.0% of a processor"),
        (MachineLoad(throttled=2), "processors were throttled 2 times"),
        (MachineLoad(frequency_mhz=(3000, 2700)), "the frequency went from 3000 to 2700 MHz"),
        (MachineLoad(load_average=4.9, busy_threads=4, processors=2), ""),
        (MachineLoad(load_average=5.1, busy_threads=4, processors=2), "load average 5.1"),
    ],
)
def test_disturbances_in_words(load: MachineLoad, words: str) -> None:
    assert words in "; ".join(load.disturbances)
    assert bool(load.disturbances) == bool(words)
