"""Makes all cases and has pytest deselect, so that both selections can be compared."""

from __future__ import annotations

import pytest

from vnetperf.pytest_plugin import cases


def pytest_configure(config: pytest.Config) -> None:
    before = cases.keyword_filter
    # What -k means by a scenario's whole name is no matter of how it is filtered.
    cases.keyword_filter = lambda definition, others=(): (
        before(definition, others) if others else lambda _: True
    )
    config.add_cleanup(lambda: setattr(cases, "keyword_filter", before))
