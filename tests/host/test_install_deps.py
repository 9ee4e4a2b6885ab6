"""scripts/install-deps, with made-up package tools."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/install-deps"


def known() -> bool:
    system = platform.freedesktop_os_release()
    name = f"{system.get('ID')}:{system.get('VERSION_ID')}"
    return name in {"debian:12", "debian:13", "ubuntu:24.04"}


pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not known(), reason="needs root on a system the script knows"
)


def run(
    tmp_path: Path, apt: str, installed: str = "", can_be_had: str = "", units: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run it where systemd runs, with units whose names match a pattern of the shell."""
    tools = tmp_path / "bin"
    tools.mkdir(exist_ok=True)
    for name, text in {
        "dpkg-query": f"printf '{installed}'",
        "apt-get": f"cat {tmp_path}/policy > {tmp_path}/seen; {apt}",
        # A name that other packages mention is known to `show`, whether or not it can be had.
        "apt-cache": f'case $1 in madison) printf "{can_be_had}" ;; esac',
        "systemctl": f'echo "$@" >>{tmp_path}/systemctl\n'
        f'case "$*" in "cat "{units or "none"}) ;; "cat "*) exit 1 ;; esac',
    }.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    (tmp_path / "tmp").mkdir(exist_ok=True)
    env = {
        "PATH": f"{tools}:/usr/sbin:/usr/bin:/sbin:/bin",
        "POLICY_RC_D": str(tmp_path / "policy"),
        "SYSTEMD_RUNS": str(tmp_path),
        "TMPDIR": str(tmp_path / "tmp"),
    }
    return subprocess.run(
        [str(SCRIPT)], env=env, capture_output=True, text=True, check=False, timeout=30
    )


def left(tmp_path: Path) -> list[str]:
    policy = ["policy"] if (tmp_path / "policy").exists() else []
    return policy + [p.name for p in (tmp_path / "tmp").iterdir()]


def test_no_service_starts_and_nothing_is_left(tmp_path: Path) -> None:
    assert run(tmp_path, "true").returncode == 0
    assert "exit 101" in (tmp_path / "seen").read_text()
    assert left(tmp_path) == []
    failed = run(tmp_path, "echo no network; exit 1")
    assert failed.returncode == 1
    assert "no network" in failed.stderr
    assert left(tmp_path) == []


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    run(tmp_path, "true")
    (tmp_path / "policy").write_text((tmp_path / "seen").read_text())
    run(tmp_path, "true", installed="install ok installed")  # nothing to install
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("status", "missing"),
    [
        ("install ok installed", False),
        ("hold ok installed", False),
        ("deinstall ok installed", False),
        ("hold ok triggers-pending", False),
        ("install ok installed\\ndeinstall ok config-files", False),
        ("hold ok config-files", True),
        ("install ok not-installed", True),
        ("install ok half-installed", True),
        ("unknown ok not-installed", True),
    ],
)
def test_what_is_there_is_not_installed_again_whatever_was_asked_for(
    tmp_path: Path, status: str, missing: bool
) -> None:
    """One that is kept at its version is "hold ok installed"."""
    done = run(tmp_path, "true", installed=status)
    assert done.returncode == 0, done.stderr
    assert ("installing" in done.stdout) == missing
    services = tmp_path / "systemctl"
    disabled = services.read_text() if services.exists() else ""
    assert ("disable" in disabled) == missing


def test_the_policy_of_somebody_else_stays(tmp_path: Path) -> None:
    (tmp_path / "policy").write_text("#!/bin/sh\nexit 0\n")
    run(tmp_path, "true")
    assert (tmp_path / "policy").read_text() == "#!/bin/sh\nexit 0\n"


@pytest.mark.parametrize(
    ("program", "package"), [("dockerd", "docker"), ("kubectl", "kubernetes-client")]
)
def test_a_program_of_somebody_else_is_not_replaced(
    tmp_path: Path, program: str, package: str
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / program).write_text("#!/bin/sh\n")
    (tmp_path / "bin" / program).chmod(0o755)
    done = run(tmp_path, "true", can_be_had="one that can be had")
    assert "podman" in done.stdout
    assert package not in done.stdout


def test_an_optional_package_that_cannot_be_installed_is_left_out(tmp_path: Path) -> None:
    """It may be in the way of another one, which only the package manager knows."""
    done = run(
        tmp_path,
        'case "$*" in *podman*) echo in the way; exit 1 ;; esac',
        can_be_had="one that can be had",
    )
    assert done.returncode == 0, done.stderr
    (left_out,) = (line for line in done.stderr.splitlines() if "left out" in line)
    assert left_out.endswith(": podman")
    assert "hpcc" not in done.stderr


def test_optional_packages_are_looked_for_in_lists_that_are_there(tmp_path: Path) -> None:
    """A fresh machine has none before the first update, and each package would be missing."""
    lists = tmp_path / "lists"
    done = run(
        tmp_path,
        f'case $1 in update) touch {lists} ;; *) echo "$@" >>{tmp_path}/asked ;; esac',
        can_be_had=f'$([ ! -e {lists} ] || echo "one that can be had")',
    )
    assert done.returncode == 0, done.stderr
    assert "podman" in (tmp_path / "asked").read_text()


@pytest.mark.parametrize("units", ["", "docker.* | 'cat 'containerd.*"])
def test_a_service_that_was_there_comes_up_at_the_next_boot(tmp_path: Path, units: str) -> None:
    """Whatever the package is called that brought it."""
    assert run(tmp_path, "true", units=units).returncode == 0
    asked = (tmp_path / "systemctl").read_text().splitlines()
    disabled = {line.split()[-1] for line in asked if line.startswith("disable ")}
    of_docker = {"docker.service", "docker.socket", "containerd.service"}
    others = {"openvswitch-switch.service", "chrony.service"}
    assert disabled == (others if units else others | of_docker)


def lab(tmp_path: Path, qemu: str, policy: str = "") -> list[str]:
    """What apt-get is asked for when a QEMU of this version is installed ("" for none)."""
    tools = tmp_path / "bin"
    tools.mkdir()
    version = "case $2 in *Version*) printf '%s' \"$VERSION\";; *) printf '%s' \"$STATUS\";; esac"
    for name, text in {
        "dpkg-query": f"case $3 in qemu*) STATUS='{'install ok installed' if qemu else ''}'"
        f" VERSION={qemu};; *) STATUS='install ok installed';; esac; {version}",
        "apt-cache": f"case $1 in policy) echo '{policy}' ;; madison) echo there ;; esac",
        "apt-get": f'echo "$@" >>{tmp_path}/asked\n'
        'case $1 in indextargets) echo "mirror:/debian/";; esac',
        "systemctl": "true",
    }.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    env = {
        "PATH": f"{tools}:/usr/sbin:/usr/bin:/sbin:/bin",
        "POLICY_RC_D": str(tmp_path / "policy"),
        "BACKPORTS_SOURCE": str(tmp_path / "backports"),
    }
    done = subprocess.run(
        [str(SCRIPT), "lab"], env=env, capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stderr
    asked = tmp_path / "asked"
    return asked.read_text().splitlines() if asked.exists() else []


bookworm = pytest.mark.skipif(
    platform.freedesktop_os_release().get("VERSION_CODENAME") != "bookworm",
    reason="the release's own QEMU is new enough",
)


@bookworm
@pytest.mark.parametrize("qemu", ["", "1:7.2+dfsg-7"])
def test_the_lab_gets_its_qemu_from_backports_of_the_mirror_in_use(
    tmp_path: Path, qemu: str
) -> None:
    asked = lab(tmp_path, qemu)
    assert asked[-1].split()[-3:] == ["-t", "bookworm-backports", "qemu-system-x86"]
    assert "--no-install-recommends" in asked[-1]
    source = (tmp_path / "backports").read_text()
    assert {"URIs: mirror:/debian/", "Suites: bookworm-backports"} <= {*source.splitlines()}


@bookworm
def test_backports_that_are_configured_are_not_added_again(tmp_path: Path) -> None:
    asked = lab(tmp_path, "1:7.2", policy="release o=Debian Backports,n=bookworm-backports,c=main")
    assert len(asked) == 1
    assert not (tmp_path / "backports").exists()


def test_a_qemu_that_is_new_enough_stays(tmp_path: Path) -> None:
    assert lab(tmp_path, "1:10.0.2+ds-2") == []


def test_an_unknown_set_is_refused() -> None:
    done = subprocess.run(
        [str(SCRIPT), "laboratory"], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 2
    assert "run, lab, test" in done.stderr


@pytest.mark.parametrize("can_be_had", ["", "netperf | 2.7.0-0.1 | a mirror"])
def test_what_not_every_machine_can_have_is_asked_for_where_it_can(
    tmp_path: Path, can_be_had: str
) -> None:
    done = run(tmp_path, "true", can_be_had=can_be_had)
    assert done.returncode == 0, done.stderr
    assert ("netperf" in done.stdout) is bool(can_be_had)
