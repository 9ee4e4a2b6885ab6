"""Facts about the CPUs: model, microcode, topology, frequency, sleep states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vnetperf.host.cpu import CpuTopology, read_topology
from vnetperf.host.cpulist import format_cpus
from vnetperf.host.fact import attempt, file_text, is_unknown, unknown

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
        "microcode": info.get("microcode") or unknown("/proc/cpuinfo does not say"),
        "flags": [flag for flag in FLAGS_OF_INTEREST if flag in flags]
        if flags
        else unknown("/proc/cpuinfo lists no flags"),
        "smt_control": file_text(cpu / "smt/control"),
        "topology": attempt(lambda: _topology(read_topology(sys=sys, proc=proc))),
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
    """Whether the CPU says that it can do something: "svm", "vmx"."""
    return flag in _cpuinfo(proc).get("flags", "").split()


def is_virtual(*, proc: Path) -> bool:
    """Whether the CPU says that a hypervisor runs this machine."""
    return has_flag("hypervisor", proc=proc)


def _topology(topology: CpuTopology) -> dict[str, Any]:
    return {
        "online": format_cpus(cpu.number for cpu in topology.cpus),
        "allowed": format_cpus(cpu.number for cpu in topology.allowed),
        "isolated": format_cpus(cpu.number for cpu in topology.cpus if cpu.isolated),
        "packages": len({cpu.package for cpu in topology.cpus}),
        "cores": len({cpu.siblings for cpu in topology.cpus}),
        "smt": topology.smt,
        "numa": {
            f"node{node}": format_cpus(cpu.number for cpu in topology.cpus if cpu.node == node)
            for node in topology.nodes
        },
    }


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
