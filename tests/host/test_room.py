"""The room itself: what the guardian loads, and that every kind of change can be undone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from vnetperf.host.journal import CHANGE_KINDS


def test_the_guardian_starts_light() -> None:
    code = (
        "import sys, vnetperf.host.guardian\n"
        "print([m for m in ('pydantic', 'pyroute2', 'pytest', 'rich') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.stdout.strip() == "[]", result.stderr


@pytest.mark.parametrize("kind", sorted(CHANGE_KINDS))
def test_every_kind_can_be_undone(kind: str) -> None:
    assert callable(CHANGE_KINDS[kind].load())
