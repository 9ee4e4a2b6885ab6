"""Finds the programs that backends start, and asks them for their version."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

#: Program -> places it is looked for, in order; a name alone is looked for in PATH.
PLACES: dict[str, tuple[str, ...]] = {
    "ovs-vswitchd-dpdk": (
        "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk",
        "ovs-vswitchd-dpdk",
        "ovs-vswitchd",
    ),
    "ovsdb-server": ("ovsdb-server",),
    "ovsdb-tool": ("ovsdb-tool",),
    "ovs-vsctl": ("ovs-vsctl",),
    "ovs-ofctl": ("ovs-ofctl",),
    "dpdk-testpmd": ("dpdk-testpmd", "testpmd"),
    "gcc": ("gcc", "cc"),
    "pkg-config": ("pkg-config", "pkgconf"),
}
#: What a program's version text must contain to be the one meant: a distribution's ovs-vswitchd
#: may be built without DPDK.
MUST_SAY = {"ovs-vswitchd-dpdk": "DPDK"}
#: A program's version where it matters; a DPDK program tells its own once it runs, by telemetry.
VERSION_ARGS = {"ovs-vswitchd-dpdk": ("--version",), "gcc": ("-dumpfullversion",)}
SBIN = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"


def find_programs(
    overrides: Mapping[str, str], names: Iterable[str] = tuple(PLACES)
) -> tuple[dict[str, str], dict[str, str]]:
    """Find programs and the versions of those whose version matters.

    Args:
        overrides: Program -> path from the testbed file; "" for none.
        names: Programs wanted.

    Returns:
        Program -> path ("" when missing), and program -> version text.
    """
    daemon = overrides.get("ovs-vswitchd-dpdk", "")
    # Tools of another version may not understand a daemon's database: take those built with it.
    beside = [str(Path(daemon).parent.parent / d) for d in ("bin", "sbin")] if daemon else []
    with ThreadPoolExecutor(8) as pool:
        found = dict(
            zip(
                names,
                pool.map(lambda n: _find(n, overrides.get(n, ""), beside), names),
                strict=True,
            )
        )
    paths = {name: path for name, (path, _) in found.items()}
    versions = {name: text for name, (_, text) in found.items() if text}
    return paths, versions


def _find(name: str, override: str, beside: Sequence[str]) -> tuple[str, str]:
    search = os.pathsep.join([*beside, os.environ.get("PATH", ""), SBIN])
    for place in (override,) if override else PLACES[name]:
        path = shutil.which(place, path=search)
        if path is None:
            continue
        text = version_of(name, path) if name in VERSION_ARGS else ""
        if name not in MUST_SAY or MUST_SAY[name] in text:
            return path, text
    return "", ""


def version_of(name: str, path: str) -> str:
    """What a program prints as its version.

    Args:
        name: Program.
        path: Its path.

    Returns:
        The text, or "unknown: why".
    """
    argv = [path, *VERSION_ARGS[name]]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown: {error}"
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return "\n".join(lines[:3]) or f"unknown: {Path(path).name} printed nothing"
