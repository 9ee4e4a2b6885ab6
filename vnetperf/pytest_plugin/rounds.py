"""`--interleave N`: all cases in turn, again and again, to see how their results repeat."""

from __future__ import annotations

from collections.abc import Sequence

import pytest


def rounds_asked(config: pytest.Config) -> int:
    """How often each case is to be measured.

    Args:
        config: pytest's configuration.

    Returns:
        Number of rounds; 0 without `--interleave`.

    Raises:
        UsageError: Less than two make no repeats.
    """
    asked: int | None = config.getoption("interleave", None)
    if asked is None:
        return 0
    if asked < 2:
        raise pytest.UsageError(
            f"--interleave {asked}: a case is repeated from 2 on; 5 and more give a usable interval"
        )
    return asked


def round_numbers(config: pytest.Config) -> Sequence[int]:
    """The rounds that each case is parametrised over.

    Args:
        config: pytest's configuration.

    Returns:
        From 1; a single 0 without `--interleave`.
    """
    return range(1, rounds_asked(config) + 1) or (0,)
