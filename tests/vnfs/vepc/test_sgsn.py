"""The SGSN against a mobile core that is a socket: what it asks, how often, what it makes of it."""

from __future__ import annotations

import errno
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model.errors import DutError, HostError
from vnetperf.vnfs.vepc import gtpc, sgsn

Answer = Callable[[gtpc.Message, int], gtpc.Message | None]


def accepted(message: gtpc.Message, number: int) -> gtpc.Message:
    """What a mobile core with room says."""
    ue = IPv4Address("198.18.0.0") + number
    return gtpc.Message(
        gtpc.CREATE_RESPONSE,
        0,
        message.sequence,
        (
            (gtpc.CAUSE, bytes(gtpc.ACCEPTED[:1])),
            (gtpc.TEID_DATA, struct.pack("!I", number)),
            (gtpc.TEID_CONTROL, struct.pack("!I", number)),
            (gtpc.END_USER_ADDRESS, gtpc.IPV4 + ue.packed),
            (gtpc.GSN_ADDRESS, IPv4Address("192.0.2.1").packed),
        ),
    )


def refused(message: gtpc.Message, number: int) -> gtpc.Message:
    """What a mobile core without room says."""
    del number
    return gtpc.Message(gtpc.CREATE_RESPONSE, 0, message.sequence, ((gtpc.CAUSE, bytes((199,))),))


@contextmanager
def mobile_core(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> Iterator[sgsn.Sgsn]:
    """A mobile core on a port of its own, and an SGSN that asks it."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    server.settimeout(10)
    monkeypatch.setattr(gtpc, "PORT_C", server.getsockname()[1])
    seen: dict[int, int] = {}

    def serve() -> None:
        while True:
            try:
                octets, peer = server.recvfrom(4096)
            except OSError:
                return
            if not octets:
                return
            message = gtpc.decode(octets)
            if message.kind == gtpc.ECHO_REQUEST:
                reply = gtpc.Message(gtpc.ECHO_RESPONSE, 0, message.sequence)
                server.sendto(reply.encode(), peer)
                continue
            number = seen.setdefault(message.sequence, len(seen) + 1)
            found = answer(message, number)
            if found is not None:
                server.sendto(found.encode(), peer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    client = sgsn.Sgsn("127.0.0.2", "127.0.0.1", "192.0.2.2", "internet", lambda: None)
    try:
        yield client
    finally:
        client.socket.send(b"")
        thread.join(10)
        client.close()
        server.close()


@pytest.mark.parametrize("ramp", [0.0, 2000.0])
def test_every_session_is_made_and_timed(monkeypatch: pytest.MonkeyPatch, ramp: float) -> None:
    with mobile_core(monkeypatch, accepted) as client:
        client.echo()
        phase = client.attach(40, ramp)
    assert [context.teid_data for context in phase.contexts] == list(range(1, 41))
    assert (phase.requested, len(phase.answer_s), phase.refusals) == (40, 40, {})
    facts = phase.facts()
    assert facts["success rate"] == 1.0
    assert facts["attached"] == 40
    times = facts["time of an attach, ms"]
    assert times["least"] <= times["median"] <= times["99 %"] <= times["most"]
    if ramp:
        assert phase.seconds >= 39 / ramp  # never sooner than asked for


def test_refusals_are_counted_by_their_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    def half(message: gtpc.Message, number: int) -> gtpc.Message:
        return accepted(message, number) if number <= 3 else refused(message, number)

    with mobile_core(monkeypatch, half) as client:
        phase = client.attach(5, 0.0)
    assert len(phase.contexts) == 3
    assert phase.refusals == {"no resources available (cause 199)": 2}
    assert phase.facts()["success rate"] == 0.6


@pytest.mark.slow
def test_what_is_lost_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sgsn, "ANSWER_S", 0.5)  # four times as long as a busy machine needs
    heard: dict[int, int] = {}

    def deaf_at_first(message: gtpc.Message, number: int) -> gtpc.Message | None:
        heard[number] = heard.get(number, 0) + 1
        return accepted(message, number) if heard[number] > 1 else None

    with mobile_core(monkeypatch, deaf_at_first) as client:
        phase = client.attach(3, 0.0)
    assert len(phase.contexts) == 3
    assert phase.repeated >= 3


def test_the_rate_is_that_of_requests_where_there_is_a_ramp() -> None:
    phase = sgsn.AttachPhase(requested=50, ramp=25.0, seconds=3.0, requesting_s=1.96)
    assert phase.rate == pytest.approx(25.0)
    phase = sgsn.AttachPhase(requested=2, ramp=0.0, seconds=4.0, requesting_s=2.0)
    phase.contexts = [gtpc.Context(1, 1, "198.18.0.1", "192.0.2.1")] * 2
    assert phase.rate == 0.5  # one after the other: as fast as they are made


def test_an_address_that_is_taken_is_one_message() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.3", 0))
        port = taken.getsockname()[1]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gtpc, "PORT_C", port)
            with pytest.raises(HostError, match=r"127\.0\.0\.3.*in use"):
                sgsn.Sgsn("127.0.0.3", "127.0.0.1", "192.0.2.2", "internet", lambda: None)


def test_a_network_that_is_not_there_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        def send(self, octets: bytes) -> None:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")

    with (
        mobile_core(monkeypatch, accepted) as client,
        patch.object(client, "socket", Gone()),
        pytest.raises(HostError, match="unreachable"),
    ):
        client.echo()


def test_silence_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sgsn, "ANSWER_S", 0.02)
    with mobile_core(monkeypatch, lambda message, number: None) as client:
        phase = client.attach(2, 0.0)
    assert phase.contexts == []
    assert phase.refusals == {f"no answer to {sgsn.TRIES} requests": 2}


def test_a_core_that_has_ended_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sgsn, "ANSWER_S", 0.02)

    def ended() -> None:
        raise DutError("osmo-ggsn has ended")

    with mobile_core(monkeypatch, lambda message, number: None) as client:
        client.check = ended
        with pytest.raises(DutError, match="has ended"):
            client.attach(2, 0.0)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60)), max_size=80))
def test_runs_have_every_session_once(sessions: list[tuple[int, int]]) -> None:
    found = [
        (run.teid + n, int(IPv4Address(run.ue)) + n)
        for run in sgsn.bearer_runs(sessions)
        for n in range(run.count)
    ]
    assert found == sessions


def test_sessions_in_order_are_one_run() -> None:
    sessions = [(n, int(IPv4Address("198.18.0.0")) + n) for n in range(1, 1001)]
    (run,) = sgsn.bearer_runs(sessions)
    assert (run.teid, run.ue, run.count) == (1, "198.18.0.1", 1000)


def test_a_silent_core_is_asked_at_the_stated_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = [100.0], [0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(sgsn, "time", clock)
    monkeypatch.setattr("vnetperf.host.wait.time", clock)
    monkeypatch.setattr("vnetperf.host.wait.time_factor", lambda: 1.0)
    with mobile_core(monkeypatch, accepted) as client:
        monkeypatch.setattr(client, "_send", lambda _: asked.__setitem__(0, asked[0] + 1))
        monkeypatch.setattr(client, "_receive", sleep)
        with pytest.raises(DutError, match="does not answer"):
            client.echo()
        assert asked[0] == pytest.approx(sgsn.ECHO_S / sgsn.ECHO_EVERY_S, rel=0.1)
        asked[0] = 0
        monkeypatch.setattr(client, "_receive", lambda _: None)  # refused at once
        with pytest.raises(DutError, match="does not answer"):
            client.echo()
        assert asked[0] <= sgsn.ECHO_S / sgsn.ECHO_EVERY_S + 1
