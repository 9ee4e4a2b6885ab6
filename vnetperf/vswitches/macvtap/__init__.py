"""Macvtap as a vSwitch: the kernel steers frames by MAC address between a NIC and VNFs."""

from vnetperf.vswitches.macvtap.switch import Macvtap

__all__ = ["Macvtap"]
