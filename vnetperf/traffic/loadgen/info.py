"""What the engine tells of itself, its ports and its workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PortInfo:
    """One port of the engine."""

    number: int
    name: str
    driver: str
    mac: str
    link_up: bool
    link_speed_mbps: int | None
    """Mbit/s; None: the driver cannot tell."""
    numa_node: int | None
    mtu: int
    """As the driver has it; those that take frames of any size leave it at 1500."""
    rx_queues: int
    tx_queues: int
    nic_time: bool
    """Whether frames come with the NIC's own time, as clocks can be told from each other."""
    nic_time_error_ns: int
    """How far that may be off, by the last reading of both clocks."""
    answers: int
    """Frames sent to neighbours since the start: answers and announcements."""

    @classmethod
    def parse(cls, number: int, reply: Mapping[str, Any]) -> PortInfo:
        """From the reply of the engine about a port."""
        return cls(
            number=number,
            name=reply["name"],
            driver=reply["driver"],
            mac=reply["mac"],
            link_up=bool(reply["link_up"]),
            link_speed_mbps=reply["link_speed"] or None,
            numa_node=reply["numa_node"] if reply["numa_node"] >= 0 else None,
            mtu=reply["mtu"],
            rx_queues=reply["rx_queues"],
            tx_queues=reply["tx_queues"],
            answers=reply["answers"],
            nic_time=bool(reply["nic_time"]),
            nic_time_error_ns=reply["nic_time_error_ns"],
        )


@dataclass(frozen=True)
class WorkerInfo:
    """One thread that sends and receives."""

    number: int
    lcore: int
    cpu: int
    numa_node: int
    tid: int
    """Thread id, for affinity and scheduling."""
    rx_queues: int
    tx_queues: int


@dataclass(frozen=True)
class EngineInfo:
    """The engine, its ports and workers."""

    version: str
    protocol: int
    dpdk: str
    pid: int
    tsc_hz: int
    largest_frame: int
    """Octets including FCS."""
    window: int
    """Frames within which a duplicate is told from a new frame."""
    ports: tuple[PortInfo, ...]
    workers: tuple[WorkerInfo, ...]
