"""What the conductor tells a terminal while it works."""

from __future__ import annotations

from typing import Protocol

from vnetperf.model.trial import LiveCounts
from vnetperf.results.records import SearchRecord, TrialRecord


class Progress(Protocol):
    """A listener; the plugin draws it, logs stay quiet."""

    @property
    def follows(self) -> bool:
        """Whether `trial_runs` is of use to anybody."""

    def say(self, text: str) -> None:
        """Something worth a line: deploying, waiting, calibrating."""

    def search_begins(self, search: SearchRecord) -> None:
        """A search begins."""

    def trial_begins(self, search: SearchRecord, load_fps: float, duration_s: float) -> None:
        """A trial begins; load per interface, frames/s."""

    def trial_runs(self, counts: LiveCounts) -> None:
        """A trial is going on."""

    def trial_ends(self, search: SearchRecord, trial: TrialRecord) -> None:
        """A trial has its verdict."""


class Quiet:
    """Tells nobody."""

    follows = False

    def say(self, text: str) -> None:
        """Say nothing."""

    def search_begins(self, search: SearchRecord) -> None:
        """Say nothing."""

    def trial_begins(self, search: SearchRecord, load_fps: float, duration_s: float) -> None:
        """Say nothing."""

    def trial_runs(self, counts: LiveCounts) -> None:
        """Say nothing."""

    def trial_ends(self, search: SearchRecord, trial: TrialRecord) -> None:
        """Say nothing."""
