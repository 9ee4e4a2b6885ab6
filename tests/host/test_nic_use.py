"""Which interfaces carry something of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.host.nic import usage
from vnetperf.host.nic.usage import (
    InterfaceUse,
    NetworkState,
    UsageInterface,
    established_addresses,
    find_uses,
)

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
        (
            NetworkState((UsageInterface(2, "eth0", master=5), BOND, FREE), {5: ("192.0.2.1",)}),
            "bond0 on top of it carries the address 192.0.2.1",
        ),
    ],
)
def test_what_is_carried_is_named(network: NetworkState, reason: str) -> None:
    found = find_uses(network, ())
    assert found["eth0"] == InterfaceUse(reason)
    assert "eth1" not in found


def test_a_session_counts_before_all_else() -> None:
    network = NetworkState(
        (UsageInterface(2, "eth0", master=3), BRIDGE), {2: ("192.0.2.9",), 3: ("192.0.2.1",)}
    )
    use = find_uses(network, {"192.0.2.1"})["eth0"]
    assert use.session
    assert use.reason == (
        "an SSH session of this machine goes over 192.0.2.1, which br0 on top of it carries"
    )


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


def test_the_holder_of_a_device_is_named_though_processes_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid in ("12", "34"):
        (tmp_path / pid / "fd").mkdir(parents=True)
        (tmp_path / pid / "comm").write_text("qemu\n")
    (tmp_path / "34/fd/7").symlink_to("/dev/vfio/5")
    listed = Path.iterdir

    def iterdir(path: Path) -> object:
        if path == tmp_path / "12/fd":
            raise FileNotFoundError(path)
        return listed(path)

    monkeypatch.setattr(usage, "PROC", tmp_path)
    monkeypatch.setattr(Path, "iterdir", iterdir)
    assert usage.holder_of_vfio(5) == "process 34 (qemu)"
    assert usage.holder_of_vfio(6) == ""
