"""Load balancing of services for real: each flow both ways, backends by choice, what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.real.needs import program
from tests.real.switches import SLOW, deployed, forwards
from vnetperf.deployment.trial import run_trial
from vnetperf.host import kernel, xdp
from vnetperf.model.balancing import Services
from vnetperf.model.trial import TrialResult
from vnetperf.testing.stage import repeat_trial
from vnetperf.vswitches.lb.ipvs import MODULES

Unchanged = Callable[[], tuple[str, ...]]
NO_BPF = "clang is not installed" if not program("clang") else xdp.explain_no_bpf()
FLOWS = ("services=20,flows=210,clients=3",)


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not program(name), reason=f"{name} is not installed")


bpf = pytest.mark.skipif(bool(NO_BPF), reason=NO_BPF)
NO_IPVS = next(filter(None, (kernel.module_problem(one) for one in MODULES)), "")
ipvs = pytest.mark.skipif(bool(NO_IPVS), reason=NO_IPVS)
MODES = (
    pytest.param("nft", marks=needs("nft")),
    pytest.param("iptables", marks=[pytest.mark.daily, needs("iptables-restore")]),
    pytest.param("ipvs", marks=[pytest.mark.daily, needs("ipvsadm"), ipvs]),
    pytest.param("tc", marks=bpf),
    pytest.param("xdp", marks=bpf),
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("profile", ["rfc2544", pytest.param("tcp", marks=pytest.mark.daily)])
def test_frames_go_to_backends_and_answers_come_from_services(
    mode: str, profile: str, unchanged: Unchanged
) -> None:
    wishes: dict[str, Any] = {} if profile == "rfc2544" else {"traffic": profile, "flows": 1}
    with deployed("phy2phy_lb", lb=FLOWS, set=(f"mode={mode}",), **wishes) as deployment:
        services = deployment.plan.scenario.change
        assert isinstance(services, Services)
        spec = SLOW.model_copy(
            update={"learning_frames": services.flows, "frame_size": 76 if wishes else 64}
        )
        result = run_trial(deployment, spec)
        assert not result.failed, result.failure
        for counts in result.directions:
            assert counts.sent >= services.flows  # each flow is seen
            assert (counts.received, counts.altered) == (counts.sent, 0)
        assert result.sessions is not None
        assert result.sessions.held == services.flows
        facts = deployment.vswitch.facts()
        if mode in {"tc", "xdp"}:
            where = {"tc": "tc", "xdp": "native"}[mode]
            assert set(facts["modes as the kernel has them"].values()) == {where}
            assert set(facts["dropped by programs until then"].values()) == {"none"}
    assert unchanged() == ()


@pytest.mark.parametrize("mode", MODES)
def test_new_flows_get_a_backend_of_their_own_service(mode: str, unchanged: Unchanged) -> None:
    options = {"lb": ("services=5,flows=500,backends=4",), "traffic": "unidirectional"}
    with deployed("phy2phy_lb", set=(f"mode={mode}",), **options) as deployment:
        forwards(deployment)
        anew = SLOW.model_copy(update={"new_sessions": True})
        every: list[TrialResult] = []

        def trial() -> TrialResult:
            every.append(run_trial(deployment, anew))
            return every[-1]

        for _ in range(2):
            result = repeat_trial(trial, all_sent=True)
            assert not result.failed, result.failure
            counts = result.directions[0]
            assert (counts.received, counts.altered) == (counts.sent, 0)
            assert counts.sent >= 500
            assert result.sessions is not None
            assert result.sessions.held == 500
        found = [result.sessions for result in every if result.sessions is not None]
        assert len(found) == len(every)
        # A trial ends those of the one before, of a disturbed one fewer.
        assert [one.ended for one in found[1:]] == [one.held for one in found[:-1]]
    assert unchanged() == ()
