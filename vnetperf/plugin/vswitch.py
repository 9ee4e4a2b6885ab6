"""The contract of a vSwitch backend.

The agent makes one instance of the class for each deployment: `start`, add ports, `connect`, read
counters around trials, `stop`. Every change of the machine goes through the `Machine` it is
given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from vnetperf.host.machine import Machine
from vnetperf.model.base import Frozen
from vnetperf.model.deployment import Attachment, Port, VnfPort, WireEnd
from vnetperf.model.errors import DutError
from vnetperf.model.frames import TunnelKind
from vnetperf.model.scenario import (
    STANDARD_FRAME_SIZE,
    Forwarding,
    NicUse,
    Placement,
    Plan,
    RoleDemand,
    Rules,
    Scenario,
)
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.model.traffic import Addressing, Stream
from vnetperf.model.trial import HopCounters
from vnetperf.plugin.backend import Datapath, optional
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
        frame_change: What it does to addresses and ports of frames, by the key of the kind of
            `FrameChange`: "nat", "services"; "" for nothing.
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
    frame_change: str = ""
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


class HasSessions(ABC):
    """What a vSwitch with connection tracking has besides: a table of sessions."""

    @classmethod
    def session_timeout_s(cls, scenario: Scenario) -> float | None:
        """How long a session is held of which no frame comes after its first.

        Args:
            scenario: The scenario.

        Returns:
            Seconds; None where time ends none.
        """
        return None

    @abstractmethod
    def sessions(self) -> int:
        """Count the sessions that its table holds now.

        Returns:
            Their number.
        """

    @abstractmethod
    def end_sessions(self) -> None:
        """Forget all sessions, as if it had just started.

        Raises:
            DutError: When some are left.
        """


class ModalSwitch(VSwitch):
    """A vSwitch each of whose modes is a class of its own: what is registered hands on to it.

    Attributes:
        modes: Mode -> its class; the first is the default. A new one is a line there, and its name
            in `modes` of the capabilities. Programs and modules of each mode are optional ones of
            the whole, beside those that the class itself declares.
    """

    modes: ClassVar[Mapping[str, type[VSwitch]]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        classes = getattr(cls, "modes", {}).values()  # a base of others has none yet
        programs = {
            requirement.name: requirement
            for mode in classes
            for requirement in optional(*mode.programs)
        }
        modules = {
            requirement.name: requirement
            for mode in classes
            for requirement in optional(*mode.kernel_modules)
        }
        programs |= {
            requirement.name: requirement for requirement in cls.__dict__.get("programs", ())
        }
        modules |= {
            requirement.name: requirement for requirement in cls.__dict__.get("kernel_modules", ())
        }
        cls.programs, cls.kernel_modules = tuple(programs.values()), tuple(modules.values())

    def __new__(cls, machine: Machine, plan: Plan) -> Any:
        """The mode that a plan requests."""
        return cls.mode_class(plan.scenario)(machine, plan)

    @classmethod
    def mode_class(cls, scenario: Scenario) -> type[VSwitch]:
        """The class of a scenario's mode; an unknown mode is refused by its capabilities."""
        return cls.modes.get(scenario.options.mode, next(iter(cls.modes.values())))

    @classmethod
    def adapted(cls, scenario: Scenario, testbed: Testbed) -> Scenario:
        """The scenario as the mode has it."""
        return cls.mode_class(scenario).adapted(scenario, testbed)

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What the mode lacks, or an option of another one."""
        mode = cls.mode_class(scenario)
        for name in scenario.options.given():
            if name in cls.Options.model_fields and name not in mode.Options.model_fields:
                return f"the mode has no option {name}; leave it out, or choose another mode"
        return mode.missing(facts, scenario)

    @classmethod
    def sends_native_xdp(cls, scenario: Scenario) -> bool:
        """Whether the mode is one of native XDP."""
        return cls.mode_class(scenario).sends_native_xdp(scenario)

    @classmethod
    def nics_missing(cls, nics: tuple[NicUse, ...], facts: MachineFacts, scenario: Scenario) -> str:
        """What the NICs lack for the mode."""
        return cls.mode_class(scenario).nics_missing(nics, facts, scenario)

    @classmethod
    def roles(cls, scenario: Scenario) -> tuple[RoleDemand, ...]:
        """Threads of the mode."""
        return cls.mode_class(scenario).roles(scenario)

    @classmethod
    def hugepage_mib(cls, scenario: Scenario) -> int:
        """Hugepages of the mode."""
        return cls.mode_class(scenario).hugepage_mib(scenario)

    @classmethod
    def fixed_mib(cls, scenario: Scenario, kinds: Collection[str]) -> dict[int, int]:
        """Hugepages of the mode that are on certain nodes."""
        return cls.mode_class(scenario).fixed_mib(scenario, kinds)

    @classmethod
    def tx_queues(cls, scenario: Scenario, placement: Placement) -> int:
        """Queues that the mode sends on."""
        return cls.mode_class(scenario).tx_queues(scenario, placement)

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """What the mode shows in `--plan`."""
        return cls.mode_class(plan.scenario).launch_lines(plan, facts)


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
