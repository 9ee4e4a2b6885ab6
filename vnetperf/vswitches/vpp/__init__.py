"""VPP, a private instance beside any system VPP."""

from vnetperf.vswitches.vpp.switch import Vpp

__all__ = ["Vpp"]
