"""Statistics of queueing disciplines beside those of their links."""

from __future__ import annotations

import json

from vnetperf.host.links import LinkStatistics, add_qdisc_counters

LINKS = {"eth0": LinkStatistics(600, 451, 0, 1), "eth1": LinkStatistics(600, 600, 0, 0)}
#: As iproute2 6.1 prints it: a root of two queues, and those queues.
SHOWN = json.dumps(
    [
        {"kind": "noqueue", "handle": "0:", "dev": "lo", "root": True, "packets": 0, "drops": 0},
        {"kind": "mq", "handle": "0:", "dev": "eth0", "root": True, "packets": 594, "drops": 6},
        {"kind": "pfifo_fast", "dev": "eth0", "parent": ":1", "packets": 594, "drops": 6},
        {"kind": "pfifo_fast", "dev": "eth0", "parent": ":2", "packets": 0, "drops": 0},
    ]
)


def test_a_discipline_knows_of_frames_that_the_driver_has_not_counted_and_of_its_drops() -> None:
    assert add_qdisc_counters(LINKS, SHOWN) == {
        "eth0": LinkStatistics(600, 594, 0, 7),
        "eth1": LinkStatistics(600, 600, 0, 0),
    }


def test_links_without_a_discipline_keep_their_own_numbers() -> None:
    assert add_qdisc_counters(LINKS, "") == LINKS
    # XDP_REDIRECT goes round the discipline: it counts nothing, the driver does.
    empty = [{"kind": "mq", "dev": "eth1", "root": True, "packets": 0, "drops": 0}]
    assert add_qdisc_counters(LINKS, json.dumps(empty)) == LINKS
