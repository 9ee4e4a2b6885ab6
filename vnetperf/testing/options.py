"""Contract kit: a value for every option that there is."""

from __future__ import annotations

#: A value for each option that differs from what a backend does by itself.
OPTIONS: dict[str, str] = {
    "rx_queues": "2",
    "rx_descriptors": "512",
    "tx_descriptors": "512",
    "workers": "1",
    "rxq_affinity": '[{port = "phy0", queue = 0, worker = 0}]',
    "rss": '"l4"',
    "mtu": "2000",
    "offloads": "false",
    "memory_mib": "[384]",
}
#: Option -> others without which it makes no sense.
NEEDED: dict[str, tuple[str, ...]] = {"rxq_affinity": ("rx_queues", "workers")}
