"""Recorded texts: a changed text fails, a recording takes it, and what has no test goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.texts import HERE, NAME, Recorder, has_test, read_texts, write_texts


def made(name: str, text: str) -> str:
    return f"""
import pytest

@pytest.mark.parametrize("port", [0, 1])
def test_ports(texts, port, tmp_path):
    texts.check(f"port {{port}}\\n\\n  in {{tmp_path}}\\n")
    texts.check(["first", "second"], "lines")

def test_{name}(texts):
    texts.check("{text}")
"""


def test_a_text_is_recorded_and_then_compared(pytester: pytest.Pytester) -> None:
    plugins = ("-p", "tests.texts", "-p", "no:cacheprovider")
    file = pytester.makepyfile(test_a=made("note", "2 of 3 rounds differ"))
    pytester.runpytest(*plugins).assert_outcomes(failed=3)

    pytester.inline_run(*plugins, plugins=[Recorder()])
    assert read_texts(pytester.path) == {
        ("test_a.py::test_note", ""): "2 of 3 rounds differ",
        ("test_a.py::test_ports[0]", ""): "port 0\n\n  in TMP\n",
        ("test_a.py::test_ports[0]", "lines"): "first\nsecond",
        ("test_a.py::test_ports[1]", ""): "port 1\n\n  in TMP\n",
        ("test_a.py::test_ports[1]", "lines"): "first\nsecond",
    }
    pytester.runpytest(*plugins).assert_outcomes(passed=3)

    file.write_text(made("note", "1 of 3 rounds differs"))
    result = pytester.runpytest(*plugins)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["-2 of 3 rounds differ", "+1 of 3 rounds differs"])


def test_a_recording_keeps_what_did_not_run_and_forgets_what_is_gone(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(test_a=made("limit", "4 % lost"), test_b="def test_pod(texts): pass")
    others = {
        ("test_b.py::test_pod", ""): "\n",
        ("test_b.py::test_pod", "x | y"): "",
        ("test_a.py::test_ports[0]", ""): "port 0",
    }
    gone = {("test_a.py::test_note", ""): "3 % lost", ("test_c.py::test_note", ""): "5 % lost"}
    write_texts(pytester.path, others | gone)
    options = ("-p", "tests.texts", "-k", "limit")
    pytester.inline_run(*options, plugins=[Recorder()])
    texts = read_texts(pytester.path)
    assert texts == others | {("test_a.py::test_limit", ""): "4 % lost"}


@pytest.mark.parametrize("file", sorted(HERE.rglob(NAME)), ids=lambda path: path.parent.name)
def test_each_recorded_text_has_its_test(file: Path) -> None:
    assert [test for test, _ in read_texts(file.parent) if not has_test(file.parent, test)] == []
