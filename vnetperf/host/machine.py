"""What a backend is given to change a machine with: everything it does is undone with the run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from vnetperf.host import (
    ethtool,
    hugepages,
    links,
    linkstats,
    modules,
    netdevs,
    netns,
    nics,
    taps,
    vfs,
)
from vnetperf.host.kill import RUN_ID_VARIABLE
from vnetperf.host.offloads import disable_offloads
from vnetperf.host.process import ManagedProcess
from vnetperf.host.session import HostRun
from vnetperf.model.errors import HostError
from vnetperf.model.machine import MachineFacts

T = TypeVar("T")


class Machine:
    """A machine in the hands of one run.

    Args:
        run: The run's hold on the machine.
        facts: What is known of it.
    """

    def __init__(self, run: HostRun, facts: MachineFacts) -> None:
        self._run = run
        self.facts = facts
        self.run_id = run.run_id
        self.run_dir = run.rundir.path
        self._netns: Path | None = None
        self._borrowed: dict[str, str] = {}

    @property
    def netns(self) -> Path:
        """The run's own network namespace, made when first asked for.

        Test links and the kernel interfaces of a private switch live in it: nothing on the machine
        listens there, and no name there meets one of the machine's.
        """
        if self._netns is None:
            path = self.run_dir / "netns"
            netns.create_netns(self._run.journal, path)
            self._netns = path
        return self._netns

    def subdir(self, name: str) -> Path:
        """A private directory of the run, for a backend's sockets and files.

        Args:
            name: Name of the directory; short, a socket's path has at most 107 octets.

        Returns:
            The directory, made when missing.
        """
        return self._run.rundir.subdir(name)

    def remove_at_end(self, path: Path) -> None:
        """Have a file removed with the run's end that a program of the run makes elsewhere.

        Args:
            path: The file, outside the run's directory; it need not be there yet.
        """
        self._run.journal.intend("tree", f"remove {path}", {"path": str(path)})

    def spawn(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cpus: Iterable[int] | None = None,
        keep_stdin_open: bool = False,
        isolated: bool = False,
    ) -> ManagedProcess:
        """Start a program that ends with the run at the latest.

        Args:
            name: What it is called in messages; also its log file's name.
            argv: Program and arguments.
            env: Variables added to the environment.
            cpus: Processors it may run on; None for all.
            keep_stdin_open: True gives it a pipe that never ends instead of /dev/null.
            isolated: True starts it in the run's own network namespace.

        Returns:
            The running process.

        Raises:
            HostError: When it cannot be started.
        """
        return self._run.processes.spawn(
            name,
            argv,
            env=env,
            cpus=cpus,
            netns=self.netns if isolated else None,
            stdin=keep_stdin_open,
        )

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        timeout: float = 15.0,
        isolated: bool = False,
    ) -> str:
        """Run a short-lived tool to its end.

        Args:
            argv: Program and arguments.
            env: Variables added to the environment.
            timeout: Longest run, seconds.
            isolated: True runs it in the run's own network namespace.

        Returns:
            Standard output.

        Raises:
            HostError: When it is missing, fails, or does not end in time.
        """
        environment = {**os.environ, RUN_ID_VARIABLE: self.run_id, **(env or {})}
        line = " ".join(argv)

        def call() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                argv, env=environment, capture_output=True, text=True, timeout=timeout, check=False
            )

        try:
            done = self.in_netns(call) if isolated else call()
        except FileNotFoundError as error:
            raise HostError(
                f"{argv[0]} is not installed", cure="`vnetperf doctor` names the package"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise HostError(f"did not end within {timeout:.0f} s", where=line) from error
        if done.returncode:
            said = (done.stderr or done.stdout).strip()[-2000:]
            raise HostError(f"failed with status {done.returncode}: {said}", where=line)
        return done.stdout

    def reserve_hugepages(self, node: int, size_kb: int, pages: int) -> None:
        """Make hugepages free on a node; the previous number comes back with the run's end.

        Args:
            node: NUMA node.
            size_kb: Page size, KiB.
            pages: Pages that must be free.

        Raises:
            HostError: When the kernel does not give as many.
        """
        hugepages.reserve(self._run.journal, node, size_kb, pages)

    def interface_name(self, role: str) -> str:
        """A name for a network interface of this run.

        Args:
            role: What it is for, at most 5 characters.

        Returns:
            At most 15 characters, which no other run on this machine uses.
        """
        tail = self.run_id.rpartition("-")[2][-8:]
        return f"vp{tail}{role}"

    def create_veth(
        self,
        a: str,
        b: str,
        mtu: int = 1500,
        *,
        offloads: bool = False,
        queues: int | None = None,
    ) -> None:
        """Make a veth pair in the run's network namespace, up and quiet.

        Args:
            a: Name of one end.
            b: Name of the other.
            mtu: MTU of both ends, octets.
            offloads: True leaves checksum and segmentation offloads on.
            queues: Queues of both ends, each way; None for the kernel's own number.

        Raises:
            HostError: When the kernel refuses.
        """
        self.load_module("veth")
        netns = (self.netns, self.netns)
        links.create_veth(
            self._run.journal, (a, b), netns=netns, mtu=mtu, offloads=offloads, queues=queues
        )

    def create_tap(
        self, name: str, mtu: int = 1500, *, offloads: bool = False, multi_queue: bool = True
    ) -> None:
        """Make a persistent tap device in the run's network namespace, up and quiet.

        Args:
            name: Its name.
            mtu: MTU, octets.
            offloads: True leaves checksum and segmentation offloads on.
            multi_queue: Whoever opens it must ask for IFF_MULTI_QUEUE exactly when this is True.

        Raises:
            HostError: When the kernel refuses.
        """
        self.load_module("tun")
        taps.create_tap(self._run.journal, name, netns=self.netns, multi_queue=multi_queue)
        links.set_mtu(name, mtu, netns=self.netns)
        if not offloads:
            disable_offloads(name, netns=self.netns)
        links.silence(name, netns=self.netns)
        links.set_up(name, netns=self.netns)

    def delete_link(self, name: str) -> None:
        """Delete a link of the run's network namespace before the run ends.

        Args:
            name: Its name; that it is gone is not an error.

        Raises:
            HostError: When the kernel refuses.
        """
        links.delete(name, netns=self.netns)

    def link_statistics(self) -> dict[str, linkstats.LinkStatistics]:
        """Statistics of all links of the run's network namespace.

        Returns:
            Interface name -> statistics.
        """
        return linkstats.statistics(self.netns)

    def create_link(
        self,
        name: str,
        kind: str,
        *,
        mtu: int | None = None,
        offloads: bool = True,
        **options: Any,
    ) -> links.Link:
        """Make a link of any kind in the run's network namespace: quiet, and up.

        Args:
            name: Its name; see `interface_name`.
            kind: The kernel's name of the link type: "bridge", "macvtap", "vxlan" ...
            mtu: MTU, octets; None for the kernel's own.
            offloads: False turns off the offloads that it can do without.
            **options: More attributes as pyroute2 names them, e.g. ``link=<index>``.

        Returns:
            The link.

        Raises:
            HostError: When the kernel refuses.
        """
        links.create_link(self._run.journal, name, kind, netns=self.netns, **options)
        if mtu is not None:
            links.set_mtu(name, mtu, netns=self.netns)
        if not offloads:
            disable_offloads(name, netns=self.netns)
        links.silence(name, netns=self.netns)
        links.set_up(name, netns=self.netns)
        return links.get(name, self.netns)

    def set_link_up(self, name: str, *, up: bool = True) -> None:
        """Bring a link that this run made up or down.

        Args:
            name: Its name, in the run's network namespace.
            up: False for down.

        Raises:
            HostError: There is no such link, or the kernel refuses.
        """
        links.set_up(name, up=up, netns=self.netns)

    def all_links(self) -> tuple[links.Link, ...]:
        """All links of the run's network namespace.

        Returns:
            The links.
        """
        return links.links(self.netns)

    def link(self, name: str) -> links.Link:
        """A link in the run's network namespace.

        Args:
            name: Its name.

        Returns:
            The link.

        Raises:
            HostError: There is none.
        """
        return links.get(name, self.netns)

    def set_link(
        self,
        name: str,
        *,
        mac: str | None = None,
        mtu: int | None = None,
        up: bool | None = None,
    ) -> None:
        """Change a link of the run's network namespace, where it differs.

        Args:
            name: Its name.
            mac: MAC address; None leaves it.
            mtu: MTU, octets; None leaves it.
            up: True brings it up, False down; None leaves it.

        Raises:
            HostError: There is no such link, or the kernel refuses.
        """
        now = self.link(name)
        if mac is not None and now.mac != mac.lower():
            links.set_address(name, mac, netns=self.netns)
        if mtu is not None and now.mtu != mtu:
            links.set_mtu(name, mtu, netns=self.netns)
        if up is not None and now.up != up:
            links.set_up(name, up=up, netns=self.netns)

    def give_nic(self, address: str, driver: str, *, isolated: bool = False) -> None:
        """Give a PCI device to a driver for programs; it comes back with the run's end.

        Args:
            address: PCI address.
            driver: "vfio-pci" or "uio_pci_generic".
            isolated: The testbed says that it may be taken even if it carries a route.

        Raises:
            HostError: The driver is not there, or does not take it.
        """
        nics.give(self._run.journal, address, driver, isolated=isolated)

    def borrow_nic(
        self,
        address: str,
        *,
        mtu: int,
        name: str = "",
        mac: str = "",
        promiscuous: bool = False,
        offloads: bool = False,
        queues: int | None = None,
        isolated: bool = False,
    ) -> str:
        """Move the kernel interface of a PCI device into the run's namespace: up and quiet.

        It comes back as it was with the run's end. A device that was borrowed already is left
        where it is.

        Args:
            address: PCI address.
            mtu: MTU, octets.
            name: New name; "" keeps it.
            mac: MAC address; "" leaves it.
            promiscuous: Take frames for all addresses.
            offloads: True leaves checksum and segmentation offloads on.
            queues: Queue pairs; None leaves the driver's own number.
            isolated: The testbed says that it may be taken even if it carries a route.

        Returns:
            Name of the interface.

        Raises:
            HostError: The kernel has no driver for it, or refuses.
        """
        if address not in self._borrowed:
            netns = self.netns
            there = nics.borrow(self._run.journal, address, netns, name=name, isolated=isolated)
            if queues is not None:
                ethtool.set_queues(there, queues, netns=netns)
            netdevs.prepare(
                there, netns=netns, mtu=mtu, promiscuous=promiscuous, mac=mac, offload=offloads
            )
            self._borrowed[address] = there
        return self._borrowed[address]

    def make_vfs(self, address: str, count: int) -> tuple[str, ...]:
        """Make virtual functions without drivers; the earlier number is back with the run's end.

        Args:
            address: PCI address of the physical function.
            count: How many.

        Returns:
            Their PCI addresses, by number.

        Raises:
            HostError: The NIC cannot have as many, or has some that are in use.
        """
        return vfs.make(self._run.journal, address, count)

    def load_module(self, name: str) -> None:
        """Load a kernel module; it is unloaded with the run's end if it was not there before.

        Args:
            name: Its name.

        Raises:
            HostError: The kernel has no such module.
        """
        modules.load_module(self._run.journal, name)

    def in_netns(self, function: Callable[[], T]) -> T:
        """Call a function in the run's network namespace, in a thread of its own.

        Args:
            function: What to call, e.g. one that speaks netlink.

        Returns:
            What it returns.
        """
        return netns.run_in(self.netns, function)
