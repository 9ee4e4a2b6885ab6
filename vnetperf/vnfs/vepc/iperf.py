"""iperf3: its command lines, and what its JSON says."""

from __future__ import annotations

import json
from typing import Any

from vnetperf.model.transfer import Transfer, TransferSpec

PROGRAM = "iperf3"
#: Rate of udp where no tcp went before, bit/s.
FALLBACK_BPS = 10e6


def server(address: str) -> tuple[str, ...]:
    """Command line of the server.

    Args:
        address: Its address.

    Returns:
        Program and arguments.
    """
    return (PROGRAM, "--server", "--bind", address)


def client(address: str, ue: str, spec: TransferSpec) -> tuple[str, ...]:
    """Command line of the UE's client.

    Args:
        address: The server's address.
        ue: The UE's own.
        spec: What is to be transferred.

    Returns:
        Program and arguments.
    """
    argv = [PROGRAM, "--client", address, "--bind", ue, "--json", "--time", str(spec.duration_s)]
    argv += ["--reverse"] if spec.way == "downlink" else []
    if spec.protocol == "udp":  # 0 bit/s would be as fast as it can
        argv += ["--udp", "--bitrate", f"{max(1.0, spec.rate_bps):.0f}"]
    return tuple(argv)


def read(text: str, spec: TransferSpec) -> Transfer:
    """What a client printed.

    Args:
        text: Its output: JSON, with warnings around it perhaps.
        spec: What was asked.

    Returns:
        The transfer, by what its receiver counted.

    Raises:
        ValueError: It failed, or its output is none of iperf3's.
    """
    begin, end = text.find("{"), text.rfind("}")
    try:
        said: dict[str, Any] = json.loads(text[begin : end + 1])
    except json.JSONDecodeError as error:
        raise ValueError(f"iperf3 printed no JSON: {text[-500:]!r}") from error
    if "error" in said:
        raise ValueError(f"iperf3 failed: {said['error']}")
    try:
        total = said["end"]
        version = str(said["start"]["version"])
        if spec.protocol == "tcp":
            return Transfer(
                spec=spec,
                bits_per_second=float(total["sum_received"]["bits_per_second"]),
                retransmits=total["sum_sent"].get("retransmits"),
                tool=version,
            )
        # Before 3.13 `sum` has the receiver's loss and the sender's rate.
        seen = total.get("sum_received") or total["sum"]
        loss = float(total["sum"]["lost_percent"]) / 100
        rate = float(seen["bits_per_second"])
        if "sum_received" not in total:
            rate *= 1 - loss
        return Transfer(
            spec=spec,
            bits_per_second=rate,
            loss_ratio=min(1.0, max(0.0, loss)),
            jitter_ms=float(total["sum"]["jitter_ms"]),
            tool=version,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"iperf3's output lacks {error}") from error
