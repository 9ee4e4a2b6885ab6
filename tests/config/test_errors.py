"""Whatever is wrong in a file, a variable or an option: one message that says where and what."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.texts import Texts
from vnetperf import config
from vnetperf.config.settings import read_testbed
from vnetperf.model.base import FORMS
from vnetperf.model.errors import ConfigError
from vnetperf.model.options import GuestOptions, MobileCore, SwitchOptions
from vnetperf.model.preset import Preset
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.networks import cni
from vnetperf.plugin import registry

GOAL = '[[goals]]\nname = "ndr"\nfinal_trial_s = 1\nduration_sum_s = 1\ninitial_trial_s = 1\n'


def error_of(kind: type, text: str, tmp_path: Path) -> tuple[ConfigError, str]:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        config.load_model(kind, path)
    assert caught.value.where.startswith(str(path))
    return caught.value, str(caught.value)


# kind, file, key path in the message, words in the message
WRONG = [
    (
        registry.testbed_model(),
        "isolatoin = 'x'",
        "isolatoin",
        ["did you mean 'isolation'", "accepted: isolation"],
    ),
    (Testbed, "[cores]\npolcy = 'auto'", "cores.polcy", ["'policy'", "housekeeping"]),
    (Testbed, "[cores]\npolicy = 'fast'", "cores.policy", ["'auto'", "'dedicated'", "'fast'"]),
    (Testbed, "[cores]\nallowed = [1, 'x']", "cores.allowed.1", ["whole number", "'x'"]),
    (Testbed, "[agent]\ntransport = 'telnet'", "agent.transport", ["ssh="]),
    (Testbed, "hugepage_kb = 4095", "hugepage_kb", ["2048", "1048576", "4095"]),
    (Testbed, "hugepage_kb = 4", "hugepage_kb", ["from 64 on", "4"]),
    (Testbed, "[media]\nbits_per_second = 0", "media.bits_per_second", ["greater than 0"]),
    (Testbed, "wires = 'memif'", "wires", ["'memif'"]),
    (Testbed, "agent = 'local'", "agent", ["'local'"]),
    (TrafficProfile, "flow = 3", "flow", ["did you mean 'flows'"]),
    (TrafficProfile, "flows = 3", "", ["`vary`"]),
    (TrafficProfile, "bidirectional = 'perhaps'", "bidirectional", ["true or false", "'perhaps'"]),
    (TrafficProfile, "flows = 2\nvary = ['ttl']", "vary.0", ["'ipv4_src'", "'ttl'"]),
    (Preset, "", "goals", ["required"]),
    (Preset, "goals = []", "goals", ["at least 1"]),
    (Preset, "frame_sizes = []\n" + GOAL, "frame_sizes", ["empty", "at least 1", "octets"]),
    (Testbed, "[hosts.X_1]", "hosts.X_1", ["small letters", "at most 15", "'X_1'"]),
    (Testbed, "[cores]\ngovernor = 'A B'", "cores.governor", ["'A B'", "performance"]),
    (Testbed, "environment = ['1x']", "environment.0", ["'1x'", "no digit first"]),
    (
        registry.testbed_model(),
        "[kubernetes]\nnamespace = 'A B'",
        "kubernetes.namespace",
        ["'A B'", "small letters"],
    ),
    (
        registry.testbed_model(),
        "[[external.ports]]\ntester = 'eth0'\nmac = 'zz'",
        "external.ports.0.mac",
        ["'zz'", "02:00:00:00:00:01"],
    ),
    (
        registry.testbed_model(),
        "[[external.ports]]\ntester = 'a/b'",
        "external.ports.0.tester",
        ["'a/b'", "eth2"],
    ),
    (Preset, GOAL + "los_ratio = 0.1", "goals.0.los_ratio", ["'loss_ratio'", "exceed_ratio"]),
    (Preset, GOAL + "loss_ratio = 1.5", "goal 'ndr'", ["loss_ratio = 1.5", "[0, 1)"]),
    (Preset, GOAL + "width = 'wide'", "goals.0.width", ["number", "'wide'"]),
    (Preset, GOAL + GOAL, "goals", ["goal names must differ", "ndr"]),
    (Preset, "frame_sizes = [60]\n" + GOAL, "frame_sizes.0", ["60", "64", "9216", "FCS"]),
    (Preset, "algorithm = 'guess'\n" + GOAL, "algorithm", ["'binary'", "'mlr'", "'guess'"]),
    (Preset, GOAL + "[trial]\nsetle_s = 1", "trial.setle_s", ["'settle_s'"]),
    (Preset, GOAL + "[trial]\ndrain_s = -1", "trial.drain_s", ["greater than 0", "-1"]),
    (Preset, "min_load_fps = 'few'\n" + GOAL, "min_load_fps", ["'few'"]),
]


@pytest.mark.parametrize(("kind", "text", "key", "words"), WRONG)
def test_the_message_names_file_key_and_what_is_accepted(
    kind: type, text: str, key: str, words: list[str], tmp_path: Path
) -> None:
    error, message = error_of(kind, text, tmp_path)
    assert error.where.endswith(f": {key}" if key else "wrong.toml")
    for word in words:
        assert word in message
    assert "\n" not in message, "one line, and no list of pydantic's"
    assert " should " not in message  # as pydantic says what it expects
    assert "pydantic" not in message


@pytest.mark.parametrize(
    "model",
    [
        registry.testbed_model(),
        Preset,
        TrafficProfile,
        GuestOptions,
        MobileCore,
        SwitchOptions,
        cni.Conflist,
    ],
)
def test_each_form_of_a_text_that_users_write_has_words(model: type[BaseModel]) -> None:
    def patterns(schema: Any) -> Iterator[str]:
        if isinstance(schema, dict):
            if isinstance(schema.get("pattern"), str):
                yield schema["pattern"]
            yield from schema.get("patternProperties", {})
        for below in schema.values() if isinstance(schema, dict) else schema:
            if isinstance(below, dict | list):
                yield from patterns(below)

    assert {*patterns(model.model_json_schema())} <= {*FORMS}


def test_a_profile_cannot_have_flows_that_its_file_could_not_have(tmp_path: Path) -> None:
    asked = {"traffic": "multi-flow", "flows": 10_000_000}
    with pytest.raises(ConfigError) as of_option:
        config.load(asked, environment={}, directory=tmp_path)
    fields = config.load({"traffic": "multi-flow"}, environment={}, directory=tmp_path).traffic
    content = fields.model_dump() | {"flows": asked["flows"]}
    with pytest.raises(ConfigError) as of_file:
        config.validate(TrafficProfile, content, "file")
    assert of_file.value.what in of_option.value.what
    assert "Value error" not in str(of_option.value)


@pytest.mark.parametrize("key", ["bits_per_second = inf", "bits_per_second = nan"])
def test_a_medium_without_a_finite_speed_is_impossible(key: str, tmp_path: Path) -> None:
    error_of(Testbed, f"[media]\n{key}", tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        GOAL + "[trial]\nsettle_s = inf",
        GOAL + "[trial]\nlearning_wait_s = inf",
        "max_trial_seconds = nan\n" + GOAL,
        "min_load_fps = inf\n" + GOAL,
        "frame_sizes = []\n" + GOAL,
        "frame_sizes = [64, 64]\n" + GOAL,
    ],
)
def test_a_preset_that_could_never_end_or_measure_is_impossible(text: str, tmp_path: Path) -> None:
    error_of(Preset, text, tmp_path)


def test_all_wrong_values_are_named_a_line_each_the_misspelt_key_first(
    tmp_path: Path, texts: Texts
) -> None:
    text = GOAL + "loss_ratio = 'few'\nwdith = 0.5\n[trial]\nsettle_s = 'long'\ndrian_s = 1"
    error, message = error_of(Preset, text, tmp_path)
    assert error.where.endswith(": goals.0.wdith")
    first, *others = message.splitlines()
    assert "did you mean 'width'" in first
    keys = [line.partition(": ")[2].partition(": ")[0] for line in others]
    assert keys == ["trial.drian_s", "goals.0.loss_ratio", "trial.settle_s"]
    assert "did you mean 'drain_s'" in others[0]
    texts.check(others[2])


@pytest.mark.parametrize(
    ("setting", "text", "words"),
    [
        ("set", "mtu=9k", ["mtu: '9k' is not a whole number from 68 to 9198", "octets, e.g. 9000"]),
        ("set", "rx_queues=two", ["rx_queues: 'two' is not a whole number from 1 to 64"]),
        ("vnfs", "two", ["vnfs: 'two' is not a whole number from 1 to 64"]),
        ("vnfs", "65", ["vnfs: '65' is not at most 64"]),
        ("set", "offloads=perhaps", ["offloads: 'perhaps' is not true or false"]),
        (
            "guest",
            "memory_mib=much",
            ["memory_mib: 'much' is not a whole number", "MiB, e.g. 1024"],
        ),
    ],
)
def test_a_value_is_refused_in_words_with_unit_and_example(
    setting: str, text: str, words: list[str], tmp_path: Path
) -> None:
    value = text if setting == "vnfs" else (text,)
    with pytest.raises(ConfigError) as caught:
        config.load({setting: value}, environment={}, directory=tmp_path)
    for word in words:
        assert word in str(caught.value)
    assert "Input should" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        (GOAL + 'loss_ratio = "0.1%"', ("goals", 0, "loss_ratio"), 0.001),
        (GOAL + 'loss_ratio = "0.1 %"', ("goals", 0, "loss_ratio"), 0.001),
        (GOAL + 'width = "0.5%"', ("goals", 0, "width"), 0.005),
        ('min_load_fps = "2 Mfps"\n' + GOAL, ("min_load_fps",), 2e6),
        ('min_load_fps = "12.5kfps"\n' + GOAL, ("min_load_fps",), 12500.0),
        (GOAL + '[trial]\nsettle_s = "20 ms"', ("trial", "settle_s"), 0.02),
        (GOAL + '[trial]\nsettle_s = "1.5 s"', ("trial", "settle_s"), 1.5),
        (GOAL + '[trial]\nsettle_s = "2 minutes"', ("trial", "settle_s"), 120.0),
        ('min_load_fps = "2 mpps"\n' + GOAL, ("min_load_fps",), 2e6),
        ('min_load_fps = "9 Kfps"\n' + GOAL, ("min_load_fps",), 9000.0),
        ('frame_sizes = ["64 octets"]\n' + GOAL, ("frame_sizes", 0), 64),
    ],
)
def test_numbers_may_have_the_units_that_reports_print(
    text: str, path: tuple[str | int, ...], value: float, tmp_path: Path
) -> None:
    file = tmp_path / "units.toml"
    file.write_text(text)
    found: Any = config.load_model(Preset, file)
    for part in path:
        found = found[part] if isinstance(part, int) else getattr(found, part)
    assert found == value


@pytest.mark.parametrize(
    "text",
    [
        GOAL + 'loss_ratio = "0.1 Mfps"',
        GOAL + 'width = "1 s"',
        'min_load_fps = "5 %"\n' + GOAL,
        GOAL + '[trial]\nsettle_s = "3 fps"',
        GOAL + '[trial]\nsettle_s = "1 parsec"',
    ],
)
def test_a_unit_of_something_else_is_refused(text: str, tmp_path: Path) -> None:
    _, message = error_of(Preset, text, tmp_path)
    assert "is not a number" in message


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("frame_sizes", "64 octets, 1 KiB", (64, 1024)),
        ("message_sizes", "64,16K,16 KiB", (64, 16384, 16384)),
    ],
)
def test_sizes_as_text_may_have_units(key: str, text: str, value: object, tmp_path: Path) -> None:
    loaded = config.load({key: text}, environment={}, directory=tmp_path)
    assert getattr(loaded.settings, key) == value


@pytest.mark.parametrize(
    ("pair", "key", "value"),
    [("mtu=8 KiB", "mtu", 8192), ("memory_mib=1 GiB", "memory_mib", 1024)],
)
def test_options_of_octets_may_have_units(pair: str, key: str, value: int, tmp_path: Path) -> None:
    setting, part = ("set", "switch") if key == "mtu" else ("guest", "guest")
    loaded = config.load({setting: (pair,)}, environment={}, directory=tmp_path)
    assert getattr(getattr(loaded, part), key) == value


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2.5 min", 150),
        ("1 h 02 min 05 s", 3725),
        ("1h30m", 5400),
        ("2 days", 172_800),
        ("1E2", 100),
    ],
)
def test_a_time_budget_may_be_as_reports_print_times(
    text: str, seconds: float, tmp_path: Path
) -> None:
    typed = {"time_budget": text, "preset": "quick"}
    loaded = config.load(typed, environment={}, directory=tmp_path)
    assert loaded.preset.time_budget_s == seconds


@pytest.mark.parametrize(
    "text", ["5 x", "5 min and more", "min", "-5 min", "5 fps", "1 h 2", "inf", "1h-30m"]
)
def test_what_is_no_time_is_no_time_budget(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a time"):
        config.load({"time_budget": text}, environment={}, directory=tmp_path)


@pytest.mark.parametrize(
    ("kind", "text", "keys"),
    [
        (SwitchOptions, "rx_queues = true\nworkers = true", ["rx_queues", "workers"]),
        (Testbed, "lock_timeout_s = true", ["lock_timeout_s"]),
        (Testbed, "[cores]\nallowed = [0, true]", ["cores.allowed.1"]),
        (Preset, GOAL + "loss_ratio = false", ["goals.0.loss_ratio"]),
        (GuestOptions, "vcpus = true", ["vcpus"]),
    ],
)
def test_true_and_false_are_no_numbers(
    kind: type, text: str, keys: list[str], tmp_path: Path
) -> None:
    error, message = error_of(kind, text, tmp_path)
    assert error.where.endswith(f": {keys[0]}")
    assert all(f"{key}: " in message for key in keys)
    assert message.count("is not a number") == len(keys)


def test_true_and_false_are_what_they_are_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "yes.toml").write_text("isolated = true\n")
    assert config.load_model(Testbed, tmp_path / "yes.toml").isolated is True


@pytest.mark.parametrize("kind", ["pipe", "endless", "vast"])
def test_what_may_never_end_is_not_waited_for(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "pipe.toml"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "endless":
        path.symlink_to("/dev/zero")
    else:
        path.touch()
        os.truncate(path, 1 << 40)
    with pytest.raises(ConfigError, match=r"no regular file|longer than"):
        config.load_model(Testbed, path)


def test_of_many_names_the_nearest_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load({"set": ("mtuu=9000",)}, environment={}, directory=tmp_path)
    assert "did you mean 'mtu'" in str(caught.value)
    names = caught.value.accepted.partition("KEY one of ")[2].partition(", and ")[0].split(", ")
    assert len(names) == 3
    assert names[0] == "mtu"


def test_one_wrong_item_of_a_list_is_one_wrong_value(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load({"message_sizes": (0,)}, environment={}, directory=tmp_path)
    assert caught.value.where == "command line: message_sizes.0"
    assert "more wrong" not in str(caught.value)


@pytest.mark.parametrize("content", [b"x = ", b"\xff\xfe", b"x = 1\nx = 2"])
def test_a_file_that_is_no_toml(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"x\.toml"):
        config.load_model(Testbed, path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        config.load_model(Testbed, tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "hint", "accepted"),
    [
        ("testbed", "locl", "did you mean 'local'", "local"),
        ("preset", "rfc2455", "did you mean 'rfc2544'", "quick"),
        ("traffic", "multi-flw", "did you mean 'multi-flow'", "multi-flow, "),
        ("preset", "zzz", "'zzz'", "smoke"),
        ("preset", "x" * 300, "unknown name", "smoke"),
        ("testbed", "no/such/file.toml", "no/such/file.toml", ""),
        ("testbed", "y" * 300 + ".toml", "no file", ""),
    ],
)
def test_unknown_names_are_told_with_those_there_are(
    key: str, value: str, hint: str, accepted: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load({key: value}, environment={}, directory=tmp_path)
    assert hint in str(caught.value)
    assert accepted in caught.value.accepted


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"VNETPERF_PRSET": "x"}, ["VNETPERF_PRSET", "did you mean VNETPERF_PRESET"]),
        ({"VNETPERF_VNFS": "many"}, ["environment: vnfs", "'many'"]),
        ({"VNETPERF_VNFS": "0"}, ["environment: vnfs", "1"]),
        ({"VNETPERF_FRAME_SIZES": "small"}, ["environment: frame_sizes", "'small'"]),
        ({"VNETPERF_FRAME_SIZES": "63"}, ["environment: frame_sizes.0", "63"]),
    ],
)
def test_wrong_environment_variables(
    environment: dict[str, str], words: list[str], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(environment=environment, directory=tmp_path)
    for word in words:
        assert word in str(caught.value)


def test_variables_of_others_are_no_business_of_ours(tmp_path: Path) -> None:
    config.load(environment={"PATH": "x", "VNETPERFECT": "y"}, directory=tmp_path)


def test_the_users_file_is_named_with_its_key(tmp_path: Path) -> None:
    (tmp_path / config.USER_FILE).write_text('presett = "smoke"\n')
    with pytest.raises(ConfigError) as caught:
        config.load(environment={}, directory=tmp_path)
    file = tmp_path / config.USER_FILE
    assert caught.value.where == f"{file}: presett"
    assert "did you mean 'preset'" in str(caught.value)


def test_a_wrong_option_names_the_command_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="command line: vnfs"):
        config.load({"vnfs": 65}, environment={}, directory=tmp_path)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.dates(),
    st.sampled_from(["local", "ssh=x", "auto", "mlr", 64, 1518, 0.5, 2048]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
GOAL_KEYS = ["name", "loss_ratio", "exceed_ratio", "final_trial_s", "duration_sum_s", "width"]


@cache
def contents(model: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Files whose keys are mostly right and whose values are mostly wrong."""
    nested = {
        name: st.one_of(VALUES, contents(field.annotation))
        for name, field in model.model_fields.items()
        if hasattr(field.annotation, "model_fields")
    }
    known = {name: nested.get(name, VALUES) for name in model.model_fields}
    if "goals" in known:
        goal = st.dictionaries(st.sampled_from([*GOAL_KEYS, "x"]), VALUES, max_size=5)
        known["goals"] = st.one_of(VALUES, st.lists(goal, max_size=2))
    # A few keys at a time: one wrong value is as good as twenty, and found twenty times as fast.
    some = st.lists(st.sampled_from(sorted(known)), unique=True, max_size=4)
    return st.builds(
        lambda right, wrong: {**wrong, **right},
        some.flatmap(lambda names: st.fixed_dictionaries({name: known[name] for name in names})),
        st.dictionaries(st.text(max_size=6), VALUES, max_size=1),
    )


@pytest.mark.parametrize(
    "model", [registry.testbed_model(), Preset, TrafficProfile, config.Settings]
)
@given(data=st.data())
def test_a_wrong_value_is_a_config_error_and_nothing_else(model: Any, data: st.DataObject) -> None:
    content = data.draw(contents(model))
    try:
        outcome: Any = config.validate(model, content, "a file")
    except ConfigError as error:
        outcome = str(error)
    assert isinstance(outcome, model) or outcome.startswith("a file")


@given(
    st.dictionaries(
        st.sampled_from([f"VNETPERF_{k.upper()}" for k in config.Settings.model_fields]),
        st.text(st.characters(exclude_characters="\0"), max_size=10),
        max_size=3,
    )
)
def test_any_environment_loads_or_is_a_config_error(environment: dict[str, str]) -> None:
    try:
        loaded = config.load(environment=environment, directory=Path("/nonexistent"))
    except ConfigError:
        return  # anything else fails the test
    for variable in environment:
        assert loaded.sources[variable.removeprefix("VNETPERF_").lower()].endswith(variable)


ODD_TOML = [
    *("1e400", "-1", "0", "9" * 400, "nan", "inf", "-inf", "true", '""', '"\\u0000"', "[]", "[[]]"),
    *("{}", '[1,"a",{}]', "1979-05-27", "[-1]", "0x7fffffffffffffff", '"1:2:3:4"', '"../../x"'),
    *("9" * 5000, "[" * 50_000, "[" * 50_000 + "]" * 50_000, "{a=" * 5_000),
]


def keys_of(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Keys of a file, and of the tables in it, those with names of the user's and in lists too."""
    for name, field in model.model_fields.items():
        yield (*path, name)
        below = (field.annotation, *get_args(field.annotation))
        for table in below:
            if isinstance(table, type) and issubclass(table, BaseModel) and len(path) < 4:
                within = ("a",) if get_origin(field.annotation) is dict else ()
                yield from ((*path, name, *within, key) for key in ("x", "\\u0000", ""))
                yield from keys_of(table, (*path, name, *within))


def written_key(path: tuple[str, ...], value: str, *, in_list: bool) -> str:
    *tables, key = (f'"{part}"' for part in path)
    head = f"[{'.'.join(tables)}]\n"
    if not tables:
        head = ""
    elif in_list:
        head = f"[{head.strip()}]\n"
    return f"{head}{key} = {value}\n"


FILES: dict[str, tuple[Any, Callable[[Path], object]]] = {
    "testbed": (registry.testbed_model(), lambda path: read_testbed(str(path))),
    "preset": (Preset, lambda path: config.load_model(Preset, path)),
    "traffic": (TrafficProfile, lambda path: config.load_model(TrafficProfile, path)),
    "switch": (
        registry.switch_options_model(),
        lambda path: config.load_model(registry.switch_options_model(), path),
    ),
    "guest": (GuestOptions, lambda path: config.load_model(GuestOptions, path)),
    "stack": (MobileCore, lambda path: config.load_model(MobileCore, path)),
}


@pytest.mark.parametrize("kind", FILES)
@settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "60")),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_an_odd_value_is_refused_or_taken_and_never_a_traceback(
    data: st.DataObject, tmp_path: Path, kind: str
) -> None:
    model, read = FILES[kind]
    path = data.draw(st.sampled_from(sorted(keys_of(model))))
    value = data.draw(st.sampled_from(ODD_TOML) | st.text(max_size=20))
    file = tmp_path / "odd.toml"
    text = written_key(path, value, in_list=data.draw(st.booleans()))
    file.write_text(text, encoding="utf-8", errors="replace")
    with suppress(ConfigError):
        read(file)


@pytest.mark.parametrize("kind", FILES)
def test_a_misspelt_key_at_any_depth_is_one_sentence(tmp_path: Path, kind: str) -> None:
    model, read = FILES[kind]
    for path in sorted(keys_of(model)):
        if path[-1] != "x":
            continue
        for in_list in (False, True):
            file = tmp_path / "odd.toml"
            file.write_text(written_key(path, "1", in_list=in_list))
            with pytest.raises(ConfigError, match=r"odd\.toml") as caught:
                read(file)
            lines = str(caught.value).splitlines()
            told = [line for line in lines if ": is required, and missing" not in line]
            assert len(told) == 1
            assert all("odd.toml: " in line for line in lines)


def test_a_misspelt_key_of_a_host_is_told_with_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text("[hosts.dut]\ntransprt = 'local'\n")
    with pytest.raises(ConfigError, match="did you mean 'transport'") as caught:
        read_testbed(str(file))
    assert caught.value.where.endswith("hosts.dut.transprt")
    assert "cores" in caught.value.accepted


@pytest.mark.parametrize("key", sorted(config.Settings.model_fields))
@given(
    value=st.sampled_from(
        [
            *(*ODD_TOML[:-3], "64,,", "64,-1", "a=b=c", "rx_queues=nan", "x/../y.toml", "\0"),
            *("a" * 5000, "rx_queues=" + "9" * 5000),
            *(f"conflist={'a' * 300}", f"conflist=/{'a' * 300}", "conflist=/dev/null"),
        ]
    )
)
@settings(max_examples=int(os.environ.get("FUZZ_EXAMPLES", "60")) // 4)
def test_an_odd_setting_is_refused_or_taken_and_never_a_traceback(key: str, value: str) -> None:
    for given_values, environment in (({key: value}, {}), ({}, {f"VNETPERF_{key.upper()}": value})):
        with suppress(ConfigError):
            config.load(given_values, environment=environment, directory=Path("/nonexistent"))


@pytest.mark.parametrize(
    "value", ODD_TOML[-4:], ids=["digits", "deep", "deep and closed", "tables"]
)
def test_endless_and_deep_values_are_no_odd_end(value: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text(f"lock_timeout_s = {value}\n")
    with pytest.raises(ConfigError, match=r"odd\.toml") as caught:
        config.load_model(Testbed, path)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_what_an_editor_puts_before_a_file_is_no_part_of_it(ends: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xef\xbb\xbf" + f"name = 'lab'{ends}wires = ['veth']{ends}".encode())
    assert config.load_model(Testbed, path).wires == ("veth",)
    conflist = {"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "bridge"}]}
    path = tmp_path / "mine.conflist"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(conflist).encode())
    assert cni.read_conflist(str(path))["name"] == "n"


def test_what_is_wrong_in_several_places_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "vnetperf.toml").write_text("vnfs = 99\n")
    (tmp_path / "odd.toml").write_text("[agent]\ntransport = 'locl'\n[core]\nx = 1\n")
    typed = {
        "testbed": str(tmp_path / "odd.toml"),
        "set": ("mtu=9k", "mtuu=1", "workerz=1"),
        "guest": ("memory_mb=1",),
        "preset": "rfc2455",
        "traffic": "single-flow",
    }
    environment = {"VNETPERF_INSTANCES": "two", "VNETPERF_PRSET": "x", "VNETPERF_TSTS": "y"}
    with pytest.raises(ConfigError) as caught:
        config.load(typed, environment=environment, directory=tmp_path)
    lines = str(caught.value).splitlines()
    for words in (
        "vnetperf.toml: vnfs: 99 is not at most 64",
        "environment: instances: 'two' is not a whole number from 1 to 64",
        "odd.toml: core: unknown key",
        "agent.transport",
        "mtu: '9k' is not a whole number",
        "'mtuu=1' is not an option, did you mean 'mtu'",
        "'workerz=1' is not an option, did you mean 'workers'",
        "VNETPERF_PRSET, did you mean VNETPERF_PRESET",
        "VNETPERF_TSTS, did you mean VNETPERF_TESTS",
        "'memory_mb=1' is not an option, did you mean 'memory_mib'",
        "unknown name 'rfc2455', did you mean 'rfc2544'",
    ):
        assert any(words in line for line in lines), (words, lines)
    assert len(lines) == len(set(lines))
