"""Which interfaces carry something of this machine."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.host.foreign import (
    USES,
    UnknownToKernelError,
    open_xdp_socket,
    run_ip,
    uses_in_private_namespace,
)
from vnetperf.host import kernel, nic
from vnetperf.host.linux import call_in_thread, unshare_network
from vnetperf.host.machine import Machine
from vnetperf.host.nic import usage, users
from vnetperf.host.nic.usage import (
    InterfaceUse,
    NetworkState,
    UsageInterface,
    established_addresses,
    find_uses,
)
from vnetperf.host.wait import wait_for
from vnetperf.host.xdp import BpfObject, compile_program
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import MachineFacts, NicFacts

ETH, BRIDGE, VLAN, BOND, FREE = (
    UsageInterface(2, "eth0"),
    UsageInterface(3, "br0"),
    UsageInterface(4, "eth0.100", lower=2),
    UsageInterface(5, "bond0"),
    UsageInterface(6, "eth1"),
)


def test_nothing_configured_is_free() -> None:
    assert find_uses(NetworkState((ETH, FREE)), ()) == {}


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (NetworkState((ETH, FREE), {2: ("192.0.2.1",)}), "it carries the address 192.0.2.1"),
        (NetworkState((ETH, FREE), {2: ("2001:db8::1",)}), "it carries the address 2001:db8::1"),
        (NetworkState((ETH, FREE), {}, {2: ("default",)}), "it carries the route default"),
        (
            NetworkState((ETH, VLAN, FREE), {4: ("192.0.2.1",)}),
            "eth0.100 on top of it carries the address 192.0.2.1",
        ),
        (NetworkState((UsageInterface(2, "eth0", master=3), BRIDGE, FREE)), "it is a port of br0"),
        (NetworkState((ETH, VLAN, FREE), {2: ("192.0.2.1",)}), "eth0.100 is on top of it"),
        (
            NetworkState((UsageInterface(2, "eth0", master=5), BOND, FREE), {5: ("192.0.2.1",)}),
            "bond0 on top of it carries the address 192.0.2.1",
        ),
    ],
)
def test_what_is_carried_is_named(network: NetworkState, reason: str) -> None:
    found = find_uses(network, ())
    carries = reason.startswith("it carries")
    assert found["eth0"] == InterfaceUse(reason, lost=not carries)
    assert "eth1" not in found


def test_what_is_behind_a_pair_is_not_taken_away() -> None:
    """Moving one end takes nothing out of the bridge that the other is a port of."""
    pair = UsageInterface(2, "eth0", lower=4), UsageInterface(4, "peer", master=3, lower=2)
    found = find_uses(NetworkState((*pair, BRIDGE), {3: ("192.0.2.1",)}), ())
    assert not found["eth0"].never
    for words in ("br0", "192.0.2.1"):
        assert words in found["eth0"].reason
    assert found["peer"].lost


def test_of_several_routes_the_one_that_would_be_lost_is_named() -> None:
    routes = {2: ("192.0.2.0/24", "default")}
    network = NetworkState((ETH, FREE), routes=routes, shared={2: ("default",)})
    assert find_uses(network, ())["eth0"] == InterfaceUse("it carries the route default", lost=True)
    network = NetworkState((ETH, FREE), routes=routes)
    assert not find_uses(network, ())["eth0"].never


def test_a_session_counts_before_all_else() -> None:
    network = NetworkState(
        (UsageInterface(2, "eth0", master=3), BRIDGE), {2: ("192.0.2.9",), 3: ("192.0.2.1",)}
    )
    use = find_uses(network, {"192.0.2.1"})["eth0"]
    assert use.session
    for words in ("SSH session", "192.0.2.1", "br0"):
        assert words in use.reason


@given(
    st.lists(
        st.builds(
            UsageInterface, st.integers(1, 6), st.just("x"), st.integers(0, 6), st.integers(0, 6)
        ),
        unique_by=lambda i: i.index,
    )
)
def test_loops_of_links_are_walked_once(interfaces: list[UsageInterface]) -> None:
    find_uses(NetworkState(tuple(interfaces), {1: ("192.0.2.1",)}), ())


def test_established_connections_to_a_port() -> None:
    text = """  sl  local_address rem_address   st
   0: 0100007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1 1 0
   1: 010200C0:0016 05FEA8C0:C0DE 01 00000000:00000000 02:000A7214 00000000 0 0 2 4 0
   2: 020200C0:1F90 05FEA8C0:C0DE 01 00000000:00000000 02:000A7214 00000000 0 0 2 4 0
"""
    assert established_addresses(text, {22}) == {"192.0.2.1"}
    assert established_addresses(text, {8080}) == {"192.0.2.2"}


def test_connections_over_ipv6() -> None:
    head = "  sl  local_address remote_address st\n"
    mapped = "0000000000000000FFFF0000010200C0"
    plain = "B80D0120000000000000000001000000"
    text = head + "".join(f" 0: {a}:0016 {'0' * 32}:C0DE 01 x\n" for a in (mapped, plain))
    assert established_addresses(text, {22}) == {"192.0.2.1", "2001:db8::1"}


def test_a_login_over_a_link_local_address_is_a_session() -> None:
    network = NetworkState((ETH, FREE), automatic={2: ("fe80::1",), 6: ("fe80::2",)})
    found = find_uses(network, {"fe80::1"})
    assert found == {"eth0": InterfaceUse(found["eth0"].reason, session=True)}
    assert "SSH session" in found["eth0"].reason
    assert find_uses(network, ()) == {}


def test_connections_by_socket_whatever_their_port() -> None:
    text = "head\n" + "".join(
        f" {n}: 0{n}0200C0:08AE 05FEA8C0:C0DE 01 0:0 00:0 0 0 0 {inode} 4\n"
        for n, inode in ((1, 4711), (2, 4712))
    )
    assert established_addresses(text, {22}) == set()
    assert established_addresses(text, {22}, {"4711"}) == {"192.0.2.1"}


def test_logins_on_another_port_behind_sudo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sudo has dropped SSH_CONNECTION; sshd listens on 2222; one login came over link-local."""
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setattr(usage, "PROC", tmp_path)
    sshd, shell = tmp_path / "900", tmp_path / str(os.getppid())
    (sshd / "fd").mkdir(parents=True)
    (sshd / "comm").write_text("sshd-session\n")
    (sshd / "fd/4").symlink_to("socket:[4711]")
    shell.mkdir()
    (shell / "environ").write_bytes(
        b"TERM=xterm\0SSH_CONNECTION=fe80::9%eth0 40000 fe80::1%eth0 2200\0"
    )
    (shell / "stat").write_text(f"{shell.name} (a) b) S 1 1 1")
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text(
        "head\n 0: 010200C0:08AE 05FEA8C0:C0DE 01 0:0 00:0 0 0 0 4711 4\n"
        " 1: 020200C0:08AE 05FEA8C0:C0DE 01 0:0 00:0 0 0 0 4712 4\n"
    )
    assert usage.ssh_addresses() == {"192.0.2.1", "fe80::1"}


def test_a_login_that_no_network_carries_is_over_no_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "UNKNOWN 65535 UNKNOWN 65535")  # sshd -i on a pipe
    monkeypatch.setattr(usage, "PROC", tmp_path)
    assert usage.ssh_addresses() == set()


HOLDERS = {
    "/dev/vfio/12": ("vfio-pci", 12, ""),
    "/dev/vfio/noiommu-0": ("vfio-pci", 0, ""),
    "/dev/vfio/devices/vfio3": ("vfio-pci", 5, "vfio-dev/vfio3"),
    "/dev/uio0": ("igb_uio", None, "uio/uio0"),
    "/dev/infiniband/uverbs1": ("mlx5_core", None, "infiniband_verbs/uverbs1"),
}


def read_facts(
    monkeypatch: pytest.MonkeyPatch,
    device: nic.pci.PciNic,
    use: InterfaceUse | None = None,
    *,
    functions: str = "",
) -> NicFacts:
    """What the inventory has of a device, by the use of its interface and of its functions."""
    monkeypatch.setattr(nic.pci, "nics", lambda: (device,))
    monkeypatch.setattr(nic.pci, "group_mates", lambda _: {})
    monkeypatch.setattr(nic.pci, "kernel_driver", lambda _: device.driver)
    monkeypatch.setattr(nic.vfs, "explain_vf_use", lambda *_: functions)
    monkeypatch.setattr(
        nic.usage, "interface_uses", lambda: dict.fromkeys(device.interfaces, use) if use else {}
    )
    monkeypatch.setattr(nic.links, "altnames", dict)
    (facts,) = nic.inventory()
    return facts


@pytest.mark.parametrize(("file", "device"), HOLDERS.items())
def test_a_pci_nicthat_a_program_drives_is_in_use(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    device: tuple[str, int | None, str],
) -> None:
    driver, group, made = device
    address = "0000:3b:00.0"
    if made:
        (tmp_path / "sys/bus/pci/devices" / address / made).mkdir(parents=True)
    monkeypatch.setattr(usage, "PROC", tmp_path / "proc")
    monkeypatch.setattr(nic.pci, "SYS", tmp_path / "sys")
    pci_nic = nic.pci.PciNic(address, "", "", driver, 0, ("ens1",), 0, 0, "", group)
    assert read_facts(monkeypatch, pci_nic).in_use == ""
    process = tmp_path / "proc/101"
    (process / "fd").mkdir(parents=True)
    (process / "comm").write_text("ovs-vswitchd\n")
    (process / "fd/7").symlink_to(file)
    holder = f"process 101 (ovs-vswitchd) has it through {driver}"
    assert read_facts(monkeypatch, pci_nic).in_use == holder


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")
@pytest.mark.parametrize(
    "commands",
    [
        (
            "route add default src 10.1.1.1 nexthop via inet6 fe80::1 dev eth0 "
            "nexthop via inet6 fe80::2 dev eth1",
        ),
        ("-6 route add default nexthop via fe80::1 dev eth0 nexthop via fe80::2 dev eth1",),
        (
            "nexthop add id 1 via inet6 fe80::1 dev eth0 onlink",
            "nexthop add id 2 via inet6 fe80::2 dev eth1 onlink",
            "nexthop add id 3 group 1/2",
            "route add default nhid 3",
        ),
    ],
    ids=["ECMP", "ECMP of IPv6", "nexthop objects"],
)
def test_every_way_out_of_a_route_is_in_use(commands: tuple[str, ...]) -> None:
    found = uses_in_private_namespace(*commands)
    for name in ("eth0", "eth1"):
        assert "carries the route" in found[name].reason
        assert found[name].never, "nobody puts it back"


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("qdisc add dev eth0 root handle 1: pfifo", "pfifo 1:"),
        ("qdisc add dev eth0 clsact", "clsact ffff:"),
    ],
)
def test_a_queueing_discipline_that_somebody_set_would_be_lost(command: str, shown: str) -> None:
    found = uses_in_private_namespace(command, program="tc")["eth0"]
    assert f"discipline {shown}" in found.reason
    assert found.never


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")
def test_routes_that_name_a_nexthop_object_and_no_interface() -> None:
    def look() -> dict[str, InterfaceUse]:
        unshare_network()
        Path("/proc/sys/net/ipv4/nexthop_compat_mode").write_text("0")
        run_ip("link set lo up", "link add eth0 type veth peer name eth0p")
        run_ip("link set eth0 addrgenmode none up", "link set eth0p addrgenmode none up")
        run_ip("nexthop add id 7 via inet6 fe80::1 dev eth0 onlink", "nexthop add id 8 blackhole")
        run_ip("route add default nhid 7")
        assert [number for number, _ in usage.read_nexthops()] == [7]
        return find_uses(usage.read_network(), ())

    use = call_in_thread(look)["eth0"]
    assert use.reason == "it carries the route of nexthop 7"
    assert use.never


@pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")
def test_the_parent_of_a_containers_macvlan_is_in_use() -> None:
    container = subprocess.Popen(["unshare", "--net", "sleep", "60"])
    try:
        mine = Path("/proc/self/ns/net").stat().st_ino
        theirs = Path(f"/proc/{container.pid}/ns/net")
        wait_for(lambda: theirs.stat().st_ino != mine, 10, "the container")
        found = uses_in_private_namespace(
            "link add mv0 link eth1 type macvlan mode bridge", f"link set mv0 netns {container.pid}"
        )
    finally:
        container.kill()
        container.wait()
    assert "eth0" not in found  # its peer is no link on top of it
    assert found["eth1"].reason.startswith(f"mv0 of process {container.pid} ")


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")
@pytest.mark.parametrize(
    ("command", "says", "lost"),
    [
        ("address add 169.254.7.7/16 dev eth1 scope link", "169.254.7.7", False),
        ("rule add iif eth1 lookup 100", "rule", False),
        ("-6 rule add oif eth1 lookup 100", "rule", False),
        ("link set eth1 promisc on", "promiscuous", False),
        ("link set eth1 allmulticast on", "multicast", False),
        ("maddress add 01:00:5e:00:00:05 dev eth1", "01005e000005", True),
        ("maddress add 01:80:c2:00:00:0e dev eth1", "0180c200000e", True),
        ("neighbour add 10.3.3.3 lladdr 02:00:00:00:00:09 dev eth1 nud permanent", "10.3.3", True),
        ("neighbour add proxy 10.3.3.4 dev eth1", "10.3.3.4", True),
        ("-6 neighbour add proxy 2001:db8::7 dev eth1", "2001:db8::7", True),
        ("link add vx0 type vxlan id 5 dstport 4789 dev eth1", "vx0", True),
        ("link add vx0 type vxlan id 5 dstport 4789 dev eth1.7", "eth1.7", True),
    ],
)
def test_what_has_neither_address_nor_route_is_in_use(command: str, says: str, lost: bool) -> None:
    over = ["link add eth1.7 link eth1 type macvlan"] if "eth1.7" in command else []
    found = uses_in_private_namespace(*over, command)
    assert "eth0" not in found
    assert says in found["eth1"].reason
    assert found["eth1"].lost is lost


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")
@pytest.mark.parametrize("kind", ["vxlan id 5 dstport 4789", "macvlan"])
def test_what_is_below_a_link_of_another_namespace_is_in_use(kind: str) -> None:
    container = subprocess.Popen(["unshare", "--net", "sleep", "60"])
    try:
        mine = Path("/proc/self/ns/net").stat().st_ino
        theirs = Path(f"/proc/{container.pid}/ns/net")
        wait_for(lambda: theirs.stat().st_ino != mine, 10, "the container")
        below = "" if kind == "macvlan" else "dev eth1"
        over = "" if below else "link eth1"
        found = uses_in_private_namespace(
            f"link add t0 {over} type {kind} {below}", f"link set t0 netns {container.pid}"
        )
    finally:
        container.kill()
        container.wait()
    assert "eth0" not in found
    assert found["eth1"].reason.startswith(f"t0 of process {container.pid}")
    assert found["eth1"].lost


def _with_socket(open_socket: Callable[[], socket.socket]) -> dict[str, InterfaceUse]:
    """Uses in a network namespace of its own while a socket is open there."""

    def look() -> dict[str, InterfaceUse]:
        unshare_network()
        run_ip("link set lo up")
        for name in ("eth0", "eth1"):
            run_ip(f"link add {name} type veth peer name {name}p", f"link set {name} up")
        with open_socket():
            return find_uses(usage.read_network(), ())

    return call_in_thread(look)


def _hear_frames() -> socket.socket:
    heard = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    heard.bind(("eth1", 0))
    return heard


def _bind_socket(family: int, kind: int) -> Callable[[], socket.socket]:
    def bind() -> socket.socket:
        bound = socket.socket(family, kind)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth1")
        bound.bind(("", 4711))
        if kind == socket.SOCK_STREAM:
            bound.listen()
        return bound

    return bind


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")
@pytest.mark.parametrize(
    "open_socket",
    [
        _hear_frames,
        _bind_socket(socket.AF_INET, socket.SOCK_DGRAM),
        _bind_socket(socket.AF_INET, socket.SOCK_STREAM),
        _bind_socket(socket.AF_INET6, socket.SOCK_DGRAM),
    ],
    ids=["frames", "UDP", "TCP", "UDP over IPv6"],
)
def test_an_interface_that_a_programs_socket_is_bound_to_is_in_use(
    open_socket: Callable[[], socket.socket],
) -> None:
    found = _with_socket(open_socket)
    assert "eth0" not in found
    assert f"process {os.getpid()}" in found["eth1"].reason


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")
def test_a_socket_of_all_interfaces_uses_none() -> None:
    def hear_all() -> socket.socket:
        return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))

    assert not {"eth0", "eth1"} & set(_with_socket(hear_all))


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")
@pytest.mark.parametrize("make", USES)
def test_a_use_that_not_every_kernel_has_is_seen(make: Callable[[str], object]) -> None:
    """The lab's kernel has them all."""
    says, lost = USES[make]
    kept: list[object] = []
    try:
        found = uses_in_private_namespace(then=lambda: kept.append(make("eth1")))
    except UnknownToKernelError as error:
        pytest.skip(str(error))
    assert "eth0" not in found
    assert says in found["eth1"].reason
    assert found["eth1"].lost is lost


#: What the kernel answers of an AF_XDP socket: struct xdp_diag_msg, then XDP_DIAG_INFO.
XDP_SOCKET = struct.pack("=BBHIII", 44, 3, 0, 4711, 0, 0) + struct.pack("=HHII", 12, 1, 6, 0)


def test_an_af_xdp_socket_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "ask_kernel", lambda *_, **__: [XDP_SOCKET])
    assert users.xdp_sockets() == [(6, 4711)]


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")
def test_a_socket_of_af_xdp_that_the_kernel_hides_may_be_anywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kernel without XDP_SOCKETS_DIAG, or with its module not loaded, before Linux 6.14."""
    monkeypatch.setattr(users, "xdp_sockets", list)
    monkeypatch.setattr(users, "list_program_queues", list)
    assert not {"eth0", "eth1"} & set(uses_in_private_namespace())
    kept: list[object] = []
    try:
        found = uses_in_private_namespace(then=lambda: kept.append(open_xdp_socket("eth1")))
    except UnknownToKernelError as error:
        pytest.skip(str(error))
    for name in ("eth0", "eth1"):
        assert "may be used by a program by AF_XDP" in found[name].reason
        assert found[name].never


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")
@pytest.mark.parametrize("mode", ["native", "generic"])
def test_an_xdp_program_of_somebody_else_would_be_lost(tmp_path: Path, mode: str) -> None:
    source = tmp_path / "pass.c"
    source.write_text(
        '#include "bpf.h"\nSEC("xdp") int pass(void *frame) { (void)frame; return XDP_PASS; }\n'
    )
    with BpfObject("pass", compile_program("clang", source)) as program:
        found = uses_in_private_namespace(then=lambda: program.attach("pass", "eth1", mode))
    assert "has the XDP program" in found["eth1"].reason
    assert found["eth1"].lost
    assert "eth0" not in found


def test_the_holder_of_a_pci_nicis_named_though_processes_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid in ("12", "34"):
        (tmp_path / pid / "fd").mkdir(parents=True)
        (tmp_path / pid / "comm").write_text("qemu\n")
    (tmp_path / "34/fd/7").symlink_to("/dev/vfio/5")
    (tmp_path / "12/fd").rmdir()
    monkeypatch.setattr(usage, "PROC", tmp_path)
    assert usage.find_holder(["/dev/vfio/5"]) == "process 34 (qemu)"
    assert usage.find_holder(["/dev/vfio/6"]) == ""


def test_a_nic_in_use_is_taken_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever made the plan, and however long ago."""
    found = nic.pci.PciNic("0000:01:00.0", "", "", "igb", 0, ("ens1",), 0, 0, "", 1)
    monkeypatch.setattr(nic.pci, "nic", lambda address: found)
    monkeypatch.setattr(nic.pci, "group_mates", lambda address: {})
    monkeypatch.setattr(nic.pci, "kernel_driver", lambda address: "igb")
    taken: list[str] = []
    monkeypatch.setattr(nic, "bind_nic", lambda journal, address, *_, **__: taken.append(address))
    monkeypatch.setattr(nic, "borrow_nic", lambda journal, address, *_, **__: taken.append(address))
    machine = Machine(MagicMock(), MachineFacts(cpus=()))
    uses = {"ens1": InterfaceUse("it carries the address 192.0.2.1")}
    monkeypatch.setattr(nic.usage, "interface_uses", lambda: uses)
    with pytest.raises(HostError, match=r"0000:01:00.0 is in use: it carries the address"):
        machine.give_nic("0000:01:00.0", "vfio-pci")
    with pytest.raises(HostError, match=r"0000:01:00.0 is in use: it carries the address"):
        machine.borrow_nic("0000:01:00.0", mtu=1500)
    machine.give_nic("0000:01:00.0", "vfio-pci", isolated=True)
    uses["ens1"] = InterfaceUse("an SSH session", session=True)
    with pytest.raises(HostError, match="an SSH session"):
        machine.give_nic("0000:01:00.0", "vfio-pci", isolated=True)
    uses.clear()
    machine.give_nic("0000:01:00.0", "vfio-pci")
    assert taken == ["0000:01:00.0"] * 2


def test_virtual_functions_in_use_are_noted_beside_what_uses_the_nic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one may be taken in an isolated environment, the other not."""
    found = nic.pci.PciNic("0000:01:00.0", "", "", "igb", 0, ("ens1",), 2, 7, "", 1)
    carries = InterfaceUse("it carries the address 192.0.2.1")
    now = read_facts(monkeypatch, found, carries, functions="one is given to vfio-pci")
    assert now.in_use == "it carries the address 192.0.2.1"
    assert now.vfs_in_use == "one is given to vfio-pci"


@pytest.mark.parametrize("name", ["/home/m/x.ko", "x.ko", "-r", "", "veth bridge", "a/../b"])
def test_only_names_of_modules_are_loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = MagicMock()
    monkeypatch.setattr(kernel.subprocess, "run", run)
    with pytest.raises(HostError, match="is no name of a kernel module"):
        kernel.load_module(MagicMock(), name)
    run.assert_not_called()


def test_routes_of_labels_are_read_with_all_their_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel writes them: a label is the upper 20 bits, of four octets."""

    def attribute(kind: int, octets: bytes) -> bytes:
        return struct.pack("=HH", 4 + len(octets), kind) + octets

    def route(label: int, *attributes: bytes, family: int = 28) -> bytes:
        head = struct.pack("=BBBBBBBBI", family, 20, 0, 0, 254, 4, 0, 1, 0)
        bottom = struct.pack("!I", label << 12 | 1 << 8)
        return head + attribute(1, bottom) + b"".join(attributes)

    def hops(*indices: int) -> bytes:
        return b"".join(struct.pack("=HBBi", 8, 0, 0, index) for index in indices)

    answers = [
        route(100, attribute(4, struct.pack("=I", 7))),
        route(200000, attribute(9, hops(7, 9))),
        route(5, attribute(4, struct.pack("=I", 3)), family=2),  # of a kernel without MPLS
        route(6),
    ]
    monkeypatch.setattr(usage, "ask_kernel", lambda *_, **__: answers)
    assert usage.read_labels() == [(100, 7), (200000, 7), (200000, 9)]


def test_interfaces_of_the_kernels_packet_generator_are_in_use(tmp_path: Path) -> None:
    (tmp_path / "pktgen").mkdir()
    for name in ("pgctrl", "kpktgend_0", "eth7", "eth8@1"):
        (tmp_path / "pktgen" / name).touch()
    found = {name: use for name, use in users.read_listed_uses(tmp_path) if name.startswith("eth")}
    assert set(found) == {"eth7", "eth8"}
    assert found["eth7"].lost
