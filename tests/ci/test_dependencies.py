"""What is installed: bounds, the lock of CI, and whose licences it has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from configparser import ConfigParser
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TOP = Path(__file__).parents[2]
LOCK = TOP / "ci/requirements.lock"
LICENCES = TOP / "docs/dependencies.md"
#: Packages of which parts are used that they do not promise, or whose versions begin with 0.
BOUNDED = ("execnet", "numpy", "pydantic", "pyroute2", "pytest", "pytest-xdist", "vpp-papi")


def requirements(*extras: str) -> Iterator[Requirement]:
    setup = ConfigParser(interpolation=None)
    setup.read(TOP / "setup.cfg")
    groups = [setup["options"]["install_requires"]]
    groups += [setup["options.extras_require"][name] for name in extras]
    for line in "\n".join(groups).splitlines():
        if line.strip() and not line.strip().startswith("%("):
            yield Requirement(line.strip())


def locked() -> dict[str, tuple[str, int]]:
    """Package -> its version, and how many hashes it has."""
    found = {}
    for block in re.split(r"\n(?=\S)", LOCK.read_text().strip()):
        package = re.match(r"(\S+)==([^\s;]+)", block)
        assert package is not None, block
        name, version = package.groups()
        found[canonicalize_name(name)] = (
            version,
            len(re.findall("--hash=sha256:[0-9a-f]{64}", block)),
        )
    return found


@pytest.mark.parametrize("name", BOUNDED)
def test_a_major_version_that_may_break_us_is_not_taken(name: str) -> None:
    (found,) = (one for one in requirements() if one.name == name)
    assert any(one.operator == "<" for one in found.specifier)


def test_what_is_locked_is_what_is_required_with_hashes_and_no_address() -> None:
    text, held = LOCK.read_text(), locked()
    assert "://" not in text
    assert "--index" not in text
    assert min(hashes for _, hashes in held.values()) > 0
    for wanted in requirements("test", "lab", "vm", "cri", "dev"):
        version, _ = held[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(version), wanted


def test_what_depends_on_what_is_locked_is_locked_too() -> None:
    held = locked()
    for name in held:
        try:
            needs = metadata.distribution(name).requires or []
        except metadata.PackageNotFoundError:  # of another system
            continue
        for text in needs:
            one = Requirement(text)
            if one.marker is None or one.marker.evaluate({"extra": ""}):
                assert canonicalize_name(one.name) in held, f"{name} needs {one}"


def test_each_package_is_listed_with_its_licence() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", LICENCES.read_text(), re.MULTILINE)
    listed = {canonicalize_name(name): licence.strip() for name, licence in rows}
    assert listed.keys() == locked().keys()
    assert all(listed.values())


def test_actions_are_named_by_commit() -> None:
    workflow = (TOP / ".github/workflows/ci.yml").read_text()
    used = re.findall(r"uses: (\S+)", workflow)
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", one)] == []
