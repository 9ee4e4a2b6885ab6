"""`pytest testcases/test_endpoints.py`: what is run when, and what comes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.plugin.conftest import ROOT, Site

FILE = "test_endpoints.py"
PATH = f"testcases/{FILE}"


@pytest.fixture
def endpoints(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    for name in (FILE, "conftest.py"):
        folder = site.path / "testcases"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text((ROOT / "testcases" / name).read_text())
    wishes = {"programs": {"iperf3": "/usr/bin/iperf3"}}
    monkeypatch.setenv("FAKE_AGENT", json.dumps(wishes))
    return site


def collected(site: Site, *args: str) -> list[str]:
    lines = site.run("--collect-only", "-q", *args).outlines
    return [line.partition("::")[2] for line in lines if FILE in line]


def test_they_run_only_when_their_file_is_named(endpoints: Site) -> None:
    assert collected(endpoints, "-k", "phy2phy_bridge") == []
    assert collected(endpoints) == []
    chosen = "phy2phy_bridge and 1024 and messages"
    assert collected(endpoints, PATH, "-k", chosen) == [
        f"test_messages[phy2phy_bridge-1024-{kind}]"
        for kind in ("TCP_STREAM", "UDP_STREAM", "TCP_RR")
    ]
    assert collected(endpoints, "testcases") == []


@pytest.mark.slow
def test_deployments_between_two_hosts_are_of_frames_and_of_endpoints(
    endpoints: Site,
) -> None:
    (endpoints.path / "test_frames.py").write_text(
        "def test_frames(bench, frame_size):\n    bench.search_throughput(frame_size)\n"
    )
    found = endpoints.run("--collect-only", "-q", "test_frames.py", "-k", "bridge").outlines
    assert any("v2p2v_bridge" in line for line in found)
    assert any("p2c2p_bridge" in line for line in found)
    over = collected(endpoints, PATH, "-k", "p2c2p_bridge and 1024 and TCP_RR")
    case = "test_messages[p2c2p_bridge-1024-TCP_RR]"
    assert over == [case]


def test_a_test_may_have_message_sizes_of_its_own(endpoints: Site) -> None:
    (endpoints.path / "test_own.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('message_size', [64, 65536])\n"
        "def test_own(bench, message_size): bench.between_endpoints('TCP_RR', message_size)\n"
    )
    lines = endpoints.run("--collect-only", "-q", "test_own.py", "-k", "phy2phy_bridge").outlines
    found = [line.partition("::")[2] for line in lines if "::" in line]
    assert found == ["test_own[phy2phy_bridge-64]", "test_own[phy2phy_bridge-65536]"]


def test_a_sweep_is_deployed_once_and_stands_in_every_report(endpoints: Site) -> None:
    endpoints.run(
        *(PATH, "-k", "phy2phy_bridge and (TCP_STREAM or test_stream)"),
        *("--message-sizes=64,1448", "--instances=2"),
    ).assert_outcomes(passed=6)
    deployed = {"deploy phy2phy_bridge,endpoints": 1}
    assert endpoints.calls("deploy", "calibrate") == deployed  # and nothing is calibrated
    assert endpoints.calls("transfer") == {"transfer far": 6}
    (found,) = endpoints.results()["transfers"]
    assert found["scenario"] == "phy2phy_bridge,endpoints"
    asked = {(t["spec"]["message_size"], t["spec"]["way"]) for t in found["transfers"]}
    assert asked == {(size, way) for size in (64, 1448) for way in ("forth", "back", "both")}
    assert {t["spec"]["instances"] for t in found["transfers"]} == {2}
    folder: Path = endpoints.folders[0]
    for name in ("report.md", "report.html", "transfers.csv"):
        assert "1448" in (folder / name).read_text(), name
    assert len((folder / "transfers.csv").read_text().splitlines()) == 1 + 4 * 3 + 2 * 5


def test_what_no_tool_can_do_is_skipped_with_each_ones_reason(endpoints: Site) -> None:
    result = endpoints.run(PATH, "-k", "phy2phy_bridge and TCP_RR and 64-", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*endpoint tool for TCP_RR: iperf3 cannot do TCP_RR*"])
    assert endpoints.calls("deploy") == {}


@pytest.mark.slow
def test_a_tool_that_is_none_is_one_message(endpoints: Site) -> None:
    result = endpoints.run(PATH, "-k", "phy2phy_bridge", "--endpoint-tool=iperf")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "accepted: iperf3, netperf, sockperf" in result.stderr.str() + result.stdout.str()
    for option in ("--message-sizes=64,70000", "--message-sizes=many", "--instances=0"):
        assert endpoints.run(PATH, option).ret == pytest.ExitCode.USAGE_ERROR, option


def test_instances_and_vnfs_are_compared(endpoints: Site) -> None:
    (endpoints.path / "test_scale.py").write_text(
        "import pytest\n"
        "@pytest.mark.vary('instances', [1, 4])\n"
        "def test_instances(bench, message_size):\n"
        "    bench.between_endpoints('TCP_STREAM', message_size)\n"
        "@pytest.mark.vary('vnfs', [1, 3])\n"
        "def test_vnfs(bench, message_size):\n"
        "    bench.between_endpoints('TCP_STREAM', message_size)\n"
        "@pytest.mark.vary('instances', [1, 4])\n"
        "def test_frames(bench, frame_size):\n"
        "    bench.search_throughput(frame_size)\n"
    )
    chosen = "(instances and phy2phy_bridge) or (vnfs and pvvp_bridge)"
    sizes = ("--message-sizes=64", "--frame-sizes=64")
    result = endpoints.run("test_scale.py", "-k", chosen, *sizes, "-rs")
    result.assert_outcomes(passed=4, skipped=2)
    result.stdout.fnmatch_lines(["*instances = 1 changes nothing: throughput sends frames*"])
    assert "Lower bounds" not in result.stdout.str()  # sockets have none
    found = {one["scenario"]: one["transfers"] for one in endpoints.results()["transfers"]}
    assert {name: [t["spec"]["instances"] for t in them] for name, them in found.items()} == {
        "phy2phy_bridge,instances=1,endpoints": [1],
        "phy2phy_bridge,instances=4,endpoints": [4],
        "pvvp_bridge,vnfs=1,endpoints": [1],
        "pvvp_bridge,vnfs=3,endpoints": [1],
    }
