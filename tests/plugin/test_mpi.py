"""`pytest testcases/test_mpi.py`: what is run, in how many pods, and where it stands."""

from __future__ import annotations

import csv
import json

import pytest

from tests.plugin.conftest import ROOT, Site

PATH = "testcases/test_mpi.py"
SCALE = "testcases/comparisons/test_mpi_scale.py"


@pytest.fixture
def mpi(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    for name in (PATH, SCALE, "testcases/conftest.py"):
        path = site.path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text((ROOT / name).read_text())
    programs = {"mpirun": "/usr/bin/mpirun", "mpicc": "/usr/bin/mpicc"}
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"programs": programs}))
    return site


def test_ranks_run_only_when_their_file_is_named(mpi: Site) -> None:
    def collected(*args: str) -> list[str]:
        return [
            line for line in mpi.run("--collect-only", "-q", *args).outlines if "mpi.py" in line
        ]

    assert collected("testcases", "-k", "bmp2bmp_vxlan") == []
    assert collected(PATH, "-k", "bmp2bmp_vxlan and barrier") == [
        f"{PATH}::test_barrier[bmp2bmp_vxlan]"
    ]


def test_a_pair_has_a_rank_in_each_of_two_pods_and_a_collective_all(mpi: Site) -> None:
    mpi.run(
        *(PATH, "-k", "bmp2bmp_bridge and (LATENCY or ALLTOALL or barrier)"),
        *("--message-sizes=16K", "--pods=8", "--ranks=2"),
    ).assert_outcomes(passed=3)
    assert mpi.calls("deploy", "calibrate") == {"deploy bmp2bmp_bridge,mpi": 1}
    (found,) = mpi.results()["transfers"]
    specs = {t["spec"]["kind"]: t["spec"] for t in found["transfers"]}
    assert {kind: (one["pods"], one["ranks"]) for kind, one in specs.items()} == {
        "MPI_LATENCY": (2, 1),
        "MPI_ALLTOALL": (8, 2),
        "MPI_BARRIER": (8, 2),
    }
    assert specs["MPI_ALLTOALL"]["message_size"] == 16384
    assert specs["MPI_BARRIER"]["message_size"] is None
    assert {one["tool"] for one in specs.values()} == {"loops"}


def test_ranks_of_one_pod_are_a_pair_too(mpi: Site) -> None:
    mpi.run(
        *(PATH, "-k", "bmp2bmp_bridge and LATENCY", "--message-sizes=64", "--pods=1", "--ranks=4")
    ).assert_outcomes(passed=1)
    (found,) = mpi.results()["transfers"]
    spec = found["transfers"][0]["spec"]
    assert (spec["pods"], spec["ranks"]) == (1, 2)


def test_scaling_over_pods_is_a_curve(mpi: Site) -> None:
    mpi.run(
        *(f"{SCALE}::test_pods", "-k", "bmp2bmp_bridge or bmp2bmp_host", "--message-sizes=16K")
    ).assert_outcomes(passed=8)
    folder = mpi.folders[0]
    page = (folder / "report.html").read_text()
    assert "ranks in each pod: 2, 16384 octets" in page
    report = (folder / "report.md").read_text()
    assert "## MPI" in report
    _, _, rest = report.partition("## bmp2bmp\\_bridge \N{MIDDLE DOT} pods\n")
    compared = rest.partition("\n## ")[0]
    variants = [line.split(" | ")[1:] for line in compared.splitlines() if "pods=" in line]
    assert [cells[0] for cells in variants] == [f"pods={n}" for n in (1, 2, 4, 8)]
    assert [cells[-1].strip("| ") for cells in variants] == [
        "\u2013",
        *(f"{n}.00\u00d7" for n in (2, 4, 8)),
    ]
    assert "ower bound" not in compared
    assert "Traffic between sockets" not in report
    rows = list(csv.DictReader((folder / "transfers.csv").read_text().splitlines()))
    pods = {(row["pods"], row["operation_mean_us"]) for row in rows if "host" in row["scenario"]}
    assert pods == {("1", "20.0"), ("2", "40.0"), ("4", "80.0"), ("8", "160.0")}


def test_without_a_library_of_mpi_all_is_skipped_with_the_cure(
    mpi: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"programs": {}}))
    result = mpi.run(PATH, "-k", "bmp2bmp_bridge and barrier", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*mpirun is not installed; install the package openmpi-bin*"])
    assert mpi.calls("deploy") == {}


@pytest.mark.slow
def test_a_program_that_cannot_is_one_message(mpi: Site) -> None:
    result = mpi.run(PATH, "-k", "bmp2bmp_bridge and barrier", "--mpi-program=hpcc", "-rs")
    result.stdout.fnmatch_lines(["*hpcc cannot do MPI_BARRIER; it can do MPI_HPL*"])
    result = mpi.run(PATH, "-k", "bmp2bmp_bridge and barrier", "--mpi-program=imb")
    assert "unknown mpi backend" in result.stdout.str() + result.stderr.str()


def test_pods_of_runc_have_ranks(mpi: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = {name: f"/usr/bin/{name}" for name in ("mpirun", "mpicc", "runc")}
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"programs": programs}))
    mpi.run(PATH, "-k", "bmp2bmp_bridge and barrier", "--pod=runc").assert_outcomes(passed=1)
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"programs": {**programs, "runc": ""}}))
    result = mpi.run(PATH, "-k", "bmp2bmp_bridge and barrier", "--pod=runc", "-rs")
    result.stdout.fnmatch_lines(["*runc is not installed; install the package runc*"])
