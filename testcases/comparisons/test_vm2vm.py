"""VM to VM over two hosts: sockets through each vSwitch, by message size and number of clients.

An endpoint on each of two hosts, a vSwitch of the same kind on each, and a cable between:
`pytest testcases/comparisons/test_vm2vm.py --testbed two-hosts`. `v2c2v_bridge`, `v2c2v_ovs`,
`v2c2v_macvtap` and `v2c2v_sriov` have the endpoints in the place of VMs; OVS-DPDK and VPP offer VMs
vhost-user, which a namespace does not take, and have them at wires: `p2c2p_dpdk`, `p2c2p_vpp`. The
wires of kernel vSwitches (`p2c2p_bridge`, `p2c2p_ovs`) are there to compare these with. What cannot
be measured here is skipped with the reason.
"""

import pytest

from vnetperf.runner.bench import Bench

#: 64 octets to 64 KiB, less the headers of a UDP datagram: all tools send no more at once.
SIZES = (64, 256, 1024, 4096, 16384, 65507)
CLIENTS = (1, 2, 4, 8)

pytestmark = pytest.mark.deployments("v2c2v", "p2c2p")


@pytest.mark.parametrize("octets", SIZES)
@pytest.mark.parametrize("clients", CLIENTS)
def test_stream_by_size_and_clients(bench: Bench, octets: int, clients: int) -> None:
    """Bandwidth of TCP streams of as many clients at once."""
    if why := bench.no_endpoints("TCP_STREAM", octets, clients):
        pytest.skip(why)  # what is missing, as the plan tells it
    bench.between_endpoints("TCP_STREAM", octets, clients=clients).check_expectations()


@pytest.mark.parametrize("octets", SIZES)
@pytest.mark.parametrize("clients", CLIENTS)
def test_round_trips_by_size_and_clients(bench: Bench, octets: int, clients: int) -> None:
    """Requests and responses of TCP of as many clients at once: rate and times."""
    if why := bench.no_endpoints("TCP_RR", octets, clients):
        pytest.skip(why)  # what is missing, as the plan tells it
    bench.between_endpoints("TCP_RR", octets, clients=clients).check_expectations()
