"""Users' own traffic through a mobile core: TCP and UDP between a UE and a server."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vnetperf.model.base import Frozen

Protocol = Literal["tcp", "udp"]
Way = Literal["uplink", "downlink"]


class TransferSpec(Frozen):
    """One transfer.

    Attributes:
        protocol: "tcp" sends as fast as it may, "udp" at a rate.
        way: "uplink" from the UE to the server, "downlink" back.
        duration_s: Whole seconds; iperf3 takes half of one for "without end".
        rate_bps: Of udp: payload offered, bit/s; 0 for what tcp reached the same way before.
    """

    protocol: Protocol
    way: Way
    duration_s: int = Field(ge=1)
    rate_bps: float = Field(default=0.0, ge=0)


class Transfer(Frozen):
    """What a transfer came to.

    Attributes:
        spec: What was asked; of udp with the rate that was offered.
        bits_per_second: Payload that arrived, bit/s.
        retransmits: Of tcp: segments sent again; None where it is not told.
        loss_ratio: Of udp: share of datagrams that did not arrive, 0..1.
        jitter_ms: Of udp: interarrival jitter (RFC 3550), milliseconds.
        tool: What sent and counted: "iperf 3.12".
        ue: Address of the UE.
        attach_s: Seconds from the start of the UE to its address.
        cpus: Processors that the UE, the client and the server share.
    """

    spec: TransferSpec
    bits_per_second: float
    retransmits: int | None = None
    loss_ratio: float | None = None
    jitter_ms: float | None = None
    tool: str = ""
    ue: str = ""
    attach_s: float = 0.0
    cpus: str = ""


class Transfers(Frozen):
    """Transfers of one scenario.

    Attributes:
        scenario: "vepc_bridge".
        transfers: In the order in which they were run.
    """

    scenario: str
    transfers: tuple[Transfer, ...]
