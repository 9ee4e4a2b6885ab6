"""What others than a deployment take of its processors while programs exchange packets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from vnetperf.deployment import others
from vnetperf.deployment.others import (
    MachineWatch,
    compute_shares,
    list_processors,
    measure_processor_time,
)
from vnetperf.host.machine_load import MachineSampler
from vnetperf.host.wait import wait_for
from vnetperf.model.machine_load import MachineLoad, ProcessorLoad
from vnetperf.model.transfer import Transfer, TransferSpec
from vnetperf.virt.container import Container
from vnetperf.virt.endpoint import Place

#: Takes so much processor time, and then sleeps or ends.
BURN = """
import sys, time
while time.process_time() < 0.4: pass
if len(sys.argv) > 1:
    open(sys.argv[1], "w").close()
    time.sleep(30)
"""


def burnt(done: Path, *before: str) -> subprocess.Popen[bytes]:
    program = subprocess.Popen([*before, sys.executable, "-c", BURN, str(done)])
    wait_for(done.exists, 20.0, "the end of some work")
    return program


def test_what_this_process_has_started_is_its_own(tmp_path: Path) -> None:
    before = measure_processor_time(())
    child = burnt(tmp_path / "done")
    try:
        running = measure_processor_time(()) - before
    finally:
        child.kill()
        child.wait()
    assert running >= 0.35
    # What has ended is not forgotten, nor counted twice.
    assert measure_processor_time(()) - before == pytest.approx(running, abs=0.2)
    subprocess.run([sys.executable, "-c", BURN], check=True)
    assert measure_processor_time(()) - before >= running + 0.3


def test_a_process_that_somebody_else_has_started_is_not(tmp_path: Path) -> None:
    before, pid = measure_processor_time(()), tmp_path / "pid"
    line = f'{sys.executable} -c "$0" "$1" & echo $! >{pid}'
    subprocess.run(["setsid", "sh", "-c", line, BURN, str(tmp_path / "done")], check=True)
    try:
        wait_for((tmp_path / "done").exists, 20.0, "the end of some work")
        assert measure_processor_time(()) - before < 0.2
    finally:
        os.kill(int(pid.read_text()), 9)


@pytest.mark.parametrize(
    ("cpus", "apart", "own", "others_share"),
    [
        (frozenset({0}), True, 0.5, 0.4),  # busy 1.0, of it 0.1 in interrupts
        (frozenset({0, 1}), True, 0.5, 0.2),
        (frozenset[int](), True, 0.5, 0.4),  # all three, the last of which others have
        (frozenset({0}), False, 0.5, 0.5),  # interrupts may be in our own time
        (frozenset({0}), True, 2.0, 0.0),
    ],
)
def test_others_took_what_is_left(
    cpus: frozenset[int], apart: bool, own: float, others_share: float
) -> None:
    def load(cpu: int, idle: float, softirq: float, steal: float) -> ProcessorLoad:
        rest = {"user": 0.0, "system": 0.0, "irq": 0.0, "guest": 0.0}
        return ProcessorLoad(cpu=cpu, idle=idle, softirq=softirq, steal=steal, **rest)

    machine = MachineLoad(
        by_processor=(load(0, 0.0, 0.1, 0.0), load(1, 0.95, 0.0, 0.05), load(2, 0.2, 0.0, 0.0)),
        interrupts_apart=apart,
    )
    found = compute_shares(machine, cpus, own)
    assert found["others"] == pytest.approx(others_share, abs=1e-3)
    assert found["stolen"] == (0.05 if len(cpus) != 1 else 0.0)


def test_over_hosts_nobody_knows_who_the_others_are() -> None:
    watch = MachineWatch(cpus=None)
    watch.start()
    assert not {"others", "stolen"} & watch.stop().keys()


def test_a_watch_takes_processes_for_what_they_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(others, "measure_processor_time", lambda _: 1e9)
    watch = MachineWatch()
    watch.start()
    found = watch.stop()
    assert found["machine_busy_s"] >= 0
    assert found["others"] >= 0
    monkeypatch.setattr(MachineSampler, "stop", lambda _: MachineLoad())
    watch.start()
    assert watch.stop() == {}


def test_places_that_are_not_pinned_may_be_anywhere() -> None:
    class Pinned(Container):
        def __init__(self, *cpus: int) -> None:
            self.cpus = cpus

    assert list_processors([Pinned(0, 1), Pinned(3)]) == {0, 1, 3}
    assert list_processors([Pinned(0, 1), Pinned()]) == frozenset()
    assert list_processors([Pinned(0), cast("Place", object())]) == frozenset()


def test_a_transfer_says_what_disturbed_it() -> None:
    spec = TransferSpec(kind="TCP_STREAM", duration_s=1)
    one = Transfer(spec=spec, others=0.12, stolen=0.06)
    others, hypervisor = one.disturbed_by(0.05)
    assert "others took 12.0%" in others
    assert "hypervisor took 6.0%" in hypervisor
    assert one.disturbed_by(0.2) == ()
    assert Transfer(spec=spec).disturbed_by(0.0) == ()
