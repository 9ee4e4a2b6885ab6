"""What a real bridge learns is told from what it floods: with room for all, and a full table."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.real.conftest import UserRun
from tests.real.needs import module_problem
from vnetperf import config
from vnetperf.agent.inventory import take_inventory
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.one_host import deploy_plan
from vnetperf.deployment.trial import run_trial
from vnetperf.model.outcomes import AddressTable
from vnetperf.model.parameters import SPARE_ADDRESSES, Rfc2889Test
from vnetperf.model.trial import TrialOutcome, TrialSpec
from vnetperf.planning.planner import make_plan
from vnetperf.plugin.procedure import ProcedureInputs
from vnetperf.procedures.addresses import address_caching, address_learning
from vnetperf.runner.scenarios import address_scenario, make_scenario
from vnetperf.runner.verdict import judge
from vnetperf.search import Procedure

Unchanged = Callable[[], tuple[str, ...]]
pytestmark = [
    pytest.mark.daily,
    pytest.mark.skipif(
        bool(module_problem("bridge")), reason=f"no bridge: {module_problem('bridge')}"
    ),
]
#: Slow enough for a tester that shares its processor.
TEST = Rfc2889Test(max_addresses=2048, learning_fps=1000.0)
#: uapi/linux/if_link.h, if_ether.h and rtnetlink.h; iproute2 knows the first from 6.8 on.
IFLA_BR_FDB_MAX_LEARNED, IFLA_LINKINFO, IFLA_INFO_KIND, IFLA_INFO_DATA = 49, 18, 1, 2
RTM_NEWLINK, NLM_F_REQUEST, NLM_F_ACK, NLMSG_ERROR = 16, 1, 4, 2


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def limit_table(bridge: str, entries: int) -> None:
    """Give a bridge room for so many learned addresses, as Linux 6.8 and later can."""
    data = attribute(IFLA_BR_FDB_MAX_LEARNED, struct.pack("I", entries))
    info = attribute(IFLA_INFO_KIND, b"bridge\0") + attribute(IFLA_INFO_DATA, data)
    body = struct.pack("BxHiII", 0, 0, socket.if_nametoindex(bridge), 0, 0)
    body += attribute(IFLA_LINKINFO, info)
    head = struct.pack("IHHII", 16 + len(body), RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as route:
        route.send(head + body)
        answer = route.recv(4096)
    kind, error = struct.unpack_from("IHHIIi", answer)[1], struct.unpack_from("IHHIIi", answer)[5]
    assert (kind, error) == (NLMSG_ERROR, 0)  # else the kernel does not limit tables of bridges


@contextmanager
def bridged() -> Iterator[LiveDeployment]:
    """A learning bridge between the tester's ports, with traffic of many addresses."""
    settings = {"rules": "learning", "preset": "rfc2889"}
    configuration = config.load(settings, environment={})
    preset = configuration.preset.model_copy(update={"rfc2889": TEST})
    testbed = configuration.testbed.model_copy(update={"lock_timeout_s": 300.0})
    facts = take_inventory(testbed)
    scenario = address_scenario(make_scenario("phy2phy_bridge", configuration), preset)
    deployment = deploy_plan(make_plan(scenario, testbed, facts), facts)
    try:
        yield deployment
    finally:
        assert deployment.teardown() == []


def drive(deployment: LiveDeployment, procedure: Procedure[AddressTable]) -> AddressTable:
    """Run a procedure on what is deployed; trials that are none are repeated."""
    number = 0
    ask = next(procedure)
    while True:
        for _ in range(4):
            number += 1
            spec = TrialSpec(
                frame_size=64,
                load_fps=ask.load_fps,
                duration_s=ask.duration_s,
                drain_s=0.3,
                event=ask.event,
                histogram_up_to_loss=-1.0,
            )
            result = run_trial(deployment, spec)
            seen = TrialOutcome.of(spec, result, judge(result, 0.001)[0], number=number)
            if seen.answers(ask):
                break
        try:
            ask = procedure.send(seen)
        except StopIteration as end:
            found: AddressTable = end.value
            return found


def inputs() -> ProcedureInputs[Rfc2889Test]:
    return ProcedureInputs[Rfc2889Test](
        parameters=TEST, frame_size=64, directions=1, ceiling_fps=100_000.0, media_fps=1e7
    )


def test_a_bridge_with_room_learns_all_of_them(unchanged: Unchanged) -> None:
    with bridged() as deployment:
        found = drive(deployment, address_caching(inputs()))
        assert (found.addresses, found.capped) == (2048, True)
        assert [row[2] for row in found.tried] == [True] * 4
    assert unchanged() == ()


def test_the_size_of_a_full_table_comes_back() -> None:
    with bridged() as deployment:
        (bridge,) = deployment.vswitch.facts()["bridges"]
        deployment.machine.in_netns(lambda: limit_table(bridge, 1000))
        found = drive(deployment, address_caching(inputs()))
        assert not found.capped
        # The addresses beyond those that are checked take room as well.
        assert 1000 - SPARE_ADDRESSES - 12 <= found.addresses <= 1000, found
        assert "forgets" not in found.note


def test_a_link_that_goes_down_makes_a_bridge_forget() -> None:
    with bridged() as deployment:
        found = drive(deployment, address_learning(inputs()))
        assert found.learning_fps >= 1000.0
        assert found.tried[0][2]
        assert "its first port going down" in found.note


def test_a_user_is_told_what_there_is_to_do(start: Callable[..., UserRun]) -> None:
    run = start("-k", "phy2phy_bridge", "--tests=address_caching", "--frame-sizes=64")
    run.finish()
    assert "measure with --rules learning" in run.output
