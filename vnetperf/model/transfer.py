"""Transfers between sockets of two endpoints: what is asked of a tool, and what it came to."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vnetperf.model.base import Frozen

#: TCP_STREAM and UDP_STREAM send as much as they may, _RR sends a message and waits for its
#: answer, _LOAD sends messages at a rate and times their answers.
Kind = Literal["TCP_STREAM", "UDP_STREAM", "TCP_RR", "UDP_RR", "TCP_LOAD", "UDP_LOAD"]
#: "forth" from the client's end to the server's, "back" the other way, "both" at once.
Way = Literal["forth", "back", "both"]
OneWay = Literal["forth", "back"]
#: Where the second endpoint is: at the tester's port 1, or in the VNF.
ServerPlace = Literal["far", "vnf"]

#: Largest message: what a datagram of IPv4 carries.
MAX_MESSAGE = 65_507
MAX_INSTANCES = 64
#: A tool by its own choice: the first one installed that can do what is asked.
AUTO = "auto"


class TransferSpec(Frozen):
    """One transfer.

    Attributes:
        kind: What is done: see Kind.
        way: From where: see Way.
        tool: Registered name of the endpoint tool.
        message_size: Octets handed to each call of send; None leaves it to the tool.
        instances: Parallel processes of the tool at each end, each way.
        duration_s: Whole seconds.
        warmup_s: Whole seconds of the same that are run before and thrown away.
        rate_bps: Of UDP_STREAM: payload offered by each instance, bit/s; 0 for as much as it can.
        rate_of_tcp: Of UDP_STREAM: True offers what TCP reached the same way before.
        message_rate: Of _LOAD: messages/s of each instance.
    """

    kind: Kind
    way: Way = "forth"
    tool: str = "iperf3"
    message_size: int | None = Field(default=None, ge=1, le=MAX_MESSAGE)
    instances: int = Field(default=1, ge=1, le=MAX_INSTANCES)
    duration_s: int = Field(ge=1)
    warmup_s: int = Field(default=0, ge=0)
    rate_bps: float = Field(default=0.0, ge=0)
    rate_of_tcp: bool = False
    message_rate: int = Field(default=1000, ge=1)

    @property
    def ways(self) -> tuple[OneWay, ...]:
        """Ways that are measured at once."""
        return ("forth", "back") if self.way == "both" else (self.way,)

    @property
    def is_stream(self) -> bool:
        """True when payload goes one way, and its rate is what is measured."""
        return self.kind.endswith("_STREAM")

    @property
    def is_udp(self) -> bool:
        """True when messages are datagrams."""
        return self.kind.startswith("UDP")

    @property
    def length_s(self) -> float:
        """How long it takes, without what starts and ends; seconds."""
        return self.duration_s + self.warmup_s


class Figures(Frozen):
    """What a tool measured; None where it does not tell.

    Attributes:
        bits_per_second: Payload that arrived, bit/s; of RR and LOAD what messages and answers
            make up in each direction.
        sent_bits_per_second: Payload that was sent, bit/s.
        retransmits: Of TCP_STREAM: segments sent again.
        loss_ratio: Of UDP: share of datagrams that did not arrive, 0..1; in _RR and _LOAD of
            messages that had no answer until the end.
        jitter_ms: Of UDP_STREAM: interarrival jitter (RFC 3550), milliseconds.
        transactions_per_second: Of RR and LOAD: answered messages/s.
        round_trip_us: Of RR and LOAD: "min", "mean", "max" and percentiles "50" ... of the time
            from a message to its answer, microseconds.
        client_cpu_percent: Processor use of the client's end as the tool says, percent of one.
        server_cpu_percent: That of the server's end.
    """

    bits_per_second: float | None = None
    sent_bits_per_second: float | None = None
    retransmits: int | None = None
    loss_ratio: float | None = None
    jitter_ms: float | None = None
    transactions_per_second: float | None = None
    round_trip_us: dict[str, float] = Field(default_factory=dict)
    client_cpu_percent: float | None = None
    server_cpu_percent: float | None = None


class Flow(Frozen):
    """One instance of a tool, one way.

    Attributes:
        way: "forth" or "back".
        port: The server's port.
        figures: What it measured.
    """

    way: OneWay
    port: int
    figures: Figures


class EndFacts(Frozen):
    """One end of a transfer.

    Attributes:
        place: What it is: "namespace at port 0", "UE", "vnf0".
        address: Its address.
        cpus: Processors its programs may run on.
        user_s: Seconds of processor time that the tool's processes spent in themselves; None where
            it could not be read.
        system_s: Seconds that they spent in the kernel.
    """

    place: str = ""
    address: str = ""
    cpus: str = ""
    user_s: float | None = None
    system_s: float | None = None


class Transfer(Figures):
    """What a transfer came to: figures of all instances and ways together.

    Attributes:
        spec: What was asked; of UDP with the rate that was offered.
        flows: Each instance, each way.
        version: What sent and counted: "iperf 3.12".
        elapsed_s: Seconds that the clients ran; what times of processors are to be divided by.
        client: The end that "forth" comes from.
        server: The end that it goes to.
        attach_s: Of a mobile core: seconds from the start of the UE to its address.
    """

    spec: TransferSpec
    flows: tuple[Flow, ...] = ()
    version: str = ""
    elapsed_s: float = 0.0
    client: EndFacts = EndFacts()
    server: EndFacts = EndFacts()
    attach_s: float | None = None


class Transfers(Frozen):
    """Transfers of one scenario.

    Attributes:
        scenario: "vepc_bridge", "phy2phy_dpdk,endpoints".
        transfers: In the order in which they were run.
    """

    scenario: str
    transfers: tuple[Transfer, ...]
