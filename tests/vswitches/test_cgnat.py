"""The NAT: who has which block, the rules of the kernel's modes, and real frames both ways."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from vnetperf.config.settings import nat_options
from vnetperf.model.errors import ConfigError
from vnetperf.model.nat import FIRST_PORT, PORTS_OF_ADDRESS, Nat
from vnetperf.vswitches.cgnat.kernel import restore_lines, ruleset


def test_the_densities_of_csit() -> None:
    for subscribers, sessions, addresses in (
        (1024, 64_512, 1),
        (4096, 258_048, 4),
        (16384, 1_032_192, 16),
    ):
        nat = Nat(subscribers=subscribers)
        assert (nat.sessions, nat.addresses) == (sessions, addresses)


@pytest.mark.parametrize("block", [1, 63, 64, 1000, PORTS_OF_ADDRESS])
def test_blocks_are_disjoint_and_within_their_address(block: int) -> None:
    nat = Nat(subscribers=3000, ports=1, block=block)
    taken = set()
    for number in range(nat.subscribers):
        address, first, last = nat.block_of(number)
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
    ],
)
def test_what_does_not_fit_is_refused_with_its_numbers(given: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Nat.model_validate(given)


def test_the_setting_is_typed_in_one_or_in_pieces() -> None:
    assert nat_options(("subscribers=2,ports=3", "block=4")) == Nat(subscribers=2, ports=3, block=4)
    with pytest.raises(ConfigError, match="subscribers"):
        nat_options(("subscriber=2",))


def test_rules_name_each_block() -> None:
    nat = Nat(subscribers=3, ports=2, block=40_000)
    assert "100.64.0.3 : 198.18.0.2 . 1024-41023" in ruleset(nat)
    lines = [line for line in restore_lines(nat) if "100.64.0.2/32" in line]
    assert [line.split()[-1] for line in lines] == ["198.18.0.1:1024-41023"] * 3
