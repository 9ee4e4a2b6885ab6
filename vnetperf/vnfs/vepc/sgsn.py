"""The SGSN of a run: attaches UEs to a mobile core by GTPv1-C."""

from __future__ import annotations

import errno
import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

from vnetperf.host.machine import Machine
from vnetperf.host.wait import patient, wait_for
from vnetperf.model.deployment import VnfPort, WireEnd, tester_mac, vnf_mac
from vnetperf.model.errors import CapabilityError, DutError, HostError
from vnetperf.model.options import GN_PREFIX, GN_TESTER, GN_VEPC, Bearers
from vnetperf.vnfs.vepc import gtpc

#: A request is sent this often, this many seconds apart (T3-RESPONSE and N3-REQUESTS).
TRIES, ANSWER_S = 4, 1.0
#: Sessions under way at a time when there is a ramp: a mobile core takes in so many at once.
WINDOW = 256
BUFFER = 4096
SEQUENCES = 1 << 16
#: Why a request may not be sent now: it is repeated when it is due.
TRANSIENT = (errno.ECONNREFUSED, errno.EAGAIN, errno.ENOBUFS)
#: Longest wait for the answer of a mobile core that has just started, and between two requests.
ECHO_S, ECHO_EVERY_S = 10.0, 0.1
ECHO_POLL_S = ECHO_EVERY_S / 20


@dataclass
class AttachPhase:
    """How the attach phase went.

    Attributes:
        ramp: Sessions requested in a second; 0 for one after the other.
        seconds: From the first request to the last response.
        requesting_s: From the first request to the first one of the last session.
        contexts: Sessions that were made, in the order of their requests.
        answer_s: Time from each one's first request to its response, seconds.
        refusals: Why others were not made -> how many.
    """

    requested: int
    ramp: float
    seconds: float = 0.0
    requesting_s: float = 0.0
    contexts: list[gtpc.Context] = field(default_factory=list)
    answer_s: list[float] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    repeated: int = 0

    @property
    def rate(self) -> float:
        """Sessions in a second: requested, where there is a ramp; made, one after the other."""
        if self.ramp and self.requesting_s:
            return (self.requested - 1) / self.requesting_s  # the first was requested at 0 s
        return len(self.contexts) / self.seconds if self.seconds else 0.0

    def facts(self) -> dict[str, Any]:
        """The phase as a result has it."""
        times = sorted(self.answer_s)
        attached = len(self.contexts)
        facts: dict[str, Any] = {
            "sessions asked for": self.requested,
            "attached": attached,
            "success rate": round(attached / self.requested, 6),
            "ramp, sessions/s": self.ramp or "one after the other",
            "whole, s": round(self.seconds, 4),
            "reached, sessions/s": round(self.rate, 1),
            "requests sent again": self.repeated,
        }
        if times:
            cuts = quantiles(times, n=100, method="inclusive") if len(times) > 1 else times * 99
            shown = {"least": times[0], "median": cuts[49], "99 %": cuts[98], "most": times[-1]}
            facts["time of an attach, ms"] = {k: round(v * 1e3, 3) for k, v in shown.items()}
        if self.refusals:
            facts["not attached"] = dict(self.refusals)
        return facts

    def require_complete(self, where: str, log_tail: Callable[[], str]) -> None:
        """Refuse a phase in which a session is missing: its packets would look like loss."""
        if not self.refusals:
            return
        reasons = ", ".join(f"{count} by {text!r}" for text, count in self.refusals.items())
        raise DutError(
            f"{sum(self.refusals.values())} of {self.requested} sessions were refused: {reasons}; "
            f"log ends with:\n{log_tail()}",
            where=where,
            cure="request fewer with --core sessions=N, or a lower rate with --core ramp=N",
        )


@dataclass
class _Request:
    number: int
    octets: bytes
    first: float
    due: float
    tries: int = 1


class Sgsn:
    """A GTPv1-C client.

    Its socket is made in the network namespace of the thread that makes it, and stays there.
    """

    def __init__(
        self, local: str, mobile_core: str, user: str, apn: str, check: Callable[[], None]
    ) -> None:
        self.local, self.user, self.apn, self.check = local, user, apn, check
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self._sequence = 0
        try:
            self.socket.bind((local, gtpc.PORT_C))
            self.socket.connect((mobile_core, gtpc.PORT_C))
        except OSError as error:
            self.socket.close()
            raise self._error("cannot bind or connect to the mobile core", error) from error

    def close(self) -> None:
        """Let go of the socket."""
        self.socket.close()

    def _error(self, failure: str, error: OSError) -> HostError:
        return HostError(f"the SGSN {failure}: {error.strerror}", where=f"GTP-C, {self.local}")

    def _next(self) -> int:
        self._sequence = (self._sequence + 1) % SEQUENCES
        return self._sequence

    def _receive(self, wait_s: float) -> gtpc.Message | None:
        select.select([self.socket], [], [], max(0.0, wait_s))
        try:
            return gtpc.decode(self.socket.recv(BUFFER))
        except (BlockingIOError, ConnectionRefusedError, gtpc.GtpError):
            return None  # nothing yet, nobody there yet, or nothing that we know
        except OSError as error:
            self.check()
            raise self._error("cannot receive from the mobile core", error) from error

    def _send(self, octets: bytes) -> None:
        try:
            self.socket.send(octets)
        except OSError as error:
            self.check()
            if error.errno not in TRANSIENT:
                raise self._error("cannot send to the mobile core", error) from error

    def echo(self) -> None:
        """Wait until the mobile core answers."""
        due = time.monotonic()

        def answered() -> bool:
            nonlocal due
            if (now := time.monotonic()) >= due:
                self._send(gtpc.echo_request(self._next()).encode())
                due = now + ECHO_EVERY_S
            answer = self._receive(due - now)
            return answer is not None and answer.kind == gtpc.ECHO_RESPONSE

        wait_for(
            answered,
            ECHO_S,
            "an echo response of the mobile core",
            poll_s=ECHO_POLL_S,  # the receiving waits, unless a port without a listener refuses
            check=self.check,
            error=lambda: DutError(
                "the mobile core does not answer an echo request", where=f"GTP-C, {self.local}"
            ),
        )

    def attach(self, sessions: int, ramp: float) -> AttachPhase:
        """Request sessions."""
        phase = AttachPhase(requested=sessions, ramp=ramp)
        contexts: dict[int, gtpc.Context] = {}
        waiting: dict[int, _Request] = {}
        began, sent = time.monotonic(), 0
        while sent < sessions or waiting:
            now = time.monotonic()
            while sent < sessions and _may_request(sent, len(waiting), ramp, now - began):
                sequence = self._next()
                waiting[sequence] = self._request(sequence, sent, now)
                sent, phase.requesting_s = sent + 1, now - began
            self._again(waiting, phase, now)
            due = [next(iter(waiting.values())).due] if waiting else []
            if ramp and sent < sessions and len(waiting) < WINDOW:
                due.append(began + sent / ramp)
            answer = self._receive(min(due, default=0.0) - time.monotonic())
            if answer is not None and answer.kind == gtpc.CREATE_RESPONSE:
                request = waiting.pop(answer.sequence, None)
                if request is not None:  # otherwise the answer to a request sent again
                    self._take(answer, request, contexts, phase)
        phase.seconds = time.monotonic() - began
        phase.contexts = [contexts[number] for number in sorted(contexts)]
        return phase

    def _request(self, sequence: int, number: int, now: float) -> _Request:
        subscriber = gtpc.Subscriber(
            imsi=f"00101{number + 1:010d}",
            msisdn=f"88{number + 1:010d}",
            apn=self.apn,
            teid=number + 1,
        )
        octets = gtpc.create_request(sequence, subscriber, self.local, self.user).encode()
        self._send(octets)
        return _Request(number, octets, now, now + patient(ANSWER_S))

    def _again(self, waiting: dict[int, _Request], phase: AttachPhase, now: float) -> None:
        """Repeat requests that are due, and give up those repeated often enough."""
        for sequence, request in list(waiting.items()):
            if request.due > now:
                return  # they are in the order in which they fall due
            self.check()
            del waiting[sequence]
            if request.tries == TRIES:
                phase.refusals[f"no answer to {TRIES} requests"] += 1
                continue
            self._send(request.octets)
            phase.repeated += 1
            request.tries, request.due = request.tries + 1, now + patient(ANSWER_S)
            waiting[sequence] = request

    @staticmethod
    def _take(
        answer: gtpc.Message,
        request: _Request,
        contexts: dict[int, gtpc.Context],
        phase: AttachPhase,
    ) -> None:
        if cause := gtpc.refusal_cause(answer):
            phase.refusals[cause] += 1
            return
        try:
            contexts[request.number] = gtpc.parse_context(answer)
        except gtpc.GtpError as error:
            phase.refusals[str(error)] += 1
            return
        phase.answer_s.append(time.monotonic() - request.first)


def _may_request(sent: int, waiting: int, ramp: float, since_s: float) -> bool:
    return (waiting < WINDOW and sent <= since_s * ramp) if ramp else waiting == 0


def bearer_runs(sessions: list[tuple[int, int]]) -> tuple[Bearers, ...]:
    """Sessions as runs in which endpoints and addresses rise by one."""
    runs: list[list[int]] = []
    for teid, ue in sessions:
        if runs and (teid - runs[-1][0], ue - runs[-1][1]) == (runs[-1][2],) * 2:
            runs[-1][2] += 1
        else:
            runs.append([teid, ue, 1])
    return tuple(
        Bearers(teid=teid, ue=socket.inet_ntoa(ue.to_bytes(4, "big")), count=count)
        for teid, ue, count in runs
    )


@contextmanager
def sgsn_on_wire(
    machine: Machine, ends: tuple[WireEnd, ...], number: int, apn: str, check: Callable[[], None]
) -> Iterator[Sgsn]:
    """An SGSN on the tester's port 0; the tester stays plugged in meanwhile."""
    netdev = ends[0].netdev if ends and ends[0].kind == "veth" else None
    if netdev is None:
        raise CapabilityError(
            "a mobile core in a VM is attached to over its wire, and "
            f"{ends[0].kind if ends else 'none'} is no interface of the kernel",
            where="vepc:vm",
            cure="--wire veth, or --vnf vepc:container",
        )
    before = machine.link(netdev).mac
    gn_mac = vnf_mac(VnfPort(vnf=number, index=0))

    def tool(line: str) -> None:
        machine.run(line.split(), isolated=True)

    machine.set_link(netdev, mac=tester_mac(0, 0))
    tool(f"ip address replace {GN_TESTER}/{GN_PREFIX} dev {netdev}")
    try:
        tool(f"ip neigh replace {GN_VEPC} lladdr {gn_mac} dev {netdev} nud permanent")
        with closing(
            machine.in_netns(lambda: Sgsn(GN_TESTER, GN_VEPC, GN_TESTER, apn, check))
        ) as sgsn:
            yield sgsn
    finally:
        tool(f"ip neigh flush dev {netdev} nud permanent")
        tool(f"ip address flush dev {netdev}")
        machine.set_link(netdev, mac=before)
