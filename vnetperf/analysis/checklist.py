"""Checklist of the fields that a report must have (RFC 8204, RFC 2544, TST 009, MLRsearch).

Each recorded or with the reason why not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from vnetperf.analysis.sharing import TURN_OF_VNF
from vnetperf.model.result import RunResults

Scope = Literal["run", "scenario", "vnf", "guest", "result"]
Missing = Literal["unknown", "not measured", "not applicable"]

GROUPS: Final = {
    1: "Identity",
    2: "DUT",
    3: "Host",
    4: "Guests",
    5: "Tester",
    6: "Traffic",
    7: "Search",
    8: "Trials",
    9: "Results",
    10: "Not measured, unknown, removed by redaction",
}


@dataclass(frozen=True, slots=True)
class RequiredField:
    """One field."""

    group: int  # Its group, a key of `GROUPS`
    name: str  # What a reader looks for
    places: tuple[str, ...]  # Where it is, below the objects of `scope`
    #: "run": results.json; else each scenario that was deployed, each of its VNFs, those that are
    #: guests, or each result.
    scope: Scope = "run"
    why: str = "the run did not record it"  # The reason where no place holds anything
    missing: Missing = "unknown"  # What kind of absence that is
    test: str = ""  # Of results: only those of this test


#: How places begin that a run on several testbeds has once for each, below its name.
_ENVIRONMENT: Final = "environment|"


def _host(name: str, *places: str) -> RequiredField:
    return RequiredField(3, name, tuple(f"{_ENVIRONMENT}{place}" for place in places))


def _nic(name: str, key: str) -> RequiredField:
    return RequiredField(
        3, f"NIC {name}", (f"{_ENVIRONMENT}nics|*|{key}",), why="no network device was found"
    )


def _dut(name: str, *places: str, fact: str) -> RequiredField:
    return RequiredField(2, name, places, "scenario", f"the backend does not tell {fact}")


def _guest(name: str, *places: str) -> RequiredField:
    return RequiredField(4, name, places, "guest", "the guest's launcher does not tell it")


def _tester(name: str, *places: str) -> RequiredField:
    return RequiredField(5, name, places, "scenario", "the generator does not tell it")


def _traffic(name: str, *keys: str) -> RequiredField:
    places = tuple(f"plan|scenario|{key}" for key in keys)
    return RequiredField(6, name, places, "scenario", "the traffic has none", "not applicable")


def _search(name: str, *places: str) -> RequiredField:
    reason = "the log does not say"
    return RequiredField(7, name, places, "result", reason, test="throughput")


def _trial(name: str, *places: str) -> RequiredField:
    reason = "no trial was run"
    return RequiredField(
        8, name, tuple(f"log|trial|{p}" for p in places), "run", reason, "not measured"
    )


def _result(name: str, *places: str, test: str = "throughput", reason: str = "") -> RequiredField:
    reason = reason or "no trial showed it"
    return RequiredField(9, name, places, "result", reason, "not measured", test)


def _per_frame(name: str, event: str) -> RequiredField:
    """A count of the processor for each frame, by role: each is a field of its own."""
    place = f"goals|*|threads|*|events_per_frame|{event}"
    return _result(name, place, "goals|*|uncollected|events")


_NO_PROGRAM = "its form of VNF has no version of its own"

FIELDS: Final[tuple[RequiredField, ...]] = (
    RequiredField(1, "tool and version", ("run|tool",)),
    RequiredField(1, "commit of the tool", ("run|git",)),
    RequiredField(1, "preset", ("preset",)),
    RequiredField(1, "compliance ledger", ("ledger",), why="no clause was looked at"),
    RequiredField(1, "start", ("run|started",)),
    RequiredField(1, "end", ("run|ended",), why="the run was interrupted"),
    RequiredField(
        1, "isolation statement", ("run|isolation",), why="the testbed states none (RFC 6815)"
    ),
    RequiredField(
        1, "notes", ("run|notes",), why="the operator gave none", missing="not applicable"
    ),
    RequiredField(1, "command line", ("run|command",)),
    _dut("backend", "facts|vswitch|backend", "plan|scenario|vswitch", fact="its name"),
    _dut("version or commit", "facts|vswitch|version", fact="its version"),
    _dut(
        "build flags",
        "facts|vswitch|build",
        fact="how it was built; package versions are in environment.software",
    ),
    _dut("launch line", "facts|vswitch|launch line", "plan|commands", fact="how it was started"),
    _dut(
        "effective configuration",
        *("facts|vswitch|other_config", "facts|vswitch|startup.conf", "facts|vswitch|bridges"),
        *("facts|vswitch|macvtaps", "facts|vswitch|physical functions"),
        *("facts|vswitch|launch line",),
        fact="its configuration",
    ),
    _dut(
        "flows and tables installed",
        *("facts|vswitch|rules", "facts|vswitch|forwarding", "facts|vswitch|pairs"),
        *("facts|vswitch|virtual functions", "facts|vswitch|macvtaps"),
        "facts|vswitch|physical ports are joined by",
        fact="what it was told to forward",
    ),
    _dut("port map", "facts|vswitch|ports", "facts|vswitch|physical functions", fact="its ports"),
    _dut("MTU", "facts|MTU", "facts|vswitch|mtu", fact="it"),
    _dut(
        "queues",
        *("facts|vswitch|rx queue placement", "facts|vswitch|rx queues"),
        *("facts|vswitch|queues of each VNF port", "plan|scenario|options|rx_queues"),
        fact="them, and none were asked for",
    ),
    _dut(
        "descriptors",
        *("facts|vswitch|rx/tx descriptors of NICs", "facts|vswitch|ports of the datapath"),
        "plan|scenario|options|rx_descriptors",
        fact="its own default, and none were asked for",
    ),
    _dut(
        "offloads",
        *("facts|vswitch|offloads", "facts|vswitch|offloads of VNF ports"),
        *("facts|vswitch|ports of the datapath", "plan|scenario|options|offloads"),
        fact="them, and none were asked for",
    ),
    RequiredField(
        2,
        "memory and its node",
        ("plan|memory",),
        "scenario",
        "nothing was given hugepages",
        "not applicable",
    ),
    _dut("cores used", "plan|placement|cores", fact="them"),
    _dut("threads pinned, and why so", "plan|placement|reason", fact="it"),
    RequiredField(
        2,
        "threads moved off the DUT's processors at deployment, vnetperf's own among them",
        ("facts|threads moved off the DUT's processors",),
        "scenario",
        "processors are dedicated, or the DUT shares them",
        "not applicable",
    ),
    _dut("path check", "path_check", fact="it"),
    _host("board", "firmware|board", "firmware|product"),
    _host("system", "firmware|product"),
    _host("BIOS version", "firmware|bios_version"),
    _host("BIOS date", "firmware|bios_date"),
    _host("BIOS changes", "firmware|bios_changes"),
    _host("CPU model", "cpu|model"),
    _host("microcode", "cpu|microcode"),
    _host("SMT", "cpu|topology|smt", "cpu|smt_control"),
    _host("cores enabled", "cpu|topology|online"),
    _host("governor", "cpu|governors"),
    _host("turbo", "cpu|turbo"),
    _host("C-states", "cpu|idle_states"),
    _host("NUMA map", "cpu|topology|numa"),
    _host("NUMA memory and distances", "memory|nodes"),
    _host("memory size", "memory|total_kb"),
    _host("memory type and modules", "memory|modules"),
    _host("memory channels", "memory|channels"),
    _host("hugepages by node and size", "memory|hugepages"),
    _host("kernel", "kernel|release"),
    _host("distribution", "distribution|name"),
    _host("kernel command line", "kernel|cmdline"),
    _host("isolcpus", "kernel|boot_options|isolcpus"),
    _host("nohz_full", "kernel|boot_options|nohz_full"),
    _host("iommu", "kernel|boot_options|iommu", "kernel|iommu_groups"),
    _host("mitigations", "kernel|vulnerabilities"),
    _host("hypervisor", "virtualisation"),
    _host("IRQ affinity", "interrupts|affinity"),
    _host("irqbalance", "interrupts|irqbalance"),
    _nic("model", "model"),
    _nic("firmware", "firmware"),
    _nic("driver", "driver"),
    _nic("PCI slot", "slot"),
    _nic("PCI address", "pci"),
    _nic("link speed", "speed_mbps"),
    _nic("link width", "link_width"),
    _nic("NUMA node", "node"),
    _nic("interrupts", "irqs"),
    _host("clock source", "kernel|clocksource"),
    _host("clock offset between sockets", "kernel|clock_offset"),
    _host("compiler", "software|gcc"),
    _host("versions of software", "software"),
    _host("builds of programs", "programs"),
    _guest("image", "image"),
    _guest("image hash", "image file|hash"),
    _guest("operating system", "system|distribution"),
    _guest("kernel", "system|kernel"),
    _guest("command line", "system|cmdline"),
    _guest("hypervisor", "QEMU"),
    _guest("acceleration", "acceleration"),
    _guest("vCPUs", "guest|vCPUs"),
    _guest("pins of vCPUs", "guest|placement|vCPU 0"),
    _guest("emulator pin", "guest|placement|emulator"),
    _guest("memory", "guest|memory, MiB"),
    _guest("memory backing", "guest|pages, KiB"),
    _guest("memory node", "guest|placement|memory, MiB"),
    _guest("vNIC type and queues", "ports"),
    _guest("vNIC driver and features", "guest|NICs in the guest", "driver of its NICs"),
    RequiredField(4, "loop application", ("application",), "vnf"),
    RequiredField(4, "its version", ("version",), "vnf", _NO_PROGRAM),
    RequiredField(
        4, "its arguments", ("launch line", "set up by", "programs"), "vnf", "it tells none"
    ),
    RequiredField(4, "where it runs", ("launcher",), "vnf"),
    RequiredField(
        4,
        "turns on a shared processor",
        (TURN_OF_VNF,),
        "vnf",
        "it has a processor of its own, or does not sleep",
        "not applicable",
    ),
    _tester("generator", "plan|scenario|generator"),
    _tester("version", "facts|generator|version"),
    _tester("cores", "plan|placement|cores|tester"),
    RequiredField(
        5,
        "turns on a shared processor",
        ("results|*|goals|*|turns|length_us",),
        why="it has processors of its own, or does not sleep",
        missing="not applicable",
    ),
    RequiredField(
        5,
        "groups of frames in a turn",
        ("results|*|goals|*|turns|group_frames",),
        why="it takes no turns",
        missing="not applicable",
    ),
    RequiredField(
        5,
        "whether it runs as soon as it wakes",
        ("results|*|goals|*|turns|prompt",),
        why="it takes no turns",
        missing="not applicable",
    ),
    _tester("NICs", "facts|generator|ports", "plan|nics", "facts|generator|launch line"),
    _tester("launch line", "facts|generator|launch line"),
    _tester("time stamps", "facts|generator|time stamps"),
    _tester("error of time stamps", "facts|generator|time stamp error"),
    _tester("clock offset between its sockets", "facts|generator|clock offset between sockets"),
    _tester("one or two hosts", "facts|generator|runs on", "facts|generator|server"),
    RequiredField(
        5,
        "self-test capacity",
        ("calibrations|*|points|*|max_clean_fps",),
        why="the generator was not calibrated",
        missing="not measured",
    ),
    RequiredField(
        6, "frame sizes, FCS included", ("results|*|frame_size",), why="nothing was measured"
    ),
    RequiredField(
        6,
        "rate units: aggregate frames/s, and how many interfaces",
        ("results|*|directions",),
        why="nothing was measured",
    ),
    _traffic("direction", "traffic|bidirectional"),
    _traffic("flows", "traffic|flows"),
    _traffic("field that varies", "traffic|vary"),
    _traffic("protocols", "traffic|headers", "traffic|raw"),
    _traffic("tunnel", "tunnel"),
    _traffic("IMIX genome", "traffic|imix"),
    _traffic("modifiers: broadcast", "traffic|broadcast"),
    _traffic("learning frames", "traffic|learning_frames"),
    _traffic("bursts", "traffic|burst"),
    _search("algorithm", "algorithm"),
    _search("goal loss ratio", "goals|*|loss_ratio"),
    _search("goal exceed ratio", "goals|*|exceed_ratio"),
    _search("goal final trial duration", "goals|*|final_trial_s"),
    _search("goal duration sum", "goals|*|duration_sum_s"),
    _search("goal initial trial duration", "goals|*|initial_trial_s"),
    _search("goal width", "goals|*|width"),
    _search("minimum load", "min_load_fps"),
    _search("maximum load", "max_load_fps"),
    _search("wait times", "log|run|preset|trial"),
    _search("repeats, max(r), z and step", "log|search|goals"),
    _search("parameters of every other test", "log|run|preset|tests"),
    RequiredField(7, "seed", (), why="nothing is drawn at random", missing="not applicable"),
    _search("number of trials", "trial_count"),
    _search("seconds of traffic", "trial_seconds"),
    _search("total time", "wall_seconds"),
    _trial("intended load and duration", "spec|load_fps", "spec|duration_s"),
    _trial("intended frames", "result|directions|intended"),
    _trial("offered frames", "result|directions|sent"),
    _trial("measured duration", "result|directions|tx_seconds"),
    _trial("received", "result|directions|received"),
    _trial("lost: where", "lost_at"),
    _trial("refused by the wire", "result|directions|refused"),
    _trial("unsent", "result|directions|unsent"),
    _trial("duplicates", "result|directions|duplicated"),
    _trial("reordered", "result|directions|reordered"),
    _trial("validity verdict, negative loss included", "verdict"),
    _trial("why not valid", "reason"),
    _trial("per-hop counters", "result|hops"),
    _trial("pacing error", "result|mean_lag_s"),
    RequiredField(
        9,
        "theoretical maximum",
        ("media_max_fps",),
        "result",
        "the wires have no speed of their own",
        "not applicable",
        "throughput",
    ),
    _result("generator's limit", "generator_max_fps", reason="this size was not calibrated"),
    _result("throughput, lower bound", "goals|*|lower_bound_fps", reason="no load met the goal"),
    _result(
        "throughput, n and interval",
        "deployments|numbers",
        reason="one deployment has none; --repeat N deploys and measures N times",
    ),
    _result("deployments attempted, measured, failed", "deployments"),
    _result("upper bound", "goals|*|upper_bound_fps", reason="no load failed the goal"),
    _result("conditional throughput", "goals|*|conditional_throughput_fps"),
    RequiredField(
        9,
        "L1 bit/s",
        ("goals|*|throughput_l1_bps",),
        "result",
        "the wires have no speed of their own, or no load met the goal",
        "not applicable",
        "throughput",
    ),
    _result("regular or not", "goals|*|regular"),
    _result("trials behind it", "goals|*|trials_at_lower_bound"),
    _result("latency at the throughput", "goals|*|latency"),
    _result("CPU by role", "goals|*|threads", "goals|*|uncollected|cpu"),
    _per_frame("cycles per frame", "cycles"),
    _per_frame("instructions per frame", "instructions"),
    _per_frame("cache misses per frame", "cache misses"),
    _per_frame("TLB misses per frame", "dTLB load misses"),
    _result("latency by RFC 8219", "latency_at|*|typical", test="latency"),
    _result("latency, n and interval", "latency_at|*|mean_ns", test="latency"),
    _result("kind of latency (RFC 1242)", "latency_at|*|definition", test="latency"),
    _result("delay variation (PDV, IPDV)", "latency_at|*|variation", test="latency"),
    _result("latency against absolute loads", "latency_at|*|trials", test="latency_load"),
    _result("processors by role against load", "cpu_load|at|*|roles", test="cpu_load"),
    _result("loss curve", "loss_steps", test="frame_loss"),
    _result("back-to-back frames, n and interval", "back_to_back|frames", test="back_to_back"),
    _result("corrected buffer time", "back_to_back|corrected_s", test="back_to_back"),
    _result("recovery time", "recovery|seconds", test="recovery"),
    _result("reset times", "resets", test="reset"),
    _result("maximum receive rate", "rates", test="mrr"),
    _result("loss around the throughput", "loss_steps", test="loss_profile"),
    _result("loss ratio of a long run, and its interval", "soak|loss_ratio", test="soak"),
    _result("acceptance of a service (Y.1564)", "service|steps", test="service"),
    _result("forwarding rate (RFC 2889)", "rates", test="forwarding_rate"),
    _result("address caching capacity (RFC 2889)", "addresses", test="address_caching"),
    _result("address learning rate (RFC 2889)", "addresses", test="address_learning"),
    _result("connection establishment rate (RFC 9693)", "sessions", test="connection_rate"),
    _result("capacity for sessions (RFC 9693)", "sessions", test="session_capacity"),
)

State = Literal["recorded", "unknown", "not measured", "not applicable", "removed"]
LOG: Final = "trials.jsonl"
REMOVED: Final = "removed by redaction"
_UNKNOWN: Final = ("unknown", "not measured")
#: Scope -> why nothing is required of it.
_NONE: Final = {
    "vnf": "no VNF was deployed",
    "guest": "no guest was deployed",
    "scenario": "nothing was deployed",
}
Place = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class Item:
    """One field of one run."""

    group: int  # Number of its group
    name: str
    state: State
    where: str  # Where it stands, or was looked for: "pvp_dpdk.facts.vswitch.version"
    #: "unknown: why", "not measured: why", "not applicable: why", "removed by redaction: how"; ""
    #: where it is recorded.
    reason: str = ""

    @property
    def title(self) -> str:
        """Group and name: "Host: microcode"; the name alone of what redaction took."""
        return self.name if self.state == "removed" else f"{GROUPS[self.group]}: {self.name}"


def checklist(results: RunResults) -> tuple[Item, ...]:
    """Every field of every group."""
    tree = results.model_dump(mode="json", exclude={"results", "trials"})
    tree["results"] = [result.model_dump(mode="json") for result in results.results]
    tree["has trials"] = bool(results.trials)
    items: dict[tuple[int, str, str], Item] = {}
    for field in (
        required for declared in FIELDS for required in _on_testbeds(declared, results.testbeds)
    ):
        for item in _look(field, tree):
            items.setdefault((item.group, item.name, item.reason), item)
    return (*items.values(), *_redacted(results))


def missing_items(results: RunResults) -> tuple[Item, ...]:
    """What a reader might look for and will not find."""
    return tuple(i for i in checklist(results) if i.state in (*_UNKNOWN, "removed"))


def _on_testbeds(field: RequiredField, testbeds: Sequence[str]) -> list[RequiredField]:
    """A field of the environment for each testbed of a run on several: each has its own."""
    if not testbeds or not any(place.startswith(_ENVIRONMENT) for place in field.places):
        return [field]
    return [
        replace(
            field,
            places=tuple(
                place.replace(_ENVIRONMENT, f"{_ENVIRONMENT}{name}|", 1) for place in field.places
            ),
        )
        for name in testbeds
    ]


def _look(field: RequiredField, tree: Mapping[str, Any]) -> Iterator[Item]:
    units = list(_units(field, tree))
    for where, unit in units:
        yield _item(field, where, unit, tree)
    if units:
        return
    if field.scope != "result":
        if field.scope == "scenario" and tree["scenarios"]:
            yield _absent(field, "scenarios", "not measured", "no scenario could be deployed")
        else:
            yield _absent(field, "scenarios", "not applicable", _NONE[field.scope])
        return
    tried = [r for r in tree["results"] if r["test"] == field.test]
    reason = next((r["why"] for r in tried if r["why"]), f"no test {field.test} was run")
    yield _absent(field, "results", "not measured", reason)


def _units(field: RequiredField, tree: Mapping[str, Any]) -> Iterator[Place]:
    """The objects that must have a field, with their names."""
    if field.scope == "run":
        yield "", tree
    elif field.scope == "result":
        for result in tree["results"]:
            if result["test"] == field.test and result["status"] == "measured":
                size = result["imix"] or result["frame_size"]
                yield f"{result['scenario']}.{result['test']}[{size}]", result
    else:
        for scenario in tree["scenarios"]:
            if scenario["error"]:
                continue
            if field.scope == "scenario":
                yield scenario["scenario"], scenario
                continue
            for number, vnf in enumerate(scenario["facts"].get("vnfs", ())):
                if field.scope == "vnf" or "guest" in vnf:
                    yield f"{scenario['scenario']}.facts.vnfs[{number}]", vnf


def _item(field: RequiredField, where: str, unit: Any, tree: Mapping[str, Any]) -> Item:
    reason = ""
    for place in field.places:
        keys = place.split("|")
        if keys[0] == "log":
            if tree["has trials"] or field.group != 8:
                return Item(field.group, field.name, "recorded", f"{LOG}: {'.'.join(keys[1:])}")
            continue
        path = ".".join(filter(None, (where, *keys)))
        values = [value for value in _read_place(unit, keys) if _holds(value)]
        recorded = [value for value in values if not _describe_unknown(value)]
        if recorded:
            return Item(field.group, field.name, "recorded", path)
        if values and not reason:
            reason = _describe_unknown(values[0])
    path = ".".join(filter(None, (where, *(field.places[0].split("|") if field.places else ()))))
    if reason:
        state: State = "not measured" if reason.lower().startswith("not measured") else "unknown"
        return Item(field.group, field.name, state, path, reason)
    return _absent(field, path, field.missing, field.why)


def _absent(field: RequiredField, where: str, state: State, reason: str) -> Item:
    return Item(field.group, field.name, state, where, f"{state}: {reason}")


def _read_place(value: Any, keys: list[str]) -> Iterator[Any]:
    """Values at a place; none where it does not exist."""
    if not keys:
        yield value
    elif keys[0] == "*":
        for item in value.values() if isinstance(value, Mapping) else value or ():
            yield from _read_place(item, keys[1:])
    elif isinstance(value, Mapping):
        if keys[0] in value:
            yield from _read_place(value[keys[0]], keys[1:])
    elif _is_unknown(value):  # a whole branch that could not be read
        yield value


def _holds(value: Any) -> bool:
    return value is not None and value not in ("", [], {})


def _is_unknown(value: Any) -> bool:
    return isinstance(value, str) and value.lower().startswith(_UNKNOWN)


def _describe_unknown(value: Any) -> str:
    """Why a value is none; of a tree, when all its leaves are; "" when it is one."""
    if isinstance(value, Mapping | list):
        inner = value.values() if isinstance(value, Mapping) else value
        reasons = [_describe_unknown(v) for v in inner]
        return reasons[0] if reasons and all(reasons) else ""
    return value if _is_unknown(value) else ""


def _redacted(results: RunResults) -> Iterator[Item]:
    redaction = results.redacted
    if redaction is None:
        return
    replaced = {
        kind: f"{number} different, each by the same token everywhere"
        for kind, number in redaction.values.items()
    }
    for name, description in (*replaced.items(), *redaction.dropped.items()):
        yield Item(10, name, "removed", "everywhere", f"{REMOVED}: {description}")
    for text in redaction.limited:
        yield Item(10, "replaced in part", "removed", "everywhere", f"{REMOVED}: {text}")
