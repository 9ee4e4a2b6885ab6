"""Finds the programs that backends start, and asks them for their version."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from vnetperf.host.fact import is_unknown

#: Program -> places it is looked for, in order; a name alone is looked for in PATH.
PLACES: dict[str, tuple[str, ...]] = {
    "ovs-vswitchd-dpdk": (
        "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk",
        "ovs-vswitchd-dpdk",
        "ovs-vswitchd",
    ),
    # The kernel's datapath can be driven by either build.
    "ovs-vswitchd": (
        "ovs-vswitchd",
        "/usr/lib/openvswitch-switch/ovs-vswitchd",
        "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk",
    ),
    "ovsdb-server": ("ovsdb-server",),
    "ovsdb-tool": ("ovsdb-tool",),
    "ovs-vsctl": ("ovs-vsctl",),
    "ovs-ofctl": ("ovs-ofctl",),
    "dpdk-testpmd": ("dpdk-testpmd", "testpmd"),
    "vpp": ("vpp",),
    "pktgen": ("pktgen",),
    # Never its wrapper t-rex-64, which changes the machine.
    "trex": ("_t-rex-64",),
    "qemu-system-x86_64": ("qemu-system-x86_64", "qemu-kvm"),
    "osmo-ggsn": ("osmo-ggsn",),
    "sgsnemu": ("sgsnemu",),
    "iperf3": ("iperf3",),
    "netperf": ("netperf",),
    "netserver": ("netserver",),
    "sockperf": ("sockperf",),
    "gcc": ("gcc", "cc"),
    "pkg-config": ("pkg-config", "pkgconf"),
}
#: What a program's version text must contain to be the one meant: a distribution's ovs-vswitchd
#: may be built without DPDK.
MUST_SAY = {"ovs-vswitchd-dpdk": "DPDK"}
#: A program's version where it matters; a DPDK program tells its own once it runs, by telemetry.
VERSION_ARGS = {
    "ovs-vswitchd-dpdk": ("--version",),
    "ovs-vswitchd": ("--version",),
    "osmo-ggsn": ("--version",),
    "iperf3": ("--version",),
    "netperf": ("-V",),
    "sockperf": ("--version",),
    "gcc": ("-dumpfullversion",),
}
#: Programs whose version is that of a library they are linked with: they are not asked, since VPP
#: before 26.02 takes "--version" for a piece of its configuration, and starts.
LINKED_WITH = {"vpp": re.compile(rb"libvlib\.so\.(\d+\.\d+)")}
#: Programs whose builds differ by the libraries that they are linked with.
BUILDS = ("osmo-ggsn",)
LIBRARY = re.compile(rb"\0(lib[\w+.-]+)\.so(?:\.\d+)*(?=\0)")
CONFIGURED = "correct its path under [programs] of the testbed file"
SBIN = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"


def find_programs(
    overrides: Mapping[str, str], names: Iterable[str] = tuple(PLACES)
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Find programs and the versions of those whose version matters.

    Args:
        overrides: Program -> path from the testbed file; "" for none.
        names: Programs wanted.

    Returns:
        Program -> path ("" when missing), program -> version text, and program -> what is wrong
        with the one configured or found, with its cure; one that is nowhere has no entry there.
    """
    daemon = overrides.get("ovs-vswitchd-dpdk") or overrides.get("ovs-vswitchd", "")
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
    paths = {name: path for name, (path, _, _) in found.items()}
    versions = {name: text for name, (_, text, _) in found.items() if text}
    return paths, versions, {name: trouble for name, (_, _, trouble) in found.items() if trouble}


def libraries(paths: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Libraries that programs are linked with, of those whose builds differ by them.

    Args:
        paths: Program -> path, "" where it is missing.

    Returns:
        Program -> names of libraries, "libgtp"; programs that cannot be read are left out.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name in BUILDS:
        with contextlib.suppress(OSError):
            if path := paths.get(name):
                names = LIBRARY.findall(Path(path).read_bytes())
                found[name] = tuple(sorted({one.decode() for one in names}))
    return found


def _find(name: str, override: str, beside: Sequence[str]) -> tuple[str, str, str]:
    """Path, version, and what is wrong."""
    trouble = ""
    search = os.pathsep.join([*beside, os.environ.get("PATH", ""), SBIN])
    for place in (override,) if override else PLACES[name]:
        path = shutil.which(place, path=search)
        if path is None:
            if override:
                trouble = f"{override} {_why_not_run(Path(override))}; {CONFIGURED}"
            continue
        known = name in VERSION_ARGS or name in LINKED_WITH
        text = version_of(name, path) if known else ""
        if name not in MUST_SAY or MUST_SAY[name] in text:
            return path, text, ""
        wrong = "does not tell its version" if is_unknown(text) else f"has no {MUST_SAY[name]}"
        cure = CONFIGURED if override else "run `make deps`, or name another under [programs]"
        trouble = trouble or f"{path} {wrong} ({text.splitlines()[0]}); {cure}"
    return "", "", trouble


def _why_not_run(path: Path) -> str:
    try:
        if path.is_dir():
            return "is a directory"
        path.stat()
    except OSError as error:
        return "is not there" if isinstance(error, FileNotFoundError) else str(error.strerror)
    return "is not executable"


def version_of(name: str, path: str) -> str:
    """What a program prints as its version, or is linked with.

    Args:
        name: Program.
        path: Its path.

    Returns:
        The text, or "unknown: why".
    """
    if name in LINKED_WITH:
        return _linked_version(name, Path(path))
    argv = [path, *VERSION_ARGS[name]]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown: {error}"
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return "\n".join(lines[:3]) or f"unknown: {Path(path).name} printed nothing"


def _linked_version(name: str, path: Path) -> str:
    try:
        match = LINKED_WITH[name].search(path.read_bytes())
    except OSError as error:
        return f"unknown: {error}"
    if match is None:
        return f"unknown: {path.name} is not linked with a library that has its version"
    return f"{path.name} {match[1].decode()}"
