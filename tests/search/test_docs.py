from __future__ import annotations

import re
from pathlib import Path

from vnetperf import search


def test_the_examples_of_the_document_run() -> None:
    text = (Path(__file__).parents[2] / "docs" / "search.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    known = dict(search.ALGORITHMS)
    try:
        exec(compile("\n".join(blocks), "docs/search.md", "exec"), {})  # noqa: S102 - our own document
    finally:
        search.ALGORITHMS.clear()
        search.ALGORITHMS.update(known)
