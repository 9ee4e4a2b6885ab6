"""Programs of a machine: where they are, version, build id, Debian package."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import struct
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from vnetperf.host.facts import is_unknown, unknown

_ELF_MAGIC: Final = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_ELF_HEADER_SIZE: Final = 64
_PT_NOTE: Final = 4  # PT_NOTE
_NT_GNU_BUILD_ID: Final = 3  # NT_GNU_BUILD_ID
#: No table of segments and no note is larger in a program that somebody linked.
_MAX_READ: Final = 1 << 16


def build_id(path: Path) -> str:
    """The id that the linker gave a program."""
    with path.open("rb") as file:
        header = file.read(_ELF_HEADER_SIZE)
        if len(header) < _ELF_HEADER_SIZE or not header.startswith(_ELF_MAGIC):
            return ""
        (table,) = struct.unpack_from("<Q", header, 0x20)
        size, count = struct.unpack_from("<HH", header, 0x36)
        file.seek(table)
        segments = file.read(min(size * count, _MAX_READ))
        for start in range(0, len(segments) - 55, size or 56):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", segments, start)
            if kind == _PT_NOTE:
                file.seek(offset)
                if found := _build_id_in_notes(file.read(min(length, _MAX_READ))):
                    return found
    return ""


def _build_id_in_notes(notes: bytes) -> str:
    at = 0
    while at + 12 <= len(notes):
        name_length, length, kind = struct.unpack_from("<III", notes, at)
        name = at + 12
        content = name + -(-name_length // 4) * 4
        if kind == _NT_GNU_BUILD_ID and notes[name : name + 4] == b"GNU\0":
            return notes[content : content + length].hex()
        at = content + -(-length // 4) * 4
    return ""


#: Program -> places it is looked for, in order; a name alone is looked for in PATH.
PROGRAM_PATHS: dict[str, tuple[str, ...]] = {
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
VERSION_MUST_CONTAIN = {"ovs-vswitchd-dpdk": "DPDK"}
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
VERSION_FROM_LIBRARY = {"vpp": re.compile(rb"libvlib\.so\.(\d+\.\d+)")}
#: Programs whose builds differ by the libraries that they are linked with.
LIBRARIES_REPORTED = ("osmo-ggsn",)
LIBRARY_NAME = re.compile(rb"\0(lib[\w+.-]+)\.so(?:\.\d+)*(?=\0)")
CORRECT_PATH = "correct its path under [programs] of the testbed file"
EXTRA_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"


def find_programs(
    overrides: Mapping[str, str], names: Iterable[str] = tuple(PROGRAM_PATHS)
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Find programs and the versions of those whose version matters."""
    daemon = overrides.get("ovs-vswitchd-dpdk") or overrides.get("ovs-vswitchd", "")
    # Tools of another version may not understand a daemon's database: take those built with it.
    beside = [str(Path(daemon).parent.parent / d) for d in ("bin", "sbin")] if daemon else []
    with ThreadPoolExecutor(8) as pool:
        found = dict(
            zip(
                names,
                pool.map(lambda n: _find_program(n, overrides.get(n, ""), beside), names),
                strict=True,
            )
        )
    paths = {name: path for name, (path, _, _) in found.items()}
    versions = {name: text for name, (_, text, _) in found.items() if text}
    return paths, versions, {name: trouble for name, (_, _, trouble) in found.items() if trouble}


def linked_libraries(paths: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Libraries that programs are linked with, of those whose builds differ by them."""
    found: dict[str, tuple[str, ...]] = {}
    for name in LIBRARIES_REPORTED:
        with contextlib.suppress(OSError):
            if path := paths.get(name):
                names = LIBRARY_NAME.findall(Path(path).read_bytes())
                found[name] = tuple(sorted({one.decode() for one in names}))
    return found


def _find_program(name: str, override: str, beside: Sequence[str]) -> tuple[str, str, str]:
    """Path, version, and what is wrong."""
    trouble = ""
    search = os.pathsep.join([*beside, os.environ.get("PATH", ""), EXTRA_PATH])
    for place in (override,) if override else PROGRAM_PATHS[name]:
        path = shutil.which(place, path=search)
        if path is None:
            if override:
                trouble = f"{override} {_why_not_executable(Path(override))}; {CORRECT_PATH}"
            continue
        known = name in VERSION_ARGS or name in VERSION_FROM_LIBRARY
        text = version_of(name, path) if known else ""
        if name not in VERSION_MUST_CONTAIN or VERSION_MUST_CONTAIN[name] in text:
            return path, text, ""
        wrong = (
            "does not tell its version"
            if is_unknown(text)
            else f"has no {VERSION_MUST_CONTAIN[name]}"
        )
        cure = CORRECT_PATH if override else "run `make deps`, or name another under [programs]"
        trouble = trouble or f"{path} {wrong} ({text.splitlines()[0]}); {cure}"
    return "", "", trouble


def _why_not_executable(path: Path) -> str:
    try:
        if path.is_dir():
            return "is a directory"
        path.stat()
    except OSError as error:
        return "is not there" if isinstance(error, FileNotFoundError) else str(error.strerror)
    return "is not executable"


def version_of(name: str, path: str) -> str:
    """What a program prints as its version, or is linked with."""
    if name in VERSION_FROM_LIBRARY:
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
        match = VERSION_FROM_LIBRARY[name].search(path.read_bytes())
    except OSError as error:
        return f"unknown: {error}"
    if match is None:
        return f"unknown: {path.name} is not linked with a library that has its version"
    return f"{path.name} {match[1].decode()}"


DPKG_STATUS = Path("/var/lib/dpkg/status")
# Name in the result -> packages that carry it, the first installed one counts.
DEBIAN_PACKAGES = {
    "dpdk": ("dpdk", "libdpdk-dev"),
    "ovs": ("openvswitch-switch", "openvswitch-common"),
    "ovs-dpdk": ("openvswitch-switch-dpdk",),
    "qemu": ("qemu-system-x86", "qemu-system-arm"),
    "libvirt": ("libvirt-daemon", "libvirt0"),
    "vpp": ("vpp",),
    "iproute2": ("iproute2",),
    "gcc": ("gcc",),
}
PACKAGE_PROGRAMS = {
    "dpdk": "dpdk-testpmd",
    "ovs": "ovs-vswitchd",
    "ovs-dpdk": "ovs-vswitchd-dpdk",
    "qemu": "qemu-system-x86_64",
    "libvirt": "libvirtd",
    "vpp": "vpp",
    "iproute2": "ip",
    "gcc": "gcc",
}
NOT_INSTALLED = "not installed"


def software_facts(*, dpkg_status: Path = DPKG_STATUS) -> dict[str, Any]:
    """Version of each program that matters, or ``not installed``."""
    packages = _debian_packages(dpkg_status)
    facts: dict[str, Any] = {"python": platform.python_version()}
    for name, candidates in DEBIAN_PACKAGES.items():
        versions = [packages[package] for package in candidates if package in packages]
        if versions:
            facts[name] = versions[0]
        elif _in_path(PACKAGE_PROGRAMS[name]):
            facts[name] = unknown("installed, but not by a Debian package")
        else:
            facts[name] = NOT_INSTALLED
    return facts


def kvm_facts(*, dev: Path = Path("/dev")) -> dict[str, str]:
    """Whether KVM is there, and whether it is known to work.

    The device can be there and not work, so only booting something proves it. That takes
    seconds: who has done it puts the outcome in place of ``usable``.
    """
    device = dev / "kvm"
    if not device.exists():
        return {"present": "no", "usable": "no: there is no /dev/kvm"}
    if not os.access(device, os.R_OK | os.W_OK):
        return {"present": "yes", "usable": "no: this user may not open /dev/kvm"}
    return {"present": "yes", "usable": "not proved: nothing was booted with it"}


def _debian_packages(status: Path) -> dict[str, str]:
    """Installed packages of interest with version, read from dpkg's own list (it is fast)."""
    wanted = {package for candidates in DEBIAN_PACKAGES.values() for package in candidates}
    found: dict[str, str] = {}
    try:
        text = status.read_text(errors="replace")
    except OSError:
        return found
    for package in wanted:
        start = (
            0 if text.startswith(f"Package: {package}\n") else text.find(f"\nPackage: {package}\n")
        )
        if start < 0:
            continue
        entry = text[start : text.find("\n\n", start + 1)]
        fields = dict(line.partition(": ")[::2] for line in entry.splitlines() if ": " in line)
        if fields.get("Status") == "install ok installed" and "Version" in fields:
            found[package] = fields["Version"]
    return found


def _in_path(program: str) -> bool:
    directories = [*os.environ.get("PATH", "").split(os.pathsep), "/usr/sbin", "/usr/local/sbin"]
    return any(directory and (Path(directory) / program).exists() for directory in directories)
