"""testpmd in a guest: NICs given to it by vfio, hugepages, and its counters by the agent."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from vnetperf.host.patience import patient
from vnetperf.host.testpmd import Command
from vnetperf.launchers.vm.guest import Guest
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.trial import HopCounters

PAGES = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
NOIOMMU = "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode"
PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
COMMANDS, LOG = "/run/testpmd.commands", "/run/testpmd.log"
#: Its input is a pipe that never ends; what it says goes to a file.
START = f'exec "$@" <>{COMMANDS} >{LOG} 2>&1'
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
    """

    def __init__(self, guest: Guest, role: str) -> None:
        self.guest = guest
        self.role = role
        self.argv: list[str] = []
        self.version = "unknown"
        self._pid = 0
        self._log = self._input = -1
        self._numbers: tuple[int, ...] = ()

    def take_nics(self, macs: tuple[str, ...]) -> tuple[str, ...]:
        """Give the guest's NICs to vfio-pci.

        Args:
            macs: Their addresses, in the order of the VNF's ports.

        Returns:
            Their PCI addresses in the same order.

        Raises:
            DutError: There is no such NIC, or the guest's kernel has no vfio.
        """
        agent, found = self.guest.agent, []
        interfaces = agent.interfaces()
        for mac in macs:
            if mac not in interfaces:
                raise self.guest.error(
                    f"has no NIC {mac}, it has {', '.join(sorted(interfaces)) or 'none'}"
                )
            path = agent.run(["readlink", "-f", f"/sys/class/net/{interfaces[mac]}/device"])
            found.append(PCI.findall(path)[-1])
        agent.run(["modprobe", "vfio-pci"])
        agent.write(NOIOMMU, "1")
        for pci in found:
            device = f"/sys/bus/pci/devices/{pci}"
            agent.write(f"{device}/driver_override", "vfio-pci")
            agent.write(f"{device}/driver/unbind", pci)
            agent.write("/sys/bus/pci/drivers_probe", pci)
        order = sorted(found)  # DPDK numbers ports by PCI address, whatever the order of -a
        self._numbers = tuple(order.index(pci) for pci in found)
        return tuple(found)

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
        self._log = agent.open(LOG)
        self._drain()

    def _wait_up(self) -> None:
        said = ""

        def up() -> bool:
            nonlocal said
            try:
                said = self.guest.agent.read(LOG)
            except HostError:
                return False  # its shell has not opened it yet
            return PROMPT in said

        self._wait(up, UP_S, "come up", lambda: said)
        version = re.search(r"DPDK (\d+\.\d+\S*)", said)
        self.version = version[1] if version else "unknown"

    def _wait(
        self, done: Callable[[], bool], limit_s: float, what: str, said: Callable[[], str]
    ) -> None:
        deadline = time.monotonic() + patient(limit_s)
        while not done():
            self.check(said())
            if time.monotonic() > deadline:
                raise self.guest.error(
                    f"runs testpmd, which did not {what} within {limit_s:g} s; it said:\n    "
                    + "\n    ".join(said().splitlines()[-8:])
                )
            time.sleep(POLL_S)

    def check(self, said: str = "") -> None:
        """Raise when testpmd has ended.

        Args:
            said: What it is known to have said.

        Raises:
            DutError: It has ended.
        """
        self.guest.check_alive()
        ended = self.guest.agent.ended(self._pid)
        if ended is not None:
            tail = "\n    ".join((said or self._last_words()).splitlines()[-8:])
            raise self.guest.error(
                f"runs no testpmd any more: it ended with status {ended.status}; "
                f"its last lines:\n    {tail}"
            )

    def _last_words(self) -> str:
        try:
            return self.guest.agent.read(LOG)
        except HostError:
            return ""

    def _drain(self) -> str:
        parts = []
        while part := self.guest.agent.get(self._log):
            parts.append(part)
        return "".join(parts)

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
        said = self._drain()
        said = ""
        self.guest.agent.put(self._input, command + "\n")
        found: list[re.Match[str]] = []

        def answered() -> bool:
            nonlocal said, found
            said += self.guest.agent.get(self._log)
            found = list(pattern.finditer(said))
            return len(found) >= blocks

        self._wait(answered, ANSWER_S, f"answer {command!r}", lambda: said)
        return found[:blocks]

    def wait_links(self, timeout_s: float) -> None:
        """Wait until both links are up.

        Args:
            timeout_s: Longest wait, seconds.

        Raises:
            DutError: They are not up in time.
        """
        self._wait(self._links_up, timeout_s, "see both its links up", lambda: "")

    def _links_up(self) -> bool:
        states = self.say("show port info all", len(self._numbers), LINK)
        return all(state[1].lower() == "up" for state in states)

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
            self.guest.check_alive()
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
