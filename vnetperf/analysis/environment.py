"""What differs between the environments of two runs, without what always differs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from vnetperf.analysis.sharing import Sharing
from vnetperf.log.records import OTHER_HOSTS
from vnetperf.model.calibration import detect_drift
from vnetperf.model.deployment import ALL_DEPLOYMENTS, make_deployment
from vnetperf.model.result import RunResults, ScenarioFacts
from vnetperf.model.traffic import CHANGES
from vnetperf.model.transfer import POD_ATTACHED, POD_FIRST_PACKET, POD_REMOVED

#: In place of a value that only the other run has.
ABSENT: Final = "not recorded"

#: Path, with `*` for anything -> why a difference there is not the machine's.
VOLATILE: Final[Mapping[str, str]] = {
    "environment.collected": "the time of the look",
    "environment.uptime_s": "grows with time",
    "environment.variables.kept from programs*": "no program of the run has got them",
    "environment.load_average": "what happened to run before; busy neighbours are in the trials",
    "environment.memory.available_kb": "changes with every program that runs",
    "environment.memory.hugepages[*].free": "pages that another program holds for now",
    "environment.memory.hugepages[*].surplus": "pages that another program holds for now",
    "environment.limits.control group.*": "what programs of the control group leave",
    "environment.clock.*": "how the clock of another machine ran against the controller's",
    "environment.clock* at the end*": "how clocks of other machines ran against the controller's",
    "environment.cpu.current_khz*": "the frequency of an idle moment",
    "environment.kernel.interrupts_served*": "counters since the machine was started",
    "*.facts.vnfs[*].guest.ready after, s": "how long a boot took",
    f"*.facts.vswitch.pods.*.{POD_ATTACHED}": "how long an interface took to be made",
    f"*.facts.vswitch.pods.*.{POD_REMOVED}": "how long an interface took to be removed",
    f"*.facts.vswitch.pods.*.{POD_FIRST_PACKET}": "how long the first packet took",
    "*.facts.vswitch.results*": "names and addresses that CNI plugins made up",
    "*.facts.*NAPI threads and their processors*": "threads of a run have numbers of their own",
    "*.facts.threads moved off the DUT's processors": "other programs come and go",
    "*.facts.vswitch.dropped by programs until then*": "counts the frames that checked the path",
    "*.facts.vswitch.datapath*": "counters of the frames that checked the path",
    "*.facts.generator.neighbours": "counts the frames that checked the path",
    "*.facts.generator.clock offset between sockets*": "as precisely as each start measured it",
    "*.facts.generator.arrivals*": "the error of a clock when it was last compared",
}

_OF_OTHER_HOST: Final = re.compile(rf"^environment\.{OTHER_HOSTS}\.[^.]+\.")

#: Settings for where results go and what people write into them, not for how is measured.
NOT_MEASURING: Final = ("results_dir", "notes", "pcap")

#: Keys of the items of a list of objects: the first that all of them have.
_NAMES: Final = (("pci",), ("node", "size_kb"), ("locator",), ("name",), ("wire", "side"))

UNKNOWN: Final = "unknown: "
#: Facts that every run of one version has; below them, a name is there or it is not.
_FACT: Final = re.compile(
    r"settings\.\w+|environment(\.\w+){1,2}|environment\.nics\[[^]]*\]\.\w+"
    r"|scenarios\..*\.plan\.(testbed(\.\w+){1,2}|placement\.\w+)"
)

#: What is different in every run, and what replaces it.
_OF_ONE_RUN: Final = (
    # A run's directory is called by date, time and process; its links by the last four digits.
    (re.compile(r"\b\d{8}-\d{6}-\w{4,}\b"), "RUN"),
    (re.compile(r"(?<![A-Za-z0-9])vp[0-9a-f]{4}(?=[a-z])"), "vpRUN"),
    # Locally administered, and not one of the project's own: the kernel or DPDK made it up.
    (re.compile(r"(?i)\b(?!02:76:)[0-9a-f][26ae](:[0-9a-f]{2}){5}\b"), "(made-up MAC)"),
    (re.compile(r"/autogroup-\d+"), "/autogroup"),
    (re.compile(r"(usage|overhead): +(\d+ ?%|NOT AVAIL)"), r"\1: N %"),
)


@dataclass(frozen=True, slots=True)
class FactDifference:
    """One fact that two runs do not share."""

    path: str  # Where it stands in results.json, "environment.kernel.release"
    a: Any  # The first run's value; `ABSENT` when it has none
    b: Any  # The second run's


def environment_differences(a: RunResults, b: RunResults) -> tuple[FactDifference, ...]:
    """What differs between the environments of two runs."""
    tree_a, tree_b = _environment(a), _environment(b)
    shared = tree_a["scenarios"].keys() & tree_b["scenarios"].keys()
    for tree in (tree_a, tree_b):
        tree["scenarios"] = {k: v for k, v in tree["scenarios"].items() if k in shared}
    differences = tree_differences(tree_a, tree_b, (*a.testbeds, *b.testbeds))
    return (*(d for d in differences if not _is_meaningless(d)), *_faster_testers(a, b))


def _faster_testers(a: RunResults, b: RunResults) -> Iterator[FactDifference]:
    """Clean maxima of the generator that differ by more than their values spread."""
    points_b = {(c.testbed, c.wire, p.frame_size): p for c in b.calibrations for p in c.points}
    for calibration in a.calibrations:
        where = f"{calibration.testbed} {calibration.wire}".strip()
        for point in calibration.points:
            other = points_b.get((calibration.testbed, calibration.wire, point.frame_size))
            after = () if other is None else other.max_clean_values
            if other is not None and detect_drift(point.max_clean_values, after) == "drifted":
                path = f"calibrations.{where}.{point.frame_size} octets.max_clean_fps"
                yield FactDifference(path, point.max_clean_fps, other.max_clean_fps)


def comparability(results: RunResults, scenario: str) -> dict[str, str]:
    """What numbers of a scenario must have in common to be comparable, apart from its name."""
    facts = next((s for s in results.scenarios if s.scenario == scenario), None)
    plan = facts.plan if facts is not None else {}
    conditions = dict.fromkeys(("traffic", "flows", "wire", "generator", "rules"), ABSENT)
    request = plan.get("scenario")
    if isinstance(request, Mapping):
        traffic = request.get("traffic") or {}
        conditions = {
            "traffic": f"{traffic.get('name', '')} {_digest(traffic)}".strip(),
            "flows": str(traffic.get("flows", ABSENT)),
            "wire": ", ".join(
                sorted({part["wire"] for part in plan.get("hosts", ()) if "wire" in part})
            )
            or str(plan.get("wire", ABSENT)),
            **_tester_build(results.find_machine(scenario), plan),
            **_processors(plan),
            "VNFs": _vnf_count(request.get("deployment") or {}),
            **{name: str(request.get(key, ABSENT)) for name, key in _ASKED.items()},
            "tunnel": _tunnel(request),
            **{name: _describe_options(request.get(key)) for name, key in _OPTIONS.items()},
        }
        if facts is not None and (conflist := _conflist(facts)):  # also where none was named
            conditions["options"] = _describe_options(
                {**(request.get("options") or {}), "conflist": conflist}
            )
        conditions |= {
            kind.options_title: _describe_options(request[key])
            for key, kind in CHANGES.items()
            if request.get(key)
        }
        if (request.get("deployment") or {}).get("pods"):
            conditions["hosts of pods"] = str(request.get("pod_hosts", ABSENT))
            conditions["pods by"] = str(request.get("pod", "netns"))
            if request.get("variant", "").endswith("mpi"):
                conditions["pods and ranks"] = f"{request.get('pods')} x {request.get('ranks')}"
    if variables := _variables(results.find_machine(scenario)):
        conditions["variables"] = variables
    return conditions | {"machine": _machines(results.find_machine(scenario), plan)}


#: What is compared as it is, and what only as far as it was set.
_ASKED: Final = {
    "generator": "generator",
    "rules": "rules",
    "forwarding": "forwarding",
    "frame addressing": "addressing",
    "VNF": "vnf",
    "VNF mode": "vnf_mode",
    "VNF placement": "vnf_placement",
}
_OPTIONS: Final = {"options": "options", "guest": "guest", "core": "core", "stack": "stack"}
_WORDS: Final = ("name", "description")


def _variables(environment: Mapping[str, Any]) -> str:
    """Variables that the testbed file lets through to programs, with values; "" for none."""
    variables = environment.get("variables")
    named = variables.get("let through by the testbed") if isinstance(variables, Mapping) else None
    return _describe_options(named) if named else ""


def _tester_build(environment: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, str]:
    """The build of the generator's engine: with a faster one a series begins anew."""
    request = plan["scenario"]
    if request.get("sockets"):  # programs are in its place
        return {}
    hosts = (
        host.get("host") for host in plan.get("hosts", ()) if "tester" in host.get("parts", ())
    )
    others = environment.get(OTHER_HOSTS)
    other_hosts = others if isinstance(others, Mapping) else {}
    software = other_hosts.get(next(hosts, ""), environment).get("runs as root")
    built = software.get("built here with versions") if isinstance(software, Mapping) else None
    versions = built.get(request.get("generator")) if isinstance(built, Mapping) else None
    return {"tester's build": str(versions or ABSENT)}


def _processors(plan: Mapping[str, Any]) -> dict[str, str]:
    """Who shares processors, and in which turns: a DUT that does is not one that does not."""
    sharing = Sharing.of(plan)
    if sharing is None:
        return {"cores": ABSENT}
    turns = [
        machine.placement.turn_us
        for machine in sharing.machines
        if machine.placement.dut and sharing.shared
    ]
    text = ", ".join(sorted({f"turns of {length} us" for length in turns if length}))
    return {"cores": ", ".join(filter(None, (sharing.label, text)))}


def _digest(tree: Mapping[str, Any]) -> str:
    """A short digest of a tree of JSON values; a name or description changes nothing."""
    content = {key: value for key, value in tree.items() if key not in _WORDS}
    text = json.dumps(content, sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:10]


def _describe_options(options: Any) -> str:
    """Options that are set, of those of a group."""
    if not isinstance(options, Mapping):
        return "none"
    unset: tuple[Any, ...] = (None, "", [], ())
    settings = {k: v for k, v in options.items() if k not in _WORDS and v not in unset}
    return (
        ", ".join(f"{key} = {_short(value)}" for key, value in sorted(settings.items())) or "none"
    )


def _conflist(facts: ScenarioFacts) -> Any:
    """The CNI conflist that pods were made by; None for none."""
    network = facts.facts.get("vswitch")
    return network.get("conflist") if isinstance(network, Mapping) else None


def _tunnel(request: Mapping[str, Any]) -> str:
    """Its kind where frames pass one: every scenario names one."""
    hops = (request.get("deployment") or {}).get("hops", ())
    return str(request.get("tunnel", ABSENT)) if any(hop.get("tunnel") for hop in hops) else "none"


def _vnf_count(deployment: Mapping[str, Any]) -> str:
    """How many there are, where that is not what the deployment's name stands for."""
    name, count = str(deployment.get("name")), deployment.get("vnf_count")
    usual = make_deployment(name).vnf_count if name in ALL_DEPLOYMENTS else count
    return "as usual" if count == usual else str(count)


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def _machines(environment: Mapping[str, Any], plan: Mapping[str, Any]) -> str:
    """Which machine; of several hosts all that took part, by what of the deployment they had."""
    others = environment.get(OTHER_HOSTS)
    if not isinstance(others, Mapping) or not others:
        return _machine(environment)
    hosts = {str(environment.get("host", "")): environment, **others}
    parts = {
        host_plan["host"]: " and ".join(host_plan["parts"]) for host_plan in plan.get("hosts", ())
    }
    named = parts or {host: f"host {host}" for host in sorted(hosts)}
    return "; ".join(f"{role} on {_machine(hosts.get(host, {}))}" for host, role in named.items())


def machine_name(environment: Mapping[str, Any]) -> str:
    """The name of the machine that the facts are of; "" where it is not known."""
    name = str(environment.get("hostname", ""))
    return "" if name.startswith(UNKNOWN) else name


def _machine(environment: Mapping[str, Any]) -> str:
    """Which machine: its serial number, else its name, with processor and memory."""

    def fact(group: str, key: str) -> str:
        facts = environment.get(group)
        value = str(facts.get(key, "")) if isinstance(facts, Mapping) else ""
        return "" if value.startswith(UNKNOWN) else value

    cpu = environment.get("cpu")
    topology = cpu.get("topology") if isinstance(cpu, Mapping) else None
    online = str(topology.get("online", "")) if isinstance(topology, Mapping) else ""
    memory = fact("memory", "total_kb")
    name = fact("firmware", "serial") or str(environment.get("hostname", ""))
    parts = (
        name if not name.startswith(UNKNOWN) else "",
        fact("firmware", "product"),
        fact("cpu", "model") or (cpu if isinstance(cpu, str) else ""),
        f"processors {online}" if online else "",
        f"{round(int(memory) / 2**20)} GiB" if memory.isdecimal() else "",
    )
    return ", ".join(part for part in parts if part) or ABSENT


def scenario_differences(a: ScenarioFacts, b: ScenarioFacts) -> tuple[FactDifference, ...]:
    """What differs between two deployments, of one run or of two."""
    return tree_differences({"scenario": _deployed(a)}, {"scenario": _deployed(b)})


def tree_differences(a: Any, b: Any, testbeds: Sequence[str] = ()) -> tuple[FactDifference, ...]:
    """What differs between two trees of JSON values, without what is volatile.

    Each of several testbeds has facts of its own below its name.
    """
    differences = _walk(_without_run(a), _without_run(b), "")
    return tuple(
        difference for difference in differences if not volatility_reason(difference.path, testbeds)
    )


def _is_meaningless(difference: FactDifference) -> bool:
    sides = (difference.a, difference.b)
    if all(isinstance(side, str) and side.startswith(UNKNOWN) for side in sides):
        return True
    return ABSENT in sides and _FACT.fullmatch(difference.path) is not None


def volatility_reason(path: str, testbeds: Sequence[str] = ()) -> str:
    """Why a difference at a path means nothing; below which testbed it is makes no difference."""
    for name in testbeds:
        path = re.sub(rf"^environment\.{re.escape(name)}\.", "environment.", path)
    path = _OF_OTHER_HOST.sub("environment.", path)
    return next((reason for pattern, reason in VOLATILE.items() if _matches(pattern, path)), "")


def _matches(pattern: str, path: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), path) is not None


def _environment(results: RunResults) -> dict[str, Any]:
    run, settings = results.run, results.settings
    return {
        "run": {"tool": run.tool, "git": run.git, "testbed": run.testbed},
        "preset": results.preset,
        "settings": {
            key: setting.get("value")
            for key, setting in settings.items()
            if key not in NOT_MEASURING
        },
        "environment": results.environment,
        "calibrations": {
            f"{c.testbed} {c.wire}".strip(): {"generator": c.generator, "cores": list(c.cores)}
            for c in results.calibrations
        },
        "scenarios": {facts.scenario: _deployed(facts) for facts in results.scenarios},
    }


def _deployed(facts: ScenarioFacts) -> dict[str, Any]:
    """What stands for an environment in what was deployed: a plan's machine, and all facts."""
    planned = ("testbed", "wire", "nics", "placement", "memory", "commands")
    return {
        "plan": {key: facts.plan[key] for key in planned if key in facts.plan},
        "facts": facts.facts,
    }


def _without_run(tree: Any) -> Any:
    """A tree without what only one run can have: its number in names and paths, made-up MACs."""
    if isinstance(tree, str):
        for pattern, put in _OF_ONE_RUN:
            tree = pattern.sub(put, tree)
        return tree
    if isinstance(tree, Mapping):
        return {_without_run(key): _without_run(item) for key, item in tree.items()}
    return [_without_run(item) for item in tree] if isinstance(tree, list | tuple) else tree


def _walk(a: Any, b: Any, path: str) -> Iterator[FactDifference]:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys([*a, *b]):
            below = f"{path}.{key}" if path else str(key)
            yield from _walk(a.get(key, ABSENT), b.get(key, ABSENT), below)
    elif _are_objects(a) and _are_objects(b):
        items_a, items_b = _by_name(a, b)
        for key in dict.fromkeys([*items_a, *items_b]):
            yield from _walk(items_a.get(key, ABSENT), items_b.get(key, ABSENT), f"{path}[{key}]")
    elif a != b:
        yield FactDifference(path, a, b)


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def _by_name(
    a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Items by their keys, so that one more at the front is one difference."""
    for names in _NAMES:
        if all(name in item for item in (*a, *b) for name in names):
            keyed = [{" ".join(str(i[n]) for n in names): i for i in items} for items in (a, b)]
            if len(keyed[0]) == len(a) and len(keyed[1]) == len(b):
                return keyed[0], keyed[1]
    return ({str(n): i for n, i in enumerate(a)}, {str(n): i for n, i in enumerate(b)})
