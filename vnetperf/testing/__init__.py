"""What plugin authors and our own tests use: the contract kit and the simulated DUT."""

import pytest

pytest.register_assert_rewrite(
    "vnetperf.testing.vswitch",
    "vnetperf.testing.single_frames",
    "vnetperf.testing.vswitch",
    "vnetperf.testing.vswitch",
    "vnetperf.testing.stage",
    "vnetperf.testing.generator",
    "vnetperf.testing.generator",
)

from vnetperf.testing.generator import GeneratorContract  # noqa: E402 - after the lines above
from vnetperf.testing.vswitch import VSwitchContract  # noqa: E402

__all__ = ["GeneratorContract", "VSwitchContract"]
