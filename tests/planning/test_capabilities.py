"""What a scenario asks for and a part cannot do is refused with one message, before anything."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vnetperf.model.base import Frozen
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import CapabilityError
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import TrafficProfile
from vnetperf.planning.capability_check import attachment_kind, check_capabilities
from vnetperf.plugin.generator import GeneratorCapabilities
from vnetperf.plugin.vswitch import VSwitchCapabilities


class PartOptions(Frozen):
    depth: int = 1


def part(**capabilities: Any) -> Any:
    wanted: dict[str, Any] = {"wires": ("memif",), "attachments": ("vhost-user", "tap")}
    can = VSwitchCapabilities(**{**wanted, **capabilities})
    return SimpleNamespace(
        capabilities=can, Options=PartOptions, list_attachments=lambda scenario: can.attachments
    )


VNF: Any = SimpleNamespace(attachments=("vhost-user",), accepts=lambda scenario: ("vhost-user",))


def choosy(kind: str) -> Any:
    """A VNF that plugs into one kind less in the scenario's mode."""
    return SimpleNamespace(
        attachments=("vhost-user", kind),
        accepts=lambda scenario: (kind,),
        narrowed_by=lambda scenario: f" in mode {scenario.vnf_mode}",
    )


def check(deployment: str = "pvp", vswitch: Any = None, vnf: Any = VNF, **wishes: Any) -> None:
    scenario = Scenario(
        deployment=make_deployment(deployment),
        vswitch="switch",
        traffic=TrafficProfile(),
        **wishes,
    )
    can = GeneratorCapabilities(wires=("memif",), attachments=("tap",), tunnels=("gre",))
    check_capabilities(scenario, vswitch or part(), vnf, SimpleNamespace(capabilities=can))


def test_a_mode_may_not_plug_in_where_the_vnf_can() -> None:
    check(vnf=choosy("tap"), vnf_mode="bridge")
    expected = r"offers vhost-user, tap; vloop in mode bridge accepts veth\n.*another --vnf-mode"
    with pytest.raises(CapabilityError, match=expected):
        check(vnf=choosy("veth"), vnf_mode="bridge")


def test_what_everybody_can_is_accepted() -> None:
    check()
    check("p2v")
    check(options=SwitchOptions(depth=2))
    check(options=SwitchOptions(mtu=9000), vswitch=part(options=("mtu",)), max_frame_size=9018)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"options": SwitchOptions(mode="vepa")}, "switch has no modes"),
        ({"options": SwitchOptions(workers=2)}, r"no option workers \(it is set to 2\)"),
        ({"rules": "stream"}, "cannot do rules = stream"),
        ({"forwarding": "l3"}, "cannot do forwarding = l3"),
        ({"deployment": "encap"}, "cannot do tunnel = vxlan"),
        (
            {"deployment": "pvpv", "vswitch": part(chains=False)},
            "cannot distinguish parallel chains",
        ),
        (
            {
                "options": SwitchOptions(mtu=1500),
                "vswitch": part(options=("mtu",)),
                "max_frame_size": 1519,
            },
            "an MTU of 1500 carries no frames of 1519 octets",
        ),
        ({"vswitch": part(attachments=("vf",))}, "switch offers vf; vloop accepts vhost-user"),
        ({"vswitch": part(attachments=())}, "switch offers no attachment"),
        (
            {"deployment": "v2v", "vswitch": part(attachments=("vf",))},
            "switch offers vf; loadgen accepts tap",
        ),
        (
            {"deployment": "decap", "vswitch": part(tunnels=("vxlan",))},
            "loadgen cannot send frames in a vxlan tunnel",
        ),
        (
            {
                "forwarding": "l3",
                "rules": "learning",
                "vswitch": part(forwarding=("l3",), rules=("learning",)),
            },
            "routes does not learn",
        ),
    ],
)
def test_what_a_part_cannot_do_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(CapabilityError, match=said):
        check(**asked)


def test_a_tunnel_makes_frames_larger_than_the_mtu() -> None:
    can = part(tunnels=("gre",), options=("mtu",))
    with pytest.raises(CapabilityError, match="accepted: 1538 or more"):
        check("encap", can, tunnel="gre", options=SwitchOptions(mtu=1500))
    check("encap", can, tunnel="gre")


def test_the_attachment_is_the_first_that_both_sides_know() -> None:
    backends: Any = SimpleNamespace(scenario=None, vswitch=part())
    assert attachment_kind(backends, ("tap", "vhost-user")) == "vhost-user"
    assert attachment_kind(backends, ("tap",)) == "tap"
