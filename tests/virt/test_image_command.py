"""`vnetperf image`, as a user calls it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.virt.conftest import Distribution
from vnetperf.cli import main


def test_build_list_verify_gc(
    distribution: Distribution, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["image", "list"]) == 0
    assert "vnetperf image build vloop" in capsys.readouterr().err
    assert main(["image", "build", "vloop"]) == 0
    key = distribution.built[0]
    assert f"vloop {key}" in capsys.readouterr().out
    assert main(["image", "list"]) == 0
    assert key in capsys.readouterr().out
    assert main(["image", "verify"]) == 0
    assert "as it was built" in capsys.readouterr().out
    assert main(["image", "gc"]) == 0
    assert capsys.readouterr().out == ""


def test_verify_names_what_is_damaged(
    distribution: Distribution, store_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = distribution.image().kernel.parent
    (folder / "root.squashfs").unlink()
    assert main(["image", "verify"]) == 1
    said = capsys.readouterr().out
    assert "root.squashfs" in said
    assert "cure: vnetperf image build vloop" in said
    assert main(["image", "gc"]) == 0
    assert f"removed vloop {distribution.built[0]}" in capsys.readouterr().out
    assert not folder.exists()


def test_an_unknown_name_is_refused(
    distribution: Distribution, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["image", "build", "vlop"]) == 1
    assert "accepted: endpoint, vepc, vloop" in capsys.readouterr().err
