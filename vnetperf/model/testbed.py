"""A testbed: which machines, which wires, which cores; one file under conf/testbeds/."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field, field_validator

from vnetperf.model.base import Frozen


class AgentConfig(Frozen):
    """How the machine side is reached.

    Attributes:
        transport: "local" for this machine, or an execnet specification such as
            "ssh=root@lab1//python=/opt/vnetperf/bin/python" for another.
    """

    transport: str = "local"

    @field_validator("transport")
    @classmethod
    def _known(cls, value: str) -> str:
        if value != "local" and not value.startswith("ssh="):
            raise ValueError('transport is "local" or an execnet specification starting with ssh=')
        return value


class CoresConfig(Frozen):
    """Which processors may be used, and how.

    Attributes:
        policy: "auto" takes dedicated cores when there are enough and shares them otherwise;
            "dedicated" refuses to share; "shared" always shares (for comparison).
        allowed: Processors that may be used; empty for all that the machine offers.
        housekeeping: Processors left to the system in dedicated mode; empty for the
            first core of the pollers' node.
        slice_us: EEVDF scheduler slice of threads on shared cores, microseconds; 0 leaves the
            kernel's own.
        tester: Threads of the traffic generator, each on a processor of its own.
    """

    policy: Literal["auto", "dedicated", "shared"] = "auto"
    allowed: tuple[int, ...] = ()
    housekeeping: tuple[int, ...] = ()
    slice_us: int = Field(default=100, ge=0, le=100_000)
    tester: int = Field(default=1, ge=1, le=64)


class MediaConfig(Frozen):
    """The medium that results are compared with.

    Attributes:
        bits_per_second: Speed of the medium, L1 bit/s.
        nominal: True when no such medium is there (virtual wires); the theoretical maximum is
            then a reference line, not a limit of the search.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    bits_per_second: float = Field(default=10e9, gt=0)
    nominal: bool = True


class ProgramsConfig(Frozen):
    """Programs to use instead of those found on PATH: absolute paths, "" to search.

    Attributes:
        ovs_vswitchd: OVS daemon built with DPDK.
        ovsdb_server: OVS database server.
        ovs_kernel: OVS daemon for the kernel's datapath; one built with DPDK will do.
        testpmd: DPDK's dpdk-testpmd.
        vpp: VPP.
        trex: TRex's server, `_t-rex-64` in its directory.
        pktgen: Pktgen-DPDK, built with Lua.
    """

    ovs_vswitchd: str = ""
    ovsdb_server: str = ""
    ovs_kernel: str = ""
    testpmd: str = ""
    vpp: str = ""
    trex: str = ""
    pktgen: str = ""

    @field_validator("*")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if value and not value.startswith("/"):
            raise ValueError('a program is an absolute path, or "" to search for it')
        return value


class TrexConfig(Frozen):
    """How TRex is used.

    Attributes:
        server: Where a server runs that somebody else has started: "HOST" or
            "HOST:SYNC-PORT:ASYNC-PORT", its ports 0 and 1 at the ends of the wires; "" starts one.
        force: True takes its ports from whoever has them, and stops what runs on them.
        client: Directory of its Python client, of a TRex tree, or of a virtual environment with
            lbr-trex-client; "" takes the one beside the server, or an installed one.
    """

    server: str = ""
    force: bool = False
    client: str = ""

    @field_validator("server")
    @classmethod
    def _address(cls, value: str) -> str:
        host, *ports = value.split(":")
        known = not ports or (len(ports) == 2 and all(p.isdecimal() for p in ports))
        if value and not (host and known):
            raise ValueError('a server is "HOST" or "HOST:SYNC-PORT:ASYNC-PORT"')
        return value


class PktgenConfig(Frozen):
    """How Pktgen-DPDK is used.

    Attributes:
        server: Where one runs that somebody else has started: "HOST" or "HOST:PORT", its ports 0
            and 1 at the ends of the wires; "" starts one.
    """

    server: str = ""

    @field_validator("server")
    @classmethod
    def _address(cls, value: str) -> str:
        host, colon, port = value.partition(":")
        if value and not (host and (not colon or port.isdecimal())):
            raise ValueError('a server is "HOST" or "HOST:PORT"')
        return value


class NicConfig(Frozen):
    """The two NICs of one wire, cabled to each other.

    Attributes:
        tester: The tester's: a PCI address such as "0000:3b:00.0", or an interface name.
        dut: The DUT's.
    """

    tester: str
    dut: str

    @field_validator("*")
    @classmethod
    def _named(cls, value: str) -> str:
        if not value or "/" in value or any(c.isspace() for c in value):
            raise ValueError("a NIC is a PCI address such as 0000:3b:00.0, or an interface name")
        return value


class Testbed(Frozen):
    """A testbed file.

    Attributes:
        name: Name, as in `--testbed NAME`.
        description: One sentence for the report.
        isolation: RFC 6815 isolation statement, quoted in every report.
        isolated: True when the NICs are known to be in an isolated test environment (RFC 6815),
            even those that carry addresses or routes of this machine.
        agent: How the machine side is reached.
        wires: Kinds of wire in order of preference.
        nics: NICs of wire 0 and wire 1, for wires of the kind "nic".
        cores: Processors.
        media: Medium that results are compared with.
        programs: Programs to use.
        trex: How TRex is used.
        pktgen: How Pktgen-DPDK is used.
        hugepage_kb: Page size of poll-mode memory, KiB.
        tester_sleep_us: Sleep of an idle tester on shared cores, microseconds.
        nic_timestamps: True takes arrivals from the clock of the tester's NICs where their drivers
            give it; drivers may then receive by a slower path.
        lock_timeout_s: Longest wait for a testbed that another run holds, seconds.
    """

    __test__ = False
    model_config = ConfigDict(allow_inf_nan=False)

    name: str = ""
    description: str = ""
    isolation: str = ""
    isolated: bool = False
    agent: AgentConfig = AgentConfig()
    wires: tuple[str, ...] = ("memif", "veth")
    nics: tuple[NicConfig, ...] = Field(default=(), max_length=2)
    cores: CoresConfig = CoresConfig()
    media: MediaConfig = MediaConfig()
    programs: ProgramsConfig = ProgramsConfig()
    trex: TrexConfig = TrexConfig()
    pktgen: PktgenConfig = PktgenConfig()
    hugepage_kb: Literal[2048, 1048576] = 2048
    tester_sleep_us: int = Field(default=20, ge=0, le=1000)
    nic_timestamps: bool = False
    lock_timeout_s: float = Field(default=60.0, ge=0)

    @property
    def isolation_statement(self) -> str:
        """The isolation statement, and what was allowed on its strength."""
        if not (self.isolated and self.nics):
            return self.isolation
        allowed = "NICs could be taken even with addresses or routes on them (isolated = true)"
        return f"{self.isolation}; {allowed}" if self.isolation else allowed
