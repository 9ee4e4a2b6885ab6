"""Pods of a cluster that exists: made by kubectl, journaled, and deleted whatever ends the run.

kubectl runs as the owner of the kubeconfig, in an environment of its own: a kubeconfig may name
programs that it starts, and whoever wrote it could become root by them otherwise.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import stat
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from vnetperf.host.journal import Change, Journal, UndoData
from vnetperf.host.linux import RUN_ID_VARIABLE, run_program
from vnetperf.host.programs import printed_object
from vnetperf.host.trust import explain_distrust
from vnetperf.host.wait import patient, wait_for
from vnetperf.model.errors import HostError

#: Label of every pod that is made here, and of no other: the run's id.
RUN_LABEL = "vnetperf-run"
#: Name of its container, where programs are run; a cluster may put others beside it.
CONTAINER = "tools"
#: What a run needs to be allowed, by resource; exec is a GET by WebSocket, and a POST by SPDY.
NEEDED_VERBS = {"pods": ("create", "get", "delete"), "pods/exec": ("create", "get")}
#: Longest wait for an answer of the API server, for kubectl with it, for the end of a pod, and for
#: a request that a killed kubectl may have sent, seconds.
ANSWER_S, KUBECTL_S, GONE_S, LATE_S = 10, 20.0, 60.0, 2.0
#: Time between two looks at a pod, seconds.
LOOK_S = 0.1
#: Where kubectl is to cache what it finds out: nowhere.
NO_CACHE = "/dev/null"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_REFUSAL = re.compile(r"Error from server(?: \((\w+)\))?: (.*)", re.DOTALL)
_ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class ClusterError(HostError):
    """What kubectl answers in place of a result; `reason` is the API server's word, or ""."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A namespace of a cluster, as a kubeconfig leads there; kubectl runs as that file's owner."""

    kubectl: str
    kubeconfig: str
    context: str
    namespace: str

    @property
    def pods(self) -> str:
        """Path of the pods at the API server."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def line(self, run_id: str, *arguments: str) -> list[str]:
        """A command line of kubectl, as the owner of the kubeconfig; it dies with its parent."""
        owner = _status(self.kubeconfig)
        group, groups, home = owner.st_gid, "--clear-groups", "/"
        try:
            account = pwd.getpwuid(owner.st_uid)
            group, groups, home = account.pw_gid, "--init-groups", account.pw_dir
        except KeyError:  # a number without an account
            pass
        return [
            *("setpriv", "--reuid", str(owner.st_uid), "--regid", str(group), groups),
            *("--pdeathsig", "KILL", "--", "env", "-i"),
            *(f"{RUN_ID_VARIABLE}={run_id}", f"HOME={home}", f"PATH={_PATH}"),
            *(self.kubectl, "--kubeconfig", self.kubeconfig, "--cache-dir", NO_CACHE),
            *(("--context", self.context) if self.context else ()),
            *("--namespace", self.namespace, *arguments),
        ]

    def settled(self, run_id: str) -> Cluster:
        """The same with the context that is current now by name: its owner may choose another."""
        if self.context:
            return self
        try:
            name = self._run(self.line(run_id, "config", "current-context"), self.kubeconfig)
        except ClusterError:  # none is: kubectl has its own way
            return self
        return replace(self, context=name.strip())

    def request(
        self,
        run_id: str,
        verb: Literal["get", "create", "delete"],
        path: str,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Make a request of the API server; raises ClusterError with what it answers instead."""
        line = self.line(run_id, verb, "--raw", path, f"--request-timeout={ANSWER_S}s")
        if body is not None:
            line += ["-f", "-"]
        text = self._run(line, f"{verb} {path}", "" if body is None else json.dumps(body))
        answer = printed_object(text, ("kind", "gitVersion"))  # the version alone is of no kind
        if answer is None:
            raise ClusterError(f"the answer is no JSON object: {text[:200]!r}", where=path)
        return answer

    def execute(self, run_id: str, pod: str, argv: Sequence[str]) -> str:
        """Run a program in a pod to its end; what it has written to its standard output."""
        line = self.line(run_id, *exec_arguments(pod, argv))
        return self._run(line, f"in pod {pod}: {' '.join(argv)}")

    @staticmethod
    def _run(line: list[str], where: str, input_text: str = "") -> str:
        try:
            done = run_program(line, patient(KUBECTL_S), input=input_text, cwd="/")
        except OSError as error:
            raise ClusterError(
                f"cannot be started: {error.strerror}", where=str(error.filename)
            ) from error
        except subprocess.TimeoutExpired as error:
            raise ClusterError(
                f"kubectl has no answer within {KUBECTL_S:g} s",
                where=where,
                cure="see whether the API server of the kubeconfig can be reached from here",
            ) from error
        if done.returncode == 0:
            return done.stdout
        said = (done.stderr or done.stdout).strip()[-1000:]
        refusal = _REFUSAL.search(said)
        failure = ClusterError(refusal[2] if refusal else said, where=where)
        failure.reason = (refusal[1] or "") if refusal else ""
        raise failure

    def find_pod(self, run_id: str, name: str) -> dict[str, Any] | None:
        """A pod as the API server has it; None when there is none."""
        try:
            return self.request(run_id, "get", f"{self.pods}/{name}")
        except ClusterError as error:
            if error.reason == "NotFound":
                return None
            raise

    def require_access(self, run_id: str) -> None:
        """Refuse a namespace that does not exist, or in which a run is not allowed what it does."""
        where = f"namespace {self.namespace}"
        try:
            self.request(run_id, "get", f"/api/v1/namespaces/{self.namespace}")
        except ClusterError as error:
            if error.reason == "NotFound":
                raise HostError(
                    "the cluster has no such namespace, and none is made",
                    where=where,
                    accepted="a namespace that exists",
                    cure="create it (kubectl create namespace), or name another in the testbed "
                    "file",
                ) from error
            if error.reason != "Forbidden":  # who may not look at it may have pods in it
                raise
        refused = [
            f"{verb} {resource}"
            for resource, verbs in NEEDED_VERBS.items()
            for verb in verbs
            if not self._may(run_id, resource, verb)
        ]
        if refused:
            raise HostError(
                f"the user of {self.kubeconfig} may not {', '.join(refused)}",
                where=where,
                accepted="; ".join(f"{', '.join(v)} of {r}" for r, v in NEEDED_VERBS.items()),
                cure="bind a role with these verbs to that user in this namespace "
                "(docs/networks.md)",
            )

    def _may(self, run_id: str, resource: str, verb: str) -> bool:
        """Whether the cluster says that its user may; what it does not say is tried."""
        name, _, below = resource.partition("/")
        attributes = {
            "namespace": self.namespace,
            "resource": name,
            "subresource": below,
            "verb": verb,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        try:
            answer = self.request(run_id, "create", _ACCESS, review)
        except ClusterError as error:
            if error.reason in ("Forbidden", "NotFound"):
                return True
            raise
        return bool(answer.get("status", {}).get("allowed"))

    def delete_pod(self, run_id: str, name: str) -> str:
        """Delete a pod of the run, and wait until it is gone; never one that is not the run's."""
        pod = self.find_pod(run_id, name)
        if pod is None:  # the request of a kubectl that was killed may still be on its way
            time.sleep(LATE_S)
            pod = self.find_pod(run_id, name)
        if pod is None:
            return "not there"
        metadata = pod["metadata"]
        if metadata.get("labels", {}).get(RUN_LABEL) != run_id:
            return "left alone: a pod of this name is not the run's"
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 1,
            "preconditions": {"uid": metadata["uid"]},
        }
        try:
            self.request(run_id, "delete", f"{self.pods}/{name}", options)
        except ClusterError as error:
            if error.reason not in ("NotFound", "Conflict"):  # gone, or another of that name
                raise

        def is_gone() -> bool:
            current = self.find_pod(run_id, name)
            return current is None or current["metadata"]["uid"] != metadata["uid"]

        wait_for(is_gone, GONE_S, f"the end of pod {name}", poll_s=LOOK_S)
        return "deleted"


def exec_arguments(pod: str, argv: Sequence[str]) -> list[str]:
    """Arguments of kubectl that run a program in a pod."""
    return ["exec", "--container", CONTAINER, pod, "--", *argv]


def explain_unused_kubeconfig(kubeconfig: str) -> str:
    """Why a kubeconfig is not used; "" when it is."""
    try:
        _status(kubeconfig)
    except HostError as error:
        return f"{kubeconfig} {error.what}; {error.cure}"
    return ""


def _status(kubeconfig: str) -> os.stat_result:
    """Status of a kubeconfig that nobody but root and its owner could replace.

    kubectl opens it later, as the owner that is seen here: whoever could put another in its place
    by then, or lead to another user's by a link, would have programs run as that user.
    """
    path = Path(kubeconfig)
    with HostError.explain_os_error(
        "cannot be read",
        where=kubeconfig,
        cure="name the kubeconfig that is there in the testbed file",
    ):
        status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise HostError("is no file", where=kubeconfig, cure="name the file, not its folder")
    if reason := explain_distrust(path, only_root=True, also=(status.st_uid,)):
        raise HostError(
            f"is not used: {reason}",
            where=kubeconfig,
            cure="only root and the file's owner, as whom kubectl runs, may own it, links to it "
            "and the folders above it, and nobody else may write there (chown, chmod go-w)",
        )
    return status


def create_pod(journal: Journal, cluster: Cluster, manifest: Mapping[str, Any]) -> Change:
    """Create a pod, which carries the run's label; undoing deletes it."""
    name = manifest["metadata"]["name"]
    data = {"cluster": asdict(cluster), "pod": name, "run_id": journal.run_id}
    description = f"create pod {name} in namespace {cluster.namespace} of the cluster of "
    with journal.changing("pod", description + cluster.kubeconfig, data) as change:
        cluster.request(journal.run_id, "create", cluster.pods, manifest)
    return change


def undo_pod(data: UndoData) -> str:
    """Delete a pod in a cluster."""
    return Cluster(**data["cluster"]).delete_pod(data["run_id"], data["pod"])
