"""What the generator tells of itself, for the report."""

from __future__ import annotations

from typing import Any

from vnetperf.host.patience import patient
from vnetperf.model.plan import Plan
from vnetperf.traffic.loadgen.info import EngineInfo, PortInfo, WorkerInfo
from vnetperf.traffic.loadgen.spec import EngineConfig
from vnetperf.traffic.loadgen.trials import BURST, MAX_LAG_S


def facts_of(
    info: EngineInfo, config: EngineConfig | None, executable: str, plan: Plan
) -> dict[str, Any]:
    """Version, launch line, ports and time stamp method.

    Args:
        info: What the engine tells.
        config: How it was started.
        executable: Its path.
        plan: What it was planned for.

    Returns:
        JSON values.
    """
    return {
        "version": f"loadgen {info.version}, {info.dpdk}",
        "launch line": " ".join(config.argv(executable)) if config else "",
        "ports": [_port(port, plan.scenario.mtu) for port in info.ports],
        "octets of a buffer": config.room if config else 0,
        "memory": "hugepages" if config and config.hugepages else "ordinary pages",
        "workers": [_worker(worker) for worker in info.workers],
        "workers allowed": plan.testbed.cores.tester,
        "time stamps": "TSC, taken before the transmit call and after the receive call "
        f"({info.tsc_hz / 1e6:.0f} MHz); latency is from the last bit handed over to the "
        "frame taken in, the driver's and the wire's rings included",
        "time stamp error": _error(info),
        "runs on": "the machine that carries the DUT",
        "arrivals": [_clock(port) for port in info.ports],
        "neighbours": f"answers for {plan.scenario.traffic.answers} addresses; "
        f"{sum(port.answers for port in info.ports)} frames sent to them so far",
        "largest burst": BURST,
        "given up when late by (s)": patient(MAX_LAG_S),
        "sleep when idle (us)": config.sleep_us if config else 0,
    }


def _port(port: PortInfo, mtu: int) -> str:
    return (
        f"{port.number}: {port.name} ({port.driver}), {port.mac}, MTU {mtu}, "
        f"{port.rx_queues}/{port.tx_queues} rx/tx queues"
    )


def _worker(worker: WorkerInfo) -> str:
    return (
        f"{worker.number} on processor {worker.cpu}: {worker.rx_queues} receive queues, "
        f"{worker.tx_queues} transmit queues"
    )


def _error(info: EngineInfo) -> str:
    """How far off a latency can be, besides what `calibrations` measured of the tester itself."""
    nic = [port.nic_time_error_ns for port in info.ports if port.nic_time]
    told = f"; NIC's clock off by {max(nic)} ns at most" if nic else ""
    return (
        f"one clock for both ends, of {1e9 / info.tsc_hz:.2f} ns resolution{told}; a frame waits "
        "for the others of its call and for the next look at the ring: what that comes to without "
        "a DUT is the latency in `calibrations`"
    )


def _clock(port: PortInfo) -> str:
    """What tells when frames arrive at a port."""
    if not port.nic_time:
        return f"{port.number}: by the processor's clock, when the frame is found"
    return (
        f"{port.number}: by the NIC's clock, off by {port.nic_time_error_ns} ns at most when it "
        "was last compared"
    )
