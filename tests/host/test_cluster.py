"""As whom kubectl runs, and whose kubeconfig is not used; no cluster is asked."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from vnetperf.host.cluster import Cluster, explain_unused_kubeconfig
from vnetperf.model.errors import HostError

ALICE, BOB = 65534, 65533

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to users")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder of Alice's."""
    made = tmp_path / "alice"
    made.mkdir(mode=0o755)
    os.chown(made, ALICE, ALICE)
    return made


def kubeconfig(folder: Path, owner: int, mode: int = 0o600) -> Path:
    made = folder / "config"
    made.touch()
    os.chown(made, owner, owner)
    made.chmod(mode)
    return made


def user_of(path: Path) -> str:
    """As whom kubectl runs with it."""
    line = Cluster("kubectl", str(path), "", "bench").line("a-run", "version")
    return line[line.index("--reuid") + 1]


def refusal(path: Path) -> str:
    """What is said of a kubeconfig before anything is started, and whenever kubectl is to be."""
    why = explain_unused_kubeconfig(str(path))
    with pytest.raises(HostError, match=re.escape(str(path))) as refused:
        user_of(path)
    assert refused.value.what in why
    return why


def test_kubectl_runs_as_the_owner_of_the_file(home: Path, tmp_path: Path) -> None:
    of_alice, of_root = kubeconfig(home, ALICE), kubeconfig(tmp_path, 0)
    assert (explain_unused_kubeconfig(str(of_alice)), user_of(of_alice)) == ("", str(ALICE))
    assert (explain_unused_kubeconfig(str(of_root)), user_of(of_root)) == ("", "0")
    of_alice.chmod(0o664)
    assert "(mode 0664)" in refusal(of_alice)


@pytest.mark.parametrize("owner", [0, BOB])
def test_who_owns_the_folder_does_not_become_the_file_s_owner(
    owner: int, home: Path, tmp_path: Path
) -> None:
    """A link to another's file now may lead to one's own when kubectl opens it."""
    target = kubeconfig(tmp_path, owner)
    link = home / "link"
    link.symlink_to(target)
    assert user_of(target) == str(owner)
    says = f"{home} belongs to user {ALICE}"
    assert says in refusal(link)
    assert says in refusal(kubeconfig(home, owner))


def test_a_link_of_alice_s_in_a_sticky_folder_is_hers_too(tmp_path: Path) -> None:
    shared, target = tmp_path / "shared", kubeconfig(tmp_path, 0)
    shared.mkdir()
    shared.chmod(0o1777)
    link = shared / "link"
    link.symlink_to(target)
    assert user_of(link) == "0"  # root's link, which nobody else can replace there
    os.lchown(link, ALICE, ALICE)
    assert f"{link} belongs to user {ALICE}" in refusal(link)
    shared.chmod(0o777)
    assert "written to by others (mode 0777)" in refusal(link)


def test_pods_stay_in_the_context_that_was_current(tmp_path: Path) -> None:
    """Whoever owns the file may go on to another cluster before the run's pods are deleted."""
    kubectl, config = tmp_path / "kubectl", kubeconfig(tmp_path, 0)
    kubectl.write_text("#!/bin/sh\ncat " + str(config) + "\n")
    kubectl.chmod(0o755)
    config.write_text("blue\n")
    cluster = Cluster(str(kubectl), str(config), "", "bench")
    settled = cluster.settled("a-run")
    config.write_text("green\n")
    assert settled.settled("a-run").context == "blue"
    kubectl.write_text("#!/bin/sh\necho error: current-context is not set >&2; exit 1\n")
    assert cluster.settled("a-run") == cluster
