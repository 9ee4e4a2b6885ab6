"""Commands that answer from logs: what they print, and what they say of wrong input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.fakes.agent import FakeAgent
from tests.fakes.machine import facts
from tests.runner.support import PRESET, Bench, Fading, configuration
from tests.texts import Texts
from vnetperf.cli import main, why
from vnetperf.log.records import Record, TrialRecord
from vnetperf.testing.sim import SimulatedDut


def a_run(
    folder: Path,
    capacity: float,
    *,
    rounds: tuple[float, ...] = (),
    fades: bool = False,
    cores: int = 8,
    **update: object,
) -> None:
    """A run; of a DUT that fades a search finds half of what the first one found."""
    folder.mkdir(parents=True)
    dut = SimulatedDut(capacity)
    if fades:
        update |= {"rounds": 2, "most_rounds": 2, "round_gap_s": 0}
    settings = configuration(PRESET.model_copy(update=update))
    bench = Bench(folder, FakeAgent(duts=(dut, dut), facts=facts(cores)), settings)
    if fades:
        bench.run.progress = Fading(bench.agent, (SimulatedDut(capacity / 2),) * 2)
    for number, factor in enumerate(rounds or (1.0,), 1):
        if rounds:
            bench.run.begin_round(number, len(rounds))
            bench.agent.duts = (SimulatedDut(capacity * factor),) * 2
        bench.throughput()
    bench.run.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with runs."""
    folder = tmp_path_factory.mktemp("site")
    for name, capacity in (("fast", 600e3), ("slow", 400e3), ("same", 601e3)):
        a_run(folder / "results" / name, capacity)
    for name, capacity in (("fast5", 600e3), ("slow5", 400e3)):
        a_run(folder / "repeated" / name, capacity, rounds=(1.0, 1.01, 0.99, 1.02, 0.98))
    three = (1.0, 1.01, 0.99)
    for name, capacity in (("shared", 600e3), ("shared-too", 599e3)):
        a_run(folder / "repeated" / name, capacity, rounds=three, cores=2)
    a_run(folder / "repeated" / "broken3", 600e3, rounds=three, fades=True)
    (folder / "results" / "latest").symlink_to("same")
    return folder


@pytest.fixture(autouse=True)
def here(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(site)
    monkeypatch.setenv("COLUMNS", "160")


def told(capsys: pytest.CaptureFixture[str], *argv: str, status: int = 0) -> str:
    assert main(list(argv)) == status
    captured = capsys.readouterr()
    return captured.out if status == 0 else captured.out + captured.err


FIVE = ("--results-dir", "repeated")


def test_compare_says_what_differs_and_what_is_not_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = told(capsys, "compare", "fast", "slow")
    assert "n = 1: not known how it repeats" in text
    assert "`--repeat 5`" in text
    text = told(capsys, "compare", "fast5", "slow5", *FIVE)
    assert "B has less (worse)" in text
    assert "5 deployments" in text
    assert "Holm" in text


@pytest.mark.parametrize(
    ("side", "twice"),
    [
        ("slow+same+latest", "same and latest"),
        ("same+slow+same", "same and same"),
        ("same+results/same/trials.jsonl", "same and results/same/trials.jsonl"),
        ("same+./results/../results/same", "same and ./results/../results/same"),
    ],
)
def test_a_run_is_given_once_to_a_side(
    side: str, twice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for sides in (("fast", side), (side, "fast")):
        text = told(capsys, "compare", *sides, status=1)
        assert f"{twice} are the same run" in text


def test_compare_fails_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    gate = ("--fail-if-worse", "--single-run", *FIVE)
    told(capsys, "compare", "fast5", "slow5", *gate, status=1)
    told(capsys, "compare", "slow5", "fast5", *gate)
    told(capsys, "compare", "fast5", "slow5", *gate, "--least", "40%")


def test_a_gate_over_one_run_a_side_says_what_it_needs(
    capsys: pytest.CaptureFixture[str], texts: Texts
) -> None:
    assert main(["compare", "fast5", "slow5", "--fail-if-worse", *FIVE]) == 0
    captured = capsys.readouterr()
    assert "B has less (worse)" in captured.out
    (line,) = captured.err.splitlines()
    texts.check(line)
    found = json.loads(told(capsys, "compare", "fast5", "slow5", "--json", *FIVE))
    assert (found["gated"], found["fails_gate"], found["rows"][0]["worse"]) == (False, False, True)


def test_a_gate_over_single_deployments_says_that_it_judges_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["compare", "fast", "slow", "--fail-if-worse"]) == 0
    assert "judges nothing here" in capsys.readouterr().err


def test_a_gate_on_shared_processors_needs_turns(capsys: pytest.CaptureFixture[str]) -> None:
    sides = ("compare", "shared", "shared-too", *FIVE)
    assert "cannot tell: not measured in turn" in told(capsys, *sides)
    assert main([*sides, "--fail-if-worse", "--single-run"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "does not judge pvp_dpdk, and fails" in line
    assert "--repeat 5" in line
    assert "old, new, old, new" in line
    found = json.loads(told(capsys, *sides, "--json"))
    assert (found["out_of_turn"], found["fails_gate"]) == (["pvp_dpdk"], True)


def test_a_gate_fails_where_a_number_is_lost(
    capsys: pytest.CaptureFixture[str], texts: Texts
) -> None:
    assert main(["compare", "fast5", "broken3", "--fail-if-worse", *FIVE]) == 1
    error = capsys.readouterr().err
    texts.check(error)
    found = json.loads(told(capsys, "compare", "fast5", "broken3", "--json", *FIVE))
    (ndr,) = (one for one in found["not_gated"] if one["name"].endswith("ndr"))
    assert ndr["lost"] is True


def test_compare_in_json_has_no_infinities(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(told(capsys, "compare", "fast5", "slow5", "--json", *FIVE))
    (ndr,) = (row for row in found["rows"] if row["number"] == "ndr")
    assert ndr["difference"]["high"] < 0
    assert ndr["unit"] == "frames/s"
    assert ndr["worse"] is True
    assert ndr["p_holm"] < 0.01
    (ndr,) = (
        row
        for row in json.loads(told(capsys, "compare", "fast", "slow", "--json"))["rows"]
        if row["number"] == "ndr"
    )
    assert (ndr["difference"]["high"], ndr["p_holm"], ndr["worse"]) == (None, None, False)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("compare", "fast", "gone"), "gone: there is no such run; accepted: a folder with"),
        (("compare", "fast", "fast"), "both sides are the same"),
        (("compare", "fast:pvp_ovs", "slow"), "there is no scenario 'pvp_ovs'; accepted: pvp_dpdk"),
        (("compare", "fast", "slow", "--confidence", "95"), "95 is no level"),
        (("compare", "fast", "slow", "--least", "2 p"), "'2 p' is no share"),
        (("trend", "nowhere"), "nowhere: there is no such folder"),
        (("trend", "--scenario", "x*"), "no number of 2 runs or more matches"),
        (("why", "gone"), "gone: there is no such run"),
        (("why", "fast", "pvp_x"), "no results are pvp_x; accepted: one of: pvp_dpdk throughput"),
        (("why", "fast", "pvp_dpdk", "throughput", "65"), "no result of frame size '65'"),
        (("report", "gone"), "gone: there is no such run"),
        (("report", "fast", "--width", "0.1"), "cure: add --goals"),
        (("report", "fast", "--goals", "many"), "--goals: 'many' is no loss ratio"),
        (("report", "fast", "--goals", "=0.1"), "'=0.1' has no name"),
        (("report", "fast", "--goals", "x=1.5"), "loss_ratio = 1.5 is not possible"),
        (("report", "fast", "--goals", "x=0.1", "--trial-s", "0"), "final_trial_s = 0 is not"),
        (("report", "fast", "--goals", "x=0.1", "--sum-s", "0"), "duration_sum_s = 0 is not"),
        (("report", "fast", "--goals", "x=0.1", "--width", "0"), "width = 0 is not possible"),
        (("report", "fast", "--goals", "ndr=0.1"), "there is a goal 'ndr' already"),
    ],
)
def test_wrong_input_is_said_in_one_message(
    capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], said: str
) -> None:
    text = told(capsys, *argv, status=1)
    assert text.startswith("vnetperf: ")
    assert said in text
    assert "Traceback" not in text


def test_trend_shows_each_run_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "trend", "results")
    places = [text.index(name) for name in ("fast", "slow", "same")]
    assert places == sorted(places)
    assert "no change seen; 3 runs" in text
    names = ("pvp_dpdk", "throughput", "64 octets", "ndr")
    assert f"{', '.join(names)}\n" in text
    found = json.loads(told(capsys, "trend", "--json"))
    assert [len(series["points"]) for series in found] == [3, 3]


def test_trend_says_where_runs_may_only_wander(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for n in range(12):
        a_run(tmp_path / "falls" / f"run{n:02d}", 600e3 * (1.0 - 0.03 * n))
    text = told(capsys, "trend", str(tmp_path / "falls"), "--fail-if-worse")
    assert "(autocorrelation 0." in text
    found = json.loads(told(capsys, "trend", str(tmp_path / "falls"), "--json"))
    assert all(one["wandering"]["share"] > 0.05 for one in found)


def test_trend_fails_where_the_newest_runs_have_no_stable_number(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    texts: Texts,
) -> None:
    for n in range(6):
        a_run(tmp_path / "runs" / f"run{n}", 600e3, fades=n > 2)
    monkeypatch.chdir(tmp_path)
    assert main(["trend", "runs", "--fail-if-worse"]) == 1
    error = capsys.readouterr().err
    texts.check(error)
    told(capsys, "trend", "runs")


def test_lines_of_a_pipe_are_whole(
    site: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lines() -> list[str]:
        return told(capsys, "why", "fast").splitlines()

    monkeypatch.delenv("COLUMNS", raising=False)
    whole = lines()
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, lines())) <= 60
    assert len(lines()) > len(whole)
    said = whole[whole.index("Explanation") + 1 :]
    assert said
    assert all(line.startswith("* ") for line in said)
    assert max(map(len, said)) > 80


@pytest.fixture
def long_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames were lost at places with long names, in each trial."""
    places = {f"vnf{n}.0 to vnf{n}.1, dropped at its queue": 1000 + n for n in range(3)}
    read = why.read_records

    def with_places(run: str, folder: Path) -> tuple[Path, list[Record]]:
        log, records = read(run, folder)
        lost = {"lost_at": places}
        return log, [
            one.model_copy(update=lost) if isinstance(one, TrialRecord) else one for one in records
        ]

    monkeypatch.setattr(why, "read_records", with_places)


@pytest.mark.parametrize("columns", [None, 80, 100, 120, 160])
def test_why_has_a_line_or_two_for_a_trial_however_narrow_the_terminal_is(
    columns: int | None,
    long_places: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", str(columns))
    lines = told(capsys, "why", "fast").splitlines()
    assert not [line for line in lines if line != line.rstrip()]
    begin = next(n for n, line in enumerate(lines) if "\u2500\u2500" in line or "--+--" in line)
    body = lines[begin + 1 : lines.index("Explanation")]
    table = [line for line in body if line and not line.startswith("*")]
    trials = [line for line in table if re.match(r"\s*\d+\s.*fps", line)]
    assert len(trials) > 3
    assert len(table) <= 2 * len(trials)
    largest = "vnf2.0 to vnf2.1, dropped at its queue"
    if columns is None:
        assert largest + " 1002, 2 more" in "\n".join(table)
    if columns and columns < 120:
        assert max(map(len, lines)) <= columns
        assert "lost at" not in "\n".join(lines)
        assert "dropped" not in "\n".join(table)


def test_a_report_in_a_pipe_has_no_blanks_at_the_ends_of_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = told(capsys, "report", "fast").splitlines()
    assert lines
    assert not [line for line in lines if line != line.rstrip()]


def test_why_finds_the_only_result(capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "why", "fast")
    assert "pvp_dpdk, throughput, 64 octets" in text
    assert "lower bound of ndr" in text
    assert text == told(capsys, "why", "fast", "pvp_dpdk", "throughput", "64")


def test_report_answers_other_goals_and_leaves_the_reports_alone(
    capsys: pytest.CaptureFixture[str], site: Path, tmp_path: Path
) -> None:
    before = sorted(p.name for p in (site / "results" / "fast").iterdir())
    text = told(capsys, "report", "fast", "--goals", "lax=2%,0.5")
    assert " lax " in text
    assert "loss 50 %" in text
    assert "Missing trials" in text
    assert sorted(p.name for p in (site / "results" / "fast").iterdir()) == before
    told(capsys, "report", "fast", "--goals", "lax=2%", "--output", str(tmp_path / "out"))
    written = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [goal["name"] for goal in written["results"][0]["goals"]] == ["ndr", "pdr", "lax"]


def test_a_run_without_results_of_frames_has_nothing_to_explain(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_run(tmp_path / "results" / "only", 500e3)
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "results" / "only" / "trials.jsonl"
    log.write_text(log.read_text().partition("\n")[0] + "\n")
    text = told(capsys, "why", "only", status=1)
    assert "no result of frames" in text
    assert "report.md" in text


def test_an_edited_log_is_used_by_no_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_run(tmp_path / "results" / "edited", 500e3)
    a_run(tmp_path / "results" / "other", 500e3)
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "results" / "edited" / "trials.jsonl"
    log.write_text(log.read_text().replace('"received":', '"received":1', 1))
    for argv in (("report", "edited"), ("why", "edited"), ("compare", "edited", "other")):
        text = told(capsys, *argv, status=1)
        assert "trial 1" in text
        assert "checksum" in text
    assert "1 runs could not be read" in told(capsys, "trend", "--runs", "1")


def test_a_stored_run_is_held_against_expectations(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, texts: Texts
) -> None:
    file = tmp_path / "expect.toml"
    one = '[[expect]]\nscenario = "{}"\n{} = {}\n'
    good, bad = one.format("pvp_dpdk", "at_least", 1e6), one.format("pvp_*", "at_most", 1000)
    other = one.format("pvp_ovs", "at_least", 1)
    file.write_text(good + other)
    text = told(capsys, "expect", str(file), "fast")
    texts.check(" ".join(text.split()), "met")
    file.write_text(good + bad)
    text = told(capsys, "expect", str(file), "fast", status=1)
    texts.check(" ".join(text.split()), "failed")
    file.write_text(other)
    text = told(capsys, "expect", str(file), "fast", status=1)
    texts.check(" ".join(text.split()), "not judged")
    file.write_text("[[expect]]\n")
    text = told(capsys, "expect", str(file), status=1)
    assert "expect.0.scenario: " in text
