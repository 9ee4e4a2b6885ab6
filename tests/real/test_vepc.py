"""A mobile core for real: UEs attach, users' packets pass both ways, and deaths are no numbers."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.real.needs import module_problem
from tests.real.switches import SLOW, deployed, fails, forwards
from vnetperf import config
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.transfers import transfer_users
from vnetperf.deployment.trial import run_trial
from vnetperf.host.cpu import format_cpus
from vnetperf.model.errors import DutError
from vnetperf.model.transfer import TransferSpec
from vnetperf.virt import images

Unchanged = Callable[[], tuple[str, ...]]
SESSIONS = 50
#: Transfers at most until one loses nothing: a datagram that is on its way when iperf3's receiver
#: stops counts as lost, and on a busy machine some are.
TRANSFERS_AGAIN = 4

pytestmark = [
    pytest.mark.skipif(shutil.which("osmo-ggsn") is None, reason="osmo-ggsn is not installed"),
    *(
        pytest.mark.skipif(bool(module_problem(name)), reason=f"no {name} in this kernel")
        for name in ("bridge", "tun")
    ),
]


def stack_file(folder: Path, *changes: tuple[str, str]) -> str:
    """The shipped core with some of its text changed."""
    text = config.find_file("stacks", "osmo-ggsn").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "changed.toml"
    path.write_text(text)
    return str(path)


def inside(deployment: LiveDeployment, result: Any) -> dict[str, Any]:
    """What the core counted: place -> counters."""
    return {
        hop.port.removesuffix(" (inside)"): hop
        for hop in result.hops
        if hop.port.endswith(" (inside)")
    }


def each_way(result: Any) -> list[int]:
    """Frames that were sent each way: a tester that is late gives some up, one way or the other."""
    return sorted(direction.sent for direction in result.directions)


def test_fifty_sessions_carry_every_frame_both_ways(unchanged: Unchanged) -> None:
    core = (f"sessions={SESSIONS}", "ramp=500")
    with deployed("vepc_bridge", core=core) as deployment:
        facts = deployment.vnfs[0].facts()
        attach = facts["attach"]
        assert (attach["attached"], attach["success rate"]) == (SESSIONS, 1.0)
        assert attach["whole, s"] >= (SESSIONS - 1) / 500
        (sessions,) = facts["sessions"]
        for words in (f"{SESSIONS} ", "UE 198.18.0.1", "TEID 0x1"):
            assert words in sessions
        mine = format_cpus(deployment.plan.placement.cores["vnf0"])
        assert set(facts["threads"].values()) == {f"processors {mine}"}
        for size in (64, 1518):
            result = forwards(deployment, size)
            hops, sent = inside(deployment, result), each_way(result)
            assert sorted((hops["vnf0.tun"].rx, hops["vnf0.tun"].tx)) == sent
            assert sorted((hops["vnf0.gtp-u"].rx, hops["vnf0.gtp-u"].tx)) == sent
            assert not any(hop.rx_dropped or hop.tx_dropped for hop in hops.values())
        deployment.restart_vswitch()
        run_trial(deployment, SLOW)  # what was sent into nothing meanwhile is over
        forwards(deployment)  # of the sessions that are still there
    assert unchanged() == ()


def test_a_core_that_dies_in_a_trial_is_no_number(unchanged: Unchanged) -> None:
    with deployed("vepc_macvtap", vnf="vepc:container") as deployment:
        (pid,) = {poller.pid for poller in deployment.vnfs[0].pollers()}
        result = fails(deployment, lambda: os.kill(pid, signal.SIGKILL))
        assert "osmo-ggsn has ended" in result.failure
        assert "Successfully started" in result.failure  # the log's tail
    assert unchanged() == ()


def test_a_session_that_is_refused_is_one_message(tmp_path: Path, unchanged: Unchanged) -> None:
    few = stack_file(tmp_path, ("prefix dynamic ${ue_network}", "prefix dynamic 198.18.0.0/30"))
    with (
        pytest.raises(DutError, match=r"of 9 sessions were refused.*occupied") as caught,
        deployed("vepc_bridge", core=(few, "sessions=9")),
    ):
        pass
    assert "--core sessions=N" in str(caught.value)
    assert unchanged() == ()


@pytest.mark.daily  # one that dies in a trial is in every merge
def test_a_core_that_dies_on_attach_is_told_with_its_last_words(
    tmp_path: Path, unchanged: Unchanged
) -> None:
    script = "ip tuntap add gtp0 mode tun; echo Successfully started; sleep 1; echo bad luck"
    doomed = stack_file(
        tmp_path, ('["osmo-ggsn", "-c", "${osmo-ggsn.cfg}"]', f'["sh", "-c", "{script}"]')
    )
    with (
        pytest.raises(DutError, match=r"(?s)has ended.*bad luck"),
        deployed("vepc_bridge", core=(doomed,)),
    ):
        pass
    assert unchanged() == ()


def test_a_ue_talks_to_a_server_and_the_tester_comes_back(unchanged: Unchanged) -> None:
    specs = tuple(
        TransferSpec(kind=kind, way=way, duration_s=1, rate_bps=rate)
        for kind, rate in (("TCP_STREAM", 0.0), ("UDP_STREAM", 1e6))
        for way in ("forth", "back")
    )
    with deployed("vepc_bridge") as deployment:
        for _ in range(TRANSFERS_AGAIN):
            found = transfer_users(deployment, specs)
            if not any(transfer.loss_ratio for transfer in found):
                break
        assert [transfer.spec for transfer in found] == list(specs)
        for transfer in found:
            assert transfer.bits_per_second > 0
            assert transfer.client.address == "198.18.0.2"  # the first is the tester's
            assert transfer.version.startswith("iperf 3")
        assert [transfer.loss_ratio for transfer in found] == [None, None, 0.0, 0.0]
        forwards(deployment)
    assert unchanged() == ()


@pytest.mark.daily
@pytest.mark.skipif(images.find("vepc") is None, reason="no image: vnetperf image build vepc")
def test_a_core_in_a_guest_carries_every_frame_at_some_load(unchanged: Unchanged) -> None:
    with deployed("vepc_bridge", vnf="vepc:vm", core=("sessions=20",)) as deployment:
        facts = deployment.vnfs[0].facts()
        assert facts["attach"]["attached"] == 20
        assert facts["sessions"] == ["20 from UE 198.18.0.1, TEID 0x1"]
        for load in (400.0, 200.0, 100.0, 50.0):  # an emulated guest has little, and shares it
            result = run_trial(deployment, SLOW.model_copy(update={"load_fps": load}))
            assert not result.failed, result.failure
            if all(d.received == d.sent for d in result.directions):
                break
        else:
            pytest.fail(f"frames are lost at every load: {result}")
        hops, sent = inside(deployment, result), each_way(result)
        assert sorted((hops["vnf0.tun"].rx, hops["vnf0.tun"].tx)) == sent
        core: Any = deployment.vnfs[0]
        core.guest.agent.run(["kill", "-9", str(core.mobile_core.pids[0])])
        result = run_trial(deployment, SLOW)
        assert result.failed == "dut"
        assert "osmo-ggsn in the guest has ended" in result.failure
    assert unchanged() == ()
