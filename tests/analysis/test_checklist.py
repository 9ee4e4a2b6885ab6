"""Every field that a report must have is there, or says why it is not."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from tests.report.sample import build
from tests.texts import Texts
from vnetperf.agent.inventory import take_inventory
from vnetperf.analysis.checklist import (
    FIELDS,
    GROUPS,
    Item,
    RequiredField,
    checklist,
    missing_items,
)
from vnetperf.host.facts.hardware import collect
from vnetperf.log.records import Record
from vnetperf.model.result import Redaction, Result, RunIdentity, RunResults, ScenarioFacts
from vnetperf.model.testbed import Testbed

IDENTITY = RunIdentity(tool="vnetperf 1", git="abc", command="pytest", started="now")
RECORDS = {record.model_fields["type"].default: record for record in get_args(get_args(Record)[0])}
MODELS = {"run": RunResults, "result": Result, "scenario": ScenarioFacts}


def empty(**changed: Any) -> RunResults:
    return RunResults(run=IDENTITY, preset="quick", **changed)


def by_name(results: RunResults, group: int) -> dict[str, Item]:
    return {item.name: item for item in checklist(results) if item.group == group}


def has_place(annotation: Any, keys: list[str]) -> bool:
    """Whether a place exists in a model; below free JSON values anything may be."""
    if not keys or annotation is Any or dataclasses.is_dataclass(annotation):
        return True
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is dict:
        return has_place(inside[1], keys[1:])
    if origin in (tuple, list):
        return has_place(inside[0], keys[1:] if keys[0] == "*" else keys)
    if inside:  # a union, or an annotated type
        return any(has_place(part, keys) for part in inside)
    fields = annotation.model_fields if isinstance(annotation, type(BaseModel)) else {}
    return keys[0] in fields and has_place(fields[keys[0]].annotation, keys[1:])


PLACES = [
    pytest.param(asked, place, id=f"{asked.group}-{asked.name}-{place}")
    for asked in FIELDS
    for place in asked.places
    if asked.scope in MODELS or place.startswith("log|")
]


@pytest.mark.parametrize(("asked", "place"), PLACES)
def test_every_place_is_one_that_results_or_log_can_have(asked: RequiredField, place: str) -> None:
    first, *rest = place.split("|")
    if first == "log":
        assert has_place(RECORDS[rest[0]], rest[1:])
    else:
        assert has_place(MODELS[asked.scope], [first, *rest])


def test_all_groups_are_asked_for_and_names_differ() -> None:
    assert {asked.group for asked in FIELDS} == set(GROUPS) - {10}
    names = [(asked.group, asked.name, asked.test) for asked in FIELDS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("results", [empty(), build(trials=20)], ids=["nothing", "sample"])
def test_each_field_is_recorded_or_says_why_not(results: RunResults) -> None:
    items = checklist(results)
    assert {(i.group, i.name) for i in items} == {(a.group, a.name) for a in FIELDS}
    for item in items:
        assert item.where or item.reason
        if item.state == "recorded":
            assert not item.reason
        else:
            assert item.reason.lower().startswith(f"{item.state}: ")
            assert len(item.reason.split()) > len(item.state.split()) + 1


@pytest.mark.slow
def test_this_machine_answers_every_question_about_the_host() -> None:
    for item in by_name(empty(environment=take_inventory(Testbed()).record), 3).values():
        # Unknown for a reason that was found here, not because nobody looked.
        assert "did not record" not in item.reason, item


def test_a_machine_that_tells_nothing_says_so_for_each_question(
    tmp_path: Path, texts: Texts
) -> None:
    items = by_name(empty(environment=collect(tmp_path)), 3)
    of_the_inventory = (
        "builds of programs",
        "compiler",
        "versions of software",
    )  # asked of the backends' programs
    for item in items.values():
        assert "did not record" not in item.reason or item.name in of_the_inventory, item
    assert items["microcode"].state == "unknown"
    texts.check(items["BIOS version"].reason)


def test_a_fact_that_is_taken_away_is_missed() -> None:
    facts = collect()
    del facts["cpu"]["microcode"]
    item = by_name(empty(environment=facts), 3)["microcode"]
    assert (item.state, item.where) == ("unknown", "environment.cpu.microcode")


def test_each_testbed_of_several_is_asked_for_its_own_facts() -> None:
    facts: dict[str, Any] = {
        "lab1": {"cpu": {"model": "x"}},
        "lab2": {"cpu": {"model": "y"}},
    }
    several = empty(environment=facts, testbeds=("lab1", "lab2"))
    found = by_name(several, 3)
    assert (found["CPU model"].state, found["CPU model"].where) == (
        *("recorded", "environment.lab1.cpu.model"),
    )
    facts["lab2"]["cpu"] = {"model": "unknown: no /proc"}
    facts["lab1"]["nics"] = {"eth0": {"driver": "ice"}}
    items = [
        (item.where, item.state)
        for item in checklist(several.model_copy(update={"environment": facts}))
        if item.name in ("CPU model", "NIC driver")
    ]
    assert items == [
        ("environment.lab1.cpu.model", "recorded"),
        ("environment.lab2.cpu.model", "unknown"),
        ("environment.lab1.nics.*.driver", "recorded"),
        ("environment.lab2.nics.*.driver", "unknown"),
    ]


def test_a_branch_that_could_not_be_read_gives_its_reason() -> None:
    item = by_name(empty(environment={"cpu": "unknown: no /proc"}), 3)["turbo"]
    assert item.reason == "unknown: no /proc"


def scenario(**vnf: Any) -> ScenarioFacts:
    return ScenarioFacts(scenario="pvp_x", facts={"vswitch": {"backend": "x"}, "vnfs": [vnf]})


def test_guests_are_asked_and_containers_are_not() -> None:
    inside = by_name(empty(scenarios=(scenario(application="testpmd"),)), 4)
    assert inside["image hash"].state == "not applicable"
    assert inside["loop application"].state == "recorded"
    assert inside["its version"].state == "unknown"
    guest = by_name(empty(scenarios=(scenario(guest={"vCPUs": 2}),)), 4)
    assert guest["vCPUs"].where == "pvp_x.facts.vnfs[0].guest.vCPUs"
    assert guest["image hash"].state == "unknown"


def test_a_scenario_that_could_not_be_deployed_is_not_asked(texts: Texts) -> None:
    failed = ScenarioFacts(scenario="pvp_x", error="no hugepages")
    item = by_name(empty(scenarios=(failed,)), 2)["backend"]
    texts.check(item.reason)


def test_a_test_that_has_no_number_gives_its_reason() -> None:
    result = Result(
        scenario="pvp_x", test="recovery", frame_size=64, status="not measured", why="no throughput"
    )
    item = by_name(empty(results=(result,)), 9)["recovery time"]
    assert item.reason == "not measured: no throughput"


def test_what_redaction_took_is_among_what_is_lacking() -> None:
    redaction = Redaction(when="now", values={"MAC address": 3}, dropped={"a.pcap": "frames"})
    found = {
        item.name: item for item in missing_items(empty(redacted=redaction)) if item.group == 10
    }
    assert found["MAC address"].reason.startswith("removed by redaction: 3 different")
    assert found["a.pcap"].reason == "removed by redaction: frames"
    assert not [item for item in missing_items(empty()) if item.group == 10]


def test_tlb_misses_are_not_cycles() -> None:
    fields = by_name(build(), 9)
    assert fields["TLB misses per frame"].state == "recorded"
    for name in ("cycles per frame", "instructions per frame", "cache misses per frame"):
        assert fields[name].state == "not measured"
