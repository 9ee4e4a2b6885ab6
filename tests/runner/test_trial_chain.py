"""docs/architecture.md, "One trial, call by call": each function is there and calls the next."""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import pairwise

from tests.house import TOP, trial_chains

#: Called by name, in a thread or through a process, so that no source shows the call.
INDIRECT = {"_TrialOfHosts.run_part", "Agent.serve", "Agent.call_run_trial", "mlr_search"}


@cache
def parsed(text: str) -> ast.AST:
    return ast.parse(text)


def source_of(function: str, file: str) -> str:
    text = (TOP / file).read_text()
    nodes: list[ast.AST] = [parsed(text)]
    for name in function.split("."):
        nodes = [n for node in nodes for n in ast.iter_child_nodes(node)]
        nodes = [n for n in nodes if getattr(n, "name", "") == name]
    assert nodes, f"{file} has no {function}"
    return ast.get_source_segment(text, nodes[0]) or ""


def test_each_function_calls_the_next() -> None:
    for chain in trial_chains():
        for (function, file), (following, _) in pairwise(chain):
            name = following.rpartition(".")[2]
            called = re.search(rf"\b{name}\(", source_of(function, file).partition("\n")[2])
            assert called or following in INDIRECT, (function, following)
        source_of(*chain[-1])


def test_the_document_counts_them() -> None:
    rows = [row for chain in trial_chains() for row in chain]
    files = {file for _, file in rows}
    stated = f"passes {len(rows)} functions in {len(files)} files"
    assert stated in (TOP / "docs/architecture.md").read_text()
