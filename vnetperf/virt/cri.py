"""Pods by the Kubernetes Container Runtime Interface: a containerd makes them as for a kubelet.

Each pod has a containerd in namespaces of processes and mounts of its own, which all end with it.
All that it keeps is below the run's directory, and in place of the machine's /run it sees an empty
one. No image is pulled: that of a pod is made here, of links and a program that waits.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import tarfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host.build import compiled
from vnetperf.host.cpu import format_cpus
from vnetperf.host.linux import RUN_ID_VARIABLE, UNSHARE
from vnetperf.host.paths import make_cache
from vnetperf.host.wait import patient, wait_for
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import Program
from vnetperf.virt.oci import (
    FIRST,
    MASKED,
    NOT_WRITTEN,
    OWN,
    OWN_VIEW,
    PATH,
    START_S,
    STATE,
    EnginePod,
)

log = logging.getLogger(__name__)

#: Makes pods with `--pod cri`; the package has its client and its shims too.
CONTAINERD = Program(
    name="containerd",
    package="containerd",
    version_args=("--version",),
    by_make=True,
    optional=True,
)
#: Gives the image to it.
CTR = Program(name="ctr", package="containerd", beside=("containerd",), by_make=True, optional=True)
#: Python packages that speak to it.
CRI_PACKAGES = ("grpcio", "protobuf")
#: Image of a pod and of its container, which sees the machine's files in it.
IMAGE = "localhost/vnetperf:pod"
#: Longest wait for the answer to a call, seconds.
CALL_S = 30.0
#: Namespace of containerd's that the CRI has its containers in.
_NAMESPACE = "k8s.io"
_PAUSE = Path(__file__).with_name("pause.c")
#: Names of processors that images are made for.
_PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x"}
_SOCKET = OWN / "containerd.sock"

#: In place of the machine's /run, where shims have sockets, is an empty one with the run's
#: directory in it; /tmp and /run of the pod are file systems in memory. containerd has the pod's
#: host name, since pods with its network have its too. The last file is made when it has the image.
_CONTAINERD = f"""{OWN_VIEW}
mount --rbind "$2" {OWN}/kept
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p "$2"
mount --rbind {OWN}/kept "$2"
for place in tmp run; do mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs {OWN}/$place; done
hostname "$3"
TMPDIR={OWN} "$4" --config {OWN}/config.toml --log-level warn &
until [ -S {_SOCKET} ]; do
    [ -e /proc/$!/exe ] || {{ echo "containerd has ended"; exit 1; }}
    sleep 0.02
done
"$5" --address {_SOCKET} --namespace {_NAMESPACE} images import --no-unpack \
    {OWN}/image.tar >{OWN}/import.log
touch "$6"
exec cat
"""

#: Snapshotters that load a kernel module when they look whether they can be used; the native one,
#: which copies, needs none. The plugin "opt" makes /opt/containerd.
_NOT_USED = [
    "io.containerd.internal.v1.opt",
    *(
        f"io.containerd.snapshotter.v1.{n}"
        for n in ("aufs", "btrfs", "devmapper", "overlayfs", "zfs")
    ),
]
#: No profile of AppArmor is loaded into the kernel, and no plugin of the machine's is started.
_CONFIG = """version = 2
root = "{own}/root"
state = "/run/containerd"
disabled_plugins = {unused}

[grpc]
address = "{socket}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{image}"
disable_apparmor = true
restrict_oom_score_adj = true
stats_collect_period = 86400

[plugins."io.containerd.nri.v1.nri"]
disable = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{own}/cni"
conf_dir = "{own}/cni"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = {runc}
Root = {state}
"""

#: A network that no sandbox is given: without one containerd reports an error, and waits for it.
_NO_CNI = '{"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "none"}]}'

#: Messages of the CRI that are used here, and of each the fields: number and type, "*" for many.
#: Those of `runtime.v1` in pkg/apis/runtime/v1/api.proto of k8s.io/cri-api, which never change;
#: enumerations are numbers, as they are on the wire.
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "VersionRequest": {},
    "VersionResponse": {"runtime_name": (2, "string"), "runtime_version": (3, "string")},
    "ImageSpec": {"image": (1, "string")},
    "Image": {"id": (1, "string")},
    "ImageStatusRequest": {"image": (1, "ImageSpec")},
    "ImageStatusResponse": {"image": (1, "Image")},
    "NamespaceOption": {"network": (1, "int32"), "pid": (2, "int32"), "ipc": (3, "int32")},
    "SecurityProfile": {"profile_type": (1, "int32")},
    "DNSConfig": {"options": (3, "*string")},
    "PodSandboxMetadata": {"name": (1, "string"), "uid": (2, "string"), "namespace": (3, "string")},
    "LinuxSandboxSecurityContext": {
        "namespace_options": (1, "NamespaceOption"),
        "readonly_rootfs": (4, "bool"),
        "seccomp": (9, "SecurityProfile"),
    },
    "LinuxPodSandboxConfig": {
        "cgroup_parent": (1, "string"),
        "security_context": (2, "LinuxSandboxSecurityContext"),
    },
    "PodSandboxConfig": {
        "metadata": (1, "PodSandboxMetadata"),
        "dns_config": (4, "DNSConfig"),
        "linux": (8, "LinuxPodSandboxConfig"),
    },
    "RunPodSandboxRequest": {"config": (1, "PodSandboxConfig")},
    "RunPodSandboxResponse": {"pod_sandbox_id": (1, "string")},
    "StopPodSandboxRequest": {"pod_sandbox_id": (1, "string")},
    "StopPodSandboxResponse": {},
    "RemovePodSandboxRequest": {"pod_sandbox_id": (1, "string")},
    "RemovePodSandboxResponse": {},
    "ContainerMetadata": {"name": (1, "string")},
    "KeyValue": {"key": (1, "string"), "value": (2, "string")},
    "Mount": {"container_path": (1, "string"), "host_path": (2, "string"), "readonly": (3, "bool")},
    "Capability": {"drop_capabilities": (2, "*string")},
    "LinuxContainerResources": {"cpuset_cpus": (6, "string")},
    "LinuxContainerSecurityContext": {
        "capabilities": (1, "Capability"),
        "namespace_options": (3, "NamespaceOption"),
        "readonly_rootfs": (7, "bool"),
        "no_new_privs": (11, "bool"),
        "masked_paths": (13, "*string"),
        "readonly_paths": (14, "*string"),
        "seccomp": (15, "SecurityProfile"),
    },
    "LinuxContainerConfig": {
        "resources": (1, "LinuxContainerResources"),
        "security_context": (2, "LinuxContainerSecurityContext"),
    },
    "ContainerConfig": {
        "metadata": (1, "ContainerMetadata"),
        "image": (2, "ImageSpec"),
        "command": (3, "*string"),
        "working_dir": (5, "string"),
        "envs": (6, "*KeyValue"),
        "mounts": (7, "*Mount"),
        "linux": (15, "LinuxContainerConfig"),
    },
    "CreateContainerRequest": {
        "pod_sandbox_id": (1, "string"),
        "config": (2, "ContainerConfig"),
        "sandbox_config": (3, "PodSandboxConfig"),
    },
    "CreateContainerResponse": {"container_id": (1, "string")},
    "StartContainerRequest": {"container_id": (1, "string")},
    "StartContainerResponse": {},
}
#: `NamespaceMode`: whose a namespace is; the network is the one that containerd is in.
_CONTAINERS, _NODES = 1, 2
#: What both have of the enumerations.
_NAMESPACES = {"network": _NODES, "pid": _CONTAINERS}
_DEFAULT_SECCOMP = {"profile_type": 0}


@cache
def message_class(name: str) -> Any:
    """The class of a message, by which it is written and read."""
    from google.protobuf import message_factory  # noqa: PLC0415 - of an extra

    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"runtime.v1.{name}"))


@cache
def _pool() -> Any:
    """What protobuf knows of the messages: no file of its compiler is needed."""
    from google.protobuf import descriptor_pb2, descriptor_pool  # noqa: PLC0415

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="api.proto", package="runtime.v1", syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, written) in fields.items():
            kind = written.removeprefix("*")
            many = kinds.LABEL_OPTIONAL if kind == written else kinds.LABEL_REPEATED
            descriptor = message.field.add(name=field, number=number, label=many)
            if kind in _MESSAGES:
                descriptor.type, descriptor.type_name = kinds.TYPE_MESSAGE, f".runtime.v1.{kind}"
            else:
                descriptor.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


class CriClient:
    """Calls of the CRI, by gRPC over a socket; `tail` is the last lines of its log, for errors."""

    def __init__(self, socket: Path, tail: Callable[[int], str]) -> None:
        import grpc  # noqa: PLC0415 - of an extra, and takes 0.1 s to import

        self._tail = tail
        self._failed = grpc.RpcError
        self._channel = grpc.insecure_channel(f"unix:{socket}", (("grpc.enable_http_proxy", 0),))

    def call(self, method: str, **request: Any) -> dict[str, Any]:
        """One call: fields of its request, by name, and those of its response."""
        from google.protobuf import json_format  # noqa: PLC0415 - of an extra

        service = "ImageService" if method.startswith("Image") else "RuntimeService"
        call = self._channel.unary_unary(
            f"/runtime.v1.{service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=message_class(f"{method}Response").FromString,
        )
        message = json_format.ParseDict(request, message_class(f"{method}Request")())
        try:
            response = call(message, timeout=patient(CALL_S))
        except self._failed as error:
            unknown = error.code().name == "UNIMPLEMENTED"
            raise HostError(
                f"containerd refuses {method}: {error.details()}",
                where="container runtime interface",
                accepted="containerd 1.6 or newer" if unknown else "",
                cure="" if unknown else f"its last lines:\n{self._tail(4)}",
            ) from error
        fields: dict[str, Any] = json_format.MessageToDict(
            response, preserving_proto_field_name=True
        )
        return fields

    def close(self) -> None:
        """End the connection."""
        self._channel.close()


class CriPod(EnginePod):
    """A pod that a containerd makes when it is asked as by a kubelet: a sandbox and a container.

    The sandbox has the network that containerd is in ("NODE"), which is the pod's, so that the
    network is that of the backend and no plugin of CNI is called.
    """

    engine: ClassVar[Program] = CONTAINERD
    _awaited: ClassVar[str] = "a containerd with the image of a pod"
    _client: CriClient | None = None
    _sandbox = _made_as = ""

    def _start_container(self) -> None:
        """Start a containerd that has the image; then have the sandbox and the container made."""
        began = time.monotonic()
        super()._start_container()
        ready_s = time.monotonic() - began
        socket = Path(f"/proc/{self._inner}/root{_SOCKET}")
        client = self._client = CriClient(socket, self._log_tail)

        def has_image() -> bool:
            return "image" in client.call("ImageStatus", image={"image": IMAGE})

        wait_for(has_image, START_S, f"the image of {self.name}", poll_s=0.005)
        sandbox = self._sandbox_config()
        reply = client.call("RunPodSandbox", config=sandbox)
        self._sandbox = str(reply["pod_sandbox_id"])
        sandbox_s = time.monotonic() - began
        reply = client.call(
            "CreateContainer",
            pod_sandbox_id=self._sandbox,
            config=self._container_config(),
            sandbox_config=sandbox,
        )
        self._made_as = str(reply["container_id"])
        client.call("StartContainer", container_id=self._made_as)
        log.info(
            "pod %s: containerd after %.2f s, sandbox after %.2f s, container after %.2f s",
            *(self.name, ready_s, sandbox_s, time.monotonic() - began),
        )

    def _log_tail(self, lines: int) -> str:
        """The last lines that containerd wrote."""
        return self._first.log_tail(lines) if self._first else ""

    def _first_line(self, rootfs: Path, started: Path) -> list[str]:
        """Of the namespaces, in which containerd runs."""
        home = self.machine.new_subdir(f"containerd-{self.name}")
        for name in ("root", "kept", "tmp", "run", "cni"):
            (home / name).mkdir()
        programs = self.machine.facts.programs
        config = _CONFIG.format(
            own=OWN,
            unused=json.dumps(_NOT_USED),
            socket=_SOCKET,
            image=IMAGE,
            runc=json.dumps(programs["runc"]),
            state=json.dumps(str(self.machine.subdir(STATE))),
        )
        (home / "config.toml").write_text(config)
        (home / "cni/none.conflist").write_text(_NO_CNI)
        self._shared_paths = self._list_shared(rootfs)  # with the links that go into the image
        write_image(rootfs, home / "image.tar", programs["gcc"])
        paths = (home, self.machine.run_dir, self.name, programs["containerd"], programs["ctr"])
        script = ["sh", "-c", _CONTAINERD, "containerd", *map(str, paths), str(started)]
        return ["unshare", "--uts", "--", *UNSHARE, *script]

    def _sandbox_config(self) -> dict[str, Any]:
        context = {
            "namespace_options": _NAMESPACES,
            "readonly_rootfs": True,
            "seccomp": _DEFAULT_SECCOMP,
        }
        return {
            "metadata": {"name": self.name, "uid": self._id, "namespace": "default"},
            # In place of the machine's, which may be in its /run: nobody answers in a pod.
            "dns_config": {"options": ["timeout:1", "attempts:1"]},
            "linux": {"cgroup_parent": f"/{self._id}", "security_context": context},
        }

    def _container_config(self) -> dict[str, Any]:
        shared, written = self._shared_paths
        read_only = [_mount(place, place, readonly=True) for place in shared]
        private_mounts = [_mount(Path("/", name), OWN / name) for name in ("tmp", "run")]
        environment = (PATH, f"{RUN_ID_VARIABLE}={self.machine.run_id}")
        return {
            "metadata": {"name": self.name},
            "image": {"image": IMAGE},
            "command": ["sh", "-c", FIRST],
            "working_dir": "/",
            "envs": [
                {"key": key, "value": value}
                for key, _, value in (variable.partition("=") for variable in environment)
            ],
            "mounts": [*read_only, *private_mounts, _mount(written, written)],
            "linux": {
                "resources": {"cpuset_cpus": format_cpus(self.cpus)},
                "security_context": {
                    "capabilities": {"drop_capabilities": ["ALL"]},
                    "namespace_options": _NAMESPACES,
                    "readonly_rootfs": True,
                    "no_new_privs": True,
                    "masked_paths": list(MASKED),
                    "readonly_paths": list(NOT_WRITTEN),
                    "seccomp": _DEFAULT_SECCOMP,
                },
            },
        }

    def _runc_state(self) -> Path:
        """In a directory for the namespace of the CRI's containers."""
        return super()._runc_state() / _NAMESPACE

    @property
    def _container(self) -> str:
        return self._made_as

    def _remove(self) -> None:
        """Have the sandbox stopped and removed, as by a kubelet; its container goes with it."""
        if self._client is None:
            return
        began = time.monotonic()
        try:
            for method in ("StopPodSandbox", "RemovePodSandbox"):
                self._client.call(method, pod_sandbox_id=self._sandbox)
        finally:
            self._client.close()
            self._client = None
        log.info("pod %s: removed in %.2f s", self.name, time.monotonic() - began)


def write_image(rootfs: Path, target: Path, compiler: str) -> None:
    """Write the image of a pod: the links of the machine's root, and the program that waits."""
    pause = compiled(
        _PAUSE,
        [compiler, "-std=gnu11", "-Os", "-s", "-static"],
        make_cache("pods", "the first program of pods"),
        cure="install the packages gcc and libc6-dev (elsewhere: a static C library)",
    )
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(rootfs, ".")
        tar.add(pause, "pause")
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    machine = os.uname().machine
    config = {
        "architecture": _PROCESSORS.get(machine, machine),
        "os": "linux",
        "config": {"Entrypoint": ["/pause"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    files = {
        "manifest.json": json.dumps(manifest).encode(),
        "config.json": json.dumps(config).encode(),
        "layer.tar": layer.getvalue(),
    }
    with tarfile.open(target, "w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def _mount(inside: Path, place: Path, *, readonly: bool = False) -> dict[str, Any]:
    return {"container_path": str(inside), "host_path": str(place), "readonly": readonly}
