"""Texts that a user reads, kept beside the tests in one file a room: `texts.txt`.

A test holds behaviour: the class of an error, its `where` and `accepted`, the numbers of a table.
Where the text itself is the product (a page, a table, a note), the test asks the fixture `texts`:

    def test_a_note_names_the_rounds_that_differ(texts: Texts) -> None:
        assert note.rounds == (2, 3)
        texts.check(note)                   # the only text of this test
        texts.check(table, "table")         # a further one, by its key
        texts.check([str(e) for e in errors], "errors")  # several, one after the other
        texts.check(lines_with(page, "not measured"), "page")  # these lines alone

The test fails with a diff if the text is not exactly the recorded one. The test's temporary folders
are written as `TMP`; a text that differs by machine, time or width of a terminal does not belong
here.

python -m tests.texts [FILE, FOLDER ...]            run the tests that hold a text
python -m tests.texts --record [FILE, FOLDER ...]   write their texts as they are now

Look at the diff of `texts.txt` before it is committed: it is what the user will read.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NAME = "texts.txt"
INDENT = "    "
OPTIONS = ["-q", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
Key = tuple[str, str]
RECORDER = pytest.StashKey["Recorder"]()


def read_texts(folder: Path) -> dict[Key, str]:
    """The recorded texts of a room: (test, key) -> text."""
    file = folder / NAME
    content = file.read_text() + "\n" if file.exists() else ""
    texts = {}
    for part in filter(None, re.split(r"^(?=\S)", content, flags=re.MULTILINE)):
        title, _, body = part.partition("\n")
        test, _, key = title.partition(" | ")
        lines = body.removesuffix("\n\n").split("\n")
        texts[test, key] = "\n".join(line.removeprefix(INDENT) for line in lines)
    return texts


def write_texts(folder: Path, texts: dict[Key, str]) -> None:
    """Write the texts of a room, sorted by test and key."""
    parts = []
    for (test, key), text in sorted(texts.items()):
        lines = [INDENT + line if line else "" for line in text.split("\n")]
        parts.append("\n".join([f"{test} | {key}" if key else test, *lines]) + "\n\n")
    (folder / NAME).write_text("".join(parts)[:-1])


def lines_with(text: str, *words: str) -> list[str]:
    """The lines of a text that have one of the words, without their indentation."""
    return [line.strip() for line in text.splitlines() if any(word in line for word in words)]


def has_test(folder: Path, test: str) -> bool:
    """Whether the function of a recorded text's test is still there."""
    name, _, function = test.partition("[")[0].partition("::")
    return (folder / name).exists() and f"def {function}(" in (folder / name).read_text()


class Texts:
    """Compares the texts of one test with the recorded ones."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._folder = request.path.parent
        self._test = f"{request.path.name}::{request.node.name}"
        self._recorder = request.config.stash.get(RECORDER, None)
        self._folders = []
        if "tmp_path" in request.fixturenames:
            self._folders.append(str(request.getfixturevalue("tmp_path")))
        if "pytester" in request.fixturenames:
            self._folders.append(str(request.getfixturevalue("pytester").path))

    def check(self, text: str | Iterable[str], key: str = "") -> None:
        """Fail unless the text is the recorded one; several texts are joined by line breaks."""
        text = text if isinstance(text, str) else "\n".join(text)
        for folder in self._folders:
            text = text.replace(folder, "TMP")
        if self._recorder is not None:
            self._recorder.add(self._folder, (self._test, key), text)
            return
        recorded = read_texts(self._folder).get((self._test, key))
        if recorded is None:
            pytest.fail(f"no text is recorded for this test and key {key!r}: {text}", pytrace=False)
        if text != recorded:
            lines = (recorded.split("\n"), text.split("\n"))
            diff = difflib.unified_diff(*lines, NAME, "now", n=1, lineterm="")
            pytest.fail("\n".join([f"{self._test} | {key}", *diff]), pytrace=False)


@pytest.fixture
def texts(request: pytest.FixtureRequest) -> Texts:
    """The recorded texts of this test."""
    return Texts(request)


class Holders:
    """Runs only the tests that hold a text."""

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Deselect the tests that do not ask for the fixture."""
        keep = [item for item in items if "texts" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=[item for item in items if item not in keep])
        items[:] = keep


class Recorder(Holders):
    """Collects the texts of all tests that run, and writes them at the end."""

    def __init__(self) -> None:
        self._collected: dict[Path, set[str]] = {}
        self._texts: dict[Path, dict[Key, str]] = {}

    def pytest_configure(self, config: pytest.Config) -> None:
        """Let the fixture find this recorder."""
        config.stash[RECORDER] = self

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Remember which tests of which rooms run."""
        super().pytest_collection_modifyitems(config, items)
        for item in items:
            tests = self._collected.setdefault(item.path.parent, set())
            tests.add(f"{item.path.name}::{item.name}")

    def add(self, folder: Path, key: Key, text: str) -> None:
        """Take a text; the same key may come again only with the same text."""
        if self._texts.setdefault(folder, {}).setdefault(key, text) != text:
            pytest.fail(f"{key}: two texts with one key", pytrace=False)

    def pytest_sessionfinish(self) -> None:
        """Write each room's file; a test that did not run or did not get as far keeps its texts."""
        for folder, collected in self._collected.items():
            fresh = self._texts.get(folder, {})
            ran = {test for test, _ in fresh}
            functions = {test.partition("[")[0] for test in collected}
            kept = {
                (test, key): text
                for (test, key), text in read_texts(folder).items()
                if test in collected - ran
                or (test.partition("[")[0] not in functions and has_test(folder, test))
            }
            write_texts(folder, kept | fresh)


def main(arguments: list[str]) -> int:
    """Run the tests that hold a text, in the files and folders named or in all rooms."""
    record = "--record" in arguments
    paths = [argument for argument in arguments if argument != "--record"]
    if not paths:
        sources = (path for path in HERE.rglob("test_*.py") if "texts.check(" in path.read_text())
        paths = sorted(map(str, sources))
    return pytest.main([*OPTIONS, *paths], plugins=[Recorder() if record else Holders()])


if __name__ == "__main__":
    from tests.texts import main  # the module that pytest has: the fixture looks for its recorder

    sys.exit(main(sys.argv[1:]))
