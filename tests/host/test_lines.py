"""How far processors are apart, measured; and what becomes of it where it cannot be."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from vnetperf.host import lines
from vnetperf.host.build import compiled
from vnetperf.host.cpu import read_topology

#: Also those that a run beside keeps free of these tests.
CPUS = [cpu.number for cpu in read_topology().allowed]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program, also where processors do not move."""
    made = compiled(lines.SOURCE, ["cc", *lines.FLAGS, "-Wall", "-Werror"], tmp_path, cure="")
    monkeypatch.setattr(lines, "_program", lambda: made)
    return made


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two processors")
def test_a_line_takes_some_time_between_two_processors(program: Path) -> None:
    found = [lines.line_ns(*CPUS[:2]) for _ in range(20)]  # busy processors may not answer in time
    known = [ns for ns in found if ns is not None]
    assert known
    assert all(5 < ns < 1e6 for ns in known)


@pytest.mark.parametrize("words", [(), ("0",), ("0", "99999"), ("x", "y", "z")])
def test_what_it_cannot_do_ends_at_once(program: Path, words: tuple[str, ...]) -> None:
    done = subprocess.run([program, *words], capture_output=True, timeout=10, check=False)
    assert done.returncode == 1
    assert not done.stdout


def test_one_processor_has_no_distance_and_a_missing_program_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "_program", lambda: Path("/nonexistent/lines"))
    assert lines.line_ns(0, 0) is None
    assert lines.line_ns(0, 1) is None
    monkeypatch.setattr(lines, "_program", lambda: None)
    assert lines.line_ns(0, 1) is None
