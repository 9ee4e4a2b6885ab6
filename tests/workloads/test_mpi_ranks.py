"""What Open MPI's launcher, which is root's, has of the directory that pods write to: nothing."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest

from vnetperf.host.paths import read_end
from vnetperf.model.errors import GeneratorError
from vnetperf.model.transfer import TransferSpec
from vnetperf.virt.oci import RANKS
from vnetperf.workloads.mpi.ranks import NETWORK, MpiPod, MpiRun

SPEC = TransferSpec(kind="MPI_ALLTOALL", tool="loops", duration_s=1, pods=2, ranks=2)


@pytest.fixture
def run(tmp_path: Path) -> MpiRun:
    machine = MagicMock()
    machine.subdir.side_effect = lambda name: tmp_path / name
    machine.facts.programs = {"mpirun": "/usr/bin/mpirun"}
    machine.facts.versions = {"mpirun": "mpirun (Open MPI) 4.1.4"}
    (tmp_path / RANKS).mkdir()
    (tmp_path / "own").mkdir()
    place = MagicMock()
    place.entry.return_value = ("runc", "exec", "pod")
    pods = [MpiPod(name, MagicMock(), place) for name in ("pod0", "pod1")]
    return MpiRun(machine, MagicMock(), pods, lambda: None, MagicMock())


def test_files_of_the_launcher_and_its_session_are_its_own(run: MpiRun, tmp_path: Path) -> None:
    own, ranks = tmp_path / "own", tmp_path / RANKS / "0"
    line, options = run.make_launch_line(SPEC, own, ranks)
    line += run.make_rank_words(SPEC, options, ["loops"])
    assert line[:3] == ["env", f"TMPDIR={own}", "/usr/bin/mpirun"]
    # Ranks begin there, each in its pod; the launcher has nothing there.
    assert [line[n - 1] for n, word in enumerate(line) if str(ranks) in word] == ["--wdir"]
    assert str(own / "pods") in line
    assert f"/bin/sh {own / 'enter'}" in line
    assert list((tmp_path / RANKS).iterdir()) == []


def test_ranks_begin_in_a_directory_with_their_files(run: MpiRun, tmp_path: Path) -> None:
    found = run.give_files({"in.txt": "1"}, tmp_path / "own", "0", "hpcc")
    assert found == tmp_path / RANKS / "0"
    assert (found / "in.txt").read_text() == "1"


@pytest.mark.parametrize("kind", ["link", "file", "directory"])
def test_what_a_pod_put_in_its_place_is_not_followed(
    kind: str, run: MpiRun, tmp_path: Path
) -> None:
    place, others = tmp_path / RANKS / "0", tmp_path / "others"
    others.mkdir()
    (others / "in.txt").write_text("theirs")
    if kind == "link":
        place.symlink_to(others)
    elif kind == "file":
        place.write_text("")
    else:
        place.mkdir()
        (place / "in.txt").symlink_to(others / "in.txt")
    with pytest.raises(GeneratorError, match="in place of its directory"):
        run.give_files({"in.txt": "1"}, tmp_path / "own", "0", "hpcc")
    assert (others / "in.txt").read_text() == "theirs"


def test_a_result_is_not_read_from_another_directory(tmp_path: Path) -> None:
    (tmp_path / "others").mkdir()
    (tmp_path / "others/out.txt").write_text("theirs")
    (tmp_path / "0").symlink_to(tmp_path / "others")
    assert read_end(tmp_path / "0/out.txt", 100) == ""
    assert read_end(tmp_path / "others/out.txt", 3) == "irs"


@pytest.mark.parametrize(
    ("version", "is_prrte"),
    [
        ("mpirun (Open MPI) 4.1.4", False),
        ("mpirun (Open MPI) 3.1.6", False),
        ("", False),
        ("mpirun (Open MPI) 5.0.11\n\nReport bugs to", True),
        ("mpirun (Open MPI) 6.0.0a1", True),
        ("mpirun.openmpi (OpenRTE) 4.1.4", False),
    ],
)
def test_the_launcher_has_the_options_of_its_version(
    version: str, is_prrte: bool, run: MpiRun, tmp_path: Path
) -> None:
    run.machine.facts.versions = {"mpirun": version}
    line, options = run.make_launch_line(SPEC, tmp_path / "own", tmp_path / RANKS / "0")
    line += run.make_rank_words(SPEC, options, ["loops"])
    text = " ".join(line)
    shown = f"/bin/sh {tmp_path / 'own' / 'enter'}"
    if is_prrte:
        assert f"--prtemca plm_ssh_agent {shown} " in text
        assert f"prte_if_include {NETWORK} " in text
        assert "--map-by slot:OVERSUBSCRIBE" in text
        assert not {"--do-not-resolve", "--oversubscribe", "plm_rsh_agent"} & {*line}
    else:
        assert f"--mca plm_rsh_agent {shown} " in text
        assert f"--mca oob_tcp_if_include {NETWORK} " in text
        assert {"--do-not-resolve", "--oversubscribe"} < {*line}
        assert "--map-by slot " in text
    assert "--mca btl self,tcp" in text
