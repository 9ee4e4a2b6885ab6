"""Presets: what ships is consistent, and what contradicts itself is refused with the clause."""

from __future__ import annotations

from pathlib import Path

import pytest

from vnetperf import config
from vnetperf.config.settings import parse_seconds
from vnetperf.model.errors import ConfigError
from vnetperf.model.preset import Preset
from vnetperf.model.trial import DirectionCounts, TrialResult, Verdict
from vnetperf.runner.verdict import judge

NAMES = config.available("presets")
ZERO = '[[goals]]\nname = "ndr"\n'
LOSSY = ZERO + "loss_ratio = 0.01\n"


def shipped(name: str) -> Preset:
    return config.load_model(Preset, config.find_file("presets", name))


def refused(text: str, tmp_path: Path) -> ConfigError:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        config.load({"preset": str(path)}, environment={})
    return caught.value


def test_all_presets_of_the_design_are_there() -> None:
    assert set(NAMES) >= {
        *("smoke", "quick", "rfc2544", "rfc9004", "tst009", "mlr-strict", "mlr-csit", "ndr-pdr"),
        *("mrr", "soak", "shared"),
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_preset_says_what_it_is(name: str) -> None:
    preset = shipped(name)
    assert preset.note.startswith(f"{name} preset: ")
    assert preset.limits(10e6).max_load_fps == 10e6
    assert not preset.warnings
    head = config.find_file("presets", name).read_text().split("\n\n")[0]
    assert "eets" in head or "No clause" in head or "deviates" in head


def test_smoke_measures_the_throughput_alone_and_in_the_same_time_as_ever() -> None:
    smoke = shipped("smoke")
    assert smoke.tests == ("throughput",)
    assert (smoke.max_trial_seconds, smoke.frame_sizes) == (10, (64, 1518))


def test_smoke_takes_a_load_that_a_busy_machine_offers_all_but_a_few_percent_of() -> None:
    offered = {"sent": 9_600, "unsent": 400, "intended": 10_000, "refused": 0, "received": 9_600}
    counts = DirectionCounts.model_validate({"direction": 0, "tx_seconds": 1.0, **offered})
    verdicts = {}
    for name in ("smoke", "quick"):
        preset = shipped(name)
        ratios = [goal.loss_ratio for goal in preset.goals]
        verdicts[name], _ = judge(
            TrialResult(directions=(counts,)), preset.trial.offered_tolerance, ratios
        )
    assert verdicts == {"smoke": Verdict.VALID, "quick": Verdict.GENERATOR_LIMITED}


@pytest.mark.parametrize(
    ("processors", "options", "name", "rounds"),
    [
        (2, {}, "shared", (3, 5)),
        (3, {}, "shared", (3, 5)),
        (4, {}, "quick", (3, 3)),
        (2, {"preset": "quick"}, "quick", (3, 3)),
    ],
)
def test_pollers_that_share_have_a_preset_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
    processors: int,
    options: dict[str, str],
    name: str,
    rounds: tuple[int, int],
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {*range(processors)})
    loaded = config.load(options, environment={})
    preset = loaded.preset
    assert (preset.name, loaded.settings.preset) == (name, name)
    assert (preset.rounds, preset.most_rounds) == rounds
    assert [g.loss_ratio for g in preset.goals] == ([0.005] if name == "shared" else [0, 0.005])
    assert preset.tests == shipped("quick").tests


def test_a_preset_has_its_bases_values_where_it_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('base = "quick"\n[trial]\ndrain_s = 0.5\n')
    mine, quick = config.load({"preset": str(path)}, environment={}).preset, shipped("quick")
    assert mine.name == "mine"
    assert mine.trial == quick.trial.model_copy(update={"drain_s": 0.5})
    assert mine.goals == quick.goals


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('base = "qick"', "did you mean 'quick'"),
        ("base = 1", "base is no name"),
        ('base = "shared"', "shared has a base of its own, quick"),
        ('base = "quick"\n[trial]\ndrain = 1\n', "did you mean 'drain_s'"),
    ],
)
def test_a_wrong_base_is_refused(tmp_path: Path, text: str, words: str) -> None:
    error = refused(text, tmp_path)
    assert words in str(error)
    assert "mine.toml" in str(error)


def test_quick_runs_all_six_tests_and_the_long_ones_at_one_size() -> None:
    quick = shipped("quick")
    assert [test for test in quick.tests if test != "cpu_load"] == [*shipped("rfc2544").tests]
    assert quick.cpu_load.has_loads
    assert quick.sizes_of("cpu_load") == (64,)
    assert quick.sizes_of("recovery") == quick.sizes_of("reset") == (64,)
    assert quick.sizes_of("latency") == quick.frame_sizes


def test_a_resolution_in_frames_follows_from_the_largest_load() -> None:
    steps = shipped("tst009").limits(14_880_952.0).steps
    assert steps is not None
    assert (steps.step_fps, steps.max_r, steps.z) == (pytest.approx(148_809.52), 2, None)


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ('algorithm = "tst009"\n' + ZERO, "tst009", ["section 12.3.2", "step_share"]),
        ('algorithm = "tst009"\n[tst009]\n' + ZERO, "tst009", ["neither is given"]),
        ("[tst009]\nstep_fps = 1000\n" + ZERO, "tst009", ["algorithm 'mlr'"]),
        (
            'algorithm = "tst009"\n[tst009]\nstep_fps = 1000\nz = 5\n' + ZERO,
            "TST009 search inputs",
            ["loss verification", "section 12.3.3", "max_r"],
        ),
        ('tests = ["back_to_back"]\n' + LOSSY, "goals", ["RFC 9004", "loss_ratio = 0"]),
        ('tests = ["recovery"]\n' + LOSSY, "goals", ["section 26.5"]),
        ('tests = ["mrr", "mrr"]\n' + ZERO, "tests", ["twice"]),
        ("tests = []\n" + ZERO, "tests", ["at least 1"]),
        (ZERO + "[latency]\ntag_at_s = 120\n", "latency.tag_at_s", ["section 26.2", "120"]),
        (ZERO + "[soak]\nduration_s = 10\n", "soak.trial_s", ["60 s is longer"]),
        (ZERO + "duration_sum_s = 30\n", "goal 'ndr'", ["final_trial_s = 60"]),
    ],
)
def test_a_contradiction_is_refused_with_file_key_and_clause(
    text: str, where: str, words: list[str], tmp_path: Path
) -> None:
    error = refused(text, tmp_path)
    assert error.where == f"{tmp_path / 'mine.toml'}: {where}"
    for word in words:
        assert word in str(error)


def test_a_width_below_the_loss_ratio_is_a_warning_and_no_refusal(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(LOSSY + "width = 0.005\n")
    (warning,) = config.load_model(Preset, path).warnings
    assert "recommends at least that" in warning


@pytest.mark.parametrize(
    ("name", "clause"),
    [("rfc2544", "RFC 2544 section 24"), ("tst009", "TST009 section 12.3.2")],
)
def test_a_time_budget_is_refused_where_the_method_has_no_room(name: str, clause: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load({"preset": name, "time_budget": "5m"}, environment={})
    assert clause in str(caught.value)
    assert "5m, command line" in str(caught.value)
    assert caught.value.where == "time_budget"
    assert "--preset" in caught.value.cure


def test_a_time_budget_counts_the_waits_around_trials() -> None:
    preset = config.load({"preset": "mlr-strict", "time_budget": "5m"}, environment={}).preset
    limits = preset.limits(1e6)
    assert (limits.max_trial_seconds, limits.trial_overhead_s) == (300.0, 9.0)
    assert config.load({"preset": "mlr-strict"}, environment={}).preset.time_budget_s is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("", None), ("300", 300.0), ("90s", 90.0), ("1.5m", 90.0), ("1h", 3600.0)]
)
def test_times(text: str, seconds: float | None) -> None:
    assert parse_seconds(text, "time_budget") == seconds


@pytest.mark.parametrize("text", ["m", "-5", "0", "5 parsec", "5 min 3", "nan", "inf", "1e999"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a time"):
        config.load({"time_budget": text}, environment={})


def test_bursts_of_mixed_sizes_are_refused_when_nothing_else_is_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"RFC 9004: no IMIX"):
        config.load({"preset": "rfc9004", "traffic": "imix"}, environment={})
    config.load({"preset": "quick", "traffic": "imix"}, environment={})
    config.load({"preset": "rfc9004", "tests": ("throughput",), "traffic": "imix"}, environment={})


def test_tests_that_are_asked_for_take_the_throughput_there_is() -> None:
    # The log has the preset with the tests that were asked for, and must be read again.
    asked = config.load({"preset": "smoke", "tests": ("recovery",)}, environment={}).preset
    assert Preset.model_validate(asked.model_dump()) == asked
    asked = config.load({"preset": "quick", "tests": ("mrr",)}, environment={}).preset
    assert Preset.model_validate(asked.model_dump()) == asked


def test_a_width_finer_than_loads_are_offered_is_refused(tmp_path: Path) -> None:
    error = refused(ZERO + "width = 0.004\n", tmp_path)
    assert "width = 0.004" in str(error)
    assert "10 times the tolerance" in str(error)
    path = tmp_path / "finer.toml"
    path.write_text(ZERO + "width = 0.004\n[trial]\noffered_tolerance = 0.0004\n")
    assert config.load({"preset": str(path)}, environment={}).preset.goals[0].width == 0.004


@pytest.mark.parametrize("name", NAMES)
def test_shipped_widths_are_ten_times_what_a_trial_may_fall_short_of(name: str) -> None:
    preset = shipped(name)
    for goal in preset.goals:
        assert goal.width >= 10 * preset.trial.offered_tolerance * (1 - 1e-9)


def test_flows_of_a_run_stand_for_those_of_its_profile() -> None:
    for flows in (1, 1000, 1_000_000):
        loaded = config.load({"traffic": "million-flows", "flows": flows}, environment={})
        assert loaded.traffic.flows == flows
    assert config.load({"traffic": "multi-flow"}, environment={}).traffic.flows == 1024
    with pytest.raises(ConfigError, match="needs `vary`"):
        config.load({"traffic": "single-flow", "flows": 10}, environment={})
    with pytest.raises(ConfigError, match="multi-flow cannot have"):
        config.load({"traffic": "multi-flow", "flows": 10_000_000}, environment={})


def test_an_empty_table_of_a_test_leaves_its_section_as_it_is() -> None:
    content = config.load({"preset": "quick"}, environment={}).preset.model_dump()
    own = {**content, "tests": {"throughput": {}, "latency": {}}, "latency": {"repeats": 7}}
    assert Preset.model_validate(own).latency.repeats == 7
    with pytest.raises(ValueError, match="keep one"):
        Preset.model_validate({**own, "tests": {"latency": {"repeats": 3}}})
