"""The machine's facts for a result: hardware, firmware, kernel, software, as plain values."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vnetperf.host.fact import attempt, file_text
from vnetperf.host.facts_cpu import cpu_facts
from vnetperf.host.facts_irq import interrupt_facts
from vnetperf.host.facts_memory import memory_facts
from vnetperf.host.facts_nic import nic_facts
from vnetperf.host.facts_software import kvm_facts, software_facts
from vnetperf.host.facts_system import (
    distribution_facts,
    firmware_facts,
    hostname,
    kernel_facts,
    uptime,
    virtual_lab,
    virtualisation,
)


def collect(root: Path = Path("/")) -> dict[str, Any]:
    """Collect the facts of this machine; takes some ten milliseconds and starts no program.

    Args:
        root: Root of the file system to read; tests give a made-up one.

    Returns:
        Nested plain values, ready for JSON. What cannot be had is ``unknown: <why>``; nothing is
        absent, and no default stands for something unknown. Lists of CPUs are as the kernel
        writes them (``0-3,8``).
    """
    sys, proc, etc = root / "sys", root / "proc", root / "etc"
    return {
        "collected": datetime.now(UTC).isoformat(timespec="seconds"),
        "hostname": attempt(hostname),
        "uptime_s": attempt(lambda: uptime(proc=proc)),
        "load_average": file_text(proc / "loadavg"),
        "virtual_lab": attempt(lambda: virtual_lab(proc=proc)),
        "cpu": attempt(lambda: cpu_facts(sys=sys, proc=proc)),
        "memory": attempt(lambda: memory_facts(sys=sys, proc=proc)),
        "kernel": attempt(lambda: kernel_facts(sys=sys, proc=proc)),
        "distribution": attempt(lambda: distribution_facts(etc=etc)),
        "interrupts": attempt(lambda: interrupt_facts(proc=proc)),
        "firmware": attempt(lambda: firmware_facts(sys=sys)),
        "virtualisation": attempt(lambda: virtualisation(sys=sys, proc=proc)),
        "kvm": attempt(lambda: kvm_facts(dev=root / "dev")),
        "nics": attempt(lambda: nic_facts(sys=sys, proc=proc)),
        "software": attempt(lambda: software_facts(dpkg_status=root / "var/lib/dpkg/status")),
    }
