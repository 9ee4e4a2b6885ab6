from __future__ import annotations

from pathlib import Path

import pytest

from tests.runner.support import Bench
from vnetperf.analysis.results_from_log import derive
from vnetperf.log.folder import (
    log_path,
    merge_worker_logs,
    new_folder,
    point_latest,
    read_run,
)
from vnetperf.log.records import SearchRecord, TrialRecord
from vnetperf.log.trial_log import LOG_NAME, read_log
from vnetperf.model.errors import LogError


def test_each_run_has_a_private_folder_and_latest_is_the_newest_that_deployed(
    tmp_path: Path,
) -> None:
    results = tmp_path / "deep" / "results"
    folders = [new_folder(results) for _ in range(3)]
    assert len(set(folders)) == 3
    assert all(f.stat().st_mode & 0o777 == 0o700 for f in folders)
    assert (results / "latest").resolve() == folders[0], "there was no other"
    point_latest(folders[2])
    assert (results / "latest").resolve() == folders[2]
    new_folder(results)
    assert (results / "latest").resolve() == folders[2]
    assert not (results / "latest").readlink().is_absolute()  # results can be moved


def test_a_folder_that_cannot_be_made_names_the_option(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogError) as caught:
        new_folder(tmp_path / "file" / "results")
    assert "--results-dir" in str(caught.value)


def workers(folder: Path) -> list[Bench]:
    """Two workers, each with two cases of its own scenario."""
    done = []
    for worker, scenario in (("gw0", "phy2phy_dpdk"), ("gw1", "pvp_dpdk")):
        bench = Bench(folder, name=log_path(folder, worker).name)
        for size in (64, 1518):
            bench.throughput(size, scenario)
        bench.run.close()
        done.append(bench)
    return done


def test_logs_of_workers_become_one_with_unique_numbers(tmp_path: Path) -> None:
    alone = [r for bench in workers(tmp_path) for r in bench.derived().results]
    merge_worker_logs(tmp_path)
    assert sorted(p.name for p in tmp_path.glob("*.jsonl")) == [LOG_NAME]
    records = read_log(tmp_path / LOG_NAME)
    trials = [r.number for r in records if isinstance(r, TrialRecord)]
    assert trials == list(range(1, len(trials) + 1))
    assert [r.search for r in records if isinstance(r, SearchRecord)] == [1, 2, 3, 4]
    merged = derive(records)
    assert not any("interrupted" in w for w in merged.warnings)
    assert [(r.scenario, r.frame_size) for r in merged.results] == [
        ("phy2phy_dpdk", 64),
        ("phy2phy_dpdk", 1518),
        ("pvp_dpdk", 64),
        ("pvp_dpdk", 1518),
    ]
    bounds = [[(g.lower_bound_fps, g.upper_bound_fps) for g in r.goals] for r in merged.results]
    assert bounds == [[(g.lower_bound_fps, g.upper_bound_fps) for g in r.goals] for r in alone]
    for result in merged.results:
        for goal in result.goals:
            for number in goal.trials_at_lower_bound:
                trial = merged.trials[number - 1]
                assert (trial.number, trial.scenario) == (number, result.scenario)


def test_merging_again_changes_nothing(tmp_path: Path) -> None:
    workers(tmp_path)
    merge_worker_logs(tmp_path)
    before = (tmp_path / LOG_NAME).read_bytes()
    merge_worker_logs(tmp_path)
    assert (tmp_path / LOG_NAME).read_bytes() == before


def test_a_merge_that_was_killed_before_its_end_doubles_nothing(tmp_path: Path) -> None:
    held = [bench.path for bench in workers(tmp_path)]
    contents = [path.read_bytes() for path in held]
    merge_worker_logs(tmp_path)
    before = derive(read_log(tmp_path / LOG_NAME))
    held[1].write_bytes(contents[1])  # killed between the two removals
    assert derive(read_run(tmp_path)) == before
    merge_worker_logs(tmp_path)
    assert derive(read_log(tmp_path / LOG_NAME)) == before
    assert sorted(p.name for p in tmp_path.glob("*.jsonl")) == [LOG_NAME]


def test_the_log_of_a_worker_that_died_is_merged_without_its_torn_line(tmp_path: Path) -> None:
    _, second = workers(tmp_path)
    content = second.path.read_bytes()
    second.path.write_bytes(content[: len(content) * 2 // 3])
    merge_worker_logs(tmp_path)
    merged = derive(read_log(tmp_path / LOG_NAME))
    assert any("interrupted" in w for w in merged.warnings)
    assert {r.scenario for r in merged.results} == {"phy2phy_dpdk", "pvp_dpdk"}


def test_a_first_worker_that_died_is_told_too(tmp_path: Path) -> None:
    first, _ = workers(tmp_path)
    content = first.path.read_bytes()
    first.path.write_bytes(content[: len(content) // 2])
    merge_worker_logs(tmp_path)
    merged = derive(read_log(tmp_path / LOG_NAME))
    assert any("interrupted" in w for w in merged.warnings)


def test_merging_into_a_log_that_was_cut_does_not_glue_lines_together(tmp_path: Path) -> None:
    whole = Bench(tmp_path)
    whole.throughput(64, "phy2phy_dpdk")
    content = whole.path.read_bytes()
    whole.path.write_bytes(content[:-5])
    workers(tmp_path)
    merge_worker_logs(tmp_path)
    assert derive(read_log(tmp_path / LOG_NAME)).results
