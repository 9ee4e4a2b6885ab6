"""Plans a scenario on a testbed: on one host, over several, or the generator alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from vnetperf.model.deployment import MOVABLE_WIRES
from vnetperf.model.errors import (
    CapabilityError,
    ConfigError,
    DutError,
    GeneratorError,
    HostError,
)
from vnetperf.model.frame_change import NEW_SESSIONS
from vnetperf.model.scenario import MemoryPlan, NicUse, Placement, Plan, Scenario
from vnetperf.model.testbed import CoresConfig, MachineFacts, Testbed, clocks_apart_s
from vnetperf.planning.backends import Backends
from vnetperf.planning.capability_check import check_capabilities, tester_roles
from vnetperf.planning.host_plan import (
    NicRequest,
    choose_wire,
    list_accepted_wires,
    list_demands,
    nic_uses,
    preferred_node,
    require_backends,
    require_processor_time,
    require_processors,
    require_root,
    with_guests,
    with_memory_and_commands,
)
from vnetperf.planning.hosts import (
    CABLE_OF_NICS,
    WIRE_WITHIN,
    HostShare,
    cable_wire,
    share_out,
)
from vnetperf.planning.limits import require_limits
from vnetperf.planning.memory import (
    ShortNodes,
    list_nodes,
    plan_over_first_wire,
    plan_pool_memory,
    plan_where_memory_is,
    require_memory,
)
from vnetperf.planning.placement import allowed_cpus, place_roles, place_scenario
from vnetperf.plugin import registry
from vnetperf.plugin.dut import Dut
from vnetperf.plugin.generator import TrafficGenerator


def make_plan(scenario: Scenario, testbed: Testbed, facts: MachineFacts) -> Plan:
    """Plan a scenario; nothing on the machine is touched.

    What a backend cannot read of the machine, such as a version, keeps its scenarios from being
    planned, and no others.
    """
    try:
        return _plan(scenario, testbed, facts)
    except (DutError, GeneratorError, HostError) as error:
        raise CapabilityError(
            error.what,
            where=error.where or scenario.id,
            accepted=error.accepted,
            cure=error.cure or "see with `vnetperf doctor` what could not be read of the machine",
        ) from error


def _plan(scenario: Scenario, testbed: Testbed, facts: MachineFacts) -> Plan:
    backends = Backends(scenario)
    check_capabilities(scenario, backends.vswitch, backends.vnf, backends.generator)
    if not scenario.apart and (problem := backends.generator.cannot_send(scenario, testbed)):
        raise CapabilityError(
            f"{scenario.generator} cannot send this traffic: {problem}",
            where=f"{scenario.id}, traffic profile {scenario.traffic.name}",
            cure="choose another generator with --generator (loadgen can), or another profile",
        )
    if testbed.hosts or scenario.apart:
        return plan_where_memory_is(lambda short: _plan_hosts(backends, testbed, facts, short))
    if scenario.deployment.sites:
        raise CapabilityError(
            f"{scenario.deployment.name} has a vSwitch on each of "
            f"{len(scenario.deployment.sites)} hosts, and testbed {testbed.name} is one",
            where=scenario.id,
            cure="--testbed two-hosts has two on this machine; docs/machines.md describes others",
        )
    return plan_over_first_wire(
        lambda short, *, lacking: _plan_hosts(backends, testbed, facts, short, lacking)
    )


@dataclass(frozen=True)
class _Hosts:
    """Hosts of a testbed, one or several, each with its part of a scenario.

    Attributes:
        scenario: The whole.
        testbed: That of all hosts.
        facts: Of all hosts.
        shares: What of the deployment is on each.
        backends: Host -> its part of the scenario, with its classes.
        nics: Ends of cables at each host, or of wires within one host, where these are NICs.
        wire: Kind of the wires within one host; "" where cables join several.
        short: Nodes of each host that are to be taken last.
    """

    scenario: Scenario
    testbed: Testbed
    facts: MachineFacts
    shares: tuple[HostShare, ...]
    backends: Mapping[str, Backends]
    nics: Mapping[str, tuple[NicUse, ...]] = field(default_factory=dict)
    wire: str = ""
    short: ShortNodes = field(default_factory=dict)

    def with_wire(self, lacking: Mapping[str, str]) -> _Hosts:
        """The same with the kind of wire within one host, and its NICs.

        Args:
            lacking: Kinds of wire that cannot have their memory: kind -> why.
        """
        backends = self.backends[""]

        def place(near: int | None) -> tuple[Placement, int]:
            placed = self._place([""], near)
            return placed, backends.vswitch.tx_queues(self.scenario, placed)

        wire, nics = choose_wire(
            self.scenario, backends, self.testbed, self.facts, place, lacking=lacking
        )
        return replace(self, wire=wire, nics={"": nics})

    def with_cable_nics(self) -> _Hosts:
        """The same with NICs that are ends of cables, and with what both ends' drivers are.

        Cables between hosts of namespaces have none.
        """
        if cable_wire(self.testbed) != CABLE_OF_NICS:
            return self
        nics: dict[str, tuple[NicUse, ...]] = {}
        by_program: set[int] = set()
        for share in self.shares:
            backends, host_facts = self.backends[share.host], self.facts.of_host(share.host)
            scenario, dut = backends.scenario, backends.vswitch
            ends = {"dut": dut, "tester": backends.generator}
            requests: list[NicRequest] = []
            for use in share.cables:
                where = f"cables.{use.cable}.ends, {share.host}:{use.nic}"
                nic = host_facts.nic(use.nic)
                if nic is None:
                    addresses = ", ".join(n.address for n in host_facts.nics) or "none"
                    raise CapabilityError(
                        f"there is no such NIC; PCI network devices of {share.host}: {addresses}",
                        where=where,
                        cure="name one of them in the testbed file",
                    )
                if problem := nic.refusal(isolated=self.testbed.isolated):
                    raise CapabilityError(problem, where=where)
                requests.append(NicRequest(use.port, use.side, nic, ends[use.side], where))
            nics[share.host] = uses = nic_uses(requests, host_facts, scenario)
            for use, chosen in zip(share.cables, uses, strict=True):
                if not chosen.kernel:
                    by_program.add(use.cable)
            if "dut" in share.parts and (
                problem := dut.nics_missing(nics[share.host], host_facts, scenario)
            ):
                raise CapabilityError(problem, where=f"{scenario.vswitch}, host {share.host}")
        shares = tuple(
            replace(
                share,
                cables=tuple(
                    use.model_copy(update={"in_kernel": use.cable not in by_program})
                    for use in share.cables
                ),
            )
            for share in self.shares
        )
        return replace(self, shares=shares, nics=nics)

    def placements(self) -> dict[str, Placement]:
        """Processors for each host: of its own, near its NICs, or one machine's for all together.

        In a placement on a machine that others have a part of, their roles have their host's name
        before them.
        """
        backends, testbed, facts = self.backends, self.testbed, self.facts
        placements: dict[str, Placement] = {}
        roles_of: dict[str, dict[str, dict[str, tuple[int, ...]]]] = {}
        dut_of: dict[str, tuple[str, ...]] = {}
        for group in _group_hosts(testbed, [share.host for share in self.shares]):
            placed = self._place(group, preferred_node(self.nics.get(group[0], ())))
            placements |= dict.fromkeys(group, placed)
            roles_of[group[0]] = {"cores": placed.cores, "unpinned": placed.unpinned}
            dut_of[group[0]] = placed.dut
        one_machine = cable_wire(testbed) == WIRE_WITHIN
        for host, placed in placements.items():
            update = {
                key: {
                    r.removeprefix(f"{host}:"): cpus
                    for group, cpus_by_role in roles_of.items()
                    if one_machine or group == host
                    for r, cpus in cpus_by_role[key].items()
                }
                for key in ("cores", "unpinned")
            }
            dut = tuple(
                role.removeprefix(f"{host}:")
                for group, roles in dut_of.items()
                if one_machine or group == host
                for role in roles
            )
            placements[host] = placed.model_copy(update=update | {"dut": dut})
        for share in self.shares:
            local = testbed.of_host(share.host)
            placed = placements[share.host]
            require_processors(backends[share.host], local, share.parts, placed)
            where = backends[share.host].scenario.id
            if share.host:
                where += f", host {share.host}"
            elif self.scenario.sockets:  # nobody polls
                continue
            require_processor_time(placed, facts.of_host(share.host), where=where)
        return placements

    def _place(self, group: Sequence[str], near: int | None) -> Placement:
        """Processors of hosts that share them, near a node; of several a role has its host's name.

        The name stands before the role.
        """
        demands = tuple(
            demand.model_copy(update={"role": f"{share.host}:{demand.role}"})
            if share.host
            else demand
            for share in self.shares
            if share.host in group
            for demand in list_demands(
                self.backends[share.host], self.testbed.of_host(share.host), share.parts
            )
        )
        scenario, config = self.backends[group[0]].scenario, self.testbed.of_host(group[0]).cores
        avoided = frozenset[int]().union(*(self.short.get(host, ()) for host in group))
        host_facts = self.facts.of_host(group[0])
        return place_scenario(demands, config, host_facts, near, scenario, short=avoided)

    def unpolled(self, host: str, placed: Placement) -> tuple[int, ...]:
        """Processors of a host that no poller has."""
        polled = {cpu for cpus in placed.cores.values() for cpu in cpus}
        allowed = allowed_cpus(self.testbed.of_host(host).cores, self.facts.hosts[host])
        return tuple(processor.cpu for processor in allowed if processor.cpu not in polled)

    def place_next_to_ends(self) -> dict[str, Placement]:
        """Processors for two vSwitches, with one that no poller has for the endpoints on each host.

        Where pollers would have them all, they take turns on all but the last. Endpoints may be in
        guests.
        """
        placements = self._leave_processors_to_ends()
        scenario = self.scenario
        for share in self.shares:
            numbers = [number for number in share.ends if number in scenario.ends_in_guests]
            if not numbers:
                continue
            backends, placed = self.backends[share.host], placements[share.host]
            if problem := backends.vnf.missing(self.facts.hosts[share.host], backends.scenario):
                raise CapabilityError(problem, where=f"{scenario.id}, host {share.host}")
            free = self.unpolled(share.host, placed)
            placements[share.host] = with_guests(placed, share.deployment, numbers, free)
        return placements

    def _leave_processors_to_ends(self) -> dict[str, Placement]:
        placements, testbed, facts = self.placements(), self.testbed, self.facts
        allowed = {
            host: [cpu.cpu for cpu in allowed_cpus(testbed.of_host(host).cores, facts.hosts[host])]
            for host in placements
        }
        if all(self.unpolled(host, placed) for host, placed in placements.items()):
            return placements
        for host, cpus in allowed.items():
            if len(cpus) < 2:
                raise CapabilityError(
                    "endpoints need a processor that no poller has, and there is one alone",
                    where=f"{self.backends[host].scenario.id}, host {host}",
                    cure="allow more processors under [cores] (allowed), use a machine that has "
                    "more, or choose a vSwitch in the kernel",
                )

        def without_last(name: str) -> CoresConfig:
            update = {"allowed": tuple(allowed[name][:-1])}
            return testbed.of_host(name).cores.model_copy(update=update)

        hosts = {
            name: host.model_copy(update={"cores": without_last(name)} if name in allowed else {})
            for name, host in testbed.hosts.items()
        }
        fewer = replace(self, testbed=testbed.model_copy(update={"hosts": hosts}))
        reason = "endpoints have the last processor for themselves"
        return {
            host: placed.model_copy(update={"reason": f"{placed.reason}; {reason}"})
            for host, placed in fewer.placements().items()
        }

    def choose_tester_wire(
        self, meets: Mapping[str, str], placements: Mapping[str, Placement]
    ) -> tuple[str, dict[str, int]]:
        """The kind of wire that the tester is calibrated over, and receive queues that it polls.

        Where one is chosen, the first of the testbed's that every host of the tester can have.

        Args:
            meets: Host of the tester -> that of the vSwitch which it meets; of port 0 first.
            placements: Processors on each host.

        Returns:
            The kind; host of the tester -> queues.
        """
        queues = {
            tester: self.backends[tester].vswitch.tx_queues(
                self.backends[tester].scenario, placements[dut]
            )
            for tester, dut in meets.items()
        }
        if self.wire:
            return self.wire, queues
        first, *others = meets
        lacking: dict[str, str] = {}
        while True:
            wire = self._choose_host_wire(first, queues[first], placements[first], lacking=lacking)
            for other in others:
                try:
                    self._choose_host_wire(other, queues[other], placements[other], named=wire)
                except CapabilityError as error:
                    if not self._chooses_wire(first) or wire in lacking:
                        raise
                    lacking[wire] = f"host {other}: {error.what}"
                    break
            else:
                return wire, queues

    def _chooses_wire(self, tester: str) -> bool:
        """Whether the tester's wire is one of the testbed's, and none is asked for by name."""
        scenario = self.backends[tester].scenario
        return bool(scenario.deployment.tester_vnf_ports) and scenario.wire == "auto"

    def _choose_host_wire(
        self,
        tester: str,
        queues: int,
        placement: Placement,
        *,
        lacking: Mapping[str, str] = MappingProxyType({}),
        named: str = "",
    ) -> str:
        """A wire that one host of the tester can have, or the one that is named."""
        backends = self.backends[tester]
        scenario = backends.scenario
        host_facts = self.facts.hosts[tester]
        kind, local = cable_wire(self.testbed), self.testbed.of_host(tester)
        at_vnf = bool(scenario.deployment.tester_vnf_ports)
        wires = list_accepted_wires(backends.vswitch.capabilities, scenario.options.mode)
        offered = {*wires} & {*local.wires}
        if at_vnf and kind == CABLE_OF_NICS and not offered:
            return WIRE_WITHIN  # it plugs nothing but those NICs in (SR-IOV)
        if at_vnf:  # in a VNF's place, as on one host
            requested = scenario.model_copy(update={"wire": named or scenario.wire})
            wire, _ = choose_wire(
                requested,
                backends,
                local,
                host_facts,
                lambda _: (placement, queues),
                lacking=lacking,
            )
            return wire
        problem = backends.generator.cannot_plug(
            kind,
            queues,
            scenario=scenario,
            placement=placement,
            testbed=local,
            facts=host_facts,
        )
        if problem:
            raise CapabilityError(problem, where=f"{scenario.id}, host {tester}")
        # A NIC whose cable leads to another machine is looped to nothing here.
        return WIRE_WITHIN

    def plans(
        self,
        placements: Mapping[str, Placement],
        fields: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> list[Plan]:
        """The plan of each share with what else is its own, in the order of the hosts' locks."""
        plans: list[Plan] = []
        one_machine = cable_wire(self.testbed) == WIRE_WITHIN
        for share in self.shares:
            plan = Plan(
                scenario=self.backends[share.host].scenario,
                testbed=registry.completed(self.testbed.of_host(share.host)),
                wire=self.wire or cable_wire(self.testbed),
                nics=self.nics.get(share.host, ()),
                placement=placements[share.host],
                memory=(),
                host=share.host,
                parts=share.parts,
                cables=share.cables,
                ends=share.ends,
                # Hosts of namespaces are of one machine, which the first of them holds.
                follows=bool(plans) and one_machine,
                **(fields or {}).get(share.host, {}),
            )
            backends, host_facts = self.backends[share.host], self.facts.of_host(share.host)
            plan = with_memory_and_commands(plan, backends, host_facts)
            if plans and one_machine:
                plan = plan.model_copy(update={"memory": _add_memory_before(plan.memory, plans)})
                require_memory(plan.memory, plan, host_facts)
                require_limits((*plans, plan), host_facts)
            plans.append(plan)
        return plans

    def combine(
        self, plans: list[Plan], placements: Mapping[str, Placement], first: str, **fields: Any
    ) -> Plan:
        """The plan of all hosts, from their own and the fields that are no host's.

        That of one host is its own.
        """
        if not self.testbed.hosts:
            return plans[0]
        return Plan(
            scenario=self.scenario,
            testbed=registry.completed(self.testbed),
            placement=_merge_placements(first, placements),
            memory=_merge_memory(plans),
            commands={f"{p.host}: {n}": line for p in plans for n, line in p.commands.items()},
            hosts=tuple(plans),
            **fields,
        )


def _plan_hosts(
    backends: Backends,
    testbed: Testbed,
    facts: MachineFacts,
    short: ShortNodes,
    lacking: Mapping[str, str] = MappingProxyType({}),
) -> Plan:
    """Plan a scenario over the hosts of a testbed; of several a plan of the whole and of each.

    Args:
        backends: Classes of the scenario's parts.
        testbed: The testbed.
        facts: Of all hosts.
        short: Nodes of each host that are to be taken last.
        lacking: Kinds of wire within one host that cannot have their memory: kind -> why.
    """
    scenario = backends.scenario
    if scenario.apart:
        _require_end_attachments(backends)
    shares = share_out(scenario, testbed)
    testers = [share for share in shares if "tester" in share.parts]
    _require_apart(backends, testers)
    _require_local_sessions(scenario, testers)
    if testbed.hosts:
        _require_cable_wire(backends, testbed, facts, shares)
    parts = _split_scenario(scenario, shares, facts)
    hosts = _Hosts(scenario, testbed, facts, shares, parts, short=short)
    hosts = hosts.with_cable_nics() if testbed.hosts else hosts.with_wire(lacking)
    if not testers:  # endpoints talk
        placements = hosts.place_next_to_ends()
        plans = hosts.plans(placements)
        return hosts.combine(plans, placements, plans[0].host, wire=WIRE_WITHIN)
    placements = hosts.placements()
    testers = sorted((s for s in hosts.shares if "tester" in s.parts), key=lambda share: share.ends)
    duts = [share for share in hosts.shares if "dut" in share.parts]
    tester = testers[0]
    meets = {
        share.host: (share if share in duts else duts[place if len(duts) > 1 else 0]).host
        for place, share in enumerate(testers)
    }
    bound_s = _clock_bound_s([share.host for share in testers], facts, placements)
    wire, queues = hosts.choose_tester_wire(meets, placements)
    full_deployment = scenario.deployment if scenario.deployment.sites else None
    plugged = wire if scenario.deployment.tester_vnf_ports or hosts.wire else cable_wire(testbed)
    if not testbed.hosts and scenario.sockets:
        cpus = tuple(cpu.cpu for cpu in allowed_cpus(testbed.cores, facts))  # no poller works then
        numbers = scenario.ends_in_guests
        placements[""] = with_guests(placements[""], scenario.deployment, numbers, cpus)
    of_frames = {
        "tester_rx_queues": queues[tester.host],
        "wires_without_memory": dict(lacking),
        "refusal_is_loss": registry.load("wires", plugged).refusal_is_loss,
        "clock_bound_s": bound_s,
    }
    fields = {
        share.host: {
            **of_frames,
            "tester_rx_queues": queues.get(share.host, queues[tester.host]),
            "whole": full_deployment if share in testers else None,
        }
        for share in hosts.shares
    }
    plans = hosts.plans(placements, fields)
    return hosts.combine(plans, placements, tester.host, wire=wire, **of_frames)


def _split_scenario(
    scenario: Scenario, shares: tuple[HostShare, ...], facts: MachineFacts
) -> dict[str, Backends]:
    """The scenario with each host's part of the graph; refuses what a host lacks for its part."""
    parts = {
        share.host: Backends(scenario.model_copy(update={"deployment": share.deployment}))
        for share in shares
    }
    for share in shares:
        require_root(facts.of_host(share.host))
        require_backends(parts[share.host], facts.of_host(share.host), share.parts)
    return parts


def _require_local_sessions(scenario: Scenario, testers: Sequence[HostShare]) -> None:
    """Refuse tests of sessions where the NAT's table is on another host than the tester."""
    counted = not testers or any("dut" in share.parts for share in testers)
    if NEW_SESSIONS in scenario.variant.split(",") and not counted:
        raise CapabilityError(
            "sessions of a NAT on another host are neither counted nor ended between trials",
            where=scenario.id,
            cure="measure on a testbed with tester and NAT on one host",
        )


def _clock_bound_s(
    testers: Sequence[str], facts: MachineFacts, placements: Mapping[str, Placement]
) -> float | None:
    """Most that the clocks of the tester's ports differ by; None where nothing bounds it.

    Hosts of one boot have one clock, which is what their kernels are read for; the counters of two
    sockets are compared within an engine alone, and two hosts have two. Of others the services
    that keep their clocks state it, for now: each trial has what they state at its end.
    """
    if len(testers) == 1:
        return 0.0
    boots = {facts.hosts[host].boot for host in testers}
    nodes = {
        cpu.node
        for host in testers
        for cpu in facts.hosts[host].cpus
        for role, cpus in placements[host].cores.items()
        if role.startswith("tester") and cpu.cpu in cpus
    }
    if len(boots) == len(nodes) == 1 and "" not in boots:
        return 0.0
    return clocks_apart_s([facts.hosts[host].clock for host in testers])


def _require_apart(backends: Backends, testers: Sequence[HostShare]) -> None:
    """Refuse what cannot have the tester's ports on two hosts."""
    if len(testers) < 2:
        return
    scenario = backends.scenario
    where = f"{scenario.id}, {' and '.join(share.host for share in testers)}"
    if not backends.generator.capabilities.apart:
        able = [
            name
            for name in registry.names("traffic")
            if registry.load("traffic", name).capabilities.apart
        ]
        raise CapabilityError(
            f"{scenario.generator} has both its ports in one process, and the testbed has a host "
            "for each",
            where=where,
            cure=f"--generator {' or '.join(able)}, or give the tester one host",
        )
    if (queues := scenario.options.rx_queues or 1) > 1:
        raise CapabilityError(
            f"{queues} queues of a port are not told apart at the other host",
            where=where,
            cure="leave rx_queues out, or give the tester one host",
        )


def _require_end_attachments(backends: Backends) -> None:
    """Refuse endpoints in VMs' places where the vSwitch offers them nothing to plug into."""
    scenario = backends.scenario
    if not scenario.deployment.tester_vnf_ports:
        return
    offered = backends.vswitch.list_attachments(scenario)
    accepts: tuple[str, ...] = MOVABLE_WIRES
    place = "a namespace, which takes an interface of the kernel"
    cure = f"--vnf vloop:vm has them in guests; -k p2c2p_{scenario.vswitch} at its wires"
    if scenario.ends_in_guests:
        accepts = backends.vnf.accepts(scenario)
        place = f"in a guest, which takes {' or '.join(accepts)}"
        cure = f"-k p2c2p_{scenario.vswitch} has the endpoints at its wires"
    if not set(offered) & set(accepts):
        raise CapabilityError(
            f"{scenario.vswitch} offers {' and '.join(offered) or 'nothing'} to VNFs, and an "
            f"endpoint here is {place}",
            where=scenario.id,
            cure=cure,
        )


def _merge_memory(plans: list[Plan]) -> tuple[MemoryPlan, ...]:
    """Hugepages of all hosts: those of one machine are with the last of them."""
    if not plans[-1].nics:
        return plans[-1].memory
    return tuple(
        memory.model_copy(
            update={"users": {f"{plan.host}:{user}": mib for user, mib in memory.users.items()}}
        )
        for plan in plans
        for memory in plan.memory
    )


def _add_memory_before(
    memory_plans: tuple[MemoryPlan, ...], before: list[Plan]
) -> tuple[MemoryPlan, ...]:
    """Memory that must be free when a host is deployed after others on the same machine.

    Those before it have made theirs free, and take it only when all have.
    """
    demands = {(memory.node, memory.size_kb): memory for memory in memory_plans}
    for plan in before[-1:]:  # which has those of all before it
        for memory in plan.memory:
            key = (memory.node, memory.size_kb)
            demand = demands.get(key, memory.model_copy(update={"pages": 0, "users": {}}))
            others = {
                user if ":" in user else f"{plan.host}:{user}": mib
                for user, mib in memory.users.items()
            }
            update = {"pages": demand.pages + memory.pages, "users": {**others, **demand.users}}
            demands[key] = demand.model_copy(update=update)
    return tuple(demands[key] for key in sorted(demands))


def _require_cable_wire(
    backends: Backends, testbed: Testbed, facts: MachineFacts, shares: tuple[HostShare, ...]
) -> None:
    """Refuse parts that cannot plug into what the cables are."""
    scenario, vswitch = backends.scenario, backends.vswitch
    in_place = bool(scenario.deployment.tester_vnf_ports)
    users: list[type[Dut] | type[TrafficGenerator]] = [vswitch]
    if not (in_place or scenario.apart):
        users.append(backends.generator)
    mode, kind = scenario.options.mode, cable_wire(testbed)
    mixed = any({"tester", "dut"} <= {*share.parts} for share in shares)
    mixed = (mixed or scenario.apart) and not in_place
    wires = {kind, WIRE_WITHIN} if mixed else {kind}
    cannot = {u.name: wires - {*list_accepted_wires(u.capabilities, mode)} for u in users}
    without = [name for name, kinds in cannot.items() if kinds]
    accepts_cable = kind not in {lacked for kinds in cannot.values() for lacked in kinds}
    limit = getattr(vswitch.capabilities, "wire_frame_sizes", {}).get(kind)
    problem = ""
    if kind == WIRE_WITHIN:
        host_facts = facts.hosts[shares[0].host]
        problem = registry.load("wires", kind).missing(host_facts, scenario, testbed)
    if without and accepts_cable:
        problem = f"{' and '.join(without)} cannot plug in the {WIRE_WITHIN} beside it"
    elif without:
        problem = f"{' and '.join(without)} cannot plug it in"
    elif limit is not None and scenario.largest_on_wire > limit:
        problem = f"{vswitch.name} carries frames of up to {limit} octets over it"
    elif scenario.wire not in {"auto", *wires} and not in_place:
        problem = f"--wire {scenario.wire} is no cable between hosts"
    if problem:
        raise CapabilityError(
            f"a cable between {'hosts of namespaces' if kind == WIRE_WITHIN else 'machines'} is "
            f"{kind}: {problem}",
            where=scenario.id,
            cure="choose another vSwitch or generator, or a testbed of one host",
        )


def _merge_placements(first: str, placements: Mapping[str, Placement]) -> Placement:
    """The first host's placement with the roles of all, others' with their host's name."""
    placement = placements[first]
    for host, placed in placements.items():
        update = {
            key: getattr(placement, key)
            | {f"{host}:{r}": cpus for r, cpus in getattr(placed, key).items() if ":" not in r}
            for key in ("cores", "unpinned")
        }
        if host != first:
            placement = placement.model_copy(update=update)
    return placement


def _group_hosts(testbed: Testbed, hosts: list[str]) -> list[list[str]]:
    """Hosts of one machine by groups that share processors: all, or each has some of its own.

    What their processors are set to is the machine's, and the same for all.
    """
    if cable_wire(testbed) == CABLE_OF_NICS:
        return [[host] for host in hosts]
    cores = {host: testbed.of_host(host).cores for host in hosts}
    first = cores[hosts[0]]
    if all(c.model_copy(update={"tester": first.tester}) == first for c in cores.values()):
        return [hosts]
    owner: dict[int, str] = {}
    for host, config in cores.items():
        shared = sorted(set(config.allowed) & set(owner))
        if shared or not config.allowed:
            raise ConfigError(
                f"processor {shared[0]} is host {owner[shared[0]]}'s too"
                if shared
                else "hosts of one machine whose cores differ in more than the tester's threads "
                "each need processors of their own",
                where=f"hosts.{host}.cores.allowed",
                accepted="processors that no other host of the machine has",
                cure="name some for each host, or leave [hosts.NAME.cores] out: hosts are then "
                "placed on the machine's processors together",
            )
        owner |= dict.fromkeys(config.allowed, host)
        for key in ("governor", "irqs"):
            if getattr(config, key) != getattr(first, key):
                raise ConfigError(
                    "hosts of one machine cannot differ in this",
                    where=f"hosts.{host}.cores.{key}",
                    accepted=repr(getattr(first, key)),
                    cure="set it once, under [cores]",
                )
    return [[host] for host in hosts]


def make_loop_plan(scenario: Scenario, testbed: Testbed, facts: MachineFacts) -> Plan:
    """Plan the generator alone, looped to itself; for calibration without a DUT."""
    return plan_over_first_wire(
        lambda short, *, lacking: _plan_loop(scenario, testbed, facts, short, lacking)
    )


def _plan_loop(
    scenario: Scenario,
    testbed: Testbed,
    facts: MachineFacts,
    short: ShortNodes,
    lacking: Mapping[str, str],
) -> Plan:
    host = ""
    if scenario.apart:
        raise CapabilityError(
            f"{scenario.deployment.name} has an endpoint on each of two hosts, and no tester",
            where=scenario.id,
            cure="it is for testcases/test_endpoints.py",
        )
    if testbed.hosts:
        shares = [s for s in share_out(scenario, testbed) if "tester" in s.parts]
        tester = min(shares, key=lambda share: share.ends)  # of two, that of port 0
        host, testbed, facts = tester.host, testbed.of_host(tester.host), facts.hosts[tester.host]
    backends = Backends(scenario)
    generator = backends.generator
    require_root(facts)
    problem = generator.missing(facts, scenario)
    if problem:
        raise CapabilityError(problem, where=scenario.generator)
    loop = registry.load("wires", scenario.wire).like if scenario.wire != "auto" else ""
    alone = scenario.model_copy(update={"vswitch": "", "wire": loop or scenario.wire})
    roles = tester_roles(scenario.generator, generator, testbed)

    def place(near: int | None) -> tuple[Placement, int]:
        # Looped to itself it gets what it sends.
        placed = place_roles(roles, testbed.cores, facts, near, short=short.get(host, ()))
        return placed, scenario.options.rx_queues or 1

    wire, nics = choose_wire(alone, backends, testbed, facts, place, lacking=lacking)
    placement, queues = place(preferred_node(nics))
    require_processors(backends, testbed, ("tester",), placement)
    require_processor_time(placement, facts, where=scenario.id)
    plan = Plan(
        scenario=scenario,
        testbed=testbed,
        wire=wire,
        nics=nics,
        placement=placement,
        memory=(),
        wires_without_memory=dict(lacking),
        refusal_is_loss=False,  # there is no DUT whose ring could be full
        tester_rx_queues=queues,
        host=host,
        parts=("tester",),
    )
    users = {scenario.generator: generator.hugepage_mib(scenario, (wire,))}
    pools = {(node, testbed.hugepage_kb): users for node in list_nodes(plan, ("tester", "dut"))}
    plan = plan.model_copy(update={"memory": plan_pool_memory(pools, plan, facts)})
    require_limits((plan,), facts)
    return plan


def largest_frame(scenario: Scenario) -> int:
    """Largest frame that everything on a scenario's path carries."""
    backends = Backends(scenario)
    limits = [backends.generator.capabilities.max_frame_size]
    if scenario.vswitch:
        limits.append(backends.vswitch.largest_frame(scenario))
    if scenario.deployment.vnf_count:
        limits.append(backends.vnf.max_frame_size)
    return int(min(limits))
