"""What the whole suite shares: pytest in a test, and programs that are not real."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes is up to who else uses the machine. The daily lane tries more of them.
settings.register_profile(
    "tests",
    settings.default,
    max_examples=int(os.environ.get("TEST_EXAMPLES", "40")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tests")
pytest_plugins = ["pytester"]

Programs = Callable[[dict[str, str]], Path]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Put made-up programs first in PATH: name -> shell script."""

    def make(scripts: dict[str, str]) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        for name, text in scripts.items():
            path = folder / name
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin:/usr/sbin:/sbin")
        return folder

    return make
