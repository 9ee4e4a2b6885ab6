"""The fake backends that tests of plans register."""

from __future__ import annotations

from tests.planning.conftest import fakes

__all__ = ["fakes"]
