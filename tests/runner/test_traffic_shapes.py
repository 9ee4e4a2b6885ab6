"""Mixes of sizes, unequal loads and headers that need room: what a case makes of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.runner.support import PRESET, Bench, configuration, with_medium
from tests.runner.test_verdict import counts
from tests.texts import Texts
from vnetperf import config
from vnetperf.config import Configuration
from vnetperf.log.records import TrialRecord
from vnetperf.log.trial_log import read_log
from vnetperf.model.errors import CapabilityError, ConfigError
from vnetperf.model.scenario import Variant
from vnetperf.model.trial import TrialResult
from vnetperf.runner.verdict import offerable_load


def with_traffic(name: str) -> Configuration:
    """The test's preset with a profile, sizes as the profile has them."""
    loaded = config.load({"traffic": name}, environment={}, directory=Path("/nonexistent"))
    sizes = loaded.preset.frame_sizes if loaded.traffic.mix else PRESET.frame_sizes
    return replace(loaded, preset=PRESET.model_copy(update={"frame_sizes": sizes}))


def test_rates_of_a_mix_are_of_its_true_mean(tmp_path: Path) -> None:
    bench = Bench(tmp_path, settings=with_medium(with_traffic("imix")))
    result = bench.throughput(362)
    mean = (7 * 64 + 4 * 594 + 1518) / 12
    assert result.mean_frame_size == mean
    assert result.imix == "7x64 4x594 1x1518"
    goal = result.goals[0]
    assert goal.lower_bound_fps is not None
    assert goal.throughput_l1_bps == pytest.approx(goal.lower_bound_fps * (mean + 20) * 8)
    medium = bench.configuration.testbed.media.bits_per_second
    # The medium carries twelve frames in the time of all of them together.
    twelve = (7 * 84 + 4 * 614 + 1538) * 8 / medium
    assert result.media_max_fps == pytest.approx(2 * 12 / twelve)


def test_unequal_loads_add_up_to_what_was_forwarded(tmp_path: Path) -> None:
    bench = Bench(tmp_path, settings=with_traffic("asymmetric"))
    goal = bench.throughput(64).goals[0]
    forth, back = goal.per_direction
    assert forth.lower_bound_fps is not None
    assert back.lower_bound_fps == forth.lower_bound_fps / 2
    assert goal.lower_bound_fps == pytest.approx(1.5 * forth.lower_bound_fps)
    trials = [r for r in read_log(bench.path) if isinstance(r, TrialRecord)]
    assert trials
    for trial in trials:
        spec = trial.spec
        intended = [d.intended for d in trial.result.directions]
        assert intended[0] == round(spec.load_fps * spec.duration_s)
        assert abs(intended[1] - intended[0] / 2) <= 1


def test_what_a_generator_can_offer_is_told_by_its_share() -> None:
    result = TrialResult(directions=(counts(0, sent=1000), counts(1, sent=500)))
    equal = offerable_load(result)
    shared = offerable_load(result, (1.0, 0.5))
    assert equal is not None
    assert shared is not None
    assert shared == pytest.approx(2 * equal)


def test_headers_that_do_not_fit_are_told_before_deployment(tmp_path: Path, texts: Texts) -> None:
    bench = Bench(tmp_path, settings=with_traffic("ipv6"))
    with pytest.raises(CapabilityError) as caught:
        bench.throughput(64)
    texts.check(str(caught.value))
    assert not [call for call in bench.agent.calls if call.startswith("deploy")]
    assert bench.throughput(1518).goals


def test_a_mix_cannot_be_compared_with_another() -> None:
    plain = configuration()
    with pytest.raises(ConfigError, match="different mixes"):
        plain.varied(Variant(settings=(("traffic", "imix"),)))
