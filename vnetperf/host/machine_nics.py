"""PCI NICs that a run takes and gives back."""

from __future__ import annotations

from vnetperf.host import ethtool, netdevs, nics, uplink, vfs
from vnetperf.host.machine_base import MachineBase
from vnetperf.host.session import HostRun
from vnetperf.model.machine import MachineFacts


class MachineNics(MachineBase):
    """The PCI NICs of a machine."""

    def __init__(self, run: HostRun, facts: MachineFacts) -> None:
        super().__init__(run, facts)
        self._borrowed: dict[str, str] = {}

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

    def make_switchdev(self, address: str, count: int) -> tuple[str, ...]:
        """Make virtual functions as `make_vfs` of a NIC whose switch is in switchdev mode.

        The interface of the physical function, which was borrowed, is back in the machine's own
        namespace then, as all of the switch's are. The former mode is back with the run's end.

        Args:
            address: PCI address of the physical function.
            count: How many.

        Returns:
            Their PCI addresses, by number.

        Raises:
            HostError: The NIC has no such mode or not as many, or has some that are in use.
        """
        uplink.bring_home(self._borrowed[address], self.netns)
        return vfs.make(self._run.journal, address, count, eswitch="switchdev")

    def take_uplink(self, name: str, *, mtu: int, promiscuous: bool = False) -> None:
        """Make the uplink of a switch in switchdev mode ready for rules: quiet, and up.

        Args:
            name: Interface name, in the machine's own namespace.
            mtu: MTU, octets.
            promiscuous: Take frames for all addresses.

        Raises:
            HostError: Somebody's rules are on it already, or the kernel refuses.
        """
        uplink.take_uplink(self._run.journal, name, mtu=mtu, promiscuous=promiscuous)
