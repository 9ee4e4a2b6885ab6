"""A double of a cluster's API server for the real kubectl: pods are network namespaces here.

It knows what kubectl asks of it: discovery, one namespace, pods (create, get, delete), reviews of
access, and programs in pods by WebSocket (kubectl 1.31 and later). Pods are joined by a bridge in a
namespace of its own, so that what tools in them measure are real packets.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import signal
import ssl
import struct
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

NODES = ("worker-a", "worker-b")
IMAGE = "registry.test/tools:1"
NAMESPACE = "bench"
#: RFC 6455 section 1.3; kinds of its frames; what kubectl 1.31 asks for first.
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BINARY, _CLOSE = 2, 8
_PROTOCOL = "v5.channel.k8s.io"
#: Channels of it: standard output, standard error, and the outcome.
_STDOUT, _STDERR, _OUTCOME = 1, 2, 3
_API = {"apiVersion": "v1", "kind": "APIVersions", "versions": ["v1"]}
_GROUPS = {"apiVersion": "v1", "kind": "APIGroupList", "groups": []}
_RESOURCES = {
    "apiVersion": "v1",
    "kind": "APIResourceList",
    "groupVersion": "v1",
    "resources": [
        {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get"]}
    ],
}


class RefusedError(Exception):
    """An answer that is no result: status code, reason, message."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message


@dataclass
class FakePod:
    """A pod: what the API has of it, and the process that keeps its namespace."""

    content: dict[str, Any]
    keeper: subprocess.Popen[bytes] | None = None
    programs: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def pid(self) -> str:
        assert self.keeper is not None
        return str(self.keeper.pid)


def _keeper() -> subprocess.Popen[bytes]:
    """A process in a network namespace of its own, which is there when this returns."""
    line = ["unshare", "--net", "sh", "-c", "ip link set lo up; echo; exec sleep infinity"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


def _in(pid: str, *argv: str) -> None:
    subprocess.run(["nsenter", "--target", pid, "--net", "--", *argv], check=True)


class FakeCluster:
    """The cluster; `with` serves it, and ends all that is in it.

    Attributes:
        denied: What its user may not do: ("create", "pods/exec").
        beside: Name of a container that it puts before each pod's own, as a webhook of a service
            mesh does; "" for none. No program is run there.
        lacks: Programs that the image has not.
        never: Why containers do not begin: a reason of kubelet's; "" where they do.
        mtu: MTU of each node's pods.
        on_create: Called with each new pod's name before it is made.
        asked: What was asked: verb and path.
    """

    def __init__(self, folder: Path, *, secure: bool = False) -> None:
        self.folder, self.nodes, self._secure = folder, NODES, secure
        self.denied: set[tuple[str, str]] = set()
        self.lacks: set[str] = set()
        self.beside = self.never = ""
        self.mtu = dict.fromkeys(NODES, 1450)
        self.on_create: Callable[[str], None] = lambda name: None
        self.asked: list[tuple[str, str]] = []
        self.pods: dict[str, FakePod] = {}
        self.seen: list[dict[str, Any]] = []
        self._lock = threading.RLock()
        self._number = 0
        self._bridge: subprocess.Popen[bytes] | None = None
        handler = type("Handler", (_Handler,), {"cluster": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        if secure:  # kubectl sends who it is by TLS only
            self._server.socket = self._tls().wrap_socket(self._server.socket, server_side=True)

    def _tls(self) -> ssl.SSLContext:
        """A certificate that nobody has signed."""
        key, certificate = self.folder / "key.pem", self.folder / "certificate.pem"
        line = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"]
        line += ["ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=127.0.0.1"]
        line += ["-keyout", str(key), "-out", str(certificate)]
        subprocess.run(line, check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig of its user's."""
        path = self.folder / "kubeconfig"
        if not path.exists():
            scheme = "https" if self._secure else "http"
            server: dict[str, Any] = {"server": f"{scheme}://127.0.0.1:{self._server.server_port}"}
            if self._secure:
                server["insecure-skip-tls-verify"] = True
            content = {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "test", "cluster": server}],
                "users": [{"name": "alice", "user": {}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "alice"}}],
                "current-context": "test",
            }
            path.write_text(json.dumps(content))
            path.chmod(0o644)
        return path

    def testbed(self, **keys: Any) -> Path:
        """A testbed file that names it."""
        section = {
            "kubeconfig": str(self.kubeconfig),
            "namespace": NAMESPACE,
            "image": IMAGE,
            "tools": ["iperf3", "sockperf"],
            **keys,
        }
        path = self.folder / "cluster.toml"
        lines = [f"{key} = {json.dumps(value)}" for key, value in section.items()]
        path.write_text("\n".join(["lock_timeout_s = 300", "[kubernetes]", *lines, ""]))
        return path

    def __enter__(self) -> FakeCluster:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        for name in [*self.pods]:
            self.remove(name)
        if self._bridge is not None:
            self._bridge.kill()
            self._bridge.wait()

    def remove(self, name: str) -> None:
        """Delete a pod with all that runs in it."""
        with self._lock:
            pod = self.pods.pop(name)
        for process in (*pod.programs, pod.keeper):
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL) if process in pod.programs else None
                process.kill()
                process.wait()

    def create(self, content: dict[str, Any]) -> dict[str, Any]:
        """Make a pod, its namespace and its interface."""
        name = content["metadata"]["name"]
        self.on_create(name)
        with self._lock:
            if name in self.pods:
                raise RefusedError(409, "AlreadyExists", f'pods "{name}" already exists')
            self._number += 1
            number = self._number
            content["metadata"]["uid"] = str(uuid.uuid4())
            content["metadata"]["namespace"] = NAMESPACE
            if self.beside:
                content["spec"]["containers"].insert(0, {"name": self.beside})
            pod = self.pods[name] = FakePod(content)
            self.seen.append(json.loads(json.dumps(content)))
            node = self._schedule(content)
            status: dict[str, Any] = {"phase": "Pending"}
            content["status"] = status
            if node is None:
                message = f"0/{len(self.nodes)} nodes are available: affinity."
                condition = {"type": "PodScheduled", "status": "False", "message": message}
                status["conditions"] = [condition | {"reason": "Unschedulable"}]
                return content
            content["spec"]["nodeName"] = node
            if self.never:
                waiting = {"reason": self.never, "message": "no such image at the registry"}
                status["containerStatuses"] = [{"state": {"waiting": waiting}}]
                return content
            self._start(pod, number, self.mtu[node])
            status |= {"phase": "Running", "podIP": f"10.77.0.{number}"}
            running = {"startedAt": "2026-01-01T00:00:00Z"}
            status["containerStatuses"] = [
                {"state": {"running": running}, "imageID": f"{IMAGE}@sha256:0123"}
                for _ in content["spec"]["containers"]
            ]
            return content

    def _schedule(self, content: dict[str, Any]) -> str | None:
        """A node that keeps to the affinities."""
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        affinity = content["spec"].get("affinity", {})
        nodes = [*self.nodes]
        if "nodeAffinity" in affinity:
            (term,) = affinity["nodeAffinity"][required]["nodeSelectorTerms"]
            nodes = [node for node in nodes if node in term["matchFields"][0]["values"]]
        for kind in ("podAffinity", "podAntiAffinity"):
            for term in affinity.get(kind, {}).get(required, ()):
                wanted = term["labelSelector"]["matchLabels"].items()
                there = {
                    pod.content["spec"].get("nodeName")
                    for pod in self.pods.values()
                    if wanted <= pod.content["metadata"]["labels"].items()
                }
                nodes = [node for node in nodes if (node in there) is (kind == "podAffinity")]
        return next(iter(nodes), None)

    def _start(self, pod: FakePod, number: int, mtu: int) -> None:
        if self._bridge is None:
            self._bridge = _keeper()
            _in(str(self._bridge.pid), "ip", "link", "add", "cluster", "type", "bridge")
            _in(str(self._bridge.pid), "ip", "link", "set", "cluster", "up")
        pod.keeper = _keeper()
        here, far = str(self._bridge.pid), f"v{number}"
        pair = ["type", "veth", "peer", "name", "eth0", "netns", pod.pid]
        _in(here, "ip", "link", "add", far, *pair)
        _in(here, "ip", "link", "set", far, "master", "cluster", "up")
        _in(pod.pid, "ip", "link", "set", "eth0", "mtu", str(mtu), "up")
        _in(pod.pid, "ip", "address", "add", f"10.77.0.{number}/24", "dev", "eth0")
        _in(pod.pid, "ip", "route", "add", "default", "via", "10.77.0.254")

    def line(self, pod: FakePod, argv: list[str]) -> list[str]:
        """A program in a pod's namespace, with the programs of the image."""
        path = self.folder / "bin"
        if not path.exists():
            path.mkdir()
            for name in {"sh", "cat", "sleep", "iperf3", "sockperf"} - self.lacks:
                for folder in ("/bin", "/usr/bin"):
                    if Path(folder, name).exists():
                        (path / name).symlink_to(Path(folder, name))
                        break
        inside = ["env", "-i", f"PATH={path}", *argv]
        own = ["unshare", "--mount", "sh", "-c", 'mount -t sysfs sysfs /sys; exec "$@"', "sh"]
        return ["nsenter", "--target", pod.pid, "--net", "--", *own, *inside]


class _Handler(BaseHTTPRequestHandler):
    """A request to the cluster."""

    cluster: FakeCluster
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        self._answer("get")

    def do_POST(self) -> None:
        self._answer("create")

    def do_DELETE(self) -> None:
        self._answer("delete")

    def _answer(self, verb: str) -> None:
        url = urlsplit(self.path)
        self.cluster.asked.append((verb, url.path))
        text = self._read_body()
        body = json.loads(text) if text else {}
        try:
            if url.path.endswith("/exec"):
                self._exec(verb, url.path, parse_qs(url.query))
                return
            found = self._result(verb, url.path, body)
            code = 200
        except RefusedError as refused:
            code = refused.code
            found = {
                "apiVersion": "v1",
                "kind": "Status",
                "status": "Failure",
                "message": refused.message,
                "reason": refused.reason,
                "code": code,
            }
        content = json.dumps(found).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _read_body(self) -> bytes:
        """What was sent: of a known length, or in chunks, as kubectl sends what it reads."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _result(self, verb: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        fixed = {"/api": _API, "/apis": _GROUPS, "/api/v1": _RESOURCES}
        fixed["/version"] = {"gitVersion": "v1.32.0-double"}
        if path in fixed:
            return fixed[path]
        if path.endswith("/selfsubjectaccessreviews"):
            asked = body["spec"]["resourceAttributes"]
            what = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
            return {**body, "status": {"allowed": (asked["verb"], what) not in self.cluster.denied}}
        parts = path.split("/")[3:]  # "", "api", "v1"
        self._allow(verb, "pods" if len(parts) > 2 else "namespaces")
        if parts[1] != NAMESPACE:
            raise RefusedError(404, "NotFound", f'namespaces "{parts[1]}" not found')
        if len(parts) == 2:
            return {"kind": "Namespace", "metadata": {"name": NAMESPACE}}
        if verb == "create":
            return self.cluster.create(body)
        pod = self._pod(parts[3])
        if verb == "delete":
            expected = body.get("preconditions", {}).get("uid")
            if expected != pod.content["metadata"]["uid"]:
                raise RefusedError(409, "Conflict", "the uid is another")
            self.cluster.remove(parts[3])
        return pod.content

    def _allow(self, verb: str, resource: str) -> None:
        if (verb, resource) in self.cluster.denied:
            raise RefusedError(
                403,
                "Forbidden",
                f'{resource} is forbidden: User "alice" cannot {verb} resource "{resource}"',
            )

    def _pod(self, name: str) -> FakePod:
        if name not in self.cluster.pods:
            raise RefusedError(404, "NotFound", f'pods "{name}" not found')
        return self.cluster.pods[name]

    def _exec(self, verb: str, path: str, asked: dict[str, list[str]]) -> None:
        self._allow(verb, "pods/exec")
        pod = self._pod(path.split("/")[-2])
        if asked["container"] != ["tools"]:
            raise RefusedError(400, "BadRequest", f"no program is run in {asked['container']}")
        key = self.headers["Sec-WebSocket-Key"] + _GUID
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()  # noqa: S324 - RFC 6455
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accept)
        self.send_header("Sec-WebSocket-Protocol", _PROTOCOL)
        self.end_headers()
        self.close_connection = True
        line = self.cluster.line(pod, asked["command"])
        process = subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        pod.programs.append(process)
        pipes = [(_STDOUT, process.stdout), (_STDERR, process.stderr)]
        threads = [threading.Thread(target=self._copy, args=pair) for pair in pipes]
        for thread in threads:
            thread.start()
        code = process.wait()
        for thread in threads:
            thread.join()
        pod.programs.remove(process)
        with contextlib.suppress(OSError):  # kubectl has gone
            self._send(_BINARY, bytes([_OUTCOME]) + json.dumps(_outcome(code)).encode())
            self._send(_CLOSE, struct.pack("!H", 1000))

    def _copy(self, channel: int, pipe: Any) -> None:
        while data := os.read(pipe.fileno(), 4096):
            with contextlib.suppress(OSError):
                self._send(_BINARY, bytes([channel]) + data)
        pipe.close()

    def _send(self, kind: int, data: bytes) -> None:
        length = len(data)
        head = bytes([0x80 | kind])
        head += bytes([length]) if length < 126 else bytes([126]) + struct.pack("!H", length)
        self.wfile.write(head + data)
        self.wfile.flush()


def _outcome(code: int) -> dict[str, Any]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    status = str(code if code > 0 else 128 - code)
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {status}",
        "details": {"causes": [{"reason": "ExitCode", "message": status}]},
    }


def wait_empty(cluster: FakeCluster, patience_s: float = 20.0) -> list[str]:
    """Names of its pods once there is none, or patience has ended."""
    deadline = time.monotonic() + patience_s
    while cluster.pods and time.monotonic() < deadline:
        time.sleep(0.1)
    return [*cluster.pods]
