"""The cgnat backend: each of its modes is a class of its own."""

from __future__ import annotations

from typing import ClassVar

from vnetperf.model.testbed import Testbed
from vnetperf.plugin.modal_switch import ModalSwitch
from vnetperf.plugin.vswitch import VSwitch
from vnetperf.vswitches.cgnat.base import NatSwitch
from vnetperf.vswitches.cgnat.dpdk import ENGINE, DpdkNat, DpdkNatOptions
from vnetperf.vswitches.cgnat.kernel import KernelNat, KernelNatOptions
from vnetperf.vswitches.cgnat.vpp import VppDet44, VppNat44
from vnetperf.vswitches.cgnat.xdp import XdpNat


class CgnatOptions(DpdkNatOptions, KernelNatOptions):
    """Options of all modes."""


class Cgnat(ModalSwitch, NatSwitch):
    """Carrier-grade NAT: the kernel's by nftables or iptables, our own in XDP or on DPDK, VPP's."""

    modes: ClassVar[dict[str, type[VSwitch]]] = {
        "nft": KernelNat,
        "iptables": KernelNat,
        "xdp": XdpNat,
        "rtc": DpdkNat,
        "pipeline": DpdkNat,
        "vpp-det44": VppDet44,
        "vpp-nat44": VppNat44,
    }
    Options = CgnatOptions

    @classmethod
    def look(cls, testbed: Testbed) -> str:
        """Why the modes on DPDK cannot be built on a machine; "" when they can."""
        return ENGINE.problem()
