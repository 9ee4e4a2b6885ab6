"""A traffic generator of single frames, over memif, vhost-user and network interfaces."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Protocol

from vnetperf.host.machine import Machine
from vnetperf.host.wait import patient, wait_at_most
from vnetperf.model.deployment import VnfPort, WireEnd
from vnetperf.model.errors import GeneratorError
from vnetperf.model.frame_change import FlowEnds
from vnetperf.model.frames import MAX_FRAME_SIZE, driver_length
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.scenario import Plan, RoleDemand, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import DirectionCounts, TrialResult, TrialSpec
from vnetperf.plugin.compiled_frames import ETH_LEN, HEADER_LEN, IPV4_LEN, compile_header
from vnetperf.plugin.frame_layers import internet_checksum
from vnetperf.plugin.generator import GeneratorCapabilities, TrafficGenerator
from vnetperf.testing.memif import MemifPort
from vnetperf.testing.vhost import VhostUserPort
from vnetperf.traffic.devices import KERNEL_KINDS

ETH_P_ALL: Final = 0x0003
SOL_PACKET, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING = 263, 8, 23
#: struct tpacket_auxdata: status, len, snaplen, mac, net, VLAN tag, VLAN protocol.
AUXDATA: Final = struct.Struct("IIIHHHH")
VLAN_VALID, VLAN_PROTOCOL_VALID = 0x10, 0x40
ADDRESSES: Final = 12
LARGEST: Final = 65_535
IPV4_CHECKSUM: Final = ETH_LEN + 10
IPV4_SRC: Final = ETH_LEN + 12
RECEIVE_OCTETS: Final = 8 << 20


class NetdevPort:
    """A raw socket on an interface in the run's network namespace.

    Args:
        machine: The machine.
        netdev: Name of the interface.

    Raises:
        GeneratorError: There is no such interface.
    """

    def __init__(self, machine: Machine, netdev: str) -> None:
        self.netdev = netdev
        with GeneratorError.explain_os_error("cannot be opened", where=netdev):
            self._socket = machine.in_netns(self._open)

    def _open(self) -> socket.socket:
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        opened.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        opened.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_OCTETS)
        opened.setblocking(False)
        opened.bind((self.netdev, ETH_P_ALL))
        return opened

    @property
    def connected(self) -> bool:
        """Whether the interface is there and up."""
        return self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0

    def send(self, frame: bytes) -> bool:
        """Send a frame.

        Args:
            frame: Octets without FCS.

        Returns:
            False when the interface does not take it now.

        Raises:
            GeneratorError: The interface will not take it: it is down, or the frame too long.
        """
        try:
            return self._socket.send(frame) == len(frame)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            raise GeneratorError(
                f"does not take a frame of {len(frame)} octets: {error.strerror}",
                where=self.netdev,
            ) from error

    def receive(self) -> list[bytes]:
        """Take what has come.

        Returns:
            Frames without FCS, with the VLAN tag that the kernel keeps beside them.
        """
        frames = []
        with contextlib.suppress(OSError):  # nothing more, or the interface has gone
            while True:
                data, notes, _, _ = self._socket.recvmsg(LARGEST, 256)
                frames.append(_with_tag(data, notes))
        return frames

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._socket.close()


def _with_tag(data: bytes, notes: list[tuple[int, int, bytes]]) -> bytes:
    """The kernel takes the outer tag out of a frame before a socket sees it."""
    for level, kind, content in notes:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, _, _, _, _, tag, protocol = AUXDATA.unpack_from(content)
            if status & VLAN_VALID:
                protocol = protocol if status & VLAN_PROTOCOL_VALID else 0x8100
                return data[:ADDRESSES] + struct.pack("!HH", protocol, tag) + data[ADDRESSES:]
    return data


#: What an own frame carries behind its headers: mark, stream, sequence number.
MARK = struct.Struct("!8sHI")
SIGNATURE = b"vnp-kit\0"
#: Frames sent without a look at what came back; rings of a wire hold more.
BATCH = 16
POLL_S = 0.001
#: Longest wait for frames that are expected, and for strays after them, seconds.
PATIENCE_S, QUIET_S = 10.0, 0.1


class FramePort(Protocol):
    """Where frames go in and come out."""

    @property
    def connected(self) -> bool:
        """Whether the other side is there."""

    def send(self, frame: bytes) -> bool:
        """Send a frame without FCS; False when there is no room."""

    def receive(self) -> list[bytes]:
        """Take what has come."""

    def close(self) -> None:
        """Unplug. Idempotent."""


class FrameTester(TrafficGenerator):
    """Sends single frames and keeps what comes back; slow, and blind to time."""

    name: ClassVar[str] = "frames"
    capabilities: ClassVar[GeneratorCapabilities] = GeneratorCapabilities(
        wires=("veth", "memif", "nic"),
        attachments=(*KERNEL_KINDS, "memif", "vhost-user"),
        nic_drivers=("kernel",),
        max_frame_size=MAX_FRAME_SIZE,
        sessions=True,
    )

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self.ports: list[FramePort] = []
        self._ends: tuple[WireEnd, ...] = ()
        self._streams: tuple[Stream, ...] = ()
        self._size = 64
        self._bound: dict[int, bytes] = {}

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """It needs nothing but Python.

        Args:
            facts: The machine.
            scenario: The scenario.

        Returns:
            Always "".
        """
        return ""

    @classmethod
    def roles(cls) -> tuple[RoleDemand, ...]:
        """It runs where the test runs.

        Returns:
            No demand.
        """
        return ()

    def connect(self, ends: tuple[WireEnd, ...]) -> None:
        """Plug into the tester's ends.

        Args:
            ends: One end per port.
        """
        self._ends = ends
        self.ports += [self._port(number) for number in range(len(ends))]

    def unplug(self) -> None:
        """Let go of what is about to go: interfaces, and servers that no client finds again."""
        for port in self.ports:
            if not isinstance(port, VhostUserPort):
                port.close()

    def reconnect(self) -> None:
        """Plug into what is there now.

        Raises:
            GeneratorError: An interface or a server is not there.
        """
        for number, port in enumerate(self.ports):
            if not isinstance(port, VhostUserPort):
                self.ports[number] = self._port(number)

    def _port(self, number: int) -> FramePort:
        end = self._ends[number]
        if end.kind == "memif" and end.socket is not None and end.role == "client":
            at_vnf = isinstance(self.plan.scenario.deployment.ends[number], VnfPort)
            identity = 0 if at_vnf else end.wire  # a socket of its own has one interface
            return MemifPort(end.socket, identity, self.plan.tester_rx_queues)
        if end.kind == "vhost-user" and end.socket is not None and end.role == "server":
            return VhostUserPort(end.socket)
        if end.kind in KERNEL_KINDS and end.netdev is not None:
            return NetdevPort(self.machine, end.netdev)
        raise GeneratorError(
            f"cannot plug into {end.kind} {end.role or ''}".rstrip(),
            where=self.name,
            accepted=f"{', '.join(KERNEL_KINDS)}, memif as client, vhost-user as server",
        )

    def links_down(self) -> tuple[str, ...]:
        """Ports whose other side is gone.

        Returns:
            Names.
        """
        return tuple(f"tester port {n}" for n, port in enumerate(self.ports) if not port.connected)

    def prepare(
        self, streams: tuple[Stream, ...], profile: TrafficProfile, frame_size: int
    ) -> None:
        """Remember what is to be sent.

        Args:
            streams: What is sent.
            profile: Not used: each stream is one flow.
            frame_size: Octets including FCS.
        """
        self._streams, self._size = streams, frame_size

    def learn(self, frames_per_stream: int) -> None:
        """Send learning frames and forget what comes back.

        Args:
            frames_per_stream: Frames of each stream.
        """
        for sent in self._streams:
            stream = self.bound(sent)
            most = BATCH if stream.change is None else stream.change.sessions
            frames = [
                stream_frame(stream, self._size, number if stream.change else 0)
                for number in range(min(frames_per_stream, most))
            ]
            learns = stream.change is not None and stream.change.learns_ends
            expect = None if learns and stream.direction == 0 else 0
            for start in range(0, len(frames), BATCH):
                batch = frames[start : start + BATCH]
                _, out = self.exchange(stream.tx_port, batch, expect=expect)
                for frame in out if expect is None else ():
                    if mark := read_mark(frame):
                        self._bound[mark[1]] = (
                            frame[IPV4_SRC:][:4] + frame[ETH_LEN + IPV4_LEN :][:2]
                        )

    def bound(self, stream: Stream) -> Stream:
        """A stream with the mappings that were learnt of its sessions.

        Args:
            stream: The stream.

        Returns:
            The same where both sides of each session are known beforehand.
        """
        change = stream.change
        if change is None or not change.learns_ends:
            return stream
        ends = [self._bound.get(number, bytes(6)) for number in range(change.sessions)]
        public, ports = b"".join(e[:4] for e in ends), b"".join(e[4:] for e in ends)
        return stream.model_copy(update={"change": change.with_learnt_clients(public, ports)})

    def exchange(
        self,
        port: int,
        frames: Sequence[bytes],
        *,
        expect: int | None = None,
        last: tuple[int, int] | None = None,
        quiet_s: float = QUIET_S,
    ) -> tuple[list[bytes], list[bytes]]:
        """Send frames into one port and keep everything that comes out anywhere.

        Args:
            port: Tester port that sends.
            frames: Octets without FCS, at most BATCH.
            expect: Frames to wait for at the other port; None for as many as are sent.
            last: Stream and number of the frame to wait for instead: what was sent before it has
                come out when it does, or has been dropped.
            quiet_s: Strays are waited for in any case, until none has come for so long.

        Returns:
            What came out at port 0 and at port 1, in order.

        Raises:
            GeneratorError: The port does not take a frame.
        """
        for entry in self.ports:
            entry.receive()  # what is late of something else
        for frame in frames:
            if not self.ports[port].send(frame):
                raise GeneratorError(f"tester port {port} has no room", where=self.name)
        expected_count = len(frames) if expect is None else expect
        caught: tuple[list[bytes], list[bytes]] = ([], [])
        quiet_since = time.monotonic()

        def complete() -> bool:
            nonlocal quiet_since
            for number, entry in enumerate(self.ports):
                if came := entry.receive():
                    caught[number].extend(came)
                    quiet_since = time.monotonic()
            if time.monotonic() < quiet_since + patient(quiet_s):
                return False
            out = caught[1 - port]
            return last in map(read_mark, out) if last else len(out) >= expected_count

        wait_at_most(complete, PATIENCE_S + quiet_s, "the frames", poll_s=POLL_S)
        return caught

    def run(self, trial: TrialSpec, watch: Callable[[], None]) -> TrialResult:
        """Send a trial's frames one after the other, as fast as Python does.

        Args:
            trial: The trial; its load is a number of frames, not a rate.
            watch: Called between batches.

        Returns:
            Counts of each direction.
        """
        directions = []
        foreign = {"0": 0, "1": 0}
        for direction in sorted({s.direction for s in self._streams}):
            streams = [self.bound(s) for s in self._streams if s.direction == direction]
            total = max(len(streams), round(trial.load_fps * trial.duration_s))
            received: set[tuple[int, int]] = set()
            misrouted = duplicated = 0
            for start in range(0, total, BATCH):
                watch()
                batch = range(start, min(start + BATCH, total))
                stream_numbers = [(streams[n % len(streams)], n) for n in batch]
                frames = [stream_frame(s, self._size, n) for s, n in stream_numbers]
                for port, came in enumerate(self.exchange(direction, frames)):
                    for frame in came:
                        mark = read_mark(frame)
                        foreign[str(port)] += mark is None
                        misrouted += mark is not None and port == direction
                        if mark is not None and port != direction:
                            duplicated += mark in received
                            received.add(mark)
            directions.append(
                DirectionCounts(
                    direction=direction,
                    intended=total,
                    sent=total,
                    refused=0,
                    unsent=0,
                    received=len(received),
                    duplicated=duplicated,
                    misrouted=misrouted,
                )
            )
        return TrialResult(
            directions=tuple(directions),
            foreign=foreign,
            refusal_is_loss=self.plan.refusal_is_loss,
        )

    def facts(self) -> dict[str, Any]:
        """What it is.

        Returns:
            JSON values.
        """
        return {"version": "the contract kit's own", "ports": len(self.ports)}

    def close(self) -> None:
        """Unplug."""
        while self.ports:
            self.ports.pop().close()


def stream_frame(stream: Stream, size: int, number: int) -> bytes:
    """A frame of a stream, every octet of its payload its own.

    Args:
        stream: The stream.
        size: Octets including FCS.
        number: Sequence number; through a NAT or load balancer that of the session,
            too, modulo all of them.

    Returns:
        Octets without FCS.
    """
    head = compile_header(stream, size)
    if stream.change is not None:
        side = stream.change.sides()[stream.direction]
        head = with_ends(head, number % stream.change.sessions, side, stream.direction)
    head += MARK.pack(SIGNATURE, stream.id, number)
    rest = driver_length(size) - len(head)
    return head + random.Random(number << 16 | size).randbytes(rest)  # noqa: S311 - no secret


def with_ends(frame: bytes, session: int, side: FlowEnds, direction: int) -> bytes:
    """Give an IPv4 frame of UDP without a checksum the addresses and ports of a session.

    Args:
        frame: Octets without FCS, or the headers alone.
        session: Number of the session.
        side: The sessions as they are where the frame is.
        direction: 0 for a frame from the client, 1 for one to it.

    Returns:
        The frame with those addresses and ports, and the header's checksum.
    """
    written = bytearray(frame)

    def write(offset: int, table: bytes, octets: int) -> None:
        place = session % (len(table) // octets) * octets
        written[offset : offset + octets] = table[place : place + octets]

    ports = ETH_LEN + IPV4_LEN
    write(IPV4_SRC + 4 * direction, side.client, 4)
    write(IPV4_SRC + 4 * (1 - direction), side.server, side.server_octets)
    write(ports + 2 * direction, side.client_port, 2)
    write(ports + 2 * (1 - direction), side.server_port, 2)
    return checksummed(bytes(written))


def checksummed(frame: bytes) -> bytes:
    """Give an IPv4 frame its header's checksum.

    Args:
        frame: Octets without FCS, or the headers alone.

    Returns:
        The frame.
    """
    blank = frame[:IPV4_CHECKSUM] + bytes(2) + frame[IPV4_CHECKSUM + 2 :]
    checksum = internet_checksum(blank[ETH_LEN : ETH_LEN + IPV4_LEN]).to_bytes(2)
    return frame[:IPV4_CHECKSUM] + checksum + frame[IPV4_CHECKSUM + 2 :]


def read_mark(frame: bytes) -> tuple[int, int] | None:
    """Whose frame it is.

    Args:
        frame: Octets without FCS.

    Returns:
        Stream and sequence number; None for a foreign frame.
    """
    if len(frame) < HEADER_LEN + MARK.size:
        return None
    signature, stream, number = MARK.unpack_from(frame, HEADER_LEN)
    return (stream, number) if signature == SIGNATURE else None
