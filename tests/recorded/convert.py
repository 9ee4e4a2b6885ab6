"""Converts logs to the layout of today's, by maps of keys: recorded runs, and others by hand.

`python -m tests.recorded.convert` converts the recorded runs of another log version in place;
`python -m tests.recorded.convert OLD.jsonl.xz NEW.jsonl` converts a log. What a log does not have
gets the value that stands for "not counted", so that its results stay as they are.
"""

from __future__ import annotations

import io
import json
import lzma
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from vnetperf.log.records import LOG_VERSION, Record, ScenarioRecord
from vnetperf.log.trial_log import LOG_NAME, encode_records
from vnetperf.model.frames import overhead

HERE = Path(__file__).parent
#: Type of a record -> keys that it has no more; `*` is each item of a list, or value of a table.
DROPPED: dict[str, tuple[str, ...]] = {
    "run": ("testbed.tester_sleep_us", "preset.confirm"),
    "search": ("limits.confirm", "limits.start_fps"),
    "search-end": ("start_fps",),
    "trial": ("spec.visit",),
}
#: Type of a record -> keys that it did not have -> what stands for "not recorded".
ADDED: dict[str, dict[str, Any]] = {"run": {"cases": []}}
#: Type of a record, key, value that it had -> value that means the same today.
RENAMED: dict[tuple[str, str, Any], Any] = {("trial", "spec.phase", "confirm"): ""}
_RECORD: TypeAdapter[Record] = TypeAdapter(Record)


def tables_with(tree: Any, path: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Each table that may have a key, and the key's last part."""
    first, _, rest = path.partition(".")
    if not rest:
        if isinstance(tree, dict):
            yield tree, first
        return
    inner: Iterable[Any] = ()
    if isinstance(tree, dict):
        inner = tree.values() if first == "*" else (tree.get(first),)
    elif isinstance(tree, list) and first == "*":
        inner = tree
    for value in inner:
        yield from tables_with(value, rest)


class Converter:
    """Converts the records of one log, in their order: some know what others did not have."""

    def __init__(self) -> None:
        self._tolerance = 1.0
        self._tunnels: dict[str, int] = {}

    def record(self, line: str | bytes) -> Record:
        """A record of any version as it is written today."""
        content = json.loads(line)
        kind = content["type"]
        content.pop("digest", None)
        _convert_keys(content, kind)
        if kind == "run":
            content["version"] = LOG_VERSION
            self._tolerance = content["preset"]["trial"]["offered_tolerance"]
        elif kind in ("search", "procedure"):  # once, the scenario alone had it
            if content.get("overhead") is None:
                content["overhead"] = self._tunnels[content["scenario"]]
        elif kind == "trial":  # once, the preset alone had it
            content["spec"].setdefault("offered_tolerance", self._tolerance)
        elif kind == "scenario":
            _name_duts(content["facts"].get("plan") or {})
        record = _RECORD.validate_python(content)
        if isinstance(record, ScenarioRecord):
            self._tunnels[record.facts.scenario] = overhead(record.scenario.encapsulation)
        return record


def _convert_keys(content: dict[str, Any], kind: str) -> None:
    for path in DROPPED.get(kind, ()):
        for table, key in tables_with(content, path):
            table.pop(key, None)
    for path, value in ADDED.get(kind, {}).items():
        for table, key in tables_with(content, path):
            table.setdefault(key, value)
    for (of, path, before), now in RENAMED.items():
        for table, key in tables_with(content, path) if of == kind else ():
            if table.get(key) == before:
                table[key] = now


def _name_duts(plan: dict[str, Any]) -> None:
    """Name the pollers of the DUT in a plan, which once were all but the tester's and the VNFs'."""
    for part in (plan, *(plan.get("hosts") or ())):
        if placed := part.get("placement"):
            kinds = {role: role.rpartition(":")[2] for role in placed["cores"]}
            duts = [role for role, of in kinds.items() if not of.startswith(("tester", "vnf"))]
            placed.setdefault("dut", duts)


def converted(log: bytes) -> bytes:
    """A log as it would be written today."""
    return b"".join(encode_records(map(Converter().record, filter(None, log.splitlines()))))


def _is_of_today(log: bytes) -> bool:
    return bool(json.loads(log.partition(b"\n")[0])["version"] == LOG_VERSION)


def _convert_archive(path: Path) -> None:
    with tarfile.open(path) as archive:
        files = {
            member.name: file.read()
            for member in archive
            if (file := archive.extractfile(member)) is not None
        }
    if _is_of_today(files[LOG_NAME]):
        return
    files[LOG_NAME] = converted(files[LOG_NAME])
    with tarfile.open(path, "w:xz") as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def _log(path: Path) -> bytes:
    content = path.read_bytes()
    return lzma.decompress(content) if path.suffix == ".xz" else content


if __name__ == "__main__":
    if len(sys.argv) == 3:
        old, new = map(Path, sys.argv[1:])
        new.write_bytes(converted(_log(old)))
        sys.exit()
    for run in HERE.glob("*.tar.xz"):
        _convert_archive(run)
    for run in HERE.glob("*.jsonl.xz"):
        if not _is_of_today(_log(run)):
            run.write_bytes(lzma.compress(converted(_log(run))))
