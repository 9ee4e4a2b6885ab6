"""NICs that do not exist, two cables of them."""

from __future__ import annotations

from typing import Any

from vnetperf.model.testbed import MachineFacts, NicConfig, NicFacts

TESTER0, TESTER1, DUT0, DUT1 = (f"0000:{bus}:00.0" for bus in ("21", "22", "41", "42"))
CABLES = (NicConfig(tester=TESTER0, dut=DUT0), NicConfig(tester=TESTER1, dut=DUT1))


def nic(address: str, **changes: Any) -> NicFacts:
    """A free NIC with SR-IOV, in an IOMMU group of its own."""
    whole = NicFacts(
        address=address,
        driver="igb",
        kernel_driver="igb",
        interfaces=(f"enp{int(address[5:7], 16)}s0",),
        node=0 if address < DUT0 else 1,
        max_vfs=7,
        iommu_group=int(address[5:7], 16),
    )
    return whole.model_copy(update=changes)


def with_nics(machine: MachineFacts, **changes: dict[str, Any]) -> MachineFacts:
    """A machine with two cables.

    Args:
        machine: The machine.
        **changes: By the names of this module in lower case: what is different of a NIC.

    Returns:
        The machine with NICs.
    """
    named = {"tester0": TESTER0, "tester1": TESTER1, "dut0": DUT0, "dut1": DUT1}
    nics = tuple(nic(address, **changes.get(name, {})) for name, address in named.items())
    return machine.model_copy(update={"nics": nics})
