"""Deployments of a kit that the merge lane leaves to the daily one: the code is that of others."""

from __future__ import annotations

import re

import pytest

#: Of ids of tests. One backend keeps each deployment, and each backend keeps its own first mode.
DAILY = re.compile(
    r"Test_(bridge|macvtap|testpmd|xdp)::.*\[(p2v|v2p|pvvp|pvpv)\]"
    r"|\[phy2phy_(private|vepa|passthru|mac|generic)\b"
)


@pytest.hookimpl(tryfirst=True)  # before tests of a lane are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if DAILY.search(item.nodeid):
            item.add_marker(pytest.mark.daily)
