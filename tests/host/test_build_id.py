"""Build ids of programs, and of what is none."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.agent.inventory import take_inventory
from vnetperf.host.facts.system import _compiler
from vnetperf.host.programs import build_id
from vnetperf.model.testbed import Testbed


def test_a_program_has_one_and_a_script_has_none(tmp_path: Path) -> None:
    shell = Path("/bin/sh").resolve()
    assert re.fullmatch("[0-9a-f]{16,}", build_id(shell))
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert build_id(script) == ""


@given(st.binary(max_size=400))
def test_no_file_breaks_it(tmp_path_factory: pytest.TempPathFactory, rest: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "elf"
    path.write_bytes(b"\x7fELF\x02\x01" + rest)
    build_id(path)


@given(st.integers(64, 3000))
def test_a_program_that_was_cut(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.getbasetemp() / "cut"
    path.write_bytes(Path(sys.executable).resolve().read_bytes()[:cut])
    build_id(path)


def test_the_record_names_builds_by_path() -> None:
    programs = take_inventory(Testbed()).record["programs"]
    assert isinstance(programs, dict)
    for told in programs.values():
        assert told["path"].startswith("/")
        assert told["build id"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Linux version 6.1.0 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) "
            "12.2.0, GNU ld (GNU Binutils for Debian) 2.40) #1 SMP",
            "gcc-12 (Debian 12.2.0-14) 12.2.0",
        ),
        (
            "Linux version 6.6 (me@box7) (clang version 17.0.6, LLD 17.0.6) #1",
            "clang version 17.0.6",
        ),
        ("Linux version 4.4 (me@box7) #1 SMP", "unknown: /proc/version does not state it"),
    ],
)
def test_the_kernels_compiler_without_who_built_it(text: str, expected: str) -> None:
    assert _compiler(text) == expected
