"""What the whole suite shares: pytest in a test, and programs that are not real."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from vnetperf.plugin import registry

EXAMPLES = int(os.environ.get("TEST_EXAMPLES", "40"))
try:
    from hypothesis import HealthCheck, settings
except ModuleNotFoundError:
    # pytest reads this file, too, where a path is misspelt: who only measures has no Hypothesis.
    pass
else:
    # How long an example takes is up to who else uses the machine. The daily lane looks for new
    # examples at each run, and for more: no change is refused for what it has not to do with.
    settings.register_profile(
        "tests",
        settings.default,
        max_examples=EXAMPLES,
        derandomize=EXAMPLES < 100,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("tests")
pytest_plugins = ["pytester", "tests.texts"]

if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    # Below nohup: pytest outlives its terminal as before, but what it starts does not inherit a
    # signal that is ignored, as a handler is the default again in another program.
    signal.signal(signal.SIGHUP, lambda *_: None)

Register = Callable[[registry.Family, str, str], None]
Programs = Callable[[dict[str, str]], Path]
#: Settings of the machine; not those of processes, control groups and network namespaces.
SETTINGS = re.compile(r"/proc/(sys/(?!net/)|[a-z-]+$)|/sys/(?!fs/cgroup/)")
WRITTEN: list[str] = []
WRITES = os.O_WRONLY | os.O_RDWR


def note_writes(event: str, arguments: tuple[object, ...]) -> None:
    """Note which settings are opened for writing; a test may have suppressed errors."""
    if event == "open" and SETTINGS.match(str(arguments[0])):
        flags = arguments[2]
        if isinstance(flags, int) and flags & WRITES:
            WRITTEN.append(str(arguments[0]))


sys.addaudithook(note_writes)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let no search for garbage walk over what was imported and collected, then and later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(autouse=True)
def machine_left_alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """Only a real test changes the machine: what it has set would hold for all that run beside."""
    WRITTEN.clear()
    yield
    if not request.node.get_closest_marker("real"):
        assert not WRITTEN, "settings of the machine were written"


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


@pytest.fixture
def register_backend() -> Iterator[Register]:
    """`registry.register`; what a test registers is gone after it."""
    before = registry.registered()
    yield registry.register
    for family, backends in registry.registered().items():
        for name in backends.keys() - before[family].keys():
            registry.unregister(family, name)
