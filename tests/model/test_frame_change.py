"""Tests of what a DUT does to frames: as fields of scenarios and streams, and in their JSON."""

from __future__ import annotations

import json

import pytest

from vnetperf.model.balancing import Services
from vnetperf.model.deployment import make_deployment
from vnetperf.model.frame_change import FrameChange
from vnetperf.model.nat import Nat
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import Stream

NAT, SERVICES = Nat(subscribers=5, ports=4), Services(services=3, flows=11)


def scenario(change: FrameChange | None) -> Scenario:
    return Scenario(
        deployment=make_deployment("phy2phy"),
        vswitch="x",
        traffic=TrafficProfile(),
        change=change,
    )


@pytest.mark.parametrize(("change", "key"), [(NAT, "nat"), (SERVICES, "services"), (None, "")])
def test_a_change_stands_in_json_under_the_name_of_its_kind(
    change: FrameChange | None, key: str
) -> None:
    planned = scenario(change)
    for whole, model in ((planned, Scenario), (planned.streams[1], Stream)):
        written = json.loads(whole.model_dump_json())
        assert "change" not in written
        assert [name for name in ("nat", "services") if written[name] is not None] == [key][
            : bool(key)
        ]
        assert model.model_validate_json(whole.model_dump_json()) == whole


def test_what_is_as_by_default_is_left_out() -> None:
    assert {"nat", "services"}.isdisjoint(scenario(None).model_dump(exclude_defaults=True))
    written = scenario(NAT).model_dump(exclude_defaults=True, mode="json")
    assert written["nat"] == {"subscribers": 5, "ports": 4}
    assert "services" not in written


def test_a_wrong_value_is_refused_with_its_name() -> None:
    fields = json.loads(scenario(NAT).model_dump_json())
    with pytest.raises(ValueError, match="subscribers"):
        Scenario.model_validate(fields | {"nat": {"subscribers": 0}})


def test_nothing_is_learnt_of_a_dut_whose_flows_are_known() -> None:
    assert not SERVICES.learns_ends
    with pytest.raises(TypeError, match="load balancer"):
        SERVICES.with_learnt_clients(b"", b"")
