"""`--expect FILE`: results are held against a file of expectations, as they come and together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from vnetperf.bench.expectations import Expectations
    from vnetperf.bench.judging import Judgement
    from vnetperf.bench.run import Run
    from vnetperf.model.result import RunResults


class Expecting:
    """What this session expects.

    Args:
        config: pytest's configuration.

    Raises:
        UsageError: The file is wrong; nothing has been deployed yet.
    """

    def __init__(self, config: pytest.Config) -> None:
        from vnetperf.pytest_plugin.rounds import rounds_asked

        given = config.getoption("expect", None)
        self._together = bool(rounds_asked(config))
        self._expectations: Expectations | None = _load(Path(given)) if given else None
        self._judged: list[Judgement] = []

    def attach(self, run: Run) -> None:
        """Have each case's result checked; those of rounds are when all are there.

        Args:
            run: The run.
        """
        if self._expectations is not None and not self._together:
            run.checks.append(self._expectations.check)

    def judge(self, results: RunResults | None) -> None:
        """Judge what only all results together can show.

        Args:
            results: The run's results; None when nothing was measured.
        """
        if self._expectations is not None and results is not None:
            self._judged = self._expectations.of_run(results.results, cases_too=self._together)

    @property
    def failed(self) -> bool:
        """Whether one of those is not met."""
        return any(judged.met is False for judged in self._judged)

    def lines(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """What to print.

        Yields:
            A line, and how pytest is to mark it.
        """
        words: dict[bool | None, tuple[str, dict[str, Any]]] = {
            True: ("met", {"green": True}),
            False: ("FAILED", {"red": True}),
            None: ("not judged", {"yellow": True}),
        }
        for judged in self._judged:
            word, markup = words[judged.met]
            yield f"{word}: {judged}", markup


def _load(path: Path) -> Expectations:
    from vnetperf.bench.expectations import Expectations
    from vnetperf.bench.scenarios import scenario_ids
    from vnetperf.model.errors import ConfigError

    try:
        return Expectations.load(path, scenario_ids())
    except ConfigError as error:
        raise pytest.UsageError(str(error)) from None
