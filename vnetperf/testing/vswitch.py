"""The contract kit of vSwitches: what every backend must do, tried on real software.

A plugin's own tests name it once:

    from vnetperf.testing import VSwitchContract

    class TestMySwitch(VSwitchContract):
        vswitch = "my_switch"
"""

from __future__ import annotations

from vnetperf.testing.lifecycle import LifeCycle
from vnetperf.testing.promises import Promises
from vnetperf.testing.single_frames import SingleFrames
from vnetperf.testing.trials import Trials


class VSwitchContract(LifeCycle, SingleFrames, Trials, Promises):
    """What any vSwitch must do; a subclass names one. Tests of the last part run first.

    Attributes:
        vswitch: Registered name of the vSwitch.
        known: What it is known not to do: a part of a test's id -> why. Those tests must fail.
    """
