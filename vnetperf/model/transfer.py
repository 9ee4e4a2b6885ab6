"""Transfers between endpoints: between sockets, of a workload's programs, and speed of guests."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from vnetperf.model.base import Frozen
from vnetperf.model.units import value_text

#: What is done: of a workload a name that begins with the workload's, "MPI_BARRIER". Of sockets
#: TCP_STREAM and UDP_STREAM send as much as they may, TCP_RR and UDP_RR send a message and wait for
#: its answer, TCP_LOAD and UDP_LOAD send messages at a rate and time their answers.
Kind: TypeAlias = Annotated[str, Field(pattern="^[A-Z][A-Z0-9]*(_[A-Z0-9]+)+$")]
#: "forth" from the client's end to the server's, "back" the other way, "both" at once.
Way = Literal["forth", "back", "both"]
OneWay = Literal["forth", "back"]
#: Where the second endpoint is: at the tester's port 1, or in the VNF.
ServerPlace = Literal["far", "vnf"]

#: Largest message, and the largest that a datagram of IPv4 carries, octets.
MAX_MESSAGE, MAX_DATAGRAM = 65_536, 65_507
MAX_INSTANCES = 64
#: Most pods of a network, and most ranks of MPI in each.
MAX_PODS, MAX_RANKS = 64, 64
#: A tool by its own choice: the first one installed that can do what is asked.
AUTO = "auto"


#: Facts of a pod: how long its network took to give it its interface and to take it away, and how
#: long from the one to the first packet that arrived there, seconds.
POD_ATTACHED, POD_REMOVED = "attached in, s", "removed in, s"
POD_FIRST_PACKET = "first packet after, s"
#: Fact of a network: octets that frames between hosts are longer by.
OCTETS_ADDED = "octets added between hosts"


class TransferSpec(Frozen):
    """One transfer.

    Attributes:
        kind: What is done: see Kind.
        way: From where: see Way.
        tool: Registered name of the endpoint tool; of MPI, of the program.
        message_size: Octets handed to each call of send; None leaves it to the tool. Of a
            collective what each rank sends to each other, as OSU's benchmarks count it.
        instances: Parallel processes of the tool at each end, each way; of GUEST_ its threads in
            each VNF.
        duration_s: Whole seconds.
        warmup_s: Whole seconds of the same that are run before and thrown away.
        rate_bps: Of UDP_STREAM: payload offered by each instance, bit/s; 0 for as much as it can.
        rate_of_tcp: Of UDP_STREAM: True offers what TCP reached the same way before.
        message_rate: Of _LOAD: messages/s of each instance.
        pods: Of MPI: pods with ranks; 0 for what is no MPI.
        ranks: Of MPI: ranks in each pod.
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
    pods: int = Field(default=0, ge=0, le=MAX_PODS)
    ranks: int = Field(default=0, ge=0, le=MAX_RANKS)

    @property
    def requested(self) -> TransferSpec:
        """What is the same in each round: without the rate that TCP gave in one."""
        return self.model_copy(update={"rate_bps": 0.0}) if self.rate_of_tcp else self

    @property
    def several(self) -> str:
        """What a run may have several of with one kind and way: "8 instances, at 1 Gbit/s"."""
        terms = [f"{self.instances} instances"] * (self.instances > 1)
        if self.rate_bps and not self.rate_of_tcp:
            terms.append(f"at {value_text(self.rate_bps, 'bit/s')}")
        return ", ".join(terms)

    @property
    def is_alone(self) -> bool:
        """True when nothing is transferred: the processors and memory of VNFs are measured."""
        return self.kind.startswith("GUEST_")

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
        """How long it takes, without what starts and ends; seconds. GUEST_ has a second run."""
        return (2 if self.is_alone else 1) * (self.duration_s + self.warmup_s)


class SubInterval(Frozen):
    """What the receiver of a UDP stream counted in one of the successive parts of it.

    Attributes:
        seconds: Its length.
        octets: Payload that arrived.
        received: Datagrams that arrived.
        lost: Datagrams that did not, before the last that arrived.
        jitter_ms: Interarrival jitter at its end (RFC 3550), milliseconds; None: not told.
    """

    seconds: float
    octets: int
    received: int
    lost: int
    jitter_ms: float | None


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
        sent_octets: Of TCP_STREAM: payload that was handed to TCP, octets.
        segment_octets: Of TCP_STREAM: largest segment (MSS), octets of payload.
        tcp_round_trip_us: Of TCP_STREAM: "min", "mean", "max" of the sender's smoothed round-trip
            time while it sends, microseconds; "samples": how often it was looked at.
        intervals: Of UDP_STREAM: what arrived, second by second; empty where the tool does not
            tell, and of a sum.
        operation_us: Of MPI: "mean", and where the program tells them "min", "max" and percentiles
            "50" ..., of the time of one operation, microseconds. Of MPI_LATENCY a message one way
            (half a round trip), over all messages; of a collective each rank's mean, over all
            ranks.
        operations: Of MPI: operations that were timed.
        flops: Of MPI_HPL: floating-point operations/s.
        contents_checked: Of MPI: whether what arrived was compared with what was sent; what
            differs is an error. None: not recorded.
        events_per_second: Of GUEST_CPU: the tool's units of computation/s, all threads.
        octets_per_second: Of other GUEST_: memory read or written, octets/s, all threads.
        tlb_misses_per_second: Of GUEST_: misses of the TLB of data by loads/s, of the threads that
            the work ran on, as the host counts them.
        steal: Of GUEST_: share of its processors' time that something under it took, 0..1, as it
            counts it itself.
        at_once: Of GUEST_ in several VNFs: share of the longest run in which all of them ran, 0..1.
            Each counts its own run, so that where it is less they reach less than the sum together.
        notes: What in the tool's output does not fit together, and what was made of it, in words;
            empty where all of it does.
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
    sent_octets: float | None = None
    segment_octets: int | None = None
    tcp_round_trip_us: dict[str, float] = Field(default_factory=dict)
    intervals: tuple[SubInterval, ...] = ()
    operation_us: dict[str, float] = Field(default_factory=dict)
    operations: int | None = None
    flops: float | None = None
    contents_checked: bool | None = None
    events_per_second: float | None = None
    octets_per_second: float | None = None
    tlb_misses_per_second: float | None = None
    steal: float | None = None
    at_once: float | None = None
    notes: tuple[str, ...] = ()


class Flow(Frozen):
    """One instance of a tool, one way; of GUEST_ one VNF.

    Attributes:
        way: "forth" or "back".
        port: The server's port; of GUEST_ the VNF's number.
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
        version: The tool there, as it names itself; "" where it was not asked.
        user_s: Seconds of processor time that the tool's processes spent in themselves; None where
            it could not be read.
        system_s: Seconds that they spent in the kernel.
    """

    place: str = ""
    address: str = ""
    cpus: str = ""
    version: str = ""
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
        machine_busy_s: Processor time of the whole machine while the clients ran, whoever spent
            it, seconds; None: not recorded, or there is more than one machine.
        machine_interrupts_s: Of that in interrupts and what the kernel puts off from them: most of
            its forwarding.
        others: Share that others took of the processors that the programs and the DUT's pollers may
            run on, 0..1; None: not recorded, or there is more than one machine.
        stolen: Share that a hypervisor took of the one of these that it took most of, 0..1.
        disturbed: What of that is more than a share that matters, in words. In no log.
        fragments: IPv4 fragments that pods and their hosts made of packets that were too long for
            a link; None: not recorded.
        on_host: Of GUEST_: the same programs at once on the host, on the same processors.
        events_why: Of GUEST_: why no TLB misses were counted; "" where they were.
        round: Of a log: number of the round that it was run in, from 1; 0: not known. In no file.
    """

    spec: TransferSpec
    flows: tuple[Flow, ...] = ()
    version: str = ""
    elapsed_s: float = 0.0
    client: EndFacts = EndFacts()
    server: EndFacts = EndFacts()
    attach_s: float | None = None
    machine_busy_s: float | None = None
    machine_interrupts_s: float | None = None
    others: float | None = None
    stolen: float | None = None
    disturbed: tuple[str, ...] = ()
    fragments: int | None = None
    on_host: Figures | None = None
    events_why: str = ""
    round: SkipJsonSchema[int] = Field(default=0, exclude=True)

    def disturbed_by(self, limit: float) -> tuple[str, ...]:
        """What took more than a share of the processors, in words; empty: nothing known."""
        disturbances = []
        if self.others is not None and self.others > limit:
            disturbances.append(
                f"others took {self.others:.1%} of the processors that its programs and the "
                "pollers run on"
            )
        if self.stolen is not None and self.stolen > limit:
            disturbances.append(f"a hypervisor took {self.stolen:.1%} of a processor")
        return tuple(disturbances)


class Transfers(Frozen):
    """Transfers of one scenario.

    Attributes:
        scenario: "vepc_bridge", "phy2phy_dpdk,endpoints".
        transfers: In the order in which they were run; of repeated ones the last.
        earlier: Those that were repeated, in the order in which they were run.
    """

    scenario: str
    transfers: tuple[Transfer, ...]
    earlier: tuple[Transfer, ...] = ()

    def rounds_of(self, transfer: Transfer) -> tuple[Transfer, ...]:
        """One of `transfers` in all rounds, in the order in which they were run, itself last."""
        same = (
            earlier for earlier in self.earlier if earlier.spec.requested == transfer.spec.requested
        )
        return (*same, transfer)

    @property
    def rounds(self) -> list[list[tuple[Transfer, tuple[Transfer, ...]]]]:
        """Each of `transfers` in all rounds, with those of the same round, itself too.

        Where rounds are not known (results.json does not tell them), counted from the last.
        """
        repeats = [self.rounds_of(transfer) for transfer in self.transfers]
        are_numbered = all(member.round for row in repeats for member in row)
        numbered = [
            [
                (member.round if are_numbered else back, member)
                for back, member in enumerate(row, -len(row))
            ]
            for row in repeats
        ]
        by_round: dict[int, list[Transfer]] = {}
        for row in numbered:
            for number, member in row:
                by_round.setdefault(number, []).append(member)
        return [[(member, tuple(by_round[number])) for number, member in row] for row in numbered]
