"""What control groups of both versions let a process have."""

from __future__ import annotations

import json
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
    assert set(facts["control group"]) == set(Limits.model_fields)


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
    assert inventory._free_memory(sys=tmp_path, proc=tmp_path) == {0: 1400, 2: 0}
    distances = inventory._distances(sys=tmp_path)
    assert distances == {0: {0: 10, 2: 20, 4: 17}, 2: {0: 20, 2: 10, 4: 28}}


def test_one_node_has_what_the_machine_has(tmp_path: Path) -> None:
    node(tmp_path, 0, "10", MemFree=7)
    assert inventory._free_memory(sys=tmp_path, proc=tmp_path) == {}
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 5 kB\n")
    assert inventory._free_memory(sys=tmp_path, proc=tmp_path) == {0: 5}
    (tmp_path / "meminfo").write_text("MemAvailable:\n")
    assert inventory._free_memory(sys=tmp_path, proc=tmp_path) == {}
