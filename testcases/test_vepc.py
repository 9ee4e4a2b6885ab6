"""A mobile core's user plane: `-k vepc` measures RFC 2544 throughput too (test_rfc2544.py).

Packets of UEs are in GTP-U at the tester's port 0 and plain at port 1; `--core sessions=N` says
how many UEs attach before, and the attach phase stands with the facts of the scenario.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.runner.bench import Bench


@pytest.mark.transfers("users")
@pytest.mark.deployments("vepc")
def test_users_traffic(bench: Bench) -> None:
    """TCP and UDP between a UE and a server behind the mobile core, by iperf3, each both ways."""
    bench.users_traffic().check_expectations()
