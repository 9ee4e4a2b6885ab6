"""Speaks with Pktgen's Lua: a line in, a tagged line of JSON back.

Pktgen's socket is a Lua prompt without prompt or echo: what an expression gives is printed
elsewhere, an error goes to the program's own terminal, and only what is written to the standard
output and flushed comes back. Each connection therefore defines a helper first (helper.lua), which
outlives the connection; the definition is small enough to repeat it.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from vnetperf.host.patience import patient
from vnetperf.model.errors import GeneratorError

PORT = 22022
#: Pktgen reads lines into a buffer of 8 KiB and takes what is beyond for a line of its own.
MAX_LINE = 8191
#: Longest wait for one answer, seconds: a clearing of statistics waits for the statistics' thread.
ANSWER_S = 8.0
MARK = b"@vp "
#: Functions that end Pktgen when they are called from its socket.
DEADLY = ("pktgen.load", "pktgen.quit")

Connect = Callable[[], socket.socket]


def helper() -> str:
    """The helper as one line of Lua.

    Returns:
        Source without comments and line ends.
    """
    text = files("vnetperf.traffic.pktgen").joinpath("helper.lua").read_text(encoding="ascii")
    lines = (line.strip() for line in text.splitlines())
    return " ".join(line for line in lines if line and not line.startswith("--"))


class Repl:
    """A connection to Pktgen.

    Args:
        connect: Opens the socket, in the network namespace where Pktgen listens.
        where: Its address, for messages.
        death: Says why the program has ended; "" while it runs, or where that is not known.

    Raises:
        GeneratorError: It does not answer.
    """

    def __init__(self, connect: Connect, where: str, death: Callable[[], str] = lambda: "") -> None:
        self.where = where
        self._death = death
        self._rest = b""
        self._tag = 0
        try:
            self._socket = connect()
        except OSError as error:
            raise GeneratorError(
                f"nobody listens there: {error}",
                where=where,
                cure="start Pktgen with -G, or correct `server` under [pktgen] of the testbed file",
            ) from None
        try:
            self._send(helper())
            self.call("return 1")
        except GeneratorError as error:
            self.close()
            if "no answer" not in error.what:
                raise
            raise GeneratorError(
                "Pktgen takes connections but does not answer",
                where=where,
                cure="it serves one client at a time: end the other one, or restart Pktgen",
            ) from None

    def call(self, source: str, timeout_s: float = ANSWER_S) -> Any:
        """Run Lua and wait for what it returns.

        Args:
            source: A chunk, one line; its `return` gives the answer.
            timeout_s: Longest wait, seconds.

        Returns:
            A number, text, bool, None, or dict with text keys.

        Raises:
            GeneratorError: Lua says no, there is no answer, or the program has ended.
        """
        self._tag += 1
        if any(word in source for word in DEADLY):
            raise GeneratorError(
                f"{' and '.join(DEADLY)} end Pktgen when its socket calls them", where=self.where
            )
        self._send(f"vp({self._tag}, [==[{source}]==])")
        answer = self._answer(time.monotonic() + patient(timeout_s))
        if "error" in answer:
            raise GeneratorError(f"Pktgen says: {answer['error']}", where=source[:120])
        return answer.get("ok")

    def close(self) -> None:
        """Hang up; what Lua knows stays, and so does traffic."""
        self._socket.close()

    def _send(self, line: str) -> None:
        octets = line.encode() + b"\n"
        if len(octets) > MAX_LINE or octets.count(b"\n") > 1:
            raise GeneratorError(
                f"a line of {len(octets)} octets for Pktgen",
                where=line[:60],
                accepted=f"one line of at most {MAX_LINE} octets",
            )
        try:
            self._socket.sendall(octets)
        except OSError as error:
            raise self._gone(str(error)) from None

    def _answer(self, deadline: float) -> dict[str, Any]:
        """The line with the last tag; what was left by earlier calls is passed over."""
        mark = MARK + f"{self._tag} ".encode()
        while True:
            line = self._line(deadline)
            if line.startswith(mark):
                try:
                    found = json.loads(line[len(mark) :])
                except ValueError:
                    raise GeneratorError(
                        f"an answer that is no JSON: {line[:80]!r}", where=self.where
                    ) from None
                if isinstance(found, dict):
                    return found

    def _line(self, deadline: float) -> bytes:
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._gone("no answer in time")
            self._socket.settimeout(left)
            try:
                received = self._socket.recv(65536)
            except TimeoutError:
                continue
            except OSError as error:
                raise self._gone(str(error)) from None
            if not received:
                raise self._gone("it hung up")
            self._rest += received
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _gone(self, how: str) -> GeneratorError:
        death = self._death()
        return GeneratorError(death or f"Pktgen is gone or stuck: {how}", where=self.where)


def address(server: str) -> tuple[str, int]:
    """Where a server of someone else listens.

    Args:
        server: "HOST" or "HOST:PORT".

    Returns:
        Host and port.
    """
    host, _, port = server.rpartition(":")
    return (host, int(port)) if host else (server, PORT)
