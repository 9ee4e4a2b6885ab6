"""One search's trials in a line: what was tried and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vnetperf.model.result import TrialPoint
from vnetperf.model.trial import Verdict
from vnetperf.report import units_text as text


@dataclass(frozen=True, slots=True)
class TrialSummary:
    """The trials of one search.

    Attributes:
        count: Trials.
        valid: VALID ones.
        clean: VALID ones without loss.
        clean_max_fps: Highest load per interface of those; None without one.
        lossy_min_fps: Lowest load per interface of a VALID trial that lost frames; None without.
        worst_loss: Largest loss ratio of a VALID trial; None without one.
        clean_burst: Longest burst without loss, frames; 0 where none was sent.
        lossy_burst: Shortest burst that lost frames.
    """

    count: int
    valid: int
    clean: int
    clean_max_fps: float | None
    lossy_min_fps: float | None
    worst_loss: float | None
    clean_burst: int = 0
    lossy_burst: int = 0

    @property
    def sentence(self) -> str:
        """The summary in words, derived from the counts."""
        if not self.count:
            return "no trial"
        said = [f"{self.clean} of {self.valid} VALID trials without loss"]
        if self.clean_burst or self.lossy_burst:
            return ", ".join([*said, *self._bursts()])
        if self.clean_max_fps is not None:
            said.append(f"highest load without loss {text.fps(self.clean_max_fps)}")
        if self.lossy_min_fps is not None:
            said.append(f"lowest load with loss {text.fps(self.lossy_min_fps)}")
        if self.worst_loss:
            said.append(f"largest loss {text.percent(self.worst_loss)}")
        return ", ".join(said)

    def _bursts(self) -> Iterator[str]:
        yield f"longest burst without loss {_shown(self.clean_burst)}"
        yield f"shortest with loss {_shown(self.lossy_burst)}"


def _shown(count: int) -> str:
    return f"{text.frames(count)} frames" if count else "none"


def summarise(trials: Iterable[TrialPoint]) -> TrialSummary:
    """Summarise the trials of one search.

    Args:
        trials: The trials.

    Returns:
        The summary.
    """
    found = list(trials)
    valid = [t for t in found if t.verdict is Verdict.VALID and t.loss_ratio is not None]
    clean = [t.load_fps for t in valid if t.loss_ratio == 0]
    lossy = [t.load_fps for t in valid if t.loss_ratio]
    return TrialSummary(
        count=len(found),
        valid=len(valid),
        clean=len(clean),
        clean_max_fps=max(clean, default=None),
        lossy_min_fps=min(lossy, default=None),
        worst_loss=max((t.loss_ratio or 0.0 for t in valid), default=None),
        clean_burst=max((t.burst for t in valid if t.loss_ratio == 0), default=0),
        lossy_burst=min((t.burst for t in valid if t.loss_ratio and t.burst), default=0),
    )
