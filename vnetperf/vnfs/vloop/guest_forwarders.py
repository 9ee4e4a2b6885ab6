"""What forwards inside a guest: testpmd, the guest's kernel, or a disk image by itself."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vnetperf.host import dpdk
from vnetperf.host.dpdk import TestpmdCommand
from vnetperf.host.hugepages import RESERVE_ATTEMPTS
from vnetperf.host.linux import PAGE_OCTETS
from vnetperf.host.wait import wait_for
from vnetperf.model.deployment import Attachment
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.scenario import Plan
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.trial import HopCounters
from vnetperf.virt.endpoint import GuestPlace
from vnetperf.virt.guest import Guest
from vnetperf.vnfs.vloop.kernel_forwarders import Form, FormPort, KernelForwarder, network_beyond

#: Hugepages of the size that the guest's kernel has by default.
GUEST_HUGEPAGES = "/proc/sys/vm/nr_hugepages"
PAGE_SIZE = re.compile(r"^KernelPageSize:\s*(\d+) kB$", re.MULTILINE)
HUGEPAGE_SIZE = re.compile(r"^Hugepagesize:\s*(\d+) kB$", re.MULTILINE)
COMPACT = "/proc/sys/vm/compact_memory"
NOIOMMU = "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode"
#: What drives a NIC without an IOMMU, if it has an interrupt line; virtual functions have none.
INTX_DRIVER = "uio_pci_generic"
#: What a guest sends by itself would be counted with what it forwards.
QUIET = "/proc/sys/net/ipv6/conf/all/disable_ipv6"
PCI_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
INPUT_FIFO, TERMINAL = "/run/testpmd.commands", "/dev/hvc0"
#: Its input is a pipe that never ends; its output comes out on the host, line by line.
START_SCRIPT = f'exec "$@" <>{INPUT_FIFO} >{TERMINAL} 2>&1'
START_S, ANSWER_S, POLL_S = 60.0, 10.0, 0.03
PROMPT = "testpmd> "
STATS_BLOCK = re.compile(r"NIC statistics for port (\d+)(.*?)\n\s*#{20,}", re.DOTALL)
STATS_FIELD = re.compile(r"([RT]X-[a-z]+):\s*(\d+)")
LINK_STATUS = re.compile(r"Link status: (up|down)", re.IGNORECASE)


def link_up(netdev: str, mtu: int) -> list[str]:
    """The command that gives an interface of a guest its MTU and takes it up."""
    return ["ip", "link", "set", "dev", netdev, "mtu", str(mtu), "up"]


class GuestTestpmd:
    """testpmd in one guest."""

    def __init__(self, guest: Guest, role: str, packages: dict[str, str]) -> None:
        self.packages = packages
        self.guest = guest
        self.role = role
        self.argv: list[str] = []
        self.driver = "unknown"
        self._pid = 0
        self._input = self._read = 0
        self._numbers: tuple[int, ...] = ()

    def take_nics(self, mtu: int) -> tuple[str, ...]:
        """Give the guest's NICs to a driver that hands them to programs.

        A guest has no IOMMU: vfio-pci is taken where the kernel lets it do without, which Debian's
        does not any more, and uio_pci_generic elsewhere. That cannot drive a virtual function,
        which stays the kernel's then, and testpmd has it by packet sockets.
        """
        nics = self.guest.domain.nics
        names = tuple(self.guest.interface(nic.mac) for nic in nics)
        driver = self._load_driver()
        if driver == INTX_DRIVER and any(nic.backing.kind == "vf" for nic in nics):
            queues = (nic.queues for nic in nics)
            return self._by_sockets(dict(zip(names, queues, strict=True)), mtu)
        self.driver = driver
        return self._by_driver(names)

    def _by_driver(self, names: tuple[str, ...]) -> tuple[str, ...]:
        agent, addresses = self.guest.agent, []
        for name in names:
            path = agent.run(["readlink", "-f", f"/sys/class/net/{name}/device"])
            addresses.append(PCI_ADDRESS.findall(path)[-1])
        for pci in addresses:
            device = f"/sys/bus/pci/devices/{pci}"
            agent.write(f"{device}/driver_override", self.driver)
            agent.write(f"{device}/driver/unbind", pci)
            agent.write("/sys/bus/pci/drivers_probe", pci)
        order = sorted(addresses)  # DPDK numbers ports by PCI address, whatever the order of -a
        self._numbers = tuple(order.index(pci) for pci in addresses)
        return tuple(f"-a{pci}" for pci in addresses)

    def _by_sockets(self, names: Mapping[str, int], mtu: int) -> tuple[str, ...]:
        """Interfaces with their queue pairs, each of which is a socket."""
        self.guest.agent.write(QUIET, "1")
        for name in names:
            self.guest.agent.run(link_up(name, mtu))
        self._numbers = tuple(range(len(names)))
        page = self._page_octets()
        self.driver = "the kernel's own, by packet sockets: no IOMMU in the guest"
        return tuple(
            f"--vdev={dpdk.af_packet_devargs(number, name, mtu, page=page)},qpairs={queues}"
            for number, (name, queues) in enumerate(names.items())
        )

    def _page_octets(self) -> int:
        """What ordinary pages of the guest hold: its kernel may have others than the machine's."""
        try:
            size = PAGE_SIZE.search(self.guest.agent.read("/proc/self/smaps"))
        except (DutError, HostError):  # a kernel without it
            size = None
        return int(size[1]) * 1024 if size else PAGE_OCTETS

    def _load_driver(self) -> str:
        agent = self.guest.agent
        try:
            agent.run(["modprobe", "vfio-pci"])
            agent.write(NOIOMMU, "1")
        except (DutError, HostError):
            agent.run(["modprobe", INTX_DRIVER])
            return INTX_DRIVER
        return "vfio-pci"

    def number(self, port: int) -> int:
        """DPDK's number of a port of the VNF."""
        return self._numbers[port]

    def start(self, command: TestpmdCommand) -> None:
        """Start it, and wait until it forwards."""
        agent = self.guest.agent
        self.reserve(command.memory_mib)
        self.argv = command.argv()
        separator = self.argv.index("--")
        argv = [*self.argv[: separator + 1], "-i", *self.argv[separator + 1 :]]
        agent.run(["mkfifo", INPUT_FIFO])
        self._pid = agent.start(["sh", "-c", START_SCRIPT, "sh", *argv])
        self._wait(lambda: PROMPT in self._new_output(), START_S, "come up")
        self._input = agent.open(INPUT_FIFO, "w")

    def reserve(self, mib: int) -> None:
        """Make MiB of hugepages in the guest; again where its memory is in pieces.

        Raises:
            DutError: Its kernel has none, or not enough of them.
        """
        agent = self.guest.agent
        size = HUGEPAGE_SIZE.search(agent.read("/proc/meminfo"))
        if size is None:
            raise self.guest.error("its kernel has no hugepages, which testpmd needs")
        kb, got = int(size[1]), 0
        pages = -(-mib * 1024 // kb)
        for attempt in range(RESERVE_ATTEMPTS):
            if attempt:
                with contextlib.suppress(DutError, HostError):  # a kernel that cannot
                    agent.write(COMPACT, "1")
            agent.write(GUEST_HUGEPAGES, str(pages))
            got = int(agent.read(GUEST_HUGEPAGES))
            if got >= pages:
                return
        raise self.guest.error(
            f"has only {got * kb // 1024} of the {mib} MiB of hugepages that testpmd needs",
            cure="give it more memory: --guest memory_mib=...",
        )

    def _wait(self, done: Callable[[], bool], limit_s: float, action: str) -> None:
        wait_for(
            done,
            limit_s,
            f"testpmd in the guest to {action}",
            poll_s=POLL_S,
            check=self.check,
            error=lambda: self.guest.error(
                f"runs testpmd, which did not {action} within {limit_s:g} s; {self._last_output()}"
            ),
        )

    def check(self) -> None:
        """Raise when testpmd has ended."""
        self.guest.check_alive()
        ended = self.guest.agent.ended(self._pid)
        if ended is not None:
            raise self.guest.error(
                f"runs no testpmd any more: it ended with status {ended.status}; "
                f"{self._last_output()}"
            )

    def _new_output(self) -> str:
        """Its output since the last command."""
        output = self.guest.domain.output
        try:
            with (output or Path("/dev/null")).open("rb") as file:
                file.seek(self._read)
                return file.read().decode(errors="replace").replace("\r", "")
        except FileNotFoundError:
            return ""

    def _last_output(self) -> str:
        lines = [line for line in self._new_output().splitlines() if line.strip()]
        return "its last output:\n    " + "\n    ".join(lines[-8:])

    def send(self, command: str, blocks: int, pattern: re.Pattern[str]) -> list[re.Match[str]]:
        """Send it a command, and wait for so many blocks of a pattern in its output."""
        output = self.guest.domain.output
        self._read = output.stat().st_size if output is not None else 0
        self.guest.agent.put(self._input, command + "\n")
        matches: list[re.Match[str]] = []

        def answered() -> bool:
            nonlocal matches
            matches = list(pattern.finditer(self._new_output()))
            return len(matches) >= blocks

        self._wait(answered, ANSWER_S, f"answer {command!r}")
        return matches[:blocks]

    def wait_links(self, timeout_s: float) -> None:
        """Wait until both links are up."""
        self._wait(self._links_up, timeout_s, "see both its links up")

    def _links_up(self) -> bool:
        states = self.send("show port info all", len(self._numbers), LINK_STATUS)
        return all(state[1].lower() == "up" for state in states)

    def facts(self) -> dict[str, object]:
        """How it was started."""
        packages = self.packages
        return {
            "application": "dpdk-testpmd",
            "version": packages.get("dpdk-dev", "unknown: the image has no record"),
            "launch line": " ".join(self.argv),
            "driver of its NICs": self.driver,
        }

    def counters(self) -> tuple[HopCounters, ...]:
        """Counters of both ports."""
        try:
            blocks = self.send("show port stats all", len(self._numbers), STATS_BLOCK)
        except HostError as error:
            with contextlib.suppress(HostError):
                self.check()  # the end of testpmd is a better reason than a broken pipe
            raise self.guest.error(f"lost its agent: {error.what}") from error
        stats = {int(block[1]): dict(STATS_FIELD.findall(block[2])) for block in blocks}
        return tuple(
            _counters(f"{self.role}.{n} (inside)", stats[d]) for n, d in enumerate(self._numbers)
        )


def _counters(name: str, stats: dict[str, str]) -> HopCounters:
    try:
        return HopCounters(
            port=name,
            rx=int(stats["RX-packets"]),
            tx=int(stats["TX-packets"]),
            rx_dropped=int(stats["RX-missed"]) + int(stats["RX-nombuf"]),
            tx_dropped=int(stats["TX-errors"]),
        )
    except KeyError as error:
        raise DutError(f"testpmd reports no {error}", where=name) from error


#: Distributions make fq_codel the default, which drops what waits for more than 5 ms while there
#: is room: a loss that a benchmark would call the guest's. This one drops when its queue is full.
DEFAULT_QDISC, TAIL_DROP = "/proc/sys/net/core/default_qdisc", "pfifo_fast"


class GuestKernel(KernelForwarder):
    """A guest whose kernel forwards."""

    def __init__(
        self,
        guest: Guest,
        form: Form,
        role: str,
        plan: Plan,
        ports: Sequence[Attachment],
        *,
        facts: MachineFacts,
    ) -> None:
        self.guest, agent = guest, guest.agent
        for module in form.modules:
            agent.run(["modprobe", module.name])
        agent.write(QUIET, "1")
        agent.write(DEFAULT_QDISC, TAIL_DROP)  # taken by interfaces that come up from here on
        names = [guest.interface(nic.mac) for nic in guest.domain.nics]
        for name, port in zip(names, ports, strict=True):
            agent.run(link_up(name, port.mtu or plan.scenario.mtu))
        first, second = (
            FormPort(
                netdev=name,
                index=int(agent.read(f"/sys/class/net/{name}/ifindex")),
                peer_mac=port.peer_mac or "",
                network=network_beyond(plan.scenario.deployment, port.port),
            )
            for name, port in zip(names, ports, strict=True)
        )
        super().__init__(GuestPlace(guest), form, role, (first, second), facts)

    def counters(self) -> tuple[HopCounters, ...]:
        """What the guest's kernel counted at each port."""
        try:
            return super().counters()
        except HostError as error:
            self.guest.check_alive()
            raise self.guest.error(f"lost its agent: {error.what}") from error

    def facts(self) -> dict[str, Any]:
        """How it was set up."""
        release = self.guest.agent.read("/proc/sys/kernel/osrelease").strip()
        version = {"version": f"Linux {release}", "queueing discipline": TAIL_DROP}
        return super().facts() | version


class GuestBuiltin:
    """A guest without an agent. It is up when the path check passes."""

    def __init__(self, image: str) -> None:
        self.image = image

    def counters(self) -> tuple[HopCounters, ...]:
        """None: what it counts inside is its own."""
        return ()

    def facts(self) -> dict[str, object]:
        """What is known of it."""
        return {"application": "what its disk image does by itself", "version": self.image}
