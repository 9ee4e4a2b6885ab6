"""Offloads and rings as they are read, with a driver that refuses."""

from __future__ import annotations

import ctypes
import errno
from typing import Any

import pytest
from pyroute2.ethtool import ioctl

from vnetperf.host import ethtool
from vnetperf.model.errors import HostError


class Driver:
    """An interface whose scatter-gather cannot be read."""

    error: Exception = ioctl.NotSupportedError("dev0")

    def __init__(self, name: str) -> None:
        assert name == "dev0"
        self.ifreq: Any = ioctl.IfReq()

    def ioctl(self) -> None:
        value = self.ifreq.value.contents
        if value.cmd == ioctl.ETHTOOL_GSG:
            raise self.error
        value.data = value.cmd in {ioctl.ETHTOOL_GGRO, ioctl.ETHTOOL_GTXCSUM}

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ioctl, "IoctlEthtool", Driver)


def test_an_offload_that_the_driver_lacks_hides_no_other() -> None:
    assert ethtool.offloads("dev0") == {
        "gro": 1,
        "gso": 0,
        "tso": 0,
        "tx-checksum": 1,
        "rx-checksum": 0,
    }


@pytest.mark.parametrize(("frames", "told"), [(512, 512), (0, None)])
def test_a_ring_is_as_long_as_the_driver_says(
    monkeypatch: pytest.MonkeyPatch, frames: int, told: int | None
) -> None:
    rings = ioctl.EthtoolRingParam(rx_max=4096, rx=frames)
    monkeypatch.setattr(Driver, "get_rings", lambda _: rings, raising=False)
    assert ethtool.receive_ring("dev0") == told


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
        ethtool.offloads("dev0")


@pytest.mark.real
def test_those_of_an_interface_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert set(ethtool.offloads("lo")) == set(ethtool.OFFLOADS)
