"""What a backend changes a machine with: everything it does is undone with the run."""

from __future__ import annotations

import functools
import logging
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from vnetperf.host import cpu, ethtool, hugepages, kernel, links, nic, xdp
from vnetperf.host.journal import Change
from vnetperf.host.linux import run_in, run_program
from vnetperf.host.nic import eswitch, netdev, vfs
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.session import HostRun
from vnetperf.host.wait import patient
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import KernelModule, MachineFacts

log = logging.getLogger(__name__)
T = TypeVar("T")


class Machine:
    """A machine in the hands of one run: its files, processes, memory, links and NICs."""

    def __init__(self, run: HostRun, facts: MachineFacts) -> None:
        self._run = run
        #: For what only one backend changes: it calls a function of `host/` with this.
        self.journal = run.journal
        self.facts = facts
        self.run_id = run.run_id
        self.run_dir = run.rundir.path
        self._netns: Path | None = None
        self._making_netns = threading.Lock()
        #: Further namespaces of the run: hosts of pods, containers.
        self._namespaces: list[Path] = []
        #: Links that are in another namespace of the run than its own.
        self._elsewhere: dict[str, Path] = {}
        #: Interfaces of PCI devices that were moved into a namespace of the run, and which.
        self._borrowed: dict[str, tuple[str, Path]] = {}
        #: Links that were there before the run, and where they were moved to within it: a namespace
        #: that ends takes what has no device with it.
        self._lent: set[str] = set()
        self._moves: dict[str, Change] = {}
        #: Virtual functions that this run made.
        self._functions: set[str] = set()
        self._last_run = ""

    @property
    def netns(self) -> Path:
        """The run's own network namespace, made on first use.

        Test links and the kernel interfaces of a private switch live in it: nothing on the machine
        listens there, and no name there meets one of the machine's.
        """
        with self._making_netns:  # programs are started side by side
            if self._netns is None:
                path = self.run_dir / "netns"
                links.create_netns(self.journal, path)
                self._netns = path
            return self._netns

    def create_netns(self, path: Path) -> None:
        """Make a further network namespace below the run's directory; it ends with the run."""
        links.create_netns(self.journal, path)
        self._namespaces.append(path)

    def create_cpuset(self, name: str, cpus: Iterable[int]) -> Path:
        """Make a group of processes that run on some processors only; it ends with the run."""
        group = f"vnetperf-{self.run_id}-{name}"
        return cpu.create_cpuset(self.journal, group, cpus)

    def load_module(self, module: KernelModule | str) -> None:
        """Load a kernel module; it is unloaded with the run's end if it was not there before."""
        kernel.load_module(self.journal, module)

    def in_netns(self, function: Callable[[], T]) -> T:
        """Call a function in the run's network namespace, in a thread of its own."""
        return run_in(self.netns, function)

    def move_link(self, name: str, target: Path | None = None) -> None:
        """Move a link into a container's namespace, or back; it is down then.

        It is still found by its name, and so are its settings and statistics.
        """
        home, before = self._home(name), self._moves.pop(name, None)
        if target is not None and name in self._lent:
            self._moves[name] = links.lend(self.journal, name, target, home=home)
        else:
            links.move(name, target or self.netns, netns=home)
        if before is not None:
            before.undo()
        if target is None:
            self._elsewhere.pop(name, None)
        else:
            self._elsewhere[name] = target

    def _home(self, name: str) -> Path:
        """The namespace that a link of the run is in."""
        return self._elsewhere.get(name, self.netns)

    def interface_name(self, role: str) -> str:
        """A name for a network interface of this run."""
        tail = self.run_id.rpartition("-")[2][-8:]
        return f"vp{tail}{role}"

    def create_veth(
        self, a: str, b: str, mtu: int = 1500, *, offloads: bool = False, queues: int | None = None
    ) -> None:
        """Make a veth pair in the run's network namespace, up and quiet."""
        self.load_module("veth")
        netns = (self.netns, self.netns)
        links.create_veth(
            self.journal, (a, b), netns=netns, mtu=mtu, offloads=offloads, queues=queues
        )

    def create_tap(
        self, name: str, mtu: int = 1500, *, offloads: bool = False, multi_queue: bool = True
    ) -> None:
        """Make a persistent tap device in the run's network namespace, up and quiet."""
        self.load_module("tun")
        links.create_tap(self.journal, name, netns=self.netns, multi_queue=multi_queue)
        links.make_ready(name, self.netns, mtu=mtu, offloads=offloads)

    def lay_cable(
        self,
        number: int,
        far: Path,
        mtu: int = 1500,
        *,
        offloads: bool = False,
        native_xdp: bool = False,
    ) -> str:
        """Make a veth pair from the run's network namespace to that of another run, up and quiet.

        It is this run's. It ends with either namespace too: the kernel deletes a pair with one end.
        With `native_xdp` both ends take what a native program sends by the other: whoever plugs in
        at one of them does not see the other.
        """
        self.load_module("veth")
        name = self.interface_name(f"c{number}")
        ends = (self.netns, far)
        links.create_veth(self.journal, (name, name), netns=ends, mtu=mtu, offloads=offloads)
        if native_xdp:
            for netns in ends:
                run_in(netns, lambda: xdp.take_native_frames(name))
        return name

    def delete_link(self, name: str) -> None:
        """Delete a link of the run's network namespace before the run ends."""
        links.delete(name, netns=self._home(name))
        self._elsewhere.pop(name, None)

    def link_statistics(self) -> dict[str, links.LinkStatistics]:
        """Statistics of all links of the run's network namespace."""
        table = links.statistics(self.netns)
        for netns in set(self._elsewhere.values()):
            statistics = links.statistics(netns).items()
            table |= {n: counters for n, counters in statistics if self._elsewhere.get(n) == netns}
        return table

    def create_link(
        self, name: str, kind: str, *, mtu: int | None = None, offloads: bool = True, **options: Any
    ) -> links.Link:
        """Make a link of any kind in the run's network namespace: quiet, and up."""
        links.create_link(self.journal, name, kind, netns=self.netns, **options)
        links.make_ready(name, self.netns, mtu=mtu, offloads=offloads)
        return links.get(name, self.netns)

    def all_links(self) -> tuple[links.Link, ...]:
        """All links of the run's network namespace."""
        lent = (
            link
            for netns in set(self._elsewhere.values())
            for link in links.links(netns)
            if self._elsewhere.get(link.name) == netns
        )
        return (*links.links(self.netns), *lent)

    def links_by_place(self) -> dict[str, links.Link]:
        """Links of all namespaces of the run: by name, those of others as "NAME in host0"."""
        by_place = {link.name: link for link in self.all_links()}
        for netns in self._namespaces:
            place = netns.parent.name
            for link in links.links(netns):
                if self._elsewhere.get(link.name) != netns:
                    by_place[f"{link.name} in {place}"] = link
        return by_place

    def link(self, name: str) -> links.Link:
        """A link in the run's network namespace."""
        return links.get(name, self._home(name))

    def receive_ring(self, name: str) -> int | None:
        """Frames that each receive ring of a link holds; None where its driver tells none."""
        return ethtool.receive_ring(name, netns=self._home(name))

    def start_napi_threads(self, name: str, cpus: Sequence[int]) -> tuple[int, ...]:
        """Let threads of the kernel do a link's receive work, on these processors."""
        return links.start_napi_threads(name, cpus, netns=self._home(name))

    def set_link(
        self, name: str, *, mac: str | None = None, mtu: int | None = None, up: bool | None = None
    ) -> None:
        """Change a link of the run's network namespace, where it differs."""
        now = self.link(name)
        if mac is not None and now.mac != mac.lower():
            links.set_address(name, mac, netns=self._home(name))
        if mtu is not None and now.mtu != mtu:
            links.set_mtu(name, mtu, netns=self._home(name))
        if up is not None and now.up != up:
            links.set_up(name, up=up, netns=self._home(name))

    def give_nic(self, address: str, driver: str, *, isolated: bool = False) -> None:
        """Give a PCI device to a driver for programs; it comes back with the run's end."""
        self._require_free(address, isolated)
        nic.bind_nic(self.journal, address, driver, isolated=isolated)

    def borrow_nic(
        self,
        address: str,
        *,
        mtu: int,
        name: str = "",
        mac: str = "",
        promiscuous: bool = False,
        queues: int | None = None,
        isolated: bool = False,
        netns: Path | None = None,
        offloads: bool = False,
    ) -> str:
        """Move the kernel interface of a PCI device into the run's namespace: up and quiet.

        `netns` is another one of the run. It comes back as it was with the run's end. A device that
        was borrowed already is left where it is.
        """
        if address not in self._borrowed:
            self._require_free(address, isolated)
            home = netns or self.netns
            interface = nic.borrow_nic(self.journal, address, home, name=name, isolated=isolated)
            if queues is not None:
                ethtool.set_queues(interface, queues, netns=home)
            netdev.prepare_interface(
                interface, netns=home, mtu=mtu, promiscuous=promiscuous, mac=mac, offloads=offloads
            )
            self._borrowed[address] = interface, home
            self._lent.add(interface)
        return self._borrowed[address][0]

    def borrow_interface(self, name: str, *, mtu: int, isolated: bool = False) -> None:
        """Move an interface of any kind into the run's namespace under its name: up and quiet.

        It comes back as it was with the run's end. One that the machine uses is refused; where it
        carries a session, or what uses it would not have it back, in an isolated environment too.
        """
        nic.borrow_interface(self.journal, name, self.netns, isolated=isolated)
        self._lent.add(name)
        netdev.prepare_interface(name, netns=self.netns, mtu=mtu, promiscuous=True)

    def make_vfs(self, address: str, count: int) -> tuple[str, ...]:
        """Make virtual functions without drivers; the earlier number is back with the run's end."""
        return self._remember_functions(vfs.create_vfs(self.journal, address, count))

    def make_switchdev(self, address: str, count: int) -> tuple[str, ...]:
        """Make virtual functions as `make_vfs` of a NIC whose switch is in switchdev mode.

        The interface of the physical function, which was borrowed, is back in the machine's own
        namespace then, as all of the switch's are. The former mode is back with the run's end.
        """
        eswitch.return_uplink(*self._borrowed[address])
        return self._remember_functions(
            vfs.create_vfs(self.journal, address, count, eswitch="switchdev")
        )

    def _remember_functions(self, functions: tuple[str, ...]) -> tuple[str, ...]:
        self._functions.update(functions)
        return functions

    def _require_free(self, address: str, isolated: bool) -> None:
        # What the run made itself, its programs may use already.
        if address not in self._functions:
            nic.require_free(address, isolated=isolated)

    def take_uplink(self, name: str, *, mtu: int, promiscuous: bool = False) -> None:
        """Make the uplink of a switch in switchdev mode ready for rules: quiet, and up."""
        eswitch.take_uplink(self.journal, name, mtu=mtu, promiscuous=promiscuous)

    def subdir(self, name: str) -> Path:
        """A private directory of the run, for a backend's sockets and files."""
        return self._run.rundir.subdir(name)

    def new_subdir(self, name: str) -> Path:
        """The same, empty: what was made in an earlier one is not used again."""
        return self._run.rundir.new_subdir(name)

    def vnf_socket(self, name: str) -> str:
        """Path of a socket that a VNF listens at, in a directory to which QEMU may write."""
        return str(self.subdir("vhost") / f"{name}.sock")

    def schedule_removal(self, path: Path) -> None:
        """Have a file removed with the run's end that a program of the run makes elsewhere."""
        self.journal.intend("tree", f"remove {path}", {"path": str(path)})

    def spawn(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cpus: Iterable[int] | None = None,
        keep_stdin_open: bool = False,
        isolated: bool = True,
        netns: Path | None = None,
    ) -> ManagedProcess:
        """Start a program that ends with the run at the latest.

        Its network is the run's own namespace, or `netns`, unless it has to reach what is on the
        machine's (`isolated=False`).
        """
        return self._run.processes.spawn(
            name,
            argv,
            env=env,
            cpus=cpus,
            netns=netns or (self.netns if isolated else None),
            stdin=keep_stdin_open,
        )

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        timeout: float = 15.0,
        isolated: bool = False,
        netns: Path | None = None,
    ) -> str:
        """Run a short-lived tool to its end."""
        environment = self._run.processes.environment(env)
        line = " ".join(argv)
        call = functools.partial(run_program, argv, patient(timeout), env=environment)
        began = time.monotonic()
        try:
            done = self.in_netns(call) if isolated else run_in(netns, call)
        except FileNotFoundError as error:
            raise HostError(
                f"{argv[0]} is not installed", cure="`vnetperf doctor` names the package"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise HostError(f"did not end within {timeout:.0f} s", where=line) from error
        level = logging.DEBUG if line == self._last_run else logging.INFO  # polled, or news
        self._last_run = line
        spent = time.monotonic() - began
        log.log(level, "run: %s (%.3f s, status %d)", line, spent, done.returncode)
        if done.returncode:
            output = (done.stderr or done.stdout).strip()[-2000:]
            raise HostError(f"failed with status {done.returncode}: {output}", where=line)
        return done.stdout

    def reserve_hugepages(self, node: int, size_kb: int, pages: int) -> None:
        """Make hugepages free on a node; the previous number comes back with the run's end."""
        hugepages.reserve(self.journal, node, size_kb, pages)
