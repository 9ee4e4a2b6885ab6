"""What ranks of MPI can do."""

from __future__ import annotations

from typing import Literal

#: What ranks of MPI do: messages one way and back, windows of messages one way, one-sided puts and
#: gets in windows, a collective of all ranks; MPI_HPL solves a dense system of linear equations.
MpiKind = Literal[
    "MPI_LATENCY",
    "MPI_BANDWIDTH",
    "MPI_PUT",
    "MPI_GET",
    "MPI_ALLTOALL",
    "MPI_ALLREDUCE",
    "MPI_BARRIER",
    "MPI_HPL",
]
#: Those between two ranks, one in each of the first two pods; all others are of all ranks.
MPI_PAIRS: tuple[MpiKind, ...] = ("MPI_LATENCY", "MPI_BANDWIDTH", "MPI_PUT", "MPI_GET")
#: Those without messages of a size.
MPI_WITHOUT_SIZE: tuple[MpiKind, ...] = ("MPI_BARRIER", "MPI_HPL")
