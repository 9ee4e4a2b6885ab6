"""Facts of CPU, kernel, distribution, firmware and virtualisation."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vnetperf.host import kernel
from vnetperf.host.cpu import CpuTopology, format_cpus, read_topology
from vnetperf.host.facts import attempt, file_text, is_unknown, unknown

# What decides the speed of data planes: vector units, sleeping, timers, address translation.
FLAGS_OF_INTEREST = (
    *("sse4_2", "avx2", "avx512f", "avx512bw", "avx512_vbmi2", "vaes", "vpclmulqdq", "gfni"),
    *("asimd", "sve", "sve2", "pdpe1gb", "constant_tsc", "nonstop_tsc", "rdtscp", "waitpkg"),
    *("movdir64b", "cldemote", "hypervisor", "vmx", "svm"),
)


def cpu_facts(*, sys: Path, proc: Path) -> dict[str, Any]:
    """Facts about the CPUs as plain values; frequencies in kHz."""
    info = _cpuinfo(proc)
    cpu = sys / "devices/system/cpu"
    flags = (info.get("flags") or info.get("Features") or "").split()
    facts: dict[str, Any] = {
        "model": info.get("model name") or _arm_model(info),
        "microcode": info.get("microcode") or unknown("/proc/cpuinfo does not state it"),
        "flags": [flag for flag in FLAGS_OF_INTEREST if flag in flags]
        if flags
        else unknown("/proc/cpuinfo lists no flags"),
        "smt_control": file_text(cpu / "smt/control"),
        "topology": attempt(lambda: _topology_facts(read_topology(sys=sys, proc=proc))),
        "governors": _per_cpu(cpu, "cpufreq/scaling_governor"),
        "frequency_driver": _per_cpu(cpu, "cpufreq/scaling_driver"),
        "max_khz": _per_cpu(cpu, "cpufreq/cpuinfo_max_freq"),
        "allowed_min_khz": _per_cpu(cpu, "cpufreq/scaling_min_freq"),
        "allowed_max_khz": _per_cpu(cpu, "cpufreq/scaling_max_freq"),
        "energy_preference": _per_cpu(cpu, "cpufreq/energy_performance_preference"),
        "turbo": _turbo(cpu),
        "idle_driver": file_text(cpu / "cpuidle/current_driver"),
        "idle_governor": file_text(cpu / "cpuidle/current_governor_ro"),
        "idle_states": attempt(lambda: _idle_states(cpu)),
    }
    return facts


def has_flag(flag: str, *, proc: Path = Path("/proc")) -> bool:
    """Whether the CPU has a feature: "svm", "vmx"."""
    return flag in _cpuinfo(proc).get("flags", "").split()


def _topology_facts(topology: CpuTopology) -> dict[str, Any]:
    return {
        "online": format_cpus(cpu.number for cpu in topology.cpus),
        "allowed": format_cpus(cpu.number for cpu in topology.allowed),
        "isolated": format_cpus(cpu.number for cpu in topology.cpus if cpu.isolated),
        "packages": len({cpu.package for cpu in topology.cpus}),
        "cores": len({cpu.siblings for cpu in topology.cpus}),
        "smt": topology.smt,
        **({"siblings": _siblings(topology)} if topology.smt else {}),
        "numa": {
            f"node{node}": format_cpus(cpu.number for cpu in topology.cpus if cpu.node == node)
            for node in topology.nodes
        },
    }


def _siblings(topology: CpuTopology) -> list[str]:
    """Hardware threads of each core that has several."""
    groups = dict.fromkeys(cpu.siblings for cpu in topology.cpus if len(cpu.siblings) > 1)
    return [format_cpus(group) for group in groups]


def _cpuinfo(proc: Path) -> dict[str, str]:
    """The first processor's entries; the others are of the same kind."""
    try:
        text = (proc / "cpuinfo").read_text(errors="replace")
    except OSError:
        return {}
    entries = {}
    for line in text.split("\n\n", maxsplit=1)[0].splitlines():
        name, _, value = line.partition(":")
        entries[name.strip()] = value.strip()
    return entries


def _arm_model(info: dict[str, str]) -> str:
    if "CPU implementer" in info:
        return f"implementer {info['CPU implementer']} part {info.get('CPU part', '?')}"
    return unknown("/proc/cpuinfo names no model")


def _per_cpu(cpu: Path, name: str) -> Any:
    """One value when all CPUs agree, else the CPUs of each value."""
    values: dict[str, list[int]] = {}
    for path in cpu.glob(f"cpu[0-9]*/{name}"):
        number = int(path.relative_to(cpu).parts[0].removeprefix("cpu"))
        values.setdefault(file_text(path), []).append(number)
    if not values:
        return unknown(f"no {name}: the firmware or the hypervisor decides")
    if len(values) == 1:
        return next(iter(values))
    return {value: format_cpus(numbers) for value, numbers in values.items()}


def _turbo(cpu: Path) -> str:
    for path, on in ((cpu / "intel_pstate/no_turbo", "0"), (cpu / "cpufreq/boost", "1")):
        text = file_text(path)
        if not is_unknown(text):
            return "on" if text == on else "off"
    return unknown("neither intel_pstate nor cpufreq/boost is there")


def _idle_states(cpu: Path) -> Any:
    states = {}
    for path in sorted(cpu.glob("cpu0/cpuidle/state[0-9]*")):
        disabled = file_text(path / "disable") != "0"
        latency = file_text(path / "latency")
        states[file_text(path / "name")] = "disabled" if disabled else f"exit latency {latency} us"
    return states or unknown("no cpuidle states of cpu0")


# What firmware calls itself, in the order in which systemd-detect-virt looks too. These names are
# borne by virtual machines alone.
_DMI_HYPERVISORS = (
    ("KVM", "kvm"),
    ("OpenStack", "kvm"),
    ("QEMU", "qemu"),
    ("VMware", "vmware"),
    ("VirtualBox", "virtualbox"),
    ("innotek GmbH", "virtualbox"),
    ("Xen", "xen"),
    ("Parallels", "parallels"),
    ("Hyper-V", "microsoft"),
    ("Virtual Machine", "microsoft"),
    ("Firecracker", "firecracker"),
    ("BHYVE", "bhyve"),
)
# These are borne by whole servers that the same clouds let, too.
_DMI_CLOUDS = (("Amazon EC2", "amazon"), ("Google Compute Engine", "google"))
# By the node "hypervisor" of the device tree, whose "compatible" begins with these.
_TREE_HYPERVISORS = (("linux,kvm", "kvm"), ("xen", "xen"), ("vmware", "vmware"))
UNNAMED_HYPERVISOR = "a hypervisor that does not report its name"


def kernel_facts(*, sys: Path, proc: Path) -> dict[str, Any]:
    """Release, command line, mitigations, clock."""
    clock = sys / "devices/system/clocksource/clocksource0"
    return {
        "release": file_text(proc / "sys/kernel/osrelease"),
        "version": file_text(proc / "sys/kernel/version"),
        "compiler": _compiler(file_text(proc / "version")),
        "cmdline": file_text(proc / "cmdline"),
        "boot_options": kernel.boot_options(file_text(proc / "cmdline")),
        "vulnerabilities": attempt(lambda: _vulnerabilities(sys)),
        "clocksource": file_text(clock / "current_clocksource"),
        "clocksources": file_text(clock / "available_clocksource"),
        "clock_offset": attempt(lambda: _clock_offset(read_topology(sys=sys, proc=proc))),
        "preempt": attempt(lambda: _preempt(sys, proc)),
        "transparent_hugepages": file_text(sys / "kernel/mm/transparent_hugepage/enabled"),
        "numa_balancing": file_text(proc / "sys/kernel/numa_balancing"),
        "iommu_groups": attempt(lambda: len(list((sys / "kernel/iommu_groups").glob("*")))),
    }


def _clock_offset(topology: CpuTopology) -> str:
    sockets = len({cpu.package for cpu in topology.cpus})
    if sockets == 1:
        return "one socket"
    return (
        f"{sockets} sockets: generators measure it where they use several "
        "(facts.generator, clock offset between sockets)"
    )


def release_of(text: str) -> dict[str, Any]:
    """Name and version of a distribution, by its os-release."""
    if is_unknown(text):
        return {"name": text, "id": text, "version": text}
    entries = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
    missing = unknown("os-release does not state it")
    return {
        name: entries.get(key, missing).strip("\"'") or missing
        for name, key in (("name", "PRETTY_NAME"), ("id", "ID"), ("version", "VERSION_ID"))
    }


def firmware_facts(*, sys: Path) -> dict[str, Any]:
    """Board and BIOS, from DMI."""
    dmi = sys / "class/dmi/id"
    names = {
        "system_vendor": "sys_vendor",
        "product": "product_name",
        "serial": "product_serial",
        "board_vendor": "board_vendor",
        "board": "board_name",
        "board_version": "board_version",
        "bios_vendor": "bios_vendor",
        "bios_version": "bios_version",
        "bios_release": "bios_release",
        "bios_date": "bios_date",
    }
    there = dmi.is_dir()
    why = unknown("the firmware gives no DMI tables")
    facts = {name: file_text(dmi / file) if there else why for name, file in names.items()}
    changed = unknown("no file has the settings of the firmware: put changed ones into the notes")
    return facts | {"bios_changes": changed}


def virtualisation(*, sys: Path, proc: Path, vm_bit: bool | None = None) -> str:
    """``none``, or what runs this machine, as far as processor, kernel and firmware report it.

    Args:
        sys: Where sysfs is.
        proc: Where procfs is.
        vm_bit: What the firmware's tables state of being those of a virtual machine; None where
            they cannot be read.
    """
    is_guest = _is_guest(proc)
    if name := _container_name(proc) or _tree_hypervisor(sys) or _firmware(sys, is_guest, vm_bit):
        return name
    if (sys / "hypervisor/type").exists():
        return file_text(sys / "hypervisor/type")
    if is_guest:
        return UNNAMED_HYPERVISOR
    if not _cpuinfo(proc):
        return unknown("no hypervisor is named, and /proc/cpuinfo cannot be read")
    return "none"


def is_virtual(*, sys: Path = Path("/sys"), proc: Path = Path("/proc")) -> bool:
    """Whether a hypervisor is known to run this machine, as far as processor and kernel tell."""
    told = _is_guest(proc)
    return bool(_tree_hypervisor(sys)) if told is None else told


def _firmware(sys: Path, is_guest: bool | None, vm_bit: bool | None) -> str:
    """Who runs this machine by the names of its firmware; "" where they name nobody."""
    dmi = sys / "class/dmi/id"
    names = " ".join(
        file_text(dmi / name)
        for name in ("product_name", "sys_vendor", "board_vendor", "bios_vendor")
        if (dmi / name).exists()
    )
    named, cloud = _named(names, _DMI_HYPERVISORS), _named(names, _DMI_CLOUDS)
    if not cloud:
        return named
    is_guest = vm_bit if is_guest is None else is_guest
    if is_guest is None:
        why = f"the firmware is that of {cloud}, which lets virtual machines and whole servers"
        return named or unknown(why)
    return (named or cloud) if is_guest else ""


def _is_guest(proc: Path) -> bool | None:
    """Whether the processor says that a hypervisor runs it; None on those that do not tell."""
    flags = _cpuinfo(proc).get("flags", "").split()  # x86 alone has a flag for it
    return "hypervisor" in flags if flags else None


def _named(text: str, marks: Iterable[tuple[str, str]]) -> str:
    found = (name for mark, name in marks if re.search(rf"\b{re.escape(mark)}\b", text))
    return next(found, "")


def _tree_hypervisor(sys: Path) -> str:
    """Who runs a machine that the device tree describes; "" where it names nobody."""
    tree = sys / "firmware/devicetree/base"
    if not (tree / "hypervisor").exists():
        # QEMU names itself in the root, and has a device for its own firmware.
        qemu = "qemu" in file_text(tree / "compatible") or any(tree.glob("fw-cfg@*"))
        return "qemu" if qemu else ""
    text = file_text(tree / "hypervisor/compatible")
    found = (name for mark, name in _TREE_HYPERVISORS if text.startswith(mark))
    return next(found, UNNAMED_HYPERVISOR)


def _container_name(proc: Path) -> str:
    """Name of the container engine when the environment of process 1 names one."""
    try:
        environment = (proc / "1/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    for entry in environment:
        if entry.startswith(b"container="):
            return f"container {entry.partition(b'=')[2].decode(errors='replace')}"
    return ""


def _vulnerabilities(sys: Path) -> Any:
    directory = sys / "devices/system/cpu/vulnerabilities"
    found = {path.name: file_text(path) for path in sorted(directory.glob("*"))}
    return found or unknown(f"{directory} is empty")


def _compiler(version: str) -> str:
    """What built the kernel; who did, and on which machine, is nobody's business."""
    if is_unknown(version):
        return version
    found = re.search(r"\(((?:[\w-]*gcc|clang)[^(),]*(?:\([^()]*\))?[^(),]*)", version)
    return found[1].strip() if found else unknown("/proc/version does not state it")


def _preempt(sys: Path, proc: Path) -> str:
    text = file_text(sys / "kernel/debug/sched/preempt")
    if not is_unknown(text):
        return text
    version = file_text(proc / "sys/kernel/version")
    words = [word for word in version.split() if word.startswith("PREEMPT")]
    return words[0] if words else "PREEMPT_NONE or PREEMPT_VOLUNTARY"


def hostname() -> str:
    """Name of this machine."""
    return os.uname().nodename


def uptime(*, proc: Path) -> float | str:
    """Seconds since the machine was started."""
    text = file_text(proc / "uptime")
    return text if is_unknown(text) else round(float(text.split()[0]), 1)
