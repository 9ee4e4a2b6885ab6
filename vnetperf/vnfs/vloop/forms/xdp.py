"""Form "xdp": a BPF program on each interface redirects every frame to the other one."""

from __future__ import annotations

from typing import ClassVar

from vnetperf.vnfs.vloop.forms import bpf
from vnetperf.vnfs.vloop.forms.form import FILE, Form, Port, Put, Step, tool


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
                    f"ip link set dev {port.netdev} xdpgeneric object {FILE} section {bpf.SECTION}"
                ),
            ]
        return tuple(steps)
