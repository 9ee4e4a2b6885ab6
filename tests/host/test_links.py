from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vnetperf.host import kernel, links, linux, snapshot, threads
from vnetperf.host.journal import Journal
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import HostError

pytestmark = pytest.mark.real


@pytest.fixture
def names(run_id: str) -> tuple[str, str]:
    return f"{run_id}a", f"{run_id}b"


def test_a_quiet_pair(journal: Journal, names: tuple[str, str]) -> None:
    links.create_veth(journal, names, mtu=9000)
    for name in names:
        link = links.get(name)
        assert (link.kind, link.mtu, link.up, link.carrier) == ("veth", 9000, True, True)
        with_ipv6 = Path("/proc/sys/net/ipv6/conf", name, "disable_ipv6")
        assert with_ipv6.read_text() == "1\n"
    time.sleep(0.2)
    for name in names:  # the kernel has sent nothing of its own
        sent = Path("/sys/class/net", name, "statistics/tx_packets")
        assert sent.read_text() == "0\n"
    with pytest.raises(HostError, match="exists already"):
        links.create_veth(journal, names)
    found = links.get(names[0])
    other = f"{names[0]}other"  # by which the kernel finds it, too
    links.request(names[0], None, "property_add", index=found.index, altname=other)
    assert links.find(other) is None
    with pytest.raises(HostError, match="no network link"):
        links.set_mtu(other, 1400)
    with pytest.raises(HostError, match="exists already"):
        links.check_new_name(other, None)
    journal.undo()
    assert links.find(names[0]) is None
    assert links.find("a name that no link can have") is None


def test_indices_of_links_name_no_group_of_another_processes_sockets(
    journal: Journal, names: tuple[str, str]
) -> None:
    """Each end's is drawn, so that pids that follow each other do not make up for it."""
    links.create_veth(journal, names)
    found = [links.get(name).index for name in names]
    assert all(index in links.INDICES for index in found)
    links.delete(names[0])
    links.create_link(journal, names[0], "bridge")
    assert links.get(names[0]).index in links.INDICES


def test_frames_cross_into_a_namespace_and_all_is_gone_after(
    journal: Journal, names: tuple[str, str], tmp_path: Path
) -> None:
    before = snapshot.take_snapshot()
    space = tmp_path / "space"
    links.create_netns(journal, space)
    links.create_veth(journal, names, netns=(None, space))
    assert links.find(names[1]) is None
    assert links.get(names[1], space).up
    frame = b"\xff" * 6 + b"\x02" * 6 + b"\x88\xb5" + b"x" * 46

    def listen() -> socket.socket:
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
        raw.bind((names[1], 0))
        raw.settimeout(5)
        return raw

    with linux.run_in(space, listen) as receiver:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
            sender.bind((names[0], 0))
            sender.send(frame)
        assert receiver.recv(100) == frame
    assert journal.undo().complete
    assert not space.exists()
    areas = ("links", "mounts")
    marks = (*names, str(tmp_path))
    assert (
        snapshot.compare_snapshots(
            before.only(areas, marks), snapshot.take_snapshot(areas=areas).only(areas, marks)
        )
        == ()
    )


@pytest.mark.parametrize("bad", ["", "x" * 16, "a/b"])
def test_a_bad_name_is_told(journal: Journal, bad: str) -> None:
    with pytest.raises(HostError, match="accepted: 1 to 15"):
        links.create_link(journal, bad, "dummy")


def test_an_unknown_link_names_those_there_are() -> None:
    with pytest.raises(HostError, match=r"accepted: .*\blo\b"):
        links.get("no-such-link")


def test_an_unknown_kind_leaves_nothing(journal: Journal, names: tuple[str, str]) -> None:
    with pytest.raises(HostError, match="kernel refused to add"):
        links.create_link(journal, names[0], "no-such-kind")


def test_a_missing_namespace_is_told(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot enter"):
        linux.run_in(tmp_path / "none", lambda: None)


def test_a_module_that_is_not_there_is_told(journal: Journal) -> None:
    with pytest.raises(HostError, match="no-such-module"):
        kernel.load_module(journal, "no-such-module")
    assert kernel.undo_modules({"modules": ["no_such_module"]}) == "already gone"


def test_a_pair_is_made_where_it_belongs_and_its_names_are_free_there(
    journal: Journal, names: tuple[str, str], tmp_path: Path
) -> None:
    """One that is born in the machine's namespace is seen by all that watches links there."""
    space = tmp_path / "space"
    links.create_netns(journal, space)
    links.create_veth(journal, names)  # somebody else's, in the machine's namespace
    outside = {link.name: link.index for link in links.links() if link.name in names}
    inside = links.create_veth(journal, names, netns=(space, space), mtu=9000)
    assert [links.get(name, space).carrier for name in names] == [True, True]
    inside.undo()
    assert [links.find(name, space) for name in names] == [None, None]
    assert {link.name: link.index for link in links.links() if link.name in names} == outside


def test_receive_work_gets_threads_that_are_placed_and_end_with_the_link(
    journal: Journal, names: tuple[str, str], tmp_path: Path
) -> None:
    space = tmp_path / "space"
    links.create_netns(journal, space)
    links.create_veth(journal, names, netns=(space, space))
    before = Path("/proc/self/mountinfo").read_text()
    found = links.start_napi_threads(names[0], (0,), netns=space)
    assert found == links.napi_threads(names[0]) != ()
    assert links.napi_threads(names[1]) == ()
    impostor = "import time; open('/proc/self/comm', 'w').write(input()); time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", impostor], stdin=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        begins = links.napi_thread_prefix(names[1])
        print(begins, file=process.stdin, flush=True)
        comm = Path(f"/proc/{process.pid}/comm")
        wait_for(lambda: comm.read_text().startswith(begins), 30, "its name")
        assert links.napi_threads(names[1]) == ()
        process.kill()
    for thread in found:
        (seen,) = threads.list_threads(thread)
        assert seen.name.startswith(links.napi_thread_prefix(names[0]))
        assert seen.cpus == {0}
    assert Path("/proc/self/mountinfo").read_text() == before, "its view of /sys is private"
    links.delete(names[0], netns=space)
    wait_for(lambda: not links.napi_threads(names[0]), 5, "the threads' end")


def test_a_link_without_receive_work_of_its_own_is_told(
    journal: Journal, names: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "_THREAD_S", 0.2)
    space = tmp_path / "space"
    links.create_netns(journal, space)
    links.create_link(journal, names[0], "bridge", netns=space)
    with pytest.raises(HostError, match=r"threads are seen|gives no threads") as caught:
        links.start_napi_threads(names[0], (0,), netns=space)
    assert "leave --set napi=threaded out" in caught.value.cure


def test_fragments_are_read_by_name() -> None:
    text = "Ip: Forwarding FragFails FragCreates\nIp: 1 3 12\nIcmp: InMsgs\nIcmp: 4\n"
    assert links.count_fragments(text) == 12
    assert (links.count_fragments(Path("/proc/net/snmp").read_text()) or 0) >= 0


def test_indices_of_links_are_seen_by_programs_that_keep_them_in_16_bits_with_a_sign() -> None:
    """PRRTE, the launcher of Open MPI 5, finds no interface whose index is above 32767."""
    assert 0 < min(links.INDICES) <= max(links.INDICES) <= 2**15 - 1
