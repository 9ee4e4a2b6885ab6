"""Network links of a run, in its own namespace: what backends make, change and read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vnetperf.host import links, linkstats, taps
from vnetperf.host.machine_base import MachineBase
from vnetperf.host.offloads import disable_offloads


class MachineLinks(MachineBase):
    """The links of the run's network namespace, those among them that it lent to containers."""

    def move_link(self, name: str, target: Path | None = None) -> None:
        """Move a link into a container's namespace, or back; it is down then.

        Whoever asks for the link by its name still finds it: its settings, its statistics.

        Args:
            name: Its name, which it keeps.
            target: File that names the container's namespace; None is the run's.

        Raises:
            HostError: There is no such link, its name is taken there, or the kernel refuses.
        """
        links.move(name, target or self.netns, netns=self._home(name))
        if target is None:
            self._elsewhere.pop(name, None)
        else:
            self._elsewhere[name] = target

    def _home(self, name: str) -> Path:
        """The namespace that a link of the run is in."""
        return self._elsewhere.get(name, self.netns)

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
        links.delete(name, netns=self._home(name))
        self._elsewhere.pop(name, None)

    def link_statistics(self) -> dict[str, linkstats.LinkStatistics]:
        """Statistics of all links of the run's network namespace.

        Returns:
            Interface name -> statistics.
        """
        table = linkstats.statistics(self.netns)
        for netns in set(self._elsewhere.values()):
            there = linkstats.statistics(netns).items()
            table |= {n: seen for n, seen in there if self._elsewhere.get(n) == netns}
        return table

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
        links.set_up(name, up=up, netns=self._home(name))

    def all_links(self) -> tuple[links.Link, ...]:
        """All links of the run's network namespace.

        Returns:
            The links.
        """
        lent = (
            link
            for netns in set(self._elsewhere.values())
            for link in links.links(netns)
            if self._elsewhere.get(link.name) == netns
        )
        return (*links.links(self.netns), *lent)

    def link(self, name: str) -> links.Link:
        """A link in the run's network namespace.

        Args:
            name: Its name.

        Returns:
            The link.

        Raises:
            HostError: There is none.
        """
        return links.get(name, self._home(name))

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
            links.set_address(name, mac, netns=self._home(name))
        if mtu is not None and now.mtu != mtu:
            links.set_mtu(name, mtu, netns=self._home(name))
        if up is not None and now.up != up:
            links.set_up(name, up=up, netns=self._home(name))
