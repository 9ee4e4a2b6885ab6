"""Which layer wins, and what is kept about where a value came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from vnetperf import config
from vnetperf.model.errors import ConfigError
from vnetperf.model.preset import Preset
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile

ROOT = Path(__file__).resolve().parents[2]


def user_file(directory: Path, text: str) -> Path:
    path = directory / config.USER_FILE
    path.write_text(text)
    return path


def test_every_layer_wins_over_those_below_and_is_remembered(tmp_path: Path) -> None:
    path = user_file(tmp_path, 'notes = "file"\nvnf_mode = "mac"\ntraffic = "multi-flow"\n')
    loaded = config.load(
        {"notes": "command line"},
        test_case={"notes": "case", "vnf_mode": "macswap", "wire": "veth", "vnfs": 3},
        environment={"VNETPERF_NOTES": "environment", "VNETPERF_TRAFFIC": "unidirectional"},
        directory=tmp_path,
    )
    found = {k: (v["value"], v["source"]) for k, v in loaded.as_record().items()}
    assert found["notes"] == ("command line", "command line")
    assert found["traffic"] == ("unidirectional", "environment VNETPERF_TRAFFIC")
    assert found["vnf_mode"] == ("mac", str(path))
    assert found["wire"] == ("veth", "test case")
    assert found["preset"] == ("quick", "default")
    assert loaded.traffic.bidirectional is False


def test_options_left_out_do_not_hide_lower_layers(tmp_path: Path) -> None:
    loaded = config.load(
        {"preset": None}, environment={"VNETPERF_PRESET": "smoke"}, directory=tmp_path
    )
    assert loaded.preset.name == "smoke"
    assert loaded.sources["preset"] == "environment VNETPERF_PRESET"


def test_frame_sizes_of_any_layer_replace_the_presets(tmp_path: Path) -> None:
    assert config.load(environment={}, directory=tmp_path).preset.frame_sizes[0] == 64
    loaded = config.load(environment={"VNETPERF_FRAME_SIZES": "1518, 64"}, directory=tmp_path)
    assert loaded.preset.frame_sizes == (1518, 64)
    loaded = config.load({"frame_sizes": (256,)}, environment={}, directory=tmp_path)
    assert loaded.preset.frame_sizes == (256,)


def test_the_environment_of_the_process_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VNETPERF_VNFS", "5")
    monkeypatch.chdir(tmp_path)
    assert config.load().settings.vnfs == 5


def test_a_file_in_the_working_directory_is_used_and_shadows_the_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf" / "traffic").mkdir(parents=True)
    (tmp_path / "conf" / "traffic" / "mine.toml").write_text("bidirectional = false\n")
    (tmp_path / "conf" / "traffic" / "single-flow.toml").write_text('description = "shadow"\n')
    monkeypatch.chdir(tmp_path)
    assert config.load({"traffic": "mine"}, environment={}).traffic.name == "mine"
    assert config.load(environment={}).traffic.description == "shadow"
    assert {"mine", "multi-flow"} <= set(config.available("traffic"))


def test_a_path_names_a_file_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "lab1.toml"
    path.write_text('isolation = "a locked room"\n')
    loaded = config.load({"testbed": str(path)}, environment={}, directory=tmp_path)
    assert (loaded.testbed.name, loaded.testbed.isolation) == ("lab1", "a locked room")


@pytest.mark.parametrize(
    ("kind", "model"), [("testbeds", Testbed), ("presets", Preset), ("traffic", TrafficProfile)]
)
def test_every_shipped_file_is_valid(kind: str, model: type) -> None:
    shipped = sorted((ROOT / "conf" / kind).glob("*.toml"))
    assert shipped
    for path in shipped:
        assert config.load_model(model, path).name == path.stem


def test_the_rfc2544_preset_asks_what_the_standard_asks() -> None:
    preset = config.load_model(Preset, ROOT / "conf" / "presets" / "rfc2544.toml")
    (goal,) = preset.goals
    assert preset.frame_sizes == (64, 128, 256, 512, 1024, 1280, 1518)
    assert (goal.loss_ratio, goal.exceed_ratio) == (0.0, 0.0)
    assert goal.final_trial_s >= 60
    trial = preset.trial
    assert (trial.learning_wait_s, trial.drain_s, trial.settle_s) == (2.0, 2.0, 5.0)
    assert trial.full_drain


def test_smoke_is_marked_as_no_benchmark() -> None:
    preset = config.load_model(Preset, ROOT / "conf" / "presets" / "smoke.toml")
    assert preset.benchmark is False
    assert "NOT A BENCHMARK" in preset.note


@pytest.mark.parametrize(
    ("text", "sizes"), [("64", (64,)), ("64,512,", (64, 512)), (" 64 , 1518 ", (64, 1518))]
)
def test_lists_of_frame_sizes(text: str, sizes: tuple[int, ...]) -> None:
    assert config.parse_frame_sizes(text) == sizes


@pytest.mark.parametrize("text", ["abc", "64;128", "64.5", "0x40", "64,,x"])
def test_what_is_no_list_of_frame_sizes(text: str) -> None:
    with pytest.raises(ConfigError, match="--frame-sizes") as caught:
        config.parse_frame_sizes(text)
    assert "64,512,1518" in caught.value.accepted
