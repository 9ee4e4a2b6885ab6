"""The NAT on DPDK: the engine in C, run to completion or as a pipeline of its stages."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from vnetperf.host import dpdk
from vnetperf.host.build import BUILD_PROGRAMS, DpdkProgram, default_variant
from vnetperf.host.dpdk import DpdkPorts
from vnetperf.host.machine import Machine
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.wait import wait_at_most, wait_for
from vnetperf.model.base import Frozen
from vnetperf.model.deployment import (
    Attachment,
    PhyPort,
    Port,
    VnfPort,
    WireEnd,
    dut_mac,
    port_mac,
)
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.machine_load import DatapathWork, NodeWork
from vnetperf.model.nat import Nat, NatBehaviour
from vnetperf.model.scenario import Plan, Pollers, RoleDemand, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.plugin.backend import check_process
from vnetperf.vswitches.cgnat.base import (
    COMPUTED_BLOCKS,
    INSIDE,
    OUTSIDE,
    NatOptions,
    NatSwitch,
    find_nat,
)
from vnetperf.vswitches.testpmd import phy_device

ENGINE = DpdkProgram("cgnat", Path(__file__).with_name("engine"))
PROTOCOL = 2
FILE_PREFIX = "cgnat"
STAGES = ("rx", "val", "nat", "ct", "tx")
#: What runs where, by mode: stages with + between them are one thread's.
RUN_TO_COMPLETION, PIPELINE = "+".join(STAGES), "rx+val/nat/ct+tx"
START_S, PEERS_S, FORGET_S = 30.0, 5.0, 20.0
#: The cause of what its ports did not take: the others are of packets that came in.
TX_FULL = "transmit ring full"
#: Room of tables beyond the sessions of the scenario.
SPARE_SESSIONS = 1024
#: Octets of a mapping and of a session with their places among the spare ones, and of a place of
#: a table, of which there is one for four records, and an eighth more (table.c).
MAPPING_OCTETS, SESSION_OCTETS, PLACE_OCTETS = 40, 40, 64
#: Octets of a public address: what its ports lead to and which are taken, of three protocols.
ADDRESS_OCTETS = 3 * (65536 * 4 + 65536 // 8)
#: Octets of a subscriber and of a block.
SUBSCRIBER_OCTETS, BLOCK_OCTETS = 80, 12
#: Buffers in caches and bursts of a thread, those of fragments that wait (ports.c), and octets of a
#: packet beside its buffer.
BUFFERS_OF_THREAD, BUFFERS_OF_FRAGMENTS, PACKET_OCTETS = 2 * 256 + 2 * 32, 256, 192


class DpdkNatOptions(NatOptions):
    """Options that the modes rtc and pipeline have besides.

    Attributes:
        stages: `cgnat` in mode pipeline: stages in this order, `+` within a thread, `/` between
            two.
        blocks: `cgnat` in modes rtc and pipeline, as those below: `computed` gives each subscriber
            the block of its number (RFC 7422), `dynamic` one when its first packet comes, which is
            recorded.
        max_blocks: 1 to 16: blocks of a subscriber at most, if dynamic.
        block_hold: 0 to 86400: seconds that a block which came back rests (RFC 6888 REQ-8).
        block_log: The record of dynamic blocks: lines, or [IPFIX](cgnat.md) messages with the
            elements of RFC 8158.
        filtering: Who may send to a mapping (RFC 4787 section 5): anybody, or whom its subscriber
            has sent to.
        tcp: Strict: the first segment of a connection is a SYN.
        inbound_refresh: Packets from outside keep sessions of UDP and ICMP (RFC 4787 REQ-6).
        session_limit: Sessions of a subscriber at most (RFC 6888 REQ-5); 0 for no limit.
    """

    stages: str | None = None
    blocks: Literal["computed", "dynamic"] = "computed"
    max_blocks: int = Field(default=4, ge=1, le=16)
    block_hold: int = Field(default=120, ge=0, le=86_400)
    block_log: Literal["text", "ipfix"] = "text"
    filtering: Literal["endpoint-independent", "address-and-port"] = "endpoint-independent"
    tcp: Literal["loose", "strict"] = "loose"
    inbound_refresh: bool = False
    session_limit: int = Field(default=0, ge=0, le=1 << 28)

    @field_validator("stages")
    @classmethod
    def _are_all(cls, stages: str | None) -> str | None:
        if stages is not None and tuple(stages.replace("/", "+").split("+")) != STAGES:
            raise ValueError(f"stages are {', '.join(STAGES)} in this order, with + or / between")
        return stages


class DpdkNat(NatSwitch):
    """A NAT of poll-mode threads between memif or veth wires."""

    Options: ClassVar[type[Frozen]] = DpdkNatOptions

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self.directory = machine.subdir(self.name)
        self.log = self.directory / (
            "blocks.ipfix" if self.options.block_log == "ipfix" else "blocks.log"
        )
        self.process: ManagedProcess | None = None
        self.argv: list[str] = []
        self.ends: dict[Port, WireEnd] = {}
        self.removed: set[Port] = set()
        self.telemetry = DpdkPorts(self.directory, FILE_PREFIX)
        self.telemetry.check = self.check_alive

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps the engine from being built, or from carrying the scenario."""
        for program in BUILD_PROGRAMS:
            if trouble := facts.missing_program(program):
                return trouble
        if unbuilt := facts.seen.get(cls.name):
            return str(unbuilt)
        options = scenario.options.own(DpdkNatOptions)
        if options.stages is not None and scenario.options.mode != "pipeline":
            return "stages are those of a pipeline; --set mode=pipeline, or leave them out"
        of_dynamic = sorted(options.model_fields_set & {"block_log", "max_blocks", "block_hold"})
        if of_dynamic and options.blocks != "dynamic":
            names = ", ".join(of_dynamic)
            return f"computed blocks have no {names}; --set blocks=dynamic, or leave it out"
        if options.tcp == "strict" and "tcp" in scenario.traffic.headers:
            return (
                "tcp=strict refuses the tester's TCP segments, which open no connections; leave it "
                "out, or measure UDP (without --traffic tcp)"
            )
        return super().missing(facts, scenario)

    @classmethod
    def roles(cls, scenario: Scenario) -> tuple[RoleDemand, ...]:
        """A role for each group of stages; "pmd" for the one thread that does all."""
        groups = list_stage_groups(scenario)
        if len(groups) == 1:
            return (RoleDemand(role="pmd", group="switch"),)
        return tuple(RoleDemand(role=group, group="switch") for group in groups)

    @classmethod
    def hugepage_mib(cls, scenario: Scenario) -> int:
        """Memory of its buffers and tables."""
        nat = find_nat(scenario)
        room = _room(scenario, nat)
        threads = len(list_stage_groups(scenario))
        buffers = (3 + threads) * dpdk.RING_SIZE + threads * BUFFERS_OF_THREAD
        buffers += BUFFERS_OF_FRAGMENTS
        tables = (
            room * (MAPPING_OCTETS + SESSION_OCTETS)
            + 2 * _places(room) * PLACE_OCTETS
            + nat.public_addresses * (ADDRESS_OCTETS + nat.per_address * BLOCK_OCTETS)
            + nat.subscribers * SUBSCRIBER_OCTETS
        )
        octets = tables + buffers * PACKET_OCTETS
        needed = dpdk.BASE_MIB + dpdk.mbuf_pool_mib(buffers, scenario.mtu) + (octets >> 20) + 1
        return -(-needed // 64) * 64

    @classmethod
    def fixed_mib(cls, scenario: Scenario, kinds: Collection[str]) -> dict[int, int]:
        """What DPDK takes."""
        return dpdk.library_mib(kinds)

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """Its threads and its own options, for `--plan`."""
        threads = " ".join(dpdk.lcore_arguments(*_main_and_workers(plan, facts)))
        return {"cgnat": " ".join([threads, "--", *nat_arguments(plan, facts)])}

    def start(self) -> None:
        """Begin anew; the engine starts with its last wire, since it must know its ports."""
        self.ends, self.removed = {}, set()

    def offer_vnf_port(self, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
        """It has none."""
        self.check_kind(kind)
        raise AssertionError("its capabilities list no attachment")

    def add_vnf_port(self, attachment: Attachment) -> None:
        """It has none."""
        raise self.no_port(attachment.port, (INSIDE, OUTSIDE))

    def add_phy_port(self, end: WireEnd) -> None:
        """Plug in a wire; with the last one the engine is started."""
        self.ends[PhyPort(index=end.wire)] = end
        if set(self.ends) == {INSIDE, OUTSIDE}:
            self._launch()

    def _launch(self) -> None:
        scenario = self.plan.scenario
        devices = [self._device(number, port) for number, port in enumerate((INSIDE, OUTSIDE))]
        placement, mib = self.plan.placement, self.hugepage_mib(scenario)
        dynamic = self.options.blocks == "dynamic"
        self.argv = [
            str(ENGINE.executable(default_variant())),
            *dpdk.lcore_arguments(*_main_and_workers(self.plan, self.machine.facts)),
            f"--file-prefix={FILE_PREFIX}",
            "--no-pci",
            *dpdk.eal_memory(placement.node, mib, devices),
            *devices,
            "--",
            *nat_arguments(self.plan, self.machine.facts),
            *([f"--log={self.log}"] if dynamic else []),
        ]
        self.process = self.machine.spawn(
            "cgnat", self.argv, env={"RUNTIME_DIRECTORY": str(self.directory)}
        )
        self.process.wait_for(self._replies, timeout_s=START_S, description="its ports to start")

    def _device(self, number: int, port: Port) -> str:
        """The device of a port; one that was removed is there, and nothing comes or goes by it."""
        if port in self.removed:
            return f"--vdev=net_null{number},no-rx=1"
        device = phy_device(number, self.ends[port], self.plan.scenario.mtu)
        if device.listens:
            Path(device.listens).unlink(missing_ok=True)
        return device.argument

    def _replies(self) -> bool:
        try:
            info = self.telemetry.ask("/cgnat/info")
        except HostError:
            return False  # not there yet
        if info is None:
            return False  # DPDK answers, and the engine has not registered its commands yet
        if info.get("protocol") != PROTOCOL:
            raise DutError(f"the engine uses protocol {info.get('protocol')}", where=self.name)
        return True

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Forward, now that both sides of memif are there: see `TestpmdSwitch.connect`."""
        self._forward()

    def _forward(self) -> None:
        self.check_alive()
        wait_at_most(lambda: not self.links_down(), PEERS_S, "memif ports to be connected")
        self._ask("forward")

    def _ask(self, command: str) -> dict[str, Any]:
        if self.process is None:
            raise DutError("it is not running", where=self.name)
        answer = self.telemetry.ask(f"/cgnat/{command}")
        if not isinstance(answer, dict):
            return {}
        if "error" in answer:
            raise DutError(answer["error"], where=self.name, accepted=answer["accepted"])
        return answer

    def remove_port(self, port: Port) -> None:
        """Start the engine again without a port: what it sends there is lost."""
        if port not in self.ends or port in self.removed:
            raise self.no_port(port, (p for p in self.ends if p not in self.removed))
        self._end()
        self.removed.add(port)
        self._launch()
        self._forward()

    def links_down(self) -> tuple[str, ...]:
        """Ports whose other side has not connected."""
        numbers = [(n, p) for n, p in enumerate((INSIDE, OUTSIDE)) if p not in self.removed]
        return tuple(str(port) for n, port in numbers if not self.telemetry.link_up(n))

    def sessions(self) -> int:
        """Sessions in its table."""
        count: int = self._ask("tables")["sessions"]
        return count

    def end_sessions(self) -> None:
        """Have the threads that own them end all sessions and mappings."""
        self._ask("forget")

        def gone() -> bool:
            tables = self._ask("tables")
            return not any(tables[k] for k in ("sessions", "mappings", "workers_that_forget"))

        wait_for(gone, FORGET_S, "its sessions to end", poll_s=0.001)

    def counters(self) -> tuple[HopCounters, ...]:
        """Packets of both ports, and those that the stages dropped: by the port they came in at."""
        hops = []
        for number, port in enumerate((INSIDE, OUTSIDE)):
            if port in self.removed:
                continue
            driver = self.telemetry.counters(number, str(port))
            drops = self._drops(number)
            refused = drops.pop(TX_FULL, 0)
            hops.append(
                driver.model_copy(
                    update={
                        **self._ask(f"port,port={number}"),
                        "rx_dropped": driver.rx_dropped + sum(drops.values()),
                        "tx_dropped": refused,
                        "causes": drops,
                    }
                )
            )
        return tuple(hops)

    def _drops(self, number: int) -> dict[str, int]:
        """Packets of a port that were dropped so far, by cause."""
        reply = self._ask(f"drops,port={number}")
        return {cause.replace("_", " "): n for cause, n in reply.items() if n}

    def datapath_work(self) -> tuple[DatapathWork, ...]:
        """What each thread did, stage by stage."""
        work = []
        for number, group in enumerate(list_stage_groups(self.plan.scenario)):
            counts = self._ask(f"worker,worker={number}")
            stages = group.split("+")
            busy = counts["turns"] - counts["empty"]
            work.append(
                DatapathWork(
                    thread=group,
                    packets=counts[f"{stages[0]}_packets"],
                    busy_cycles=counts["busy"],
                    idle_cycles=counts["idle"],
                    polls=counts["turns"],
                    empty_polls=counts["empty"],
                    nodes={
                        stage: NodeWork(
                            calls=busy,
                            packets=counts[f"{stage}_packets"],
                            clocks=counts[f"{stage}_cycles"],
                            input=stage == "rx",
                        )
                        for stage in stages
                    },
                )
            )
        return tuple(work)

    def pollers(self) -> tuple[Pollers, ...]:
        """Its threads, by the role of each."""
        if self.process is None:
            return ()
        roles = (demand.role for demand in self.roles(self.plan.scenario))
        return tuple(
            Pollers(role=role, pid=self.process.pid, thread_prefix=f"cgnat-{number}")
            for number, role in enumerate(roles)
        )

    def check_alive(self) -> None:
        """Raise when the engine has ended."""
        check_process(self.process, self.name)

    @classmethod
    def behaviour(cls, scenario: Scenario, **extra_fields: Any) -> NatBehaviour:
        """Of its stages, by its options."""
        options = scenario.options.own(DpdkNatOptions)
        computed = options.blocks == "computed"
        return super().behaviour(
            scenario,
            mapping="endpoint-independent",
            filtering=options.filtering,
            hairpinning=True,
            fragments=True,
            reset_s=options.tcp_transitory_timeout,
            session_limit=options.session_limit,
            block_hold_s=None if computed else options.block_hold,
            random_ports=False,
            **{**COMPUTED_BLOCKS, "computed_blocks": computed},
            **extra_fields,
        )

    def facts(self) -> dict[str, Any]:
        """Version, launch line, tables, and drops by their causes."""
        info, tables = self._ask("info"), self._ask("tables")
        ports = enumerate((INSIDE, OUTSIDE))
        drops = {str(port): self._drops(number) or "none" for number, port in ports}
        return {
            **self._turn_facts(),
            "backend": self.name,
            "version": info["dpdk"],
            "launch line": " ".join(self.argv),
            "mode": self.mode,
            "stages of threads": list(list_stage_groups(self.plan.scenario)),
            "nat": str(self.nat),
            "behaviour": self.behaviour_facts(),
            "room for sessions": info["sessions"],
            "tables": {key.replace("_", " "): value for key, value in tables.items()},
            "dropped until then, by cause": drops,
            "mtu": self.plan.scenario.mtu,
        }

    def _turn_facts(self) -> dict[str, Any]:
        """Turns of its threads where they share processors, and the kernel's word on priority."""
        placement = self.plan.placement
        roles = [demand.role for demand in self.roles(self.plan.scenario)]
        if not any(map(placement.turn_of, roles)):
            return {}
        refusals = [self._ask(f"worker,worker={number}")["refused"] for number in range(len(roles))]
        refused = next(filter(None, refusals), "")
        priority = max(map(placement.fifo_priority, roles))
        return {
            "turn, us": max(map(placement.turn_of, roles)),
            "priority": f"refused: {refused}" if refused else f"fifo {priority}",
        }

    def stop(self) -> None:
        """End the engine."""
        self._end()
        self.ends = {}

    def _end(self) -> None:
        self.telemetry.close()
        if self.process is not None:
            self.process.stop(timeout_s=3.0)
            self.process = None


def list_stage_groups(scenario: Scenario) -> tuple[str, ...]:
    """Stages of each thread, as "rx+val"."""
    if scenario.options.mode != "pipeline":
        return (RUN_TO_COMPLETION,)
    return tuple((scenario.options.own(DpdkNatOptions).stages or PIPELINE).split("/"))


def nat_arguments(plan: Plan, facts: MachineFacts | None = None) -> list[str]:
    """The engine's own options."""
    scenario = plan.scenario
    options, nat = scenario.options.own(DpdkNatOptions), find_nat(scenario)
    graph, room = scenario.deployment, _room(scenario, nat)
    roles = [demand.role for demand in DpdkNat.roles(scenario)]
    turn_us = max(plan.placement.turn_of(role) for role in roles)
    priority = max(plan.placement.fifo_priority(role) for role in roles)
    values = {
        "inside": nat.first_inside,
        "subscribers": nat.subscribers,
        "pool": nat.pool.network_address,
        "addresses": nat.public_addresses,
        "block": nat.block_size,
        "blocks": options.blocks,
        "most-blocks": options.max_blocks,
        "hold": options.block_hold,
        "log-form": options.block_log,
        "mappings": room,
        "sessions": room,
        "session-limit": options.session_limit,
        "filtering": options.filtering,
        "tcp": options.tcp,
        "inbound-refresh": "yes" if options.inbound_refresh else "no",
        "udp-timeout": options.udp_timeout,
        "icmp-timeout": options.icmp_timeout,
        "tcp-timeout": options.tcp_timeout,
        "tcp-transitory-timeout": options.tcp_transitory_timeout,
        "own": ",".join(dut_mac(port) for port in (INSIDE, OUTSIDE)),
        "next-hop": ",".join(port_mac(graph, port, 0) for port in (INSIDE, OUTSIDE)),
        "stages": "/".join(list_stage_groups(scenario)),
        "lcores-of-stages": ",".join(_list_group_lcores(plan, facts)),
        "rx-desc": dpdk.RING_SIZE,
        "tx-desc": dpdk.RING_SIZE,
        "room": dpdk.mbuf_room(scenario.mtu),
        "turn-us": turn_us,
        "phases": ",".join(str(plan.placement.turn_phase(role)) for role in roles),
        "priority": priority,
        "share": min(plan.placement.fifo_share(role) for role in roles) if priority else 100,
    }
    return [f"--{name}={value}" for name, value in values.items()]


def _room(scenario: Scenario, nat: Nat) -> int:
    limit = scenario.options.own(DpdkNatOptions).max_sessions
    return limit or nat.sessions + SPARE_SESSIONS


def _places(records: int) -> int:
    places = 2
    while places * 4 < records:
        places *= 2
    return places + places // 8 + 2


def _main_and_workers(plan: Plan, facts: MachineFacts | None) -> tuple[int, tuple[int, ...]]:
    """Processors of the main thread, which makes all tables and buffers, and of each group's."""
    roles = (demand.role for demand in DpdkNat.roles(plan.scenario))
    workers = tuple(plan.placement.cores[role][0] for role in roles)
    return dpdk.choose_main_cpu(plan, facts, plan.placement.node, workers), workers


def _list_group_lcores(plan: Plan, facts: MachineFacts | None) -> tuple[str, ...]:
    """Number of the lcore of each group, as EAL is told them."""
    lcores, _ = dpdk.lcore_arguments(*_main_and_workers(plan, facts))
    _, *polling = lcores.removeprefix("--lcores=").split(",")
    return tuple(pair.partition("@")[0] for pair in polling)
