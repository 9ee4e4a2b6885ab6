"""Clients of a running VPP: the binary API and the statistics segment.

Return values are those of src/vnet/error.h, the same from 23.06 to 26.06. The statistics segment
(layout 2) is shared memory under an optimistic lock: torn reads are repeated, up to a deadline.
"""

from __future__ import annotations

import array
import contextlib
import logging
import mmap
import os
import socket
import struct
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final, TypeVar

from vnetperf.host.wait import wait_for
from vnetperf.model.errors import DutError
from vnetperf.vswitches.vpp.install import REPORTS_MESSAGES, VppInstallation

log = logging.getLogger(__name__)

RETVAL_TEXTS = {
    -1: "unspecified error",
    -2: "invalid interface index",
    -3: "no such routing table",
    -6: "no such entry",
    -7: "invalid value",
    -8: "invalid value (the second)",
    -9: "not implemented",
    -10: "invalid interface index (the second)",
    **{-n: f"system call error {n - 10}" for n in range(11, 21)},
    -30: "feature disabled by configuration",
    -31: "invalid registration",
    -50: "next hop not in the routing table",
    -52: "route without a path",
    -57: "invalid source address",
    -58: "invalid destination address",
    -59: "address length mismatch",
    -60: "address not found for the interface",
    -63: "no such graph node",
    -68: "sub-interface, or interface of this number, already exists",
    -70: "invalid memory size",
    -71: "invalid interface",
    -73: "invalid argument",
    -74: "unexpected interface state",
    -75: "tunnel already exists",
    -79: "interface already exists",
    -81: "value already exists",
    -82: "source and destination are the same",
    -89: "invalid worker thread",
    -97: "invalid address family",
    -99: "table too big",
    -100: "cannot enable or disable the feature",
    -105: "address in use",
    -107: "queue full",
    -116: "entry already exists",
    -119: "bridge domain already exists",
    -125: "invalid queue",
    -126: "unsupported",
    -144: "initialization failed",
    -145: "netlink error",
    -147: "instance in use",
    -150: "invalid value (the third)",
    -151: "not an Ethernet interface",
    -155: "resource in use",
    -162: "limit exceeded",
    -164: "UDP port already taken",
    -166: "invalid value (the fourth)",
    -167: "busy",
    -171: "invalid prefix length",
}
UNKNOWN_RETVAL = "see src/vnet/error.h of VPP"
KERNEL_REFUSED = "the kernel refused, often for want of rights or memory: see the end of VPP's log"
RETVAL_CURES = {
    -9: "this VPP cannot do it: use a newer one, or leave the option out",
    -70: "request less memory or fewer descriptors",
    -89: "request a worker that exists: see `workers` in conf/switch",
    -99: "request fewer flows",
    -126: "this VPP or this kind of port cannot do it: leave the option out",
    -162: "request fewer queues, ports or flows",
    **dict.fromkeys((-145, *range(-20, -10)), KERNEL_REFUSED),
}


#: Longest wait for an answer, seconds: a main thread on a shared core may be slow.
API_TIMEOUT_S = 10.0
ADMIN_UP, LINK_UP = 1, 2
#: Files of the definitions of messages that are used here; each has all types that it needs.
API_DEFINITIONS = frozenset(
    (
        *("memclnt", "vlib", "vpe", "interface", "l2", "ip", "ip_neighbor"),
        *("memif", "vhost_user", "af_packet", "af_xdp", "vxlan", "gre", "geneve"),
        *("det44", "nat44_ed"),
    )
)


class VppApi:
    """A client of one VPP's binary API."""

    def __init__(
        self,
        socket: Path,
        installation: VppInstallation,
        version: tuple[int, int],
        timeout_s: float = API_TIMEOUT_S,
    ) -> None:
        self.socket = socket
        self.timeout_s = timeout_s
        #: Set when an interface has come up, gone down or been deleted since it was cleared.
        self.interfaces_changed = threading.Event()
        self._installation = installation
        self._version = version
        self.client: Any = None

    def connect(self) -> None:
        """Connect, and read the definitions of messages."""
        self.close()  # of an attempt before that got no answer
        from vpp_papi import VPPApiClient  # noqa: PLC0415 - takes 0.15 s to import

        files = self._definitions()
        settings: dict[str, Any] = {"apifiles": files} if files else {"bootstrapapi": True}
        if not files and self._version < REPORTS_MESSAGES:
            raise DutError(
                "a VPP before 24.06 does not report its messages, and no definitions are beside it",
                where=str(self._installation.binary),
                accepted="*.api.json files in ../share/vpp/api",
                cure="install VPP's packages whole, or use VPP 24.06 or newer",
            )
        with _as_dut_error("connecting", self):
            client = VPPApiClient(
                server_address=str(self.socket),
                read_timeout=self.timeout_s,
                async_thread=False,  # the transport's own thread hands events over
                **settings,
            )
            client.register_event_callback(self.note_event)
            client.connect("vnetperf")
        self.client = client

    def _definitions(self) -> list[str]:
        """Files of message definitions beside VPP, as far as they are used here.

        All of them take ten times as long to read.
        """
        if self._installation.api_dir is None:
            return []
        files = self._installation.api_dir.rglob("*.api.json")
        return sorted(str(path) for path in files if path.name.partition(".")[0] in API_DEFINITIONS)

    def note_event(self, name: str, message: Any) -> None:
        """Note a message that VPP sends by itself."""
        if name == "sw_interface_event":
            self.interfaces_changed.set()

    def watch_interfaces(self) -> None:
        """Have `interfaces_changed` set from now on."""
        self.call("want_interface_events", enable_disable=1, pid=os.getpid())
        self.interfaces_changed.set()

    def knows(self, message: str) -> bool:
        """Whether this VPP has a message."""
        return self.client is not None and hasattr(self.client.api, message)

    def call(
        self,
        message: str,
        *,
        timeout_s: float | None = None,
        tolerated: Collection[int] = (),
        **fields: Any,
    ) -> Any:
        """Send a message and wait for its answer."""
        if self.client is None:
            raise DutError("VPP has not been started", where=message)
        function = getattr(self.client.api, message, None)
        if function is None:
            raise DutError(
                f"this VPP ({self._version[0]}.{self._version[1]:02}) has no message {message}",
                where="vpp",
                accepted="VPP 23.06 to 26.06 with its plugins",
                cure="install the plugin it belongs to (vpp-plugin-core), or a supported version",
            )
        with _as_dut_error(message, self):
            answer = function(_timeout=timeout_s or self.timeout_s, **fields)
        retval = getattr(answer, "retval", 0)
        log.debug("%s(%s): %d", message, fields, retval)
        if retval and retval not in tolerated:
            raise DutError(
                f"VPP refuses {message}: {RETVAL_TEXTS.get(retval, UNKNOWN_RETVAL)} ({retval})",
                where=", ".join(f"{name}={value}" for name, value in fields.items())[:300],
                cure=RETVAL_CURES.get(retval, ""),
            )
        return answer

    def cli(self, command: str, timeout_s: float | None = None) -> str:
        """Run a command of the debug CLI; for what the API does not report."""
        return str(self.call("cli_inband", timeout_s=timeout_s, cmd=command).reply)

    def interfaces(self) -> dict[int, Any]:
        """All interfaces."""
        return {int(d.sw_if_index): d for d in self.call("sw_interface_dump")}

    def close(self) -> None:
        """Disconnect; VPP is notified unless it has ended."""
        client, self.client = self.client, None
        if client is not None:
            with contextlib.suppress(Exception):  # an error of a dead VPP does not matter
                client.disconnect()


@contextlib.contextmanager
def _as_dut_error(message: str, api: VppApi) -> Any:
    """Make one error of all that the client library raises."""
    try:
        yield
    except DutError:
        raise
    except OSError as error:
        raise DutError(
            f"no answer to {message} within {api.timeout_s:g} s: {error}",
            where=str(api.socket),
            cure="see the end of VPP's log; its main thread may be stuck",
        ) from error
    except Exception as error:  # the library has exceptions without a common ancestor
        raise DutError(
            f"{message} cannot be sent: {type(error).__name__}: {error}", where=str(api.socket)
        ) from error


T = TypeVar("T")

STATS_HEADER: Final = struct.Struct(
    "=QQQQQ"
)  # version, base address, epoch, in progress, directory
STATS_ENTRY: Final = struct.Struct("=I4xQ128s")  # type, value or address, name
STATS_LAYOUT: Final = 2
SIMPLE, COMBINED, SYMLINK = 2, 3, 6
STATS_TIMEOUT_S = 2.0


class _TornError(Exception):
    """What was read changed meanwhile."""


class StatsSegment:
    """A mapped statistics segment."""

    def __init__(self, memory: mmap.mmap | bytes) -> None:
        self._memory = memory
        self._epoch = -1
        self._directory: dict[str, tuple[int, int]] = {}
        self._names: list[str] = []

    @classmethod
    def open(cls, path: Path) -> StatsSegment:
        """Map the segment of a running VPP."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
                connection.settimeout(5.0)
                connection.connect(str(path))
                _, fds, _, _ = socket.recv_fds(connection, 1, 1)
        except OSError as error:
            raise DutError(
                f"VPP does not hand out its counters: {error}", where=str(path)
            ) from error
        if not fds:
            raise DutError("VPP does not hand out its counters", where=str(path))
        try:
            memory = mmap.mmap(fds[0], 0, mmap.MAP_SHARED, mmap.PROT_READ)
        finally:
            os.close(fds[0])
        segment = cls(memory)
        if segment._header()[0] != STATS_LAYOUT:
            raise DutError(
                f"the statistics segment has layout {segment._header()[0]}",
                where=str(path),
                accepted=str(STATS_LAYOUT),
            )
        return segment

    def close(self) -> None:
        """Unmap it."""
        if isinstance(self._memory, mmap.mmap):
            with contextlib.suppress(BufferError):
                self._memory.close()

    def by_index(self, name: str) -> list[int]:
        """A counter of every interface, or of whatever else it is indexed by."""
        return self._consistently(lambda: self._sums(name))

    def errors(self, node: str) -> dict[str, int]:
        """Error counters of a graph node."""
        return self._consistently(lambda: self._errors(f"/err/{node}/"))

    def _consistently(self, read: Callable[[], T]) -> T:
        readings: list[T] = []

        def read_once() -> bool:
            _, _, epoch, in_progress, _ = self._header()
            if in_progress:
                return False
            with contextlib.suppress(_TornError, struct.error):
                if epoch != self._epoch:
                    self._read_directory()
                    self._epoch = epoch
                readings[:] = [read()]
                if self._header()[2:4] == (epoch, 0):
                    return True
            self._epoch = -1
            return False

        wait_for(
            read_once,
            STATS_TIMEOUT_S,
            "consistent counters of VPP",
            poll_s=0.001,
            error=lambda: DutError(
                f"VPP's counters did not hold still for {STATS_TIMEOUT_S:g} s",
                where="statistics segment",
                cure="VPP may have died while it changed them; see its log",
            ),
        )
        return readings[0]

    def _header(self) -> tuple[int, int, int, int, int]:
        version, base, epoch, in_progress, directory = STATS_HEADER.unpack_from(self._memory, 0)
        return version, base, epoch, in_progress, directory

    def _vector(self, address: int) -> tuple[int, int]:
        """Offset and length of one of VPP's vectors; its length stands before it."""
        offset = address - self._header()[1]
        if not 8 <= offset < len(self._memory):
            raise _TornError
        (length,) = struct.unpack_from("=I", self._memory, offset - 8)
        return offset, length

    def _read_directory(self) -> None:
        offset, length = self._vector(self._header()[4])
        directory, names = {}, []
        for kind, value, raw in STATS_ENTRY.iter_unpack(
            self._memory[offset : offset + length * STATS_ENTRY.size]
        ):
            name = raw.partition(b"\0")[0].decode("ascii", "replace")
            directory[name] = (kind, value)
            names.append(name)
        self._directory, self._names = directory, names

    def _sums(self, name: str) -> list[int]:
        kind, value = self._directory.get(name, (0, 0))
        if kind not in (SIMPLE, COMBINED) or not value:
            return []
        words = 2 if kind == COMBINED else 1
        offset, threads = self._vector(value)
        sums: list[int] = []
        for (address,) in struct.iter_unpack("=Q", self._memory[offset : offset + 8 * threads]):
            if not address:
                continue
            start, length = self._vector(address)
            numbers = array.array("Q")
            numbers.frombytes(self._memory[start : start + 8 * words * length])
            column = numbers[::words]
            sums += [0] * (len(column) - len(sums))
            for index, number in enumerate(column):
                sums[index] += number
        return sums

    def _errors(self, prefix: str) -> dict[str, int]:
        errors = {}
        columns: dict[int, list[int]] = {}
        for name, (kind, value) in self._directory.items():
            if not name.startswith(prefix) or kind != SYMLINK:
                continue
            entry, column = value & 0xFFFFFFFF, value >> 32
            if entry not in columns:
                columns[entry] = self._sums(self._names[entry]) if entry < len(self._names) else []
            numbers = columns[entry]
            errors[name.removeprefix(prefix)] = numbers[column] if column < len(numbers) else 0
        return errors
