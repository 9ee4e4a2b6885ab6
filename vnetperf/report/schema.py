"""JSON Schema of results.json, published as docs/results.schema.json.

Write it with ``python -m vnetperf.report.schema docs/results.schema.json``; with ``--check`` the
file is compared instead and the exit status is 1 when it is stale.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from vnetperf.model.result import SCHEMA_VERSION, RunResults

_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.+(?:\n {8,}\S.*)*)", re.MULTILINE)


def attribute_docs(model: type[BaseModel]) -> dict[str, str]:
    """The fields in the docstrings of a model and of its base classes."""
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        _, _, section = (inspect.cleandoc(one.__doc__ or "")).partition("Attributes:\n")
        found |= {name: " ".join(doc.split()) for name, doc in _ATTRIBUTE.findall(section)}
    return found


def _models() -> dict[str, type[BaseModel]]:
    found: dict[str, type[BaseModel]] = {}
    todo: list[Any] = [RunResults]
    while todo:
        item = todo.pop()
        todo += get_args(item)
        if isinstance(item, type) and issubclass(item, BaseModel) and item.__name__ not in found:
            found[item.__name__] = item
            todo += [field.annotation for field in item.model_fields.values()]
    return found


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
    models = _models()
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the published schema."""
    parser = argparse.ArgumentParser(prog="python -m vnetperf.report.schema")
    parser.add_argument("path", type=Path, help="docs/results.schema.json")
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    options = parser.parse_args(arguments)
    path: Path = options.path
    if not options.check:
        path.write_text(schema_text(), encoding="utf-8")
        return 0
    if path.is_file() and path.read_text(encoding="utf-8") == schema_text():
        return 0
    sys.stderr.write(f"{path} is stale; cure: python -m vnetperf.report.schema {path}\n")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
