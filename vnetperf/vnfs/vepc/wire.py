"""The SGSN at the tester's end of the wire: signalling takes the way of users' traffic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vnetperf.host.machine import Machine
from vnetperf.model.addresses import tester_mac, vnf_mac
from vnetperf.model.core import GN_CORE, GN_PREFIX, GN_TESTER
from vnetperf.model.errors import CapabilityError
from vnetperf.model.ports import VnfPort, WireEnd
from vnetperf.vnfs.vepc.sgsn import Sgsn


@contextmanager
def sgsn_at(
    machine: Machine, ends: tuple[WireEnd, ...], number: int, apn: str, check: Callable[[], None]
) -> Iterator[Sgsn]:
    """An SGSN on the tester's port 0; the tester looks on meanwhile.

    Args:
        machine: The machine.
        ends: The tester's ends of the wires.
        number: Number of the core's VNF.
        apn: Access point name.
        check: Raises when the core has ended.

    Yields:
        The SGSN.

    Raises:
        CapabilityError: The wire is none of the kernel's.
    """
    netdev = ends[0].netdev if ends and ends[0].kind == "veth" else None
    if netdev is None:
        raise CapabilityError(
            f"a core in a VM is attached to over its wire, and {ends[0].kind if ends else 'none'} "
            "is no interface of the kernel",
            where="vepc:vm",
            cure="--wire veth, or --vnf vepc:container",
        )
    before = machine.link(netdev).mac
    core = vnf_mac(VnfPort(vnf=number, index=0))

    def tool(line: str) -> None:
        machine.run(line.split(), isolated=True)

    machine.set_link(netdev, mac=tester_mac(0, 0))
    tool(f"ip address replace {GN_TESTER}/{GN_PREFIX} dev {netdev}")
    try:
        tool(f"ip neigh replace {GN_CORE} lladdr {core} dev {netdev} nud permanent")
        made = machine.in_netns(lambda: Sgsn(GN_TESTER, GN_CORE, GN_TESTER, apn, check))
        try:
            yield made
        finally:
            made.close()
    finally:
        tool(f"ip neigh flush dev {netdev} nud permanent")
        tool(f"ip address flush dev {netdev}")
        machine.set_link(netdev, mac=before)
