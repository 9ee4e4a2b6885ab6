"""What each test of a preset does: the parameters that its standard leaves open or sets.

The defaults are those of the standard's full test; presets say what they shorten.
"""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from vnetperf.model.base import Frozen

#: Tests that a preset can name, in the order in which they are run: later ones need the throughput.
TestName = Literal[
    "throughput",
    "latency",
    "frame_loss",
    "back_to_back",
    "recovery",
    "reset",
    "mrr",
    "loss_profile",
    "soak",
    "forwarding_rate",
    "address_caching",
    "address_learning",
]


class Procedure(Frozen):
    """What the parameters of all tests have in common."""

    model_config = ConfigDict(allow_inf_nan=False)


class LatencyTest(Procedure):
    """RFC 2544 section 26.2.

    Attributes:
        shares: Loads, each as a share of the throughput; the clause asks for 1.
        loads_fps: Loads besides, frames/s per interface.
        duration_s: Seconds of a stream: at least 120 by the clause.
        tag_at_s: Frames sent before are not looked at, seconds: 60 by the clause.
        repeats: Trials at each load: at least 20 by the clause.
    """

    shares: tuple[float, ...] = (1.0,)
    loads_fps: tuple[float, ...] = ()
    duration_s: float = Field(default=120.0, gt=0)
    tag_at_s: float = Field(default=60.0, ge=0)
    repeats: int = Field(default=20, ge=1)


class FrameLossTest(Procedure):
    """RFC 2544 section 26.3.

    Attributes:
        step: Step down from the largest load, as a share of it; at most 0.1 by the clause.
        duration_s: Seconds of a trial.
    """

    step: float = Field(default=0.1, gt=0, le=0.5)
    duration_s: float = Field(default=60.0, gt=0)


class BackToBackTest(Procedure):
    """RFC 9004.

    Attributes:
        searches: Independent searches at a size: RFC 2544 section 26.4 asks for 50.
        max_burst_s: Longest burst, seconds at the largest rate.
        idle_s: Wait after each burst, seconds: at least 2 by the RFC.
        step_frames: Resolution, frames.
        repeats_after_loss: A burst that lost frames is tried this many times again (TST009 max(r)).
    """

    searches: int = Field(default=50, ge=1)
    max_burst_s: float = Field(default=2.0, gt=0)
    idle_s: float = Field(default=2.0, ge=0)
    step_frames: int = Field(default=1, ge=1)
    repeats_after_loss: int = Field(default=0, ge=0)


class RecoveryTest(Procedure):
    """RFC 2544 section 26.5.

    Attributes:
        overload: Load before, as a share of the throughput: 1.1 by the clause.
        relaxed: Load after, as a share of the overload: 0.5 by the clause.
        overload_s: Seconds of overload: at least 60 by the clause.
        relaxed_s: Seconds after.
        repeats: Trials: several by the clause.
        bin_s: Width of the recovery curve's bins, seconds.
    """

    overload: float = Field(default=1.1, gt=1)
    relaxed: float = Field(default=0.5, gt=0, lt=1)
    overload_s: float = Field(default=60.0, gt=0)
    relaxed_s: float = Field(default=10.0, gt=0)
    repeats: int = Field(default=5, ge=1)
    bin_s: float = Field(default=0.01, gt=0)


class ResetTest(Procedure):
    """RFC 2544 section 26.6, RFC 6201.

    Attributes:
        what: What is reset: "vswitch", "vnf" (the first one), "link" (the DUT's first port).
        share: Load as a share of the throughput: 1 by the clause.
        before_s: Seconds of traffic before the reset.
        after_s: Seconds after it; a DUT that is not back by then has no number.
        link_down_s: How long a link stays down, seconds.
        repeats: Trials for each.
        bin_s: Width of the curve's bins, seconds.
    """

    what: tuple[Literal["vswitch", "vnf", "link"], ...] = ("vswitch", "vnf", "link")
    share: float = Field(default=1.0, gt=0, le=1)
    before_s: float = Field(default=5.0, gt=0)
    after_s: float = Field(default=30.0, gt=0)
    link_down_s: float = Field(default=1.0, gt=0)
    repeats: int = Field(default=5, ge=1)
    bin_s: float = Field(default=0.01, gt=0)


class MrrTest(Procedure):
    """Maximum receive rate, as FD.io CSIT measures it: trials at the largest load.

    Attributes:
        duration_s: Seconds of a trial.
        repeats: Trials.
    """

    duration_s: float = Field(default=1.0, gt=0)
    repeats: int = Field(default=10, ge=1)


class LossProfileTest(Procedure):
    """Loss around the throughput.

    Attributes:
        shares: Loads as shares of the throughput.
        duration_s: Seconds of a trial.
        repeats: Trials at each load.
    """

    shares: tuple[float, ...] = (0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1, 1.2)
    duration_s: float = Field(default=10.0, gt=0)
    repeats: int = Field(default=3, ge=1)


class SoakTest(Procedure):
    """A long run at one load.

    Attributes:
        share: Load as a share of the throughput.
        duration_s: Seconds of traffic in all.
        trial_s: Seconds of one trial; they follow one another.
        loss_ratio: Loss ratio that it is held against.
    """

    share: float = Field(default=1.0, gt=0, le=1)
    duration_s: float = Field(default=1800.0, gt=0)
    trial_s: float = Field(default=60.0, gt=0)
    loss_ratio: float = Field(default=1e-7, ge=0, lt=1)


class Rfc2889Test(Procedure):
    """RFC 2889 sections 5.6 to 5.8.

    Attributes:
        duration_s: Seconds of a trial: 30 by default in section 4.
        shares: Loads of the forwarding rate, as shares of the largest that can be offered.
        max_addresses: Most addresses tried.
        learning_fps: Rate at which addresses are sent in the caching test, frames/s.
        ageing_s: Wait after which a DUT has forgotten addresses, seconds; 0: its first port is
            taken down and up instead.
    """

    duration_s: float = Field(default=30.0, gt=0)
    shares: tuple[float, ...] = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
    max_addresses: int = Field(default=65536, ge=2)
    learning_fps: float = Field(default=1000.0, gt=0)
    ageing_s: float = Field(default=0.0, ge=0)
