"""Transfers between sockets through what is deployed, in place of the tester."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from vnetperf.launchers.endpoint import Ends
from vnetperf.model.errors import CapabilityError
from vnetperf.model.ports import WireEnd
from vnetperf.model.transfer import ServerPlace, Transfer, TransferSpec
from vnetperf.testbed.ends import in_place_of_tester
from vnetperf.testbed.exchange import Exchange

if TYPE_CHECKING:
    from vnetperf.testbed.deploy import Deployment

PlugIn = Callable[[tuple[WireEnd, ...]], AbstractContextManager[Ends]]


def _nothing() -> None:
    return


def users_transfer(
    deployment: Deployment, specs: Sequence[TransferSpec], watch: Callable[[], None] = _nothing
) -> tuple[Transfer, ...]:
    """Let users of the VNF talk to a server in place of the tester.

    Args:
        deployment: What is deployed.
        specs: What is to be transferred, one after the other.
        watch: Called meanwhile; what it raises goes through.

    Returns:
        What each came to; the tester is back.

    Raises:
        VnetperfError: Nothing has users here, or it failed.
    """
    if not deployment.vnfs:
        raise CapabilityError("nothing here has users", where=deployment.plan.scenario.id)
    return _transfer(deployment, deployment.vnfs[0].users, specs, watch)


def transfer(
    deployment: Deployment,
    specs: Sequence[TransferSpec],
    server: ServerPlace = "far",
    watch: Callable[[], None] = _nothing,
) -> tuple[Transfer, ...]:
    """Let endpoints talk in place of the tester.

    Args:
        deployment: What is deployed.
        specs: What is to be transferred, one after the other.
        server: Where the second endpoint is.
        watch: Called meanwhile; what it raises goes through.

    Returns:
        What each came to; the tester is back.

    Raises:
        VnetperfError: An endpoint cannot be there, or it failed.
    """
    if server == "vnf" and not deployment.vnfs:
        raise CapabilityError("there is no VNF to be in", where=deployment.plan.scenario.id)
    inside = deployment.vnfs[0] if server == "vnf" else None

    def plug_in(ends: tuple[WireEnd, ...]) -> AbstractContextManager[Ends]:
        return in_place_of_tester(deployment.machine, deployment.plan, ends, inside)

    return _transfer(deployment, plug_in, specs, watch)


def _transfer(
    deployment: Deployment,
    plug_in: PlugIn,
    specs: Sequence[TransferSpec],
    watch: Callable[[], None],
) -> tuple[Transfer, ...]:
    """Take the tester away, run transfers, and bring it back."""

    def watch_all() -> None:
        watch()
        deployment.check_alive()

    with deployment.without_tester() as tester_ends, plug_in(tester_ends) as ends:
        return tuple(Exchange(ends, watch_all).run(specs))
