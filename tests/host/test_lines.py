"""How far processors are apart, measured, and how they are brought together."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vnetperf.host import lines
from vnetperf.host.build import compiled
from vnetperf.host.cpu import read_topology
from vnetperf.host.linux import is_stopped

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


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two processors")
def test_processors_wake_each_other_until_they_are_near_enough_or_the_time_is_over(
    program: Path,
) -> None:
    cpus = [str(cpu) for cpu in CPUS[:2]]

    def ask(enough_ns: str, most_ms: str) -> tuple[float, float]:
        began = time.monotonic()
        argv = [str(program), *cpus, enough_ns, most_ms]
        for _ in range(20):  # busy processors may not answer in time
            done = subprocess.run(argv, capture_output=True, timeout=10, check=False)
            if done.returncode == 0:
                return float(done.stdout), time.monotonic() - began
            began = time.monotonic()
        raise AssertionError("the processors never answered")

    near_ns, took_s = ask("1e9", "5000")
    assert 5 < near_ns < 1e6
    assert took_s < 2.5
    near_ns, took_s = ask("0.001", "200")
    assert 5 < near_ns < 1e6
    assert took_s >= 0.2


@pytest.fixture
def distances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A program that answers the given distances one by one, and writes down how it was asked.

    It adds the state of the process whose id stands in `poller`: T is stopped.
    """
    answers, asked, poller = tmp_path / "answers", tmp_path / "asked", tmp_path / "poller"
    script = tmp_path / "lines"
    script.write_text(
        "#!/bin/sh\n"
        f'look() {{ [ -e {poller} ] && cut -d" " -f3 /proc/$(cat {poller})/stat; }}\n'
        'state=$(look); while [ "$state" = R ]; do state=$(look); done\n'
        f'echo "$* $state" >> {asked}\n'
        f"head -n1 {answers}\n"
        f"sed -i 1d {answers}\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr(lines, "_program", lambda: script)
    monkeypatch.setattr(lines, "_pairs", {})

    def answer(text: str) -> None:
        answers.write_text(text.replace(" ", "\n") + "\n")

    return answer


@pytest.fixture
def poller(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that polls."""
    with subprocess.Popen(["sleep", "100"]) as process:
        (tmp_path / "poller").write_text(str(process.pid))
        yield process
        process.kill()


def test_far_processors_are_brought_together_while_their_pollers_stand_still(
    distances: Callable[[str], None], poller: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    distances("300 50 52 290 51")
    assert lines.bring_together(0, 1, [poller.pid]) > 0, "how near they can be is looked for"
    assert lines.bring_together(0, 1, [poller.pid]) == 0, "they are near"
    assert lines.bring_together(0, 1, [poller.pid]) > 0
    assert [line.split() for line in (tmp_path / "asked").read_text().splitlines()] == [
        ["0", "1", "S"],
        ["0", "1", "200.0", "1000", "T"],
        ["0", "1", "S"],
        ["0", "1", "S"],
        ["0", "1", "75.0", "2500", "T"],
    ]
    assert not is_stopped(poller.pid)


def test_pauses_between_attempts_that_fail_grow(
    distances: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock:
        now = 100.0

        def monotonic(self) -> float:
            return self.now

    clock = Clock()
    monkeypatch.setattr(lines, "time", clock)

    def attempt(at: float, answers: str, seconds: float = 1.0) -> bool:
        """Whether an attempt is made; it takes a second."""
        clock.now = at
        distances(answers)
        took = iter([at, at + seconds])
        monkeypatch.setattr(clock, "monotonic", lambda: next(took, at + seconds))
        return lines.bring_together(0, 1) > 0

    assert attempt(0, "50 50")  # the first one looks how near they can be
    assert attempt(10, "300 300"), "fails: a pause of 1 s until 12"
    assert not attempt(11.9, "300 300")
    assert attempt(12, "300 300"), "fails: a pause of 2 s until 15"
    assert not attempt(14.9, "300 300")
    assert attempt(15, "300 50")
    assert attempt(16.5, "300 300")  # fails after a success: a pause of 1 s until 18.5
    assert attempt(18.5, "300 300")


def test_a_poller_that_somebody_stopped_or_that_has_ended_is_left_alone(
    distances: Callable[[str], None], poller: subprocess.Popen[bytes]
) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    os.kill(poller.pid, signal.SIGSTOP)
    distances("300 50")
    assert lines.bring_together(0, 1, [poller.pid, gone.pid]) > 0
    assert is_stopped(poller.pid)


def test_a_program_without_an_answer_stops_nobody(
    distances: Callable[[str], None], poller: subprocess.Popen[bytes]
) -> None:
    distances("")
    assert lines.bring_together(0, 1, [poller.pid]) == 0
    assert not is_stopped(poller.pid)
