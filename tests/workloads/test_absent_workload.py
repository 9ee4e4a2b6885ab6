"""A log of a workload that is not installed is reported all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recorded.test_recorded import contents, derived
from vnetperf.plugin import registry


def test_transfers_of_an_absent_workload_are_in_the_table_of_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = contents("mpi")
    assert "MPI_ALLTOALL" in recorded["report.md"]
    names = registry.names
    monkeypatch.setattr(
        registry, "names", lambda family: () if family == "workloads" else names(family)
    )
    again = derived(recorded, tmp_path)
    assert again["transfers.csv"] == recorded["transfers.csv"]
    for file in ("report.md", "report.html"):
        assert "Traffic between sockets" in again[file]
        assert "MPI_ALLTOALL" in again[file].replace("\\", "")
