"""Where a guest's threads and memory go: the user's pins, and the plan's where there are none."""

from __future__ import annotations

from dataclasses import dataclass

from vnetperf.host.cpulist import format_cpus, parse_cpus
from vnetperf.model.guest import GuestOptions
from vnetperf.model.plan import Placement

Cpus = tuple[int, ...]


@dataclass(frozen=True)
class GuestPins:
    """Where a guest goes.

    Attributes:
        vcpus: Processors of each vCPU.
        emulator: Processors of QEMU's other threads.
        vhost: Processors of the threads of vhost-net.
        iothreads: Processors of each I/O thread.
        node: Node of its memory; None for any.
    """

    vcpus: tuple[Cpus, ...]
    emulator: Cpus
    vhost: Cpus
    iothreads: tuple[Cpus, ...]
    node: int | None


def vcpus(options: GuestOptions) -> int:
    """Number of vCPUs.

    Args:
        options: What is asked of guests.

    Returns:
        As asked for; as many as pins where those are given; otherwise two.
    """
    return options.vcpus or len(options.vcpu_pins) or 2


def pins(options: GuestOptions, placement: Placement, role: str) -> GuestPins:
    """Where a guest goes.

    Args:
        options: What is asked of it.
        placement: The plan's.
        role: Role of its forwarding threads.

    Returns:
        Processors and node; the same for the same arguments.
    """
    count, housekeeping = vcpus(options), placement.housekeeping
    pollers = placement.cores.get(role, housekeeping)
    forwarding = tuple((pollers[n % len(pollers)],) for n in range(count - 1))
    planned = ((housekeeping if count > 1 else pollers), *forwarding)
    home: int | None = placement.home_of_vnfs
    if role in placement.unpinned:
        housekeeping, home = placement.unpinned[role], None
        planned = (housekeeping,) * count
    asked = tuple(parse_cpus(text) for text in options.vcpu_pins)
    return GuestPins(
        vcpus=asked or planned,
        emulator=_cpus(options.emulator_pin) or housekeeping,
        vhost=_cpus(options.vhost_pin) or housekeeping,
        iothreads=tuple(parse_cpus(text) for text in options.iothread_pins),
        node=home if options.node is None else options.node,
    )


def _cpus(text: str | None) -> Cpus:
    return parse_cpus(text) if text else ()


def line(options: GuestOptions, placement: Placement, role: str, *, vhost_net: bool) -> str:
    """Where a guest goes, as `--plan` shows it.

    Args:
        options: What is asked of it.
        placement: The plan's.
        role: Role of its forwarding threads.
        vhost_net: True when the machine has vhost-net for its taps.

    Returns:
        One line.
    """
    found = pins(options, placement, role)
    size = options.hugepage_kb
    parts = [f"vCPU {n} on {format_cpus(cpus)}" for n, cpus in enumerate(found.vcpus)]
    parts.append(f"emulator on {format_cpus(found.emulator)}")
    if options.nic == "virtio" and (vhost_net if options.vhost is None else options.vhost):
        parts.append(f"vhost threads of taps on {format_cpus(found.vhost)}")
    parts += [f"I/O thread {n} on {format_cpus(c)}" for n, c in enumerate(found.iothreads, 1)]
    pages = f"hugepages of {size} KiB" if size else "ordinary pages"
    where = "any node" if found.node is None else f"node {found.node}"
    parts.append(f"{options.memory_mib} MiB of {pages} on {where}")
    return ", ".join([*parts, f"NICs {options.nic}"])
