"""Who is on which processor: a figure, and the same in a line of text.

A box is a processor, with a block for each role on it: those that take turns there have their
length. `processors` of parts.html.j2 draws it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vnetperf.analysis.sharing import TESTER, Occupied, OnMachine, Sharing, role_kind, sharing_of
from vnetperf.model.result import RunResults
from vnetperf.model.scenario import SYSTEM
from vnetperf.report.picture import MARGIN, PAD, WIDTH, Box, fitting

#: Units of the figure: processors in a row, between them, heights of a head and a block.
COLUMNS, GAP, HEAD, BLOCK, LINE = 3, 12, 26, 42, 15
#: Processors that are drawn of a machine; of more, the first.
MOST = 16


@dataclass(frozen=True, slots=True)
class ProcessorsFigure:
    """A figure of the processors of a deployment."""

    title: str
    text: str  # The same in words
    scenarios: tuple[str, ...]
    hosts: tuple[Box, ...]
    processors: tuple[Box, ...]
    blocks: tuple[Box, ...]
    notes: tuple[str, ...]  # What is not drawn
    height: float
    width: int = WIDTH


def figures(results: RunResults) -> list[ProcessorsFigure]:
    """That of every deployment of a run; those that look alike as one."""
    scenarios_by_figure: dict[ProcessorsFigure, list[str]] = {}
    for facts in results.scenarios:
        sharing = None if facts.error else sharing_of(facts)
        if sharing is None:
            continue
        environment = results.find_machine(facts.scenario)
        drawn = figure(sharing, environment)
        if drawn is not None:
            scenarios_by_figure.setdefault(drawn, []).append(facts.scenario)
    return [replace(drawn, scenarios=tuple(names)) for drawn, names in scenarios_by_figure.items()]


def sharing_lines(results: RunResults) -> list[tuple[tuple[str, ...], str]]:
    """Scenarios, and who was on which processor; no warning has it where none is shared."""
    scenarios_by_sentence: dict[str, list[str]] = {}
    for facts in results.scenarios:
        sharing = None if facts.error else sharing_of(facts)
        if sharing is not None and sharing.sentence and not sharing.shared:
            scenarios_by_sentence.setdefault(sharing.sentence, []).append(facts.scenario)
    return [(tuple(names), text) for text, names in scenarios_by_sentence.items()]


def figure(sharing: Sharing, environment: Mapping[str, Any]) -> ProcessorsFigure | None:
    """The figure of a deployment; None where no role has a processor."""
    if not any(machine.processors for machine in sharing.machines):
        return None
    hosts: list[Box] = []
    boxes: list[Box] = []
    blocks: list[Box] = []
    notes: list[str] = []
    y = float(MARGIN)
    several = len(sharing.machines) > 1
    for machine in sharing.machines:
        name = ", ".join(machine.hosts) if several else ""
        facts = environment if not several else {}
        top, y = y, y + (HEAD if name else 0)
        for processor, block in _rows(machine, sharing, _topology(facts), y):
            boxes.append(processor)
            blocks += block
        bottom = max((b.y + b.height for b in boxes), default=y)
        if name:
            box = Box(fitting(name, WIDTH - 40), MARGIN, top, WIDTH - 2 * MARGIN, 0, top + 18)
            hosts.append(replace(box, height=bottom + PAD - top, css="host"))
            bottom += PAD
        notes += _not_drawn(machine, name)
        y = bottom + GAP
    return ProcessorsFigure(
        title=f"Processors {sharing.label}",
        text=sharing.sentence,
        scenarios=(),
        hosts=tuple(hosts),
        processors=tuple(boxes),
        blocks=tuple(blocks),
        notes=tuple(notes),
        height=y - GAP + MARGIN,
    )


def _rows(
    machine: OnMachine, sharing: Sharing, topology: _Topology, top: float
) -> Iterator[tuple[Box, list[Box]]]:
    """Boxes of the processors in rows, each with its blocks."""
    processors = machine.processors[:MOST]
    inner = PAD if len(sharing.machines) > 1 else 0
    room = WIDTH - 2 * (MARGIN + inner)
    columns = min(max(len(processors), 2), COLUMNS)
    width = (room - GAP * (columns - 1)) / columns
    y = top
    for first in range(0, len(processors), columns):
        row = processors[first : first + columns]
        details = [topology.about(processor.cpu) for processor in row]
        head = HEAD + LINE * max(map(len, details))
        most = max(len(processor.roles) + processor.system for processor in row)
        height = head + most * (BLOCK + 6) + 4
        for place, (processor, about) in enumerate(zip(row, details, strict=True)):
            x = MARGIN + inner + place * (width + GAP)
            name = f"processor {processor.cpu}" if width > 100 else str(processor.cpu)
            lines = tuple(fitting(line, width - 16) for line in about)
            box = Box(fitting(name, width - 16), x, y, width, height, y + 18, lines, "processor")
            yield box, [*_blocks(machine, processor, box, y + head)]
        y += height + GAP


def _blocks(machine: OnMachine, processor: Occupied, box: Box, y: float) -> Iterator[Box]:
    """A block for each that is on a processor, below each other."""
    alone = len(processor.roles) == 1 and not processor.system
    blocks = [
        (role, _turns_text(machine, role, alone=alone), _css(role)) for role in processor.roles
    ] + ([(SYSTEM, "", "system")] if processor.system else [])
    for name, turns, css in blocks:
        width = box.width - 16
        lines = (fitting(turns, width - 8),) if turns else ()
        middle = y + (18 if lines else BLOCK / 2 + 5)
        yield Box(fitting(name, width - 8), box.x + 8, y, width, BLOCK, middle, lines, css)
        y += BLOCK + 6


def _turns_text(machine: OnMachine, role: str, *, alone: bool) -> str:
    length = machine.turns.get(role)
    if length:
        return f"turns of {length} \N{MICRO SIGN}s"
    return "alone" if alone else ""


def _css(role: str) -> str:
    return {TESTER: "tester", "VNF": "vnf"}.get(role_kind(role), "switch")


def _not_drawn(machine: OnMachine, name: str) -> Iterator[str]:
    """What has no box."""
    where = f"{name}: " if name else ""
    if (undrawn := len(machine.processors) - MOST) > 0:
        yield f"{where}{undrawn} further processors are not drawn."
    for role, cpus in machine.placement.unpinned.items():
        numbers = ", ".join(map(str, cpus))
        yield f"{where}The kernel moves {role} among processors {numbers}."


@dataclass(frozen=True, slots=True)
class _Topology:
    """What is known of the processors of a machine."""

    nodes: Mapping[int, str]
    isolated: frozenset[int]
    siblings: Mapping[int, Sequence[int]]

    def about(self, cpu: int) -> list[str]:
        """What a reader wants to know of one, in lines."""
        lines = [self.nodes[cpu]] if cpu in self.nodes else []
        if cpu in self.isolated:
            lines = [", ".join([*lines, "isolated"])]
        if others := [str(other) for other in self.siblings.get(cpu, ()) if other != cpu]:
            lines.append(f"one core with {', '.join(others)}")
        return lines


def _topology(environment: Mapping[str, Any]) -> _Topology:
    cpu = environment.get("cpu")
    topology = cpu.get("topology") if isinstance(cpu, Mapping) else None
    topology = topology if isinstance(topology, Mapping) else {}
    numa = topology.get("numa")
    nodes = {
        number: str(node).replace("node", "node ")
        for node, text in (numa.items() if isinstance(numa, Mapping) else ())
        for number in _numbers(text)
    }
    several = len(set(nodes.values())) > 1  # one node is no news
    listed = topology.get("siblings")
    groups = [_numbers(text) for text in (listed if isinstance(listed, list) else ())]
    return _Topology(
        nodes=nodes if several else {},
        isolated=frozenset(_numbers(topology.get("isolated"))),
        siblings={number: group for group in groups for number in group},
    )


def _numbers(text: object) -> list[int]:
    """Numbers of a list as the kernel writes it: "0-2,5"; none where it is no such list."""
    numbers: list[int] = []
    for part in str(text or "").split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            numbers += range(int(first), int(last or first) + 1)
    return numbers
