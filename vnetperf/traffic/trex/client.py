"""TRex's Python client: where it is installed, and the process that runs it (`worker.py`)."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import re
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from vnetperf.host.machine import Machine
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import GeneratorError, TrialTimeoutError
from vnetperf.plugin.generator import WATCH_S
from vnetperf.traffic.trex import worker
from vnetperf.traffic.trex.worker import PROTOCOL

#: Where the client's package is below a directory that a user may name: the directory itself,
#: a server's tree, a checkout of TRex, what `pip install --target` makes.
CLIENT_DIRECTORIES = (
    ".",
    "automation/trex_control_plane/interactive",
    "scripts/automation/trex_control_plane/interactive",
    "lbr_trex_client/interactive",
)
#: The same in a virtual environment, whose own interpreter is then the client's.
IN_ENVIRONMENT = "lib/python3*/site-packages"
PYPI = "lbr_trex_client"
#: First version of Python that the client from PyPI cannot be imported by: `imp` has gone there.
PYPI_ENDS = (3, 12)


@dataclass(frozen=True)
class ClientInstall:
    """A client: the directory that has the package `trex`, and its interpreter."""

    path: Path
    python: Path
    source: str

    def argv(self, socket: Path) -> list[str]:
        """Command line of the client's process."""
        return [str(self.python), "-I", worker.__file__, str(socket), str(self.path)]


def find_client(named: str, server: str) -> ClientInstall | str:
    """Find TRex's client."""
    if named:
        install = _in_directory(Path(named))
        return install or (
            f"there is no TRex client in {named}; name the directory that has trex/stl/api.py, "
            "a TRex tree, or a virtual environment with lbr-trex-client"
        )
    if server:
        if install := _in_directory(Path(server).parent):
            return install
        if install := _in_directory(Path(server).resolve().parent):
            return install
    spec = importlib.util.find_spec(PYPI)
    if spec is None or not spec.submodule_search_locations:
        return (
            "TRex's Python client was not found beside its server; name its directory as client "
            "under [trex] of the testbed file, or `pip install 'vnetperf[trex]'` (Python 3.11)"
        )
    place = Path(next(iter(spec.submodule_search_locations))) / "interactive"
    return _check_python(ClientInstall(place, Path(sys.executable), PYPI), sys.version_info[:2])


def _in_directory(directory: Path) -> ClientInstall | str | None:
    for below in CLIENT_DIRECTORIES:
        if (directory / below / "trex" / "stl" / "api.py").is_file():
            place = ClientInstall(directory / below, Path(sys.executable), str(directory))
            if PYPI in place.path.parts:
                return _check_python(place, sys.version_info[:2])
            return place
    for packages in sorted(directory.glob(IN_ENVIRONMENT)):
        path = packages / PYPI / "interactive"
        python = directory / "bin" / "python"
        if (path / "trex").is_dir() and python.is_file():
            match = re.fullmatch(r"python(\d+)\.(\d+)", packages.parent.name)
            version = (int(match[1]), int(match[2])) if match else (0, 0)
            return _check_python(ClientInstall(path, python, str(directory)), version)
    return None


def _check_python(place: ClientInstall, version: tuple[int, ...]) -> ClientInstall | str:
    if version >= PYPI_ENDS:
        return (
            f"lbr-trex-client cannot be imported by Python {version[0]}.{version[1]}; use the "
            "client of the server's tree, or one in a virtual environment of Python 3.11 or older "
            "(client under [trex] of the testbed file)"
        )
    return place


#: Importing the client's scapy takes one to three seconds.
log = logging.getLogger(__name__)
START_S = 30.0
#: Longest time an order takes that waits for nothing but the server.
ANSWER_S = 20.0
#: Kind of error -> what it is, and what the user can do.
ERRORS = {
    "missing": (
        "TRex's Python client was not found",
        "give the directory of TRex's client: client under [trex] of the testbed file; the "
        "server's tree has one, and `pip install 'vnetperf[trex]'` brings one for Python 3.11",
    ),
    "broken": (
        "TRex's Python client cannot be imported",
        "lbr-trex-client works with Python 3.8 to 3.11; from 3.12 on use the client of the "
        "server's tree (client under [trex] of the testbed file)",
    ),
    "too-old": (
        "TRex's Python client is too old",
        "use the client of the server's tree, or lbr-trex-client 3.4 or newer",
    ),
    "version": (
        "the server refuses this version of TRex's client",
        "use the client of the server's own tree (client under [trex] of the testbed file)",
    ),
    "mode": (
        "the server is not stateless",
        "start it with -i and without --astf",
    ),
    "restarted": (
        "the server was started anew meanwhile",
        "let nobody restart it while a run uses it",
    ),
    "owned": (
        "the ports are owned by another client",
        "have their owner release them, or take them with force = true under [trex] of "
        "the testbed file",
    ),
    "gone": ("the server does not answer", "see the server's log"),
    "counters": (
        "the server's counters cannot be trusted",
        "nobody else may use the server's ports or clear its counters",
    ),
}
WHERE = "trex"


class TrexClient:
    """A client process that answers; made by `TrexClient.start`.

    Attributes:
        process: The process.
        connection: This end of the socket on which orders go out and replies come in.
    """

    def __init__(
        self, process: ManagedProcess, connection: Connection, alive: Callable[[], None]
    ) -> None:
        self.process = process
        self.connection = connection
        self._alive = alive
        self._number = 0

    @classmethod
    def start(
        cls,
        machine: Machine,
        directory: Path,
        place: ClientInstall,
        *,
        isolated: bool,
        alive: Callable[[], None],
    ) -> TrexClient:
        """Start the process and wait until it has connected to us."""
        path = directory / "client.sock"
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(path))
            listener.listen(1)
            listener.settimeout(WATCH_S)
            argv = place.argv(path)
            process = machine.spawn("trex-client", argv, isolated=isolated)

            def connected() -> socket.socket | None:
                with contextlib.suppress(TimeoutError):
                    return listener.accept()[0]
                return None

            def not_started() -> GeneratorError:
                process.stop(timeout_s=0.0)
                return GeneratorError(
                    f"the process of TRex's client did not start; log ends with:\n"
                    f"{process.log_tail()}",
                    where=f"{WHERE}, {place.python}",
                    cure=ERRORS["broken"][1],
                )

            def check() -> None:
                if not process.alive():
                    raise not_started()

            description = "the process of TRex's client"
            sock = wait_for(
                connected, START_S, description, poll_s=0.0, check=check, error=not_started
            )
        client = cls(process, Connection(sock.detach()), alive)
        hello = client._receive(ANSWER_S)
        if hello.get("protocol") != PROTOCOL:
            client.close()
            raise GeneratorError("the client's process is of another version", where=WHERE)
        return client

    @property
    def pid(self) -> int:
        """Process id."""
        return self.process.pid

    def call(
        self,
        do: str,
        *,
        within_s: float = ANSWER_S,
        watch: Callable[[], None] = lambda: None,
        **values: Any,
    ) -> dict[str, Any]:
        """Send an order and wait for its reply."""
        self._number += 1
        number = self._number
        log.debug("order %d: %s", number, do)
        with self._connection_errors():
            worker.send_message(self.connection, {"do": do, "number": number, **values})
        # An order whose reply was too late may have been answered since.
        while (answer := self._wait(within_s, watch)).get("number") != number:
            continue
        if "trouble" in answer:
            self._alive()  # the log of a server that has died is more than the error of the call
            trouble, cure = ERRORS.get(answer["trouble"], ("the server or its client refused", ""))
            raise GeneratorError(f"{trouble}: {answer['text']}", where=WHERE, cure=cure)
        result: dict[str, Any] = answer["result"]
        return result

    def _wait(self, within_s: float, watch: Callable[[], None]) -> dict[str, Any]:
        try:
            return self._receive(within_s, watch)
        except TrialTimeoutError:
            raise
        except BaseException:
            with contextlib.suppress(OSError, EOFError, ValueError, GeneratorError):
                worker.send_message(self.connection, {"do": "give-up"})
                self._receive(ANSWER_S)
            raise

    def _receive(self, within_s: float, watch: Callable[[], None] = lambda: None) -> dict[str, Any]:
        def received() -> dict[str, Any] | None:
            self._alive()
            watch()
            with self._connection_errors():
                if not self.connection.poll(WATCH_S):
                    return None
                if (reply := worker.receive_message(self.connection)) is not None:
                    return reply
                raise EOFError("it closed its connection")

        def check() -> None:
            if not self.process.alive():
                raise self._failure("it exited")

        def late() -> TrialTimeoutError:
            return TrialTimeoutError("TRex does not answer", where=WHERE)

        description = "a reply of TRex's client"
        return wait_for(received, within_s, description, poll_s=0.0, check=check, error=late)

    @contextlib.contextmanager
    def _connection_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, EOFError, ValueError) as error:
            self._alive()
            raise self._failure(str(error)) from None

    def _failure(self, symptom: str) -> GeneratorError:
        return GeneratorError(
            f"the process of TRex's client failed ({symptom}); log ends with:\n"
            + self.process.log_tail(),
            where=WHERE,
        )

    def close(self) -> None:
        """End the process; idempotent."""
        with contextlib.suppress(OSError):
            worker.send_message(self.connection, {"do": "end", "number": 0})
        self.connection.close()
        self.process.stop(timeout_s=1.0)
