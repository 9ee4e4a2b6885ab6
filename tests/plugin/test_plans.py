"""`--plan` shows what will run, with the checks of the run; wrong options are refused before it."""

from __future__ import annotations

import ast
import json

import pytest

from tests.plugin.conftest import ROOT, Site
from tests.texts import Texts, lines_with
from vnetperf.pytest_plugin.plans import stated_sizes

FILES = ("test_rfc2544.py", "test_endpoints.py", "test_mpi.py", "test_cgnat.py", "conftest.py")
VXLAN = ("-k", "bmp2bmp_vxlan and test_latency", "--hosts", "same", "--tests", "latency")


@pytest.fixture
def cases(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    (site.path / "testcases").mkdir()
    for name in FILES:
        text = (ROOT / "testcases" / name).read_text()
        (site.path / "testcases" / name).write_text(text)
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"programs": {"sockperf": "/usr/bin/sockperf"}}))
    return site


def run(cases: Site, file: str, *args: str) -> tuple[int, str]:
    result = cases.run(f"testcases/{file}", *args)
    return int(result.ret), result.stdout.str() + result.stderr.str()


def test_frame_sizes_that_a_scenario_cannot_carry_are_not_planned(
    cases: Site, texts: Texts
) -> None:
    status, text = run(cases, "test_rfc2544.py", *VXLAN, "--plan")
    assert status == 0, text
    texts.check(lines_with(text, "1518"))
    assert "frame sizes 64\n" in text


def test_who_shares_processors_is_planned(
    cases: Site, monkeypatch: pytest.MonkeyPatch, texts: Texts
) -> None:
    chosen = ("-k", "pvp_dpdk and test_throughput", "--frame-sizes", "64", "--plan")
    _, text = run(cases, "test_rfc2544.py", *chosen)
    assert "cores       dedicated: " in text
    assert "share processor" not in text
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"cores": 2}))
    _, text = run(cases, "test_rfc2544.py", *chosen)
    sharing = [*lines_with(text, "cores  ", "share processor", "turns: ")]
    texts.check(sharing)


def test_frame_sizes_of_the_user_that_no_scenario_carries_are_refused(
    cases: Site, texts: Texts
) -> None:
    for more in ((), ("--plan",)):
        status, text = run(cases, "test_rfc2544.py", *VXLAN, "--frame-sizes", "64,1518", *more)
        assert status == pytest.ExitCode.USAGE_ERROR, text
        (line,) = lines_with(text, "no selected scenario")
        texts.check(line.partition("ERROR: ")[2])
    assert cases.calls("deploy") == {}


def test_frame_sizes_of_the_user_that_one_scenario_carries_are_skipped_in_others(
    cases: Site,
) -> None:
    chosen = ("-k", "(bmp2bmp_vxlan or phy2phy_bridge) and test_throughput")
    status, text = run(cases, "test_rfc2544.py", *chosen, "--frame-sizes", "1518", "-rs")
    assert status == 0, text
    assert "1 passed, 1 skipped" in text
    assert "1518 octets; accepted: up to 1468" in text


def test_tests_that_are_selected_are_planned_with_the_search_they_need(
    cases: Site, texts: Texts
) -> None:
    chosen = ("-k", "pvp_dpdk and test_latency", "--tests", "latency,mrr", "--frame-sizes", "64")
    _, text = run(cases, "test_rfc2544.py", *chosen, "--plan")
    assert "tests       latency\n" in text
    texts.check(lines_with(text, "searched first", "hugepages of"))
    assert "wall time   mrr" not in text
    assert "vnf         vnf0: vloop, mode " in text
    assert "1 cases: at most " in text


def test_a_plan_of_sockets_has_tool_and_sizes_and_seconds(cases: Site, texts: Texts) -> None:
    chosen = ("-k", "bmp2bmp_vxlan and UDP_RR", "--message-sizes", "64,128", "--plan")
    status, text = run(cases, "test_endpoints.py", *chosen)
    assert status == 0, text
    texts.check(lines_with(text, "transfer  "))
    assert "2 cases: at most " in text
    assert "plan of bmp2bmp_vxlan_routed" not in text
    for word in ("tests  ", "search  ", "tester", "hours"):
        assert word not in text.partition("plan of")[2], word


def test_a_plan_of_sockets_names_what_no_tool_can_do(cases: Site, texts: Texts) -> None:
    chosen = ("-k", "phy2phy_bridge and UDP_RR", "--endpoint-tool", "iperf3", "--plan")
    _, text = run(cases, "test_endpoints.py", *chosen)
    texts.check(lines_with(text, "would be skipped: UDP_RR"))


def test_a_plan_of_ranks_is_of_ranks(cases: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"no_programs": True}))
    _, text = run(cases, "test_mpi.py", "-k", "bmp2bmp_macvlan and test_barrier", "--plan")
    assert "would be skipped: MPI_BARRIER: " in text
    assert "tests  " not in text


def test_the_plan_makes_the_checks_of_the_run(cases: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    why = "frames of a tester are sent from no container; leave --pod out"
    chosen = ("-k", "bmp2bmp_macvlan and test_throughput", "--pod", "podman")
    tools = dict.fromkeys(("runc", "podman", "conmon", "skopeo"), "/usr/bin/x")
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"programs": tools}))
    for more in (("-rs",), ("--plan",)):
        _, text = run(cases, "test_rfc2544.py", *chosen, *more)
        assert why in text, text
    assert "would be skipped" in text


def test_a_test_that_a_scenario_has_not_is_skipped_in_its_plan(cases: Site, texts: Texts) -> None:
    chosen = ("-k", "phy2phy_bridge", "--tests", "session_capacity", "--plan")
    _, text = run(cases, "test_cgnat.py", *chosen)
    texts.check(lines_with(text, "would be skipped"))


def test_a_test_that_the_generator_cannot_do_is_skipped_in_its_plan(
    cases: Site, monkeypatch: pytest.MonkeyPatch, texts: Texts
) -> None:
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"programs": {"pktgen": "/usr/bin/pktgen"}}))
    chosen = ("-k", "phy2phy_bridge and (back_to_back or latency)", "--generator", "pktgen")
    only = ("--tests", "back_to_back,latency", "--frame-sizes", "64")
    _, text = run(cases, "test_rfc2544.py", *chosen, *only, "--plan")
    texts.check(lines_with(text, "cure: "))
    assert "tests       none\n" in text


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--set=mode=fast", "--set mode: bridge has no modes; leave --set mode out"),
        ("--nat=ports=3", "--nat (command line): no selected scenario is a NAT (bridge)"),
        ("--guest=vcpus=1", "--guest (command line): no selected scenario has guests (phy2phy)"),
        ("--core=sessions=5", "--core (command line): no selected scenario has a mobile core"),
        ("--tunnel=vxlan", "--tunnel (command line): no selected scenario is an overlay, or has"),
        ("--vnfs=5", "--vnfs (command line): no selected scenario lets the number of VNFs be"),
        ("--hosts=same", "--hosts (command line): no selected scenario has pods (phy2phy)"),
    ],
)
def test_options_that_nothing_selected_has_are_refused(
    cases: Site, option: str, message: str
) -> None:
    status, text = run(cases, "test_rfc2544.py", "-k", "phy2phy_bridge and test_throughput", option)
    assert status == pytest.ExitCode.USAGE_ERROR, text
    assert message in text
    assert cases.calls("deploy") == {}


def test_options_that_one_scenario_has_are_planned_for_it(cases: Site, texts: Texts) -> None:
    chosen = ("-k", "(phy2phy_bridge or bmp2bmp_macvlan) and test_throughput", "--set=mode=bridge")
    status, text = run(cases, "test_rfc2544.py", *chosen, "--plan")
    assert status == 0, text
    texts.check(lines_with(text, "would be skipped"))
    assert "1 cases" not in text


def test_options_for_some_scenarios_are_taken_where_one_is_selected(
    cases: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = ("pvvp_bridge", "op2p_bridge", "bmp2bmp_vxlan", "vepc_bridge", "phy2phy_bridge")
    chosen = ("-k", f"({' or '.join(several)}) and test_throughput", "--plan")
    options = ("--vnfs=1", "--tunnel=gre", "--hosts=same", "--core=sessions=5", "--guest=vcpus=1")
    status, text = run(cases, "test_rfc2544.py", *chosen, *options)
    assert status == 0, text
    monkeypatch.setenv("VNETPERF_VNFS", "1")  # for other runs of the shell, too
    status, text = run(cases, "test_rfc2544.py", "-k", "phy2phy_bridge and throughput", "--plan")
    assert status == 0, text


def test_the_plan_of_transfers_is_of_what_is_run() -> None:
    """What a case runs by a name in its body, its plan knows by a mark alone."""
    seen = 0
    for path in (ROOT / "testcases").rglob("test_*.py"):
        functions = [
            f for f in ast.walk(ast.parse(path.read_text())) if isinstance(f, ast.FunctionDef)
        ]
        for function in functions:
            run = {
                call.args[0].value
                for call in ast.walk(function)
                if isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr in ("run_workload", "between_endpoints")
                and call.args
                and isinstance(call.args[0], ast.Constant)
            }
            marks = [ast.unparse(mark) for mark in function.decorator_list]
            for kind in run:
                seen += 1
                assert f"pytest.mark.transfers({kind!r})" in marks, f"{path.name}: {function.name}"
    assert seen >= 5


def test_the_sizes_that_a_test_case_states_are_planned(cases: Site) -> None:
    (cases.path / "testcases" / "test_own.py").write_text(
        "import pytest\n"
        '@pytest.mark.measures("frame_loss")\n'
        "def test_odd_sizes(bench):\n"
        '    bench.measure("frame_loss", 333).check_expectations()\n'
        '    bench.measure(test="frame_loss", frame_size=777).check_expectations()\n'
    )
    args = ("-k", "phy2phy_dpdk", "--tests", "frame_loss", "--plan")
    status, text = run(cases, "test_own.py", *args)
    assert status == 0, text
    assert "\nframe sizes 333, 777\n" in text
    assert "at each of 2 frame sizes" in text


def test_a_function_without_text_states_no_size() -> None:
    assert stated_sizes(None) == []
    assert stated_sizes(len) == []


def test_users_who_name_tests_get_no_transfers_besides(cases: Site) -> None:
    paths = ("testcases/test_rfc2544.py", "testcases/test_endpoints.py")
    typed = (*paths, "-k", "phy2phy_bridge", "--collect-only", "-q")
    every = cases.run(*typed).stdout.str()
    assert "test_stream[" in every
    named = cases.run(*typed, "--tests", "throughput").stdout.str()
    ids = [line for line in named.splitlines() if "::" in line]
    assert {line.partition("::")[2].partition("[")[0] for line in ids} == {"test_throughput"}
    assert "--tests leaves out" in named
    all_ = cases.run(*typed, "--tests", "all").stdout.str()
    assert "test_stream[" in all_
