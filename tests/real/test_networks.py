"""Container networks for real: sockets of pods, and what dies while pods are deployed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from threading import Timer

import pytest

from tests.real.conftest import UserRun, pids_of
from tests.real.needs import module_problem
from tests.real.switches import LONG, deployed
from tests.real.test_bad_luck import KILLS, interrupt, kill, kill_agent, seeds
from tests.real.test_hosts import left
from vnetperf.deployment.trial import run_trial
from vnetperf.host import links
from vnetperf.host.wait import wait_for
from vnetperf.model.trial import Verdict
from vnetperf.runner.verdict import judge

Start = Callable[..., UserRun]
Unchanged = Callable[[], tuple[str, ...]]
#: What is killed: networks of the kernel, of plugins, of daemons, and of daemons with hugepages.
NETWORKS = (
    *("bridge", "macvlan", "vxlan", "vxlan_routed", "cni", "ovs_flat", "ovs_vxlan"),
    *("vhost_user", "memif"),
)
PODMAN = [
    pytest.mark.daily,
    pytest.mark.skipif(shutil.which("podman") is None, reason="podman is not installed"),
]
CRI = [
    pytest.mark.daily,
    pytest.mark.skipif(shutil.which("containerd") is None, reason="containerd is not installed"),
]
BY_PODMAN = pytest.param("podman", marks=PODMAN)
BY_CRI = pytest.param("cri", marks=CRI)
SOCKETS = pytest.mark.skipif(shutil.which("sockperf") is None, reason="sockperf is not installed")


# Frames pass on each network in every merge (the contract kit's), sockets on hosts of a testbed.
@pytest.mark.daily
@pytest.mark.parametrize("place", ["same", "other"])
@pytest.mark.parametrize("network", ["host", "vxlan", "cni", "ovs_vxlan"])
@SOCKETS
def test_pods_talk_and_are_gone(
    network: str, place: str, start: Start, unchanged: Unchanged
) -> None:
    name = f"bmp2bmp_{network}"
    run = start(
        *("-k", f"{name} and UDP_RR and not routed", "--hosts", place, "--message-sizes=64"),
        path="testcases/test_endpoints.py",
    )
    assert run.finish() == 0, run.output
    (found,) = run.json()["transfers"]
    assert found["scenario"] == f"{name},endpoints"
    assert found["transfers"][0]["transactions_per_second"] > 0
    (facts,) = run.json()["scenarios"]
    assert facts["plan"]["scenario"]["pod_hosts"] == place
    assert found["transfers"][0]["fragments"] == 0
    assert {pod["host"] for pod in facts["facts"]["vswitch"]["pods"].values()} == (
        {0} if place == "same" else {0, 1}
    )
    assert "generator" not in facts["facts"]
    assert unchanged() == ()


@pytest.mark.daily
@pytest.mark.parametrize(
    ("mode", "place"),
    [("l2", "same"), ("l3", "same"), ("l3", "other"), ("l3s", "same"), ("l3s", "other")],
)
@pytest.mark.skipif(bool(module_problem("ipvlan")), reason=module_problem("ipvlan"))
@SOCKETS
def test_pods_by_ipvlan_talk(mode: str, place: str, start: Start, unchanged: Unchanged) -> None:
    """Each mode, also where it passes no frames: `vnetperf lab run -- pytest ...` has ipvlan."""
    run = start(
        *("-k", "bmp2bmp_ipvlan and UDP_RR and not routed", "--message-sizes=64"),
        *(f"--hosts={place}", f"--set=mode={mode}"),
        path="testcases/test_endpoints.py",
    )
    assert run.finish(900) == 0, run.output
    (found,) = run.json()["transfers"]
    assert found["transfers"][0]["transactions_per_second"] > 0
    assert unchanged() == ()


@pytest.mark.daily  # what a flap makes of a trial has fast tests (tests/deployment/test_events.py)
def test_a_flap_between_the_hosts_of_pods_is_no_loss_of_the_network(unchanged: Unchanged) -> None:
    """Its links are in namespaces of their own; the pods', which the tester has, stay up."""
    with deployed("bmp2bmp_vxlan", hosts="other") as deployment:
        links_of_hosts = [n for n in deployment.carrier_changes() if n.endswith(" in host1")]
        uplink = next(name for name in links_of_hosts if name.startswith("vp"))
        netns = deployment.run.rundir.path / "host1/netns"
        acts = iter((False, True))

        def flap() -> None:  # it is called about every 0.25 s of the trial
            if (up := next(acts, None)) is not None:
                links.set_up(uplink.partition(" ")[0], up=up, netns=netns)

        result = run_trial(deployment, LONG, flap)
    verdict, reason = judge(result, 0.01)
    assert verdict is Verdict.INCONSISTENT
    assert "a link went down or came up" in reason
    assert uplink in reason
    assert unchanged() == ()


@pytest.mark.daily
@pytest.mark.parametrize("place", ["same", "other"])
def test_frames_pass_between_dpdk_applications(
    place: str, start: Start, unchanged: Unchanged
) -> None:
    run = start(
        *("-k", "bmp2bmp_vhost_user and test_throughput", "--hosts", place, "--frame-sizes=64")
    )
    assert run.finish() == 0, run.output
    (result,) = run.json()["results"]
    assert result["goals"][0]["lower_bound_fps"] > 0
    (facts,) = run.json()["scenarios"]
    network, hosts = facts["facts"]["vswitch"], {"same": 1, "other": 2}[place]
    assert all(pod["interface"].startswith("vhost-user /") for pod in network["pods"].values())
    assert network["first packet"].startswith("not measured")
    assert len(network["DPDK"]) == hosts
    for trial in (t for t in run.records() if t["type"] == "trial" and t["verdict"] == "VALID"):
        # Each daemon's thread is found by its own, and has taken in what passed its host.
        pollers = [one for one in trial["result"]["threads"] if one["role"] == "pmd"]
        assert len(pollers) == len(trial["result"]["datapath"]) == hosts
        hops = {hop["port"]: hop for hop in trial["result"]["hops"]}
        for direction, (came, left_by) in enumerate((("vnf0.0", "vnf1.0"), ("vnf1.0", "vnf0.0"))):
            counts = trial["result"]["directions"][direction]
            assert hops[came]["rx"] >= counts["sent"]
            assert hops[left_by]["tx"] >= counts["received"]
    assert unchanged() == ()


@pytest.mark.daily
@pytest.mark.parametrize("network", ["ovs_vxlan", "vhost_user", "memif"])
def test_a_daemon_of_a_host_that_dies_in_a_trial_makes_no_number(
    network: str, unchanged: Unchanged
) -> None:
    with deployed(f"bmp2bmp_{network}", hosts="other") as deployment:
        (victim,) = pids_of(str(deployment.run.rundir.path / "ovs1/vswitchd.ctl"))
        timer = Timer(0.4, os.kill, (victim, signal.SIGKILL))
        timer.start()
        result = run_trial(deployment, LONG)
        timer.join()
    assert result.failed == "dut", result.failure or "the trial was taken for a number"
    assert "ovs-vswitchd has ended" in result.failure
    assert result.directions == ()
    assert unchanged() == ()


#: A host of a testbed for each pod, with an agent of its own.
SPREAD = ("--testbed=two-hosts", "--hosts=other")


@pytest.mark.daily  # a tester on two hosts is in every merge (test_hosts.py), and pods below
@pytest.mark.parametrize("network", ["vxlan", "host", "macvlan", "bridge", "ptp", "vxlan_routed"])
def test_frames_pass_between_pods_on_hosts_of_a_testbed(
    network: str, start: Start, unchanged: Unchanged
) -> None:
    run = start("-k", f"bmp2bmp_{network} and test_throughput", "--frame-sizes=64", *SPREAD)
    assert run.finish() == 0, run.output
    (result,) = run.json()["results"]
    assert result["goals"][0]["lower_bound_fps"] > 0
    (facts,) = run.json()["scenarios"]
    deployed = facts["facts"]
    assert {name: pod["host"] for name, pod in deployed["vswitch"]["pods"].items()} == {
        "pod0": 0,
        "pod1": 1,
    }
    assert [[*host["vswitch"]["pods"]] for host in deployed["hosts"].values()] == [
        ["pod0"],
        ["pod1"],
    ]
    # A frame that left one end of the cable came in at the other: nothing else is on it.
    valid = [t for t in run.records() if t["type"] == "trial" and t["verdict"] == "VALID"]
    for trial in valid:
        hops = {hop["port"]: hop for hop in trial["result"]["hops"]}
        assert hops["vnf0.0"]["rx"] >= trial["result"]["directions"][0]["sent"]
        assert hops["phy2"]["rx"] >= trial["result"]["directions"][0]["received"]
        assert hops["phy1"]["rx"] >= trial["result"]["directions"][1]["received"]
    assert left() == []
    assert unchanged() == ()


@pytest.mark.parametrize(
    ("network", "pod"),
    [
        ("vxlan", "netns"),
        pytest.param("bridge", "runc", marks=pytest.mark.daily),
        pytest.param(*("bridge", "podman"), marks=PODMAN),
        pytest.param(*("bridge", "cri"), marks=CRI),
    ],
)
@SOCKETS
def test_pods_on_hosts_of_a_testbed_talk(
    network: str, pod: str, start: Start, unchanged: Unchanged
) -> None:
    run = start(
        *("-k", f"bmp2bmp_{network} and UDP_RR and not routed", "--message-sizes=64"),
        *(*SPREAD, f"--pod={pod}"),
        path="testcases/test_endpoints.py",
    )
    assert run.finish() == 0, run.output
    (found,) = run.json()["transfers"]
    assert found["transfers"][0]["transactions_per_second"] > 0
    assert left() == []
    assert unchanged() == ()


@pytest.mark.daily  # a guest is booted, emulated
@pytest.mark.parametrize(
    ("scenario", "more"),
    [
        ("bmp2vmp_macvlan", ()),
        ("bmp2vmp_vxlan", SPREAD),
        pytest.param("vmp2vmp_vxlan", ("--hosts=other",), id="two guests"),
    ],
)
@SOCKETS
def test_pods_in_vms_talk_and_are_gone(
    scenario: str, more: tuple[str, ...], start: Start, unchanged: Unchanged
) -> None:
    run = start(
        *("-k", f"{scenario} and UDP_RR and not routed", "--message-sizes=64", *more),
        path="testcases/test_endpoints.py",
    )
    assert run.finish(160) == 0, run.output
    (found,) = run.json()["transfers"]
    (transfer,) = found["transfers"]
    assert transfer["transactions_per_second"] > 0
    assert transfer["server"]["place"].startswith("vnf1 (VM)")
    assert transfer["client"]["place"].startswith("vnf0 (VM)") == scenario.startswith("vmp2vmp")
    assert left() == []
    assert unchanged() == ()


@pytest.mark.daily  # a guest is booted, emulated
@pytest.mark.parametrize(
    ("scenario", "mode"),
    [("bmp2vmp_vxlan", "bridge"), pytest.param("vmp2vmp_macvlan", "io", id="two guests")],
)
def test_frames_pass_pods_in_vms(
    scenario: str, mode: str, start: Start, unchanged: Unchanged
) -> None:
    run = start(
        *("-k", f"{scenario} and test_throughput", "--frame-sizes=64", "--hosts=other"),
        *("--vnf=vloop:vm", f"--vnf-mode={mode}"),
    )
    assert run.finish(160) == 0, run.output
    (result,) = run.json()["results"]
    assert result["goals"][0]["lower_bound_fps"] > 0
    # What the tester received has passed the guest, by its own counters, and its pod's interface.
    valid = [t for t in run.records() if t["type"] == "trial" and t["verdict"] == "VALID"]
    for trial in valid:
        hops = {hop["port"]: hop for hop in trial["result"]["hops"]}
        for direction in trial["result"]["directions"]:
            into, out = hops["vnf1.0"], hops["vnf1.0 (inside)"]
            came, left_by = ("tx", "rx") if direction["direction"] == 0 else ("rx", "tx")
            assert into[came] >= direction["received"]
            assert out[left_by] >= direction["received"]
    assert left() == []
    assert unchanged() == ()


@pytest.mark.daily  # what a killed guest leaves, every merge sees with VNFs (test_vm.py)
@pytest.mark.parametrize("seed", seeds(KILLS))
@SOCKETS
def test_pods_in_vms_are_killed_at_a_random_moment(
    seed: int, start: Start, unchanged: Unchanged
) -> None:
    moment = random.Random(f"guests {seed}").uniform(0.0, 12.0)
    run = start(
        *("-k", "bmp2vmp_vxlan and UDP_RR and not routed", "--message-sizes=64"),
        path="testcases/test_endpoints.py",
    )
    run.wait_until_begun()
    time.sleep(moment)
    assert run.process.poll() is None, run.finish() and run.output
    kill(run)
    run.finish()
    assert unchanged() == (), f"after {moment:.2f} s"


#: How else a run ends, every merge sees in test_bad_luck.py; pods add what a dead one leaves.
DAILY = [pytest.param(how, marks=pytest.mark.daily) for how in (interrupt, kill_agent)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(KILLS))
@pytest.mark.parametrize("how", [kill, *DAILY], ids=lambda f: f.__name__)
def test_killed_at_a_random_moment(
    how: Callable[[UserRun], None], seed: int, start: Start, unchanged: Unchanged
) -> None:
    moment = random.Random(f"pods {how.__name__} {seed}").uniform(0.0, 3.0)
    network = random.Random(seed).choice(NETWORKS)
    run = start("-k", f"bmp2bmp_{network} and test_throughput", "--frame-sizes=64,128,256")
    run.wait_until_begun()
    time.sleep(moment)
    assert run.process.poll() is None, run.finish() and run.output
    how(run)
    run.finish()
    assert unchanged() == (), f"{network}, after {moment:.2f} s"


@pytest.mark.slow
@pytest.mark.daily  # what is killed on two hosts, every merge sees with vSwitches (test_hosts.py)
@pytest.mark.parametrize("pod", ["netns", BY_PODMAN, BY_CRI])
@pytest.mark.parametrize("seed", seeds(KILLS))
def test_pods_on_two_hosts_are_killed_at_a_random_moment(
    seed: int, pod: str, start: Start, unchanged: Unchanged
) -> None:
    moment = random.Random(f"two hosts {seed}").uniform(0.0, 3.0)
    frames = ("-k", "bmp2bmp_vxlan and test_throughput", "--frame-sizes=64,128,256")
    sockets = ("-k", "bmp2bmp_vxlan and UDP_RR and not routed", f"--pod={pod}")
    if pod == "netns":
        run = start(*frames, *SPREAD)
    else:
        run = start(*sockets, *SPREAD, path="testcases/test_endpoints.py")
    run.wait_until_begun()
    time.sleep(moment)
    assert run.process.poll() is None, run.finish() and run.output
    kill(run)
    run.finish()
    wait_for(lambda: not left(), 30, "what both hosts have left to be taken away")
    assert unchanged() == (), f"after {moment:.2f} s"
