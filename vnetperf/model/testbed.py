"""A testbed: its file, and the facts of its machines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from vnetperf.model.base import Frozen, HugepageSize, text_like
from vnetperf.model.errors import ConfigError, did_you_mean
from vnetperf.model.frames import LinkSpeed


class Program(Frozen):
    """A program that a backend, a wire or a tool declares; the inventory looks for it.

    Attributes:
        name: Key of `MachineFacts.programs`.
        package: Package that has it, for the message when it is missing.
        places: Names on PATH or absolute paths, in the order of the search; empty for its name.
        version_args: Arguments that print its version; empty when it is not started for that.
        version_contains: Text that its version must contain; another build is not used.
        version_library: Pattern of a library that it is linked with, whose group 1 is its version.
        records_libraries: True when the names of the libraries that it is linked with matter.
        records_build: True when size and time of its file stand for a version.
        key: Its key under `[programs]` of a testbed file; "" for its name with "_" for "-".
        beside: Programs it is searched beside first, when the testbed file names their path.
        software: Its name in the environment record; "" when it is not listed there.
        debian: Debian packages whose version is recorded, the first installed one counts; empty
            for `package`.
        by_make: True when `make deps` installs it (scripts/install-deps).
        optional: True when only some scenarios need it: the backend's own `missing` looks, and it
            is listed only where it was found.
    """

    name: str
    package: str = ""
    places: tuple[str, ...] = ()
    version_args: tuple[str, ...] = ()
    version_contains: str = ""
    version_library: str = ""
    records_libraries: bool = False
    records_build: bool = False
    key: str = ""
    beside: tuple[str, ...] = ()
    software: str = ""
    debian: tuple[str, ...] = ()
    by_make: bool = False
    optional: bool = False

    @property
    def setting(self) -> str:
        """Its key under `[programs]` of a testbed file."""
        return self.key or self.name.replace("-", "_")


class KernelModule(Frozen):
    """A kernel module that a backend, a wire or a tool declares; the inventory looks for it.

    Attributes:
        name: Its name, as modprobe takes it.
        purpose: What needs it, for the message when it is missing.
        symbol: A function of it, to find it in a kernel whose list of built-in modules is not
            installed.
        optional: True when only some scenarios need it: the backend's own `missing` looks.
        turns_on: Settings below /proc/sys that are on in every network namespace as soon as it is
            loaded. A run that loads it turns them off in the machine's own.
    """

    name: str
    purpose: str = ""
    symbol: str = ""
    optional: bool = False
    turns_on: tuple[str, ...] = ()


def _check_absolute(value: str) -> str:
    if value and not value.startswith("/"):
        raise ValueError('a program is an absolute path, or "" to search for it')
    return value


AbsolutePath = Annotated[str, AfterValidator(_check_absolute)]


#: A host that is network namespaces of this machine, with an agent of its own.
NETNS = "netns"


def _check_transport(value: str) -> str:
    if value not in ("local", NETNS) and not value.startswith("ssh="):
        raise ValueError(
            'transport is "local", "netns", or an execnet specification starting with ssh='
        )
    return value


class AgentConfig(Frozen):
    """How the machine side is reached.

    Attributes:
        transport: `local`, or an execnet specification that starts with `ssh=`, such as
            `ssh=root@lab1//python=/opt/vnetperf/bin/python`; of one host.
    """

    transport: str = "local"

    @field_validator("transport")
    @classmethod
    def _check_transport(cls, value: str) -> str:
        if value != "local" and not value.startswith(("ssh=", f"{NETNS}=")):
            raise ValueError('transport is "local" or an execnet specification starting with ssh=')
        return value

    @property
    def netns_host(self) -> str:
        """The host's name where it is namespaces of this machine; else ""."""
        kind, _, name = self.transport.partition("=")
        return name if kind == NETNS else ""


class CoresConfig(Frozen):
    """Which processors may be used, and how.

    Attributes:
        policy: `auto`: dedicated cores if they suffice, else shared; `dedicated`: skip rather than
            share; `shared`: always share.
        allowed: Processors that pollers may use. Left out: all.
        housekeeping: Processors left to the system; in dedicated mode no poller runs there or on
            their siblings. Left out: the first core of the pollers' node, of another node if
            pollers need all of it. On shared cores: one without a poller, else the tester's.
        slice_us: 0 to 100000: EEVDF scheduler slice on shared cores, microseconds; 0 leaves the
            kernel's.
        turn_us: 0 to 10000: length of the turns of threads that share a core and sleep in between
            (the tester, vloop, the NAT), microseconds; 0 lets them poll without sleeping
            ([engine.md](engine.md#turns)).
        tester: 1 to 64: threads of the traffic generator, each on a processor of its own; more than
            there are processors is refused. [loadgen](engine.md#several-workers) takes more than
            one.
        governor: Frequency governor of dedicated cores during a run, e.g. `performance`; read back
            into the result. Shared cores are left as they are. Left out: the machine's.
        irqs: `anywhere` leaves interrupts. `off-pollers`: other processors than dedicated cores
            serve them during a run, as far as the kernel moves them; those that stay are in the
            result.
    """

    policy: Literal["auto", "dedicated", "shared"] = "auto"
    allowed: tuple[int, ...] = ()
    housekeeping: tuple[int, ...] = ()
    slice_us: int = Field(default=100, ge=0, le=100_000)
    turn_us: int = Field(default=100, ge=0, le=10_000)
    tester: int = Field(default=1, ge=1, le=64)
    governor: Annotated[str, text_like("^[a-z_]*$", "a governor such as performance")] = ""
    irqs: Literal["anywhere", "off-pollers"] = "anywhere"


class MediaConfig(Frozen):
    """The medium that results are compared with.

    Attributes:
        bits_per_second: Above 0: speed of the medium that results are compared with, L1.
        nominal: True: there is no such medium, it is a reference line; false: searches stay below
            its maximum frame rate.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    bits_per_second: float = Field(default=10e9, gt=0)
    nominal: bool = True

    @property
    def speed(self) -> LinkSpeed | None:
        """What its frames take; None where no such medium is there."""
        return None if self.nominal else LinkSpeed(self.bits_per_second)


class NicConfig(Frozen):
    """The two NICs of one wire, cabled to each other: PCI addresses, or interface names."""

    tester: str
    dut: str

    @field_validator("*")
    @classmethod
    def _named(cls, value: str) -> str:
        if not value or "/" in value or any(c.isspace() for c in value):
            raise ValueError("a NIC is a PCI address such as 0000:3b:00.0, or an interface name")
        return value


class HostConfig(Frozen):
    """A host of a testbed of several; what it leaves out is as in the rest of the file.

    Attributes:
        transport: "local", "netns" for network namespaces of this machine with an agent of their
            own, or "ssh=...".
        role: "tester" or "dut"; "" leaves it to the planner.
        isolation: RFC 6815 isolation statement of this host, beside the testbed's.
        cores: Its processors; None for the testbed's. Hosts that are namespaces of this machine
            and have none of their own are placed on its processors together.
        programs: Programs to use there instead of the testbed's.
        hugepage_kb: Page size of poll-mode memory there, KiB; None for the testbed's.
    """

    transport: Annotated[str, AfterValidator(_check_transport)] = "local"
    role: Literal["", "tester", "dut"] = ""
    isolation: str = ""
    cores: CoresConfig | None = None
    programs: dict[str, AbsolutePath] = Field(default_factory=dict)
    hugepage_kb: HugepageSize | None = None


class CableEnd(Frozen):
    """One end of a cable.

    Attributes:
        host: Name of the host.
        nic: A PCI address or an interface name; of a host of namespaces any name.
    """

    host: str
    nic: str

    def __str__(self) -> str:
        return f"{self.host}:{self.nic}"


class CableConfig(Frozen):
    """A cable between two hosts; its ends are each "HOST:NIC"."""

    ends: tuple[str, str]

    @field_validator("ends")
    @classmethod
    def _named(cls, ends: tuple[str, str]) -> tuple[str, str]:
        for end in ends:
            host, colon, nic = end.partition(":")
            if not (host and colon and nic) or any(c.isspace() or c == "/" for c in end):
                raise ValueError(f"an end of a cable is HOST:NIC, and not {end!r}")
        return ends

    def end(self, number: int) -> CableEnd:
        """End 0 or 1."""
        host, _, nic = self.ends[number].partition(":")
        return CableEnd(host=host, nic=nic)

    @property
    def hosts(self) -> tuple[str, str]:
        """The hosts that it joins."""
        return self.end(0).host, self.end(1).host

    def at(self, host: str) -> CableEnd:
        """Its end at one of its hosts."""
        return self.end(self.hosts.index(host))


#: Short, since it is part of names of directories with sockets below them.
VariableName = Annotated[
    str,
    text_like(
        "^[A-Za-z_][A-Za-z0-9_]{0,127}$", "letters, digits and _, no digit first, at most 128"
    ),
]
HostName = Annotated[
    str,
    text_like(
        "^[a-z][a-z0-9-]{0,14}$", "small letters, digits and -, a letter first, at most 15 of them"
    ),
]


class Testbed(Frozen):
    """A testbed file; keys beyond these are the sections that backends declare, by their names.

    Attributes:
        name: Shown in reports; the file's unless given. One run at a time holds a machine, whatever
            its testbeds are called.
        description: One sentence for the report.
        isolation: RFC 6815 isolation statement. Of NICs, other machines and clusters it is quoted
            as not checked; without one the ledger has "deviated".
        isolated: True: the NICs are known to be in an isolated test environment (RFC 6815), also
            those that carry addresses or routes of this machine. Quoted in the report.
        agent: How the machine side is reached.
        wires: Registered wires, the preferred one first; the next is taken where one does not fit
            or its memory cannot be had.
        nics: `[[nics]]` with `tester` and `dut`, a PCI address or an interface name each: the two
            NICs that are cabled to each other, of wire 0, then of wire 1.
        programs: Programs to use instead of those found on PATH, by `Program.setting`: absolute
            paths, "" to search.
        environment: Names of [variables](#variables-of-programs) that programs of a run get besides
            the usual ones, with the values they have where the test run is started.
        hugepage_kb: Page size of poll-mode memory, KiB: one that the kernel has
            (`/sys/kernel/mm/hugepages`), such as 1048576 too on x86, or 524288 where ordinary pages
            are of 64 KiB.
        nic_timestamps: Arrivals by the clock of the tester's NICs, where their drivers give it;
            drivers may then receive by a slower path. See [the engine](engine.md#latency).
        lock_timeout_s: 0 or more: longest wait for a machine that another run holds, seconds.
        hosts: `[hosts.NAME]` for each of [several hosts](machines.md#several-hosts): `transport`
            (`local`, `netns`, `ssh=...`), `role` (`tester`, `dut`; left out, the planner decides),
            `isolation`, `cores`, `programs` and `hugepage_kb`. What is left out is as in the rest
            of the file.
        cables: `[[cables]]` with `ends`, two texts `HOST:NIC`: the cables between hosts.
    """

    __test__ = False
    model_config = ConfigDict(allow_inf_nan=False, extra="allow")
    __pydantic_extra__: dict[str, dict[str, Any]]

    name: str = ""
    description: str = ""
    isolation: str = ""
    isolated: bool = False
    agent: AgentConfig = AgentConfig()
    wires: tuple[str, ...] = ("memif", "veth")
    nics: tuple[NicConfig, ...] = Field(default=(), max_length=2)
    cores: CoresConfig = CoresConfig()
    media: MediaConfig = MediaConfig()
    programs: dict[str, AbsolutePath] = Field(default_factory=dict)
    environment: tuple[VariableName, ...] = ()
    hugepage_kb: HugepageSize = 2048
    nic_timestamps: bool = False
    lock_timeout_s: float = Field(default=60.0, ge=0)
    hosts: dict[HostName, HostConfig] = Field(default_factory=dict)
    cables: tuple[CableConfig, ...] = ()

    @model_validator(mode="after")
    def _is_graph(self) -> Self:
        check_hosts(self)
        return self

    @property
    def host_names(self) -> tuple[str, ...]:
        """Its hosts in the order in which they are locked; ("",) where there is one."""
        return tuple(sorted(self.hosts)) or ("",)

    def of_host(self, name: str) -> Testbed:
        """What one of its hosts is, as a testbed of that host alone."""
        if not self.hosts:
            return self
        host = self.hosts[name]
        transport = f"{NETNS}={name}" if host.transport == NETNS else host.transport
        statements = (self.isolation, host.isolation)
        update = {
            "agent": AgentConfig(transport=transport),
            "isolation": "; ".join(text for text in statements if text),
            "cores": host.cores or self.cores,
            "programs": {**self.programs, **host.programs},
            "hugepage_kb": host.hugepage_kb or self.hugepage_kb,
            "hosts": {},
            "cables": (),
        }
        return self.model_copy(update=update)

    @property
    def sections(self) -> dict[str, dict[str, Any]]:
        """Backend -> its section as JSON values."""
        return self.model_extra or {}

    def external_server(self, backend: str) -> str:
        """Where a backend runs on a machine of its own: `server` of its section; "" for none."""
        return str(self.sections.get(backend, {}).get("server", ""))

    @property
    def isolation_statement(self) -> str:
        """The isolation statement, and what was allowed on its strength."""
        of_hosts = [f"host {n}: {h.isolation}" for n, h in self.hosts.items() if h.isolation]
        # NICs of several hosts are ends of cables, but for those between namespaces.
        ends = (self.hosts[name] for cable in self.cables for name in cable.hosts)
        takes_nics = bool(self.nics) or any(host.transport != NETNS for host in ends)
        allowed = "NICs could be taken even with addresses or routes on them (isolated = true)"
        statements = [self.isolation, *of_hosts, allowed if self.isolated and takes_nics else ""]
        return "; ".join(text for text in statements if text)


def check_hosts(testbed: Testbed) -> None:
    """Refuse hosts and cables that make no testbed: `ConfigError` names the key."""
    hosts, cables = testbed.hosts, testbed.cables
    if not hosts:
        if cables:
            raise ConfigError(
                "cables join hosts, and this testbed names none",
                where="cables",
                accepted="[hosts.NAME] for both hosts of each cable; [[nics]] within one host",
            )
        return
    if set(testbed.model_fields_set) & {"agent"} and testbed.agent != AgentConfig():
        raise ConfigError(
            "a testbed with [hosts.NAME] has a transport for each of them",
            where="agent.transport",
            cure="move it to [hosts.NAME]",
        )
    if testbed.nics and len(hosts) > 1:
        raise ConfigError(
            "NICs of several hosts are ends of cables", where="nics", accepted="[[cables]]"
        )
    local = [name for name, host in hosts.items() if host.transport == "local"]
    if len(local) > 1:
        raise ConfigError(
            f"{' and '.join(local)} are the same machine",
            where=f"hosts.{local[1]}.transport",
            accepted='one host with transport = "local"; "netns" for hosts within this machine',
        )
    _check_cables(hosts, cables)
    _check_roles(hosts, cables)


def _check_cables(hosts: dict[str, HostConfig], cables: tuple[CableConfig, ...]) -> None:
    used: dict[str, int] = {}
    for number, cable in enumerate(cables):
        where = f"cables.{number}.ends"
        for end in map(cable.end, (0, 1)):
            if end.host not in hosts:
                raise ConfigError(
                    f"the cable leads to {end.host!r}, which is no host of this testbed"
                    f"{did_you_mean(end.host, hosts)}",
                    where=where,
                    accepted=", ".join(sorted(hosts)),
                )
            if str(end) in used:
                raise ConfigError(
                    f"{end} has a cable already: cables.{used[str(end)]}",
                    where=where,
                    accepted="one cable for each NIC",
                )
            used[str(end)] = number
        a, b = cable.hosts
        if a == b:
            raise ConfigError(
                f"both ends are at {a}: a cable joins two hosts",
                where=where,
                cure="on one host wires are named by `wires`, and NICs by [[nics]]",
            )
        if (hosts[a].transport == NETNS) != (hosts[b].transport == NETNS):
            raise ConfigError(
                f"one of {a} and {b} is namespaces of this machine, and the other is not",
                where=where,
                accepted="two netns hosts, or two machines",
            )


def _check_roles(hosts: dict[str, HostConfig], cables: tuple[CableConfig, ...]) -> None:
    testers = [name for name, host in hosts.items() if host.role == "tester"]
    if len(testers) > 2:
        raise ConfigError(
            f"{', '.join(testers)} are all the tester, which has two ports",
            where=f"hosts.{testers[2]}.role",
            accepted="one tester, or a host for each of its two ports",
        )
    if all(host.role == "dut" for host in hosts.values()):
        raise ConfigError(
            "every host is a DUT, and none the tester",
            where=f"hosts.{sorted(hosts)[0]}.role",
            cure='give one of them role = "tester", or leave role out',
        )
    reached = {testers[0] if testers else sorted(hosts)[0]}
    while newly_reached := {
        host
        for cable in cables
        for host in cable.hosts
        if reached & {*cable.hosts} and host not in reached
    }:
        reached |= newly_reached
    if apart := sorted(set(hosts) - reached):
        raise ConfigError(
            f"no cable leads from {sorted(reached)[0]} to {', '.join(apart)}",
            where="cables",
            accepted="a path of cables from the tester to each host",
            cure=f"add [[cables]] with an end at {apart[0]}, or leave that host out",
        )


#: The Python package that guests are started with.
LIBVIRT_PYTHON = "libvirt-python"
#: Python packages that only some scenarios require, and the extra of vnetperf that has each; those
#: that are there have their versions among `MachineFacts.versions`.
EXTRAS = {LIBVIRT_PYTHON: "vm", "grpcio": "cri", "protobuf": "cri"}
#: Before the address of a program that somebody else has started, in place of its path.
LOCATED_AT = "at "


class ClockOffset(Frozen):
    """A host's clock against the controller's.

    Attributes:
        offset_s: Seconds that the host's is ahead, negative where it is behind.
        bound_s: Most that this may be wrong by, seconds: half the round trip of the look.
    """

    offset_s: float
    bound_s: float


class ClockSync(Frozen):
    """What a host's own service states of its clock.

    Attributes:
        service: "chrony" or "ptp4l"; "" where nothing bounds the clock.
        reference: What it follows: chrony's source, or the identity of a PTP grandmaster.
        bound_s: Most that the time of day is from the reference, seconds; None: not known.
        why: Why it is not known.
    """

    service: str = ""
    reference: str = ""
    bound_s: float | None = None
    why: str = ""


def clocks_apart_s(clocks: Sequence[ClockSync | None]) -> float | None:
    """Most that clocks of two hosts differ by, seconds; None where nothing bounds that."""
    bounds = [clock.bound_s for clock in clocks if clock is not None]
    bounds_s = [bound for bound in bounds if bound is not None]
    same_reference = len({clock.reference for clock in clocks if clock is not None}) == 1
    return sum(bounds_s) if same_reference and len(bounds_s) == len(clocks) else None


class CpuFacts(Frozen):
    """One processor.

    Attributes:
        cpu: Number of the logical processor.
        core: Identity of its physical core; SMT siblings share it.
        isolated: True when the kernel keeps other work away from it (isolcpus).
        governors: Frequency governors that can be chosen; empty where none can.
        kind: Kind of its core among those of the machine (big and little ones); 0 is the fastest.
    """

    cpu: int
    core: int
    node: int
    isolated: bool = False
    governors: tuple[str, ...] = ()
    kind: int = 0


class HugepageFacts(Frozen):
    """Hugepages of one size on one node: those reserved, and of these the free ones."""

    node: int
    size_kb: int
    total: int
    free: int


#: Processes and threads, and open files of one process, that no plan comes near: not worth a word.
MANY_TASKS, MANY_FILES = 4096, 1024


class Limits(Frozen):
    """What the kernel lets this process, and those that it starts, have of its machine.

    Of control groups and of the machine, for all of them together:

    Attributes:
        memory_kb: Memory that they may still take, KiB; None without a limit.
        hugepages_in_memory: True when hugepages count in that too.
        hugepages_kb: Size of hugepages, KiB -> how much of them they may still take, KiB; sizes
            without a limit are not named.
        processors: Processor time in each second, seconds; None without a limit.
        nodes: NUMA nodes that they may take memory on; None for all.
        tasks: Processes and threads that they may still start; None where it is not known.

    Of each process for itself, beyond what a run can raise; None without a limit:

    Attributes:
        address_kb: Address space, KiB.
        data_kb: Private memory that can be written, KiB.
        locked_kb: Locked memory, which a NIC or a guest's hardware sees, KiB.
        file_kb: Size of a file, KiB; memory that processes share is one.
        open_files: Files that can be open.
    """

    memory_kb: int | None = None
    hugepages_in_memory: bool = False
    hugepages_kb: dict[int, int] = Field(default_factory=dict)
    processors: float | None = None
    nodes: tuple[int, ...] | None = None
    tasks: int | None = None
    address_kb: int | None = None
    data_kb: int | None = None
    locked_kb: int | None = None
    file_kb: int | None = None
    open_files: int | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """The limits of pages, memory, time and processes that there are, in words."""
        limits = []
        if self.memory_kb is not None:
            also = ", hugepages among it" if self.hugepages_in_memory else ""
            limits.append(f"{self.memory_kb // 1024} MiB of memory more{also}")
        if self.processors is not None:
            limits.append(f"the time of {self.processors:g} processors")
        for size_kb, kb in sorted(self.hugepages_kb.items()):
            limits.append(f"{kb // 1024} MiB of hugepages of {size_kb} KiB more")
        if self.tasks is not None and self.tasks < MANY_TASKS:
            limits.append(f"{self.tasks} processes and threads more")
        for own_kb, purpose in (
            (self.address_kb, "of address space"),
            (self.data_kb, "of private memory"),
            (self.locked_kb, "of locked memory"),
            (self.file_kb, "in a file"),
        ):
            if own_kb is not None:
                limits.append(f"{own_kb // 1024} MiB {purpose} for each process")
        if self.open_files is not None and self.open_files < MANY_FILES:
            limits.append(f"{self.open_files} open files for each process")
        return tuple(limits)


#: What to do about a NIC with several interfaces, and about one whose virtual functions are in use.
SEVERAL_CURE = "name another NIC; in switchdev mode, take its virtual functions away first"
VFS_CURE = "end what uses them, or name another NIC in the testbed file"


def several_interfaces(names: Sequence[str]) -> str:
    """Why a NIC with several interfaces is not taken; "" for one with less."""
    if len(names) < 2:
        return ""
    return f"it has {len(names)} interfaces ({', '.join(names)}), of which one would come back"


def vfs_kept(reason: str) -> str:
    """Why virtual functions are not taken away, of which one is in use; "" without a reason."""
    return f"the NIC has virtual functions already, and {reason}" if reason else ""


#: A PCI address: tools leave the usual domain out, and write digits in capitals.
_PCI_ADDRESS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.IGNORECASE)


def _pci_address(name: str) -> str:
    """A PCI address as the kernel spells it; any other name as it is."""
    match = _PCI_ADDRESS.fullmatch(name)
    return f"{int(match[1] or '0', 16):04x}:{match[2].lower()}" if match else name


class NicFacts(Frozen):
    """A PCI network device.

    Attributes:
        driver: Driver that has it; "" for none.
        kernel_driver: The kernel's driver for it, whether it has it now or not; "" for none.
        node: NUMA node; -1 when unknown.
        vfs: Virtual functions it has.
        max_vfs: Virtual functions it can have; 0 without SR-IOV.
        physical: Address of its physical function when it is a virtual one; else "".
        iommu_group: Number of its IOMMU group; None without an IOMMU.
        intx: True when it has an interrupt line (INTx), which uio_pci_generic needs.
        group_mates: Other devices of the group that the kernel drives, "0000:00:1f.2 (ahci)":
            vfio hands a group out as a whole.
        altnames: What its interfaces are called besides (`ip link property add altname`).
        in_use: Why it must not be taken: it carries addresses, a route, a session; "" when free.
        vfs_in_use: Why the virtual functions that it has must not be taken away, which is part of
            `in_use` too; "" when they may be.
        never: True when it is never taken: an SSH session of the machine goes over it, or what uses
            it (a bridge, a bond, a VLAN, a container) would not have it back.
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
    intx: bool = False
    group_mates: tuple[str, ...] = ()
    altnames: tuple[str, ...] = ()
    in_use: str = ""
    vfs_in_use: str = ""
    never: bool = False

    def refusal(self, *, isolated: bool) -> str:
        """Why it must not be taken, with what to do; "" when it may be.

        In an isolated environment NICs in use may be taken where all that uses them comes back.
        """
        if self.never:
            return f"{self.address} is in use: {self.in_use}; name another NIC, or free it first"
        if reason := several_interfaces(self.interfaces):
            return f"{self.address}: {reason}; {SEVERAL_CURE}"
        if self.in_use and not isolated:
            return (
                f"{self.address} is in use: {self.in_use}; name a NIC that nothing "
                "uses, or set isolated = true if it is in an isolated test environment"
            )
        return ""


class MachineFacts(Frozen):
    """A machine as the planner sees it.

    Attributes:
        cpus: Processors this run may use.
        memory_free_kb: Free memory by node, KiB.
        distances: NUMA node -> node -> what the firmware states of how far it is, 10 for itself;
            empty where it states nothing.
        limits: What control groups let this process have of the machine.
        boot: Identity of the boot of its kernel: hosts with the same one have one clock; "": not
            known.
        clock: What its service states of its clock; None: not looked at.
        is_root: True when the agent may change the machine: it has the capabilities for it.
        lacks: Those that it does not have although it is user 0, "CAP_NET_ADMIN", as root of a
            container.
        slices: "" when EEVDF slices can be set, otherwise why not.
        confinement: "" when QEMU can be kept from the machine's files, otherwise why not.
        bpf: "" when BPF programs can be loaded and watched, otherwise why not.
        tcx: "" when they can be linked to traffic control, otherwise why not.
        programs: Program name -> path, or "" when missing.
        libraries: Program -> libraries that it is linked with, "libgtp", where that is known.
        program_troubles: Program name -> what is wrong with the one configured or found.
        modules: Kernel module -> "" when it is there or can be loaded, otherwise why not; modules
            that are not named are not known.
        noiommu: True when vfio can hand out devices without an IOMMU.
        lockdown: What the kernel is locked down for, "integrity" or "confidentiality"; "" for
            nothing: a program may then map registers by UIO.
        hosts: Facts of each host of a testbed of several, by name; those beside it are of one.
        seen: Name of a backend -> what else it has looked at there, by its `look`.
        images: Name of a guest image built there -> "" when it is whole and for its processors,
            otherwise what is wrong with it.
        record: The whole environment record for results.json.
    """

    cpus: tuple[CpuFacts, ...]
    hugepages: tuple[HugepageFacts, ...] = ()
    memory_free_kb: dict[int, int] = Field(default_factory=dict)
    distances: dict[int, dict[int, int]] = Field(default_factory=dict)
    limits: Limits = Limits()
    boot: str = ""
    clock: ClockSync | None = None
    is_root: bool = False
    lacks: tuple[str, ...] = ()
    slices: str = ""
    confinement: str = ""
    bpf: str = ""
    tcx: str = ""
    programs: dict[str, str] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    libraries: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    program_troubles: dict[str, str] = Field(default_factory=dict)
    modules: dict[str, str] = Field(default_factory=dict)
    nics: tuple[NicFacts, ...] = ()
    noiommu: bool = False
    lockdown: str = ""
    seen: dict[str, Any] = Field(default_factory=dict)
    images: dict[str, str] = Field(default_factory=dict)
    hosts: dict[str, MachineFacts] = Field(default_factory=dict)
    record: dict[str, object] = Field(default_factory=dict)

    @property
    def nodes(self) -> tuple[int, ...]:
        """NUMA nodes with processors, in order."""
        return tuple(sorted({cpu.node for cpu in self.cpus}))

    @property
    def root_cure(self) -> str:
        """How the agent becomes one that may change the machine; "" when it may."""
        if self.is_root:
            return ""
        if self.lacks:
            return f"its root lacks {', '.join(self.lacks)}: give them to its container"
        return "run with sudo"

    def missing_program(self, program: Program | str, package: str = "") -> str:
        """What keeps a program from being started.

        Args:
            program: One that is declared, or the name of one.
            package: The package that has it, where only a name is given.

        Returns:
            "" when it is there, otherwise why not, with the cure.
        """
        declared = program if isinstance(program, Program) else Program(name=program)
        name, package = declared.name, package or declared.package
        if self.programs.get(name):
            return ""
        if trouble := self.program_troubles.get(name):
            return f"{name} cannot be used: {trouble}"
        cure = f"install the package {package}" if package else "put it on PATH"
        hint = ", or run `make deps` in a checkout" if declared.by_make else ""
        return f"{name} is not installed; {cure}{hint}"

    def missing_package(self, package: str) -> str:
        """What keeps a Python package from being used, one of `EXTRAS`; "" when it is there."""
        if self.versions.get(package):
            return ""
        cure = f"run `pip install 'vnetperf[{EXTRAS[package]}]'`"
        return f"the Python package {package} is not installed; {cure}"

    def missing_module(self, module: KernelModule | str, purpose: str = "") -> str:
        """What keeps a kernel module from being used.

        Args:
            module: One that is declared, or the name of one.
            purpose: What it is for, where that is not declared.

        Returns:
            "" when it is there, otherwise why not, with the cure.
        """
        declared = module if isinstance(module, KernelModule) else KernelModule(name=module)
        trouble = self.modules.get(declared.name, "")
        if not trouble:
            return ""
        user = purpose or declared.purpose or "the scenario"
        return (
            f"the kernel has no module {declared.name}, which {user} needs: {trouble}; "
            "boot a distribution's kernel, or run it in the virtual lab: `vnetperf lab run -- ...`"
        )

    def missing_image(self, name: str) -> str:
        """What keeps a guest image from being booted, with the cure; "" when it is there."""
        if name not in self.images:
            return (
                f"there is no guest image {name}; build it once, as root: "
                f"`vnetperf image build {name}`"
            )
        trouble = self.images[name]
        return f"the guest image {name} cannot be used: {trouble}" if trouble else ""

    def of_host(self, name: str) -> MachineFacts:
        """The facts of a host; of a testbed with one host these."""
        return self.hosts.get(name, self)

    def nic(self, name: str) -> NicFacts | None:
        """A NIC by PCI address, in any usual spelling, or by its interface; None where none is."""
        address = _pci_address(name)
        return next(
            (n for n in self.nics if n.address == address or name in (*n.interfaces, *n.altnames)),
            None,
        )
