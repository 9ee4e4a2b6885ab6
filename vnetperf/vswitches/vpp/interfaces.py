"""VPP's interfaces (memif, vhost-user, af_packet, AF_XDP, NICs) and their receive queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any, Literal, NamedTuple

from vnetperf.host.linux import PAGE_OCTETS
from vnetperf.model.deployment import Attachment, PhyPort, Port, WireEnd, dut_mac
from vnetperf.model.errors import DutError
from vnetperf.model.options import QueuePin, SwitchOptions
from vnetperf.model.scenario import ETHERNET_OCTETS, Scenario
from vnetperf.vswitches.vpp.api import ADMIN_UP, VppApi
from vnetperf.vswitches.vpp.forwarding import AF_XDP
from vnetperf.vswitches.vpp.install import buffer_data_size

#: libxdp's dispatcher would mount a BPF file system and pin programs there, which nobody takes away
#: after a VPP that was killed. Without it the program is the interface's and goes with it.
XDP_ENVIRONMENT = {"LIBXDP_SKIP_DISPATCHER": "1", "LIBXDP_BPFFS_AUTOMOUNT": "0"}
#: VPP locks system calls for kernels before 5.6, and then has no interrupt mode.
NO_SYSCALL_LOCK = 1
XDP_RING, SMALLEST_XDP_RING = 2048, 256
#: Since 23.10, and the one of 23.06; the fields that are used here are the same.
#: Largest MTU: of frames of 1917 octets with FCS some did not come through, of 1718 all did.
XDP_MAX_MTU = 1700
XDP_MAX_FRAME = XDP_MAX_MTU + ETHERNET_OCTETS
XDP_MESSAGES = ("af_xdp_create_v3", "af_xdp_create_v2")


def uses_xdp(options: SwitchOptions) -> bool:
    """Whether kernel interfaces are to be taken by AF_XDP."""
    return options.mode == AF_XDP


def xdp_problem(scenario: Scenario) -> str:
    """Why a scenario cannot have AF_XDP."""
    options = scenario.options
    if not uses_xdp(options):
        return ""
    if not scenario.deployment.phy_ports:
        return f"{scenario.deployment.name} has no physical port for AF_XDP; leave the mode out"
    if scenario.mtu > XDP_MAX_MTU:
        return (
            f"AF_XDP keeps a frame in one page of memory, and an MTU of {scenario.mtu} does not "
            f"fit: up to {XDP_MAX_MTU}; choose smaller frames, or leave the mode out"
        )
    rings = [r for r in (options.rx_descriptors, options.tx_descriptors) if r is not None]
    if min(rings, default=SMALLEST_XDP_RING) < SMALLEST_XDP_RING:
        return f"VPP's AF_XDP rings have {SMALLEST_XDP_RING} descriptors or more; set more"
    if scenario.wire != "auto":
        return xdp_wire_problem(scenario, scenario.wire)
    return ""


def xdp_wire_problem(scenario: Scenario, wire: str) -> str:
    """Why a wire does not do for AF_XDP."""
    if not uses_xdp(scenario.options):
        return ""
    if wire == "nic":
        return xdp_nic_problem(scenario)
    if wire != "veth":
        return f"AF_XDP takes kernel interfaces, and a {wire} wire has none; add --wire veth"
    if (scenario.options.rx_queues or 1) > 1:
        return (
            f"a veth interface has one queue, and AF_XDP takes a queue each: rx_queues is "
            f"{scenario.options.rx_queues}; leave it out, or leave the mode out"
        )
    return ""


def xdp_nic_problem(scenario: Scenario) -> str:
    """Why NICs are not taken by AF_XDP."""
    if not uses_xdp(scenario.options):
        return ""
    return (
        "VPP leaves its XDP program on a NIC when it is killed, and the NIC would not be given "
        "back as it was: AF_XDP is for veth; add --wire veth, or leave the mode out"
    )


def create_xdp(api: VppApi, port: Port, netdev: str, options: SwitchOptions) -> Any:
    """Make the interface."""
    message = next((name for name in XDP_MESSAGES if api.knows(name)), XDP_MESSAGES[0])
    reply = api.call(
        message,
        host_if=netdev,
        name=f"xdp-{netdev}",
        rxq_num=options.rx_queues or 1,
        rxq_size=options.rx_descriptors or XDP_RING,
        txq_size=options.tx_descriptors or XDP_RING,
        mode=0,  # without copies where the driver can
        flags=NO_SYSCALL_LOCK,
    )
    api.call(
        "sw_interface_set_mac_address", sw_if_index=reply.sw_if_index, mac_address=dut_mac(port)
    )
    return reply


#: af_packet's flags: send past the queueing discipline; rings of version 2, since those of version
#: 3 add 1 ms of latency. Not flag 2, checksums by the kernel's header: no test frame got through.
QDISC_BYPASS, VERSION_2 = 1, 8
AF_PACKET_FRAMES = 1024
MEMIF_RING = 2048
#: What a frame of a kernel interface's ring takes is a multiple of this, octets.
FRAME_GRAIN = 2048


def ring_frame_size(size: int, frames: int, page: int = PAGE_OCTETS) -> int:
    """Octets of a frame in a ring, whose one block of so many frames is of whole pages."""
    grain = max(FRAME_GRAIN, page // gcd(page, frames))
    return size + -size % grain


ETHERNET_MODE = 1
MASTER, SLAVE = 0, 1
INTERFACE_PLUGINS = {
    "memif": "memif",
    "vhost-user": "vhost",
    "netdev": "af_packet",
    "xdp": "af_xdp",
    "pci": "dpdk",
}
#: Kind of interface -> message that deletes one by its index.
INDEXED_DELETIONS = {
    "memif": "memif_delete",
    "vhost-user": "delete_vhost_user_if",
    "xdp": "af_xdp_delete",
}


@dataclass(frozen=True, slots=True)
class VppInterface:
    """An interface of VPP; its kind is a key of PLUGINS."""

    port: Port
    index: int
    name: str
    kind: str
    netdev: str = ""


class VppPorts:
    """Makes and deletes interfaces."""

    def __init__(self, api: VppApi, mtu: int, options: SwitchOptions) -> None:
        self._api = api
        self._mtu = mtu
        self._options = options

    def plug(self, end: WireEnd) -> VppInterface:
        """Plug in a wire."""
        port = PhyPort(index=end.wire)
        if end.kind == "memif" and end.socket:
            return self._memif(
                port, end.socket, end.wire, MASTER if end.role == "server" else SLAVE
            )
        if end.netdev and uses_xdp(self._options):
            reply = create_xdp(self._api, port, end.netdev, self._options)
            return self._up(port, reply, "xdp", end.netdev)
        if end.netdev:
            return self._af_packet(port, end.netdev)
        if end.pci:
            return self._nic(port, end.pci)
        raise DutError(
            f"cannot plug a {end.kind} wire in", where="vpp", accepted="memif, veth, nic"
        )

    def attach(self, attachment: Attachment) -> VppInterface:
        """Make a VNF port."""
        port, socket = attachment.port, attachment.socket
        if socket is None:
            raise DutError(f"a {attachment.kind} attachment without a socket", where=str(port))
        if attachment.kind == "memif":
            return self._memif(port, socket, 0, SLAVE if attachment.vnf_is_server else MASTER)
        answer = self._api.call(
            "create_vhost_user_if_v2",
            is_server=not attachment.vnf_is_server,
            sock_filename=socket,
            use_custom_mac=True,
            mac_address=dut_mac(port),
            tag=str(port),
        )
        return self._up(port, answer, "vhost-user")

    def _memif(self, port: Port, socket: str, identity: int, role: int) -> VppInterface:
        socket_id = memif_socket_number(port)
        self._api.call(
            "memif_socket_filename_add_del_v2",
            is_add=True,
            socket_id=socket_id,
            socket_filename=socket,
        )
        queues = self._options.rx_queues or 1
        reply = self._api.call(
            "memif_create_v2",
            role=role,
            mode=0,
            rx_queues=queues,
            tx_queues=max(queues, self._options.workers or 1),
            id=identity,
            socket_id=socket_id,
            ring_size=self._options.rx_descriptors or MEMIF_RING,
            buffer_size=buffer_data_size(self._mtu),
            hw_addr=dut_mac(port),
        )
        return self._up(port, reply, "memif")

    def _af_packet(self, port: Port, netdev: str) -> VppInterface:
        size = buffer_data_size(self._mtu)
        rx_frames = self._options.rx_descriptors or AF_PACKET_FRAMES
        tx_frames = self._options.tx_descriptors or AF_PACKET_FRAMES
        answer = self._api.call(
            "af_packet_create_v3",
            mode=ETHERNET_MODE,
            hw_addr=dut_mac(port),
            use_random_hw_addr=False,
            host_if_name=netdev,
            rx_frame_size=ring_frame_size(size, rx_frames),
            tx_frame_size=ring_frame_size(size, tx_frames),
            rx_frames_per_block=rx_frames,
            tx_frames_per_block=tx_frames,
            flags=QDISC_BYPASS | VERSION_2,
            num_rx_queues=self._options.rx_queues or 1,
            num_tx_queues=self._options.workers or 1,
        )
        return self._up(port, answer, "netdev", netdev)

    def _nic(self, port: Port, pci: str) -> VppInterface:
        interfaces = self._api.interfaces()
        details = next((d for d in interfaces.values() if d.interface_name == nic_name(port)), None)
        if details is None:
            raise DutError(
                f"VPP did not take the NIC {pci}",
                where=str(port),
                accepted=", ".join(d.interface_name for d in interfaces.values()),
                cure="see what its dpdk plugin logs of the device in VPP's log",
            )
        self._api.call(
            "sw_interface_set_mac_address",
            sw_if_index=details.sw_if_index,
            mac_address=dut_mac(port),
        )
        return self._up(port, details, "pci")

    def _up(self, port: Port, reply: Any, kind: str, netdev: str = "") -> VppInterface:
        index = int(reply.sw_if_index)
        details = self._api.interfaces()[index]
        # A vhost-user interface has no MTU to set: its peer's buffers decide what it takes.
        if details.link_mtu < self._mtu and kind != "vhost-user":
            self._api.call("hw_interface_set_mtu", sw_if_index=index, mtu=self._mtu)
        if details.mtu[0] != self._mtu:
            self._api.call("sw_interface_set_mtu", sw_if_index=index, mtu=[self._mtu, 0, 0, 0])
        self._api.call("sw_interface_set_flags", sw_if_index=index, flags=ADMIN_UP)
        return VppInterface(port, index, str(details.interface_name), kind, netdev)

    def delete(self, interface: VppInterface) -> None:
        """Delete an interface."""
        index, kind = interface.index, interface.kind
        if kind in INDEXED_DELETIONS:
            self._api.call(INDEXED_DELETIONS[kind], sw_if_index=index)
        elif kind == "netdev":
            self._api.call("af_packet_delete", host_if_name=interface.netdev)
        else:  # a NIC stays until VPP ends
            self._api.call("sw_interface_set_flags", sw_if_index=index, flags=0)
        if kind == "memif":
            number = memif_socket_number(interface.port)
            self._api.call("memif_socket_filename_add_del_v2", is_add=False, socket_id=number)


def memif_socket_number(port: Port) -> int:
    """VPP's number of a port's memif socket, which stands in the interface's name."""
    if isinstance(port, PhyPort):
        return 1 + port.index
    return 11 + 2 * port.vnf + port.index


def nic_name(port: Port) -> str:
    """Name of a NIC's interface in VPP."""
    return f"nic-{port}"


RxMode = Literal["polling", "interrupt", "adaptive"]
#: Return values for a port whose peer does not signal what it sends, or is not connected yet.
NO_INTERRUPT_MODE = (-9, -126)
RX_MODES: dict[int, RxMode] = {1: "polling", 2: "interrupt", 3: "adaptive"}
#: Kinds of interface that wake a worker once and not again for what one vector left in the ring: up
#: to a ring of frames then lies there until its peer sends more.
POLLING_ONLY = ("memif", "vhost-user")


class RxQueue(NamedTuple):
    """A receive queue as VPP has it; worker -1 is the main thread, `mode` a key of RX_MODES."""

    interface: int
    queue: int
    worker: int
    mode: int


def read_queues(api: VppApi, interface: VppInterface) -> list[RxQueue]:
    """Receive queues of an interface; none before its peer has connected."""
    placements = api.call("sw_interface_rx_placement_dump", sw_if_index=interface.index)
    queues = [
        RxQueue(int(d.sw_if_index), int(d.queue_id), int(d.worker_id) - 1, int(d.mode))
        for d in placements
    ]
    return sorted(q for q in queues if q.interface == interface.index)


def place_queues(
    queues: Sequence[tuple[VppInterface, RxQueue]], workers: int, pins: Sequence[QueuePin]
) -> dict[tuple[int, int], int]:
    """Which worker is to poll which queue: pinned ones by their pins, the others in turn."""
    if not workers:
        return {}
    pinned = {(pin.port, pin.queue): pin.worker for pin in pins}
    places: dict[tuple[int, int], int] = {}
    turn = 0
    for interface, queue in queues:
        worker = pinned.get((str(interface.port), queue.queue))
        if worker is None:
            worker, turn = turn % workers, turn + 1
        places[(queue.interface, queue.queue)] = worker
    return places


def choose_rx_mode(interface: VppInterface, mode: RxMode) -> RxMode:
    """How the queues of an interface are to be served."""
    return "polling" if interface.kind in POLLING_ONLY else mode


def arrange_queues(
    api: VppApi,
    interfaces: Sequence[VppInterface],
    *,
    workers: int,
    pins: Sequence[QueuePin],
    mode: RxMode,
) -> None:
    """Put every queue where it belongs, as far as it is there and elsewhere."""
    queues = [
        (interface, queue) for interface in interfaces for queue in read_queues(api, interface)
    ]
    places = place_queues(queues, workers, pins)
    for _, queue in queues:
        worker = places.get((queue.interface, queue.queue))
        if worker is not None and worker != queue.worker:
            api.call(
                "sw_interface_set_rx_placement",
                sw_if_index=queue.interface,
                queue_id=queue.queue,
                worker_id=worker,
                is_main=False,
            )
    numbers = {name: number for number, name in RX_MODES.items()}
    modes = {
        i: choose_rx_mode(i, mode)
        for i, queue in queues
        if queue.mode != numbers[choose_rx_mode(i, mode)]
    }
    for interface, chosen in modes.items():
        api.call(
            "sw_interface_set_rx_mode",
            sw_if_index=interface.index,
            queue_id_valid=False,
            queue_id=0,
            mode=numbers[chosen],
            tolerated=() if chosen == "polling" else NO_INTERRUPT_MODE,  # it goes on polling then
        )


def describe_queues(api: VppApi, interfaces: Sequence[VppInterface]) -> list[dict[str, Any]]:
    """Effective queues, read back."""
    return [
        {
            "port": str(interface.port),
            "queue": queue.queue,
            "worker": queue.worker if queue.worker >= 0 else "main thread",
            "rx mode": RX_MODES.get(queue.mode, str(queue.mode)),
        }
        for interface in interfaces
        for queue in read_queues(api, interface)
    ]
