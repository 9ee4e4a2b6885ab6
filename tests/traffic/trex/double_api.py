"""TRex's client library as far as the driver uses it, as it behaves; becomes trex/stl/api.py.

Like the real one it replaces yaml, scapy and zmq in whoever imports it, raises one class of error
for everything, and thinks that a port still sends until news of its end have come.
"""

from __future__ import annotations

import base64
import json
import socket
import sys
import time
import types
import uuid
from typing import Any

for name in ("yaml", "scapy", "zmq"):
    sys.modules[name] = types.ModuleType(name)
API_VERSION = "5.1"
#: How long news of a port's state are on their way.
NEWS_S = 0.03
STLStreamDstMAC_PKT = 1


class TRexError(Exception):
    """The only class of error; the program looks at its text."""


STLError = TRexError


class RC:
    def __init__(self, answer: dict[str, Any]) -> None:
        self._answer = answer

    def __bool__(self) -> bool:
        return "error" not in self._answer

    def err(self) -> str:
        return str(self._answer["error"])

    def data(self) -> Any:
        return self._answer["result"]


class Rpc:
    def __init__(self, client: STLClient) -> None:
        self._client = client

    def transmit(self, method: str, params: dict[str, Any] | None = None) -> RC:
        try:
            return RC(self._client.ask(method, **(params or {})))
        except TRexError as error:
            return RC({"error": str(error)})


class STLClient:
    def __init__(
        self,
        *,
        username: str = "root",
        server: str = "localhost",
        sync_port: int = 4501,
        async_port: int = 4500,
        verbose_level: str = "error",
        sync_timeout: int | None = None,
        async_timeout: int | None = None,
    ) -> None:
        self._user, self._address, self._timeout = username, (server, sync_port), sync_timeout
        self._session = uuid.uuid4().hex
        self._file: Any = None
        self._acquired: list[int] = []
        self._states: dict[int, tuple[str, float]] = {}
        self.conn = types.SimpleNamespace(rpc=Rpc(self))

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        if self._file is None:
            raise TRexError(f"'{method}' - is not valid while disconnected")
        request = {"method": method, "params": {**params, "session": self._session}}
        try:
            self._file.write(json.dumps(request).encode() + b"\n")
            self._file.flush()
            line = self._file.readline()
        except OSError:
            line = b""
        if not line:
            raise TRexError("*** [RPC] - Failed to get server response from tcp://server:4501")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _do(self, method: str, **params: Any) -> Any:
        rc = RC(self.ask(method, **params))
        if not rc:
            raise TRexError(f"*** {rc.err()}")
        return rc.data()

    def connect(self) -> None:
        try:
            sock = socket.create_connection(self._address, timeout=self._timeout)
        except OSError:
            raise TRexError("*** [RPC] - Failed to get server response from tcp://") from None
        self._file = sock.makefile("rwb")
        self._do("api_sync_v2", version=API_VERSION)

    def is_connected(self) -> bool:
        return self._file is not None

    def disconnect(self, stop_traffic: bool = True, release_ports: bool = True) -> None:
        if stop_traffic:
            self.stop(ports=self._acquired)
        for port in self._acquired if release_ports else ():
            self._do("release", port_id=port)
        self._file = None

    def get_server_version(self) -> Any:
        return self._do("get_version")

    def get_server_system_info(self) -> Any:
        return self._do("get_system_info")

    def get_all_ports(self) -> list[int]:
        return list(range(self.get_server_system_info()["port_count"]))

    def get_port_attr(self, port: int) -> Any:
        return self._do("get_port_attr", port_id=port)

    def acquire(self, ports: list[int], force: bool = False, sync_streams: bool = True) -> None:
        for port in ports:
            self._do("acquire", port_id=port, force=force, user=self._user)
        self._acquired = list(ports)

    def set_port_attr(self, ports: list[int], promiscuous: bool | None = None) -> None:
        raise TRexError("set_port_attr - promiscuous mode cannot be changed on this port")

    def remove_all_streams(self, ports: list[Any]) -> None:
        for port in self._numbers(ports):
            self._require_quiet(port, "remove_all_streams")
            self._do("remove_all_streams", port_id=port)

    def add_streams(self, streams: list[STLStream], ports: list[int]) -> None:
        for port in self._numbers(ports):
            self._require_quiet(port, "add_streams")
            for stream in streams:
                self._do("add_stream", port_id=port, stream=stream.fields)

    def start(self, ports: list[int], force: bool = False, core_mask: int | None = None) -> None:
        if not force:
            raise TRexError("insufficient bandwidth")
        for port in self._numbers(ports):
            self._do("start_traffic", port_id=port)
            self._states[port] = ("TX", time.monotonic())

    def stop(self, ports: list[Any], rx_delay_ms: int | None = None) -> None:
        time.sleep(0.1 if rx_delay_ms is None else rx_delay_ms / 1000)
        for port in self._numbers(ports):
            self._do("stop_traffic", port_id=port)
            if self._states.get(port, ("IDLE", 0.0))[0] == "TX":
                self._states[port] = ("ENDING", time.monotonic())

    def _require_quiet(self, port: int, command: str) -> None:
        state, since = self._states.get(port, ("IDLE", 0.0))
        if state == "TX" or (state == "ENDING" and time.monotonic() - since < NEWS_S):
            raise TRexError(
                f"\x1b[1mPort {port}\x1b[0m : *** command '{command}' cannot be executed on "
                "current state: 'TX'"
            )

    def get_pgid_stats(self, pgids: list[int]) -> dict[str, Any]:
        found = self._do("get_pgid_stats", pgids=pgids)
        return {
            "flow_stats": {int(n): {"rx_pkts": {"total": it["frames"]}} for n, it in found.items()},
            "latency": {int(n): _latency(it["frames"]) for n, it in found.items()},
        }

    @staticmethod
    def _numbers(ports: list[Any]) -> list[int]:
        return [int(str(port).split(".")[0]) for port in ports]


def _latency(frames: int) -> dict[str, Any]:
    """Half of the probes took 10 us, the others 300; the error counters are nonsense."""
    low, high = frames - frames // 2, frames // 2
    return {
        "latency": {
            "average": 155.0,
            "total_max": 300,
            "total_min": 10,
            "jitter": 3,
            "histogram": {key: n for key, n in ((10, low), (300, high)) if n},
        },
        "err_cntrs": {"dropped": 715, "out_of_order": 35, "dup": 18},
    }


class STLPktBuilder:
    def __init__(self, pkt_buffer: bytes, vm: Any = None, remove_fcs: bool = True) -> None:
        self.octets = pkt_buffer[:-4] if remove_fcs else pkt_buffer
        self.vm = vm


class STLScVmRaw:
    def __init__(self, instructions: list[Any]) -> None:
        self.instructions = [one.fields for one in instructions]


class Instruction:
    def __init__(self, **fields: Any) -> None:
        self.fields = {"type": type(self).__name__, **fields}


class STLVmFlowVar(Instruction):
    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        if fields["size"] not in (1, 2, 4, 8):
            raise TRexError(f"size {fields['size']}")
        if not 0 <= fields["min_value"] <= fields["max_value"] < 1 << (8 * fields["size"]):
            raise TRexError("values do not fit the variable")


class STLVmWrFlowVar(Instruction):
    pass


class STLVmWrMaskFlowVar(Instruction):
    pass


class STLVmFixIpv4(Instruction):
    pass


class STLVmFixChecksumHw(Instruction):
    pass


class CTRexVmInsFixHwCs:
    L4_TYPE_UDP, L4_TYPE_TCP, L4_TYPE_IP = 11, 13, 17


class STLTXSingleBurst:
    def __init__(self, total_pkts: int, pps: float) -> None:
        self.total_pkts, self.pps = total_pkts, pps


class STLFlowLatencyStats:
    def __init__(self, pg_id: int) -> None:
        self.pg_id = pg_id


class STLStream:
    def __init__(
        self,
        *,
        packet: STLPktBuilder,
        mode: STLTXSingleBurst,
        flow_stats: STLFlowLatencyStats | None = None,
        isg: float = 0.0,
        mac_src_override_by_pkt: bool | None = None,
        mac_dst_override_mode: int | None = None,
    ) -> None:
        self.fields = {
            "packet": base64.b64encode(packet.octets).decode(),
            "vm": packet.vm.instructions if packet.vm else [],
            "frames": mode.total_pkts,
            "pps": mode.pps,
            "probe": flow_stats.pg_id if flow_stats else None,
            "isg": isg,
            "macs": [mac_src_override_by_pkt, mac_dst_override_mode],
        }
