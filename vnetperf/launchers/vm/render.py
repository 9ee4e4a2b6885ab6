"""A guest as libvirt's domain XML: https://libvirt.org/formatdomain.html."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from vnetperf.host.cpulist import format_cpus
from vnetperf.launchers.vm.domain import Cell, Cpus, Domain, Function, Macvtap, Nic, Tap, VhostUser

AGENT = "org.qemu.guest_agent.0"
#: The serial number by which a guest's image finds its root disk.
ROOT_SERIAL = "vnetperf-root"
#: Without a kernel's word this many seconds later QEMU's socket is tried again.
RECONNECT_S = 1


def domain_xml(domain: Domain) -> str:
    """Render a guest.

    Args:
        domain: The guest.

    Returns:
        Domain XML, indented.
    """
    root = Element("domain", type="kvm" if domain.accelerator == "kvm" else "qemu")
    SubElement(root, "name").text = domain.name
    SubElement(root, "memory", unit="MiB").text = str(domain.memory_mib)
    _memory_backing(root, domain)
    SubElement(root, "vcpu", placement="static").text = str(domain.vcpus)
    if domain.iothread_pins:
        SubElement(root, "iothreads").text = str(len(domain.iothread_pins))
    _pins(root, domain)
    if domain.cells:
        _numa_memory(root, domain.cells)
    _boot(root, domain)
    SubElement(SubElement(root, "features"), "acpi")
    _cpu(root, domain)
    SubElement(root, "clock", offset="utc")
    # A kernel that panics starts anew at once: for us that is the end of the guest.
    for event in ("poweroff", "reboot", "crash"):
        SubElement(root, f"on_{event}").text = "destroy"
    _devices(root, domain)
    indent(root)
    return tostring(root, encoding="unicode") + "\n"


def _memory_backing(root: Element, domain: Domain) -> None:
    if not (domain.hugepage_kb or domain.shares_memory):
        return
    backing = SubElement(root, "memoryBacking")
    if domain.hugepage_kb:
        pages = SubElement(backing, "hugepages")
        SubElement(pages, "page", size=str(domain.hugepage_kb), unit="KiB")
    SubElement(backing, "source", type="memfd")
    if domain.shares_memory:
        SubElement(backing, "access", mode="shared")
    SubElement(backing, "allocation", mode="immediate")


def _pins(root: Element, domain: Domain) -> None:
    if not (domain.vcpu_pins or domain.emulator_pin or domain.iothread_pins):
        return
    tune = SubElement(root, "cputune")
    for number, cpus in enumerate(domain.vcpu_pins):
        SubElement(tune, "vcpupin", vcpu=str(number), cpuset=_cpuset(cpus))
    if domain.emulator_pin:
        SubElement(tune, "emulatorpin", cpuset=_cpuset(domain.emulator_pin))
    for number, cpus in enumerate(domain.iothread_pins, 1):
        SubElement(tune, "iothreadpin", iothread=str(number), cpuset=_cpuset(cpus))


def _numa_memory(root: Element, cells: tuple[Cell, ...]) -> None:
    tune = SubElement(root, "numatune")
    nodes = format_cpus(sorted({cell.host_node for cell in cells}))
    SubElement(tune, "memory", mode="strict", nodeset=nodes)
    for number, cell in enumerate(cells):
        SubElement(tune, "memnode", cellid=str(number), mode="strict", nodeset=str(cell.host_node))


def _boot(root: Element, domain: Domain) -> None:
    system = SubElement(root, "os")
    SubElement(system, "type", arch="x86_64", machine="q35").text = "hvm"
    boot = domain.boot
    if boot.kernel is None:
        SubElement(system, "boot", dev="hd")
        return
    SubElement(system, "kernel").text = str(boot.kernel)
    if boot.initrd is not None:
        SubElement(system, "initrd").text = str(boot.initrd)
    SubElement(system, "cmdline").text = boot.cmdline


def _cpu(root: Element, domain: Domain) -> None:
    mode = "host-passthrough" if domain.accelerator == "kvm" else "maximum"
    cpu = SubElement(root, "cpu", mode=mode, check="none")
    if domain.cells:
        numa = SubElement(cpu, "numa")
        for number, cell in enumerate(domain.cells):
            element = SubElement(numa, "cell", id=str(number), cpus=_cpuset(cell.cpus))
            element.set("memory", str(cell.memory_mib))
            element.set("unit", "MiB")
            if domain.shares_memory:
                element.set("memAccess", "shared")


def _devices(root: Element, domain: Domain) -> None:
    devices = SubElement(root, "devices")
    SubElement(devices, "emulator").text = str(domain.emulator)
    if domain.boot.disk is not None:
        _disk(devices, domain)
    SubElement(devices, "controller", type="usb", model="none")
    SubElement(devices, "controller", type="virtio-serial", index="0")
    for nic in domain.nics:
        _nic(devices, nic)
    serial = SubElement(devices, "serial", type="file")
    SubElement(serial, "source", path=str(domain.console))
    SubElement(serial, "target", port="0")
    console = SubElement(devices, "console", type="file")
    SubElement(console, "source", path=str(domain.console))
    SubElement(console, "target", type="serial", port="0")
    if domain.output is not None:
        output = SubElement(devices, "console", type="file")
        SubElement(output, "source", path=str(domain.output))
        SubElement(output, "target", type="virtio", port="1")
    channel = SubElement(devices, "channel", type="unix")
    # libvirt's own place for the socket is too deep for a socket's path.
    SubElement(channel, "source", mode="bind", path=str(domain.console.with_suffix(".agent")))
    SubElement(channel, "target", type="virtio", name=AGENT)
    rng = SubElement(devices, "rng", model="virtio")
    SubElement(rng, "backend", model="random").text = "/dev/urandom"
    SubElement(devices, "memballoon", model="none")


def _disk(devices: Element, domain: Domain) -> None:
    boot = domain.boot
    disk = SubElement(devices, "disk", type="file", device="disk")
    driver = SubElement(disk, "driver", name="qemu", type=boot.disk_format)
    if domain.iothread_pins:
        driver.set("iothread", "1")
    SubElement(disk, "source", file=str(boot.disk))
    SubElement(disk, "target", dev="vda", bus="virtio")
    if not boot.disk_writable:
        SubElement(disk, "readonly")
    SubElement(disk, "serial").text = ROOT_SERIAL


def _nic(devices: Element, nic: Nic) -> None:
    backing = nic.backing
    if isinstance(backing, Function):
        _function(devices, nic, backing)
        return
    is_socket = isinstance(backing, VhostUser)
    element = SubElement(devices, "interface", type="vhostuser" if is_socket else "ethernet")
    SubElement(element, "mac", address=nic.mac)
    if isinstance(backing, VhostUser):
        mode = "server" if backing.server else "client"
        source = SubElement(element, "source", type="unix", path=backing.socket, mode=mode)
        if not backing.server:
            SubElement(source, "reconnect", enabled="yes", timeout=str(RECONNECT_S))
    else:
        SubElement(element, "target", dev=backing.netdev, managed="no")
    SubElement(element, "model", type=nic.model)
    if nic.model == "virtio":
        _virtio(element, nic, backing)
    # libvirt would set the MTU of an interface of the host, which a socket has not.
    if nic.mtu is not None and nic.model == "virtio" and not is_socket:
        SubElement(element, "mtu", size=str(nic.mtu))
    # No boot ROM: nothing boots from the network under test.
    SubElement(element, "rom", enabled="no")


def _virtio(element: Element, nic: Nic, backing: VhostUser | Tap | Macvtap) -> None:
    driver = SubElement(element, "driver")
    if isinstance(backing, Tap | Macvtap):
        driver.set("name", "vhost" if backing.vhost else "qemu")
    if nic.queues > 1:
        driver.set("queues", str(nic.queues))
    for key, size in (("rx_queue_size", nic.rx_ring), ("tx_queue_size", nic.tx_ring)):
        if size is not None:
            driver.set(key, str(size))
    if nic.packed is not None:
        driver.set("packed", _on(on=nic.packed))
    wanted = nic.offloads
    both = {"csum": wanted.csum, "tso4": wanted.tso, "tso6": wanted.tso, "ecn": wanted.ecn}
    both["ufo"] = wanted.ufo
    host = {"gso": wanted.gso, **both, "mrg_rxbuf": nic.mergeable}
    for side, choices in (("host", host), ("guest", both)):
        given = {key: _on(on=value) for key, value in choices.items() if value is not None}
        if given:
            SubElement(driver, side, given)


def _function(devices: Element, nic: Nic, function: Function) -> None:
    del nic
    domain, bus, rest = function.pci.split(":")
    slot, number = rest.split(".")
    device = SubElement(devices, "hostdev", mode="subsystem", type="pci", managed="no")
    SubElement(device, "driver", name="vfio")
    source = SubElement(device, "source")
    SubElement(
        source,
        "address",
        domain=f"0x{domain}",
        bus=f"0x{bus}",
        slot=f"0x{slot}",
        function=f"0x{number}",
    )
    SubElement(device, "rom", enabled="no")


def _cpuset(cpus: Cpus) -> str:
    return format_cpus(sorted(cpus))


def _on(*, on: bool) -> str:
    return "on" if on else "off"
