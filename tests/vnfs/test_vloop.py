"""The command line of testpmd."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.machine import PROGRAMS
from vnetperf.model.plan import Placement
from vnetperf.model.ports import Attachment, VnfPort
from vnetperf.vnfs.vloop import Vloop


def argv(main: int, worker: int, node: int) -> list[str]:
    machine: Any = SimpleNamespace(
        subdir=lambda name: Path("/run") / name, facts=SimpleNamespace(programs=PROGRAMS)
    )
    placement = Placement(
        mode="dedicated", reason="", cores={"vnf0": (worker,)}, housekeeping=(main,), node=node
    )
    plan: Any = SimpleNamespace(placement=placement, scenario=SimpleNamespace(vnf_mode="io"))
    ends = [
        Attachment(port=VnfPort(vnf=0, index=n), kind="vhost-user", socket=f"/run/{n}.sock")
        for n in (0, 1)
    ]
    return Vloop(machine, plan, 0)._argv((ends[0], ends[1]))


@pytest.mark.parametrize(("node", "memory"), [(0, "128"), (1, "0,128"), (2, "0,0,128")])
def test_memory_is_taken_on_the_node_of_the_pollers(node: int, memory: str) -> None:
    line = argv(8, 9, node)
    assert line[line.index("--socket-mem") + 1] == memory
    assert {"--no-numa", f"--socket-num={node}"} <= set(line)
    assert "-m" not in line


@pytest.mark.parametrize(
    ("main", "worker", "lcores", "main_lcore"),
    [
        (8, 9, "8@8,9@9", 8),
        (0, 0, "1@0,0@0", 1),
        (3, 3, "0@3,3@3", 0),
        (200, 201, "0@200,127@201", 0),
    ],
)
def test_lcores_have_the_numbers_of_their_processors_where_they_can(
    main: int, worker: int, lcores: str, main_lcore: int
) -> None:
    line = argv(main, worker, 0)
    assert f"--lcores={lcores}" in line
    assert f"--main-lcore={main_lcore}" in line
