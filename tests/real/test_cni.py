"""The CNI runtime on real plugins, and on one that does what it should not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.model.errors import VnetperfError
from vnetperf.model.scenario import PodHosts, Scenario
from vnetperf.networks.cni import CniNetwork
from vnetperf.testing.cases import Case
from vnetperf.testing.frames import FrameTester
from vnetperf.testing.stage import Stage

pytestmark = pytest.mark.real
IPAM = {"type": "host-local"}
#: Reports what it was called for in a file, makes an interface by a real plugin, or fails.
PLUGIN = """#!/bin/sh
echo "$CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME" >>/var/lib/calls
{act}
exec /usr/lib/cni/ptp
"""


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage("cni")
    if why := made.facts.missing_program("cni-plugins"):
        pytest.skip(why)  # not installed here; the reason names the package
    yield made
    made.close()


def pods(
    stage: Stage, content: dict[str, Any], folder: Path, place: PodHosts, **wishes: Any
) -> Scenario:
    path = folder / "mine.conflist"
    path.write_text(json.dumps({"cniVersion": "1.0.0", "name": "mine", **content}))
    options = (f"conflist={path}",)
    case = Case("bmp2bmp", **wishes)
    return stage.scenario(case, FrameTester.name, hosts=place, set=options)


def refused(
    stage: Stage, scenario: Scenario, meanwhile: Callable[[], None] = lambda: None
) -> VnetperfError:
    """What the deployment of a planned scenario ends with; `meanwhile` comes between the two."""
    plan = stage.plan(scenario)
    meanwhile()
    with pytest.raises(VnetperfError) as refusal:
        stage.deploy(plan)
    assert stage.list_leftovers() == ()
    return refusal.value


@pytest.fixture
def own_plugin(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """Writes the plugin "mine" beside root's own, where only root may write."""
    folder = Path("/usr/local/lib/vnetperf-test-cni")
    folder.mkdir()
    plain = stage.testbed
    sections = {"cni": {"path": (str(folder), "/usr/lib/cni")}}
    testbed = type(plain).model_validate({**plain.model_dump(), **sections})
    monkeypatch.setattr(Stage, "testbed", testbed)

    def write(act: str) -> Path:
        path = folder / "mine"
        path.write_text(PLUGIN.format(act=act))
        path.chmod(0o755)
        seen = {CniNetwork.name: CniNetwork.look(testbed)}
        vars(stage)["facts"] = stage.facts.model_copy(update={"seen": seen})
        return path

    yield write
    (folder / "mine").unlink(missing_ok=True)
    folder.rmdir()


def calls(deployment: LiveDeployment) -> list[str]:
    text = (deployment.machine.run_dir / "cni/var/lib/calls").read_text()
    return [line.split()[0] for line in text.splitlines()]


def test_what_a_plugin_writes_is_the_run_s_and_all_are_deleted(
    stage: Stage, tmp_path: Path, own_plugin: Callable[[str], Path]
) -> None:
    own_plugin("touch /etc/vnetperf-was-here 2>/dev/null && exit 9")
    ipam = {**IPAM, "ranges": [[{"subnet": "10.9.0.0/24"}]]}
    content = {"plugins": [{"type": "mine", "ipam": ipam}]}
    scenario = pods(stage, content, tmp_path, "same", forwarding="l3")
    with stage.used_up(scenario) as deployment:
        # The second pod is removed once, so that it is known how long that takes.
        assert calls(deployment) == ["ADD", "CHECK"] * 2 + ["DEL"] + ["ADD", "CHECK"]
        leases = deployment.machine.run_dir / "cni/var/lib/cni/networks/mine"
        assert len(list(leases.glob("10.*"))) == 2
        deployment.vswitch.stop()
        assert calls(deployment)[-2:] == ["DEL"] * 2
        assert list(leases.glob("10.*")) == []
    assert not Path("/etc/vnetperf-was-here").exists()
    assert not Path("/var/lib/calls").exists()
    assert stage.troubles == []


MINE = {"type": "mine", "ipam": {**IPAM, "subnet": "10.9.0.0/24"}}
FAILURE = """case "$CNI_COMMAND $CNI_CONTAINERID" in
{when}) echo '{{"msg": "no good"}}'; exit 1;; esac"""


@pytest.mark.parametrize(
    ("when", "place"),
    [
        ("ADD*pod1", "other"),
        pytest.param("CHECK*", "same", marks=pytest.mark.daily),  # undone by the same
    ],
)
def test_a_failure_half_way_is_undone_by_del(
    when: str,
    place: PodHosts,
    stage: Stage,
    tmp_path: Path,
    own_plugin: Callable[[str], Path],
) -> None:
    own_plugin(FAILURE.format(when=when))
    found = refused(stage, pods(stage, {"plugins": [MINE]}, tmp_path, place))
    for words in ("CNI plugin mine", f" {when.partition('*')[0]}:", "status 1", "no good"):
        assert words in str(found)


def test_an_mtu_that_does_not_pass_is_told_before_the_run(
    stage: Stage, tmp_path: Path, own_plugin: Callable[[str], Path]
) -> None:
    own_plugin("")  # of which nothing is known before
    content = {"plugins": [{**MINE, "mtu": 9000}]}
    found = refused(stage, pods(stage, content, tmp_path, "other", forwarding="l3"))
    assert "the pods' interfaces have an MTU of 9000" in str(found)
    assert "packets of up to 1500 octets pass" in str(found)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda path: path.chmod(0o777), "CNI plugin 'mine' is not started as root"),
        (lambda path: path.unlink(), "there is no CNI plugin 'mine' in /usr/local/lib/vnetperf"),
    ],
    ids=["others-may-write", "gone"],
)
def test_a_plugin_that_was_changed_since_the_plan_is_not_started(
    change: Callable[[Path], None],
    says: str,
    stage: Stage,
    tmp_path: Path,
    own_plugin: Callable[[str], Path],
) -> None:
    path = own_plugin("")
    scenario = pods(stage, {"plugins": [MINE]}, tmp_path, "other")
    assert says in str(refused(stage, scenario, lambda: change(path)))
