"""Counters from what the daemon prints."""

from __future__ import annotations

from vnetperf.vswitches.openvswitch.switch import parse_dpctl_show

SHOW = """netdev@ovs-netdev:
  lookups: hit:72 missed:3 lost:0
  flows: 0
  port 0: ovs-netdev (tap)
    RX packets:0 errors:0 dropped:0 overruns:0 frame:0
    TX packets:0 errors:0 dropped:9 aborted:0 carrier:0
    collisions:0
    RX bytes:0  TX bytes:0
  port 1: br0 (tap)
    RX packets:1 errors:0 dropped:1 overruns:0 frame:0
    TX packets:2 errors:0 dropped:2 aborted:0 carrier:0
    collisions:0
    RX bytes:0  TX bytes:0
  port 2: phy0 (dpdk: configured_rx_queues=1, configured_tx_queues=2, mtu=1500)
    RX packets:38 errors:0 dropped:4 overruns:? frame:?
    TX packets:37 errors:0 dropped:0 aborted:? carrier:?
    collisions:?
    RX bytes:2280 (2.2 KiB)  TX bytes:2280 (2.2 KiB)
  port 3: vnf0.0 (dpdkvhostuserclient: configured_rx_queues=1, mtu=1500)
    RX packets:36 errors:0 dropped:? overruns:? frame:?
    TX packets:34 errors:0 dropped:5 aborted:? carrier:?
    collisions:?
    RX bytes:2280 (2.2 KiB)  TX bytes:2280 (2.2 KiB)
"""


def test_counters_of_the_ports_asked_for() -> None:
    found = parse_dpctl_show(SHOW, {"phy0": "phy0", "vnf0.0": "vnf0.0", "phy1": "phy1"})
    assert [(c.port, c.rx, c.tx, c.rx_dropped, c.tx_dropped) for c in found] == [
        ("phy0", 38, 37, 4, 0),
        ("vnf0.0", 36, 34, 0, 5),
    ]


def test_nothing_to_count() -> None:
    assert parse_dpctl_show("", {"phy0": "phy0"}) == ()
