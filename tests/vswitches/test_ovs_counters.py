"""Counters from what the daemon prints."""

from __future__ import annotations

import re

import pytest

from vnetperf.model.errors import DutError
from vnetperf.openvswitch.control import parse_dpctl_show, parse_pmd_stats

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


def test_counters_of_all_ones_are_not_counted() -> None:
    """OVS writes "?" for them in most places, and the number itself in some."""
    ones = str(2**64 - 1)
    odd = SHOW.replace("RX packets:38", f"RX packets:{ones}").replace(
        "dropped:5", f"dropped:{ones}"
    )
    (found,) = parse_dpctl_show(odd, {"phy0": "phy0", "vnf0.0": "vnf0.0"})
    assert (found.port, found.rx, found.tx_dropped) == ("vnf0.0", 36, 0)


@pytest.mark.parametrize("share", ["-nan%", "nan%", "inf%"])
def test_a_share_that_is_no_number_costs_no_cycles(share: str) -> None:
    text = re.sub(r"(cycles: \d+) \([\d.]+%\)", rf"\1 ({share})", PMD_STATS)
    assert text != PMD_STATS
    assert parse_pmd_stats(text) == parse_pmd_stats(PMD_STATS)


def test_nothing_to_count() -> None:
    assert parse_dpctl_show("", {"phy0": "phy0"}) == ()


#: OVS 3.1.
PMD_STATS = """\
pmd thread numa_id 0 core_id 1:
  packets received: 708
  packet recirculations: 0
  avg. datapath passes per packet: 1.00
  phwol hits: 0
  mfex opt hits: 0
  simple match hits: 701
  emc hits: 0
  smc hits: 0
  megaflow hits: 3
  avg. subtable lookups per megaflow hit: 1.00
  miss with success upcall: 4
  miss with failed upcall: 0
  avg. packets per output batch: 1.01
  idle cycles: 69021944448 (99.98%)
  processing cycles: 11835250 (0.02%)
  avg cycles per packet: 97505338.56 (69033779698/708)
  avg processing cycles per packet: 16716.45 (11835250/708)
pmd thread numa_id 0 core_id 13:
  packets received: 0
  simple match hits: 0
main thread:
  packets received: 5
"""


def test_pmd_threads_have_packets_cycles_and_lookups() -> None:
    first, second = parse_pmd_stats(PMD_STATS)
    assert (first.thread, first.packets) == ("core 1", 708)
    assert (first.busy_cycles, first.idle_cycles) == (11_835_250, 69_021_944_448)
    found = {name: count for name, count in first.lookups.items() if count}
    assert found == {"simple match": 701, "megaflow": 3, "upcall": 4}
    assert (second.thread, second.packets, second.busy_cycles) == ("core 13", 0, 0)
    assert parse_pmd_stats("") == ()


def test_work_of_a_trial_is_the_difference() -> None:
    (before, _) = parse_pmd_stats(PMD_STATS)
    (after, _) = parse_pmd_stats(PMD_STATS.replace(": 708", ": 1708").replace(": 701", ": 1701"))
    found = after.since(before)
    assert (found.packets, found.busy_cycles) == (1000, 0)
    assert {name: count for name, count in found.lookups.items() if count} == {"simple match": 1000}


#: OVS 3.1, pmd-perf-show -nh.
PMD_PERF = """\
Time: 16:49:21.023
Measurement duration: 24.311 s

pmd thread numa_id 0 core_id 1:

  Iterations:              1204977  (20.17 us/it)
  - Used TSC cycles:    69033779698  (100.0 % of total cycles)
  - idle iterations:       1204401  (100.0 % of used cycles)
  - busy iterations:           576  (  0.0 % of used cycles)
  Rx packets:                  708  (0 Kpps, 16717 cycles/pkt)

pmd thread numa_id 0 core_id 13:

  Iterations:                    0  (0.00 us/it)
  - Used TSC cycles:             0  (  0.0 % of total cycles)
  - sleep iterations:            0  (  0.0 % of iterations)
  - idle iterations:             0  (  0.0 % of used cycles)
"""


def test_rounds_without_packets_are_told() -> None:
    first, second = parse_pmd_stats(PMD_STATS, PMD_PERF)
    assert (first.polls, first.empty_polls) == (1_204_977, 1_204_401)
    assert (second.polls, second.empty_polls) == (0, 0)
    later = first.model_copy(update={"polls": 1_205_000, "empty_polls": 1_204_410})
    assert (later.since(first).polls, later.since(first).empty_polls) == (23, 9)
    (older, _) = parse_pmd_stats(PMD_STATS)  # a daemon without the command, or an older log
    assert (older.polls, older.empty_polls, first.since(older).polls) == (None, None, None)


def test_text_without_packets_is_an_error() -> None:
    with pytest.raises(DutError, match="PMD thread on core 2"):
        parse_pmd_stats("pmd thread numa_id 0 core_id 2:\n  idle cycles: 5 (1.0%)\n")
