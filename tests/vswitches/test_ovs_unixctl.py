"""Talking to a daemon's control socket."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vnetperf.model.errors import DutError
from vnetperf.openvswitch.control import UnixCtl

Script = Callable[[socket.socket, dict[str, object]], bool]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Callable[[Script], UnixCtl]]:
    """A daemon that answers each request by a script; False closes the connection."""
    path = str(tmp_path / "ctl")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen()
    opened: list[UnixCtl] = []

    def start(script: Script) -> UnixCtl:
        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    while request := connection.recv(65536):
                        if not script(connection, json.loads(request)):
                            break

        threading.Thread(target=serve, daemon=True).start()
        opened.append(UnixCtl(path, timeout_s=60.0))
        return opened[-1]

    yield start
    for client in opened:
        client.close()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def answer(request: dict[str, object], **content: object) -> bytes:
    return json.dumps({"id": request["id"], "error": None, "result": None, **content}).encode()


def test_commands_and_parameters_arrive_and_texts_come_back(
    daemon: Callable[[Script], UnixCtl],
) -> None:
    def script(connection: socket.socket, request: dict[str, object]) -> bool:
        connection.sendall(answer(request, result=f"{request['method']} {request['params']}\n"))
        return True

    client = daemon(script)
    assert client.call("dpctl/show", "-s") == "dpctl/show ['-s']\n"
    assert client.call("list-commands") == "list-commands []\n"


def test_an_answer_in_pieces_is_put_together(daemon: Callable[[Script], UnixCtl]) -> None:
    text = 'port ä {"} ' * 500

    def script(connection: socket.socket, request: dict[str, object]) -> bool:
        whole = answer(request, result=text)
        for start in range(0, len(whole), 97):
            connection.sendall(whole[start : start + 97])
        return True

    assert daemon(script).call("x") == text


def test_a_refusal_is_an_error_with_its_text(daemon: Callable[[Script], UnixCtl]) -> None:
    def script(connection: socket.socket, request: dict[str, object]) -> bool:
        connection.sendall(answer(request, error='"x" is not a valid command'))
        return True

    client = daemon(script)
    for _ in range(2):  # the connection is still good
        with pytest.raises(DutError, match="not a valid command"):
            client.call("x")


def test_a_daemon_that_dies_is_an_error_and_one_that_is_back_is_used_again(
    daemon: Callable[[Script], UnixCtl],
) -> None:
    seen = []

    def script(connection: socket.socket, request: dict[str, object]) -> bool:
        seen.append(request)
        if len(seen) == 1:
            connection.sendall(b'{"id": 1, "res')
            return False
        connection.sendall(answer(request, result="ok"))
        return True

    client = daemon(script)
    with pytest.raises(DutError, match="closed the connection"):
        client.call("x")
    assert client.call("x") == "ok"


def test_no_daemon_is_an_error_that_names_the_socket(tmp_path: Path) -> None:
    with pytest.raises(DutError) as caught:
        UnixCtl(str(tmp_path / "none")).call("x")
    assert caught.value.where == str(tmp_path / "none")


def test_a_daemon_that_hangs_is_given_up(daemon: Callable[[Script], UnixCtl]) -> None:
    client = daemon(lambda connection, request: True)
    client.timeout_s = 0.1
    with pytest.raises(DutError, match="no answer to x"):
        client.call("x")


def test_a_daemon_that_is_stopped_is_not_waited_for(
    daemon: Callable[[Script], UnixCtl], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vnetperf.host.wait.CHECK_S", 0.02)
    seen: list[dict[str, object]] = []

    def script(connection: socket.socket, request: dict[str, object]) -> bool:
        seen.append(request)
        if len(seen) > 1:
            connection.sendall(answer(request, result="there"))
        return True

    def stopped() -> None:
        if seen:  # the daemon's thread may be late; stopped it is once it was asked
            raise DutError("ovs-vswitchd (pid 1) is stopped")

    client = daemon(script)
    client.check = stopped
    client.timeout_s = 60.0
    began = time.monotonic()
    with pytest.raises(DutError, match="is stopped"):
        client.call("dpif/show")
    assert time.monotonic() - began < 30
    client.check = lambda: None  # it goes on
    assert client.call("dpif/show") == "there"  # by a new connection: no late answer is taken
