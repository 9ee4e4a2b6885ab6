"""A build that is killed takes its tools with it, and the next one clears up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.conftest import Programs
from tests.virt.conftest import Distribution
from vnetperf.virt import images

BUILD = """
from tests.virt.conftest import package
from vnetperf.virt import image_build, images
from vnetperf.virt.recipe import VLOOP
packages = (package("linux-image"),)
image_build.image_inputs = lambda *_: image_build.ImageInputs(VLOOP, packages, ())
images.build("vloop", print)
"""


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_nothing_of_a_killed_build_stays(
    store_home: Path, programs: Programs, tmp_path: Path, distribution: Distribution
) -> None:
    programs({"apt-get": f"echo $$ >{tmp_path}/pid.part\nmv {tmp_path}/pid.part {tmp_path}/pid\n"
              "printf half >linux-image_1.0-1_amd64.deb\nexec sleep 60"})  # fmt: skip
    build = subprocess.Popen(
        [sys.executable, "-c", BUILD], cwd=Path(__file__).parents[2], stdout=subprocess.DEVNULL
    )
    try:
        wait_for((tmp_path / "pid").exists)
        tool = int((tmp_path / "pid").read_text())
        assert any(store_home.glob(".*.part"))
    finally:
        os.kill(build.pid, signal.SIGKILL)
        build.wait()
    wait_for(lambda: ended(tool))
    assert images.find() is None
    made = distribution.image()
    assert images.find() == made
    assert not any(store_home.glob(".*.part"))
