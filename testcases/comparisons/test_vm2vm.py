"""VM to VM over two hosts: sockets through each vSwitch, by message size and number of clients.

An endpoint on each of two hosts, a vSwitch of the same kind on each, and a cable between:
`pytest testcases/comparisons/test_vm2vm.py --testbed two-hosts --vnf vloop:vm`.

With `--vnf vloop:vm` the endpoints of `v2c2v` are in guests, at what each vSwitch offers them: a
tap, vhost-user of OVS-DPDK and VPP, macvtap. Without it they are in namespaces, and `v2c2v_dpdk`
and `v2c2v_vpp` are skipped: a namespace takes no vhost-user. `p2c2p` has namespaces at the wires of
the vSwitches in both cases, to compare with. What cannot be measured here is skipped with the
reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vnetperf.runner.bench import Bench

#: 64 octets to 64 KiB; for round trips less the headers of a datagram: sockperf sends no more.
SIZES = (64, 256, 1024, 4096, 16384, 65536)
ROUND_TRIPS = (*SIZES[:-1], 65507)
CLIENTS = (1, 2, 4, 8)

pytestmark = pytest.mark.deployments("v2c2v", "p2c2p")


@pytest.mark.transfers("TCP_STREAM")
@pytest.mark.parametrize("message_size", SIZES)
@pytest.mark.parametrize("clients", CLIENTS)
def test_stream_by_size_and_clients(bench: Bench, message_size: int, clients: int) -> None:
    """Bandwidth of TCP streams of as many clients at once."""
    bench.between_endpoints("TCP_STREAM", message_size, clients=clients).check_expectations()


@pytest.mark.transfers("TCP_RR")
@pytest.mark.parametrize("message_size", ROUND_TRIPS)
@pytest.mark.parametrize("clients", CLIENTS)
def test_round_trips_by_size_and_clients(bench: Bench, message_size: int, clients: int) -> None:
    """Requests and responses of TCP of as many clients at once: rate and times."""
    bench.between_endpoints("TCP_RR", message_size, clients=clients).check_expectations()
