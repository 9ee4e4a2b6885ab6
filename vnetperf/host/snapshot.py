"""A snapshot of a machine's state: what a run left changed, if anything.

The same mechanism checks every run (`take_picture` before it, `undo_and_compare` after it) and the
tests (`take_snapshot`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vnetperf.host import hugepages, linux
from vnetperf.host.journal import Journal, UndoReport
from vnetperf.host.linux import (
    PROC,
    ProcessId,
    boot_id,
    machine_id,
    parse_json,
    read_file,
    read_mounts,
    try_read,
)
from vnetperf.host.paths import HostRoots
from vnetperf.host.wait import wait_at_most
from vnetperf.model.errors import HostError

#: Links that a module makes by itself when it is loaded (their names in the kernel's sources under
#: net/ipv4, net/ipv6 and drivers/net); they go with it.
FALLBACK_LINKS: Mapping[str, tuple[str, ...]] = {
    "bonding": ("bond0",),
    "dummy": ("dummy0",),
    "ifb": ("ifb0", "ifb1"),
    "ip6_gre": ("ip6gre0",),
    "ip6_tunnel": ("ip6tnl0",),
    "ip6_vti": ("ip6_vti0",),
    "ip_gre": ("gre0", "gretap0", "erspan0"),
    "ip_vti": ("ip_vti0",),
    "ipip": ("tunl0",),
    "sit": ("sit0",),
}

log = logging.getLogger(__name__)

SYSCTLS = (
    *("vm/nr_overcommit_hugepages", "vm/max_map_count", "vm/overcommit_memory", "vm/swappiness"),
    *("kernel/numa_balancing", "kernel/nmi_watchdog", "kernel/sched_rt_runtime_us"),
    *("kernel/perf_event_paranoid", "net/core/rmem_max", "net/core/wmem_max"),
    *("net/core/netdev_max_backlog", "net/core/busy_poll", "net/core/busy_read"),
    *("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "net/bridge/bridge-nf-call-iptables"),
)
MACHINE_TREES = tuple(Path("/", name) for name in ("dev/hugepages", "run/dpdk", "run/netns"))
SHARED_MEMORY = Path("/dev", "shm")
SYSFS_VALUES = (
    "/sys/bus/pci/devices/*/sriov_numvfs",
    "/sys/bus/pci/devices/*/driver_override",
    "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    "/sys/kernel/mm/transparent_hugepage/enabled",
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What there is on a machine, by area: a name and its value.

    Attributes:
        areas: ``hugepages``, ``processes``, ``mounts``, ``links``, ``routes``, ``netns``,
            ``modules``, ``drivers``, ``values`` (sysctls, virtual functions), ``irqs`` and
            ``files``, each from name to value.
    """

    areas: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def only(self, areas: Collection[str], containing: Iterable[str] = ()) -> Snapshot:
        """A part of it: some areas, and of these the entries that contain one of the texts.

        On a machine where others work at the same time only a part can be compared.
        """
        marks = tuple(containing)
        return Snapshot(
            {
                area: {
                    name: value
                    for name, value in self.areas.get(area, {}).items()
                    if not marks or any(mark in f"{name} {value}" for mark in marks)
                }
                for area in areas
            }
        )


def take_snapshot(roots: HostRoots | None = None, areas: Collection[str] | None = None) -> Snapshot:
    """Take a picture of this machine; what cannot be read has an entry "(unreadable)".

    Only some areas are read where these are named: to go through all processes takes most time.
    """
    roots = roots or HostRoots()
    readers = {
        **_READERS,
        "processes": _processes,
        "netns": lambda: dict.fromkeys(linux.network_namespaces(PROC), "exists"),
        "irqs": _irqs,
        "files": lambda: _files((roots.run, roots.state, *MACHINE_TREES)) | _shared_memory(),
    }
    return _read_areas({area: readers[area] for area in (readers if areas is None else areas)})


#: Longest wait for what goes a little after it was undone, seconds.
SETTLE_S = 0.5


def picture(run: Path) -> Snapshot:
    """What a run may change, as far as others do not change it all the time; `run` has its folder.

    Of processes only those that have a file of a run open: a daemon that outlived it does.
    """
    trees = (run, *(tree for tree in MACHINE_TREES if tree.name in ("hugepages", "dpdk")))
    snapshot = _read_areas(
        {
            **_READERS,
            "processes": lambda: _holders(run),
            "files": lambda: dict.fromkeys(_files(trees), "there"),
        }
    )
    # Those of other hosts within this machine are in journals of their own.
    others, own_prefix = f"{HostRoots().run}-", f"{run}/"
    mounts = snapshot.areas["mounts"].items()
    kept = {n: kind for n, kind in mounts if n.startswith(own_prefix) or not n.startswith(others)}
    return Snapshot({**snapshot.areas, "mounts": kept})


def run_picture(run: Path) -> Snapshot:
    """Processes and files of a run's own.

    It is of a host within a machine on which another host of the same deployment changes things
    meanwhile.
    """
    files = {"files": lambda: dict.fromkeys(_files((run,)), "there")}
    return _read_areas({"processes": lambda: _holders(run), **files})


def without_loaded(now: Snapshot, before: Snapshot, modules: Collection[str]) -> Snapshot:
    """A picture without modules that a run has loaded since, nor links that these have made."""
    expected = {"modules": set(modules)}
    expected["links"] = {link for module in modules for link in FALLBACK_LINKS.get(module, ())}
    return Snapshot(
        {
            area: {
                name: value
                for name, value in entries.items()
                if name in before.areas.get(area, {}) or name not in expected.get(area, ())
            }
            for area, entries in now.areas.items()
        }
    )


def differences(before: Snapshot, run: Path, modules: Collection[str] = ()) -> tuple[str, ...]:
    """What differs from a picture taken before a run, now that it is undone.

    Modules that the run has loaded, and the links that some of them make by themselves, are no
    difference: those that are still there were left on purpose (`kernel.undo_modules`).
    """
    changes: list[str] = []
    looked = picture if "links" in before.areas else run_picture

    def as_before() -> bool:
        changes[:] = compare_snapshots(before, without_loaded(looked(run), before, modules))
        return not changes

    wait_at_most(as_before, SETTLE_S, "the machine as it was before", poll_s=0.1)
    return tuple(changes)


def take_picture(journal: Journal, run: Path, *, whole_machine: bool = True) -> None:
    """Write down the machine before a run's first change; `run` is where its folder will be."""
    areas = (picture if whole_machine else run_picture)(run).areas
    journal.append({"t": "before", "boot": boot_id(), "run": str(run), "areas": areas})


def undo_and_compare(journal: Journal) -> UndoReport:
    """Undo a journal, then compare the machine with the picture taken before the run.

    What is found is kept for `vnetperf doctor` too. A comparison that fails keeps nothing from
    being undone, and is a difference itself.
    """
    before, roots = journal.record("before"), HostRoots(state=journal.path.parent.parent)
    loaded = modules_loaded(journal)
    report = journal.undo()
    if before and before["boot"] == boot_id():
        if any(step.kind == "modules" for step in report.failed):
            loaded = set()
        try:
            changes = differences(Snapshot(before["areas"]), Path(before["run"]), loaded)
        except Exception as error:
            log.exception("the machine cannot be compared")
            changes = (f"the machine cannot be compared with what it was: {error}",)
        for text in changes:
            log.warning("not as before run %s: %s", report.run_id, text)
        report = replace(report, differences=changes)
        _keep_last(roots, report)
    return report


def modules_loaded(journal: Journal) -> set[str]:
    """The modules that a run has loaded."""
    return {
        module
        for change in journal.records("change")
        if change["kind"] == "modules"
        for module in change["data"].get("modules", ())
    }


def _keep_last(roots: HostRoots, report: UndoReport) -> None:
    """Keep what was found after a run; a full disk is no reason to fail."""
    record = {
        "run": report.run_id,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "troubles": report.troubles,
        "differences": report.differences,
        **_identify_machine(),
    }
    draft = roots.last.with_name(f".{roots.last.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        try:
            # It names mounts, routes and processes of this machine.
            with os.fdopen(
                os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w"
            ) as file:
                file.write(json.dumps(record, indent=1) + "\n")
            draft.replace(roots.last)
        finally:
            draft.unlink(missing_ok=True)


def _identify_machine() -> dict[str, str]:
    """Which machine this is, where several share the directory."""
    return {"machine": machine_id(), "boot": boot_id(), "host": os.uname().nodename}


def read_last(roots: HostRoots) -> dict[str, Any]:
    """What was found after the last run on this machine; empty when nothing was kept.

    ``unknown`` alone, with the reason, when it is not this machine's or cannot be read.
    """
    try:
        record = parse_json(read_file(roots.last))
    except FileNotFoundError:
        return {}
    except OSError as error:
        return {"unknown": f"{roots.last}: {error.strerror}"}
    except ValueError:
        return {"unknown": f"{roots.last} is not as it was written"}
    if not isinstance(record, dict):
        return {"unknown": f"{roots.last} is not as it was written"}
    # A container has its machine's boot, and often a machine-id of its own.
    if all(record.get(key) != value for key, value in _identify_machine().items() if key != "host"):
        return {"unknown": f"{roots.last} is of {record.get('host', 'another machine')}"}
    return record


def _read_areas(readers: Mapping[str, Callable[[], dict[str, str]]]) -> Snapshot:
    areas = {}
    for area, reader in readers.items():
        try:
            areas[area] = reader()
        except (OSError, HostError, LookupError, ValueError) as error:
            areas[area] = {"(unreadable)": str(error)}
    return Snapshot(areas)


def compare_snapshots(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """What differs, one readable line each; empty when the machine is as it was."""
    lines = []
    for area in sorted({*before.areas, *after.areas}):
        old, new = before.areas.get(area, {}), after.areas.get(area, {})
        for name in sorted({*old, *new}):
            if name not in new:
                lines.append(f"{area}: {name} is gone (was {old[name]})")
            elif name not in old:
                lines.append(f"{area}: {name} is new ({new[name]})")
            elif old[name] != new[name]:
                lines.append(f"{area}: {name} was {old[name]}, is {new[name]}")
    return tuple(lines)


def _hugepages() -> dict[str, str]:
    return {
        f"node{pool.node} {pool.size_kb} kB": f"{pool.total} pages, {pool.surplus} surplus"
        for pool in hugepages.pools()
    }


def _processes() -> dict[str, str]:
    processes = {}
    for entry in PROC.iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        identity = ProcessId.read(int(entry.name))  # None: ended, or a zombie
        command = _text(entry / "cmdline").replace("\0", " ").strip()
        if identity is not None and command:  # kernel threads have no command line
            processes[f"{identity.pid}@{identity.start}"] = command
    return processes


def _holders(run: Path) -> dict[str, str]:
    """Processes that have a file below a run's folder open, be it deleted, or that are in it.

    Others come and go on every machine, and what they are called is nobody's business.
    """
    holders = {}
    for entry in PROC.glob("[0-9]*"):
        open_paths: list[Path] = []
        with contextlib.suppress(OSError):  # ended meanwhile
            open_paths = [
                (entry / "cwd").readlink(),
                *map(Path, linux.list_open_files(entry)),
            ]
        if entry.name != str(os.getpid()) and any(path.is_relative_to(run) for path in open_paths):
            holders[entry.name] = _text(entry / "comm")
    return holders


def _mounts() -> dict[str, str]:
    mounts: dict[str, str] = {}
    for words in read_mounts(PROC / "self/mountinfo"):
        kind = words[words.index("-") + 1 :][:2]
        mounts[f"{words[4]} ({words[0]})"] = " ".join(kind)
    return mounts


def _links() -> dict[str, str]:
    links = {}
    for path in Path("/sys/class/net").iterdir():
        if not (path / "ifindex").exists():  # bonding_masters is a file
            continue
        flags = int(_text(path / "flags") or "0", 16) & 0x1181  # up, promisc, noarp, multicast
        # A driver that is bound again makes its device's interface anew, with another index.
        index = "" if (path / "device").exists() else f"index {_text(path / 'ifindex')} "
        links[path.name] = f"{index}mtu {_text(path / 'mtu')} {flags:#x}"
    return links


def _routes() -> dict[str, str]:
    """Routes of the main namespace, without the counters that the kernel keeps of their use."""
    routes = {}
    for line in _text(PROC / "net/route").splitlines()[1:]:
        words = line.split()
        routes[f"{words[1]}/{words[7]} {words[0]} metric {words[6]}"] = f"via {words[2]}"
    for line in _text(PROC / "net/ipv6_route").splitlines():
        words = line.split()
        routes[f"{words[0]}/{words[1]} {words[9]} metric {words[5]}"] = f"via {words[4]}"
    return routes


def _modules() -> dict[str, str]:
    return {line.split()[0]: "loaded" for line in _text(PROC / "modules").splitlines()}


def _drivers() -> dict[str, str]:
    drivers = {}
    for device in Path("/sys/bus/pci/devices").glob("*"):
        driver = device / "driver"
        drivers[device.name] = driver.resolve().name if driver.exists() else "none"
    return drivers


def _values() -> dict[str, str]:
    paths = [PROC / "sys" / name for name in SYSCTLS]
    for pattern in SYSFS_VALUES:
        paths.extend(sorted(Path("/").glob(pattern.lstrip("/"))))
    return {str(path): _text(path) for path in paths if path.exists()}


def _irqs() -> dict[str, str]:
    return {path.parent.name: _text(path) for path in PROC.glob("irq/[0-9]*/smp_affinity_list")}


def _files(trees: Iterable[Path]) -> dict[str, str]:
    files = {}
    for tree in trees:
        for directory, _, names in os.walk(tree):
            files[f"{directory}/"] = "directory"
            for name in names:
                files[f"{directory}/{name}"] = _size(Path(directory) / name)
    return files


def _shared_memory() -> dict[str, str]:
    """What shm_open(3) made: files. Who makes a folder there takes it for a disk, as tests do."""
    files = (path for path in SHARED_MEMORY.iterdir() if not path.is_dir())
    return {str(path): _size(path) for path in files}


def _size(path: Path) -> str:
    try:
        return f"{path.lstat().st_size} bytes"
    except OSError:
        return "gone while looking"


def _text(path: Path) -> str:
    return try_read(path, errors="surrogateescape")


_READERS: Mapping[str, Callable[[], dict[str, str]]] = {
    "hugepages": _hugepages,
    "mounts": _mounts,
    "links": _links,
    "routes": _routes,
    "modules": _modules,
    "drivers": _drivers,
    "values": _values,
}
