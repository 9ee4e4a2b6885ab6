from __future__ import annotations

from vnetperf.host import links

TABLE = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo \
colls carrier compressed
    lo: 3193      29    0    1    0     0          0         0     3193      28    0    2    0     \
0       0          0
vp78c2s0a: 64 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 0 0
eth0:1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
"""


def test_the_kernels_table_is_read_by_column() -> None:
    found = links.parse_statistics(TABLE)
    assert found["lo"] == links.LinkStatistics(rx=29, tx=28, rx_dropped=1, tx_dropped=2)
    assert found["vp78c2s0a"].rx == 2**64 - 1
    assert found["eth0:1"] == links.LinkStatistics(rx=2, tx=10, rx_dropped=4, tx_dropped=12)


def test_the_running_kernels_table_can_be_read() -> None:
    assert "lo" in links.statistics()
