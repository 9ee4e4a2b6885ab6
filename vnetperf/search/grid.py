"""Grids of loads: a search moves over integer rungs and asks here what load a rung is.

Integers make "half way", "twice the step" and "the same load again" exact.
"""

from __future__ import annotations

from math import ceil, exp, floor, log, log1p
from typing import Protocol

from vnetperf.model.goal import SearchLimits

#: Rungs are this much (relative) closer than asked, so that float rounding cannot widen a bound.
_SAFETY = 1e-6


class Grid(Protocol):
    """A monotonous ladder of loads from rung 0 (min load) to rung `top` (max load)."""

    @property
    def top(self) -> int:
        """The highest rung."""

    def load(self, rung: int) -> float:
        """Load of a rung.

        Args:
            rung: 0 to `top`; outside it is taken as the nearest end.

        Returns:
            Frames/s per interface.
        """


class GeometricGrid:
    """Loads at equal ratios, so that a relative width is the same number of rungs anywhere.

    Args:
        limits: The loads of the two ends.
        width: Relative width (of the upper load) that `divisions` rungs amount to.
        divisions: Rungs within one width.
    """

    def __init__(self, limits: SearchLimits, width: float, divisions: int = 1) -> None:
        self._min = limits.min_load_fps
        self._max = limits.max_load_fps
        self._unit = -log1p(-width) * (1.0 - _SAFETY) / divisions
        rungs = log(self._max / self._min) / self._unit
        self._top = max(1, ceil(rungs - _SAFETY / 2))

    @property
    def top(self) -> int:
        """The highest rung."""
        return self._top

    def load(self, rung: int) -> float:
        """Load of a rung.

        Args:
            rung: 0 to `top`; outside it is taken as the nearest end.

        Returns:
            Frames/s per interface.
        """
        if rung <= 0:
            return self._min
        if rung >= self._top:
            return self._max
        return self._max * exp((rung - self._top) * self._unit)

    def rung_below(self, load_fps: float) -> int:
        """The highest rung whose load is no higher than a load, within the grid.

        Args:
            load_fps: Frames/s per interface, of any value.

        Returns:
            A rung from 0 to `top`.
        """
        if load_fps <= self._min:
            return 0
        if load_fps >= self._max:
            return self._top
        rung = min(self._top - 1, self._top + floor(log(load_fps / self._max) / self._unit) + 1)
        while rung > 0 and self.load(rung) > load_fps:
            rung -= 1
        return max(0, rung)

    def rungs_of(self, width: float) -> int:
        """How many rungs a relative width spans.

        Args:
            width: Relative to the upper load, in (0, 1).

        Returns:
            The largest number of rungs no wider than it, at least 1.
        """
        return max(1, floor(-log1p(-width) / self._unit))
