"""Stands in for QEMU and its guest: `fake_qemu.py CTL IN OUT ERR -- PLAY`, descriptors and a play.

Plays: ``status N``, ``echo`` (input back, until its end), ``die``, ``fail``, ``mute``,
``crash FILE`` and ``hang FILE`` (once), ``stay`` (mute once it is ready), ``last S``
(seconds), ``signals`` (tell each signal's name, end at INT), ``stubborn`` (end at nothing).
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path


def main() -> None:
    """Play."""
    ctl, stdin, out, err = (socket.socket(fileno=int(fd)) for fd in sys.argv[1:5])
    play, *rest = sys.argv[6:]
    if play == "mute":
        time.sleep(60)
    if play == "crash" and not Path(rest[0]).exists():
        Path(rest[0]).touch()
        sys.stderr.write("qemu: Assertion failed\n")
        sys.stderr.flush()
        os.abort()
    if play == "hang" and not Path(rest[0]).exists():
        Path(rest[0]).touch()
        while True:  # as if the firmware waited for a processor
            pass
    if play == "fail":
        ctl.sendall(b"failed no such directory\n")
        time.sleep(60)
    ctl.sendall(b"ready\n")
    if play == "last":
        time.sleep(float(rest[0]))
        return
    if play == "stay":
        time.sleep(60)
    if play == "die":
        sys.stderr.write("qemu: out of luck\n")
        sys.exit(1)
    status = b"0"
    if play == "status":
        out.sendall(b"said\n" * 20000)
        err.sendall(b"complained\n")
        status = rest[0].encode()
    while play == "echo" and (data := stdin.recv(65536)):
        out.sendall(data)
    while play in ("signals", "stubborn"):
        out.sendall(b"running\n")
        name = ctl.recv(100).strip()
        out.sendall(b"got " + name + b"\n")
        if play == "signals":
            status = b"130"
            break
    ctl.sendall(b"exit " + status + b"\n")
    time.sleep(60)  # as if the guest took its time to power off


main()
