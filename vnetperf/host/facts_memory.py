"""Facts about memory: how much, by node, hugepages, and the modules and channels behind it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from vnetperf.host import hugepages, smbios
from vnetperf.host.fact import attempt, file_text, is_unknown, unknown

# What boards call channels: "P0_Node0_Channel1_Dimm0", "CPU1_DIMM_A1", "DIMM_B2", "ChannelA-DIMM0".
_CHANNELS: Final = (
    re.compile(r"channel[ _-]?(?P<channel>[a-z0-9]+)", re.IGNORECASE),
    re.compile(r"dimm[ _-]?(?P<channel>[a-p])\d?\b", re.IGNORECASE),
    re.compile(r"^(?P<channel>[a-p])\d$", re.IGNORECASE),
)
_SOCKET: Final = re.compile(r"(?:node|cpu|proc|p|socket)[ _-]?(\d)(?![0-9])", re.IGNORECASE)


def memory_facts(*, sys: Path, proc: Path) -> dict[str, Any]:
    """Memory in kB, hugepages in pages, modules in MiB."""
    info = file_text(proc / "meminfo")
    tables: Any = attempt(lambda: smbios.read(sys=sys))
    if isinstance(tables, str):
        modules = channels = correction = unknown(f"the firmware's tables: {_why(tables)}")
    else:
        modules, channels = attempt(lambda: _modules(tables)), attempt(lambda: _channels(tables))
        correction = smbios.error_correction(tables) or unknown("the firmware does not say")
    return {
        "total_kb": _number(info, "MemTotal"),
        "available_kb": _number(info, "MemAvailable"),
        "swap_total_kb": _number(info, "SwapTotal"),
        "nodes": attempt(lambda: _nodes(sys)),
        "hugepages": attempt(lambda: _pools(sys)),
        "modules": modules,
        "channels": channels,
        "error_correction": correction,
    }


def _why(text: str) -> str:
    """Why the tables cannot be read, in fewer words than the error has."""
    if "FileNotFoundError" in text:
        return f"the machine has none (/sys/{smbios.TABLES} is not there)"
    return f"only root may read /sys/{smbios.TABLES}" if "PermissionError" in text else text


def _pools(sys: Path) -> Any:
    found = [
        {
            "node": pool.node,
            "size_kb": pool.size_kb,
            "total": pool.total,
            "free": pool.free,
            "surplus": pool.surplus,
        }
        for pool in hugepages.pools(sys=sys)
    ]
    return found or unknown("the kernel shows no hugepages")


def _nodes(sys: Path) -> Any:
    """Memory and distances of NUMA nodes, those without processors too."""
    found = []
    for path in sorted((sys / "devices/system/node").glob("node[0-9]*")):
        info = file_text(path / "meminfo")
        found.append(
            {
                "node": int(path.name.removeprefix("node")),
                "total_kb": _number(info, "MemTotal"),
                "distances": file_text(path / "distance"),
            }
        )
    return found or unknown("the kernel shows no NUMA nodes")


def _devices(tables: tuple[smbios.Structure, ...]) -> list[dict[str, Any]]:
    return [smbios.memory_device(s) for s in tables if s.kind == smbios.MEMORY_DEVICE]


def _modules(tables: tuple[smbios.Structure, ...]) -> Any:
    """Modules that are there, and how many places are empty."""
    devices = _devices(tables)
    if not devices:
        return unknown("the firmware's tables hold no memory devices")
    populated = [device for device in devices if device["size_mib"]]
    return {"populated": populated, "empty places": len(devices) - len(populated)}


def _channels(tables: tuple[smbios.Structure, ...]) -> Any:
    """Channels with a module, out of those that there are, as the board's names tell them."""
    named = [(_channel(device), bool(device["size_mib"])) for device in _devices(tables)]
    if not named or any(name is None for name, _ in named):
        return unknown("the board's names of memory places tell no channels")
    used = {name for name, there in named if there}
    return {"used": len(used), "of": len({name for name, _ in named})}


def _channel(device: dict[str, Any]) -> tuple[str, str] | None:
    """Socket and channel of a place; None when its names do not tell."""
    text = f"{device.get('locator', '')} {device.get('bank', '')}"
    for pattern in _CHANNELS:
        for name in (device.get("bank", ""), device.get("locator", "")):
            if match := pattern.search(name):
                socket = _SOCKET.search(text)
                return (socket[1] if socket else ""), match["channel"].upper()
    return None


def _number(info: str, name: str) -> int | str:
    match = re.search(rf"\b{name}:\s*(\d+)", info)
    if match:
        return int(match[1])
    return info if is_unknown(info) else unknown(f"meminfo has no {name}")
