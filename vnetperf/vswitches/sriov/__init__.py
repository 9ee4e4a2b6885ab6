"""The switch inside an SR-IOV NIC, as a vSwitch."""

from vnetperf.vswitches.sriov.switch import Sriov

__all__ = ["Sriov"]
