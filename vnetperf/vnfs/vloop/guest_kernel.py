"""The kernel of a guest as what forwards: the place in which a form is set up."""

from __future__ import annotations

from collections.abc import Sequence

from vnetperf.host import linkstats, qdisc
from vnetperf.launchers.vm.guest import Guest
from vnetperf.model.deployment import Deployment
from vnetperf.model.errors import HostError
from vnetperf.model.ports import Attachment
from vnetperf.model.trial import HopCounters
from vnetperf.vnfs.vloop.forms import Form, Port
from vnetperf.vnfs.vloop.forms.kernel import KernelForwarder
from vnetperf.vnfs.vloop.forms.route import network

#: What keeps mounts of a tool from the host.
PRIVATE = ("unshare", "--mount")
TABLE, FILES = "/proc/net/dev", "/run"
#: What a guest says by itself would be counted with what it forwards.
QUIET = "/proc/sys/net/ipv6/conf/all/disable_ipv6"
#: Distributions make fq_codel the default, which drops what waits for more than 5 ms while there
#: is room: a loss that a benchmark would call the guest's. This one drops when its queue is full.
DISCIPLINE, TAIL_DROP = "/proc/sys/net/core/default_qdisc", "pfifo_fast"


class GuestPlace:
    """A guest in which steps of a form are taken.

    Args:
        guest: The guest, its agent answering.
    """

    def __init__(self, guest: Guest) -> None:
        self.guest = guest

    def run(self, argv: Sequence[str]) -> str:
        """Run a tool to its end; its output."""
        if tuple(argv[: len(PRIVATE)]) == PRIVATE:
            argv = argv[len(PRIVATE) :]  # all that a guest mounts is its own
        return self.guest.agent.run(argv)

    def write(self, name: str, content: bytes) -> str:
        """Write a file; its path there."""
        path = f"{FILES}/{name}"
        self.guest.agent.write(path, content)
        return path

    def statistics(self) -> dict[str, linkstats.LinkStatistics]:
        """Statistics of all interfaces there, and of what queues before them."""
        links = linkstats.parse(self.guest.agent.read(TABLE))
        return qdisc.joined(links, self.guest.agent.run(qdisc.SHOW))


class GuestKernel:
    """A guest whose kernel forwards.

    Args:
        guest: The guest, its agent answering.
        form: How it forwards.
        role: What it is called in results.
    """

    def __init__(self, guest: Guest, form: type[Form], role: str) -> None:
        self.guest, self.form, self.role = guest, form, role
        self._place = GuestPlace(guest)
        self._forwarder: KernelForwarder | None = None

    def set_up(
        self, deployment: Deployment, attachments: tuple[Attachment, Attachment], mtu: int
    ) -> None:
        """Take the steps of the form.

        Args:
            deployment: The graph: what lies beyond a port.
            attachments: Where the ports plug in.
            mtu: MTU of the NICs.

        Raises:
            DutError: A step failed.
            HostError: The agent does not answer.
        """
        agent = self.guest.agent
        for module in self.form.modules:
            agent.run(["modprobe", module])
        agent.write(QUIET, "1")
        agent.write(DISCIPLINE, TAIL_DROP)  # taken by interfaces that come up from here on
        names = [self.guest.interface(nic.mac) for nic in self.guest.domain.nics]
        for name in names:
            agent.run(["ip", "link", "set", "dev", name, "mtu", str(mtu), "up"])
        first, second = (
            Port(
                netdev=name,
                index=int(agent.read(f"/sys/class/net/{name}/ifindex")),
                peer_mac=attachment.peer_mac or "",
                network=network(deployment, attachment.port),
            )
            for name, attachment in zip(names, attachments, strict=True)
        )
        self._forwarder = KernelForwarder(self._place, self.form, self.role, (first, second))
        self._forwarder.set_up()

    def counters(self) -> tuple[HopCounters, ...]:
        """What the guest's kernel counted at each port.

        Returns:
            One entry per port.

        Raises:
            DutError: An interface is gone, or the guest hangs.
        """
        if self._forwarder is None:
            return ()
        try:
            return self._forwarder.counters()
        except HostError as error:
            self.guest.check_alive()
            raise self.guest.error(f"lost its agent: {error.what}") from error

    def facts(self) -> dict[str, object]:
        """How it was set up.

        Returns:
            JSON values.
        """
        release = self.guest.agent.read("/proc/sys/kernel/osrelease").strip()
        set_up = self._forwarder.facts() if self._forwarder is not None else {}
        return {**set_up, "version": f"Linux {release}", "queueing discipline": TAIL_DROP}
