"""Kernel settings of a guest's NICs: offloads, which are read back, and frames for others."""

from __future__ import annotations

import re

from vnetperf.launchers.vm.guest import Guest
from vnetperf.model.guest import GuestOptions

#: Names of ethtool's features in results, in the order in which they are told.
FEATURES = {
    "rx-checksumming": "rx checksum",
    "tx-checksumming": "tx checksum",
    "tcp-segmentation-offload": "TSO",
    "generic-segmentation-offload": "GSO",
    "generic-receive-offload": "GRO",
    "large-receive-offload": "LRO",
}
#: Bits of virtio's features, https://docs.oasis-open.org/virtio/virtio/v1.2/virtio-v1.2.html
VIRTIO = {
    "checksum": 0,
    "checksum in": 1,
    "TSO": 11,
    "TSO in": 7,
    "mergeable buffers": 15,
    "several queues": 22,
    "packed rings": 34,
}
FEATURE = re.compile(r"^(\S+): (on|off)( \[fixed\])?", re.MULTILINE)


def set_up(guest: Guest, options: GuestOptions) -> None:
    """Turn what the guest's own kernel does on or off, and let it take every frame.

    A vSwitch that forwards by port sends frames for others, which a NIC keeps from its kernel.

    Args:
        guest: The guest, its agent answering.
        options: What is asked of it.

    Raises:
        DutError: The kernel refuses.
    """
    for nic in guest.domain.nics:
        name = guest.interface(nic.mac)
        guest.agent.run(["ip", "link", "set", "dev", name, "promisc", "on"])
        if options.gro is not None:
            guest.agent.run(["ethtool", "-K", name, "gro", "on" if options.gro else "off"])


def virtio_features(guest: Guest) -> dict[str, str]:
    """What virtio NICs and the guest's kernel have agreed on, before a program takes them.

    Args:
        guest: The guest, its agent answering.

    Returns:
        Name in the guest -> "virtio: checksum on, ..."; empty for NICs of other models.

    Raises:
        DutError: They cannot be read.
    """
    told = {}
    for nic in guest.domain.nics:
        if nic.model == "virtio" and nic.backing.kind != "vf":
            name = guest.interface(nic.mac)
            bits = guest.agent.read(f"/sys/class/net/{name}/device/features").strip()
            told[name] = f"virtio: {parse_bits(bits)}"
    return told


def parse_bits(bits: str) -> str:
    """What a string of virtio's feature bits says.

    Args:
        bits: "0" and "1", the lowest bit first.

    Returns:
        "checksum on, ..., packed rings off".
    """
    found = ((name, bits[bit : bit + 1] == "1") for name, bit in VIRTIO.items())
    return ", ".join(f"{name} {'on' if on else 'off'}" for name, on in found)


def read_back(guest: Guest) -> dict[str, str]:
    """Driver and offloads of each NIC, as the guest's kernel has them.

    Args:
        guest: The guest, its agent answering.

    Returns:
        Name in the guest -> "virtio_net: rx checksum on, TSO off (fixed), ...; virtio: ...".

    Raises:
        DutError: ethtool fails.
    """
    told, agreed = {}, virtio_features(guest)
    for nic in guest.domain.nics:
        name = guest.interface(nic.mac)
        path = guest.agent.run(["readlink", f"/sys/class/net/{name}/device/driver"])
        features = parse_features(guest.agent.run(["ethtool", "-k", name]))
        text = ", ".join(f"{shown} {features[key]}" for key, shown in FEATURES.items())
        told[name] = f"{path.strip().rpartition('/')[2]}: {text}"
        told[name] += f"; {agreed[name]}" if name in agreed else ""
    return told


def parse_features(text: str) -> dict[str, str]:
    """What `ethtool -k` says.

    Args:
        text: Its output.

    Returns:
        Feature -> "on", "off", "off (fixed)"; "unknown" for a feature of ours that it has not.
    """
    found = {m[1]: m[2] + (" (fixed)" if m[3] else "") for m in FEATURE.finditer(text)}
    return dict.fromkeys(FEATURES, "unknown") | found
