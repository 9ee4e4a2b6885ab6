"""The scenario of tests of learned addresses: the same one, with traffic of many addresses."""

from __future__ import annotations

from vnetperf.model.errors import NoResultError
from vnetperf.model.preset import Preset
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.scenario import Scenario
from vnetperf.procedures.addresses import SPARE

VARIANT = "addresses"
#: Locally administered, of nobody else here; the last three octets count.
_FIRST = "02:ad:d2:00:00"


def addressed(scenario: Scenario, preset: Preset) -> Scenario:
    """A scenario whose traffic comes from, and goes to, more and more addresses.

    Args:
        scenario: The scenario as it is measured otherwise.
        preset: Says how many addresses there are to be.

    Returns:
        A variant of it, one way: frame i comes from address i and goes to address i + `SPARE`.

    Raises:
        NoResultError: Its vSwitch is not asked to learn, or a VNF stands between the ports.
    """
    if scenario.rules != "learning":
        raise NoResultError(
            f"with rules {scenario.rules!r} the vSwitch learns no addresses (RFC 2889 sections "
            "5.7 and 5.8)",
            where=scenario.id,
            cure="measure with --rules learning",
        )
    if scenario.deployment.vnf_count:
        raise NoResultError(
            "a VNF between the ports has or hides addresses of its own (RFC 2889 is of switches)",
            where=scenario.id,
            cure="measure a phy2phy scenario",
        )
    profile = TrafficProfile(
        name=VARIANT,
        description="from and to many addresses, one way, to see which of them were learned",
        bidirectional=False,
        flows=preset.rfc2889.max_addresses + SPARE,
        vary=("eth_src", "eth_dst"),
        values={"eth_src": f"{_FIRST}:00", "eth_dst": f"{_FIRST}:{SPARE:02x}"},
        learning_frames=0,
        answers="none",
    )
    return scenario.model_copy(update={"traffic": profile, "variant": VARIANT})
