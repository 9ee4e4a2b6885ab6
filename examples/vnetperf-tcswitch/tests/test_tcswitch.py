"""The contract of vSwitches, kept by this one."""

from vnetperf.testing import VSwitchContract


class TestTcSwitch(VSwitchContract):
    """Every behaviour that a vSwitch must have."""

    vswitch = "tcswitch"
