"""Runs a play of fake_qemu as `vnetperf lab run` would: `drive.py HOME TIMEOUT PLAY ...`.

With `--machines N -- COMMAND ...` after the play N guests play it, and the command runs.
"""

from __future__ import annotations

import compileall
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from vnetperf import cli
from vnetperf.cli import lab
from vnetperf.virt import kernel, lab_boot, lab_guest, tools
from vnetperf.virt.kernel import Kernel


def main() -> int:
    """Run it; the exit status of `vnetperf lab run`."""
    home, timeout, *play = sys.argv[1:]
    command_line = ["--", "whatever"]
    if "--machines" in play:
        at = play.index("--machines")
        play, command_line = play[:at], play[at:]
    os.environ["XDG_CACHE_HOME"] = home
    lab_guest.GRACE_S = 2.0
    if play[0] == "mute":
        lab_guest.BOOT_S = 1.0
    if play[0] == "hang":
        lab_guest.BOOT_CPU_S = 2.0

    def command(*_: object, ports: dict[str, int], **__: object) -> Sequence[str]:
        fds = [str(ports[name]) for name in ("ctl", "in", "out", "err")]
        return [sys.executable, str(Path(__file__).with_name("fake_qemu.py")), *fds, "--", *play]

    lab_boot.qemu_command = command  # type: ignore[assignment]  # a double for this test
    kernel.cached = lambda: Kernel("x", Path("/x"), Path("/x"))
    tools.need_qemu = lambda: "qemu"
    tools.need_virtme = lambda: (9,)
    lab_guest.choose_accelerator = lambda machine, *_: machine
    compileall.compile_dir = lambda *_, **__: True
    lab.build_generators = lambda: None  # each would take seconds, and no guest runs one
    options = ["--timeout", timeout] if float(timeout) else []
    return cli.main(["lab", "run", *options, *command_line])


sys.exit(main())
