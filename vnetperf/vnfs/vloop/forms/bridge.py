"""Form "bridge": a Linux bridge of two ports, which floods each frame to the other one."""

from __future__ import annotations

from typing import ClassVar

from vnetperf.vnfs.vloop.forms.form import Form, Port, Step, tool

BRIDGE = "vloop"


class Bridge(Form):
    """A bridge that learns nothing: whatever a frame is addressed to, it goes through."""

    name: ClassVar[str] = "bridge"
    attachments: ClassVar[tuple[str, ...]] = ("veth", "virtio")
    modules: ClassVar[tuple[str, ...]] = ("bridge",)
    keeps_own_mac: ClassVar[bool] = True
    made: ClassVar[tuple[str, ...]] = (BRIDGE,)

    @classmethod
    def steps(cls, ports: tuple[Port, Port]) -> tuple[Step, ...]:
        """A bridge, both interfaces in it."""
        names = [port.netdev for port in ports]
        # Flooding to the one other port is forwarding by port; a learned address could only
        # send a frame back to where it came from.
        return (
            tool(f"ip link add {BRIDGE} type bridge stp_state 0 mcast_snooping 0"),
            tool(f"ip link set dev {BRIDGE} multicast off arp off addrgenmode none"),
            *(tool(f"ip link set dev {name} master {BRIDGE}") for name in names),
            *(tool(f"bridge link set dev {name} learning off flood on") for name in names),
            tool(f"ip link set dev {BRIDGE} up"),
        )
