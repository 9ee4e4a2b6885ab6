"""What vSwitches and container networks have in common: the DUT that a deployment puts up.

The agent makes one instance of the class for each deployment: `start`, add ports, `connect`, read
counters around trials, `stop`. Every change of the machine goes through the `Machine` it is
given. Planner, deployment, trials and events know a vSwitch and a network by this contract alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from pydantic import Field

from vnetperf.model.base import Frozen
from vnetperf.model.deployment import Attachment, Deployment, Port, VnfPort, WireEnd
from vnetperf.model.errors import DutError
from vnetperf.model.frames import TunnelKind
from vnetperf.model.machine_load import DatapathWork
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
from vnetperf.plugin import registry
from vnetperf.plugin.backend import Backend
from vnetperf.virt.endpoint import EndpointPair

#: Frames of an MTU of 9000, what drivers have in common.
JUMBO_FRAME_SIZE = 9018
NicDriver = Literal["vfio-pci", "kernel"]


class DutCapabilities(Frozen):
    """What a DUT can do; the planner compares it with what a scenario needs.

    Attributes:
        wires: Kinds of wire its physical ports accept, in order of preference.
        attachments: Kinds of attachment it offers to VNF ports, in order of preference.
        chains: True when it distinguishes parallel chains at a physical port.
        max_frame_size: Largest frame it carries, octets including FCS.
        modes: Names of its modes, the first being the default; empty when it has but one.
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
    modes: tuple[str, ...] = ()
    rules: tuple[Rules, ...] = ("port",)
    forwarding: tuple[Forwarding, ...] = ("l2",)
    frame_change: str = ""
    tunnels: tuple[TunnelKind, ...] = ()
    options: tuple[str, ...] = ()
    option_modes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    addressing: Addressing = "far"
    nic_drivers: tuple[NicDriver, ...] = ()


class Dut(Backend):
    """What is between the tester's ports, or between endpoints: a vSwitch or a network.

    After `stop`, `start` begins anew, with no ports.

    Attributes:
        capabilities: What it can do.
        Options: Options that it has beyond those of its capabilities: users give them by `--set`
            and in files under conf/switch/. Each has a default.
        elsewhere: True when somebody else runs it: nothing of it is started, counted or reset here.
        owns_endpoints: True when the ends of transfers are its own, and not on this machine.
        starts_s: Longest that a deployment may wait for what it starts beyond its usual time,
            seconds.
    """

    capabilities: ClassVar[DutCapabilities]
    Options: ClassVar[type[Frozen]] = Frozen
    elsewhere: ClassVar[bool] = False
    owns_endpoints: ClassVar[bool] = False
    starts_s: ClassVar[float] = 0.0

    @property
    def mode(self) -> str:
        """The mode the scenario requests, or the first; "" when there is but one."""
        modes: tuple[str, ...] = self.capabilities.modes
        return self.plan.scenario.options.mode or next(iter(modes), "")

    @classmethod
    def adapted(cls, scenario: Scenario, testbed: Testbed) -> Scenario:
        """The scenario as a testbed has it for this DUT.

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
        return cls.capabilities.max_frame_size

    @classmethod
    def list_attachments(cls, scenario: Scenario) -> tuple[str, ...]:
        """Kinds of attachment that it offers in a scenario; by default all of its capabilities.

        Args:
            scenario: The scenario.

        Returns:
            Kinds in order of preference.
        """
        return cls.capabilities.attachments

    @classmethod
    def find_frames_problem(cls, scenario: Scenario) -> str:
        """Why no tester can send frames through it, though it can be deployed.

        Args:
            scenario: The scenario.

        Returns:
            The reason and the cure; "" where frames can be sent.
        """
        return ""

    @classmethod
    def find_restart_problem(cls, scenario: Scenario) -> str:
        """Why it cannot be restarted in the middle of a trial.

        Args:
            scenario: The scenario.

        Returns:
            The reason; "" where it can.
        """
        return ""

    @classmethod
    def offloads_cables(cls, scenario: Scenario) -> bool:
        """Whether cables to other hosts keep their checksum and segmentation offloads.

        Args:
            scenario: The scenario.

        Returns:
            False by default: a tester's frames are as they are.
        """
        return False

    @classmethod
    def tools(cls, facts: MachineFacts) -> tuple[str, ...] | None:
        """Endpoint tools that its own ends have, where these are not the machine's.

        Args:
            facts: The machine.

        Returns:
            Their names; None, by default, where programs are the machine's.
        """
        return None

    @classmethod
    def roles(cls, scenario: Scenario) -> tuple[RoleDemand, ...]:
        """Poll-mode threads it would run, of a network on all hosts; none in the kernel."""
        return ()

    @classmethod
    def hugepage_mib(cls, scenario: Scenario) -> int:
        """Hugepage memory it needs, of a network on all hosts, MiB; 0 for none."""
        return 0

    @classmethod
    def tx_queues(cls, scenario: Scenario, placement: Placement) -> int:
        """Queues it sends on at a physical port, or to a pod's socket; the other end polls all."""
        return 1

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """What it starts, for `--plan`, as far as that is known: program -> command line."""
        return {}

    @classmethod
    def nics_missing(cls, nics: tuple[NicUse, ...], facts: MachineFacts, scenario: Scenario) -> str:
        """What NICs of wires or the hosts' link lack for it, with the cure; "" for nothing."""
        return ""

    @property
    def options(self) -> Any:
        """The options that it declares, an `Options`."""
        return self.plan.scenario.options.own(self.Options)

    @abstractmethod
    def start(self) -> None:
        """Start it, without ports.

        Raises:
            DutError: With the log's tail, when it does not come up.
        """

    @abstractmethod
    def add_phy_port(self, end: WireEnd) -> None:
        """Plug in the DUT's end of a wire as physical port `end.wire`.

        Args:
            end: The wire's end.

        Raises:
            DutError: When it refuses the port.
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
            DutError: When it refuses the port.
        """

    @abstractmethod
    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Install the forwarding of the plan's deployment; nothing else is forwarded.

        Args:
            streams: Streams of the traffic, always those of the plan's scenario; a hop with a chain
                takes that chain's only.

        Raises:
            DutError: When it refuses the rules.
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

    def before_trial(self) -> None:
        """Get ready for a trial: `datapath_work` is read next, then its frames are sent."""

    def datapath_work(self) -> tuple[DatapathWork, ...]:
        """What each forwarding thread counts by itself: packets, cycles, lookups; or none.

        It is read before and after each trial, while no frames flow.
        """
        return ()

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
            DutError: When it is not among those that it offers.
        """
        offered = self.list_attachments(self.plan.scenario)
        if kind not in offered:
            accepted = ", ".join(offered) or "none"
            raise DutError(f"cannot offer a {kind} attachment", where=self.name, accepted=accepted)


def load_dut(graph: Deployment, name: str) -> type[Dut]:
    """Import the class of what joins a deployment's ports.

    Args:
        graph: The deployment.
        name: Name of a vSwitch, or of a network where the deployment has pods.

    Returns:
        The class.

    Raises:
        ConfigError: No such backend is installed.
    """
    dut: type[Dut] = registry.load(graph.dut_family, name)
    return dut
