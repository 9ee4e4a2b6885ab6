"""Records of the agent reach the run's log and whatever handlers the user has."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vnetperf.host.log import ROOT, ForwardingHandler, RunLog, replay_record
from vnetperf.host.wait import wait_at_most, wait_for
from vnetperf.model.errors import DutError, HostError


@pytest.fixture
def run_log(tmp_path: Path) -> Iterator[RunLog]:
    made = RunLog(tmp_path / "run.log")
    yield made
    made.close()


def _lines(log: RunLog) -> list[str]:
    return log.path.read_text().splitlines()


def test_a_record_travels_as_plain_values(run_log: RunLog) -> None:
    sent: list[dict[str, Any]] = []
    handler = ForwardingHandler(sent.append)
    agent = logging.getLogger("vnetperf.agent.test")
    agent.addHandler(handler)
    agent.propagate = False
    try:
        agent.info("added port %s", "vnf0.0")
    finally:
        agent.removeHandler(handler)
        agent.propagate = True
    assert _lines(run_log) == []
    replay_record(json.loads(json.dumps(sent[0])))
    (line,) = _lines(run_log)
    assert line.startswith("20")
    assert line.split()[-4:] == ["vnetperf.agent.test:", "added", "port", "vnf0.0"]
    assert " INFO " in line


def test_a_controller_that_has_gone_stops_nothing() -> None:
    def gone(record: dict[str, Any]) -> None:
        raise OSError("cannot send")

    handler = ForwardingHandler(gone)
    handler.emit(logging.makeLogRecord({"msg": "undone", "name": "vnetperf.host"}))


def test_the_file_takes_everything_and_others_what_they_ask_for(
    run_log: RunLog, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for level, text in ((logging.DEBUG, "a wait"), (logging.INFO, "a command")):
            replay_record({"name": "vnetperf.test", "levelno": level, "msg": text})
    assert [record.message for record in caplog.records] == ["a command"]
    assert len(_lines(run_log)) == 2
    assert run_log.last_lines().strip() == "a command"
    for level, text in ((logging.ERROR, "undoing"), (logging.INFO, "undone")):
        replay_record({"name": "vnetperf.test", "levelno": level, "msg": text})
    assert run_log.last_lines().strip() == "a command"
    run_log.forget_lines()
    assert run_log.last_lines() == ""
    assert run_log.path.stat().st_mode & 0o777 == 0o600


def test_after_its_end_records_go_their_old_way(tmp_path: Path) -> None:
    first = RunLog(tmp_path / "first.log")
    second = RunLog(tmp_path / "second.log")
    logging.getLogger("vnetperf.test").info("x")
    assert not _lines(first)
    assert _lines(second)
    second.close()
    second.close()
    assert ROOT.level == logging.NOTSET
    assert not [handler for handler in ROOT.handlers if isinstance(handler, RunLog)]


def test_waiting_looks_once_more_after_the_deadline() -> None:
    values = iter([0, 7])
    assert wait_for(lambda: next(values), 0.2, "a value", poll_s=0.3) == 7


def test_what_does_not_come_is_an_error_of_the_caller() -> None:
    with pytest.raises(HostError, match="a port"):
        wait_for(lambda: False, 0.0, "a port")
    with pytest.raises(DutError, match="own"):
        wait_for(lambda: False, 0.0, "a port", error=lambda: DutError("its own words"))
    assert wait_at_most(lambda: 0, 0.0, "a port") == 0


def test_a_wait_ends_when_it_is_pointless(caplog: pytest.LogCaptureFixture) -> None:
    def dead() -> None:
        raise DutError("it has ended")

    with caplog.at_level(logging.DEBUG), pytest.raises(DutError, match="ended"):
        wait_for(lambda: False, 60.0, "a port", check=dead)
    assert "waiting for a port" in caplog.text
