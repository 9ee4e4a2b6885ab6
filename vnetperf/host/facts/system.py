"""Facts of CPU, kernel, distribution, firmware and virtualisation."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vnetperf.host import kernel
from vnetperf.host.cpu import (
    NO_PACKAGE,
    CpuTopology,
    cpu_flags,
    format_cpus,
    read_cpuinfo,
    read_model_name,
    read_topology,
)
from vnetperf.host.facts import SHOWN, attempt, file_text, is_placeholder, is_unknown, unknown
from vnetperf.host.linux import numbered_entries, parse_number, read_octets

# What decides the speed of data planes: vector units, sleeping, timers, address translation.
FLAGS_OF_INTEREST = (
    *("sse4_2", "avx2", "avx512f", "avx512bw", "avx512_vbmi2", "vaes", "vpclmulqdq", "gfni"),
    *("asimd", "sve", "sve2", "pdpe1gb", "constant_tsc", "nonstop_tsc", "rdtscp", "waitpkg"),
    *("movdir64b", "cldemote", "hypervisor", "vmx", "svm"),
    # Vector units of POWER, s390x, LoongArch and RISC-V.
    *("altivec", "vx", "vxe", "vxe2", "lsx", "lasx", "v", "zvbb", "zba", "zbb", "zicbom"),
)


def cpu_facts(*, sys: Path, proc: Path) -> dict[str, Any]:
    """Facts about the CPUs as plain values; frequencies in kHz."""
    cpu = sys / "devices/system/cpu"
    processors, machine = read_cpuinfo(proc=proc)
    models = {number: read_model_name(entries) for number, entries in processors.items()}
    microcodes = {number: entries.get("microcode", "") for number, entries in processors.items()}
    flags = cpu_flags(proc=proc)
    facts: dict[str, Any] = {
        "model": _describe_values(models)
        or read_model_name(machine)
        or unknown("/proc/cpuinfo names no model"),
        "microcode": _describe_values(microcodes) or unknown("/proc/cpuinfo does not state it"),
        "flags": [flag for flag in FLAGS_OF_INTEREST if flag in flags]
        if flags
        else unknown("/proc/cpuinfo lists no flags"),
        "smt_control": file_text(cpu / "smt/control"),
        "topology": attempt(lambda: _topology_facts(read_topology(sys=sys, proc=proc))),
        "governors": _per_cpu(cpu, "cpufreq/scaling_governor"),
        "frequency_driver": _per_cpu(cpu, "cpufreq/scaling_driver"),
        "max_khz": _khz(cpu, "cpufreq/cpuinfo_max_freq"),
        "allowed_min_khz": _khz(cpu, "cpufreq/scaling_min_freq"),
        "allowed_max_khz": _khz(cpu, "cpufreq/scaling_max_freq"),
        "energy_preference": _per_cpu(cpu, "cpufreq/energy_performance_preference"),
        "turbo": _turbo(cpu),
        "idle_driver": file_text(cpu / "cpuidle/current_driver"),
        "idle_governor": file_text(cpu / "cpuidle/current_governor_ro"),
        "idle_states": attempt(lambda: _idle_states(cpu)),
    }
    return facts


def has_flag(flag: str, *, proc: Path = Path("/proc")) -> bool:
    """Whether the CPU has a feature: "svm", "vmx"."""
    return flag in cpu_flags(proc=proc)


def _describe_values(values: Mapping[int, str]) -> str:
    """What all processors are, or the processors of each value; "" where nothing is known."""
    named: dict[str, list[int]] = {}
    for cpu, value in values.items():
        named.setdefault(value, []).append(cpu)
    if len(named) == 1:
        return next(iter(named))
    return "; ".join(f"{value or 'unknown'} ({format_cpus(cpus)})" for value, cpus in named.items())


def _topology_facts(topology: CpuTopology) -> dict[str, Any]:
    return {
        "online": format_cpus(cpu.number for cpu in topology.cpus),
        "allowed": format_cpus(cpu.number for cpu in topology.allowed),
        "isolated": format_cpus(cpu.number for cpu in topology.cpus if cpu.isolated),
        "packages": _packages(topology) or unknown(NO_PACKAGES),
        "cores": len({cpu.siblings for cpu in topology.cpus}),
        "smt": topology.smt,
        **({"siblings": _siblings(topology)} if topology.smt else {}),
        **({"kinds": kinds} if len(kinds := _kinds(topology)) > 1 else {}),
        **({"unreadable": list(topology.troubles)} if topology.troubles else {}),
        "numa": {
            f"node{node}": format_cpus(cpu.number for cpu in topology.cpus if cpu.node == node)
            for node in topology.nodes
        },
    }


#: Where firmware or hypervisor leave out which socket a processor is in.
NO_PACKAGES = "the kernel does not know the sockets of all processors"


def _packages(topology: CpuTopology) -> int:
    """Sockets with processors; 0 where those of some are not known."""
    packages = {cpu.package for cpu in topology.cpus}
    return 0 if NO_PACKAGE in packages else len(packages)


def _kinds(topology: CpuTopology) -> list[str]:
    """Processors of each kind of core, the fastest first."""
    kinds: dict[int, list[int]] = {}
    for cpu in topology.cpus:
        kinds.setdefault(cpu.kind, []).append(cpu.number)
    models = {cpu.kind: cpu.model for cpu in topology.cpus}
    return [f"{format_cpus(cpus)}: {models[kind]}" for kind, cpus in sorted(kinds.items())]


def _siblings(topology: CpuTopology) -> list[str]:
    """Hardware threads of each core that has several."""
    groups = dict.fromkeys(cpu.siblings for cpu in topology.cpus if len(cpu.siblings) > 1)
    return [format_cpus(group) for group in groups]


def _per_cpu(cpu: Path, name: str) -> Any:
    """One value when all CPUs agree, else the CPUs of each value."""
    values: dict[str, list[int]] = {}
    for number, folder in numbered_entries(cpu, "cpu").items():
        if (folder / name).exists():
            values.setdefault(file_text(folder / name), []).append(number)
    if not values:
        return unknown(f"no {name}: the firmware or the hypervisor decides")
    if len(values) == 1:
        return next(iter(values))
    return {value: format_cpus(numbers) for value, numbers in values.items()}


#: Frequencies in kHz by which the kernel says that it does not know one.
_NO_FREQUENCY = ("0", "4294967295")


def _khz(cpu: Path, name: str) -> Any:
    """A frequency of each CPU, as `_per_cpu` has it."""
    frequencies = _per_cpu(cpu, name)
    none = unknown(f"{name} is no frequency: the driver does not know it")
    if isinstance(frequencies, str):
        return none if frequencies in _NO_FREQUENCY else frequencies
    return {none if value in _NO_FREQUENCY else value: cpus for value, cpus in frequencies.items()}


_ON_OFF = {"1": "on", "0": "off"}


def _turbo(cpu: Path) -> str:
    """Whether processors may run faster than guaranteed.

    `intel_pstate/no_turbo` and `cpufreq/boost` are of all at once. Where each has a `boost` of its
    own (Linux 6.11), that decides, unless the one of all is off.
    """
    machine_boost = file_text(cpu / "cpufreq/boost")
    no_turbo = file_text(cpu / "intel_pstate/no_turbo")
    if no_turbo in _ON_OFF:
        return _ON_OFF[str(1 - int(no_turbo))]
    states = {
        number: _ON_OFF.get(file_text(folder / "cpufreq/boost"), "unknown")
        for number, folder in numbered_entries(cpu, "cpu").items()
        if (folder / "cpufreq/boost").exists()
    }
    for number, policy in numbered_entries(cpu / "cpufreq", "policy").items():
        if (policy / "boost").exists():
            state = _ON_OFF.get(file_text(policy / "boost"), "unknown")
            for processor in _affected(policy) or (number,):
                states.setdefault(processor, state)
    if machine_boost == "0" or not set(states.values()) - {"unknown"}:
        return _ON_OFF.get(machine_boost) or _explain_no_turbo(machine_boost, no_turbo)
    return _describe_values(states)


def _affected(policy: Path) -> tuple[int, ...]:
    """CPUs of a frequency policy: `affected_cpus` has them with blanks between."""
    numbers = map(parse_number, file_text(policy / "affected_cpus").split())
    return tuple(number for number in numbers if number is not None)


def _explain_no_turbo(*texts: str) -> str:
    odd = [text for text in texts if not is_unknown(text)]
    if odd:
        return unknown(f"{odd[0][:SHOWN]!r} is neither 0 nor 1")
    return unknown("neither intel_pstate nor cpufreq/boost is there")


def _idle_states(cpu: Path) -> Any:
    """What each sleep state is, and on which CPUs it is disabled where they differ."""
    states: dict[str, dict[int, str]] = {}
    folders = numbered_entries(cpu, "cpu")
    for number, folder in folders.items():
        for state in numbered_entries(folder / "cpuidle", "state").values():
            disabled = file_text(state / "disable")
            latency = f"exit latency {file_text(state / 'latency')} us"
            word = latency if disabled == "0" else "disabled"
            if parse_number(disabled) is None:
                word = f"{latency}, not known whether disabled"
            states.setdefault(file_text(state / "name"), {})[number] = word
    if not states:
        return unknown("no cpuidle states")
    having = {number for words in states.values() for number in words}
    return {
        name: _describe_values({n: words.get(n, "not there") for n in sorted(having)})
        for name, words in states.items()
    }


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
    ("KubeVirt", "kvm"),
    ("Bochs", "bochs"),
    ("Apple Virtualization", "apple"),
)
# These are borne by whole servers that the same clouds let, too.
_DMI_CLOUDS = (("Amazon EC2", "amazon"), ("Google Compute Engine", "google"))
# By the node "hypervisor" of the device tree, whose "compatible" begins with these.
_TREE_HYPERVISORS = (("linux,kvm", "kvm"), ("xen", "xen"), ("vmware", "vmware"))
#: What boards of virtual machines alone are compatible with: those of Firecracker, kvmtool, crosvm.
_VIRTUAL_BOARD = "linux,dummy-virt"
#: On POWER, what PowerVM tells its partitions in the device tree, and nobody else.
_POWERVM_MARK = "ibm,partition-name"
#: On s390x, who is above this system, by the first of these lines of /proc/sysinfo: a machine runs
#: in a partition at the least.
_SYSINFO = (
    (r"^VM00 Control Program:\s*KVM", "kvm"),
    (r"^VM00 Control Program:\s*z/VM", "zvm"),
    (r"^LPAR Number:", "lpar"),
)
#: Where firmware describes the board.
_BOARDS = ("class/dmi/id", "firmware/devicetree/base")
#: By what the kernel of the Windows Subsystem for Linux calls itself.
_WSL_KERNEL = re.compile(r"\bmicrosoft\b.*\bWSL", re.IGNORECASE)
UNNAMED_HYPERVISOR = "a hypervisor that does not report its name"


def kernel_facts(*, sys: Path, proc: Path) -> dict[str, Any]:
    """Release, command line, mitigations, clock."""
    clock = sys / "devices/system/clocksource/clocksource0"
    return {
        "release": file_text(proc / "sys/kernel/osrelease"),
        "version": file_text(proc / "sys/kernel/version"),
        "compiler": find_compiler(file_text(proc / "version")),
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
    sockets = _packages(topology)
    if sockets == 1:
        return "one socket"
    counted = f"{sockets} sockets" if sockets else unknown(NO_PACKAGES)
    return (
        f"{counted}: generators measure it where they use several "
        "(facts.generator, clock offset between sockets)"
    )


def parse_release(text: str) -> dict[str, Any]:
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
    has_dmi = dmi.is_dir()
    missing = unknown("the firmware gives no DMI tables")
    facts = {name: _dmi_text(dmi / file) if has_dmi else missing for name, file in names.items()}
    changed = unknown("no file has the settings of the firmware: put changed ones into the notes")
    return facts | {"bios_changes": changed}


def _dmi_text(file: Path) -> str:
    text = file_text(file)
    return unknown(f"the firmware has {text!r} for it") if is_placeholder(text) else text


def virtualisation(*, sys: Path, proc: Path, vm_bit: bool | None = None) -> str:
    """``none``, or what runs this machine, as far as processor, kernel and firmware report it.

    Args:
        sys: Where sysfs is.
        proc: Where procfs is.
        vm_bit: What the firmware's tables state of being those of a virtual machine; None where
            they cannot be read.
    """
    is_guest = _is_guest(proc)
    named = _container_name(proc) or _tree_hypervisor(sys) or _above_s390(proc)
    if named := named or _firmware(sys, is_guest, vm_bit):
        return named
    if (sys / "hypervisor/type").exists():
        return file_text(sys / "hypervisor/type")
    if is_guest or (is_guest is None and vm_bit):
        kernel_name = file_text(proc / "sys/kernel/osrelease")
        return "wsl" if _WSL_KERNEL.search(kernel_name) else UNNAMED_HYPERVISOR
    if not any(read_cpuinfo(proc=proc)):
        return unknown("no hypervisor is named, and /proc/cpuinfo cannot be read")
    if is_guest is None and not any((sys / place).is_dir() for place in _BOARDS):
        reason = "its processors do not tell, and it has neither DMI tables nor a device tree"
        return unknown(reason)
    return "none"


def is_virtual(*, sys: Path = Path("/sys"), proc: Path = Path("/proc")) -> bool:
    """Whether a hypervisor is known to run this machine, as far as processor and kernel tell."""
    is_guest = _is_guest(proc)
    return bool(_tree_hypervisor(sys)) if is_guest is None else is_guest


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
        reason = f"the firmware is that of {cloud}, which lets virtual machines and whole servers"
        return named or unknown(reason)
    return (named or cloud) if is_guest else ""


def _is_guest(proc: Path) -> bool | None:
    """Whether the processor says that a hypervisor runs it; None on those that do not tell."""
    processors, machine = read_cpuinfo(proc=proc)
    flag_lists = (entries.get("flags", "").split() for entries in (*processors.values(), machine))
    # Only x86 has a flag for it.
    answers = ["hypervisor" in flags for flags in flag_lists if flags]
    return any(answers) if answers else None


def _named(text: str, marks: Iterable[tuple[str, str]]) -> str:
    names = (name for mark, name in marks if re.search(rf"\b{re.escape(mark)}\b", text))
    return next(names, "")


def _tree_hypervisor(sys: Path) -> str:
    """Who runs a machine that the device tree describes; "" where it names nobody."""
    tree = sys / "firmware/devicetree/base"
    if not (tree / "hypervisor").exists():
        # QEMU names itself in the root, and has a device for its own firmware.
        board = file_text(tree / "compatible")
        if "qemu" in board or any(tree.glob("fw-cfg@*")):
            return "qemu"
        if (tree / _POWERVM_MARK).exists():
            return "powervm"
        return UNNAMED_HYPERVISOR if _VIRTUAL_BOARD in board else ""
    text = file_text(tree / "hypervisor/compatible")
    names = (name for mark, name in _TREE_HYPERVISORS if text.startswith(mark))
    return next(names, UNNAMED_HYPERVISOR)


def _above_s390(proc: Path) -> str:
    """Who runs an s390x system; "" on other machines."""
    text = file_text(proc / "sysinfo")
    return next(
        (hypervisor for line, hypervisor in _SYSINFO if re.search(line, text, re.MULTILINE)), ""
    )


def _container_name(proc: Path) -> str:
    """Name of the container engine when the environment of process 1 names one."""
    try:
        environment = read_octets(proc / "1/environ").split(b"\0")
    except OSError:
        return ""
    for entry in environment:
        if entry.startswith(b"container="):
            return f"container {entry.partition(b'=')[2].decode(errors='replace')}".strip()
    return ""


def _vulnerabilities(sys: Path) -> Any:
    directory = sys / "devices/system/cpu/vulnerabilities"
    states = {path.name: file_text(path) for path in sorted(directory.glob("*"))}
    return states or unknown(f"{directory} is empty")


def find_compiler(version: str) -> str:
    """What built the kernel; who did, and on which machine, is nobody's business."""
    if is_unknown(version):
        return version
    for group in _outer_groups(version):
        if not _BUILDER.fullmatch(group) and _COMPILER.search(group):
            compiler, depth = "", 0
            for character in group:  # the linker comes after a comma that is in no parentheses
                depth += (character == "(") - (character == ")")
                if character == "," and not depth:
                    break
                compiler += character
            return compiler.strip()
    return unknown("/proc/version does not state it")


#: Who built a kernel, and on which machine; and a compiler's name, with a vendor before it or not.
_BUILDER = re.compile(r"\S*@.*")
_COMPILER = re.compile(r"(?<![a-z])(?:gcc|clang|icc|icx)(?![a-z])", re.IGNORECASE)


def _outer_groups(text: str) -> list[str]:
    """What is in parentheses that are in no others."""
    groups, depth, begin = [], 0, 0
    for place, character in enumerate(text):
        if character == "(":
            depth += 1
            begin = place + 1 if depth == 1 else begin
        elif character == ")" and depth:
            depth -= 1
            if not depth:
                groups.append(text[begin:place])
    return groups


def _preempt(sys: Path, proc: Path) -> str:
    text = file_text(sys / "kernel/debug/sched/preempt")
    if not is_unknown(text):
        return text
    version = file_text(proc / "sys/kernel/version")
    if is_unknown(version):
        return version
    words = [word for word in version.split() if word.startswith("PREEMPT")]
    return words[0] if words else "PREEMPT_NONE or PREEMPT_VOLUNTARY"


def hostname() -> str:
    """Name of this machine."""
    return os.uname().nodename


def uptime(*, proc: Path) -> float | str:
    """Seconds since the machine was started."""
    text = file_text(proc / "uptime")
    first = text.split()[0]
    if re.fullmatch(r"[0-9]{1,15}(?:\.[0-9]+)?", first):
        return round(float(first), 1)
    return text if is_unknown(text) else unknown(f"{proc / 'uptime'} has {text[:SHOWN]!r}")
