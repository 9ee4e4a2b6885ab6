"""A bridge that somebody else runs, in a namespace of theirs, between two interfaces named here."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.machine import facts
from tests.real.conftest import UserRun
from tests.real.needs import module_problem, program
from vnetperf.config import find_file
from vnetperf.host import links
from vnetperf.host.machine import Machine
from vnetperf.host.paths import HostRoots
from vnetperf.host.session import HostRun
from vnetperf.virt.container import Container

Unchanged = Callable[[], tuple[str, ...]]
pytestmark = pytest.mark.skipif(
    bool(module_problem("bridge")), reason=f"no bridge: {module_problem('bridge')}"
)
THEIRS = "vpx-theirs"
TESTBED = """
isolation = "a bridge in a namespace of this machine"
[external]
name = "their bridge"
version = "of the kernel"
facts = {{ place = "namespace" }}
[[external.ports]]
tester = "vpxt0"
dut = "port 1"
{more}
[[external.ports]]
tester = "vpxt1"
dut = "port 2"
{more}
"""


def preset(folder: Path) -> str:
    """The smoke preset, with latency at a load that the tester can offer at any time.

    The kernel forwards on the tester's own processors, and the throughput is what is left to the
    tester beside it: at that load it has no reserve for a machine that is busier for a moment.
    """
    text = find_file("presets", "smoke").read_text()
    for table, line in (("latency", "shares = [0.5]"), ("trial", "repeats_when_limited = 10")):
        assert text.count(f"[{table}]\n") == 1
        text = text.replace(f"[{table}]\n", f"[{table}]\n{line}\n")
    path = folder / "reserve.toml"
    path.write_text(text)
    return str(path)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@pytest.fixture
def their_bridge() -> Iterator[None]:
    ip("netns", "add", THEIRS)
    try:
        ip("-n", THEIRS, "link", "add", "br0", "up", "type", "bridge")
        for number in (0, 1):
            mine, theirs = f"vpxt{number}", f"vpxd{number}"
            ip("link", "add", mine, "type", "veth", "peer", "name", theirs, "netns", THEIRS)
            ip("-n", THEIRS, "link", "set", theirs, "master", "br0", "up")
            ip("link", "set", mine, "up")
        yield
    finally:
        # A namespace takes its cables along some time later, and their names are wanted again.
        for mine in ("vpxt0", "vpxt1"):
            subprocess.run(["ip", "link", "del", mine], check=False)
        ip("netns", "del", THEIRS)


def measured(start: Callable[..., UserRun], folder: Path, tests: str, more: str = "") -> UserRun:
    path = folder / "theirs.toml"
    path.write_text(TESTBED.format(more=more))
    run = start(
        *("--testbed", str(path), "-k", "phy2phy_external", "--tests", tests),
        *("--frame-sizes", "64", "-rs"),
        preset=preset(folder),
    )
    run.finish()
    return run


@pytest.mark.usefixtures("their_bridge", "unchanged")
def test_what_somebody_else_runs_is_measured_and_given_back(
    start: Callable[..., UserRun], tmp_path: Path
) -> None:
    run = measured(start, tmp_path, "throughput,latency,reset")
    content = run.json()
    found = {r["test"]: r for r in content["results"]}
    assert found["throughput"]["goals"][0]["lower_bound_fps"], run.output
    assert found["latency"]["status"] == "measured", found["latency"]["why"]
    (scenario,) = content["scenarios"]
    assert scenario["facts"]["vswitch"]["name"] == "their bridge"
    assert "somebody else runs the external DUT" in " ".join(run.output.split())


@pytest.mark.usefixtures("their_bridge", "unchanged")
@pytest.mark.parametrize("given_back", [False, True])
def test_an_interface_comes_back_from_a_container_whose_run_ends(
    tmp_path: Path, *, given_back: bool
) -> None:
    """A namespace that ends deletes a pair of links, with the end that is somebody else's."""
    roots = HostRoots(tmp_path / "s", tmp_path / "r")
    with HostRun.open(testbed="lent", roots=roots, timeout_s=9) as run:
        machine = Machine(run, facts())
        machine.borrow_interface("vpxt0", mtu=1500)
        container = Container(machine, "end0", ())
        container.create(cpuset=False)
        container.take("vpxt0")
        assert links.find("vpxt0", container.netns) is not None
        if given_back:
            container.give_back()
            assert links.find("vpxt0", machine.netns) is not None
            container.take("vpxt0")
            container.give_back()
    assert links.find("vpxt0") is not None
    ip("-n", THEIRS, "link", "show", "vpxd0")


@pytest.fixture
def their_nat(their_bridge: None) -> None:
    """A router in place of the bridge, with NAT that chooses ports as it likes."""
    del their_bridge
    for number, network in ((0, "100.127.255.254/10"), (1, "198.19.255.254/16")):
        port, far = f"vpxd{number}", network.replace("254/", "253/").partition("/")[0]
        tester = Path(f"/sys/class/net/vpxt{number}/address").read_text().strip()
        ip("-n", THEIRS, "link", "set", port, "nomaster")
        ip("-n", THEIRS, "address", "add", network, "dev", port)
        ip("-n", THEIRS, "neigh", "add", far, "lladdr", tester, "dev", port, "nud", "permanent")
        inside = "100.64.0.0/16" if number == 0 else "198.19.0.0/24"
        ip("-n", THEIRS, "route", "add", inside, "via", far, "dev", port)
    rules = (
        "table ip theirs { chain out { type nat hook postrouting priority srcnat; "
        'oifname "vpxd1" meta l4proto udp snat to 203.0.113.1-203.0.113.4:2000-60000 '
        "fully-random; }; }\n"
    )
    commands = (["nft", rules], ["sysctl", "-qw", "net.ipv4.ip_forward=1"])
    for command in commands:
        subprocess.run(["ip", "netns", "exec", THEIRS, *command], check=True)


@pytest.mark.daily
@pytest.mark.usefixtures("their_nat", "unchanged")
@pytest.mark.skipif(not program("nft"), reason="nft is not installed")
def test_a_nat_of_somebody_else_has_its_mappings_learnt(
    start: Callable[..., UserRun], tmp_path: Path
) -> None:
    macs = [
        subprocess.run(
            ["ip", "netns", "exec", THEIRS, "cat", f"/sys/class/net/vpxd{number}/address"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for number in (0, 1)
    ]
    path = tmp_path / "theirs.toml"
    text = TESTBED.format(more="").replace("[external]", "[external]\nnat = true")
    for number, mac in enumerate(macs):
        text = text.replace(f'"port {number + 1}"', f'"port {number + 1}"\nmac = "{mac}"')
    path.write_text(text)
    run = start(
        *("--testbed", str(path), "-k", "phy2phy_external", "--tests", "throughput,latency"),
        *("--nat", "subscribers=40,ports=25,mapping=learnt", "--frame-sizes", "64"),
        preset=preset(tmp_path),
    )
    run.finish()
    found = {r["test"]: r for r in run.json()["results"]}
    assert found["throughput"]["goals"][0]["lower_bound_fps"], run.output
    assert found["latency"]["status"] == "measured", found["latency"]["why"]


@pytest.mark.daily  # its message has a test of its own: the check of a path takes 15 s to fail
@pytest.mark.usefixtures("their_bridge", "unchanged")
def test_a_dut_that_forwards_nothing_is_named_with_the_way(
    start: Callable[..., UserRun], tmp_path: Path
) -> None:
    ip("-n", THEIRS, "link", "set", "vpxd1", "nomaster")
    run = measured(start, tmp_path, "throughput")
    said = " ".join(run.output.split())
    for words in ("DUT their bridge", "vpxt0 to vpxt1"):
        assert words in said
    assert run.process.returncode == 1
