"""Pktgen-DPDK as a backend of the traffic family."""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from pydantic import field_validator

from vnetperf.host.machine import Machine
from vnetperf.host.wait import patient, wait_at_most
from vnetperf.model.base import Frozen
from vnetperf.model.deployment import WireEnd
from vnetperf.model.errors import ConfigError, GeneratorError
from vnetperf.model.frames import GTPU, MIN_FRAME_SIZE, TUNNELS
from vnetperf.model.scenario import Placement, Plan, Pollers, Scenario
from vnetperf.model.testbed import LOCATED_AT, MachineFacts, Program, Testbed
from vnetperf.model.traffic import Stream, TrafficProfile
from vnetperf.model.trial import TrialResult, TrialSpec
from vnetperf.plugin.compiled_frames import CompiledFrame, compile_traffic
from vnetperf.plugin.generator import (
    ExternalGenerator,
    GeneratorCapabilities,
    learning_rate,
    server_address,
)
from vnetperf.traffic.pktgen.process import (
    PORT,
    WIRES,
    LuaClient,
    PktgenCommand,
    PktgenProcess,
    connect_server,
    pktgen_command,
    pktgen_memory_mib,
    port_list,
)
from vnetperf.traffic.pktgen.streams import (
    MAX_CYCLE,
    PortTraffic,
    check_cycles,
    check_settings,
    compile_cycles,
    frame_settings,
    group_by_port,
    learning_frames,
)
from vnetperf.traffic.pktgen.trials import (
    ATTEMPTS,
    PROBE_OCTETS,
    LinkRate,
    PktgenTrials,
    SendingPort,
    can_probe,
    probe_settings,
)

log = logging.getLogger(__name__)

LINK_S, LINK_POLL_S, WAKE_S = 4.0, 0.02, 10.0
#: Starts until links are up.
STARTS = 3
#: As that of the DUT's pollers and VNFs.
POLLER_NICE = -10
LARGEST = 1518
#: Rate at which the clock's speed is read off, frames/s.
SLOW_FPS = 1000


@cache
def sets_mtu(program: str) -> bool:
    """Whether a Pktgen has the message that it exits with when an MTU cannot be set."""
    try:
        return b"Cannot set MTU" in Path(program).read_bytes()
    except OSError:
        return False


#: What is called of its Lua; 26.01 has no pktStats, and another portStats.
FUNCTIONS = (
    *("set", "start", "stop", "clear", "latency", "isSending", "linkState", "screen"),
    *("portStats", "pktStats", "portInfo", "portCount", "pattern", "pcap"),
    *("set_mac", "set_ipaddr", "set_proto", "set_type", "set_range"),
)


class PktgenConfig(Frozen):
    """How Pktgen-DPDK is used: the section [pktgen] of a testbed file.

    Attributes:
        server: `HOST` or `HOST:PORT`: a Pktgen that runs already, its ports 0 and 1 at the ends of
            the wires; left out, one is started. See [pktgen](generators/pktgen.md).
        memif: A build that sets the MTU of its ports runs on memif all the same, because the MTU of
            its DPDK's memif can be set.
    """

    server: str = ""
    memif: bool = False

    @field_validator("server")
    @classmethod
    def _address(cls, value: str) -> str:
        if value:
            server_address(value, "HOST:PORT", PORT)
        return value


class Pktgen(ExternalGenerator):
    """DPDK's packet generator, started by the run or elsewhere, controlled by Lua.

    Attributes:
        lua_client: The connection to Pktgen; None while there is none.
    """

    name: ClassVar[str] = "pktgen"
    programs: ClassVar[tuple[Program, ...]] = (Program(name="pktgen", records_build=True),)
    not_found: ClassVar[str] = (
        "there is no pktgen on PATH; no distribution has a package: build Pktgen-DPDK with Lua "
        "(meson -Denable_lua=true), name it as `pktgen` under [programs] of the testbed file, "
        "or name a running one as `server` under [pktgen]"
    )
    longest: ClassVar[int] = LARGEST
    Section: ClassVar[type[Frozen]] = PktgenConfig
    capabilities: ClassVar[GeneratorCapabilities] = GeneratorCapabilities(
        wires=WIRES,
        tunnels=(*TUNNELS, GTPU),
        nic_drivers=("vfio-pci", "kernel"),
        max_frame_size=LARGEST,
        random_fields=False,
        max_flows=MAX_CYCLE,
    )

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self._server: str = self.section.server
        self._ends: tuple[WireEnd, ...] = ()
        self._started: PktgenProcess | None = None
        self._launch: PktgenCommand | None = None
        self.lua_client: LuaClient | None = None
        self._loaded = ""
        self._files: dict[int, tuple[Path, PortTraffic]] = {}
        self._trials: PktgenTrials | None = None
        self._kinds: tuple[CompiledFrame, ...] = ()
        self._starts = 0

    @classmethod
    def external_program(cls, testbed: Testbed, path: str) -> str:
        """The Pktgen that runs elsewhere is used, whatever is installed here."""
        server = cls.read_section(testbed).server
        return f"{LOCATED_AT}{server}" if server else path

    @classmethod
    def cannot_plug(
        cls,
        wire: str,
        queues: int,
        *,
        scenario: Scenario,
        placement: Placement,
        testbed: Testbed,
        facts: MachineFacts,
    ) -> str:
        """Whether it would end at a memif, whose MTU cannot be set."""
        section = cls.read_section(testbed)
        if wire != "memif" or section.server or section.memif:
            return ""
        program = facts.programs.get(cls.name, "")
        if not sets_mtu(program):
            return ""
        return (
            f"{program} sets the MTU of its ports (Pktgen 23.03 to 24.03 does) and exits where the "
            "driver cannot, as DPDK's memif; use --wire veth or a NIC, or set memif = true under "
            "[pktgen] of the testbed file for a build that runs on memif"
        )

    @classmethod
    def check_frames(cls, frames: Sequence[CompiledFrame], testbed: Testbed) -> None:
        """A cycle may be too long; a Pktgen elsewhere may have no settings for the frames."""
        if server := cls.read_section(testbed).server:
            check_settings(frames, server)
        else:
            check_cycles(frames)

    @classmethod
    def hugepage_mib(cls, scenario: Scenario, kinds: tuple[str, ...]) -> int:
        """Memory that a NIC must see."""
        return pktgen_memory_mib(2, (scenario.options.workers or 1) + 1) if "nic" in kinds else 0

    def connect(self, ends: tuple[WireEnd, ...]) -> None:
        """Start Pktgen, or connect to the one that the testbed names."""
        self._ends = ends
        if self._server:
            self.lua_client = connect_server(self._server)
            self._check_functions()
            self._check_server()
            return
        scenario = self.plan.scenario
        traffic: Mapping[int, PortTraffic] = {}
        # The smallest frames are the most likely first ones: it need not start again for them.
        with contextlib.suppress(GeneratorError, ConfigError):
            kinds = compile_traffic(scenario.streams, scenario.traffic, MIN_FRAME_SIZE)
            traffic = compile_cycles(kinds)
        self._load(traffic)

    def _start(self, files: Mapping[int, tuple[Path, PortTraffic]]) -> None:
        """Start it with these files: it reads frames when it starts, and at no other time."""
        self._end()
        program = self.machine.facts.programs.get("pktgen", "")
        if not program:
            raise GeneratorError("there is no pktgen", where="PATH and [programs]")
        self._starts += 1
        self._files = dict(files)
        prefix = f"vnp{self.machine.run_id}{self._starts}"[:40]
        self._launch = pktgen_command(program, self.plan, self._ends, files, prefix)
        self._started = PktgenProcess(self.machine, self._launch)
        self.lua_client = self._started.connect()
        self._check_functions()
        self._lua("pktgen.screen('off')")
        placement = self.plan.placement  # who deployed it does this once, and it starts often
        self._started.set_slices_and_nice(POLLER_NICE, placement.slice_us)
        self._started.deprioritise_helper_threads()

    def _check_functions(self) -> None:
        """Refuse a version whose Lua lacks what trials need, before any is run."""
        names = ", ".join(f"'{name}'" for name in FUNCTIONS)
        lacking = self._lua(
            f"local lacks={{}} for _,name in ipairs({{{names}}}) do "
            "if pktgen[name]==nil then lacks[#lacks+1]=name end end "
            "return table.concat(lacks,', ')"
        )
        if lacking:
            version = (self._lua("return pktgen.info") or {}).get("Pktgen_Version", "this Pktgen")
            raise GeneratorError(
                f"{version} has no {lacking} in its Lua",
                where=self._server or self.machine.facts.programs.get("pktgen", ""),
                accepted="Pktgen 23.03 to 25.08; later ones count neither foreign frames nor the "
                "times of probes for who asks",
                cure="build an older version",
            )

    def _check_server(self) -> None:
        ports = self._lua("return pktgen.portCount()")
        if ports != len(self._ends):
            raise GeneratorError(
                f"the Pktgen there has {ports} ports",
                where=self._server,
                accepted=f"{len(self._ends)}: one at each wire of this deployment",
            )
        # What a vanished client left running.
        self._lua(f"pktgen.stop('{port_list(len(self._ends))}')")

    def _lua(self, source: str) -> Any:
        return self.started(self.lua_client).call(source)

    def unplug(self) -> None:
        """End it: DPDK's memif connects but once."""
        if not self._server:
            self.close()

    def reconnect(self) -> None:
        """Start it again."""
        if self.lua_client is None:
            self.connect(self._ends)

    def links_down(self) -> tuple[str, ...]:
        """Ports whose link is down."""
        states = self._lua(f"return pktgen.linkState('{port_list(len(self._ends))}')")
        return tuple(
            f"tester port {port}"
            for port in range(len(self._ends))
            if "UP" not in str(states.get(str(port), ""))
        )

    def prepare(
        self, streams: tuple[Stream, ...], profile: TrafficProfile, frame_size: int
    ) -> None:
        """Give Pktgen the frames; one that we started starts again for others."""
        kinds = compile_traffic(streams, profile, frame_size)
        largest = max(kind.size for kind in kinds)
        if largest > LARGEST:
            raise GeneratorError(f"frame size {largest}", accepted=f"up to {LARGEST}")
        self._trials = None
        senders = self._prepare_server(kinds) if self._server else self._prepare_ports(kinds)
        if len({sender.load for sender in senders.values()}) > 1:
            raise GeneratorError(
                "Pktgen paces all ports that one thread serves alike",
                where="a traffic profile with another load for each direction",
                cure="use another generator, or equal loads",
            )
        self._wait_for_links()
        self._kinds = kinds
        self._probe_addresses(kinds, senders)
        links = tuple(self._link(port) for port in range(len(self._ends)))
        trials = PktgenTrials(self.started(self.lua_client), links, senders)
        trials.wake(patient(WAKE_S), lambda: None)
        self._trials = trials

    def _prepare_ports(self, kinds: tuple[CompiledFrame, ...]) -> dict[int, SendingPort]:
        traffic = compile_cycles(kinds)
        self._load(traffic)
        return {
            port: SendingPort(
                load=cycle.load,
                octets=len(port_kinds[0].template) if cycle.equal else 0,
                probes=can_probe(port_kinds, equal=cycle.equal),
                ipv6_is_own=any(kind.template[12:14] == b"\x86\xdd" for kind in port_kinds),
            )
            for (port, port_kinds), cycle in zip(
                group_by_port(kinds).items(), traffic.values(), strict=True
            )
        }

    def _load(self, traffic: Mapping[int, PortTraffic]) -> None:
        """Start Pktgen with these frames, unless it has them."""
        digest = ",".join(
            f"{port}:{hashlib.sha256(cycle.pcap).hexdigest()}" for port, cycle in traffic.items()
        )
        if digest == self._loaded and self._started is not None:
            return
        directory = self.machine.subdir("pktgen")
        files = {}
        for port, cycle in traffic.items():
            path = directory / f"port{port}.pcap"
            path.write_bytes(cycle.pcap)
            files[port] = (path, replace(cycle, pcap=b""))  # a million frames are not kept twice
        self._start(files)
        self._loaded = digest

    def _prepare_server(self, kinds: tuple[CompiledFrame, ...]) -> dict[int, SendingPort]:
        """Frames of Pktgen's own making: nothing else goes through its socket."""
        check_settings(kinds, self._server)
        senders = {}
        for kind in kinds:  # one for each port
            self._lua(frame_settings(kind.stream.tx_port, kind))
            octets = len(kind.template)
            senders[kind.stream.tx_port] = SendingPort(
                load=kind.share, octets=octets, probes=octets != PROBE_OCTETS
            )
        return senders

    def _wait_for_links(self) -> None:
        """Wait until every port is up; one that we started may start again for that.

        DPDK's memif connects but once: a vSwitch that sets its port up anew, after another port
        was added, lets go of a client that was quicker.
        """
        for attempt in range(STARTS):
            down = self._down_after(LINK_S)
            if not down:
                return
            if self._server:
                break
            if attempt < STARTS - 1:
                log.info("start Pktgen again: no link at %s", ", ".join(down))
                loaded = self._loaded
                self._start(self._files)
                self._loaded = loaded
        raise GeneratorError(
            f"no link at {', '.join(down)} after {LINK_S:g} s",
            where=self.name,
            cure="see whether the other end of the wire is there, and Pktgen's terminal",
        )

    def _down_after(self, seconds: float) -> tuple[str, ...]:
        wait_at_most(lambda: not self.links_down(), seconds, "links of Pktgen", poll_s=LINK_POLL_S)
        return self.links_down()

    def _probe_addresses(
        self, kinds: tuple[CompiledFrame, ...], senders: Mapping[int, SendingPort]
    ) -> None:
        for port, sender in senders.items():
            if sender.probes and not self._server:
                stream = next(k.stream for k in kinds if k.stream.tx_port == port)
                self._lua(probe_settings(port, stream))

    def _link(self, port: int) -> LinkRate:
        """What a port's rates are made of: all of the link, and a rate that is slow enough.

        It must not be much slower: Pktgen keeps to the time it has set for its next burst.
        """
        full = int(self._paced(port, 100.0)["tx_pps"])
        if full < 1:
            raise GeneratorError(
                f"Pktgen reports that port {port} can send {full} frames/s",
                where="tx_debug.tx_pps at 100 %",
                cure="its link may be down",
            )
        slow = self._paced(port, 100 * (SLOW_FPS + 0.5) / full)
        if slow["tx_pps"] != SLOW_FPS or slow["tx_cycles"] < SLOW_FPS:
            raise GeneratorError(
                f"Pktgen makes {slow} of {SLOW_FPS} frames a second",
                where=f"tx_debug of port {port}",
                cure="try another version of Pktgen; see docs/generators/pktgen.md",
            )
        return LinkRate(full_fps=full, hz=int(slow["tx_cycles"]) * SLOW_FPS)

    def _paced(self, port: int, percent: float) -> dict[str, int]:
        """What Pktgen makes of a rate; twice the same, since it computes now and then for another.

        That is when the sending thread looks at the link at the same time.
        """
        pace: dict[str, int] = {}
        for _ in range(ATTEMPTS):
            before = pace
            rate = f"pktgen.set('{port}','rate',{percent:.12g})"
            self._lua(f"pktgen.set('{port}','burst',1) {rate}")
            pace = self._lua(f"return pktgen.portInfo('{port}')[{port}].info.tx_debug")
            if pace == before:
                break
        return pace

    def _prepared(self) -> PktgenTrials:
        if self._trials is None:
            raise GeneratorError("no traffic is prepared", where=self.name)
        return self._trials

    def learn(self, frames_per_stream: int) -> None:
        """Send learning frames."""
        if frames_per_stream:
            trials, ports = self._prepared(), group_by_port(self._kinds).values()
            frames = max(learning_frames(port_kinds, frames_per_stream) for port_kinds in ports)
            trials.learn(frames, learning_rate(frames), lambda: None)

    def run(self, trial: TrialSpec, watch: Callable[[], None]) -> TrialResult:
        """Send, drain, settle, count."""
        if self._started is not None:
            self._started.deprioritise_helper_threads()
        result = self._prepared().run(trial, watch)
        return result.model_copy(update={"refusal_is_loss": self.refusal_is_loss(trial)})

    def pollers(self) -> tuple[Pollers, ...]:
        """Threads that send and receive."""
        if self._started is None or not (pid := self._started.pid):
            return ()
        prefix = self._started.worker_prefix()
        return (Pollers(role="tester", pid=pid, thread_prefix=prefix),)

    def facts(self) -> dict[str, Any]:
        """Version, launch line, how frames, rates and times are made."""
        about = self._lua("return pktgen.info")
        version = f"{about.get('Pktgen_Version', 'Pktgen')}, {about.get('DPDK_Version', '?')}"
        return {
            "version": version,
            "launch line": " ".join(self._launch.argv) if self._launch else "",
            "server": self._server or "started by this run",
            "runs on": self._server or "the machine that carries the DUT",
            "frames": "Pktgen's own: IP identification and checksums are not ours"
            if self._server
            else "from a file: equal to the other generators', with zeros for the stamp",
            "rate": "percent of the link, read back from tx_debug; a count ends each trial",
            "counters": "settled, probes and foreign ARP and IPv6 taken off",
            "time stamps": "TSC of extra probes of 76 octets to UDP port 1028, at most 1 % of the "
            "load, on top of it; no histogram",
            "time stamp error": "one clock for both ends; what its queues add is the latency in "
            "`calibrations`",
            "workers": list(self._launch.workers) if self._launch else [],
        }

    def close(self) -> None:
        """Stop traffic and Pktgen; someone else's goes on without traffic."""
        if self._server and self.lua_client is not None:
            with contextlib.suppress(GeneratorError):
                self.lua_client.call(f"pktgen.stop('{port_list(len(self._ends))}')")
        self._end()

    def _end(self) -> None:
        self._trials, self._loaded = None, ""
        if self.lua_client is not None:
            self.lua_client.close()
            self.lua_client = None
        if self._started is not None:
            self._started.stop()
            self._started = None
