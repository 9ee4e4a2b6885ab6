"""Contract kit: which changes of the machine are a deployment's, and which are of others beside it.

A deployment is charged with all that differs, but for what the kernel shows to be somebody else's:
what processes of another test run, or of somebody's terminal, hold. Neither a backend nor a service
that it asks (dockerd, ovs-vswitchd) is one of these. What is gone by itself a while after all of
the deployment's processes have ended was nothing that it left.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute

from vnetperf.host.linux import PROC, RUN_ID_VARIABLE, ProcessId, list_open_files, read_file
from vnetperf.host.nic.usage import find_namespace_id

#: Areas whose entries are of runs alone: nobody else makes any.
_OF_RUNS = ("processes",)
_NAMESPACES = Path("/run/netns")
_TUN = "/dev/net/tun"
#: Fields of /proc/PID/stat behind the command: parent, session, terminal (proc(5)).
_PARENT, _SESSION, _TERMINAL = 1, 3, 4
#: Sockets that wait for connections: flags of /proc/PID/net/unix, states of its tcp (proc(5)).
_ACCEPTS, _LISTEN = 0x10000, "0A"


def sort_differences(
    differences: Iterable[str],
    run_id: str,
    changes: Iterable[Mapping[str, Any]],
    before: Holders | None = None,
    now: Holders | None = None,
) -> tuple[list[str], list[str], list[str]]:
    """Differences that a deployment made, those of others, and those of nobody knows whom.

    Args:
        differences: Lines of `compare_snapshots`: "mounts: /sys/fs/bpf is new (bpf)".
        run_id: The run of the deployment.
        changes: What its journal has.
        before: Who held what when the deployment began.
        now: Who holds what now.

    Returns:
        The three, in order. Those of the deployment name the run, or what the journal has, or one
        of its processes holds them; those of others have who holds, or held, them.
    """
    journal = json.dumps([*changes], default=str)
    own_lines: list[str] = []
    others: list[str] = []
    unclear: list[str] = []
    for line in differences:
        area, _, text = line.partition(": ")
        name, _, change = text.partition(" ")
        gone = change.startswith("is gone")
        look = before if gone else now
        holder = look.others_with(area, name) if look is not None else ""
        if area in _OF_RUNS or (run_id and run_id in line) or (name and name in journal):
            own_lines.append(line)
        elif holder and not (gone and look is not None and look.alive(name)):
            others.append(f"{line}, of {holder}" + (", which has ended" if gone else ""))
        else:
            unclear.append(line)
    return own_lines, others, unclear


class Holders:
    """Who holds links, namespaces, mounts and files at one moment: one look at all processes."""

    def __init__(self, since: int | None = None) -> None:
        """Look.

        Args:
            since: Terminals that were there before are others', by the kernel's ticks since it
                booted; None for those before this process.
        """
        since = ProcessId.me().start if since is None else since
        self._pids_of: dict[str, set[str]] = defaultdict(set)
        self._spaces: dict[str, set[str]] = {}
        self._whose: dict[str, str] = {}
        namespaces: dict[int, set[str]] = defaultdict(set)
        for process in PROC.glob("[0-9]*"):
            with contextlib.suppress(OSError):  # ended meanwhile, or a thread of the kernel
                namespaces[(process / "ns/net").stat().st_ino].add(process.name)
                for name in _list_open_files(process):
                    self._pids_of[name].add(process.name)
        own_namespace = Path("/proc/thread-self/ns/net").stat().st_ino
        with contextlib.suppress(OSError):
            for path in _NAMESPACES.iterdir():
                self._spaces[str(path)] = namespaces.get(path.stat().st_ino, set())
        others = {number: pids for number, pids in namespaces.items() if number != own_namespace}
        for name, pids in _links_into(others):
            self._pids_of[name] |= pids
        # At once: who has ended cannot be asked any more whose it was.
        for pid in {
            pid for pids in (*self._pids_of.values(), *self._spaces.values()) for pid in pids
        }:
            with contextlib.suppress(OSError):
                self._whose[pid] = whose(PROC / pid, since)

    def _holding(self, name: str) -> set[str]:
        return self._pids_of.get(name, set()) | self._spaces.get(name, set())

    def others_with(self, area: str, name: str) -> str:
        """Who holds something, where all are processes of others; else "".

        Of a mount only a namespace's counts: what is open below another one may have been before.
        """
        holders = self._spaces.get(name, set()) if area == "mounts" else self._holding(name)
        pids = sorted(holders, key=int)
        owners = [self._whose.get(pid, "") for pid in pids]
        return f"process {pids[0]} ({owners[0]})" if owners and all(owners) else ""

    def alive(self, name: str) -> bool:
        """Whether one that held something lives; its number may be another process's by now."""
        return any((PROC / pid).exists() for pid in self._holding(name))


def _list_open_files(process: Path) -> set[str]:
    """Files that a process has open or mapped, and its interfaces of the kind tun."""
    files: set[str] = set()
    for fd in (process / "fd").iterdir():
        with contextlib.suppress(OSError):
            path = str(fd.readlink())
            files.add(path)
            if path == _TUN:
                lines = read_file(process / "fdinfo" / fd.name).splitlines()
                files |= {line.split()[1] for line in lines if line.startswith("iff:\t")}
    lines = read_file(process / "maps").splitlines()
    return files | {line[line.index("/") :] for line in lines if "/" in line}


def _links_into(namespaces: Mapping[int, set[str]]) -> Iterable[tuple[str, set[str]]]:
    """Links here whose other end is in another namespace, with the processes that are in it."""
    with IPRoute() as route:
        ends = [
            (str(link.get_attr("IFLA_IFNAME")), link.get_attr("IFLA_LINK_NETNSID"))
            for link in route.get_links()
        ]
    if any(number is not None for _, number in ends):
        pids = {
            find_namespace_id(int(min(members)), is_pid=True): members
            for members in namespaces.values()
        }
        yield from ((name, pids[number]) for name, number in ends if number in pids)


def whose(process: Path, since: int) -> str:
    """Whose a process is, where it is certainly no deployment's nor of a service that it asks.

    A container of a service's may have a terminal too, but none from before the deployment.

    Args:
        process: Its folder in ``/proc``.
        since: When the deployments began, in the kernel's ticks.

    Returns:
        "another test run", "a terminal", or "" where it may be anybody's.

    Raises:
        OSError: It has ended.
    """
    if is_other_test(process):
        return "another test run"
    stat_fields = read_file(PROC / "self/stat").rpartition(")")[2].split()
    own_sessions = {stat_fields[_SESSION]}
    while (pid := process.name) not in ("0", "1"):
        if pid == str(os.getpid()):
            return ""
        words = read_file(process / "stat").rpartition(")")[2].split()
        if words[_TERMINAL] != "0" and words[_SESSION] not in own_sessions:
            leader = ProcessId.read(int(words[_SESSION]))
            is_older = leader is not None and leader.start < since
            return "a terminal" if is_older and not _listens(process) else ""
        process = process.with_name(words[_PARENT])
    return ""


def _listens(process: Path) -> bool:
    """Whether a process waits for requests: a service may have been asked by a deployment."""
    listening = {
        f"socket:[{words[6]}]"
        for line in read_file(process / "net/unix").splitlines()[1:]
        if len(words := line.split()) > 6 and int(words[3], 16) & _ACCEPTS
    }
    for name, state, inode in (("tcp", 3, 9), ("tcp6", 3, 9)):
        for line in read_file(process / "net" / name).splitlines()[1:]:
            if len(words := line.split()) > inode and words[state] == _LISTEN:
                listening.add(f"socket:[{words[inode]}]")
    return not listening.isdisjoint(list_open_files(process))


def drop_test_mounts(mounts: Mapping[str, str]) -> dict[str, str]:
    """Mounts but for those below temporary directories of tests, which take no lock for them.

    Args:
        mounts: That area of a snapshot.

    Returns:
        The others.
    """
    return {place: mount for place, mount in mounts.items() if "/pytest-of-" not in place}


def run_processes(run_id: str = "") -> dict[str, str]:
    """Processes of one run, or of any, by the mark in their environment.

    Those of other test processes on this machine are left out: they come and go.

    Args:
        run_id: The run; "" for any.

    Returns:
        Process id -> command line.
    """
    mark = f"{RUN_ID_VARIABLE}={run_id}".encode()
    processes = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes() and not is_other_test(process):
                processes[process.name] = _command(process)
        except OSError:  # ended meanwhile
            continue
    return processes


def _command(process: Path) -> str:
    return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()


def is_other_test(process: Path) -> bool:
    """Whether a process descends from a pytest, and not from this one.

    Args:
        process: Its folder in ``/proc``.

    Returns:
        Whether it does, or is one; one whose parents have ended does where it was started by
        another worker of xdist.

    Raises:
        OSError: It has ended.
    """
    by_pytest, first = False, process
    while (pid := process.name) not in ("0", "1", str(os.getpid())):
        # A word of its own: arguments have names of tests' folders.
        words = _command(process).split()
        by_pytest = by_pytest or any(word.rpartition("/")[2] == "pytest" for word in words)
        process = process.with_name(read_file(process / "stat").rpartition(")")[2].split()[1])
    if pid == str(os.getpid()):
        return False
    worker = _worker_marks((first / "environ").read_bytes().split(b"\0"))
    return by_pytest or bool(
        worker - _worker_marks(f"{k}={v}".encode() for k, v in os.environ.items())
    )


def _worker_marks(environment: Iterable[bytes]) -> set[bytes]:
    """What names a worker of xdist in an environment; nothing of what is no worker's."""
    names = (b"PYTEST_XDIST_WORKER=", b"PYTEST_XDIST_TESTRUNUID=")
    return {variable for variable in environment if variable.startswith(names)}
