"""The loops of this package (`loops.c`): compiled by the machine's mpicc when they are used."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from vnetperf.host.build import compiled
from vnetperf.host.paths import make_cache
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import Program
from vnetperf.model.transfer import Figures, TransferSpec
from vnetperf.workloads.mpi.kinds import MpiKind
from vnetperf.workloads.mpi.program import MPIRUN, MpiProgram, read_columns

SOURCE = Path(__file__).with_name("loops.c")
FLAGS = ("-std=gnu11", "-O2", "-Wall")
MPICC = Program(
    name="mpicc", package="libopenmpi-dev", places=("mpicc.openmpi", "mpicc"), by_make=True
)
#: Longest time that the compiler takes to show what it would call, seconds.
SHOW_S = 20.0
#: Octets of what is added up by allreduce.
_NUMBER = 4


class Loops(MpiProgram):
    """Loops with the definitions and columns of OSU's micro-benchmarks; contents are compared."""

    name: ClassVar[str] = "loops"
    programs: ClassVar[tuple[Program, ...]] = (MPIRUN, MPICC)
    kinds: ClassVar[tuple[MpiKind, ...]] = (
        *("MPI_LATENCY", "MPI_BANDWIDTH", "MPI_PUT", "MPI_GET"),
        *("MPI_ALLTOALL", "MPI_ALLREDUCE", "MPI_BARRIER"),
    )

    def cannot(self, spec: TransferSpec) -> str:
        """Numbers are added up whole."""
        if spec.kind == "MPI_ALLREDUCE" and (spec.message_size or 0) % _NUMBER:
            return f"MPI_ALLREDUCE adds up numbers of {_NUMBER} octets, not {spec.message_size}"
        return super().cannot(spec)

    def command(self, spec: TransferSpec, programs: Mapping[str, str]) -> tuple[str, ...]:
        """The loop, its size and its seconds."""
        kind = spec.kind.removeprefix("MPI_").lower()
        loop = str(built(programs["mpicc"]))
        return (loop, kind, str(spec.message_size or 0), str(spec.duration_s))

    def read(self, output: str, spec: TransferSpec) -> Figures:
        """OSU's columns."""
        return read_columns(output, spec)


def built(compiler: str) -> Path:
    """The executable of the loops; another MPI that the compiler builds against is another one."""
    try:
        shown = subprocess.run(
            [compiler, "-show"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=SHOW_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(f"{compiler} -show: {error}", where="programs of MPI") from error
    return compiled(
        SOURCE,
        [compiler, *FLAGS],
        make_cache("mpi", "programs of MPI"),
        identity=shown.stdout,
        cure="install the packages libopenmpi-dev and gcc, or run `make deps` in a checkout",
    )
