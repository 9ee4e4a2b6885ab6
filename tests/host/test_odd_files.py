"""One odd file, processor or value costs what it tells, and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fakes import odd
from vnetperf.host import linux
from vnetperf.host.cpu import (
    NO_PACKAGE,
    cpu_flags,
    interrupts_on,
    parse_cpus,
    parse_mask,
    read_topology,
)
from vnetperf.host.facts import file_number, is_unknown
from vnetperf.host.facts.hardware import collect, nic_facts
from vnetperf.host.facts.security import filter_hooks, parse_hooks, security_facts
from vnetperf.host.facts.system import cpu_facts, find_compiler, firmware_facts
from vnetperf.host.kernel import need_number, read_number
from vnetperf.host.limits import read_limits
from vnetperf.host.linux import MOST_OCTETS, missing_capabilities, read_capabilities, read_file
from vnetperf.host.nic import pci
from vnetperf.host.programs import owning_packages, software_facts
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import Program

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"
NIC = "sys/bus/pci/devices/0000:3b:00.0"
#: A machine of four processors in two nodes, with what the inventory reads of it.
MACHINE = {
    f"{CPU}/online": "0-3",
    f"{CPU}/isolated": "2-3",
    f"{CPU}/nohz_full": "2-3",
    f"{CPU}/smt/control": "off",
    f"{CPU}/cpufreq/boost": "1",
    f"{CPU}/vulnerabilities/meltdown": "Not affected",
    **{
        f"{CPU}/cpu{n}/{name}": text
        for n in range(4)
        for name, text in {
            "topology/core_id": str(n % 2),
            "topology/physical_package_id": str(n // 2),
            "topology/core_cpus_list": str(n),
            "cpufreq/scaling_governor": "performance",
            "cpufreq/cpuinfo_max_freq": "3000000",
            "cpuidle/state0/name": "C1",
            "cpuidle/state0/disable": "0",
            "cpuidle/state0/latency": "2",
        }.items()
    },
    f"{NODE}/node0/cpulist": "0-1",
    f"{NODE}/node1/cpulist": "2-3",
    f"{NODE}/node0/meminfo": "Node 0 MemTotal: 100 kB",
    f"{NODE}/node0/distance": "10 21",
    f"{NODE}/node0/hugepages/hugepages-2048kB/nr_hugepages": "4",
    f"{NODE}/node0/hugepages/hugepages-2048kB/free_hugepages": "3",
    f"{NODE}/node0/hugepages/hugepages-2048kB/surplus_hugepages": "0",
    f"{NIC}/class": "0x020000",
    f"{NIC}/vendor": "0x8086",
    f"{NIC}/device": "0x158b",
    f"{NIC}/numa_node": "1",
    f"{NIC}/sriov_totalvfs": "64",
    f"{NIC}/sriov_numvfs": "2",
    f"{NIC}/current_link_width": "8",
    f"{NIC}/net/ens1/mtu": "1500",
    "sys/class/net/ens1/speed": "25000",
    "sys/class/net/ens1/mtu": "1500",
    "sys/class/dmi/id/product_name": "PowerEdge R750",
    "sys/firmware/dmi/tables/DMI": "",
    "sys/kernel/security/lsm": "lockdown,capability,apparmor",
    "sys/kernel/security/lockdown": "[none] integrity confidentiality",
    "proc/cpuinfo": "".join(
        f"processor\t: {n}\nmodel name\t: A CPU\nflags\t\t: avx2 vmx\n\n" for n in range(4)
    ),
    "proc/self/cgroup": "0::/user.slice",
    "sys/fs/cgroup/user.slice/memory.max": "1048576000",
    "sys/fs/cgroup/user.slice/memory.current": "1048576",
    "sys/fs/cgroup/user.slice/memory.stat": "active_file 1024\ninactive_file 0",
    "sys/fs/cgroup/user.slice/cpu.max": "200000 100000",
    "sys/fs/cgroup/user.slice/hugetlb.2MB.max": "4194304",
    "proc/self/status": "Cpus_allowed_list:\t0-3\nSeccomp:\t0\n",
    "proc/self/uid_map": "0 0 4294967295",
    "proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 900 kB",
    "proc/cmdline": "quiet isolcpus=2-3",
    "proc/uptime": "100.5 300.1",
    "proc/version": "Linux version 6.6 (me@box) (clang version 17.0.6, LLD 17.0.6) #1",
    "proc/irq/default_smp_affinity": "f",
    "proc/irq/30/smp_affinity_list": "0-3",
    "proc/1/comm": "init",
    "etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
}


def put(root: Path, files: dict[str, Any]) -> Path:
    """Make files; a directory or nothing for what `odd.ABSENT` has."""
    for name, content in files.items():
        path = root / name
        if path.is_file():
            path.unlink()
        if content == "a directory":
            path.mkdir(parents=True, exist_ok=True)
        elif content != "nothing":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def topology(root: Path, **options: Any) -> Any:
    return read_topology(sys=root / "sys", proc=root / "proc", **({"as_root": True} | options))


@pytest.fixture(scope="module")
def whole() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return collect(put(Path(folder), MACHINE))


@given(st.dictionaries(st.sampled_from(sorted(MACHINE)), odd.places, max_size=6))
@example({f"{CPU}/isolated": b" (null)\n"})
@example({"proc/self/cgroup": b"no colons here\n"})
@example({"proc/self/cgroup": b"0::/\0\n", "sys/fs/cgroup/user.slice/cpu.max": b"9" * 5000})
@example({f"{CPU}/online": b"0-4294967295\n"})
@example({"proc/uptime": b"-1\n", f"{NIC}/numa_node": b"9" * 5000})
def test_no_file_ends_the_facts_or_costs_those_of_others(
    whole: Any, faults: dict[str, Any]
) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        put(folder, MACHINE)
        facts = collect(put(folder, faults))
        assert json.loads(json.dumps(facts)) == facts
        assert facts.keys() == whole.keys()
        cpus = topology(folder).cpus
        limits = read_limits(sys=folder / "sys", proc=folder / "proc")
    finally:
        shutil.rmtree(folder)
    touched = " ".join(faults)
    if CPU not in touched and NODE not in touched and "proc/self" not in touched:
        assert [cpu.number for cpu in cpus] == [0, 1, 2, 3]
        assert [cpu.number for cpu in cpus if cpu.isolated] == [2, 3]
    if "proc/self" not in touched and "fs/cgroup" not in touched:
        assert (limits.memory_kb, limits.processors) == (1022977, 2.0)
        assert limits.hugepages_kb == {2048: 4096}
    if "meminfo" not in touched:
        assert facts["memory"]["total_kb"] == 1000
    if "dmi" not in touched:
        assert facts["firmware"]["product"] == "PowerEdge R750"
    if "os-release" not in touched:
        assert facts["distribution"]["version"] == "12"
    if NIC not in touched and "ens1" not in touched:
        assert facts["nics"][0]["speed_mbps"] == 25000
    if not {name for name in faults if name.endswith(("cpuinfo", "online"))}:
        assert facts["cpu"]["model"] == "A CPU"


@pytest.mark.parametrize("content", [" (null)\n", "(null)", "", "\0", "x", "0-4294967295"])
def test_a_list_that_is_none_isolates_nothing(tmp_path: Path, content: str) -> None:
    root = put(tmp_path, MACHINE | {f"{CPU}/isolated": content})
    found = topology(root)
    assert [cpu.number for cpu in found.cpus] == [0, 1, 2, 3]
    assert not any(cpu.isolated for cpu in found.cpus)
    assert bool(found.troubles) == (content in ("x", "0-4294967295"))


@pytest.mark.parametrize(("online", "taken"), [("+7", [0, 1, 2, 3]), ("0-1,7", [0, 1])])
def test_processors_that_are_not_there_are_not_taken(
    tmp_path: Path, online: str, taken: list[int]
) -> None:
    found = topology(put(tmp_path, MACHINE | {f"{CPU}/online": online}))
    assert [cpu.number for cpu in found.cpus] == taken
    assert len(found.troubles) == 1


def test_processors_are_counted_where_their_list_is_odd(tmp_path: Path) -> None:
    root = put(tmp_path, MACHINE | {f"{CPU}/online": "-1", f"{NODE}/node1/cpulist": "?"})
    found = topology(root)
    assert [cpu.number for cpu in found.cpus] == [0, 1, 2, 3]
    assert [cpu.node for cpu in found.cpus] == [0, 0, 0, 0]
    assert len(found.troubles) == 2
    facts = cpu_facts(sys=root / "sys", proc=root / "proc")
    assert facts["topology"]["unreadable"] == list(found.troubles)


@pytest.mark.parametrize("line", ["", "0", "0:", "no colons", ":::", "1:cpuset", "\xff"])
def test_a_cgroup_line_without_its_colons_is_none(tmp_path: Path, line: str) -> None:
    root = put(tmp_path, MACHINE | {"proc/self/cgroup": f"{line}\n0::/a\n"})
    put(root, {"sys/fs/cgroup/a/cpuset.cpus.effective": "1-2"})
    assert [cpu.number for cpu in topology(root).allowed] == [1, 2]


def test_numbers_of_cores_that_stand_for_none(tmp_path: Path) -> None:
    odd_ones = {
        f"{CPU}/cpu{n}/topology/{name}": text
        for n, (name, text) in enumerate(
            [
                ("core_id", "-1"),
                ("core_id", "4294967295"),
                ("physical_package_id", "-1"),
                ("physical_package_id", "9" * 5000),
            ]
        )
    }
    cpus = topology(put(tmp_path, MACHINE | odd_ones)).cpus
    assert [cpu.core for cpu in cpus] == [0, 1, 0, 1]
    assert [cpu.package for cpu in cpus] == [0, 0, NO_PACKAGE, NO_PACKAGE]


def test_siblings_are_those_that_either_names(tmp_path: Path) -> None:
    lists = {
        f"{CPU}/cpu0/topology/core_cpus_list": "0,2",
        f"{CPU}/cpu2/topology/core_cpus_list": "x",
    }
    cpus = topology(put(tmp_path, MACHINE | lists)).cpus
    assert [cpu.siblings for cpu in cpus] == [(0, 2), (1,), (0, 2), (3,)]


@pytest.mark.parametrize("mask", ["", "(null)", "x", "0x", "-1"])
def test_what_is_no_mask_has_no_processors(mask: str) -> None:
    assert parse_mask(mask) == set()


def test_an_odd_interrupt_is_none_of_the_others(tmp_path: Path) -> None:
    files = {
        "irq/1/smp_affinity_list": "(null)",
        "irq/2/smp_affinity_list": "0-x",
        "irq/3/smp_affinity_list": "1",
        "irq/1x/smp_affinity_list": "1",
    }
    assert interrupts_on([1], proc=put(tmp_path, files)) == {3: ""}


def test_a_users_list_has_a_limit() -> None:
    with pytest.raises(HostError, match="is not a list of CPUs"):
        parse_cpus("0-4294967295")


def test_reading_waits_for_nothing_and_has_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert read_file(tmp_path / "fifo") == ""
    (tmp_path / "odd").write_bytes(b"\xff\xfe1")
    assert read_file(tmp_path / "odd").endswith("1")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(MOST_OCTETS + 1)
    monkeypatch.setattr(linux, "MOST_OCTETS", 1 << 20)
    with pytest.raises(OSError, match="longer than 1 MiB"):
        read_file(tmp_path / "huge")
    assert is_unknown(file_number(tmp_path / "huge"))


def test_one_device_that_cannot_be_read_costs_no_other(tmp_path: Path) -> None:
    second = {name.replace("3b", "5e"): text for name, text in MACHINE.items() if NIC in name}
    first = {
        f"{NIC}/numa_node": "\xff",
        f"{NIC}/sriov_numvfs": "-1",
        f"{NIC}/sriov_totalvfs": "9" * 99,
    }
    root = put(tmp_path, MACHINE | second | first)
    (root / NIC / "iommu_group").symlink_to(root / "sys/kernel/iommu_groups/odd")
    (root / "sys/kernel/iommu_groups/odd").mkdir(parents=True)
    one, other = pci.nics(sys=root / "sys")
    assert (one.node, one.vfs, one.max_vfs, one.iommu_group) == (-1, 0, 0, None)
    assert (other.node, other.vfs, other.max_vfs) == (1, 2, 64)


@pytest.mark.parametrize("speed", ["-1", "0", "65535", "4294967295", "-2147483648", "x", ""])
def test_speeds_that_stand_for_none_are_no_numbers(tmp_path: Path, speed: str) -> None:
    files = {
        "sys/class/net/ens1/speed": speed,
        f"{NIC}/current_link_width": "255",
        f"{NIC}/max_link_width": "0",
    }
    root = put(tmp_path, MACHINE | files)
    [nic] = nic_facts(sys=root / "sys", proc=root / "proc")
    assert is_unknown(nic["speed_mbps"])
    assert is_unknown(nic["link_width"])
    assert is_unknown(nic["max_link_width"])


@pytest.mark.parametrize("khz", ["0", "4294967295"])
def test_a_frequency_that_stands_for_none_is_no_number(tmp_path: Path, khz: str) -> None:
    root = put(tmp_path, MACHINE | {f"{CPU}/cpu1/cpufreq/cpuinfo_max_freq": khz})
    found = cpu_facts(sys=root / "sys", proc=root / "proc")["max_khz"]
    assert found["3000000"] == "0,2-3"
    assert [is_unknown(value) for value in found] == [False, True]


def status(tmp_path: Path, *entries: str) -> Path:
    (tmp_path / "status").write_text("\n\n".join(entries) + "\n\n")
    return tmp_path / "status"


@pytest.mark.parametrize(
    ("words", "version"),
    [
        ("install ok installed", "3.3.0"),
        ("hold ok installed", "3.3.0"),
        ("install reinstreq installed", "3.3.0"),
        ("deinstall ok installed", "3.3.0"),
        ("hold ok triggers-pending", "3.3.0"),
        ("hold ok config-files", "not installed"),
        ("install ok half-installed", "not installed"),
        ("install ok not-installed", "not installed"),
        ("installed", "not installed"),
        ("", "not installed"),
    ],
)
def test_the_third_word_of_a_packages_status_counts(
    tmp_path: Path, words: str, version: str
) -> None:
    path = status(
        tmp_path,
        f"Package: openvswitch-switch-dpdk\nStatus: {words}\nVersion: 3.3.0",
        "Package: ip\nStatus: install ok installed\nVersion: 6",
    )
    programs = (Program(name="ovs", package="openvswitch-switch-dpdk", software="ovs"),)
    assert software_facts(programs, {}, dpkg_status=path)["ovs"] == version


def test_a_package_of_several_architectures_is_the_one_that_is_there(tmp_path: Path) -> None:
    path = status(
        tmp_path,
        "Package: dpdk\nStatus: deinstall ok config-files\nArchitecture: i386\nVersion: 1",
        "Package: dpdk\nStatus: hold ok installed\nArchitecture: amd64\nVersion: 2",
    )
    (tmp_path / "info").mkdir()
    (tmp_path / "info/dpdk.list").write_bytes(b"/opt/x\n\xff\n")
    found = owning_packages(["/opt/x"], info=tmp_path / "info", status=path)
    assert found == {"/opt/x": "dpdk 2"}


@pytest.mark.parametrize(
    ("compiler", "expected"),
    [
        (
            "(Debian clang version 16.0.6 (15~deb12u1), Debian LLD 16.0.6)",
            "Debian clang version 16.0.6 (15~deb12u1)",
        ),
        (
            "(Ubuntu clang version 14.0.0-1ubuntu1.1, GNU ld (GNU Binutils) 2.38)",
            "Ubuntu clang version 14.0.0-1ubuntu1.1",
        ),
        (
            "(Android (10087095, +pgo, based on r487747c) clang version 17.0.2, LLD 17.0.2)",
            "Android (10087095, +pgo, based on r487747c) clang version 17.0.2",
        ),
        (
            "(gcc version 4.8.5 20150623 (Red Hat 4.8.5-44) (GCC) )",
            "gcc version 4.8.5 20150623 (Red Hat 4.8.5-44) (GCC)",
        ),
        (
            "(x86_64-linux-gnu-gcc-13 (Ubuntu 13.2.0-23ubuntu4) 13.2.0, GNU ld 2.42)",
            "x86_64-linux-gnu-gcc-13 (Ubuntu 13.2.0-23ubuntu4) 13.2.0",
        ),
        (
            "(x86_64-conda-linux-gnu-gcc (GCC) 12.3.0, GNU ld 2)",
            "x86_64-conda-linux-gnu-gcc (GCC) 12.3.0",
        ),
    ],
)
def test_the_compiler_of_a_kernel_with_a_vendor_before_it(compiler: str, expected: str) -> None:
    version = f"Linux version 6.6.1 (me@gcc-box) {compiler} #1 SMP (x)"
    assert find_compiler(version) == expected


@given(st.text(alphabet="()@, gclanx1", max_size=60))
def test_no_version_of_a_kernel_breaks_it(text: str) -> None:
    assert find_compiler(text)


CPUINFO = {
    "POWER": (
        "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t: 3800.0MHz\n"
        "revision\t: 2.2 (pvr 004e 1202)\n\nprocessor\t: 4\n"
        "cpu\t\t: POWER9, altivec supported\n\ntimebase\t: 512000000\nplatform\t: PowerNV\n",
        "POWER9, altivec supported",
        {"altivec"},
    ),
    "RISC-V": (
        "processor\t: 0\nhart\t\t: 0\nisa\t\t: rv64imafdcv_zicbom_zba_zbb\nuarch\t: thead,c920\n",
        "thead,c920",
        {"v", "zba", "zbb", "zicbom"},
    ),
    "RISC-V without uarch": ("processor : 0\nisa : rv64imac\n", "rv64imac", set()),
    "LoongArch": (
        "system type\t\t: generic-loongson-machine\n\nprocessor\t\t: 0\n"
        "Model Name\t\t: Loongson-3A5000-HV\nFeatures\t\t: cpucfg lam fpu lsx lasx\n",
        "Loongson-3A5000-HV",
        {"lsx", "lasx"},
    ),
    "s390x": (
        "vendor_id       : IBM/S390\n# processors    : 1\nfeatures\t: esan3 zarch vx vxe\n"
        "processor 0: version = 00,  identification = 0B1234,  machine = 8561\n"
        "processor 1: version = 00,  identification = 1B1234,  machine = 8561\n\n"
        "cpu number      : 0\nversion         : 00\nmachine         : 8561\n",
        "machine 8561",
        {"vx", "vxe"},
    ),
    "Arm": (
        "processor\t: 0\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n",
        "implementer 0x41 part 0xd0c",
        {"asimd", "sve"},
    ),
    "x86": (
        "processor\t: 0\nmodel name\t: A CPU\nflags\t\t: avx2 vmx\n",
        "A CPU",
        {"avx2", "vmx"},
    ),
}


@pytest.mark.parametrize("architecture", CPUINFO)
def test_processors_of_every_architecture_have_a_model(tmp_path: Path, architecture: str) -> None:
    text, model, flags = CPUINFO[architecture]
    root = put(tmp_path, MACHINE | {"proc/cpuinfo": text})
    found = cpu_facts(sys=root / "sys", proc=root / "proc")
    assert found["model"] == model
    assert set(found["flags"]) == flags if flags else isinstance(found["flags"], list)


def test_cores_of_several_kinds_are_told_the_fastest_first(tmp_path: Path) -> None:
    parts = ["0xd03", "0xd03", "0xd08", "0xd08"]
    info = "\n\n".join(
        f"processor\t: {n}\nFeatures\t: fp asimd{' sve' * (n > 1)}\nCPU implementer\t: 0x41\n"
        f"CPU part\t: {part}"
        for n, part in enumerate(parts)
    )
    files = {f"{CPU}/cpu{n}/cpu_capacity": "381" if n < 2 else "1024" for n in range(4)}
    root = put(tmp_path, MACHINE | files | {"proc/cpuinfo": info})
    assert [cpu.kind for cpu in topology(root).cpus] == [1, 1, 0, 0]
    found = cpu_facts(sys=root / "sys", proc=root / "proc")
    little, big = (f"implementer 0x41 part {part}" for part in ("0xd03", "0xd08"))
    assert found["model"] == f"{little} (0-1); {big} (2-3)"
    assert found["topology"]["kinds"] == [f"2-3: {big}", f"0-1: {little}"]
    assert cpu_flags(proc=root / "proc") == {"fp", "asimd"}  # what all have


@pytest.mark.parametrize(
    ("speeds", "kinds"),
    [
        ({"cpufreq/cpuinfo_max_freq": [4900000, 5100000, 4900000, 4900000]}, [0, 0, 0, 0]),
        ({"cpufreq/cpuinfo_max_freq": [5100000, 5100000, 3500000, 3500000]}, [0, 0, 1, 1]),
        ({"cpufreq/base_frequency": [2700000, 2100000, 2700000, 2100000]}, [0, 1, 0, 1]),
        ({"cpu_capacity": [1024, 1009, 560, 560]}, [0, 0, 1, 1]),
        ({"cpu_capacity": [1024, 0, -1, 1024]}, [0, 0, 0, 0]),  # not known of two
        ({}, [0, 0, 0, 0]),
    ],
)
def test_kinds_of_cores_by_what_the_kernel_knows_of_their_speed(
    tmp_path: Path, speeds: dict[str, list[int]], kinds: list[int]
) -> None:
    files = {
        f"{CPU}/cpu{n}/{name}": str(v) for name, vs in speeds.items() for n, v in enumerate(vs)
    }
    assert [cpu.kind for cpu in topology(put(tmp_path, MACHINE | files)).cpus] == kinds


def test_kinds_of_cores_of_one_x86_processor(tmp_path: Path) -> None:
    files = {
        "sys/devices/cpu_core/cpus": "0-1",
        "sys/devices/cpu_atom/cpus": "2-3",
        **{f"{CPU}/cpu{n}/cpufreq/cpuinfo_max_freq": "3800000" for n in (2, 3)},
        **{f"{CPU}/cpu{n}/cpufreq/cpuinfo_max_freq": "5100000" for n in (0, 1)},
    }
    root = put(tmp_path, MACHINE | files)
    assert [cpu.kind for cpu in topology(root).cpus] == [0, 0, 1, 1]
    found = cpu_facts(sys=root / "sys", proc=root / "proc")
    assert found["model"] == "A CPU"
    assert found["topology"]["kinds"] == ["0-1: A CPU (cpu_core)", "2-3: A CPU (cpu_atom)"]


@pytest.mark.parametrize(
    ("files", "turbo"),
    [
        (
            {
                "cpufreq/boost": "1",
                "cpufreq/policy0/boost": "0",
                "cpufreq/policy1/boost": "0",
                "cpu0/cpufreq/boost": "0",
                "cpu1/cpufreq/boost": "0",
            },
            "off",
        ),
        ({"cpu0/cpufreq/boost": "0", "cpu1/cpufreq/boost": "0"}, "off"),
        ({"cpu0/cpufreq/boost": "1", "cpu1/cpufreq/boost": "0"}, "on (0); off (1)"),
        (
            {
                "cpufreq/policy0/boost": "1",
                "cpufreq/policy0/affected_cpus": "0 1",
                "cpufreq/policy2/boost": "0",
                "cpufreq/policy2/affected_cpus": "2 3",
            },
            "on (0-1); off (2-3)",
        ),
        ({"cpufreq/boost": "0", "cpu0/cpufreq/boost": "1"}, "off"),
        ({"cpufreq/boost": "1"}, "on"),
        ({"intel_pstate/no_turbo": "1", "cpufreq/boost": "1"}, "off"),
        ({"intel_pstate/no_turbo": "0"}, "on"),
        ({"intel_pstate/no_turbo": "(null)"}, None),
        ({"cpufreq/boost": "2"}, None),
        ({"cpu0/cpufreq/boost": "-1"}, None),
        ({}, None),
    ],
)
def test_turbo_is_what_each_processor_has(
    tmp_path: Path, files: dict[str, str], turbo: str | None
) -> None:
    plain = {name: text for name, text in MACHINE.items() if not name.endswith("boost")}
    root = put(tmp_path, plain | {f"{CPU}/{name}": text for name, text in files.items()})
    found = cpu_facts(sys=root / "sys", proc=root / "proc")["turbo"]
    assert is_unknown(found) if turbo is None else found == turbo


def test_a_sleep_that_some_processors_lack_is_told(tmp_path: Path) -> None:
    files = {
        f"{CPU}/cpu2/cpuidle/state0/disable": "1",
        f"{CPU}/cpu3/cpuidle/state0/disable": "\xff",
        f"{CPU}/cpu1/cpuidle/state1/name": "C6",
        f"{CPU}/cpu1/cpuidle/state1/disable": "1",
    }
    root = put(tmp_path, MACHINE | files)
    states = cpu_facts(sys=root / "sys", proc=root / "proc")["idle_states"]
    one, two, three = states["C1"].split("; ")
    assert (one, two) == ("exit latency 2 us (0-1)", "disabled (2)")
    assert three.startswith("exit latency 2 us, ")
    assert three.endswith("(3)")
    assert states["C6"] == "not there (0,2-3); disabled (1)"


SECURED = {
    "sys/kernel/security/lsm": "lockdown,capability,selinux",
    "sys/kernel/security/lockdown": "none [integrity] confidentiality",
    "sys/fs/selinux/enforce": "1",
    "proc/self/attr/current": "system_u:system_r:init_t:s0\0",
    "proc/self/status": "Seccomp:\t2\nCapEff:\t00000000a80425fb\nCapBnd:\t00000000a80425fb\n"
    "CapAmb:\t0000000000000000\n",
    "proc/self/uid_map": "0 100000 65536",
    "proc/net/ip_tables_names": "filter\nnat\n",
    "proc/sys/net/netfilter/nf_conntrack_count": "17",
    "sys/module/nf_conntrack/parameters/hashsize": "1",
}


def test_what_may_refuse_or_slow_down_a_run_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    root = put(tmp_path, SECURED)
    facts = security_facts(sys=root / "sys", proc=root / "proc")
    assert facts["lockdown"] == "integrity"
    assert facts["selinux"] == "enforcing"
    assert facts["apparmor"] == "not in use"
    assert facts["confined_as"] == "system_u:system_r:init_t:s0"
    assert facts["seccomp"] == "filter"
    assert facts["user_namespace"] == "another"
    assert "CAP_NET_ADMIN" in facts["capabilities"]
    assert "CAP_CHOWN" not in facts["capabilities"]
    assert facts["netfilter"]["modules"] == ["nf_conntrack"]
    assert facts["netfilter"]["tables"] == {"IPv4": "filter nat"}
    assert facts["netfilter"]["connections"] == "17"
    assert is_unknown(facts["netfilter"]["hooks"])


def test_security_that_cannot_be_seen_is_unknown_and_not_off(tmp_path: Path) -> None:
    facts = security_facts(sys=tmp_path / "sys", proc=tmp_path / "proc")
    plain = {name: value for name, value in facts.items() if name != "netfilter"}
    assert all(map(is_unknown, plain.values())), plain


def hook(place: bytes, kind: int = 12 << 8) -> bytes:
    body = b"\x02\x00\x00\x00" + place
    return (16 + len(body)).to_bytes(4, "little") + kind.to_bytes(2, "little") + bytes(10) + body


def attribute(number: int, text: bytes) -> bytes:
    whole = (4 + len(text)).to_bytes(2, "little") + number.to_bytes(2, "little") + text
    return whole + bytes(-len(whole) % 4)


def test_hooks_of_netfilter_by_place() -> None:
    done = (20).to_bytes(4, "little") + (3).to_bytes(2, "little") + bytes(14)
    tracked = attribute(4, b"ipv4_conntrack_in\0") + attribute(5, b"nf_conntrack\0")
    answer = [hook(tracked) + hook(attribute(4, b"nft_do_chain_ipv4\0")), done]

    def read(family: int, place: int) -> list[dict[int, bytes]]:
        return list(parse_hooks(answer)) if (family, place) == (2, 0) else []

    assert filter_hooks(read) == {
        "IPv4 prerouting": "ipv4_conntrack_in (nf_conntrack), nft_do_chain_ipv4"
    }


def test_a_kernel_that_does_not_list_hooks_says_so() -> None:
    refused = hook((-22).to_bytes(4, "little", signed=True), kind=2)
    refused = refused[:16] + (-22).to_bytes(4, "little", signed=True)
    with pytest.raises(OSError, match="EINVAL"):
        list(parse_hooks([refused]))


@given(st.lists(st.binary(max_size=80), max_size=3))
def test_no_answer_of_the_kernel_breaks_the_reading_of_hooks(answers: list[bytes]) -> None:
    with contextlib.suppress(OSError):
        for found in parse_hooks(answers):
            assert isinstance(found, dict)


EVERY = "000001ffffffffff"
#: A container's usual ones, and the same with CAP_NET_ADMIN and CAP_SYS_ADMIN.
FEW, ADMIN = "00000000a80425fb", "00000000a82435fb"


@pytest.mark.parametrize(
    ("user", "held", "lacking"),
    [
        (0, (EVERY, EVERY, "0"), ()),
        (0, (FEW, FEW, "0"), ("CAP_NET_ADMIN", "CAP_SYS_ADMIN")),
        (0, (ADMIN, ADMIN, "0"), ()),
        (0, (EVERY, FEW, "0"), ("CAP_NET_ADMIN", "CAP_SYS_ADMIN")),  # what it starts has none
        (1000, (EVERY, EVERY, EVERY), ()),
        (1000, (EVERY, EVERY, FEW), ("CAP_NET_ADMIN", "CAP_SYS_ADMIN")),
        (0, ("?", "?", "?"), ()),  # not known: the user's number counts
    ],
)
def test_capabilities_decide_and_not_the_users_number(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    user: int,
    held: tuple[str, str, str],
    lacking: tuple[str, ...],
) -> None:
    """Effective ones, those of the bounding set, ambient ones."""
    monkeypatch.setattr("os.geteuid", lambda: user)
    names = ("CapEff", "CapBnd", "CapAmb")
    text = "".join(f"{name}:\t{value}\n" for name, value in zip(names, held, strict=True))
    assert missing_capabilities(proc=put(tmp_path, {"self/status": text})) == lacking


@pytest.mark.parametrize(
    ("user", "lacking", "root"), [(0, (), True), (0, ("CAP_NET_ADMIN",), False), (1000, (), False)]
)
def test_root_is_user_0_with_capabilities(
    monkeypatch: pytest.MonkeyPatch, user: int, lacking: tuple[str, ...], *, root: bool
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr(linux, "missing_capabilities", lambda: lacking)
    assert linux.is_root() == root


def test_the_capabilities_of_this_process_are_known() -> None:
    held = read_capabilities()
    assert held is not None
    assert held <= set(linux.CAPABILITIES)
    assert ("NET_ADMIN" in held) or not linux.is_root()


@pytest.mark.parametrize(
    "text",
    [
        *("To Be Filled By O.E.M.", "Default string", "System Serial Number", "Not Specified"),
        *("0123456789", "123456789", "00000000", "N/A", "None", "xxxx", "..........", "FFFFFFFF"),
    ],
)
def test_a_number_that_nobody_filled_in_is_no_machines(tmp_path: Path, text: str) -> None:
    """Two machines that have it would be one in comparisons and trends."""
    files = {"sys/class/dmi/id/product_serial": text, "sys/class/dmi/id/board_name": "X12SPL"}
    facts = firmware_facts(sys=put(tmp_path, files) / "sys")
    assert is_unknown(facts["serial"])
    assert facts["board"] == "X12SPL"


@pytest.mark.parametrize("version", ["", "N/A", "0.0"])
def test_firmware_that_a_driver_does_not_know_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr("vnetperf.host.ethtool.firmware_version", lambda name: version)
    root = put(tmp_path, MACHINE)
    [nic] = nic_facts(sys=root / "sys", proc=root / "proc")
    assert is_unknown(nic["firmware"])


@given(odd.contents)
def test_a_number_is_one_or_the_default(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "value"
        path.write_bytes(content)
        number = read_number(path, 7, most=100)
        assert number == 7 or (0 <= number <= 100 and str(number).encode() in content)
        with contextlib.suppress(HostError):
            assert number in (need_number(path), 7)


def test_what_needs_a_number_names_the_file_without_one(tmp_path: Path) -> None:
    (tmp_path / "value").write_bytes(b"(null)\n")
    with pytest.raises(HostError) as caught:
        need_number(tmp_path / "value")
    assert caught.value.where == str(tmp_path / "value")
