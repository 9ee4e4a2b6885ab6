"""What both Open vSwitch backends share: a private instance, bridges, rules, tunnels, counters."""

from vnetperf.vswitches.openvswitch.switch import OpenVSwitch

__all__ = ["OpenVSwitch"]
