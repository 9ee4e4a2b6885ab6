"""A log of another version becomes one of today's, record by record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.recorded.convert import Converter, converted
from tests.runner.support import Bench
from vnetperf.log.trial_log import read_log, unseal


def as_once(content: dict[str, Any]) -> dict[str, Any]:
    """A record with keys that it had, and without those that it did not have."""
    kind = content["type"]
    if kind == "run":
        content["version"] = 3
        content["testbed"]["tester_sleep_us"] = 0
        del content["cases"]
    elif kind == "search":
        content["limits"] |= {"confirm": None, "start_fps": 1000.0}
        del content["overhead"]
    elif kind == "trial":
        content["spec"]["visit"] = 1
        del content["spec"]["offered_tolerance"]
    elif kind == "scenario":
        del content["facts"]["plan"]["placement"]["dut"]
    return content


def test_a_log_of_another_version_becomes_what_is_written_today(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.throughput()
    bench.run.close()
    log = bench.path.read_bytes()
    lines = [as_once(json.loads(unseal(line)[0])) for line in log.splitlines()]
    (tmp_path / "new.jsonl").write_bytes(converted("\n".join(map(json.dumps, lines)).encode()))
    assert read_log(tmp_path / "new.jsonl") == read_log(bench.path)


def test_a_trial_that_tried_a_bound_again_is_one_like_any_other(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.throughput()
    line = next(x for x in bench.path.read_bytes().splitlines() if x.startswith(b'{"type":"trial"'))
    trial = json.loads(unseal(line)[0])
    trial["spec"]["phase"] = "confirm"
    record = Converter().record(json.dumps(trial))
    assert record.spec.phase == ""  # type: ignore[union-attr] - a trial's
