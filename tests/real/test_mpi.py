"""Ranks of MPI in pods for real: every loop, more pods than two, and what is killed meanwhile."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.real.conftest import UserRun
from tests.real.test_bad_luck import KILLS, interrupt, kill, kill_agent, seeds
from vnetperf.host.paths import HostRoots

Start = Callable[..., UserRun]
Unchanged = Callable[[], tuple[str, ...]]
PATH = "testcases/test_mpi.py"
NO_MPI = shutil.which("mpirun") is None or shutil.which("mpicc") is None
pytestmark = pytest.mark.skipif(NO_MPI, reason="openmpi-bin or libopenmpi-dev is not installed")
#: Cases that last longer than a moment.
LONG = ("--preset=quick", "--message-sizes=16K", "--ranks=2")
#: What each merge sees of messages, one-sided operations, collectives; and all, daily.
BRIEF, WHOLE = "PUT or ALLTOALL", "pair or collective or barrier"
KINDS = {BRIEF: 2, WHOLE: 7}
#: How else a run ends, every merge sees in test_bad_luck.py.
DAILY = [pytest.param(how, marks=pytest.mark.daily) for how in (interrupt, kill_agent)]


def begin(start: Start, selected: str, *more: str) -> UserRun:
    return start("-k", selected, *more, path=PATH)


@pytest.mark.parametrize(
    ("case", "kinds"),
    [
        ("bridge other 3", BRIEF),
        pytest.param("bridge other 4", WHOLE, marks=pytest.mark.daily),
        pytest.param("host same 2", WHOLE, marks=pytest.mark.daily),
        pytest.param("host other 4", WHOLE, marks=pytest.mark.daily),
        pytest.param("vxlan_routed other 8", WHOLE, marks=pytest.mark.daily),
        # Where hosts are joined by more than routes: once, whatever comes later.
        *(
            pytest.param(f"{network} other 3", BRIEF, marks=pytest.mark.daily)
            for network in ("vxlan", "vxlan_routed", "ovs_flat", "ovs_vxlan")
        ),
        pytest.param("ptp same 3", WHOLE, marks=pytest.mark.daily),
    ],
)
def test_ranks_talk_and_are_gone(case: str, kinds: str, start: Start, unchanged: Unchanged) -> None:
    network, place, pods = case.split()
    selected = f"bmp2bmp_{network} and ({kinds})"
    run = begin(
        start, selected, "--hosts", place, f"--pods={pods}", "--ranks=2", "--message-sizes=1K"
    )
    assert run.finish() == 0, run.output
    (found,) = run.json()["transfers"]
    assert found["scenario"] == f"bmp2bmp_{network},mpi"
    found_of = {one["spec"]["kind"]: one for one in found["transfers"]}
    assert len(found_of) == KINDS[kinds]
    for kind, one in found_of.items():
        value = one["operation_us"].get("mean") or one["bits_per_second"]
        assert value > 0, kind
        assert one["contents_checked"] is (None if kind == "MPI_BARRIER" else True), kind
    assert found_of["MPI_ALLTOALL"]["spec"]["pods"] == int(pods)
    assert unchanged() == ()


@pytest.mark.daily  # a guest is booted, emulated
def test_ranks_of_a_pod_in_a_vm_talk(start: Start, unchanged: Unchanged) -> None:
    selected = "bmp2vmp_vxlan and (LATENCY or ALLTOALL)"
    run = begin(start, selected, "--hosts=other", "--ranks=2", "--message-sizes=1K")
    assert run.finish(160) == 0, run.output
    (found,) = run.json()["transfers"]
    assert found["scenario"] == "bmp2vmp_vxlan,mpi"
    assert {one["spec"]["kind"] for one in found["transfers"]} == {"MPI_LATENCY", "MPI_ALLTOALL"}
    for one in found["transfers"]:
        assert "pod1 in a VM" in one["client"]["place"]
        assert one["operation_us"]["mean"] > 0
    assert unchanged() == ()


@pytest.mark.daily  # pods of another kind; what their launcher is given has fast tests
@pytest.mark.parametrize(("pod", "program"), [("runc", "runc"), ("cri", "containerd")])
def test_containers_write_to_no_file_of_the_launcher(
    pod: str, program: str, start: Start, unchanged: Unchanged
) -> None:
    """At its end it removes what it finds in its session's directory, through links as well."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    run = begin(start, "bmp2bmp_bridge and ALLTOALL", "--pods=2", f"--pod={pod}", *LONG)
    seen: set[str] = set()
    while run.process.poll() is None:
        for folder in HostRoots().run.glob("*/ranks/*"):
            with suppress(OSError):  # it has ended
                seen |= {"rank", *(path.name for path in folder.iterdir())}
        time.sleep(0.05)
    assert run.finish() == 0, run.output
    assert seen == {"rank"}
    assert unchanged() == ()


def _ranks() -> list[int]:
    """Processes of the loops."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            program = path.read_bytes().split(b"\0")[0]
        except OSError:
            continue
        if Path(os.fsdecode(program)).name.startswith("loops-"):
            found.append(int(path.parent.name))
    return found


def _works(pid: int) -> bool:
    """Whether a rank has had 0.15 s of a processor: messages are exchanged without pause."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return int(fields[11]) + int(fields[12]) >= 0.15 * os.sysconf("SC_CLK_TCK")


@pytest.mark.daily  # ranks that are killed with the run are in every merge
def test_a_lost_rank_is_one_message_and_the_other_case_runs(
    start: Start, unchanged: Unchanged
) -> None:
    sized = ("--pods=3", "--ranks=1", "--message-sizes=1K")
    run = begin(start, "bmp2bmp_bridge and (ALLTOALL or barrier)", *sized)
    deadline = time.monotonic() + 60
    # One that is still being joined to the others is lost in words of Open MPI's own.
    while not (ranks := list(filter(_works, _ranks()))) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert ranks, run.finish() and run.output
    os.kill(max(ranks), signal.SIGKILL)
    assert run.finish() == 1, run.output
    assert "was lost: it ended by SIGKILL" in run.output
    (found,) = run.json()["transfers"]
    (kept,) = [one["spec"]["kind"] for one in found["transfers"]]
    assert kept in ("MPI_BARRIER", "MPI_ALLTOALL")
    assert unchanged() == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(KILLS))
@pytest.mark.parametrize("how", [kill, *DAILY], ids=lambda f: f.__name__)
def test_killed_at_a_random_moment(
    how: Callable[[UserRun], None], seed: int, start: Start, unchanged: Unchanged
) -> None:
    moment = random.Random(f"mpi {how.__name__} {seed}").uniform(0.3, 6.0)
    run = begin(start, "bmp2bmp_bridge and (ALLTOALL or pair)", "--pods=4", *LONG)
    time.sleep(moment)
    assert run.process.poll() is None, run.finish() and run.output
    how(run)
    run.finish()
    assert unchanged() == (), f"after {moment:.2f} s"
    assert _ranks() == [], f"after {moment:.2f} s"
