"""Reports of a run, derived from its results: terminal, Markdown, HTML, CSV, JUnit."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from vnetperf.log.stored import rare_collections
from vnetperf.log.trial_log import foreign_log
from vnetperf.model.errors import ConfigError
from vnetperf.model.result import Result, RunResults, TrialPoint
from vnetperf.report.csv_files import (
    cpu_csv,
    curves_csv,
    outcomes_csv,
    results_csv,
    transfers_csv,
    trials_csv,
)
from vnetperf.report.junit import junit_parts
from vnetperf.report.markdown import markdown_report
from vnetperf.report.page import html_report
from vnetperf.report.summary import shown_part

#: A list of numbers, one a line: in JSON no string holds a line break, so it is never text.
_NUMBERS = re.compile(r"\[\n\s+(-?\d[\d.eE+-]*(?:,\n\s+-?\d[\d.eE+-]*)*)\n\s+\]")


def results_json(results: RunResults) -> str:
    """results.json."""
    return "".join(json_parts(results))


#: Fields of results that hold many values, in the order in which the file has them.
_LONG: dict[str, TypeAdapter[Any]] = {
    "results": TypeAdapter(list[Result]),
    "trials": TypeAdapter(list[TrialPoint]),
}
#: Values that are made text at once.
_AT_ONCE = 50


def json_parts(results: RunResults) -> Iterator[str]:
    """results.json part by part: that of a long run is larger than the memory it should take."""
    rest = results.model_copy(update=dict.fromkeys(_LONG, ())).model_dump_json(indent=2)
    for name, kind in _LONG.items():
        before, _, rest = rest.partition(f'\n  "{name}": []')
        yield _NUMBERS.sub(_in_line, before)
        values: Sequence[Any] = getattr(results, name)
        yield f'\n  "{name}": ['
        for start in range(0, len(values), _AT_ONCE):
            part = list(values[start : start + _AT_ONCE])
            without: dict[int, Any] = {
                place: {"outcome"}
                for place, value in enumerate(part)
                if isinstance(value, Result) and value.outcome is None
            }
            text = kind.dump_json(part, indent=2, exclude=without).decode()
            body = _NUMBERS.sub(_in_line, text.removeprefix("[").removesuffix("\n]"))
            yield ("," if start else "") + body.replace("\n", "\n  ")
        yield "\n  ]" if len(values) else "]"
    yield _NUMBERS.sub(_in_line, rest) + "\n"


def _in_line(match: re.Match[str]) -> str:
    return f"[{', '.join(match[1].split())}]".replace(",,", ",")


#: File name -> what makes its text, part by part.
REPORTS: dict[str, Callable[[RunResults], Iterable[str]]] = {
    "results.json": json_parts,
    "report.md": lambda results: (markdown_report(results),),
    "report.html": lambda results: (html_report(results),),
    "results.csv": results_csv.parts,
    "trials.csv": trials_csv.parts,
    "cpu.csv": cpu_csv.parts,
    "outcomes.csv": outcomes_csv.parts,
    "curves.csv": curves_csv.parts,
    "transfers.csv": transfers_csv.parts,
    "junit.xml": junit_parts,
}


#: Those that are read, and have a part of the cases where there are too many to be.
READ = ("report.md", "report.html")


def check_target(path: Path) -> None:
    """Refuse to write to what is there and is no regular file."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        target = path.readlink()
        raise ConfigError(
            f"it is a link to {target}, and stays as it is",
            where=str(path),
            cure=f"name its target, {path.parent / target}, or remove the link",
        )
    if not stat.S_ISREG(mode):
        raise ConfigError(
            "it is no regular file, and stays as it is",
            where=str(path),
            cure="name a file, or what does not exist yet",
        )


def write_atomically(path: Path, content: str | Iterable[str]) -> None:
    """Replace a file in one step, by a text or by its parts.

    Raises:
        ConfigError: What is there is a device, a pipe or a link: in its place (`/dev/stdout`, by
            root) a file would be everybody's loss.
        OSError: It cannot be written.
    """
    check_target(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.writelines((content,) if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_all(results: RunResults, directory: Path) -> list[Path]:
    """Write results.json and every report derived from it; none where one cannot be replaced."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in REPORTS:
        check_target(directory / name)
    written = []
    shown = shown_part(results)  # once for both
    for name, render in REPORTS.items():
        path = directory / name
        with foreign_log(f"writing {name}"), rare_collections():
            write_atomically(path, render(shown if name in READ else results))
        written.append(path)
    return written
