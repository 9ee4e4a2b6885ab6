"""What differs between the environments of two runs, without what always differs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from vnetperf.model.result import RunResults, ScenarioFacts

#: In place of a value that only the other run has.
ABSENT: Final = "not recorded"

#: Path, with `*` for anything -> why a difference there says nothing about the machine.
VOLATILE: Final[Mapping[str, str]] = {
    "environment.collected": "the time of the look",
    "environment.uptime_s": "grows with time",
    "environment.load_average": "what happened to run before; busy neighbours are in the trials",
    "environment.memory.available_kb": "changes with every program that runs",
    "environment.memory.hugepages[*].free": "pages that another program holds for now",
    "environment.memory.hugepages[*].surplus": "pages that another program holds for now",
    "environment.cpu.current_khz*": "the frequency of an idle moment",
    "environment.kernel.interrupts_served*": "counters since the machine was started",
    "*.facts.vnfs[*].guest.ready after, s": "how long a boot took",
    "*.facts.vswitch.datapath*": "counters of the frames that checked the path",
    "*.facts.generator.neighbours": "counts the frames that checked the path",
    "*.facts.generator.arrivals*": "the error of a clock when it was last compared",
}

#: Settings that say where results go and what people write into them, not how was measured.
NOT_MEASURING: Final = ("results_dir", "notes", "pcap")

#: What tells the items of a list of objects apart, the first that all of them have.
_NAMES: Final = (("pci",), ("node", "size_kb"), ("locator",), ("name",), ("wire", "side"))

# A run's directory is called by date, time and process; its links by the last four digits.
_RUN = re.compile(r"\b\d{8}-\d{6}-(\w{4,})\b")


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact that two runs do not share.

    Attributes:
        path: Where it stands in results.json, "environment.kernel.release".
        a: The first run's value; `ABSENT` when it has none.
        b: The second run's.
    """

    path: str
    a: Any
    b: Any


def environment_differences(a: RunResults, b: RunResults) -> tuple[Difference, ...]:
    """What differs between the environments of two runs.

    Args:
        a: A run.
        b: Another.

    Returns:
        In the order of results.json: tool, settings, machine, generator, and what was deployed for
        scenarios that both runs have. What `VOLATILE` names is left out, and names that hold the
        number of a run are taken for equal.
    """
    one, other = _environment(a), _environment(b)
    shared = one["scenarios"].keys() & other["scenarios"].keys()
    for tree in (one, other):
        tree["scenarios"] = {k: v for k, v in tree["scenarios"].items() if k in shared}
    return tree_differences(one, other)


def scenario_differences(a: ScenarioFacts, b: ScenarioFacts) -> tuple[Difference, ...]:
    """What differs between two deployments, of one run or of two.

    Args:
        a: What was deployed.
        b: What was deployed another time, or for another scenario.

    Returns:
        Paths begin with "scenario".
    """
    return tree_differences({"scenario": _deployed(a)}, {"scenario": _deployed(b)})


def tree_differences(a: Any, b: Any) -> tuple[Difference, ...]:
    """What differs between two trees of JSON values, without what is volatile.

    Args:
        a: A tree.
        b: Another.

    Returns:
        One for each leaf, or for each branch that only one of them has.
    """
    found = _walk(_without_run(a), _without_run(b), "")
    return tuple(difference for difference in found if not why_volatile(difference.path))


def why_volatile(path: str) -> str:
    """Why a difference at a path says nothing.

    Args:
        path: Where a value stands.

    Returns:
        The reason; "" when it does say something.
    """
    return next((why for pattern, why in VOLATILE.items() if _matches(pattern, path)), "")


def _matches(pattern: str, path: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), path) is not None


def _environment(results: RunResults) -> dict[str, Any]:
    run, settings = results.run, results.settings
    return {
        "run": {"tool": run.tool, "git": run.git, "testbed": run.testbed},
        "preset": results.preset,
        "settings": {
            key: held.get("value") for key, held in settings.items() if key not in NOT_MEASURING
        },
        "environment": results.environment,
        "calibrations": {
            c.wire: {"generator": c.generator, "cores": list(c.cores)} for c in results.calibrations
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
    """A tree in which the numbers of runs are taken out of names and paths."""
    numbers = {match for text in _texts(tree) for match in _RUN.findall(text)}
    links = re.compile("|".join(f"(?<=vp){re.escape(n[-4:])}" for n in sorted(numbers)) or "(?!)")

    def plain(value: Any) -> Any:
        if isinstance(value, str):
            return links.sub("RUN", _RUN.sub("RUN", value))
        if isinstance(value, Mapping):
            return {key: plain(item) for key, item in value.items()}
        return [plain(item) for item in value] if isinstance(value, list | tuple) else value

    return plain(tree)


def _texts(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, Mapping):
        for item in tree.values():
            yield from _texts(item)
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from _texts(item)


def _walk(a: Any, b: Any, path: str) -> Iterator[Difference]:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys([*a, *b]):
            below = f"{path}.{key}" if path else str(key)
            yield from _walk(a.get(key, ABSENT), b.get(key, ABSENT), below)
    elif _are_objects(a) and _are_objects(b):
        one, other = _by_name(a, b)
        for key in dict.fromkeys([*one, *other]):
            yield from _walk(one.get(key, ABSENT), other.get(key, ABSENT), f"{path}[{key}]")
    elif a != b:
        yield Difference(path, a, b)


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def _by_name(
    a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Items by what tells them apart, so that one more at the front is one difference."""
    for names in _NAMES:
        if all(name in item for item in (*a, *b) for name in names):
            keyed = [{" ".join(str(i[n]) for n in names): i for i in items} for items in (a, b)]
            if len(keyed[0]) == len(a) and len(keyed[1]) == len(b):
                return keyed[0], keyed[1]
    return ({str(n): i for n, i in enumerate(a)}, {str(n): i for n, i in enumerate(b)})
