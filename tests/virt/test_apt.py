"""Asking apt and getting packages, with a made-up apt."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Programs
from vnetperf.model.errors import HostError
from vnetperf.virt import tools
from vnetperf.virt.tools import Package

CONTENT = b"a package"
SUM = hashlib.sha256(CONTENT).hexdigest()
LINE = f"'mirror:/pool/%s' %s 9 SHA256:{SUM}"


def uris(*files: str) -> str:
    lines = [LINE % (file, file) for file in files]
    return "cat <<'X'\n" + "\n".join([*lines, "W: a warning"]) + "\nX"


def one(name: str = "kmod", version: str = "1:30+x-1") -> Package:
    return Package(name, version, f"{name}_1%3a30+x-1_amd64.deb", len(CONTENT), SUM)


def test_what_is_not_wanted_is_left_out_unless_asked_for(
    tmp_path: Path, programs: Programs
) -> None:
    files = ("zlib1g_1_amd64.deb", "libdpdk-dev_2_amd64.deb", "dpdk-dev_1%3a2-3_amd64.deb")
    programs({"apt-get": f'echo "$@" >{tmp_path}/asked\n{uris(*files)}'})
    found = tools.resolve_packages(["dpdk-dev"], ["*-dev"], tmp_path)
    assert [(each.name, each.version) for each in found] == [("dpdk-dev", "1:2-3"), ("zlib1g", "1")]
    asked = (tmp_path / "asked").read_text()
    assert "--print-uris" in asked
    assert f"::status={tmp_path}/status" in asked
    assert (tmp_path / "status").read_bytes() == b""


def test_a_package_that_apt_does_not_know_is_named(tmp_path: Path, programs: Programs) -> None:
    programs({"apt-get": uris("kmod_1_amd64.deb")})
    with pytest.raises(HostError, match="dash") as caught:
        tools.resolve_packages(["kmod", "dash"], [], tmp_path)
    assert "apt-get update" in caught.value.cure


def test_a_refusal_of_apt_is_told(tmp_path: Path, programs: Programs) -> None:
    programs({"apt-get": "echo 'E: Unable to locate package dpdk-dev' >&2; exit 100"})
    with pytest.raises(HostError, match="Unable to locate package dpdk-dev") as caught:
        tools.exact_packages(["dpdk-dev"], tmp_path)
    assert "apt-get update" in caught.value.cure


def test_only_what_is_missing_is_fetched(tmp_path: Path, programs: Programs) -> None:
    programs({"apt-get": f'echo "$@" >>{tmp_path}/asked\nprintf "a package" >"{one().file}"'})
    folder = tmp_path / "packages"
    folder.mkdir()
    there = one("dash")
    (folder / there.file).write_bytes(CONTENT)
    tools.download_packages([there, one()], folder, lambda _: None)
    assert (tmp_path / "asked").read_text() == (
        "download -qq -o APT::Get::AllowUnauthenticated=false kmod=1:30+x-1\n"
    )
    tools.download_packages([there, one()], folder, lambda _: None)
    assert (tmp_path / "asked").read_text().count("\n") == 1


@pytest.mark.parametrize("left", [b"a pack", b"A PACKAGE"])
def test_half_and_damaged_packages_are_fetched_again(
    tmp_path: Path, programs: Programs, left: bytes
) -> None:
    programs({"apt-get": f'[ ! -e "{one().file}" ] && printf "a package" >"{one().file}"'})
    (tmp_path / one().file).write_bytes(left)
    tools.download_packages([one()], tmp_path, lambda _: None)
    assert (tmp_path / one().file).read_bytes() == CONTENT


def test_a_fetch_that_brings_something_else_is_an_error(tmp_path: Path, programs: Programs) -> None:
    programs({"apt-get": f'printf "evil" >"{one().file}"'})
    with pytest.raises(HostError, match="did not bring what it had promised"):
        tools.download_packages([one()], tmp_path, lambda _: None)


class Repository:
    """A made-up repository, as apt would list it."""

    def __init__(self, lists: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lists, self.sources = lists / "lists", lists / "etc"
        self.lists.mkdir()
        (self.sources / "sources.list.d").mkdir(parents=True)
        monkeypatch.setattr(tools, "APT_SOURCES", self.sources)
        self.signed = self.lists / "mirror.example_pool_dists_stable_InRelease"
        self.signed.write_bytes(b"signed")
        self._programs = programs
        self.listed()

    def listed(self, trusted: str = "yes") -> None:
        base = "http://mirror.example/pool/"
        fields = (base, f"{base}dists/stable/", f"{self.lists}/mirror.example_Packages", trusted)
        line = "\t".join((*fields, "Debian", "stable", "$(VERSION)"))
        self._programs({"apt-get": f"cat <<'X'\n{line}\nX"})


@pytest.fixture
def repository(tmp_path: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch) -> Repository:
    return Repository(tmp_path, programs, monkeypatch)


PACKAGE = replace(one(), uri="http://mirror.example/pool/k/kmod.deb")


def test_a_signed_repository_is_recorded(repository: Repository) -> None:
    (repository.sources / "sources.list").write_text(
        "# deb [trusted=yes] http://mirror.example/pool/ stable main\n"
        "deb [trusted=yes] http://other.example/ stable main\n"
        "deb [signed-by=/k] http://mirror.example/pool/ stable main\n"
    )
    digest = hashlib.sha256(b"signed").hexdigest()
    assert tools.signed_repositories([PACKAGE, PACKAGE]) == [
        {
            "repository": "http://mirror.example/pool/dists/stable/",
            "origin": "Debian",
            "codename": "stable",
            "signature": f"InRelease SHA256:{digest}",
        }
    ]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda r: r.signed.unlink(), "has no signature"),
        (lambda r: r.listed(trusted="no"), "does not trust"),
        (
            lambda r: (r.sources / "sources.list").write_text(
                "deb [ arch=amd64 trusted=yes ] http://mirror.example/pool stable main\n"
            ),
            "trusted=yes",
        ),
        (
            lambda r: (r.sources / "sources.list.d/x.sources").write_text(
                "Types: deb\nURIs: http://mirror.example/pool/\nTrusted: yes\n"
            ),
            "trusted=yes",
        ),
    ],
)
def test_an_unsigned_repository_is_refused(
    repository: Repository, spoil: Callable[[Repository], object], why: str
) -> None:
    spoil(repository)
    with pytest.raises(HostError, match=why) as caught:
        tools.signed_repositories([PACKAGE])
    assert "runs as root" in str(caught.value)
    assert "Signed-By" in caught.value.cure


def test_a_package_of_no_repository_is_refused(repository: Repository) -> None:
    with pytest.raises(HostError, match="no repository that is configured"):
        tools.signed_repositories([replace(PACKAGE, uri="http://evil.example/kmod.deb")])
