"""What a user sees on a terminal while a run goes on."""

from __future__ import annotations

import os
import pty
import re
import sys
from pathlib import Path

import pytest

from tests.real.conftest import TOP


# Its parts have fast tests: the line (tests/plugin/test_live.py), a terminal (test_interrupted.py).
@pytest.mark.daily
def test_progress_is_live_on_a_terminal(tmp_path: Path, unchanged: object) -> None:
    argv = [sys.executable, "-m", "pytest", "testcases", "-k", "phy2phy_dpdk", "--preset=smoke"]
    argv += ["--frame-sizes=64", f"--results-dir={tmp_path}", "-p", "no:cacheprovider"]
    pid, terminal = pty.fork()
    if pid == 0:  # the child has the terminal as its own, as a shell's would
        os.chdir(TOP)
        os.environ["TERM"] = "xterm"
        os.execv(argv[0], argv)  # noqa: S606 - no shell is wanted
    seen = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the last process of the terminal has gone
            break
        if not piece:
            break
        seen += piece
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    text = seen.decode(errors="replace")
    assert "deploying phy2phy_dpdk" in text
    assert "per direction" in text
    assert re.search(r"now [0-9.]+ [kM]?fps sent, [0-9.]+ [kM]?fps received, ", text)
    assert "vnetperf results" in text
