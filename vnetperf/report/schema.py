"""JSON Schema of results.json, published as docs/results.schema.json, and docs/fields.md beside it.

fields.md explains the same fields, and those of a trial in the log, to a reader. Write both with
``python -m vnetperf.report.schema docs/results.schema.json``; with ``--check`` the files are
compared instead and the exit status is 1 when one is stale.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from vnetperf.model.result import SCHEMA_VERSION, RunResults
from vnetperf.model.trial import TrialResult, TrialSpec

_FIELDS_HEAD = """\
# Fields

What does a field of `results.json`, or of a trial in `trials.jsonl`, mean?
`results.json` is a [RunResults](#runresults). A record of type `trial` in the log holds as `spec` a
[TrialSpec](#trialspec), which is what was requested, and as `result` a
[TrialResult](#trialresult), which is what was counted. `None` is `null` in the files.
[results.md](results.md) has the files, the records of the log, units and verdicts;
[results.schema.json](results.schema.json) is for programs.

`python -m vnetperf.report.schema docs/results.schema.json` writes this page.

"""
_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.+(?:\n {8,}\S.*)*)", re.MULTILINE)


def attribute_docs(model: type[BaseModel]) -> dict[str, str]:
    """The fields in the docstrings of a model and of its base classes."""
    docs: dict[str, str] = {}
    for base in reversed(model.__mro__):
        _, _, section = (inspect.cleandoc(base.__doc__ or "")).partition("Attributes:\n")
        docs |= {name: " ".join(doc.split()) for name, doc in _ATTRIBUTE.findall(section)}
    return docs


def _models(*roots: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Models by name: the roots, and those that their fields hold, each after its holder."""
    models: dict[str, type[BaseModel]] = {}
    annotations: list[Any] = [*reversed(roots)]
    while annotations:
        annotation = annotations.pop()
        annotations += reversed(get_args(annotation))
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            continue
        if annotation.__name__ not in models:
            models[annotation.__name__] = annotation
            annotations += reversed([f.annotation for f in annotation.model_fields.values()])
    return models


def _describe(definition: dict[str, Any], model: type[BaseModel]) -> None:
    docs = attribute_docs(model)
    definition["description"] = (inspect.getdoc(model) or "").partition("\n")[0]
    for name, field in definition.get("properties", {}).items():
        field.pop("title", None)
        if name in docs:
            field["description"] = docs[name]


def results_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of results.json."""
    schema = RunResults.model_json_schema()
    models = _models(RunResults)
    _describe(schema, RunResults)
    for name, definition in schema.get("$defs", {}).items():
        if name in models:
            _describe(definition, models[name])
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:vnetperf:results:{SCHEMA_VERSION}",
        "title": "vnetperf results.json",
    }
    return head | {key: value for key, value in schema.items() if key != "title"}


def schema_text() -> str:
    """The schema as it stands in docs/results.schema.json."""
    return json.dumps(results_schema(), indent=2, ensure_ascii=False) + "\n"


def _model_table(model: type[BaseModel], models: Collection[str]) -> Iterator[str]:
    """One model's heading and table; a field that holds another model links to its table."""
    docs = attribute_docs(model)
    sentence = (inspect.getdoc(model) or "").partition("\n\n")[0].replace("\n", " ")
    yield f"## {model.__name__}\n\n| Field | {sentence} |\n|---|---|"
    for name, field in model.model_fields.items():
        if field.exclude:
            continue
        parts = [part for part in _types(field.annotation) if part in models]
        links = [f"[{part}](#{part.lower()})" for part in parts]
        meaning = " ".join([docs.get(name, "").replace("|", "\\|"), *links]).strip()
        yield f"| `{name}` | {meaning} |"
    yield ""


def _types(annotation: Any) -> Iterator[str]:
    """Names of the classes in an annotation."""
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation.__name__
    for argument in get_args(annotation):
        yield from _types(argument)


def fields_text() -> str:
    """The tables of docs/fields.md: every field of results.json, and of a trial in the log."""
    models = _models(RunResults, TrialSpec, TrialResult)
    tables = [line for model in models.values() for line in _model_table(model, models)]
    return _FIELDS_HEAD + "\n".join(tables)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the published schema and the tables of fields."""
    parser = argparse.ArgumentParser(prog="python -m vnetperf.report.schema")
    parser.add_argument("path", type=Path, help="docs/results.schema.json")
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    options = parser.parse_args(arguments)
    path: Path = options.path
    texts = {path: schema_text(), path.with_name("fields.md"): fields_text()}
    if not options.check:
        for file, text in texts.items():
            file.write_text(text, encoding="utf-8")
        return 0
    stale = [
        file
        for file, text in texts.items()
        if not file.is_file() or file.read_text(encoding="utf-8") != text
    ]
    for file in stale:
        sys.stderr.write(f"{file} is stale; cure: python -m vnetperf.report.schema {path}\n")
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
