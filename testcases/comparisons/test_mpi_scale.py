"""How MPI scales over pods, and over ranks in each pod, on every container network.

`-k bmp2bmp` compares all networks with the hosts' own: `--message-sizes 16K`, `--repeat 5` for
intervals. The part "MPI" of the reports has the curves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.runner.bench import Bench

pytestmark = pytest.mark.deployments("bmp2bmp")


@pytest.mark.transfers("MPI_ALLTOALL")
@pytest.mark.vary("pods", [1, 2, 4, 8])
def test_pods(bench: Bench, message_size: int) -> None:
    """MPI_Alltoall by the number of pods."""
    bench.run_workload("MPI_ALLTOALL", message_size).check_expectations()


@pytest.mark.transfers("MPI_ALLTOALL")
@pytest.mark.vary("ranks", [1, 2, 4])
def test_ranks(bench: Bench, message_size: int) -> None:
    """MPI_Alltoall by the number of ranks in each pod."""
    bench.run_workload("MPI_ALLTOALL", message_size).check_expectations()
