"""Deployments over two hosts that are namespaces of this machine, as a user runs them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import TOP, UserRun
from tests.real.needs import module_problem, program
from tests.real.test_listeners import Listener, look
from vnetperf.host import hugepages, links
from vnetperf.host.journal import find_header, read_journal
from vnetperf.host.paths import HostRoots
from vnetperf.report.schema import results_schema

Start = Callable[..., UserRun]
Unchanged = Callable[[], tuple[str, ...]]
HOSTS = ("east", "west")
#: Time between flaps until one is in a trial, seconds.
FLAP_EVERY_S = 0.5
#: Runs at most until the machine lets the tester send in time.
DISTURBED_RUNS = 3
#: The kernel forwards in the VNF, so that two cores are left to the tester and everything else.
TWO_HOSTS = (
    *("--testbed=two-hosts", "--frame-sizes=64"),
    *("--vnf=vloop:container", "--vnf-mode=bridge"),
)


def left() -> list[str]:
    """What hosts within this machine have left, but for what was found after their last run."""
    roots = [HostRoots.for_host(name) for name in HOSTS]
    return [str(path) for one in roots for path in (one.run, one.state) if path.exists()]


def trials(run: UserRun) -> list[dict[str, Any]]:
    return [record for record in run.records() if record["type"] == "trial"]


def owner(host: str) -> int:
    """The agent of a host, by the journal of its run."""
    (journal,) = HostRoots.for_host(host).journals.glob("*.jsonl")
    pid, _ = find_header(read_journal(journal))["owner"]
    return int(pid)


def listening(host: str) -> set[Listener]:
    """What listens of a host's run, which is only what may; nothing where it has none."""
    roots = HostRoots.for_host(host)
    for journal in roots.journals.glob("*.jsonl"):
        return look(owner(host), journal.stem, roots.run / journal.stem, set())
    return set()


def vnetperf(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "vnetperf.cli", *arguments]
    return subprocess.run(argv, cwd=TOP, capture_output=True, text=True, check=False, timeout=120)


def test_vm_to_vm_over_two_hosts(start: Start, unchanged: Unchanged) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    run = start("-k", "v2p2v_bridge and test_throughput", *TWO_HOSTS)
    run.wait_for(lambda records: any(record["type"] == "trial" for record in records))
    during = {host: listening(host) for host in HOSTS}
    assert run.finish(300) == 0, run.output
    assert unchanged() == ()
    assert left() == []
    assert {one.kind for one in during["east"]} == {"unix"}  # the tester's engine
    assert during["west"] == set()  # the kernel forwards
    results = run.json()
    jsonschema.validate(results, results_schema())
    (result,) = results["results"]
    assert (result["scenario"], result["test"]) == ("v2p2v_bridge", "throughput")
    assert result["goals"][0]["lower_bound_fps"] > 0
    (deployed,) = [s for s in results["scenarios"] if s["scenario"] == "v2p2v_bridge"]
    assert set(deployed["facts"]["hosts"]) == {*HOSTS}
    for trial in trials(run):
        if trial["verdict"] != "VALID":
            continue
        hops = {hop["port"]: hop for hop in trial["result"]["hops"]}
        # East's own ports and west's: a frame that left one end of a cable came in at the other.
        assert {"phy0", "phy1", "phy2", "phy3", "vnf0.0", "vnf0.1", "vnf1.0"} <= set(hops)
        sent = {d["direction"]: d["sent"] for d in trial["result"]["directions"]}
        received = {d["direction"]: d["received"] for d in trial["result"]["directions"]}
        assert hops["vnf1.0"]["rx"] >= sent[0]
        assert sent[0] >= hops["phy2"]["rx"] - 64 >= received[0] - 64
        assert all(" on east" in place or " on west" in place for place in trial["lost_at"])


def test_a_tester_has_a_port_on_each_of_two_hosts(start: Start, unchanged: Unchanged) -> None:
    for _ in range(DISTURBED_RUNS):
        run = start(
            *("-k", "p2c2p_bridge and (test_throughput or test_latency)", *TWO_HOSTS[:2]),
            "--tests=throughput,latency",
        )
        # Latency is at the whole throughput, of a tester that shares both its processors.
        if run.finish(300) == 0 or "GENERATOR_LIMITED" not in run.output:
            break
    assert run.process.returncode == 0, run.output
    assert unchanged() == ()
    assert left() == []
    found = {result["test"]: result for result in run.json()["results"]}
    assert found["throughput"]["goals"][0]["lower_bound_fps"] > 0
    output = " ".join(run.output.split())  # it is wrapped
    assert "port 0 on east, port 1 on west" in output
    assert "clocks that are at most 0 s apart" in output
    valid = [one for one in trials(run) if one["verdict"] == "VALID"]
    for trial in valid:
        hops = {hop["port"]: hop for hop in trial["result"]["hops"]}
        assert {"phy0", "phy1", "phy2", "phy3"} <= set(hops)
        for direction in trial["result"]["directions"]:
            into = hops["phy3" if direction["direction"] else "phy0"]["rx"]
            assert into >= direction["sent"] >= direction["received"] > 0
            assert direction["latency"]["min_ns"] > 0  # one way, by one clock
        assert all(" on east" in place or " on west" in place for place in trial["lost_at"])
    (deployed,) = [s for s in run.json()["scenarios"] if s["scenario"] == "p2c2p_bridge"]
    # Nothing in flight counts as lost.
    assert deployed["path_check"]["received"] == deployed["path_check"]["sent"] == [30, 30]


@pytest.mark.daily  # each merge has round trips of two engines, and one trial over two hosts
def test_a_tester_on_two_hosts_with_clocks_of_their_own(start: Start, unchanged: Unchanged) -> None:
    """Both hosts are this machine, whose clock is not asked."""
    options = (*TWO_HOSTS[:2], "-p", "tests.real.two_clocks")
    run = start("-k", "p2c2p_bridge and test_throughput", *options)
    assert run.finish(300) == 0, run.output
    assert unchanged() == ()
    assert left() == []
    output = " ".join(run.output.split())
    assert "latency is the round trip" in output
    for trial in (one for one in trials(run) if one["verdict"] == "VALID"):
        result, hops = trial["result"], {hop["port"]: hop for hop in trial["result"]["hops"]}
        assert result["uncollected"]["latency"].endswith("; the round trip is")
        assert result["round_trip"]["asked"] >= result["round_trip"]["latency"]["count"] > 0
        assert result["round_trip"]["latency"]["min_ns"] > 0
        for direction in result["directions"]:  # frames that ask and answer are those of the load
            assert direction["latency"] is None
            into = hops["phy3" if direction["direction"] else "phy0"]["rx"]
            assert into >= direction["sent"] >= direction["received"] > 0
            assert direction["intended"] >= direction["sent"]
    (result,) = run.json()["results"]
    assert [*result["goals"][0]["latency"]] == ["phy0->phy3->phy0"]


@pytest.mark.daily  # the same with OVS-DPDK, where the tester is in the place of a VM
@pytest.mark.skipif(
    not program("ovs-vswitchd-dpdk"), reason="no ovs-vswitchd with DPDK: run `make deps`"
)
def test_a_tester_in_the_place_of_a_vm_on_each_of_two_hosts(
    start: Start, unchanged: Unchanged
) -> None:
    run = start("-k", "v2c2v_dpdk and test_throughput", *TWO_HOSTS[:2])
    assert run.finish(300) == 0, run.output
    assert unchanged() == ()
    assert left() == []
    (result,) = run.json()["results"]
    assert result["goals"][0]["lower_bound_fps"] > 0


@pytest.mark.daily  # a way through two hosts, and back, is the same as from VM to VM
def test_the_tester_has_a_host_of_its_own(start: Start, unchanged: Unchanged) -> None:
    run = start("-k", "phy2phy_bridge and test_throughput", *TWO_HOSTS)
    assert run.finish(300) == 0, run.output
    assert unchanged() == ()
    assert left() == []
    (result,) = run.json()["results"]
    assert result["goals"][0]["lower_bound_fps"] > 0
    assert {hop["port"] for hop in trials(run)[0]["result"]["hops"]} == {"phy0", "phy1"}


def flap_a_cable(host: str) -> str:
    """Take a host's end of a cable down and up again; what the kernel calls it."""
    roots = HostRoots.for_host(host)
    (journal,) = roots.journals.glob("*.jsonl")
    netns = roots.run / journal.stem / "netns"
    cable = next(link.name for link in links.links(netns) if re.search(r"c\d$", link.name))
    for up in (False, True):
        links.set_up(cable, up=up, netns=netns)
    return cable


# Each merge sees one between hosts of pods (test_networks.py), and that hosts' links are named.
@pytest.mark.daily
def test_a_flap_at_the_cable_of_a_host_is_no_loss(start: Start, unchanged: Unchanged) -> None:
    run = start("-k", "pvp2pvp_bridge and test_throughput", *TWO_HOSTS)
    run.wait_for(lambda records: any(record["type"] == "trial" for record in records))
    while not (named := [t["reason"] for t in trials(run) if t["verdict"] == "INCONSISTENT"]):
        assert run.process.poll() is None, run.finish() and run.output
        flap_a_cable("west")  # between two trials it is of neither
        time.sleep(FLAP_EVERY_S)
    assert named[0].startswith("a link went down or came up")
    assert " on west" in named[0]
    assert run.finish(300) == 1, run.output
    assert unchanged() == ()
    assert left() == []
    (result,) = run.json()["results"]
    assert result["status"] == "not measured"


# Each merge sees frames pass both vSwitches and a VNF beyond the cable, hop by hop, from VM to VM.
@pytest.mark.daily
def test_a_chain_over_two_vswitches(start: Start, unchanged: Unchanged) -> None:
    run = start("-k", "pvp2pvp_bridge and test_throughput", *TWO_HOSTS)
    assert run.finish(300) == 0, run.output
    assert unchanged() == ()
    assert left() == []
    (result,) = run.json()["results"]
    assert result["goals"][0]["lower_bound_fps"] > 0
    for trial in (one for one in trials(run) if one["verdict"] == "VALID"):
        hops = {hop["port"] for hop in trial["result"]["hops"]}
        assert {"phy0", "vnf0.1", "phy1", "phy2", "vnf1.0", "phy3"} <= hops
        assert all(" on east" in place or " on west" in place for place in trial["lost_at"])


VXLAN = pytest.mark.skipif(
    bool(module_problem("vxlan")),
    reason="this kernel has no VXLAN, which the bridge's tunnel is made of",
)


@VXLAN
def test_a_tunnel_between_the_vswitches_of_two_hosts(start: Start, unchanged: Unchanged) -> None:
    run = start("-k", "v2p2v_bridge and test_throughput", *TWO_HOSTS, "--tunnel=vxlan")
    assert run.finish(300) == 0, run.output
    assert unchanged() == ()
    assert left() == []
    (result,) = run.json()["results"]
    assert result["goals"][0]["lower_bound_fps"] > 0
    for words in ("vxlan tunnel", "(+50 octets a frame)"):
        assert words in run.output
    (deployed,) = [s for s in run.json()["scenarios"] if s["scenario"] == "v2p2v_bridge"]
    for host in HOSTS:
        assert len(deployed["facts"]["hosts"][host]["vswitch"]["tunnels"]) == 2


@pytest.mark.daily
@pytest.mark.skipif(
    bool(module_problem("macvtap")), reason="this kernel has no macvtap: run it in the virtual lab"
)
def test_addresses_are_followed_over_the_cable(start: Start, unchanged: Unchanged) -> None:
    options = ("--vnf=vloop:container", "--vnf-mode=route", *TWO_HOSTS[:2])
    run = start("-k", "(v2p2v_macvtap or pvp2pvp_macvtap) and test_throughput", *options)
    assert run.finish(300) == 0, run.output
    assert unchanged() == ()
    assert left() == []
    assert len(run.json()["results"]) == 2


@pytest.mark.daily
@pytest.mark.parametrize("tunnel", ["auto", pytest.param("vxlan", marks=VXLAN)])
def test_what_is_reset_is_reset_at_its_host(
    tunnel: str, start: Start, unchanged: Unchanged
) -> None:
    tests = ("-k", "v2p2v_bridge and (test_throughput or test_reset)", "--tests=throughput,reset")
    run = start(*tests, *TWO_HOSTS, f"--tunnel={tunnel}")
    assert run.finish(300) == 0, run.output
    assert unchanged() == ()
    assert left() == []
    (result,) = [one for one in run.json()["results"] if one["test"] == "reset"]
    whats = ["vswitch on east", "vswitch on west", "vnf0", "link phy0"]
    assert [one["what"] for one in result["resets"]] == whats
    # A tunnel's static neighbour had gone with the link.
    assert "no way through" not in result["resets"][-1]["why"]


@pytest.mark.parametrize(
    "victim",
    # In every merge one host is killed, while sockets talk.
    [*(pytest.param(host, marks=pytest.mark.daily) for host in HOSTS), "controller"],
)
def test_whoever_is_killed_leaves_nothing_on_either_host(
    victim: str, start: Start, unchanged: Unchanged
) -> None:
    run = start("-k", "v2p2v_bridge and test_throughput", *TWO_HOSTS)
    run.wait_for(lambda records: any(record["type"] == "trial" for record in records))
    pid = run.process.pid if victim == "controller" else owner(victim)
    os.kill(pid, signal.SIGKILL)
    run.finish(300)
    if victim != "controller":
        assert f"host {victim}" in run.output
        assert "the agent ended" in run.output
    assert unchanged() == ()
    assert left() == []
    found = vnetperf("restore", "--testbed", "two-hosts")
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("nothing to restore") == len(HOSTS)


@pytest.mark.daily  # each merge has hugepages of a run that is killed, on one host
@pytest.mark.skipif(
    not program("ovs-vswitchd-dpdk"), reason="no ovs-vswitchd with DPDK: run `make deps`"
)
def test_a_host_that_is_killed_leaves_no_hugepages_to_the_other(
    start: Start, unchanged: Unchanged
) -> None:
    before = hugepages.pools()
    run = start("-k", "v2p2v_dpdk and test_throughput", *TWO_HOSTS[:2])
    run.wait_for(lambda records: any(record["type"] == "trial" for record in records))
    assert sum(pool.total for pool in hugepages.pools()) > sum(pool.total for pool in before)
    os.kill(owner("east"), signal.SIGKILL)
    run.finish(300)
    assert "host east" in run.output
    assert [pool.total for pool in hugepages.pools()] == [pool.total for pool in before]
    assert unchanged() == ()
    assert left() == []


iperf3 = pytest.mark.skipif(not program("iperf3"), reason="iperf3 is not installed")


class Sockets:
    """Runs one case of sockets between two hosts, of which nothing may be left."""

    def __init__(self, start: Start, unchanged: Unchanged) -> None:
        self.start = start
        self.unchanged = unchanged
        self.output = ""

    def begin(self, scenario: str, *options: str) -> UserRun:
        case = f"{scenario} and test_messages and TCP_STREAM"
        options += ("--message-sizes=1024", "--endpoint-tool=iperf3")
        return self.start("-k", case, TWO_HOSTS[0], *options, path="testcases/test_endpoints.py")

    def transfer(self, scenario: str, *options: str, within_s: float = 120) -> dict[str, Any]:
        return self.transfer_of(self.begin(scenario, *options), within_s)

    def transfer_of(self, run: UserRun, within_s: float = 120) -> dict[str, Any]:
        assert run.finish(within_s) == 0, run.output
        assert self.unchanged() == ()
        assert left() == []
        self.output = run.output
        (found,) = run.json()["transfers"]
        transfer: dict[str, Any] = found["transfers"][0]
        assert transfer["bits_per_second"] > 0
        return transfer


@pytest.fixture
def sockets(start: Start, unchanged: Unchanged) -> Sockets:
    return Sockets(start, unchanged)


@iperf3
@pytest.mark.parametrize(
    "scenario", [pytest.param("p2c2p_bridge", marks=pytest.mark.daily), "v2c2v_bridge"]
)
def test_sockets_on_two_hosts(scenario: str, sockets: Sockets) -> None:
    run = sockets.begin(scenario, "--instances=2")
    served: set[tuple[str, str]] = set()
    while ("tcp", "iperf3") not in served and run.process.poll() is None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it is being made
            served |= {(one.kind, one.program) for one in listening("west")}
        time.sleep(0.1)
    transfer = sockets.transfer_of(run)
    assert ("tcp", "iperf3") in served
    assert len(transfer["flows"]) == 2
    assert transfer["client"]["place"] == "namespace at port 0 on east"
    assert transfer["server"]["place"] == "namespace at port 1 on west"
    assert transfer["server"]["user_s"] + transfer["server"]["system_s"] > 0


@pytest.mark.daily  # each merge has sockets on two hosts, and a tunnel between two vSwitches
@iperf3
@VXLAN
def test_sockets_over_a_tunnel_between_the_vswitches(sockets: Sockets) -> None:
    transfer = sockets.transfer("v2c2v_bridge", "--tunnel=vxlan")
    # Segments as large as they come out of the endpoints: too large for the cable they would stay.
    assert transfer["bits_per_second"] > 10e6
    assert "vxlan tunnel between the vSwitches" in sockets.output


@pytest.mark.daily  # each merge has sockets on two hosts, and pollers on two
@iperf3
@pytest.mark.skipif(
    not program("ovs-vswitchd-dpdk"), reason="no ovs-vswitchd with DPDK: run `make deps`"
)
def test_sockets_between_pollers_on_two_processors(sockets: Sockets) -> None:
    assert sockets.transfer("p2c2p_dpdk")["flows"]


@pytest.mark.daily  # two guests are booted at a time, emulated
@iperf3
@pytest.mark.parametrize("scenario", ["v2c2v_bridge", "v2c2v_dpdk"])
def test_sockets_in_guests_on_two_hosts(scenario: str, sockets: Sockets) -> None:
    transfer = sockets.transfer(scenario, "--instances=2", "--vnf=vloop:vm", within_s=300)
    assert len(transfer["flows"]) == 2
    assert transfer["client"]["place"] == "vnf0 (VM) on east"
    assert transfer["server"]["place"] == "vnf1 (VM) on west"


@iperf3
def test_a_host_that_is_killed_while_sockets_talk_is_named(
    sockets: Sockets, unchanged: Unchanged
) -> None:
    run = sockets.begin("p2c2p_bridge")
    run.wait_for(lambda records: any(record["type"] == "scenario" for record in records))
    os.kill(owner("west"), signal.SIGKILL)
    run.finish(120)
    assert "host west" in run.output
    assert unchanged() == ()
    assert left() == []


def test_doctor_looks_at_all_hosts(unchanged: Unchanged) -> None:
    found = vnetperf("doctor", "--testbed", "two-hosts")
    assert found.returncode == 0, found.stderr
    for host in HOSTS:
        assert f"host {host} (netns={host})" in found.stdout
    assert "cable east:c0 - west:c0" in found.stdout
    assert any("v2p2v" in line and ": yes" in line for line in found.stdout.splitlines())
    assert unchanged() == ()
    assert left() == []


def test_the_plan_is_shown_host_by_host(start: Start, tmp_path: Path) -> None:
    run = start("-k", "v2p2v_bridge and test_throughput", *TWO_HOSTS, "--plan")
    assert run.finish() == 0, run.output
    assert "host        east: tester and dut" in run.output
    assert "host        west: dut" in run.output
    assert "phy2: c0 to east:c0" in run.output
    assert list(tmp_path.glob("results*/*")) == []
