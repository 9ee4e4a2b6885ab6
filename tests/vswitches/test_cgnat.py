"""The NAT: who has which block, the rules of the kernel's modes, and real frames both ways."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import ValidationError

from tests.fakes.machine import PROGRAMS, facts
from vnetperf.config.settings import change_options
from vnetperf.deployment.trial import SET_UP_HOLDS_S, SET_UPS, learn
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import CapabilityError, ConfigError, DutError, HostError
from vnetperf.model.frame_change import FIRST_PORT, PORTS_OF_ADDRESS
from vnetperf.model.nat import Nat
from vnetperf.model.options import SwitchOptions
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.trial import TrialSpec
from vnetperf.planning.planner import make_plan
from vnetperf.plugin.vswitch import HasSessions
from vnetperf.vswitches import conntrack
from vnetperf.vswitches.cgnat import kernel as cgnat_kernel
from vnetperf.vswitches.cgnat.base import NatOptions
from vnetperf.vswitches.cgnat.kernel import KernelNat, restore_lines, ruleset
from vnetperf.vswitches.cgnat.switch import Cgnat


def test_the_densities_of_csit() -> None:
    for subscribers, sessions, addresses in (
        (1024, 64_512, 1),
        (4096, 258_048, 4),
        (16384, 1_032_192, 16),
    ):
        nat = Nat(subscribers=subscribers)
        assert (nat.sessions, nat.public_addresses) == (sessions, addresses)


@pytest.mark.parametrize("block", [1, 63, 64, 1000, PORTS_OF_ADDRESS])
def test_blocks_are_disjoint_and_within_their_address(block: int) -> None:
    nat = Nat(subscribers=3000, ports=1, block=block)
    taken = set()
    for number in range(nat.subscribers):
        address, first, last = nat.subscriber_block(number)
        assert FIRST_PORT <= first <= last < 1 << 16
        assert last - first + 1 == block
        assert (address, first) not in taken
        assert (first - FIRST_PORT) % block == 0
        taken.add((address, first))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"ports": 64, "block": 63}, "no room for 64 sessions"),
        ({"subscribers": 2048, "pool": "198.18.0.0/32"}, "that is room for 1024"),
        ({"subscribers": 255, "inside": "10.0.0.0/24"}, "no addresses for 255"),
        ({"pool": "100.64.1.0/24"}, "in common"),
        ({"subscribers": 1 << 20}, "at most"),
        ({"pool": "198.19.0.0/24"}, "pool 198.19.0.0/24 has addresses of the servers'"),
        ({"inside": "198.16.0.0/14", "pool": "192.0.2.0/24"}, "inside .* of the servers'"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_numbers(given: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Nat.model_validate(given)


def test_the_setting_is_typed_in_one_or_in_pieces() -> None:
    assert change_options("nat", ("subscribers=2,ports=3", "block=4")) == Nat(
        subscribers=2, ports=3, block=4
    )
    with pytest.raises(ConfigError, match="subscribers"):
        change_options("nat", ("subscriber=2",))


def test_rules_name_each_block() -> None:
    nat = Nat(subscribers=3, ports=2, block=40_000)
    assert "100.64.0.3 : 198.18.0.2 . 1024-41023" in ruleset(nat)
    lines = [line for line in restore_lines(nat) if "100.64.0.2/32" in line]
    assert [line.split()[-1] for line in lines] == ["198.18.0.1:1024-41023"] * 3


def plan(nat: Nat, **options: Any) -> Plan:
    scenario = Scenario(
        deployment=make_deployment("phy2phy"),
        vswitch="cgnat",
        traffic=TrafficProfile(),
        wire="veth",
        change=nat,
        options=SwitchOptions(**options),
    )
    there = facts(programs={**PROGRAMS, "nft": "/usr/sbin/nft", "iptables-restore": "/x"})
    return make_plan(Cgnat.adapted(scenario, Testbed()), Testbed(), there)


class Machine:
    """A machine whose kernel has room for some connections, and notes what is written."""

    def __init__(self, room: int = 262_144, refuses: str = "") -> None:
        self.values = {conntrack.MAX: room, conntrack.BUCKETS: room}
        self.written: dict[str, int] = {}
        self.refuses = refuses
        self.journal = None

    def load_module(self, _: object) -> None:
        """It is there."""

    def in_netns(self, _: object) -> None:
        """Settings of the namespace are not looked at here."""

    def read(self, path: Path) -> str:
        return str(self.values[path.name])

    def write(self, _: object, path: Path, value: str) -> None:
        if self.refuses:
            raise HostError(self.refuses, where=str(path))
        self.values[path.name] = self.written[path.name] = int(value)


def started(
    monkeypatch: pytest.MonkeyPatch, machine: Machine, nat: Nat, **options: Any
) -> KernelNat:
    monkeypatch.setattr(conntrack.kernel, "read_value", machine.read)
    monkeypatch.setattr(conntrack.kernel, "write_value", machine.write)
    switch = Cgnat(cast("Any", machine), plan(nat, **options))
    assert isinstance(switch, KernelNat)
    switch.start()
    return switch


def test_a_table_with_room_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    started(monkeypatch, machine, Nat())
    assert machine.written == {}


def test_a_table_too_small_is_raised_with_its_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(room=65_536)
    started(monkeypatch, machine, Nat(subscribers=16_384))
    assert machine.written[conntrack.MAX] == 1_032_192
    assert 1_032_192 / 4 <= machine.written[conntrack.BUCKETS] <= 1_032_192


def test_a_table_that_cannot_be_raised_is_refused_with_both_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(DutError, match=r"nf_conntrack_max 1000.* 64512") as error:
        started(monkeypatch, Machine(room=1000, refuses="read-only"), Nat())
    assert "nf_conntrack_max to 64512" in str(error.value)


def test_a_table_without_limit_gets_none_and_a_hash_that_stays_is_only_slower(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(room=0, refuses="read-only")
    machine.values[conntrack.BUCKETS] = 1024
    with caplog.at_level("WARNING"):
        started(monkeypatch, machine, Nat())
    assert machine.written == {}
    assert "nf_conntrack_buckets stays" in caplog.text
    machine.refuses = ""
    monkeypatch.setattr(cgnat_kernel, "count_all_sessions", lambda: 3)
    with pytest.raises(DutError, match=r"nf_conntrack_max from 0 \(no limit\)"):
        started(monkeypatch, machine, Nat(), max_sessions=5000)


def test_a_table_can_be_made_small_where_nobody_else_has_sessions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    monkeypatch.setattr(cgnat_kernel, "count_all_sessions", lambda: 0)
    started(monkeypatch, machine, Nat(), max_sessions=5000)
    assert machine.written == {conntrack.MAX: 5000}


@pytest.mark.parametrize(("held", "named"), [(37, "hold 37 sessions"), (None, "unknown number")])
def test_the_machines_table_is_not_lowered_below_what_others_use(
    held: int | None, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine()
    monkeypatch.setattr(cgnat_kernel, "count_all_sessions", lambda: held)
    with pytest.raises(DutError, match=named) as error:
        started(monkeypatch, machine, Nat(), max_sessions=5000)
    assert "nf_conntrack_max from 262144" in str(error.value)
    assert machine.written == {}
    started(monkeypatch, machine, Nat(), max_sessions=300_000)  # lowers nothing
    assert machine.written[conntrack.MAX] == 300_000


def test_sessions_of_each_namespace_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid, namespace, held in (("1", "net:[1]", 3), ("2", "net:[2]", 16), ("3", "net:[1]", 3)):
        (tmp_path / pid / "net/stat").mkdir(parents=True)
        (tmp_path / pid / "ns").mkdir()
        (tmp_path / pid / "ns/net").symlink_to(namespace)
        (tmp_path / pid / "net/stat/nf_conntrack").write_text(f"entries  found\n{held:08x}  0\n")
    (tmp_path / "4").mkdir()  # has ended
    (tmp_path / "self").symlink_to("1")
    monkeypatch.setattr(conntrack, "PROC", tmp_path)
    monkeypatch.setattr(conntrack, "NAMED", tmp_path / "none")
    assert conntrack.count_all_sessions() == 19
    (tmp_path / "1/net/stat/nf_conntrack").unlink()
    (tmp_path / "3/net/stat/nf_conntrack").unlink()
    assert conntrack.count_all_sessions() is None


def test_timers_of_established_and_of_other_connections() -> None:
    found = conntrack.timeout_settings(NatOptions(tcp_timeout=9, tcp_transitory_timeout=4))
    timers = {k.removeprefix("nf_conntrack_tcp_timeout_"): v for k, v in found.items()}
    assert (timers["established"], timers["max_retrans"], timers["unacknowledged"]) == (9, 9, 9)
    assert {timers[k] for k in ("close", "syn_sent", "time_wait", "last_ack")} == {4}


def test_the_plan_shows_the_rule_and_what_is_missing_is_named() -> None:
    line = plan(Nat()).commands["nft"]
    for words in ("100.64.0.1..100.64.4.0", "198.18.0.0:1024"):
        assert words in line
    assert "a public address" in plan(Nat(), mode="iptables").commands["iptables"]
    with pytest.raises(CapabilityError, match="no mode 'ipfw'"):
        plan(Nat(), mode="ipfw")
    lacking = facts(programs=PROGRAMS)
    for mode, package in (("nft", "nftables"), ("iptables", "iptables")):
        assert package in Cgnat.missing(lacking, plan(Nat(), mode=mode).scenario)


class Table(HasSessions):
    """A vSwitch with a table of sessions."""

    name = "cgnat"

    def __init__(self) -> None:
        self.held = 0

    def sessions(self) -> int:
        return self.held

    def end_sessions(self) -> None:
        self.held = 0


class Setting:
    """A deployment whose NAT takes some of the sessions each time that they are sent."""

    def __init__(self, takes: int) -> None:
        self.plan = plan(Nat(subscribers=10, ports=10))
        self.sent, self.takes = 0, takes
        self.sessions_seen = -math.inf
        self.generator = SimpleNamespace(learn=self._learn)
        self.vswitch = Table()

    def check_alive(self) -> None:
        """It lives."""

    def prepare(self, _: int) -> None:
        """It is prepared."""

    def _learn(self, frames: int) -> None:
        self.sent += frames
        self.vswitch.held += self.takes


def set_up(takes: int, **spec: Any) -> Setting:
    there = Setting(takes)
    trial = TrialSpec(load_fps=1.0, duration_s=1.0, frame_size=64, learning_frames=100, **spec)
    learn(cast("Any", there), trial)
    return there


@pytest.mark.parametrize(("takes", "rounds"), [(100, 1), (60, 2), (20, SET_UPS)])
def test_sessions_are_set_up_until_all_are_there(takes: int, rounds: int) -> None:
    assert set_up(takes).sent == 100 * rounds


def test_a_nat_that_does_not_hold_them_all_ends_the_trial() -> None:
    with pytest.raises(DutError, match=f"holds 95 of 100 sessions .* sent {SET_UPS} times"):
        set_up(19)


def test_sessions_that_are_held_are_not_set_up_again_for_a_while() -> None:
    there = set_up(100)
    trial = TrialSpec(load_fps=1.0, duration_s=1.0, frame_size=64, learning_frames=100)
    learn(cast("Any", there), trial)
    assert there.sent == 100
    there.vswitch.held = 99  # one has ended
    learn(cast("Any", there), trial)
    assert there.sent == 200
    there.sessions_seen -= SET_UP_HOLDS_S
    learn(cast("Any", there), trial)
    assert there.sent == 300


def test_nothing_is_set_up_where_a_trial_makes_the_sessions() -> None:
    assert set_up(100, new_sessions=True).sent == 0
