"""A log may be larger than the memory: its trials are read test by test, and reports as well."""

from __future__ import annotations

import contextlib
import gc
import math
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import big_log
from tests.recorded.test_recorded import HERE, RUNS
from vnetperf.analysis import results_from_log
from vnetperf.analysis.results_from_log import derive
from vnetperf.log import stored
from vnetperf.log.folder import read_run
from vnetperf.log.records import NotMeasuredRecord, TrialRecord
from vnetperf.log.stored import Shelf, StoredTrial
from vnetperf.log.trial_log import LOG_NAME, TrialLog, iter_log, read_log
from vnetperf.model.result import Result, RunResults, TrialPoint
from vnetperf.report import REPORTS, summary, write_all
from vnetperf.report.comparison import comparison_table, list_comparisons
from vnetperf.report.page import html_report
from vnetperf.report.terminal import terminal_text


def written(folder: Path, mib: float) -> Path:
    """The folder of a log of a size."""
    folder.mkdir(exist_ok=True)
    big_log.write(folder, mib)
    return folder


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of about 3 MiB."""
    return written(tmp_path_factory.mktemp("three"), 3)


def recorded_log(name: str, folder: Path) -> Path:
    with tarfile.open(HERE / f"{name}.tar.xz") as archive:
        file = archive.extractfile(LOG_NAME)
        assert file is not None
        (folder / LOG_NAME).write_bytes(file.read())
    return folder / LOG_NAME


@pytest.mark.parametrize("name", RUNS)
def test_a_trial_that_is_read_when_it_is_used_is_the_same(name: str, tmp_path: Path) -> None:
    log = recorded_log(name, tmp_path)
    stored_records, records = read_log(log), list(iter_log(log))
    assert stored_records == records
    assert [r.model_dump_json() for r in stored_records] == [r.model_dump_json() for r in records]
    assert not any(isinstance(record, StoredTrial) for record in records)


def test_a_stored_trial_has_another_number_in_a_merged_log(three: Path) -> None:
    trial = next(r for r in read_log(three / LOG_NAME) if isinstance(r, TrialRecord))
    changed = trial.model_copy(update={"number": trial.number + 7, "search": 3})
    assert (changed.number, changed.search) == (trial.number + 7, 3)
    assert changed.spec == trial.spec
    assert changed != trial
    again = TrialRecord.model_validate_json(changed.model_dump_json())
    assert again == changed
    assert again.number == trial.number + 7
    with pytest.raises(AttributeError):
        _ = trial.colour  # type: ignore[attr-defined]  # there is none


def alive() -> int:
    """Trials of logs that are in memory with everything that they have."""
    return sum(type(one) is TrialRecord for one in gc.get_objects())


def test_no_more_trials_are_in_memory_than_those_of_a_test(
    three: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "KEPT_OCTETS", 2**16)
    records = read_run(three)
    tests = results_from_log.group_tests(records)
    most = max(len(test.trials) for test in tests)
    every = sum(len(test.trials) for test in tests)
    del tests
    gc.collect()
    before, seen = alive(), list[int]()
    made = results_from_log.derive_result

    def counted(*arguments: object, **named: object) -> Result:
        gc.collect()
        seen.append(alive() - before)
        return made(*arguments, **named)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(results_from_log, "derive_result", counted)
    derive(records)
    # Those of a test, and what is read of the next one.
    assert 0 < max(seen) <= most + 50 < every / 4
    gc.collect()
    assert alive() - before < 50


@pytest.mark.parametrize("name", ["pvp_dpdk_smoke", "interleaved_interrupted", "multiqueue"])
def test_reports_are_the_same_where_nothing_stays_in_memory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded_log(name, tmp_path)
    write_all(derive(read_run(tmp_path)), tmp_path / "memory")
    for limit in ("_RESULTS_AT_HAND", "_TRIALS_AT_HAND"):
        monkeypatch.setattr(results_from_log, limit, 0)
    monkeypatch.setattr(stored, "KEPT_OCTETS", 1)
    results = derive(read_run(tmp_path))
    assert isinstance(results.results, Shelf) or not results.results
    write_all(results, tmp_path / "file")
    for report in REPORTS:
        assert (tmp_path / "file" / report).read_bytes() == (
            tmp_path / "memory" / report
        ).read_bytes()


def test_a_shelf_is_a_sequence_of_what_was_put_there(three: Path) -> None:
    points = derive(read_run(three)).trials[:40]
    shelf = Shelf(TrialPoint, 3)
    for point in points:
        shelf.append(point)
    assert len(shelf) == 40
    assert list(shelf) == list(points)
    assert shelf[7] == points[7]
    assert list(shelf[-3:]) == list(points[-3:])
    assert list(shelf.by([-point.number for point in points])) == sorted(
        points, key=lambda point: -point.number
    )
    assert Shelf(TrialPoint, 3).some(()) == ()


def test_a_shelf_keeps_numbers_that_json_has_not(three: Path) -> None:
    (point, *_) = derive(read_run(three)).trials
    shelf = Shelf(TrialPoint, 0)
    shelf.append(point.model_copy(update={"load_fps": math.inf}))
    assert shelf[0].load_fps == math.inf


def open_files(folder: Path) -> list[str]:
    """Files of a folder that this process has open, those that have no name any more too."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # that of the listing itself
            found.append(str(link.readlink()))
    return [name for name in found if name.startswith(str(folder))]


def test_a_shelf_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "_ON_DISK", str(tmp_path))
    shelf = Shelf(Result, 0)
    shelf.append(Result(scenario="pvp_x", test="throughput", frame_size=64))
    assert shelf[0].scenario == "pvp_x"
    assert list(tmp_path.iterdir()) == []
    assert len(open_files(tmp_path)) == 1
    del shelf
    gc.collect()
    assert open_files(tmp_path) == []


def test_a_log_goes_on_behind_a_line_that_is_longer_than_what_is_read_at_once(
    tmp_path: Path,
) -> None:
    path = tmp_path / LOG_NAME
    long = NotMeasuredRecord(scenario="pvp_x", test="throughput", frame_size=64, why="x" * 300_000)
    for _ in range(3):
        log = TrialLog(path)
        log.append(long)
        log.close()
        with path.open("ab") as file:
            file.write(b'{"type":"not-measured","why":"' + b"y" * 200_000)  # and killed
    assert list(iter_log(path)) == [long] * 3


@pytest.mark.slow
def test_memory_does_not_grow_with_a_log(tmp_path: Path) -> None:
    peaks = {}
    for mib in (5, 20):
        log = written(tmp_path / str(mib), mib) / LOG_NAME
        peaks[mib] = {name: peak for name, _, peak in big_log.measured("report", log)}
    # As objects, 15 MiB of a log are some 150 MiB. What stays is no more for any larger log.
    assert peaks[20]["read"] - peaks[5]["read"] < 10
    assert peaks[20]["derived"] - peaks[5]["derived"] < 40
    assert peaks[20]["report"] - peaks[5]["report"] < 80


@pytest.fixture(scope="module")
def many(three: Path) -> RunResults:
    return derive(read_run(three))


def test_what_is_read_has_a_part_of_many_cases_and_says_so(
    many: RunResults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "MOST_CASES", 6)
    shown = summary.shown_part(many)
    tests = {result.test for result in many.results}
    assert {result.test for result in shown.results} == tests
    assert len(shown.results) == 6 < len(many.results)
    cases = {result.case for result in shown.results}
    assert {summary.identify_case(trial) for trial in shown.trials} == cases
    assert f"6 of {len(many.results)} cases" in shown.warnings[0]
    write_all(many, tmp_path)
    for name in ("report.html", "report.md"):
        assert f"6 of {len(many.results)} cases" in (tmp_path / name).read_text()
    whole = RunResults.model_validate_json((tmp_path / "results.json").read_text())
    assert len(whole.results) == len(many.results)
    assert len((tmp_path / "trials.csv").read_text().splitlines()) == 1 + len(many.trials)
    assert summary.shown_part(shown) == shown


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> RunResults:
    """Sixteen variants of one scenario, all of them measured or refused."""
    folder = tmp_path_factory.mktemp("variants")
    recorded_log("services", folder)
    return derive(read_run(folder))


def test_what_is_left_out_is_not_called_not_run(
    variants: RunResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "MOST_CASES", 4)
    shown = summary.shown_part(variants)
    (whole,), (part,) = list_comparisons(variants), list_comparisons(shown)
    was = [whole.absence(v, 64)[0] for v in whole.comparison.variants]
    now = [part.absence(v, 64)[0] for v in part.comparison.variants]
    assert {"not run", "not shown"}.isdisjoint(was)
    assert now.count("not shown") == len(variants.results) - 4
    assert "not run" not in now
    cells = [cell for row in comparison_table(part).texts for cell in row]
    assert "not run" not in cells
    assert cells.count("not shown") == len(variants.results) - 4
    assert {m.where for m in summary.missing_values(shown)} <= {
        m.where for m in summary.missing_values(variants)
    }
    assert "values of what is shown are unknown" in terminal_text(shown)
    names = [r.scenario for r in variants.results]
    assert f"of 4 of {len(set(names))} scenarios" in shown.warnings[0]
    kept = [names.index(r.scenario) for r in shown.results]
    assert kept[0] == 0
    assert kept[-1] == len(names) - 1


def test_a_comparison_without_a_case_that_is_shown_says_so(
    variants: RunResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [r for r in variants.results if r.status == "measured"] or list(variants.results)
    other = results[0].model_copy(update={"scenario": "another"})
    many = variants.model_copy(update={"results": (other, *results), "trials": ()})
    monkeypatch.setattr(summary, "MOST_CASES", 1)
    (part,) = list_comparisons(summary.shown_part(many))
    told = {v.scenario: part.absence(v, 0)[0] for v in part.comparison.variants}
    assert {told[r.scenario] for r in results} == {"not shown"}


def test_plots_and_tables_of_scenarios_tell_what_is_not_shown(
    many: RunResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, *_) = [r for r in many.results if r.goals]
    results = tuple(
        first.model_copy(update={"scenario": name, "frame_size": size})
        for name in ("one", "two", "three")
        for size in (64, 128, 256, 512)
    )
    made = many.model_copy(update={"results": results, "trials": (), "comparisons": ()})
    assert "not shown" not in html_report(summary.shown_part(made))
    monkeypatch.setattr(summary, "MOST_CASES", 5)
    page = html_report(summary.shown_part(made))
    assert "not shown" in page
    assert "or the run was interrupted" not in page


def test_what_is_shown_has_all_of_its_trials(
    many: RunResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = Counter(map(summary.identify_case, many.trials))
    for most in (1, max(of.values()) + 1, len(many.trials) // 2):
        monkeypatch.setattr(summary, "MOST_TRIALS", most)
        shown = summary.shown_part(many)
        assert shown.results
        assert Counter(map(summary.identify_case, shown.trials)) == {
            case: of[case] for r in shown.results if of[case := summary.identify_case(r)]
        }
        assert len(shown.trials) <= most or len(shown.results) == 1


@pytest.mark.parametrize("count", range(12))
def test_a_spread_order_has_each_once_the_ends_first(count: int) -> None:
    order = summary.spread_order(count)
    assert sorted(order) == list(range(count))
    assert set(order[:2]) == {0, count - 1} or count < 2
