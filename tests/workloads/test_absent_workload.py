"""Reports need neither a workload's plugin nor what touches a machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Register
from tests.recorded.test_recorded import contents, derived, lines
from vnetperf.plugin import registry
from vnetperf.plugin.workload import (
    AbsentWorkload,
    find_workload_report,
    kind_name,
    list_workload_reports,
)


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
    assert re.search(r"MPI_ALLTOALL \| 1024 \| \*\*[\d.]+ .s\*\*", table.replace("\\", ""))


def test_what_reports_read_of_workloads_touches_no_machine() -> None:
    code = (
        "import sys; from vnetperf.plugin.workload import list_workload_reports as reports\n"
        "assert len(reports(['MPI_LATENCY', 'GUEST_CPU', 'TCP_STREAM'])) == 2\n"
        "assert not [name for name in sys.modules if name.startswith('vnetperf.host')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_workload_that_cannot_be_loaded_ends_no_report(register_backend: Register) -> None:
    register_backend("workloads", "broken", "no_such_module:Broken")
    (report,) = list_workload_reports(["BROKEN_RUN", "TCP_STREAM"])
    assert isinstance(report, AbsentWorkload)
    assert find_workload_report("TCP_STREAM") is None


def test_a_workloads_name_may_have_several_words(register_backend: Register) -> None:
    register_backend("workloads", "disk", "no_such_module:Disk")
    register_backend("workloads", "disk_io", "no_such_module:DiskIo")
    assert kind_name("DISK_IO_WRITE") == "disk_io"
    assert kind_name("DISK_WRITE") == "disk"
    assert kind_name("TAPE_WRITE") == "tape"
