"""Reports of a run, derived from its results: terminal, Markdown, HTML, CSV, JUnit."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from vnetperf.model.result import RunResults
from vnetperf.report.csv_files import (
    cpu_csv,
    curves_csv,
    outcomes_csv,
    results_csv,
    transfers_csv,
    trials_csv,
)
from vnetperf.report.junit import junit_xml
from vnetperf.report.markdown import markdown_report
from vnetperf.report.page import html_report
from vnetperf.results.log import foreign_log

#: A list of numbers, one a line: in JSON no string holds a line break, so it is never text.
_NUMBERS = re.compile(r"\[\n\s+(-?\d[\d.eE+-]*(?:,\n\s+-?\d[\d.eE+-]*)*)\n\s+\]")


def results_json(results: RunResults) -> str:
    """results.json."""
    return _NUMBERS.sub(_in_line, results.model_dump_json(indent=2)) + "\n"


def _in_line(found: re.Match[str]) -> str:
    return f"[{', '.join(found[1].split())}]".replace(",,", ",")


#: File name -> what writes its text.
REPORTS: dict[str, Callable[[RunResults], str]] = {
    "results.json": results_json,
    "report.md": markdown_report,
    "report.html": html_report,
    "results.csv": results_csv,
    "trials.csv": trials_csv,
    "cpu.csv": cpu_csv,
    "outcomes.csv": outcomes_csv,
    "curves.csv": curves_csv,
    "transfers.csv": transfers_csv,
    "junit.xml": junit_xml,
}


def write_atomically(path: Path, content: str) -> None:
    """Replace a file in one step."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_all(results: RunResults, directory: Path) -> list[Path]:
    """Write results.json and every report derived from it."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, render in REPORTS.items():
        path = directory / name
        with foreign_log(f"writing {name}"):
            text = render(results)
        write_atomically(path, text)
        written.append(path)
    return written
