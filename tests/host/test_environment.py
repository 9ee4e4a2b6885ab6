"""Programs of a run get the variables that are listed or named, and what was there is stated."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vnetperf.analysis.environment import comparability, tree_differences
from vnetperf.config.settings import read_testbed
from vnetperf.host.environment import Variables
from vnetperf.host.journal import Journal
from vnetperf.host.paths import cache_directory
from vnetperf.host.processes import Processes
from vnetperf.model.errors import ConfigError
from vnetperf.model.result import RunResults

#: What a user's shell sets, with who reads it.
INFLUENTIAL = {
    "LD_PRELOAD": "",
    "LD_LIBRARY_PATH": "/opt/lib",
    "GLIBC_TUNABLES": "glibc.malloc.check=3",
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "2",
    "OMPI_MCA_btl": "tcp,self",
    "UCX_TLS": "tcp",
    "FI_PROVIDER": "tcp",
    "PYTHONPATH": "/tmp",
    "BASH_ENV": "/home/u/.bashenv",
    "ENV": "/home/u/.shrc",
    "OVS_RUNDIR": "/tmp/ovs",
    "LIBVIRT_DEFAULT_URI": "qemu:///session",
    "KUBECONFIG": "/home/u/.kube/config",
    "IPERF3_PASSWORD": "secret",
}


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Variables:
    there = {"PATH": "/usr/bin", "HOME": "/home/u", "LC_TIME": "C", "https_proxy": "http://u:p@x"}
    monkeypatch.setattr(os, "environ", {**there, **INFLUENTIAL})
    return Variables()


def test_programs_get_what_is_listed(variables: Variables) -> None:
    variables.keep()
    assert not os.environ.keys() & INFLUENTIAL.keys()
    assert {"PATH", "HOME", "LC_TIME", "https_proxy"} <= os.environ.keys()


def test_programs_get_what_the_testbed_names_and_not_what_another_named(
    variables: Variables,
) -> None:
    variables.keep()
    variables.let_through({"OMP_NUM_THREADS": None, "NOT_THERE": None})
    assert os.environ["OMP_NUM_THREADS"] == "2"
    assert "NOT_THERE" not in os.environ
    variables.let_through({"UCX_TLS": None})
    assert "OMP_NUM_THREADS" not in os.environ
    assert os.environ["UCX_TLS"] == "tcp"


def test_named_variables_have_the_controllers_values(variables: Variables) -> None:
    variables.keep()
    named = {"OMP_NUM_THREADS": "8", "UCX_TLS": None, "NOT_HERE": "x", "LC_TIME": "de_DE"}
    variables.let_through(named)
    seen = {name: os.environ[name] for name in named}
    assert seen == {**named, "UCX_TLS": "tcp"}  # which the controller has not, but the agent
    assert variables.facts()["let through by the testbed"] == seen
    variables.let_through({})  # another testbed: all is as it was
    assert not os.environ.keys() & {"OMP_NUM_THREADS", "UCX_TLS", "NOT_HERE"}
    assert os.environ["LC_TIME"] == "C"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
@pytest.mark.parametrize("name", ["LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT"])
def test_programs_of_root_take_no_code_of_others(
    tmp_path: Path, variables: Variables, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    theirs, ours = tmp_path / "theirs.so", tmp_path / "ours.so"
    for path in (theirs, ours):
        path.mkdir()
    os.chown(theirs, 65534, -1)
    variables.keep()
    variables.let_through({name: f"{theirs}:{ours}:relative/x"})
    assert os.environ[name] == str(ours)
    assert variables.facts()["let through by the testbed"] == {name: str(ours)}
    assert str(theirs) in caplog.text
    variables.let_through({name: "libjemalloc.so.2"})  # a library of the system's, by its name
    assert os.environ[name] == ("" if name == "LD_LIBRARY_PATH" else "libjemalloc.so.2")


def test_a_secret_is_let_through_and_not_recorded(variables: Variables) -> None:
    variables.keep()
    names = "IPERF3_PASSWORD HF_TOKEN API_KEY APIKEY DB_PASS X_SECRET NPM_AUTH GITHUB_PAT JWT"
    secrets = dict.fromkeys([*names.split(), "PRIVATE_KEY_PEM", "PASSWORDS"], "s3")
    plain = {"OMP_NUM_THREADS": "s3", "KEYBOARD": "s3", "PASSES": "s3", "KUBECONFIG": "s3"}
    variables.let_through({**secrets, **plain})
    assert {os.environ[name] for name in (*secrets, *plain)} == {"s3"}
    told = variables.facts()["let through by the testbed"]
    assert [name for name, value in told.items() if value == "s3"] == sorted(plain)
    assert "not set" not in told.values()


def test_a_login_of_a_server_is_not_recorded(variables: Variables) -> None:
    variables.keep()
    values = {"HTTPS_PROXY": "http://u:s3@proxy:3128", "DATABASE_URL": "postgres://u@db/d"}
    variables.let_through(values)
    assert {os.environ[name] for name in values} == {*values.values()}
    told = variables.facts()["let through by the testbed"]
    assert told == {
        "DATABASE_URL": "postgres://(login)@db/d",
        "HTTPS_PROXY": "http://(login)@proxy:3128",
    }


def test_who_the_agent_is_no_controller_says(variables: Variables) -> None:
    variables.keep()
    own = dict(os.environ)
    variables.let_through({"SUDO_UID": "7", "HOME": "/x", "PATH": "/x", "VNETPERF_RUN_ID": "x"})
    assert dict(os.environ) == own


def test_programs_print_in_one_language_whatever_the_users_is(
    variables: Variables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a program prints 1,5 for 1.5 and "Datei fehlt", nobody reads it."""
    users = {"LANG": "de_DE.UTF-8", "LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de:en"}
    monkeypatch.setattr(os, "environ", {**os.environ, **users})
    variables.keep()
    assert os.environ["LC_ALL"] == "C.UTF-8"
    assert "LANGUAGE" not in os.environ
    assert variables.facts()["let through"]["LC_ALL"] == "C.UTF-8"
    variables.let_through({"LC_ALL": None, "LANGUAGE": None})
    assert (os.environ["LC_ALL"], os.environ["LANGUAGE"]) == ("de_DE.UTF-8", "de:en")
    variables.let_through({})
    assert os.environ["LC_ALL"] == "C.UTF-8"


def test_a_path_that_was_cleaned_stays_so(variables: Variables) -> None:
    variables.keep()
    os.environ["PATH"] = "/bin"
    variables.let_through({"PATH": "/home/u/bin"})
    assert os.environ["PATH"] == "/bin"
    assert variables.facts()["let through"]["PATH"] == "/bin"  # what programs got


def test_a_named_variable_that_is_not_there_is_told(
    variables: Variables, caplog: pytest.LogCaptureFixture
) -> None:
    variables.keep()
    variables.let_through({"OMP_NUM_THREADS": None})
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    variables.let_through({"OMP_NUM_THREADS": None, "NOT_THERE": None})
    (told,) = (record for record in caplog.records if record.levelno >= logging.WARNING)
    assert "NOT_THERE" in told.getMessage()
    assert "OMP_NUM_THREADS" not in told.getMessage()


def test_what_was_there_is_stated_without_what_may_be_secret(variables: Variables) -> None:
    variables.keep()
    variables.let_through({"OMP_NUM_THREADS": None, "NOT_THERE": None})
    facts = variables.facts()
    assert facts["let through by the testbed"] == {"NOT_THERE": "not set", "OMP_NUM_THREADS": "2"}
    assert facts["let through"] == {"LC_ALL": "C.UTF-8", "LC_TIME": "C", "PATH": "/usr/bin"}
    kept = {*facts["kept from programs"]} - {"PYTEST_CURRENT_TEST"}
    assert kept == INFLUENTIAL.keys() - {"OMP_NUM_THREADS"}
    assert "secret" not in str(facts)
    assert "u:p@" not in str(facts)


def results_with(variables: dict[str, object] | None) -> RunResults:
    """Results as far as the environment matters."""
    held = {} if variables is None else {"variables": variables}
    return RunResults.model_construct(environment=held, scenarios=(), testbeds=())


def test_variables_let_through_make_runs_comparable_or_not() -> None:
    def key(named: dict[str, str]) -> str | None:
        found = results_with({"let through by the testbed": named})
        return comparability(found, "pvp_dpdk").get("variables")

    assert key({"OMP_NUM_THREADS": "2"}) == "OMP_NUM_THREADS = 2"
    assert key({"OMP_NUM_THREADS": "4"}) != key({"OMP_NUM_THREADS": "2"})
    assert key({}) is None
    older = comparability(results_with(None), "pvp_dpdk")
    assert "variables" not in older


def test_what_no_program_got_makes_no_difference() -> None:
    def tree(kept: str, tz: str) -> dict[str, object]:
        return {
            "environment": {"variables": {"kept from programs": [kept], "let through": {"TZ": tz}}}
        }

    assert not tree_differences(tree("A", "UTC"), tree("B", "UTC"))
    found = tree_differences(tree("A", "UTC"), tree("A", "CET"))
    assert [one.path.rpartition(".")[2] for one in found] == ["TZ"]


@pytest.mark.parametrize("name", ["A=B", "", "1A", "A B", "A\\n"])
def test_a_name_that_no_variable_has_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f'environment = ["{name}"]\n')
    with pytest.raises(ConfigError, match="environment"):
        read_testbed(str(file))


def test_programs_of_a_run_have_no_start_files_of_the_user(
    journal: Journal, tmp_path: Path
) -> None:
    logs = tmp_path / "run/log"
    logs.mkdir(parents=True)
    got = Processes(journal, logs).environment({"MINE": "1"})
    assert list(Path(got["HOME"]).iterdir()) == []
    assert Path(got["HOME"]).is_relative_to(tmp_path)
    assert got["MINE"] == "1"
    code = "from vnetperf.host.paths import cache_directory; print(cache_directory())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=got, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(cache_directory())  # what was built is found as before


def test_an_agent_keeps_nothing_else() -> None:
    """What programs of an agent get, started as it is started."""
    code = (
        "import json, sys, execnet\n"
        "gateway = execnet.makegateway(f'popen//python={sys.executable}')\n"
        "channel = gateway.remote_exec('from vnetperf.agent.agent import serve; serve(channel)')\n"
        "from vnetperf import __version__\n"
        "args = {'path': sys.path, 'plugins': {}, 'version': __version__}\n"
        "args['variables'] = {'UCX_TLS': None}\n"
        "channel.send(json.dumps({'call': 'hello', 'args': args}))\n"
        "while 'ok' not in (got := json.loads(channel.receive(30))): pass\n"
        "channel.send(json.dumps({'call': 'inventory', 'args': {'testbed': {'name': 'x'}}}))\n"
        "while 'ok' not in (got := json.loads(channel.receive(60))): pass\n"
        "print(json.dumps(got['ok']['record']['variables']))\n"
        "gateway.exit()\n"
    )
    there = {**os.environ, **INFLUENTIAL, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=there, capture_output=True, text=True, check=True
    )
    assert '"UCX_TLS": "tcp"' in done.stdout
    assert '"OMP_NUM_THREADS"' in done.stdout.partition("kept from programs")[2]
