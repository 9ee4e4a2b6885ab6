"""Pods on an overlay of docker's swarm for real: their path, what dies, what is left."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real.conftest import UserRun
from tests.real.switches import deployed, forwards
from tests.real.test_bad_luck import KILLS, interrupt, kill, kill_agent
from tests.real.test_networks import SOCKETS
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.host import links
from vnetperf.host.linux import belongs_to_run
from vnetperf.model.errors import DutError
from vnetperf.networks import docker
from vnetperf.networks.docker import DockerNode

Start = Callable[..., UserRun]
Unchanged = Callable[[], tuple[str, ...]]
SCENARIO = "bmp2bmp_docker_overlay"
#: What docker has outside of namespaces where it is run as usual.
OF_DOCKER = [
    Path(place)
    for place in ("/run/docker", "/run/docker.sock", "/run/containerd", "/var/lib/docker")
]
#: What its daemons of a run may write to, apart from settings of the network.
OF_A_NODE = (
    *("/etc", "/mnt", "/run", "/tmp", "/var/lib"),
    *("/dev", "/sys/fs/cgroup", "/sys/kernel/security"),
)

pytestmark = [
    pytest.mark.daily,  # a swarm takes seconds to be made
    pytest.mark.skipif(shutil.which("dockerd") is None, reason="dockerd is not installed"),
]


def left_over(before: dict[Path, list[str]]) -> list[str]:
    """What is below docker's places and among cgroups that was not there before."""
    now = contents()
    found = [f"{at}/{name}" for at, names in now.items() for name in set(names) - set(before[at])]
    groups = Path("/sys/fs/cgroup").glob("**/vnetperf-*-docker?")
    return [*found, *map(str, groups)]


def contents() -> dict[Path, list[str]]:
    return {
        at: sorted(os.listdir(at)) if at.is_dir() else ["."] * at.exists()  # noqa: PTH208 - names alone
        for at in (*OF_DOCKER, Path("/etc/docker"))
    }


def daemons(run_id: str) -> list[int]:
    """Processes of docker's daemons in a run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        try:
            name = (entry / "comm").read_text().strip()
        except OSError:  # it has ended meanwhile
            continue
        if name == "dockerd" and belongs_to_run(pid, run_id):
            found.append(pid)
    return found


def writable(pid: int) -> set[str]:
    """What a process sees that could be written to, apart from what the kernel has in /proc."""
    mounts = [line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
    found = {at for _, _, _, _, at, how, *_ in mounts if "rw" in how.split(",")}
    return {at for at in found if not at.startswith("/proc")}


def test_frames_pass_the_tunnel_that_docker_has_made(unchanged: Unchanged) -> None:
    before = contents()
    with deployed(SCENARIO, hosts="other") as deployment:
        hosts = [deployment.run.rundir.path / f"host{n}/netns" for n in (0, 1)]
        names = [next(n for n in links.statistics(at) if n.startswith("vp")) for at in hosts]
        sent = [links.statistics(at)[name].tx for at, name in zip(hosts, names, strict=True)]
        result = forwards(deployment)
        due = [direction.sent for direction in result.directions]
        for at, name, was, least in zip(hosts, names, sent, due, strict=True):
            assert links.statistics(at)[name].tx - was >= least, "they did not pass the link"
        facts = deployment.vswitch.facts()
        states = facts["nodes of the swarm"]
        assert states == {"192.0.2.1": "manager, ready", "192.0.2.2": "worker, ready"}
        assert facts["overlay"]["Driver"] == "overlay"
        assert "SWMTKN" not in str(facts)
        for daemon in daemons(deployment.run.run_id):
            others = {at for at in writable(daemon) if not at.startswith(OF_A_NODE)}
            assert others == set()
    assert left_over(before) == []
    assert unchanged() == ()


@pytest.mark.parametrize("place", ["same", "other"])
@SOCKETS
def test_pods_talk_over_it(place: str, start: Start, unchanged: Unchanged) -> None:
    before = contents()
    run = start(
        *("-k", f"{SCENARIO} and UDP_RR and not routed", "--hosts", place, "--message-sizes=64"),
        path="testcases/test_endpoints.py",
    )
    assert run.finish() == 0, run.output
    (found,) = run.json()["transfers"]
    assert found["transfers"][0]["transactions_per_second"] > 0
    texts = [*run.results.glob("latest/**/*.log"), *run.results.glob("latest/**/*.json*")]
    assert texts
    assert not [path for path in texts if "SWMTKN" in path.read_text()], "the token is a secret"
    assert left_over(before) == []
    assert unchanged() == ()


def look_until_it_fails(deployment: LiveDeployment) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        deployment.check_alive()
        time.sleep(0.05)


def test_a_daemon_that_dies_is_the_networks_failure(unchanged: Unchanged) -> None:
    before = contents()
    with deployed(SCENARIO, hosts="other") as deployment:
        os.kill(daemons(deployment.run.run_id)[0], signal.SIGKILL)
        with pytest.raises(DutError, match=r"docker[01] has ended"):
            look_until_it_fails(deployment)
    assert left_over(before) == []
    assert unchanged() == ()


def test_a_daemon_that_never_gets_ready_is_told_with_its_log(
    unchanged: Unchanged, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents()
    given = DockerNode.argv
    monkeypatch.setattr(docker, "READY_S", 1.0)
    asleep = ["sh", "-c", "echo lost in thought; sleep 60"]
    monkeypatch.setattr(DockerNode, "argv", lambda node: [*asleep, *given(node)])
    told = r"does not answer within 1 s(?s:.*)lost in thought"
    with pytest.raises(DutError, match=told), deployed(SCENARIO):
        pass
    assert left_over(before) == []
    assert unchanged() == ()


def test_a_daemon_that_takes_no_settings_is_told_at_once(
    unchanged: Unchanged, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = DockerNode.argv
    monkeypatch.setattr(DockerNode, "argv", lambda node: [*given(node), "--no-such-flag"])
    told = r"has ended(?s:.*)unknown flag: --no-such-flag"
    with pytest.raises(DutError, match=told), deployed(SCENARIO):
        pass
    assert unchanged() == ()


@pytest.mark.parametrize("seed", range(KILLS))
@pytest.mark.parametrize("how", [kill, kill_agent, interrupt], ids=lambda f: f.__name__)
def test_killed_at_a_random_moment(
    how: Callable[[UserRun], None], seed: int, start: Start, unchanged: Unchanged
) -> None:
    before = contents()
    moment = random.Random(f"swarm {how.__name__} {seed}").uniform(0.0, 9.0)
    run = start("-k", f"{SCENARIO} and test_throughput", "--frame-sizes=64,128,256")
    run.wait_until_begun()
    time.sleep(moment)
    assert run.process.poll() is None, run.finish() and run.output
    how(run)
    run.finish()
    assert unchanged() == (), f"after {moment:.2f} s"
    assert left_over(before) == []
