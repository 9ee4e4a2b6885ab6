"""Plans and command lines of every scenario, on machines whose facts are made here.

    python -m tests.pins.plans              what differs from what was recorded
    python -m tests.pins.plans --record     record what is there today

A plan is recorded without what is as by default, so that a new option changes no line. A refusal is
recorded by its class and where it points: words may get better.
"""

from __future__ import annotations

import difflib
import json
import lzma
import sys
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tests.fakes.machine import cpus, facts
from vnetperf import config
from vnetperf.host.kernel import COMMON_MODULES
from vnetperf.model.errors import VnetperfError
from vnetperf.model.testbed import HugepageFacts, MachineFacts, NicFacts
from vnetperf.planning.planner import make_plan
from vnetperf.plugin import registry
from vnetperf.runner.scenarios import make_scenario, scenario_ids

RECORDED = Path(__file__).with_name("plans.jsonl.xz")
#: Addresses of the lab's NICs (conf/testbeds/lab.toml): the tester's, then the DUT's.
NICS = ("0000:21:00.0", "0000:22:00.0", "0000:41:00.0", "0000:42:00.0")
#: What the fakes do not name: any release that the backends take.
VERSIONS = {
    "qemu": "QEMU emulator version 7.2.17",
    "vpp": "vpp v23.10-release",
    "testpmd": "DPDK 22.11.7",
    "ovs_kernel": "ovs-vswitchd (Open vSwitch) 3.1.0",
}
TESTER_APART = """
[hosts.tester]
transport = "ssh=root@tester.example"
role = "tester"
[hosts.dut]
transport = "ssh=root@dut.example"
role = "dut"
[[cables]]
ends = ["tester:0000:21:00.0", "dut:0000:41:00.0"]
[[cables]]
ends = ["tester:0000:22:00.0", "dut:0000:42:00.0"]
"""
EXTERNAL = """
isolation = "two ports of a switch"
[external]
name = "a switch"
[[external.ports]]
tester = "eth2"
dut = "port 7"
[[external.ports]]
tester = "eth3"
dut = "port 8"
"""
#: Settings that change plans, each tried alone, on these testbeds; the others have none.
WISHED = ("laptop", "NICs")
WISHES: Mapping[str, Mapping[str, Any]] = {
    "": {},
    "vloop:vm": {"vnf": "vloop:vm"},
    "vloop:container": {"vnf": "vloop:container", "vnf_mode": "bridge"},
    "learning": {"rules": "learning"},
    "three VNFs": {"vnfs": 3},
    "tunnels of Geneve": {"tunnel": "geneve"},
    "VLANs": {"traffic": "vlan-many"},
    "multiqueue": {"switch": "multiqueue"},
    "jumbo": {"switch": "jumbo", "frame_sizes": "9000"},
    "unpinned": {"vnf_placement": "unpinned"},
}


def _complete(cores: int, nodes: int, **changes: object) -> MachineFacts:
    """A machine that has every program and every module that a backend declares."""
    programs = {name: f"/usr/bin/{name}" for name in registry.programs()}
    modules = dict.fromkeys([*(m.name for m in COMMON_MODULES), *registry.kernel_modules()], "")
    made = facts(cores, nodes=nodes)
    return made.model_copy(
        update={
            "cpus": cpus(cores, smt=2 if nodes > 1 else 1, nodes=nodes),
            "programs": {**made.programs, **programs},
            "versions": {**VERSIONS, **made.versions},
            "modules": modules,
            "images": dict.fromkeys(("vloop", "endpoint", "osmo-ggsn"), ""),
            **changes,
        }
    )


def machines() -> dict[str, MachineFacts]:
    """A laptop with two processors, and a server with two sockets and cabled NICs."""
    nics = tuple(
        NicFacts(
            address=address,
            driver="igb",
            kernel_driver="igb",
            interfaces=(f"enp{number}s0",),
            node=number // 2,
            max_vfs=7,
            iommu_group=number,
        )
        for number, address in enumerate(NICS)
    )
    pools = tuple(HugepageFacts(node=n, size_kb=2048, total=4096, free=4096) for n in (0, 1))
    server = _complete(16, 2, nics=nics, hugepages=pools)
    laptop = _complete(2, 1, slices="", memory_free_kb={0: 8 << 20})
    return {"laptop": laptop, "server": server}


def testbeds(folder: Path) -> dict[str, tuple[str, MachineFacts]]:
    """Name of a pin's testbed -> its file, and the facts that are planned with."""
    made = machines()
    apart, external = folder / "tester-apart.toml", folder / "external.toml"
    apart.write_text(TESTER_APART)
    external.write_text(EXTERNAL)
    laptop, server = made["laptop"], made["server"]
    return {
        "laptop": ("local", laptop),
        "two hosts": (
            "two-hosts",
            laptop.model_copy(update={"hosts": {"east": laptop, "west": laptop}}),
        ),
        "server": ("local", server),
        "NICs": ("lab", server),
        "external": (str(external), laptop),
        "tester apart": (
            str(apart),
            server.model_copy(update={"hosts": {"tester": server, "dut": server}}),
        ),
    }


def plans(folder: Path) -> Iterator[tuple[str, Any]]:
    """Name of a pin -> the plan as JSON, or its refusal."""
    for where, (testbed, machine) in testbeds(folder).items():
        for wish, settings in WISHES.items():
            if wish and where not in WISHED:
                continue
            loaded = config.load({"testbed": testbed, "preset": "smoke", **settings})
            for name in scenario_ids():
                try:
                    made = make_plan(make_scenario(name, loaded), loaded.testbed, machine)
                    text: Any = made.model_dump(mode="json", exclude_defaults=True)
                    text.pop("testbed", None)  # the file's own, pinned by the schema
                except VnetperfError as error:
                    text = {"refused": type(error).__name__, "where": error.where}
                yield f"{name} on {where}" + (f", {wish}" if wish else ""), text


def lines(pins: Iterator[tuple[str, Any]], folder: Path) -> list[str]:
    """One line a pin, without the folder that testbeds were written to."""
    return [
        json.dumps([name, plan], sort_keys=True).replace(str(folder), "FOLDER")
        for name, plan in pins
    ]


def recorded() -> list[str]:
    """The lines as they were recorded."""
    return lzma.decompress(RECORDED.read_bytes()).decode().splitlines()


def differences(was: list[str], now: list[str]) -> Iterator[str]:
    """What became of which plan, value by value, readable."""
    old, new = (dict(map(json.loads, each)) for each in (was, now))
    for name in dict.fromkeys(chain(old, new)):
        if old.get(name) != new.get(name):
            before, after = (
                json.dumps(each.get(name), indent=1, sort_keys=True).splitlines()
                for each in (old, new)
            )
            yield f"== {name}"
            changes = islice(difflib.unified_diff(before, after, n=0, lineterm=""), 2, None)
            yield from (line for line in changes if not line.startswith("@@"))


def main(folder: Path, *, record: bool) -> int:
    """Print the differences; record when told to."""
    now = lines(plans(folder), folder)
    found = list(differences(recorded(), now)) if RECORDED.exists() else []
    print(*found[:200], f"{len(now)} plans, {len(found)} lines differ", sep="\n")
    if record:
        RECORDED.write_bytes(lzma.compress("\n".join(now).encode(), preset=9))
    return bool(found)


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as there:
        sys.exit(main(Path(there), record="--record" in sys.argv))
