"""Makes all cases and has pytest deselect, so that both selections can be compared."""

from __future__ import annotations

import pytest

from vnetperf.pytest_plugin import cases


def pytest_configure(config: pytest.Config) -> None:
    before = cases.keyword_filter
    cases.keyword_filter = lambda _: lambda _: True
    config.add_cleanup(lambda: setattr(cases, "keyword_filter", before))
