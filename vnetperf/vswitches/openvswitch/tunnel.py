"""The DUT's end of an overlay tunnel: the tunnel's port, and the address it is reached at."""

from __future__ import annotations

from pathlib import Path

from vnetperf.host.machine import Machine
from vnetperf.model.addresses import dut_mac, port_mac
from vnetperf.model.errors import DutError
from vnetperf.model.scenario import Scenario
from vnetperf.model.tunnel import DUT_ADDRESS, PREFIX, TESTER_ADDRESS, VNI, TunnelKind
from vnetperf.vswitches.openvswitch.layout import UNDERLAY

#: What is in /sys or /lib/modules for each kind, for the datapath of the kernel.
MODULES: dict[TunnelKind, str] = {"vxlan": "vxlan", "geneve": "geneve", "gre": "ip_gre"}
NO_IPV6 = Path("/proc/sys/net/ipv6/conf") / UNDERLAY / "disable_ipv6"


def settings(kind: TunnelKind) -> tuple[str, ...]:
    """Settings of the tunnel's interface.

    Args:
        kind: Kind of tunnel.

    Returns:
        As `ovs-vsctl set Interface` takes them.
    """
    ends = (f"options:remote_ip={TESTER_ADDRESS}", f"options:local_ip={DUT_ADDRESS}")
    key = () if kind == "gre" else (f"options:key={VNI}",)
    return (f"type={kind}", *ends, *key)


def underlay_mac(scenario: Scenario) -> str:
    """Address that tunnelled frames for the DUT carry.

    Args:
        scenario: A scenario with a tunnelled port.

    Returns:
        Six hexadecimal octets.
    """
    return dut_mac(scenario.deployment.tunnelled[0])


def tester_mac(scenario: Scenario) -> str:
    """Address of the tester at the tunnelled port.

    Args:
        scenario: A scenario with a tunnelled port.

    Returns:
        Six hexadecimal octets.
    """
    return port_mac(scenario.deployment, scenario.deployment.tunnelled[0], 0)


def give_address(machine: Machine, scenario: Scenario) -> None:
    """Give the underlay's interface the DUT's address, and name the tester as its neighbour.

    The interface is in the run's network namespace and goes with the switch.

    Args:
        machine: The machine.
        scenario: A scenario with a tunnelled port.

    Raises:
        DutError: When the kernel refuses.
    """
    from pyroute2 import IPRoute  # noqa: PLC0415 - takes 0.2 s to import
    from pyroute2.netlink.exceptions import NetlinkError  # noqa: PLC0415

    def give() -> None:
        try:
            if NO_IPV6.exists():  # its own neighbour discovery would leave by the wire
                NO_IPV6.write_text("1\n")
            with IPRoute() as route:
                (index,) = route.link_lookup(ifname=UNDERLAY)
                route.addr("replace", index=index, address=DUT_ADDRESS, prefixlen=PREFIX)
                route.link("set", index=index, state="up")
                route.neigh(
                    "replace",
                    ifindex=index,
                    dst=TESTER_ADDRESS,
                    lladdr=tester_mac(scenario),
                    state="permanent",
                )
        except (NetlinkError, OSError, ValueError) as error:
            raise DutError(
                f"the kernel refused the tunnel's address: {error}", where=UNDERLAY
            ) from error

    machine.in_netns(give)
