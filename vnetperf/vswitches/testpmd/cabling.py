"""The deployment as pairs of ports, testpmd's only topology; and DPDK's numbers of them: pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from vnetperf.model.deployment import Deployment
from vnetperf.model.errors import DutError
from vnetperf.model.ports import Port


def cables(deployment: Deployment) -> tuple[tuple[Port, Port], ...]:
    """Pairs of ports that frames pass between.

    Args:
        deployment: The graph.

    Returns:
        Each pair once.

    Raises:
        DutError: A port leads to several others.
    """
    partner: dict[Port, Port] = {}
    for hop in deployment.hops:
        for a, b in ((hop.src, hop.dst), (hop.dst, hop.src)):
            if partner.setdefault(a, b) != b:
                raise DutError(
                    f"{deployment.name} forwards from {a} to several ports",
                    where="testpmd",
                    accepted="deployments whose ports are joined in pairs",
                )
    pairs: list[tuple[Port, Port]] = []
    for a, b in partner.items():
        if (b, a) not in pairs:
            pairs.append((a, b))
    return tuple(pairs)


def numbers(devices: Mapping[Port, str]) -> dict[Port, int]:
    """DPDK's numbers of ports: PCI devices come first, by address, then virtual ones as given.

    Args:
        devices: Port -> name of its DPDK device.

    Returns:
        Port -> number.
    """
    pci = sorted((port for port, name in devices.items() if is_pci(name)), key=devices.__getitem__)
    virtual = [port for port in devices if port not in pci]
    return {port: number for number, port in enumerate((*pci, *virtual))}


def is_pci(name: str) -> bool:
    """Whether a device's name is a PCI address.

    Args:
        name: Name of a DPDK device.

    Returns:
        True for "0000:3b:00.0", False for "net_memif0".
    """
    return not name.startswith("net_")


def forwarding(
    deployment: Deployment, number: Mapping[Port, int], *, without: Collection[Port] = ()
) -> tuple[int, ...]:
    """Port numbers in the order that testpmd pairs them.

    Args:
        deployment: The graph.
        number: DPDK's number of each port.
        without: Ports that have been taken away; what they were joined to forwards nothing.

    Returns:
        Numbers; an even number of them.
    """
    pairs = [pair for pair in cables(deployment) if not {*pair} & {*without}]
    return tuple(number[port] for pair in pairs for port in pair)
