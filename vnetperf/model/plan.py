"""The plan of a scenario on a testbed: everything that will be done, before anything is."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vnetperf.model.base import Frozen
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import Testbed


class RoleDemand(Frozen):
    """A poll-mode or busy thread that wants a core of its own.

    Attributes:
        role: "pmd", "tester", "vnf0" ...
        threads: Number of threads.
        group: On shared cores, roles of one group are put on the same core: the tester and the
            PMD take turns anyway, a VNF runs beside them.
    """

    role: str
    threads: int = 1
    group: Literal["switch", "vnf"]


class Pollers(Frozen):
    """How to find a role's busy threads on the running machine.

    Attributes:
        role: As in RoleDemand.
        pid: Process id.
        thread_prefix: What the names of its busy threads begin with.
    """

    role: str
    pid: int
    thread_prefix: str


class Placement(Frozen):
    """Which role runs where.

    Attributes:
        mode: "dedicated": each poller has a core of its own; "shared": they take turns.
        reason: Why this mode.
        cores: Role -> processors.
        housekeeping: Processors for everything that does not poll.
        node: NUMA node of the pollers' memory.
        nodes: NUMA nodes of the machine.
        far_nodes: The other nodes, when pollers sit on several.
        vnf_node: NUMA node of VNFs' memory, when it is not the pollers'.
        unpinned: Role -> processors among which the kernel moves it; such a role has no cores.
        slice_us: EEVDF slice for threads on shared cores, microseconds; 0: the kernel's own.
        slice_note: What is known about slices: "" or why they are not available.
        emulated: True in the virtual lab, where one thread emulates all processors in turn.
    """

    mode: Literal["dedicated", "shared"]
    reason: str
    cores: dict[str, tuple[int, ...]]
    housekeeping: tuple[int, ...]
    node: int = 0
    nodes: tuple[int, ...] = (0,)
    far_nodes: tuple[int, ...] = ()
    vnf_node: int | None = None
    unpinned: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    slice_us: int = 0
    slice_note: str = ""
    emulated: bool = False

    @property
    def shared(self) -> bool:
        """True when pollers share cores."""
        return self.mode == "shared"

    @property
    def home_of_vnfs(self) -> int:
        """NUMA node of VNFs' memory."""
        return self.node if self.vnf_node is None else self.vnf_node

    def takes_turns(self, role: str) -> bool:
        """Whether a role's core is also another role's, or turns with all others.

        Args:
            role: The role.

        Returns:
            True when it must let another poller run.
        """
        if self.emulated:
            return True
        mine = set(self.cores.get(role, ()))
        return any(mine & set(cores) for other, cores in self.cores.items() if other != role)


class MemoryPlan(Frozen):
    """Hugepages the scenario needs free on a node.

    Attributes:
        node: NUMA node.
        size_kb: Page size, KiB.
        pages: Pages that must be free.
        users: User -> MiB.
    """

    node: int
    size_kb: int
    pages: int
    users: dict[str, int] = Field(default_factory=dict)


class NicUse(Frozen):
    """One NIC of a wire, and the driver it will have.

    Attributes:
        wire: Number of the wire.
        side: Whose end it is.
        pci: PCI address.
        driver: "vfio-pci", "uio_pci_generic", or the kernel's.
        kernel: True when its kernel interface is used.
        interface: Name of its kernel interface now; "" when it has none.
        node: NUMA node; -1 when unknown.
        note: Why this driver and not one that is preferred to it; "" when there is none.
    """

    wire: int
    side: Literal["tester", "dut"]
    pci: str
    driver: str
    kernel: bool
    interface: str = ""
    node: int = -1
    note: str = ""

    def __str__(self) -> str:
        what = f"{self.side} {self.pci}" + (f" ({self.interface})" if self.interface else "")
        where = f", node {self.node}" if self.node >= 0 else ""
        return f"{what} through {self.driver}{where}" + (f"; {self.note}" if self.note else "")


class Plan(Frozen):
    """A plan.

    Attributes:
        scenario: What is deployed.
        testbed: Where.
        wire: Kind of wire chosen.
        nics: NICs of the wires, for wires of the kind "nic".
        placement: Cores.
        memory: Hugepages.
        commands: Launch lines as far as they are known before deployment, with what they are.
        refusal_is_loss: See TrialResult.
        tester_rx_queues: Receive queues the tester must poll: the vSwitch may send on as many.
    """

    scenario: Scenario
    testbed: Testbed
    wire: str
    nics: tuple[NicUse, ...] = ()
    placement: Placement
    memory: tuple[MemoryPlan, ...]
    commands: dict[str, str] = Field(default_factory=dict)
    refusal_is_loss: bool = True
    tester_rx_queues: int = 1

    def nic(self, wire: int, side: str) -> NicUse | None:
        """The NIC at one end of a wire.

        Args:
            wire: Number of the wire.
            side: "tester" or "dut".

        Returns:
            The NIC; None when the wire has none there.
        """
        return next((n for n in self.nics if (n.wire, n.side) == (wire, side)), None)
