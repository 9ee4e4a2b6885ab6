"""What the lab says when a program is missing or too old."""

from __future__ import annotations

import subprocess

import pytest

from tests.conftest import Programs
from vnetperf.model.errors import HostError
from vnetperf.virt import tools as wanted


def test_an_old_qemu_is_refused_with_the_cure(programs: Programs) -> None:
    programs({wanted.QEMU: "echo 'QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)'"})
    with pytest.raises(HostError, match=r"7\.2\.22") as caught:
        wanted.need_qemu()
    assert "install-deps lab" in caught.value.cure


def test_a_new_one_is_taken(programs: Programs) -> None:
    folder = programs({wanted.QEMU: "echo 'QEMU emulator version 10.0.2'"})
    assert wanted.need_qemu() == str(folder / wanted.QEMU)


def test_a_missing_program_names_its_package() -> None:
    with pytest.raises(HostError) as caught:
        wanted.need_program("no-such-program", "some-package")
    assert "some-package" in caught.value.accepted


@pytest.mark.parametrize(
    ("found", "words"), [(None, "not installed"), ((1, 20), "1.20 is too old")]
)
def test_virtme_ng_must_be_there_and_new_enough(
    found: tuple[int, ...] | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wanted, "virtme_version", lambda: found)
    with pytest.raises(HostError, match=words) as caught:
        wanted.need_virtme()
    assert "vnetperf[lab]" in caught.value.cure


def test_a_command_on_the_leash_runs_for_us_and_not_when_we_have_ended() -> None:
    argv = wanted.with_pdeathsig(["echo", "ran"])
    assert subprocess.run(argv, capture_output=True, check=True).stdout == b"ran\n"
    # Whoever started it is not the process that it was made for, as when that one has ended.
    other = ["sh", "-c", '"$@"; exit $?', "sh", *argv]
    done = subprocess.run(other, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
