"""What a run does, leaves behind and says."""

from __future__ import annotations

import json
import shutil
import stat

import pytest

from tests.plugin.conftest import CONFTEST, REGISTER, Site, without_numbers
from tests.texts import Texts, lines_with
from vnetperf.pytest_plugin.plugin import _Message
from vnetperf.pytest_plugin.terminal import LiveProgress
from vnetperf.report import REPORTS


def test_a_scenario_is_deployed_once_for_all_its_cases(site: Site) -> None:
    result = site.run("-k", "phy2phy_dpdk or pvp_dpdk", "--frame-sizes", "64,512,1518")
    result.assert_outcomes(passed=6)
    assert result.ret == 0
    assert site.calls("deploy") == {"deploy phy2phy_dpdk": 1, "deploy pvp_dpdk": 1}
    assert site.calls("start", "close") == {"start": 1, "close": 1}
    assert site.calls("calibrate") == {"calibrate 64,512,1518": 1, "calibrate 64": 1}


def test_a_run_leaves_one_folder_with_every_report_and_latest(site: Site) -> None:
    result = site.run("-k", "pvp_dpdk")
    (folder,) = site.folders
    assert (site.path / "results" / "latest").resolve() == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {p.name for p in folder.iterdir()} == {*REPORTS, "run.log", "trials.jsonl"}
    results = site.results()["results"]
    assert [(r["scenario"], r["frame_size"]) for r in results] == [
        ("pvp_dpdk", 64),
        ("pvp_dpdk", 1518),
    ]
    output = result.stdout.str()
    assert "vnetperf results" in output
    assert "results/2" in output
    assert "report.html" in output


def test_a_mix_is_measured_once_and_told_by_its_genome(site: Site) -> None:
    result = site.run("-k", "pvp_dpdk", "--traffic", "imix-rfc6985")
    result.assert_outcomes(passed=1)
    (found,) = site.results()["results"]
    assert (found["imix"], found["frame_size"]) == ("aaaaaaaddddg", 334)
    assert found["mean_frame_size"] == pytest.approx((7 * 64 + 4 * 512 + 1518) / 12)
    output = result.stdout.str()
    assert "aaaaaaaddddg, mean 334.5 octets" in output
    (folder,) = site.folders
    for report in ("report.html", "report.md"):
        assert "aaaaaaaddddg" in (folder / report).read_text()
    assert "throughput[pvp_dpdk-imix]" in (folder / "junit.xml").read_text()


def test_a_size_that_cannot_be_had_is_skipped_unless_it_was_asked_for(site: Site) -> None:
    (site.path / "six.toml").write_text('headers = ["ethernet", "ipv6", "udp"]\n')
    result = site.run("-k", "pvp_dpdk", "--traffic", "./six.toml")
    result.assert_outcomes(passed=1, skipped=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["SKIPPED*frames of 64 octets are too small*need 84*or more*"])
    assert site.calls("calibrate") == {"calibrate 1518": 2}  # and checked at the end
    small, _ = sorted(site.results()["results"], key=lambda one: one["frame_size"])
    assert (small["status"], small["failed"]) == ("not measured", False)
    typed = site.run("-k", "pvp_dpdk", "--traffic", "./six.toml", "--frame-sizes", "64,1518")
    assert typed.ret == pytest.ExitCode.USAGE_ERROR
    typed.stderr.fnmatch_lines(["*no selected scenario has frames of 64 octets; *need 84*"])


def test_the_table_shows_the_rate_that_results_json_holds(site: Site) -> None:
    result = site.run("-k", "pvp_dpdk", "--frame-sizes", "64")
    ndr = site.results()["results"][0]["goals"][0]
    assert 1.3e6 < ndr["lower_bound_fps"] < 1.4e6
    assert ndr["regular"]
    assert f"{ndr['lower_bound_fps'] / 1e6:.3f}"[:4] in result.stdout.str()


@pytest.mark.slow
def test_output_that_nobody_watches_has_no_escape_codes(site: Site) -> None:
    for args in ((), ("-q",), ("-v", "--color=no")):
        result = site.run("-k", "pvp_dpdk", *args)
        assert result.ret == 0
        assert "\x1b" not in result.stdout.str()
        assert "\r" not in result.stdout.str()


@pytest.mark.slow
def test_progress_is_a_line_each_where_nobody_watches(site: Site) -> None:
    result = site.run("-k", "pvp_dpdk", "-s")
    lines = [line for line in result.outlines if "vnetperf: " in line]
    assert any("over memif: 2 frame sizes" in line for line in lines)
    assert any("deploying pvp_dpdk" in line for line in lines)
    assert len(lines) < 6  # and no line for each trial
    first, second = (line for line in lines if "test_throughput" in line)
    assert "1/2 test_throughput" in first
    assert "[pvp_dpdk-64] passed in" in first
    assert "to go" in first
    assert "2/2 test_throughput" in second
    assert "[pvp_dpdk-1518] passed in" in second


def test_reports_are_written_without_a_terminal_too(site: Site) -> None:
    site.pytester.makeini("[pytest]\n")  # -ra is an option of the terminal
    assert site.run("-k", "pvp_dpdk", "-p", "no:terminal").ret == 0
    (folder,) = site.folders
    assert {p.name for p in folder.iterdir()} == {*REPORTS, "run.log", "trials.jsonl"}


def test_a_missing_capability_is_a_skip_with_reason_and_cure(
    site: Site, monkeypatch: pytest.MonkeyPatch, texts: Texts
) -> None:
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"no_programs": True}))
    result = site.run("-k", "pvp_dpdk")
    result.assert_outcomes(skipped=2)
    assert result.ret == 5  # nothing was measured: not green
    texts.check(lines_with(result.stdout.str(), "nothing was measured"))
    text = result.stdout.str()
    assert "ovs-vswitchd-dpdk is not installed" in text
    assert "make deps" in text
    assert site.calls("deploy", "calibrate") == {}


def test_latest_stays_where_a_run_skipped_everything(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.run("-k", "pvp_dpdk", "--frame-sizes", "64").assert_outcomes(passed=1)
    (measured,) = site.folders
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"no_programs": True}))
    site.run("-k", "pvp_dpdk", "--frame-sizes", "64").assert_outcomes(skipped=1)
    assert len(site.folders) == 2
    assert (site.path / "results" / "latest").resolve() == measured
    monkeypatch.delenv("FAKE_AGENT")
    site.run("-k", "pvp_dpdk", "--frame-sizes", "64").assert_outcomes(passed=1)
    assert (site.path / "results" / "latest").resolve() == site.folders[-1]


@pytest.mark.slow
@pytest.mark.parametrize("quiet", [(), ("-q",), ("-qq",), ("-v",)], ids=str)
def test_a_line_of_progress_stands_behind_no_dot(site: Site, quiet: tuple[str, ...]) -> None:
    site.pytester.makepyfile(test_before="def test_passes(): pass\n")
    result = site.run("test_before.py", "test_rfc2544.py", "-k", "passes or pvp_dpdk", *quiet)
    lines = [line for line in result.outlines if "vnetperf: deploying" in line]
    assert lines
    assert all(line.startswith("vnetperf: ") for line in lines)


@pytest.mark.slow
def test_a_dut_that_fails_is_a_failure_with_its_message_only(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"fail_deploy": "port phy0: no such device"}))
    result = site.run("-k", "pvp_dpdk", "-rN")
    result.assert_outcomes(failed=2)
    assert result.ret == 1
    text = result.stdout.str()
    message = "pvp_dpdk: port phy0: no such device"
    assert f"DutError: {message}" in text
    for noise in ("Traceback", "conductor.py", "raise ", "def test_"):
        assert noise not in text
    assert site.calls("deploy") == {"deploy pvp_dpdk": 1}
    assert [r["status"] for r in site.results()["results"]] == ["not measured"] * 2
    long = site.run("-k", "pvp_dpdk", "--tb=long").stdout.str()
    assert "conductor.py" in long


def test_a_failure_has_its_message_first_and_last_and_no_log_between(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"fail_deploy": "port phy0: no such device"}))
    result = site.run("-k", "pvp_dpdk", "--frame-sizes", "64", "-o", "log_level=INFO")
    lines = result.stdout.lines
    message = "DutError: pvp_dpdk: port phy0: no such device"
    after = lines[next(n for n, line in enumerate(lines) if "= FAILURES =" in line) :]
    assert after[2].startswith(message)  # below the name of the case
    (summary,) = (line for line in lines if line.startswith("FAILED "))
    assert "DutError" in summary
    text = result.stdout.str()
    assert "Captured log" not in text
    # It has what was done.
    assert f"results/{site.folders[0].name}/run.log" in text
    shown = site.run("-k", "pvp_dpdk", "--frame-sizes", "64", "--tb=long", "-o", "log_level=INFO")
    assert "Captured log" in shown.stdout.str()


def test_a_dut_that_carries_nothing_fails_the_case(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"duts": [10, 10]}))
    result = site.run("-k", "pvp_dpdk", "--frame-sizes", "64")
    result.assert_outcomes(failed=1)
    assert "no load met a loss ratio of 0" in result.stdout.str()


def test_a_message_and_its_line_for_the_summary_are_handed_on_by_a_worker(
    request: pytest.FixtureRequest,
) -> None:
    """Of mere text pytest 9 shows all lines in the summary, under CI, and older ones none."""
    message = _Message("DutError: no such device\n  cure: plug it in", "test_rfc2544.py", 3)
    sent = pytest.TestReport(
        "test_rfc2544.py::test", ("test_rfc2544.py", 3, "test"), {}, "failed", message, "call"
    )
    config = request.config
    data = config.hook.pytest_report_to_serializable(config=config, report=sent)
    got = config.hook.pytest_report_from_serializable(
        config=config, data=json.loads(json.dumps(data))
    )
    assert got.longrepr.reprcrash.message == "DutError: no such device"
    assert got.longreprtext.splitlines() == ["DutError: no such device", "  cure: plug it in"]
    assert sent.longreprtext.splitlines() == got.longreprtext.splitlines()


@pytest.mark.slow
def test_the_summary_has_the_message_of_a_case_that_failed_in_a_worker(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"fail_deploy": "port phy0: no such device"}))
    result = site.run("-n", "2", "-k", "pvp_dpdk", "--frame-sizes", "64")
    lines = result.stdout.lines
    message = "DutError: pvp_dpdk: port phy0: no such device"
    assert any(line.startswith(message) for line in lines)  # below the name of the case
    (summary,) = (line for line in lines if line.startswith("FAILED "))
    assert " - DutError: pvp_dpdk" in summary
    assert "Traceback" not in result.stdout.str()


@pytest.mark.slow
def test_an_agent_that_cannot_be_started_is_told_in_each_case(site: Site) -> None:
    site.pytester.makeconftest(
        CONFTEST
        + """
from vnetperf.model.errors import HostError

def cannot(self):
    raise HostError("the agent cannot be started", cure="try sudo")

agent.EnvironmentAgent.inventory = cannot
"""
    )
    result = site.run_apart("-k", "pvp_dpdk")
    result.assert_outcomes(errors=2)
    text = result.stdout.str()
    assert "HostError: the agent cannot be" in text
    assert "Traceback" not in text
    assert "INTERNALERROR" not in text


def test_the_exit_status_is_pytests_own(site: Site) -> None:
    assert site.run("-k", "pvp_dpdk").ret == 0
    assert site.run("-k", "no_such_scenario").ret == 5
    site.pytester.makepyfile(test_more="def test_wrong(bench): assert False")
    assert site.run("-k", "pvp_dpdk").ret == 1
    log = (site.path / "results" / "latest" / "trials.jsonl").read_text().splitlines()
    assert json.loads(log[-1])["exit_status"] == 1


def test_a_vswitch_of_a_conftest_is_planned_measured_and_reported(site: Site) -> None:
    site.pytester.makeconftest(REGISTER)
    site.run("-k", "pvp_fake").assert_outcomes(passed=2)
    assert site.calls("deploy") == {"deploy pvp_fake": 1}
    assert {r["scenario"] for r in site.results()["results"]} == {"pvp_fake"}
    assert "pvp\\_fake" in (site.path / "results" / "latest" / "report.md").read_text()


def test_a_vswitch_that_cannot_be_imported_fails_its_own_cases_alone(site: Site) -> None:
    (site.path / "broken_switch.py").write_text("import nonesuch\n")
    broken = 'register("vswitches", "broken", "broken_switch:Broken")'
    site.pytester.makeconftest(f"{REGISTER}    {broken}\n")
    site.pytester.syspathinsert()
    selected = ("-k", "phy2phy_broken or phy2phy_bridge or phy2phy_fake", "--frame-sizes", "64")
    planned = site.run(*selected, "--plan")
    assert planned.ret == 0
    assert "vswitches: backend 'broken' cannot" in planned.stdout.str()
    assert "plan of phy2phy_fake" in planned.stdout.str()
    result = site.run(*selected)
    result.assert_outcomes(passed=2, errors=1)
    assert result.ret == 1
    assert "'broken' cannot be loaded: Module" in result.stdout.str()
    assert {r["scenario"] for r in site.results()["results"]} == {"phy2phy_bridge", "phy2phy_fake"}


def test_plan_prints_and_runs_nothing(site: Site) -> None:
    result = site.run("--plan", "-k", "pvp_dpdk or pvpv_dpdk")
    assert result.ret == 0
    text = result.stdout.str()
    for word in (
        *("plan of pvp_dpdk", "plan of pvpv_dpdk", "phy0->vnf0.0", "memif", "tester on 1"),
        *("hugepages of 2048 KiB", "ovs-vswitchd", "goal ndr", "frame sizes 64, 1518"),
    ):
        assert word in text, word
    assert text.count("plan of pvp_dpdk") == 1
    assert site.calls() == {"start": 1, "inventory": 1, "close": 1}
    assert not (site.path / "results").exists()


def test_plan_says_what_would_be_skipped(
    site: Site, monkeypatch: pytest.MonkeyPatch, texts: Texts
) -> None:
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"no_programs": True}))
    result = site.run("--plan", "-k", "pvp_dpdk")
    assert result.ret == 0
    texts.check(lines_with(result.stdout.str(), "would be skipped"))


def test_an_interrupted_run_is_resumed_with_the_case_it_was_in(site: Site) -> None:
    site.run("-k", "pvp_dpdk").assert_outcomes(passed=2)
    whole = site.results()["results"]
    log = site.folders[0] / "trials.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    kept = len(lines) * 2 // 3  # in the second case
    log.write_bytes(b"".join(lines[:kept]) + lines[kept][:30])
    site.calls_file.unlink()
    result = site.run("-k", "pvp_dpdk", "--resume", "results/latest")
    result.assert_outcomes(passed=2)
    assert len(site.folders) == 1
    again = site.results()["results"]
    for then, now in zip(whole, again, strict=True):
        assert without_numbers(then["goals"]) == without_numbers(now["goals"])
    ended = max(n for n in range(kept) if b'"type":"search-end"' in lines[n])
    anew = sum(b'"type":"trial"' in line for line in lines[ended:])
    assert site.calls("trial").total() == anew


def test_a_run_with_other_options_is_not_resumed(site: Site) -> None:
    site.run("-k", "pvp_dpdk")
    result = site.run("-k", "pvp_dpdk", "--resume", "results/latest", "--traffic", "multi-flow")
    text = result.stderr.str() + result.stdout.str()
    assert result.ret == 4, text
    assert text.count("must not be mixed with new ones") == 1
    assert "Traceback" not in text


def test_a_run_is_not_resumed_on_a_machine_that_has_changed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.run("-k", "pvp_dpdk")
    before = site.calls("trial")
    (folder,) = site.folders
    held = {file: file.read_bytes() for file in folder.glob("*.j*")}
    (folder / "report.md").write_text("as it was")
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"kernel": "6.6.7"}))
    result = site.run("-k", "pvp_dpdk", "--resume", "results/latest", "--frame-sizes", "64,512")
    text = result.stderr.str() + result.stdout.str()
    assert result.ret == 4, text
    assert text.count("kernel was '6.6.6', is '6.6.7'") == 1
    assert "Traceback" not in text
    assert site.calls("trial") == before
    assert {file: file.read_bytes() for file in folder.glob("*.j*")} == held
    assert (folder / "report.md").read_text() == "as it was"


WORKERS = ("-n", "2", "-k", "phy2phy_dpdk or pvp_dpdk or pvvp_dpdk")


@pytest.mark.slow
def test_workers_of_xdist_share_one_run(site: Site) -> None:
    result = site.run(*WORKERS)
    result.assert_outcomes(passed=6)
    assert site.calls("deploy") == {
        "deploy phy2phy_dpdk": 1,
        "deploy pvp_dpdk": 1,
        "deploy pvvp_dpdk": 1,
    }
    (folder,) = site.folders
    assert {p.name for p in folder.iterdir()} == {
        *REPORTS,
        *("run-gw0.log", "run-gw1.log", "trials.jsonl"),
    }
    assert (site.path / "results" / "latest").resolve() == folder
    content = site.results()
    assert len(content["results"]) == 6
    numbers = [t["number"] for t in content["trials"]]
    assert numbers == list(range(1, len(numbers) + 1))
    assert not any("interrupted" in w for w in content["warnings"])
    assert "vnetperf results" in result.stdout.str()
    before = site.calls("trial")  # resumed without the workers' options, and without workers
    site.run("-p", "no:xdist", "--resume", "results/latest").assert_outcomes(passed=6)
    assert site.calls("trial") == before
    assert len(site.folders) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "workers",
    [(), pytest.param(("-n", "2"), marks=pytest.mark.daily)],  # they count as one process does
)
def test_tests_of_the_project_itself_are_no_cases(site: Site, workers: tuple[str, ...]) -> None:
    site.pytester.makepyfile(
        test_own="""
import pytest

@pytest.mark.parametrize("scenario", ["pvp_dpdk", "pvp_vpp"])
def test_x(scenario): pass

@pytest.mark.parametrize("scenario", ["pvp_dpdk"])
def test_skipped(scenario): pytest.skip("not today")
"""
    )
    result = site.run(*workers, "-k", "pvp_dpdk", "--frame-sizes", "64")
    result.assert_outcomes(passed=2, skipped=1)
    counted = [line.partition("vnetperf: ")[2] for line in result.outlines]
    cases = [text.partition(" passed")[0] for text in counted if "so far" in text]
    assert cases == ["1/1 test_throughput[pvp_dpdk-64]"]


@pytest.mark.daily  # --lf is pytest's; how cases are counted has tests without workers
@pytest.mark.slow
def test_cases_that_last_failed_leave_out_are_not_counted(site: Site) -> None:
    broken = "def test_own(): assert False"
    site.pytester.makepyfile(test_own=broken)
    arguments = ("--lf", "-n", "1", "-k", "pvp_dpdk or own", "--frame-sizes", "64")
    first = site.pytester.runpytest_subprocess(*arguments)
    first.assert_outcomes(passed=1, failed=1)
    (folder,) = site.folders
    again = site.pytester.runpytest_subprocess(*arguments)
    again.assert_outcomes(failed=1)
    assert site.folders == [folder]


@pytest.mark.slow
def test_a_misspelt_name_is_reported_with_and_without_workers(site: Site) -> None:
    for workers in (("-n", "2"), ()):
        result = site.run(*workers, "-k", "pvp_dpkd")
        assert result.ret == 5
        assert result.stdout.str().count("did you mean 'pvp_dpdk'") == 1


@pytest.mark.slow
def test_reports_that_cannot_be_written_are_a_message_and_the_trials_are_kept(
    site: Site, texts: Texts
) -> None:
    site.pytester.makeconftest(
        CONFTEST
        + """
from vnetperf import report

def full(results, folder):
    raise OSError(28, "No space left on device", str(folder))

report.write_all = full
"""
    )
    result = site.run_apart("-k", "pvp_dpdk", "--frame-sizes", "64")
    text = result.stdout.str() + result.stderr.str()
    assert result.ret == 1
    texts.check(lines_with(text.replace(site.folders[0].name, "RUN"), "No space left on device"))
    assert "vnetperf report" in text
    assert "INTERNALERROR" not in text
    assert (site.folders[0] / "trials.jsonl").stat().st_size


def test_a_wait_is_told_once_for_each_holder() -> None:
    lines: list[str] = []

    class Terminal:
        write_line = staticmethod(lines.append)

    progress = LiveProgress(Terminal(), follows=False)
    for holder in ("a", "a", "b", "b", "a"):
        progress.say(f"waiting for the testbed: {holder} holds it")
    assert [line.split()[5] for line in lines] == ["a", "b", "a"]


@pytest.mark.slow
def test_one_measured_case_beside_skipped_ones_is_green(site: Site) -> None:
    site.pytester.makeconftest(
        REGISTER
        + """
import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        if "pvvp_dpdk" in item.name:
            item.add_marker(pytest.mark.skip(reason="not today"))
"""
    )
    assert site.run("-k", "pvp_dpdk or pvvp_dpdk", "--frame-sizes", "64").ret == 0
    assert site.run("-k", "pvvp_dpdk").ret == 5


@pytest.mark.slow
def test_workers_that_measure_nothing_are_not_green(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"no_programs": True}))
    result = site.run("-n", "1", "-k", "pvp_dpdk")
    result.assert_outcomes(skipped=2)
    assert result.ret == 5
    assert "nothing was measured" in result.stdout.str()


@pytest.mark.slow
def test_a_testbed_file_with_an_unknown_wire_is_one_message_and_no_skip(
    site: Site, texts: Texts
) -> None:
    (site.path / "odd.toml").write_text('name = "odd"\nisolation = "x"\nwires = ["memiff"]\n')
    for more in ((), ("--plan",)):
        result = site.run("-k", "pvp_dpdk or pvvp_dpdk", "--testbed", "odd.toml", *more)
        text = result.stderr.str() + result.stdout.str()
        assert result.ret == 4, text
        (line,) = lines_with(text, "'memiff'")
        texts.check(line.partition("wires: ")[2].rstrip(" !"))
        assert "Traceback" not in text
        assert "INTERNALERROR" not in text


@pytest.mark.slow
def test_this_tool_does_not_concern_workers_of_other_projects(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VNETPERF_FOO", "1")
    result = site.run("-n", "2", "-k", "pvp_dpdk")
    assert result.ret == 4
    assert (result.stderr.str() + result.stdout.str()).count("VNETPERF_FOO") == 1
    (site.path / "test_rfc2544.py").unlink()
    site.pytester.makepyfile(test_plain="def test_plain(): pass\ndef test_other(): pass")
    result = site.run("-n", "1", "-v")
    result.assert_outcomes(passed=2)
    assert "FOO" not in result.stdout.str() + result.stderr.str()
    assert not (site.path / "results").exists()


@pytest.mark.slow
def test_a_wrong_option_with_workers_is_one_usage_error(site: Site) -> None:
    site.run("-k", "pvp_dpdk")
    shutil.copytree(site.folders[0], site.path / "damaged")
    (site.path / "damaged" / "trials-gw0.jsonl").write_text("{}\n{}\n")
    for options, message in (
        (("--preset", "rfc2455"), "did you mean 'rfc2544'?"),
        # With words: pytest that another program runs leaves no command to take them from.
        (("--resume", "results/latest", "-k", "pvp_dpdk"), "leave -n out"),
        (("--resume", "damaged", "-k", "pvp_dpdk"), "damaged/trials-gw0.jsonl:1"),
    ):
        result = site.run("-n", "2", *options)
        text = result.stderr.str() + result.stdout.str()
        assert result.ret == 4, text
        assert text.count(message) == 1
        assert "INTERNALERROR" not in text
    assert len(site.folders) == 1
