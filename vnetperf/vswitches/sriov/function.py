"""One virtual function: made, set up, given to a VNF or moved into the run's namespace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vnetperf.host import pci, vfs
from vnetperf.host.machine import Machine
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.options import SwitchOptions
from vnetperf.vswitches.sriov.drivers import VFIO
from vnetperf.vswitches.sriov.layout import Place

#: A VLAN that no port is in: where a virtual function without a link state is put out of reach.
NOWHERE = 4094


@dataclass(slots=True)
class Function:
    """A virtual function of the deployment.

    Attributes:
        place: Which port it is.
        address: Its PCI address.
        parent: Interface of its physical function, in the run's namespace.
        driver: Its driver; "" before it has one.
        netdev: Its interface under a kernel driver.
        note: What the NIC's driver did not take.
    """

    place: Place
    address: str
    parent: str
    driver: str = ""
    netdev: str = ""
    note: str = ""

    def configure(self, netns: Path | None, options: SwitchOptions, *, legacy: bool = True) -> None:
        """Give it its address, and what the options ask for.

        Args:
            netns: Namespace of the physical function's interface; None is the caller's.
            options: What is asked.
            legacy: False in switchdev mode, where rules stand for what is usual here.

        Raises:
            DutError: The NIC's driver refuses something that is needed or asked for.
        """
        number = self.place.number
        wanted: dict[str, Any] = {"mac": self.place.mac}
        if vlan := self._vlan(options):
            wanted["vlan"] = vlan
        for name in ("rate_mbps", "spoof_check", "trust"):
            if (value := getattr(options, name)) is not None:
                wanted[name] = value
        try:
            vfs.configure(self.parent, number, netns, **wanted)
        except HostError as error:
            raise DutError(error.what, where=error.where, cure=error.cure) from error
        if not legacy:
            return
        # VNFs that do not rewrite addresses send the tester's: that is no spoofing here. A NIC
        # that knows neither has no check to turn off.
        usual = {"spoof_check": False, "trust": True, "link": "auto"}
        refused = [
            name
            for name, value in usual.items()
            if name not in wanted
            and not vfs.try_configure(self.parent, number, netns, **{name: value})
        ]
        self.note = f"not taken by the driver: {', '.join(refused)}" if refused else ""

    def bind(self, machine: Machine, driver: str, *, mtu: int, queues: int | None) -> None:
        """Give it to a driver; under the kernel's its interface is up and quiet.

        Args:
            machine: The machine.
            driver: "vfio-pci" or "kernel".
            mtu: MTU, octets.
            queues: Queue pairs; None leaves the driver's own number.

        Raises:
            DutError: The driver does not take it.
        """
        port = self.place.port
        try:
            if driver == VFIO:
                machine.give_nic(self.address, VFIO)
                self.driver = VFIO
                return
            letter = f"{'f' if port.kind == 'phy' else 'v'}{str(port).strip('phyvnf')}"
            self.netdev = machine.borrow_nic(
                self.address,
                mtu=mtu,
                mac=self.place.mac,
                name=machine.interface_name(letter.replace(".", "")),
                queues=queues,
            )
            self.driver = "kernel"
        except HostError as error:
            raise DutError(
                f"virtual function {self.address} of {port}: {error.what}",
                where=error.where,
                accepted=error.accepted,
                cure=error.cure,
            ) from error

    def cut_off(self, netns: Path) -> None:
        """Keep frames from it; its VNF keeps the device.

        Args:
            netns: Namespace of the physical function's interface.

        Raises:
            HostError: The NIC's driver refuses both ways.
        """
        number = self.place.number
        if not vfs.try_configure(self.parent, number, netns, link="disable"):
            vfs.configure(self.parent, number, netns, vlan=NOWHERE)

    def join(self, netns: Path, options: SwitchOptions) -> None:
        """Undo `cut_off`.

        Args:
            netns: Namespace of the physical function's interface.
            options: What is asked: the VLAN it was in.

        Raises:
            HostError: The NIC's driver refuses both ways.
        """
        number = self.place.number
        if not vfs.try_configure(self.parent, number, netns, link="auto"):
            vfs.configure(self.parent, number, netns, vlan=self._vlan(options))

    def describe(self, state: vfs.VirtualFunction) -> str:
        """The virtual function for the facts of a run.

        Args:
            state: As its physical function has it.

        Returns:
            One line.
        """
        flags = {"spoof check": state.spoof_check, "trusted": state.trusted}
        parts = [
            f"number {state.number} ({self.address})",
            f"MAC {state.mac}",
            f"driver {pci.nic(self.address).driver}" + f" ({self.netdev})" * bool(self.netdev),
            f"VLAN {state.vlan or 'none'}",
            f"rate {f'{state.rate_mbps} Mbit/s at most' if state.rate_mbps else 'not limited'}",
            *(f"{name} {'on' if on else 'off'}" for name, on in flags.items() if on is not None),
        ]
        return ", ".join(parts + ([self.note] if self.note else []))

    def _vlan(self, options: SwitchOptions) -> int:
        """The VLAN it belongs into; 0 for none."""
        return options.vlan or 0 if self.place.inner else 0
