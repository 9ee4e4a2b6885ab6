"""Requests for guests that cannot be met: refused in the plan, before anything is done."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from pathlib import Path

from vnetperf.host.cpu import parse_cpus
from vnetperf.host.linux import boot_id
from vnetperf.model.options import DISKS, GuestOptions
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.virt.guest_plan import TAP_TX_RING, disk_image_problem, vcpu_count
from vnetperf.vnfs.vloop.kernel_forwarders import FORMS

#: The mode of a disk image that forwards by itself.
BUILTIN = "buildin"
#: Largest MTU of Linux's driver of the rtl8139.
RTL8139_MTU = 4096
#: Kinds of attachment that carry frames of a NIC that is not virtio.
MODEL_KINDS = ("tap", "macvtap")
ONE_QUEUE = ("e1000", "rtl8139")


def fitting_kinds(options: GuestOptions, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Kinds of attachment that the requested NICs can plug into."""
    if options.nic != "virtio":
        return tuple(kind for kind in kinds if kind in MODEL_KINDS)
    if options.virtio_only:
        kinds = tuple(kind for kind in kinds if kind != "vf")
    if (options.tx_ring or 0) > TAP_TX_RING:
        kinds = tuple(kind for kind in kinds if kind == "vhost-user")
    return kinds


def guest_problem(scenario: Scenario, facts: MachineFacts, inside_mib: int) -> str:
    """What is requested of guests and cannot be met."""
    options = scenario.guest
    problems = (
        *_pin_problems(options, facts),
        *_nic_problems(scenario),
        *_vhost_problems(options, facts),
        *_disk_problems(scenario, facts),
        *_memory_problems(options, inside_mib),
    )
    return f"--guest: {problems[0]}" if problems else ""


def _pin_problems(options: GuestOptions, facts: MachineFacts) -> Iterator[str]:
    count, processors = vcpu_count(options), {cpu.cpu for cpu in facts.cpus}
    if options.vcpu_pins and len(options.vcpu_pins) != count:
        yield (
            f"vcpu_pins has {len(options.vcpu_pins)} entries for {count} vCPUs; "
            "name the processors of each vCPU, or leave vcpus out"
        )
    for key, texts in (
        ("vcpu_pins", options.vcpu_pins),
        ("emulator_pin", (options.emulator_pin or "",)),
        ("vhost_pin", (options.vhost_pin or "",)),
        ("iothread_pins", options.iothread_pins),
    ):
        strange = sorted({cpu for text in texts for cpu in parse_cpus(text)} - processors)
        if strange:
            yield (
                f"{key} names processor {strange[0]}, which is not there or not allowed; "
                f"choose among {', '.join(map(str, sorted(processors)))}"
            )
    nodes = {pool.node for pool in facts.hugepages} | set(facts.nodes)
    if options.node is not None and options.node not in nodes:
        known_nodes = ", ".join(map(str, sorted(nodes)))
        yield f"there is no node {options.node}; choose among {known_nodes}"


def _nic_problems(scenario: Scenario) -> Iterator[str]:
    options, model, mode = scenario.guest, scenario.guest.nic, scenario.vnf_mode
    by_kernel = mode in FORMS
    if model != "virtio" and options.virtio_only:
        yield (
            f"{options.virtio_only[0]} is an option of virtio NICs, and nic is {model}; "
            "leave one of them out"
        )
    if model in ONE_QUEUE and (scenario.options.rx_queues or 1) > 1:
        yield f"{model} has one queue pair; leave rx_queues out, or choose nic=virtio"
    if model == "rtl8139" and not by_kernel and mode != BUILTIN:
        yield (
            f"DPDK has no driver of the rtl8139, and mode {mode} is testpmd's; choose "
            f"--vnf-mode {', '.join(FORMS)}, or another nic"
        )
    if model == "rtl8139" and scenario.mtu > RTL8139_MTU:
        yield (
            f"the rtl8139 carries an MTU of at most {RTL8139_MTU}, not {scenario.mtu}; "
            "choose smaller frames, or another nic"
        )
    if scenario.options.vf_driver == "kernel":
        yield (
            "vf_driver=kernel leaves virtual functions to the host, and guests are given them by "
            "vfio-pci; leave it out, or choose --vnf vloop:container"
        )
    if options.gro is not None and not by_kernel:
        yield (
            f"gro is done by the guest's kernel, which has no part in mode {mode}; choose "
            f"--vnf-mode {', '.join(FORMS)}, or leave gro out"
        )


def _vhost_problems(options: GuestOptions, facts: MachineFacts) -> Iterator[str]:
    if not (options.vhost or options.vhost_pin):
        return
    key = "vhost" if options.vhost else "vhost_pin"
    if options.nic != "virtio":
        yield f"{key} is for virtio NICs, and nic is {options.nic}; leave one of them out"
    elif options.vhost is False:
        yield "vhost_pin has nothing to pin with vhost off; leave one of them out"
    elif problem := facts.missing_module("vhost_net", key):
        yield problem


def _file_problem(file: Path, facts: MachineFacts) -> str:
    """Why the agent cannot read a file, where that is known here: its machine may be another."""
    if facts.boot and facts.boot != boot_id():
        return ""
    try:
        with file.open("rb"):
            return ""
    except PermissionError:
        return "" if facts.is_root else "cannot be read"
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _disk_problems(scenario: Scenario, facts: MachineFacts) -> Iterator[str]:
    options = scenario.guest
    if options.disk is None and scenario.vnf_mode == BUILTIN:
        yield (
            f"mode {BUILTIN} boots a disk image that forwards by itself; "
            "name it: --guest image=/path/NAME.qcow2"
        )
    if options.disk is not None and scenario.vnf_mode != BUILTIN:
        yield (
            f"{options.disk.name} is a disk image, of which only what it does by itself is known; "
            f"add --vnf-mode {BUILTIN}, or name a built image"
        )
    for key, file in (
        ("image", options.disk),
        ("kernel", options.kernel),
        ("initrd", options.initrd),
    ):
        if file is not None and (problem := _file_problem(file, facts)):
            yield f"{key} {file} {problem}; name a file that is there"
    disk = options.disk if not facts.boot or facts.boot == boot_id() else None
    if disk is not None and (problem := disk_image_problem(disk, DISKS[disk.suffix])):
        yield f"image {disk} {problem}"
    for key in ("kernel", "initrd", "cmdline"):
        if getattr(options, key) and (options.disk is None or options.kernel is None):
            yield (
                f"{key} is for a disk image of yours that is booted with a kernel beside it; "
                "name image=/path/NAME.qcow2 and kernel=/path/vmlinuz, or leave it out"
            )


def _memory_problems(options: GuestOptions, inside_mib: int) -> Iterator[str]:
    page_mib = options.hugepage_kb / 1024
    if page_mib and options.memory_mib % page_mib:
        rounded_mib = ceil(options.memory_mib / page_mib) * page_mib
        yield (
            f"memory_mib={options.memory_mib} is no whole number of pages of {page_mib:g} MiB; "
            f"choose a multiple: --guest memory_mib={rounded_mib:g}"
        )
    if options.memory_mib < inside_mib:
        yield (
            f"a guest of {options.memory_mib} MiB is too small, "
            f"{inside_mib} MiB are needed: --guest memory_mib={inside_mib}"
        )
