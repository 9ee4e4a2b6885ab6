"""The contract of a traffic generator: it sends and counts, and never searches."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import ClassVar, Literal, TypeVar

from vnetperf.model.base import Frozen
from vnetperf.model.deployment import WireEnd
from vnetperf.model.errors import ConfigError, GeneratorError, HostError
from vnetperf.model.frames import FIELD_NAMES, HEADERS, Encapsulation, HeaderKind, VaryField
from vnetperf.model.profile import MOST_LEARNT
from vnetperf.model.scenario import Placement, RoleDemand, Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.model.traffic import Stream, TrafficProfile
from vnetperf.model.trial import (
    LiveCounts,
    PartResult,
    PortCounts,
    TrialResult,
    TrialSpec,
    TrialWindow,
)
from vnetperf.plugin.backend import Backend
from vnetperf.plugin.compiled_frames import CompiledFrame, compile_traffic


@contextmanager
def host_failures() -> Iterator[None]:
    """Raise a failure of a generator's process as the generator's."""
    try:
        yield
    except HostError as error:
        raise GeneratorError(
            error.what, where=error.where, accepted=error.accepted, cure=error.cure
        ) from error


#: Learning frames are sent slowly, unless there are so many that it would take too long.
LEARN_FPS, LEARN_S = 10_000.0, 2.0


def learning_rate(frames: int) -> float:
    """Frames/s of a number of learning frames of a stream."""
    return max(LEARN_FPS, frames / LEARN_S)


#: Counts that are None for a generator that does not number its frames.
NUMBERED = ("duplicated", "reordered", "late", "misrouted")
#: Time between two calls of `watch` while a trial runs, seconds.
WATCH_S = 0.25


def sleep_watching(until: float, watch: Callable[[], None]) -> None:
    """Sleep until a time of the monotonic clock, and call `watch` every `WATCH_S`."""
    while (remaining_s := until - time.monotonic()) > 0:
        time.sleep(min(remaining_s, WATCH_S))
        if remaining_s > WATCH_S:
            watch()


Part = TypeVar("Part")


class GeneratorCapabilities(Frozen):
    """What a generator can do.

    Attributes:
        wires: Kinds of wire it can plug into, in order of preference.
        latency_histogram: True when the latency of frames comes as a histogram.
        latency_definition: What its time stamps stand for, by RFC 1242 section 3.8: a frame is
            stamped when all of it has been handed over ("store-and-forward"), or when its first
            bit has ("bit-forwarding").
        exact_bursts: True when it can send an exact count back to back.
        max_frame_size: Largest frame it sends as it is deployed, octets including FCS.
        attachments: Kinds of attachment it can take the place of a VNF at.
        tunnels: Kinds of tunnel it can send frames in.
        nic_drivers: Drivers it can use a PCI NIC through, in order of preference.
        mixes_devices: True when it can drive a NIC itself while its other port is no NIC, as in a
            VNF's place.
        headers: Kinds of header that it can send.
        vary: Fields that it can vary.
        random_fields: True when it can pick values at random.
        max_flows: Most flows of a stream, those that fields out of step make as well
            (`TrafficProfile.flow_count`); None: as many as a profile makes.
        imix: True when it can send a mix of frame sizes.
        asymmetric: True when it can send different loads into the two ports.
        broadcast: True when it can send a share of a stream's frames to the broadcast address, and
            count them apart.
        paced_bursts: True when it can meet a load with bursts of a given length.
        answers: True when its ports answer ARP requests and neighbour solicitations.
        capture: True when it can keep frames of a trial for pcap files.
        changing_load: True when the load can change within a trial (`TrialSpec.steps`).
        timelines: True when it can count frames over time within a trial (`TrialSpec.bin_s`).
        outlives_switch: True when it goes on sending while what it is plugged into is restarted
            (`TrialSpec.event`).
        tagged_latency: True when it can time only frames sent after a moment
            (`TrialSpec.tag_at_s`).
        max_workers: Most threads that it can send and receive from (`cores.tester`).
        apart: True when its ports can be on two hosts, each in a process of its own (`run_part`).
        sessions: True when it sends through a NAT: listed addresses and ports, and counts a frame
            only where it comes back with those that it must have then.
    """

    wires: tuple[str, ...]
    attachments: tuple[str, ...] = ()
    tunnels: tuple[Encapsulation, ...] = ()
    nic_drivers: tuple[str, ...] = ()
    mixes_devices: bool = True
    latency_histogram: bool = False
    latency_definition: Literal["store-and-forward", "bit-forwarding"] = "store-and-forward"
    exact_bursts: bool = False
    max_frame_size: int = 1518
    headers: frozenset[HeaderKind] = frozenset(HEADERS)
    vary: frozenset[VaryField] = frozenset(FIELD_NAMES)
    random_fields: bool = True
    max_flows: int | None = None
    imix: bool = True
    asymmetric: bool = False
    broadcast: bool = False
    paced_bursts: bool = False
    answers: bool = False
    capture: bool = False
    changing_load: bool = False
    timelines: bool = False
    outlives_switch: bool = False
    tagged_latency: bool = False
    max_workers: int = 1
    apart: bool = False
    sessions: bool = False


class TrafficGenerator(Backend):
    """A traffic generator of one deployment; its machine is the tester's.

    Attributes:
        on_sent: Called by `run` when sending is over and the wait for what is in flight begins, by
            a generator that can tell; by others never.
    """

    capabilities: ClassVar[GeneratorCapabilities]
    on_sent: Callable[[], None] = staticmethod(lambda: None)

    @classmethod
    def roles(cls) -> tuple[RoleDemand, ...]:
        """Busy threads it runs.

        Returns:
            Demands; by default one thread, which sends and receives on all ports.
        """
        return (RoleDemand(role="tester", threads=1, group="tester"),)

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
        """Why it cannot plug into a kind of wire in this scenario.

        Args:
            wire: Kind of wire, one of `capabilities.wires`.
            queues: Queues that the other end sends on.
            scenario: The scenario.
            placement: Cores.
            testbed: Its own section may name a server elsewhere.
            facts: The machine, with the programs found there.

        Returns:
            "" or the reason and the cure.
        """
        return ""

    @classmethod
    def cannot_send(cls, scenario: Scenario, testbed: Testbed) -> str:
        """Why it cannot send a scenario's traffic, where its capabilities do not state it.

        Args:
            scenario: The scenario, whose traffic fits the capabilities.
            testbed: Its own section may name a server elsewhere.

        Returns:
            "" or what it cannot send, and what it accepts.
        """
        return ""

    @classmethod
    def lacks(cls, trial: TrialSpec) -> str:
        """Parts of a trial that it cannot do, whatever is deployed.

        Args:
            trial: The trial.

        Returns:
            "" or what it cannot do.
        """
        can = cls.capabilities
        required = {
            "send bursts of an exact length": bool(trial.burst) > can.exact_bursts,
            "change the load within a trial": bool(trial.steps) > can.changing_load,
            "count frames over time within a trial": trial.bin_s > 0 and not can.timelines,
            "go on while the DUT is restarted": trial.event is not None and not can.outlives_switch,
            "time only frames sent after a moment": trial.tag_at_s > 0 and not can.tagged_latency,
        }
        return ", nor ".join(ability for ability, missing in required.items() if missing)

    @classmethod
    def hugepage_mib(cls, scenario: Scenario, kinds: tuple[str, ...]) -> int:
        """Hugepage memory it needs.

        Args:
            scenario: The scenario: its MTU and queues matter.
            kinds: Kinds of wire and attachment its ports plug into.

        Returns:
            MiB; 0 for none.
        """
        return 0

    @classmethod
    def build_for_lab(cls) -> None:
        """Build what it runs for any processor, before the virtual lab starts.

        The lab sees what is built here, and would take minutes for it.

        Raises:
            HostError: It cannot be built.
        """

    @classmethod
    def identity(cls) -> str:
        """What a stored calibration of it depends on, besides the machine: its own build.

        Returns:
            A version or digest; "" when its name is enough.
        """
        return ""

    @abstractmethod
    def connect(self, ends: tuple[WireEnd, ...]) -> None:
        """Start the generator and plug it into the tester's ends of the wires.

        Args:
            ends: One end per port, by port number.

        Raises:
            GeneratorError: When it does not start.
        """

    def unplug(self) -> None:
        """Let go of far ends that are about to go, where they would not be found again.

        With `capabilities.outlives_switch` a trial goes on meanwhile; what is due there is refused.
        """

    def reconnect(self) -> None:
        """Plug in again, after far ends have come back, what `unplug` let go of.

        Outside a trial traffic has to be prepared again then.

        Raises:
            GeneratorError: When it cannot.
        """

    @abstractmethod
    def links_down(self) -> tuple[str, ...]:
        """Ports whose link is not up yet.

        Returns:
            Names of the ports; empty when every port is up.
        """

    def check_alive(self) -> None:
        """Raise when it has ended, or is stopped. Called often while a trial runs.

        Raises:
            GeneratorError: With the log's tail.
        """

    def port_counters(self) -> tuple[PortCounts, ...]:
        """What its ports have counted since their start besides frames of streams.

        Returns:
            One entry for each port; empty where it counts nothing of the kind.
        """
        return ()

    @abstractmethod
    def prepare(
        self, streams: tuple[Stream, ...], profile: TrafficProfile, frame_size: int
    ) -> None:
        """Compile the traffic for this generator.

        Args:
            streams: What is sent.
            profile: Flows.
            frame_size: Octets including FCS.

        Raises:
            GeneratorError: When it cannot express the traffic.
        """

    @abstractmethod
    def learn(self, frames_per_stream: int) -> None:
        """Send learning frames; they are never counted in a trial.

        Args:
            frames_per_stream: Frames of each stream.
        """

    def refusal_is_loss(self, trial: TrialSpec) -> bool:
        """Whether a frame that the wire does not take counts as lost.

        Args:
            trial: The trial.

        Returns:
            True where the far end is the DUT's own ring; and in a trial with an event: a port that
            is down takes no frames, and these were offered to it.
        """
        return self.plan.refusal_is_loss or trial.event is not None

    @abstractmethod
    def run(self, trial: TrialSpec, watch: Callable[[], None]) -> TrialResult:
        """Send for the trial's duration, drain, and count.

        Args:
            trial: The trial; `prepare` was called for its frame size.
            watch: Called about every half second while traffic runs; what it raises aborts the
                trial, and traffic has stopped when it is seen outside.

        Returns:
            Counts of each direction, without hops and threads.

        Raises:
            GeneratorError: When the generator died; there is no number then.
        """

    def run_part(
        self,
        trial: TrialSpec,
        window: TrialWindow,
        watch: Callable[[], None],
        receives: Callable[[], None],
    ) -> PartResult:
        """Run a trial whose other port is on another host (`capabilities.apart`).

        Args:
            trial: As of `run`.
            window: As at the other host.
            watch: As of `run`.
            receives: Called once frames of the trial are counted; sending begins no sooner than
                `window.lead_s` after this call of the method.

        Returns:
            What was counted here; where `window.two_clocks`, what this side knows of round trips
            besides, or nothing: then there is no latency.

        Raises:
            GeneratorError: As of `run`; it is not made for it.
        """
        raise GeneratorError("its ports are on one host", where=self.name)

    def live(self) -> LiveCounts | None:
        """Counts of the running trial; called from the `watch` of `run`.

        Returns:
            Counts so far; None when the generator has none, or not now.
        """
        return None

    def captured(self) -> dict[str, bytes]:
        """Frames kept of the last trial, as `TrialSpec.capture` requests.

        Returns:
            Name such as "port0-sent.pcap" -> octets of the file.
        """
        return {}

    @abstractmethod
    def close(self) -> None:
        """Stop it.

        It is called twice where a deployment fails, and after a `connect` that failed: what is gone
        already is no error.
        """

    def started(self, part: Part | None) -> Part:
        """A part that there is from `connect` to `close`.

        Args:
            part: The part.

        Returns:
            The part.

        Raises:
            GeneratorError: It is None.
        """
        if part is None:
            raise GeneratorError("the generator has not been started", where=self.name)
        return part


class ExternalGenerator(TrafficGenerator):
    """A third party's program, started by the run or running elsewhere (`server` in its section).

    Attributes:
        not_found: Message when its program, the first of `programs`, was not found.
        longest: Octets, including FCS, of the frames that `cannot_send` looks at.
    """

    not_found: ClassVar[str]
    longest: ClassVar[int]

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """Whether the program is here, or a server is named."""
        trouble = facts.missing_program(cls.programs[0])
        probed = not trouble or cls.programs[0].name in facts.program_troubles
        return trouble if probed else cls.not_found

    @classmethod
    @abstractmethod
    def check_frames(cls, frames: Sequence[CompiledFrame], testbed: Testbed) -> None:
        """Refuse frames that it cannot send.

        Args:
            frames: The traffic.
            testbed: Its own section may name a server elsewhere.

        Raises:
            GeneratorError: It cannot send them.
        """

    @classmethod
    def cannot_send(cls, scenario: Scenario, testbed: Testbed) -> str:
        """What `check_frames` refuses."""
        with suppress(ConfigError):  # reported where the profile is checked
            frames = compile_traffic(scenario.streams, scenario.traffic, cls.longest)
            try:
                cls.check_frames(frames, testbed)
            except GeneratorError as error:
                return error.what + (f" ({error.accepted})" if error.accepted else "")
        return ""


def server_address(server: str, form: str, *default_ports: int) -> tuple[str, tuple[int, ...]]:
    """Host and ports of a server, named as its form: "HOST", or "HOST" with all ports."""
    host, *ports = server.split(":")
    numbers = all(port.isdecimal() and 0 < int(port) < 1 << 16 for port in ports)
    if not (host and numbers and len(ports) in (0, len(default_ports))):
        raise ValueError(f'a server is "HOST" or "{form}", a port 1 to 65535')
    return host, tuple(map(int, ports)) or default_ports


def count_session_flows(streams: Sequence[Stream], profile: TrafficProfile) -> int:
    """Frames of a stream until each flow of a mobile core's sessions was sent; 0 without them.

    Also 0 where these are more than can be learnt before each trial.
    """
    bearer_streams = [stream for stream in streams if stream.bearers]
    frames = compile_traffic(bearer_streams, profile, profile.least_frame_size)
    flows = max((frame.flows for frame in frames), default=0)
    return flows if flows <= max(profile.flows, MOST_LEARNT) else 0
