import pytest

from vnetperf import report
from vnetperf.model.errors import VnetperfError
from vnetperf.model.result import RunResults
from vnetperf.report import write_all

NAMES = [
    *("results.json", "report.md", "report.html"),
    *("results.csv", "trials.csv", "cpu.csv", "outcomes.csv", "curves.csv", "transfers.csv"),
    "junit.xml",
]


def test_every_report_is_written(results, tmp_path):
    paths = write_all(results, tmp_path / "new" / "run")
    assert [p.name for p in paths] == NAMES
    # A run of throughput alone has no more than the heads of three files; nor were processors read.
    heads = {"cpu.csv", "outcomes.csv", "curves.csv", "transfers.csv"}
    assert all(p.stat().st_size > 1000 for p in paths if p.name not in heads)
    assert sorted(p.name for p in (tmp_path / "new" / "run").iterdir()) == sorted(NAMES)


@pytest.mark.slow
def test_reports_follow_from_results_json_alone(results, tmp_path):
    write_all(results, tmp_path / "a")
    again = RunResults.model_validate_json((tmp_path / "a" / "results.json").read_text("utf-8"))
    write_all(again, tmp_path / "b")
    for name in NAMES:
        first, second = ((tmp_path / folder / name).read_bytes() for folder in ("a", "b"))
        assert first == second, name


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "report.md"
    path.write_text("old")

    def fail(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(report.os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        report.write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_told_with_its_target_and_how_to_cure_it(tmp_path):
    (tmp_path / "there").write_text("old")
    (tmp_path / "link").symlink_to("there")
    with pytest.raises(VnetperfError) as refused:
        report.write_atomically(tmp_path / "link", "new")
    assert refused.value.where == str(tmp_path / "link")
    assert "link to there" in refused.value.what
    assert str(tmp_path / "there") in refused.value.cure
    assert (tmp_path / "there").read_text() == "old"


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_no_report_is_written_where_one_cannot_be(results, tmp_path, kind):
    last = tmp_path / NAMES[-1]
    last.symlink_to("elsewhere") if kind == "link" else last.mkdir()
    with pytest.raises(VnetperfError, match=NAMES[-1]):
        write_all(results, tmp_path)
    assert list(tmp_path.iterdir()) == [last]


@pytest.mark.slow
@pytest.mark.parametrize("field", ["results", "trials", "scenarios", "ledger", "calibrations"])
def test_a_run_that_lacks_something_is_reported_all_the_same(results, tmp_path, field):
    assert write_all(results.model_copy(update={field: ()}), tmp_path)


def test_a_goal_without_any_bound_is_reported(results, tmp_path):
    first = results.results[0]
    goal = first.goals[0].model_copy(
        update={
            "lower_bound_fps": None,
            "conditional_throughput_fps": None,
            "throughput_l1_bps": None,
            "qualifier": "at most",
            "upper_bound_fps": 2000.0,
            "regular": False,
            "reason": "the minimum load failed",
            "per_direction": (),
            "latency": {},
        }
    )
    bare = goal.model_copy(update={"name": "pdr", "qualifier": "", "upper_bound_fps": None})
    changed = first.model_copy(update={"goals": (goal, bare), "media_max_fps": None})
    write_all(results.model_copy(update={"results": (changed,)}), tmp_path)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "at most 2.000 Mfps" not in page
    assert "at most 2.000 kfps" in page
    assert "no load met the goal" in page


def test_lists_of_numbers_are_short_and_text_stays_as_it_is(every):
    note = "a list [\n  1,\n  2\n] and [ 3, 4 ]"
    run = every.run.model_copy(update={"notes": note})
    said = report.results_json(every.model_copy(update={"run": run}))
    again = RunResults.model_validate_json(said)
    assert again.run.notes == note
    assert again.results == every.results
    curve = next(r.recovery for r in every.results if r.recovery).curves[0]
    assert f'"arrived": {list(curve.arrived)}' in said
