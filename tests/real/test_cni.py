"""The CNI runtime on real plugins, and on one that does what it should not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.model.errors import DutError, VnetperfError
from vnetperf.model.scenario import PodHosts, Scenario
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


def refused(stage: Stage, scenario: Scenario) -> VnetperfError:
    with pytest.raises(VnetperfError) as refusal:
        stage.deploy(stage.plan(scenario))
    assert stage.left_behind() == ()
    return refusal.value


@pytest.mark.parametrize("place", ["same", "other"])
def test_an_exhausted_pool_is_one_message_and_leaves_nothing(
    place: PodHosts, stage: Stage, tmp_path: Path
) -> None:
    span = {"subnet": "10.9.0.0/24", "rangeStart": "10.9.0.2", "rangeEnd": "10.9.0.2"}
    plugin = {"type": "ptp", "ipam": {**IPAM, "ranges": [[span]]}}
    found = refused(stage, pods(stage, {"plugins": [plugin]}, tmp_path, place))
    assert "CNI plugin ptp, ADD: failed with status 1" in str(found)
    assert "no IP addresses available in range set: 10.9.0.2-10.9.0.2" in str(found)


def test_an_mtu_that_does_not_pass_is_told_before_the_run(stage: Stage, tmp_path: Path) -> None:
    plugin = {"type": "ptp", "mtu": 9000, "ipam": {**IPAM, "subnet": "10.9.0.0/24"}}
    found = refused(stage, pods(stage, {"plugins": [plugin]}, tmp_path, "other"))
    assert "the pods' interfaces have an MTU of 9000" in str(found)
    assert "packets of up to 1500 octets pass" in str(found)


def test_a_plugin_that_is_not_there_is_named(stage: Stage, tmp_path: Path) -> None:
    found = refused(stage, pods(stage, {"plugins": [{"type": "of-nobody"}]}, tmp_path, "other"))
    assert "there is no CNI plugin 'of-nobody'" in str(found)
    assert "path under [cni]" in str(found)


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


def test_a_failure_half_way_is_undone_by_del(
    stage: Stage, tmp_path: Path, own_plugin: Callable[[str], Path]
) -> None:
    own_plugin('[ $CNI_COMMAND = CHECK ] && { echo \'{"msg": "no good"}\'; exit 1; }')
    content = {"plugins": [{"type": "mine", "ipam": {**IPAM, "subnet": "10.9.0.0/24"}}]}
    found = refused(stage, pods(stage, content, tmp_path, "other"))
    assert "CNI plugin mine, CHECK: failed with status 1: no good" in str(found)


def test_a_plugin_that_others_may_write_to_is_not_started(
    stage: Stage, tmp_path: Path, own_plugin: Callable[[str], Path]
) -> None:
    own_plugin("").chmod(0o777)
    found = refused(stage, pods(stage, {"plugins": [{"type": "mine"}]}, tmp_path, "other"))
    assert isinstance(found, DutError)
    assert "CNI plugin 'mine' is not started as root" in str(found)
