"""The mode of a NIC's switch is set for a run and comes back, on a made-up devlink and sysfs."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroute2.netlink.exceptions import NetlinkError

from tests.host.test_vfs import PHYSICAL, Kernel
from vnetperf.host import journal as journal_file
from vnetperf.host import kernel as values
from vnetperf.host.journal import CHANGE_KINDS, Journal
from vnetperf.host.nic import eswitch, switchdev, users, vfs
from vnetperf.host.paths import HostRoots
from vnetperf.host.session import restore
from vnetperf.model.errors import HostError


class Switch:
    """The switch of a NIC as ice has it: its mode changes only without virtual functions."""

    def __init__(self, kernel: Kernel, mode: str = "legacy") -> None:
        self.kernel = kernel
        self.number = eswitch.ESWITCH_MODES[mode]
        self.refusal = 0
        self.deaf = False
        self.said: list[str] = []

    def __call__(self, address: str, number: int | None = None) -> int | None:
        assert address == PHYSICAL
        if self.refusal and (number is not None or self.refusal in eswitch.NO_ESWITCH):
            raise NetlinkError(self.refusal, os.strerror(self.refusal))
        if number is None:
            return self.number
        if self.kernel.drivers():
            raise NetlinkError(errno.EOPNOTSUPP, "there are virtual functions")
        self.said.append(self.mode if self.deaf else next(n for n, v in MODES if v == number))
        if not self.deaf:
            self.number = number
        return None

    @property
    def mode(self) -> str:
        return next(name for name, value in MODES if value == self.number)


MODES = tuple(eswitch.ESWITCH_MODES.items())


def made_up(path: Path, monkeypatch: pytest.MonkeyPatch, before: int = 0) -> Switch:
    kernel = Kernel(path, before)
    switch = Switch(kernel)
    monkeypatch.setattr(values, "write_file", kernel.write)
    monkeypatch.setattr(vfs.usage, "interface_uses", dict)
    monkeypatch.setattr(eswitch, "request_eswitch", switch)
    there = SimpleNamespace(driver="ice")
    monkeypatch.setattr(eswitch, "pci", SimpleNamespace(exists=exists, nic=lambda _: there))
    return switch


def exists(address: str) -> bool:
    return address == PHYSICAL


@pytest.mark.parametrize("before", [0, 2, 3])
def test_the_mode_changes_while_there_are_no_functions_and_comes_back(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    switch = made_up(tmp_path, monkeypatch, before)
    made = vfs.create_vfs(journal, PHYSICAL, 3, eswitch="switchdev", sys=tmp_path)
    assert len(made) == 3
    assert switch.mode == "switchdev"
    assert journal.undo().complete
    assert switch.said == ["switchdev", "legacy"]
    assert switch.kernel.drivers() == [True] * before


def test_the_mode_comes_back_after_sigkill(
    roots: HostRoots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = made_up(tmp_path / "machine", monkeypatch, 2)
    journal = Journal.create(roots, "r1")
    vfs.create_vfs(journal, PHYSICAL, 1, eswitch="switchdev", sys=tmp_path / "machine")
    journal.close()  # all that a killed process leaves is its journal
    report = restore(roots)
    assert report.complete
    kinds = [step.kind for step in report.restored[0].undone]
    assert kinds == ["value", "eswitch", "value", "value"]
    assert switch.mode == "legacy"
    assert switch.kernel.drivers() == [True] * 2


def test_a_run_killed_before_it_changed_the_mode_leaves_it(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = made_up(tmp_path, monkeypatch)
    journal.intend("eswitch", "announced only", {"pci": PHYSICAL, "previous": "legacy"})
    report = journal.undo()
    assert [step.outcome for step in report.undone] == ["already legacy"]
    assert switch.said == []


def test_a_switch_that_is_in_switchdev_mode_already_stays_in_it(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = made_up(tmp_path, monkeypatch)
    switch.number = eswitch.ESWITCH_MODES["switchdev"]
    vfs.create_vfs(journal, PHYSICAL, 1, eswitch="switchdev", sys=tmp_path)
    assert journal.undo().complete
    assert (switch.said, switch.mode) == ([], "switchdev")


@pytest.mark.parametrize("number", eswitch.NO_ESWITCH)
def test_a_nic_without_the_mode_is_named_with_its_driver_and_nothing_is_changed(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    switch = made_up(tmp_path, monkeypatch)
    switch.refusal = number
    assert eswitch.read_mode(PHYSICAL) == ""
    with pytest.raises(HostError, match=f"{PHYSICAL}: its driver ice has no switchdev mode"):
        eswitch.set_mode(journal, PHYSICAL, "switchdev")
    kinds = [
        r["kind"] for r in journal_file.read_journal(journal.path).records if r["t"] == "change"
    ]
    assert kinds == []


def test_a_driver_that_refuses_the_change_says_so(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = made_up(tmp_path, monkeypatch)
    switch.refusal = errno.EBUSY
    with pytest.raises(HostError, match="driver ice refuses"):
        eswitch.set_mode(journal, PHYSICAL, "switchdev")
    assert switch.mode == "legacy"


def test_a_mode_that_reads_back_otherwise_is_an_error(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up(tmp_path, monkeypatch).deaf = True
    with pytest.raises(HostError, match="was set to switchdev and is legacy"):
        eswitch.set_mode(journal, PHYSICAL, "switchdev")


def test_a_nic_that_is_gone_needs_no_mode() -> None:
    assert "gone" in eswitch.undo_mode({"pci": "0000:ff:1f.7", "previous": "legacy"})


@given(st.sampled_from(sorted(eswitch.ESWITCH_MODES)), st.integers(0, 255))
def test_what_is_sent_is_what_the_kernel_reads(mode: str, bus: int) -> None:
    """Bus, device and mode as attributes 1, 2 and 25 of <linux/devlink.h>."""
    from pyroute2.netlink.devlink import devlinkcmd  # noqa: PLC0415 - one test needs it

    message: Any = devlinkcmd()
    address = f"0000:{bus:02x}:00.0"
    message["cmd"] = eswitch.ESWITCH_SET
    message["attrs"] = eswitch.devlink_attributes(address, eswitch.ESWITCH_MODES[mode])
    message.encode()
    data = bytes(message.data)[16:]  # behind the header of netlink
    assert data[0] == 30  # DEVLINK_CMD_ESWITCH_SET
    at, found = 4, {}
    while at < len(data):
        size = int.from_bytes(data[at : at + 2], "little")
        found[int.from_bytes(data[at + 2 : at + 4], "little")] = data[at + 4 : at + size]
        at += (size + 3) // 4 * 4
    assert found[1] == b"pci\0"
    assert found[2] == address.encode() + b"\0"
    assert int.from_bytes(found[25], "little") == eswitch.ESWITCH_MODES[mode]


class Uplink:
    """An interface with an ingress queue or without, and with hardware rules on or off."""

    def __init__(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, *, ingress: bool, tc: bool | None
    ) -> None:
        self.ingress, self.tc, self.sent = ingress, tc, 0
        link = SimpleNamespace(name="up0", index=7, mtu=1500)
        monkeypatch.setattr(eswitch.links, "get", lambda *_: link)
        monkeypatch.setattr(eswitch.links, "links", lambda *_: (link,))
        monkeypatch.setattr(eswitch, "has_ingress", lambda _: self.ingress)
        monkeypatch.setattr(eswitch, "hw_tc_offload", self.rules)
        monkeypatch.setattr(eswitch, "change_ingress_qdisc", self.queue)
        monkeypatch.setattr(eswitch, "request_link", self.request)
        self.ipv6 = path / "up0/disable_ipv6"
        self.ipv6.parent.mkdir()
        self.ipv6.write_text("0\n")
        monkeypatch.setattr(eswitch, "IPV6", path)

    def rules(self, name: str, wanted: bool | None = None) -> bool | None:
        assert name == "up0"
        if wanted is not None and self.tc is not None:
            self.tc = wanted
        return self.tc

    def queue(self, command: str, index: int) -> None:
        assert index == 7
        self.ingress = command == "add"

    def request(self, command: str, **attributes: Any) -> None:
        del command, attributes
        self.sent += 1


@pytest.mark.parametrize("tc", [True, False, None])
def test_an_uplink_is_as_before(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tc: bool | None
) -> None:
    link = Uplink(tmp_path, monkeypatch, ingress=False, tc=tc)
    eswitch.take_uplink(journal, "up0", mtu=9000)
    assert link.ingress
    assert link.ipv6.read_text() == "1\n"
    assert link.tc is (None if tc is None else True)
    assert journal.undo().complete
    assert not link.ingress
    assert link.tc is tc
    assert link.ipv6.read_text() == "0\n"


def test_rules_of_somebody_else_are_left_alone(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = Uplink(tmp_path, monkeypatch, ingress=True, tc=False)
    with pytest.raises(HostError, match="rules of somebody else"):
        eswitch.take_uplink(journal, "up0", mtu=1500)
    assert journal.undo().undone == ()
    assert (link.ingress, link.tc, link.sent) == (True, False, 0)


def test_an_uplink_that_is_gone_has_no_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eswitch.links, "links", lambda *_: ())
    assert "gone" in eswitch.undo_uplink({"index": 7, "tc": True})


def test_the_guardian_can_undo_both() -> None:
    assert CHANGE_KINDS["eswitch"].load() is eswitch.undo_mode
    assert CHANGE_KINDS["uplink"].load() is eswitch.undo_uplink
    assert not CHANGE_KINDS["eswitch"].first


def attribute(kind: int, octets: bytes) -> bytes:
    """As the kernel writes it."""
    head = struct.pack("=HH", 4 + len(octets), kind)
    return head + octets + bytes(-len(octets) % 4)


def port(
    name: str,
    *,
    flavour: int = 4,
    physical: int = 0,
    number: int = 0,
    external: int | None = 0,
    device: str = PHYSICAL,
) -> bytes:
    """What devlink tells of a port (DEVLINK_CMD_PORT_NEW), with attributes that are not read."""
    octets = attribute(1, b"pci\0") + attribute(2, device.encode() + b"\0")
    octets += attribute(3, struct.pack("=I", 65535)) + attribute(4, b"\2\0")
    octets += attribute(6, struct.pack("=I", 9)) + attribute(7, name.encode() + b"\0")
    octets += attribute(77, struct.pack("=H", flavour))
    octets += attribute(127, struct.pack("=H", physical))
    octets += attribute(128, struct.pack("=H", number)) if flavour == 4 else b""
    octets += attribute(150, struct.pack("=I", 1))
    octets += attribute(149, bytes([external])) if external is not None else b""
    return struct.pack("=BBH", 7, 1, 0) + octets


def told(monkeypatch: pytest.MonkeyPatch, *ports: bytes) -> None:
    """A kernel that knows devlink, and these ports."""

    def ask(kind: int, flags: int, body: bytes, *, protocol: int = 0) -> list[bytes]:
        assert protocol == 16
        if kind == 16:  # the controller of generic netlink
            assert b"devlink\0" in body
            return [struct.pack("=BBH", 1, 2, 0) + attribute(1, b"\x15\0")]
        assert (kind, flags, body[:1]) == (0x15, users.DUMP, b"\5")
        return list(ports)

    monkeypatch.setattr(users, "ask_kernel", ask)


def test_devlink_tells_what_a_ports_name_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    other = "0000:99:00.0"
    told(
        monkeypatch,
        port("uplink", flavour=0),
        port("whole", flavour=3),
        port("renamed-by-udev", number=0),
        port("c1pf0vf1", number=1, external=None),  # an older kernel, without the attribute
        port("of-another-host", number=2, external=1),
        port("elsewhere", number=2, device=other),
        port("", number=3),  # not made yet
    )
    assert switchdev.uplink_name(PHYSICAL) == "uplink"
    assert eswitch.uplinks(other) == ()
    assert eswitch.representors(PHYSICAL, 0) == {0: "renamed-by-udev"}
    assert switchdev.representor_name(PHYSICAL, 0) == "renamed-by-udev"
    assert switchdev.representor_name(PHYSICAL, 1) == "c1pf0vf1"
    assert eswitch.representors(PHYSICAL, 2) == eswitch.representors(PHYSICAL, 3) == {}
    assert eswitch.representors(other, 2) == {0: "elsewhere"}


def test_of_several_physical_functions_on_a_switch_devlink_tells_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    second = PHYSICAL[:-1] + "1"
    told(
        monkeypatch,
        *(port(f"a{p}", physical=p, number=0) for p in (0, 1)),
        *(port(f"b{p}", physical=p, number=0, device=second) for p in (0, 1)),
    )
    assert switchdev.representor_name(PHYSICAL, 0) == "a0"
    assert switchdev.representor_name(second, 0) == "b1"


@given(st.binary(max_size=64))
def test_odd_answers_of_devlink_name_no_interface(octets: bytes) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        told(monkeypatch, octets, port("a0", number=5))
        assert eswitch.representors(PHYSICAL, 5) == {0: "a0"}


def test_a_kernel_without_devlink_leaves_it_to_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "ask_kernel", lambda *_, **__: [])
    assert eswitch.representors(PHYSICAL, 0) == {}
