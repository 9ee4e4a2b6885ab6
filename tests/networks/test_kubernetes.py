"""Pods of a cluster without one: what is asked for, what is refused, what is made of answers."""

from __future__ import annotations

import copy
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given

from tests.fakes import odd
from tests.fakes.machine import facts
from vnetperf import config
from vnetperf.host.cluster import RUN_LABEL
from vnetperf.model.errors import CapabilityError, ConfigError
from vnetperf.model.scenario import Scenario
from vnetperf.model.transfer import TransferSpec
from vnetperf.networks.kubernetes import (
    ClusterProgram,
    KubernetesNetwork,
    KubernetesSection,
    describe_changes,
    diagnose_pod,
    manifest,
)
from vnetperf.planning.planner import make_plan
from vnetperf.plugin.endpoint_tool import choose_tool
from vnetperf.runner.scenarios import make_scenario
from vnetperf.runner.transfers import endpoint_scenario
from vnetperf.virt.endpoint import KILL

SEEN = {"kubernetes": {"why": "", "tools": ["iperf3"]}}
PROGRAMS = {**facts().programs, "kubectl": "/usr/bin/kubectl", "runc": "/usr/bin/runc"}
MACHINE = facts().model_copy(update={"programs": PROGRAMS, "seen": SEEN})
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def scenario(**wishes: Any) -> Scenario:
    configured = config.load({"preset": "smoke", **wishes}, environment={})
    made = make_scenario("bmp2bmp_kubernetes", configured)
    return endpoint_scenario(configured, made)


def refusal(machine: Any = MACHINE, **wishes: Any) -> str:
    with pytest.raises((CapabilityError, ConfigError)) as refused:
        make_plan(scenario(**wishes), config.load({}, environment={}).testbed, machine)
    return str(refused.value)


def pod(number: int, *, same: bool = False, host: bool = False, **keys: Any) -> dict[str, Any]:
    section = KubernetesSection(image="registry.test/tools:1", **keys)
    return manifest(f"p{number}", "a-run", number, section, same=same, host_network=host)


def test_a_pod_has_the_least_rights_and_an_end() -> None:
    """What Kubernetes' profile "restricted" of pod security requires, without a token."""
    made = pod(0, deadline_s=600)
    spec, (container,) = made["spec"], made["spec"]["containers"]
    assert spec["activeDeadlineSeconds"] == 600
    assert spec["automountServiceAccountToken"] is False
    assert spec["hostNetwork"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert made["metadata"]["labels"][RUN_LABEL] == "a-run"
    assert pod(0, host=True)["spec"]["hostNetwork"] is True


@pytest.mark.parametrize(
    ("number", "same", "nodes", "on", "kind"),
    [
        (0, False, (), None, None),
        (0, False, ("a", "b"), ["a"], None),
        (1, False, ("a", "b"), ["b"], "podAntiAffinity"),
        (1, True, ("a", "b"), ["a"], "podAffinity"),
        (1, False, ("a",), None, "podAntiAffinity"),
        (1, True, (), None, "podAffinity"),
    ],
)
def test_pods_are_placed_by_the_scheduler(
    number: int, same: bool, nodes: tuple[str, ...], on: list[str] | None, kind: str | None
) -> None:
    affinity = pod(number, same=same, nodes=nodes)["spec"].get("affinity", {})
    named = affinity.pop("nodeAffinity", None)
    if on is None:
        assert named is None
    else:
        (term,) = named[REQUIRED]["nodeSelectorTerms"]
        assert term["matchFields"][0]["values"] == on
    assert [*affinity] == ([kind] if kind else [])
    if kind:
        (first,) = affinity[kind][REQUIRED]
        assert first["labelSelector"]["matchLabels"][RUN_LABEL] == "a-run"


def test_labels_of_nodes_are_asked_for() -> None:
    assert pod(1, node_selector={"zone": "x"})["spec"]["nodeSelector"] == {"zone": "x"}


def test_a_pod_asks_service_meshes_to_leave_it_alone() -> None:
    metadata = pod(0)["metadata"]
    assert metadata["annotations"]["sidecar.istio.io/inject"] == "false"
    assert metadata["annotations"]["linkerd.io/inject"] == "disabled"
    assert metadata["labels"]["istio.io/dataplane-mode"] == "none"
    assert metadata["labels"][RUN_LABEL] == "a-run"


def admitted(asked: dict[str, Any]) -> dict[str, Any]:
    """What an API server makes of a pod by itself: defaults, and nothing else."""
    found = copy.deepcopy(asked)
    own = found["spec"]["containers"][0]
    own |= {"resources": {}, "terminationMessagePath": "/dev/termination-log"}
    if not found["spec"]["hostNetwork"]:
        del found["spec"]["hostNetwork"]
    found["spec"] |= {"nodeName": "a", "dnsPolicy": "ClusterFirst", "tolerations": [{}]}
    return found


@pytest.mark.parametrize("host", [True, False])
def test_what_an_api_server_fills_in_is_no_change(host: bool) -> None:
    asked = pod(0, host=host)
    assert describe_changes(asked, admitted(asked)) == ()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda p: p["spec"]["containers"].append({"name": "istio-proxy"}), "istio-proxy"),
        (lambda p: p["spec"]["containers"].insert(0, {"name": "mesh"}), "containers .*mesh"),
        (
            lambda p: p["spec"].update(
                initContainers=[{"name": "istio-proxy", "restartPolicy": "Always"}]
            ),
            "init containers .*istio-proxy",
        ),
        (lambda p: p["spec"].update(ephemeralContainers=[{"name": "dbg"}]), "dbg"),
        (lambda p: p["spec"].update(hostNetwork=True), "hostNetwork true"),
        (lambda p: p["spec"].update(runtimeClassName="gvisor"), "runtime class gvisor"),
        (lambda p: p["spec"]["containers"][0].update(image="mirror/x"), "mirror/x instead of"),
        (
            lambda p: p["spec"]["containers"][0].update(resources={"limits": {"cpu": "500m"}}),
            "cpu 500m",
        ),
        (
            lambda p: p["spec"]["containers"][0].update(env=[{"name": "HTTPS_PROXY"}]),
            "HTTPS_PROXY",
        ),
        (
            lambda p: p["metadata"]["annotations"].update(
                {"ambient.istio.io/redirection": "enabled"}
            ),
            "ambient",
        ),
        (
            lambda p: p["metadata"]["annotations"].update(
                {"kubernetes.io/egress-bandwidth": "10M"}
            ),
            "egress-bandwidth: 10M",
        ),
        (
            lambda p: p["metadata"]["annotations"].update(
                {"v1.multus-cni.io/default-network": "other"}
            ),
            "default-network: other",
        ),
        (
            lambda p: p["metadata"]["annotations"].update({"sidecar.istio.io/inject": "true"}),
            "inject: true",
        ),
        (lambda p: p["spec"].update(resources={"limits": {"cpu": "2"}}), "limited to cpu 2"),
        (
            lambda p: p["spec"]["containers"][0].update(command=["/vault-env", "sleep"]),
            "another command",
        ),
        (lambda p: p["spec"]["containers"][0].update(args=["--slow"]), "another args"),
    ],
)
def test_what_admission_makes_of_a_pod_is_said(
    change: Callable[[dict[str, Any]], None], says: str
) -> None:
    asked = pod(0)
    found = admitted(asked)
    change(found)
    (text,) = describe_changes(asked, found)
    assert re.search(says, text)


def test_what_a_plugin_reports_of_a_pod_is_no_change_of_it() -> None:
    asked = pod(0)
    found = admitted(asked)
    status = '[{"name": "cbr0", "ips": ["10.244.1.7"]}]'
    of_multus = ("k8s.v1.cni.cncf.io/network-status", "k8s.v1.cni.cncf.io/networks-status")
    found["metadata"]["annotations"].update(dict.fromkeys(of_multus, status))
    assert describe_changes(asked, found) == ()


def status(phase: str, *states: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"status": {"phase": phase, "containerStatuses": [{"state": s} for s in states], **more}}


UNSCHEDULABLE = {"status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}


@pytest.mark.parametrize(
    ("found", "says", "never"),
    [
        (status("Running", {"running": {}}), "", False),
        (status("Pending"), "Pending", False),
        (status("Running"), "Running", False),
        ({"status": {"phase": "Running", "containerStatuses": [{}]}}, "Running", False),
        (
            status("Pending", {"waiting": {"reason": "ContainerCreating"}}),
            "ContainerCreating",
            False,
        ),
        (status("Pending", conditions=[UNSCHEDULABLE]), "Unschedulable: 0/1 nodes", False),
        (
            status("Pending", {"waiting": {"reason": "ErrImagePull", "message": "no"}}),
            "ErrImagePull: no",
            True,
        ),
        (
            status("Failed", {"terminated": {"reason": "Error", "exitCode": 127}}),
            "Error, exit code 127",
            True,
        ),
        (status("Failed", reason="DeadlineExceeded"), "DeadlineExceeded", True),
        (status("Failed"), "it has ended: Failed", True),
        ({"status": {}}, "Pending", False),
        # A client of Go writes null for what has no value.
        ({"status": None}, "Pending", False),
        ({"status": {"phase": None, "containerStatuses": None}}, "Pending", False),
        (status("Running", {"running": {}, "waiting": None, "terminated": None}), "", False),
        (status("Pending", {"waiting": {"reason": None, "message": None}}), "Pending", False),
        (status("Running", {"running": None}, conditions=[None]), "Running", False),
        (status("Failed", reason=None, message=None), "it has ended: Failed", True),
    ],
)
def test_why_a_pod_does_not_run_and_whether_it_ever_will(
    found: dict[str, Any], says: str, never: bool
) -> None:
    why, hopeless = diagnose_pod(found)
    assert (says in why, bool(why), hopeless) == (True, bool(says), never)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"kubeconfig": "config"}, "kubeconfig"),
        ({"namespace": "Bench"}, "namespace"),
        ({"namespace": "--all-namespaces"}, "namespace"),
        ({"namespace": "a/../b"}, "namespace"),
        ({"context": "-v=9"}, "context"),
        ({"image": "my image"}, "image"),
        ({"nodes": ["a", "a"]}, "the two nodes are one"),
        ({"nodes": ["a", "b", "c"]}, "nodes"),
        ({"deadline_s": 5}, "deadline_s"),
        ({"pods": 2}, "pods"),
    ],
)
def test_a_bad_table_is_refused_with_its_key(
    keys: dict[str, Any], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    lines = [f"{key} = {value!r}" for key, value in keys.items()]
    path.write_text("\n".join(["[kubernetes]", *lines, ""]))
    with pytest.raises(ConfigError, match=says) as refused:
        config.load({"testbed": str(path)}, environment={})
    assert "mine.toml" in str(refused.value)


def look(tmp_path: Path, **keys: Any) -> dict[str, Any] | None:
    plain = config.load({}, environment={}).testbed
    section = {"namespace": "bench", "image": "i", **keys}
    return KubernetesNetwork.look(
        plain.model_validate({**plain.model_dump(), "kubernetes": section})
    )


def test_what_keeps_a_cluster_from_being_used_is_told_by_the_plan(tmp_path: Path) -> None:
    plain = config.load({}, environment={}).testbed
    assert KubernetesNetwork.look(plain) is None
    unnamed = MACHINE.model_copy(update={"seen": {}})
    assert "write kubeconfig" in refusal(unnamed)
    found = look(tmp_path)
    assert found is not None
    assert found["why"] == "[kubernetes] has no kubeconfig"
    file = tmp_path / "config"
    for make, says in (
        (lambda: None, "cannot be read: No such file"),
        (file.mkdir, "is no file"),
        (lambda: (file.rmdir(), file.touch(), file.chmod(0o666)), "by others (mode 0666)"),
        (lambda: file.chmod(0o640), ""),
    ):
        make()
        found = look(tmp_path, kubeconfig=str(file))
        assert found is not None
        assert says in found["why"]
        assert bool(found["why"]) is bool(says)
    seen = {"kubernetes": {"why": "it is closed", "tools": []}}
    closed = MACHINE.model_copy(update={"seen": seen})
    assert "it is closed" in refusal(closed)
    bare = MACHINE.model_copy(update={"programs": facts().programs})
    assert "kubernetes-client" in refusal(bare)


def test_what_a_cluster_s_pods_cannot_do_is_refused() -> None:
    assert "leave --pod out" in refusal(pod="runc")
    assert "mtu" in refusal(set=("mtu=9000",))
    assert "mode" in refusal(set=("mode=vepa",))
    make_plan(scenario(set=("mode=host",)), config.load({}, environment={}).testbed, MACHINE)
    configured = config.load({"preset": "smoke"}, environment={})
    frames = make_scenario("bmp2bmp_kubernetes", configured)
    assert "testcases/test_endpoints.py" in KubernetesNetwork.find_frames_problem(frames)
    in_vm = make_scenario("bmp2vmp_kubernetes", configured)
    with pytest.raises(CapabilityError, match="a pod in a VM has a port of its own"):
        make_plan(endpoint_scenario(configured, in_vm), configured.testbed, MACHINE)


def test_the_plan_promises_no_address_of_a_test_network() -> None:
    plan = make_plan(scenario(hosts="same"), config.load({}, environment={}).testbed, MACHINE)
    lines = plan.commands
    assert lines["pods"] == "two of a cluster, on one node"
    assert "198.18" not in str(lines)


def test_a_tool_is_the_image_s_and_not_the_machine_s() -> None:
    bare = MACHINE.model_copy(update={"programs": {}})
    stream = TransferSpec(kind="TCP_STREAM", message_size=64, duration_s=1)
    assert choose_tool(stream, "auto", bare, of_image=("iperf3",)) == "iperf3"
    with pytest.raises(CapabilityError, match="sockperf is not among the tools"):
        choose_tool(
            stream.model_copy(update={"kind": "UDP_RR"}), "auto", bare, of_image=("iperf3",)
        )


WARNING = "Warning: Use tokens from the TokenRequest API\n"


@pytest.mark.parametrize("before", ["", WARNING, f"1\n{WARNING}"])
def test_a_program_is_ended_by_its_number_whatever_kubectl_says_before(before: str) -> None:
    place, process = MagicMock(), MagicMock(returncode=143)
    process.alive.return_value = True
    process.log_text.return_value = f"{before}vnetperf-pid 4711\nsockperf: 1\nvnetperf-pid 1\n"
    place.run.side_effect = lambda _: setattr(process.alive, "return_value", False)
    program = ClusterProgram(place, process)
    assert program.output() == "sockperf: 1\nvnetperf-pid 1\n"
    program.end(signal.SIGTERM)
    place.run.assert_called_once_with(["sh", "-c", KILL, "15", "4711"])


def test_what_kubectl_says_of_a_program_that_has_not_begun_is_its_output() -> None:
    process = MagicMock(returncode=1)
    process.log_text.return_value = "error: the server is gone\n"
    assert ClusterProgram(MagicMock(), process).output() == "error: the server is gone\n"


SEEN_POD = {
    "status": {
        "phase": "Running",
        "containerStatuses": [
            {"state": {"running": {}}},
            {"state": {"waiting": {"reason": "a", "message": "b"}}},
            {"state": {"terminated": {"reason": "c", "exitCode": 1}}},
        ],
        "conditions": [UNSCHEDULABLE],
    }
}


@given(odd.changed(SEEN_POD | pod(0)))
def test_no_answer_of_a_cluster_ends_a_run_by_its_form(found: Any) -> None:
    why, hopeless = diagnose_pod(found)
    assert isinstance(why, str)
    assert hopeless in (True, False)
    assert all(isinstance(text, str) for text in describe_changes(pod(0), found))
