"""Form "xdp": a BPF program on each interface redirects every frame to the other one."""

from __future__ import annotations

from typing import ClassVar

from vnetperf.vnfs.vloop.forms import bpf
from vnetperf.vnfs.vloop.forms.form import FILE, Form, Port, Put, Step, tool

#: ip mounts a bpf file system on /sys/fs/bpf where there is none, and leaves it there: in a mount
#: namespace of its own that is gone when it ends. The program stays, the interface holds it.
ALONE = "unshare --mount"


class Xdp(Form):
    """XDP_REDIRECT in generic mode: before the kernel's network stack, after its buffers.

    Native mode on veth wants a program, or GRO, on the peer too, which is the vSwitch's.
    """

    name: ClassVar[str] = "xdp"
    attachments: ClassVar[tuple[str, ...]] = ("veth", "macvlan", "virtio")

    @classmethod
    def steps(cls, ports: tuple[Port, Port]) -> tuple[Step, ...]:
        """A program for each port, with the other's index in it."""
        steps: list[Step] = []
        for number, port in enumerate(ports):
            program = bpf.redirect(ports[1 - number].index)
            steps += [
                Put(f"forward{number}.o", bpf.object_file(program)),
                tool(
                    f"{ALONE} ip link set dev {port.netdev} "
                    f"xdpgeneric object {FILE} section {bpf.SECTION}"
                ),
            ]
        return tuple(steps)
