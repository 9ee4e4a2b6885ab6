"""The console script, in this process: what it prints, where, and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.agent import FakeAgent
from tests.fakes.machine import facts
from tests.runner.support import Bench
from vnetperf import config
from vnetperf.cli import COMMANDS, lab, main
from vnetperf.config.settings import add_options
from vnetperf.host import session
from vnetperf.planning.planner import make_loop_plan, make_plan
from vnetperf.report import REPORTS, write_all
from vnetperf.runner.calibration_cache import CalibrationCache
from vnetperf.runner.scenarios import make_scenario


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory and an environment without anything of ours."""
    monkeypatch.chdir(tmp_path)
    for name in ("TESTBED", "PRESET", "TRAFFIC", "VNFS", "NOTES", "RESULTS_DIR"):
        monkeypatch.delenv(f"VNETPERF_{name}", raising=False)
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, dict[str, object]]:
    assert main(["show-config", "--json", *args]) == 0
    content: dict[str, dict[str, object]] = json.loads(capsys.readouterr().out)
    return content


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("doctr", "doctor"),
        ("show-config --presett smoke", "--preset"),
        ("list presetz", "presets"),
        ("image build vlop", "vloop"),
        ("report monday-2", "monday-1"),
        ("compare monday-1:pvp_dpkd monday-1", "pvp_dpdk"),
    ],
)
def test_names_that_nobody_has_are_answered_with_the_nearest(
    line: str, meant: str, elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = elsewhere / "results/monday-1"
    folder.mkdir(parents=True)
    bench = Bench(folder)
    bench.throughput()
    bench.run.close()
    try:
        status = main(line.split())
    except SystemExit as end:
        status = int(end.code or 0)
    assert status != 0
    assert f"did you mean {meant!r}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "meant"), [("report --gaols ndr", "--goals"), ("trend --gaols ndr", "")]
)
def test_an_option_is_looked_for_among_those_of_its_command(
    line: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(line.split())
    said = capsys.readouterr().err
    command = line.split(maxsplit=1)[0]
    assert f"vnetperf {command}: error: " in said
    assert "--gaols" in said
    assert said.partition("did you mean ")[2].rstrip("?\n") == (repr(meant) if meant else "")


def test_show_config_tells_values_and_sources(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (elsewhere / "vnetperf.toml").write_text('notes = "from the file"\n')
    monkeypatch.setenv("VNETPERF_VNFS", "4")
    found = shown(capsys, "--preset", "smoke", "--frame-sizes", "64,128")
    assert found["notes"] == {
        "value": "from the file",
        "source": str(elsewhere / "vnetperf.toml"),
    }
    assert found["vnfs"] == {"value": 4, "source": "environment VNETPERF_VNFS"}
    assert found["preset"] == {"value": "smoke", "source": "command line"}
    assert found["wire"] == {"value": "auto", "source": "default"}
    assert found["preset:frame_sizes"] == {"value": [64, 128], "source": "command line"}
    assert found["preset:benchmark"]["value"] is False
    assert str(found["preset:benchmark"]["source"]).endswith("conf/presets/smoke.toml")
    assert found["testbed:cores.policy"]["value"] == "auto"
    assert found["preset:trial.repeats_when_limited"]["source"] == "default"
    found = shown(capsys, "--traffic", "imix")
    assert found["preset:frame_sizes"] == {"value": [362], "source": "command line"}


def test_show_config_knows_every_option_of_pytest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options: list[str] = []
    add_options(lambda *names, **_: options.append(names[0].removeprefix("--")))
    found = shown(capsys, "--repeat", "3", "--pcap", "5", "--plan")
    settings = {key for key in found if ":" not in key}
    assert {name.replace("-", "_") for name in options} == settings
    assert found["repeat"] == {"value": 3, "source": "command line"}
    assert found["plan"] == {"value": True, "source": "command line"}
    assert found["resume"] == {"value": "", "source": "default"}


def test_show_config_has_single_options_and_what_backends_add(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (elsewhere / "bed.toml").write_text('[trex]\nserver = "10.0.0.7"\n')
    typed = ("--guest", "packed", "--guest", "memory_mib=1024", "--core", "ramp=50")
    own = ("--set", "udp_timeout=120", "--testbed", "bed.toml")
    found = shown(capsys, *typed, "--nat", "subscribers=16,ports=8", *own)
    assert found["guest:packed"]["value"] is True
    assert str(found["guest:packed"]["source"]).endswith("conf/guest/packed.toml")
    assert found["guest:memory_mib"] == {"value": 1024, "source": "command line guest"}
    assert found["guest:accel"] == {"value": "auto", "source": "default"}
    assert found["core:ramp"] == {"value": 50.0, "source": "command line core"}
    assert found["nat:ports"] == {"value": 8, "source": "command line nat"}
    assert found["nat:inside"] == {"value": "100.64.0.0/10", "source": "default"}
    assert found["lb:services"] == {"value": 100, "source": "default"}
    assert found["switch:udp_timeout"] == {"value": 120, "source": "command line set"}
    assert found["testbed:trex.server"] == {"value": "10.0.0.7", "source": "bed.toml"}


def test_list_prints_the_names_that_options_accept(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    text = capsys.readouterr().out
    for name in ("pvp_dpdk", "back_to_back", "rfc2544", "multi-flow", "loadgen", "jumbo"):
        assert name in text
    assert max(map(len, text.splitlines())) <= 80
    (quick,) = (line for line in text.splitlines() if line.startswith("  quick "))
    assert "1 s trials, an estimate" in quick  # what it is, beside its name
    assert main(["list", "scenarios"]) == 0
    assert "pvpv_vpp" in capsys.readouterr().out.splitlines()


def test_show_config_has_the_options_of_a_run_that_goes_on(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = elsewhere / "run"
    folder.mkdir()
    bench = Bench(folder, settings=config.load({"preset": "smoke"}, environment={}))
    bench.run.close()
    typed = ("--resume", str(folder), "--tests", "latency", "--flows", "1000")
    found = shown(capsys, *typed, "--traffic", "million-flows")
    assert found["preset"] == {"value": "smoke", "source": f"run of {folder}"}
    for key in ("preset:tests", "traffic:flows"):
        assert found[key]["source"] == "command line"


def test_show_config_as_text_has_the_same_content(capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(capsys)
    assert main(["show-config"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(found)
    for line, (key, entry) in zip(lines, found.items(), strict=True):
        name, _, rest = line.partition(" = ")
        assert name.strip() == key
        assert rest == f"{json.dumps(entry['value'])}   # {entry['source']}"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["show-config", "--preset", "rfc2455"], "did you mean 'rfc2544'?"),
        (["show-config", "--frame-sizes", "x"], "command line: frame_sizes"),
        (["show-config", "--vnfs", "0"], "command line: vnfs"),
        (["show-config", "--forwarding", "l22"], "did you mean 'l2'?"),
        (["show-config", "--repeat", "0"], "a case is deployed once or more"),
        (["doctor", "--generator", "trx"], "did you mean 'trex'?"),
        (["list", "preset"], "did you mean 'presets'?"),
        (["report", "nowhere"], "trials.jsonl"),
    ],
)
def test_an_error_is_one_message_on_stderr(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("vnetperf: ")
    assert words in told.err
    assert "Traceback" not in told.err


def test_restore_without_root_says_how(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("vnetperf.host.linux.is_root", lambda: False)
    assert main(["restore"]) == 1
    assert "with sudo" in capsys.readouterr().err


def test_restore_beside_who_restores_is_not_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = session.LiveRun("r1", "bed", "u", "now", 7, "guardian")
    found = session.RestoreReport(live=(run,))
    monkeypatch.setattr("vnetperf.host.linux.is_root", lambda: True)
    monkeypatch.setattr("vnetperf.cli.restore.UNDO_S", 0.2)
    monkeypatch.setattr(session, "restore", lambda *_, on_run: found)
    assert main(["restore"]) == 1
    told = capsys.readouterr().out
    assert "is being restored by its guardian" in told
    assert "nothing to restore" not in told


def test_restore_waits_for_who_restores(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A guardian that had just been started when its agent was killed undoes the run."""
    run = session.LiveRun("r1", "bed", "u", "now", 0, "restore")
    passes = iter([session.RestoreReport(live=(run,)), session.RestoreReport()])
    monkeypatch.setattr("vnetperf.host.linux.is_root", lambda: True)
    monkeypatch.setattr(session, "restore", lambda *_, on_run: next(passes))
    assert main(["restore"]) == 0
    assert "left alone" not in capsys.readouterr().out


def test_report_rebuilds_the_same_results_from_the_log_alone(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Bench(elsewhere)
    bench.throughput()
    bench.run.close()
    write_all(bench.derived(), elsewhere / "first")
    assert main(["report", str(elsewhere), "--output", str(elsewhere / "again")]) == 0
    assert "pvp_dpdk" in capsys.readouterr().out
    assert (elsewhere / "again").stat().st_mode & 0o777 == 0o700
    for name in REPORTS:
        first, again = (elsewhere / d / name for d in ("first", "again"))
        assert again.read_bytes() == first.read_bytes(), name
    # The log itself can be named too.
    assert main(["report", str(bench.path), "--output", str(elsewhere / "third")]) == 0
    assert (elsewhere / "third" / "results.json").is_file()


def test_report_of_a_damaged_log_names_the_line(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (elsewhere / "trials.jsonl").write_text("garbage\n{}\n")
    assert main(["report", str(elsewhere)]) == 1
    assert "trials.jsonl:1" in capsys.readouterr().err


def test_wrong_use_is_status_2_and_help_names_every_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for argv in (["nonesuch"], ["report", "--nonesuch"]):
        with pytest.raises(SystemExit) as caught:
            main(argv)
        assert caught.value.code == 2
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert all(command in text for command in COMMANDS)
    assert main([]) == 0  # who does not know what to type is told
    assert capsys.readouterr().out == text


@pytest.mark.slow
def test_help_imports_no_command() -> None:
    """Whoever asks for a line of help does not wait for what it is about."""
    script = "import sys; from vnetperf.cli import main; main([]); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = done.stdout.splitlines()[-1].split()
    assert not {"pydantic", "rich", "vnetperf.cli.doctor", "vnetperf.config"} & {*loaded}


def test_a_folder_that_cannot_be_written_is_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Bench(tmp_path).throughput()
    (tmp_path / "file").write_text("")
    assert main(["report", str(tmp_path), "--output", str(tmp_path / "file" / "reports")]) == 1
    told = capsys.readouterr().err
    assert told.startswith("vnetperf: ")
    assert "Not a directory" in told
    assert "cure:" in told


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("report", "pvp_dpdk"),
        ("why latest pvp_dpdk throughput 64", "pvp_dpdk"),
        ("expect limits.toml", "FAILED"),
        ("compare latest:pvp_dpdk latest:pvp_dpdk", "both sides are the same"),
        ("trend --runs 1", "pvp_dpdk, throughput"),
        ("publish --openmetrics -", "vnetperf_throughput_fps"),
        ("publish latest --openmetrics -", "vnetperf_throughput_fps"),
    ],
)
def test_runs_are_looked_for_where_they_are_written_to(
    line: str,
    answer: str,
    elsewhere: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And in no other folder, where an older run may be."""
    folder = elsewhere / "runs2" / "latest"
    folder.mkdir(parents=True)
    bench = Bench(folder)
    bench.throughput()
    bench.run.close()
    limits = '[[expect]]\nscenario = "pvp_dpdk"\nat_least = 9e9\n'
    (elsewhere / "limits.toml").write_text(limits)
    main(line.split())
    assert answer not in "".join(capsys.readouterr())
    monkeypatch.setenv("VNETPERF_RESULTS_DIR", "runs2")
    main(line.split())
    assert answer in "".join(capsys.readouterr())
    monkeypatch.delenv("VNETPERF_RESULTS_DIR")
    # The testbed of another machine, whose file is not here, matters to none of them.
    (elsewhere / "vnetperf.toml").write_text('results_dir = "runs2"\ntestbed = "nonesuch"\n')
    main(line.split())
    assert answer in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "line",
    [
        "report {}",
        "report {} --up-to-damage",
        "why {} pvp_dpdk throughput 64",
        "compare {} {}:pvp_dpdk",
        "publish {} --openmetrics -",
        "expect limits.toml {}",
    ],
)
def test_a_broken_configuration_is_a_warning_to_who_does_not_need_it(
    line: str, elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Bench(elsewhere)
    bench.throughput()
    bench.run.close()
    limits = '[[expect]]\nscenario = "pvp_dpdk"\nat_least = 1\n'
    (elsewhere / "limits.toml").write_text(limits)
    (elsewhere / "vnetperf.toml").write_text("results_dir = \n")
    assert main([word.format(elsewhere) for word in line.split()]) == 0
    (warning,) = capsys.readouterr().err.splitlines()
    assert "vnetperf.toml: is not valid TOML" in warning
    assert "warning" in warning
    # Runs are looked for by name where it has them written.
    assert main([word.format("some") for word in line.split()]) == 1
    told = capsys.readouterr().err
    assert "vnetperf.toml: is not valid TOML" in told
    assert "warning" not in told


@pytest.mark.parametrize(
    ("argv", "variables", "shared"),
    [
        ("pytest --results-dir ../runs -k x", {}, "runs"),
        ("pytest --results-dir=../runs/new", {}, "runs/new"),
        ("pytest", {"VNETPERF_RESULTS_DIR": "../runs"}, "runs"),
        ("pytest --resume ../old/latest", {"VNETPERF_RESULTS_DIR": "../runs"}, "old"),
        ("pytest --resume ../nowhere", {}, ""),
        ("pytest --results-dir here", {}, ""),
        ("sh", {}, ""),
    ],
)
def test_the_lab_shares_the_folder_of_the_command_s_results(
    argv: str,
    variables: dict[str, str],
    shared: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also one that is not there yet; what is written elsewhere is gone at the end."""
    for name in ("work", "old/run"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "old/latest").symlink_to("run")
    monkeypatch.chdir(tmp_path / "work")
    found = lab.shares(argv.split(), variables, [])
    assert found == (tmp_path / "work", *([tmp_path / shared] if shared else []))
    assert all(folder.is_dir() for folder in found)
    assert not [*(tmp_path / "work").iterdir()]


def test_the_lab_shares_configured_results_whatever_else_is_configured(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = elsewhere / "runs"
    (elsewhere / "work").mkdir()
    monkeypatch.chdir(elsewhere / "work")
    (elsewhere / "work/vnetperf.toml").write_text(f'testbed = "a,b"\nresults_dir = "{runs}"\n')
    assert lab.shares(["pytest", "-n", "2"], {}, []) == (elsewhere / "work", runs)


def test_over_several_hosts_the_wire_of_their_runs_is_calibrated(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(elsewhere / "cache"))
    one = facts()
    found = one.model_copy(update={"hosts": {"east": one, "west": one}})
    monkeypatch.setattr("vnetperf.agent.hosts.TestbedClient", lambda *_: FakeAgent(facts=found))
    asked = ("--testbed", "two-hosts", "--frame-sizes", "64", "--json")
    assert main(["calibrate", *asked, "--wire", "memif"]) == 0
    assert json.loads(capsys.readouterr().out)["wire"] == "memif"  # what is typed is meant
    assert main(["calibrate", *asked]) == 0
    assert json.loads(capsys.readouterr().out)["wire"] == "veth"
    loaded = config.load({"testbed": "two-hosts"})
    scenario = make_scenario("phy2phy_bridge", loaded)
    wire = make_plan(scenario, loaded.testbed, found).wire
    loop = make_loop_plan(scenario.model_copy(update={"wire": wire}), loaded.testbed, found)
    store = CalibrationCache()
    assert store.load(store.key(loop, found)) is not None
