"""Call stacks: from what perf prints to a flame graph, and what is said where there are none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vnetperf.host.stacks import StackSampler, fold_stacks
from vnetperf.model.errors import HostError
from vnetperf.model.result import Profile
from vnetperf.model.scenario import Pollers
from vnetperf.report.flame import flame_graph, top_functions, write_flame_graph

#: "perf script --fields comm,tid,ip,sym,dso" of perf 6.1.
SCRIPT = """\
pmd-c01/id:9 28215 
\tffffffff821f5b65 irqentry_exit_to_user_mode+0x105 ([kernel.kallsyms])
\t    7fb3d358a6f1 dp_netdev_input__ (/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd)
\t    55d0d3540651 pmd_thread_main (/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd)

pmd-c01/id:9 28215 
\t    7fb3d35aff30 [unknown] (/usr/lib/x86_64-linux-gnu/librte_net_memif.so.23.0)
\t    55d0d3540651 pmd_thread_main (/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd)

pmd-c01/id:9 28215 
\t    7fb3d35aff31 [unknown] (/usr/lib/x86_64-linux-gnu/librte_net_memif.so.23.0)
\t    55d0d3540651 pmd_thread_main (/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd)

pmd-c01/id:9 28215 
\t    7fb3d35aff30 [unknown] ([unknown])

"""  # noqa: W291 - as perf prints it
MAIN = "pmd-c01/id:9;pmd_thread_main"
STACKS = {
    f"{MAIN};dp_netdev_input__;irqentry_exit_to_user_mode": 1,
    f"{MAIN};[librte_net_memif.so.23.0]": 2,
    "pmd-c01/id:9;[unknown]": 1,
}


def test_stacks_are_from_the_outermost_call_on() -> None:
    assert fold_stacks(SCRIPT) == STACKS
    assert fold_stacks("") == {}


def test_a_file_that_was_replaced_since_keeps_its_frames() -> None:
    """As an upgrade does: perf has "(deleted)" behind the file's name."""
    replaced = SCRIPT.replace("ovs-vswitchd)", "ovs-vswitchd (deleted))")
    assert fold_stacks(replaced) == STACKS


def test_functions_in_which_samples_ended_come_first() -> None:
    assert top_functions(STACKS)[0] == ("[librte_net_memif.so.23.0]", 0.5)
    assert sum(share for _, share in top_functions(STACKS)) == 1
    assert top_functions({}) == ()


def test_a_flame_graph_is_an_svg_that_needs_nothing_else() -> None:
    text = flame_graph({**STACKS, "pmd;a<b>&c": 4}, "pvp_dpdk <64>", "half & half")
    root = ET.fromstring(text)  # noqa: S314 - our own text
    space = "{http://www.w3.org/2000/svg}"
    boxes = {
        group.findtext(f"{space}title", ""): group.find(f"{space}rect")
        for group in root.iter(f"{space}g")
    }
    by_name = {about.rpartition(":")[0]: rect for about, rect in boxes.items()}
    whole, main = by_name["all"], by_name["pmd_thread_main"]
    assert whole is not None
    assert main is not None
    assert float(main.attrib["width"]) == pytest.approx(
        3 / 8 * float(whole.attrib["width"]), abs=0.1
    )
    assert float(main.attrib["y"]) < float(whole.attrib["y"])  # it stands on its caller
    assert "a<b>&c" in by_name
    for what in ("<script", "http://www.w3.org/1999/xlink", "href", "url("):
        assert what not in text


def test_a_profile_is_written_beside_the_log_with_its_stacks(tmp_path: Path) -> None:
    profile = Profile(
        scenario="pvp_dpdk,flows=10", frame_size=64, goals=("ndr", "p/dr"), bound="upper",
        load_fps=1e6, samples=4, loss_ratio=0.25,
    )  # fmt: skip
    name = write_flame_graph(tmp_path, profile, STACKS)
    folder, _, file = name.rpartition("/")
    assert (folder, file) == ("profiles", "pvp_dpdk,flows_10-64-ndr-p_dr-upper.svg")
    assert "25 % lost; 4 samples" in (tmp_path / name).read_text()
    folded = (tmp_path / name).with_suffix(".folded").read_text().splitlines()
    assert f"{MAIN};[librte_net_memif.so.23.0] 2" in folded
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to(precious)
    assert write_flame_graph(tmp_path, profile, STACKS) == name
    assert precious.read_text() == "mine"


class Bare:
    """A machine on which nothing is journaled."""

    def __init__(self, folder: Path) -> None:
        self.run_dir = folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def spawn(self, name: str, argv: list[str]) -> Any:
        if shutil.which(argv[0]) is None:
            raise HostError(f"program {argv[0]!r} is not installed", where=name)
        log = self.run_dir / "perf.log"
        with log.open("wb") as file:
            process = subprocess.Popen(argv, stdout=file, stderr=file)
        self.processes.append(process)
        return SimpleNamespace(
            alive=lambda: process.poll() is None,
            signal=process.send_signal,
            stop=lambda: process.wait(20),
            log_tail=lambda lines: log.read_text()[-300:],
        )

    def run(self, argv: list[str], *, timeout: float) -> str:
        return subprocess.run(
            argv, capture_output=True, text=True, timeout=timeout, check=True
        ).stdout


def test_a_switch_without_threads_and_a_machine_without_perf_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare: Any = Bare(tmp_path)
    sampler = StackSampler(bare, ())
    sampler.start()
    assert sampler.stop() == {}
    assert "the kernel forwards" in sampler.reason
    monkeypatch.setenv("PATH", str(tmp_path))
    sampler = StackSampler(bare, (Pollers(role="pmd", pid=os.getpid(), thread_prefix=""),))
    sampler.start()
    assert sampler.stop() == {}
    assert "'perf' is not installed" in sampler.reason


def test_a_perf_that_is_not_permitted_is_told_by_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "perf"
    fake.write_text("#!/bin/sh\necho Access to performance monitoring is limited >&2\nexit 255\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    bare: Any = Bare(tmp_path)
    sampler = StackSampler(bare, (Pollers(role="pmd", pid=os.getpid(), thread_prefix=""),))
    sampler.start()
    bare.processes[0].wait(20)
    assert sampler.stop() == {}
    assert "Access to performance monitoring" in sampler.reason


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
@pytest.mark.slow
def test_perf_samples_a_thread_or_says_why_not(tmp_path: Path) -> None:
    busy = "import time\nend = time.time() + 8\nwhile time.time() < end: sum(range(1000))"
    with subprocess.Popen([sys.executable, "-c", busy]) as process:
        bare: Any = Bare(tmp_path)
        sampler = StackSampler(bare, (Pollers(role="pmd", pid=process.pid, thread_prefix=""),))
        sampler.start()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)
        stacks = sampler.stop()
        process.kill()
    assert bool(stacks) != bool(sampler.reason)
    assert all(stack.startswith("python") for stack in stacks)
    assert not (tmp_path / "profile.data").exists()
