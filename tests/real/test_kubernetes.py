"""Pods of a cluster by the real kubectl, on a double of the API server: no cluster is at hand.

What is in the pods is real: tools, their packets, and what ends them.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.cluster import NAMESPACE, NODES, FakeCluster, wait_empty
from tests.real.conftest import UserRun
from tests.real.test_bad_luck import KILLS, interrupt, kill, kill_agent, seeds
from vnetperf import config
from vnetperf.agent.inventory import take_inventory
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.one_host import deploy_plan
from vnetperf.host.cluster import Cluster, ClusterError, create_pod, undo_pod
from vnetperf.host.journal import Journal
from vnetperf.host.paths import HostRoots
from vnetperf.model.errors import VnetperfError
from vnetperf.model.transfer import POD_ATTACHED, POD_REMOVED
from vnetperf.networks.kubernetes import KubernetesSection, manifest
from vnetperf.planning.planner import make_plan
from vnetperf.runner.scenarios import make_scenario
from vnetperf.runner.transfers import endpoint_scenario

Start = Callable[..., UserRun]
Unchanged = Callable[[], tuple[str, ...]]
KUBECTL = shutil.which("kubectl") or ""
RUN = "20260101-000000-abcd"


def _minor() -> int:
    """Minor version of kubectl; 0 where there is none."""
    if not KUBECTL:
        return 0
    line = [KUBECTL, "version", "--client", "-o", "json"]
    found = json.loads(subprocess.run(line, capture_output=True, check=True).stdout)
    return int(found["clientVersion"]["minor"].rstrip("+"))


pytestmark = pytest.mark.skipif(not KUBECTL, reason="kubectl is not installed")
#: What runs programs in pods: the double speaks WebSocket, as kubectl does since 1.31.
EXEC = pytest.mark.skipif(_minor() < 31, reason="kubectl is older than 1.31: no WebSocket")
SOCKPERF = pytest.mark.skipif(shutil.which("sockperf") is None, reason="sockperf is not installed")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FakeCluster]:
    with FakeCluster(tmp_path) as made:
        yield made


def client(cluster: FakeCluster, namespace: str = NAMESPACE, context: str = "") -> Cluster:
    return Cluster(KUBECTL, str(cluster.kubeconfig), context, namespace)


def body(name: str = "p", run_id: str = RUN) -> dict[str, Any]:
    section = KubernetesSection(image="registry.test/tools:1")
    return manifest(name, run_id, 0, section, same=True, host_network=False)


def test_a_pod_is_created_and_deleted_and_no_other_is(cluster: FakeCluster) -> None:
    mine = client(cluster)
    mine.require_access(RUN)
    mine.request(RUN, "create", mine.pods, body())
    found = mine.find_pod(RUN, "p")
    assert found is not None
    assert found["status"]["phase"] == "Running"
    outcome = mine.delete_pod("another-run", "p")
    assert outcome.startswith("left alone: ")
    assert [*cluster.pods] == ["p"]
    assert mine.delete_pod(RUN, "p") == "deleted"
    assert cluster.pods == {}
    assert {path.split("/")[4] for verb, path in cluster.asked if "/pods" in path} == {NAMESPACE}


def test_a_journal_deletes_its_pod_whoever_undoes_it(cluster: FakeCluster, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    roots = HostRoots(state=tmp_path / "state", run=tmp_path / "run")
    roots.journals.mkdir(parents=True)
    journal = Journal.create(roots, RUN)
    create_pod(journal, client(cluster), body())
    assert [*cluster.pods] == ["p"]
    journal.close()  # as when its owner dies
    report = Journal.open(roots.journal(RUN)).undo()
    assert report.complete
    assert [step.outcome for step in report.undone] == ["deleted"]
    assert cluster.pods == {}


@pytest.mark.daily
def test_a_request_that_comes_late_leaves_no_pod(cluster: FakeCluster) -> None:
    """A kubectl was killed after it had sent its request: the server makes the pod all the same."""
    mine = client(cluster)
    data = {"cluster": {k: getattr(mine, k) for k in Cluster.__slots__}, "pod": "p", "run_id": RUN}
    line = mine.line(RUN, "create", "--raw", mine.pods, "-f", "-")
    cluster.on_create = lambda _: time.sleep(0.8)
    process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin is not None
    process.stdin.write(json.dumps(body()).encode())
    process.stdin.close()
    deadline = time.monotonic() + 20
    while ("create", mine.pods) not in cluster.asked and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert cluster.pods == {}
    assert undo_pod(data) == "deleted"
    assert cluster.pods == {}


@pytest.mark.parametrize(
    ("denied", "namespace", "says"),
    [
        ({("create", "pods")}, NAMESPACE, "may not create pods; accepted: create, get, delete"),
        pytest.param(
            {("create", "pods/exec"), ("delete", "pods")},
            NAMESPACE,
            "may not delete pods, create pods/exec",
            marks=pytest.mark.daily,
        ),
        pytest.param(
            set(),
            "elsewhere",
            "namespace elsewhere: the cluster has no such namespace, and none is",
            marks=pytest.mark.daily,
        ),
        # Who may not look may still have pods there.
        pytest.param({("get", "namespaces")}, NAMESPACE, "", marks=pytest.mark.daily),
    ],
)
def test_what_is_not_allowed_is_told_with_its_verb(
    denied: set[tuple[str, str]], namespace: str, says: str, cluster: FakeCluster
) -> None:
    cluster.denied = denied
    try:
        client(cluster, namespace).require_access(RUN)
        told = ""
    except VnetperfError as error:
        told = str(error)
    assert says in told
    assert bool(told) is bool(says)
    assert cluster.seen == []


def test_what_cannot_be_reached_is_an_error_of_kubectl_s(cluster: FakeCluster) -> None:
    with pytest.raises(ClusterError, match='context "nowhere" does not exist'):
        client(cluster, context="nowhere").find_pod(RUN, "p")
    text = cluster.kubeconfig.read_text()
    cluster.kubeconfig.write_text(text.replace("127.0.0.1:", "127.0.0.1:1/"))
    with pytest.raises(ClusterError, match="refused"):
        client(cluster).find_pod(RUN, "p")
    gone = client(cluster)
    cluster.kubeconfig.unlink()
    with pytest.raises(VnetperfError, match="kubeconfig: cannot be read: No such file"):
        gone.find_pod(RUN, "p")


def test_what_a_kubeconfig_starts_is_its_owner_s_and_not_root_s(tmp_path: Path) -> None:
    """A kubeconfig may name a program that makes a token: it runs as the file's owner."""
    with FakeCluster(tmp_path, secure=True) as cluster:
        starts_as_owner(cluster, tmp_path)


def starts_as_owner(cluster: FakeCluster, tmp_path: Path) -> None:
    told = tmp_path / "told"
    told.touch()
    for place in (tmp_path, *tmp_path.parents[:2]):
        place.chmod(0o755)
    token = {"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential"}
    answer = json.dumps({**token, "status": {"token": "t"}})
    script = f"{{ id -u; id -G; env; }} > {told}; echo '{answer}'"
    content = json.loads(cluster.kubeconfig.read_text())
    plugin = {
        "apiVersion": token["apiVersion"],
        "command": "/bin/sh",
        "args": ["-c", script],
        "interactiveMode": "Never",
    }
    content["users"][0]["user"] = {"exec": plugin}
    cluster.kubeconfig.write_text(json.dumps(content))
    for path in (cluster.kubeconfig, told):
        shutil.chown(path, 65534, 65534)
    client(cluster).request(RUN, "get", "/version")
    user, groups, *environment = told.read_text().splitlines()
    assert user == "65534"
    assert "0" not in groups.split()
    names = {line.partition("=")[0] for line in environment}
    assert "VNETPERF_RUN_ID" in names
    assert "SUDO_UID" not in names
    assert not names & {"PYTHONPATH", "LD_PRELOAD", "PYTEST_CURRENT_TEST"}


@EXEC
def test_programs_run_in_the_pod_s_own_container(cluster: FakeCluster) -> None:
    """Beside one that the cluster has put first, into which kubectl would go by itself."""
    cluster.beside = "mesh"
    mine = client(cluster)
    mine.request(RUN, "create", mine.pods, body())
    assert mine.execute(RUN, "p", ["sh", "-c", "echo here"]) == "here\n"


def pods_start(start: Start, testbed: Path, *options: str, kind: str = "UDP_RR") -> UserRun:
    return start(
        *("-k", f"bmp2bmp_kubernetes and {kind}", "--message-sizes=64"),
        *(f"--testbed={testbed}", *options),
        path="testcases/test_endpoints.py",
    )


@pytest.mark.daily
@pytest.mark.parametrize("place", ["same", "other"])
@SOCKPERF
@EXEC
def test_pods_of_a_cluster_talk_and_are_gone(
    place: str, cluster: FakeCluster, start: Start, unchanged: Unchanged
) -> None:
    cluster.beside = "mesh" if place == "other" else ""
    run = pods_start(start, cluster.testbed(nodes=[*NODES]), "--hosts", place)
    assert run.finish() == 0, run.output
    (found,) = run.json()["transfers"]
    (transfer,) = found["transfers"]
    assert transfer["transactions_per_second"] > 0
    # Whose processors they are, nobody here knows: no figure, and no 0.
    for absent in ("machine_busy_s", "machine_interrupts_s"):
        assert transfer[absent] is None
    assert transfer["client"]["user_s"] is None
    assert transfer["client"]["address"].startswith("10.77.0.")
    assert transfer["fragments"] is None
    (facts,) = run.json()["scenarios"]
    network = facts["facts"]["vswitch"]
    assert network["version"] == "Kubernetes v1.32.0-double"
    assert "not measured" in network["processors"]
    nodes = {pod["in"] for pod in network["pods"].values()}
    assert network["cluster"]["nodes"] == sorted(NODES[:1] if place == "same" else NODES)
    assert nodes == ({"node worker-a"} if place == "same" else {f"node {n}" for n in NODES})
    assert {pod["MTU"] for pod in network["pods"].values()} == {1450}
    second = network["pods"]["pod1"]
    assert second[POD_ATTACHED] > 0
    assert second[POD_REMOVED] > 0
    assert "VNETPERF" not in json.dumps(cluster.seen)
    assert len(cluster.seen) == 3  # the second pod twice: how long it takes to go is measured
    assert wait_empty(cluster) == []
    assert unchanged() == ()


@pytest.mark.daily
@EXEC
def test_streams_of_a_cluster_are_beside_no_baseline_of_this_machine(
    cluster: FakeCluster, start: Start
) -> None:
    run = start(
        *("-k", "(bmp2bmp_kubernetes or bmp2bmp_host) and TCP_STREAM and test_networks"),
        *("--message-sizes=16384", f"--testbed={cluster.testbed()}"),
        path="testcases/comparisons/test_networks.py",
    )
    assert run.finish(300) == 0, run.output
    rates = [t["transfers"][0]["bits_per_second"] for t in run.json()["transfers"]]
    assert len(rates) == 4
    assert min(rates) > 0
    report = (run.results / "latest/report.md").read_text()
    rows = [line for line in report.splitlines() if "| kubernetes |" in line and "TCP" in line]
    assert len(rows) == 2
    of_host = [row.split("|")[5].strip() for row in rows]
    assert not any(cell[:1].isdigit() or cell == "baseline" for cell in of_host), rows


def break_image(cluster: FakeCluster) -> None:
    cluster.never = "ErrImagePull"


def lack_a_shell(cluster: FakeCluster) -> None:
    cluster.lacks = {"sh"}


def deny_exec(cluster: FakeCluster) -> None:
    cluster.denied = {("create", "pods/exec")}


def lose_a_node(cluster: FakeCluster) -> None:
    cluster.nodes = NODES[:1]


def differ_in_mtu(cluster: FakeCluster) -> None:
    cluster.mtu[NODES[1]] = 1400


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that does not fit anywhere is not waited for three minutes."""
    monkeypatch.setattr("vnetperf.networks.kubernetes.START_S", 3.0)


@pytest.mark.daily
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("breaks", "says", "created"),
    [
        (break_image, "registry.test/tools:1: ErrImagePull: no such image at the registry", 1),
        (lack_a_shell, "image registry.test/tools:1: no shell can be run in its pod vnetperf-", 1),
        (deny_exec, "may not create pods/exec", 0),
        (differ_in_mtu, "have an MTU of 1400 and 1450: longer packets are lost", 3),
        (lose_a_node, "Unschedulable: 0/1 nodes are available: affinity.", 2),
    ],
)
@EXEC
def test_what_fails_is_one_message_and_leaves_no_pod(
    breaks: Callable[[FakeCluster], None],
    says: str,
    created: int,
    cluster: FakeCluster,
    unchanged: Unchanged,
) -> None:
    breaks(cluster)
    with pytest.raises(VnetperfError) as refused:
        deploy(cluster)
    assert says in str(refused.value)
    assert len(cluster.seen) == created
    assert wait_empty(cluster) == []
    assert unchanged() == ()


def deploy(cluster: FakeCluster) -> LiveDeployment:
    """Deploy two pods on two nodes, in this process."""
    settings = {"testbed": str(cluster.testbed()), "hosts": "other"}
    configured = config.load(settings, environment={})
    testbed = configured.testbed.model_copy(update={"lock_timeout_s": 300.0})
    scenario = endpoint_scenario(configured, make_scenario("bmp2bmp_kubernetes", configured))
    facts = take_inventory(testbed)
    return deploy_plan(make_plan(scenario, testbed, facts), facts)


@pytest.mark.daily
@EXEC
def test_a_tool_that_the_image_lacks_is_named_with_the_image(
    cluster: FakeCluster, start: Start
) -> None:
    cluster.lacks = {"sockperf"}
    run = pods_start(start, cluster.testbed())
    assert run.finish() == 1, run.output
    for words in ("sockperf", "pod vnetperf-", "image registry.test/tools:1", "node worker-"):
        assert words in run.output
    assert wait_empty(cluster) == []


@pytest.mark.daily
@EXEC
def test_a_pod_that_somebody_deletes_is_told(cluster: FakeCluster, unchanged: Unchanged) -> None:
    deployment = deploy(cluster)
    try:
        deployment.check_alive()
        cluster.remove(next(iter(cluster.pods)))
        time.sleep(2.1)  # each look is a request
        with pytest.raises(VnetperfError, match="it is gone: somebody has deleted it"):
            deployment.check_alive()
    finally:
        assert deployment.teardown() == []
    assert cluster.pods == {}
    assert unchanged() == ()


@pytest.mark.daily
@pytest.mark.parametrize("seed", seeds(KILLS))
@pytest.mark.parametrize("how", [kill, interrupt, kill_agent], ids=lambda f: f.__name__)
@EXEC
@SOCKPERF
def test_killed_at_a_random_moment_leaves_no_pod(
    how: Callable[[UserRun], None],
    seed: int,
    cluster: FakeCluster,
    start: Start,
    unchanged: Unchanged,
) -> None:
    moment = random.Random(f"cluster {how.__name__} {seed}").uniform(0.0, 9.0)
    run = pods_start(start, cluster.testbed())
    run.wait_until_begun()
    time.sleep(moment)
    assert run.process.poll() is None, run.finish() and run.output
    how(run)
    run.finish()
    assert wait_empty(cluster) == [], f"after {moment:.2f} s"
    assert unchanged() == (), f"after {moment:.2f} s"
