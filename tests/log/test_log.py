"""The log is the result: what is cut, damaged or continued still says what was measured."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
import lzma
import math
import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import EXAMPLES
from tests.fakes.agent import FakeAgent
from tests.runner.support import (
    NDR,
    PDR,
    PRESET,
    Bench,
    configuration,
    deployments_of,
    numbered_by_test,
)
from vnetperf.analysis import logged_tests
from vnetperf.analysis.results_from_log import derive
from vnetperf.analysis.runs import find_run
from vnetperf.cli.redact import redact
from vnetperf.host.log import RunLog
from vnetperf.log.folder import read_run
from vnetperf.log.records import (
    LOG_VERSION,
    EndRecord,
    EnvironmentRecord,
    NotMeasuredRecord,
    Record,
    RunRecord,
    SearchEndRecord,
    SearchRecord,
    TrialRecord,
)
from vnetperf.log.trial_log import (
    LOG_NAME,
    TrialLog,
    encode_records,
    iter_log,
    read_log,
    seal,
    unseal,
)
from vnetperf.model.errors import ConfigError, LogError, VnetperfError
from vnetperf.model.result import RunResults
from vnetperf.report import results_json
from vnetperf.runner import run as run_module
from vnetperf.testing.sim import SimulatedDut

PRESETS = {
    "mlr": PRESET,
    # Many trials: one search after the other, each from scratch.
    "binary": PRESET.model_copy(update={"algorithm": "binary", "goals": (NDR, PDR)}),
}


def agent() -> FakeAgent:
    """Deterministic whenever it is asked: no noise, no memory."""
    return FakeAgent(duts=(SimulatedDut(640e3), SimulatedDut(610e3)))


def measure(folder: Path, preset: str) -> Bench:
    bench = Bench(folder, agent(), configuration(PRESETS[preset]))
    for size in (64, 1518):
        bench.throughput(size)
    bench.run.close()
    return bench


@pytest.fixture(scope="module", params=list(PRESETS))
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """An uninterrupted run of two cases."""
    return measure(tmp_path_factory.mktemp("whole"), request.param)


def cut(whole: Bench, folder: Path, content: bytes) -> Path:
    path = folder / LOG_NAME
    path.write_bytes(content)
    (folder / "calibrations").mkdir(exist_ok=True)
    for stored in (whole.path.parent / "calibrations").iterdir():
        (folder / "calibrations" / stored.name).write_bytes(stored.read_bytes())
    return path


def numbers(results: RunResults) -> list[object]:
    """What must not depend on whether a run was interrupted."""
    return [r.model_copy(update={"wall_seconds": 0.0}) for r in results.results]


# --- reading ---------------------------------------------------------------------------------


def test_every_line_is_a_record_and_comes_back_as_it_was_written(whole: Bench) -> None:
    lines = whole.path.read_text().splitlines()
    assert [line.decode().rstrip("\n") for line in encode_records(read_log(whole.path))] == lines


def test_octets_that_are_no_utf8_end_no_run(tmp_path: Path) -> None:
    """A terminal of another character set, a variable or file name of a shell's."""
    bench = Bench(tmp_path, settings=configuration(notes="caf\udce9"))
    bench.throughput()
    bench.run.close()
    results = bench.derived()
    assert results.run.notes == r"caf\xe9"
    assert r"caf\\xe9" in results_json(results)
    odd = EnvironmentRecord(facts={"LANG": "\udcff", "of": {"\udcfe": [math.nan, 1.5, "é"]}})
    (line,) = encode_records([odd])
    assert json.loads(unseal(line)[0])["facts"] == {
        "LANG": r"\xff",
        "of": {r"\xfe": [None, 1.5, "é"]},
    }


@pytest.mark.slow
def test_a_log_cut_after_any_line_still_gives_results_and_says_so(
    whole: Bench, tmp_path: Path
) -> None:
    lines = whole.path.read_bytes().splitlines(keepends=True)
    complete = whole.derived()
    path = tmp_path / LOG_NAME
    finished = 0
    for count in range(1, len(lines)):
        path.write_bytes(b"".join(lines[:count]))
        derived = derive(read_log(path))
        assert any("interrupted" in w for w in derived.warnings)
        assert len(derived.trials) <= len(complete.trials)
        for found in derived.results:
            final = next(r for r in complete.results if r.frame_size == found.frame_size)
            if found.status != "measured":
                assert "interrupted" in found.why
                continue
            for then, now in zip(final.goals, found.goals, strict=True):
                if now.regular:
                    finished += 1
                    assert (now.lower_bound_fps, now.upper_bound_fps) == (
                        *(then.lower_bound_fps, then.upper_bound_fps),
                    )
                else:
                    assert "interrupted" in now.reason
    assert finished  # a size that was done before the cut keeps its bounds


def make_link(path: Path) -> None:
    path.with_name("precious").write_bytes(b"")
    path.symlink_to(path.with_name("precious"))


def make_dangling_link(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize("make", [make_link, make_dangling_link, os.mkfifo, Path.mkdir])
@pytest.mark.parametrize(
    "use",
    [
        TrialLog,
        read_log,
        lambda log: read_run(log.parent),
        lambda log: redact(log.parent, log.parent / "copy", [], []),
        lambda log: RunLog(log.with_name("run.log")),
    ],
    ids=["write", "read", "read run", "redact", "run.log"],
)
def test_a_log_is_a_regular_file_and_nothing_is_waited_for(
    tmp_path: Path, make: Callable[[Path], object], use: Callable[[Path], object]
) -> None:
    for name in (LOG_NAME, "run.log"):
        with contextlib.suppress(FileExistsError):
            make(tmp_path / name)
    make(tmp_path / "trials-gw0.jsonl")
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises((VnetperfError, OSError)):
        use(tmp_path / LOG_NAME)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (tmp_path / "precious").exists() is (make is make_link)


def test_a_name_that_is_no_utf8_is_recorded_with_its_octets(tmp_path: Path) -> None:
    name = os.fsdecode(b"r\xff-\xc3\xa9")
    settings = configuration(PRESET)
    settings = replace(settings, settings=settings.settings.model_copy(update={"notes": name}))
    bench = Bench(tmp_path, agent(), settings)
    bench.throughput()
    bench.run.close()
    results = derive(read_run(tmp_path))
    assert results.results
    accented = "\N{LATIN SMALL LETTER E WITH ACUTE}"
    assert results.run.notes == f"r\\xff-{accented}"


def test_a_log_without_its_first_line_has_no_results(tmp_path: Path) -> None:
    (tmp_path / LOG_NAME).write_bytes(b"")
    with pytest.raises(LogError, match="no run record"):
        derive(read_log(tmp_path / LOG_NAME))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1))
def test_a_log_cut_at_any_octet_loses_that_line_only(
    whole: Bench, tmp_path: Path, share: float
) -> None:
    content = whole.path.read_bytes()
    kept = content[: int(len(content) * share)]
    path = tmp_path / LOG_NAME
    path.write_bytes(kept)
    # A line that lacks nothing but its end is whole.
    torn = kept.rpartition(b"\n")[2]
    missing = content[len(kept) :].startswith(b"\n")
    assert len(read_log(path)) == kept.count(b"\n") + bool(torn and missing)


def damaged(whole: Bench, tmp_path: Path, change: Callable[[list[bytes]], None]) -> LogError:
    lines = whole.path.read_bytes().splitlines(keepends=True)
    change(lines)
    path = tmp_path / LOG_NAME
    path.write_bytes(b"".join(lines))
    with pytest.raises(LogError) as caught:
        derive(read_log(path))
    return caught.value


@pytest.mark.parametrize(
    "line", [b"garbage\n", b'{"type": "tri\n', b"null\n", b"[]\n", b'{"type":"x"}\n', b"\xff\xfe\n"]
)
def test_damage_in_the_middle_is_told_with_its_line(
    whole: Bench, tmp_path: Path, line: bytes
) -> None:
    def change(lines: list[bytes]) -> None:
        lines[3] = line

    error = damaged(whole, tmp_path, change)
    assert error.where.endswith(f"{LOG_NAME}:4")
    assert error.cure


def test_a_record_with_an_impossible_value_is_damage(whole: Bench, tmp_path: Path) -> None:
    def change(lines: list[bytes]) -> None:
        record = json.loads(lines[0])
        record["preset"]["goals"][0]["loss_ratio"] = 7
        lines[0] = json.dumps(record).encode() + b"\n"

    assert damaged(whole, tmp_path, change).where.endswith(":1")


@pytest.mark.parametrize("version", [0, 99])
def test_a_log_of_another_version_is_refused_with_a_cure(
    whole: Bench, tmp_path: Path, version: int
) -> None:
    def change(lines: list[bytes]) -> None:
        record = json.loads(lines[0])
        record |= {"version": version, "a field that this version does not have": 1}
        lines[0] = json.dumps(record).encode() + b"\n"

    error = damaged(whole, tmp_path, change)
    assert f"log version is {version}" in error.what
    assert error.accepted == f"log version {LOG_VERSION}"
    assert error.where.endswith(":1")
    assert error.cure


@pytest.mark.parametrize(
    ("change", "newer"),
    [
        ({"type": "of the future"}, True),
        ({"field of the future": 1}, True),
        ({"search": "x"}, False),
    ],
)
def test_a_record_that_only_a_newer_version_knows_names_that_cause(
    whole: Bench, tmp_path: Path, change: dict[str, Any], newer: bool
) -> None:
    lines = whole.path.read_bytes().splitlines()
    index = next(i for i, line in enumerate(lines) if b'"type":"search"' in line)
    record = json.loads(unseal(lines[index])[0]) | change
    before = unseal(lines[index - 1])[1]
    lines[index] = seal(json.dumps(record).encode(), before)[0]
    path = tmp_path / LOG_NAME
    path.write_bytes(b"\n".join([*lines, b""]))
    with pytest.raises(LogError, match="no record") as caught:
        read_log(path)
    assert ("may be newer" in caught.value.cure) is newer


def resealed(lines: list[bytes]) -> list[bytes]:
    """Lines with checksums that fit, as whoever puts a log together by hand could make them."""
    digest, sealed = "", []
    for line in lines:
        whole_line, digest = seal(unseal(line.rstrip(b"\n"))[0], digest)
        sealed.append(whole_line + b"\n")
    return sealed


def edit(line: bytes) -> bytes:
    """Make a trial look better, as a hand would: the digest stays."""
    changed = re.sub(rb'"received":\d+', b'"received":123456', line, count=1)
    assert changed != line
    return changed


def test_a_number_edited_by_hand_is_said_with_its_trial(whole: Bench, tmp_path: Path) -> None:
    lines = whole.path.read_bytes().splitlines()
    trials = [n for n, line in enumerate(lines) if line.startswith(b'{"type":"trial"')]
    for nth in (0, 1, -1):

        def change(lines: list[bytes], at: int = trials[nth]) -> None:
            lines[at] = edit(lines[at])

        error = damaged(whole, tmp_path, change)
        assert "is not as it was written" in error.what
        assert error.where.endswith(f":{trials[nth] + 1}")
        assert error.what.startswith("trial ")


def test_a_last_line_edited_and_left_without_its_end_is_said(whole: Bench, tmp_path: Path) -> None:
    def change(lines: list[bytes]) -> None:
        lines[-1] = lines[-1].replace(b'"exit_status":0', b'"exit_status":1').rstrip(b"\n")

    assert "is not as it was written" in damaged(whole, tmp_path, change).what


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_octet_can_be_changed_unnoticed(
    whole: Bench, tmp_path: Path, data: st.DataObject
) -> None:
    content = bytearray(whole.path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 2))
    content[place] ^= data.draw(st.integers(1, 255))
    path = tmp_path / LOG_NAME
    path.write_bytes(content)
    with pytest.raises(LogError):
        read_log(path)


@pytest.mark.parametrize("how", ["taken away", "put in", "moved"])
def test_lines_that_were_taken_away_put_in_or_moved_are_noticed(
    whole: Bench, tmp_path: Path, how: str
) -> None:
    def change(lines: list[bytes]) -> None:
        at = [n for n, line in enumerate(lines) if b'"type":"trial"' in line][1]
        if how == "taken away":
            del lines[at]
        elif how == "put in":
            lines.insert(at, lines[at])
        else:
            lines[at - 1], lines[at] = lines[at], lines[at - 1]

    assert "is not as it was written" in damaged(whole, tmp_path, change).what


@pytest.mark.parametrize(
    ("convert", "cause"),
    [
        (lambda log: log.replace(b"\n", b"\r\n"), "CR LF"),
        (lambda log: log.replace(b"\n", b"\r\n", 5).replace(b"\r\n", b"\n", 4), "CR LF"),
        (lambda log: b"\xef\xbb\xbf" + log, "byte order mark"),
        (lambda log: log.decode().encode("utf-16"), "UTF-16"),
        (gzip.compress, "gzip"),
        (lzma.compress, "xz"),
        (bz2.compress, "bzip2"),
        (lambda _: b"\x04\x22\x4d\x18" + bytes(9), "lz4"),
        (lambda _: b"PK\x03\x04" + bytes(9), "zip"),
        (lambda log: b"trials.jsonl".ljust(257, b"\0") + b"ustar\0" + bytes(249) + log, "tar"),
        (lambda _: b"version https://git-lfs.github.com/spec/v1\nsize 5\n", "Git LFS"),
        (lambda log: log.replace(b"\n", b"\n<<<<<<< HEAD\n", 1), "two versions"),
        (lambda _: b"<!DOCTYPE html><title>Log in</title>", "web server"),
        (lambda log: log.replace(b"\n", b"\n" + bytes(512), 1), "loss of power"),
    ],
)
def test_a_log_in_another_form_is_refused_with_the_cause(
    convert: Callable[[bytes], bytes], cause: str, whole: Bench, tmp_path: Path
) -> None:
    log = tmp_path / LOG_NAME
    log.write_bytes(convert(whole.path.read_bytes()))
    with pytest.raises(LogError) as refused:
        read_log(log)
    assert cause in refused.value.what
    assert "edited" not in str(refused.value)
    assert refused.value.cure


@pytest.mark.parametrize("line", [b"[" * 5000, b"trial 1 passed", b"\xff\xff", b" "])
def test_a_file_that_never_was_a_log_is_not_taken_for_one_that_was_cut(
    line: bytes, tmp_path: Path
) -> None:
    """A record that was cut begins as one; after a loss of power zeros may be in its place."""
    log = tmp_path / LOG_NAME
    log.write_bytes(line)
    with pytest.raises(LogError, match="no record"):
        read_log(log)


def test_a_log_that_power_took_before_its_first_record_is_empty(tmp_path: Path) -> None:
    log = tmp_path / LOG_NAME
    log.write_bytes(bytes(4096))
    assert read_log(log) == []


@pytest.mark.parametrize("end", ["gz", "xz", "zst", "lz4", "zip", "7z"])
def test_a_folder_with_a_compressed_log_says_so(end: str, tmp_path: Path) -> None:
    (tmp_path / f"{LOG_NAME}.{end}").write_bytes(b"x")
    with pytest.raises(LogError, match="compressed") as refused:
        find_run(str(tmp_path))
    assert refused.value.where.endswith(f".{end}")


def test_checksums_cannot_be_left_out(whole: Bench, tmp_path: Path) -> None:
    def change(lines: list[bytes]) -> None:
        lines[:] = [unseal(line.rstrip(b"\n"))[0] + b"\n" for line in lines]

    assert "is not as it was written" in damaged(whole, tmp_path, change).what


def test_an_edited_log_is_not_continued(whole: Bench, tmp_path: Path) -> None:
    lines = whole.path.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"type":"trial"' in line)
    cut(whole, tmp_path, b"".join([*lines[:at], edit(lines[at])]))
    with pytest.raises(LogError, match="not as it was written"):
        Bench(tmp_path, agent(), whole.configuration)


def test_trials_whose_search_was_cut_out_are_noticed(whole: Bench, tmp_path: Path) -> None:
    def change(lines: list[bytes]) -> None:
        del lines[next(n for n, line in enumerate(lines) if b'"type":"search"' in line)]
        lines[:] = resealed(lines)

    assert "no beginning" in str(damaged(whole, tmp_path, change))


def test_no_log_names_what_is_looked_for(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"trials\.jsonl") as caught:
        read_log(tmp_path / "nothing")
    assert "results folder" in caught.value.cure


# --- continuing ------------------------------------------------------------------------------


def resumed(whole: Bench, folder: Path, content: bytes) -> Bench:
    cut(whole, folder, content)
    bench = Bench(folder, agent(), whole.configuration)
    for size in (64, 1518):
        bench.throughput(size)
    bench.run.close()
    return bench


def check_resumed(whole: Bench, bench: Bench, content: bytes) -> None:
    """As if it had not been cut, and no test has trials of two deployments."""
    derived = bench.derived()
    then = numbered_by_test(whole.derived().results, whole.path)
    assert numbered_by_test(derived.results, bench.path) == then
    assert not any("interrupted" in w for w in derived.warnings)
    tests = logged_tests.group_tests(read_log(bench.path))
    assert all(len(of) <= 1 for of in deployments_of(bench.path).values())
    numbers = [trial.number for test in tests for trial in test.trials]
    assert numbers == list(range(1, len(numbers) + 1))
    # Only a test that lacks trials is measured again.
    held, wanted = trials_of_tests(content), trials_of_tests(whole.path.read_bytes())
    anew = sum(count for test, count in wanted.items() if held[test] < count)
    assert len(bench.agent.trials) == anew


def trials_of_tests(content: bytes) -> Counter[int]:
    count: Counter[int] = Counter()
    for line in content.splitlines():
        with contextlib.suppress(ValueError):  # cut
            record = json.loads(line)
            if record["type"] == "trial":
                count[record["search"]] += 1
    return count


@pytest.mark.slow
def test_a_run_cut_after_any_line_ends_as_if_it_had_not_been(whole: Bench, tmp_path: Path) -> None:
    lines = whole.path.read_bytes().splitlines(keepends=True)
    # Each merge tries every seventh line, the daily lane all of them.
    for count in range(1, len(lines), 1 if EXAMPLES >= 100 else 7):
        folder = tmp_path / str(count)
        folder.mkdir()
        content = b"".join(lines[:count])
        check_resumed(whole, resumed(whole, folder, content), content)


@pytest.mark.slow
@pytest.mark.parametrize("back", [1, 2, 40])
def test_a_run_cut_in_the_middle_of_a_line_ends_as_if_it_had_not_been(
    whole: Bench, tmp_path: Path, back: int
) -> None:
    lines = whole.path.read_bytes().splitlines(keepends=True)
    for kind in (b'"trial"', b'"search-end"', b'"search"'):
        at = [n for n, line in enumerate(lines) if line.startswith(b'{"type":' + kind)][1]
        folder = tmp_path / kind.decode().strip('"')
        folder.mkdir()
        content = b"".join(lines[: at + 1])[:-back]
        check_resumed(whole, resumed(whole, folder, content), content)


def test_a_finished_run_measures_nothing_again(whole: Bench, tmp_path: Path) -> None:
    bench = resumed(whole, tmp_path, whole.path.read_bytes())
    assert bench.agent.trials == []
    assert not [c for c in bench.agent.calls if c.startswith("deploy")]
    assert numbers(bench.derived()) == numbers(whole.derived())


def test_more_frame_sizes_can_be_added_to_a_run(whole: Bench, tmp_path: Path) -> None:
    cut(whole, tmp_path, whole.path.read_bytes())
    preset = whole.configuration.preset.model_copy(update={"frame_sizes": (64, 512)})
    bench = Bench(tmp_path, agent(), replace(whole.configuration, preset=preset))
    bench.throughput(512)
    bench.run.close()
    assert [r.frame_size for r in bench.derived().results] == [64, 512, 1518]


@pytest.mark.parametrize(
    "changes",
    [
        {"preset": PRESET.model_copy(update={"min_load_fps": 2000.0})},
        {"preset": PRESET.model_copy(update={"goals": (replace(NDR, width=0.5),)})},
        {"traffic": "multi-flow"},
        {"vnf_mode": "macswap"},
        {"wire": "veth"},
        {"vnfs": 3},
    ],
)
def test_trials_of_different_runs_are_not_mixed(tmp_path: Path, changes: dict[str, Any]) -> None:
    whole = measure(tmp_path, "mlr")
    with pytest.raises(ConfigError, match="must not be mixed") as caught:
        Bench(tmp_path, agent(), configuration(**changes))
    assert "--resume" in caught.value.cure
    assert whole.derived().results  # the refusal has not touched the log


def test_a_log_of_another_commit_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure(tmp_path, "mlr")
    monkeypatch.setattr(run_module, "compute_fingerprint", lambda _: "of other things, no option")
    monkeypatch.setattr(run_module, "git_commit", lambda: "abcdef")
    with pytest.raises(ConfigError, match="another commit of vnetperf"):
        Bench(tmp_path, agent(), configuration(PRESETS["mlr"]))


def test_the_wait_for_a_testbed_is_no_difference(tmp_path: Path) -> None:
    first = configuration(PRESETS["mlr"])
    bench = Bench(tmp_path, agent(), first)
    bench.throughput()
    bench.run.close()
    testbed = first.testbed.model_copy(update={"lock_timeout_s": 86400.0})
    assert Bench(tmp_path, agent(), replace(first, testbed=testbed)).run.resumed.tests


def test_a_case_that_failed_is_measured_when_the_run_is_resumed(tmp_path: Path) -> None:
    failing = agent()
    failing.fail_deploy = "no hugepages"
    first = Bench(tmp_path, failing, configuration())
    with pytest.raises(Exception, match="no hugepages"):
        first.throughput()
    first.run.close(1)
    assert first.derived().results[0].status == "not measured"
    second = Bench(tmp_path, agent(), configuration())
    second.throughput()
    second.run.close()
    (result,) = second.derived().results
    assert result.status == "measured"
    assert second.derived().scenarios[0].error == ""


def test_the_log_is_private(whole: Bench) -> None:
    assert whole.path.stat().st_mode & 0o077 == 0


def test_numbers_go_on_where_a_log_ended(whole: Bench, tmp_path: Path) -> None:
    path = cut(whole, tmp_path, whole.path.read_bytes())
    held = Counter(type(r) for r in iter_log(path))
    log = TrialLog(path)
    assert log.next_trial() == held[TrialRecord] + 1
    assert log.next_search() == held[SearchRecord] + 1
    log.close()
    log.close()  # idempotent


def test_records_are_told_apart_by_type(whole: Bench) -> None:
    kinds = [type(r) for r in read_log(whole.path)]
    assert kinds[0] is RunRecord
    assert kinds[-1] is EndRecord
    assert kinds.count(SearchRecord) == kinds.count(SearchEndRecord) == 2
    assert NotMeasuredRecord not in kinds


def test_overhead_is_accounted(whole: Bench) -> None:
    records: list[Record] = read_log(whole.path)
    end = records[-1]
    assert isinstance(end, EndRecord)
    seconds = sum(r.spec.duration_s for r in records if isinstance(r, TrialRecord))
    assert end.overhead["trial"] == pytest.approx(seconds)


def test_a_log_is_read_record_by_record(whole: Bench, tmp_path: Path) -> None:
    """What comes later is not looked at, and of trials that are kept nothing is in memory."""
    lines = whole.path.read_bytes().splitlines(keepends=True)
    path = tmp_path / "damaged.jsonl"
    path.write_bytes(b"".join([*lines[:-1], b"{\n", lines[-1]]))
    found = iter_log(path)
    before = [next(found) for _ in lines[:-1]]
    assert before == read_log(whole.path)[:-1]
    trials = [record for record in read_log(whole.path) if isinstance(record, TrialRecord)]
    assert trials
    assert not any({"spec", "result"} & vars(trial).keys() for trial in trials)
    with pytest.raises(LogError):
        next(found)
