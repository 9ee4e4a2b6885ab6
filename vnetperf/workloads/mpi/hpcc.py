"""HPC Challenge (package hpcc): HPL's rate, and its ping-pong between all pairs of ranks."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, isqrt
from typing import ClassVar

from vnetperf.model.testbed import MachineFacts, Program
from vnetperf.model.transfer import Figures, TransferSpec
from vnetperf.statistics.samples import contradiction
from vnetperf.workloads.mpi.kinds import MpiKind
from vnetperf.workloads.mpi.program import MPIRUN, MpiOutputError, MpiProgram

#: Order of the matrix, and of its blocks; all other parts of hpcc take their sizes from these.
ORDER, BLOCK = 1000, 64
#: HPL's input: sizes and the grid of processes vary, all others are its own example's.
_INPUT = """HPLinpack benchmark input file
Innovative Computing Laboratory, University of Tennessee
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
{order}      Ns
1            # of NBs
{block}      NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
{rows}       Ps
{columns}    Qs
16.0         threshold
1            # of panel fact
1            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0            Number of additional problem sizes for PTRANS
1200 10000 30000  values of N
0            number of additional blocking sizes for PTRANS
40 9 8 13 13 20 16 32 64  values of NB
"""
_GIGABYTE_BITS = 8e9
#: Names of what it has of a distribution.
_MOMENTS = {"min": "Min", "mean": "Avg", "max": "Max"}
#: By how much two of its figures of one thing may differ, as a share: it prints a few digits.
_APART = 0.05


def grid(ranks: int) -> tuple[int, int]:
    """The process grid nearest to a square: rows and columns."""
    rows = next(rows for rows in range(isqrt(ranks), 0, -1) if ranks % rows == 0)
    return rows, ranks // rows


class Hpcc(MpiProgram):
    """HPC Challenge; how long it takes is its own: longer with more ranks than processors."""

    name: ClassVar[str] = "hpcc"
    programs: ClassVar[tuple[Program, ...]] = (
        MPIRUN,
        Program(name="hpcc", package="hpcc", by_make=True, optional=True),
    )
    in_guests: ClassVar[bool] = False
    kinds: ClassVar[tuple[MpiKind, ...]] = ("MPI_HPL",)
    result_file: ClassVar[str] = "hpccoutf.txt"
    longest_s: ClassVar[float] = 900.0

    def missing(self, facts: MachineFacts, spec: TransferSpec) -> str:
        """The launcher, and hpcc."""
        return super().missing(facts, spec) or facts.missing_program(self.programs[-1])

    def command(self, spec: TransferSpec, programs: Mapping[str, str]) -> tuple[str, ...]:
        """It reads its input from the directory that it is started in."""
        return (programs["hpcc"],)

    def files(self, spec: TransferSpec) -> dict[str, str]:
        """HPL's input."""
        rows, columns = grid(spec.pods * spec.ranks)
        text = _INPUT.format(order=ORDER, block=BLOCK, rows=rows, columns=columns)
        return {"hpccinf.txt": text}

    def read(self, output: str, spec: TransferSpec) -> Figures:
        """HPL, whose solution it checks, and the means of the ping-pong between pairs of ranks."""
        pairs = (line.partition("=") for line in output.splitlines() if "=" in line)
        summary = {name.strip(): value.strip() for name, _, value in pairs}
        if summary.get("Success") != "1":
            raise MpiOutputError("it does not report success")
        try:
            flops = float(summary["HPL_Tflops"]) * 1e12
            times = {
                name: float(summary[f"{key}PingPongLatency_usec"]) for name, key in _MOMENTS.items()
            }
            rates = {
                name: float(summary[f"{key}PingPongBandwidth_GBytes"])
                for name, key in _MOMENTS.items()
                if name == "mean" or f"{key}PingPongBandwidth_GBytes" in summary
            }
        except (KeyError, ValueError) as error:
            raise MpiOutputError(f"its summary lacks {error}") from error
        rate = rates["mean"] * _GIGABYTE_BITS
        if flops <= 0 or not all(map(isfinite, (flops, rate, *times.values()))):
            raise MpiOutputError(
                f"figures that cannot be: {flops:g} flop/s, {rate:g} bit/s, us {times}"
            )
        # Below 0 is hpcc's "not run": a single rank has no other for the ping-pong.
        measured_times = {name: value for name, value in times.items() if value >= 0}
        if reason := contradiction(measured_times):
            raise MpiOutputError(f"times of its ping-pong that cannot be: {reason} us")
        measured_rates = {name: value for name, value in rates.items() if value >= 0}
        if reason := contradiction(measured_rates):
            raise MpiOutputError(f"rates of its ping-pong that cannot be: {reason} GB/s")
        return Figures(
            flops=flops,
            operation_us=measured_times,
            bits_per_second=rate if rate >= 0 else None,
            contents_checked=True,
            notes=_notes(summary, flops),
        )

    def version(self, output: str) -> str:
        """The numbers of its summary."""
        versions = {
            name: value
            for name, _, value in (line.partition("=") for line in output.splitlines())
            if name.startswith("Version")
        }
        numbers = [versions.get(f"Version{part}", "") for part in ("Major", "Minor", "Micro")]
        return f"hpcc {'.'.join(numbers)}" if all(numbers) else self.name


def _notes(summary: Mapping[str, str], flops: float) -> tuple[str, ...]:
    """Where its rate is not that of HPL's operations in the time that it gives."""
    try:
        order, seconds = float(summary["HPL_N"]), float(summary["HPL_time"])
    except (KeyError, ValueError):
        return ()
    operations = 2 / 3 * order**3 + 3 / 2 * order**2
    if not 0 < seconds < float("inf") or abs(flops * seconds - operations) <= _APART * operations:
        return ()
    return (
        f"it reports {flops:g} flop/s, but a matrix of order {order:g} in {seconds:g} s is "
        f"{operations / seconds:g}",
    )
