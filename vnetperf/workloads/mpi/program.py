"""The contract of a program of MPI: its command line and files, and how its output is read.

A program runs nothing. The caller makes pods, writes the files into an empty directory, lets Open
MPI's `mpirun` start the ranks there, and hands over what the program has written.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from vnetperf.host.linux import parse_number
from vnetperf.model.testbed import MachineFacts, Program
from vnetperf.model.transfer import Figures, TransferSpec
from vnetperf.plugin.requirements import Requirements
from vnetperf.statistics.samples import contradiction
from vnetperf.workloads.mpi.kinds import MPI_WITHOUT_SIZE, MpiKind

#: What starts ranks; that of another library of MPI is not used.
MPIRUN = Program(
    name="mpirun",
    package="openmpi-bin",
    places=("mpirun.openmpi", "mpirun"),
    version_args=("--version",),
    version_contains="Open MPI",
    by_make=True,
)
#: The first version whose launcher and daemons are those of PRRTE.
FIRST_OF_PRRTE = 5
_MAJOR = re.compile(r"\(?Open ?(?:MPI|RTE)\)? v?(\d+)\.")
#: Columns of OSU's micro-benchmarks without blanks -> names of times.
_TIMES = {
    "Latency(us)": "mean",
    "AvgLatency(us)": "mean",
    "MinLatency(us)": "min",
    "MaxLatency(us)": "max",
    "P50TailLat(us)": "50",
    "P90TailLat(us)": "90",
    "P99TailLat(us)": "99",
    "P99.9TailLat(us)": "99.9",
}
_MEGABYTE_BITS = 8e6


def is_prrte(facts: MachineFacts) -> bool:
    """Whether the launcher is PRRTE's, by the version that it names: "mpirun (Open MPI) 5.0.11".

    Args:
        facts: The machine.

    Returns:
        True from Open MPI 5 on; False before, and where the version is not known.
    """
    major = _MAJOR.search(facts.versions.get(MPIRUN.name, ""))
    return major is not None and int(major[1]) >= FIRST_OF_PRRTE


def guest_rank_problem(facts: MachineFacts) -> str:
    """Why no rank can be in a VM.

    Args:
        facts: The machine.

    Returns:
        "" when it can; otherwise why not and what is accepted.
    """
    if not is_prrte(facts):
        return ""
    version = facts.versions[MPIRUN.name].partition("\n")[0]
    return (
        f"pods in VMs need Open MPI 4 on the host, not {version}: the image has its daemon (orted) "
        "and its plugins, and versions do not understand each other; choose bmp2bmp"
    )


class MpiOutputError(ValueError):
    """A program's output is no result: what is missing or wrong."""


class MpiProgram(Requirements, ABC):
    """A program whose ranks measure, or compute.

    Attributes:
        name: What users call it.
        programs: What it needs: `MPIRUN`, and its own.
        kinds: What it can do.
        result_file: File in its directory that has its result; "" for its output.
        longest_s: Longest time beyond that of the spec, seconds.
        in_guests: Whether its executable needs the library of MPI alone, so that a copy runs in a
            guest.
    """

    programs: ClassVar[tuple[Program, ...]] = (MPIRUN,)
    kinds: ClassVar[tuple[MpiKind, ...]]
    result_file: ClassVar[str] = ""
    longest_s: ClassVar[float] = 30.0
    in_guests: ClassVar[bool] = True

    def missing(self, facts: MachineFacts, spec: TransferSpec) -> str:
        """What keeps it from running on the machine.

        Args:
            facts: The machine.
            spec: What is to be run.

        Returns:
            "" when nothing does; otherwise what is missing and the cure.
        """
        return self.missing_requirement(facts)

    def cannot(self, spec: TransferSpec) -> str:
        """Why it cannot run what is specified.

        Args:
            spec: What is to be run.

        Returns:
            "" when it can; otherwise why not and what is accepted.
        """
        if spec.kind not in self.kinds:
            return f"{self.name} cannot do {spec.kind}; it can do {', '.join(self.kinds)}"
        if spec.message_size is None and spec.kind not in MPI_WITHOUT_SIZE:
            return f"{spec.kind} has messages of a size; choose one with --message-sizes"
        return ""

    @abstractmethod
    def command(self, spec: TransferSpec, programs: Mapping[str, str]) -> Sequence[str]:
        """Command line of each rank; what must be built is built here.

        Args:
            spec: What is to be run.
            programs: Paths of the machine's programs by name.

        Returns:
            Program and arguments.

        Raises:
            VnetperfError: It cannot be built.
        """

    def files(self, spec: TransferSpec) -> dict[str, str]:
        """Files that it reads in its directory.

        Args:
            spec: What is to be run.

        Returns:
            Name -> content.
        """
        return {}

    @abstractmethod
    def read(self, output: str, spec: TransferSpec) -> Figures:
        """What it measured.

        Args:
            output: What rank 0 has written, or its file.
            spec: What was run.

        Returns:
            Figures, without those that it does not report.

        Raises:
            MpiOutputError: It failed, or its output lacks what must be there.
        """

    def version(self, output: str) -> str:
        """Name and version for the report.

        Args:
            output: What it has written.

        Returns:
            "hpcc 1.5.0".
        """
        return self.name


def read_columns(output: str, spec: TransferSpec) -> Figures:
    """Figures of an output with the columns of OSU's micro-benchmarks.

    Args:
        output: A line of names after "#", then one line for each size.
        spec: What was run.

    Returns:
        Times in microseconds; rates in bit/s, since OSU's MB/s are 10^6 octets/s.

    Raises:
        MpiOutputError: There is no such line, or none of the size.
    """
    names: list[str] = []
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.lstrip("# ").split("  ") if cell.strip()]
        if line.startswith("#"):
            headings = ["".join(cell.split()) for cell in cells]
            figure_columns = {*_TIMES, "Bandwidth(MB/s)"} & {*headings}
            names = headings if figure_columns else names
        elif names and len(cells) == len(names):
            row = dict(zip(names, cells, strict=True))
            size = row.get("Size")
            # Warnings of Open MPI are in the same output, and may have as many cells.
            if size is None or (
                size.isdecimal() and spec.message_size in (None, parse_number(size))
            ):
                return _parse_row(row)
    raise MpiOutputError(f"no line of {spec.message_size} octets below names of columns")


def _parse_row(row: Mapping[str, str]) -> Figures:
    try:
        times = {_TIMES[name]: float(cell) for name, cell in row.items() if name in _TIMES}
        rate = float(row["Bandwidth(MB/s)"]) if "Bandwidth(MB/s)" in row else None
        count = int(row["Iterations"]) if "Iterations" in row else None
    except ValueError as error:
        raise MpiOutputError(f"a column is no number: {error}") from error
    # The result is the mean, or the rate; a smallest of 0 is one that is less than its decimals.
    results = [value for value in (times.get("mean"), rate) if value is not None]
    if any(not 0 < value < float("inf") for value in results):
        raise MpiOutputError(f"figures that cannot be: {' '.join(row.values())}")
    if reason := contradiction(times):
        raise MpiOutputError(f"times that cannot be: {reason} us")
    if row.get("Validation", "-") not in ("-", "Pass"):
        raise MpiOutputError(f"what arrived is not what was sent: {row['Validation']}")
    return Figures(
        operation_us=times,
        operations=count,
        bits_per_second=None if rate is None else rate * _MEGABYTE_BITS,
        contents_checked=True if row.get("Validation") == "Pass" else None,
    )
