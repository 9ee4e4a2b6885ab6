"""All six tests of RFC 2544 as a user runs them, seconds each, and one that is killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.real.conftest import UserRun
from vnetperf.analysis.results_from_log import derive
from vnetperf.log.trial_log import read_log
from vnetperf.report.schema import results_schema

Start = Callable[..., UserRun]
Unchanged = Callable[[], tuple[str, ...]]
#: A DUT that is there within a second.
CHEAP = ("-k", "phy2phy_testpmd")
TESTS = ("throughput", "latency", "frame_loss", "back_to_back", "recovery", "reset")
#: The reset is at a fiftieth of the throughput: up to 2 Mfps the tester's rings, of 2048 frames,
#: then bridge it when it stands still for 50 ms. A time of half a second has little room for it.
PRESET = """
benchmark = false
note = "seconds for each test"
algorithm = "mlr"
frame_sizes = [64]
max_trial_seconds = 10
tests = ["throughput", "latency", "frame_loss", "back_to_back", "recovery", "reset"]
[[goals]]
name = "ndr"
exceed_ratio = 0.5
initial_trial_s = 0.2
final_trial_s = 0.4
duration_sum_s = 0.4
width = 0.2
[trial]
learning_wait_s = 0.05
drain_s = 0.2
full_drain = false
settle_s = 0
repeats_when_limited = 10
[latency]
shares = [0.5, 0.25]
duration_s = 0.6
tag_at_s = 0.3
repeats = 4
[frame_loss]
step = 0.25
duration_s = 0.3
[back_to_back]
searches = 2
max_burst_s = 0.05
idle_s = 0.05
step_frames = 64
[recovery]
overload_s = 0.6
relaxed_s = 0.5
repeats = 1
[reset]
what = ["vswitch"]
share = 0.02
before_s = 0.5
after_s = 6
repeats = 1
"""


def preset(tmp_path: Path) -> str:
    path = tmp_path / "six.toml"
    path.write_text(PRESET)
    return str(path)


def trials(run: UserRun) -> list[dict[str, Any]]:
    return [r for r in run.records() if r["type"] == "trial"]


def bursts_are_whole(run: UserRun, bursts: dict[str, Any]) -> None:
    """Each search ended at a multiple of its step, and each burst was asked for as it was sent."""
    assert bursts["frames"]["n"] + bursts["undecided"] == 2
    assert bursts["calibrated_gap_ns"] > 0
    assert all(v % 64 == 0 for v in bursts["frames"]["values"])
    by_number = {t["number"]: t for t in trials(run)}
    for number in bursts["trials"]:
        spec, result = by_number[number]["spec"], by_number[number]["result"]
        assert [d["intended"] for d in result["directions"]] == [spec["burst"]] * 2


@pytest.mark.daily  # each of them is run by `make demo`, and a throughput in every merge
def test_all_six_tests(start: Start, unchanged: Unchanged, tmp_path: Path) -> None:
    run = start(*CHEAP, "--wire=memif", preset=preset(tmp_path))
    assert run.finish() == 0, run.output
    assert unchanged() == ()
    content = run.json()
    jsonschema.validate(content, results_schema())
    found = {r["test"]: r for r in content["results"]}
    assert tuple(found) == TESTS
    # Where the tester's limit comes before the DUT's nothing says that a burst fills a buffer, and
    # RFC 9004 has no result: which it is, is up to this machine's cores.
    at_least = found["throughput"]["goals"][0]["qualifier"] == "at least"
    # Nor has it where the tester shares its core, and bursts leave more slowly than calibrated.
    too_slow = "too few bursts counted" in found["back_to_back"]["why"]
    without = {"back_to_back"} if at_least or too_slow else set()
    assert {t for t, r in found.items() if r["status"] != "measured"} == without, found
    again = derive(read_log(run.results / "latest/trials.jsonl"))
    assert json.loads(again.model_dump_json())["results"] == content["results"]

    # Loads are shares of the load intended at the bound, of which a little less may be offered.
    bound = found["throughput"]["goals"][0]["lower_bound_load_fps"]
    half, quarter = found["latency"]["latency_at"]
    assert half["load_fps"] == pytest.approx(0.5 * bound)
    assert quarter["load_fps"] == pytest.approx(0.25 * bound)
    for at in (half, quarter):
        assert len(at["trials"]) == 4
        for direction in ("phy0->phy1", "phy1->phy0"):
            held = at["latency"][direction]
            assert 0 < held["min_ns"] <= held["percentiles"]["50"] <= held["max_ns"]
            # Only frames of the second half of each trial are in it.
            assert held["count"] < 4 * 0.6 * at["load_fps"] / 2 * 0.75
            assert at["mean_ns"][direction]["n"] == 4
            assert at["variation"][direction]["pdv_ns"] > 0

    steps = found["frame_loss"]["loss_steps"]
    down = (1.0, 0.75, 0.5, *(0.25 / 2**n for n in range(20)))  # halves below the last step
    assert [s["input_ratio"] for s in steps] == list(down[: len(steps)])
    assert all(0 <= s["loss_ratio"] < 1 for s in steps)

    if at_least:
        assert "at least the largest load" in found["back_to_back"]["why"]
    elif not too_slow:
        bursts_are_whole(run, found["back_to_back"]["back_to_back"])

    (curve,) = found["recovery"]["recovery"]["curves"]
    assert sum(curve["offered"]) > 0
    (reset,) = found["reset"]["resets"]
    assert reset["why"] == ""
    assert 0 < reset["by_time_s"]["mean"] < 6


@pytest.mark.daily  # a search is resumed by test_bad_luck
def test_a_run_that_is_killed_in_a_test_begins_it_anew(
    start: Start, unchanged: Unchanged, tmp_path: Path
) -> None:
    options = (*CHEAP, "--tests=throughput,latency")
    run = start(*options, preset=preset(tmp_path))

    def in_latency(records: list[dict[str, object]]) -> bool:
        tests = [r["search"] for r in records if r["type"] == "procedure"]
        return bool(tests) and sum(r.get("search") == tests[0] for r in records) >= 4

    run.wait_for(in_latency)
    run.process.kill()
    run.finish()
    held = trials(run)
    assert unchanged() == ()

    folder = run.results / "latest"
    resumed = start(*options, f"--resume={folder}", preset=preset(tmp_path))
    assert resumed.finish() == 0, resumed.output
    now = trials(run)
    assert now[: len(held)] == held
    assert [t["number"] for t in now] == list(range(1, len(now) + 1))
    _, anew = [r["search"] for r in run.records() if r["type"] == "procedure"]
    valid = [t for t in now if t["search"] == anew and t["verdict"] == "VALID"]
    assert len(valid) == 8
    latency = next(r for r in run.json()["results"] if r["test"] == "latency")
    assert [at["repeats"] for at in latency["latency_at"]] == [4, 4]
