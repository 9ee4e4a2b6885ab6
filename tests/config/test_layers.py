"""Which layer wins, and what is kept about where a value came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from vnetperf import config
from vnetperf.model.balancing import Services
from vnetperf.model.errors import ConfigError
from vnetperf.model.nat import Nat
from vnetperf.model.preset import Preset
from vnetperf.model.scenario import Variant
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile

ROOT = Path(__file__).resolve().parents[2]


def user_file(directory: Path, text: str) -> Path:
    path = directory / config.USER_FILE
    path.write_text(text)
    return path


def test_a_broken_core_is_of_no_concern_to_who_measures_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks = tmp_path / "conf" / "stacks"
    stacks.mkdir(parents=True)
    (stacks / "osmo-ggsn.toml").write_text("broken = [")
    monkeypatch.chdir(tmp_path)
    loaded = config.load({"core": ("sessions=2",)}, environment={})
    assert loaded.mobile_core.sessions == 2
    with pytest.raises(ConfigError, match="not valid TOML"):
        _ = loaded.stack
    with pytest.raises(ConfigError, match="not valid TOML"):
        config.load({"core": ("osmo-ggsn",)}, environment={})


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
    assert found["preset"] == (loaded.preset.name, "default")
    assert loaded.preset.name in ("quick", "shared")
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


@pytest.mark.parametrize("key", ["set", "guest", "core", "nat", "lb"])
def test_a_wrong_single_option_names_its_layer(key: str, tmp_path: Path) -> None:
    variable = f"VNETPERF_{key.upper()}"
    with pytest.raises(ConfigError, match=f"^environment {variable}: {key}: 'x=1' is not"):
        config.load(environment={variable: "x=1"}, directory=tmp_path)
    with pytest.raises(ConfigError, match=f"^command line: {key}: 'x=1' is not"):
        config.load({key: ("x=1",)}, environment={}, directory=tmp_path)
    path = user_file(tmp_path, f'{key} = ["x=1"]\n')
    with pytest.raises(ConfigError, match="'x=1' is not") as caught:
        config.load(environment={}, directory=tmp_path)
    assert caught.value.where == f"{path}: {key}"


@pytest.mark.parametrize("key", ["set", "guest", "core", "nat", "lb"])
def test_an_empty_variable_of_single_options_gives_none(key: str, tmp_path: Path) -> None:
    variables = {f"VNETPERF_{key.upper()}": ""}
    assert getattr(config.load(environment=variables, directory=tmp_path).settings, key) == ()


def test_blanks_and_an_empty_rest_part_single_options(tmp_path: Path) -> None:
    variables = {"VNETPERF_SET": "mtu=9000; rx_queues=2;", "VNETPERF_LB": "services=2, flows=3"}
    typed = {"nat": ("subscribers=4, ports=63",)}
    loaded = config.load(typed, environment=variables, directory=tmp_path)
    assert loaded.settings.set == ("mtu=9000", "rx_queues=2")
    assert loaded.changes == {
        "services": Services(services=2, flows=3),
        "nat": Nat(subscribers=4, ports=63),
    }


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
    assert "half a second" in preset.note


@pytest.mark.parametrize(
    ("text", "sizes"), [("64", (64,)), ("64,512,", (64, 512)), (" 64 , 1518 ", (64, 1518))]
)
def test_lists_of_frame_sizes(text: str, sizes: tuple[int, ...]) -> None:
    assert config.load({"frame_sizes": text}, environment={}).settings.frame_sizes == sizes


@pytest.mark.parametrize("text", ["abc", "64;128", "64.5", "0x40", "64,,x"])
def test_what_is_not_a_list_of_frame_sizes(text: str) -> None:
    with pytest.raises(ConfigError, match="command line: frame_sizes") as caught:
        config.load({"frame_sizes": text}, environment={})
    assert "64,512,1518" in caught.value.accepted


def test_settings_of_a_resumed_run_are_above_all_but_the_command_line(tmp_path: Path) -> None:
    user_file(tmp_path, 'notes = "file"\nwire = "veth"\n')
    loaded = config.load(
        {"traffic": "imix"},
        environment={"VNETPERF_NOTES": "environment"},
        directory=tmp_path,
        resumed=("run of x", {"notes": "run", "traffic": "multi-flow"}),
    )
    found = {k: (v["value"], v["source"]) for k, v in loaded.as_record().items()}
    assert found["notes"] == ("run", "run of x")
    assert found["traffic"] == ("imix", "command line")
    assert found["wire"][0] == "veth"


def test_a_variant_is_laid_over_as_if_typed_last(tmp_path: Path) -> None:
    given = {"set": ("mtu=9000", "rx_queues=4"), "wire": "veth"}
    loaded = config.load(given, environment={}, directory=tmp_path)
    variant = Variant(id="x", settings=(("set", "rx_queues=2"), ("wire", "memif")))
    varied = loaded.varied(variant)
    assert varied.switch.given() == {"rx_queues": 2, "mtu": 9000}
    assert (varied.settings.wire, varied.sources["wire"]) == ("memif", "variant x")
    assert (varied.testbed, varied.preset) == (loaded.testbed, loaded.preset)
    assert loaded.switch.rx_queues == 4
    assert loaded.varied(Variant()) == loaded


def test_the_file_of_a_variant_replaces_the_users(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine.toml", tmp_path / "other.toml"
    mine.write_text("vcpus = 3\n")
    other.write_text("vcpus = 4\n")
    loaded = config.load({"guest": (str(mine), "tso=true")}, environment={}, directory=tmp_path)
    varied = loaded.varied(Variant(id="x", settings=(("guest", (str(other), "csum=true")),)))
    assert varied.guest.given() == {"vcpus": 4, "tso": True, "csum": True}


@pytest.mark.parametrize("key", config.OF_THE_RUN)
def test_what_belongs_to_the_run_is_no_variant(tmp_path: Path, key: str) -> None:
    loaded = config.load({}, environment={}, directory=tmp_path)
    with pytest.raises(ConfigError, match="belongs to the whole run"):
        loaded.varied(Variant(id="x", settings=((key, "x"),)))


@pytest.mark.parametrize("key", ["allowed", "housekeeping"])
@pytest.mark.parametrize("value", ['"0-3"', '"00-5"', '"0_-7"', "true", '"0-3", "4"'])
def test_what_nobody_would_read_as_that_number_is_none(
    tmp_path: Path, key: str, value: str
) -> None:
    """Python's validation leaves out zeros in front of a text: "0-3" would be processor -3."""
    file = tmp_path / "lab.toml"
    file.write_text(f"[cores]\n{key} = [{value}]\n")
    with pytest.raises(ConfigError, match=r"is not a (?:whole )?number") as refused:
        config.load({"testbed": str(file)}, environment={})
    assert refused.value.where.endswith(f"cores.{key}.0")


@pytest.mark.parametrize("value", ["3", '"3"', '"-3"', '"0_3"', '"03"', "3.0"])
def test_a_number_in_another_spelling_is_that_number(tmp_path: Path, value: str) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(f"[cores]\nallowed = [{value}]\n")
    loaded = config.load({"testbed": str(file)}, environment={})
    assert loaded.testbed.cores.allowed == (-3 if "-" in value else 3,)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('name = "a"\u00a0\n', r"U\+00A0, no-break space"),
        ("name = \u201ca\u201d\n", r"U\+201C, left double quotation mark"),
        ('\ufeff\ufeffname = "a"\n', r"U\+FEFF, zero width no-break space"),
        ('name = "a"\0\n', r"U\+0000, a control character"),
        ('\u200bname = "a"\n', r"U\+200B, zero width space"),
    ],
)
def test_what_nobody_sees_in_a_file_is_named(tmp_path: Path, text: str, names: str) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=rf"not valid TOML.*there is {names}$"):
        config.load({"testbed": str(file)}, environment={})


def test_what_is_seen_in_a_file_is_not_named(tmp_path: Path) -> None:
    file = tmp_path / "lab.toml"
    file.write_text("name = lab\n")
    with pytest.raises(ConfigError, match=r"Invalid value \(at line 1, column 8\)$"):
        config.load({"testbed": str(file)}, environment={})
