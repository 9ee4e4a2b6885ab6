"""What a planner needs to know of a machine."""

from __future__ import annotations

from pydantic import Field

from vnetperf.model.base import Frozen

#: The Python package that guests are started with; its version is among `MachineFacts.versions`.
LIBVIRT_PYTHON = "libvirt-python"
#: Before the address of a program that somebody else has started, in place of its path.
AT = "at "


class CpuFacts(Frozen):
    """One processor.

    Attributes:
        cpu: Number of the logical processor.
        core: Identity of its physical core; SMT siblings share it.
        node: NUMA node.
        isolated: True when the kernel keeps other work away from it (isolcpus).
    """

    cpu: int
    core: int
    node: int
    isolated: bool = False


class HugepageFacts(Frozen):
    """Hugepages of one size on one node.

    Attributes:
        node: NUMA node.
        size_kb: Page size, KiB.
        total: Pages reserved.
        free: Pages free.
    """

    node: int
    size_kb: int
    total: int
    free: int


class NicFacts(Frozen):
    """A PCI network device.

    Attributes:
        address: PCI address.
        driver: Driver that has it; "" for none.
        kernel_driver: The kernel's driver for it, whether it has it now or not; "" for none.
        interfaces: Its network interfaces.
        node: NUMA node; -1 when unknown.
        vfs: Virtual functions it has.
        max_vfs: Virtual functions it can have; 0 without SR-IOV.
        physical: Address of its physical function when it is a virtual one; else "".
        iommu_group: Number of its IOMMU group; None without an IOMMU.
        group_mates: Other devices of the group that the kernel drives, "0000:00:1f.2 (ahci)":
            vfio hands a group out as a whole.
        in_use: Why it must not be taken: it carries addresses, a route, a session; "" when free.
        session: True when an SSH session of the machine goes over it: it is never taken.
    """

    address: str
    driver: str = ""
    kernel_driver: str = ""
    interfaces: tuple[str, ...] = ()
    node: int = -1
    vfs: int = 0
    max_vfs: int = 0
    physical: str = ""
    iommu_group: int | None = None
    group_mates: tuple[str, ...] = ()
    in_use: str = ""
    session: bool = False


class MachineFacts(Frozen):
    """A machine as the planner sees it.

    Attributes:
        cpus: Processors this run may use.
        hugepages: Hugepages by node and size.
        memory_free_kb: Free memory by node, KiB.
        is_root: True when the agent may change the machine.
        slices: "" when EEVDF slices can be set, otherwise why not.
        programs: Program name -> path, or "" when missing.
        versions: Program name -> version text.
        libraries: Program -> libraries that it is linked with, "libgtp", where that is known.
        program_troubles: Program name -> what is wrong with the one configured or found.
        modules: Kernel module -> "" when it is there or can be loaded, otherwise why not; modules
            that are not named are not known.
        nics: PCI network devices.
        images: Name of a guest image built there -> "" when it is whole and for its processors,
            otherwise what is wrong with it.
        record: The whole environment record for results.json.
    """

    cpus: tuple[CpuFacts, ...]
    hugepages: tuple[HugepageFacts, ...] = ()
    memory_free_kb: dict[int, int] = Field(default_factory=dict)
    is_root: bool = False
    slices: str = ""
    programs: dict[str, str] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    libraries: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    program_troubles: dict[str, str] = Field(default_factory=dict)
    modules: dict[str, str] = Field(default_factory=dict)
    nics: tuple[NicFacts, ...] = ()
    images: dict[str, str] = Field(default_factory=dict)
    record: dict[str, object] = Field(default_factory=dict)

    @property
    def nodes(self) -> tuple[int, ...]:
        """NUMA nodes with processors, in order."""
        return tuple(sorted({cpu.node for cpu in self.cpus}))

    def missing_program(self, program: str, package: str) -> str:
        """What keeps a program from being started.

        Args:
            program: Its name.
            package: The package that has it.

        Returns:
            "" when it is there, otherwise why not, with the cure.
        """
        if self.programs.get(program):
            return ""
        if trouble := self.program_troubles.get(program):
            return f"{program} cannot be used: {trouble}"
        return f"{program} is not installed; install the package {package} or run `make deps`"

    def missing_module(self, module: str, purpose: str) -> str:
        """What keeps a kernel module from being used.

        Args:
            module: Its name.
            purpose: What it is for, for the message.

        Returns:
            "" when it is there, otherwise why not, with the cure.
        """
        trouble = self.modules.get(module, "")
        if not trouble:
            return ""
        return (
            f"the kernel has no module {module}, which {purpose} needs: {trouble}; "
            "boot a distribution's kernel, or run it in the virtual lab: `vnetperf lab run -- ...`"
        )

    def missing_image(self, name: str) -> str:
        """What keeps a guest image from being booted.

        Args:
            name: Its name.

        Returns:
            "" when it is there, otherwise why not, with the cure.
        """
        if name not in self.images:
            return (
                f"there is no guest image {name}; build it once, as root: "
                f"`vnetperf image build {name}`"
            )
        trouble = self.images[name]
        return f"the guest image {name} cannot be used: {trouble}" if trouble else ""

    def nic(self, name: str) -> NicFacts | None:
        """A network device by PCI address or by the name of its interface.

        Args:
            name: "0000:3b:00.0" or "eth1".

        Returns:
            The device; None when there is none.
        """
        return next((n for n in self.nics if name == n.address or name in n.interfaces), None)
