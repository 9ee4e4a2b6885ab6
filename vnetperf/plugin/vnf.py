"""The contract of a VNF loader."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, NamedTuple

from vnetperf.host.machine import Machine
from vnetperf.model.deployment import Attachment, WireEnd
from vnetperf.model.errors import DutError
from vnetperf.model.machine_load import DatapathWork
from vnetperf.model.scenario import STANDARD_FRAME_SIZE, Plan, RoleDemand, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.plugin.backend import Backend
from vnetperf.virt.endpoint import Endpoint, EndpointPair


class VnfMemory(NamedTuple):
    """Memory that one VNF requires.

    Attributes:
        mib: Hugepages, MiB; 0 for none.
        page_kb: Size of the pages, KiB; None for the testbed's.
        floats: True when the memory of an unpinned VNF is on any node, as the kernel decides.
        node: NUMA node that the user has chosen for it; None for the VNFs'.
        ordinary_mib: Memory in ordinary pages beside what a program takes for itself, MiB: of a
            guest without hugepages.
    """

    mib: int = 0
    page_kb: int | None = None
    floats: bool = False
    node: int | None = None
    ordinary_mib: int = 0


class Vnf(Backend):
    """One VNF of a deployment.

    Args:
        machine: The machine it runs on; every lasting change goes through it.
        plan: The plan it belongs to.
        number: 0-based number of the VNF in the deployment.

    Attributes:
        places: Where it can run besides as a process on the host: "vm", "container" -> the class
            that implements the contract there, "module:Class". Users write "vloop:vm".
        attachments: Kinds of attachment it plugs into.
        modes: Ways it forwards.
    """

    places: ClassVar[Mapping[str, str]] = {}
    attachments: ClassVar[tuple[str, ...]]
    modes: ClassVar[tuple[str, ...]]
    #: Largest frame it forwards, octets including FCS.
    max_frame_size: ClassVar[int] = STANDARD_FRAME_SIZE
    #: True when it opens a tap with IFF_MULTI_QUEUE even for one queue, as DPDK does.
    opens_multi_queue: ClassVar[bool] = True

    def __init__(self, machine: Machine, plan: Plan, number: int) -> None:
        super().__init__(machine, plan)
        self.number = number

    @property
    def role(self) -> str:
        """Role of its forwarding threads, "vnf0"."""
        return f"vnf{self.number}"

    @property
    def path_s(self) -> float:
        """Longest time until it forwards that nothing but frames can show; 0 for none, seconds."""
        return 0.0

    def last_output(self) -> str:
        """Its last output, for the error when no frame comes through; "" when there is none."""
        return ""

    @classmethod
    def accepts(cls, scenario: Scenario) -> tuple[str, ...]:
        """Kinds of attachment it plugs into in the scenario's mode.

        Args:
            scenario: The scenario.

        Returns:
            Kinds, among its `attachments`.
        """
        return cls.attachments

    @classmethod
    def narrowed_by(cls, scenario: Scenario) -> str:
        """Why it accepts fewer kinds than it could.

        Args:
            scenario: The scenario.

        Returns:
            " in mode route": what stands after its name in a message.
        """
        return f" in mode {scenario.vnf_mode}"

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts, number: int) -> dict[str, str]:
        """What it starts, for `--plan`, as far as it is known before deployment.

        Args:
            plan: The plan without commands.
            facts: The machine.
            number: Number of the VNF.

        Returns:
            What -> how, in one line.
        """
        return {}

    @classmethod
    def roles(cls, scenario: Scenario, number: int) -> tuple[RoleDemand, ...]:
        """Poll-mode threads of one VNF in the scenario's mode.

        Args:
            scenario: The scenario.
            number: Number of the VNF.

        Returns:
            Demands, one thread by default; empty where the kernel forwards.
        """
        return (RoleDemand(role=f"vnf{number}", group="vnf"),)

    @classmethod
    def memory(cls, scenario: Scenario, attachment: str) -> VnfMemory:
        """Memory one VNF requires beside what any program takes.

        Args:
            scenario: The scenario: its MTU and queues matter.
            attachment: Kind of attachment it plugs into.

        Returns:
            The memory, none by default.
        """
        return VnfMemory()

    @abstractmethod
    def launch(self, attachments: tuple[Attachment, Attachment]) -> None:
        """Begin to start the VNF between its two attachments; others are launched after it.

        Args:
            attachments: Where its ports 0 and 1 plug in.

        Raises:
            DutError: With the log's tail, when it does not start.
        """

    @abstractmethod
    def wait_ready(self, timeout_s: float) -> None:
        """Wait until it forwards: in a thread of its own, while others are waited for.

        The first VNF that fails ends the deployment: `stop` is then called meanwhile, and this
        returns with an error. It is called again after a restart of the vSwitch.

        Args:
            timeout_s: Longest wait, seconds.

        Raises:
            DutError: When it died or is not ready in time.
        """

    @abstractmethod
    def counters(self) -> tuple[HopCounters, ...]:
        """Counters the VNF itself keeps, one entry per port; empty when it has none to read.

        Returns:
            Counters since the VNF was launched.
        """

    def datapath_work(self) -> tuple[DatapathWork, ...]:
        """What its forwarding threads count by themselves; none by default.

        It is read before and after each trial, while no frames flow.

        Returns:
            Counts since the VNF was launched, of each thread; its name begins with `role`.
        """
        return ()

    @abstractmethod
    def check_alive(self) -> None:
        """Raise when the VNF has ended.

        Raises:
            DutError: With the log's tail.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop it.

        It is called twice where a deployment fails, and after a `launch` that failed: what is gone
        already is no error.
        """


class UserPlane(Vnf):
    """A VNF that is a mobile core: its port 0 takes users' packets in GTP-U.

    Attributes:
        wires: Kinds of wire that the tester must be on, because the VNF has business of its own at
            the tester's end; empty for any.
        ends_with_users: True when `users` ends the sessions that trials need.
        tester_ends: The tester's ends of the wires, from the moment that it is plugged in.
    """

    wires: ClassVar[tuple[str, ...]] = ()
    ends_with_users: ClassVar[bool] = False
    tester_ends: tuple[WireEnd, ...] = ()

    @abstractmethod
    def streams(self, streams: tuple[Stream, ...]) -> tuple[Stream, ...]:
        """Streams with what is known only once it is ready, such as sessions of UEs.

        Args:
            streams: The scenario's.

        Returns:
            As many, with the same ids.
        """

    @classmethod
    @abstractmethod
    def no_users(cls, facts: MachineFacts, plan: Plan) -> str:
        """What keeps `users` from being possible, before anything is deployed.

        Args:
            facts: The machine.
            plan: The plan.

        Returns:
            "" when nothing does; otherwise what and the cure, in one sentence.
        """

    @abstractmethod
    def users(self, ends: tuple[WireEnd, ...]) -> AbstractContextManager[EndpointPair]:
        """Put a user and a server in the tester's places.

        Args:
            ends: The tester's ends of the wires; the tester has let go of them.

        Returns:
            The user as the client's end, and the server; the ends of the wires are as they were
            when it is over.

        Raises:
            CapabilityError: They cannot plug in there.
            DutError: It has ended, or a user cannot attach.
        """


class EndpointHost(Vnf):
    """A VNF with a kernel in which programs can have an address.

    Attributes:
        alone: The class of one with a single port, which does not forward; None: there is none.
    """

    alone: ClassVar[type[EndpointHost] | None] = None

    def launch_alone(self, attachment: Attachment) -> None:
        """Begin to start one with a single port, which `inside` gives an address.

        Args:
            attachment: Where it plugs in.

        Raises:
            DutError: It does not start, or is none of the kind.
        """
        raise DutError("it has two ports", where=f"{self.name}, {attachment.port}")

    @classmethod
    @abstractmethod
    def no_inside(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps `inside` from being possible, before anything is deployed.

        Args:
            facts: The machine.
            scenario: The scenario.

        Returns:
            "" when nothing does; otherwise what and the cure, in one sentence.
        """

    @classmethod
    def lacks_inside(cls, scenario: Scenario, programs: Sequence[str]) -> str:
        """Which programs cannot be run in it, as far as that is known before it is deployed.

        Args:
            scenario: The scenario.
            programs: Their names.

        Returns:
            "" when it has them, or nobody knows; otherwise what is missing and the cure.
        """
        return ""

    @abstractmethod
    def inside(self, address: str) -> AbstractContextManager[Endpoint]:
        """Give its port 0 an address, for programs that run in it.

        Args:
            address: IPv4 address, of the network beyond port 0.

        Returns:
            The endpoint.

        Raises:
            HostError: The address cannot be set.
        """
