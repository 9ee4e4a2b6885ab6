"""Ranks of MPI in pods: messages between two of them, and collectives of all.

They run when this file is named: `pytest testcases/test_mpi.py -k bmp2bmp_macvlan --pods 8 --ranks
2 --message-sizes 16K`; `--mpi-program loops|osu|hpcc`. docs/mpi.md defines what is measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.model.transfer import Kind
    from vnetperf.runner.bench import Bench

pytestmark = pytest.mark.deployments("bmp2bmp", "bmp2vmp")


@pytest.mark.parametrize("kind", ["MPI_LATENCY", "MPI_BANDWIDTH", "MPI_PUT", "MPI_GET"])
def test_pair(bench: Bench, message_size: int, kind: Kind) -> None:
    """Messages, puts and gets between a rank of the first pod and one of the second."""
    bench.run_workload(kind, message_size).check_expectations()


@pytest.mark.parametrize("kind", ["MPI_ALLTOALL", "MPI_ALLREDUCE"])
def test_collective(bench: Bench, message_size: int, kind: Kind) -> None:
    """Collectives of all ranks, with messages of a size."""
    bench.run_workload(kind, message_size).check_expectations()


@pytest.mark.transfers("MPI_BARRIER")
def test_barrier(bench: Bench) -> None:
    """A barrier of all ranks."""
    bench.run_workload("MPI_BARRIER").check_expectations()


@pytest.mark.slow
@pytest.mark.transfers("MPI_HPL")
def test_hpl(bench: Bench) -> None:
    """HPC Challenge: HPL, and ping-pong between pairs of ranks."""
    bench.run_workload("MPI_HPL").check_expectations()
