"""Offloads and rings as they are read, with a driver that refuses."""

from __future__ import annotations

import ctypes
import errno
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyroute2.ethtool import ioctl

from vnetperf.host import ethtool, links
from vnetperf.host.journal import Journal
from vnetperf.host.linux import run_in
from vnetperf.model.errors import HostError


class Driver:
    """An interface with two features that can be changed, and one that cannot."""

    error: Exception | None = None
    groups: ClassVar[list[tuple[str, int]]] = []
    asked: ClassVar[dict[str, bool]] = {}
    written: ClassVar[list[dict[str, bool]]] = []

    def __init__(self, name: str) -> None:
        assert name == "dev0"
        self.ifreq: Any = ioctl.IfReq()
        self.asked.update({"rx-gro": True, "tx-tcp-mangleid-segmentation": False, "loopback": True})

    def get_features(self) -> Any:
        if self.error:
            raise self.error
        return Features(self.asked)

    def set_features(self, features: Any) -> None:
        self.written.append(dict(features))

    def set_offload_flag(self, name: str, value: int) -> None:
        self.groups.append((name, value))

    def ioctl(self) -> None:
        pass

    def close(self) -> None:
        pass


class Features(dict[str, bool]):
    def is_available(self, name: str) -> bool:
        return name != "loopback"

    def is_requested(self, name: str) -> bool:
        return self[name]

    def is_active(self, name: str) -> bool:
        return False


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ioctl, "IoctlEthtool", Driver)


def test_features_that_can_be_changed_are_read_one_by_one() -> None:
    asked = {"rx-gro": 1, "tx-tcp-mangleid-segmentation": 0}
    assert ethtool.features("dev0") == asked
    assert ethtool.features("dev0", "active") == dict.fromkeys(asked, 0)


def test_a_feature_is_asked_for_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """No group is turned on with it; one that the driver does not have is left."""
    monkeypatch.setattr(Driver, "groups", [])
    monkeypatch.setattr(Driver, "written", [])
    ethtool.set_features("dev0", {"tx-tcp-mangleid-segmentation": 1, "rx-gro-hw": 1})
    asked = {"rx-gro": True, "tx-tcp-mangleid-segmentation": True, "loopback": True}
    assert (Driver.written, Driver.groups) == ([asked], [])


@pytest.mark.parametrize(("frames", "told"), [(512, 512), (0, None)])
def test_a_ring_is_as_long_as_the_driver_says(
    monkeypatch: pytest.MonkeyPatch, frames: int, told: int | None
) -> None:
    rings = ioctl.EthtoolRingParam(rx_max=4096, rx=frames)
    monkeypatch.setattr(Driver, "get_rings", lambda _: rings, raising=False)
    assert ethtool.receive_ring("dev0") == told


def test_a_counter_that_firmware_does_not_keep_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [("rx_packets_phy", 7), (" rx_discards_phy", 2**64 - 1), ("tx_packets_phy", 0)]
    monkeypatch.setattr(Driver, "get_statistics", lambda _: told, raising=False)
    assert ethtool.statistics("dev0") == {"rx_packets_phy": 7, "tx_packets_phy": 0}


@pytest.mark.parametrize(("number", "told"), [(3, 3), (0, 0), (-1, None)])
def test_a_nics_clock_has_a_number_or_there_is_none(
    monkeypatch: pytest.MonkeyPatch, number: int, told: int | None
) -> None:
    def answer(driver: Driver) -> None:
        info = ctypes.cast(driver.ifreq.gstrings, ctypes.POINTER(ctypes.c_int32))
        assert info[0] == ethtool.GET_TS_INFO
        info[2] = number

    monkeypatch.setattr(Driver, "ioctl", answer)
    assert ethtool.phc_index("dev0") == told


def test_a_driver_without_rings_tells_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Driver) -> None:
        raise ioctl.NotSupportedError("dev0")

    monkeypatch.setattr(Driver, "get_rings", refuse, raising=False)
    assert ethtool.receive_ring("dev0") is None


@pytest.mark.parametrize("number", [errno.EPERM, errno.EINVAL, errno.EBUSY])
def test_a_failed_reading_is_an_error_and_not_nothing(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(Driver, "error", OSError(number, "refused"))
    with pytest.raises(HostError, match="refused"):
        ethtool.features("dev0")


@pytest.mark.real
def test_a_feature_that_was_off_by_itself_is_off_again(
    monkeypatch: pytest.MonkeyPatch, journal: Journal, run_id: str, tmp_path: Path
) -> None:
    """A group that is turned on turns it on, which no NIC has by default."""
    monkeypatch.undo()
    space, name, other = tmp_path / "space", f"{run_id}a", "tx-tcp-mangleid-segmentation"
    links.create_netns(journal, space)
    links.create_veth(journal, (name, f"{run_id}b"), netns=(space, space), offloads=True)
    was = run_in(space, lambda: ethtool.features(name)) | {other: 0}
    run_in(space, lambda: ethtool.set_features(name, was))
    assert run_in(space, lambda: ethtool.features(name)) == was
    ethtool.disable_offloads(name, netns=space)
    off = run_in(space, lambda: ethtool.features(name))
    assert (was["tx-tcp-segmentation"], off["tx-tcp-segmentation"]) == (1, 0)
    run_in(space, lambda: ethtool.set_features(name, was))
    assert run_in(space, lambda: ethtool.features(name)) == was
    assert run_in(space, lambda: ethtool.features(name, "active"))[other] == 0
