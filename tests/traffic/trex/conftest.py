"""TRex's driver with its client's process; the library in it and the server are doubles."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.traffic.conftest import free_port
from vnetperf.host.journal import Journal
from vnetperf.host.paths import HostRoots
from vnetperf.host.processes import ManagedProcess, Processes
from vnetperf.model.deployment import WireEnd, make_deployment
from vnetperf.model.scenario import Placement, Plan, Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.model.traffic import TrafficProfile, make_streams
from vnetperf.traffic.trex import server as remote
from vnetperf.traffic.trex.driver import Trex

HERE = Path(__file__).parent
CLIENT = "automation/trex_control_plane/interactive"
ENDS = tuple(
    WireEnd(wire=n, kind="memif", side="tester", socket=f"/run/w{n}", role="client") for n in (0, 1)
)
PROGRAM = '#!/bin/sh\nexec {python} {server} {settings} "$@"\n'


class Tree:
    """A server's tree with the doubles in it.

    Args:
        directory: Where.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        api = directory / CLIENT / "trex" / "stl" / "api.py"
        api.parent.mkdir(parents=True)
        for package in (api.parent, api.parent.parent):
            (package / "__init__.py").touch()
        shutil.copy(HERE / "double_api.py", api)
        self.program = directory / "_t-rex-64"
        settings = directory / "double.json"
        self.program.write_text(
            PROGRAM.format(
                python=sys.executable, server=HERE / "double_server.py", settings=settings
            )
        )
        self.program.chmod(0o755)
        self.wrong()

    def wrong(self, **what: Any) -> None:
        """Say what is wrong with the server that is started next."""
        (self.directory / "double.json").write_text(json.dumps({"sync": self.port, "wrong": what}))

    @property
    def client(self) -> Path:
        return self.directory / CLIENT


class FakeMachine:
    """A machine that a driver can start processes on, without root and without a namespace."""

    def __init__(self, processes: Processes, directory: Path, program: str) -> None:
        self.run_id = "test"
        self.facts = MachineFacts.model_construct(programs={"trex": program}, program_troubles={})
        self._processes, self._directory = processes, directory

    def subdir(self, name: str) -> Path:
        path = self._directory / name
        path.mkdir(exist_ok=True)
        return path

    def spawn(self, name: str, argv: list[str], **how: Any) -> ManagedProcess:
        return self._processes.spawn(name, argv, env=how.get("env"))


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    made = Tree(tmp_path / "trex-v3.08")
    monkeypatch.setattr(remote, "OWN_ADDRESS", ("127.0.0.1", made.port, made.port))
    return made


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    journal = Journal.create(HostRoots(tmp_path / "state", tmp_path / "run"), f"t{os.getpid()}")
    logs = tmp_path / "logs"
    logs.mkdir()
    made = Processes(journal, logs)
    yield made
    made.stop_all(0.5)
    assert journal.undo().complete


@pytest.fixture
def make(tmp_path: Path, tree: Tree, processes: Processes) -> Iterator[Callable[..., Trex]]:
    """Make drivers, connected unless told otherwise; all are closed at the end."""
    made: list[Trex] = []

    def one(*, connect: bool = True, **config: Any) -> Trex:
        plan = Plan(
            scenario=Scenario(
                deployment=make_deployment("phy2phy"), vswitch="ovs", traffic=TrafficProfile()
            ),
            testbed=Testbed(trex=config),
            wire="memif",
            placement=Placement(
                mode="shared", reason="", cores={"tester": (0,)}, housekeeping=(0,)
            ),
            memory=(),
        )
        machine: Any = FakeMachine(processes, tmp_path, str(tree.program))
        trex = Trex(machine, plan)
        made.append(trex)
        if connect:
            trex.connect(ENDS)
            prepare(trex)
        return trex

    yield one
    for trex in made:
        trex.close()


def prepare(trex: Trex, profile: TrafficProfile | None = None, size: int = 64) -> None:
    profile = profile or TrafficProfile()
    trex.prepare(make_streams(make_deployment("phy2phy"), profile), profile, size)


@pytest.fixture
def server(tree: Tree, processes: Processes) -> Callable[..., SimpleNamespace]:
    """Start a server that is somebody else's."""

    def begin(**wrong: Any) -> SimpleNamespace:
        tree.wrong(**wrong)
        process = processes.spawn("theirs", [str(tree.program)])
        address = f"127.0.0.1:{tree.port}:{tree.port}"
        process.wait_for(lambda: listens(tree.port), 5, "its port")
        return SimpleNamespace(process=process, address=address)

    return begin


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
