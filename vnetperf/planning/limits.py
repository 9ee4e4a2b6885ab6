"""What a plan takes of what the kernel limits, held against the limits before anything is deployed.

Estimates, of what programs were seen to take and little more: they keep out what cannot work. A
plan that is refused wrongly is worse than one whose program says itself that it got too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vnetperf.model.errors import CapabilityError
from vnetperf.model.scenario import Plan
from vnetperf.model.testbed import MachineFacts
from vnetperf.planning.backends import Backends
from vnetperf.planning.capability_check import attachment_kind
from vnetperf.plugin.vnf import VnfMemory

#: Memory in ordinary pages of the smallest deployment and of the run itself, and of each VNF after
#: the first, MiB. Seen: OVS-DPDK 43, the load generator 119, a forwarder 7, the guardian 40.
LEAST_MIB, ONE_MORE_MIB = 256, 48
#: Threads and processes of the run itself, those of a program beside its workers, and of an
#: endpoint or a rank. Seen: OVS-DPDK with two pollers 13, other programs of DPDK 5.
RUN_TASKS, TASKS, TALKER_TASKS = 16, 12, 4
#: Private memory, most of it stacks of threads that are touched little, MiB. Seen: 126.
DATA_MIB = 192
#: The largest file of a program: DPDK without hugepages has its memory in one. Seen: 512 MiB.
FILE_MIB = 1024
#: Open files of a vSwitch, and of each of its ports. Seen: 199 and 211, with four and six.
OPEN_FILES, PORT_FILES = 192, 16
#: Address space of a program, and what DPDK reserves for each size of hugepages on each node, up to
#: a sum, MiB (RTE_MAX_MEM_MB_PER_TYPE, RTE_MAX_MEM_MB). Seen: 837 without hugepages, 132,000 with.
ADDRESS_MIB, RESERVED_MIB, MOST_RESERVED_MIB = 2048, 64 << 10, 512 << 10


@dataclass(frozen=True)
class Needs:
    """What the programs of a plan take on one host.

    Attributes:
        memory_mib: In ordinary pages, of all together.
        hugepage_mib: Of all together.
        tasks: Processes and threads of all together.
        address_mib: Address space of the largest.
        data_mib: Private memory of the largest.
        locked_mib: Memory that hardware sees, of the largest; 0 for none.
        file_mib: The largest file, memory that is shared among them.
        open_files: Of the one with most.
    """

    memory_mib: int
    hugepage_mib: int
    tasks: int
    address_mib: int
    data_mib: int
    locked_mib: int
    file_mib: int
    open_files: int


def estimate_needs(plan: Plan, facts: MachineFacts) -> Needs:
    """What a plan takes, from what is in it."""
    vnfs = _list_vnf_memory(plan)
    programs = plan.sends_frames + plan.has_dut + len(vnfs)
    # Each of several hosts has an endpoint, or its share of the ranks of MPI.
    talking = len(plan.own_ends) * plan.scenario.programs // 2 if plan.scenario.sockets else 0
    workers = sum(map(len, plan.placement.cores.values()))
    ordinary = [memory.ordinary_mib for memory, _ in vnfs]
    # A guest's memory is a file (memfd).
    private = [memory.ordinary_mib for memory, _ in vnfs if not memory.floats]
    guests = [memory.ordinary_mib + memory.mib for memory, _ in vnfs if memory.floats]
    fixed = [memory.mib for memory, _ in vnfs if not memory.floats]
    hugepages_mib = [mib for memory in plan.memory for mib in memory.users.values()]
    shared = max([*hugepages_mib, *ordinary, 0])
    by_hardware = any(not nic.kernel for nic in plan.nics) or any(vf for _, vf in vnfs)
    # A guest's memory is reserved as it is, and programs reserve for all that they might take.
    libraries = len(hugepages_mib) > sum(bool(memory.mib) for memory, _ in vnfs) or any(fixed)
    reserved = min(RESERVED_MIB * max(1, len(facts.hugepages)), MOST_RESERVED_MIB)
    return Needs(
        memory_mib=LEAST_MIB + ONE_MORE_MIB * max(0, len(vnfs) - 1) + sum(ordinary),
        hugepage_mib=sum(memory.pages * memory.size_kb for memory in plan.memory) // 1024,
        tasks=RUN_TASKS + TASKS * programs + TALKER_TASKS * talking + workers,
        address_mib=ADDRESS_MIB + max([reserved if libraries else 0, *guests]),
        data_mib=DATA_MIB + max([0, *private]),
        locked_mib=shared if by_hardware else 0,
        file_mib=max(FILE_MIB, shared),
        open_files=OPEN_FILES + PORT_FILES * len(plan.scenario.deployment.ports),
    )


def _list_vnf_memory(plan: Plan) -> list[tuple[VnfMemory, bool]]:
    """Memory of each VNF and guest on this host, and whether a NIC's function is given to it."""
    scenario = plan.scenario
    numbers = [*scenario.deployment.vnf_numbers] if plan.has_dut else []
    numbers += [port.vnf for port in plan.guest_ends.values()]
    if not numbers or not scenario.vswitch:
        return []
    backends = Backends(scenario)
    kind = attachment_kind(backends, backends.vnf.accepts(scenario))
    return [(backends.vnf.memory(scenario, kind), kind == "vf")] * len(set(numbers))


def require_limits(plans: Sequence[Plan], facts: MachineFacts) -> None:
    """Refuse plans that take more than the kernel lets this process and its programs have.

    Args:
        plans: Those that are deployed on one machine together.
        facts: That machine.

    Raises:
        CapabilityError: A limit is too low: which one, what is needed, how to raise it.
    """
    needs, limits = [estimate_needs(plan, facts) for plan in plans], facts.limits
    where = f"{plans[-1].scenario.id}, host {plans[-1].host}".removesuffix(", host ")
    memory = sum(plan_needs.memory_mib for plan_needs in needs)
    remark = ""
    if limits.hugepages_in_memory:
        # Each plan has the hugepages of all before it.
        memory += max(plan_needs.hugepage_mib for plan_needs in needs)
        remark = " with hugepages"
    group = "of the control group (docker run --{}), or leave it"
    groups = (
        (
            memory,
            _mib(limits.memory_kb),
            "MiB of memory" + remark,
            f"raise memory.max and memory.high {group.format('memory')}",
        ),
        (
            sum(plan_needs.tasks for plan_needs in needs),
            limits.tasks,
            "processes and threads",
            f"raise pids.max {group.format('pids-limit')}; where it has none, "
            "raise kernel.threads-max and kernel.pid_max",
        ),
    )
    for need, limit, unit, cure in groups:
        if limit is not None and need > limit:
            raise CapabilityError(
                f"about {need} {unit} are needed, and the kernel lets this process and its "
                f"programs have {limit} {unit} more",
                where=where,
                accepted=f"at least {need}",
                cure=cure,
            )
    rows: Iterable[tuple[str, int | None, str, str]] = (
        ("address_mib", _mib(limits.address_kb), "MiB of address space", "v"),
        ("data_mib", _mib(limits.data_kb), "MiB of private memory", "d"),
        ("locked_mib", _mib(limits.locked_kb), "MiB of locked memory", "l"),
        ("file_mib", _mib(limits.file_kb), "MiB in a file of memory", "f"),
        ("open_files", limits.open_files, "open files", "n"),
    )
    for field, limit, unit, letter in rows:
        need = max(getattr(plan_needs, field) for plan_needs in needs)
        if limit is not None and need > limit:
            raise CapabilityError(
                f"a program of it needs up to {need} {unit}, and the kernel lets a process have "
                f"{limit}",
                where=f"{where}, ulimit -H{letter}",
                accepted=f"at least {need}, or unlimited",
                cure="start it from a shell without that limit, or with the right to raise it "
                "(CAP_SYS_RESOURCE; docker run --ulimit)",
            )


def _mib(kb: int | None) -> int | None:
    return None if kb is None else kb // 1024
