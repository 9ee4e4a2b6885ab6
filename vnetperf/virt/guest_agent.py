"""The QEMU guest agent: programs, files and NICs of a guest.

https://qemu-project.gitlab.io/qemu/interop/qemu-ga-ref.html
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vnetperf.host.linux import parse_json
from vnetperf.host.wait import patient, wait_for
from vnetperf.model.errors import DutError, HostError

log = logging.getLogger(__name__)

ANSWER_S = 10
POLL_S = 0.03
READ_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """A program that has ended in a guest: exit code (128 and more: a signal), and all it wrote."""

    status: int
    output: str


class GuestAgent:
    """The agent of one guest."""

    def __init__(self, name: str, send: Callable[[str, int], str]) -> None:
        self.name = name
        self._send = send

    def call(self, execute: str, *, seconds: int = ANSWER_S, **arguments: Any) -> Any:
        """Make a call; its return value."""
        fields = {key.replace("_", "-"): value for key, value in arguments.items()}
        command = json.dumps({"execute": execute, **({"arguments": fields} if fields else {})})
        return parse_json(self._send(command, int(patient(seconds))))["return"]

    def answers(self, seconds: int = 2) -> bool:
        """Whether it answers."""
        try:
            self.call("guest-ping", seconds=seconds)
        except HostError:
            return False
        return True

    def start(self, argv: Sequence[str], *, capture: bool = False) -> int:
        """Start a program."""
        started = self.call("guest-exec", path=argv[0], arg=list(argv[1:]), capture_output=capture)
        return int(started["pid"])

    def ended(self, pid: int) -> ProcessExit | None:
        """How a program that was started has ended."""
        status = self.call("guest-exec-status", pid=pid)
        if not status["exited"]:
            return None
        code = status.get("exitcode", 128 + status.get("signal", 0))
        texts = (base64.b64decode(status.get(key, "")) for key in ("out-data", "err-data"))
        return ProcessExit(int(code), "".join(text.decode(errors="replace") for text in texts))

    def run(self, argv: Sequence[str], *, timeout_s: float = 20.0) -> str:
        """Run a program to its end."""
        log.debug("guest %s runs %s", self.name, " ".join(argv))
        pid = self.start(argv, capture=True)
        where = f"{self.name}: {' '.join(argv)}"
        ended = wait_for(
            lambda: self.ended(pid),
            timeout_s,
            f"the end of {argv[0]} in {self.name}",
            poll_s=POLL_S,
            error=lambda: DutError(f"did not end within {timeout_s:g} s", where=where),
        )
        if ended.status:
            output = ended.output.strip()[-1000:]
            raise DutError(f"failed with status {ended.status}: {output}", where=where)
        return ended.output

    def open(self, path: str, mode: str = "r") -> int:
        """Open a file of the guest."""
        return int(self.call("guest-file-open", path=path, mode=mode))

    def put(self, handle: int, text: str | bytes) -> None:
        """Write to an open file, and see it through."""
        data = base64.b64encode(text.encode() if isinstance(text, str) else text).decode()
        self.call("guest-file-write", handle=handle, buf_b64=data)
        self.call("guest-file-flush", handle=handle)

    def get(self, handle: int) -> str:
        """Read what is new in an open file."""
        read = self.call("guest-file-read", handle=handle, count=READ_MAX)
        return base64.b64decode(read["buf-b64"]).decode(errors="replace")

    def read(self, path: str) -> str:
        """The text of a file of the guest."""
        handle = self.open(path)
        parts = []
        try:
            while part := self.get(handle):
                parts.append(part)
        finally:
            self.call("guest-file-close", handle=handle)
        return "".join(parts)

    def write(self, path: str, text: str | bytes) -> None:
        """Write a file of the guest, of /sys and /proc too."""
        handle = self.open(path, "w")
        try:
            self.put(handle, text)
        finally:
            self.call("guest-file-close", handle=handle)

    def interfaces(self) -> dict[str, str]:
        """Network interfaces of the guest."""
        reply = self.call("guest-network-get-interfaces")
        return {
            interface["hardware-address"].lower(): interface["name"]
            for interface in reply
            if interface.get("hardware-address")
        }
