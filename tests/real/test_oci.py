"""Pods of runc for real: what they see, how their programs end, and that nothing is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.machine import facts
from vnetperf.host.machine import Machine
from vnetperf.host.paths import HostRoots
from vnetperf.host.session import HostRun
from vnetperf.host.wait import wait_for
from vnetperf.virt.container import Container
from vnetperf.virt.cri import CriPod
from vnetperf.virt.oci import OciPod, PodmanPod

pytestmark = pytest.mark.skipif(shutil.which("runc") is None, reason="runc is not installed")
CPUS = tuple(sorted(os.sched_getaffinity(0)))
#: `runc` beside other programs, by their names on PATH.
FOUND = {
    name: str(shutil.which(name) or "") for name in ("runc", "podman", "containerd", "ctr", "gcc")
}
MACHINE = facts().model_copy(update={"programs": FOUND})
#: Podman's are made by runc too; that they are made, looked into and gone is shown daily.
BY_PODMAN = pytest.param(
    PodmanPod,
    marks=[
        pytest.mark.daily,
        pytest.mark.skipif(not FOUND["podman"], reason="podman is not installed"),
    ],
)


BY_CRI = pytest.param(
    CriPod,
    marks=[
        pytest.mark.daily,
        pytest.mark.skipif(not FOUND["containerd"], reason="containerd is not installed"),
    ],
)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[HostRun]:
    with HostRun.open(
        testbed="oci", roots=HostRoots(tmp_path / "s", tmp_path / "r"), timeout_s=9
    ) as run:
        yield run


@pytest.fixture(params=[OciPod, BY_PODMAN, BY_CRI])
def pod(run: HostRun, request: pytest.FixtureRequest) -> OciPod:
    kind: type[OciPod] = request.param
    pod = kind(Machine(run, MACHINE), "pod0", CPUS[:1])
    pod.create()
    return pod


def output(pod: OciPod, *argv: str) -> str:
    program = pod.start("one", argv)
    wait_for(lambda: program.ended() is not None, 10, "its end")
    return program.output().strip()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended meanwhile
        return ""


def groups(run_id: str) -> list[str]:
    # os.walk passes over what goes while it looks, which is what these tests wait for.
    return [path for path, *_ in os.walk("/sys/fs/cgroup") if f"{run_id}-pod" in Path(path).name]


def test_a_pod_has_namespaces_a_cgroup_and_the_machines_files_read_only(
    pod: OciPod, run: HostRun
) -> None:
    assert output(pod, "hostname") == "pod0"
    assert output(pod, "cat", "/proc/1/comm") == "sh"
    assert "Read-only" in output(pod, "touch", "/usr/x")
    assert "No such file" in output(pod, "ls", "/home")
    assert output(pod, "grep", "Cpus_allowed_list", "/proc/self/status").split()[1] == str(CPUS[0])
    own, entered = (
        output(pod, "readlink", "/proc/self/ns/net"),
        pod.run(["readlink", "/proc/self/ns/net"]).strip(),
    )
    assert own == entered
    written = pod.write("note", b"hello")
    assert output(pod, "cat", written) == "hello"
    assert groups(run.run_id)


def test_programs_end_by_their_signal_and_their_code_is_kept(pod: OciPod) -> None:
    failed = pod.start("failed", ["sh", "-c", "exit 7"])
    wait_for(lambda: failed.ended() is not None, 10, "its end")
    assert failed.ended() == 7
    busy = pod.start("busy", ["sh", "-c", "trap '' TERM; while :; do :; done"])
    wait_for(lambda: (busy.cpu() or 0) and busy.cpu().user_s > 0.1, 10, "its work")
    busy.end(signal.SIGTERM)
    assert busy.ended() is not None
    assert output(pod, "sh", "-c", "ls -d /proc/[0-9]* | wc -l") in {"4", "5", "6"}


def test_a_pod_that_is_given_back_is_gone_and_comes_back(pod: OciPod, run: HostRun) -> None:
    pod.give_back()
    assert groups(run.run_id) == []
    pod.create()
    assert output(pod, "hostname") == "pod0"


@pytest.mark.parametrize("kind", [Container, OciPod, BY_PODMAN, BY_CRI])
def test_eight_pods_are_there_soon_and_gone_soon(kind: type[Container], run: HostRun) -> None:
    most_s = 3.0 if kind is CriPod else 1.0  # 0.6 s on an idle machine
    machine = Machine(run, MACHINE)
    pods = [kind(machine, f"pod{number}", CPUS) for number in range(8)]
    began = time.monotonic()
    for one in pods:
        one.create(cpuset=False)
    made_s = time.monotonic() - began
    for one in pods:
        one.give_back()
    # On an idle machine 0.2 s for each and 3 s for all; others may run here.
    assert made_s / len(pods) < most_s
    assert time.monotonic() - began - made_s < 6.0


@pytest.mark.parametrize("kind", [OciPod, BY_PODMAN, BY_CRI])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "terminate"])
def test_nothing_is_left_of_a_run_that_is_killed(
    how: signal.Signals, kind: type[OciPod], tmp_path: Path
) -> None:
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tests.real.test_oci import MACHINE, CPUS\n"
        "from vnetperf.host.machine import Machine\n"
        "from vnetperf.host.paths import HostRoots\n"
        "from vnetperf.host.session import HostRun\n"
        f"from {kind.__module__} import {kind.__name__} as Pod\n"
        "root = Path(sys.argv[1])\n"
        "run = HostRun.open(testbed='oci', roots=HostRoots(root / 's', root / 'r'), timeout_s=9)\n"
        "machine = Machine(run, MACHINE)\n"
        "for n in range(2):\n"
        "    pod = Pod(machine, f'pod{n}', CPUS)\n"
        "    pod.create()\n"
        "    pod.start('busy', ['sleep', '1000'])\n"
        "print(run.run_id, flush=True)\n"
        "time.sleep(100)\n"
    )
    argv = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        run_id = process.stdout.readline().strip()
        assert len(groups(run_id)) >= 2
        process.send_signal(how)
        process.wait(20)
    wait_for(lambda: not groups(run_id), 20, "the end of its cgroups")
    wait_for(lambda: not (tmp_path / "r" / run_id).exists(), 20, "the end of its directory")
    mark = f"VNETPERF_RUN_ID={run_id}".encode()
    left = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            left += [path.parent.name] if mark in path.read_bytes() else []
        except OSError:
            continue
    assert left == []
    assert run_id not in Path("/proc/mounts").read_text()
    # Monitors clear their environment; the guardian, which names the run too, has more to do.
    lines = Path("/proc").glob
    what = "the end of all that names the run"
    wait_for(lambda: not [p for p in lines("[0-9]*/cmdline") if run_id in _text(p)], 20, what)
