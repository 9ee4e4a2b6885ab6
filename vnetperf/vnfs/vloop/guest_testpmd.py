"""testpmd in a guest: NICs given to it by vfio, hugepages, and its counters by the agent."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from pathlib import Path

from vnetperf.host import vdev
from vnetperf.host.patience import patient
from vnetperf.host.testpmd import Command
from vnetperf.launchers.vm.guest import Guest
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.trial import HopCounters

PAGES = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
NOIOMMU = "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode"
#: What drives a NIC without an IOMMU, if it has an interrupt line; virtual functions have none.
INTX_DRIVER = "uio_pci_generic"
#: What a guest says by itself would be counted with what it forwards.
QUIET = "/proc/sys/net/ipv6/conf/all/disable_ipv6"
PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
COMMANDS, TERMINAL = "/run/testpmd.commands", "/dev/hvc0"
#: Its input is a pipe that never ends; what it says comes out on the host, line by line.
START = f'exec "$@" <>{COMMANDS} >{TERMINAL} 2>&1'
UP_S, ANSWER_S, POLL_S = 60.0, 10.0, 0.03
PROMPT = "testpmd> "
BLOCK = re.compile(r"NIC statistics for port (\d+)(.*?)\n\s*#{20,}", re.DOTALL)
FIELD = re.compile(r"([RT]X-[a-z]+):\s*(\d+)")
LINK = re.compile(r"Link status: (up|down)", re.IGNORECASE)


class GuestTestpmd:
    """testpmd in one guest.

    Args:
        guest: The guest, its agent answering.
        role: What it is called in results.
        packages: Packages of its image with their versions.
    """

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

        Args:
            mtu: MTU of the NICs, octets.

        Returns:
            EAL arguments of its ports, in the order of the VNF's ports.

        Raises:
            DutError: There is no such NIC, or the guest's kernel has neither driver.
        """
        nics = self.guest.domain.nics
        names = tuple(self.guest.interface(nic.mac) for nic in nics)
        driver = self._load_driver()
        if driver == INTX_DRIVER and any(nic.backing.kind == "vf" for nic in nics):
            return self._by_sockets(names, mtu)
        self.driver = driver
        return self._by_driver(names)

    def _by_driver(self, names: tuple[str, ...]) -> tuple[str, ...]:
        agent, found = self.guest.agent, []
        for name in names:
            path = agent.run(["readlink", "-f", f"/sys/class/net/{name}/device"])
            found.append(PCI.findall(path)[-1])
        for pci in found:
            device = f"/sys/bus/pci/devices/{pci}"
            agent.write(f"{device}/driver_override", self.driver)
            agent.write(f"{device}/driver/unbind", pci)
            agent.write("/sys/bus/pci/drivers_probe", pci)
        order = sorted(found)  # DPDK numbers ports by PCI address, whatever the order of -a
        self._numbers = tuple(order.index(pci) for pci in found)
        return tuple(f"-a{pci}" for pci in found)

    def _by_sockets(self, names: tuple[str, ...], mtu: int) -> tuple[str, ...]:
        self.guest.agent.write(QUIET, "1")
        for name in names:
            self.guest.agent.run(["ip", "link", "set", "dev", name, "mtu", str(mtu), "up"])
        self._numbers = tuple(range(len(names)))
        self.driver = "the kernel's own, by packet sockets: no IOMMU in the guest"
        numbered = enumerate(names)
        return tuple(f"--vdev={vdev.af_packet(number, name, mtu)}" for number, name in numbered)

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
        """DPDK's number of a port of the VNF.

        Args:
            port: Number of the VNF's port.

        Returns:
            DPDK's.
        """
        return self._numbers[port]

    def start(self, command: Command) -> None:
        """Start it, and wait until it forwards.

        Args:
            command: Its launch.

        Raises:
            DutError: Too few hugepages, or it does not come up.
        """
        agent, pages = self.guest.agent, command.memory_mib // 2
        agent.write(PAGES, str(pages))
        if (got := int(agent.read(PAGES))) < pages:
            raise self.guest.error(
                f"has only {2 * got} of the {2 * pages} MiB of hugepages that testpmd needs",
                cure="give it more memory: --guest memory_mib=...",
            )
        self.argv = command.argv()
        separator = self.argv.index("--")
        argv = [*self.argv[: separator + 1], "-i", *self.argv[separator + 1 :]]
        agent.run(["mkfifo", COMMANDS])
        self._pid = agent.start(["sh", "-c", START, "sh", *argv])
        self._wait_up()
        self._input = agent.open(COMMANDS, "w")

    def _wait_up(self) -> None:
        self._wait(lambda: PROMPT in self._said(), UP_S, "come up")

    def _wait(self, done: Callable[[], bool], limit_s: float, what: str) -> None:
        deadline = time.monotonic() + patient(limit_s)
        while not done():
            self.check()
            if time.monotonic() > deadline:
                raise self.guest.error(
                    f"runs testpmd, which did not {what} within {limit_s:g} s; {self._last_words()}"
                )
            time.sleep(POLL_S)

    def check(self) -> None:
        """Raise when testpmd has ended.

        Raises:
            DutError: It has ended.
        """
        self.guest.check_alive()
        ended = self.guest.agent.ended(self._pid)
        if ended is not None:
            raise self.guest.error(
                f"runs no testpmd any more: it ended with status {ended.status}; "
                f"{self._last_words()}"
            )

    def _said(self) -> str:
        """All that it has said since the last command."""
        output = self.guest.domain.output
        try:
            with (output or Path("/dev/null")).open("rb") as file:
                file.seek(self._read)
                return file.read().decode(errors="replace").replace("\r", "")
        except FileNotFoundError:
            return ""

    def _last_words(self) -> str:
        lines = [line for line in self._said().splitlines() if line.strip()]
        return "it said last:\n    " + "\n    ".join(lines[-8:])

    def say(self, command: str, blocks: int, pattern: re.Pattern[str]) -> list[re.Match[str]]:
        """Give it a command, and take what it answers.

        Args:
            command: The command.
            blocks: How often the pattern is in a whole answer.
            pattern: What is looked for.

        Returns:
            Matches, as many as blocks.

        Raises:
            DutError: It has ended, or does not answer in time.
        """
        output = self.guest.domain.output
        self._read = output.stat().st_size if output is not None else 0
        self.guest.agent.put(self._input, command + "\n")
        found: list[re.Match[str]] = []

        def answered() -> bool:
            nonlocal found
            found = list(pattern.finditer(self._said()))
            return len(found) >= blocks

        self._wait(answered, ANSWER_S, f"answer {command!r}")
        return found[:blocks]

    def wait_links(self, timeout_s: float) -> None:
        """Wait until both links are up.

        Args:
            timeout_s: Longest wait, seconds.

        Raises:
            DutError: They are not up in time.
        """
        self._wait(self._links_up, timeout_s, "see both its links up")

    def _links_up(self) -> bool:
        states = self.say("show port info all", len(self._numbers), LINK)
        return all(state[1].lower() == "up" for state in states)

    def facts(self) -> dict[str, object]:
        """How it was started.

        Returns:
            JSON values.
        """
        packages = self.packages
        return {
            "application": "dpdk-testpmd",
            "version": packages.get("dpdk-dev", "unknown: the image does not say"),
            "launch line": " ".join(self.argv),
            "driver of its NICs": self.driver,
        }

    def counters(self) -> tuple[HopCounters, ...]:
        """Counters of both ports.

        Returns:
            One entry per port of the VNF.

        Raises:
            DutError: It has ended, hangs, or its guest does.
        """
        try:
            found = self.say("show port stats all", len(self._numbers), BLOCK)
        except HostError as error:
            with contextlib.suppress(HostError):
                self.check()  # a testpmd that ended says more than its broken pipe
            raise self.guest.error(f"lost its agent: {error.what}") from error
        stats = {int(block[1]): dict(FIELD.findall(block[2])) for block in found}
        return tuple(_counters(f"{self.role}.{n} (inside)", stats[d]) for n, d in self._order())

    def _order(self) -> list[tuple[int, int]]:
        return list(enumerate(self._numbers))


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
        raise DutError(f"testpmd tells no {error}", where=name) from error
