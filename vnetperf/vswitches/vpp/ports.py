"""VPP's interfaces: shared memory, vhost-user, kernel interfaces, NICs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vnetperf.model.addresses import dut_mac
from vnetperf.model.errors import DutError
from vnetperf.model.options import SwitchOptions
from vnetperf.model.ports import Attachment, PhyPort, Port, WireEnd
from vnetperf.vswitches.vpp import xdp
from vnetperf.vswitches.vpp.api import ADMIN_UP, VppApi
from vnetperf.vswitches.vpp.startup import data_size

#: af_packet's flags: send past the queueing discipline; rings of version 2, since those of version
#: 3 add 1 ms of latency. Not flag 2, checksums by the kernel's header: no test frame got through.
QDISC_BYPASS, VERSION_2 = 1, 8
AF_PACKET_FRAMES = 1024
MEMIF_RING = 2048
ETHERNET_MODE = 1
MASTER, SLAVE = 0, 1
PLUGINS = {
    "memif": "memif",
    "vhost-user": "vhost",
    "netdev": "af_packet",
    "xdp": "af_xdp",
    "pci": "dpdk",
}


@dataclass(frozen=True, slots=True)
class Interface:
    """An interface of VPP.

    Attributes:
        port: Port of the deployment.
        index: VPP's number of it.
        name: VPP's name of it.
        kind: A key of PLUGINS.
        netdev: The kernel interface behind it; "" for none.
    """

    port: Port
    index: int
    name: str
    kind: str
    netdev: str = ""


class Ports:
    """Makes and deletes interfaces.

    Args:
        api: The running VPP.
        mtu: MTU of every port, octets.
        options: What is asked of the switch.
    """

    def __init__(self, api: VppApi, mtu: int, options: SwitchOptions) -> None:
        self._api = api
        self._mtu = mtu
        self._options = options

    def plug(self, end: WireEnd) -> Interface:
        """Plug in a wire.

        Args:
            end: The DUT's end.

        Returns:
            The interface, up.

        Raises:
            DutError: VPP refuses it, or does not know the kind of wire.
        """
        port = PhyPort(index=end.wire)
        if end.kind == "memif" and end.socket:
            return self._memif(
                port, end.socket, end.wire, MASTER if end.role == "server" else SLAVE
            )
        if end.netdev and xdp.asked(self._options):
            made = xdp.create(self._api, port, end.netdev, self._options)
            return self._up(port, made, "xdp", end.netdev)
        if end.netdev:
            return self._af_packet(port, end.netdev)
        if end.pci:
            return self._nic(port, end.pci)
        raise DutError(
            f"cannot plug a {end.kind} wire in", where="vpp", accepted="memif, veth, nic"
        )

    def attach(self, attachment: Attachment) -> Interface:
        """Make a VNF port.

        Args:
            attachment: As offered; a memif's socket is its own, so that the interface on it is 0.

        Returns:
            The interface, up.

        Raises:
            DutError: VPP refuses it.
        """
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

    def _memif(self, port: Port, socket: str, identity: int, role: int) -> Interface:
        socket_id = socket_number(port)
        self._api.call(
            "memif_socket_filename_add_del_v2",
            is_add=True,
            socket_id=socket_id,
            socket_filename=socket,
        )
        queues = self._options.rx_queues or 1
        made = self._api.call(
            "memif_create_v2",
            role=role,
            mode=0,
            rx_queues=queues,
            tx_queues=max(queues, self._options.workers or 1),
            id=identity,
            socket_id=socket_id,
            ring_size=self._options.rx_descriptors or MEMIF_RING,
            buffer_size=data_size(self._mtu),
            hw_addr=dut_mac(port),
        )
        return self._up(port, made, "memif")

    def _af_packet(self, port: Port, netdev: str) -> Interface:
        size = data_size(self._mtu)
        size += -size % 2048  # whole frames in whole pages
        answer = self._api.call(
            "af_packet_create_v3",
            mode=ETHERNET_MODE,
            hw_addr=dut_mac(port),
            use_random_hw_addr=False,
            host_if_name=netdev,
            rx_frame_size=size,
            tx_frame_size=size,
            rx_frames_per_block=self._options.rx_descriptors or AF_PACKET_FRAMES,
            tx_frames_per_block=self._options.tx_descriptors or AF_PACKET_FRAMES,
            flags=QDISC_BYPASS | VERSION_2,
            num_rx_queues=self._options.rx_queues or 1,
            num_tx_queues=self._options.workers or 1,
        )
        return self._up(port, answer, "netdev", netdev)

    def _nic(self, port: Port, pci: str) -> Interface:
        there = self._api.interfaces()
        found = next((d for d in there.values() if d.interface_name == nic_name(port)), None)
        if found is None:
            raise DutError(
                f"VPP did not take the NIC {pci}",
                where=str(port),
                accepted=", ".join(d.interface_name for d in there.values()),
                cure="see VPP's log for what its dpdk plugin says of the device",
            )
        self._api.call(
            "sw_interface_set_mac_address",
            sw_if_index=found.sw_if_index,
            mac_address=dut_mac(port),
        )
        return self._up(port, found, "pci")

    def _up(self, port: Port, made: Any, kind: str, netdev: str = "") -> Interface:
        index = int(made.sw_if_index)
        details = self._api.interfaces()[index]
        # A vhost-user interface has no MTU of its own to set: its peer's buffers say what it takes.
        if details.link_mtu < self._mtu and kind != "vhost-user":
            self._api.call("hw_interface_set_mtu", sw_if_index=index, mtu=self._mtu)
        if details.mtu[0] != self._mtu:
            self._api.call("sw_interface_set_mtu", sw_if_index=index, mtu=[self._mtu, 0, 0, 0])
        self._api.call("sw_interface_set_flags", sw_if_index=index, flags=ADMIN_UP)
        return Interface(port, index, str(details.interface_name), kind, netdev)

    def delete(self, interface: Interface) -> None:
        """Delete an interface.

        Args:
            interface: One that was made here.

        Raises:
            DutError: VPP refuses.
        """
        if interface.kind == "memif":
            self._api.call("memif_delete", sw_if_index=interface.index)
            self._api.call(
                "memif_socket_filename_add_del_v2",
                is_add=False,
                socket_id=socket_number(interface.port),
            )
        elif interface.kind == "vhost-user":
            self._api.call("delete_vhost_user_if", sw_if_index=interface.index)
        elif interface.kind == "netdev":
            self._api.call("af_packet_delete", host_if_name=interface.netdev)
        elif interface.kind == "xdp":
            self._api.call("af_xdp_delete", sw_if_index=interface.index)
        else:  # a NIC stays until VPP ends
            self._api.call("sw_interface_set_flags", sw_if_index=interface.index, flags=0)


def socket_number(port: Port) -> int:
    """VPP's number of a port's memif socket, which stands in the interface's name.

    Args:
        port: Port of the deployment.

    Returns:
        1, 2 ... for physical ports, 11, 12 ... for those of VNFs.
    """
    if isinstance(port, PhyPort):
        return 1 + port.index
    return 11 + 2 * port.vnf + port.index


def nic_name(port: Port) -> str:
    """Name of a NIC's interface in VPP.

    Args:
        port: Port of the deployment.

    Returns:
        Name.
    """
    return f"nic-{port}"
