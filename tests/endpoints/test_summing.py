"""Figures of several instances as one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model.transfer import Figures
from vnetperf.plugin.tool_runs import sum_figures

NUMBERS = st.floats(0, 1e12)
FIGURES = st.builds(
    Figures,
    bits_per_second=st.none() | NUMBERS,
    sent_bits_per_second=st.none() | NUMBERS,
    retransmits=st.none() | st.integers(0, 10_000),
    loss_ratio=st.none() | st.floats(0, 1),
    jitter_ms=st.none() | st.floats(0, 100),
    transactions_per_second=st.none() | NUMBERS,
    round_trip_us=st.dictionaries(st.sampled_from(["min", "mean", "50", "max"]), NUMBERS),
)


@given(st.lists(FIGURES, min_size=1, max_size=5))
def test_what_one_does_not_tell_is_not_told_and_shares_stay_shares(found: list[Figures]) -> None:
    whole = sum_figures(found)
    for name in ("bits_per_second", "retransmits", "loss_ratio", "jitter_ms"):
        values = [getattr(one, name) for one in found]
        assert (getattr(whole, name) is None) == (None in values), name
    if whole.loss_ratio is not None:
        losses = [one.loss_ratio for one in found if one.loss_ratio is not None]
        assert min(losses) - 1e-9 <= whole.loss_ratio <= max(losses) + 1e-9
    for name, time in whole.round_trip_us.items():
        times = [one.round_trip_us[name] for one in found]
        assert min(times) - 1e-3 <= time <= max(times) * (1 + 1e-9) + 1e-3


@given(FIGURES)
def test_one_instance_is_what_it_is(one: Figures) -> None:
    whole = sum_figures([one])
    assert whole.bits_per_second == one.bits_per_second
    assert whole.retransmits == one.retransmits


def test_loss_is_weighed_by_what_was_sent() -> None:
    found = [
        Figures(bits_per_second=90.0, sent_bits_per_second=100.0, loss_ratio=0.1),
        Figures(bits_per_second=0.0, sent_bits_per_second=300.0, loss_ratio=1.0),
    ]
    assert sum_figures(found).loss_ratio == (0.1 * 100 + 300) / 400


def test_processors_of_a_machine_are_not_added_up() -> None:
    found = [Figures(client_cpu_percent=60.0, server_cpu_percent=40.0)] * 2
    assert sum_figures(found).client_cpu_percent == 120
    whole = sum_figures(found, of_machine=True)
    assert (whole.client_cpu_percent, whole.server_cpu_percent) == (60, 40)
