"""VNFs in real guests: every attachment and form, guests that die or hang, and nothing left."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.real.switches import SLOW, deployed, fails, forwards
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.trial import run_trial
from vnetperf.model.errors import DutError, HostError
from vnetperf.virt import images, session_server
from vnetperf.virt.guest import Guest
from vnetperf.vnfs.vloop.vm import VmVloop

Unchanged = Callable[[], tuple[str, ...]]


def daily(*values: Any) -> Any:
    """Another form of guest, or of bad luck, than the one that every merge sees."""
    return pytest.param(*values, marks=pytest.mark.daily)


def _why_not() -> str:
    if importlib.util.find_spec("libvirt") is None:
        return "libvirt-python is not installed"
    try:
        found = images.find()
    except HostError as error:
        return str(error)
    return "" if found else "no guest image: vnetperf image build vloop"


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(_why_not()), reason=_why_not() or "guests can be had"),
]


def guest_of(deployment: LiveDeployment) -> Guest:
    (vnf,) = deployment.vnfs
    assert isinstance(vnf, VmVloop)
    assert vnf.guest is not None
    return vnf.guest


#: testpmd in the guest polls two queues of each port; a third vCPU, emulated on two processors, now
#: and then stands still at boot.
MULTIQUEUE = {
    "vnf_mode": "macswap",
    "traffic": "multi-flow",
    "set": ("rx_queues=2",),
}


@pytest.mark.parametrize(
    ("scenario", "settings"),
    [
        pytest.param("pvp_dpdk", MULTIQUEUE, id="pvp_dpdk-two_queues", marks=pytest.mark.daily),
        pytest.param(
            "pvp_testpmd", {"vnf_mode": "5tswap"}, id="pvp_testpmd-5tswap", marks=pytest.mark.daily
        ),
        daily("pvp_bridge", {"vnf_mode": "mac"}),
        daily("pvp_bridge", {"vnf_mode": "route"}),
        daily("pvp_bridge", {"vnf_mode": "bridge", "guest": ("nic=e1000", "gro=false")}),
        daily("pvp_macvtap", {}),
        daily("pvp_dpdk", {"vnf_mode": "xdp"}),
        daily("pvvp_dpdk", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else value.get("vnf_mode", "plain"),
)
def test_every_hop_counts_what_the_tester_sent(
    scenario: str, settings: dict[str, Any], unchanged: Unchanged
) -> None:
    with deployed(scenario, vnf="vloop:vm", **settings) as deployment:
        result = forwards(deployment)
        if len(deployment.vnfs) == 1:
            _is_confined(guest_of(deployment).pid)
        inside = [hop for hop in result.hops if "(inside)" in hop.port]
        assert len(inside) == 2 * len(deployment.vnfs)
        sent = sorted(direction.sent for direction in result.directions)  # a late one gives up some
        assert all(sorted((hop.rx, hop.tx)) == sent for hop in inside)
        for told in deployment.facts.facts["vnfs"]:
            placement = told["guest"]["placement"]
            assert sum(placement["memory, MiB"].values()) >= told["guest"]["memory, MiB"]
            assert set(placement) >= {"vCPU 0", "vCPU 1", "emulator"}
        if len(deployment.vnfs) > 1:
            _another_size_and_load_boots_no_guest(deployment)
    assert unchanged() == ()


def _is_confined(pid: int) -> None:
    """QEMU has few capabilities, the seccomp sandbox, and next to nothing that it can write to."""
    process = Path("/proc", str(pid))
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
    assert (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1")
    kept = {n for n in range(64) if int(status["CapEff"], 16) >> n & 1}
    assert kept <= session_server.KEPT_CAPABILITIES
    flags = {w[1]: w[3].split(",") for w in map(str.split, (process / "mounts").open())}
    for place in ("/", "/proc", "/sys"):
        assert {"ro", "nodev"} <= {*flags[place]}, place
    assert "nodev" in flags["/dev"]
    dev = process / "root/dev"
    devices = {str(path.relative_to(dev)) for path in dev.rglob("*") if not path.is_dir()}
    of_taps = {name for name in devices if re.fullmatch(r"net/tun|vhost-net|tap\d+", name)}
    assert devices - of_taps <= {*session_server.COMMON_DEVICES}
    assert (process / "ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    seen = {path.name for path in (process / "root/run").iterdir()}
    assert seen <= {"libvirt", "mount", "vnetperf"}  # mount(8) makes the second


def _another_size_and_load_boots_no_guest(deployment: LiveDeployment) -> None:
    def boots() -> list[str]:
        guests = (vnf.guest for vnf in deployment.vnfs if isinstance(vnf, VmVloop))
        return [g.agent.read("/proc/sys/kernel/random/boot_id") for g in guests if g is not None]

    before = boots()
    forwards(deployment, 1518)
    half = SLOW.model_copy(update={"load_fps": SLOW.load_fps / 2})
    assert not run_trial(deployment, half).failed
    assert boots() == before
    assert len(set(before)) == len(deployment.vnfs)


def _kill(deployment: LiveDeployment) -> None:
    os.kill(guest_of(deployment).pid, signal.SIGKILL)


def _panic(deployment: LiveDeployment) -> None:
    with contextlib.suppress(HostError):  # nobody answers any more
        guest_of(deployment).agent.write("/proc/sysrq-trigger", "c")


def _end_agent(deployment: LiveDeployment) -> None:
    with contextlib.suppress(HostError):
        guest_of(deployment).agent.start(["killall", "-STOP", "qemu-ga"])


def _hang(deployment: LiveDeployment) -> None:
    os.kill(guest_of(deployment).pid, signal.SIGSTOP)


def _end_testpmd(deployment: LiveDeployment) -> None:
    guest_of(deployment).agent.run(["killall", "-9", "dpdk-testpmd"])


@pytest.mark.parametrize(
    ("luck", "says"),
    [
        (_kill, "the guest has ended"),
        daily(_panic, "the guest panicked"),
        daily(_hang, "QEMU .* is stopped by a signal"),
        daily(_end_testpmd, "runs no testpmd any more"),
        daily(_end_agent, "lost its agent|no answer"),
    ],
)
def test_bad_luck_in_mid_trial_is_no_number(
    luck: Callable[[LiveDeployment], None], says: str, unchanged: Unchanged
) -> None:
    with deployed("pvp_testpmd", vnf="vloop:vm") as deployment:
        result = fails(deployment, lambda: luck(deployment))
        assert re.search(says, result.failure), result.failure
        assert "console ends with" in result.failure
    assert unchanged() == ()


def test_a_guest_that_never_boots_is_told_with_its_console(unchanged: Unchanged) -> None:
    with (
        pytest.raises(DutError, match=r"does not answer within 1 s; its console ends"),
        deployed("pvp_testpmd", vnf="vloop:vm", guest=("boot_s=1",)),
    ):
        pass
    assert unchanged() == ()


STARTER = """
import sys, time
from pathlib import Path
from vnetperf.host.machine import Machine
from vnetperf.host.paths import HostRoots
from vnetperf.host.session import HostRun
from vnetperf.virt import images
from vnetperf.virt.domain import BootFiles, Domain
from vnetperf.virt.guest import Guest
from vnetperf.virt.guest import open_session
from vnetperf.model.testbed import MachineFacts
root = Path(sys.argv[1])
run = HostRun.open(testbed="vm", roots=HostRoots(root / "s", root / "r"), timeout_s=9)
machine = Machine(run, MachineFacts(cpus=()))
session = open_session(machine)
boot = BootFiles(kernel=images.find().kernel, cmdline="console=ttyS0")
qemu = Path("/usr/bin/qemu-system-x86_64")
console = machine.run_dir / "console"
guest = Guest(session, Domain(name="doomed", accelerator="tcg", emulator=qemu, vcpus=1,
                              memory_mib=128, boot=boot, console=console))
guest.start()
print(guest.pid, session.process.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("victim", ["starter", "session", "server"])
def test_no_guest_survives_the_end_of_anything(victim: str) -> None:
    with tempfile.TemporaryDirectory(prefix="v") as directory:  # sockets want short paths
        _end(victim, [sys.executable, "-c", STARTER, directory])
        deadline = time.monotonic() + 30
        while (left := _naming(directory)) and time.monotonic() < deadline:
            time.sleep(0.1)  # the guardian puts the machine right, and ends
        assert left == []


def _naming(directory: str) -> list[str]:
    """Command lines that name a directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found += [line] if directory in line else []
    return found


def _end(victim: str, argv: list[str]) -> None:
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as starter:
        try:
            assert starter.stdout is not None
            qemu, session = map(int, starter.stdout.readline().split())
            assert Path(f"/proc/{qemu}/exe").readlink().name.startswith("qemu")
            (server,) = Path(f"/proc/{session}/task/{session}/children").read_text().split()
            pids = {"starter": starter.pid, "session": session, "server": int(server)}
            os.kill(pids[victim], signal.SIGKILL)
            deadline = time.monotonic() + 5
            while Path(f"/proc/{qemu}").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not Path(f"/proc/{qemu}").exists()
        finally:
            starter.kill()
