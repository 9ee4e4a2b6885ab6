"""The DUT's ends of wires as devices of DPDK, and the queues and rings of ports."""

from __future__ import annotations

from vnetperf.model.errors import CapabilityError, DutError
from vnetperf.model.options import SwitchOptions
from vnetperf.model.plan import NicUse, Plan
from vnetperf.model.ports import Port, WireEnd
from vnetperf.model.scenario import STANDARD_FRAME_SIZE, Scenario
from vnetperf.vswitches import pins

#: Rings unless the scenario says otherwise, and the largest that OVS takes.
RING, LARGEST_RING = 2048, 4096
#: Octets that a frame has beside its MTU, and that a ring's slot has beside its frame: an 802.1Q
#: tag, the ring's own header.
FRAME_OCTETS, SLOT_OCTETS = 18, 4 + 80
DPDK_DRIVERS = ("vfio-pci", "uio_pci_generic", "igb_uio")


def device_settings(end: WireEnd, plan: Plan) -> tuple[str, ...]:
    """Settings of the port that a wire is plugged into.

    Args:
        end: The DUT's end.
        plan: The plan.

    Returns:
        Columns as `ovs-vsctl set Interface` takes them.

    Raises:
        DutError: When the wire cannot be what is asked for.
    """
    options = plan.scenario.options
    settings = ["type=dpdk", f'options:dpdk-devargs="{devargs(end, plan)}"']
    for option, value in (
        ("n_rxq", options.rx_queues),
        ("n_rxq_desc", options.rx_descriptors),
        ("n_txq_desc", options.tx_descriptors),
    ):
        if value is not None:
            settings.append(f"options:{option}={value}")
    return tuple(settings)


def devargs(end: WireEnd, plan: Plan) -> str:
    """The DUT's end of a wire as a DPDK device.

    Args:
        end: The wire's end.
        plan: The plan.

    Returns:
        Device arguments.

    Raises:
        DutError: When the kind of wire is unknown, or cannot be what is asked for.
    """
    options, slot = plan.scenario.options, slot_octets(plan.scenario.mtu)
    if end.kind == "memif":
        return (
            f"net_memif{end.wire},role={end.role},id={end.wire},socket={end.socket},"
            f"socket-abstract=no,bsize={slot},rsize={copied_ring(options).bit_length() - 1}"
        )
    if end.kind == "nic" and end.driver in DPDK_DRIVERS and end.pci:
        return end.pci
    if end.kind in ("veth", "nic") and end.netdev:
        return (
            f"net_af_packet{end.wire},iface={end.netdev},framesz={slot},"
            f"framecnt={copied_ring(options)},blocksz={max(4096, slot)},"
            f"qpairs={options.rx_queues or 1},qdisc_bypass=1"
        )
    raise DutError(f"cannot plug a {end.kind} wire in", where="dpdk", accepted="memif, veth, nic")


def slot_octets(mtu: int) -> int:
    """Size of a buffer in a ring that frames are copied through.

    Args:
        mtu: MTU of the port, octets.

    Returns:
        Octets: a power of two, so that slots fill pages.
    """
    octets = 2048
    while octets < mtu + FRAME_OCTETS + SLOT_OCTETS:
        octets *= 2
    return octets


def copied_ring(options: SwitchOptions) -> int:
    """Size of the rings of a wire that frames are copied through, one for both directions.

    Args:
        options: What the scenario asks for; `check_rings` has nothing against it.

    Returns:
        Descriptors.
    """
    return options.rx_descriptors or options.tx_descriptors or RING


def check_rings(plan: Plan) -> None:
    """Refuse rings that the chosen wire cannot have.

    Args:
        plan: The plan: its wire, its NICs, its scenario's options.

    Raises:
        CapabilityError: Two sizes are asked for.
    """
    options = plan.scenario.options
    asked = {size for size in (options.rx_descriptors, options.tx_descriptors) if size}
    nics = [nic for nic in plan.nics if nic.side == "dut"]
    copied = plan.wire != "nic" or any(nic.kernel for nic in nics)
    if len(asked) > 1 and copied and plan.scenario.deployment.phy_ports:
        raise CapabilityError(
            f"memif and af_packet have rings of one size, not {options.rx_descriptors} receive "
            f"and {options.tx_descriptors} transmit descriptors",
            where="rx_descriptors, tx_descriptors",
            cure="set both alike, or one of them",
        )


def nics_missing(nics: tuple[NicUse, ...], scenario: Scenario) -> str:
    """What NICs under their kernel driver cannot be.

    Args:
        nics: NICs of the wires.
        scenario: The scenario.

    Returns:
        "" or the reason and the cure.
    """
    kernel = [nic for nic in nics if nic.side == "dut" and nic.kernel]
    if not kernel or scenario.mtu + FRAME_OCTETS <= STANDARD_FRAME_SIZE:
        return ""
    note = f" ({kernel[0].note})" if kernel[0].note else ""
    return (
        f"{kernel[0].pci} is used through its kernel driver{note}, and DPDK's af_packet driver "
        f"tells OVS of no frames above {STANDARD_FRAME_SIZE} octets; give it to vfio-pci, or "
        "leave larger frames out"
    )


def why_not(scenario: Scenario) -> str:
    """Why ports cannot be what a scenario asks for.

    Args:
        scenario: The scenario.

    Returns:
        "" when they can; otherwise the reason and the cure.
    """
    options = scenario.options
    for name, value in (
        ("rx_descriptors", options.rx_descriptors),
        ("tx_descriptors", options.tx_descriptors),
    ):
        if value is not None and value > LARGEST_RING:
            return f"OVS has at most {LARGEST_RING} descriptors; set {name} to that or less"
    return pins.why_not(scenario)


def affinity(port: Port, plan: Plan) -> tuple[str, ...]:
    """Receive queues of a port that are pinned to workers.

    Args:
        port: The port.
        plan: The plan: its workers are the placement's cores.

    Returns:
        A column as `ovs-vsctl set Interface` takes it; empty when none is pinned.
    """
    cores = plan.placement.cores["pmd"]
    pinned = [
        f"{pin.queue}:{cores[pin.worker % len(cores)]}"
        for pin in plan.scenario.options.rxq_affinity
        if pin.port == str(port)
    ]
    return (f'other_config:pmd-rxq-affinity="{",".join(pinned)}"',) if pinned else ()
