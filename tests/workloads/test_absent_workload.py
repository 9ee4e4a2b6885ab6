"""A log of a workload that is not installed is reported all the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.recorded.test_recorded import contents, derived, lines
from vnetperf.plugin import registry


def test_what_an_absent_workload_measured_is_in_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = contents("mpi")
    assert "## MPI" in recorded["report.md"]
    names = registry.names
    monkeypatch.setattr(
        registry, "names", lambda family: () if family == "workloads" else names(family)
    )
    again = derived(recorded, tmp_path)
    for file in ("transfers.csv", "results.json"):
        assert lines(again[file]) == lines(recorded[file])
    table = again["report.md"].partition("## MPI (a plugin that is not")[2].partition("\n## ")[0]
    assert re.search(r"MPI_ALLTOALL \| [\d.]+ .s", table.replace("\\", ""))
