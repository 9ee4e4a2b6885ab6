"""Engines for the tests: built once, run on virtual devices, ended whatever happens."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vnetperf.host.build import BuildVariant
from vnetperf.host.journal import Journal
from vnetperf.host.paths import HostRoots
from vnetperf.host.processes import ManagedProcess, Processes
from vnetperf.traffic.loadgen.build import ENGINE
from vnetperf.traffic.loadgen.engine import Engine, EngineConfig, Spawn

UNIT = Path(__file__).with_name("unit")

OpenEngine = Callable[..., Engine]


@pytest.fixture(scope="session")
def unit_tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C unit tests, under AddressSanitizer and UBSan."""
    out = tmp_path_factory.mktemp("unit")
    subprocess.run(["make", "-s", "-C", str(UNIT), f"OUT={out}"], check=True, timeout=600)
    return out / "unit"


@pytest.fixture(
    scope="session",
    params=[
        # The same tests; the build that is measured with is in every deployment of the merge lane.
        pytest.param(BuildVariant.PLAIN, marks=pytest.mark.daily),
        BuildVariant.SANITIZED,
    ],
    ids=lambda variant: variant.value,
)
def executable(request: pytest.FixtureRequest) -> Path:
    return ENGINE.executable(request.param)


@pytest.fixture(scope="session")
def plain_executable() -> Path:
    return ENGINE.executable(BuildVariant.PLAIN)


@pytest.fixture
def run_dir() -> Iterator[Path]:
    """Short enough for the path of a socket, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="lg") as directory:
        yield Path(directory)


@pytest.fixture
def spawn(run_dir: Path) -> Iterator[Spawn]:
    """Start an engine as a process of a run, with its log beside it."""
    journal = Journal.create(HostRoots(run_dir / "state", run_dir / "run"), f"e{os.getpid()}")
    processes = Processes(journal, run_dir)

    def start(argv: list[str], env: dict[str, str]) -> ManagedProcess:
        return processes.spawn("loadgen", argv, env=env)

    yield start
    processes.stop_all(0.5)
    assert journal.undo().complete


@pytest.fixture
def open_engine(run_dir: Path, spawn: Spawn) -> Iterator[OpenEngine]:
    """Open an engine on given devices; several may be opened in one test."""
    engines: list[Engine] = []

    def opened(executable: Path, *devices: str, **settings: Any) -> Engine:
        settings.setdefault("memory_mb", 256)
        config = EngineConfig(devices=devices, hugepages=False, **settings)
        directory = run_dir / str(len(engines))
        directory.mkdir()
        engine = Engine.open(config, run_dir=directory, executable=executable, spawn=spawn)
        engines.append(engine)
        return engines[-1]

    yield opened
    for engine in engines:
        engine.close()


@pytest.fixture
def memif(run_dir: Path) -> tuple[str, str]:
    """Two ends of one wire in shared memory."""
    common = f"id=0,socket={run_dir}/m,socket-abstract=no,bsize=2048,rsize=11"
    return (
        f"--vdev=net_memif0,role=server,{common}",
        f"--vdev=net_memif1,role=client,{common}",
    )


@pytest.fixture(scope="session")
def real() -> None:
    if os.geteuid() != 0:
        pytest.skip("DPDK needs root here")
