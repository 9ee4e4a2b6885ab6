"""Options of a vSwitch in a scenario: queues, workers, MTU, memory."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from vnetperf.model.base import Frozen

Rss = Literal["l3", "l4", "off"]


class QueuePin(Frozen):
    """One receive queue given to one worker.

    Attributes:
        port: Port of the deployment, "phy0" or "vnf0.1".
        queue: 0-based number of the receive queue.
        worker: 0-based number of the worker, a place in the placement's cores.
    """

    port: str
    queue: int = Field(ge=0)
    worker: int = Field(ge=0)


class SwitchOptions(Frozen):
    """What a scenario asks of its vSwitch; a file under conf/switch/.

    A value of None leaves the backend's own. A backend names the options it renders in its
    capabilities; a scenario that sets another one is refused before anything is deployed.

    Attributes:
        name: Name of the file.
        description: One sentence for the report.
        mode: Which of the backend's modes, e.g. VPP's "xconnect"; "" for its first.
        rx_queues: Receive queues of each port.
        rx_descriptors: Receive descriptors of each queue.
        tx_descriptors: Transmit descriptors of each queue.
        workers: Poll-mode threads (PMDs, workers).
        rxq_affinity: Receive queues pinned to workers; those not named go where the backend likes.
        rss: Header fields that spread flows over receive queues.
        mtu: MTU of every port, octets without Ethernet header and FCS; None fits the frame sizes.
        offloads: Checksum and segmentation offloads of every port.
        memory_mib: Poll-mode memory by NUMA node, MiB; empty for what the backend needs.
        vlan: VLAN of VNF ports that meet only each other.
        rate_mbps: Highest rate at which a VNF port sends, Mbit/s; 0 for any.
        trust: True lets a virtual function become promiscuous and change its address.
        spoof_check: True drops what a virtual function sends with another source address.
        vf_driver: How a VNF is given a virtual function: "vfio-pci" as a PCI device, "kernel" as
            an interface.
    """

    name: str = ""
    description: str = ""
    mode: str = ""
    rx_queues: Annotated[int, Field(ge=1, le=64)] | None = None
    rx_descriptors: Annotated[int, Field(ge=64, le=32768)] | None = None
    tx_descriptors: Annotated[int, Field(ge=64, le=32768)] | None = None
    workers: Annotated[int, Field(ge=1, le=64)] | None = None
    rxq_affinity: tuple[QueuePin, ...] = ()
    rss: Rss | None = None
    mtu: Annotated[int, Field(ge=68, le=9198)] | None = None
    offloads: bool | None = None
    memory_mib: tuple[Annotated[int, Field(ge=0)], ...] = ()
    vlan: Annotated[int, Field(ge=1, le=4093)] | None = None
    rate_mbps: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    trust: bool | None = None
    spoof_check: bool | None = None
    vf_driver: Literal["vfio-pci", "kernel"] | None = None

    @field_validator("rx_descriptors", "tx_descriptors")
    @classmethod
    def _power_of_two(cls, value: int | None) -> int | None:
        if value is not None and value & (value - 1):
            raise ValueError("a number of descriptors is a power of two")
        return value

    @model_validator(mode="after")
    def _pins_fit(self) -> SwitchOptions:
        for pin in self.rxq_affinity:
            if pin.queue >= (self.rx_queues or 1):
                raise ValueError(
                    f"rxq_affinity names queue {pin.queue} of {pin.port}, "
                    f"but rx_queues is {self.rx_queues or 1}"
                )
            if pin.worker >= (self.workers or 1):
                raise ValueError(
                    f"rxq_affinity names worker {pin.worker}, but workers is {self.workers or 1}"
                )
        return self

    def given(self) -> dict[str, Any]:
        """Options that are set, apart from the mode.

        Returns:
            Name -> value.
        """
        plain = SwitchOptions()
        values = {name: getattr(self, name) for name in SwitchOptions.model_fields}
        return {
            name: value
            for name, value in values.items()
            if name not in ("name", "description", "mode") and value != getattr(plain, name)
        }
