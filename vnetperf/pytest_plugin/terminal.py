"""Terminal output while cases run."""

from __future__ import annotations

import os
import re
import time
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from vnetperf.model.frames import l1_bits_per_frame
from vnetperf.model.profile import IMIX
from vnetperf.model.trial import LiveCounts, TrialSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vnetperf.log.records import BeginRecord, TrialRecord
    from vnetperf.model.result import Result

NOTHING = LiveCounts(elapsed_s=0.0, sent=0, refused=0, received=0)


class LiveProgress:
    """One status line that follows the search; replaced by plain lines when it is no terminal."""

    def __init__(self, terminal: Any, *, follows: bool) -> None:
        self.terminal = terminal
        self.rounds = 1  # Rounds of a throughput; of several each is shown
        self.follows = bool(follows)  # pytest has a kind of its own
        self._status: Any = None
        self._spinner: Any = None
        self._tty: Any = None
        self._columns = 80
        self._case: tuple[str, str, int] | None = None
        self._limit = ""
        self._again = ""
        self._trials = 0
        self._began = 0.0
        self._last = ""
        self._reported = ""
        self._trial = ""
        self._before = NOTHING

    def say(self, text: str) -> None:
        """Show what is being done now."""
        if self.follows:
            self._show(text)
        # There may be nothing to draw on; a wait is reported ten times a second.
        if not self.follows and text != self._reported:
            self.line(text)
        self._reported = text

    def line(self, text: str) -> None:
        """Print a line of its own, and not behind the dots of tests."""
        # pytest ends a line of dots itself where a file's name began it: not with -q.
        begun = getattr(getattr(self.terminal, "_tw", None), "width_of_current_line", 0)
        if begun and not getattr(self.terminal, "currentfspath", None):
            self.terminal.line("")
        self.terminal.write_line(f"vnetperf: {text}")

    def test_begins(self, test: BeginRecord) -> None:
        """A search or another test begins, or begins again with a smaller largest load."""
        if self._case != test.case:
            self._limit = test.limit_reason
        # The next round of a throughput is of the same case, and has the same limit as the first.
        again = self._case == test.case and test.limit_reason != self._limit
        self._again = (
            "again at lower loads, as the generator could offer no more; " if again else ""
        )
        self._case = test.case
        self._trials, self._began, self._last = 0, time.monotonic(), ""

    def round_ends(self, rounds: Sequence[Result]) -> None:
        """A search of a throughput has ended: show what it found, and that it is one sample."""
        if len(rounds) < 2 and self.rounds < 2:
            return
        from vnetperf.report.goal_text import headline  # imports slowly

        last = rounds[-1]
        # How it repeats is told of all of them, and not of one.
        goals = (goal.model_copy(update={"repeatable": None}) for goal in last.goals)
        headlines = ", ".join(f"{goal.name} {headline(goal)}" for goal in goals)
        # pytest captures what is written while a test runs.
        plugins = getattr(getattr(self.terminal, "config", None), "pluginmanager", None)
        capture = plugins.getplugin("capturemanager") if plugins is not None else None
        with capture.global_and_fixture_disabled() if capture is not None else nullcontext():
            self.line(f"{last.scenario} {last.size_name}: round {len(rounds)}: {headlines}")

    def trial_begins(self, test: BeginRecord, spec: TrialSpec) -> None:
        """A trial begins."""
        if not self.follows:
            return
        gbps = spec.load_fps * test.in_sum * l1_bits_per_frame(test.wire_size) / 1e9
        size = IMIX if test.imix else f"{test.frame_size} B"
        load = f"{rate_text(spec.load_fps)} per direction ({gbps:.2f} Gbit/s L1 in sum)"
        if spec.burst:
            load = f"burst of {spec.burst} frames"
        if spec.event is not None:
            load += f", {spec.event.what} is reset"
        spent = time.monotonic() - self._began
        self._before = NOTHING
        self._trial = (
            f"{test.scenario} {size} {test.test}: {self._again}trial {self._trials + 1}, {load}, "
            f"{spec.duration_s:.3g} s; {spent:.0f} s so far"
        )
        self._show(f"{self._trial}{self._last}")

    def trial_runs(self, counts: LiveCounts) -> None:
        """A trial is going on: show its rates of now, between two looks."""
        before = self._before if self._before.elapsed_s < counts.elapsed_s else NOTHING
        self._before = counts
        seconds = counts.elapsed_s - before.elapsed_s
        if not self.follows or seconds <= 0:
            return
        sent, received = counts.sent + counts.refused, counts.received
        now = (sent - before.sent - before.refused, received - before.received)
        forth, back = (rate_text(frames / seconds) for frames in now)
        self._show(
            f"{self._trial}; now {forth} sent, {back} received, {sent - received} lost or under way"
        )

    def trial_ends(self, test: BeginRecord, trial: TrialRecord) -> None:
        """A trial has its verdict."""
        self._trials += 1
        loss = f"loss {trial.result.worst_loss_ratio():.3%}" if trial.result.directions else ""
        verdict = "" if trial.verdict == "VALID" else f" {trial.verdict}"
        spec = trial.spec
        load = f"{spec.burst} frames" if spec.burst else rate_text(spec.load_fps)
        self._last = f"; last: {load} {loss}{verdict}"

    def _show(self, text: str) -> None:
        if self._status is None:
            from rich.console import Console
            from rich.live import Live
            from rich.spinner import Spinner

            # While a test runs, pytest captures stdout: the terminal itself is what is drawn on.
            try:
                self._tty = open("/dev/tty", "w")  # noqa: PTH123, SIM115 - closed in `stop`
                columns = os.get_terminal_size(self._tty.fileno()).columns or 80
            except OSError:
                self.follows = False
                return
            console = Console(file=self._tty, width=columns)
            self._columns = columns
            self._spinner = Spinner("dots", "", style="status.spinner")
            # sys.stdout is pytest's while a test runs: to put it back later would give it a closed
            # file.
            self._status = Live(
                self._spinner,
                console=console,
                refresh_per_second=4,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._tty.write("\n")
            self._status.start()
        self._spinner.update(text=fitting(text, self._columns - _SPINNER))

    def stop(self) -> None:
        """Take the status line away, before pytest prints."""
        if self._status is None:
            return
        status, self._status = self._status, None
        with suppress(OSError):  # the terminal may have gone; the run goes on
            status.stop()
        with suppress(OSError):
            self._tty.close()


#: Columns of the spinner and the blank behind it.
_SPINNER = 2


def fitting(text: str, columns: int) -> str:
    """A status line in one line of a terminal.

    What stands in brackets goes first, then what is between the trial and its rates of now.
    """
    if len(text) > columns:
        text = re.sub(r" \([^)]*\)| per direction", "", text)
    head, *others = text.split("; ")
    while others[1:] and len("; ".join((head, *others))) > columns:
        del others[0]
    text = "; ".join((head, *others))
    return text if len(text) <= columns else f"{text[: max(columns - 3, 0)]}..."


def rate_text(fps: float) -> str:
    """A rate in the unit that reads best."""
    if fps >= 1e6:
        return f"{fps / 1e6:.3f} Mfps"
    if fps >= 1e3:
        return f"{fps / 1e3:.1f} kfps"
    return f"{fps:.0f} fps"
