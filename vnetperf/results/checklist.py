"""Goes through the fields that a report must have: each is there, or says why it is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from vnetperf.model.result import RunResults
from vnetperf.results.checklist_fields import FIELDS, GROUPS, Asked

State = Literal["recorded", "unknown", "not measured", "not applicable", "removed"]
LOG: Final = "trials.jsonl"
REMOVED: Final = "removed by redaction"
_SAID: Final = ("unknown", "not measured")
#: Scope -> why it has nothing to be asked for.
_NONE: Final = {
    "vnf": "no VNF was deployed",
    "guest": "no guest was deployed",
    "scenario": "nothing was deployed",
}
Place = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class Item:
    """One field of one run.

    Attributes:
        group: Number of its group.
        name: What a reader looks for.
        state: What became of it.
        where: Where it stands, or was looked for: "pvp_dpdk.facts.vswitch.version".
        said: "unknown: why", "not measured: why", "not applicable: why", "removed by redaction:
            how"; "" where it is recorded.
    """

    group: int
    name: str
    state: State
    where: str
    said: str = ""

    @property
    def title(self) -> str:
        """Group and name: "Host: microcode"; the name alone of what redaction took."""
        return self.name if self.state == "removed" else f"{GROUPS[self.group]}: {self.name}"


def checklist(results: RunResults) -> tuple[Item, ...]:
    """Every field of every group.

    Args:
        results: The run.

    Returns:
        In the order of the groups, those of group 10 last: what was taken out of a copy. A field of
        several scenarios or results stands once for each different thing to be said of it.
    """
    tree = results.model_dump(mode="json", exclude={"trials"})
    tree["has trials"] = bool(results.trials)
    found: dict[tuple[int, str, str], Item] = {}
    for asked in FIELDS:
        for item in _look(asked, tree):
            found.setdefault((item.group, item.name, item.said), item)
    return (*found.values(), *_redacted(results))


def lacking(results: RunResults) -> tuple[Item, ...]:
    """What a reader might look for and will not find.

    Args:
        results: The run.

    Returns:
        Items that are unknown, not measured or removed from this copy: group 10 of a report.
    """
    return tuple(i for i in checklist(results) if i.state in (*_SAID, "removed"))


def _look(asked: Asked, tree: Mapping[str, Any]) -> Iterator[Item]:
    units = list(_units(asked, tree))
    for where, unit in units:
        yield _item(asked, where, unit, tree)
    if units:
        return
    if asked.scope != "result":
        if asked.scope == "scenario" and tree["scenarios"]:
            yield _absent(asked, "scenarios", "not measured", "no scenario could be deployed")
        else:
            yield _absent(asked, "scenarios", "not applicable", _NONE[asked.scope])
        return
    tried = [r for r in tree["results"] if r["test"] == asked.test]
    why = next((r["why"] for r in tried if r["why"]), f"no test {asked.test} was run")
    yield _absent(asked, "results", "not measured", why)


def _units(asked: Asked, tree: Mapping[str, Any]) -> Iterator[Place]:
    """What a field is asked of, with its name."""
    if asked.scope == "run":
        yield "", tree
    elif asked.scope == "result":
        for result in tree["results"]:
            if result["test"] == asked.test and result["status"] == "measured":
                size = result["imix"] or result["frame_size"]
                yield f"{result['scenario']}.{result['test']}[{size}]", result
    else:
        for scenario in tree["scenarios"]:
            if scenario["error"]:
                continue
            if asked.scope == "scenario":
                yield scenario["scenario"], scenario
                continue
            for number, vnf in enumerate(scenario["facts"].get("vnfs", ())):
                if asked.scope == "vnf" or "guest" in vnf:
                    yield f"{scenario['scenario']}.facts.vnfs[{number}]", vnf


def _item(asked: Asked, where: str, unit: Any, tree: Mapping[str, Any]) -> Item:
    why = ""
    for place in asked.places:
        keys = place.split("|")
        if keys[0] == "log":
            if tree["has trials"] or asked.group != 8:
                return Item(asked.group, asked.name, "recorded", f"{LOG}: {'.'.join(keys[1:])}")
            continue
        path = ".".join(filter(None, (where, *keys)))
        values = [value for value in _at(unit, keys) if _holds(value)]
        known = [value for value in values if not _why_unknown(value)]
        if known:
            return Item(asked.group, asked.name, "recorded", path)
        if values and not why:
            why = _why_unknown(values[0])
    path = ".".join(filter(None, (where, *(asked.places[0].split("|") if asked.places else ()))))
    if why:
        state: State = "not measured" if why.lower().startswith("not measured") else "unknown"
        return Item(asked.group, asked.name, state, path, why)
    return _absent(asked, path, asked.missing, asked.why)


def _absent(asked: Asked, where: str, state: State, why: str) -> Item:
    return Item(asked.group, asked.name, state, where, f"{state}: {why}")


def _at(value: Any, keys: list[str]) -> Iterator[Any]:
    """Values at a place; none where it does not exist."""
    if not keys:
        yield value
    elif keys[0] == "*":
        for item in value.values() if isinstance(value, Mapping) else value or ():
            yield from _at(item, keys[1:])
    elif isinstance(value, Mapping):
        if keys[0] in value:
            yield from _at(value[keys[0]], keys[1:])
    elif _says_unknown(value):  # a whole branch that could not be read
        yield value


def _holds(value: Any) -> bool:
    return value is not None and value not in ("", [], {})


def _says_unknown(value: Any) -> bool:
    return isinstance(value, str) and value.lower().startswith(_SAID)


def _why_unknown(value: Any) -> str:
    """Why a value is none; of a tree, when all its leaves are; "" when it is one."""
    if isinstance(value, Mapping | list):
        said = [_why_unknown(v) for v in (value.values() if isinstance(value, Mapping) else value)]
        return said[0] if said and all(said) else ""
    return value if _says_unknown(value) else ""


def _redacted(results: RunResults) -> Iterator[Item]:
    redaction = results.redacted
    if redaction is None:
        return
    taken = {
        kind: f"{number} different, each by the same token everywhere"
        for kind, number in redaction.values.items()
    }
    for name, how in (*taken.items(), *redaction.dropped.items()):
        yield Item(10, name, "removed", "everywhere", f"{REMOVED}: {how}")
    for text in redaction.limited:
        yield Item(10, "replaced in part", "removed", "everywhere", f"{REMOVED}: {text}")
