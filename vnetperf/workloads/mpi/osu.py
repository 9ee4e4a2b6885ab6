"""OSU's micro-benchmarks, where their binaries are on PATH."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, get_args

from vnetperf.model.testbed import MachineFacts, Program
from vnetperf.model.transfer import Figures, Kind, TransferSpec
from vnetperf.workloads.mpi.kinds import MpiKind
from vnetperf.workloads.mpi.program import MPIRUN, MpiProgram, read_columns

_BINARIES: dict[Kind, str] = {
    "MPI_LATENCY": "osu_latency",
    "MPI_BANDWIDTH": "osu_bw",
    "MPI_PUT": "osu_put_bw",
    "MPI_GET": "osu_get_bw",
    "MPI_ALLTOALL": "osu_alltoall",
    "MPI_ALLREDUCE": "osu_allreduce",
    "MPI_BARRIER": "osu_barrier",
}
#: Those that print least, most and iterations on request.
_COLLECTIVES = ("MPI_ALLTOALL", "MPI_ALLREDUCE", "MPI_BARRIER")


class Osu(MpiProgram):
    """OSU's own binaries, with their own number of iterations; contents are not compared."""

    name: ClassVar[str] = "osu"
    programs: ClassVar[tuple[Program, ...]] = (
        MPIRUN,
        *(Program(name=name, optional=True) for name in _BINARIES.values()),
    )
    kinds: ClassVar[tuple[MpiKind, ...]] = tuple(
        kind for kind in get_args(MpiKind) if kind in _BINARIES
    )
    longest_s: ClassVar[float] = 120.0

    def missing(self, facts: MachineFacts, spec: TransferSpec) -> str:
        """The launcher, and the binary of the kind."""
        problem = super().missing(facts, spec)
        name = _BINARIES.get(spec.kind, "")
        return problem or (facts.missing_program(name) if name else "")

    def command(self, spec: TransferSpec, programs: Mapping[str, str]) -> tuple[str, ...]:
        """One size; all columns of a collective."""
        command = [programs[_BINARIES[spec.kind]]]
        if spec.message_size is not None and spec.kind != "MPI_BARRIER":
            command += ["-m", f"{spec.message_size}:{spec.message_size}"]
        return (*command, *(["-f"] if spec.kind in _COLLECTIVES else []))

    def read(self, output: str, spec: TransferSpec) -> Figures:
        """Their columns."""
        return read_columns(output, spec)

    def version(self, output: str) -> str:
        """The first line, "# OSU MPI Latency Test v7.3"."""
        first = next((line for line in output.splitlines() if "OSU" in line), "")
        return f"OSU {first.rpartition(' ')[2]}" if first else self.name
