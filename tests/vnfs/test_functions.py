"""Virtual functions are refused in the plan where a VNF needs interfaces."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.machine import facts
from vnetperf import config, registry
from vnetperf.model.testbed import NicFacts
from vnetperf.runner.scenarios import make_scenario

WITH_IOMMU = NicFacts(address="0000:01:00.0", max_vfs=7, iommu_group=3)
WITHOUT = NicFacts(address="0000:01:00.0", max_vfs=7)


@pytest.mark.parametrize(
    ("scenario", "settings", "nic", "says"),
    [
        ("pvp_sriov", {}, WITH_IOMMU, "where there is an IOMMU they go to vfio-pci"),
        ("pvp_sriov", {}, WITHOUT, ""),
        ("pvp_sriov", {"set": ("vf_driver=vfio-pci",)}, WITHOUT, "vf_driver is vfio-pci"),
        ("pvp_sriov", {"set": ("vf_driver=kernel",)}, WITH_IOMMU, ""),
        ("pvp_bridge", {}, WITH_IOMMU, ""),
        ("pvp_sriov", {"vnf_mode": "mac"}, WITH_IOMMU, ""),  # testpmd takes PCI devices
    ],
)
def test_a_kernel_form_is_not_planned_on_pci_devices(
    scenario: str, settings: dict[str, Any], nic: NicFacts, says: str
) -> None:
    typed = {"vnf": "vloop:container", "vnf_mode": "route", **settings}
    asked = make_scenario(scenario, config.load(typed, environment={}))
    missing = registry.load_vnf("vloop:container").missing(facts(nics=(nic,)), asked)
    assert bool(missing) == bool(says)
    assert says in missing
    if says:
        assert "mode route needs interfaces" in missing
        assert missing.endswith("--set vf_driver=kernel")
