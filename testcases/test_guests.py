"""What processors and memory of VNFs do, held against the host's on the same processors.

They run when this file is named: `pytest testcases/test_guests.py -k pvp_bridge --vnf vloop:vm`;
`--instances` threads in each guest. docs/guests.md defines what is measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.model.transfer import Kind
    from vnetperf.runner.bench import Bench


@pytest.mark.deployments("pvp", "pvvp", "pvpv")
@pytest.mark.parametrize("kind", ["GUEST_CPU", "GUEST_READ", "GUEST_WRITE", "GUEST_RANDOM_READ"])
def test_guest_speed(bench: Bench, kind: Kind) -> None:
    """Computation, and memory read and written, in all guests at once."""
    bench.run_workload(kind).check_expectations()
