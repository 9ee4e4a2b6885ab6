"""A scenario (deployment x vSwitch x VNF x traffic), its variants in a comparison.

And its plan on a testbed.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from ipaddress import IPv4Address
from typing import Literal, NamedTuple

from pydantic import Field

from vnetperf.model.addresses import TEST_ADDRESSES, AddressPlan
from vnetperf.model.base import Frozen
from vnetperf.model.deployment import (
    Deployment,
    MacAddress,
    Name,
    PhyPort,
    Port,
    VnfPort,
    dut_mac,
    make_deployment,
    peer_mac,
    port_mac,
    vnf_mac,
)
from vnetperf.model.errors import ConfigError
from vnetperf.model.frame_change import NEW_SESSIONS
from vnetperf.model.frames import (
    CABLE_PREFIX,
    DUT_ADDRESS,
    GTPU,
    PREFIX,
    TESTER_ADDRESS,
    VNI,
    TunnelKind,
    overhead,
)
from vnetperf.model.options import GuestOptions, MobileCore, MobileCoreOptions, SwitchOptions
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import Addressing, ChangedFrames, Stream, make_streams

#: What a setting is given: one value, or several "KEY=VALUE" texts.
Value = str | int | tuple[str, ...]


class Variant(Frozen):
    """Settings laid over the user's own, as if typed last.

    Attributes:
        id: What tells it from the others, "rx_queues=2"; "" for no variant at all.
        settings: Name of a setting and its value, in the order in which they are laid over.
    """

    id: str = ""
    settings: tuple[tuple[str, Value], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.id)

    @property
    def typed(self) -> tuple[str, ...]:
        """The settings as a user would type them: "--set rx_queues=2"."""
        words = []
        for key, value in self.settings:
            values = value if isinstance(value, tuple) else (str(value),)
            words += [f"--{key.replace('_', '-')} {choice}" for choice in values]
        return tuple(words)

    def and_also(self, other: Variant) -> Variant:
        """Both, as one variant of a cross product; the other's settings are laid over these."""
        ids = ",".join(part for part in (self.id, other.id) if part)
        return Variant(id=ids, settings=self.settings + other.settings)


class Comparison(Frozen):
    """Variants of one scenario that are measured to be compared with each other.

    Attributes:
        title: What it finds out, in one sentence; "" when the test case does not say.
        scenario: The scenario without a variant, "pvp_dpdk".
        variants: In the order in which they are to be shown.
        measures: The test that the test case's mark names; "" where it has none.
    """

    name: str
    title: str = ""
    scenario: str
    variants: tuple[Variant, ...]
    measures: str = ""


Forwarding = Literal["l2", "l3"]
Rules = Literal["port", "stream", "learning"]
VnfPlacement = Literal["auto", "local", "remote", "unpinned"]
PodHosts = Literal["same", "other"]
#: What a pod is: namespaces of its network and host name, or a container of runc, made by itself,
#: by podman, or by a containerd that is asked by the Kubernetes CRI.
PodKind = Literal["netns", "runc", "podman", "cri"]

#: Largest frame of an MTU of 1500, and what Ethernet adds to an MTU (header 14, FCS 4).
STANDARD_FRAME_SIZE, ETHERNET_OCTETS = 1518, 18
#: Longest that setting a session up takes, all attempts together, seconds: both ways are sent at
#: 40,000 frames/s first, and at an eighth of that in the end.
SET_UP_S = 1.5e-3
#: Longest that the setting up of a guest takes once its agent answers, seconds.
GUEST_SET_UP_S = 120.0


#: Modes in which a VNF addresses frames to whoever takes them in next, and in which it addresses
#: them back to where they came from.
ADDRESSING_MODES, SWAPPING_MODES = ("mac", "route"), ("macswap", "5tswap")


class HopAddresses(NamedTuple):
    """Frames of a stream on a hop: they enter the vSwitch by port `src` and leave by `dst`."""

    stream: Stream
    src: Port
    dst: Port
    eth_src: str
    eth_dst: str


class TunnelEnd(NamedTuple):
    """The DUT's end of a tunnel: of the tester's, or over a cable of one to another vSwitch.

    Attributes:
        port: Physical port at which frames are in the tunnel.
        number: Its number among those of the vSwitch.
        local: Outer IPv4 address of this end.
        remote: Outer IPv4 address of the other end.
        prefix: Length of their network's prefix.
        mac: Outer MAC address of this end.
        peer_mac: Outer MAC address of the other end.
        vni: Network identifier of VXLAN and Geneve.
    """

    port: Port
    number: int
    local: str
    remote: str
    prefix: int
    mac: str
    peer_mac: str
    vni: int


class Scenario(ChangedFrames):
    """What is deployed and measured.

    Attributes:
        vswitch: Registered name of the vSwitch; of a deployment of pods, of their network.
        vnf: Registered name of the VNF loader.
        vnf_mode: The VNF's forwarding mode: "io", "mac", "macswap", "5tswap", "bridge", "route",
            "xdp"; not every VNF has every mode.
        vnf_placement: Where VNFs' processors and memory are: "local" on the pollers' NUMA node,
            "remote" on another, "unpinned" where the kernel likes, "auto" where there is room.
        wire: Kind of wire, or "auto" for the best both ends accept.
        forwarding: "l2" switches frames, "l3" routes packets (new MAC addresses, TTL less one).
        rules: What forwarding goes by: "port" one rule per port, "stream" one rule per flow,
            "learning" addresses that the vSwitch learns.
        tunnel: Kind of tunnel of an overlay deployment, or over the cables between vSwitches;
            "none" where frames are in none there.
        options: What is asked of the vSwitch.
        guest: What is asked of guests, where VNFs run in VMs.
        core: What is asked of a mobile core, where the VNF is one.
        stack: Which mobile core that is; None where the VNF is none.
        change: What the vSwitch does to addresses and ports of frames; None where it does nothing.
        max_frame_size: Largest frame that is to be measured, octets including FCS.
        dut_macs: Addresses that frames from the tester's ports 0 and 1 carry, "" for the usual one:
            of an external DUT, and of pods that share one; empty where the deployment gives all.
        pod_hosts: Of a deployment of pods: whether both are on one host, or each on its own.
        sockets: Deployed for programs alone, in pods or on two hosts: no tester sends frames.
        pods: Of pods for programs: how many with ranks of MPI; two are deployed at least, and for
            frames and sockets no more.
        ranks: Of pods for programs: ranks of MPI in each.
        pod: Of pods for programs: what they are.
        variant: What tells it from others in a comparison, "rx_queues=2"; "" outside of one.
    """

    deployment: Deployment
    vswitch: Name | Literal[""]
    vnf: Name = "vloop"
    vnf_mode: Name = "io"
    vnf_placement: VnfPlacement = "auto"
    traffic: TrafficProfile
    generator: Name = "loadgen"
    wire: Name = "auto"
    forwarding: Forwarding = "l2"
    rules: Rules = "port"
    addressing: Addressing = "far"
    tunnel: TunnelKind | Literal["none"] = "vxlan"
    options: SwitchOptions = SwitchOptions()
    guest: GuestOptions = GuestOptions()
    core: MobileCoreOptions = MobileCoreOptions()
    stack: MobileCore | None = None
    max_frame_size: int = STANDARD_FRAME_SIZE
    dut_macs: tuple[MacAddress | Literal[""], ...] = ()
    pod_hosts: PodHosts = "same"
    sockets: bool = False
    pods: int = 2
    ranks: int = 1
    pod: PodKind = "netns"
    variant: str = Field(default="", pattern=r"^[^\x00-\x1f\x7f]*$")

    @property
    def id(self) -> str:
        """Name as it stands in results: "pvp_dpdk", "pvp_dpdk,rx_queues=2"."""
        return variant_id(f"{self.deployment.name}_{self.vswitch}", self.variant)

    @property
    def routed(self) -> bool:
        """True when the vSwitch routes."""
        return self.forwarding == "l3"

    @property
    def has_guests(self) -> bool:
        """True when VNFs, or pods, run in VMs."""
        graph = self.deployment
        return bool(graph.vnf_count or graph.guests) and self.vnf.endswith(":vm")

    @property
    def apart(self) -> bool:
        """True where endpoints on two hosts talk, and there is no tester."""
        return self.sockets and self.deployment.apart

    @property
    def ends_in_guests(self) -> tuple[int, ...]:
        """Numbers of ends in guests: of pods in VMs, and in the places of VMs on two hosts."""
        graph = self.deployment
        if graph.dut_family == "networks":
            return graph.guests
        if not self.apart or not self.vnf.endswith(":vm"):
            return ()
        return tuple(n for n, end in enumerate(graph.ends) if isinstance(end, VnfPort))

    @property
    def through_guests(self) -> tuple[int, ...]:
        """Numbers of the tester's ports behind guests that forward: beyond pods in VMs."""
        return () if self.sockets else self.deployment.guests

    @property
    def programs(self) -> int:
        """Programs that talk where no tester sends: one at each end, or as many ranks of MPI."""
        return self.pods * self.ranks

    @property
    def vnf_addresses(self) -> bool:
        """True when VNFs write the address of whoever takes a frame in next."""
        return self.vnf_mode in ADDRESSING_MODES

    @property
    def vnf_swaps(self) -> bool:
        """True when VNFs address a frame to where it came from."""
        return self.vnf_mode in SWAPPING_MODES

    @property
    def streams(self) -> tuple[Stream, ...]:
        """Streams of the scenario's traffic."""
        streams = make_streams(
            self.deployment,
            self.traffic,
            addressing=self.addressing,
            routed=self.routed,
            tunnel=self.tunnel,
        )
        if self.change is not None:
            streams = tuple(stream.through(self.change) for stream in streams)
        if not self.dut_macs:
            return streams
        return tuple(
            stream.model_copy(update={"eth_dst": self.dut_macs[stream.direction] or stream.eth_dst})
            for stream in streams
        )

    @property
    def learning_frames(self) -> int:
        """Learning frames of each stream: every flow, and every session, must be known."""
        frames = self.traffic.learning_frames_per_stream
        return max(frames, self.change.sessions) if self.change is not None else frames

    @property
    def addresses(self) -> AddressPlan:
        """Which networks are behind the deployment's ends."""
        return TEST_ADDRESSES if self.change is None else self.change.addresses

    @property
    def set_up_s(self) -> float:
        """Longest that its sessions take to be set up before a trial, seconds; 0 without any."""
        return 0.0 if self.change is None else self.change.sessions * SET_UP_S

    @property
    def boots_s(self) -> float:
        """Longest that its guests take to boot, and to forward by themselves; 0 without any."""
        return 2 * self.guest.boot_s + GUEST_SET_UP_S if self.has_guests else 0.0

    @property
    def largest_on_wire(self) -> int:
        """Largest frame at any port, its tunnel's headers included; octets including FCS."""
        return self.max_frame_size + overhead(self.encapsulation)

    @property
    def encapsulation(self) -> str:
        """What frames are in at some of the ports: kind of tunnel, "gtpu", or "" for nothing."""
        if self.deployment.gtp:
            return GTPU
        return self.tunnel if self.deployment.tunnelled else ""

    @property
    def tunnel_ends(self) -> tuple[TunnelEnd, ...]:
        """The vSwitch's end of the tunnel at each tunnelled port."""
        return tuple(self._tunnel_end(n, p) for n, p in enumerate(self.deployment.tunnelled))

    def _tunnel_end(self, number: int, port: Port) -> TunnelEnd:
        graph, mac = self.deployment, dut_mac(port)
        far = graph.far_end(port)
        if far is None or not isinstance(port, PhyPort):
            local_address, tester = DUT_ADDRESS, TESTER_ADDRESS
            return TunnelEnd(
                port, number, local_address, tester, PREFIX, mac, port_mac(graph, port, 0), VNI
            )
        network = min(port.index, far.index)
        first = IPv4Address(DUT_ADDRESS) + (1 << 32 - CABLE_PREFIX) * network
        ends = (str(first), str(first + 1))
        local, remote = ends if port.index == network else ends[::-1]
        return TunnelEnd(
            port, number, local, remote, CABLE_PREFIX, mac, dut_mac(far), VNI + network
        )

    @property
    def mtu(self) -> int:
        """MTU that every port must have: octets without Ethernet header and FCS."""
        if self.options.mtu is not None:
            return self.options.mtu
        return max(STANDARD_FRAME_SIZE, self.largest_on_wire) - ETHERNET_OCTETS

    @property
    def conditions(self) -> tuple[str, ...]:
        """What is asked for beyond the backend's own way: "l3 forwarding", "mtu = 9000" ..."""
        conditions = []
        if self.deployment.dut_family == "networks":
            hosts = "one host" if self.pod_hosts == "same" else "two hosts"
            conditions.append(f"pods on {hosts}")
            if self.sockets and self.pod != "netns" and len(self.deployment.guests) < 2:
                conditions.append(f"pods by {self.pod}")
            conditions += [f"pod {number} in a VM" for number in self.deployment.guests]
            if self.through_guests:
                conditions.append(f"guests forward by {self.vnf_mode}")
        if self.routed:
            conditions.append("l3 forwarding")
        if self.change is not None:
            conditions.append(f"{self.change.condition}, {self.change}")
        if self.rules != "port":
            conditions.append(
                "a rule for each flow" if self.rules == "stream" else "learned addresses"
            )
        if self.deployment.tunnelled:
            where = " between the vSwitches" if self.deployment.cables else ""
            octets = overhead(self.tunnel)
            conditions.append(f"{self.tunnel} tunnel{where} (+{octets} octets a frame)")
        if self.deployment.gtp and self.stack is not None:
            sessions = f"{self.core.sessions} session" + ("s" if self.core.sessions > 1 else "")
            conditions.append(
                f"{self.stack.name} (gtpu_mode {self.core.gtpu_mode}), {sessions}, "
                f"GTP-U at port 0 (+{overhead(GTPU)} octets a frame)"
            )
        conditions += self.traffic.conditions
        if self.vnf_placement != "auto" and self.deployment.vnf_count:
            conditions.append(f"VNFs {self.vnf_placement}")
        if self.options.mode:
            conditions.append(f"mode {self.options.mode}")
        conditions += [f"{key} = {_shown(value)}" for key, value in self.options.given().items()]
        if self.has_guests:
            conditions += [f"guest {key} = {value}" for key, value in self.guest.given().items()]
        return tuple(conditions)

    def hop_addresses(self) -> Iterator[HopAddresses]:
        """Follow every stream through the deployment.

        Yields:
            Each hop of each stream, in order, with the addresses that VNFs have written by then.
        """
        graph = self.deployment
        for stream in self.streams:
            src_mac, dst_mac = stream.eth_src, stream.eth_dst
            path = graph.path(graph.ends[stream.direction], stream.chain)
            # Ports of a path come in pairs: into the vSwitch, out of it.
            for src, dst in zip(path[0::2], path[1::2], strict=True):
                if src != path[0] and self.vnf_swaps:
                    src_mac, dst_mac = dst_mac, src_mac
                elif src != path[0] and self.vnf_addresses and isinstance(src, VnfPort):
                    src_mac, dst_mac = vnf_mac(src), self.peer_mac(src)
                yield HopAddresses(stream, src, dst, src_mac, dst_mac)

    def peer_mac(self, port: VnfPort) -> str:
        """Address that a VNF's port must send to, when the VNF writes addresses."""
        chain = port.vnf if self.deployment.chains > 1 else 0
        return peer_mac(self.deployment, port, chain, routed=self.routed)


def _shown(value: object) -> object:
    """A value of an option; of a whole document its name."""
    return value.get("name", value) if isinstance(value, dict) else value


#: What a scenario's name ends with where programs take the place of a generator: endpoints, or
#: those of a workload whose variants have a name of their own.
ENDPOINTS_VARIANT = "endpoints"
PROGRAM_VARIANTS = (ENDPOINTS_VARIANT, "mpi")


def variant_id(scenario_id: str, variant: str) -> str:
    """Name of a scenario's variant: "pvp_dpdk,rx_queues=2"; of "" the scenario itself."""
    return f"{scenario_id},{variant}" if variant else scenario_id


#: What ends a scenario's name, whatever else it is a variant of.
_LAST = (*PROGRAM_VARIANTS, NEW_SESSIONS)


def on_testbed(scenario_id: str, testbed: str) -> str:
    """Its name in results of a run on several testbeds: "pvp_dpdk,testbed=lab1"; of "" as it is.

    Of endpoints "phy2phy_dpdk,testbed=lab1,endpoints": the same scenario, to which they are put.
    """
    if not testbed:
        return scenario_id
    plain, last = _without_last(f",{scenario_id}")
    return variant_id(f"{plain},testbed={testbed}"[1:], last)


def without_testbed(name: str) -> tuple[str, str]:
    """A name in results without the testbed, and the testbed: "pvp_dpdk" and "lab1", or ""."""
    scenario, _, rest = name.partition(",testbed=")
    testbed, last = _without_last(rest)
    return variant_id(scenario, last), testbed


def is_called(name: str, pattern: str) -> bool:
    """Whether a pattern is for a scenario: by its name in results, or that without its testbed.

    A pattern for a testbed, "*,testbed=lab1", is for its endpoints as well.
    """
    plain, testbed = without_testbed(name)
    names = (name, plain, f"{plain},testbed={testbed}" if testbed else name)
    return any(fnmatchcase(candidate, pattern) for candidate in names)


def _without_last(name: str) -> tuple[str, str]:
    last = next((last for last in _LAST if name.endswith(f",{last}")), "")
    return name.removesuffix(f",{last}") if last else name, last


def split_id(scenario_id: str) -> tuple[str, str]:
    """Split "pvp_dpdk" into deployment and vSwitch.

    `ConfigError` when it has no underscore or names an unknown deployment.
    """
    deployment, _, vswitch = scenario_id.partition("_")
    if not vswitch:
        raise ConfigError(
            f"{scenario_id!r} names no vSwitch", where="scenario", accepted="DEPLOYMENT_VSWITCH"
        )
    make_deployment(deployment)
    return deployment, vswitch


class RoleDemand(Frozen):
    """A poll-mode or busy thread that wants a core of its own.

    Attributes:
        role: "pmd", "tester", "vnf0" ...
        group: Whose they are. On shared cores the DUT's ("switch") get processors of their own
            first; VNFs and the tester share what is left.
        sleeps: True when its threads sleep while there is nothing to do, as the kernel's, or each
            is of a program of its own: several of them can be on one processor.
    """

    role: str
    threads: int = 1
    group: Literal["switch", "vnf", "tester"]
    sleeps: bool = False


class Pollers(Frozen):
    """How to find a role's busy threads on the running machine: by the start of their names.

    Attributes:
        sleeps: True when they sleep while there is nothing to do, as the kernel's in a guest: what
            they use is theirs, but nobody prefers them, and they make no load by themselves.
    """

    role: str
    pid: int
    thread_prefix: str
    sleeps: bool = False


#: Whoever else runs on the machine.
SYSTEM = "the system"
#: Priority of SCHED_FIFO of threads that take turns. They have the same one: none is taken its
#: processor away in the middle of its work by another of them.
FIFO_PRIORITY = 1
#: Longest turn of a thread that shares its processor with nobody but the system, microseconds:
#: there a sleep costs no other poller anything, and a frame waits for less.
SYSTEM_TURN_US = 20
#: Share of a processor that threads with such a priority have together, at most, percent: the rest
#: is the system's, and below what the kernel lets them have (sched_rt_runtime_us).
MOST_SHARE = 90


class Placement(Frozen):
    """Which role runs where.

    Attributes:
        mode: "dedicated": each poller has a core of its own; "shared": they take turns.
        cores: Role -> processors.
        housekeeping: Processors for everything that does not poll.
        node: NUMA node of the pollers' memory.
        far_nodes: The other nodes, when pollers sit on several.
        vnf_node: NUMA node of VNFs' memory, when it is not the pollers'.
        unpinned: Role -> processors among which the kernel moves it; such a role has no cores.
        dut: Roles of the DUT's own pollers.
        siblings_of_dut: Whether others run on hardware threads of the DUT's cores.
        turn_us: Length of the turns of threads that share a processor and sleep in between,
            microseconds; 0: they never sleep.
        slice_us: EEVDF slice for threads on shared cores, microseconds; 0: the kernel's own.
        slice_note: What is known about slices: "" or why they are not available.
        emulated: True in the virtual lab, where one thread emulates all processors in turn.
    """

    mode: Literal["dedicated", "shared"]
    reason: str
    cores: dict[str, tuple[int, ...]]
    housekeeping: tuple[int, ...]
    node: int = 0
    nodes: tuple[int, ...] = (0,)
    far_nodes: tuple[int, ...] = ()
    vnf_node: int | None = None
    unpinned: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    dut: tuple[str, ...] = ()
    siblings_of_dut: bool = False
    turn_us: int = 0
    slice_us: int = 0
    slice_note: str = ""
    emulated: bool = False

    @property
    def shared(self) -> bool:
        """True when pollers share cores."""
        return self.mode == "shared"

    @property
    def pollers(self) -> tuple[int, ...]:
        """Processors of all roles."""
        return tuple(sorted({cpu for cpus in self.cores.values() for cpu in cpus}))

    @property
    def vnf_home_node(self) -> int:
        """NUMA node of VNFs' memory."""
        return self.node if self.vnf_node is None else self.vnf_node

    def takes_turns(self, role: str) -> bool:
        """Whether a role must let others run: its core is another role's too, or turns with all."""
        if self.emulated:
            return True
        return any(other != SYSTEM for other in self.sharers(role))

    def sharers(self, role: str) -> tuple[str, ...]:
        """Who else is on a role's processors: other roles, and `SYSTEM` on shared cores."""
        cpus = set(self.cores.get(role, ()))
        others = tuple(o for o, cores in self.cores.items() if o != role and cpus & set(cores))
        system = (SYSTEM,) if self.shared and cpus & set(self.housekeeping) else ()
        return others + system

    def turn_of(self, role: str) -> int:
        """Length of a role's turns where it sleeps in between, microseconds; 0: it never sleeps."""
        if self.takes_turns(role):
            return self.turn_us
        return min(self.turn_us, SYSTEM_TURN_US) if self.sharers(role) else 0

    def turn_phase(self, role: str) -> int:
        """How much later than the tester's a role's turns begin, microseconds.

        Those on one processor are spread over a turn, so that none wakes while another works, and
        a frame waits for no whole turn at each.
        """
        together = {role, *self.sharers(role)} - {SYSTEM}
        order = sorted(together, key=lambda name: (name != "tester", name))
        return self.turn_of(role) * order.index(role) // len(order)

    def fifo_priority(self, role: str) -> int:
        """Priority of SCHED_FIFO of a role that sleeps between its turns; 0: none."""
        return FIFO_PRIORITY if self.turn_of(role) and not self.emulated else 0

    def fifo_share(self, role: str) -> int:
        """Share of its processor that a role with such a priority takes, at most, percent.

        Each on the processor has the same: none can keep the others, or the system, from theirs.
        """
        return MOST_SHARE // (1 + sum(other != SYSTEM for other in self.sharers(role)))

    @property
    def dut_alone(self) -> bool:
        """Whether the DUT has pollers and all of them have cores of their own."""
        if self.siblings_of_dut:
            return False
        loose = {cpu for cpus in self.unpinned.values() for cpu in cpus}
        return bool(self.dut) and not any(
            self.sharers(role) or loose & {*self.cores.get(role, ())} for role in self.dut
        )


class MemoryPlan(Frozen):
    """Hugepages the scenario needs free on a node.

    Attributes:
        size_kb: Page size, KiB.
        users: User -> MiB.
    """

    node: int
    size_kb: int
    pages: int
    users: dict[str, int] = Field(default_factory=dict)


class NicUse(Frozen):
    """One NIC of a wire, and the driver it will have.

    Attributes:
        driver: "vfio-pci", "uio_pci_generic", or the kernel's.
        kernel: True when its kernel interface is used.
        interface: Name of its kernel interface now; "" when it has none.
        node: NUMA node; -1 when unknown.
        note: Why this driver and not one that is preferred to it; "" when there is none.
    """

    wire: int
    side: Literal["tester", "dut"]
    pci: str
    driver: str
    kernel: bool
    interface: str = ""
    node: int = -1
    note: str = ""

    def __str__(self) -> str:
        device = f"{self.side} {self.pci}" + (f" ({self.interface})" if self.interface else "")
        where = f", node {self.node}" if self.node >= 0 else ""
        return f"{device} through {self.driver}{where}" + (f"; {self.note}" if self.note else "")


class CableUse(Frozen):
    """The end of a cable between hosts at one of them.

    Attributes:
        cable: Number of the cable in the testbed file.
        port: Number of the physical port at this end, or of the one at the tester's wire.
        nic: Its name at this host.
        far: The other end, "HOST:NIC".
        in_kernel: True when both ends are NICs under their kernel drivers, whose link can be seen.
    """

    cable: int
    port: int
    side: Literal["tester", "dut"]
    nic: str
    far: str
    in_kernel: bool = False

    def __str__(self) -> str:
        port = f"tester's end of phy{self.port}" if self.side == "tester" else f"phy{self.port}"
        return f"{port}: {self.nic} to {self.far}"


class Plan(Frozen):
    """A plan; of a deployment over several hosts that of the whole, with one for each host.

    Attributes:
        scenario: What is deployed; on one of several hosts, what of it is there.
        nics: NICs of the wires, for wires of the kind "nic".
        wires_without_memory: Wires that come before it in the testbed, and whose memory cannot be
            had: kind -> why.
        commands: Launch lines as far as they are known before deployment, with what they are.
        tester_rx_queues: Receive queues the tester must poll: the vSwitch may send on as many.
        host: Name of the host; "" where the testbed has one.
        parts: What of the deployment is on this host.
        cables: Ends of cables at this host that its parts plug into.
        follows: True when another host of the plan holds the same machine's lock.
        ends: Numbers of the ends on this host, where they are on several: of the tester's ports,
            or of endpoints.
        whole: On the tester's host of a deployment with several vSwitches: all of it.
        clock_bound_s: Most that the clocks of the tester's two ports may differ by, seconds: 0 for
            one clock; None: not measured, and latency is the round trip.
        hosts: Plan of each host, in the order in which they are locked; empty where there is one.
    """

    scenario: Scenario
    testbed: Testbed
    wire: str
    nics: tuple[NicUse, ...] = ()
    placement: Placement
    memory: tuple[MemoryPlan, ...]
    wires_without_memory: dict[str, str] = Field(default_factory=dict)
    commands: dict[str, str] = Field(default_factory=dict)
    refusal_is_loss: bool = True
    tester_rx_queues: int = 1
    host: str = ""
    parts: tuple[Literal["tester", "dut"], ...] = ("tester", "dut")
    cables: tuple[CableUse, ...] = ()
    follows: bool = False
    ends: tuple[int, ...] = ()
    whole: Deployment | None = None
    clock_bound_s: float | None = 0.0
    hosts: tuple[Plan, ...] = ()

    @property
    def host_plans(self) -> tuple[Plan, ...]:
        """The plan of each host, in the order in which they are locked; of one host itself."""
        return self.hosts or (self,)

    @property
    def has_tester(self) -> bool:
        """Whether the tester is on this host."""
        return "tester" in self.parts

    @property
    def guest_ends(self) -> dict[int, VnfPort]:
        """Endpoints on this host that are in a guest of their own: number -> where it plugs in."""
        scenario = self.scenario
        if scenario.deployment.dut_family == "networks":
            numbers = [n for n in self.own_ends if n in scenario.ends_in_guests]
        else:
            in_vms = scenario.vnf.endswith(":vm") and not self.has_tester
            numbers = [*self.ends] if in_vms else []
        ends = {number: scenario.deployment.ends[number] for number in numbers}
        return {number: end for number, end in ends.items() if isinstance(end, VnfPort)}

    @property
    def sends_frames(self) -> bool:
        """Whether the tester on this host is to send frames."""
        return self.has_tester and not self.scenario.sockets

    @property
    def has_dut(self) -> bool:
        """Whether a vSwitch is on this host."""
        return "dut" in self.parts

    @property
    def own_ends(self) -> tuple[int, ...]:
        """Numbers of the ends on this host."""
        return self.ends or (0, 1)

    @property
    def testers(self) -> tuple[Plan, ...]:
        """The plans of the hosts that the tester's ports are on, port 0's first."""
        plans = [plan for plan in self.host_plans if plan.has_tester]
        return tuple(sorted(plans, key=lambda plan: plan.own_ends))

    @property
    def tester_text(self) -> str:
        """Where the tester's ports are and by which clocks; "" where they are on one host."""
        if len(self.testers) < 2:
            return ""
        places = ", ".join(f"port {part.ends[0]} on {part.host}" for part in self.testers)
        if self.clock_bound_s is None:
            return (
                f"the tester has {places}: rates and loss are by the counters of both; latency is "
                "the round trip, from port 0 through the DUT to port 1 and back, since nothing "
                "bounds how far the clocks of its ports are apart; one way is not measured"
            )
        return (
            f"the tester has {places}: rates and loss are by the counters of both; latency is one "
            f"way, by clocks that are at most {self.clock_bound_s:.3g} s apart"
            + (
                ", its uncertainty, as their services state it now; each trial has its own bound"
                if self.clock_bound_s
                else " (one kernel's, by its boot id)"
            )
        )

    @property
    def port_hosts(self) -> dict[str, str]:
        """Port of the DUT -> the host that it is on; empty where there is one host."""
        return {
            str(port): plan.host
            for plan in self.hosts
            if plan.has_dut
            for port in plan.scenario.deployment.ports
        }

    @property
    def for_tester(self) -> Plan:
        """The plan as the tester needs it, whose ports may be at several vSwitches."""
        if self.whole is None:
            return self
        scenario = self.scenario.model_copy(update={"deployment": self.whole})
        return self.model_copy(update={"scenario": scenario})

    def nic(self, wire: int, side: str) -> NicUse | None:
        """The NIC at an end of a wire, its side "tester" or "dut"; None when it has none there."""
        return next((n for n in self.nics if (n.wire, n.side) == (wire, side)), None)
