"""The made-up surroundings of the sample run: settings, environment, scenarios, ledger."""

from __future__ import annotations

from typing import Any

from vnetperf.model.calibration import Calibration, CalibrationPoint
from vnetperf.model.frames import RFC2544_FRAME_SIZES, LinkSpeed
from vnetperf.model.result import LedgerEntry, ScenarioFacts


def settings() -> dict[str, dict[str, Any]]:
    return {
        "preset": {"value": "mlr-csit", "source": "command line --preset"},
        "testbed": {"value": "lab-1", "source": "environment VNETPERF_TESTBED"},
        "frame_sizes": {"value": list(RFC2544_FRAME_SIZES), "source": "conf/presets/mlr-csit.toml"},
        "goals.ndr.loss_ratio": {"value": 0.0, "source": "conf/presets/mlr-csit.toml"},
        "goals.pdr.loss_ratio": {"value": 0.005, "source": "conf/presets/mlr-csit.toml"},
        "max_trials": {"value": None, "source": "default"},
        "keep_deployed": {"value": False, "source": "default"},
    }


def environment() -> dict[str, Any]:
    return {
        "os": {"name": "Debian GNU/Linux 12", "kernel": "6.12.9-amd64"},
        "cmdline": "quiet isolcpus=1-3 nohz_full=1-3 iommu=pt intel_iommu=on mitigations=auto",
        "cpu": {
            "model": "Example 8-core server processor @ 2.90 GHz",
            "microcode": "unknown: /proc/cpuinfo has no microcode line",
            "smt": False,
            "governor": "performance",
            "turbo": "unknown: no cpufreq/boost and no intel_pstate/no_turbo",
            "flags": ["constant_tsc", "nonstop_tsc", "avx2", "avx512f"],
        },
        "numa": [{"node": 0, "cpus": "0-7", "memory_mib": 32094}],
        "hugepages": {"node0.2048kB": {"total": 1024, "free": 512}},
        "bios": "not measured: dmidecode is not installed",
        "clocksource": "tsc",
    }


def scenario_facts() -> tuple[ScenarioFacts, ...]:
    plan = {
        "wires": [{"name": "wire0", "kind": "memif", "ring": 2048}, {"name": "wire1"}],
        "cores": {"vswitch pmd": [1], "tester": [1], "vnf0": [2]},
        "memory_mib": {"vswitch": 512, "vnf0": 128},
    }
    facts = {
        "vswitch": {
            "name": "ovs-vswitchd (Open vSwitch) 3.1.0, DPDK 22.11",
            "launch": [
                "ovs-vswitchd-dpdk",
                "unix:/run/vnetperf/r1/db.sock",
                "--pidfile",
                "--log-file=/run/vnetperf/r1/ovs-vswitchd.log",
            ],
            "flows": [
                "priority=10,in_port=phy0 actions=output:vnf0.0",
                "priority=10,in_port=vnf0.1 actions=output:phy1",
            ],
            "compiler": "unknown: the binary does not say",
        }
    }
    check = {"phy0->phy1": "32 of 32 frames", "phy1->phy0": "32 of 32 frames"}
    good = [
        ScenarioFacts(scenario=name, plan=plan, facts=facts, path_check=check, deploy_s=wait)
        for name, wait in (("phy2phy_dpdk", 3.4), ("pvp_dpdk", 6.9))
    ]
    broken = ScenarioFacts(
        scenario="pvp_vpp", error="vpp: exited with status 1 while starting: no such plugin"
    )
    return (*good, broken)


def calibration() -> Calibration:
    medium = LinkSpeed(25e9)
    return Calibration(
        generator="loadgen 0.1.0",
        wire="memif",
        cores=(1,),
        when="2026-05-04T08:10:00Z",
        points=tuple(
            CalibrationPoint(
                frame_size=size,
                max_clean_fps=2
                * min(medium.max_frame_rate(size), 11.7e6 * (84 / (size + 20)) ** 0.06),
                latency_ns=2300.0 + size,
                latency_min_ns=900.0,
                pacing_error=0.0004,
                max_burst=32,
                smallest_burst_gap_ns=None if size == 1518 else 84.0 + size / 20,
            )
            for size in RFC2544_FRAME_SIZES
        ),
    )


def ledger() -> tuple[LedgerEntry, ...]:
    return (
        LedgerEntry(
            clause="RFC 2544 section 9.1",
            requirement="Ethernet frame sizes 64 to 1518 octets",
            status="met",
            value="64, 128, 256, 512, 1024, 1280, 1518",
        ),
        LedgerEntry(
            clause="RFC 2544 section 24",
            requirement="trials of at least 60 s",
            status="deviated",
            value="1 s",
            reason="the preset mlr-csit asks for 21 trials of 1 s at a load",
        ),
        LedgerEntry(
            clause="RFC 2544 section 11",
            requirement="each test without, then with modifiers",
            status="not applicable",
            reason="no modifier was asked for",
        ),
        LedgerEntry(
            clause="RFC 6815",
            requirement="isolated test environment",
            status="met",
            value="statement of the testbed",
        ),
    )
