"""What a machine can carry, and what is said when it cannot."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.fakes.backends import FakeSwitch
from tests.fakes.machine import PROGRAMS, facts
from vnetperf.deployment.deploy import dedicated_facts, read_part_facts
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import (
    CapabilityError,
    ConfigError,
    DutError,
    GeneratorError,
    HostError,
)
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import NicUse, Plan, Scenario
from vnetperf.model.testbed import CoresConfig, HugepageFacts, Limits, MachineFacts, Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.planning.limits import estimate_needs, require_limits
from vnetperf.planning.planner import make_loop_plan, make_plan
from vnetperf.plugin import registry
from vnetperf.plugin.vnf import VnfMemory
from vnetperf.pytest_plugin.plans import describe

pytestmark = pytest.mark.usefixtures("fakes")


def scenario(vswitch: str = "fake", deployment: str = "pvp", **changes: Any) -> Scenario:
    return Scenario(
        deployment=make_deployment(deployment, changes.pop("vnfs", None)),
        vswitch=vswitch,
        vnf=changes.pop("vnf", "fakevnf"),
        traffic=changes.pop("traffic", TrafficProfile()),
        generator=changes.pop("generator", "fakegen"),
        **changes,
    )


def plan(wanted: Scenario, machine: MachineFacts | None = None, **testbed: Any) -> Plan:
    return make_plan(wanted, Testbed(**testbed), machine or facts())


def refusal(wanted: Scenario, machine: MachineFacts | None = None, **testbed: Any) -> str:
    with pytest.raises(CapabilityError) as caught:
        plan(wanted, machine, **testbed)
    return str(caught.value)


def test_a_plan_says_wire_cores_and_memory() -> None:
    made = plan(scenario(deployment="pvvp"))
    assert made.wire == "memif"
    assert made.refusal_is_loss is True
    assert set(made.placement.cores) == {"tester", "pmd", "vnf0", "vnf1"}
    (memory,) = made.memory
    assert (memory.size_kb, memory.pages) == (2048, 64)
    assert memory.users == {"vnf0": 64, "vnf1": 64}


def test_nothing_in_hugepages_is_asked_for_where_nothing_needs_them() -> None:
    assert plan(scenario(deployment="phy2phy")).memory == ()


def test_memory_is_reserved_where_the_pollers_are() -> None:
    machine = facts(12, nodes=2)
    made = plan(scenario(), machine, cores=CoresConfig(allowed=tuple(range(5, 12))))
    assert made.placement.node == 1
    assert [m.node for m in made.memory] == [1]


@pytest.mark.parametrize(
    ("vswitch", "deployment", "home", "fixed"),
    [
        ("dpdk", "phy2phy", {"dpdk": 256}, {"dpdk": 256}),
        ("testpmd", "phy2phy", {"testpmd": 128}, {"testpmd": 16}),
        ("testpmd", "pvp", {"testpmd": 128, "vnf0": 128}, {"testpmd": 16}),
    ],
)
def test_memory_is_reserved_where_a_library_takes_it(
    vswitch: str, deployment: str, home: dict[str, int], fixed: dict[str, int]
) -> None:
    """DPDK's memif has some on node 0, wherever the pollers are."""
    wanted = scenario(vswitch, deployment, vnf="vloop", generator="loadgen", wire="memif")
    on_second = CoresConfig(allowed=tuple(range(6, 12)))
    made = plan(wanted, facts(12, nodes=2), cores=on_second)
    assert made.placement.node == 1
    assert {memory.node: memory.users for memory in made.memory} == {0: fixed, 1: home}
    by_kernel = plan(
        wanted.model_copy(update={"wire": "veth"}), facts(12, nodes=2), cores=on_second
    )
    assert [memory.node for memory in by_kernel.memory] == [1]


def pools(free: dict[int, int], size_kb: int = 2048) -> tuple[HugepageFacts, ...]:
    return tuple(
        HugepageFacts(node=n, size_kb=size_kb, total=pages, free=pages) for n, pages in free.items()
    )


@pytest.mark.parametrize(
    ("changes", "node"),
    [
        # Nodes that have processors and no memory; the kernel lists no pools of them.
        ({"hugepages": pools({1: 0, 5: 0}), "memory_free_kb": {1: 16 << 20, 5: 16 << 20}}, 1),
        ({"memory_free_kb": {0: 0, 1: 0, 2: 16 << 20}}, 2),
        # All of node 0 was given away as pages of another size at boot.
        (
            {
                "hugepages": (*pools(dict.fromkeys(range(8), 0)), *pools({0: 60}, 1048576)),
                "memory_free_kb": {0: 40_000, 1: 60 << 20},
            },
            1,
        ),
        # Pools that somebody uses, all but for one.
        (
            {
                "hugepages": pools({0: 5, 1: 0, 2: 40, 3: 8}),
                "memory_free_kb": dict.fromkeys(range(8), 9),
            },
            2,
        ),
        ({"limits": Limits(nodes=(3, 4))}, 3),
        ({}, 0),
    ],
)
def test_pollers_are_where_their_pages_can_be_had(changes: dict[str, Any], node: int) -> None:
    made = plan(scenario(), facts(64, nodes=8, **changes))
    assert made.placement.mode == "dedicated"
    assert made.placement.node == node
    assert [memory.node for memory in made.memory] == [node]
    alone = make_loop_plan(scenario(generator="loadgen"), Testbed(), facts(64, nodes=8, **changes))
    assert not alone.memory  # and needs none


def test_memory_that_a_library_takes_elsewhere_cannot_be_avoided() -> None:
    wanted = scenario("dpdk", "phy2phy", generator="loadgen", wire="memif")
    bare = facts(16, nodes=2, memory_free_kb={0: 0, 1: 16 << 20})
    text = refusal(wanted, bare)
    for words in ("256 MiB", "node 0", "only 0 MiB are free", "dpdk"):
        assert words in text
    assert "another wire" in text
    by_kernel = plan(wanted.model_copy(update={"wire": "veth"}), bare)
    assert [memory.node for memory in by_kernel.memory] == [1]


@pytest.mark.parametrize("wires", [("memif", "veth"), ("memif", "nic", "veth")])
def test_the_next_wire_is_taken_where_the_first_ones_memory_cannot_be_had(
    wires: tuple[str, ...],
) -> None:
    wanted = scenario("dpdk", "phy2phy", generator="loadgen")
    bare = facts(16, nodes=2, memory_free_kb={0: 0, 1: 16 << 20})
    made = plan(wanted, bare, wires=wires)
    assert made.wire == "veth"
    assert [memory.node for memory in made.memory] == [1]
    (why,) = made.wires_without_memory.values()
    assert [*made.wires_without_memory] == ["memif"]
    assert "on node 0" in why
    (line,) = [line for line in describe(made) if line.startswith("wires ")]
    assert line.split()[1] == "veth,"
    assert f"not memif: {why}" in line
    rich = plan(wanted, facts(16, nodes=2), wires=wires)
    assert (rich.wire, rich.wires_without_memory) == ("memif", {})
    with pytest.raises(CapabilityError, match="on node 0"):  # named, it is not exchanged
        plan(wanted.model_copy(update={"wire": "memif"}), bare, wires=wires)


def test_of_wires_that_all_lack_memory_the_first_ones_reason_is_told() -> None:
    wanted = scenario("dpdk", "phy2phy", generator="loadgen")
    bare = facts(16, nodes=2, memory_free_kb={0: 0, 1: 0})
    assert "must become hugepages on node" in refusal(wanted, bare, wires=("memif", "veth"))
    only = facts(16, nodes=2, memory_free_kb={0: 0, 1: 16 << 20})
    assert "must become hugepages on node 0" in refusal(wanted, only, wires=("memif",))


def test_a_limit_of_hugepages_that_one_wire_exceeds_is_kept_by_the_next() -> None:
    wanted = scenario("dpdk", "phy2phy", generator="loadgen")
    on_second = CoresConfig(allowed=tuple(range(6, 12)))
    for limit_mib, wire in ((1024, "memif"), (300, "veth")):
        few = facts(12, nodes=2, limits=Limits(hugepages_kb={2048: limit_mib << 10}))
        made = plan(wanted, few, cores=on_second, wires=("memif", "veth"))
        assert made.wire == wire, limit_mib


def test_vnfs_elsewhere_are_where_their_pages_can_be_had() -> None:
    machine = facts(24, nodes=3, memory_free_kb={0: 16 << 20, 1: 0, 2: 16 << 20})
    made = plan(scenario(vnf_placement="remote"), machine)
    assert (made.placement.node, made.placement.vnf_node) == (0, 2)


def test_vnfs_that_may_be_anywhere_need_no_memory_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.fakes.backends.FakeVnf.far_mib", 16)
    machine = facts(24, nodes=3, memory_free_kb={0: 16 << 20, 1: 0, 2: 16 << 20})

    def users() -> dict[int, dict[str, int]]:
        made = plan(scenario(vnf_placement="unpinned"), machine)
        return {memory.node: memory.users for memory in made.memory}

    assert users() == {0: {"vnf0": 64}, 2: {"vnf0": 16}}
    _set_memory(monkeypatch, VnfMemory(64, floats=True))
    assert users() == {0: {"vnf0": 64}, 2: {"vnf0": 64}}


def test_the_first_reason_is_told_where_no_node_has_the_pages() -> None:
    text = refusal(scenario(), facts(16, nodes=2, memory_free_kb={0: 9 << 10, 1: 0}))
    for words in ("64 MiB", "node 0", "only 9 MiB are free"):
        assert words in text


@pytest.mark.parametrize("size_kb", [64, 32768, 524288, 16777216])
def test_hugepages_are_of_the_sizes_that_the_kernel_has(size_kb: int) -> None:
    """Kernels with pages of 64 KiB have hugepages of 512 MiB and 16 GiB, and no others."""
    machine = facts(hugepages=pools({0: 0}, size_kb), memory_free_kb={0: 64 << 20})
    (memory,) = plan(scenario(), machine, hugepage_kb=size_kb).memory
    assert (memory.size_kb, memory.pages) == (size_kb, max(1, (64 << 10) // size_kb))
    text = refusal(scenario(), machine)
    assert "2048 KiB on node 0" in text
    assert f"accepted: {size_kb} on node 0" in text
    assert "hugepage_kb" in text


def test_a_control_groups_limit_of_hugepages_is_known_before() -> None:
    few = Limits(hugepages_kb={2048: 32 << 10})
    assert "lets it have 32 MiB" in refusal(scenario(), facts(limits=few))
    assert plan(scenario(), facts(limits=Limits(hugepages_kb={2048: 64 << 10, 1048576: 0})))


def test_a_control_groups_share_of_processors_is_known_before() -> None:
    """Pollers take all that there is, and would be stopped in each period."""
    text = refusal(scenario(), facts(limits=Limits(processors=2.5)))
    assert "time of 3 processors" in text
    assert "2.5" in text
    assert plan(scenario(), facts(limits=Limits(processors=3))).placement.pollers == (1, 2, 3)
    talking = scenario().model_copy(update={"sockets": True})  # nobody polls
    assert plan(talking, facts(limits=Limits(processors=1.5)))
    alone = scenario(generator="loadgen")
    with pytest.raises(CapabilityError, match="the whole time of 1 processors"):
        make_loop_plan(alone, Testbed(), facts(limits=Limits(processors=0.5)))


def test_a_control_groups_limit_of_memory_is_known_before() -> None:
    assert "have 100 MiB of memory more" in refusal(
        scenario(), facts(limits=Limits(memory_kb=100 << 10))
    )
    assert plan(scenario(), facts(limits=Limits(memory_kb=1 << 20)))


def test_memory_that_guests_and_hugepages_take_counts_where_the_limit_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _set_memory(monkeypatch, VnfMemory(ordinary_mib=2048, floats=True))
    few = Limits(memory_kb=1 << 20)
    assert "2304 MiB of memory are needed" in refusal(scenario(), facts(limits=few))
    assert plan(scenario(), facts(limits=Limits(memory_kb=3 << 20)))
    _set_memory(monkeypatch, VnfMemory(512, floats=True))
    small = Limits(memory_kb=600 << 10)
    assert plan(scenario(), facts(limits=small))  # hugepages are counted elsewhere
    counted = small.model_copy(update={"hugepages_in_memory": True})
    text = refusal(scenario(), facts(limits=counted))
    assert "768 MiB of memory with hugepages" in text


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        ({"tasks": 40}, "processes and threads are needed"),
        (
            {"address_kb": 64 << 20},
            "MiB of address space, and the kernel lets a process have 65536",
        ),
        ({"data_kb": 64 << 10}, "MiB of private memory"),
        ({"file_kb": 1 << 10}, "MiB in a file of memory"),
        ({"open_files": 200}, "up to 256 open files"),
    ],
)
def test_each_limit_of_processes_is_known_before(limit: dict[str, int], says: str) -> None:
    text = refusal(scenario(), facts(limits=Limits.model_validate(limit)))
    assert says in text
    (name,) = limit
    assert plan(scenario(), facts(limits=Limits.model_validate({name: 1 << 32})))


def test_locked_memory_is_for_what_hardware_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    few = facts(limits=Limits(locked_kb=64))
    made = plan(scenario(), few)  # no NIC is in it
    nic = NicUse(wire=0, side="dut", pci="0000:01:00.0", driver="vfio-pci", kernel=False)
    by_program = made.model_copy(update={"nics": (nic,)})
    with pytest.raises(CapabilityError, match="64 MiB of locked memory"):
        require_limits([by_program], few)
    in_kernel = made.model_copy(update={"nics": (nic.model_copy(update={"kernel": True}),)})
    require_limits([in_kernel], few)


def test_ranks_of_pods_are_processes() -> None:
    made = plan(scenario())
    pods = make_deployment("bmp2bmp")
    many = scenario().model_copy(
        update={"deployment": pods, "sockets": True, "pods": 8, "ranks": 8, "vswitch": "macvlan"}
    )
    few = many.model_copy(update={"ranks": 1})
    one, all_ = (
        estimate_needs(made.model_copy(update={"scenario": of}), facts()).tasks
        for of in (few, many)
    )
    assert all_ - one == 4 * (64 - 8)


def test_limits_are_of_all_that_one_machine_deploys() -> None:
    enough_for_one = facts(limits=Limits(tasks=60))
    made = plan(scenario(), enough_for_one)
    with pytest.raises(CapabilityError, match="processes and threads"):
        require_limits([made, made], enough_for_one)


def test_threads_on_another_node_get_their_little_memory_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.fakes.backends.FakeVnf.far_mib", 16)
    asked = CoresConfig(policy="shared", allowed=(4, 5, 6))
    made = plan(scenario(deployment="pvvp"), facts(10, nodes=2), cores=asked)
    assert made.placement.far_nodes == (1,)
    users = {memory.node: memory.users for memory in made.memory}
    assert users == {0: {"vnf0": 64, "vnf1": 64}, 1: {"vnf0": 16, "vnf1": 16}}


def _set_memory(monkeypatch: pytest.MonkeyPatch, memory: VnfMemory) -> None:
    monkeypatch.setattr("tests.fakes.backends.FakeVnf.memory", lambda *_: memory)


def test_memory_of_vnfs_moves_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def users(where: str) -> dict[tuple[int, int], dict[str, int]]:
        made = plan(scenario(vnf_placement=where), facts(10, nodes=2))
        return {(memory.node, memory.size_kb): memory.users for memory in made.memory}

    assert users("local") == {(0, 2048): {"vnf0": 64}}
    assert users("remote") == {(1, 2048): {"vnf0": 64}}
    assert users("unpinned") == {(0, 2048): {"vnf0": 64}}
    monkeypatch.setattr("tests.fakes.backends.FakeVnf.far_mib", 16)
    assert users("unpinned") == {(0, 2048): {"vnf0": 64}, (1, 2048): {"vnf0": 16}}
    assert users("remote") == {(1, 2048): {"vnf0": 64}}
    _set_memory(monkeypatch, VnfMemory(64, floats=True))
    assert users("unpinned") == {(0, 2048): {"vnf0": 64}, (1, 2048): {"vnf0": 64}}
    _set_memory(monkeypatch, VnfMemory(64, 1048576, floats=True))
    assert users("local") == {(0, 1048576): {"vnf0": 64}}
    _set_memory(monkeypatch, VnfMemory(64, floats=True, node=1))  # as --guest node=1 has it
    assert users("local") == users("unpinned") == {(1, 2048): {"vnf0": 64}}


def test_pages_of_a_size_that_the_kernel_has_not_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _set_memory(monkeypatch, VnfMemory(64, 1048576))
    small = HugepageFacts(node=0, size_kb=2048, total=0, free=0)
    text = refusal(scenario(), facts(hugepages=(small,)))
    assert "1048576 KiB on node 0" in text
    assert "accepted: 2048 on node 0" in text


def test_vnfs_are_not_looked_at_where_there_are_none() -> None:
    assert plan(scenario("taponly", "phy2phy"))


def test_a_missing_program_is_named_with_its_package() -> None:
    text = refusal(scenario("needy"))
    for words in ("frobnicate is not installed", "frobnicate-tools", "pvp_needy"):
        assert words in text
    assert plan(scenario("needy"), facts(programs={**PROGRAMS, "frobnicate": "/bin/frobnicate"}))


@pytest.mark.parametrize(
    ("program", "deployment"),
    [("ovs-vswitchd-dpdk", "phy2phy"), ("dpdk-testpmd", "pvp"), ("gcc", "phy2phy")],
)
def test_the_shipped_backends_name_what_is_missing(program: str, deployment: str) -> None:
    wanted = scenario("dpdk", deployment, vnf="vloop", generator="loadgen")
    assert plan(wanted).commands["ovs-ofctl"]
    text = refusal(wanted, facts(programs={**PROGRAMS, program: ""}))
    assert f"{program} is not installed" in text
    assert "make deps" in text


def test_without_root_the_cure_is_told() -> None:
    text = refusal(scenario(), facts(is_root=False))
    assert "not root" in text
    assert "sudo" in text


def test_root_without_capabilities_is_told_which_it_lacks() -> None:
    """As in a container, or in systemd-nspawn."""
    text = refusal(scenario(), facts(is_root=False, lacks=("CAP_NET_ADMIN",)))
    assert "CAP_NET_ADMIN" in text
    assert "sudo" not in text


def test_attachments_that_do_not_meet() -> None:
    text = refusal(scenario("taponly"))
    for words in ("taponly offers tap, macvtap", "fakevnf accepts vhost-user", "--vnf"):
        assert words in text


def test_parallel_chains_on_a_switch_that_cannot_tell_them_apart() -> None:
    text = refusal(scenario("nochains", "pvpv"))
    assert "nochains cannot" in text
    assert "chains" in text
    assert plan(scenario("nochains", "pvvp"))


def test_the_first_wire_both_ends_accept_is_chosen() -> None:
    assert plan(scenario("vethonly")).wire == "veth"
    assert plan(scenario("vethonly")).refusal_is_loss is False
    assert plan(scenario(), wires=("veth", "memif")).wire == "veth"
    assert plan(scenario(wire="veth")).wire == "veth"


def test_a_mode_may_need_wires_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    can = FakeSwitch.capabilities.model_copy(
        update={"modes": ("any", "kernel"), "mode_wires": {"kernel": ("veth",)}}
    )
    monkeypatch.setattr(FakeSwitch, "capabilities", can)
    asked = scenario(deployment="phy2phy", options=SwitchOptions(mode="kernel"))
    assert plan(asked, wires=("memif", "veth")).wire == "veth"
    assert "memif: fake cannot plug it in" in refusal(asked, wires=("memif",))


def test_no_wire_in_common() -> None:
    text = refusal(scenario("niconly"))
    assert "memif: niconly cannot plug it in" in text
    assert "veth: niconly cannot plug it in" in text
    assert "niconly" not in refusal(scenario(wire="broken")).split("broken: ")[0].split("; ")[-1]


def test_a_wire_the_machine_cannot_have() -> None:
    text = refusal(scenario(wire="broken"))
    assert "broken:" in text
    assert "--wire" in text


def test_an_unknown_wire_is_told_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="unknown kind of wire 'rj45'") as caught:
        plan(scenario(wire="rj45"))
    text = str(caught.value)
    with pytest.raises(ConfigError, match="'memiff'"):  # even where another one fits
        plan(scenario(), wires=("memif", "memiff"))
    assert "memif, nic, veth" in text


def test_memory_that_is_not_there() -> None:
    text = refusal(scenario("hungry"))
    assert "only 16384 MiB are free" in text
    text = refusal(scenario(), facts(memory_free_kb={0: 1024}))
    for words in ("64 MiB", "node 0", "only 1 MiB are free"):
        assert words in text


def test_pages_reserved_already_need_no_free_memory() -> None:
    reserved = (HugepageFacts(node=0, size_kb=2048, total=32, free=32),)
    assert plan(scenario(), facts(hugepages=reserved, memory_free_kb={0: 0}))
    used = (HugepageFacts(node=0, size_kb=2048, total=32, free=31),)
    assert "2 MiB must become" in refusal(
        scenario(), facts(hugepages=used, memory_free_kb={0: 1024})
    )


def test_a_page_size_the_kernel_does_not_have() -> None:
    only_small = (HugepageFacts(node=0, size_kb=2048, total=0, free=0),)
    text = refusal(scenario(), facts(hugepages=only_small), hugepage_kb=1048576)
    assert "1048576 KiB on node 0" in text
    assert "accepted: 2048" in text


def test_gigantic_pages_are_rounded_up_for_each_user() -> None:
    (memory,) = plan(scenario(deployment="pvvp"), hugepage_kb=1048576).memory
    assert memory.pages == 2


def test_too_few_cores_where_sharing_is_refused() -> None:
    text = refusal(scenario(), facts(3), cores=CoresConfig(policy="dedicated"))
    assert "dedicated cores" in text


@pytest.mark.parametrize("policy", ["auto", "shared"])
def test_more_workers_than_processors_are_refused_not_made_fewer(
    policy: Literal["auto", "shared"],
) -> None:
    wanted = scenario(deployment="phy2phy", options=SwitchOptions(workers=3))
    said = refusal(wanted, facts(2), cores=CoresConfig(policy=policy))
    assert "3 workers" in said
    assert "there are 2" in said
    two = scenario(deployment="phy2phy", options=SwitchOptions(workers=2))
    assert len(plan(two, facts(2)).placement.cores["pmd"]) == 2


@pytest.mark.parametrize("policy", ["auto", "shared"])
def test_more_threads_of_the_generator_than_processors_are_refused(
    policy: Literal["auto", "shared"],
) -> None:
    wanted = scenario("dpdk", "phy2phy", generator="loadgen")
    four = CoresConfig(policy=policy, tester=4)
    said = "4 workers need as many processors; there are 2 for them"
    text = refusal(wanted, facts(3), cores=four)
    assert said in text
    assert "set fewer under cores.tester" in text
    with pytest.raises(CapabilityError, match="there are 3 for them"):
        make_loop_plan(wanted, Testbed(cores=four), facts(3))
    two = plan(wanted, facts(3), cores=four.model_copy(update={"tester": 2}))
    assert two.placement.cores["tester"] == (1, 2)


@pytest.mark.parametrize("generator", ["loadgen", "trex"])
@pytest.mark.parametrize("cpus", [1, 2])
def test_a_generators_own_threads_share_what_there_is(
    generator: str, cpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry.load("traffic", "trex"), "missing", lambda *_: "")
    wanted = scenario(deployment="phy2phy", generator=generator)
    assert len(plan(wanted, facts(cpus)).placement.cores["tester"]) <= cpus
    assert make_loop_plan(wanted, Testbed(), facts(cpus)).placement.housekeeping


@pytest.mark.parametrize("key", ["vswitch", "vnf", "generator"])
def test_an_unknown_backend_is_a_config_error(key: str) -> None:
    with pytest.raises(ConfigError, match="nonesuch") as caught:
        plan(scenario(**{key: "nonesuch"}))
    assert caught.value.accepted


def test_traffic_that_varies_what_tells_chains_apart() -> None:
    varied = TrafficProfile(flows=4, vary=("eth_dst",))
    wanted = {"vnf": "vloop", "generator": "loadgen", "traffic": varied}
    assert "set or vary another field" in refusal(scenario("dpdk", "pvpv", **wanted))
    assert plan(scenario("dpdk", "pvp", **wanted))


def test_traffic_that_only_the_generator_can_judge() -> None:
    long = TrafficProfile(name="long", imix="aag", flows=1 << 20, vary=("eth_src",))
    text = refusal(scenario("dpdk", vnf="vloop", generator="pktgen", traffic=long))
    assert "pktgen cannot send this traffic" in text
    assert "(at most 1048576)" in text
    assert "traffic profile long" in text


def test_a_vnf_mode_that_does_not_exist_is_told_with_those_that_do() -> None:
    text = refusal(scenario("dpdk", vnf="vloop", vnf_mode="mirror"))
    assert "'mirror'; accepted: io, mac, macswap" in text


def test_a_loop_plan_needs_no_vswitch_but_the_generators_wire() -> None:
    made = make_loop_plan(scenario(""), Testbed(wires=("veth",)), facts())
    assert made.wire == "veth"
    assert set(made.placement.cores) == {"tester"}
    with pytest.raises(CapabilityError, match="gcc"):
        make_loop_plan(
            scenario("", generator="loadgen"), Testbed(), facts(programs={**PROGRAMS, "gcc": ""})
        )
    with pytest.raises(CapabilityError, match="root"):
        make_loop_plan(scenario(""), Testbed(), facts(is_root=False))


def test_a_generator_gets_the_threads_that_the_testbed_gives_it() -> None:
    cores = CoresConfig(tester=3)
    asked = scenario(deployment="phy2phy", generator="loadgen")
    made = plan(asked, facts(12), cores=cores)
    assert len(set(made.placement.cores["tester"])) == 3
    assert made.placement.mode == "dedicated"
    loop = make_loop_plan(asked, Testbed(cores=cores), facts(12))
    assert len(loop.placement.cores["tester"]) == 3


def test_a_generator_of_one_thread_refuses_more() -> None:
    said = refusal(scenario(deployment="phy2phy"), facts(12), cores=CoresConfig(tester=2))
    for words in ("fakegen", "1 thread", "2", "set cores.tester"):
        assert words in said


GOVERNED = tuple(c.model_copy(update={"governors": ("performance",)}) for c in facts().cpus)


def test_dedicated_cores_get_the_governor_and_no_interrupts() -> None:
    cores = CoresConfig(policy="dedicated", governor="performance", irqs="off-pollers")
    made = plan(scenario(), facts(cpus=GOVERNED), cores=cores)
    pollers = ", ".join(map(str, made.placement.pollers))
    assert "governor performance" in made.commands[f"processors {pollers}"]
    assert "interrupts elsewhere" in made.commands[f"processors {pollers}"]
    assert not any("processors" in command for command in plan(scenario()).commands)


def test_shared_cores_keep_governor_and_interrupts() -> None:
    cores = CoresConfig(policy="shared", governor="performance", irqs="off-pollers")
    made = plan(scenario(), cores=cores)
    assert not any("processors" in command for command in made.commands)
    assert "left as they are" in dedicated_facts(made)["processors"]


@pytest.mark.parametrize(("cpus", "accepted"), [(GOVERNED, "performance"), (facts().cpus, "none")])
def test_a_governor_that_is_not_there_is_refused(cpus: Any, accepted: str) -> None:
    cores = CoresConfig(policy="dedicated", governor="ondemand")
    told = refusal(scenario(), facts(cpus=cpus), cores=cores)
    assert "no frequency governor ondemand" in told
    assert f"accepted: {accepted}" in told


def test_facts_that_cannot_be_read_end_nothing() -> None:
    def odd() -> dict[str, object]:
        return {"version": "".splitlines()[0]}

    assert read_part_facts(lambda: {"version": "3"}) == {"version": "3"}
    assert read_part_facts(odd)["unreadable"].startswith("unknown: IndexError")


@pytest.mark.parametrize("printed", ["", "unknown: it printed nothing", "(null)", "9" * 300, "\n"])
@pytest.mark.parametrize(
    ("vswitch", "program"),
    [("dpdk", "ovs-vswitchd-dpdk"), ("ovs", "ovs-vswitchd"), ("vpp", "vpp")],
)
def test_an_odd_version_keeps_its_own_scenarios_from_being_planned(
    vswitch: str, program: str, printed: str
) -> None:
    wanted = scenario(vswitch, "phy2phy", generator="loadgen")
    programs = {**PROGRAMS, program: f"/usr/bin/{program}"}
    assert refusal(wanted, facts(programs=programs, versions={program: printed}))
    assert refusal(wanted, facts(programs=programs, versions={}))


@pytest.mark.parametrize("error", [HostError("odd"), DutError("odd"), GeneratorError("odd")])
def test_what_a_backend_cannot_read_is_a_reason_and_no_end(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> str:
        raise error

    monkeypatch.setattr("tests.fakes.backends.FakeVnf.missing", fail)
    assert "odd" in refusal(scenario(), facts())


@pytest.mark.parametrize("vswitch", ["dpdk", "testpmd"])
def test_a_vnf_that_does_not_fit_has_one_that_does_as_its_cure(vswitch: str) -> None:
    programs = {**PROGRAMS, "osmo-ggsn": "/bin/osmo-ggsn", "sgsnemu": "/bin/sgsnemu"}
    wanted = scenario(vswitch, "vepc", vnf="vepc", vnf_mode="route", generator="loadgen")
    text = refusal(wanted, facts(programs=programs))
    assert "vepc accepts veth" in text
    assert "cure: choose --vnf vepc:vm" in text


@pytest.mark.parametrize("workers", [1, 2])
def test_a_cure_asks_for_no_option_that_is_set(workers: int) -> None:
    options = SwitchOptions(placement="nodes", workers=workers)
    wanted = scenario("dpdk", "phy2phy", vnf="vloop", generator="loadgen", options=options)
    text = refusal(wanted)
    assert "placement = nodes" in text
    assert ("--set workers=2" in text) == (workers < 2)
