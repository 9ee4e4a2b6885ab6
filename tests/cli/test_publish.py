"""`vnetperf publish` as a user types it."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from tests.report.publish_server import serve
from tests.runner.support import Bench
from vnetperf import cli

TOKEN = "s3cret-t0ken"  # noqa: S105 - made up


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TESTAPI_TOKEN", raising=False)
    monkeypatch.delenv("BUILD_TAG", raising=False)
    folder = tmp_path / "run"
    folder.mkdir()
    bench = Bench(folder)
    bench.throughput(64, "pvp_dpdk")
    bench.run.close()
    return folder


def test_openmetrics_into_a_file_and_to_the_terminal(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = run.parent / "vnetperf.prom"
    assert cli.main(["publish", str(run), "--openmetrics", str(file)]) == 0
    assert 'vnetperf_throughput_fps{scenario="pvp_dpdk"' in file.read_text()
    capsys.readouterr()
    assert cli.main(["publish", str(run), "--openmetrics", "-"]) == 0
    assert capsys.readouterr().out == file.read_text()


def test_results_are_posted_with_the_token_of_the_environment(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TESTAPI_TOKEN", TOKEN)
    monkeypatch.setenv("BUILD_TAG", "daily-7")
    with serve() as api:
        assert cli.main(["publish", str(run), "--testapi", api.url, "--pod", "pod1"]) == 0
    [document] = api.documents
    assert document["case_name"] == "pvp_dpdk_throughput"
    assert (document["pod_name"], document["build_tag"]) == ("pod1", "daily-7")
    assert document["details"]["frame_sizes"]["64"]["goals"]["ndr"]["lower_bound_fps"] > 0
    assert TOKEN in str(api.requests)
    told = capsys.readouterr()
    assert TOKEN not in told.out + told.err


def test_a_token_in_a_file_that_others_cannot_read(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = run.parent / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o644)
    with serve() as api:
        options = ["publish", str(run), "--testapi", api.url, "--token-file", str(file)]
        assert cli.main(options) == 1
        assert "chmod 600" in capsys.readouterr().err
        assert api.requests == []
        file.chmod(0o600)
        assert cli.main(options) == 0
    assert api.requests[0][2]["X-Auth-Token"] == TOKEN


def test_a_token_comes_through_a_pipe(run: Path) -> None:
    """As of `--token-file <(pass show token)`."""
    pipe = run.parent / "token"
    os.mkfifo(pipe, 0o600)
    writer = threading.Thread(target=pipe.write_text, args=(f"{TOKEN}\n",))
    writer.start()
    with serve() as api:
        assert cli.main(["publish", str(run), "--testapi", api.url, "--token-file", str(pipe)]) == 0
    writer.join()
    assert api.requests[0][2]["X-Auth-Token"] == TOKEN


@pytest.mark.parametrize(("content", "says"), [(None, "cannot be read"), ("\n", "empty")])
def test_a_token_file_without_a_token(
    run: Path, content: str | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = run.parent / "token"
    if content is not None:
        file.write_text(content)
        file.chmod(0o600)
    options = ["--testapi", "http://127.0.0.1:9/x", "--token-file", str(file)]
    assert cli.main(["publish", str(run), *options]) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("name", ["token", "to\0ken"])
def test_a_token_that_is_no_text_is_one_message(
    name: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run.parent / "token").write_bytes(b"\xff\xfe\x00")
    (run.parent / "token").chmod(0o600)
    typed = ["publish", str(run), "--testapi", "http://127.0.0.1:1", "--token-file"]
    assert cli.main([*typed, str(run.parent / name)]) == 1
    assert "the token cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["device", "pipe", "link", "folder"])
def test_what_is_no_file_is_not_replaced_by_one(
    kind: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = run.parent / "there"
    if kind == "device":  # as /dev/full; a test that is not root makes none
        try:
            os.mknod(there, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        except PermissionError:
            pytest.skip("making a device takes root")
    elif kind == "pipe":
        os.mkfifo(there)
    elif kind == "link":
        there.symlink_to("/proc/self/fd/1")
    else:
        there.mkdir()
    before = there.lstat()
    assert cli.main(["publish", str(run), "--openmetrics", str(there)]) == 1
    what = "a link to /proc/self/fd/1" if kind == "link" else "no regular file"
    assert f"{there}: it is {what}" in capsys.readouterr().err
    assert there.lstat() == before
    assert sorted(path.name for path in run.parent.iterdir()) == ["run", "there"]


@pytest.mark.parametrize("seconds", ["nan", "inf", "0", "-1"])
def test_a_time_that_is_none_is_one_message(
    seconds: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = ["publish", str(run), "--testapi", "http://127.0.0.1:1", "--tries", "1"]
    assert cli.main([*typed, "--timeout", seconds]) == 1
    assert "--timeout" in capsys.readouterr().err


def test_the_file_that_is_named_is_the_log_that_is_read(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "mine.jsonl").write_bytes((run / "trials.jsonl").read_bytes())
    (run / "trials.jsonl").unlink()
    assert cli.main(["publish", str(run / "mine.jsonl"), "--openmetrics", "-"]) == 0
    assert "vnetperf_throughput_fps" in capsys.readouterr().out


def test_nothing_asked_for_and_a_run_that_is_not_there(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["publish", str(run)]) == 1
    assert "--openmetrics FILE" in capsys.readouterr().err
    assert cli.main(["publish", str(run / "none"), "--openmetrics", "-"]) == 1
    assert "no such run" in capsys.readouterr().err


def test_there_is_no_option_for_the_token_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["publish", "--help"])
    assert "--token " not in capsys.readouterr().out


def test_an_endpoint_that_refuses_is_one_message(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve() as api:
        api.answers, api.said = [400], "pod not found"
        assert cli.main(["publish", str(run), "--testapi", api.url]) == 1
    told = capsys.readouterr().err
    assert "400 (Bad Request): pod not found" in told
    assert "Traceback" not in told
