"""What docker is asked for and what is missing for it, on no machine."""

from __future__ import annotations

import json
import logging
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.fakes.machine import PROGRAMS, facts
from tests.networks.test_plans import FIRST, configured, scenario
from vnetperf.model.deployment import make_deployment, vnf_mac
from vnetperf.model.errors import DutError
from vnetperf.networks.docker import OVERLAY, DockerNode, DockerOverlayNetwork
from vnetperf.planning.planner import make_plan
from vnetperf.plugin.dut import load_dut
from vnetperf.plugin.network import Pod

NEEDS = ("dockerd", "containerd", "runc", "iptables")
WHOLE = facts(programs={**PROGRAMS, **{name: f"/usr/sbin/{name}" for name in NEEDS}})
TOKEN = "SWMTKN-1-secret"  # noqa: S105 - of no swarm


@pytest.mark.parametrize("name", NEEDS)
def test_a_program_that_is_missing_is_named_before(name: str) -> None:
    there = {other: path for other, path in WHOLE.programs.items() if other != name}
    why = DockerOverlayNetwork.missing(facts(programs=there), scenario("docker_overlay"))
    assert name in why
    assert "install" in why


def test_nothing_is_missing_where_all_is_there() -> None:
    assert DockerOverlayNetwork.missing(WHOLE, scenario("docker_overlay")) == ""
    why = DockerOverlayNetwork.missing(WHOLE, scenario("docker_overlay", set=("offloads=false",)))
    assert "leave offloads out" in why


def test_hosts_of_a_testbed_are_refused() -> None:
    apart = scenario("docker_overlay", testbed="two-hosts")
    in_place = load_dut(make_deployment("bmp2bmp"), "docker_overlay")
    assert "choose a testbed of one host" in in_place.missing(WHOLE, apart)


def test_pods_have_what_a_tunnel_leaves() -> None:
    plan = make_plan(scenario("docker_overlay"), configured().testbed, WHOLE)
    assert "MTU 1450" in plan.commands["pod0"]
    assert DockerOverlayNetwork.pod_mtu(scenario("docker_overlay", set=("mtu=9000",))) == 8950


class _Daemon(BaseHTTPRequestHandler):
    """Answers as docker's daemon does; what it was asked is kept by its server."""

    def _answer(self) -> None:
        octets = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(octets) if self.headers.get("Content-Type") == "application/json" else ""
        server: Any = self.server
        server.asked.append((self.command, self.path, body))
        status, answer = server.answers.get(self.path, (200, None))
        text = json.dumps(answer).encode() if answer is not None else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - names of the standard library

    def address_string(self) -> str:
        return ""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def node(tmp_path: Path) -> Iterator[DockerNode]:
    """A node whose daemon is made up; `node.daemon` has what it was asked and is to answer."""
    made: Any = object.__new__(DockerNode)
    made.machine, made.process = MagicMock(run_id="r"), MagicMock()
    made.process.pid, made.process.stopped = 42, False
    made.process.log_tail.return_value = "level=error msg=alas"
    made.name, made.address, made.directory = "docker0", "192.0.2.1", tmp_path
    (tmp_path / "run").mkdir()
    with socketserver.UnixStreamServer(str(made.socket), _Daemon) as server:
        made.daemon = server
        server.asked, server.answers = [], {}  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        server.shutdown()


def test_a_refusal_is_told_with_what_was_asked_and_the_log(node: Any) -> None:
    node.daemon.answers["/networks/create"] = 403, {"message": "Pool overlaps"}
    with pytest.raises(DutError, match=r"POST /networks/create: failed with status 403") as told:
        node.call("POST", "/networks/create", {"Name": OVERLAY})
    assert "Pool overlaps" in str(told.value)
    assert "msg=alas" in str(told.value)


def test_the_token_goes_from_node_to_node_alone(
    node: Any, caplog: pytest.LogCaptureFixture
) -> None:
    node.daemon.answers["/swarm"] = 200, {"JoinTokens": {"Worker": TOKEN}}
    node.daemon.answers["/swarm/join"] = 503, {"message": "not now"}
    with caplog.at_level(logging.DEBUG), pytest.raises(DutError) as told:
        node.join_swarm(node)
    method, path, body = node.daemon.asked[-1]
    assert (method, path, body["JoinToken"]) == ("POST", "/swarm/join", TOKEN)
    assert body["RemoteAddrs"] == ["192.0.2.1:2377"]
    assert TOKEN not in str(told.value) + caplog.text


@pytest.mark.parametrize("said", [{}, 'one\n{"errorDetail": {"message": "no space left"}}'])
def test_an_image_that_docker_could_not_make_is_told(node: Any, said: Any) -> None:
    """The status is 200 by then: it stands in what follows."""
    node.daemon.answers["/images/create?fromSrc=-&repo=vnetperf-pod"] = 200, said
    if said:
        with pytest.raises(DutError, match=r"docker0: the pods' image(?s:.*)no space left"):
            node.make_image()
    else:
        node.make_image()
    assert [path for _, path, _ in node.daemon.asked] == list(node.daemon.answers)


@pytest.mark.parametrize("field", ["IPAddress", "MacAddress"])
def test_an_address_that_is_not_the_pods_is_refused(node: Any, field: str) -> None:
    pod = Pod(port=FIRST, netdev="p0", mac=vnf_mac(FIRST), address="198.18.0.1", gateway_mac="")
    given = {"IPAddress": pod.address, "MacAddress": pod.mac}
    told: dict[str, Any] = {"SandboxKey": "/run/docker/netns/abc", "Networks": {OVERLAY: given}}
    node.daemon.answers["/containers/pod0/json"] = 200, {"NetworkSettings": told}
    assert node.start_container(pod) == Path("/proc/42/root/run/docker/netns/abc")
    (create,) = (body for _, path, body in node.daemon.asked if "create?" in path)
    assert create["HostConfig"]["NetworkMode"] == OVERLAY
    given[field] = "another"
    with pytest.raises(DutError, match="instead of"):
        node.start_container(pod)
