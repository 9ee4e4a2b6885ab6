"""VPP's counters, from a statistics segment made by hand, and its refusals."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.vswitches.test_vpp import machine, plan, scenario
from vnetperf.host.links import LinkStatistics
from vnetperf.model.deployment import PhyPort, VnfPort
from vnetperf.model.errors import DutError
from vnetperf.vswitches.vpp import Vpp, switch
from vnetperf.vswitches.vpp import api as api_module
from vnetperf.vswitches.vpp import api as stats
from vnetperf.vswitches.vpp.api import VppApi
from vnetperf.vswitches.vpp.install import VppInstallation
from vnetperf.vswitches.vpp.interfaces import VppInterface

BASE = 0x10_0000_0000


class Segment:
    """Lays out vectors as VPP does: the length stands eight octets before the first element."""

    def __init__(self) -> None:
        self.octets = bytearray(64)
        self.entries: list[tuple[int, int, str]] = []

    def vector(self, content: bytes, length: int) -> int:
        self.octets += struct.pack("=II", length, 0)
        at = len(self.octets)
        self.octets += content + bytes(-len(content) % 8)
        return BASE + at

    def counter(self, name: str, threads: list[list[int]], *, combined: bool = False) -> int:
        pointers = []
        for numbers in threads:
            content = b"".join(
                struct.pack("=QQ", n, 100 * n) if combined else struct.pack("=Q", n)
                for n in numbers
            )
            pointers.append(self.vector(content, len(numbers)))
        value = self.vector(struct.pack(f"={len(pointers)}Q", *pointers), len(pointers))
        self.entries.append((3 if combined else 2, value, name))
        return len(self.entries) - 1

    def error(self, name: str, entry: int, column: int) -> None:
        self.entries.append((6, column << 32 | entry, name))

    def bytes(self, *, version: int = 2, in_progress: int = 0) -> bytes:
        directory = b"".join(
            struct.pack("=I4xQ128s", kind, value, name.encode())
            for kind, value, name in self.entries
        )
        at = self.vector(directory, len(self.entries))
        struct.pack_into("=QQQQQ", self.octets, 0, version, BASE, 7, in_progress, at)
        return bytes(self.octets) + bytes(64)


def segment() -> Segment:
    made = Segment()
    made.counter("/if/rx", [[0, 5, 7], [0, 100, 200]], combined=True)
    made.counter("/if/tx", [[0, 0, 0], [0, 205, 107]], combined=True)
    made.counter("/if/drops", [[0, 0, 0], [0, 3, 9]])
    errors = made.counter("/node/errors", [[0, 0, 0, 0], [0, 4, 2, 8]])
    made.error("/err/memif1/0-tx/no_free_slots", errors, 1)
    made.error("/err/memif1/0-tx/rollback", errors, 2)
    made.error("/err/VirtualEthernet0/0/0-tx/tx packet drops (no available descriptors)", errors, 3)
    return made


INTERFACES = (
    VppInterface(PhyPort(index=0), 1, "memif1/0", "memif"),
    VppInterface(VnfPort(vnf=0, index=0), 2, "VirtualEthernet0/0/0", "vhost-user"),
)


def test_counters_are_summed_over_threads() -> None:
    found = stats.StatsSegment(segment().bytes())
    assert found.by_index("/if/rx") == [0, 105, 207]
    assert found.by_index("/if/drops") == [0, 3, 9]
    assert found.by_index("/if/none") == []


def test_frames_that_found_no_room_were_not_sent() -> None:
    memif, vhost = switch.read_counters(stats.StatsSegment(segment().bytes()), INTERFACES, {})
    assert (memif.port, memif.rx, memif.tx) == ("phy0", 105, 205 - 4)
    assert (memif.rx_dropped, memif.tx_dropped) == (3, 4)  # a rollback is no loss
    assert (vhost.port, vhost.rx, vhost.tx) == ("vnf0.0", 207, 107 - 8)
    assert (vhost.rx_dropped, vhost.tx_dropped) == (9 - 8, 8)  # drops count both there


def test_what_af_xdp_never_saw_was_dropped_coming_in() -> None:
    made = segment()
    made.error("/err/xdp-d0-tx/no free tx slots", 3, 1)
    made.error("/err/xdp-d0-tx/syscall required", 3, 3)
    sockets = VppInterface(PhyPort(index=0), 1, "xdp-d0", "xdp", "d0")
    links = {"d0": LinkStatistics(rx=120, tx=0, rx_dropped=15, tx_dropped=0)}
    (found,) = switch.read_counters(stats.StatsSegment(made.bytes()), [sockets], links)
    assert (found.rx, found.rx_dropped) == (105, 3 + 15)
    assert (found.tx, found.tx_dropped) == (205 - 4, 4)  # a system call is no frame
    kernels = VppInterface(PhyPort(index=0), 1, "host-d0", "netdev", "d0")
    (found,) = switch.read_counters(stats.StatsSegment(made.bytes()), [kernels], links)
    assert found.rx_dropped == 3


def test_what_a_nic_did_not_take_is_counted_once() -> None:
    """The dpdk plugin counts it by the transmit node and by the interface."""
    made = Segment()
    made.counter("/if/tx", [[0, 1000]], combined=True)
    made.counter("/if/tx-error", [[0, 103]])
    errors = made.counter("/node/errors", [[0, 100]])
    made.error("/err/nic-phy0-tx/Tx packet drops (dpdk tx failure)", errors, 1)
    counters = stats.StatsSegment(made.bytes())
    nic = VppInterface(PhyPort(index=0), 1, "nic-phy0", "pci")
    (found,) = switch.read_counters(counters, [nic], {})
    assert (found.tx, found.tx_dropped) == (900, 100 + 3)  # errors beside those of the ring
    other = VppInterface(PhyPort(index=0), 1, "nic-phy0", "netdev", "d0")
    (found,) = switch.read_counters(counters, [other], {})
    assert found.tx_dropped == 100 + 103


def test_a_segment_that_never_holds_still_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "STATS_TIMEOUT_S", 0.02)
    with pytest.raises(DutError, match="did not hold still"):
        stats.StatsSegment(segment().bytes(in_progress=1)).by_index("/if/rx")


def test_a_segment_that_leads_astray_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "STATS_TIMEOUT_S", 0.02)
    made = segment()
    made.entries[0] = (3, BASE + 1_000_000, "/if/rx")
    with pytest.raises(DutError, match="did not hold still"):
        stats.StatsSegment(made.bytes()).by_index("/if/rx")


# --- the API ---------------------------------------------------------------------------------


class Answer:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class Messages:
    def works(self, **fields: Any) -> Answer:
        return Answer(retval=0, fields=fields)

    def refused(self, **fields: Any) -> Answer:
        del fields
        return Answer(retval=-126)

    def hangs(self, **fields: Any) -> Answer:
        raise OSError(2, "VPP API client: read failed")

    def wrong(self, **fields: Any) -> Answer:
        raise ValueError("Invalid argument ['x']")


@pytest.fixture
def api(tmp_path: Any) -> VppApi:
    installation = VppInstallation(tmp_path / "vpp", None, None, frozenset())
    made = VppApi(tmp_path / "api.sock", installation, (26, 6), timeout_s=0.5)
    made.client = Answer(api=Messages())
    return made


def test_an_answer_is_handed_over(api: VppApi) -> None:
    assert api.call("works", x=1).fields == {"_timeout": 0.5, "x": 1}


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("refused", "VPP refuses refused: unsupported (-126)"),
        ("hangs", "no answer to hangs within 0.5 s"),
        ("wrong", "wrong cannot be sent: ValueError"),
        ("unknown", "has no message unknown"),
    ],
)
def test_what_goes_wrong_is_one_error_that_names_the_message(
    api: VppApi, message: str, says: str
) -> None:
    with pytest.raises(DutError) as caught:
        api.call(message, port="phy0")
    assert says in str(caught.value)


def test_links_that_come_and_go_are_noted(api: VppApi) -> None:
    api.note_event("rx_thread_exit", None)
    assert not api.interfaces_changed.is_set()
    api.note_event("sw_interface_event", None)
    assert api.interfaces_changed.is_set()


def test_no_vpp_is_an_error_that_names_the_socket(api: VppApi) -> None:
    api.client = None
    with pytest.raises(DutError, match="no answer to connecting") as caught:
        api.connect()
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(DutError, match="not been started"):
        api.call("show_version")
    assert api_module.API_TIMEOUT_S > 0


# --- "show runtime" ---------------------------------------------------------------------------

#: In the layout of VPP 20.05 and later, two workers; the first line of each table is indented.
RUNTIME = """\
Thread 0 vpp_main (lcore 1)
Time 2.3, 10 sec internal node vector rate 0.00 loops/sec 4126.51
  vector rates in 0.0000e0, out 0.0000e0, drop 0.0000e0, punt 0.0000e0
             Name                 State         Calls          Vectors        Suspends         Clocks       Vectors/Call
acl-plugin-fa-cleaner-process  event wait                0               0               1          3.66e4            0.00
api-rx-from-ring                any wait                 0               0              21          1.24e5            0.00
unix-cli-local:3                 active                  1               0               9          5.12e6            0.00
unix-epoll-input                 polling              9421               0               0          8.11e5            0.00
---------------
Thread 1 vpp_wk_0 (lcore 2)
Time 2.3, 10 sec internal node vector rate 34.17 loops/sec 1893210.44
  vector rates in 1.0000e6, out 1.0000e6, drop 0.0000e0, punt 0.0000e0
             Name                 State         Calls          Vectors        Suspends         Clocks       Vectors/Call
ethernet-input                   active              67000         2300000               0          2.10e1           34.33
l2-output                        active              67000         2300000               0          1.50e1           34.33
memif-input                      polling           4350000         2300000               0          1.62e2            0.53
memif1/0-output                  active              67000         2300000               0          9.40e0           34.33
vhost-user-very-long-node-nameinterrupt wait              5               0               0          1.00e3            0.00
---------------
Thread 2 vpp_wk_1 (lcore 3)
Time 2.3, 10 sec internal node vector rate 0.00 loops/sec 2100000.00
  vector rates in 0.0000e0, out 0.0000e0, drop 0.0000e0, punt 0.0000e0
             Name                 State         Calls          Vectors        Suspends         Clocks       Vectors/Call
memif-input                      polling           4830000               0               0          1.30e2            0.00
"""  # noqa: E501 - as VPP prints it
#: Of a VPP of before 20.05 without workers, as its users have published it.
WITHOUT_WORKERS = """\
Time 3246.5, average vectors/node 1.08, last 128 main loops 0.00 per node 0.00
  vector rates in 1.0011e-1, out 1.0011e-1, drop 2.1561e-2, punt 0.0000e0
             Name                 State         Calls          Vectors        Suspends         Clocks       Vectors/Call
arp-nd-resolver-process         any wait                 0               0             653          6.26e3            0.00
ethernet-input                   active                315             346               0          1.30e4            1.09
memif-input                     interrupt wait         300             346               0          2.00e2            1.15
"""  # noqa: E501 - as VPP prints it


def test_nodes_of_each_thread_are_read_with_their_clocks() -> None:
    threads = switch.parse_runtime(RUNTIME)
    assert set(threads) == {"vpp_main", "vpp_wk_0", "vpp_wk_1"}
    first = threads["vpp_wk_0"]
    assert set(first) == {
        "ethernet-input",
        "l2-output",
        "memif-input",
        "memif1/0-output",
        "vhost-user-very-long-node-name",
    }
    node = first["ethernet-input"]
    assert (node.calls, node.packets, node.input) == (67_000, 2_300_000, False)
    assert node.clocks == pytest.approx(21 * 2_300_000)
    assert first["memif-input"].input
    # Without packets VPP prints the clocks of a call.
    assert threads["vpp_wk_1"]["memif-input"].clocks == pytest.approx(130 * 4_830_000)
    assert set(threads["vpp_main"]) == {"unix-cli-local:3", "unix-epoll-input"}


def test_a_vpp_without_workers_has_one_thread() -> None:
    threads = switch.parse_runtime(WITHOUT_WORKERS)
    assert {name: set(nodes) for name, nodes in threads.items()} == {
        "vpp_main": {"ethernet-input", "memif-input"}
    }
    assert threads["vpp_main"]["memif-input"].packets == 346


def test_text_that_is_no_table_is_an_error() -> None:
    with pytest.raises(DutError, match="show runtime"):
        switch.parse_runtime("show runtime: unknown input")


def test_work_of_a_trial_is_what_the_workers_did_since_they_were_cleared(tmp_path: Path) -> None:
    shown = [RUNTIME, RUNTIME.replace("2300000", "1000000")]
    commands: list[str] = []

    def cli(command: str) -> str:
        commands.append(command)
        return shown.pop(0) if command == "show runtime" else ""

    vpp = Vpp(MagicMock(facts=machine(tmp_path)), plan(scenario()))
    vpp.worker_count = 2
    vpp.vpp = MagicMock(api=SimpleNamespace(cli=cli))
    before = {work.thread: work for work in vpp.datapath_work()}
    after = {work.thread: work for work in vpp.datapath_work()}
    assert commands == ["show runtime", "clear runtime"] * 2
    assert set(after) == {"vpp_wk_0", "vpp_wk_1"}  # the main thread forwards nothing
    work = after["vpp_wk_0"].since(before["vpp_wk_0"])
    assert (work.packets, work.idle_cycles) == (1_000_000, None)
    assert work.busy_cycles == pytest.approx((21 + 15 + 9.4) * 1_000_000)
    assert work.nodes["l2-output"].packets == 1_000_000
    assert work.nodes["l2-output"].clocks == pytest.approx(15_000_000)
    assert after["vpp_wk_1"].since(before["vpp_wk_1"]).packets == 0
