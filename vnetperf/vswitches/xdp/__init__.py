"""XDP programs as a vSwitch: the kernel forwards in the driver, or before its network stack."""

from vnetperf.vswitches.xdp.switch import Xdp

__all__ = ["Xdp"]
