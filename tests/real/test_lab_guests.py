"""Guests in the virtual lab: vhost-net behind the kernel's OVS, and a NIC's function in a guest.

Nested virtualisation needs a thread for each of the lab's processors, and two guests more memory
than the lab has by itself:

    vnetperf lab run --threads multi --memory 4G -- pytest tests/real/test_lab_guests.py -k vhost
    vnetperf lab run --threads multi -- pytest tests/real/test_lab_guests.py -k functions
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.real.conftest import UserRun
from tests.real.nics import needs_nics, nics_unchanged

__all__ = ["nics_unchanged"]
pytestmark = [pytest.mark.daily, needs_nics, pytest.mark.slow]

Start = Callable[..., UserRun]
Unchanged = Callable[[], tuple[str, ...]]
LAB = ("--testbed=lab", "--frame-sizes=64", "--vnf=vloop:vm", "--guest=vcpus=1")


def guests(run: UserRun) -> list[dict[str, Any]]:
    """What is known of each guest that a run deployed."""
    (scenario,) = run.json()["scenarios"]
    found: list[dict[str, Any]] = scenario["facts"]["vnfs"]
    return found


def zero_loss_at_a_load(run: UserRun) -> bool:
    """Whether frames crossed the guests without loss at a load that the search found."""
    (result,) = run.json()["results"]
    (goal,) = result["goals"]
    return bool(goal["lower_bound_fps"]) and all(
        d["loss_ratio_at_lower_bound"] <= goal["loss_ratio"] for d in goal["per_direction"]
    )


@pytest.mark.parametrize(("scenario", "count"), [("pvp_ovs", 1), ("pvvp_ovs", 2)])
def test_guests_forward_over_vhost_net(
    scenario: str, count: int, start: Start, nics_unchanged: Unchanged
) -> None:
    run = start("-k", scenario, *LAB, "--vnf-mode=bridge", "--guest=accel=kvm")
    assert run.finish(900) == 0, run.output
    found = guests(run)
    assert len(found) == count
    for guest in found:
        assert guest["acceleration"] == "kvm", guest
        assert all(port.endswith("vhost-net") for port in guest["ports"]), guest
    assert zero_loss_at_a_load(run), run.output
    assert nics_unchanged() == ()


def test_a_guest_forwards_between_functions_of_a_nic(
    start: Start, nics_unchanged: Unchanged
) -> None:
    run = start("-k", "pvp_sriov", *LAB)
    assert run.finish(900) == 0, run.output
    assert len(guests(run)) == 1
    assert zero_loss_at_a_load(run), run.output
    assert nics_unchanged() == ()
