"""What the lab's machine is made of, and the QEMU arguments that make it so.

Everything has a fixed place, because testbed files name NICs by PCI address: QEMU would number
the buses of the ports in another order as soon as a device is added in front of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from vnetperf.model.errors import ConfigError

MIB_PER_NODE_LEAST = 1024
NODES = 2

#: Slots of the two buses on the root bus; virtme-ng's own devices are in the slots below.
BUS_SLOTS = (0x10, 0x11)
#: Numbers of the buses that hang off NUMA node 0 and 1; the NICs are on the buses that follow.
BUS_NUMBERS = (0x20, 0x40)

Accelerator = Literal["kvm", "tcg"]
#: As QEMU's ``-accel tcg,thread=``.
Threads = Literal["single", "multi"]


@dataclass(frozen=True, slots=True)
class Nic:
    """An Intel 82576 (igb): SR-IOV with seven virtual functions.

    Attributes:
        name: Identifier in QEMU and in messages, e.g. ``tester0``.
        side: Who uses it.
        cable: Number of the cable it is plugged into; the two NICs of one cable see each other.
        node: NUMA node it sits on.
        mac: Its address.
        pci: Where the guest finds it.
    """

    name: str
    side: Literal["tester", "dut"]
    cable: int
    node: int
    mac: str
    pci: str


#: Tester ports on node 0, DUT ports on node 1, cabled in pairs.
NICS = (
    Nic("tester0", "tester", 0, 0, "52:54:00:1a:b0:00", "0000:21:00.0"),
    Nic("tester1", "tester", 1, 0, "52:54:00:1a:b0:01", "0000:22:00.0"),
    Nic("dut0", "dut", 0, 1, "52:54:00:1a:b1:00", "0000:41:00.0"),
    Nic("dut1", "dut", 1, 1, "52:54:00:1a:b1:01", "0000:42:00.0"),
)


@dataclass(frozen=True, slots=True)
class Machine:
    """The lab's machine.

    Attributes:
        cpus: Virtual processors, half of them on each NUMA node.
        memory_mib: Memory in MiB, half of it on each NUMA node.
        accelerator: What executes the guest's instructions.
        threads: Whether one thread emulates all processors, or each has its own.
        nics: Its NICs.
    """

    cpus: int = 4
    #: Above about 2750 MiB firmware puts the NICs' windows beyond 4 GiB, where QEMU (10.0) maps the
    #: registers of virtual functions by half of their address: they read 0.
    memory_mib: int = 2560
    accelerator: Accelerator = "tcg"
    #: With a thread each QEMU (10.0) sometimes aborts or hangs in the firmware (iotlb_to_section),
    #: and on two processors the lab starts no sooner. Guests of its own kernel need it: with one
    #: thread nested virtualisation loses their timers' interrupts, and they stand still.
    threads: Threads = "single"
    nics: tuple[Nic, ...] = field(default=NICS)

    def __post_init__(self) -> None:
        if self.cpus < NODES or self.cpus % NODES or self.cpus > 64:
            raise ConfigError(
                f"{self.cpus} processors cannot be spread over {NODES} NUMA nodes",
                where="--cpus",
                accepted=f"an even number from {NODES} to 64",
            )
        if self.memory_mib < NODES * MIB_PER_NODE_LEAST:
            raise ConfigError(
                f"{self.memory_mib} MiB are too little for a vSwitch and its hugepages",
                where="--memory",
                accepted=f"at least {NODES * MIB_PER_NODE_LEAST} MiB",
            )

    @property
    def takes_guests(self) -> bool:
        """Whether nested guests get their timers' interrupts."""
        return self.accelerator == "kvm" or self.threads == "multi"

    def numa(self) -> tuple[str, ...]:
        """One text a node for virtme-ng's ``--numa``, e.g. ``2560M,cpus=0-1``."""
        cpus = self.cpus // NODES
        memory = self.memory_mib // NODES
        return tuple(
            f"{memory}M,cpus={node * cpus}-{(node + 1) * cpus - 1}" for node in range(NODES)
        )

    def qemu_options(self) -> list[str]:
        """QEMU arguments for accelerator, IOMMU, buses and NICs."""
        options = ["-accel", f"tcg,thread={self.threads}"]
        if self.accelerator == "kvm":
            # Interrupt remapping by the emulated IOMMU needs the I/O APIC in QEMU.
            options = ["-accel", "kvm", "-machine", "kernel-irqchip=split"]
        options += ["-device", "intel-iommu,intremap=on,caching-mode=on"]
        for node in range(NODES):
            bus = f"pxb-pcie,id=node{node},bus=pcie.0,addr={BUS_SLOTS[node]:#x}"
            options += ["-device", f"{bus},bus_nr={BUS_NUMBERS[node]:#x},numa_node={node}"]
            for slot, nic in enumerate(n for n in self.nics if n.node == node):
                options += _nic(nic, slot, chassis=self.nics.index(nic) + 1)
        return options


def _nic(nic: Nic, slot: int, *, chassis: int) -> list[str]:
    """A NIC in a slot of its own, as SR-IOV needs it, with its end of a cable."""
    port = f"pcie-root-port,id=port-{nic.name},bus=node{nic.node},addr={slot:#x},chassis={chassis}"
    return [
        *("-device", port),
        *("-netdev", f"hubport,id=cable-{nic.name},hubid={nic.cable}"),
        *("-device", f"igb,bus=port-{nic.name},netdev=cable-{nic.name},mac={nic.mac}"),
    ]
