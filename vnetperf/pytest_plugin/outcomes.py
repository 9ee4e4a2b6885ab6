"""Counts what became of the cases that measure: a run that measured nothing is not green."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from vnetperf.pytest_plugin.matrix import scenario_in


class Outcomes:
    """What became of the session's bench cases, those of workers too; a plugin of pytest's.

    Args:
        stop_progress: Takes the status line away, before pytest prints a result.
    """

    def __init__(self, stop_progress: Callable[[], None]) -> None:
        self._counts: Counter[str] = Counter()
        self._stop_progress = stop_progress

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a phase of a case; other tests are left out."""
        self._stop_progress()
        if (report.when == "call" or not report.passed) and scenario_in(report.nodeid):
            self._counts[report.outcome] += 1

    @property
    def nothing_measured(self) -> bool:
        """Whether cases were selected and every one was skipped."""
        return bool(self._counts["skipped"]) and set(self._counts) == {"skipped"}

    def explanation(self) -> str:
        """Why the session is not green.

        Returns:
            One line.
        """
        return (
            f"vnetperf: nothing was measured: all {self._counts['skipped']} selected cases were "
            "skipped, for the reasons that `-rs` lists; `vnetperf doctor` says what is missing"
        )
