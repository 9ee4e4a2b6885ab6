"""A mobile core in a container: which processors it has, and how its thread is found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from unittest.mock import MagicMock, patch

import pytest

from tests.fakes.machine import facts
from vnetperf import config
from vnetperf.model.errors import DutError
from vnetperf.model.options import MobileCore, StackProgram, UeAttach
from vnetperf.model.scenario import Placement
from vnetperf.runner.scenarios import make_scenario
from vnetperf.vnfs.vepc import container
from vnetperf.vnfs.vepc.container import ContainerPrograms, Vepc
from vnetperf.vnfs.vepc.stack import MobileCoreInterfaces

Cpus = tuple[int, ...]
STACK = MobileCore(
    name="mine",
    programs=(StackProgram(role="core", argv=("/opt/a-core-with-a-long-name",), ready="up"),),
    gtpu_modes={"tun": "tun"},
    tun="tun0",
)


def mobile_core(
    tmp_path: Path,
    cores: Mapping[str, Cpus],
    unpinned: Mapping[str, Cpus] | None = None,
    stack: MobileCore = STACK,
) -> Vepc:
    machine, plan = MagicMock(), MagicMock()
    machine.subdir.return_value = tmp_path
    plan.placement = Placement(
        mode="dedicated",
        reason="",
        cores=dict(cores),
        unpinned=dict(unpinned or {}),
        housekeeping=(0, 1),
    )
    scenario = make_scenario("vepc_bridge", config.load({}, environment={}))
    plan.scenario = scenario.model_copy(update={"stack": stack})
    return Vepc(machine, plan, 0)


def started(vepc: Vepc) -> tuple[MagicMock, MagicMock]:
    """Start its programs; how they were spawned, and pinned once they were up."""
    running = MagicMock(pid=7, argv=("/usr/bin/python3", "-c", "..."))
    running.log_text.return_value = "it is up"
    with (
        patch.object(vepc, "container") as place,
        patch.object(container.threads, "pin_process") as pin,
    ):
        place.spawn.return_value = running
        place.statistics.return_value = {"tun0": MagicMock()}
        vepc.mobile_core = ContainerPrograms(vepc)
        vepc.mobile_core.start(MobileCoreInterfaces("gn0", "sgi0"))
    return place.spawn, pin


def test_its_thread_keeps_to_the_processor_that_the_plan_gives_it(tmp_path: Path) -> None:
    vepc = mobile_core(tmp_path, {"vnf0": (3,), "tester": (2,)})
    assert vepc.container.cpus == (0, 3)
    spawn, pin = started(vepc)
    assert spawn.call_args.kwargs["cpus"] == (3,)
    pin.assert_called_once_with(7, (3,))


def test_an_unpinned_one_is_wherever_the_kernel_puts_it(tmp_path: Path) -> None:
    vepc = mobile_core(tmp_path, {"tester": (2,)}, {"vnf0": (0, 1, 2, 3)})
    assert vepc.container.cpus == (0, 1, 2, 3)
    spawn, pin = started(vepc)
    assert spawn.call_args.kwargs["cpus"] == ()
    pin.assert_not_called()


def test_its_thread_is_found_by_the_programs_name_whatever_started_it(tmp_path: Path) -> None:
    vepc = mobile_core(tmp_path, {"vnf0": (3,)})
    started(vepc)  # with a cpuset, Python joins it and becomes the program
    (poller,) = vepc.pollers()
    assert (poller.pid, poller.thread_prefix) == (7, "a-core-with-a-l")


@pytest.mark.parametrize("teid", [-1, 1 << 32])
def test_an_endpoint_that_is_none_is_told_of_the_attach_command(tmp_path: Path, teid: int) -> None:
    attach = UeAttach(by="command", argv=("attach",))
    vepc = mobile_core(tmp_path, {"vnf0": (3,)}, stack=STACK.model_copy(update={"attach": attach}))
    started(vepc)
    said = f'{{"ue": "198.18.0.1", "teid": {teid}}}\n'
    with (
        patch.object(vepc.machine, "run", return_value=said),
        patch.object(vepc, "check_alive"),
        pytest.raises(DutError, match="attach command failed"),
    ):
        vepc.wait_ready(1.0)


@pytest.mark.parametrize(("driver", "refused"), [("vfio-pci", True), ("kernel", False)])
def test_functions_of_pci_are_refused_before_anything_is_deployed(
    driver: str, *, refused: bool
) -> None:
    asked = make_scenario(
        "vepc_sriov", config.load({"set": (f"vf_driver={driver}",)}, environment={})
    )
    missing = Vepc.missing(facts(programs={"osmo-ggsn": "/usr/bin/osmo-ggsn"}), asked)
    assert ("--set vf_driver=kernel" in missing) is refused
