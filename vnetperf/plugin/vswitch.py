"""The contract of a vSwitch backend.

The agent makes one instance of the class for each deployment: `start`, add ports, `connect`, read
counters around trials, `stop`. Every change of the machine goes through the `Machine` it is
given.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from vnetperf.model.base import Frozen
from vnetperf.model.deployment import Attachment, Port, VnfPort, WireEnd
from vnetperf.model.errors import DutError
from vnetperf.model.frames import TunnelKind
from vnetperf.model.scenario import (
    STANDARD_FRAME_SIZE,
    Forwarding,
    Rules,
    Scenario,
)
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import Addressing, Stream
from vnetperf.model.trial import HopCounters
from vnetperf.plugin.backend import Datapath
from vnetperf.virt.endpoint import EndpointPair

#: Frames of an MTU of 9000, what drivers have in common.
JUMBO_FRAME_SIZE = 9018
NicDriver = Literal["vfio-pci", "kernel"]


class VSwitchCapabilities(Frozen):
    """What a vSwitch can do; the planner compares it with what a scenario needs.

    Attributes:
        wires: Kinds of wire its physical ports accept, in order of preference.
        attachments: Kinds of attachment it offers to VNF ports, in order of preference.
        chains: True when it distinguishes parallel chains at a physical port.
        max_frame_size: Largest frame it carries, octets including FCS.
        wire_frame_sizes: Largest frame by kind of wire, where that is less.
        modes: Names of its modes, the first being the default; empty when it has but one.
        mode_frame_sizes: Largest frame by mode, where that is less.
        mode_wires: Mode -> wires it takes, where not all do.
        rewriting_modes: Those of its modes in which it writes other MAC addresses into frames.
        rules: What it can forward by.
        forwarding: Layers it can forward at.
        translates: True for a NAT: frames come out with other addresses and ports than they came in
            with, those that `Scenario.nat` gives.
        balances: True for a load balancer: frames to a virtual address come out with that of a
            backend, as `Scenario.services` gives them.
        tunnels: Kinds of tunnel it can put frames into and take them out of.
        options: Names of the SwitchOptions it renders, apart from the mode.
        option_modes: One of these options -> modes that render it, where not all do.
        addressing: "port" when it steers by the address of the port that takes a frame in, as
            NICs with virtual functions and macvtap do; "far" when it does not care.
        nic_drivers: Drivers it can use a PCI NIC through, in order of preference.
    """

    wires: tuple[str, ...]
    attachments: tuple[str, ...]
    chains: bool = True
    max_frame_size: int = STANDARD_FRAME_SIZE
    wire_frame_sizes: dict[str, int] = Field(default_factory=dict)
    modes: tuple[str, ...] = ()
    mode_frame_sizes: dict[str, int] = Field(default_factory=dict)
    mode_wires: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    rewriting_modes: tuple[str, ...] = ()
    rules: tuple[Rules, ...] = ("port",)
    forwarding: tuple[Forwarding, ...] = ("l2",)
    translates: bool = False
    balances: bool = False
    tunnels: tuple[TunnelKind, ...] = ()
    options: tuple[str, ...] = ()
    option_modes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    addressing: Addressing = "far"
    nic_drivers: tuple[NicDriver, ...] = ()


class VSwitch(Datapath):
    """A vSwitch of one deployment. After `stop`, `start` begins anew, with no ports.

    Attributes:
        capabilities: What it can do.
        elsewhere: True when somebody else runs it: nothing of it is started, counted or reset here.
        deployments: Those that it can be in; empty for all that its capabilities allow.
    """

    elsewhere: ClassVar[bool] = False
    deployments: ClassVar[tuple[str, ...]] = ()
    capabilities: ClassVar[VSwitchCapabilities]

    @classmethod
    def adapted(cls, scenario: Scenario, testbed: Testbed) -> Scenario:
        """The scenario as a testbed has it for this vSwitch.

        Args:
            scenario: The scenario.
            testbed: The testbed.

        Returns:
            The scenario; unchanged by default.
        """
        return scenario

    @classmethod
    def largest_frame(cls, scenario: Scenario) -> int:
        """Largest frame that it carries.

        Args:
            scenario: The scenario.

        Returns:
            Octets including FCS.
        """
        can = cls.capabilities
        return min(
            can.wire_frame_sizes.get(scenario.wire, can.max_frame_size),
            can.mode_frame_sizes.get(scenario.options.mode, can.max_frame_size),
        )

    @classmethod
    def session_timeout_s(cls, scenario: Scenario) -> float | None:
        """How long a session is held of which no frame comes after its first.

        Args:
            scenario: The scenario.

        Returns:
            Seconds; None where time ends none.
        """
        return None

    @property
    def options(self) -> Any:
        """The options that it declares, an `Options`."""
        return self.plan.scenario.options.own(self.Options)

    @abstractmethod
    def start(self) -> None:
        """Start the switch, without ports.

        Raises:
            DutError: With the log's tail, when it does not come up.
        """

    @abstractmethod
    def add_phy_port(self, end: WireEnd) -> None:
        """Plug in the DUT's end of a wire as physical port `end.wire`.

        Args:
            end: The wire's end.

        Raises:
            DutError: When the switch refuses the port.
        """

    @abstractmethod
    def offer_vnf_port(self, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
        """Say where a VNF port will be, before the switch runs.

        A VNF that listens on the attachment's socket is started beside the switch, so that both
        find each other at once.

        Args:
            port: Name of the port in the deployment's graph.
            kind: One of the capabilities' attachments.
            queues: Queue pairs.

        Returns:
            Where the VNF plugs in; the deployment fills in the addresses.

        Raises:
            DutError: When there is no such attachment.
        """

    @abstractmethod
    def add_vnf_port(self, attachment: Attachment) -> None:
        """Make a port that was offered.

        Args:
            attachment: As offered.

        Raises:
            DutError: When the switch refuses the port.
        """

    @abstractmethod
    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Install the forwarding of the plan's deployment; nothing else is forwarded.

        Args:
            streams: Streams of the traffic, always those of the plan's scenario; a hop with a chain
                takes that chain's only.

        Raises:
            DutError: When the switch refuses the rules.
        """

    @abstractmethod
    def remove_port(self, port: Port) -> None:
        """Take a port away; the others stay as they are.

        Args:
            port: A port that was added.

        Raises:
            DutError: When there is no such port, or the switch refuses.
        """

    def link_came_up(self, port: Port) -> None:
        """Put back what the kernel forgot of a port when its link went down, now that it is up.

        Args:
            port: A physical port whose interface was down for a moment.
        """

    @abstractmethod
    def links_down(self) -> tuple[str, ...]:
        """Ports whose link is not up yet.

        Returns:
            Names of the ports; empty when every port is up.
        """

    def sessions(self) -> int | None:
        """Sessions that its table holds now.

        Returns:
            Their number; None for a vSwitch that has no such table.
        """
        return None

    def end_sessions(self) -> None:
        """Forget all sessions, as if it had just started.

        Raises:
            DutError: When some are left.
        """

    def endpoints(self) -> EndpointPair | None:
        """The two ends of transfers, where it has them itself and not on this machine.

        Returns:
            None, by default, where endpoints are put into the tester's place.
        """
        return None

    def fragments(self) -> int | None:
        """IPv4 fragments that it has made of packets that were too long for their next link.

        Returns:
            Their number since its start; None where that is not counted.
        """
        return None

    @abstractmethod
    def counters(self) -> tuple[HopCounters, ...]:
        """Counters of every port since it was made, read around each trial.

        A report attributes lost frames by them: count frames, and nothing else.

        Returns:
            One entry per port of the deployment: `rx` are frames that the switch took in from the
            port, `tx` frames that it put out to it.
        """

    def check_alive(self) -> None:
        """Raise when a process of the switch has ended, or what it made is gone.

        It is called while traffic runs. When it raises, the trial has no number.

        Raises:
            DutError: With the log's tail.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop it, so that `start` can begin anew.

        It is called twice where a deployment fails, and after a `start` that failed: what is gone
        already is no error.
        """

    def socket_attachment(
        self, port: VnfPort, kind: str, queues: int, directory: Path
    ) -> Attachment:
        """A socket: of vhost-user one that the VNF listens at, else the switch's in `directory`."""
        listens = kind == "vhost-user"
        socket = self.machine.vnf_socket(str(port)) if listens else str(directory / f"{port}.sock")
        return Attachment(port=port, kind=kind, socket=socket, vnf_is_server=listens, queues=queues)

    def cannot_plug(self, end: WireEnd) -> DutError:
        """The error of a wire that it does not accept.

        Args:
            end: The wire's end.

        Returns:
            The error, to be raised.
        """
        under = f" under driver {end.driver}" if end.driver else ""
        return DutError(
            f"cannot plug a {end.kind} wire{under} in",
            where=self.name,
            accepted=", ".join(self.capabilities.wires) or "none",
        )

    def no_port(self, port: Port, ports: Iterable[Port | str]) -> DutError:
        """The error of a port that it does not have.

        Args:
            port: The port.
            ports: The ports that it has.

        Returns:
            The error, to be raised.
        """
        names = ", ".join(map(str, ports)) or "none"
        return DutError(f"there is no port {port}", where=self.name, accepted=names)

    def check_kind(self, kind: str) -> None:
        """Refuse an attachment that it does not offer.

        Args:
            kind: The requested kind.

        Raises:
            DutError: When it is not among those of its capabilities.
        """
        if kind not in self.capabilities.attachments:
            offered = ", ".join(self.capabilities.attachments) or "none"
            raise DutError(f"cannot offer a {kind} attachment", where=self.name, accepted=offered)


def rxq_affinity_problem(scenario: Scenario) -> str:
    """Why the pins of a scenario cannot be applied.

    Args:
        scenario: The scenario.

    Returns:
        "" when they can; otherwise the reason and the cure.
    """
    names = [str(port) for port in scenario.deployment.ports]
    strangers = [pin.port for pin in scenario.options.rxq_affinity if pin.port not in names]
    if not strangers:
        return ""
    return (
        f"rxq_affinity names port {strangers[0]}, which {scenario.deployment.name} has not; "
        f"name one of {', '.join(names)}"
    )
