"""What the conductor tells a terminal while it works."""

from __future__ import annotations

from typing import Protocol

from vnetperf.results.records import SearchRecord, TrialRecord


class Progress(Protocol):
    """A listener; the plugin draws it, logs stay quiet."""

    def say(self, text: str) -> None:
        """Something worth a line: deploying, waiting, calibrating."""

    def search_begins(self, search: SearchRecord) -> None:
        """A search begins."""

    def trial_begins(self, search: SearchRecord, load_fps: float, duration_s: float) -> None:
        """A trial begins; load per interface, frames/s."""

    def trial_ends(self, search: SearchRecord, trial: TrialRecord) -> None:
        """A trial has its verdict."""


class Quiet:
    """Tells nobody."""

    def say(self, text: str) -> None:
        """Say nothing."""

    def search_begins(self, search: SearchRecord) -> None:
        """Say nothing."""

    def trial_begins(self, search: SearchRecord, load_fps: float, duration_s: float) -> None:
        """Say nothing."""

    def trial_ends(self, search: SearchRecord, trial: TrialRecord) -> None:
        """Say nothing."""
