"""What a NIC's driver calls the frames that cross its physical port: pure."""

from __future__ import annotations

from collections.abc import Mapping

from vnetperf.model.trial import HopCounters

#: Driver -> names of its counters of received and sent frames. They count at the port, frames to
#: and from virtual functions too; an interface's own statistics leave those out.
PORT_COUNTERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "igb": (("rx_packets",), ("tx_packets",)),
    "ixgbe": (("rx_pkts_nic",), ("tx_pkts_nic",)),
    "i40e": (
        ("port.rx_unicast", "port.rx_multicast", "port.rx_broadcast"),
        ("port.tx_unicast", "port.tx_multicast", "port.tx_broadcast"),
    ),
    "ice": (
        ("rx_unicast.nic", "rx_multicast.nic", "rx_broadcast.nic"),
        ("tx_unicast.nic", "tx_multicast.nic", "tx_broadcast.nic"),
    ),
    "mlx5_core": (("rx_packets_phy",), ("tx_packets_phy",)),
    "bnxt_en": (("rx_total_frames",), ("tx_total_frames",)),
}
#: Frames that the port dropped for want of buffers, whatever the driver.
DROPPED = (
    *("rx_missed_errors", "rx_no_dma_resources", "port.rx_dropped", "rx_dropped.nic"),
    "rx_discards_phy",
)


def of_port(port: str, driver: str, statistics: Mapping[str, int]) -> HopCounters | None:
    """Counters of a physical port.

    Args:
        port: Name of the port.
        driver: The NIC's driver.
        statistics: The driver's counters by its names.

    Returns:
        Counters; None when it is not known which of the driver's counters they are.
    """
    received, sent = PORT_COUNTERS.get(driver, ((), ()))
    if not received or not {*received, *sent} <= set(statistics):
        return None
    return HopCounters(
        port=port,
        rx=sum(statistics[name] for name in received),
        tx=sum(statistics[name] for name in sent),
        rx_dropped=sum(statistics.get(name, 0) for name in DROPPED),
    )
