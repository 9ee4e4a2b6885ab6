from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args, get_type_hints

from vnetperf import search

DOCUMENT = Path(__file__).parents[2] / "docs" / "search.md"


def test_the_examples_of_the_document_run() -> None:
    text = DOCUMENT.read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    known = dict(search.ALGORITHMS)
    try:
        exec(compile("\n".join(blocks), "docs/search.md", "exec"), {})  # noqa: S102 - our own document
    finally:
        search.ALGORITHMS.clear()
        search.ALGORITHMS.update(known)


def test_searches_import_what_the_document_says() -> None:
    claim = re.search(r"Within vnetperf `search/` imports `([\w.]+)` only", DOCUMENT.read_text())
    assert claim is not None
    imported = {
        node.module or ""
        for path in Path(search.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and not node.level
    }
    others = {name for name in imported if re.match(r"vnetperf(?!\.search\b)", name)}
    assert others
    assert all(f"{name}.".startswith(f"{claim[1]}.") for name in others), others


def test_the_document_names_what_a_search_returns() -> None:
    [named] = re.findall(r"`SearchOutcome.results` has one `(\w+)`", DOCUMENT.read_text())
    [outcome] = get_args(get_type_hints(search.SearchOutcome)["results"])[:1]
    assert outcome.__name__ == named
