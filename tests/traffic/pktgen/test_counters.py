"""What Pktgen's Lua answers becomes counters, or one clear error."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given

from tests.fakes import odd
from vnetperf.model.errors import GeneratorError
from vnetperf.traffic.pktgen.trials import ProbeCounts, read_port_counters

PROBES = {"num_pkts": 5, "num_skipped": 1, "min_cycles": 3, "avg_cycles": 4, "max_cycles": 9}
ANSWER: dict[str, Any] = {
    "stats": {"0": {"opackets": 7, "obytes": 420, "ipackets": 6}},
    "packets": {"0": {"arp_pkts": 1, "ipv6_pkts": 2, "latency": PROBES}},
}


def test_counters_are_read_by_their_names() -> None:
    found = read_port_counters(ANSWER, 0)
    assert (found.sent, found.sent_octets, found.received, found.arp, found.ipv6) == (
        *(7, 420, 6),
        *(1, 2),
    )
    assert found.probes == ProbeCounts(5, 1, 3, 4, 9)


@given(odd.changed(ANSWER))
def test_whatever_it_answers_is_counters_or_an_error(told: Any) -> None:
    with contextlib.suppress(GeneratorError):
        found = read_port_counters(told, 0)
        assert found.sent >= 0
        assert found.received >= 0
        assert isinstance(found.sent, int)


@pytest.mark.parametrize("counts", ["many", None, [], 1e400, -1])
def test_a_count_that_is_none_names_its_port(counts: object) -> None:
    told = {**ANSWER, "stats": {"0": {**ANSWER["stats"]["0"], "ipackets": counts}}}
    with pytest.raises(GeneratorError, match="port 0"):
        read_port_counters(told, 0)
