"""What the relay makes of a QEMU that ends in the middle of a word."""

from __future__ import annotations

import socket

from vnetperf.virt.lab_guest import Relay


def test_a_qemu_that_ends_with_our_word_unread_is_an_end() -> None:
    pairs = {name: socket.socketpair() for name in ("in", "out", "err", "ctl")}
    relay = Relay({name: ours for name, (ours, _) in pairs.items()})
    relay.send("INT")
    pairs["ctl"][1].close()  # unread: the kernel calls that a reset
    assert list(relay.turn(1.0)) == []
    assert relay.closed
    for ends in pairs.values():
        for end in ends:
            end.close()
