"""What the whole suite shares: pytest in a test, and programs that are not real."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# On a busy machine an example takes any time: how long one took is no property of the code.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

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
