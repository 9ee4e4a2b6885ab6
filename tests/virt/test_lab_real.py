"""The lab itself, started once: what is in it, and what comes back from it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.host.foreign import USES
from vnetperf.virt.lab_boot import NICS
from vnetperf.virt.lab_guest import TIMED_OUT
from vnetperf.virt.tools import QEMU, virtme_version, which

#: They need the lab's kernel or its NICs: vSwitches, and networks in their modes with "network:"
#: before them. Each takes longer than all else that is done there: the daily lane's.
NETWORKS = ("sriov", "vlan", "ipvlan", "ipvlan_l3")
OVS = tuple(f"ovs_{kind}_kernel" for kind in ("flat", "vlan", "vxlan", "gre", "geneve"))
BACKENDS = ("ovs", "sriov", *(f"network:{name}" for name in (*NETWORKS, *OVS)))
#: Longest time that each may take on a machine that others use too, seconds.
BACKEND_S = 300
pytestmark = [
    pytest.mark.real,
    pytest.mark.isolated,
    pytest.mark.slow,
    # Two starts, on a machine that others use too.
    pytest.mark.timeout(2700 + BACKEND_S * len(BACKENDS)),
    pytest.mark.skipif(
        virtme_version() is None or which(QEMU) is None,
        reason="the lab is not installed: scripts/install-deps lab, pip install '.[lab]'",
    ),
]
LAB = (sys.executable, "-m", "vnetperf.cli", "lab")
TOP = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the command of the lab works."""
    return tmp_path_factory.mktemp("lab folder")


@pytest.fixture(scope="module")
def done(folder: Path, request: pytest.FixtureRequest) -> subprocess.CompletedProcess[str]:
    """The lab, gone through from start to end: one start serves every test that was selected."""
    selected = {item.name for item in request.session.items}
    backends = [one for one in BACKENDS if f"test_a_backend_keeps_the_contract[{one}]" in selected]
    shutil.copy(Path(__file__).with_name("probe.sh"), folder)
    settings = {k: v for k, v in os.environ.items() if not k.startswith("VNETPERF_")}

    most_s = 900 + BACKEND_S * len(backends)

    def go_through() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*LAB, "run", "--timeout", str(most_s), "--", "sh", "probe.sh", *backends],
            cwd=folder,
            env={**settings, "PYTHONPATH": str(TOP)},
            input="a word",
            capture_output=True,
            text=True,
            timeout=most_s + 400,
            check=False,
        )

    result = go_through()
    # An emulated machine of several processors may stand still: once more, and no more.
    return go_through() if result.returncode == TIMED_OUT else result


@pytest.fixture(scope="module")
def found(done: subprocess.CompletedProcess[str]) -> dict[str, list[str]]:
    """What it told, by name."""
    told: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        name, _, value = line.partition(": ")
        told.setdefault(name, []).append(value)
    assert told, done.stderr
    return told


def test_status_and_complaints_come_back(done: subprocess.CompletedProcess[str]) -> None:
    assert "a complaint" in done.stderr
    assert done.returncode == 42, done.stderr


def test_two_nodes_with_processors_and_hugepages(found: dict[str, list[str]]) -> None:
    assert found["nodes"] == ["0-1"]
    assert (found["node0"], found["node1"]) == (["0-1"], ["2-3"])
    assert (found["hugepages0"], found["hugepages1"]) == (["64"], ["64"])


def test_modules_and_their_devices_are_there(found: dict[str, list[str]]) -> None:
    missing = set(found.get("no-module", []))
    # Of these the processor has one.
    assert missing <= {"kvm_amd", "kvm_intel"}
    assert missing != {"kvm_amd", "kvm_intel"}
    assert "no-device" not in found


def test_nics_are_where_the_testbed_file_says(found: dict[str, list[str]]) -> None:
    for nic in NICS:
        assert found[f"nic {nic.pci}"] == [f"igb node {nic.node}"]


@pytest.mark.parametrize("make", USES)
def test_uses_by_others_are_seen(
    make: Callable[[str], object], found: dict[str, list[str]]
) -> None:
    says, lost = USES[make]
    (told,) = found[f"use {make.__name__}"]
    assert says in told
    assert told.endswith(", lost") is lost


def test_a_program_that_has_a_nics_clock_uses_the_nic(found: dict[str, list[str]]) -> None:
    for nic in NICS:
        (told,) = found[f"clock {nic.pci}"]
        assert re.fullmatch(r"process \d+ \(python\S*\), then nobody", told)


def test_cables_carry(found: dict[str, list[str]]) -> None:
    assert (found["cable0"], found["cable1"]) == (["carries"], ["carries"])


def test_virtual_functions_can_be_driven_from_user_space(found: dict[str, list[str]]) -> None:
    for nic in NICS:
        if nic.side == "dut":
            assert found[f"vf {nic.pci}"] == ["vfio-pci usable"] * 2


@pytest.mark.daily
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_keeps_the_contract(
    backend: str, found: dict[str, list[str]], folder: Path
) -> None:
    (summary,) = found[f"contract {backend}"]
    log = (folder / "contract.log").read_text()[-6000:]
    assert "1 passed" in summary, log
    assert "failed" not in summary, log
    assert "error" not in summary, log  # a test that passed, and left something behind


def test_the_command_is_at_home(found: dict[str, list[str]], folder: Path) -> None:
    assert found["cwd"] == [str(folder)]
    assert found["input"] == ["a word"]
    assert found["python"] == [sys.executable]
    assert found["testbed"] == ["lab"]
    assert found["facts"] == ["True"]


def test_only_what_is_shared_is_written(found: dict[str, list[str]], folder: Path) -> None:
    written = folder / "shared-file"
    assert written.read_text() == "from the lab\n"
    assert written.stat().st_uid == os.geteuid()
    assert found["etc"] == ["written"]
    assert not Path("/etc/vnetperf-lab-was-here").exists()


def machines() -> set[int]:
    """Living machines of any lab."""
    pids = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            argv = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if argv[0].endswith(QEMU.encode()) and b"vnetperf-lab" in argv:
            pids.add(int(entry.name))
    return pids


@pytest.fixture
def starting(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A lab that has just been started, and the process that is its machine."""
    before = machines()
    process = subprocess.Popen(
        [*LAB, "run", "--accel", "tcg", "--", "true"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TOP)},
    )
    deadline = time.monotonic() + 120
    while not (new := machines() - before):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield process, new.pop()
    if process.poll() is None:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_the_machine_goes_with_us(
    starting: tuple[subprocess.Popen[bytes], int], number: signal.Signals, status: int
) -> None:
    process, machine = starting
    process.send_signal(number)
    assert process.wait(30) == status
    deadline = time.monotonic() + 30
    while machine in machines():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.daily
def test_a_tester_on_one_machine_measures_a_vswitch_on_another(tmp_path: Path) -> None:
    """Two machines, agents behind ssh, cables of NICs: a result of both, and NICs given back."""
    (tmp_path / "nics.sh").write_text(
        """
        cd /sys/bus/pci/devices
        for nic in 0000:2[12]:00.0; do
            netdev=$(ls $nic/net)
            [ -z "$1" ] || ip address add 192.0.2.$(echo $nic | cut -c7)/32 dev $netdev
            basename $(readlink $nic/driver)
            ip -oneline -4 address show dev $netdev | grep -o '192[^ ]*'
        done
        """
    )
    (tmp_path / "measure.sh").write_text(
        f"""
        config=$(dirname "$VNETPERF_TESTBED")/ssh_config
        nics() {{
            for machine in m1 m2; do ssh -F "$config" $machine sh -s $1 < nics.sh | xargs; done
        }}
        nics give_addresses
        {sys.executable} -m pytest {TOP}/testcases -p no:cacheprovider --preset smoke \\
            -k 'phy2phy_bridge and test_throughput' --frame-sizes 64 --results-dir results || exit
        nics
        """
    )
    done = subprocess.run(
        [*LAB, "run", "--machines", "2", "--timeout", "900", "--", "sh", "measure.sh"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TOP)},
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (results,) = (tmp_path / "results").glob("2*/results.json")
    found = json.loads(results.read_text())
    hosts = found["scenarios"][0]["facts"]["hosts"]
    assert {name: host["parts"] for name, host in hosts.items()} == {"m1": "tester", "m2": "dut"}
    assert "m2:0000:21:00.0" in hosts["m1"]["cables"][0]
    assert found["environment"]["virtual_lab"] is True
    (goal,) = found["results"][0]["goals"]
    assert goal["lower_bound_fps"]
    # Each NIC is at its driver again, with the address that it had.
    assert done.stdout.splitlines()[-2:] == ["igb 192.0.2.1/32 igb 192.0.2.2/32"] * 2
    # So is all else that a run compares: drivers, links and routes of each machine.
    assert set(found["environment"]["restored"].values()) == {"as before"}
