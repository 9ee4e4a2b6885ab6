"""DPDK's telemetry, and what testpmd prints of its ports."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from vnetperf.host import dpdk
from vnetperf.host.dpdk import DpdkPorts, DpdkTelemetry
from vnetperf.model.errors import DutError, GeneratorError, HostError
from vnetperf.traffic.loadgen.telemetry import EngineSocket

GREETING = {"version": "DPDK 22.11.7", "pid": 42, "max_output_len": 16384}


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Path]:
    """A program that greets, then gives each of these answers to one request."""

    def start(*answers: bytes | None, greeting: Any = GREETING) -> Path:
        path = tmp_path / "socket"
        server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            # A client may go with answers unread.
            with suppress(ConnectionError), server, server.accept()[0] as peer:
                peer.send(json.dumps(greeting).encode())
                for answer in answers:
                    if peer.recv(2048) and answer is not None:
                        peer.send(answer)
                if None in answers:
                    peer.recv(1)  # silent until the client has gone

        threading.Thread(target=serve, daemon=True).start()
        return path

    return start


def test_an_answer(program: Callable[..., Path]) -> None:
    telemetry = DpdkTelemetry(program(b'{"/a": {"b": 1}}', b'{"/a": null}', b"[]", b"{"))
    assert telemetry.greeting["pid"] == 42
    assert telemetry.ask("/a,0") == {"b": 1}
    assert telemetry.ask("/a") is None
    for _ in ("a list", "no JSON", "closed"):
        with pytest.raises(HostError, match=r"/a|closed"):
            telemetry.ask("/a")


def test_a_late_answer_is_not_taken_for_the_next(program: Callable[..., Path]) -> None:
    telemetry = DpdkTelemetry(program(None), timeout_s=0.05)
    with pytest.raises(HostError, match="no answer to /a in time") as caught:
        telemetry.ask("/a")
    assert isinstance(caught.value.__cause__, TimeoutError)
    with pytest.raises(HostError, match="no answer to /b"):
        telemetry.ask("/b")


def test_a_testpmd_that_is_stopped_is_named_while_its_answer_is_waited_for(
    program: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    socket_of = Path("dpdk/vnf0/dpdk_telemetry.v2")
    socket_of.parent.mkdir(parents=True)
    socket_of.symlink_to(program(None))
    ports = DpdkPorts(Path(), "vnf0")

    def check() -> None:
        raise DutError("it is stopped", where="vnf0")

    ports.check = check
    began = time.monotonic()
    with pytest.raises(DutError, match="is stopped"):
        ports.link_up(0)
    assert time.monotonic() - began < 4.0  # its own time limit is 5 s


def test_several_answers_come_in_the_order_of_the_requests(program: Callable[..., Path]) -> None:
    answers = [json.dumps({"/a": number}).encode() for number in range(50)]
    telemetry = DpdkTelemetry(program(*answers))
    assert telemetry.ask_all([]) == []
    assert telemetry.ask_all([f"/a,{number}" for number in range(49)]) == [*range(49)]
    assert telemetry.ask("/a") == 49


def test_of_several_requests_a_lost_answer_ends_the_connection(
    program: Callable[..., Path],
) -> None:
    telemetry = DpdkTelemetry(program(b'{"/a": 0}', b"{", b'{"/a": 2}', b'{"/a": 3}'))
    with pytest.raises(HostError, match="no answer to /a"):
        telemetry.ask_all(["/a", "/a", "/a"])
    with pytest.raises(HostError, match="no answer to /a"):
        telemetry.ask("/a")  # and not the third's


def test_of_several_requests_a_refusal_leaves_the_connection(
    program: Callable[..., Path],
) -> None:
    refusal = b'{"/x": {"error": "no such rate", "accepted": "0 to 9"}}'
    with closing(
        EngineSocket(program(b'{"/x": 1}', refusal, b'{"/x": 3}', b'{"/y": 4}'))
    ) as client:
        assert client.ask_rows("/x", []) == []
        with pytest.raises(GeneratorError, match="no such rate"):
            client.ask_rows("/x", [{"rate": 1}, {"rate": 10}, {"rate": 2}])
        assert client.ask("/y") == 4


def test_the_engines_client_tells_refusals(program: Callable[..., Path]) -> None:
    refusal = b'{"/x": {"error": "no such rate", "accepted": "0 to 9"}}'
    with closing(EngineSocket(program(b'{"/x": {"a": 1}}', refusal, b'{"/x": null}'))) as client:
        assert client.pid == 42
        assert client.ask("/x", rate=0.1, none=None) == {"a": 1}
        with pytest.raises(GeneratorError, match="no such rate") as caught:
            client.ask("/x")
        assert caught.value.accepted == "0 to 9"
        with pytest.raises(GeneratorError, match="unknown or failed"):
            client.ask("/x")
        with pytest.raises(GeneratorError, match="octets"):
            client.ask("/x," + "y" * 2000)
        with pytest.raises(GeneratorError, match=r"closed|no answer"):
            client.ask("/x")


@pytest.mark.parametrize("greeting", [{}, {"pid": "x", "version": ""}, []])
def test_what_does_not_greet_like_dpdk(program: Callable[..., Path], greeting: Any) -> None:
    with pytest.raises(GeneratorError, match="no DPDK telemetry"):
        EngineSocket(program(greeting=greeting))


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(GeneratorError, match="no DPDK telemetry"):
        EngineSocket(tmp_path / "nobody")
    with pytest.raises(GeneratorError, match="too long"):
        EngineSocket(tmp_path / ("x" * 120))


STATS = {"ipackets": 9, "opackets": 8, "imissed": 3, "rx_nombuf": 2, "oerrors": 1}
INFO = {"name": "net_memif0", "mac_addr": "02:00:00:00:00:01", "mtu": 1500, "nb_rx_queues": 2}


class Program:
    """A testpmd that does not answer its second question in time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.greeting = {"version": "DPDK 22.11.7"}
        self.asked = 0
        self.closed = False

    def ask(self, command: str) -> Any:
        assert not self.closed
        self.asked += 1
        if self.asked == 2:
            raise HostError("no answer in time")
        return {"/ethdev/stats,0": STATS, "/ethdev/info,0": INFO}.get(command)

    def close(self) -> None:
        self.closed = True


def test_after_a_late_answer_the_next_question_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpdk, "DpdkTelemetry", Program)
    ports = DpdkPorts(Path("/r"), "vnf0")
    counted = ports.counters(0, "vnf0.0 (inside)")
    assert (counted.rx, counted.tx, counted.rx_dropped, counted.tx_dropped) == (9, 8, 5, 1)
    with pytest.raises(HostError, match="in time"):
        ports.counters(0, "vnf0.0 (inside)")
    assert ports.counters(0, "vnf0.0 (inside)") == counted
    ports.close()
    with pytest.raises(HostError, match="no statistics of port 1"):
        ports.counters(1, "vnf0.1 (inside)")


def test_a_port_is_described_or_why_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = DpdkPorts(Path("/nowhere"), "vnf0")
    assert gone.describe(0).startswith("unknown: ")
    assert gone.version() == "unknown: it does not answer"
    with pytest.raises(HostError, match="no telemetry is there"):
        gone.link_up(0)
    monkeypatch.setattr(dpdk, "DpdkTelemetry", Program)
    there = DpdkPorts(Path("/r"), "vnf0")
    assert there.version() == "DPDK 22.11.7"
    there.close()
    described = there.describe(0)
    for words in ("02:00:00:00:00:01", "MTU 1500", "2/? "):
        assert words in described
    there.close()
    assert not there.link_up(0)  # it knows no such port


@pytest.mark.parametrize(
    ("node", "far", "device", "memory"),
    [
        (0, (), "--vdev=net_memif0,role=client", "128"),
        (1, (), "--vdev=net_memif0,role=client", "16,128"),
        (1, (), "--vdev=net_af_packet0,iface=vpd0", "0,128"),
        (2, (1,), "--vdev=net_memif0,role=client", "16,16,128"),
    ],
)
def test_memory_is_taken_where_threads_and_drivers_take_it(
    node: int, far: tuple[int, ...], device: str, memory: str
) -> None:
    arguments = dpdk.eal_memory(node, 128, ["-a0000:41:00.0", device], far)
    assert arguments[-2:] == ["--socket-mem", memory]


@pytest.mark.parametrize("page", [4096, 16384, 65536])
@pytest.mark.parametrize("size", [2048, 4096, 9280, 9728, 16384])
def test_blocks_of_a_ring_are_of_whole_pages_and_whole_frames(page: int, size: int) -> None:
    fields = dict(field.split("=") for field in dpdk.af_packet_ring(size, 2048, page).split(","))
    block, frames = int(fields["blocksz"]), int(fields["framecnt"])
    assert (int(fields["framesz"]), frames) == (size, 2048)
    assert block % page == 0
    assert block % size == 0
    assert frames % (block // size) == 0


def test_a_ring_that_is_no_whole_number_of_blocks_is_refused() -> None:
    assert "blocksz=4096" in dpdk.af_packet_ring(2048, 2, 4096)
    with pytest.raises(HostError, match="a multiple of 32"):
        dpdk.af_packet_ring(2048, 16, 65536)


@pytest.mark.parametrize("none", [2**64 - 1, None, -1])
def test_a_counter_that_a_driver_does_not_keep_is_no_number(
    monkeypatch: pytest.MonkeyPatch, none: object
) -> None:
    monkeypatch.setattr(dpdk, "DpdkTelemetry", Program)
    ports = DpdkPorts(Path("/r"), "vnf0")
    monkeypatch.setitem(STATS, "imissed", none)
    counted = ports.counters(0, "vnf0.0")
    assert (counted.rx, counted.rx_dropped) == (9, 2)
    monkeypatch.setitem(STATS, "ipackets", none)
    ports.close()
    with pytest.raises(HostError, match="port 0 counts no packets"):
        DpdkPorts(Path("/r"), "vnf0").counters(0, "vnf0.0")
