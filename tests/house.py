"""The house rules of docs/architecture.md that a few lines can check; run by ``make check``.

Prints the figures of the package, beside those before its modules were merged, and fails on a rule
that is broken.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from configparser import ConfigParser
from dataclasses import dataclass, field
from pathlib import Path

from tests.figures import count_figures

TOP = Path(__file__).resolve().parents[1]
PACKAGE = "vnetperf"
#: A module that a single sibling imports is part of that sibling, unless it is longer than this.
SLICE_LINES = 120
#: Titles of the figures, and what they were before the modules were merged.
FIGURES = {
    "files": 568,
    "code lines": 44300,
    "docstring lines": 20000,
    "single importer": 209,
    "a single sibling": 139,
    "functions of a trial": 45,
    "files of a trial": 27,
}
#: Registered with pluggy, which no entry point names.
REGISTERED = {"vnetperf.pytest_plugin.hooks"}
#: Rooms that name no backend, neither ours nor a plugin's.
NEUTRAL = ("model", "host")
#: Rooms whose texts are vnetperf's own or the user's; what cannot be read there ends a command.
OWN_FILES = ("analysis", "cli", "config", "log", "report", "runner")
#: Families of backends: the entry points of setup.cfg.
FAMILIES = ("vswitches", "vnfs", "traffic", "wires", "collectors", "endpoints", "workloads", "mpi")
#: Names of backends that are words of another thing too: a library, a program, a Debian package, a
#: kind of link, a deployment, an image.
OTHER_MEANINGS = {
    *("dpdk", "testpmd", "veth", "memif", "nic", "cpu", "bridge", "macvtap", "sriov", "vepc"),
    *("sockperf", "netperf", "xdp", "mpi"),
}
#: What is measured with unless the user says otherwise.
DEFAULTS = {"vloop", "loadgen", "iperf3"}
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


@dataclass
class Module:
    """One file of the package."""

    name: str
    path: Path
    tree: ast.Module
    code: int = 0
    docstrings: int = 0
    #: Modules of the package that it imports: at its start, in functions, and for types alone.
    imports: set[str] = field(default_factory=set)

    @property
    def is_package(self) -> bool:
        """Whether it is an __init__.py."""
        return self.path.name == "__init__.py"

    @property
    def room(self) -> str:
        """Its folder, as a module's name."""
        return self.name if self.is_package else self.name.rpartition(".")[0]


def read_modules() -> dict[str, Module]:
    """Read every module of the package."""
    found = {}
    for path in sorted((TOP / PACKAGE).rglob("*.py")):
        inner = path.relative_to(TOP).with_suffix("")
        name = ".".join(inner.parts).removesuffix(".__init__")
        text = path.read_text()
        module = Module(name, path, ast.parse(text))
        _count_lines(module, text)
        found[name] = module
    for module in found.values():
        module.imports = set(_imported(ast.walk(module.tree), found))
    return found


def _count_lines(module: Module, text: str) -> None:
    documented: set[int] = set()
    for node in ast.walk(module.tree):
        if isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module
        ) and (ast.get_docstring(node, clean=False) is not None):
            first = node.body[0]
            documented.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {n for t in tokens if t.type not in _NO_CODE for n in range(t.start[0], t.end[0] + 1)}
    module.code, module.docstrings = len(lines - documented), len(documented)


def _imported(nodes: Iterator[ast.AST], known: dict[str, Module]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                name = inner if inner in known else node.module
                if name in known:
                    yield name
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)


def registered() -> tuple[set[str], set[str]]:
    """Modules that entry points name, and the names of backends."""
    setup = ConfigParser()
    setup.read(TOP / "setup.cfg")
    modules = set(REGISTERED)
    names: set[str] = set()
    for group, text in setup["options.entry_points"].items():
        for line in filter(None, map(str.strip, text.splitlines())):
            name, _, target = (part.strip() for part in line.partition("="))
            modules.add(target.partition(":")[0])
            if group.removeprefix(f"{PACKAGE}.") in FAMILIES:
                names.add(name)
    return modules, names


def single_importers(modules: dict[str, Module]) -> dict[str, str]:
    """Modules that only one other imports, and which."""
    importers: dict[str, set[str]] = defaultdict(set)
    for module in modules.values():
        for name in module.imports - {module.name}:
            importers[name].add(module.name)
    found = {name: next(iter(who)) for name, who in importers.items() if len(who) == 1}
    return {name: who for name, who in found.items() if not modules[name].is_package}


def trial_chains() -> list[list[tuple[str, str]]]:
    """The two tables of docs/architecture.md, "One trial, call by call": function and file.

    tests/runner/test_trial_chain.py holds them to the code.
    """
    text = (TOP / "docs/architecture.md").read_text()
    section = text.partition("## One trial, call by call\n")[2].partition("\n## ")[0]
    tables = section.split("|---|---|")[1:]
    return [re.findall(r"^\| `([\w.]+)` \| `([\w./]+)` \|", table, re.M) for table in tables]


def slices(modules: dict[str, Module], named: set[str]) -> Iterator[str]:
    """Short modules that are part of the one sibling that imports them."""
    for name, who in sorted(single_importers(modules).items()):
        module = modules[name]
        lines = len(module.path.read_text().splitlines())
        if name in named or modules[who].room != module.room or lines >= SLICE_LINES:
            continue
        if modules[who].is_package:  # a package's table of tests, clause sets or algorithms
            continue
        yield f"{name} ({lines} lines) is imported by its sibling {who} alone: it belongs there"


def class_names_twice(modules: dict[str, Module]) -> Iterator[str]:
    """Public classes of one name in two modules."""
    where: dict[str, list[str]] = defaultdict(list)
    for module in modules.values():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(module.name)
    for name, places in sorted(where.items()):
        if len(places) > 1:
            yield f"class {name} is in {' and in '.join(places)}"


def cycles(modules: dict[str, Module]) -> Iterator[str]:
    """Modules that import each other: one of them cannot be read, tried or moved by itself.

    Imports in functions and those for types alone (TYPE_CHECKING) count.
    """
    state: dict[str, str] = {}
    stack: list[str] = []

    def visit(name: str) -> Iterator[str]:
        state[name] = "open"
        stack.append(name)
        for other in sorted(modules[name].imports - {name}):
            if state.get(other) == "open":
                yield " -> ".join([*stack[stack.index(other) :], other])
            elif other not in state:
                yield from visit(other)
        stack.pop()
        state[name] = "done"

    for name in modules:
        if name not in state:
            yield from visit(name)


def named_backends(modules: dict[str, Module], names: set[str]) -> Iterator[str]:
    """Backends that a neutral room names in a string."""
    for module in modules.values():
        if module.name.split(".")[1:2] not in [[room] for room in NEUTRAL]:
            continue
        documented = {
            id(node.body[0].value)
            for node in ast.walk(module.tree)
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(module.tree):
            if (
                isinstance(node, ast.Constant)
                and node.value in names
                and id(node) not in documented
            ):
                yield f"{module.name}:{node.lineno} names the backend {node.value!r}"


def unread_octets(modules: dict[str, Module]) -> Iterator[str]:
    """Texts of the machine that an octet, a length or a kind of file that nobody expects can end.

    A file is read by `read_file` (vnetperf/host/linux.py); what a program prints is decoded with
    `errors`. `encoding` marks a file of our own.
    """
    for module in modules.values():
        if module.name.split(".")[1:2] in [[room] for room in OWN_FILES]:
            continue
        encoded = _encoded(module.tree)
        for node in ast.walk(module.tree):
            read = isinstance(node, ast.Attribute) and node.attr == "read_text"
            if read and ast.unparse(node.value) != "kernel" and id(node) not in encoded:
                yield f"{module.name}:{node.lineno} reads a text by itself: use read_file"
            if isinstance(node, ast.Call):
                given = {word.arg: ast.unparse(word.value) for word in node.keywords}
                if given.get("text") == "True" and "errors" not in given:
                    yield f"{module.name}:{node.lineno} decodes a program's output without errors="


def unknown_fields(modules: dict[str, Module]) -> Iterator[str]:
    """Keys that `model_copy` is given for a field that no class of the package has.

    Which class it is called on shows at run time alone, where `Frozen.model_copy` checks the names.
    """
    nodes = [(module, node) for module in modules.values() for node in ast.walk(module.tree)]
    fields = {
        statement.target.id
        for _, node in nodes
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    }
    for module, node in nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        for word in node.keywords if node.func.attr == "model_copy" else ():
            for key in word.value.keys if isinstance(word.value, ast.Dict) else ():
                if isinstance(key, ast.Constant) and key.value not in fields:
                    yield f"{module.name}:{node.lineno} copies a model with no field {key.value!r}"


def _encoded(tree: ast.Module) -> frozenset[int]:
    """Methods that are called with an encoding."""
    return frozenset(
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and any(word.arg == "encoding" for word in node.keywords)
    )


def main() -> int:
    """Print the figures, then what breaks a rule."""
    modules = read_modules()
    named, backends = registered()
    single = single_importers(modules)
    siblings = [name for name, who in single.items() if modules[who].room == modules[name].room]
    trial = [row for chain in trial_chains() for row in chain]
    now = (
        len(modules),
        sum(module.code for module in modules.values()),
        sum(module.docstrings for module in modules.values()),
        len(single),
        len(siblings),
        len(trial),
        len({file for _, file in trial}),
    )
    print(f"{'':22}{'before':>8}{'now':>8}")
    for (title, before), figure in zip(FIGURES.items(), now, strict=True):
        print(f"{title:22}{before:>8}{figure:>8}")
    figures = list(
        count_figures(
            TOP / PACKAGE,
            now[1],
            sorted((TOP / "tests").rglob("*.py")),
            [TOP / "README.md", *sorted((TOP / "docs").rglob("*.md"))],
        )
    )
    print(f"\n{'':58}{'before':>8}{'limit':>8}{'now':>8}")
    for figure in figures:
        print(f"{figure.title:58}{figure.before:>8g}{figure.limit:>8g}{figure.now:>8g}")
    broken = [
        *(
            f"{figure.title}: {figure.now:g}, and it may be {figure.limit:g} at most"
            for figure in figures
            if figure.now > figure.limit
        ),
        *slices(modules, named),
        *class_names_twice(modules),
        *cycles(modules),
        *named_backends(modules, backends - OTHER_MEANINGS - DEFAULTS),
        *unread_octets(modules),
        *unknown_fields(modules),
    ]
    for line in broken:
        print(line)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
