"""A user measures; the numbers hold together and the machine is as it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pytest
from scapy.utils import RawPcapReader

from tests.real.conftest import UserRun, differences, machine, starting_in
from vnetperf.cli import main
from vnetperf.report.schema import results_schema

Start = Callable[..., UserRun]
Unchanged = Callable[[], tuple[str, ...]]


@pytest.fixture(scope="module")
def pvp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserRun]:
    """One run of a user's, with captures, for all that is to be seen in one."""
    before = machine()
    with starting_in(tmp_path_factory.mktemp("pvp")) as start:
        run = start("-k", "pvp_dpdk", "--frame-sizes=64,1518", "--pcap=10")
        assert run.finish() == 0, run.output
        run.left = differences(before)
        yield run


def test_throughput(pvp: UserRun) -> None:
    assert pvp.left == ()
    numbers_hold_together(pvp, "pvp_dpdk")


@pytest.mark.daily
@pytest.mark.parametrize(
    ("scenario", "options"),
    [
        ("phy2phy_dpdk", ["--frame-sizes=64"]),
        ("pvvp_dpdk", ["--frame-sizes=512"]),
        ("pvpv_dpdk", ["--frame-sizes=64", "--vnfs=3"]),
        ("pvp_dpdk", ["--frame-sizes=64", "--wire=veth"]),
        ("pvp_dpdk", ["--frame-sizes=128", "--vnf-mode=macswap", "--traffic=multi-flow"]),
        ("phy2phy_dpdk", ["--frame-sizes=256", "--traffic=unidirectional"]),
    ],
    ids=["phy2phy", "pvvp", "pvpv-3", "pvp-veth", "pvp-macswap-flows", "one-way"],
)
def test_throughput_of_others(
    scenario: str, options: list[str], start: Start, unchanged: Unchanged
) -> None:
    run = start("-k", scenario, *options)
    assert run.finish() == 0, run.output
    assert unchanged() == ()
    numbers_hold_together(run, scenario)


def numbers_hold_together(run: UserRun, scenario: str) -> None:
    """Bounds, deviations and limits of throughput results, by the schema of results."""
    results = run.json()
    jsonschema.validate(results, results_schema())
    assert not results["benchmark"]
    assert {d["clause"] for d in results["deviations"]} >= {"RFC 2544 section 24"}
    assert results["environment"]
    for result in results["results"]:
        assert (result["scenario"], result["test"]) == (scenario, "throughput")
        (goal,) = result["goals"]
        assert goal["lower_bound_fps"] > result["directions"] * result["min_load_fps"]
        if goal["upper_bound_fps"] is not None:
            assert goal["upper_bound_fps"] > goal["lower_bound_fps"]
        assert goal["regular"] or goal["reason"]
        assert goal["conditional_throughput_fps"] <= goal["lower_bound_fps"] * 1.000001
        assert len(goal["per_direction"]) == result["directions"]
        assert result["generator_max_fps"] >= goal["lower_bound_fps"] * 0.999
    text = (run.results / "latest/report.md").read_text()
    assert text[:600].count("Not a benchmark (preset smoke): ") == 1


def test_counters_of_every_hop_account_for_the_frames(pvp: UserRun) -> None:
    assert captured(pvp) == 10
    trials = [r for r in pvp.records() if r["type"] == "trial" and r["verdict"] == "VALID"]
    assert trials
    for trial in trials:
        hops = {hop["port"]: hop for hop in trial["result"]["hops"]}
        sent = {d["direction"]: d["sent"] for d in trial["result"]["directions"]}
        received = {d["direction"]: d["received"] for d in trial["result"]["directions"]}
        assert hops["phy0"]["rx"] == sent[0]
        assert hops["phy1"]["rx"] == sent[1]
        assert hops["phy1"]["tx"] >= received[0]
        assert hops["phy0"]["tx"] >= received[1]
        assert hops["vnf0.0 (inside)"]["rx"] == hops["vnf0.0"]["tx"]
        offered = sum(
            d["sent"] + (d["refused"] if trial["result"]["refusal_is_loss"] else 0)
            for d in trial["result"]["directions"]
        )
        assert sum(trial["lost_at"].values()) == offered - sum(received.values()), trial["lost_at"]


def captured(run: UserRun) -> int:
    """Frames in each of a run's captures; every trial has both ports', both ways."""
    counts = set()
    for trial in (r for r in run.records() if r["type"] == "trial"):
        assert [name.partition("-port")[2] for name in trial["captures"]] == [
            "0-received.pcap",
            "0-sent.pcap",
            "1-received.pcap",
            "1-sent.pcap",
        ]
        for name in trial["captures"]:
            with RawPcapReader(str(run.results / "latest" / name)) as packets:
                octets = [frame for frame, _ in packets]
            assert {len(frame) for frame in octets} == {trial["spec"]["frame_size"] - 4}
            assert all(frame[-18:-15] == b"VNP" for frame in octets)
            counts.add(len(octets))
    (count,) = counts
    assert "pcap files in" in run.output
    return count


def test_a_log_has_no_escape_codes(pvp: UserRun) -> None:
    assert "\x1b" not in pvp.output
    lines = [line for line in pvp.output.splitlines() if "vnetperf:" in line]
    assert len(lines) <= 4  # a line or two before the first case, and one for each


def test_the_reports_come_from_the_log_alone(pvp: UserRun, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(pvp.results / "latest", folder)
    before = (folder / "results.json").read_text()
    for name in ("results.json", "report.md", "report.html", "junit.xml"):
        (folder / name).unlink()
    assert main(["report", str(folder)]) == 0
    assert (folder / "results.json").read_text() == before
    assert (folder / "report.html").stat().st_size > 10_000


def test_plan_changes_nothing(start: Start, unchanged: Unchanged) -> None:
    run = start("-k", "pvvp_dpdk", "--plan")
    assert run.finish() == 0, run.output
    assert "hugepages" in run.output
    assert "cores" in run.output
    assert not run.results.exists()
    assert unchanged() == ()
