"""A machine without namespaces, on which the double is the Pktgen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.traffic.conftest import free_port
from vnetperf.host.processes import ManagedProcess
from vnetperf.model.deployment import WireEnd, make_deployment
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import Placement
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile, make_streams
from vnetperf.testing.generator import Loop
from vnetperf.traffic.pktgen import process as launch
from vnetperf.traffic.pktgen.driver import Pktgen

pytest.importorskip("lupa.lua54", reason="the double runs Lua: pip install lupa")

DOUBLE = Path(__file__).with_name("double.py")
Looped = Callable[..., Any]


class Machine:
    """What the driver asks of a machine."""

    def __init__(self, directory: Path, program: Path, faults: str) -> None:
        self.directory = directory
        self.faults = faults
        self.run_id = "test"
        self.facts = SimpleNamespace(programs={"pktgen": str(program)})
        self.started: list[ManagedProcess] = []

    def subdir(self, name: str) -> Path:
        (self.directory / name).mkdir(exist_ok=True)
        return self.directory / name

    def in_netns(self, function: Callable[[], Any]) -> Any:
        return function()

    def spawn(
        self, name: str, argv: Sequence[str], *, isolated: bool = True, env: Mapping[str, str]
    ) -> ManagedProcess:
        assert isolated, "anybody could reach its socket"
        log = self.directory / f"{name}{len(self.started)}.log"
        environment = {**os.environ, **env, "PKTGEN_DOUBLE": self.faults}
        with log.open("ab") as output:
            popen = subprocess.Popen(
                argv, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self.started.append(ManagedProcess(name, tuple(argv), log, popen))
        return self.started[-1]


def plan_of(server: str = "", queues: int = 1) -> Any:
    """As much of a plan as the driver looks at."""
    deployment = make_deployment("phy2phy")
    profile = TrafficProfile()
    return SimpleNamespace(
        testbed=Testbed(pktgen={"server": server}),
        scenario=SimpleNamespace(
            deployment=deployment,
            streams=make_streams(deployment, profile),
            traffic=profile,
            mtu=1500,
            options=SwitchOptions(),
        ),
        placement=Placement(mode="dedicated", reason="", cores={"tester": (1,)}, housekeeping=(0,)),
        tester_rx_queues=queues,
        refusal_is_loss=True,
    )


def ends_in(directory: Path) -> tuple[WireEnd, WireEnd]:
    """Both ends of a memif wire."""
    path = str(directory / "w.sock")
    return (
        WireEnd(wire=0, kind="memif", side="dut", socket=path, role="server"),
        WireEnd(wire=0, kind="memif", side="tester", socket=path, role="client"),
    )


@contextmanager
def looped_double(directory: Path, faults: str = "") -> Iterator[Loop]:
    """The driver, connected to a double."""
    program = directory / "program"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {DOUBLE} "$@"\n')
    program.chmod(0o755)
    machine: Any = Machine(directory, program, faults)
    generator = Pktgen(machine, plan_of())
    ends = ends_in(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "PORT", free_port())
        try:
            generator.connect(ends)
            yield Loop(generator, ends)
        finally:
            generator.close()
            assert all(not process.alive() for process in machine.started)


@pytest.fixture
def looped(tmp_path: Path) -> Looped:
    """Loop the driver's Pktgen, the double, with faults such as "loss=0.1"."""
    return lambda faults="": looped_double(tmp_path, faults)
