"""What runc is given for a pod, and that what it makes elsewhere is journaled before it does."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args
from unittest.mock import MagicMock, call

import pytest

from vnetperf.host.linux import UNSHARE, ProcessId
from vnetperf.model.errors import HostError
from vnetperf.model.scenario import PodKind
from vnetperf.virt import oci, pods

MOUNTS = """tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    (tmp_path / "mounts").write_text(MOUNTS)
    monkeypatch.setattr(oci, "PROC_MOUNTS", tmp_path / "mounts")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(oci, "_FEATURES", {})
    machine = MagicMock()
    machine.run_id, machine.run_dir = "20260101-000000-abcd", tmp_path
    machine.run.return_value = '{"mountOptions": ["ro", "rro"]}'
    machine.facts.programs = {"runc": "/usr/sbin/runc"}
    machine.subdir.side_effect = lambda name: tmp_path / name
    return machine


def made(machine: MagicMock) -> tuple[oci.OciPod, dict[str, Any]]:
    pod = oci.OciPod(machine, "pod0", (3, 1))
    pod.directory.mkdir()
    pod.create()
    return pod, json.loads((pod.directory / "bundle/config.json").read_text())


def test_a_pod_has_namespaces_and_processors_of_its_own(machine: MagicMock) -> None:
    pod, config = made(machine)
    namespaces = {one["type"]: one.get("path") for one in config["linux"]["namespaces"]}
    own = {"pid": None, "ipc": None, "uts": None, "mount": None}
    assert namespaces == {**own, "network": str(pod.netns)}
    assert config["linux"]["resources"]["cpu"] == {"cpus": "1,3"}
    assert config["hostname"] == "pod0"
    assert "VNETPERF_RUN_ID=20260101-000000-abcd" in config["process"]["env"]


def test_the_machines_files_are_read_only_and_the_runs_are_not(machine: MagicMock) -> None:
    _, config = made(machine)
    assert config["root"]["readonly"]
    mounts = {one["destination"]: one for one in config["mounts"]}
    assert "ro" in mounts["/usr"]["options"]
    assert "rw" in mounts[str(machine.run_dir / oci.RANKS)]["options"]
    assert str(machine.run_dir) not in mounts  # root executes and reads files there
    assert "/proc/sys" in config["linux"]["readonlyPaths"]
    assert not {"/home", "/root", "/var", "/"} & set(mounts)
    assert [mounts[place]["type"] for place in ("/tmp", "/run")] == ["tmpfs", "tmpfs"]


@pytest.mark.parametrize(
    ("why", "features", "recursive"),
    [
        ("", '{"mountOptions": ["ro", "rro"]}', True),
        ("", '{"mountOptions": ["ro"]}', False),
        ("", HostError('runc 1.0 has no command "features"'), False),
        ("Linux 5.10 has no mount_setattr(2)", '{"mountOptions": ["ro", "rro"]}', False),
    ],
)
def test_what_is_mounted_below_is_read_only_where_runc_and_the_kernel_can(
    machine: MagicMock,
    monkeypatch: pytest.MonkeyPatch,
    why: str,
    features: str | HostError,
    recursive: bool,
) -> None:
    monkeypatch.setattr(oci, "explain_writable_mounts", lambda: why)
    machine.run.side_effect = [features]
    _, config = made(machine)
    mounts = {one["destination"]: one["options"] for one in config["mounts"]}
    assert "ro" in mounts["/usr"]
    assert ("rro" in mounts["/usr"]) is recursive
    assert "rro" not in mounts[str(machine.run_dir / oci.RANKS)]


def test_a_pod_sees_programs_that_are_built_after_it_was_made(
    machine: MagicMock, tmp_path: Path
) -> None:
    _, config = made(machine)
    place = tmp_path / "cache/vnetperf/mpi"
    mounts = {one["destination"]: one for one in config["mounts"]}
    assert place.is_dir()
    assert "ro" in mounts[str(place)]["options"]


def test_cgroups_are_journaled_before_the_container_is_made(machine: MagicMock) -> None:
    made(machine)
    name = "vnetperf-20260101-000000-abcd-pod0"
    calls = machine.mock_calls
    journaled = [n for n, one in enumerate(calls) if one[0] == "journal.intend"]
    assert [calls[n].args[2] for n in journaled] == [
        {"paths": [f"/sys/fs/cgroup/{mount}/{name}" for mount in ("cpuset", "unified")]}
    ]
    spawned = next(n for n, one in enumerate(calls) if one[0] == "spawn")
    assert max(journaled) < spawned
    root = str(machine.run_dir / "runc")
    assert calls[spawned].args[1][:4] == ["/usr/sbin/runc", "--root", root, "run"]


def test_programs_enter_it_and_it_is_deleted_once(machine: MagicMock) -> None:
    pod, _ = made(machine)
    root = str(machine.run_dir / "runc")
    name = "vnetperf-20260101-000000-abcd-pod0"
    assert pod.entry("any") == ("/usr/sbin/runc", "--root", root, "exec", name)
    machine.run.reset_mock()
    pod.give_back()
    pod.give_back()
    gone = ["/usr/sbin/runc", "--root", root, "delete", "--force", name]
    assert machine.run.call_args_list == [call(gone)]


def test_kinds_of_pods(machine: MagicMock) -> None:
    assert [*pods.PODS] == [*get_args(PodKind)]
    assert {kind: type(pods.make_pod(kind, machine, "a", (1,))) for kind in pods.PODS} == pods.PODS


def test_runc_is_asked_once_what_it_can(
    machine: MagicMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oci, "explain_writable_mounts", lambda: "")
    pod, _ = made(machine)
    pod.create()
    assert machine.run.call_args_list == [call(["/usr/sbin/runc", "features"])]


def test_all_that_podman_keeps_is_in_the_run_s_directory(
    machine: MagicMock, tmp_path: Path
) -> None:
    machine.facts.programs = {"runc": "/usr/sbin/runc", "podman": "/usr/bin/podman"}
    machine.new_subdir.side_effect = lambda name: (tmp_path / name).mkdir() or tmp_path / name
    pod = oci.PodmanPod(machine, "pod0", (3, 1))
    pod.directory.mkdir()
    pod.create()
    name, line = machine.spawn.call_args.args
    assert (name, line[: len(UNSHARE)]) == ("pod0", [*UNSHARE])
    assert line[len(UNSHARE) + 4] == str(tmp_path / "podman-pod0")
    given = dict(itertools.pairwise(line))
    own = {given[key].partition("/m")[0] for key in ("--root", "--runroot", "--tmpdir")}
    assert own == {""}
    assert given["--runtime-flag"] == f"root={tmp_path}/runc"
    assert given["--network"] == f"ns:{pod.netns}"
    assert given["--cgroup-parent"] == "/vnetperf-20260101-000000-abcd-pod0"
    assert "mount --bind /mnt/shm /dev/shm" in line[len(UNSHARE) + 2]
    assert {"--read-only", "no-conmon", f"{tmp_path}/ranks:{tmp_path}/ranks:rw"} <= set(line)


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def program_of(runc: subprocess.Popen[bytes], pid_file: Path) -> oci._OciProgram:
    process = MagicMock(pid=runc.pid, returncode=0)
    process.signal.side_effect = lambda by: os.kill(runc.pid, by)
    return oci._OciProgram(process, pid_file)


def test_a_program_that_runc_leaves_is_killed(
    tmp_path: Path, other: subprocess.Popen[bytes]
) -> None:
    (tmp_path / "pid").write_text(str(other.pid))
    with subprocess.Popen(["sleep", "60"]) as runc:
        program_of(runc, tmp_path / "pid").end(signal.SIGTERM)
    assert other.wait(5) == -signal.SIGKILL


def test_what_has_the_number_of_a_program_that_ended_is_not_killed(
    tmp_path: Path, other: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pid").write_text(str(other.pid))
    with subprocess.Popen(["true"]) as unseen:
        unseen.wait()
        program_of(unseen, tmp_path / "pid").end(signal.SIGTERM)
    with subprocess.Popen(["sleep", "60"]) as seen:
        program = program_of(seen, tmp_path / "pid")
        with monkeypatch.context() as then:
            then.setattr(ProcessId, "read", lambda pid: ProcessId(pid, 1))
            assert program.ended() is None
        program.end(signal.SIGTERM)
    assert other.poll() is None
