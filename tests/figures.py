"""Figures of the house that may only get better; `python -m tests.house` prints and holds them.

The limit of each is what it was when it was last improved: lower it with the change that does so.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

#: Pronouns, prepositions and participles: as names they do not say what a thing is.
VAGUE_WORDS = frozenset(
    [
        "found",
        "one",
        "why",
        "held",
        "known",
        "mine",
        "own",
        "there",
        "at",
        "of",
        "whole",
        "every",
        "each",
        "what",
        "here",
        "then",
        "made",
        "told",
        "seen",
        "asked",
        "given",
        "taken",
        "left",
        "more",
        "theirs",
        "both",
        "beside",
        "within",
        "wanted",
        "how",
        "who",
    ]
)
#: Nouns that say nothing.
EMPTY_WORDS = frozenset(["result", "value", "item", "entry", "data", "text"])
#: Words of an identifier that name a capability, and the rooms whose own it is.
CAPABILITIES = {
    "pods": ({"pod", "pods"}, ("networks", "virt", "workloads")),
    "MPI": ({"mpi"}, ("mpi", "workloads")),
    "NAT": ({"nat", "nats"}, ("vswitches", "openvswitch")),
    "guest speed": ({"sysbench", "guestspeed"}, ("workloads", "endpoints")),
}
#: Attributes that tell one kind of scenario from another.
KIND_FLAGS = ("pods", "sockets", "apart", "has_dut", "is_guest")
#: A sentence that is longer is read twice.
SENTENCE_WORDS = 45
#: An assert with a longer sentence holds wording; texts of users stand in texts.txt.
WORDING = re.compile(r"""assert [^\n]*["'][^"'\n]{36,}["']""")
PRIVATE = re.compile(r"(?<!self)(?<!cls)\._[a-z]\w*")


@dataclass(frozen=True)
class Figure:
    """A figure of the house.

    Attributes:
        title: What is counted.
        before: What it was when the house was drawn anew.
        limit: What it may be at most.
        now: What it is.
    """

    title: str
    before: float
    limit: float
    now: float


#: What was counted before the house was drawn anew, and what may be counted at most.
LIMITS: dict[str, tuple[float, float]] = {
    "code lines": (78950, 81183),
    "names that are pronouns, prepositions or participles, %": (10.1, 0.2),
    "functions with such a word": (637, 32),
    "names that say nothing, %": (2.9, 2.9),
    "files that name pods": (43, 24),
    "files that name MPI": (21, 2),
    "files that name NAT": (26, 5),
    "files that name guest speed": (1, 0),
    "files that read .pods": (26, 10),
    "files that read .sockets": (13, 12),
    "files that read .apart": (11, 11),
    "files that read .has_dut": (12, 12),
    "files that read .is_guest": (8, 0),
    "asserts in tests that hold a sentence": (549, 38),
    "private parts that tests touch": (299, 26),
    "words of the README": (2651, 900),
    "words of prose in the documents": (76855, 42000),
    "pieces of text with more than 45 words": (82, 1),
}


def count_figures(
    package: Path, code_lines: int, tests: Iterable[Path], documents: Iterable[Path]
) -> Iterator[Figure]:
    """Count the figures.

    Args:
        package: Its folder.
        code_lines: Lines of its code.
        tests: Files of the tests.
        documents: README.md first.

    Yields:
        The figures, in the order of `LIMITS`.
    """
    counts = {
        "code lines": float(code_lines),
        **_count_identifiers(package),
        **_count_tests(tests),
        **_count_prose(documents),
    }
    for title, (before, limit) in LIMITS.items():
        yield Figure(title, before, limit, counts[title])


def split_identifier(name: str) -> list[str]:
    """Words of a name in snake_case or CamelCase; "guest_speed" is one."""
    name = re.sub(r"guest_?speed", "guestspeed", name, flags=re.IGNORECASE)
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def _identifiers(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        for field in ("id", "attr", "arg", "name", "asname", "module"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield from name.split(".")


def _bound_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr.lstrip("_")


def _count_identifiers(package: Path) -> dict[str, float]:
    names: Counter[str] = Counter()
    capability_files: dict[str, int] = defaultdict(int)
    flag_files: dict[str, int] = defaultdict(int)
    vague_functions = 0
    for path in sorted(package.rglob("*.py")):
        tree = ast.parse(path.read_text())
        room = path.relative_to(package).parts[0]
        words = {word for name in _identifiers(tree) for word in split_identifier(name)}
        for capability, (signs, homes) in CAPABILITIES.items():
            capability_files[capability] += room not in homes and bool(words & signs)
        read = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Store)
        }
        for flag in KIND_FLAGS:
            flag_files[flag] += flag in read
        names.update(_bound_names(tree))
        vague_functions += sum(
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and bool(VAGUE_WORDS.intersection(split_identifier(node.name)))
            for node in ast.walk(tree)
        )
    total = sum(count for name, count in names.items() if name not in ("self", "cls", "_"))
    vague, empty = (sum(names[word] for word in words) for words in (VAGUE_WORDS, EMPTY_WORDS))
    return {
        "names that are pronouns, prepositions or participles, %": round(100 * vague / total, 1),
        "functions with such a word": vague_functions,
        "names that say nothing, %": round(100 * empty / total, 1),
        **{f"files that name {name}": count for name, count in capability_files.items()},
        **{f"files that read .{flag}": count for flag, count in flag_files.items()},
    }


def _count_tests(tests: Iterable[Path]) -> dict[str, float]:
    texts = [path.read_text() for path in tests]
    return {
        "asserts in tests that hold a sentence": sum(len(WORDING.findall(text)) for text in texts),
        "private parts that tests touch": sum(len(PRIVATE.findall(text)) for text in texts),
    }


def _count_prose(documents: Iterable[Path]) -> dict[str, float]:
    texts = [path.read_text() for path in documents]
    prose = [re.sub(r"```.*?```", " ", text, flags=re.DOTALL) for text in texts]
    pieces = [
        piece
        for text in prose
        for piece in re.split(
            r"(?<=[.!?:])\s+|\n\s*\n|\n[-*|] ?", re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
        )
    ]
    return {
        "words of the README": len(texts[0].split()),
        "words of prose in the documents": sum(len(piece.split()) for piece in pieces),
        "pieces of text with more than 45 words": sum(
            len(piece.split()) > SENTENCE_WORDS for piece in pieces
        ),
    }
