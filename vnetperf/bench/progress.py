"""What the conductor tells a terminal while it works."""

from __future__ import annotations

from typing import Protocol

from vnetperf.model.trial import LiveCounts, TrialSpec
from vnetperf.results.records import BeginRecord, TrialRecord


class Progress(Protocol):
    """A listener; the plugin draws it, logs stay quiet."""

    @property
    def follows(self) -> bool:
        """Whether `trial_runs` is of use to anybody."""

    def say(self, text: str) -> None:
        """Something worth a line: deploying, waiting, calibrating."""

    def test_begins(self, test: BeginRecord) -> None:
        """A search or another test begins."""

    def trial_begins(self, test: BeginRecord, spec: TrialSpec) -> None:
        """A trial begins."""

    def trial_runs(self, counts: LiveCounts) -> None:
        """A trial is going on."""

    def trial_ends(self, test: BeginRecord, trial: TrialRecord) -> None:
        """A trial has its verdict."""


class Quiet:
    """Tells nobody."""

    follows = False

    def say(self, text: str) -> None:
        """Say nothing."""

    def test_begins(self, test: BeginRecord) -> None:
        """Say nothing."""

    def trial_begins(self, test: BeginRecord, spec: TrialSpec) -> None:
        """Say nothing."""

    def trial_runs(self, counts: LiveCounts) -> None:
        """Say nothing."""

    def trial_ends(self, test: BeginRecord, trial: TrialRecord) -> None:
        """Say nothing."""
