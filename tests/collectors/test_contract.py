"""The contract of collectors, kept by those of this package."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from tests.conftest import Register
from vnetperf.model.machine_load import ThreadEvents
from vnetperf.plugin.collector import Collector
from vnetperf.testing import CollectorContract

pytestmark = pytest.mark.slow


class TestCpu(CollectorContract):
    collector = "cpu"


class TestEvents(CollectorContract):
    collector = "events"


class TestEnergy(CollectorContract):
    collector = "energy"


class Leaky(Collector[ThreadEvents]):
    """Keeps a file open and a program running for each trial, and counts below 0."""

    name = "leaky"

    def start(self) -> None:
        self.file = os.open("/dev/null", os.O_RDONLY)
        self.program = subprocess.Popen(["sleep", "60"])

    def stop(self) -> tuple[ThreadEvents, ...]:
        poller = self.pollers[0]
        return (ThreadEvents(role=poller.role, thread="t", counts={"faults": -1}),)


@pytest.fixture
def leaky(monkeypatch: pytest.MonkeyPatch, register_backend: Register) -> Any:
    made: list[Leaky] = []
    start = Leaky.start

    def noted(self: Leaky) -> None:
        made.append(self)
        start(self)

    monkeypatch.setattr(Leaky, "start", noted)
    register_backend("collectors", "leaky", "tests.collectors.test_contract:Leaky")
    kit = type("Kit", (CollectorContract,), {"collector": "leaky"})()
    yield kit
    for one in made:
        os.close(one.file)
        one.program.kill()
        one.program.wait()


def test_what_a_collector_leaves_or_miscounts_fails_the_kit(leaky: CollectorContract) -> None:
    leaky.test_has_its_registered_name()
    with pytest.raises(AssertionError):
        leaky.test_measures_a_busy_thread_or_gives_a_reason()
    with pytest.raises(AssertionError):
        leaky.test_leaves_no_file_open_and_no_process()
