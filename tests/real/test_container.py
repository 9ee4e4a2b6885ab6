"""vloop in a container for real: every form and attachment, deaths, and what is left: nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import UserRun
from tests.real.needs import module_problem
from tests.real.switches import SLOW, deployed, fails, forwards
from tests.real.test_bad_luck import agents
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.trial import run_trial
from vnetperf.host import links
from vnetperf.model.errors import CapabilityError, DutError
from vnetperf.model.trial import TrialResult

Unchanged = Callable[[], tuple[str, ...]]
PLACE = "vloop:container"


def needs(module: str) -> pytest.MarkDecorator:
    """Skip where the kernel has no such module."""
    trouble = module_problem(module)
    return pytest.mark.skipif(bool(trouble), reason=f"no {module}: {trouble}")


bridge, macvlan = needs("bridge"), needs("macvtap")


def bpf_mounts() -> list[str]:
    """BPF file systems of the machine; tools that load programs like to leave one."""
    return [line for line in Path("/proc/mounts").read_text().splitlines() if " bpf " in line]


def inside_adds_up(deployment: LiveDeployment, result: TrialResult) -> None:
    """What the VNF counted inside is what the switch counted at the other side of each port."""
    hops = {hop.port: hop for hop in result.hops}
    for port in deployment.plan.scenario.deployment.vnf_ports():
        inside, switch = hops[f"{port} (inside)"], hops[str(port)]
        assert (inside.rx, inside.tx) == (switch.tx, switch.rx), port


@pytest.mark.parametrize(
    ("scenario", "settings"),
    [
        pytest.param("pvp_bridge", {"vnf_mode": "bridge"}, marks=bridge),
        pytest.param(
            "pvp_bridge",
            {"vnf_mode": "bridge", "rules": "learning"},
            marks=[bridge, pytest.mark.daily],
        ),
        pytest.param("pvp_bridge", {"vnf_mode": "xdp"}, marks=bridge),
        pytest.param("pvp_bridge", {"vnf_mode": "route"}, marks=[bridge, pytest.mark.daily]),
        pytest.param("pvp_bridge", {"vnf_mode": "io"}, marks=[bridge, pytest.mark.daily]),
        pytest.param("pvp_bridge", {"vnf_mode": "5tswap"}, marks=[bridge, pytest.mark.daily]),
        pytest.param("pvvp_bridge", {"vnf_mode": "bridge"}, marks=[bridge, pytest.mark.daily]),
        pytest.param("pvvp_bridge", {"vnf_mode": "xdp"}, marks=[bridge, pytest.mark.daily]),
        pytest.param("pvvp_bridge", {"vnf_mode": "route"}, marks=[bridge, pytest.mark.daily]),
        pytest.param("pvpv_bridge", {"vnf_mode": "xdp"}, marks=[bridge, pytest.mark.daily]),
        pytest.param("pvpv_bridge", {"vnf_mode": "route"}, marks=[bridge, pytest.mark.daily]),
        pytest.param("pvp_macvtap", {"vnf_mode": "mac"}, marks=[macvlan, pytest.mark.daily]),
        pytest.param("pvp_macvtap", {"vnf_mode": "route"}, marks=[macvlan, pytest.mark.daily]),
        pytest.param("pvp_macvtap", {"vnf_mode": "xdp"}, marks=[macvlan, pytest.mark.daily]),
        pytest.param("pvvp_macvtap", {"vnf_mode": "route"}, marks=[macvlan, pytest.mark.daily]),
        ("pvp_dpdk", {}),
        pytest.param("pvp_testpmd", {}, marks=pytest.mark.daily),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value.values()) or "auto",
)
def test_every_port_counts_what_the_tester_sent(
    scenario: str, settings: dict[str, str], unchanged: Unchanged
) -> None:
    before = bpf_mounts()
    with deployed(scenario, vnf=PLACE, **settings) as deployment:
        result = forwards(deployment)
        inside_adds_up(deployment, result)
        assert bpf_mounts() == before
        for vnf in deployment.vnfs:
            facts = vnf.facts()
            assert facts["mode"] == deployment.plan.scenario.vnf_mode
            assert "container" in facts["launcher"]
    assert unchanged() == ()


@bridge
@pytest.mark.daily
@pytest.mark.parametrize("mode", ["bridge", "route", "xdp", "io"])
def test_jumbo_frames_cross(mode: str, unchanged: Unchanged) -> None:
    settings: dict[str, Any] = {"set": ("mtu=9000",), "frame_sizes": (64, 9018)}
    with deployed("pvp_bridge", vnf=PLACE, vnf_mode=mode, **settings) as deployment:
        forwards(deployment, 9018)
    assert unchanged() == ()


@bridge
@pytest.mark.daily
@pytest.mark.parametrize("mode", ["bridge", "xdp", "io"])
def test_the_switch_can_be_started_again(mode: str, unchanged: Unchanged) -> None:
    with deployed("pvp_bridge", vnf=PLACE, vnf_mode=mode) as deployment:
        deployment.restart_vswitch()
        run_trial(deployment, SLOW)  # what was sent into nothing meanwhile is over
        forwards(deployment)
    assert unchanged() == ()


@bridge
def test_interfaces_are_in_the_container_and_nowhere_else(unchanged: Unchanged) -> None:
    with deployed("pvp_bridge", vnf=PLACE, vnf_mode="xdp") as deployment:
        vnf: Any = deployment.vnfs[0]
        ours = {link.name for link in links.links(vnf.container.netns)} - {"lo"}
        assert ours == {port.netdev for port in vnf.forwarder.ports}
        assert not ours & {link.name for link in links.links(deployment.machine.netns)}
    assert unchanged() == ()


@bridge
@pytest.mark.daily
@pytest.mark.parametrize(("mode", "name"), [("bridge", "vloop"), ("xdp", ""), ("route", "")])
def test_a_form_that_vanishes_in_a_trial_is_no_number(
    mode: str, name: str, unchanged: Unchanged
) -> None:
    with deployed("pvp_bridge", vnf=PLACE, vnf_mode=mode) as deployment:
        vnf: Any = deployment.vnfs[0]
        gone = name or vnf.forwarder.ports[0].netdev
        result = fails(deployment, lambda: links.delete(gone, netns=vnf.container.netns))
        assert "gone" in result.failure
        with pytest.raises(DutError, match="gone"):
            vnf.check_alive()
    assert unchanged() == ()


@bridge
def test_a_program_that_dies_in_a_trial_is_no_number(unchanged: Unchanged) -> None:
    with deployed("pvp_bridge", vnf=PLACE, vnf_mode="io") as deployment:
        (pid,) = {poller.pid for vnf in deployment.vnfs for poller in vnf.pollers()}
        program = deployment.vnfs[0].facts()["application"]
        result = fails(deployment, lambda: os.kill(pid, signal.SIGKILL))
        assert f"vnf0 ({program}) has ended" in result.failure
    assert unchanged() == ()


@pytest.mark.parametrize("mode", ["bridge", "route", "xdp"])
def test_a_form_without_interfaces_is_refused(mode: str) -> None:
    with (
        pytest.raises(
            CapabilityError, match=rf"dpdk offers vhost-user.*in mode {mode} accepts veth"
        ),
        deployed("pvp_dpdk", vnf=PLACE, vnf_mode=mode),
    ):
        pass


@bridge
@pytest.mark.daily
@pytest.mark.parametrize("mode", ["bridge", "xdp", "io"])
def test_a_run_that_is_killed_leaves_no_container(
    mode: str, start: Callable[..., UserRun], unchanged: Unchanged
) -> None:
    run = start("-k", "pvp_bridge", f"--vnf={PLACE}", f"--vnf-mode={mode}", "--frame-sizes=64")
    run.wait_for(lambda records: any(record["type"] == "trial" for record in records))
    doomed = agents(run.process.pid)
    assert doomed
    run.process.kill()
    for pid in doomed:
        os.kill(pid, signal.SIGKILL)
    run.finish()
    assert unchanged() == ()


@bridge
@pytest.mark.daily  # users measure over two hosts with the same container
def test_a_user_measures(start: Callable[..., UserRun], unchanged: Unchanged) -> None:
    run = start("-k", "pvp_bridge", f"--vnf={PLACE}", "--vnf-mode=bridge", "--frame-sizes=64")
    assert run.finish() == 0, run.output
    (result,) = run.json()["results"]
    assert result["status"] == "measured", run.output
    assert result["goals"][0]["lower_bound_fps"] > 0
    assert unchanged() == ()
