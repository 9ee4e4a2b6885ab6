"""What control groups of both versions let a process have."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vnetperf.agent import inventory
from vnetperf.host.limits import limit_facts, read_limits
from vnetperf.model.testbed import Limits


def machine(root: Path, files: dict[str, str]) -> Limits:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return read_limits(sys=root / "sys", proc=root / "proc")


V2 = "sys/fs/cgroup/a/b"
OWN = {"proc/self/cgroup": "0::/a/b", "proc/self/status": "Name:\tx\nMems_allowed_list:\t0-1,4"}


def test_limits_of_version_2_hold_for_all_below(tmp_path: Path) -> None:
    found = machine(
        tmp_path,
        OWN
        | {
            f"{V2}/memory.max": "max",
            f"{V2}/memory.current": "1073741824",
            "sys/fs/cgroup/a/memory.max": "4294967296",
            "sys/fs/cgroup/a/memory.current": "2147483648",
            "sys/fs/cgroup/a/memory.stat": "anon 7\nactive_file 1048576\ninactive_file 524288\n"
            "slab_reclaimable 524288",
            f"{V2}/cpu.max": "250000 100000",
            "sys/fs/cgroup/a/cpu.max": "max 100000",
            f"{V2}/hugetlb.2MB.max": "1073741824",
            f"{V2}/hugetlb.2MB.current": "536870912",
            f"{V2}/hugetlb.2MB.rsvd.max": "268435456",
            f"{V2}/hugetlb.2MB.rsvd.current": "0",
            f"{V2}/hugetlb.1GB.max": "max",
            f"{V2}/hugetlb.2MB.events": "max 0",
        },
    )
    assert found == Limits(
        memory_kb=(2 << 20) + 2048,
        processors=2.5,
        hugepages_kb={2048: 262144},
        nodes=(0, 1, 4),
    )


def test_limits_are_told_in_words() -> None:
    assert Limits(nodes=(0,)).texts == ()
    some = Limits(memory_kb=2048, processors=2.5, hugepages_kb={2048: 1024, 1048576: 0})
    assert some.texts == (
        "2 MiB of memory more",
        "the time of 2.5 processors",
        "1 MiB of hugepages of 2048 KiB more",
        "0 MiB of hugepages of 1048576 KiB more",
    )


def test_limits_of_version_1_are_by_controller(tmp_path: Path) -> None:
    cgroup = "5:cpu,cpuacct:/x\n4:memory:/x/y\n3:hugetlb:/x\n1:name=systemd:/z\n0::/"
    root = "sys/fs/cgroup"
    found = machine(
        tmp_path,
        {
            "proc/self/cgroup": cgroup,
            f"{root}/memory/x/y/memory.limit_in_bytes": "9223372036854771712",
            f"{root}/memory/x/memory.limit_in_bytes": "1073741824",
            f"{root}/memory/x/memory.usage_in_bytes": "1073741825",
            f"{root}/cpu,cpuacct/x/cpu.cfs_quota_us": "150000",
            f"{root}/cpu,cpuacct/x/cpu.cfs_period_us": "100000",
            f"{root}/cpu,cpuacct/cpu.cfs_quota_us": "-1",
            f"{root}/cpu,cpuacct/cpu.cfs_period_us": "100000",
            f"{root}/hugetlb/x/hugetlb.512MB.limit_in_bytes": "536870912",
            f"{root}/hugetlb/x/hugetlb.512MB.usage_in_bytes": "0",
        },
    )
    assert found == Limits(memory_kb=0, processors=1.5, hugepages_kb={524288: 524288})


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"proc/self/cgroup": "nonsense"},
        {"proc/self/cgroup": "0::/../../up", "proc/self/status": "Mems_allowed_list: (null)"},
        {**OWN, f"{V2}/memory.max": "\N{SNOWMAN}", f"{V2}/cpu.max": "50000 0"},
        {**OWN, f"{V2}/cpu.max": "", f"{V2}/hugetlb.XB.max": "1", f"{V2}/hugetlb.2MB.max": "-1"},
    ],
)
def test_what_cannot_be_read_is_no_limit(tmp_path: Path, odd: dict[str, str]) -> None:
    found = machine(tmp_path, odd)
    assert found.model_copy(update={"nodes": None}) == Limits()


def test_limits_of_the_process_are_recorded() -> None:
    facts = limit_facts()
    assert json.loads(json.dumps(facts)) == facts
    assert len(facts["open files"]) == 2
    own = {"address_kb", "data_kb", "locked_kb", "file_kb", "open_files"}  # they are beside it
    assert set(facts["control group"]) == set(Limits.model_fields) - own


def node(root: Path, number: int, distance: str, **meminfo: int) -> None:
    path = root / f"devices/system/node/node{number}"
    path.mkdir(parents=True)
    (path / "distance").write_text(f"{distance}\n")
    names = {name.replace("_file", "(file)"): kb for name, kb in meminfo.items()}
    (path / "meminfo").write_text(
        "".join(f"Node {number} {name}: {kb:8} kB\n" for name, kb in names.items())
    )


def test_memory_of_each_node_is_what_may_become_hugepages(tmp_path: Path) -> None:
    """Nodes without processors too; what lies in memory file systems cannot be given back."""
    node(tmp_path, 0, "10 20 17", MemFree=1000, FilePages=900, Active_file=300, Inactive_file=100)
    node(tmp_path, 2, "20 10 28", MemFree=0, Active_file=0)
    node(tmp_path, 4, "17 28 ten")
    assert inventory.read_free_memory(sys=tmp_path, proc=tmp_path) == {0: 1400, 2: 0}
    distances = inventory.read_distances(sys=tmp_path)
    assert distances == {0: {0: 10, 2: 20, 4: 17}, 2: {0: 20, 2: 10, 4: 28}}


def test_one_node_has_what_the_machine_has(tmp_path: Path) -> None:
    node(tmp_path, 0, "10", MemFree=7)
    assert inventory.read_free_memory(sys=tmp_path, proc=tmp_path) == {}
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 5 kB\n")
    assert inventory.read_free_memory(sys=tmp_path, proc=tmp_path) == {0: 5}
    (tmp_path / "meminfo").write_text("MemAvailable:\n")
    assert inventory.read_free_memory(sys=tmp_path, proc=tmp_path) == {}


#: Limits of a process, soft and hard, as the kernel prints them (fs/proc/base.c).
OF_A_SHELL = {
    "Max cpu time": ("unlimited", "unlimited"),
    "Max file size": (1048576, 2097152),
    "Max data size": ("unlimited", "unlimited"),
    "Max processes": (96365, 96365),
    "Max open files": (256, 512),
    "Max locked memory": (65536, 65536),
    "Max address space": (1073741824, 4294967296),
    "Max nice priority": (0, 0),
}
ULIMITS = "Limit                     Soft Limit           Hard Limit           Units\n" + "".join(
    f"{name:<25} {soft:<20} {hard:<20} {'units':<10}\n" for name, (soft, hard) in OF_A_SHELL.items()
)
#: CapEff and CapBnd of root: with all capabilities, and with those that a container has left
#: (neither IPC_LOCK nor SYS_RESOURCE).
ALL, FEW = "000001ffffffffff", "00000000a82c35fb"
LOCKER = f"{int(FEW, 16) | 1 << 14:016x}"


def _own(root: Path, held: str, users: str = "0 0 4294967295") -> dict[str, int]:
    status = f"Name:\tx\nCapEff:\t{held}\nCapBnd:\t{held}\nCapAmb:\t{held}"
    files = {"proc/self/limits": ULIMITS, "proc/self/status": status, "proc/self/uid_map": users}
    found = machine(root, files).model_dump(exclude_defaults=True)
    return {name: value for name, value in found.items() if name != "nodes"}


def test_limits_of_the_process_are_those_that_cannot_be_raised(tmp_path: Path) -> None:
    kept = {"file_kb": 2048, "open_files": 512, "locked_kb": 64, "address_kb": 4 << 20}
    assert _own(tmp_path, FEW) == kept
    assert _own(tmp_path, ALL) == {}
    # In a user namespace of its own root has all capabilities, and the limits stay.
    assert _own(tmp_path, ALL, "0 1000 1") == kept
    # CAP_IPC_LOCK frees of one of them.
    assert _own(tmp_path, LOCKER) == {n: v for n, v in kept.items() if n != "locked_kb"}


def test_odd_limits_of_the_process_are_none(tmp_path: Path) -> None:
    for text in ("", "Max open files", "Max open files            x y z", "\0" * 40):
        odd = re.sub("(?m)^Max open files.*$", text, ULIMITS)
        (tmp_path / "proc/self").mkdir(parents=True, exist_ok=True)
        found = machine(tmp_path, {"proc/self/limits": odd})
        assert found.open_files is None


def test_a_real_limit_of_the_process_is_read() -> None:
    """A child that has set it, and has given up the right to raise it where it had that."""
    code = (
        "import resource, json, ctypes\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.prctl(24, 24, 0, 0, 0)\n"  # PR_CAPBSET_DROP, CAP_SYS_RESOURCE
        "from vnetperf.host.limits import read_limits\n"
        "print(read_limits().model_dump_json())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    found = json.loads(done.stdout)
    assert (found["open_files"], found["file_kb"]) == (300, 1024)


@pytest.mark.parametrize("version", [1, 2])
def test_processes_that_may_be_started(tmp_path: Path, version: int) -> None:
    cgroup = "0::/a/b" if version == 2 else "5:pids:/a/b\n0::/"
    root = "sys/fs/cgroup" + ("" if version == 2 else "/pids")
    files = {
        "proc/self/cgroup": cgroup,
        f"{root}/a/b/pids.max": "max",
        f"{root}/a/pids.max": "150",
        f"{root}/a/pids.current": "50",
        "proc/loadavg": "0.20 0.18 0.12 1/80 11206",
        "proc/sys/kernel/threads-max": "1000",
        "proc/sys/kernel/pid_max": "4194304",
    }
    assert machine(tmp_path, files).tasks == 100
    assert machine(tmp_path, {f"{root}/a/pids.max": "max"}).tasks == 920
    assert machine(tmp_path, {"proc/sys/kernel/pid_max": "90"}).tasks == 10
    assert machine(tmp_path, {f"{root}/a/b/pids.max": "20"}).tasks == 10
    assert machine(tmp_path, {f"{root}/a/b/pids.current": "21"}).tasks == 0


def test_memory_beyond_which_processes_stand_still_is_a_limit(tmp_path: Path) -> None:
    files = OWN | {
        f"{V2}/memory.max": "4294967296",
        f"{V2}/memory.high": "1073741824",
        f"{V2}/memory.current": "0",
    }
    assert machine(tmp_path, files).memory_kb == 1 << 20
    assert not machine(tmp_path, {}).hugepages_in_memory
    mounts = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,memory_hugetlb_accounting"
    assert machine(tmp_path, {"proc/self/mountinfo": mounts}).hugepages_in_memory


@pytest.mark.parametrize(("high", "kb"), [("2147483648", 1 << 20), ("max", 3 << 20)])
def test_memory_that_is_held_up_beyond_a_limit_cannot_be_had(
    tmp_path: Path, high: str, kb: int
) -> None:
    """A systemd unit's MemoryHigh: its processes stand still in the kernel beyond it."""
    files = {f"{V2}/memory.high": high, f"{V2}/memory.current": "1073741824"}
    found = machine(tmp_path, OWN | files | {f"{V2}/memory.max": "4294967296"})
    assert found.memory_kb == kb
