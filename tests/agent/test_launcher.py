"""Who may become root by this tool: the agent's interpreter, and the launcher that sudo starts."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import execnet
import pytest

from tests.fakes.machine import facts
from tests.fakes.nics import CABLES, with_nics
from tests.planning.test_hosts import plan_of as plan_over_hosts
from vnetperf import __version__, config
from vnetperf.agent import agent as agent_module
from vnetperf.agent import client as client_module
from vnetperf.agent import launcher
from vnetperf.agent.agent import CALLS, Agent
from vnetperf.agent.client import AgentClient
from vnetperf.cli import main
from vnetperf.config import files
from vnetperf.config.settings import guest_options, mobile_core, read_testbed
from vnetperf.host import trust
from vnetperf.host.linux import caller_uid, python_argv, user_name
from vnetperf.model.errors import ConfigError, HostError
from vnetperf.model.options import GuestOptions, SwitchOptions
from vnetperf.model.testbed import Testbed
from vnetperf.planning.planner import make_loop_plan, make_plan
from vnetperf.plugin import registry
from vnetperf.runner.scenarios import make_scenario

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
LOOK = "import os, sys\nchannel.send([sys.path, os.getcwd(), sys.flags.isolated, os.geteuid()])\n"


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with modules of somebody else's, each of which leaves a mark."""
    mark = tmp_path / "ran"
    for name in ("pydantic", "vnetperf", "pyroute2", "libvirt"):
        (tmp_path / f"{name}.py").write_text(f"open({str(mark)!r}, 'w').write({name!r})\n")
    monkeypatch.chdir(tmp_path)
    return mark


def _gateway(spec: str) -> Iterator[Any]:
    group = execnet.Group()
    try:
        yield group.makegateway(spec)
    finally:
        group.terminate(5)


@pytest.mark.slow
def test_the_agent_imports_nothing_from_where_it_is_started(planted: Path) -> None:
    client = AgentClient(Testbed(), read_only=True)
    for gateway in _gateway(client.specification()):
        path, _, isolated, _ = gateway.remote_exec(LOOK).receive(120)
        assert isolated
        assert not [place for place in path if not place.startswith("/")]
        assert str(planted.parent) not in path
        serve = f"{client_module.local_program().partition('; serve')[0]}; channel.send(1)"
        assert gateway.remote_exec(serve).receive(120) == 1
    assert not planted.exists()


@pytest.mark.slow
def test_the_agent_finds_what_its_controller_finds(tmp_path: Path) -> None:
    """Where dependencies are in the user's site, or what PYTHONPATH names: -I knows neither."""
    for gateway in _gateway(f"popen//python={sys.executable} -I -S//execmodel=main_thread_only"):
        serve = f"{client_module.local_program().partition('; serve')[0]}; channel.send(1)"
        assert gateway.remote_exec(serve).receive(120) == 1


@root_only
def test_of_the_controllers_path_only_what_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    monkeypatch.setattr(sys, "path", [*sys.path, str(theirs), str(tmp_path)])
    program = client_module.local_program()
    assert repr(str(tmp_path)) in program
    assert str(theirs) not in program


def test_the_agent_does_not_stay_where_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(agent_module.Agent, "serve", lambda self: None)
    monkeypatch.setattr(agent_module.signal, "signal", lambda *_: None)
    monkeypatch.setattr(agent_module, "ROOT", agent_module.logging.getLogger("unused"))
    agent_module.serve(MagicMock())
    assert Path.cwd() == Path("/")


@pytest.mark.parametrize(
    "module",
    ["vnetperf.virt.session_server", "vnetperf.traffic.pktgen.tty", "vnetperf.host.guardian"],
)
def test_helpers_import_nothing_from_where_they_are_started(
    module: str, planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setenv("PYTHONPATH", str(planted.parent))
    done = subprocess.run(python_argv(module), capture_output=True, text=True, check=False)
    assert not planted.exists(), done.stderr
    assert "ModuleNotFoundError" not in done.stderr


def test_every_start_of_a_python_is_isolated() -> None:
    """No `-m` of a Python of ours is left that imports from the current directory."""
    package = Path(agent_module.__file__).parents[1]
    for file in package.rglob("*.py"):
        text = file.read_text()
        assert 'sys.executable, "-m"' not in text, file


@root_only
def test_import_paths_of_others_are_not_taken(tmp_path: Path) -> None:
    mine, theirs, open_ = tmp_path / "mine", tmp_path / "theirs", tmp_path / "open"
    for place in (mine, theirs, open_):
        place.mkdir()
    os.chown(theirs, 65534, 65534)
    open_.chmod(0o777)
    before = list(sys.path)
    try:
        Agent(MagicMock()).call_hello([str(p) for p in (mine, theirs, open_)], {})
        added = [place for place in sys.path if place not in before]
    finally:
        sys.path[:] = before
    assert added == [str(mine)]


@root_only
@pytest.mark.usefixtures("register_backend")
def test_a_backend_of_a_folder_that_was_left_out_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was "cannot be loaded; reinstall": a checkout of another uid in a container of a CI."""
    tmp_path.chmod(0o777)
    (tmp_path / "left_out.py").write_text("class Switch: pass\n")
    agent = Agent(MagicMock())
    monkeypatch.setattr(agent_module, "is_root", lambda: False)
    agent.call_hello([str(tmp_path)], {"vswitches": {"mine": "left_out:Switch"}})
    assert str(tmp_path) in caplog.text
    monkeypatch.setattr(agent, "call_inventory", lambda: registry.load("vswitches", "mine"))
    what = agent.answer({"call": "inventory", "args": {}})["error"]["what"]
    assert "No module named 'left_out'" in what
    assert str(tmp_path) in what
    assert "chown" in what


@pytest.mark.parametrize(("restricted", "given"), [(False, "/mine.so"), (True, None)])
def test_a_restricted_agent_takes_no_variable_from_its_caller(
    monkeypatch: pytest.MonkeyPatch, restricted: bool, given: str | None
) -> None:
    monkeypatch.setattr(agent_module, "is_root", lambda: False)
    agent = Agent(MagicMock(), restricted=restricted)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    agent.call_hello([], {}, variables={"A_LIBRARY": "/mine.so"})
    try:
        assert os.environ.get("A_LIBRARY") == given
    finally:
        agent.call_hello([], {})


def test_versions_that_differ_are_named() -> None:
    agent = Agent(MagicMock())
    args = {"path": [], "plugins": {}, "version": "0.0.7"}
    error = agent.answer({"call": "hello", "args": args})["error"]
    assert "0.0.7" in error["what"]
    assert __version__ in error["what"]


def test_values_of_another_version_do_not_end_the_agent() -> None:
    agent = Agent(MagicMock())
    error = agent.answer({"call": "open", "args": {"plan": {"scenario": 7}}})["error"]
    assert error["class"] == "HostError"
    assert "scenario" in error["what"]


#: A method `call_...` can be called by every user of the launcher, as root: another one is added
#: here once it refuses what these must not choose (docs/security.md).
MEANT = """
hello clock clock_sync inventory open lay_cables plug_nics bring_up check_path facts counters
run_trial watch captured users_transfer transfer open_end drive_end close_end check_alive calibrate
teardown
"""


def test_only_the_agents_calls_are_reached() -> None:
    assert sorted(CALLS) == sorted(MEANT.split())
    agent = Agent(MagicMock())
    vars(agent)["call_evil"] = lambda: "done"
    answer = agent.answer({"call": "evil", "args": {}})
    assert "no such call" in answer["error"]["what"]


# Files that name what is started as root.

PROGRAMS = '[programs]\ntestpmd = "/tmp/mine"\n'
STACK = Path(files.SHIPPED / "stacks/osmo-ggsn.toml").read_text()


def _read(kind: str, file: Path) -> object:
    if kind == "guest":
        return guest_options((str(file),))
    return read_testbed(str(file)) if kind == "testbed" else mobile_core((str(file),))


@root_only
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("testbed", PROGRAMS),
        ("testbed", '[trex]\nclient = "/tmp/mine"\n'),
        ("testbed", '[agent]\ntransport = "ssh=-oProxyCommand=x lab"\n'),
        ("testbed", "isolated = true\n"),
        ("testbed", 'wires = ["nic"]\n[[nics]]\ntester = "ens1"\ndut = "ens2"\n'),
        ("stack", STACK),
        ("guest", 'uri = "qemu+ext:///system?command=/tmp/mine"\n'),
        ("guest", 'kernel = "/tmp/mine"\n'),
        ("guest", 'initrd = "/tmp/mine"\n'),
        ("guest", 'image = "/tmp/mine.qcow2"\n'),
    ],
)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: os.chown(file, 65534, -1),
        lambda file: file.chmod(0o666),
        lambda file: os.chown(file.parent, 65534, -1),
        lambda file: file.parent.chmod(0o777),
        lambda file: file.parent.parent.chmod(0o777),
    ],
    ids=["owner", "mode", "folder's owner", "folder's mode", "a folder above"],
)
def test_files_that_name_programs_and_others_could_write_are_refused(
    tmp_path: Path, kind: str, text: str, spoil: Callable[[Path], object]
) -> None:
    file = tmp_path / "a/conf" / "mine.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert _read(kind, file)
    spoil(file)
    with pytest.raises(ConfigError, match="started as root") as caught:
        _read(kind, file)
    assert "chown" in caught.value.cure


@root_only
@pytest.mark.parametrize("kind", ["testbed", "guest"])
def test_what_was_looked_at_is_what_is_used(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is replaced between two looks at it names nothing."""
    file = tmp_path / "mine.toml"
    file.touch()
    os.chown(file, 65534, -1)
    evil = {"testbed": PROGRAMS, "guest": 'uri = "x:///"\n'}[kind]
    read = Path.read_text

    def replaced(path: Path, *args: Any, **kwargs: Any) -> str:
        text = read(path, *args, **kwargs)
        if path == file:
            file.write_text(evil)
        return text

    monkeypatch.setattr(Path, "read_text", replaced)
    found = _read(kind, file)
    assert not getattr(found, {"testbed": "programs", "guest": "uri"}[kind])


@root_only
def test_a_guest_file_that_names_nothing_may_be_anybodys(tmp_path: Path) -> None:
    file = tmp_path / "plain.toml"
    file.write_text('image = "vloop"\nmemory_mib = 256\n')
    os.chown(file, 65534, -1)
    assert guest_options((str(file),)).memory_mib == 256


@root_only
def test_a_testbed_that_names_nothing_may_be_anybodys(tmp_path: Path) -> None:
    file = tmp_path / "plain.toml"
    file.write_text("[cores]\ntester = 2\n[agent]\ntransport = 'local'\n")
    os.chown(file, 65534, -1)
    assert read_testbed(str(file)).cores.tester == 2


@root_only
def test_links_are_followed_and_sticky_folders_are_fine(tmp_path: Path) -> None:
    theirs, link = tmp_path / "theirs", tmp_path / "link"
    theirs.mkdir()
    (theirs / "file").touch()
    link.symlink_to(theirs / "file")
    tmp_path.chmod(0o1777)
    assert trust.explain_distrust(link) == ""
    assert "written to by others" in trust.explain_distrust(tmp_path)
    os.chown(theirs, 65534, -1)
    assert "belongs to user 65534" in trust.explain_distrust(link)
    assert "No such file" in trust.explain_distrust(tmp_path / "none")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert "symbolic links" in trust.explain_distrust(loop)


def test_the_caller_of_sudo_counts_as_oneself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid():
        pytest.skip("only root can give files to another user")
    os.chown(tmp_path, 4711, -1)
    assert trust.explain_distrust(tmp_path)
    monkeypatch.setenv("SUDO_UID", "4711")
    assert not trust.explain_distrust(tmp_path)
    assert trust.explain_distrust(tmp_path, only_root=True)


# The launcher.


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """The launcher as it is installed."""
    file = tmp_path / "vnetperf-agent"
    file.write_text(launcher.script(sys.executable))
    file.chmod(0o755)
    return file


@pytest.mark.slow
def test_the_launcher_executes_nothing_that_is_sent(
    started: Path, tmp_path: Path, planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_PRELOAD", "")
    mark = tmp_path / "executed"
    for gateway in _gateway(f"popen//python={started}//execmodel=main_thread_only"):
        channel = gateway.remote_exec(f"open({str(mark)!r}, 'w')")
        channel.send(json.dumps({"call": "teardown", "args": {}}))
        assert json.loads(channel.receive(30)) == {"ok": []}
        channel.send(json.dumps({"call": "no_such", "args": {}}))
        assert "no such call" in channel.receive(30)
        bad = Testbed(name="x", programs={"testpmd": "/tmp/mine"}).model_dump(mode="json")
        channel.send(json.dumps({"call": "inventory", "args": {"testbed": bad}}))
        assert "the launcher starts no programs" in channel.receive(30)
    assert not mark.exists()
    assert not planted.exists()


@pytest.fixture
def restricted(monkeypatch: pytest.MonkeyPatch) -> Agent:
    monkeypatch.setattr(agent_module, "take_inventory", lambda testbed: facts(3))
    monkeypatch.setattr(agent_module, "is_root", lambda: False)
    return Agent(MagicMock(), restricted=True)


def test_plugins_come_from_the_launchers_installation_only(restricted: Agent) -> None:
    before = list(sys.path)
    restricted.call_hello(["/tmp"], {"vswitches": {"dpdk": "evil:Switch"}})
    assert sys.path == before
    assert launcher.registry.load("vswitches", "dpdk").__module__.startswith("vnetperf.")
    with pytest.raises(HostError, match="mine is not installed"):
        restricted.call_hello([], {"vswitches": {"mine": "evil:Switch"}})


@root_only
def test_programs_and_permissions_come_from_roots_file(
    restricted: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "SYSTEM", tmp_path)
    monkeypatch.setattr(
        launcher,
        "explain_distrust",
        lambda path, only_root: "" if _is_roots(path) else "not root's",
    )
    file = tmp_path / "testbeds/rack7.toml"
    file.parent.mkdir()
    text = (
        'isolated = true\n[[nics]]\ntester = "ens1"\ndut = "ens2"\n[programs]\ntestpmd = "/opt/x"\n'
    )
    file.write_text(text)
    allowed = read_testbed(str(file))
    for testbed in (allowed, Testbed(name="any", description="plain")):
        assert restricted.call_inventory(testbed.model_dump(mode="json"))
    refused = [
        allowed.model_copy(update={"name": "other"}),
        allowed.model_copy(update={"name": "../testbeds/rack7x"}),
        allowed.model_copy(update={"programs": {"testpmd": "/tmp/x"}}),
        allowed.model_copy(update={"nics": ()}),
        Testbed(name="rack7", isolated=True),
        Testbed.model_validate({"name": "rack7", "trex": {"client": "/tmp/mine"}}),
    ]
    for testbed in refused:
        with pytest.raises(HostError, match="the launcher starts no programs"):
            restricted.call_inventory(testbed.model_dump(mode="json"))
    os.chown(file, 65534, -1)
    with pytest.raises(HostError, match="the launcher starts no programs"):
        restricted.call_inventory(allowed.model_dump(mode="json"))


@pytest.mark.parametrize(
    "hosts",
    [
        {"a": {"programs": {"testpmd": "/tmp/mine"}}},
        {"a": {"transport": "netns"}, "b": {"transport": "netns"}},
    ],
)
def test_the_launcher_serves_no_hosts_of_a_users_testbed(
    restricted: Agent, deployed: MagicMock, hosts: dict[str, Any]
) -> None:
    plan = make_plan(make_scenario("phy2phy_bridge", config.load()), Testbed(), facts(3))
    asked = plan.model_dump(mode="json")
    ends = [{"ends": ["a:x", "b:x"]}, {"ends": ["a:y", "b:y"]}] if len(hosts) == 2 else []
    asked["testbed"] |= {"hosts": hosts, "cables": ends}
    for call in (
        {"call": "open", "args": {"plan": asked}},
        {"call": "inventory", "args": {"testbed": asked["testbed"]}},
    ):
        assert "testbeds of one host" in restricted.answer(call)["error"]["what"]
    deployed.assert_not_called()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("vnf_mode", "io;id"),
        ("vnf_mode", "--file=/etc/shadow"),
        ("vnf", "vloop\n"),
        ("generator", "/tmp/mine"),
        ("wire", "veth veth"),
        ("dut_macs", ["02:00:00:00:00:01\nevil", ""]),
        ("dut_macs", ["-", ""]),
        ("variant", "a\x1b[31m"),
    ],
)
def test_words_of_a_users_scenario_are_typed(
    restricted: Agent, deployed: MagicMock, key: str, value: object
) -> None:
    plan = make_plan(make_scenario("phy2phy_bridge", config.load()), Testbed(), facts(3))
    asked = plan.model_dump(mode="json")
    asked["scenario"][key] = value
    answer = restricted.answer({"call": "open", "args": {"plan": asked}})
    assert "error" in answer
    deployed.assert_not_called()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "phy2phy --x"),
        ("vnf_count", -1),
        ("beyond", [[{"index": 0}, "02:00:00:00:00:01 evil"]]),
        ("trunks", [{"index": -1}]),
    ],
)
def test_a_users_graph_is_typed(
    restricted: Agent, deployed: MagicMock, key: str, value: object
) -> None:
    plan = make_plan(make_scenario("phy2phy_bridge", config.load()), Testbed(), facts(3))
    asked = plan.model_dump(mode="json")
    asked["scenario"]["deployment"][key] = value
    answer = restricted.answer({"call": "open", "args": {"plan": asked}})
    assert "error" in answer
    deployed.assert_not_called()


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """Takes the place of every deployment."""
    opened = MagicMock()
    opened.return_value.machine.netns = "/run/netns"
    opened.return_value.teardown.return_value = []
    monkeypatch.setattr(agent_module.LiveDeployment, "open", opened)
    return opened


def test_a_plan_is_the_agents_own(
    restricted: Agent, deployed: MagicMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = with_nics(facts(6, nodes=2))
    testbed = Testbed(wires=("nic",), nics=CABLES)
    scenario = make_scenario("phy2phy_bridge", config.load())
    plan = make_plan(scenario, testbed, machine)
    honest = plan.model_dump(mode="json")
    monkeypatch.setattr(agent_module, "take_inventory", lambda testbed: machine)
    assert restricted.answer({"call": "open", "args": {"plan": honest}}) == {"ok": "/run/netns"}
    loop = make_loop_plan(scenario, testbed, machine).model_dump(mode="json")
    calibrate = MagicMock()
    calibrate.return_value.model_dump.return_value = {}
    monkeypatch.setattr(agent_module, "calibrate", calibrate)
    args = {"plan": loop, "frame_sizes": [64]}
    assert restricted.answer({"call": "calibrate", "args": args}) == {"ok": {}}
    deployed.reset_mock()
    calibrate.reset_mock()
    mine = plan.nics[0].model_copy(update={"driver": "/home/m/x.ko", "kernel": False})
    for what, evil in {
        "nics": plan.model_copy(update={"nics": (mine, *plan.nics[1:])}),
        "wire": plan.model_copy(update={"wire": "veth"}),
        "memory": plan.model_copy(update={"memory": ()}),
    }.items():
        args = {"plan": evil.model_dump(mode="json")}
        answer = restricted.answer({"call": "open", "args": args})
        assert what in answer["error"]["where"]
        assert "run again" in answer["error"]["cure"]
        args |= {"frame_sizes": [64]}
        answer = restricted.answer({"call": "calibrate", "args": args})
        assert answer["error"]["where"].startswith("plan: ")
    # Facts are read anew: what is in use by now is refused, whatever was seen before.
    use = with_nics(machine, dut0={"in_use": "it carries the address 192.0.2.1"})
    monkeypatch.setattr(agent_module, "take_inventory", lambda testbed: use)
    answer = restricted.answer({"call": "open", "args": {"plan": honest}})
    assert "it carries the address 192.0.2.1" in answer["error"]["what"]
    deployed.assert_not_called()
    calibrate.assert_not_called()


def test_a_part_of_a_deployment_over_hosts_is_refused_for_what_it_is(
    restricted: Agent, deployed: MagicMock
) -> None:
    for name in ("pvp_dpdk", "v2p2v_bridge"):
        for part in plan_over_hosts(name).hosts:
            args = {"plan": part.model_dump(mode="json")}
            error = restricted.answer({"call": "open", "args": args})["error"]
            assert error["where"] == f"plan of host {part.host}"
            assert f"hosts.{part.host}.transport" in error["cure"]
    deployed.assert_not_called()


def _is_roots(path: Path) -> bool:
    return path.stat().st_uid == 0


def test_stacks_and_files_of_guests_are_roots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = config.load()
    scenario = make_scenario("vepc_dpdk", loaded)
    monkeypatch.setattr(launcher, "explain_distrust", lambda path, only_root: "")
    launcher.refuse_scenario(scenario)
    stack = scenario.stack
    assert stack is not None
    evil = stack.model_copy(
        update={"programs": (stack.programs[0].model_copy(update={"argv": ("/bin/sh",)}),)}
    )
    with pytest.raises(HostError, match=f"stack {stack.name}: "):
        launcher.refuse_scenario(scenario.model_copy(update={"stack": evil}))
    monkeypatch.setattr(launcher, "explain_distrust", lambda path, only_root: "user 1000's")
    scenario = make_scenario("pvp_bridge", loaded)
    for guest, where in (
        (GuestOptions(image=str(tmp_path / "shadow.img")), str(tmp_path / "shadow.img")),
        (GuestOptions(kernel=tmp_path / "k"), str(tmp_path / "k")),
        (GuestOptions(uri="qemu:///system"), "uri=qemu:///system"),
    ):
        with pytest.raises(HostError) as refused:
            launcher.refuse_scenario(scenario.model_copy(update={"guest": guest}))
        assert refused.value.where == where
        assert refused.value.cure


def test_guests_get_images_and_files_that_root_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that only root may write to may be files that only root may read."""
    scenario = make_scenario("pvp_bridge", config.load())
    monkeypatch.setattr(launcher, "SYSTEM", tmp_path)
    monkeypatch.setattr(launcher, "store_dir", lambda: tmp_path / "images")
    monkeypatch.setattr(launcher, "explain_distrust", lambda path, only_root: "")
    (tmp_path / "guest").mkdir()
    (tmp_path / "guest/vyos.toml").write_text(
        'image = "/srv/vyos.qcow2"\nkernel = "/srv/vmlinuz"\ninitrd = "/srv/initrd"\n'
    )
    (tmp_path / "guest/broken.toml").write_text("broken = [")
    for guest in (
        GuestOptions(image="/srv/vyos.qcow2"),
        GuestOptions(image="/srv/vyos.qcow2", kernel=Path("/srv/vmlinuz"), vcpus=3),
        GuestOptions(image=str(tmp_path / "images/vloop-1/disk.qcow2")),
        GuestOptions(),
    ):
        launcher.refuse_scenario(scenario.model_copy(update={"guest": guest}))
    for guest in (
        GuestOptions(image="/root/backup.qcow2"),
        GuestOptions(initrd=Path("/etc/shadow")),
        GuestOptions(kernel=Path("/etc/shadow")),
        GuestOptions(kernel=tmp_path / "images/../../../etc/shadow"),
    ):
        with pytest.raises(HostError) as refused:
            launcher.refuse_scenario(scenario.model_copy(update={"guest": guest}))
        assert refused.value.where in {str(guest.disk), str(guest.initrd), str(guest.kernel)}
        assert str(tmp_path / "guest") in refused.value.accepted


def test_the_client_starts_the_launcher_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, started: Path
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(client_module, "LAUNCHER", started.with_name("none"))
    allowed = [sys.executable]
    monkeypatch.setattr(client_module, "can_start_by_sudo", lambda *argv: argv[-1] in allowed)
    client = AgentClient(Testbed())
    assert f"sudo -n {sys.executable} -I" in client.specification()
    monkeypatch.setattr(client_module, "LAUNCHER", started)
    # Who may become root anyhow is not restricted.
    monkeypatch.setattr(client_module, "can_start_by_sudo", lambda *argv: True)
    assert f"sudo -n {sys.executable} -I" in client.specification()
    monkeypatch.setattr(client_module, "can_start_by_sudo", lambda *argv: str(started) in argv)
    assert f"python=sudo -n {started}//" in client.specification()


def test_the_launcher_keeps_who_called(monkeypatch: pytest.MonkeyPatch, started: Path) -> None:
    monkeypatch.setenv("SUDO_USER", "ann")
    monkeypatch.setenv("SUDO_UID", "4711")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/tmp/mine")
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(os, "chdir", lambda path: None)
    monkeypatch.setattr(os, "umask", lambda mask: None)
    monkeypatch.setattr(sys, "stdin", MagicMock())
    monkeypatch.setattr(launcher, "_Gateway", MagicMock())
    monkeypatch.setattr(launcher.gateway_base, "init_popen_io", MagicMock())
    launcher.main()
    assert "LD_LIBRARY_PATH" not in os.environ
    assert user_name() == "ann"
    assert caller_uid() == 4711
    assert "SUDO_UID" not in os.environ  # the caller's files are not root's


@root_only
def test_it_is_installed_from_what_is_roots_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, line = tmp_path / "sbin/vnetperf-agent", tmp_path / "sudoers.d/vnetperf"
    monkeypatch.setattr(client_module, "LAUNCHER", program)
    monkeypatch.setattr(launcher, "SUDOERS", line)
    monkeypatch.setattr(launcher, "installation_problem", lambda _: "/home/x belongs to user 1000")
    assert main(["launcher", "--install"]) == 1
    assert "belongs to user 1000" in capsys.readouterr().err
    assert not program.exists()
    monkeypatch.setattr(launcher, "installation_problem", lambda _: "")
    capsys.readouterr()
    closed = f"below {tmp_path}, which is closed to them"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    tmp_path.chmod(0o700)
    assert main(["launcher", "--install", "--who", "bench"]) == 0
    assert (program.stat().st_mode & 0o7777, line.stat().st_mode & 0o7777) == (0o755, 0o440)
    assert line.read_text() == launcher.sudoers(program, "bench")
    if visudo := shutil.which("visudo"):
        subprocess.run([visudo, "-cf", line], check=True)
    assert closed in capsys.readouterr().err  # it is installed all the same
    assert main(["launcher"]) == 0
    assert program.read_text() in capsys.readouterr().out
    assert main(["launcher", "--remove"]) == 0
    assert not program.exists()
    assert not line.exists()


@root_only
@pytest.mark.parametrize(
    "theirs", ["engine.c", "deep/er/mine.pth", "deep/_x.so", "link.py", "linked/inside.py", "deep"]
)
def test_an_installation_of_others_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: str
) -> None:
    """Whatever the file is called: C sources are built, and .pth files run, as root."""
    site, elsewhere = tmp_path / "site-packages", tmp_path / "elsewhere"
    (site / "deep/er").mkdir(parents=True)
    elsewhere.mkdir()
    for name in ("engine.c", "deep/er/mine.pth", "deep/_x.so"):
        (site / name).write_text("x")
    for name in ("link.py", "inside.py"):
        (elsewhere / name).write_text("x")
    (site / "link.py").symlink_to(elsewhere / "link.py")
    (site / "linked").symlink_to(elsewhere)
    (site / "again").symlink_to(site)
    monkeypatch.setattr(sys, "path", [str(site)])
    monkeypatch.setattr(launcher, "explain_distrust", lambda place, only_root: "")  # of this Python
    monkeypatch.setattr(launcher, "__file__", str(site / "vnetperf/agent/launcher.py"))
    (site / "vnetperf/conf").mkdir(parents=True)
    assert launcher.installation_problem(site / "sbin/x") == ""
    os.chown(site / theirs, 65534, -1)
    name = Path(os.path.realpath(site / theirs)).name
    problem = launcher.installation_problem(site / "x")
    for words in (name, "user 65534"):
        assert words in problem
    os.chown(site / theirs, 0, 65534)
    (site / theirs).chmod(0o775)
    problem = launcher.installation_problem(site / "x")
    for words in (name, "mode 0775"):
        assert words in problem


@root_only
@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("{0}/missing", ""),
        ("{0}/missing/deep/er", ""),
        ("{0}/missing/../other", ""),
        ("/dev/null", ""),
        ("{0}/socket", ""),
        ("{0}/pipe", "pipe may be written to by others"),
        ("{0}/theirs/missing", "theirs belongs to user 65534"),
        ("{0}/sticky/missing/deep", "sticky may be written to by others"),
        ("{0}/sticky/dangling", "dangling belongs to user 65534"),
        ("{0}/sticky/back", "back belongs to user 65534"),
        ("{0}/itself", "Too many levels of symbolic links"),
    ],
)
def test_a_link_is_as_safe_as_where_it_leads(tmp_path: Path, target: str, problem: str) -> None:
    """A target that is not there can be made by who may write to its nearest folder."""
    site, elsewhere = tmp_path / "site-packages", tmp_path / "elsewhere"
    for place in (site, elsewhere / "theirs", elsewhere / "sticky"):
        place.mkdir(parents=True)
    os.chown(elsewhere / "theirs", 65534, -1)
    (elsewhere / "sticky").chmod(0o1777)
    for name, leads_to in (("dangling", elsewhere / "missing"), ("back", site)):
        (elsewhere / "sticky" / name).symlink_to(leads_to)
        os.chown(elsewhere / "sticky" / name, 65534, -1, follow_symlinks=False)
    (elsewhere / "itself").symlink_to(elsewhere / "itself")
    os.mkfifo(elsewhere / "pipe")
    os.mknod(elsewhere / "socket", stat.S_IFSOCK)
    for name in ("pipe", "socket"):
        (elsewhere / name).chmod(0o666)
    (site / "link.py").symlink_to(target.format(elsewhere))
    found = trust.explain_distrust_below(site)
    assert problem in found
    assert bool(problem) == bool(found)


@root_only
def test_a_file_that_vanishes_while_an_installation_is_looked_at_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs.py").touch()
    os.chown(tmp_path / "theirs.py", 65534, -1)
    names = ["gone.py"]
    monkeypatch.setattr(os, "listdir", lambda _: names)
    assert trust.explain_distrust_below(tmp_path) == ""
    names.append("theirs.py")
    assert str(tmp_path / "theirs.py") in trust.explain_distrust_below(tmp_path)

    def vanish(_: str) -> list[str]:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    monkeypatch.setattr(os, "listdir", vanish)
    assert trust.explain_distrust_below(tmp_path) == ""


SCRIPT = """
set -e
mount --make-rprivate /
for place in /etc/sudoers.d /usr/local/sbin; do mount -t tmpfs -o mode=755 none $place; done
"$1" -I -m vnetperf.cli launcher --install --who nobody
cd "$2"
user="setpriv --reuid=65534 --regid=65534 --clear-groups"
for refused in id "$1"; do if $user sudo -n "$refused" </dev/null; then exit 3; fi; done
exec $user "$1" -I -c "$3"
"""
AS_NOBODY = """
import os
import re
from vnetperf.agent.client import AgentClient
from vnetperf.model.testbed import Testbed
client = AgentClient(Testbed())
print("-".join(map(str, (os.geteuid(), client.inventory().is_root))))
client.close()
"""


@pytest.mark.real
@pytest.mark.skipif(shutil.which("sudo") is None, reason="sudo is not installed")
def test_a_user_starts_the_agent_by_sudo_and_nothing_else(planted: Path) -> None:
    """In a mount namespace of its own: the machine's sudoers are not touched."""
    planted.parent.chmod(0o777)
    unshare = ["unshare", "--mount", "bash", "-c", SCRIPT, "bash"]
    done = subprocess.run(
        [*unshare, sys.executable, str(planted.parent), AS_NOBODY],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stdout.splitlines()[-1:] == ["65534-True"], done
    assert not planted.exists()


def test_conflists_of_users_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "explain_distrust", lambda path, only_root: "")
    configuration = config.load({"set": ("conflist=ptp",)}, environment={})
    shipped = make_scenario("bmp2bmp_cni", configuration)
    launcher.refuse_scenario(shipped)
    launcher.refuse_scenario(shipped.model_copy(update={"options": SwitchOptions()}))
    evil = {**shipped.options.given()["conflist"], "name": "evil"}
    options = SwitchOptions.model_validate({"conflist": evil})
    with pytest.raises(HostError, match="no CNI plugins"):
        launcher.refuse_scenario(shipped.model_copy(update={"options": options}))
