"""Transfers between two ends: what is started where, what it sums to, and bad luck."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.endpoints.fakes import FakePlace, FakeProgram, ends
from vnetperf.deployment import endpoints, transfers
from vnetperf.deployment.endpoints import listening_ports
from vnetperf.deployment.others import MachineWatch
from vnetperf.deployment.transfers import Exchange, offered_rate
from vnetperf.model.errors import CapabilityError, DutError, GeneratorError, HostError
from vnetperf.model.transfer import Transfer, TransferSpec, Way

pytestmark = pytest.mark.slow

TCP = TransferSpec(kind="TCP_STREAM", message_size=1024, duration_s=1)
JSON = (Path(__file__).with_name("recorded") / "iperf3_3.12_tcp.json").read_text()
ARRIVED = 342420926.658915


def works(argv: Sequence[str]) -> FakeProgram:
    del argv
    return FakeProgram(JSON, 0.05)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "_used", count())
    for module, name in ((transfers, "LISTEN_S"), (transfers, "GRACE_S"), (endpoints, "STALL_S")):
        monkeypatch.setattr(module, name, 0.3)
    monkeypatch.setattr(endpoints, "LOOK_S", 0.02)


def run(client: FakePlace, server: FakePlace, spec: TransferSpec = TCP) -> Transfer:
    (found,) = Exchange(ends(client, server), lambda: None, MachineWatch()).run([spec])
    left = [p for place in (client, server) for _, _, p in place.started if p.ended() is None]
    assert left == []
    return found


def test_fragments_are_those_made_while_the_clients_ran() -> None:
    made = iter((5, 47))
    both = ends(FakePlace(works), FakePlace(works))
    (found,) = Exchange(both, lambda: None, None, lambda: next(made)).run([TCP])
    assert found.fragments == 42
    assert run(FakePlace(works), FakePlace(works)).fragments is None


def test_each_instance_has_a_server_and_a_client_of_its_own_each_way() -> None:
    client, server = FakePlace(works), FakePlace(works)
    spec = TCP.model_copy(update={"instances": 3, "way": "both"})
    found = run(client, server, spec)
    assert [(flow.way, flow.port) for flow in found.flows] == [
        *(("forth", 5201 + n) for n in range(3)),
        *(("back", 5204 + n) for n in range(3)),
    ]
    names = [[name for name, _, _ in place.started] for place in (client, server)]
    assert [one.count("iperf3-server") for one in names] == [3, 3]
    assert [one.count("iperf3-client") for one in names] == [3, 3]
    assert found.bits_per_second == pytest.approx(6 * ARRIVED)
    assert found.machine_busy_s is not None
    assert found.machine_interrupts_s is not None
    assert 0 <= found.machine_interrupts_s <= found.machine_busy_s
    assert found.others is not None
    assert 0 <= found.others <= 1
    assert found.stolen is not None
    # Three clients at 0.25 + 0.5 s; of servers what they took during the transfer.
    assert (found.client.user_s, found.client.system_s) == (0.75, 1.5)
    assert (found.server.place, found.server.address, found.server.cpus) == (
        *("namespace at port 1", "198.19.0.1"),
        "3",
    )


def test_versions_of_both_ends_are_stated_and_compared() -> None:
    found = run(FakePlace(works, version="3.21"), FakePlace(works, version="3.12"))
    assert (found.client.version, found.server.version) == ("iperf3 3.21", "iperf3 3.12")
    (note,) = found.notes
    assert "iperf3 3.21" in note
    assert "iperf3 3.12" in note
    assert run(FakePlace(works), FakePlace(works)).notes == ()


def test_what_is_to_be_said_of_an_end_is_said_of_its_transfers() -> None:
    both = ends(FakePlace(works), FakePlace(works))
    server = replace(both.server, notes=("pod 1 has a proxy",))
    (found,) = Exchange(replace(both, server=server), lambda: None, None).run([TCP])
    assert found.notes == ("pod 1 has a proxy",)


def test_no_port_is_used_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [run(FakePlace(works), FakePlace(works)).flows[0].port for _ in range(3)]
    assert found == [5201, 5202, 5203]
    monkeypatch.setattr(transfers, "PORTS", range(5201, 5204))
    assert {transfers.take_ports(2) for _ in range(5)} == {5201, 5202}  # 5204 is none of them


def test_what_warms_up_is_thrown_away() -> None:
    client, server = FakePlace(works), FakePlace(works)
    found = run(client, server, TCP.model_copy(update={"warmup_s": 2}))
    times = [argv[argv.index("--time") + 1] for name, argv, _ in client.started if "client" in name]
    assert times == ["2", "1"]
    assert len(found.flows) == 1


def test_servers_end_by_the_signal_that_lets_them_speak() -> None:
    client, server = FakePlace(works), FakePlace(works)
    run(client, server)
    assert [p.ended_by for name, _, p in server.started] == [signal.SIGTERM]


def unlucky(message: str, client: FakePlace, server: FakePlace, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=message):
        run(client, server)
    left = [p for place in (client, server) for _, _, p in place.started if p.ended() is None]
    assert left == []


def test_a_server_that_never_listens_is_one_error() -> None:
    unlucky(
        r"TCP_STREAM forth: its server runs in the namespace at port 1, but does not listen at "
        r"port 5201 within 0\.3 s",
        FakePlace(works),
        FakePlace(works, listens=False),
        GeneratorError,
    )


def test_a_server_that_ends_is_one_error_with_its_last_words() -> None:
    unlucky(
        r"(?s)its server in the namespace at port 1 has ended.*bad luck",
        FakePlace(lambda argv: FakeProgram(JSON, 9.0)),
        FakePlace(works, server_lasts_s=0.1),
        GeneratorError,
    )


def test_a_port_that_is_taken_is_one_error() -> None:
    server = FakePlace(works, taken={5201})
    unlucky(
        "port 5201 is taken in the namespace at port 1", FakePlace(works), server, GeneratorError
    )
    assert server.started == []


@pytest.mark.parametrize("where", [0, 1])
def test_a_tool_that_is_not_there_is_one_error(where: int) -> None:
    places = [FakePlace(works), FakePlace(works)]
    places[where].missing = True
    unlucky(
        rf"iperf3 cannot be run in the namespace at port {where}: iperf3 is not installed(?s:.)*"
        "install the package iperf3",
        *places,
        CapabilityError,
    )


@pytest.mark.parametrize("code", [-9, 137])
def test_a_client_that_is_killed_is_one_error(code: int) -> None:
    unlucky(
        "its client in the namespace at port 0 has ended by signal 9",
        FakePlace(lambda argv: FakeProgram(JSON, 0.05, code)),
        FakePlace(works),
        GeneratorError,
    )


def test_a_client_that_fails_is_no_number_even_with_an_output() -> None:
    unlucky(
        r"its client has ended \(status 1\)",
        FakePlace(lambda argv: FakeProgram(JSON, 0.05, 1)),
        FakePlace(works),
        GeneratorError,
    )


def test_a_path_that_goes_down_is_the_duts_fault() -> None:
    unlucky(
        r"nothing has arrived for 0\.3 s .*the path is down",
        FakePlace(lambda argv: FakeProgram(JSON, 9.0), arrives=0),
        FakePlace(works, arrives=0),
        DutError,
    )


def test_a_client_that_reaches_nobody_is_the_duts_fault() -> None:
    refused = '{"error": "unable to connect"}'
    unlucky(
        r"nothing has arrived at the server's end \(.*\): the path is down",
        FakePlace(lambda argv: FakeProgram(refused, 0.0, 1)),
        FakePlace(works, arrives=0),
        DutError,
    )


def test_a_client_that_fails_because_the_path_went_down_is_the_duts_fault() -> None:
    client = FakeProgram('{"error": "unable to connect"}', 60.0, 1)

    class Dies(FakePlace):
        def received(self, netdev: str) -> int:
            if self.packets == 2:  # the last one: the client gives up a while after it
                client.began, client.lasts_s = time.monotonic(), 0.29
            self.packets = min(self.packets + 1, 3)
            return self.packets

    unlucky(
        r"nothing has arrived for \d+\.\d s \(.*\): the path is down",
        Dies(lambda argv: client),
        Dies(works),
        DutError,
    )


def test_a_lost_answer_is_no_path_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of UDP_RR sends nothing after it: its tool says what that is worth."""
    watched = endpoints.TrafficWatchdog(ends(FakePlace(works), FakePlace(works)), waits=True)
    counts = [(10, 10), *[(20, 20)] * 3]
    monkeypatch.setattr(watched, "_first", (0, 0))
    monkeypatch.setattr(watched, "_counts", lambda: counts.pop(0) if counts else (20, 20))
    monkeypatch.setattr(endpoints, "LOOK_S", 0.0)
    monkeypatch.setattr(endpoints, "STALL_S", 0.0)
    for _ in range(4):
        watched.expect_some("UDP_RR")
    watched.expect_any("UDP_RR")
    monkeypatch.setattr(watched, "_first", (20, 20))  # of a path that never was there
    with pytest.raises(DutError, match="the path is down"):
        watched.expect_some("UDP_RR")


def test_a_client_that_does_not_end_is_one_error() -> None:
    unlucky(
        r"its client in the namespace at port 0 does not end within 0\.3 s after its time",
        FakePlace(lambda argv: FakeProgram(JSON, 9.0)),
        FakePlace(works),
        GeneratorError,
    )


def test_a_dut_that_dies_ends_it_all() -> None:
    client, server = FakePlace(lambda argv: FakeProgram(JSON, 9.0)), FakePlace(works)
    calls: list[int] = []

    def watch() -> None:
        calls.append(1)
        if len(calls) > 3:
            raise DutError("the switch has ended")

    with pytest.raises(DutError, match="the switch has ended"):
        Exchange(ends(client, server), watch, None).run([TCP])
    assert all(p.ended() is not None for place in (client, server) for _, _, p in place.started)


def test_what_a_tool_cannot_is_not_tried() -> None:
    client, server = FakePlace(works), FakePlace(works)
    asked = TransferSpec(kind="TCP_RR", duration_s=1)
    with pytest.raises(CapabilityError, match="iperf3 cannot do TCP_RR"):
        run(client, server, asked)
    assert client.started == server.started == []


@pytest.mark.parametrize(("reached", "rate"), [((), 10e6), ((0.0,), 10e6), ((5e6,), 5e6)])
def test_udp_that_goes_as_tcp_went_is_never_without_a_limit(
    reached: tuple[float, ...], rate: float
) -> None:
    asked = TransferSpec(kind="UDP_STREAM", duration_s=1, rate_of_tcp=True)
    other_way = Transfer(spec=TCP.model_copy(update={"way": "back"}), bits_per_second=9e9)
    before = [*(Transfer(spec=TCP, bits_per_second=one) for one in reached), other_way]
    assert offered_rate(asked, before).rate_bps == rate
    assert offered_rate(asked.model_copy(update={"instances": 2}), before).rate_bps == rate / 2
    both = [Transfer(spec=TCP.model_copy(update={"way": "both"}), bits_per_second=8e6)]
    assert offered_rate(asked.model_copy(update={"way": "both"}), both).rate_bps == 4e6
    assert offered_rate(TCP, before) == TCP
    free = TransferSpec(kind="UDP_STREAM", duration_s=1)
    assert offered_rate(free, before) == free
    paced = asked.model_copy(update={"rate_bps": 1e6})
    assert offered_rate(paced, before) == paced


def test_ports_are_read_as_the_kernel_writes_them() -> None:
    text = (
        "  sl  local_address rem_address   st tx_queue\n"
        "   0: 0100007F:1451 00000000:0000 0A 00000000:00000000\n"
        "   1: 0100007F:1452 0100007F:1451 01 00000000:00000000\n"
    )

    class Place(FakePlace):
        def run(self, argv: Sequence[str]) -> str:
            return text

    assert listening_ports(Place(works), udp=False) == {5201}
    assert listening_ports(Place(works), udp=True) == {5201, 5202}


@pytest.mark.parametrize(("way", "client", "server"), [("forth", 0, 1), ("back", 1, 0)])
def test_processors_a_tool_tells_are_those_of_the_ends(way: Way, client: int, server: int) -> None:
    found = run(FakePlace(works), FakePlace(works), TCP.model_copy(update={"way": way}))
    told = json.loads(JSON)["end"]["cpu_utilization_percent"]
    percent = (told["host_total"], told["remote_total"])
    assert percent[0] != percent[1]
    assert (found.client_cpu_percent, found.server_cpu_percent) == (
        percent[client],
        percent[server],
    )
    assert found.flows[0].figures.client_cpu_percent == found.client_cpu_percent


def test_what_cannot_be_ended_keeps_nothing_else_alive_and_hides_no_error() -> None:
    class Stuck(FakeProgram):
        def end(self, by: signal.Signals) -> None:
            super().end(by)
            raise HostError("it does not end")

    client, server = FakePlace(lambda argv: Stuck(JSON, 9.0)), FakePlace(works)
    spec = TCP.model_copy(update={"instances": 2})
    unlucky("does not end within 0.3 s after its time", client, server, GeneratorError)
    client = FakePlace(lambda argv: Stuck(JSON, 0.05))
    with pytest.raises(HostError, match="it does not end"):
        run(client, server, spec)
    assert all(p.ended() is not None for place in (client, server) for _, _, p in place.started)


def test_a_status_of_255_is_no_signal() -> None:
    unlucky(
        r"its client has ended \(status 255\)",
        FakePlace(lambda argv: FakeProgram(JSON, 0.05, 255)),
        FakePlace(works),
        GeneratorError,
    )
