"""Pods of a Kubernetes cluster that exists: programs in them by kubectl, nothing installed there.

The cluster makes the network, whatever it is; here pods are created in a namespace that the user
names, and deleted. docs/networks.md states what a user needs to be allowed.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from ipaddress import IPv4Address
from typing import Annotated, Any, ClassVar, Literal, NoReturn

from pydantic import Field, field_validator

from vnetperf.host import links
from vnetperf.host.cluster import (
    CONTAINER,
    GONE_S,
    LOOK_S,
    RUN_LABEL,
    Cluster,
    ClusterError,
    create_pod,
    exec_arguments,
    explain_unused_kubeconfig,
)
from vnetperf.host.journal import Change
from vnetperf.host.linux import parse_number
from vnetperf.host.machine import Machine
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.wait import wait_at_most, wait_for
from vnetperf.model.base import Frozen, text_like
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import AbsolutePath, MachineFacts, Program, Testbed
from vnetperf.model.trial import HopCounters
from vnetperf.plugin.network import Network, NetworkCapabilities, Pod, PodPort
from vnetperf.virt.endpoint import END_S, KILL, CpuTime, Endpoint, EndpointPair, EndpointProgram
from vnetperf.virt.pod_host import PodHost

#: Runs what is done in a cluster, and is needed for nothing else.
KUBECTL = Program(
    name="kubectl",
    package="kubernetes-client",
    version_args=("version", "--client"),
    by_make=True,
    optional=True,
)
#: Names as the API has them (RFC 1123), of contexts and images what a command line takes.
ApiName = Annotated[
    str,
    text_like(
        r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$",
        "small letters and digits, and - and . between them",
    ),
]
Word = Annotated[
    str, text_like(r"^([A-Za-z0-9][^\s]*)?$", "a word without blanks, a letter or digit first")
]
#: Longest wait for a pod to run, its image fetched, seconds.
START_S = 180.0
#: Time between two looks at whether pods run, seconds: each is a process and a request.
ALIVE_EVERY_S = 2.0
#: Label of a pod that tells the two of a run apart.
POD_LABEL = "vnetperf-pod"
NODE_LABEL = "kubernetes.io/hostname"
#: User of the programs, without rights at the node: nobody.
USER = 65534
#: Service meshes are asked to leave pods alone: what they put beside a program carries its traffic.
UNMESHED_ANNOTATIONS = {
    "sidecar.istio.io/inject": "false",
    "linkerd.io/inject": "disabled",
    "consul.hashicorp.com/connect-inject": "false",
    "openservicemesh.io/sidecar-injection": "disabled",
    "kuma.io/sidecar-injection": "disabled",
}
UNMESHED_LABELS = {
    "sidecar.istio.io/inject": "false",
    "istio.io/dataplane-mode": "none",
    "kuma.io/sidecar-injection": "disabled",
}
#: Annotation by which Istio's node agent says that it carries a pod's traffic.
REDIRECTED = "ambient.istio.io/redirection"
#: Beginnings of annotations that change what a pod's traffic passes: bandwidth, other networks.
OF_TRAFFIC = (
    *("kubernetes.io/egress-bandwidth", "kubernetes.io/ingress-bandwidth"),
    *("k8s.v1.cni.cncf.io/networks", "v1.multus-cni.io/", "cni.projectcalico.org/floating"),
    *("ovn.kubernetes.io/ingress_rate", "ovn.kubernetes.io/egress_rate", "policy.cilium.io/"),
)
#: Why a container does not begin, and will not by waiting (kubelet's words).
HOPELESS = (
    *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"),
    *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
)
#: Interfaces with MTU and address, an empty line, and the routes.
SHOW_LINKS = (
    "for i in /sys/class/net/*; do echo ${i##*/} $(cat $i/mtu) $(cat $i/address); done; "
    "echo; cat /proc/net/route"
)
#: Starts a program and tells its number first.
START = 'echo "vnetperf-pid $$"; exec "$@"'
#: What the start of a program, and kubectl with warnings before it, add to its output.
_PROLOGUE = re.compile(r"\A(?:.*\n)*?vnetperf-pid (\d+)\n")
#: What kubectl adds to the output of a program that has failed.
_EPILOGUE = re.compile(r"command terminated with exit code \d+\n?\Z")


class KubernetesSection(Frozen):
    """The table [kubernetes] of a testbed file: a cluster, and what of it is used.

    Attributes:
        kubeconfig: Absolute path of a kubeconfig, for [pods of a
            cluster](networks.md#kubernetes-pods-of-a-cluster-that-exists). kubectl runs as the
            file's owner; only the owner and root may write to it, or to a folder above it. Left
            out: no cluster.
        context: Context of that file. Left out: the current one.
        namespace: Namespace of the pods, which has to exist; required with a kubeconfig.
        image: Image of the pods, with `sh`, `cat`, `sleep` and the tools; required with a
            kubeconfig.
        tools: Endpoint tools that the image has.
        nodes: Names of nodes: of the first pod, and of the second with `--hosts other`. Left out:
            the scheduler's choice.
        node_selector: Labels that nodes must have.
        deadline_s: Time after which the cluster ends a pod by itself, s; at least 60.
    """

    kubeconfig: AbsolutePath = ""
    context: Word = ""
    namespace: ApiName | Literal[""] = ""
    image: Word = ""
    tools: tuple[str, ...] = ("iperf3", "netperf", "sockperf")
    nodes: tuple[ApiName, ...] = Field(default=(), max_length=2)
    node_selector: dict[str, str] = Field(default_factory=dict)
    deadline_s: int = Field(default=3600, ge=60)

    @field_validator("nodes")
    @classmethod
    def _differ(cls, nodes: tuple[str, ...]) -> tuple[str, ...]:
        if len(nodes) != len(set(nodes)):
            raise ValueError("the two nodes are one; name two, or one")
        return nodes

    @property
    def absent(self) -> tuple[str, ...]:
        """Keys without which there are no pods."""
        return tuple(k for k in ("kubeconfig", "namespace", "image") if not getattr(self, k))


class ClusterPlace:
    """A pod as a place of programs."""

    def __init__(self, machine: Machine, cluster: Cluster, pod: str) -> None:
        self._machine, self._cluster, self.pod = machine, cluster, pod

    @property
    def processors(self) -> str:
        """Any of its node's: neither chosen nor read here."""
        return "the node's"

    def run(self, argv: Sequence[str]) -> str:
        """Run a tool to its end."""
        return self._cluster.execute(self._machine.run_id, self.pod, argv)

    def start(self, name: str, argv: Sequence[str]) -> ClusterProgram:
        """Start a program."""
        return ClusterProgram(self, self.spawn(name, ["sh", "-c", START, "sh", *argv]))

    def spawn(self, name: str, argv: Sequence[str]) -> ManagedProcess:
        """Start kubectl with a program of the pod; it needs the machine's own network."""
        line = self._cluster.line(self._machine.run_id, *exec_arguments(self.pod, argv))
        return self._machine.spawn(name, line, isolated=False)

    def write(self, name: str, content: bytes) -> NoReturn:
        """Refuse: nothing is put into a pod of a cluster."""
        raise HostError(f"no file {name} is written into a pod of a cluster", where=self.pod)

    def statistics(self) -> dict[str, links.LinkStatistics]:
        """Statistics of all interfaces there."""
        return links.parse_statistics(self.run(["cat", "/proc/net/dev"]))

    def received(self, netdev: str) -> int:
        """Packets that have arrived; by the loopback interface too, which pods of a node share."""
        return sum(interface.rx for interface in self.statistics().values())


class ClusterProgram(EndpointProgram):
    """A program in a pod: kubectl waits for it, and passes its exit code on, but no signals."""

    def __init__(self, place: ClusterPlace, process: ManagedProcess) -> None:
        self._place, self._process = place, process

    def ended(self) -> int | None:
        """Its exit code; None while it runs."""
        return None if self._process.alive() else self._process.returncode

    def read_stat(self) -> str:
        """Refuse: whatever the node does for it is not ours to read."""
        raise HostError("processor time in a cluster is not read", where=self._place.pod)

    def cpu(self) -> CpuTime | None:
        """Not measured."""
        return None

    def output(self) -> str:
        """What it has written, without what its start and kubectl add."""
        return _EPILOGUE.sub("", _PROLOGUE.sub("", self._process.log_text()))

    def end(self, by: signal.Signals) -> None:
        """End it in the pod, then kubectl, which would leave it there."""
        begun = _PROLOGUE.match(self._process.log_text())
        for sent in (by, signal.SIGKILL):
            if self.ended() is not None:
                return
            if begun:
                with suppress(ClusterError):  # it may have ended since
                    self._place.run(["sh", "-c", KILL, str(int(sent)), begun[1]])
            description = "the end of a program in a pod"
            wait_at_most(lambda: self.ended() is not None, END_S, description, poll_s=LOOK_S)
        self._process.stop()


def manifest(
    name: str,
    run_id: str,
    number: int,
    section: KubernetesSection,
    *,
    same: bool,
    host_network: bool,
) -> dict[str, Any]:
    """A pod that sleeps until it is deleted, with the least rights that the tools run with."""
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": section.deadline_s,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostNetwork": host_network,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": CONTAINER,
                "image": section.image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["sleep", str(section.deadline_s)],
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    }
    if section.node_selector:
        spec["nodeSelector"] = dict(section.node_selector)
    affinity: dict[str, Any] = {}
    named = section.nodes[0 if same else number : (0 if same else number) + 1]
    if named:  # by the scheduler, which tells why a pod does not fit; spec.nodeName passes it by
        field = {"key": "metadata.name", "operator": "In", "values": [*named]}
        terms = [{"matchFields": [field]}]
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    if number:
        first = {
            "labelSelector": {"matchLabels": {RUN_LABEL: run_id, POD_LABEL: "0"}},
            "topologyKey": NODE_LABEL,
        }
        kind = "podAffinity" if same else "podAntiAffinity"
        affinity[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": [first]}
    if affinity:
        spec["affinity"] = affinity
    labels = {RUN_LABEL: run_id, POD_LABEL: str(number)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": labels | UNMESHED_LABELS,
            "annotations": {**UNMESHED_ANNOTATIONS},
        },
        "spec": spec,
    }


def describe_changes(requested: Mapping[str, Any], created: Mapping[str, Any]) -> tuple[str, ...]:
    """What a cluster's admission has made of a pod that can change what is measured, in words.

    Args:
        requested: The pod as it was created.
        created: What the API server has of it.

    Returns:
        One clause for each change; empty where there is none.
    """
    spec, template = _table(created.get("spec")), requested["spec"]["containers"][0]
    changes = []
    for key, kind in (
        ("containers", "containers"),
        ("initContainers", "init containers"),
        ("ephemeralContainers", "ephemeral containers"),
    ):
        requested_names = [table["name"] for table in requested["spec"].get(key) or ()]
        names = (table.get("name") for table in _tables(spec.get(key)))
        added = [str(name) for name in names if name not in requested_names]
        if added:
            changes.append(f"has {kind} that were not asked for: {', '.join(added)}")
    annotations = _table(_table(created.get("metadata")).get("annotations"))
    if annotations.get(REDIRECTED) == "enabled":
        changes.append("has its traffic carried by a proxy of the node (Istio's ambient mode)")
    requested_annotations = requested["metadata"]["annotations"]
    changes += [
        f"has the annotation {key}: {value}"
        for key, value in sorted(annotations.items())
        if value != requested_annotations.get(key)
        and (key in requested_annotations or key.startswith(OF_TRAFFIC))
        if not key.endswith("-status")  # what a plugin on the node reports of a pod
    ]
    if bool(spec.get("hostNetwork")) is not requested["spec"]["hostNetwork"]:
        changes.append(f"has hostNetwork {str(bool(spec.get('hostNetwork'))).lower()}")
    if runtime := spec.get("runtimeClassName"):
        changes.append(f"is run by the runtime class {runtime}")
    container: Mapping[str, Any] = next(
        (table for table in _tables(spec.get("containers")) if table.get("name") == CONTAINER), {}
    )
    if container and container.get("image") != template["image"]:
        changes.append(f"has the image {container.get('image')} instead of {template['image']}")
    of_pod = _table(_table(spec.get("resources")).get("limits"))
    for key in ("command", "args"):
        if container and (container.get(key) or None) != template.get(key):
            changes.append(f"has another {key}: {container.get(key)}")
    if limits := _table(_table(container.get("resources")).get("limits")) or of_pod:
        limit_list = ", ".join(f"{name} {limit}" for name, limit in sorted(limits.items()))
        changes.append(f"is limited to {limit_list}")
    if environment := [str(table.get("name")) for table in _tables(container.get("env"))]:
        changes.append(f"has environment variables: {', '.join(environment)}")
    return tuple(changes)


def diagnose_pod(pod: Mapping[str, Any]) -> tuple[str, bool]:
    """Why a pod does not run yet, and whether it never will; "" when it runs."""
    status = _table(pod.get("status"))
    phase = str(status.get("phase") or "Pending")
    containers = [_table(table.get("state")) for table in _tables(status.get("containerStatuses"))]
    waiting = _tables([state.get("waiting") for state in containers])
    for table in waiting:
        reason, message = table.get("reason") or "", table.get("message") or ""
        if reason in HOPELESS:
            return f"{reason}: {message}", True
    ended = _tables([state.get("terminated") for state in containers])
    if phase in ("Failed", "Succeeded") or ended:
        exits = [
            f"{table.get('reason') or ''}, exit code {table.get('exitCode')}" for table in ended
        ]
        said = [status.get("reason"), status.get("message"), *exits]
        return f"it has ended: {', '.join(str(part) for part in said if part) or phase}", True
    runs = [state.get("running") is not None for state in containers]
    if phase == "Running" and runs and all(runs):
        return "", False
    for condition in _tables(status.get("conditions")):
        if condition.get("status") == "False" and condition.get("message"):
            return f"{phase}, {condition.get('reason') or ''}: {condition['message']}", False
    reasons = (table.get("reason") for table in waiting)
    return ", ".join([phase, *(str(reason) for reason in reasons if reason)]), False


def _table(value: Any) -> Mapping[str, Any]:
    """What should be a table; empty where it is null or none."""
    return value if isinstance(value, Mapping) else {}


def _tables(value: Any) -> list[Mapping[str, Any]]:
    """The tables of what should be a list of them."""
    return (
        [table for table in value if isinstance(table, Mapping)] if isinstance(value, list) else []
    )


class KubernetesNetwork(Network):
    """The network of a cluster that exists, whatever it is made of."""

    name: ClassVar[str] = "kubernetes"
    programs: ClassVar[tuple[Program, ...]] = (KUBECTL,)
    Section: ClassVar[type[Frozen]] = KubernetesSection
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(
        port="cluster", frames=(), modes=("pod", "host")
    )
    path: ClassVar[str] = "the cluster's own, not known here"
    owns_endpoints: ClassVar[bool] = True
    #: The second pod is started twice, and each that was may have to be deleted.
    starts_s: ClassVar[float] = 3 * (START_S + GONE_S)

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self._endpoints: dict[int, Endpoint] = {}
        self._pods: dict[int, tuple[Change, dict[str, Any]]] = {}
        self._changes: dict[int, tuple[str, ...]] = {}
        self._pod_count = 0
        self._looked = 0.0
        self._version = ""

    @classmethod
    def look(cls, testbed: Testbed) -> dict[str, Any] | None:
        """What keeps the cluster of a testbed file from being used, and its image's tools."""
        section: KubernetesSection = cls.read_section(testbed)
        if section == KubernetesSection():
            return None
        reason = f"[kubernetes] has no {section.absent[0]}" if section.absent else ""
        return {
            "why": reason or explain_unused_kubeconfig(section.kubeconfig),
            "tools": [*section.tools],
        }

    @classmethod
    def find_problem(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps pods from being made in a cluster."""
        if (cluster_facts := facts.seen.get(cls.name)) is None:
            return (
                "no cluster is named; write kubeconfig, namespace and image under [kubernetes] of "
                "a testbed file"
            )
        if scenario.pod != "netns":
            return "pods are the cluster's own; leave --pod out"
        return cluster_facts["why"] or facts.missing_program(KUBECTL)

    @classmethod
    def tools(cls, facts: MachineFacts) -> tuple[str, ...]:
        """Those that the image is said to have."""
        return tuple((facts.seen.get(cls.name) or {}).get("tools", ()))

    @cached_property
    def _cluster(self) -> Cluster:
        section = self.section
        kubectl = self.machine.facts.programs[KUBECTL.name]
        named = Cluster(kubectl, section.kubeconfig, section.context, section.namespace)
        return named.settled(self.machine.run_id)

    @property
    def _same(self) -> bool:
        return self.place == "same"

    def lay_link(self, hosts: Sequence[PodHost]) -> None:
        """Nothing: the cluster's nodes are joined."""

    def prepare(self, host: PodHost) -> None:
        """See once that the cluster answers, and lets its user do what a run does."""
        if self._version:
            return
        run_id, cluster = self.machine.run_id, self._cluster
        version_info = cluster.request(run_id, "get", "/version")
        cluster.require_access(run_id)
        self._version = str(version_info.get("gitVersion", "unknown"))

    def is_plugged(self, pod: Pod) -> bool:
        """Whether the pod has been made, and not deleted since."""
        return pod.port.vnf in self._pods

    def attach(self, host: PodHost, pod: Pod) -> PodPort:
        """Create a pod and wait until it runs; what it was given is read in it."""
        number = pod.port.vnf
        if number not in self._pods:
            self._pod_count += 1
            name = f"vnetperf-{self.machine.run_id}-{number}-{self._pod_count}"
            name = re.sub(r"[^a-z0-9-]+", "-", name.lower())
            body = manifest(
                name,
                self.machine.run_id,
                number,
                self.section,
                same=self._same,
                host_network=self.mode == "host",
            )
            change = create_pod(self.machine.journal, self._cluster, body)
            try:
                api_pod = self._wait_running(name)
                self._pods[number] = change, api_pod
                self._changes[number] = describe_changes(body, api_pod)
            except BaseException:
                with suppress(HostError):  # the first error is the cause; the journal has it
                    change.undo()
                raise
        return self._port(host, pod, self._pods[number][1])

    def _wait_running(self, name: str) -> dict[str, Any]:
        """Wait until a pod runs; what the API server has of it then."""
        latest: dict[str, Any] = {}
        reason = ""

        def runs() -> bool:
            nonlocal latest, reason
            api_pod = self._cluster.find_pod(self.machine.run_id, name)
            if api_pod is None:
                raise DutError("it is gone: somebody has deleted it", where=f"pod {name}")
            latest = api_pod
            reason, never = diagnose_pod(api_pod)
            if never:
                raise self._no_pod(name, reason)
            return not reason

        wait_for(
            runs,
            START_S,
            f"pod {name}",
            poll_s=LOOK_S,
            error=lambda: self._no_pod(name, f"it does not run within {START_S:g} s: {reason}"),
        )
        return latest

    def _no_pod(self, name: str, reason: str) -> DutError:
        return DutError(
            reason,
            where=f"pod {name}, image {self.section.image}",
            cure="see image, nodes and node_selector under [kubernetes] of the testbed file, and "
            f"kubectl describe pod in namespace {self.section.namespace}",
        )

    def _port(self, host: PodHost, pod: Pod, api_pod: Mapping[str, Any]) -> PodPort:
        """What a pod that runs has, by itself and by the API server."""
        name, section = api_pod["metadata"]["name"], self.section
        address = api_pod["status"].get("podIP", "")
        try:
            IPv4Address(address)
        except ValueError:
            raise self._no_pod(name, f"it has no IPv4 address: {address or 'none'}") from None
        place = ClusterPlace(self.machine, self._cluster, name)
        try:
            interfaces, _, routes = place.run(["sh", "-c", SHOW_LINKS]).partition("\n\n")
        except ClusterError as error:
            raise HostError(
                f"no shell can be run in its pod {name}: {error.what}",
                where=f"image {section.image}",
                accepted="an image with sh, cat, sleep and the endpoint tools",
                cure="name such an image under [kubernetes] of the testbed file",
            ) from error
        words = (line.split() for line in interfaces.splitlines())
        rows = {row[0]: row[1:] for row in words if len(row) > 1 and parse_number(row[1])}
        default = [r[0] for r in map(str.split, routes.splitlines()) if r[1:2] == ["00000000"]]
        netdev = next((n for n in (*default, *rows) if n in rows and n != "lo"), "lo")
        if netdev not in rows:
            raise self._no_pod(name, "no interface is found in its /sys/class/net")
        mtu, mac = rows[netdev][0], (*rows[netdev][1:], "")[0]
        node = api_pod["spec"].get("nodeName", "")
        description = f"pod {name} of image {section.image} on node {node}"
        notes = tuple(
            f"pod {pod.port.vnf} {change}, by the cluster's admission"
            for change in self._changes.get(pod.port.vnf, ())
        )
        self._endpoints[pod.port.vnf] = Endpoint(description, place, address, netdev, notes)
        addressed_pod = pod.model_copy(update={"netdev": netdev, "address": address, "mac": mac})
        kind = "interface of the node" if self.mode == "host" else "interface"
        return PodPort(
            pod=addressed_pod,
            host=host.number,
            kind=kind,
            mtu=int(mtu),
            gateway="not known: the cluster's",
            place=f"node {node}",
        )

    def join(self, hosts: Sequence[PodHost], ports: Sequence[PodPort]) -> None:
        """See that the pods are where they have to be, with one MTU."""
        nodes = [port.place for port in ports]
        if (len(set(nodes)) == 1) is not self._same:
            raise DutError(
                f"the pods are on {' and '.join(dict.fromkeys(nodes))}, and --hosts {self.place} "
                "was requested",
                where=f"network {self.name}",
                cure="name the nodes ([kubernetes] nodes); the cluster needs two for --hosts other",
            )
        mtus = sorted({port.mtu for port in ports})
        if len(mtus) > 1:
            raise DutError(
                f"the pods' interfaces have an MTU of {' and '.join(map(str, mtus))}: longer "
                "packets are lost",
                where=f"network {self.name}",
                cure="give the cluster's network one MTU on all nodes",
            )

    def endpoints(self) -> EndpointPair:
        """The two pods."""
        return EndpointPair(self._endpoints[0], self._endpoints[1])

    def counters(self) -> tuple[HopCounters, ...]:
        """None: frames are not sent here, and counters of nodes are the cluster's."""
        return ()

    def check_alive(self) -> None:
        """Raise when a pod has ended or is gone; asked now and then, not whenever it is called."""
        now = time.monotonic()
        if now < self._looked + ALIVE_EVERY_S:
            return
        self._looked = now
        for _, recorded in self._pods.values():
            name, uid = recorded["metadata"]["name"], recorded["metadata"]["uid"]
            current = self._cluster.find_pod(self.machine.run_id, name)
            if current is None or current["metadata"]["uid"] != uid:
                raise DutError("it is gone: somebody has deleted it", where=f"pod {name}")
            if reason := diagnose_pod(current)[0]:
                raise DutError(f"it does not run any more: {reason}", where=f"pod {name}")

    def describe(self) -> dict[str, Any]:
        """What the API server says of pods; of nodes and networks it is not asked."""
        section = self.section
        return {
            "backend": self.name,
            "version": f"Kubernetes {self._version}",
            "launch line": "none: pods by kubectl create",
            "path between hosts": self.path,
            "baseline": self.mode == "host",
            "cluster": {
                "namespace": section.namespace,
                "context": section.context or "the kubeconfig's current one",
                "image": section.image,
                "changed by admission": {
                    f"pod{number}": [*changes]
                    for number, changes in sorted(self._changes.items())
                    if changes
                },
                "nodes": sorted(
                    {api_pod["spec"]["nodeName"] for _, api_pod in self._pods.values()}
                ),
                "image, as pulled": sorted(
                    {
                        container_status.get("imageID", "")
                        for _, api_pod in self._pods.values()
                        for container_status in api_pod["status"].get("containerStatuses") or ()
                    }
                ),
            },
            "processors": "not measured: those of the nodes are the cluster's, and others use them",
        }

    def detach(self, host: PodHost, port: PodPort) -> None:
        """Delete a pod, and wait until it is gone."""
        number = port.pod.port.vnf
        change, _ = self._pods.pop(number)
        self._endpoints.pop(number, None)
        change.undo()

    def remove(self, hosts: Sequence[PodHost]) -> None:
        """Delete the pods: nothing of them is on this machine."""
        while self._pods:
            _, (change, _) = self._pods.popitem()
            change.undo()
        self._endpoints = {}
