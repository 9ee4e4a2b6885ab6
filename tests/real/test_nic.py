"""NICs are lent to a run and come back as they were, whatever ends it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.real.nics import needs_nics, nics_unchanged
from vnetperf.agent.inventory import take_inventory
from vnetperf.host import links
from vnetperf.host import nic as nics
from vnetperf.host.machine import Machine
from vnetperf.host.nic import netdev, pci, usage, vfs
from vnetperf.host.session import HostRun, restore
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import MachineFacts, Testbed

__all__ = ["nics_unchanged"]
pytestmark = [pytest.mark.daily, needs_nics]

Unchanged = Callable[[], tuple[str, ...]]


@pytest.fixture
def tester() -> str:
    """Address of the lab's first tester NIC."""
    return "0000:21:00.0"


@pytest.fixture
def configured(tester: str) -> Iterator[str]:
    """An interface that a user has configured; its name."""
    name = netdev.find_interface(tester)
    for line in (
        f"link set {name} up mtu 1400 promisc on",
        f"addr add 192.0.2.9/24 dev {name} label {name}:9",
        f"addr add 2001:db8::9/64 dev {name} nodad",
        f"route add 198.51.100.0/24 via 192.0.2.77 dev {name}",
    ):
        subprocess.run(["ip", *line.split()], check=True)
    # Until then `ip` prints routes with "linkdown".
    wait_for(lambda: links.get(name).carrier, 30.0, f"a link of {name}")
    yield name
    subprocess.run(["ip", "addr", "flush", "dev", name], check=True)
    subprocess.run(["ip", "link", "set", name, "down", "mtu", "1500", "promisc", "off"], check=True)


def configuration(name: str) -> tuple[str, ...]:
    """Addresses and routes of an interface, as ip prints them."""
    lines = []
    for words in (("-o", "addr", "show", "dev", name), ("route", "show", "dev", name)):
        text = subprocess.run(["ip", *words], capture_output=True, text=True, check=True).stdout
        kept = (line.split("valid_lft")[0].split(": ")[-1] for line in text.splitlines())
        lines += sorted(line.strip() for line in kept if "fe80" not in line)
    return tuple(lines)


def test_the_inventory_sees_nics_and_their_use(configured: str, tester: str) -> None:
    facts = take_inventory(Testbed())
    nic = facts.nic(tester)
    assert nic is not None
    assert nic.interfaces == (configured,)
    assert (nic.driver, nic.kernel_driver) == ("igb", "igb")
    assert nic.iommu_group is not None
    assert nic.max_vfs >= 7
    assert nic.node == 0
    assert nic.in_use
    assert "192.0.2.9" in nic.in_use or "2001:db8::9" in nic.in_use
    free = facts.nic("0000:41:00.0")
    assert free is not None
    assert (free.in_use, free.node) == ("", 1)


@pytest.mark.parametrize("how", ["moved", "given"])
def test_a_configured_interface_comes_back_with_addresses_and_routes(
    how: str, configured: str, tester: str, nics_unchanged: Unchanged
) -> None:
    before = configuration(configured)
    assert any("198.51.100.0/24" in line for line in before)
    with HostRun.open(testbed="nic-test") as run:
        machine = Machine(run, MachineFacts(cpus=()))
        if how == "moved":
            name = machine.borrow_nic(tester, mtu=2000, isolated=True)
            assert machine.link(name).mtu == 2000
            assert links.find(configured) is None
        else:
            machine.give_nic(tester, "vfio-pci", isolated=True)
            assert pci.nic(tester).driver == "vfio-pci"
    assert configuration(configured) == before
    assert nics_unchanged() == ()


def test_a_nic_with_a_route_is_not_given_away(configured: str, tester: str) -> None:
    with (
        HostRun.open(testbed="nic-test") as run,
        pytest.raises(HostError, match=r"0000:21:00\.0 is in use: it carries the address"),
    ):
        Machine(run, MachineFacts(cpus=())).give_nic(tester, "vfio-pci")
    assert pci.nic(tester).driver == "igb"
    assert netdev.find_interface(tester) == configured


KILLED = """
import os, signal, sys, time
from vnetperf.host.machine import Machine
from vnetperf.host.session import HostRun
from vnetperf.model.testbed import MachineFacts
run = HostRun.open(testbed="nic-test")
machine = Machine(run, MachineFacts(cpus=()))
machine.borrow_nic("0000:41:00.0", mtu=3000)
machine.give_nic("0000:21:00.0", "vfio-pci")
machine.make_vfs("0000:42:00.0", 2)
if sys.argv[1] == "guardian too":
    os.kill(run.guard.identity.pid, signal.SIGKILL)
if sys.argv[2] == "namespace too":
    os.system(f"umount {machine.netns}")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("guardian", ["guardian stays", "guardian too"])
@pytest.mark.parametrize("namespace", ["namespace stays", "namespace too"])
def test_everything_comes_back_after_sigkill(
    guardian: str, namespace: str, nics_unchanged: Unchanged
) -> None:
    argv = [sys.executable, "-c", KILLED, guardian, namespace]
    assert subprocess.run(argv, check=False, timeout=300).returncode == -9
    if guardian == "guardian too":
        time.sleep(1.0)
        assert restore().complete
    assert nics_unchanged() == ()


def test_functions_in_use_are_not_taken_away(nics_unchanged: Unchanged) -> None:
    with HostRun.open(testbed="nic-test") as run:
        machine = Machine(run, MachineFacts(cpus=()))
        first, second = machine.make_vfs("0000:42:00.0", 2)
        assert vfs.explain_vf_use("0000:42:00.0") == ""
        machine.give_nic(first, "vfio-pci")
        reason = vfs.explain_vf_use("0000:42:00.0")
    for words in (f"virtual function {first}", "vfio-pci"):
        assert words in reason
        with pytest.raises(HostError, match="has virtual functions already"):
            machine.make_vfs("0000:42:00.0", 3)
        assert vfs.vf_addresses("0000:42:00.0") == (first, second)
        physical = next(n for n in nics.inventory() if n.address == "0000:42:00.0")
        assert "given to vfio-pci" in physical.in_use
    assert nics_unchanged() == ()


@pytest.mark.parametrize("how", ["borrowed", "in place", "given"])
def test_settings_of_functions_come_back_with_them(how: str, nics_unchanged: Unchanged) -> None:
    """What an administrator gave to functions that nothing uses at the moment."""
    address, numbers = "0000:42:00.0", pci.SYS / "bus/pci/devices/0000:42:00.0/sriov_numvfs"
    name = netdev.find_interface(address)
    numbers.write_text("2")
    try:
        for number, setting in ((0, "mac 02:00:00:00:00:07 vlan 7 qos 3"), (1, "spoofchk off")):
            words = f"link set {name} vf {number} {setting}".split()
            subprocess.run(["ip", *words], check=True)
        before = netdev.read_state(name)["functions"]
        assert (before[0]["vlan"], before[1]["spoofchk"]) == ({"vlan": 7, "qos": 3}, 0)
        with HostRun.open(testbed="nic-test") as run:
            machine = Machine(run, MachineFacts(cpus=()))
            if how == "borrowed":
                machine.borrow_nic(address, mtu=1500)
            if how == "given":
                machine.give_nic(address, "vfio-pci")
            else:
                machine.make_vfs(address, 3)
        assert netdev.read_state(netdev.find_interface(address))["functions"] == before
    finally:
        numbers.write_text("0")
    assert nics_unchanged() == ()


def test_more_functions_than_there_can_be_change_nothing(nics_unchanged: Unchanged) -> None:
    with (
        HostRun.open(testbed="nic-test") as run,
        pytest.raises(HostError, match="accepted: 0 to"),
    ):
        Machine(run, MachineFacts(cpus=())).make_vfs("0000:42:00.0", 99)
    assert nics_unchanged() == ()


def test_what_the_driver_refuses_is_named() -> None:
    with HostRun.open(testbed="nic-test") as run:
        machine = Machine(run, MachineFacts(cpus=()))
        name = machine.borrow_nic("0000:42:00.0", mtu=1500)
        machine.make_vfs("0000:42:00.0", 1)
        vfs.configure_vf(name, 0, machine.netns, mac="02:76:61:00:00:00", vlan=7, spoof_check=False)
        (state,) = vfs.read_vfs(name, machine.netns)
        assert (state.mac, state.vlan, state.spoof_check) == ("02:76:61:00:00:00", 7, False)
        with pytest.raises(HostError, match="refused to set link = disable"):
            vfs.configure_vf(name, 0, machine.netns, link="disable")


def test_uses_are_of_this_namespace_only() -> None:
    assert "lo" in usage.interface_uses()
