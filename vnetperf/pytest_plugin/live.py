"""Live progress on a terminal; quiet where nobody watches."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from vnetperf.model.imix import IMIX
from vnetperf.model.trial import LiveCounts, TrialSpec
from vnetperf.model.units import l1_bits_per_frame

if TYPE_CHECKING:
    from vnetperf.results.records import BeginRecord, TrialRecord


NOTHING = LiveCounts(elapsed_s=0.0, sent=0, refused=0, received=0)


class LiveProgress:
    """One status line that follows the search; replaced by plain lines when it is no terminal.

    Args:
        terminal: pytest's terminal writer.
        live: True draws; False prints only what `say` says.
    """

    def __init__(self, terminal: Any, *, live: bool) -> None:
        self.terminal = terminal
        self.live = bool(live)  # pytest has a kind of its own
        self._status: Any = None
        self._tty: Any = None
        self._trials = 0
        self._began = 0.0
        self._last = ""
        self._said = ""
        self._trial = ""
        self._before = NOTHING

    def say(self, text: str) -> None:
        """Show what is being done now.

        Args:
            text: A few words.
        """
        if self.live:
            self._show(text)
        # There may be nothing to draw on; a wait is reported ten times a second.
        if not self.live and text != self._said:
            self.terminal.line(f"vnetperf: {text}")
        self._said = text

    def test_begins(self, test: BeginRecord) -> None:
        """A search or another test begins.

        Args:
            test: The test.
        """
        self._trials, self._began, self._last = 0, time.monotonic(), ""

    def trial_begins(self, test: BeginRecord, spec: TrialSpec) -> None:
        """A trial begins.

        Args:
            test: The test.
            spec: What is asked of the generator.
        """
        if not self.live:
            return
        gbps = spec.load_fps * test.in_sum * l1_bits_per_frame(test.size) / 1e9
        size = IMIX if test.imix else f"{test.frame_size} B"
        what = f"{rate(spec.load_fps)} per direction ({gbps:.2f} Gbit/s L1 in sum)"
        if spec.burst:
            what = f"burst of {spec.burst} frames"
        if spec.event is not None:
            what += f", {spec.event.what} is reset"
        name = "" if test.test == "throughput" else f" {test.test}"
        spent = time.monotonic() - self._began
        self._before = NOTHING
        self._trial = (
            f"{test.scenario} {size}{name}: trial {self._trials + 1}, {what}, "
            f"{spec.duration_s:.3g} s; {spent:.0f} s so far"
        )
        self._show(f"{self._trial}{self._last}")

    @property
    def follows(self) -> bool:
        """Whether a trial that is going on is looked at."""
        return self.live

    def trial_runs(self, counts: LiveCounts) -> None:
        """A trial is going on: show its rates of now, between two looks.

        Args:
            counts: Counts so far.
        """
        before = self._before if self._before.elapsed_s < counts.elapsed_s else NOTHING
        self._before = counts
        seconds = counts.elapsed_s - before.elapsed_s
        if not self.live or seconds <= 0:
            return
        sent, received = counts.sent + counts.refused, counts.received
        now = (sent - before.sent - before.refused, received - before.received)
        there, back = (rate(frames / seconds) for frames in now)
        self._show(
            f"{self._trial}; now {there} sent, {back} received, {sent - received} lost or under way"
        )

    def trial_ends(self, test: BeginRecord, trial: TrialRecord) -> None:
        """A trial has its verdict.

        Args:
            test: The test.
            trial: The trial.
        """
        self._trials += 1
        loss = f"loss {trial.result.worst_loss_ratio():.3%}" if trial.result.directions else ""
        verdict = "" if trial.verdict == "VALID" else f" {trial.verdict}"
        asked = f"{trial.spec.burst} frames" if trial.spec.burst else rate(trial.spec.load_fps)
        self._last = f"; last: {asked} {loss}{verdict}"

    def _show(self, text: str) -> None:
        if self._status is None:
            from rich.console import Console

            # While a test runs, pytest captures stdout: the terminal itself is what is drawn on.
            try:
                self._tty = open("/dev/tty", "w")  # noqa: PTH123, SIM115 - closed in `stop`
                columns = os.get_terminal_size(self._tty.fileno()).columns or 80
            except OSError:
                self.live = False
                return
            console = Console(file=self._tty, width=columns)
            self._status = console.status(text, spinner="dots", refresh_per_second=4)
            self._tty.write("\n")
            self._status.start()
        self._status.update(text)

    def stop(self) -> None:
        """Take the status line away, before pytest prints."""
        if self._status is None:
            return
        status, self._status = self._status, None
        with suppress(OSError):  # the terminal may have gone; the run goes on
            status.stop()
        with suppress(OSError):
            self._tty.close()


def rate(fps: float) -> str:
    """A rate in the unit that reads best.

    Args:
        fps: Frames per second.

    Returns:
        "1.25 Mfps", "400.0 kfps", "999 fps".
    """
    if fps >= 1e6:
        return f"{fps / 1e6:.3f} Mfps"
    if fps >= 1e3:
        return f"{fps / 1e3:.1f} kfps"
    return f"{fps:.0f} fps"
