"""The Linux bridge as a vSwitch."""

from vnetperf.vswitches.bridge.switch import LinuxBridge

__all__ = ["LinuxBridge"]
