"""TRex as a backend of the traffic family: stateless streams, exact counts, latency by probes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from math import ceil
from typing import Any, ClassVar

from pydantic import field_validator

from vnetperf.host.machine import Machine
from vnetperf.host.wait import patient
from vnetperf.model.base import Frozen
from vnetperf.model.deployment import VnfPort, WireEnd
from vnetperf.model.errors import GeneratorError
from vnetperf.model.frames import GTPU, TUNNELS
from vnetperf.model.scenario import Placement, Plan, Pollers, RoleDemand, Scenario
from vnetperf.model.testbed import LOCATED_AT, MachineFacts, Program, Testbed
from vnetperf.model.traffic import Stream, TrafficProfile
from vnetperf.model.trial import TrialResult, TrialSpec
from vnetperf.plugin.compiled_frames import CompiledFrame, compile_traffic
from vnetperf.plugin.generator import (
    ExternalGenerator,
    GeneratorCapabilities,
    host_failures,
    learning_rate,
)
from vnetperf.traffic.devices import memif_ring, remove_stale_sockets
from vnetperf.traffic.trex import server as trex_server
from vnetperf.traffic.trex.client import TrexClient, find_client
from vnetperf.traffic.trex.server import (
    ATTACHMENTS,
    MAX_FRAME,
    PROGRAM,
    WIRES,
    TrexServer,
    beyond_server,
    server_port,
    server_threads,
)
from vnetperf.traffic.trex.trials import (
    FCS_OCTETS,
    WHOLE,
    TrialPlan,
    plan_burst,
    plan_trial,
    refuse_segmented,
    to_trial_result,
)

#: How much later than due learning frames may leave, and are waited for after, seconds.
LEARN_SLACK_S, LEARN_DRAIN_S = 2.0, 0.05
#: Kinds of ends that are NICs.
NICS = ("nic", "vf")
#: How much later than due the last frame may leave: seconds, and share of the duration.
SLACK_S, SLACK = 0.01, 0.001
#: Longest wait for a server that is starting, and for an answer beyond a trial's length, seconds.
START_S, GRACE_S = 40.0, 20.0
#: Time limit of each of the client's requests, which it repeats, and of the server's regular
#: messages, seconds.
SYNC_TIMEOUT_S, ASYNC_TIMEOUT_S = 1.0, 15.0
#: Longest frame, octets including FCS, that the server keeps in one piece.
LONGEST = WHOLE + FCS_OCTETS
#: Each port's streams on a worker of its own, whose frames then keep their order.
PIN = 2


class TrexConfig(Frozen):
    """How TRex is used: the section [trex] of a testbed file.

    Attributes:
        server: `HOST` or `HOST:SYNC-PORT:ASYNC-PORT`: a server that runs already, its ports 0 and 1
            at the ends of the wires; left out, one is started. See [trex](generators/trex.md).
        force: Take its ports from whoever has them, and stop what runs on them.
        client: Directory of its Python client, of a TRex tree, or of a virtual environment with
            lbr-trex-client. Left out: the one beside the server, or an installed one.
    """

    server: str = ""
    force: bool = False
    client: str = ""

    @field_validator("server")
    @classmethod
    def _address(cls, value: str) -> str:
        if value:
            trex_server.remote_address(value)
        return value


class Trex(ExternalGenerator):
    """Cisco's TRex, driven by its own Python client in a process of its own.

    Attributes:
        client: The process of the Python client; None while it is not started.
    """

    name: ClassVar[str] = "trex"
    #: Never its wrapper t-rex-64, which changes the machine.
    programs: ClassVar[tuple[Program, ...]] = (
        Program(name=PROGRAM, places=("_t-rex-64",), records_build=True),
    )
    not_found: ClassVar[str] = (
        "TRex's server _t-rex-64 was not found; unpack TRex and name it as trex under "
        "[programs] of the testbed file, or put its directory into PATH"
    )
    longest: ClassVar[int] = LONGEST
    Section: ClassVar[type[Frozen]] = TrexConfig
    capabilities: ClassVar[GeneratorCapabilities] = GeneratorCapabilities(
        wires=WIRES,
        attachments=ATTACHMENTS,
        tunnels=(*TUNNELS, GTPU),
        nic_drivers=("vfio-pci", "kernel"),
        mixes_devices=False,
        latency_histogram=True,
        max_frame_size=MAX_FRAME,
        asymmetric=True,
    )

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self.directory = machine.subdir("trex")
        self.config: TrexConfig = self.section
        self._ends: tuple[WireEnd, ...] = ()
        self._server: TrexServer | None = None
        self.client: TrexClient | None = None
        self._frames: tuple[CompiledFrame, ...] = ()
        self._short: dict[int, CompiledFrame] = {}
        self._sending = False
        self._server_info: dict[str, Any] = {}
        self._remote = trex_server.RemoteServer(self.config.server) if self.config.server else None

    @classmethod
    def external_program(cls, testbed: Testbed, path: str) -> str:
        """The installed TRex, whose client serves a server elsewhere too."""
        server = cls.read_section(testbed).server
        return path or (f"{LOCATED_AT}{server}" if server else "")

    @classmethod
    def check_frames(cls, frames: Sequence[CompiledFrame], testbed: Testbed) -> None:
        """TRex may have no instructions for the fields that vary."""
        plan_burst(frames, 1, 1.0).describe()

    @classmethod
    def roles(cls) -> tuple[RoleDemand, ...]:
        """Two threads send and receive, one measures latency; the one that answers sleeps.

        A vSwitch with one poller sends on two queues of a memif, each of which wants a thread.
        """
        return (RoleDemand(role="tester", threads=3, group="tester"),)

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
        """A memif's other end drops what it sends on queues that nobody polls."""
        threads = server_threads(placement)
        if not cls.read_section(testbed).server and (
            reason := beyond_server(threads, placement.node)
        ):
            return reason
        if wire != "memif":
            return ""
        if scenario.traffic.flows > 1 and scenario.largest_on_wire > LONGEST:
            return (
                f"TRex sends frames of more than {LONGEST} octets in pieces when flows differ, and "
                "DPDK's memif joins pieces wrongly"
            )
        polled = len(threads.workers)
        if queues <= polled:
            return ""
        return (
            f"the vSwitch sends on {queues} queues, and TRex polls {polled} with the processors it "
            "has here (one for each worker, one for latency, one for its main thread)"
        )

    @classmethod
    def hugepage_mib(cls, scenario: Scenario, kinds: tuple[str, ...]) -> int:
        """Memory for NICs; virtual devices take ordinary pages."""
        return 2048 if "nic" in kinds else 0

    def connect(self, ends: tuple[WireEnd, ...]) -> None:
        """Start a server, or connect to one, and take its ports."""
        self._ends, self._server_info = ends, {}
        if len(ends) % 2:
            raise GeneratorError(f"{len(ends)} ports", where=self.name, accepted="an even number")
        program = self.machine.facts.programs.get(PROGRAM, "")
        place = find_client(self.config.client, "" if program.startswith(LOCATED_AT) else program)
        if isinstance(place, str):
            raise GeneratorError(place, where=self.name)
        ours = self._remote is None
        if ours:
            self._start_server(program, ends)
        self.client = TrexClient.start(
            self.machine, self.directory, place, isolated=ours, alive=self._check_alive
        )
        address = self._remote.address if self._remote else trex_server.OWN_ADDRESS
        host, sync, publisher = address
        self._server_info = self.client.call(
            "open",
            within_s=START_S + GRACE_S,
            server=host,
            sync=sync,
            publisher=publisher,
            user="vnetperf",
            sync_timeout=ceil(patient(SYNC_TIMEOUT_S)),
            async_timeout=ceil(patient(ASYNC_TIMEOUT_S)),
            patience=patient(START_S if ours else 5.0),
        )
        if len(self._server_info["ports"]) < len(ends):
            raise GeneratorError(
                f"the server has {len(self._server_info['ports'])} ports",
                where=self.name,
                accepted=f"{len(ends)} or more",
            )
        self.client.call("acquire", ports=list(range(len(ends))), force=ours or self.config.force)

    def _start_server(self, program: str, ends: tuple[WireEnd, ...]) -> None:
        scenario, placement = self.plan.scenario, self.plan.placement
        in_vnf_place = [isinstance(end, VnfPort) for end in scenario.deployment.ends]
        ports = [
            server_port(
                *(number, end, scenario.mtu),
                own_socket=in_vnf_place[number],
                memif_frames=memif_ring(scenario, number),
            )
            for number, end in enumerate(ends)
        ]
        for port, end in zip(ports, ends, strict=True):
            if port.netdev and end.mac:
                self.machine.set_link(port.netdev, mac=end.mac)
        remove_stale_sockets(ends)
        threads = server_threads(placement, ports, self.plan.tester_rx_queues)
        self._server = trex_server.start_server(
            self.machine,
            self.directory,
            program,
            ports,
            threads,
            mtu=scenario.mtu,
            node=placement.node,
        )

    def _check_alive(self) -> None:
        if self._server is not None:
            with host_failures():
                self._server.process.expect_alive()
        elif self._remote is not None and self.client is not None:
            self._remote.check_alive()

    def unplug(self) -> None:
        """End the server where it is a memif client: DPDK's connects but once."""
        if any(end.kind == "memif" and end.role == "client" for end in self._ends):
            self.close()

    def reconnect(self) -> None:
        """Start the server anew if `unplug` ended it."""
        if self.client is None:
            self.connect(self._ends)

    def links_down(self) -> tuple[str, ...]:
        """Ports whose link is down; in a trial, which reports its own, none."""
        if self._sending:
            return ()
        down = self.started(self.client).call("links")["down"]
        return _port_names(down)

    def prepare(
        self, streams: tuple[Stream, ...], profile: TrafficProfile, frame_size: int
    ) -> None:
        """Compile the traffic; a trial hands it over, with its counts."""
        self.started(self.client)
        self._frames = ()
        frames = compile_traffic(streams, profile, frame_size)
        self.check_frames(frames, self.plan.testbed)
        self._short = {}
        if any(end.kind == "memif" for end in self._ends):
            refuse_segmented(frames)
            outer = max(frame.size for frame in frames) - frame_size
            if frame_size + outer > LONGEST and profile.mix is None:
                short = compile_traffic(streams, profile, LONGEST - outer)
                self._short = {frame.stream.id: frame for frame in short}
        self._frames = frames

    def learn(self, frames_per_stream: int) -> None:
        """Send learning frames: of a mix one size, since each size begins with the first flow."""
        sizes = {frame.stream.id: frame.size for frame in reversed(self._frames)}
        frames: list[CompiledFrame] = []
        for stream, size in sizes.items():
            stream_frames = [f for f in self._frames if (f.stream.id, f.size) == (stream, size)]
            total_weight = sum(frame.weight for frame in stream_frames)
            frames += [
                replace(frame, weight=frame.weight / total_weight) for frame in stream_frames
            ]
        rate = learning_rate(frames_per_stream)
        plan = plan_burst(frames, frames_per_stream, rate)
        self._send(plan, frames_per_stream / rate, LEARN_SLACK_S, LEARN_DRAIN_S)

    def run(self, trial: TrialSpec, watch: Callable[[], None]) -> TrialResult:
        """Send, drain, count."""
        plan = plan_trial(self._frames, trial.load_fps, trial.duration_s, self._short)
        slack = patient(max(SLACK_S, SLACK * trial.duration_s))
        counted = self._send(
            plan, trial.duration_s, slack, trial.drain_s, full_drain=trial.full_drain, watch=watch
        )
        result = to_trial_result(
            plan,
            counted,
            trial.duration_s,
            refusal_is_loss=self.refusal_is_loss(trial),
            histogram_up_to_loss=trial.histogram_up_to_loss,
            no_probe=explain_lost_probes({end.kind for end in self._ends}, self._workers),
        )
        drained = trial.drain_s if trial.full_drain else round(counted["drained"], 4)
        return result.model_copy(
            update={"drain_s": drained, "links_down": _port_names(counted["down"])}
        )

    @property
    def _workers(self) -> int | None:
        """Workers of the server; None of a server that somebody else has started."""
        return None if self._server is None else len(self._server.threads.workers)

    def _send(
        self,
        plan: TrialPlan,
        duration: float,
        slack: float,
        drain: float,
        *,
        full_drain: bool = False,
        watch: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        """Send for a duration; what has not left `slack` later is unsent; then wait for the rest.

        All times are seconds; `full_drain` waits the whole drain.
        """
        if not self._frames:
            raise GeneratorError("no traffic is prepared", where=self.name)
        several = (self._workers or 1) > 1
        self._sending = True
        try:
            return self.started(self.client).call(
                "run",
                within_s=duration + slack + drain + GRACE_S,
                watch=watch,
                streams=plan.describe(),
                duration=duration,
                slack=slack,
                drain=drain,
                full_drain=full_drain,
                probes=list(plan.probes()),
                core_mask=PIN if several else None,
            )
        finally:
            self._sending = False

    def pollers(self) -> tuple[Pollers, ...]:
        """Its busy threads, when the server is ours."""
        if self._server is None:
            return ()
        return (Pollers(role="tester", pid=self._server.process.pid, thread_prefix="Trex DP"),)

    def facts(self) -> dict[str, Any]:
        """Versions, launch line, configuration, ports, and how latency is measured."""
        server, server_info = self._server, self._server_info
        low_end = bool(server and server.threads.low_end)
        return {
            "version": f"TRex {server_info.get('version', 'unknown')}",
            "client": f"{server_info.get('client', '')}, Python {server_info.get('python', '')}",
            "server": "ours" if server else self.config.server,
            "runs on": "the machine that carries the DUT" if server else self.config.server,
            "launch line": " ".join(server.process.argv) if server else "",
            "configuration": server.configuration if server else "",
            "ports": [
                f"{p['port']}: {p['driver']}, {p['src_mac']}, {p['speed']} Gbit/s reported"
                for p in server_info.get("ports", [])[: len(self._ends)]
            ],
            "low_end": low_end,
            "time stamps": "taken in software in probes, at most 1000/s of each direction and "
            "counted as load; whole microseconds"
            + (f"; over memif of frames of up to {LONGEST} octets" if self._short else "")
            + ("; its threads sleep up to 1 ms, which is in every latency" if low_end else ""),
            "time stamp error": "half a microsecond by its unit; what its queues and sleeping "
            "threads add is the latency in `calibrations`",
            "given up when late by (s)": f"{SLACK_S}, or {SLACK} of the trial if that is more",
        }

    def close(self) -> None:
        """Let go of the ports, end the client, end the server if it is ours."""
        client, self.client = self.client, None
        server, self._server = self._server, None
        try:
            if client is not None:
                if (
                    server is None and self._server_info
                ):  # of one that is gone nothing is to be let go
                    with contextlib.suppress(GeneratorError):
                        client.call("release")
                client.close()
        finally:
            if server is not None:
                server.process.stop(timeout_s=3.0)


def explain_lost_probes(kinds: Collection[str], workers: int | None) -> str:
    """Reason why no probe may come back although frames do; "" where probes are to come back.

    Args:
        kinds: Kinds of the tester's ends.
        workers: Workers of the server; None of a server that somebody else has started.
    """
    if (workers or 1) > 1 and "memif" in kinds:
        return "TRex with several workers on memif sees none"
    if workers is None or set(NICS).intersection(kinds):
        return (
            "the NIC's rules, by which TRex has probes picked out of the load, did not; with "
            "some NICs and versions they do not (Intel E810, NVIDIA ConnectX)"
        )
    return ""


def _port_names(numbers: Iterable[int]) -> tuple[str, ...]:
    return tuple(f"tester port {number}" for number in numbers)
