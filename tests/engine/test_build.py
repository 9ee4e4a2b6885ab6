"""The engine is built once for one machine, and what is missing is named."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vnetperf.host import build
from vnetperf.host.build import BuildVariant, DpdkProgram
from vnetperf.host.paths import cache_directory
from vnetperf.model.errors import HostError
from vnetperf.traffic.loadgen.build import ENGINE

SLOW_MAKE = """#!/bin/sh
for word; do case $word in OUT=*) out=${word#OUT=};; esac; done
echo run >> {log}
sleep 0.3
mkdir -p $out && echo built > $out/loadgen
"""


def tool(directory: Path, name: str, text: str) -> None:
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(text)
    (directory / name).chmod(0o755)


@pytest.mark.slow
def test_a_second_call_builds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path / "bin", "make", SLOW_MAKE.replace("{log}", str(tmp_path / "log")))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    cache = tmp_path / "cache"
    first = ENGINE.executable(cache=cache)
    assert ENGINE.executable(cache=cache) == first
    assert first.read_text() == "built\n"
    assert ENGINE.executable(BuildVariant.SANITIZED, cache=cache) != first
    assert (tmp_path / "log").read_text().count("run") == 2
    assert cache.stat().st_mode & 0o777 == 0o700
    # Nothing half-built stays behind.
    assert {p.name.split("-")[0] for p in cache.iterdir()} == {"loadgen", "loadgen.lock"}


@pytest.mark.slow
def test_parallel_builders_build_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path / "bin", "make", SLOW_MAKE.replace("{log}", str(tmp_path / "log")))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    code = (
        "import sys; from pathlib import Path; from vnetperf.traffic.loadgen.build import ENGINE; "
        "print(ENGINE.executable(cache=Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "cache")]
    builders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    built = {b.communicate(timeout=60)[0] for b in builders}
    assert [b.returncode for b in builders] == [0, 0, 0]
    assert len(built) == 1
    assert Path(built.pop().strip()).exists()
    assert (tmp_path / "log").read_text().count("run") == 1


def test_the_key_follows_sources_and_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "engine"
    sources.mkdir()
    for file in ENGINE.sources.iterdir():
        (sources / file.name).write_bytes(file.read_bytes())
    before = ENGINE.identity(BuildVariant.PLAIN)
    copy = DpdkProgram("loadgen", sources)
    assert copy.identity(BuildVariant.PLAIN) == before
    (sources / "hdr.h").write_text("/* changed */")
    assert copy.identity(BuildVariant.PLAIN) != before
    monkeypatch.setattr(build, "COMMON", shutil.copytree(build.COMMON, tmp_path / "common"))
    assert ENGINE.identity(BuildVariant.PLAIN) == before
    with (tmp_path / "common/engine.mk").open("a") as makefile:
        makefile.write("# changed\n")
    changed = ENGINE.identity(BuildVariant.PLAIN)
    assert changed != before
    monkeypatch.setenv("CC", "clang")
    assert ENGINE.identity(BuildVariant.PLAIN) != changed


@pytest.mark.parametrize(
    ("present", "named"),
    [((), "make"), (("make",), "pkg-config"), (("make", "pkg-config"), "gcc")],
)
def test_missing_tools_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, present: tuple[str, ...], named: str
) -> None:
    (tmp_path / "bin").mkdir()
    for name in present:
        tool(tmp_path / "bin", name, "#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(HostError) as missing:
        ENGINE.executable(cache=tmp_path)
    assert f"install the package {named}" in missing.value.cure


def test_missing_dpdk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PKG_CONFIG_LIBDIR", str(tmp_path))
    with pytest.raises(HostError) as missing:
        ENGINE.executable(cache=tmp_path)
    assert "libdpdk-dev" in missing.value.cure


@pytest.mark.parametrize(
    ("last", "shown", "hidden"),
    [("hdr.c: error: no such thing", "no such thing", "\n100\n"), ("Killed", "\n100\n", "\n50\n")],
    ids=["says error", "says nothing"],
)
def test_compile_errors_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str, shown: str, hidden: str
) -> None:
    tool(tmp_path / "bin", "make", f"#!/bin/sh\nseq 100\necho '{last}'\nexit 2\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    with pytest.raises(HostError) as failed:
        ENGINE.executable(cache=tmp_path / "cache")
    assert shown in failed.value.what
    assert hidden not in failed.value.what


def test_cache_directory_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_directory() == Path("/somewhere/vnetperf")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the XDG rules: to be ignored
    assert cache_directory() == Path.home() / ".cache" / "vnetperf"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can have the HOME of another")
def test_root_keeps_nothing_in_the_home_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache/vnetperf"
    os.chown(tmp_path, 65534, 65534)
    own = Path(pwd.getpwuid(0).pw_dir) / ".cache/vnetperf"
    within = tmp_path / "cache"
    within.mkdir()
    for missing in (within, within / "missing"):  # the user could put another in its place
        monkeypatch.setenv("XDG_CACHE_HOME", str(missing))
        assert cache_directory() == own
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == own
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cache_directory() == own


def test_a_cache_that_others_can_write_to_is_not_trusted(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(HostError, match="cannot be trusted"):
        ENGINE.executable(cache=tmp_path)
