"""Who was on which processor in a deployment: alone, or with whom, and in which turns.

It is read from the plan and the facts of a log, or from a plan before its deployment. Older logs do
not name the DUT's pollers: they are those which are neither the tester's nor a VNF's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import ValidationError

from vnetperf.model.result import ScenarioFacts
from vnetperf.model.scenario import SYSTEM, Placement, Plan

TESTER, _VNF = "tester", "VNF"
#: Fact of a generator that takes turns, and of a VNF: microseconds.
TURN_OF_TESTER, TURN_OF_VNF = "length of a turn (us)", "turn, us"
#: Fact of a VNF that takes turns: how the kernel runs it when it wakes.
PRIORITY_OF_VNF = "priority"
_REFUSED = "refused: "


@dataclass(frozen=True, slots=True)
class Occupied:
    """A processor and who is on it."""

    cpu: int
    roles: tuple[str, ...]
    system: bool  # Whether everything else that runs on the machine is on it, too


@dataclass(frozen=True, slots=True)
class OnMachine:
    """Who is on which processor of one machine."""

    placement: Placement
    hosts: tuple[str, ...] = ()  # Names of its hosts, where there are several
    has_dut: bool = True  # Whether a part of the DUT is there
    turns: Mapping[str, int] = field(default_factory=dict)  # Role -> its turns, microseconds

    @property
    def processors(self) -> tuple[Occupied, ...]:
        """Every processor that is used, in order."""
        roles: dict[int, list[str]] = {cpu: [] for cpu in self.placement.housekeeping}
        for role, cpus in self.placement.cores.items():
            for cpu in cpus:
                roles.setdefault(cpu, []).append(role)
        return tuple(
            Occupied(cpu, tuple(names), cpu in self.placement.housekeeping)
            for cpu, names in sorted(roles.items())
        )

    @property
    def sharing(self) -> tuple[str, ...]:
        """Roles that have to share a processor."""
        return tuple(role for role in self.placement.cores if self.placement.sharers(role))

    @property
    def texts(self) -> Iterator[str]:
        """Who is where, processors with the same roles together."""
        alike: dict[tuple[tuple[str, ...], bool], list[int]] = {}
        for processor in self.processors:
            if processor.roles:
                alike.setdefault((processor.roles, processor.system), []).append(processor.cpu)
        for (roles, system), numbers in alike.items():
            where = f"processor{'s' * (len(numbers) > 1)} {joined(numbers)}"
            if len(roles) == 1 and not system:
                yield f"{roles[0]} has {where} to itself"
                continue
            verb = "share" if len(roles) > 1 else "shares"
            with_system = f" with {SYSTEM}" if system else ""
            yield f"{joined(roles)} {verb} {where}{with_system}{self._turns_text(roles)}"
        for role, cpus in self.placement.unpinned.items():
            yield f"the kernel moves {role} among processors {joined(cpus)}"

    def _turns_text(self, roles: Sequence[str]) -> str:
        """In which turns those run that share a processor, as far as they sleep in between."""
        turns = {role: self.turns[role] for role in roles if self.turns.get(role)}
        if len(turns) == len(roles) and len(set(turns.values())) == 1:
            verb = "take" if len(roles) > 1 else "takes"
            return f" and {verb} turns of {next(iter(turns.values()))} us"
        turn_texts = (f"{role} in turns of {length} us" for role, length in turns.items())
        return f" ({', '.join(turn_texts)})" if turns else ""


@dataclass(frozen=True, slots=True)
class Sharing:
    """Who is on which processor, on all machines of a deployment."""

    machines: tuple[OnMachine, ...]
    mode: str  # "dedicated" or "shared"
    reason: str  # Why so, as the plan has it
    elsewhere: bool = False  # True where somebody else runs the DUT

    @classmethod
    def of(cls, plan: Mapping[str, Any], facts: Mapping[str, Any] | None = None) -> Sharing | None:
        """That of a plan, with turns as the facts have them; None where it has no placement."""
        placed = plan.get("placement")
        if not isinstance(placed, Mapping) or not placed.get("mode"):
            return None
        return cls(
            machines=tuple(_machines([*_parts(plan)], facts or {})),
            mode=str(placed["mode"]),
            reason=str(placed.get("reason") or ""),
            elsewhere=plan.get("wire") == "external",
        )

    @classmethod
    def planned(cls, plan: Plan, absent: Collection[str] = ()) -> Sharing:
        """That of a plan that is not deployed, without roles of kinds that will not be there."""
        parts = [
            _Part(
                host_plan.host if plan.hosts else "",
                _without(
                    host_plan.placement, {*absent, *_absent(sockets=host_plan.scenario.sockets)}
                ),
                host_plan.has_dut,
            )
            for host_plan in plan.host_plans
        ]
        return cls(
            machines=tuple(_machines(parts, {})),
            mode=plan.placement.mode,
            reason=plan.placement.reason,
            elsewhere=plan.wire == "external",
        )

    @property
    def shared(self) -> bool:
        """Whether pollers share processors."""
        return self.mode == "shared"

    @property
    def dut_alone(self) -> bool:
        """Whether the DUT has pollers that are known to have processors of their own."""
        duts = [machine.placement for machine in self.machines if machine.has_dut]
        return bool(duts) and all(placement.dut_alone for placement in duts)

    @property
    def _sharing(self) -> tuple[str, ...]:
        return tuple(role for machine in self.machines for role in machine.sharing)

    @property
    def kinds_sharing(self) -> frozenset[str]:
        """Kinds of those that have to share a processor: "tester", "VNF", a vSwitch's own."""
        return frozenset(map(role_kind, self._sharing))

    @property
    def label(self) -> str:
        """Who shares, in a few words: "shared: tester and VNF"; "shared" where it is not known."""
        duts = {role for machine in self.machines for role in machine.placement.dut}
        if not self.shared or not (duts or self.elsewhere):
            return self.mode
        kinds: dict[str, int] = {}
        for role in self._sharing:
            kind = "DUT" if role in duts else role_kind(role)
            kinds[kind] = kinds.get(kind, 0) + 1
        names = [f"{kind}s" if kind == _VNF and n > 1 else kind for kind, n in kinds.items()]
        names.sort(key=lambda name: ("DUT", TESTER).index(name) if name in ("DUT", TESTER) else 2)
        if sum(kinds.values()) == 1:
            names.append(SYSTEM)
        return f"{self.mode}: {joined(names)}"

    @property
    def sentence(self) -> str:
        """Who is on which processor: "pmd has processor 0 to itself; ..."; "" if unknown."""
        texts = []
        for machine in self.machines:
            where = f"on {joined(machine.hosts)}: " if len(self.machines) > 1 else ""
            if machine_texts := [*machine.texts]:
                texts.append(f"{where}{'; '.join(machine_texts)}")
        return "; ".join(texts)

    @property
    def about(self) -> str:
        """Who is on which processor, and why; "" if unknown."""
        sentence, reason = self.sentence, self.reason
        return f"{sentence} ({reason})" if sentence and reason else sentence or reason

    @property
    def meaning(self) -> str:
        """What numbers stand for where processors are shared; "" where none are."""
        if not self.shared:
            return ""
        others = joined(self._sharing) or "tester and VNFs"
        limit = f"what {others} could not send or take is this machine's limit"
        if self.elsewhere:
            return f"the DUT is not on this machine: {limit}"
        if self.dut_alone:
            return f"the DUT's pollers share no processor: {limit}, not the switch's"
        return (
            "rates say what this machine can do, not what the switch could on processors of its own"
        )

    @property
    def warning(self) -> str:
        """What a reader must know first; "" where no processor is shared."""
        if not self.shared:
            return ""
        about = self.about
        return f"shared processors: {about}; {self.meaning}" if about else self.meaning


def sharing_of(facts: ScenarioFacts) -> Sharing | None:
    """That of a deployment; None where its log does not have it."""
    return Sharing.of(facts.plan, facts.facts)


def role_kind(role: str) -> str:
    """What a role is: "tester", "VNF", or its own name; a host's name before it does not count."""
    name = role.rpartition(":")[2]
    return _VNF if name.startswith("vnf") else name


def joined(words: Sequence[object]) -> str:
    """Words as a list in a sentence: "a, b and c"."""
    texts = [str(word) for word in words]
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


class _Part(NamedTuple):
    """What a plan has on one host."""

    host: str  # "" where there is one
    placement: Placement | None  # None where it cannot be read
    has_dut: bool


def _parts(plan: Mapping[str, Any]) -> Iterator[_Part]:
    """What a log's plan has on each host."""
    for part in plan.get("hosts") or ():
        yield _Part(str(part.get("host", "")), _placement(part), "dut" in (part.get("parts") or ()))
    if not plan.get("hosts"):
        yield _Part("", _placement(plan), has_dut=True)


def _machines(parts: Sequence[_Part], facts: Mapping[str, Any]) -> Iterator[OnMachine]:
    """One for each machine: hosts that are on one have each other's roles in their placement."""
    of_hosts: Mapping[str, Any] = facts.get("hosts") or {}
    placed_hosts: set[str] = set()
    for part in parts:
        placed = None if part.host in placed_hosts else part.placement
        if placed is None:
            continue
        if not part.host:
            yield OnMachine(placed, turns=read_turns(facts))
            continue
        names = [part.host, *(role.partition(":")[0] for role in placed.cores if ":" in role)]
        hosts = tuple(dict.fromkeys(names))
        placed_hosts |= {*hosts}
        yield OnMachine(
            placement=_named(placed, part.host),
            hosts=hosts,
            has_dut=any(other_part.has_dut for other_part in parts if other_part.host in hosts),
            turns={
                f"{name}:{role}": length
                for name in hosts
                for role, length in read_turns(of_hosts.get(name) or {}).items()
            },
        )


def _placement(plan: Mapping[str, Any]) -> Placement | None:
    """A log's placement without those who are not deployed; None where it cannot be read."""
    placed = plan.get("placement") or {}
    fields = {name: placed[name] for name in Placement.model_fields if name in placed}
    try:
        placement = Placement.model_validate(
            {"cores": {}, "housekeeping": (), "reason": ""} | fields
        )
    except ValidationError:
        return None
    return _without(placement, _absent(sockets=bool((plan.get("scenario") or {}).get("sockets"))))


def _absent(*, sockets: bool) -> tuple[str, ...]:
    """Kinds of roles that a placement has and a deployment has not."""
    return (TESTER,) if sockets else ()  # programs are in its place


def _without(placed: Placement, absent: Collection[str]) -> Placement:
    """A placement without the roles of some kinds."""
    cores = {role: cpus for role, cpus in placed.cores.items() if role_kind(role) not in absent}
    return placed.model_copy(update={"cores": cores})


def _named(placed: Placement, host: str) -> Placement:
    """A placement whose roles all have their host's name before them."""

    def name(role: str) -> str:
        return role if ":" in role else f"{host}:{role}"

    return placed.model_copy(
        update={
            "cores": {name(role): cpus for role, cpus in placed.cores.items()},
            "unpinned": {name(role): cpus for role, cpus in placed.unpinned.items()},
            "dut": tuple(map(name, placed.dut)),
        }
    )


def _vnfs(facts: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Facts of each VNF by its role, which its port or launch line names."""
    for number, vnf in enumerate(facts.get("vnfs") or ()):
        if isinstance(vnf, Mapping):
            ports = vnf.get("ports")
            first = str(ports[0]) if isinstance(ports, Sequence) and ports else ""
            role = first.partition(".")[0]
            yield (role if role.startswith("vnf") else f"vnf{number}"), vnf


def read_turns(facts: Mapping[str, Any]) -> dict[str, int]:
    """Length of the turns of each role of a host that takes some, microseconds."""
    turns: dict[str, int] = {}
    generator = facts.get("generator")
    tester_turn = generator.get(TURN_OF_TESTER) if isinstance(generator, Mapping) else None
    if isinstance(tester_turn, int) and tester_turn:
        turns[TESTER] = tester_turn
    for role, vnf in _vnfs(facts):
        length = vnf.get(TURN_OF_VNF)
        if isinstance(length, int) and length:
            turns[role] = length
    return turns


def emulated_guests(facts: Mapping[str, Any]) -> list[str]:
    """VNFs whose virtual processors a program emulates, since there is no KVM."""
    of_hosts = facts.get("hosts") or {"": facts}  # which have all VNFs, too
    return [
        f"{host}:{role}" if host else role
        for host, host_facts in of_hosts.items()
        if isinstance(host_facts, Mapping)
        for role, vnf in _vnfs(host_facts)
        if str(vnf.get("acceleration", "")).startswith("none")
    ]


def refused_priorities(facts: Mapping[str, Any]) -> dict[str, str]:
    """VNFs and vSwitches that the kernel refused SCHED_FIFO, with its words."""
    refusals: dict[str, str] = {}
    for host, host_facts in {"": facts, **(facts.get("hosts") or {})}.items():
        if isinstance(host_facts, Mapping):
            parts = [*_vnfs(host_facts), ("vswitch", host_facts.get("vswitch"))]
            for role, part in parts:
                answer = part.get(PRIORITY_OF_VNF) if isinstance(part, Mapping) else None
                if isinstance(answer, str) and answer.startswith(_REFUSED):
                    name = f"{host}:{role}" if host else role
                    refusals[name] = answer.removeprefix(_REFUSED)
    return refusals
