"""Deployments as graphs: which port forwards to which, for which chain of VNFs.

Everything that differs between Phy2Phy, PVP, PVVP, PVPV, P2V, V2V and the overlays is data in the
graph; no other room asks for a deployment's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from vnetperf.model.base import Frozen
from vnetperf.model.errors import ConfigError
from vnetperf.model.ports import PhyPort, Port, VnfPort

PHY_PORTS = (PhyPort(index=0), PhyPort(index=1))


class Hop(Frozen):
    """One forwarding step of the vSwitch, in one direction.

    Attributes:
        src: Port the frame enters the vSwitch by.
        dst: Port it leaves by.
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
        hops: Forwarding steps of the vSwitch.
        ends: Where the tester's ports 0 and 1 plug in: at a physical port by a wire, at a VNF port
            in the place of a VNF.
        directions: Tester ports that can send.
        gtp: Ports at which users' packets are in GTP-U; the VNF behind takes them out.
    """

    name: str
    vnf_count: int
    chains: int
    hops: tuple[Hop, ...]
    ends: tuple[Port, Port] = PHY_PORTS
    directions: tuple[int, ...] = (0, 1)
    gtp: tuple[Port, ...] = ()

    @property
    def phy_ports(self) -> tuple[PhyPort, ...]:
        """Physical ports, one wire each."""
        return tuple(sorted({e for e in self.ends if isinstance(e, PhyPort)}, key=str))

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
        found = [h.dst for h in self.hops if h.tunnel == "encap"]
        found += [h.src for h in self.hops if h.tunnel == "decap"]
        return tuple(dict.fromkeys(found))

    def vnf_ports(self) -> tuple[VnfPort, ...]:
        """VNF ports in order, those of launched VNFs and those the tester takes.

        Returns:
            Ports.
        """
        launched = (VnfPort(vnf=v, index=i) for v in range(self.vnf_count) for i in (0, 1))
        return (*launched, *self.tester_vnf_ports)

    def segments(self) -> tuple[tuple[Port, ...], ...]:
        """Ports that share a broadcast domain when the vSwitch learns: those joined by hops.

        Returns:
            Groups of ports; every port that a hop touches is in exactly one.
        """
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
        at: Port = src
        yield at
        for _ in range(len(self.hops) + 1):
            hop = next((h for h in self.hops if h.src == at and h.chain in (None, chain)), None)
            if hop is None:
                raise ValueError(f"{self.name}: no hop leads on from {at} for chain {chain}")
            yield hop.dst
            if isinstance(hop.dst, PhyPort) or hop.dst in self.ends:
                return
            at = VnfPort(vnf=hop.dst.vnf, index=1 - hop.dst.index)  # through the VNF
            yield at
        raise ValueError(f"{self.name}: the hops of chain {chain} form a loop")


def _both_ways(ports: list[tuple[Port, Port]], chain: int | None) -> list[Hop]:
    """Hops for cables between pairs of ports; only a physical port must tell chains apart."""
    hops = []
    for a, b in ports:
        for src, dst in ((a, b), (b, a)):
            hops.append(Hop(src=src, dst=dst, chain=chain if isinstance(src, PhyPort) else None))
    return hops


def _cables(vnfs: range) -> list[tuple[Port, Port]]:
    """Cables of one serial chain: phy0, each VNF in turn, phy1."""
    ports: list[Port] = [PHY_PORTS[0]]
    for vnf in vnfs:
        ports += [VnfPort(vnf=vnf, index=0), VnfPort(vnf=vnf, index=1)]
    ports.append(PHY_PORTS[1])
    return list(zip(ports[0::2], ports[1::2], strict=True))


def serial(name: str, vnf_count: int) -> Deployment:
    """PVP, PVVP and longer: one chain of VNFs; Phy2Phy when there is none.

    Args:
        name: Name of the deployment.
        vnf_count: Number of VNFs in the chain, 0 or more.

    Returns:
        The graph.
    """
    hops = _both_ways(_cables(range(vnf_count)), None)
    return Deployment(name=name, vnf_count=vnf_count, chains=1, hops=tuple(hops))


def mobile(name: str, vnf_count: int) -> Deployment:
    """vEPC: radio network and UEs at port 0, a mobile core, the SGi network's server at port 1.

    Args:
        name: Name of the deployment.
        vnf_count: 1: the core.

    Returns:
        The graph: that of PVP, with users' packets in GTP-U before the core.
    """
    gtp = (PHY_PORTS[0], VnfPort(vnf=0, index=0))
    return serial(name, vnf_count).model_copy(update={"gtp": gtp})


def parallel(name: str, vnf_count: int) -> Deployment:
    """PVPV: parallel chains of one VNF each, told apart by stream at the physical ports.

    Args:
        name: Name of the deployment.
        vnf_count: Number of chains, 1 or more.

    Returns:
        The graph.
    """
    hops = [hop for v in range(vnf_count) for hop in _both_ways(_cables(range(v, v + 1)), v)]
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


def make_deployment(name: str, vnfs: int | None = None) -> Deployment:
    """Build a deployment by name.

    Args:
        name: One of DEPLOYMENTS.
        vnfs: Number of VNFs where the deployment lets it be chosen; None for its default.

    Returns:
        The graph.

    Raises:
        ConfigError: Unknown name, or a number of VNFs the deployment cannot have.
    """
    if name not in DEPLOYMENTS:
        raise ConfigError(
            f"unknown deployment {name!r}", where="deployment", accepted=", ".join(DEPLOYMENTS)
        )
    if name in DIRECT:
        return _direct(name, DIRECT[name])
    build, default, variable = CHAINS[name]
    count = vnfs if vnfs is not None and variable else default
    if count < (1 if variable else 0):
        raise ConfigError(f"{name} with {count} VNFs", where="vnfs", accepted="1 or more")
    return build(name, count)


def _direct(name: str, hops: tuple[Hop, ...]) -> Deployment:
    ends = (hops[0].src, hops[0].dst)
    ways = tuple(range(len(hops)))
    return Deployment(name=name, vnf_count=0, chains=1, hops=hops, ends=ends, directions=ways)
