"""Offloads, queues, rings and driver statistics of a link (ETHTOOL ioctl)."""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Callable, Collection, Mapping
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any, Literal, TypeVar

from vnetperf.host.linux import parse_count, run_in
from vnetperf.model.errors import HostError

T = TypeVar("T")
#: Groups of offloads by pyroute2's names; checksums last, since others depend on them.
OFFLOADS = (
    "generic-receive-offload",
    "generic-segmentation-offload",
    "tcp-segmentation-offload",
    "scatter-gather",
    "tx-checksumming",
    "rx-checksumming",
)
CHANNELS = ("rx", "tx", "other", "combined")
GET_DRIVER_INFO, GET_TS_INFO = 0x03, 0x41
UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.EINVAL})


def disable_offloads(name: str, *, netns: Path | None = None) -> None:
    """Turn off all offloads that the link can do without."""
    for flag in OFFLOADS:
        _ethtool(name, netns, methodcaller("set_offload_flag", flag, 0), UNSUPPORTED)


def features(name: str, state: Literal["requested", "active"] = "requested") -> dict[str, int]:
    """Those of an interface that can be changed, by the kernel's names, as they are asked for.

    They are what is put back later: an offload is a group of them, of which some may be off, as
    tx-tcp-mangleid-segmentation is on most NICs. What is active depends on others as well.
    """

    def read(tool: Any) -> dict[str, int]:
        feature_set = tool.get_features()
        is_on = getattr(feature_set, f"is_{state}")
        return {key: int(is_on(key)) for key in feature_set.keys() if feature_set.is_available(key)}  # noqa: SIM118 - no dict

    return _ethtool(name, None, read, ()) or {}


def set_features(name: str, values: Mapping[str, int]) -> None:
    """Ask for features, each by itself; what the driver refuses is left."""

    def write(tool: Any) -> None:
        feature_set = tool.get_features()
        for key in values.keys() & set(feature_set.keys()):
            feature_set[key] = bool(values[key])
        tool.set_features(feature_set)

    _ethtool(name, None, write)


def set_queues(name: str, count: int, *, netns: Path) -> None:
    """Set the number of queue pairs of an interface."""
    answer = _ethtool(name, netns, methodcaller("get_channels"))
    combined = answer["max_combined"] if answer else 0
    most = combined or (min(answer["max_rx"], answer["max_tx"]) if answer else 0) or 1
    if count > most:
        raise HostError(
            f"{count} queue pairs are requested",
            where=f"link {name}",
            accepted=f"up to {most}",
            cure="request fewer rx_queues",
        )
    if answer:
        pairs = (0, 0, count) if combined else (count, count, 0)
        now = dict(zip(CHANNELS, _counts(answer), strict=True))
        target = now | dict(zip(("rx", "tx", "combined"), pairs, strict=True))
        if now != target:
            set_channels(name, list(target.values()), netns=netns)


def channels(name: str) -> list[int]:
    """Queues of an interface as they are, in the order of `CHANNELS`."""
    answer = _ethtool(name, None, methodcaller("get_channels"))
    return _counts(answer) if answer else []


def _counts(answer: Any) -> list[int]:
    return [int(answer[f"{kind}_count"]) for kind in CHANNELS]


def set_channels(name: str, counts: list[int], *, netns: Path | None = None) -> None:
    """Bring an interface's queues to what `channels` has read."""

    def write(tool: Any) -> None:
        request = tool.get_channels()
        for kind, count in zip(CHANNELS, counts, strict=True):
            request[f"{kind}_count"] = count
        tool.set_channels(request)

    _ethtool(name, netns, write)


def receive_ring(name: str, *, netns: Path | None = None) -> int | None:
    """Frames that each receive ring of an interface holds; None where its driver tells none."""
    answer = _ethtool(name, netns, methodcaller("get_rings"))
    return (int(answer["rx"]) or None) if answer else None


def statistics(name: str, *, netns: Path | None = None) -> dict[str, int]:
    """Counters that the driver of an interface keeps, by the driver's names.

    Those of which it says that it does not count them are left out.
    """
    answer = _ethtool(name, netns, methodcaller("get_statistics")) or ()
    counts = ((key.strip(), parse_count(int(value))) for key, value in answer)
    return {key: count for key, count in counts if count is not None}


def firmware_version(name: str) -> str:
    """Firmware of an interface in the caller's namespace; empty when the driver reports none."""
    # struct ethtool_drvinfo: command; driver, version and fw_version of 32 octets each; more.
    octets = _ethtool(name, None, partial(_read_struct, GET_DRIVER_INFO, 196)) or b""
    return octets[68:100].partition(b"\0")[0].decode(errors="replace").strip()


def phc_index(name: str) -> int | None:
    """Number of the clock of an interface's NIC: `/dev/ptpN`; None for one without."""
    # struct ethtool_ts_info: command, kinds of stamps, the clock or -1; 8 numbers more.
    octets = _ethtool(name, None, partial(_read_struct, GET_TS_INFO, 44))
    index = int(struct.unpack_from("=i", octets, 8)[0]) if octets else -1
    return index if index >= 0 else None


def _read_struct(command: int, size: int, tool: Any) -> bytes:
    """What a command that pyroute2 lacks answers."""
    info = ctypes.create_string_buffer(struct.pack("=I", command), size)
    tool.ifreq.gstrings = ctypes.cast(info, ctypes.c_void_p)
    tool.ioctl()
    return info.raw


def _ethtool(
    name: str,
    netns: Path | None,
    call: Callable[[Any], T],
    tolerated: Collection[int] = UNSUPPORTED | {errno.EPERM},
) -> T | None:
    """Call pyroute2's ethtool in a namespace; None when the driver does not know the command."""
    from pyroute2.ethtool import ioctl  # noqa: PLC0415 - takes 0.2 s to import

    def send() -> T | None:
        tool = ioctl.IoctlEthtool(name)
        try:
            return call(tool)
        except ioctl.NotSupportedError:
            return None
        except (ioctl.NoSuchDevice, OSError) as error:
            if getattr(error, "errno", errno.ENODEV) in tolerated:
                return None
            raise HostError(
                f"the driver refuses the request: {getattr(error, 'strerror', 'no such device')}",
                where=f"link {name}",
                cure="run as root, with a link that exists",
            ) from error
        finally:
            tool.close()

    return run_in(netns, send)
