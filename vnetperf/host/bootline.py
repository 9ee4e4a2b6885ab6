"""What the kernel's command line says that decides the speed of a data plane."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

from vnetperf.host.fact import is_unknown

NOT_GIVEN: Final = "not given"

#: Option -> what it does, as the kernel's documentation has it in a few words.
OPTIONS: Final[Mapping[str, str]] = {
    "isolcpus": "processors on which the scheduler puts nothing by itself",
    "nohz_full": "processors without a timer tick while one task runs",
    "rcu_nocbs": "processors relieved of RCU callbacks",
    "irqaffinity": "processors that interrupts go to by default",
    "nosmt": "hardware threads of a core are not used",
    "maxcpus": "processors started at boot",
    "intel_pstate": "how the frequency driver of Intel works",
    "amd_pstate": "how the frequency driver of AMD works",
    "cpufreq.default_governor": "governor of the frequency from the boot on",
    "intel_idle.max_cstate": "deepest sleep of Intel's idle driver",
    "processor.max_cstate": "deepest sleep of the ACPI idle driver",
    "idle": "what an idle processor does: poll never sleeps",
    "hugepagesz": "size of the hugepages that are reserved next",
    "default_hugepagesz": "size of hugepages where none is named",
    "hugepages": "hugepages reserved at boot",
    "transparent_hugepage": "whether ordinary memory becomes hugepages by itself",
    "numa_balancing": "whether the kernel moves memory between nodes",
    "intel_iommu": "the IOMMU of Intel",
    "amd_iommu": "the IOMMU of AMD",
    "iommu": "pt: devices of the host are not translated",
    "iommu.passthrough": "1: devices of the host are not translated",
    "mitigations": "what is done against flaws of the processor",
    "spectre_v2": "what is done against Spectre variant 2",
    "retbleed": "what is done against Retbleed",
    "tsx": "transactional memory",
    "nopti": "no isolation of page tables",
    "pti": "isolation of page tables",
    "clocksource": "the clock that is asked for",
    "tsc": "whether the TSC is believed",
    "nmi_watchdog": "an interrupt on every processor now and then, to find hangs",
    "nosoftlockup": "no search for hanging processors",
    "nowatchdog": "no search for hanging processors",
    "skew_tick": "timer ticks of processors at different moments",
    "preempt": "how readily the kernel lets itself be interrupted",
    "pcie_aspm": "sleep of PCIe links",
    "audit": "a record of system calls",
}


#: Those whose absence is worth a word.
ALWAYS_SAID: Final = (
    *("isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity", "mitigations"),
    *("intel_iommu", "amd_iommu", "iommu", "hugepages", "default_hugepagesz"),
    *("intel_pstate", "idle", "processor.max_cstate"),
)


def options(cmdline: str) -> Any:
    """The options of `OPTIONS` as they were given, with what they mean.

    Args:
        cmdline: The kernel's command line, or why it is unknown.

    Returns:
        Option -> "value" ("yes" for one without; several in their order with "; " between) and
        "means"; of those of `ALWAYS_SAID` "not given" too. Why it is unknown, when it is.
    """
    if is_unknown(cmdline):
        return cmdline
    try:
        words = shlex.split(cmdline)
    except ValueError:  # a quote that is not closed
        words = cmdline.split()
    given: dict[str, list[str]] = {}
    for word in words:
        name, equals, value = word.partition("=")
        given.setdefault(_plain(name), []).append(value if equals else "yes")
    found: dict[str, Any] = {}
    for name, meaning in OPTIONS.items():
        if values := given.get(_plain(name)):
            found[name] = {"value": "; ".join(values), "means": meaning}
        elif name in ALWAYS_SAID:
            found[name] = NOT_GIVEN
    return found


def _plain(name: str) -> str:
    """The kernel takes - and _ in names for the same."""
    return name.replace("-", "_")
