"""An endpoint in a VNF that routes: an address on its port 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch

from vnetperf.images.recipe import RECIPES
from vnetperf.launchers.endpoint import Endpoint, Place
from vnetperf.launchers.vm.guest import Guest
from vnetperf.launchers.vm.place import GuestEndpoint
from vnetperf.model.scenario import Scenario

#: A form in which the kernel has addresses of its own.
MODE = "route"


def misfit(scenario: Scenario, name: str) -> str:
    """What keeps a VNF of the kernel from being an endpoint.

    Args:
        scenario: The scenario.
        name: What users call the VNF.

    Returns:
        "" when nothing does; otherwise what and the cure.
    """
    if scenario.vnf_mode == MODE:
        return ""
    return (
        f"{name} in mode {scenario.vnf_mode} has no kernel with an address of its own; leave "
        f"--vnf-mode out or make it {MODE}, or --endpoint-server far"
    )


def lacks(image: str, programs: Sequence[str]) -> str:
    """Which programs a guest image has not.

    Args:
        image: Name of the image, or path of a disk image.
        programs: Names of programs.

    Returns:
        "" when it has them, or is none of ours; otherwise what is missing and the cure.
    """
    known = RECIPES.get(image)
    if known is None:
        return ""
    held = (*known.programs, *known.extras)
    missing = [
        name
        for name in programs
        if not any(fnmatch(f"usr/{place}/{name}", one) for place in ("bin", "sbin") for one in held)
    ]
    if not missing:
        return ""
    return (
        f"the guest image {image} has no {missing[0]}; choose another tool, or --guest "
        "image=/path/NAME.qcow2 with a disk that has it"
    )


@contextmanager
def addressed(what: str, place: Place, netdev: str, address: str) -> Iterator[Endpoint]:
    """Give an interface of a VNF an address, which it keeps until the VNF ends.

    The kernel forgets all routes by an interface when its last address goes, and a VNF that routes
    has no other.

    Args:
        what: What it is called in reports.
        place: Where programs run in it.
        netdev: The interface of its port 0.
        address: The address.

    Yields:
        The endpoint.

    Raises:
        HostError: The address cannot be set.
    """
    place.run(["ip", "address", "replace", f"{address}/32", "dev", netdev])
    yield Endpoint(what, place, address, netdev)


@contextmanager
def in_guest(role: str, guest: Guest, address: str) -> Iterator[Endpoint]:
    """Give port 0 of a guest an address.

    Args:
        role: Which VNF it is.
        guest: The guest.
        address: The address.

    Yields:
        The endpoint.

    Raises:
        DutError: The address cannot be set.
    """
    netdev = guest.interface(guest.domain.nics[0].mac)
    with addressed(f"{role} (VM)", GuestEndpoint(guest), netdev, address) as endpoint:
        yield endpoint
