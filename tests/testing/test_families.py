"""The examples of docs/plugins.md, one of each family, do what the page says."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from tests.fakes.machine import facts
from vnetperf import config
from vnetperf.analysis.run_metrics import compared_metrics
from vnetperf.deployment.events import find_event_problem, parse_event
from vnetperf.model.deployment import Attachment, VnfPort
from vnetperf.model.result import RunIdentity, RunResults
from vnetperf.model.scenario import Plan
from vnetperf.model.testbed import Testbed
from vnetperf.model.transfer import Transfers, TransferSpec
from vnetperf.model.trial import TrialSpec
from vnetperf.planning.planner import make_plan
from vnetperf.plugin import registry
from vnetperf.plugin.endpoint_tool import Sockets, ToolOutput, UnreadableError
from vnetperf.plugin.event import EventTarget
from vnetperf.plugin.requirements import Requirements
from vnetperf.plugin.vnf import EndpointHost
from vnetperf.plugin.workload import load_runner
from vnetperf.report.markdown import markdown_report
from vnetperf.runner.scenarios import make_scenario, scenario_ids
from vnetperf.runner.transfers import find_workload_problem, workload_spec
from vnetperf.testing import CollectorContract

PAGE = (Path(__file__).parents[2] / "docs/plugins.md").read_text()
FILES = dict(re.findall(r"```python\n# (my_\w+)\.py\n(.*?)```", PAGE, re.DOTALL))
EXAMPLES: dict[registry.Family, tuple[str, str]] = {
    "vnfs": ("cable", "my_vnf:Cable"),
    "traffic": ("ideal", "my_generator:Ideal"),
    "networks": ("routed", "my_network:Routed"),
    "endpoints": ("nuttcp", "my_tool:Nuttcp"),
    "workloads": ("disk", "my_workload:Disk"),
    "mpi": ("bibw", "my_mpi:BothWays"),
    "collectors": ("faults", "my_collector:Faults"),
    "wires": ("delayed", "my_wire:Delayed"),
    "events": ("reload", "my_event:Reload"),
    "procedures": ("fairness", "my_test:Fairness"),  # run by tests/plugin/test_own_test.py
}


@pytest.fixture(autouse=True)
def _examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each example in a file of its name, and registered."""
    for name, code in FILES.items():
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    registered = registry.registered()
    for family, (name, target) in EXAMPLES.items():
        registry.register(family, name, target)
    yield
    for family, backends in registry._registered.items():
        backends.clear()
        backends.update(registered[family])
    for name in FILES:
        sys.modules.pop(name, None)


class Machine:
    """Notes calls, and changes nothing."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.facts = facts()

    def load_module(self, module: object) -> None:
        self.calls.append("load_module")

    def create_veth(self, *names: str, mtu: int) -> None:
        self.calls.append("create_veth")

    def interface_name(self, name: str) -> str:
        return f"vp{name}"

    def in_netns(self, function: Callable[[], object]) -> None:
        self.calls.append("in_netns")


def build(family: registry.Family, *arguments: Any) -> Any:
    """Build the example of a family."""
    return registry.load(family, EXAMPLES[family][0])(*arguments)


def plan_scenario(scenario: str, **wishes: Any) -> Plan:
    settings = config.load({"preset": "smoke", **wishes}, environment={})
    return make_plan(make_scenario(scenario, settings), settings.testbed, facts())


def test_every_family_has_an_example() -> None:
    assert {*EXAMPLES, "vswitches"} == {*registry.FAMILIES}
    assert {target.partition(":")[0] for _, target in EXAMPLES.values()} == {*FILES} - {"my_cases"}


@pytest.mark.parametrize("family", EXAMPLES)
def test_the_contract_takes_it(family: registry.Family) -> None:
    name, _ = EXAMPLES[family]
    backend = registry.load(family, name)
    assert backend.name == name
    assert issubclass(backend, Requirements) == (family in registry.ON_MACHINES)
    assert not backend.__abstractmethods__
    assert (f"{family} {name}" in registry.backends()) == (family in registry.ON_MACHINES)


def test_the_vnf_is_planned_without_a_core_and_plugged_in() -> None:
    plan = plan_scenario("pvp_bridge", vnf="cable", vnf_mode="io")
    assert "vnf0" not in plan.placement.cores
    machine = Machine()
    vnf = build("vnfs", machine, plan, 0)
    first, second = (
        Attachment(port=VnfPort(vnf=0, index=n), kind="veth", netdev=f"v{n}") for n in (0, 1)
    )
    vnf.launch((first, second))
    vnf.wait_ready(1.0)
    assert machine.calls.count("in_netns") == 1
    vnf.stop()
    vnf.stop()
    assert machine.calls.count("in_netns") == 3


def test_the_generator_receives_all_frames() -> None:
    plan = plan_scenario("phy2phy_bridge", generator="ideal")
    generator = build("traffic", Machine(), plan)
    generator.prepare(plan.scenario.streams, plan.scenario.traffic, 64)
    trial = TrialSpec(frame_size=64, load_fps=1000, duration_s=0.05, drain_s=0, learning_frames=0)
    counts = generator.run(trial, lambda: None).directions
    assert [(c.direction, c.intended, c.received) for c in counts] == [(0, 50, 50), (1, 50, 50)]


def test_the_network_has_a_scenario_and_is_planned() -> None:
    assert "bmp2bmp_routed" in scenario_ids()
    assert plan_scenario("bmp2bmp_routed").scenario.vswitch == "routed"


def test_the_tool_has_command_lines_and_reads_a_rate() -> None:
    tool, spec = build("endpoints"), TransferSpec(kind="TCP_STREAM", tool="nuttcp", duration_s=5)
    sockets = Sockets(server="198.18.0.2", client="198.18.0.1", port=5000)
    assert tool.server(sockets, spec) == ("nuttcp", "-S", "--nofork", "-P5000")
    assert tool.client(sockets, spec)[-1] == "198.18.0.2"
    line = "megabytes=561.5 real_seconds=5.00 rate_Mbps=941.4 tx_cpu=4 rx_cpu=25 retrans=0"
    output = ToolOutput(client=line, server="", version="nuttcp-6.1.2")
    assert tool.read(output, spec).bits_per_second == pytest.approx(941.4e6)
    with pytest.raises(UnreadableError):
        tool.read(ToolOutput(client="", server="", version=""), spec)


def test_the_workload_is_planned_run_and_reported() -> None:
    settings = config.load({"preset": "smoke", "vnf": "vloop:container"}, environment={})
    run = SimpleNamespace(
        configuration=settings,
        facts=facts,
        plan=lambda scenario: make_plan(scenario, settings.testbed, facts()),
        note_skipped=lambda *_: None,
    )
    plain, routed = (make_scenario(name, settings) for name in ("phy2phy_bridge", "pvp_bridge"))
    assert "choose pvp" in find_workload_problem(run, plain, "DISK_WRITE", None)
    assert find_workload_problem(run, routed, "DISK_WRITE", None) == ""
    spec = workload_spec(run, routed, "DISK_WRITE", None)
    vnf = MagicMock(spec=EndpointHost)
    written = load_runner(build("workloads"))(SimpleNamespace(vnfs=(vnf,)), (spec,))
    place = vnf.inside.return_value.__enter__.return_value.place
    assert place.run.call_args.args[0][:2] == ["dd", "if=/dev/zero"]
    transfers = Transfers(scenario="pvp_bridge,endpoints", transfers=written)
    identity = RunIdentity(tool="vnetperf 1", git="g", command="c", started="2026-01-01T00:00:00")
    results = RunResults(run=identity, preset="smoke", transfers=(transfers,))
    (metric,) = compared_metrics(results)
    assert (metric.label, metric.unit, metric.better) == ("DISK_WRITE", "octet/s", "more")
    assert "## Disks of VNFs" in markdown_report(results)


def test_the_program_of_mpi_reads_columns() -> None:
    spec = TransferSpec(
        kind="MPI_BANDWIDTH", tool="bibw", message_size=64, duration_s=1, pods=2, ranks=1
    )
    program = build("mpi")
    command = program.command(spec, {"osu_bibw": "/usr/bin/osu_bibw"})
    assert command == ("/usr/bin/osu_bibw", "-m", "64:64")
    output = "# OSU MPI Bi-Directional Bandwidth Test\n# Size  Bandwidth (MB/s)\n64     12.5\n"
    assert program.read(output, spec).bits_per_second == pytest.approx(1e8)


@pytest.mark.slow
def test_the_collector_keeps_its_contract() -> None:
    kit = type("Kit", (CollectorContract,), {"collector": "faults"})()
    kit.test_has_its_registered_name()
    kit.test_measures_a_busy_thread_or_gives_a_reason()
    kit.test_a_thread_that_ends_meanwhile_costs_no_other()
    kit.test_without_busy_threads_it_is_quiet()
    kit.test_leaves_no_file_open_and_no_process()


def test_the_event_is_known_by_its_text_and_acts_on_the_vswitch() -> None:
    plan = plan_scenario("phy2phy_bridge")
    assert find_event_problem(plan, "reload") == ""
    event = parse_event("reload")
    assert event is not None
    streams: list[Any] = []
    vswitch = SimpleNamespace(connect=streams.extend)
    event.act(cast("EventTarget", SimpleNamespace(plan=plan, vswitch=vswitch)), 0.0)
    assert streams == [*plan.scenario.streams]


def test_the_wire_is_laid_as_the_tester_knows_it() -> None:
    machine, plan = Machine(), SimpleNamespace(scenario=SimpleNamespace(mtu=1500))
    wire = build("wires", machine, plan, 0)
    assert wire.missing(facts(), None, Testbed()) == ""
    tester, dut = wire.lay()
    assert (tester.kind, dut.kind) == ("veth", "delayed")
    assert machine.calls == ["create_veth", "in_netns"]
