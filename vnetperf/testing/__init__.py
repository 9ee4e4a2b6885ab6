"""What plugin authors and our own tests use: the contract kit and the simulated DUT."""

import pytest

pytest.register_assert_rewrite(
    *(
        f"vnetperf.testing.{name}"
        for name in ("vswitch", "single_frames", "stage", "generator", "network", "collector")
    )
)

from vnetperf.testing.collector import CollectorContract  # noqa: E402 - after the rewrite
from vnetperf.testing.generator import GeneratorContract  # noqa: E402 - after the rewrite
from vnetperf.testing.network import NetworkContract  # noqa: E402 - after the rewrite
from vnetperf.testing.vswitch import VSwitchContract  # noqa: E402 - after the rewrite

__all__ = ["CollectorContract", "GeneratorContract", "NetworkContract", "VSwitchContract"]
