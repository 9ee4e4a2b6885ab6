"""Ctrl-C: the exit status, what is printed, and how the run is continued."""

from __future__ import annotations

import json
import os
import pty
import shlex
import sys

import pytest

from tests.plugin.conftest import REGISTER, Site

pytestmark = pytest.mark.slow

INTERRUPT = (
    REGISTER
    + """
from pathlib import Path

run_trial = agent.EnvironmentAgent.run_trial

def interrupted(self, spec):
    if len(self.trials) == {trials} and not Path("continued").exists():
        raise KeyboardInterrupt
    return run_trial(self, spec)

agent.EnvironmentAgent.run_trial = interrupted
"""
)


@pytest.fixture
def interrupted(site: Site) -> Site:
    site.pytester.makeconftest(INTERRUPT.replace("{trials}", "1"))
    return site


OPTIONS = ("-k", "pvp_dpdk", "--traffic", "multi-flow", "--frame-sizes", "64,512")


def test_the_run_ends_with_status_2_and_names_the_command_that_continues_it(
    interrupted: Site,
) -> None:
    result = interrupted.run_apart(*OPTIONS)
    text = result.stdout.str() + result.stderr.str()
    assert result.ret == 2
    (folder,) = interrupted.folders
    command = f"pytest --resume=results/{folder.name}"
    assert command in text
    # The last line but pytest's own: tables may be many screens long.
    assert text.index("to continue: pytest") > text.index("report:  ")
    assert "none met" not in text
    assert "interrupted after 1 trials" in " ".join(text.split())
    assert "Traceback" not in text
    (first, *_) = interrupted.results()["results"]
    assert (first["frame_size"], first["status"], first["failed"]) == (64, "not measured", False)


def test_a_resumed_run_needs_no_option_again(interrupted: Site) -> None:
    assert interrupted.run_apart(*OPTIONS).ret == 2
    (interrupted.path / "continued").touch()
    typed = ("-k", "pvp_dpdk and 512", "--resume", "results/latest")  # what is typed is meant
    interrupted.run_apart(*typed).assert_outcomes(passed=1)
    assert interrupted.run_apart("--resume", "results/latest", "--traffic", "imix").ret == 4
    result = interrupted.run_apart("--resume", "results/latest")
    result.assert_outcomes(passed=2)
    content = interrupted.results()
    assert [r["frame_size"] for r in content["results"]] == [64, 512]
    assert content["settings"]["traffic"]["value"] == "multi-flow"
    assert len(interrupted.folders) == 1
    assert interrupted.calls("deploy") == {"deploy pvp_dpdk": 3}


def test_a_run_that_is_continued_without_some_of_its_cases_says_so(interrupted: Site) -> None:
    """It counted as whole, though nothing was measured for them."""
    assert interrupted.run_apart(*OPTIONS).ret == 2
    (interrupted.path / "continued").touch()

    def warned() -> list[str]:
        return [text for text in interrupted.results()["warnings"] if "interrupted" in text]

    interrupted.run_apart("-k", "pvp_dpdk and 512", "--resume", "results/latest")
    (warning,) = warned()
    assert "continued without 1 of its cases" in warning
    assert "::test_throughput[pvp_dpdk-64]" in warning
    interrupted.run_apart("--resume", "results/latest").assert_outcomes(passed=2)
    assert warned() == []


def test_the_command_that_continues_a_resumed_run_has_what_was_typed_for_it(
    interrupted: Site,
) -> None:
    """Without it nothing would be measured, and the run would count as whole."""
    (interrupted.path / "continued").touch()
    interrupted.run_apart("-k", "pvp_dpdk", "--frame-sizes", "64").assert_outcomes(passed=1)
    (interrupted.path / "continued").unlink()
    typed = ("--resume=results/latest", "-k", "pvp_dpdk or phy2phy_dpdk", "--frame-sizes=64,512")
    result = interrupted.run_apart(*typed)
    assert result.ret == 2
    (line,) = (text for text in result.stdout.lines if "to continue: " in text)
    program, *command = shlex.split(line.partition("to continue: ")[2])
    assert program == "pytest"
    assert command[0] == f"--resume={interrupted.folders[0]}"
    assert not {*typed[1:]} - {*command}
    (interrupted.path / "continued").touch()
    interrupted.pytester.runpytest_subprocess(*command).assert_outcomes(passed=4)


def test_ctrl_c_on_a_terminal_leaves_no_crash(interrupted: Site) -> None:
    pid, terminal = pty.fork()
    if pid == 0:  # the child has the terminal as its own, as a shell's would
        os.chdir(interrupted.path)
        os.environ["TERM"] = "xterm"
        argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *OPTIONS]
        os.execv(argv[0], argv)  # noqa: S606 - no shell is wanted
    seen = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the last process of the terminal has gone
            break
        if not piece:
            break
        seen += piece
    text = seen.decode(errors="replace")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2, text
    assert "\x1b[?25l" in text  # the status line was there
    assert "to continue: pytest --resume=" in text
    assert "lost sys.stderr" not in text
    assert "Traceback" not in text


def test_sigterm_ends_a_run_as_ctrl_c_does(site: Site) -> None:
    terminated = INTERRUPT.replace("{trials}", "1").replace(
        "raise KeyboardInterrupt", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    )
    site.pytester.makeconftest(terminated)
    result = site.run_apart(*OPTIONS)
    text = result.stdout.str() + result.stderr.str()
    assert result.ret == 2
    (folder,) = site.folders
    command = f"pytest --resume=results/{folder.name}"
    assert command in text
    assert (folder / "report.html").is_file()
    assert "Traceback" not in text


def test_sigterm_ends_a_run_with_workers_so_too(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminated = INTERRUPT.replace("{trials}", "1").replace(
        "raise KeyboardInterrupt",
        "import os, signal, time; os.kill(os.getppid(), signal.SIGTERM); time.sleep(600)",
    )
    site.pytester.makeconftest(terminated)
    for name in ("lab1", "lab2"):
        (site.path / f"{name}.toml").write_text('isolation = "simulated"\n')
    beds = {name: {"kernel": "6.6.1"} for name in ("lab1", "lab2")}
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"testbeds": beds}))
    result = site.run_apart(*OPTIONS, "--testbed", "./lab1.toml,./lab2.toml", "-n", "2")
    text = result.stdout.str() + result.stderr.str()
    assert result.ret == 2
    (folder,) = site.folders
    assert f"pytest --resume={folder} -n 2" in text
    assert (folder / "report.html").is_file()
