"""Deployments as graphs.

Ports, attachments, forwarding hops, and the MAC address of every port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from vnetperf.model.base import Frozen, text_like
from vnetperf.model.errors import ConfigError, DutError, accepted_names, did_you_mean

#: A hardware address; the name of a deployment, a mode, a backend with its place ("vloop:vm").
MacAddress = Annotated[
    str, text_like(r"^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$", "an address such as 02:00:00:00:00:01")
]
Name = Annotated[
    str, text_like(r"^[A-Za-z0-9_][A-Za-z0-9_.:+-]*$", "letters, digits and _ . : + -", longest=64)
]


class PhyPort(Frozen):
    """Physical port `index` of the DUT, from 0: the DUT's end of the wire of that number."""

    kind: Literal["phy"] = "phy"
    index: int = Field(ge=0)

    def __str__(self) -> str:
        return f"phy{self.index}"


class VnfPort(Frozen):
    """Port `index` of VNF number `vnf`, both from 0."""

    kind: Literal["vnf"] = "vnf"
    vnf: int = Field(ge=0)
    index: int = Field(ge=0)

    def __str__(self) -> str:
        return f"vnf{self.vnf}.{self.index}"

    @property
    def opposite(self) -> VnfPort:
        """The other port of the VNF: what enters by this one leaves by it."""
        return VnfPort(vnf=self.vnf, index=1 - self.index)


Port = PhyPort | VnfPort


class WireEnd(Frozen):
    """One end of a wire between a tester port and a DUT physical port.

    Attributes:
        wire: 0-based number of the wire, equal to its PhyPort's index; of a tester in the place
            of a VNF, the number of the tester's port.
        kind: Name of the wire family's backend, "memif", "veth", "nic"; of a tester in the place
            of a VNF, the attachment's kind.
        socket: Unix socket path (memif, vhost-user).
        role: "server" listens, "client" connects (memif, vhost-user).
        netdev: Kernel interface name (veth, tap, macvtap, nic under its kernel driver), in the
            run's network namespace.
        pci: PCI address (nic, vf).
        driver: Driver the PCI device is bound to: "vfio-pci", "uio_pci_generic", or the kernel's.
        mac: Address that frames for the port carry, where it has one of its own.
        peer_ring: Of the tester's end, frames that each receive ring at the other end holds, where
            its driver or the plan tells it (nic); None: not known.
        netns: Network namespace of the interface, where that is not the run's.
    """

    wire: int
    kind: str
    side: Literal["tester", "dut"]
    socket: str | None = None
    role: Literal["server", "client"] | None = None
    netdev: str | None = None
    pci: str | None = None
    driver: str | None = None
    mac: str | None = None
    queues: int = 1
    peer_ring: int | None = None
    netns: str | None = None


class Attachment(Frozen):
    """What a vSwitch offers a VNF to plug into.

    Attributes:
        kind: "vhost-user", "tap", "veth", "memif", "vf", "macvtap", "macvlan".
        socket: Unix socket path (vhost-user, memif).
        vnf_is_server: True when the VNF must listen on the socket and the vSwitch connects.
        netdev: Kernel interface name (tap, veth, macvtap, vf under its kernel driver), in the
            run's network namespace; of a veth pair the VNF's end.
        pci: PCI address (vf).
        driver: Driver a PCI function is bound to: "vfio-pci" or the kernel's.
        multi_queue: False when who plugs into a tap opens it for one queue, without
            IFF_MULTI_QUEUE; the kernel wants to know when the tap is made.
        mtu: MTU of what plugs in, octets, where that is not the scenario's.
        offloads: False where what plugs in must send whole checksums and segments of its MTU.
        peer_mac: MAC address that frames sent by the VNF's port must carry as destination.
        netns: Network namespace of the interface, where that is not the run's.
    """

    port: VnfPort
    kind: str
    socket: str | None = None
    vnf_is_server: bool = False
    netdev: str | None = None
    pci: str | None = None
    driver: str | None = None
    queues: int = 1
    multi_queue: bool = True
    mtu: int | None = None
    offloads: bool = True
    mac: str | None = None
    peer_mac: str | None = None
    netns: str | None = None

    def require(self, name: Literal["socket", "netdev", "pci"]) -> str:
        """A field that plugging in requires; `DutError` when the vSwitch left it out."""
        value: str | None = getattr(self, name)
        if not value:
            raise DutError(f"the {self.kind} attachment has no {name}", where=str(self.port))
        return value

    def as_tester_end(self, number: int) -> WireEnd:
        """The attachment as an end for the tester's port, which plugs in where a VNF would."""
        role: Literal["server", "client"] | None = None
        if self.socket is not None:
            role = "server" if self.vnf_is_server else "client"
        same = {"kind", "socket", "netdev", "pci", "driver", "mac", "queues", "netns"}
        return WireEnd(wire=number, side="tester", role=role, **self.model_dump(include=same))


PHY_PORTS = (PhyPort(index=0), PhyPort(index=1))
#: Kinds of wire and attachment whose end is an interface that a namespace can take.
MOVABLE_WIRES = ("veth", "nic", "vf", "macvlan", "ipvlan", "vlan")


class Hop(Frozen):
    """One forwarding step of the vSwitch, in one direction.

    Attributes:
        chain: Only frames of this chain's streams take the hop; None when every frame does.
        tunnel: "encap" puts frames into the scenario's tunnel on the way, "decap" takes them out.
    """

    src: Port
    dst: Port
    chain: int | None = None
    tunnel: Literal["", "encap", "decap"] = ""

    def __str__(self) -> str:
        notes = [f"chain {self.chain}"] if self.chain is not None else []
        notes += [self.tunnel] if self.tunnel else []
        return f"{self.src}->{self.dst}" + (f" ({', '.join(notes)})" if notes else "")


class Deployment(Frozen):
    """A set-up of physical ports, VNFs and the vSwitch's forwarding between them.

    Attributes:
        name: "phy2phy", "pvp", "pvvp", "pvpv", "p2v" ...
        vnf_count: Number of VNFs that are launched, each with two ports that it forwards between.
        chains: Number of parallel chains; traffic has a stream per chain and direction.
        ends: Where the tester's ports 0 and 1 plug in: at a physical port by a wire, at a VNF port
            in the place of a VNF.
        directions: Tester ports that can send.
        gtp: Ports at which users' packets are in GTP-U; the VNF behind takes them out.
        trunks: Physical ports that a cable joins to another host's vSwitch.
        cables: Pairs of trunks: what leaves by one of them enters by the other.
        sites: Ports of each vSwitch, where there are several; a host each.
        pods: True when a container network joins the ends, which are its pods.
        guests: Numbers of the ends that are pods in VMs.
        first_vnf: Number of the first VNF that is launched; those of other vSwitches come before.
        beyond: Of one of several vSwitches: port to another, and the address of what takes frames
            in that leave by it.
    """

    name: Name
    vnf_count: int = Field(ge=0)
    chains: int = Field(ge=0)
    hops: tuple[Hop, ...]
    ends: tuple[Port, Port] = PHY_PORTS
    directions: tuple[int, ...] = (0, 1)
    gtp: tuple[Port, ...] = ()
    trunks: tuple[PhyPort, ...] = ()
    cables: tuple[tuple[PhyPort, PhyPort], ...] = ()
    sites: tuple[tuple[Port, ...], ...] = ()
    pods: bool = False
    guests: tuple[int, ...] = ()
    first_vnf: int = 0
    beyond: tuple[tuple[PhyPort, MacAddress], ...] = ()

    @property
    def dut_family(self) -> Literal["vswitches", "networks"]:
        """The plugin family of what joins the ports."""
        return "networks" if self.pods else "vswitches"

    @property
    def end_kind(self) -> Literal["pod", "VNF"]:
        """What a VNF port at an end is of: a pod, or a VNF whose place the tester takes."""
        return "pod" if self.pods else "VNF"

    @property
    def vnf_numbers(self) -> range:
        """Numbers of the VNFs that are launched."""
        return range(self.first_vnf, self.first_vnf + self.vnf_count)

    @property
    def phy_ports(self) -> tuple[PhyPort, ...]:
        """Physical ports, one wire each."""
        ports = {*self.trunks, *(e for e in self.ends if isinstance(e, PhyPort))}
        return tuple(sorted(ports, key=str))

    def in_tunnels(self) -> Deployment:
        """The same with frames in a tunnel on the cables between vSwitches, where there are any."""

        def through(hop: Hop) -> Hop:
            if hop.dst in self.trunks:
                return hop.model_copy(update={"tunnel": "encap"})
            return hop.model_copy(update={"tunnel": "decap"}) if hop.src in self.trunks else hop

        return self.model_copy(update={"hops": tuple(map(through, self.hops))})

    def site(self, number: int) -> Deployment:
        """What one of several vSwitches has of the deployment, as one of its own.

        Its ends are where frames of the tester's ports enter it first, by a port of the tester's or
        over a cable.

        Args:
            number: Number of the vSwitch.

        Returns:
            The graph, its ports named as in the whole.

        Raises:
            ValueError: When frames do not pass it both ways.
        """
        ports = self.sites[number]
        met = [next((p for p in self.path(end, 0) if p in ports), None) for end in self.ends]
        first, second = met
        if first is None or second is None:
            raise ValueError(f"{self.name}: no frame passes vSwitch {number}")
        cabled = [port for port in self.trunks if port in ports]
        numbers = {p.vnf for p in ports if isinstance(p, VnfPort) and p not in self.ends}
        return Deployment(
            name=self.name,
            vnf_count=len(numbers),
            chains=self.chains,
            hops=tuple(hop for hop in self.hops if hop.src in ports),
            ends=(first, second),
            trunks=tuple(port for port in cabled if port not in (first, second)),
            cables=tuple(pair for pair in self.cables if {*pair} & {*ports}),
            pods=self.pods,
            guests=tuple(number for number in self.guests if self.ends[number] in ports),
            first_vnf=min(numbers, default=0),
            beyond=tuple((port, port_mac(self, port, 0)) for port in cabled),
        )

    def over_hosts(self) -> Deployment:
        """Pods, each on a host of its own: a cable joins what each host has of the network."""
        update = {"pods": True, "guests": self.guests}
        return SPANNING["v2c2v"].graph(self.name).model_copy(update=update)

    @property
    def apart(self) -> bool:
        """True where each end is on the host of its vSwitch."""
        return bool(self.sites) and self.name in (*ACROSS, *OF_NETWORKS)

    @property
    def tester_vnf_ports(self) -> tuple[VnfPort, ...]:
        """VNF ports at which the tester is in the place of a VNF."""
        return tuple(end for end in self.ends if isinstance(end, VnfPort))

    @property
    def ports(self) -> tuple[Port, ...]:
        """All ports of the vSwitch: physical ones, then VNF ports."""
        return (*self.phy_ports, *self.vnf_ports())

    @property
    def tunnelled(self) -> tuple[Port, ...]:
        """Ports at which frames are inside a tunnel."""
        ports = [h.dst for h in self.hops if h.tunnel == "encap"]
        ports += [h.src for h in self.hops if h.tunnel == "decap"]
        return tuple(dict.fromkeys(ports))

    def port_name(self, port: Port) -> str:
        """What reports call a port: "phy0", "vnf0.1"; of a pod "pod0"."""
        return f"pod{port.vnf}" if self.pods and isinstance(port, VnfPort) else str(port)

    def vnf_ports(self) -> tuple[VnfPort, ...]:
        """VNF ports in order, those of launched VNFs and those the tester takes."""
        launched = (VnfPort(vnf=v, index=i) for v in self.vnf_numbers for i in (0, 1))
        return (*launched, *self.tester_vnf_ports)

    def segments(self) -> tuple[tuple[Port, ...], ...]:
        """Ports by broadcast domain when the vSwitch learns: those joined by hops."""
        groups: list[list[Port]] = []
        for hop in self.hops:
            touched = [g for g in groups if hop.src in g or hop.dst in g]
            merged = list(dict.fromkeys([*(p for g in touched for p in g), hop.src, hop.dst]))
            groups = [g for g in groups if g not in touched] + [merged]
        return tuple(tuple(sorted(group, key=str)) for group in groups)

    def path(self, src: Port, chain: int) -> tuple[Port, ...]:
        """Ports a frame of a chain passes, from the port it enters by to the one it leaves by.

        Args:
            src: One of the ends.
            chain: Number of the chain.

        Returns:
            Ports in order; both ports of every VNF passed are in it.

        Raises:
            ValueError: When the graph has no way out, or a loop.
        """
        return tuple(self._walk(src, chain))

    def _walk(self, src: Port, chain: int) -> Iterator[Port]:
        port: Port = src
        yield port
        for _ in range(len(self.hops) + 1):
            hop = next((h for h in self.hops if h.src == port and h.chain in (None, chain)), None)
            if hop is None:
                raise ValueError(f"{self.name}: no hop leads on from {port} for chain {chain}")
            yield hop.dst
            if hop.dst in self.ends:
                return
            if isinstance(hop.dst, PhyPort):
                far = self.far_end(hop.dst)
                if far is None or not any(h.src == far for h in self.hops):
                    return
                port = far
                yield port
                continue
            port = hop.dst.opposite
            yield port
        raise ValueError(f"{self.name}: the hops of chain {chain} form a loop")

    def far_end(self, port: Port) -> PhyPort | None:
        """The port at the other end of a cable to another vSwitch; None without such a cable."""
        far: dict[Port, PhyPort] = {a: b for pair in self.cables for a, b in (pair, pair[::-1])}
        return far.get(port)


def _make_hops(ports: list[tuple[Port, Port]], chain: int | None) -> list[Hop]:
    """Hops for cables between pairs of ports; only a physical port must tell chains apart."""
    return [
        Hop(src=src, dst=dst, chain=chain if isinstance(src, PhyPort) else None)
        for a, b in ports
        for src, dst in ((a, b), (b, a))
    ]


def _cables(vnfs: range) -> list[tuple[Port, Port]]:
    """Cables of one serial chain: phy0, each VNF in turn, phy1."""
    ports: list[Port] = [PHY_PORTS[0]]
    for vnf in vnfs:
        ports += [VnfPort(vnf=vnf, index=0), VnfPort(vnf=vnf, index=1)]
    ports.append(PHY_PORTS[1])
    return list(zip(ports[0::2], ports[1::2], strict=True))


def serial(name: str, vnf_count: int) -> Deployment:
    """PVP, PVVP and longer: one chain of VNFs; Phy2Phy when there is none."""
    hops = _make_hops(_cables(range(vnf_count)), None)
    return Deployment(name=name, vnf_count=vnf_count, chains=1, hops=tuple(hops))


def mobile(name: str, vnf_count: int) -> Deployment:
    """vEPC: radio network and UEs at port 0, a mobile core, the SGi network's server at port 1.

    The graph is that of PVP, with users' packets in GTP-U before the mobile core.
    """
    gtp = (PHY_PORTS[0], VnfPort(vnf=0, index=0))
    return serial(name, vnf_count).model_copy(update={"gtp": gtp})


def parallel(name: str, vnf_count: int) -> Deployment:
    """PVPV: parallel chains of one VNF each, told apart by stream at the physical ports."""
    hops = [hop for v in range(vnf_count) for hop in _make_hops(_cables(range(v, v + 1)), v)]
    return Deployment(name=name, vnf_count=vnf_count, chains=vnf_count, hops=tuple(hops))


def _hop(src: Port, dst: Port, tunnel: Literal["", "encap", "decap"] = "") -> Hop:
    return Hop(src=src, dst=dst, tunnel=tunnel)


_PHY0, _PHY1 = PHY_PORTS
_VNF0, _VNF1 = VnfPort(vnf=0, index=0), VnfPort(vnf=1, index=0)

#: Name -> (graph builder, default number of VNFs, whether the number may be chosen).
CHAINS: dict[str, tuple[Callable[[str, int], Deployment], int, bool]] = {
    "phy2phy": (serial, 0, False),
    "pvp": (serial, 1, False),
    "pvvp": (serial, 2, True),
    "pvpv": (parallel, 2, True),
    "vepc": (mobile, 1, False),
}
#: Name -> hops between the tester's two ports, the second one's way back; without it only the first
#: port sends. At a VNF port the tester is in the VNF's place.
DIRECT: dict[str, tuple[Hop, ...]] = {
    "p2v": (_hop(_PHY0, _VNF0),),
    "v2p": (_hop(_VNF0, _PHY0),),
    "v2v": (_hop(_VNF0, _VNF1), _hop(_VNF1, _VNF0)),
    # The overlays: plain frames at one port, tunnelled ones at the other.
    "encap": (_hop(_PHY0, _PHY1, "encap"),),
    "decap": (_hop(_PHY0, _PHY1, "decap"),),
    "op2p": (_hop(_PHY0, _PHY1, "encap"), _hop(_PHY1, _PHY0, "decap")),
}
DEPLOYMENTS: tuple[str, ...] = (*CHAINS, *DIRECT)


class Spanning(NamedTuple):
    """A deployment with a vSwitch on each of several hosts.

    Attributes:
        sites: Pairs of ports that each vSwitch joins, both ways. VNFs are numbered from the first
            vSwitch on; one that the tester is in the place of comes last.
        cables: Pairs of physical ports that cables join.
    """

    sites: tuple[tuple[tuple[Port, Port], ...], ...]
    cables: tuple[tuple[PhyPort, PhyPort], ...]
    ends: tuple[Port, Port]

    def graph(self, name: str) -> Deployment:
        """The deployment, by the name given."""
        sites = tuple(tuple(port for pair in site for port in pair) for site in self.sites)
        launched = {
            p.vnf for ports in sites for p in ports if isinstance(p, VnfPort) and p not in self.ends
        }
        return Deployment(
            name=name,
            vnf_count=len(launched),
            chains=1,
            hops=tuple(_make_hops([pair for site in self.sites for pair in site], None)),
            ends=self.ends,
            trunks=tuple(sorted((port for pair in self.cables for port in pair), key=str)),
            cables=self.cables,
            sites=sites,
        )


_PHY = [PhyPort(index=number) for number in range(4)]
_VNF = [(VnfPort(vnf=number, index=0), VnfPort(vnf=number, index=1)) for number in (0, 1)]
#: Name -> deployments with a vSwitch on each of several hosts.
SPANNING: dict[str, Spanning] = {
    # VM to VM and back: the tester in the place of a VM with two ports (vnf1), and a VNF at the
    # other host that sends everything back over a second cable. Both ends are on one clock.
    "v2p2v": Spanning(
        sites=(
            ((_VNF[1][0], _PHY[0]), (_VNF[1][1], _PHY[1])),
            ((_PHY[2], _VNF[0][0]), (_VNF[0][1], _PHY[3])),
        ),
        cables=((_PHY[0], _PHY[2]), (_PHY[1], _PHY[3])),
        ends=_VNF[1],
    ),
    # A chain over two vSwitches with a VNF each.
    "pvp2pvp": Spanning(
        sites=(
            ((_PHY[0], _VNF[0][0]), (_VNF[0][1], _PHY[1])),
            ((_PHY[2], _VNF[1][0]), (_VNF[1][1], _PHY[3])),
        ),
        cables=((_PHY[1], _PHY[2]),),
        ends=(_PHY[0], _PHY[3]),
    ),
    # From one host to the other, at wires or in the place of VMs: endpoints talk, or a tester that
    # has a port on each host sends.
    "p2c2p": Spanning(
        sites=(((_PHY[0], _PHY[1]),), ((_PHY[2], _PHY[3]),)),
        cables=((_PHY[1], _PHY[2]),),
        ends=(_PHY[0], _PHY[3]),
    ),
    "v2c2v": Spanning(
        sites=(((_VNF0, _PHY[1]),), ((_PHY[2], _VNF1),)),
        cables=((_PHY[1], _PHY[2]),),
        ends=(_VNF0, _VNF1),
    ),
}
#: Those whose ends are on two hosts, each with its vSwitch.
ACROSS: tuple[str, ...] = ("p2c2p", "v2c2v")
#: Name -> numbers of the pods in VMs, of deployments of two pods on container networks
#: (vnetperf/networks/).
OF_NETWORKS: dict[str, tuple[int, ...]] = {"bmp2bmp": (), "bmp2vmp": (1,), "vmp2vmp": (0, 1)}
#: Every deployment of vSwitches that a scenario can name, and every deployment.
OF_VSWITCHES: tuple[str, ...] = (*DEPLOYMENTS, *SPANNING)
ALL_DEPLOYMENTS: tuple[str, ...] = (*OF_VSWITCHES, *OF_NETWORKS)


def make_deployment(name: str, vnfs: int | None = None) -> Deployment:
    """Build a deployment by name.

    Args:
        name: One of ALL_DEPLOYMENTS.
        vnfs: Number of VNFs where the deployment lets it be chosen; None for its default.

    Returns:
        The graph.

    Raises:
        ConfigError: Unknown name, or a number of VNFs the deployment cannot have.
    """
    if name not in ALL_DEPLOYMENTS:
        raise ConfigError(
            f"unknown deployment {name!r}{did_you_mean(name, ALL_DEPLOYMENTS)}",
            where="deployment",
            accepted=accepted_names(name, ALL_DEPLOYMENTS),
        )
    if name in SPANNING:
        return SPANNING[name].graph(name)
    if name in DIRECT:
        return _direct(name, DIRECT[name])
    if name in OF_NETWORKS:
        of_pods = {"pods": True, "guests": OF_NETWORKS[name]}
        return _direct(name, DIRECT["v2v"]).model_copy(update=of_pods)
    build, default, variable = CHAINS[name]
    count = vnfs if vnfs is not None and variable else default
    if count < (1 if variable else 0):
        raise ConfigError(f"{name} with {count} VNFs", where="vnfs", accepted="1 or more")
    return build(name, count)


def takes_vnfs(name: str) -> bool:
    """Whether a deployment lets its number of VNFs be chosen."""
    return name in CHAINS and CHAINS[name][2]


def _direct(name: str, hops: tuple[Hop, ...]) -> Deployment:
    ends = (hops[0].src, hops[0].dst)
    ways = tuple(range(len(hops)))
    return Deployment(name=name, vnf_count=0, chains=1, hops=hops, ends=ends, directions=ways)


#: Third octet by owner: "e" a tester's port, "a" a VNF's port, "d" a port of the DUT.
_OF_TESTER, _OF_VNF, _OF_DUT = 0x65, 0x61, 0x64


def _mac(owner: int, a: int, b: int) -> str:
    return f"02:76:{owner:02x}:{a:02x}:{b >> 8:02x}:{b & 255:02x}"


def tester_mac(port: int, chain: int) -> str:
    """Address of a tester port's stream; the chain's number is 0..65535."""
    return _mac(_OF_TESTER, port, chain)


def vnf_mac(port: VnfPort) -> str:
    """Address of a VNF's port."""
    return _mac(_OF_VNF, port.index, port.vnf)


def dut_mac(port: Port) -> str:
    """Address of the DUT at a port: what a router or a steering NIC takes frames by."""
    if isinstance(port, PhyPort):
        return _mac(_OF_DUT, 0, port.index)
    return _mac(_OF_DUT, 1 + port.index, port.vnf)


def port_mac(deployment: Deployment, port: Port, chain: int) -> str:
    """Address of what is plugged into a port: a tester's port or a VNF's."""
    if isinstance(port, VnfPort):
        # So has a tester in a VNF's place: a steering NIC knows no other address there.
        return vnf_mac(port)
    if (mac := dict(deployment.beyond).get(port)) is not None:
        return mac
    if (far := deployment.far_end(port)) is not None:  # what takes frames in at another vSwitch
        return peer_mac(deployment, far, chain)
    if port not in deployment.ends:
        raise ValueError(f"{deployment.name}: nothing is plugged into {port}")
    return tester_mac(deployment.ends.index(port), chain)


def peer_mac(deployment: Deployment, port: Port, chain: int = 0, *, routed: bool = False) -> str:
    """Address that a frame must carry when it enters the vSwitch by a port.

    Args:
        deployment: The graph.
        port: Port by which the frame enters.
        chain: Number of the chain it travels.
        routed: True when the vSwitch routes: frames are then addressed to it.

    Returns:
        Address of what is plugged in where the frame leaves; the DUT's own when it routes, and
        when the frame leaves again without meeting a VNF (nobody is there to be addressed).

    Raises:
        ValueError: When nothing is forwarded from the port.
    """
    hop = next((h for h in deployment.hops if h.src == port and h.chain in (None, chain)), None)
    if hop is None:
        raise ValueError(f"{deployment.name}: nothing is forwarded from {port}")
    if routed or (isinstance(port, PhyPort) and isinstance(hop.dst, PhyPort)):
        return dut_mac(port)
    return port_mac(deployment, hop.dst, chain)
