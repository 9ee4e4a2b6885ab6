"""Programs of MPI: command lines, what they refuse, and outputs as they are, or spoilt."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from tests.fakes.machine import facts
from vnetperf.model.errors import UntrustedProgramError
from vnetperf.model.transfer import Kind, TransferSpec
from vnetperf.plugin import registry
from vnetperf.workloads.mpi import loops
from vnetperf.workloads.mpi.hpcc import grid
from vnetperf.workloads.mpi.program import MpiOutputError, MpiProgram, read_columns
from vnetperf.workloads.mpi.ranks import MpiPod, MpiRun, describe_failure

PROGRAMS = {"mpirun": "/usr/bin/mpirun", "mpicc": "/usr/bin/mpicc", "hpcc": "/usr/bin/hpcc"}
BINARIES = {"osu_alltoall": "/opt/osu/osu_alltoall", "osu_latency": "/opt/osu/osu_latency"}
NO_MPI = shutil.which("mpicc") is None or shutil.which("mpirun") is None
WITHOUT_MPI = pytest.mark.skipif(NO_MPI, reason="openmpi-bin and libopenmpi-dev are not installed")

ALLTOALL = """# OSU MPI All-to-All Personalized Exchange Latency Test v7.3
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
1024                   22.50             20.10             25.30        1000
16384                 859.98            793.16            917.76         575
"""
LATENCY = (
    "# OSU MPI Latency Test v5.9\n# Size          Latency (us)\n64                      1.62\n"
)
BANDWIDTH = "# Size      Bandwidth (MB/s)\n4096                  1250.00\n"
BARRIER = """# OSU MPI Barrier Latency Test v7.3
# Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
             29.54             28.10             31.00        1000
"""
HPCC = """
Begin of Summary section.
VersionMajor=1
VersionMinor=5
VersionMicro=0
HPL_Tflops=0.00345678
MinPingPongLatency_usec=9.5
AvgPingPongLatency_usec=11.4
MaxPingPongLatency_usec=14.25
AvgPingPongBandwidth_GBytes=0.5
Success=1
End of Summary section.
"""


def program(name: str) -> MpiProgram:
    found: MpiProgram = registry.load("mpi", name)()
    return found


def spec(kind: Kind, size: int | None = 16384, **more: Any) -> TransferSpec:
    return TransferSpec(kind=kind, message_size=size, duration_s=1, pods=2, ranks=2, **more)


def test_columns_of_a_collective_are_read_by_their_names() -> None:
    found = read_columns(ALLTOALL, spec("MPI_ALLTOALL"))
    assert found.operation_us == {"mean": 859.98, "min": 793.16, "max": 917.76}
    assert (found.operations, found.contents_checked) == (575, None)
    assert program("osu").version(ALLTOALL) == "OSU v7.3"


def test_columns_of_pairs_are_read_in_their_units() -> None:
    assert read_columns(LATENCY, spec("MPI_LATENCY", 64)).operation_us == {"mean": 1.62}
    assert read_columns(BANDWIDTH, spec("MPI_BANDWIDTH", 4096)).bits_per_second == 1e10
    assert read_columns(BARRIER, spec("MPI_BARRIER", None)).operation_us["mean"] == 29.54


def test_a_warning_between_the_columns_is_no_row() -> None:
    warned = LATENCY.replace("64 ", "  Local host:           pod0\n64 ")
    assert read_columns(warned, spec("MPI_LATENCY", 64)).operation_us == {"mean": 1.62}


def test_contents_that_were_checked_are_said_to_be() -> None:
    text = "# Size    Bandwidth (MB/s)    Iterations    Validation\n64      2.00    7    Pass\n"
    assert read_columns(text, spec("MPI_PUT", 64)).contents_checked is True
    with pytest.raises(MpiOutputError, match="not what was sent"):
        read_columns(text.replace("Pass", "Fail"), spec("MPI_PUT", 64))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no line of 16384 octets"),
        (ALLTOALL.replace("16384 ", "32768 "), "no line of 16384 octets"),
        (ALLTOALL.partition("16384")[0], "no line of 16384 octets"),
        (ALLTOALL.replace("859.98", "oops"), "no number"),
        (ALLTOALL.replace("859.98", "nan"), "cannot be"),
        (ALLTOALL.replace("859.98", "0.00"), "cannot be"),
    ],
)
def test_an_output_without_a_result_is_an_error(text: str, says: str) -> None:
    with pytest.raises(MpiOutputError, match=says):
        read_columns(text, spec("MPI_ALLTOALL"))


@pytest.mark.parametrize("rate", ["0.00", "-1.00", "inf"])
def test_a_rate_that_cannot_be_is_no_result(rate: str) -> None:
    """OSU prints two decimals: what moved less than 0.005 MB/s, or nothing, is 0.00."""
    with pytest.raises(MpiOutputError, match=f"figures that cannot be: 4096 {rate}"):
        read_columns(BANDWIDTH.replace("1250.00", rate), spec("MPI_BANDWIDTH", 4096))


def test_hpcc_reports_hpl_and_ping_pong() -> None:
    found = program("hpcc").read(HPCC, spec("MPI_HPL", None))
    assert found.flops == pytest.approx(3.45678e9)
    assert found.operation_us == {"min": 9.5, "mean": 11.4, "max": 14.25}
    assert found.bits_per_second == 4e9
    assert program("hpcc").version(HPCC) == "hpcc 1.5.0"
    for spoilt in (
        HPCC.replace("Success=1", "Success=0"),
        HPCC.replace("HPL_Tflops", "HPL"),
        HPCC.replace("0.00345678", "-1"),
        HPCC.replace("0.00345678", "nan"),
        HPCC.replace("11.4", "inf"),
    ):
        with pytest.raises(MpiOutputError):
            program("hpcc").read(spoilt, spec("MPI_HPL", None))


def test_a_single_rank_has_no_ping_pong() -> None:
    alone = re.sub(r"(PingPong\w+)=.*", r"\1=-1", HPCC)
    found = program("hpcc").read(alone, spec("MPI_HPL", None))
    assert found.flops == pytest.approx(3.45678e9)
    assert (found.operation_us, found.bits_per_second) == ({}, None)


@pytest.mark.parametrize(
    ("ranks", "shape"), [(1, (1, 1)), (2, (1, 2)), (6, (2, 3)), (7, (1, 7)), (16, (4, 4))]
)
def test_the_grid_of_hpl_is_nearly_square(ranks: int, shape: tuple[int, int]) -> None:
    assert grid(ranks) == shape
    one = spec("MPI_HPL", None).model_copy(update={"pods": 1, "ranks": ranks})
    text = program("hpcc").files(one)["hpccinf.txt"]
    lines = text.splitlines()
    assert [line.split()[0] for line in lines[10:12]] == [str(one) for one in shape]
    assert len(lines) == 36


def test_command_lines() -> None:
    osu = program("osu")
    line = osu.command(spec("MPI_ALLTOALL"), BINARIES)
    assert line == ("/opt/osu/osu_alltoall", "-m", "16384:16384", "-f")
    line = osu.command(spec("MPI_LATENCY", 64), BINARIES)
    assert line == ("/opt/osu/osu_latency", "-m", "64:64")
    assert program("hpcc").command(spec("MPI_HPL", None), PROGRAMS) == ("/usr/bin/hpcc",)


def test_what_a_program_cannot_is_one_sentence() -> None:
    assert "it can do MPI_HPL" in program("hpcc").cannot(spec("MPI_ALLTOALL"))
    assert "numbers of 4 octets, not 6" in program("loops").cannot(spec("MPI_ALLREDUCE", 6))
    assert "--message-sizes" in program("loops").cannot(spec("MPI_ALLTOALL", None))
    assert program("loops").cannot(spec("MPI_BARRIER", None)) == ""


@pytest.mark.parametrize(
    ("name", "kind", "gone", "package"),
    [
        ("loops", "MPI_ALLTOALL", "mpirun", "openmpi-bin"),
        ("loops", "MPI_ALLTOALL", "mpicc", "libopenmpi-dev"),
        ("hpcc", "MPI_HPL", "hpcc", "hpcc"),
        ("osu", "MPI_ALLTOALL", "osu_alltoall", "PATH"),
    ],
)
def test_what_is_missing_has_its_cure(name: str, kind: Kind, gone: str, package: str) -> None:
    there = {**PROGRAMS, **BINARIES}
    machine = facts().model_copy(update={"programs": there, "program_troubles": {}})
    assert program(name).missing(machine, spec(kind)) == ""
    machine = machine.model_copy(update={"programs": {**there, gone: ""}})
    why = program(name).missing(machine, spec(kind))
    assert gone in why
    assert package in why


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_root_launches_no_ranks_whose_program_is_another_users(tmp_path: Path) -> None:
    program_file = tmp_path / "osu_alltoall"
    program_file.write_text("#!/bin/sh\n")
    program_file.chmod(0o755)
    machine = MagicMock()
    programs = {"mpirun": "/usr/bin/mpirun", program_file.name: str(program_file)}
    machine.facts = facts().model_copy(update={"programs": {**facts().programs, **programs}})
    machine.new_subdir.side_effect = StopIteration("nothing is refused")
    pods = (MpiPod("pod0", cast("Any", None), MagicMock()),) * 2
    run = MpiRun(machine, MagicMock(), pods, lambda: None, MagicMock())
    transfer = spec("MPI_ALLTOALL", tool="osu")
    with pytest.raises(StopIteration):
        run.run(transfer)
    os.chown(program_file, 65534, -1)
    with pytest.raises(UntrustedProgramError, match=f"{program_file} is not run as root"):
        run.run(transfer)


def test_a_lost_rank_is_named() -> None:
    lost = (
        "mpirun noticed that process rank 3 with PID 4711 on node pod1 exited on signal 9 (Killed)."
    )
    for words in ("rank 3 in pod1", "SIGKILL"):
        assert words in describe_failure(lost, 137)
    ended = "  Process name: [[57012,1],2]\n  Exit code:    3\n"
    assert describe_failure(ended, 3) == "rank 2 has ended with status 3"
    assert "by signal 15" in describe_failure("", -15)
    assert "with status 1" in describe_failure("", 1)


@WITHOUT_MPI
@pytest.mark.slow
def test_the_loops_compile_once_and_refuse_what_they_do_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    mpicc = str(shutil.which("mpicc"))
    executable = loops.built(mpicc)
    before = executable.stat().st_mtime_ns
    assert loops.built(mpicc) == executable
    assert executable.stat().st_mtime_ns == before
    assert [path.name for path in executable.parent.iterdir() if path.is_dir()] == []


@WITHOUT_MPI
@pytest.mark.slow
def test_the_loops_have_no_warnings(tmp_path: Path) -> None:
    strict = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror"]
    command = ["mpicc", *loops.FLAGS, *strict, "-c", str(loops.SOURCE), "-o", str(tmp_path / "o")]
    assert subprocess.run(command, capture_output=True, check=False).stderr == b""


#: Prints what a rank of the loops would: 1000 windows of single octets in 12.8 s.
SLOW = """
#define main ranks_main
#include "loops.c"
#undef main
int main(void)
{
	int at = 0;
	while (strcmp(KINDS[at].name, "bandwidth"))
		at++;
	octets = 1;
	print_pair(&KINDS[at], 1000, 12.8);
	return 0;
}
"""


@WITHOUT_MPI
@pytest.mark.slow
def test_a_small_bandwidth_keeps_its_digits(tmp_path: Path) -> None:
    """OSU prints two decimals of MB/s: of single octets between distant pods none is left."""
    (tmp_path / "slow.c").write_text(SLOW)
    source, program = str(tmp_path / "slow.c"), str(tmp_path / "slow")
    line = ["mpicc", *loops.FLAGS, f"-I{loops.SOURCE.parent}", source, "-o", program]
    subprocess.run(line, check=True, capture_output=True)
    output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    rate = read_columns(output, spec("MPI_BANDWIDTH", 1)).bits_per_second
    assert rate == pytest.approx(8 * 64_000 / 12.8)


def test_how_ranks_of_open_mpi_5_are_lost() -> None:
    exited = (
        "prterun detected that one or more processes exited with non-zero status,\n"
        "   Process name: [prterun-vm-27986@1,1]\n   Exit code:    3\n"
    )
    assert describe_failure(exited, 3) == "rank 1 has ended with status 3"
    killed = "prterun noticed that process rank 1 with PID 12 on node pod1 exited on\nsignal 9."
    for words in ("rank 1 in pod1", "SIGKILL"):
        assert words in describe_failure(killed, 137)
    # The rank that saw it is named by the launcher; the one that was lost is not.
    seen = (
        "An MPI communication peer process has unexpectedly disconnected.  This\n"
        "usually indicates a failure in the peer process.\n\n"
        "  Local host: pod0\n  Local PID:  27918\n  Peer host:  pod1\n"
        "prterun has exited due to process rank 0 with PID 27918 on node pod0 calling\n"
        '"abort". This may have caused other processes'
    )
    assert "a rank in pod1 was lost" in describe_failure(seen, 14)
    aborted = f"MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\n{seen}"
    for words in ("rank 1 ", "MPI_Abort", "status 5"):
        assert words in describe_failure(aborted, 5)
    odd = killed.replace("signal 9", "signal 40")
    assert "signal 40" in describe_failure(odd, 168)


def test_times_of_ranks_are_held_against_each_other() -> None:
    with pytest.raises(MpiOutputError, match=r"max 917\.76 below mean 959\.98"):
        read_columns(ALLTOALL.replace("859.98", "959.98"), spec("MPI_ALLTOALL"))
    # The fastest rank left its barrier within the decimals.
    found = read_columns(BARRIER.replace("28.10", "0.00"), spec("MPI_BARRIER", None))
    assert found.operation_us == {"mean": 29.54, "min": 0.0, "max": 31.0}
    with pytest.raises(MpiOutputError, match=r"max 14\.25 below min 99"):
        program("hpcc").read(HPCC.replace("=9.5", "=99"), spec("MPI_HPL", None))


def test_hpcc_whose_rates_contradict_each_other_is_no_result() -> None:
    bounds = "MinPingPongBandwidth_GBytes={}\nMaxPingPongBandwidth_GBytes=0.75\nSuccess"
    found = program("hpcc").read(HPCC.replace("Success", bounds.format(0.25)), spec("MPI_HPL"))
    assert found.bits_per_second == 4e9
    with pytest.raises(MpiOutputError, match=r"mean 0.5 below min 0.6"):
        program("hpcc").read(HPCC.replace("Success", bounds.format(0.6)), spec("MPI_HPL"))


def test_hpcc_whose_rate_is_not_that_of_its_work_says_so() -> None:
    work = "HPL_N=1000\nHPL_time={}\nSuccess"
    of_both = HPCC.replace("Success", work.format(0.193288))
    assert program("hpcc").read(of_both, spec("MPI_HPL")).notes == ()
    other = program("hpcc").read(HPCC.replace("Success", work.format(1.93)), spec("MPI_HPL"))
    assert any("a matrix of order 1000 in 1.93 s" in note for note in other.notes)
