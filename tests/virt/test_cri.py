"""What a containerd is given for a pod, what it is asked, and how it answers."""

from __future__ import annotations

import hashlib
import json
import tarfile
import tomllib
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from vnetperf.host.linux import UNSHARE
from vnetperf.model.errors import HostError
from vnetperf.virt import cri, oci

grpc = pytest.importorskip("grpc", reason="needs the extra cri")
SANDBOX, CONTAINER = "f" * 64, "e" * 64


class Containerd:
    """Answers as a containerd does, in the protocol's octets, and remembers what it was asked."""

    def __init__(self, socket: Path) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.refuses: dict[str, tuple[Any, str]] = {}
        #: Field 1 of each response that has one.
        self.answers = {
            "ImageStatus": [b"", b"\n\x04\n\x02id"],
            "RunPodSandbox": [b"\n\x40" + SANDBOX.encode()],
            "CreateContainer": [b"\n\x40" + CONTAINER.encode()],
        }
        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        self.server.add_generic_rpc_handlers((self,))
        self.server.add_insecure_port(f"unix:{socket}")
        self.server.start()

    def service(self, details: Any) -> Any:
        method = details.method.rpartition("/")[2]

        def answer(request: bytes, context: Any) -> bytes:
            self.asked.append((details.method, request))
            if method in self.refuses:
                context.abort(*self.refuses[method])
            left = self.answers.get(method, [b""])
            return left.pop(0) if len(left) > 1 else left[0]

        return grpc.unary_unary_rpc_method_handler(answer)

    @property
    def methods(self) -> list[str]:
        return [method.rpartition("/")[2] for method, _ in self.asked]

    def request(self, method: str) -> bytes:
        return next(octets for name, octets in self.asked if name.endswith(f"/{method}"))


@pytest.fixture
def containerd(tmp_path: Path) -> Iterator[Containerd]:
    there = Containerd(tmp_path / "s")
    yield there
    there.server.stop(None)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "mounts").touch()
    monkeypatch.setattr(oci, "PROC_MOUNTS", tmp_path / "mounts")
    program = tmp_path / "pause"
    program.write_bytes(b"waits")
    monkeypatch.setattr(cri, "compiled", lambda *_, **__: program)
    machine = MagicMock()
    machine.run_id, machine.run_dir = "20260101-000000-abcd", tmp_path
    machine.facts.programs = {
        name: f"/usr/bin/{name}" for name in ("runc", "containerd", "ctr", "gcc")
    }
    machine.subdir.side_effect = lambda name: tmp_path / name
    machine.new_subdir.side_effect = lambda name: (tmp_path / name).mkdir() or tmp_path / name
    return machine


@pytest.fixture
def make(
    machine: MagicMock, containerd: Containerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], cri.CriPod]:
    """Makes a pod by that containerd."""
    client = cri.CriClient
    monkeypatch.setattr(cri, "CriClient", lambda _, tail: client(tmp_path / "s", tail))
    monkeypatch.setattr(cri.CriPod, "_inner", 7)
    machine.spawn.return_value.log_tail.return_value = "what containerd has said"

    def made() -> cri.CriPod:
        pod = cri.CriPod(machine, "pod0", (3, 1))
        pod.directory.mkdir()
        pod.create()
        return pod

    return made


def fields(octets: bytes) -> dict[int, list[Any]]:
    """Fields of a message by their numbers: numbers, and octets of all else."""
    found: dict[int, list[Any]] = {}

    def number() -> int:
        value, shift = 0, 0
        while True:
            one = next(left)
            value |= (one & 0x7F) << shift
            shift += 7
            if one < 0x80:
                return value

    left = iter(octets)
    for key in iter(lambda: next(left, None), None):
        tag = key
        assert tag < 0x80, "numbers of fields here are below 16"
        value: Any = number()
        if tag & 7 == 2:
            value = bytes(next(left) for _ in range(value))
        found.setdefault(tag >> 3, []).append(value)
    return found


def test_a_pod_is_asked_for_as_by_a_kubelet(
    make: Callable[[], cri.CriPod], containerd: Containerd
) -> None:
    pod = make()
    assert containerd.methods == [
        *("ImageStatus", "ImageStatus"),
        *("RunPodSandbox", "CreateContainer", "StartContainer"),
    ]
    services = [path.split("/")[1] for path, *_ in containerd.asked]
    assert services == ["runtime.v1.ImageService"] * 2 + ["runtime.v1.RuntimeService"] * 3
    assert fields(containerd.request("StartContainer")) == {1: [CONTAINER.encode()]}
    pod.give_back()
    assert containerd.methods[5:] == ["StopPodSandbox", "RemovePodSandbox"]
    assert fields(containerd.asked[-1][1]) == {1: [SANDBOX.encode()]}
    pod.give_back()
    assert len(containerd.asked) == 7


def test_the_sandbox_has_the_network_and_the_cgroup_of_the_pod(
    make: Callable[[], cri.CriPod], containerd: Containerd
) -> None:
    """Numbers of fields are those of the interface's api.proto, read without our own table."""
    make()
    (config,) = fields(containerd.request("RunPodSandbox"))[1]
    assert 2 not in fields(config)  # a host name of its own is refused with its node's network
    (linux,) = fields(config)[8]
    assert fields(linux)[1] == [b"/vnetperf-20260101-000000-abcd-pod0"]
    (context,) = fields(linux)[2]
    (namespaces,) = fields(context)[1]
    assert fields(namespaces) == {1: [2], 2: [1]}


def test_the_container_has_the_machine_s_files_and_no_rights(
    make: Callable[[], cri.CriPod], containerd: Containerd, machine: MagicMock
) -> None:
    make()
    asked = fields(containerd.request("CreateContainer"))
    assert asked[1] == [SANDBOX.encode()]
    assert asked[3] == fields(containerd.request("RunPodSandbox"))[1]
    config = fields(asked[2][0])
    assert config[3] == [b"sh", b"-c", oci.FIRST.encode()]
    environment = {one[1][0].decode(): one[2][0].decode() for one in map(fields, config[6])}
    assert environment["VNETPERF_RUN_ID"] == machine.run_id
    mounts = {one[1][0].decode(): one for one in map(fields, config[7])}
    assert mounts["/usr"] == {1: [b"/usr"], 2: [b"/usr"], 3: [1]}
    written = str(machine.run_dir / oci.RANKS)
    assert {place for place, one in mounts.items() if 3 not in one} == {"/tmp", "/run", written}
    assert str(machine.run_dir) not in mounts
    linux = fields(config[15][0])
    assert fields(linux[1][0]) == {6: [b"1,3"]}
    context = fields(linux[2][0])
    assert fields(context[1][0]) == {2: [b"ALL"]}
    assert (context[7], context[11]) == ([1], [1])
    assert b"/proc/kcore" in context[13]
    assert b"/proc/sys" in context[14]


def test_containerd_keeps_all_in_the_run_s_directory(
    make: Callable[[], cri.CriPod], machine: MagicMock, tmp_path: Path
) -> None:
    pod = make()
    own = tmp_path / "containerd-pod0"
    config = tomllib.loads((own / "config.toml").read_text())
    places = (config["root"], config["grpc"]["address"])
    assert {place.rpartition("/")[0] for place in places} == {str(oci.OWN)}
    asked = config["plugins"]["io.containerd.grpc.v1.cri"]
    assert asked["disable_apparmor"]
    runc = asked["containerd"]["runtimes"]["runc"]["options"]
    assert runc == {"BinaryName": "/usr/bin/runc", "Root": str(tmp_path / oci.STATE)}
    assert "io.containerd.internal.v1.opt" in config["disabled_plugins"]
    name, line = machine.spawn.call_args.args
    assert (name, line[3 : 3 + len(UNSHARE)]) == ("pod0", [*UNSHARE])
    assert machine.spawn.call_args.kwargs["netns"] == pod.netns
    assert line[-6:] == [
        *(str(own), str(tmp_path), "pod0"),
        *("/usr/bin/containerd", "/usr/bin/ctr", str(tmp_path / "pod0/pid")),
    ]
    entry = " ".join(pod.entry("any"))
    assert entry.split()[-4:] == ["--root", f"{tmp_path}/runc/k8s.io", "exec", CONTAINER]


def test_the_image_is_links_and_a_program_that_waits(
    make: Callable[[], cri.CriPod], tmp_path: Path
) -> None:
    make()
    with tarfile.open(tmp_path / "containerd-pod0/image.tar") as image:
        parts = {one.name: image.extractfile(one).read() for one in image}  # type: ignore[union-attr]
    (manifest,) = json.loads(parts["manifest.json"])
    assert manifest["RepoTags"] == [cri.IMAGE]
    config = json.loads(parts[manifest["Config"]])
    digest = hashlib.sha256(parts["layer.tar"]).hexdigest()
    assert config["rootfs"]["diff_ids"] == [f"sha256:{digest}"]
    assert config["config"]["Entrypoint"] == ["/pause"]
    (tmp_path / "layer.tar").write_bytes(parts["layer.tar"])
    with tarfile.open(tmp_path / "layer.tar") as layer:
        assert {one.name for one in layer if one.isfile()} == {"pause"}
        links = {one.name: one.linkname for one in layer if one.issym()}
    assert all(Path("/", name).readlink() == Path(to) for name, to in links.items())


@pytest.mark.parametrize("method", ["RunPodSandbox", "CreateContainer", "StartContainer"])
def test_what_containerd_refuses_is_told_with_its_words(
    method: str, make: Callable[[], cri.CriPod], containerd: Containerd
) -> None:
    containerd.refuses[method] = (grpc.StatusCode.UNKNOWN, "no shim")
    with pytest.raises(HostError, match=f"containerd refuses {method}: no shim") as caught:
        make()
    assert "what containerd has said" in caught.value.cure


def test_a_containerd_without_the_interface_is_too_old(
    make: Callable[[], cri.CriPod], containerd: Containerd
) -> None:
    why = "unknown service runtime.v1.ImageService"
    containerd.refuses["ImageStatus"] = (grpc.StatusCode.UNIMPLEMENTED, why)
    with pytest.raises(HostError, match=why) as caught:
        make()
    assert caught.value.accepted == "containerd 1.6 or newer"


def test_a_pod_whose_containerd_is_gone_is_given_back(
    make: Callable[[], cri.CriPod], containerd: Containerd, machine: MagicMock
) -> None:
    pod = make()
    containerd.server.stop(None).wait()
    pod.give_back()
    assert machine.spawn.return_value.stop.called
