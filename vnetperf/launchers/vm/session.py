"""A run's connection to libvirt, in a process of its own that ends with the run, and its guests."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
from typing import Any
from weakref import WeakKeyDictionary

from vnetperf.host.machine import Machine
from vnetperf.host.patience import patient
from vnetperf.host.process import ManagedProcess
from vnetperf.launchers.vm.server import EMBEDDED
from vnetperf.model.errors import HostError

OPEN_S = 20.0
CALL_S = 60.0
#: A process namespace whose first process takes all others with it.
UNSHARE = ("unshare", "--pid", "--fork", "--kill-child=KILL", "--mount", "--mount-proc", "--")


class Session:
    """A connection to libvirt.

    Args:
        machine: The machine.
        uri: URI of libvirt's driver; "" for a private one of this run.
        in_netns: True puts it into the run's network namespace, where its taps are.
    """

    def __init__(self, machine: Machine, uri: str = "", *, in_netns: bool = False) -> None:
        self._uri = uri or EMBEDDED
        directory = machine.subdir("lv")  # short: libvirt's sockets are deep below it
        self.directory = directory
        self._socket = directory / "session.sock"
        self._socket.unlink(missing_ok=True)
        python = [sys.executable, "-m", "vnetperf.launchers.vm.server"]
        self.process: ManagedProcess = machine.spawn(
            "libvirt",
            [*(UNSHARE if not uri else ()), *python, str(self._socket), self._uri, str(directory)],
            isolated=in_netns,
            keep_stdin_open=True,  # closed when it is stopped: unshare keeps signals to itself
        )

    @property
    def private(self) -> bool:
        """True when its guests are children of this run."""
        return self._uri == EMBEDDED

    def call(self, name: str, *, timeout_s: float = CALL_S, **arguments: Any) -> Any:
        """Ask for something; any thread may.

        Args:
            name: One of the server's calls.
            timeout_s: Longest wait for the answer, seconds.
            **arguments: Its arguments.

        Returns:
            The answer.

        Raises:
            HostError: libvirt refuses, does not answer in time, or has ended.
        """
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection:
            connection.settimeout(patient(timeout_s))
            try:
                self._connect(connection)
                connection.sendall(json.dumps({"call": name, **arguments}).encode() + b"\n")
                line = connection.makefile("rb").readline()
            except TimeoutError as error:
                raise HostError(f"no answer to {name} in time", where=self._uri) from error
            except OSError as error:
                raise HostError(f"libvirt is not there: {error}", where=self._uri) from error
        if not line:
            self.process.expect_alive(f"while asked for {name}")
            raise HostError(f"libvirt gave no answer to {name}", where=self._uri)
        answer = json.loads(line)
        if "error" in answer:
            raise HostError(answer["error"], where=self._uri)
        return answer["ok"]

    def _connect(self, connection: socket.socket) -> None:
        def listens() -> bool:
            try:
                connection.connect(str(self._socket))
            except (FileNotFoundError, ConnectionRefusedError):
                return False
            return True

        self.process.wait_for(listens, OPEN_S, "its socket")

    def close(self) -> None:
        """End it and every guest of it. Idempotent."""
        self.process.stop(timeout_s=2.0)


_sessions: WeakKeyDictionary[Machine, Session] = WeakKeyDictionary()
_turn = threading.Lock()


def session_of(machine: Machine, uri: str = "", *, in_netns: bool = False) -> Session:
    """The run's session, started when first asked for.

    Args:
        machine: The machine.
        uri: URI of libvirt's driver; "" for a private one.
        in_netns: True when guests have taps, which are in the run's network namespace.

    Returns:
        The session.
    """
    with _turn:
        found = _sessions.get(machine)
        if found is None or not found.process.alive():
            found = _sessions[machine] = Session(machine, uri, in_netns=in_netns)
        return found
