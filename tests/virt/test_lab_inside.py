"""The guest's scripts: well-formed, and no name in them is taken for shell."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from vnetperf.virt import lab_boot

HOSTILE = 'it\'s $(touch /tmp/no) @CWD@; "x"'


def written(tmp_path: Path, terminal: tuple[int, int] | None) -> tuple[str, dict[str, str]]:
    command = lab_boot.write_scripts(
        tmp_path,
        modules=Path("/modules/of this"),
        shares=[Path("/data") / HOSTILE],
        kept=[Path("/data/package")],
        cwd=Path("/data") / HOSTILE,
        environment={"NOTES": HOSTILE},
        argv=["prog", HOSTILE],
        terminal=terminal,
    )
    return command, {name: (tmp_path / name).read_text() for name in ("prepare.sh", "run.sh")}


@pytest.mark.parametrize("terminal", [None, (50, 120)])
def test_the_scripts_are_well_formed(tmp_path: Path, terminal: tuple[int, int] | None) -> None:
    command, texts = written(tmp_path, terminal)
    for text in (command, *texts.values()):
        done = subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    filled = "".join(texts.values()).replace(HOSTILE, "").replace("@CWD@", "")
    assert not re.search(r"@[A-Z]+@", filled)
    # It goes on the kernel's command line in base64, and that line ends at 2048 characters.
    assert len(command) < 400 + len(str(tmp_path))


def test_arguments_and_environment_arrive_as_they_are(tmp_path: Path) -> None:
    _, texts = written(tmp_path, None)
    (line,) = [line for line in texts["run.sh"].splitlines() if line.startswith("env -i")]
    shown = line.partition(" </dev/virtio-ports")[0].replace("/run/lab.pid", str(tmp_path / "pid"))
    script = shown.replace("sh prog", "sh printf '%s\\n'")
    done = subprocess.run(["sh", "-c", script], text=True, capture_output=True, check=False)
    assert done.stdout == f"{HOSTILE}\n", done.stderr
    script = shown.replace("sh prog", "sh printenv NOTES")
    done = subprocess.run(["sh", "-c", script], text=True, capture_output=True, check=False)
    assert done.stdout.startswith(f"{HOSTILE}\n"), done.stderr
