"""Drives a headless Chromium by its command line: no driver, no network, a fresh profile."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BINARY = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = (
    "--headless",
    "--no-sandbox",  # root has no sandbox; the page is our own file
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--enable-logging=stderr",
)
DARK = "--blink-settings=preferredColorScheme=0"
_CONSOLE = re.compile(r"CONSOLE[:(].*")


@dataclass(frozen=True, slots=True)
class Visit:
    """What a visit of a page left.

    Attributes:
        dom: The page's elements after its scripts ran.
        console: Lines that the page wrote to the console, errors of its policy among them.
    """

    dom: str
    console: tuple[str, ...]


def run(page: Path, *flags: str, width: int = 1600, height: int = 1200) -> Visit:
    """Open a page with the given further flags and wait until Chromium has ended."""
    assert BINARY
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        done = subprocess.run(
            [
                BINARY,
                *_FLAGS,
                f"--user-data-dir={profile}",
                f"--window-size={width},{height}",
                *flags,
                page.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=240,  # of a machine whose processors others use too
            check=True,
        )
    return Visit(done.stdout, tuple(_CONSOLE.findall(done.stderr)))


def _with_probe(page: Path, send: str, script: str) -> str:
    """A copy of a page that evaluates a script and hands on its value as JSON.

    The copy goes without the page's policy, which would (rightly) refuse a foreign script.
    """
    source = page.read_text("utf-8")
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", source)
    assert bare != source
    given = f"Promise.resolve((() => {{{script}}})())"
    added = f"<script>{given}.then((value) => {send}(JSON.stringify(value)));</script></body>"
    return bare.replace("</body>", added)


def _answer(copy: Path, *flags: str) -> Any:
    visit = run(copy, "--dump-dom", "--virtual-time-budget=3000", *flags)
    found = re.search(r'<html[^>]* data-probe="([^"]*)"', visit.dom)
    assert found, visit.console
    return json.loads(html.unescape(found[1]))


def probe(page: Path, script: str, *flags: str) -> Any:
    """The JSON value of a script (a function's body) run in a page 1600 wide."""
    copy = page.with_name("probe.html")
    send = "(said => document.documentElement.dataset.probe = said)"
    copy.write_text(_with_probe(page, send, script), encoding="utf-8")
    return _answer(copy, *flags)


def probe_framed(*frames: tuple[Path, int, str], height: int = 900) -> list[Any]:
    """The same of several pages in one visit, each in a frame with a width and a script of its own.

    Chromium's own window is never below 500, and takes longer to start than a page to be drawn.
    """
    shown = "".join(
        f'<iframe style="width:{width}px;height:{height}px;border:0" srcdoc="{html.escape(inner)}">'
        "</iframe>"
        for page, width, script in frames
        for inner in [_with_probe(page, "(said => parent.postMessage(said, '*'))", script)]
    )
    copy = frames[0][0].with_name("frame.html")
    copy.write_text(
        '<!doctype html><meta charset="utf-8"><script>const said = new Map();'
        'addEventListener("message", (event) => { said.set(event.source, JSON.parse(event.data));'
        'const all = [...document.querySelectorAll("iframe")].map((f) => f.contentWindow);'
        f"if (said.size === {len(frames)}) document.documentElement.dataset.probe ="
        f"JSON.stringify(all.map((w) => said.get(w))); }});</script>{shown}",
        encoding="utf-8",
    )
    found: list[Any] = _answer(copy)
    return found


def each(*scripts: str) -> str:
    """A script whose value is the list of the values of several, run one after the other."""
    return f"return [{', '.join(f'(() => {{{script}}})()' for script in scripts)}];"
