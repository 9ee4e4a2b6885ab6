"""The process that the kernel makes frames in: for each line it runs a program for a time.

A line is its own number, the program's in the kernel, seconds, and the frame in hexadecimal digits.
It is answered by its number on standard output. All that is sent, and when, is in the program's
maps.
"""

from __future__ import annotations

import signal
import sys
import time

from vnetperf.host.xdp import run_live
from vnetperf.model.errors import HostError
from vnetperf.traffic.xdpgen.driver import ENDED, ENDS, READY


def answer(text: str) -> None:
    """Write a line that the driver waits for."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Read lines until standard input is closed."""
    ended = False

    def end(*_: object) -> None:
        nonlocal ended
        ended = True

    signal.signal(signal.SIGALRM, lambda *_: None)  # it interrupts the system call
    signal.signal(ENDS, end)  # so does this one, for good
    answer(READY)
    for line in sys.stdin:
        request, number, seconds, frame = line.split()
        ended, until = False, time.monotonic() + float(seconds)
        try:
            while not ended and (remaining_s := until - time.monotonic()) > 0:
                signal.setitimer(signal.ITIMER_REAL, remaining_s)
                run_live(int(number), bytes.fromhex(frame))
            answer(f"{ENDED} {request}")
        except HostError as error:
            answer(f"{ENDED} {request}: {error.what}")


if __name__ == "__main__":
    main()
