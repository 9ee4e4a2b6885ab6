"""Both Open vSwitch backends as a user runs them, beside an OVS of the machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import UserRun, pids_of
from tests.real.needs import module_problem
from tests.real.needs import program as find

Start = Callable[..., UserRun]
Unchanged = Callable[[], tuple[str, ...]]

KERNEL = pytest.mark.skipif(
    bool(module_problem("openvswitch")),
    reason=f"no module openvswitch here ({module_problem('openvswitch')}): "
    "run it in the lab, `vnetperf lab run -- pytest tests/real/test_ovs.py`",
)
pytestmark = [
    pytest.mark.daily,
    pytest.mark.skipif(
        not find("ovs-vswitchd-dpdk"), reason="no ovs-vswitchd with DPDK: run `make deps`"
    ),
]


def per_port(record: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {hop["port"]: hop for hop in record["result"]["hops"]}


def assert_frames_are_accounted_for(run: UserRun) -> None:
    """What the tester sent came in, what came back went out, and nothing was made up."""
    trials = [r for r in run.records() if r["type"] == "trial" and r["verdict"] == "VALID"]
    assert trials, run.output
    for trial in trials:
        hops = per_port(trial)
        for direction in trial["result"]["directions"]:
            number = direction["direction"]
            assert hops[f"phy{number}"]["rx"] == direction["sent"]
            assert hops[f"phy{1 - number}"]["tx"] >= direction["received"]


@pytest.mark.parametrize(
    ("scenario", "options"),
    [
        ("pvp_dpdk", ["--set=rx_queues=2", "--set=workers=2", "--traffic=multi-flow"]),
        ("phy2phy_dpdk", ["--switch=jumbo", "--frame-sizes=9018"]),
        ("pvp_dpdk", ["--switch=jumbo", "--frame-sizes=9018"]),
        ("phy2phy_dpdk", ["--rules=stream", "--traffic=multi-flow"]),
        pytest.param(
            *("pvp_dpdk", ["--rules=stream", "--traffic=multi-flow", "--vnf-mode=mac"]),
            marks=pytest.mark.daily,
        ),
        ("pvpv_dpdk", ["--rules=learning"]),
        ("pvp_dpdk", ["--forwarding=l3"]),
        ("phy2phy_dpdk", ["--set=offloads=true"]),
        ("phy2phy_dpdk", ["--set=rx_descriptors=1024", "--set=tx_descriptors=1024"]),
        ("op2p_dpdk", ["--tunnel=vxlan"]),
        pytest.param("op2p_dpdk", ["--tunnel=gre"], marks=pytest.mark.daily),
        ("op2p_dpdk", ["--tunnel=geneve"]),
        pytest.param("phy2phy_ovs", [], marks=KERNEL),
        pytest.param("pvp_ovs", [], marks=KERNEL),
        pytest.param("pvvp_ovs", [], marks=KERNEL),
        pytest.param("pvpv_ovs", ["--rules=learning"], marks=KERNEL),
        pytest.param("phy2phy_ovs", ["--rules=stream", "--traffic=multi-flow"], marks=KERNEL),
        pytest.param("phy2phy_ovs", ["--forwarding=l3"], marks=KERNEL),
        pytest.param("op2p_ovs", ["--tunnel=vxlan"], marks=KERNEL),
        pytest.param("op2p_ovs", ["--tunnel=gre"], marks=KERNEL),
        pytest.param("op2p_ovs", ["--tunnel=geneve"], marks=KERNEL),
    ],
    ids=lambda value: value if isinstance(value, str) else "".join(value) or "plain",
)
def test_throughput(scenario: str, options: list[str], start: Start, unchanged: Unchanged) -> None:
    sizes = [] if any("frame-sizes" in option for option in options) else ["--frame-sizes=64"]
    run = start("-k", scenario, *sizes, *options)
    assert run.finish(timeout_s=400) == 0, run.output
    assert_frames_are_accounted_for(run)
    assert unchanged() == ()


@KERNEL
def test_a_daemon_that_dies_in_a_trial_is_no_number_though_its_kernel_forwards(
    start: Start, unchanged: Unchanged
) -> None:
    run = start("-k", "phy2phy_ovs", "--frame-sizes=64")
    run.wait_for(lambda records: sum(r["type"] == "trial" for r in records) >= 2)
    pids = pids_of("ovs-vswitchd unix:")
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert run.finish(timeout_s=400) == 1
    (result,) = run.json()["results"]
    assert result["status"] == "not measured", run.output
    assert "ovs-vswitchd has ended" in result["why"]
    assert unchanged() == ()


# --- an OVS of the machine -------------------------------------------------------------------


class SystemOvs:
    """An OVS in the machine's own namespace, with a bridge named as ours are."""

    def __init__(self, directory: Path, datapath: str) -> None:
        self.directory = directory
        names = ("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "RUNTIME_DIRECTORY")
        self.env = {**os.environ, **dict.fromkeys(names, str(directory))}
        self.datapath = datapath
        self.daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        schema = "/usr/share/openvswitch/vswitch.ovsschema"
        self.tool("ovsdb-tool", "create", str(self.directory / "conf.db"), schema)
        remote = f"--remote=punix:{self.directory}/db.sock"
        self._spawn("ovsdb-server", str(self.directory / "conf.db"), remote)
        self._wait((self.directory / "db.sock").exists)
        self.vsctl("--no-wait", "init")
        self._spawn("ovs-vswitchd", f"unix:{self.directory}/db.sock")
        self.vsctl(
            *("add-br", "br0", "--", "set", "bridge", "br0", f"datapath_type={self.datapath}"),
            *("--", "add-port", "br0", "sys0", "--", "set", "Interface", "sys0", "type=internal"),
        )
        self.tool(
            "ovs-ofctl", "add-flow", f"unix:{self.directory}/br0.mgmt", "priority=7,actions=drop"
        )

    def _spawn(self, program: str, *arguments: str) -> None:
        argv = [find(program), *arguments, "--no-chdir", "-vconsole:off"]
        argv.append(f"--unixctl={self.directory}/{program}.ctl")
        self.daemons.append(subprocess.Popen(argv, env=self.env))

    def tool(self, program: str, *arguments: str) -> str:
        argv = [find(program), *arguments]
        return subprocess.check_output(argv, env=self.env, text=True, timeout=30)

    def vsctl(self, *arguments: str) -> str:
        return self.tool("ovs-vsctl", f"--db=unix:{self.directory}/db.sock", *arguments)

    def state(self) -> tuple[object, ...]:
        """All that a user would notice."""
        rules = self.tool(
            "ovs-ofctl", "--no-stats", "dump-flows", f"unix:{self.directory}/br0.mgmt"
        )
        return (
            [daemon.poll() for daemon in self.daemons],
            self.vsctl("show"),
            self.vsctl("get", "Open_vSwitch", ".", "other_config"),
            rules,
            [name for name in ("br0", "sys0") if Path("/sys/class/net", name).exists()],
        )

    def stop(self) -> None:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            control = f"{self.directory}/ovs-vswitchd.ctl"
            subprocess.run(
                ["ovs-appctl", "-t", control, "exit", "--cleanup"], env=self.env, check=False
            )
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait(10)

    @staticmethod
    def _wait(what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not what():
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def system_ovs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], SystemOvs]]:
    started: list[SystemOvs] = []

    def start(datapath: str) -> SystemOvs:
        started.append(SystemOvs(tmp_path_factory.mktemp("ovs"), datapath))
        started[-1].start()
        return started[-1]

    yield start
    for ovs in started:
        ovs.stop()


@pytest.mark.parametrize(
    ("scenario", "datapath"),
    [("pvp_dpdk", "netdev"), pytest.param("phy2phy_ovs", "system", marks=KERNEL)],
)
def test_an_ovs_of_the_machine_is_left_alone(
    scenario: str, datapath: str, start: Start, system_ovs: Callable[[str], SystemOvs]
) -> None:
    theirs = system_ovs(datapath)
    before = theirs.state()
    assert before[-1] == ["br0", "sys0"]  # their interfaces have the names of ours
    run = start("-k", scenario, "--frame-sizes=64")
    run.wait_for(lambda records: any(r["type"] == "trial" for r in records))
    assert theirs.state() == before
    assert run.finish(timeout_s=400) == 0, run.output
    assert theirs.state() == before
