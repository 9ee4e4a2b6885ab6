"""Whether a variant changes anything: one that does not measures the same under another name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vnetperf import registry
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import CapabilityError
from vnetperf.model.machine import MachineFacts
from vnetperf.model.scenario import Scenario
from vnetperf.model.variant import Variant
from vnetperf.testbed.demands import attachment_kind

#: Settings that are about VNFs.
_OF_VNFS = ("vnf", "vnf_mode", "vnf_placement", "vnfs", "guest", "core")
#: Kinds of attachment whose frames vhost-net can move.
_OF_VHOST_NET = ("tap", "macvtap")


def check_effect(scenario: Scenario, variant: Variant, facts: MachineFacts) -> None:
    """Refuse a variant one of whose settings has nothing to act on.

    A user may type such a setting, for a selection in which it matters to others. Where it is what
    is compared, equal things would stand under different names.

    Args:
        scenario: The scenario with the variant's settings.
        variant: What is laid over.
        facts: The machine.

    Raises:
        CapabilityError: The first setting that changes nothing, and why.
    """
    if not variant.settings:
        return
    given: dict[str, tuple[str, ...]] = {}
    for key, value in variant.settings:
        values = value if isinstance(value, tuple) else (str(value),)
        given[key] = given.get(key, ()) + values
    given = {key: values for key, values in given.items() if values}
    for key, why in _without_effect(scenario, given, facts):
        raise CapabilityError(
            f"{key} = {', '.join(given[key])} changes nothing: {why}",
            where=scenario.id,
            cure="leave this scenario out of the comparison",
        )


def _without_effect(
    scenario: Scenario, given: dict[str, tuple[str, ...]], facts: MachineFacts
) -> Iterator[tuple[str, str]]:
    graph = scenario.deployment
    if not graph.vnf_count:
        yield from ((key, f"{graph.name} has no VNF") for key in _OF_VNFS if key in given)
    if "vnf" in given and scenario.vnf != given["vnf"][-1]:
        yield "vnf", f"{graph.name} is for a mobile core, and runs {scenario.vnf}"
    if "vnfs" in given and make_deployment(graph.name, graph.vnf_count + 1) == graph:
        yield "vnfs", f"{graph.name} always has as many"
    if "core" in given and not graph.gtp:
        yield "core", f"{graph.name} has no mobile core"
    if "tunnel" in given and not graph.tunnelled:
        yield "tunnel", f"{graph.name} has no tunnel"
    if "wire" in given and not graph.phy_ports:
        yield "wire", f"{graph.name} has no wires"
    if not graph.vnf_count:
        return
    if "guest" in given and not scenario.has_guests:
        yield "guest", f"{scenario.vnf} is no guest"
    vnf = registry.load_vnf(scenario.vnf)
    numbers = range(graph.vnf_count)
    if "vnf_placement" in given and not any(vnf.demands(scenario, n) for n in numbers):
        yield "vnf_placement", f"no thread of {scenario.vnf} is placed, the host's kernel forwards"
    if "guest" in given:
        yield from (("guest", why) for why in _of_nics(scenario, vnf, given["guest"], facts))


def _of_nics(
    scenario: Scenario, vnf: Any, pairs: tuple[str, ...], facts: MachineFacts
) -> Iterator[str]:
    """What guests' NICs are, where the attachment leaves no choice."""
    keys = {pair.partition("=")[0] for pair in pairs}
    vswitch = registry.load("vswitches", scenario.vswitch)
    accepted = vnf.accepts(scenario)
    if not set(vswitch.capabilities.attachments) & set(accepted):
        return  # which the plan says better
    kind = attachment_kind(vswitch, accepted)
    if "nic" in keys and kind == "vf":
        yield "the guest's NIC is a function of the machine's"
    if "vhost" in keys and scenario.guest.vhost is False:
        if kind not in _OF_VHOST_NET:
            yield f"vhost-net has no part in an attachment of the kind {kind}"
        elif facts.modules.get("vhost_net"):
            yield "vhost-net is not to be had here, so no variant has it"
