"""VPP's NATs without a VPP: what they are told, what they refuse, which addresses they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.machine import facts
from tests.vswitches.test_vpp import ALL, machine
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import CapabilityError, DutError
from vnetperf.model.frame_change import FIRST_PORT, PORTS_OF_ADDRESS
from vnetperf.model.nat import Nat
from vnetperf.model.options import SwitchOptions
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.planning.planner import make_plan
from vnetperf.vswitches.cgnat.base import INSIDE, OUTSIDE, NatOptions
from vnetperf.vswitches.cgnat.switch import Cgnat
from vnetperf.vswitches.cgnat.vpp import Det44Map, VppDet44, VppNat, VppNat44
from vnetperf.vswitches.vpp.interfaces import VppInterface

MODES = {"vpp-det44": "det44", "vpp-nat44": "nat"}
#: What each mode is told, in order, beside links and routes.
TOLD = {
    "vpp-det44": [
        "det44_plugin_enable_disable",
        "det44_interface_add_del_feature",
        "det44_interface_add_del_feature",
        "det44_add_del_map",
        "det44_set_timeouts",
    ],
    "vpp-nat44": [
        "nat44_ed_plugin_enable_disable",
        "nat44_interface_add_del_feature",
        "nat44_interface_add_del_feature",
        "nat44_add_del_address_range",
        "nat_set_timeouts",
    ],
}


def scenario(mode: str, nat: Nat | None = None, **options: Any) -> Scenario:
    one = Scenario(
        deployment=make_deployment("phy2phy"),
        vswitch="cgnat",
        traffic=options.pop("traffic", TrafficProfile()),
        change=nat or Nat(),
        options=SwitchOptions(mode=mode, **options),
    )
    return Cgnat.adapted(one, Testbed())


def plan(there: MachineFacts, of: Scenario) -> Plan:
    return make_plan(of, Testbed(), there)


def with_nats(root: Path) -> MachineFacts:
    return machine(root, plugins=(*ALL, *MODES.values()))


# --- what is refused, and what is shown -------------------------------------------------------


@pytest.mark.parametrize(("mode", "plugin"), MODES.items())
def test_a_vpp_or_a_plugin_that_is_missing_is_told(tmp_path: Path, mode: str, plugin: str) -> None:
    assert "vpp is not installed" in Cgnat.missing(facts(), scenario(mode))
    without = Cgnat.missing(machine(tmp_path), scenario(mode))
    assert f"plugin {plugin} is not in" in without
    assert "vpp-plugin-core" in without


@pytest.mark.parametrize("mode", MODES)
def test_other_modes_need_no_vpp(tmp_path: Path, mode: str) -> None:
    assert Cgnat.missing_requirement(facts()) == ""
    assert Cgnat.missing(with_nats(tmp_path), scenario(mode)) == ""


SMALL = Nat(subscribers=64, ports=1000, pool="198.18.0.5/32")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mode", "nat", "options", "says"),
    [
        ("vpp-det44", Nat(subscribers=2, ports=1001), {}, "room for 1000 sessions of a"),
        ("vpp-det44", Nat(), {"max_sessions": 9}, "mode=vpp-nat44"),
        ("vpp-det44", SMALL, {}, "needs 2 for blocks of 1000 ports"),
        ("vpp-nat44", SMALL, {}, "get 5 public addresses: pool 198.18.0.5/32 has 1"),
        (
            "vpp-nat44",
            Nat(),
            {"traffic": TrafficProfile(headers=("ethernet", "ipv4", "tcp"))},
            "SYN",
        ),
        ("vpp-nat44", Nat(), {"random_ports": True}, "no option random_ports"),
    ],
)
def test_what_it_cannot_do_is_refused_with_the_cure(
    tmp_path: Path, mode: str, nat: Nat, options: dict[str, Any], says: str
) -> None:
    assert says in Cgnat.missing(with_nats(tmp_path), scenario(mode, nat, **options))


def test_tables_larger_than_the_memory_are_refused_with_both_numbers(tmp_path: Path) -> None:
    there = with_nats(tmp_path).model_copy(update={"memory_free_kb": {0: 600 << 10}})
    says = Cgnat.missing(there, scenario("vpp-det44", Nat(subscribers=16_384)))
    for words in ("750 MiB", "16384 subscribers", "600 MiB"):
        assert words in says
    assert Cgnat.missing(there, scenario("vpp-det44", Nat(subscribers=1024))) == ""


@pytest.mark.parametrize("mode", MODES)
def test_a_wire_of_a_nic_is_refused(tmp_path: Path, mode: str) -> None:
    of = scenario(mode).model_copy(update={"wire": "nic"})
    with pytest.raises(CapabilityError, match="nic: cgnat cannot plug it in"):
        plan(with_nats(tmp_path), of)


@pytest.mark.parametrize(
    ("mode", "option"), [("nft", "workers"), ("rtc", "workers"), ("vpp-det44", "napi")]
)
def test_an_option_of_other_modes_is_refused_with_them(
    tmp_path: Path, mode: str, option: str
) -> None:
    value = "threaded" if option == "napi" else 2
    with pytest.raises(CapabilityError, match=f"no option {option} in mode {mode}"):
        plan(with_nats(tmp_path), scenario(mode, **{option: value}))


@pytest.mark.parametrize(("mode", "plugin"), MODES.items())
def test_the_plan_shows_the_plugin_and_room_for_the_tables(
    tmp_path: Path, mode: str, plugin: str
) -> None:
    there = with_nats(tmp_path)
    shown = plan(there, scenario(mode, Nat(subscribers=16_384))).commands["startup.conf"]
    assert f"plugin {plugin}_plugin.so {{ enable }}" in shown
    (heap,) = (int(word[:-1]) for word in shown.split() if word[:-1].isdigit() and word[-1] == "M")
    assert heap > 1024 + {"vpp-det44": 700, "vpp-nat44": 500}[mode]


def test_mappings_are_learnt_whatever_is_requested() -> None:
    for mode in MODES:
        nat = scenario(mode).change
        assert nat is not None
        assert nat.mapping == "learnt"
    kept = scenario("rtc").change
    assert kept is not None
    assert kept.mapping == "preserved"


# --- public addresses -------------------------------------------------------------------------

NATS = st.builds(
    lambda subscribers, ports, more: Nat(
        subscribers=subscribers, ports=ports, block=min(ports + more, PORTS_OF_ADDRESS)
    ),
    st.integers(1, 300),
    st.integers(1, 1000),
    st.integers(0, 2000),
)


@given(NATS)
def test_each_subscriber_has_a_block_of_its_own_as_large_as_requested(nat: Nat) -> None:
    found = Det44Map.fit(nat)
    sharing = found.inside.num_addresses // found.outside.num_addresses
    assert found.ports >= nat.block_size
    assert FIRST_PORT + sharing * found.ports - 1 <= 0xFFFF
    taken = set()
    for number in range(nat.subscribers):
        address = nat.first_inside + number
        assert address in found.inside
        offset = int(address) - int(found.inside.network_address)
        public = found.outside.network_address + offset // sharing
        assert public in found.outside
        taken.add((public, offset % sharing))
    assert len(taken) == nat.subscribers


@pytest.mark.parametrize(
    ("subscribers", "inside", "outside"),
    [(1, 31, 32), (1023, 22, 32), (1024, 21, 31), (4096, 19, 29), (16_384, 17, 27)],
)
def test_maps_of_the_densities_of_csit(subscribers: int, inside: int, outside: int) -> None:
    found = Det44Map.fit(Nat(subscribers=subscribers))
    assert (found.inside.prefixlen, found.outside.prefixlen) == (inside, outside)
    assert subscribers < 1023 or found.ports == 63


def remainder(word: int, addresses: int) -> int:
    """Number of the address that VPP 23.06 begins with."""
    return word % addresses


def sum_of_shifts(word: int, addresses: int) -> int:
    """The same of VPP 23.10 to 26.06."""
    return (word + (word >> 8) + (word >> 16) + (word >> 24)) % addresses


@pytest.mark.parametrize("chosen_by", [remainder, sum_of_shifts])
@pytest.mark.parametrize("subscribers", [1024, 4096, 16_384])
def test_subscribers_spread_over_the_addresses_of_nat44(
    subscribers: int, chosen_by: Callable[[int, int], int]
) -> None:
    nat = Nat(subscribers=subscribers)
    chosen: Counter[int] = Counter()
    ends = set()
    for number in range(subscribers):
        word = int.from_bytes((nat.first_inside + number).packed, "little")
        one = chosen_by(word, VppNat44.addresses(nat))
        chosen[one] += 1
        ends.add((one, nat.subscriber_block(number).first))
    assert max(chosen.values()) * nat.block_size <= PORTS_OF_ADDRESS / 3
    assert len(ends) == subscribers  # so each keeps the ports that it sends from


# --- what VPP is told -------------------------------------------------------------------------


class Told:
    """An API that keeps what it is told, and counters."""

    def __init__(self, reply: dict[str, Any]) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.typed: list[str] = []
        self.reply = reply
        self.says = ""

    def call(self, message: str, **fields: Any) -> Any:
        self.sent.append((message, fields))
        return self.reply.get(message)

    def cli(self, command: str) -> str:
        self.typed.append(command)
        return self.says


TIMERS = {"udp": 97, "tcp_established": 7440, "tcp_transitory": 240, "icmp": 60}
ERRORS = {
    "det44-in2out": {"Good in2out packets processed": 900, "No translation": 3, "Out of ports": 0},
    "ip4-icmp-error": {"dest_unreach_sent": 5},
    "det44-out2in": {"No translation": 2},
    "nat44-ed-in2out-slowpath": {"out of ports": 4, "maximum sessions exceeded": 0},
    "nat44-ed-in2out": {"out of ports": 1},
    "nat44-ed-out2in": {"no translation": 6},
    "nat44-in2out-worker-handoff": {"congestion drop": 2, "same worker": 7, "do handoff": 8},
    "nat44-ed-out2in-slowpath": {"no translation": 1},
}
ONE_MAP = SimpleNamespace(
    in_addr="100.64.0.0",
    in_plen=21,
    out_addr="198.18.0.0",
    out_plen=31,
    sharing_ratio=1024,
    ports_per_host=63,
    ses_num=64_512,
)
REPLIES = {
    "det44_map_dump": [ONE_MAP],
    "det44_get_timeouts": SimpleNamespace(**TIMERS),
    "nat44_show_running_config": SimpleNamespace(
        sessions=64_512, timeouts=SimpleNamespace(**TIMERS)
    ),
    "nat44_address_dump": [1, 2, 3, 4, 5],
}


def connected(
    there: MachineFacts, mode: str, monkeypatch: pytest.MonkeyPatch, nat: Nat | None = None
) -> tuple[VppNat, Told]:
    there = there.model_copy(update={"versions": {"vpp": "vpp 26.06"}})
    switch = Cgnat(
        cast("Any", SimpleNamespace(facts=there)), plan(there, scenario(mode, nat, udp_timeout=97))
    )
    assert isinstance(switch, VppNat)
    told = Told(REPLIES)
    stats = SimpleNamespace(
        errors=lambda node: ERRORS.get(node, {}), by_index=lambda _: [64_512, 0, 0]
    )
    switch.vpp = cast("Any", SimpleNamespace(api=told, stats=stats))
    switch.interfaces = {
        port: VppInterface(port, number, f"memif{number}/0", "memif")
        for number, port in enumerate((INSIDE, OUTSIDE), 1)
    }
    monkeypatch.setattr(switch, "arrange_queues", lambda: None)
    switch.connect(())
    return switch, told


@pytest.mark.parametrize("mode", MODES)
def test_sides_routes_and_timers(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch, told = connected(with_nats(tmp_path), mode, monkeypatch)
    assert [name for name, _ in told.sent if "nat" in name or "det44" in name] == TOLD[mode]
    routes = {
        fields["route"]["prefix"]: fields["route"]["paths"][0]["sw_if_index"]
        for name, fields in told.sent
        if name == "ip_route_add_del"
    }
    assert routes == {"100.64.0.0/10": 1, "198.19.0.0/16": 2}
    assert told.sent[-1][1] == TIMERS
    assert switch.timeouts() == TIMERS
    assert switch.sessions() == 64_512


def test_det44_ends_sessions_by_a_new_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    switch, told = connected(with_nats(tmp_path), "vpp-det44", monkeypatch)
    assert isinstance(switch, VppDet44)
    told.sent.clear()
    switch.end_sessions()
    net = {"in_addr": "100.64.0.0", "in_plen": 21, "out_addr": "198.18.0.0", "out_plen": 31}
    assert [(name, fields) for name, fields in told.sent] == [
        ("det44_add_del_map", {"is_add": on, **net}) for on in (False, True)
    ]
    assert switch.tables()["ports of a subscriber"] == 63


def test_nat44_ends_sessions_by_their_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    switch, told = connected(with_nats(tmp_path), "vpp-nat44", monkeypatch)
    assert isinstance(switch, VppNat44)
    switch.end_sessions()
    assert told.typed == ["set nat44 session limit 64512"]
    told.says = "nat44_set_session_limit failed"
    with pytest.raises(DutError, match="failed"):
        switch.end_sessions()
    assert dict(told.sent)["nat44_add_del_address_range"]["last_ip_address"] == "198.18.0.4"


@pytest.mark.parametrize(
    ("mode", "inside", "outside"),
    [
        (
            "vpp-det44",
            {"No translation": 3, "dest unreach sent": 5},
            {"No translation": 2},
        ),
        ("vpp-nat44", {"out of ports": 5, "congestion drop": 2}, {"no translation": 7}),
    ],
)
def test_drops_are_told_by_cause_and_side(
    mode: str,
    inside: dict[str, int],
    outside: dict[str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    switch, _ = connected(with_nats(tmp_path), mode, monkeypatch)
    assert (switch.causes(INSIDE), switch.causes(OUTSIDE)) == (inside, outside)


def test_options_of_the_nat_are_those_of_all_modes() -> None:
    assert VppNat.Options is NatOptions
