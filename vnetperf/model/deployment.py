"""Deployments as graphs: which port forwards to which, for which chain of VNFs.

Everything that differs between Phy2Phy, PVP, PVVP and PVPV is data in the graph; no other room asks
for a deployment's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
    """

    src: Port
    dst: Port
    chain: int | None = None

    def __str__(self) -> str:
        return f"{self.src}->{self.dst}" + ("" if self.chain is None else f" (chain {self.chain})")


class Deployment(Frozen):
    """A set-up of physical ports, VNFs and the vSwitch's forwarding between them.

    Attributes:
        name: "phy2phy", "pvp", "pvvp", "pvpv".
        vnf_count: Number of VNFs, each with two ports that it forwards between.
        chains: Number of parallel chains; traffic has a stream per chain and direction.
        hops: Forwarding steps of the vSwitch.
    """

    name: str
    vnf_count: int
    chains: int
    hops: tuple[Hop, ...]

    def vnf_ports(self) -> tuple[VnfPort, ...]:
        """Ports of all VNFs in order.

        Returns:
            Two ports for each VNF.
        """
        return tuple(VnfPort(vnf=v, index=i) for v in range(self.vnf_count) for i in (0, 1))

    def path(self, src: PhyPort, chain: int) -> tuple[Port, ...]:
        """Ports a frame of a chain passes, from a physical port to the one it leaves by.

        Args:
            src: Physical port the frame arrives at.
            chain: Number of the chain.

        Returns:
            Ports in order; both ports of every VNF passed are in it.

        Raises:
            ValueError: When the graph has no way out, or a loop.
        """
        return tuple(self._walk(src, chain))

    def _walk(self, src: PhyPort, chain: int) -> Iterator[Port]:
        at: Port = src
        yield at
        for _ in range(len(self.hops) + 1):
            hop = next((h for h in self.hops if h.src == at and h.chain in (None, chain)), None)
            if hop is None:
                raise ValueError(f"{self.name}: no hop leads on from {at} for chain {chain}")
            yield hop.dst
            if isinstance(hop.dst, PhyPort):
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


#: Name -> (graph builder, default number of VNFs, whether the number may be chosen).
DEPLOYMENTS: dict[str, tuple[Callable[[str, int], Deployment], int, bool]] = {
    "phy2phy": (serial, 0, False),
    "pvp": (serial, 1, False),
    "pvvp": (serial, 2, True),
    "pvpv": (parallel, 2, True),
}


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
    build, default, variable = DEPLOYMENTS[name]
    count = vnfs if vnfs is not None and variable else default
    if count < (1 if variable else 0):
        raise ConfigError(f"{name} with {count} VNFs", where="vnfs", accepted="1 or more")
    return build(name, count)
