"""An agent behind a real sshd on this machine: own port on loopback, own keys, own known hosts."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.real.conftest import UserRun
from tests.real.test_listeners import Listener, children, listeners, look
from vnetperf.agent.client import AgentClient
from vnetperf.config.settings import read_testbed
from vnetperf.host.journal import find_header, read_journal
from vnetperf.host.paths import HostRoots
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import HostError

Start = Callable[..., UserRun]
Unchanged = Callable[[], tuple[str, ...]]
SSHD = Path("/usr/sbin/sshd")
PRIVSEP = Path("/run/sshd")
pytestmark = pytest.mark.skipif(
    not SSHD.exists() or not shutil.which("ssh-keygen"),
    reason="no sshd: `scripts/install-deps test` installs it",
)


@dataclass
class Sshd:
    """A running sshd.

    Attributes:
        pid: Its process.
        port: Its port on loopback.
        folder: Keys and known hosts.
    """

    pid: int
    port: int
    folder: Path

    def testbed(self, *, known: bool = True, python: str = f"{sys.executable} -I") -> str:
        """A testbed file with this machine as a host behind ssh."""
        hosts = self.folder / ("known_hosts" if known else "nobody")
        hosts.touch()
        options = f"-p {self.port} -i {self.folder}/key -o UserKnownHostsFile={hosts}"
        path = self.folder / ("lab.toml" if known else "unknown.toml")
        path.write_text(
            f'[hosts.lab]\ntransport = "ssh={options} root@127.0.0.1//python={python}"\n'
        )
        return str(path)


def keygen(path: Path) -> str:
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(argv, check=True)
    return path.with_suffix(".pub").read_text()


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    folder = tmp_path / "ssh"
    folder.mkdir(mode=0o700)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    host_key = keygen(folder / "host")
    (folder / "authorized").write_text(keygen(folder / "key"))
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}")
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nPermitRootLogin prohibit-password\n"
    )
    made = not PRIVSEP.exists()
    PRIVSEP.mkdir(exist_ok=True)
    process = subprocess.Popen([str(SSHD), "-D", "-e", "-f", str(folder / "config")])
    try:
        deadline = time.monotonic() + 20
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield Sshd(process.pid, port, folder)
    finally:
        process.terminate()
        process.wait(20)
        if made:
            PRIVSEP.rmdir()


@pytest.mark.daily  # two whole runs: that a call gets through, and how quickly, is in every merge
def test_a_run_over_ssh_has_the_form_of_a_local_one(
    start: Start, sshd: Sshd, unchanged: Unchanged
) -> None:
    case = ("-k", "phy2phy_bridge and test_throughput", "--frame-sizes=64")
    far = start(*case, f"--testbed={sshd.testbed()}")
    assert far.finish(300) == 0, far.output
    near = start(*case)
    assert near.finish(300) == 0, near.output
    there, here = far.json(), near.json()
    assert there.keys() == here.keys()
    assert there["results"][0].keys() == here["results"][0].keys()
    assert there["scenarios"][0]["facts"].keys() == here["scenarios"][0]["facts"].keys()
    started, ended = there["environment"]["clock"], there["environment"]["clock at the end"]
    assert started.keys() == ended.keys() == {"offset_s", "bound_s"}
    assert "clock" not in here["environment"]
    assert unchanged() == ()


def ssh_of(run: UserRun) -> int:
    """The ssh that a run's controller has started."""
    children = Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children").read_text()
    (pid,) = (
        int(child)
        for child in children.split()
        if Path(f"/proc/{child}/comm").read_text().strip() == "ssh"
    )
    return pid


def remote_agent() -> int:
    """The agent at the other end, by the journal of its run."""
    (journal,) = HostRoots().journals.glob("*.jsonl")
    pid, _ = find_header(read_journal(journal))["owner"]
    return int(pid)


def listening_beyond(sshd: Sshd) -> set[Listener]:
    """What listens of the run at the other end of a connection, which is only what may.

    Neither does the connection itself, but for the sshd that was there before.
    """
    (journal,) = HostRoots().journals.glob("*.jsonl")
    found = look(remote_agent(), journal.stem, HostRoots().run / journal.stem, set())
    ours, more = {sshd.pid}, {sshd.pid}
    while more := {child for pid in more for child in children(pid)} - ours:
        ours |= more
    assert remote_agent() in ours
    own = {one.address for one in listeners(ours) - found if one.kind in ("tcp", "udp")}
    assert own == {f"127.0.0.1:{sshd.port}"}
    return found


@pytest.mark.parametrize(
    "lost",
    # An agent is killed on a host of this machine in every merge, a controller too (test_hosts).
    ["ssh", *(pytest.param(one, marks=pytest.mark.daily) for one in ("agent", "controller"))],
)
def test_a_host_that_is_lost_in_the_middle_of_a_trial_restores_itself(
    lost: str, start: Start, sshd: Sshd, unchanged: Unchanged
) -> None:
    case = ("-k", "phy2phy_bridge and test_throughput", "--frame-sizes=64")
    run = start(*case, f"--testbed={sshd.testbed()}")
    run.wait_for(lambda records: any(record["type"] == "trial" for record in records))
    assert {one.kind for one in listening_beyond(sshd)} == {"unix"}  # the engine's
    find = {
        "ssh": lambda: ssh_of(run),
        "agent": remote_agent,
        "controller": lambda: run.process.pid,
    }
    os.kill(find[lost](), signal.SIGKILL)
    run.finish(120)
    if lost != "controller":
        assert "root@127.0.0.1//python=" in run.output  # which host
        assert "the agent ended during run_trial" in run.output
        assert "`vnetperf restore --testbed " in run.output  # it is not the controller's
    roots = HostRoots()
    wait_for(
        lambda: not [*roots.journals.glob("*.jsonl")], 30, "the host that was lost to be restored"
    )
    assert unchanged() == ()


def test_a_call_over_ssh_is_quick(sshd: Sshd) -> None:
    client = AgentClient(read_testbed(sshd.testbed()))
    try:
        client.hello()
        times = []
        for _ in range(50):
            began = time.monotonic()
            client.call("teardown")
            times.append(time.monotonic() - began)
    finally:
        client.close()
    assert min(times) < 0.02  # the others are what else the machine did
    assert client.clock is not None
    assert abs(client.clock.offset_s) <= client.clock.bound_s < 0.02  # it is the same clock


@pytest.mark.parametrize(
    ("python", "says"),
    [
        ("/nowhere/python", "there is no Python '/nowhere/python' there"),
        (f"{shutil.which('false')} -I", "there is no Python"),
    ],
)
def test_a_host_without_a_fit_python_is_one_message(sshd: Sshd, python: str, says: str) -> None:
    client = AgentClient(read_testbed(sshd.testbed(python=python)))
    with pytest.raises(HostError) as refused:
        client.inventory()
    client.close()
    assert "root@127.0.0.1//python=" in refused.value.where
    assert says in refused.value.what
    assert "//python=" in refused.value.cure


def test_an_unknown_host_key_is_refused_without_a_question(sshd: Sshd) -> None:
    client = AgentClient(read_testbed(sshd.testbed(known=False)))
    began = time.monotonic()
    with pytest.raises(HostError, match="cannot be reached by ssh") as refused:
        client.hello()
    client.close()
    assert time.monotonic() - began < 10
    assert "without a question" in refused.value.accepted
    assert not (sshd.folder / "nobody").read_text()
