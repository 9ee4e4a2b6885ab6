"""A picture of what was deployed: hosts, the parts on them with their ports, what joins these.

From the bottom up: the tester, the vSwitch, the VNFs. A box around parts is a host; parts of
another host, or of somebody else, are in a box of their own. `picture` of parts.html.j2 draws it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

from pydantic import ValidationError

from vnetperf.model.deployment import ACROSS, OF_NETWORKS, Deployment, Port, VnfPort
from vnetperf.model.result import RunResults, ScenarioFacts
from vnetperf.model.scenario import ENDPOINTS_VARIANT, PROGRAM_VARIANTS
from vnetperf.model.testbed import NETNS
from vnetperf.plugin.workload import find_workload
from vnetperf.report.text import printable

#: Units of the picture: its width, the margins of hosts and parts, heights, a character's width.
WIDTH, MARGIN, PAD = 480, 6, 14
PART, SWITCH, TESTER, GAP, NAME, CHARACTER = 74, 104, 50, 46, 26, 6.6
#: Between two cables that pass parts by the side.
LANE = 5
#: First line of a part below its upper edge: there is room for forwarding between its ports.
FIRST, FIRST_OF_SWITCH = 21, 46
#: VNFs that are drawn; of more, the first and the last.
MOST = 3


@dataclass(frozen=True, slots=True)
class Box:
    """A host or a part."""

    name: str
    x: float  # Left edge, in units of the picture like the next four
    y: float
    width: float
    height: float
    first: float  # Where the name's line stands
    lines: tuple[str, ...] = ()
    css: str = ""


@dataclass(frozen=True, slots=True)
class Join:
    """What joins two ports: a cable, an attachment, or forwarding inside of a part."""

    path: str  # An SVG path
    css: str
    label: str = ""
    x: float = 0.0  # Where the label stands
    y: float = 0.0
    end: bool = False  # True where the label ends there


@dataclass(frozen=True, slots=True)
class Pin:
    """A port, drawn on the edge of its part."""

    name: str
    x: float  # Its middle
    y: float
    below: bool = False  # True where its name stands below it


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture."""

    title: str
    scenarios: tuple[str, ...]
    hosts: tuple[Box, ...]
    parts: tuple[Box, ...]
    pins: tuple[Pin, ...]
    joins: tuple[Join, ...]
    height: float  # Its height; its width is `WIDTH`
    width: int = WIDTH


#: Name, lines and class names of a part.
_Part = tuple[str, tuple[str, ...], str]


@dataclass(frozen=True, slots=True)
class _Row:
    """Parts side by side on one host."""

    host: str  # What the host is called
    kind: Literal["tester", "vswitch", "vnfs", "end"]
    parts: tuple[_Part, ...]  # Name, lines and class names of each
    graph: Deployment  # What of the deployment is at this host
    ends: tuple[int, ...] = ()  # Numbers of the tester's ports, or of the endpoint


def pictures(results: RunResults) -> list[Picture]:
    """Every deployment of a run; those that look alike as one."""
    scenarios_by_picture: dict[Picture, list[str]] = {}
    for facts in results.scenarios:
        host = str(results.find_machine(facts.scenario).get("hostname", ""))
        if not facts.error and (drawn := picture(facts, host)) is not None:
            scenarios_by_picture.setdefault(drawn, []).append(facts.scenario)
    return [replace(drawn, scenarios=tuple(names)) for drawn, names in scenarios_by_picture.items()]


def picture(facts: ScenarioFacts, hostname: str = "") -> Picture | None:
    """A deployment; None where its log does not have the plan."""
    try:
        graph = Deployment.model_validate(facts.plan.get("scenario", {}).get("deployment"))
        rows = [row for part in _by_host(facts.plan) for row in _rows(facts, part, hostname)]
    except ValidationError:
        return None
    return _Drawing(facts, graph, rows).draw()


def _by_host(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The plan of each host, the tester's or first endpoint's first; of one host itself."""

    def place(part: Mapping[str, Any]) -> tuple[bool, list[int]]:
        return "tester" not in _has(part), list(part.get("ends") or ())

    return sorted(plan.get("hosts") or [plan], key=place)


def _has(plan: Mapping[str, Any]) -> Sequence[str]:
    return plan.get("parts") or ("tester", "dut")


def _rows(facts: ScenarioFacts, plan: Mapping[str, Any], hostname: str) -> Iterator[_Row]:
    """The parts at one host, from the bottom up."""
    testbed, of_host = facts.plan.get("testbed") or {}, str(plan.get("host") or "")
    words = [str(testbed.get("name", "")), hostname]
    if of_host:
        of_one_machine = (testbed.get("hosts") or {}).get(of_host, {}).get("transport") == NETNS
        words = [of_host, hostname if of_one_machine else ""]
    host = " on ".join(dict.fromkeys(word for word in words if word)) or "host"
    graph = Deployment.model_validate(plan["scenario"]["deployment"])
    ends: list[_Row] = []
    numbers = tuple(plan.get("ends") or ())
    if "tester" in _has(plan):
        name, about = _tester(plan["scenario"], graph)
        name += "".join(f", port {number}" for number in numbers)
        name, lines, css = _part(plan, "tester", name, "tester")
        cores = () if graph.guests else lines  # guests are on others
        part = (name, tuple(filter(None, [", ".join((*about, *cores))])), css)
        ends = [_Row(host, "tester", (part,), graph, numbers or (0, 1))]
    elif numbers:
        in_guest = str(plan["scenario"].get("vnf", "")).endswith(":vm")
        in_guest &= isinstance(graph.ends[numbers[0]], VnfPort)
        in_guest &= graph.dut_family == "vswitches" or numbers[0] in graph.guests
        part = (f"endpoint {numbers[0]}", ("in a VM",) if in_guest else (), "tester")
        ends = [_Row(host, "end", (part,), graph, numbers)]
    if "dut" not in _has(plan):
        yield from ends
        return
    external = (testbed.get("external") or {}) if plan.get("wire") == "external" else {}
    host_facts = ((facts.facts.get("hosts") or {}).get(of_host) if of_host else facts.facts) or {}
    whose = "external DUT, run by others" if external else host
    switch = _Row(
        whose, "vswitch", (_switch(plan, host_facts.get("vswitch") or {}, external),), graph
    )
    # Where each end is at a vSwitch of its own, frames go from the first one up to the second.
    above = numbers == (1,) and graph.name in (*ACROSS, *OF_NETWORKS)
    yield from (switch, *ends) if above else (*ends, switch)
    if graph.vnf_count:
        yield _Row(host, "vnfs", tuple(_vnfs(plan, graph)), graph)


def _tester(scenario: Mapping[str, Any], graph: Deployment) -> tuple[str, tuple[str, ...]]:
    """The generator, or the programs in its place."""
    suffix = str(scenario.get("variant", "")).rpartition(",")[2]
    if suffix not in PROGRAM_VARIANTS:
        return f"tester: {scenario.get('generator', '')}", ()
    if graph.dut_family == "vswitches":
        return "endpoints", ("in the tester's place",)
    runtime = scenario.get("pod", "netns")
    kind = ("network namespaces" if runtime == "netns" else f"containers of {runtime}",)
    if graph.guests:
        named = "namespace" if runtime == "netns" else f"container of {runtime}"
        kind = ("VMs" if len(graph.guests) == len(graph.ends) else f"{named} and VM",)
    if suffix == ENDPOINTS_VARIANT:
        return "programs in two pods", kind
    workload = find_workload(suffix)
    return workload.picture_words(scenario) if workload else "programs in pods", kind


def _part(plan: Mapping[str, Any], role: str, name: str, css: str) -> _Part:
    """A part with the processors of its threads."""
    placement = plan.get("placement") or {}
    cores = (placement.get("cores") or {}).get(role)
    loose = (placement.get("unpinned") or {}).get(role)
    lines = [f"core{'s' * (len(cores) > 1)} {_numbers(cores)}"] if cores else []
    lines += [f"anywhere on {_numbers(loose)}"] if loose else []
    return name, tuple(lines), css


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) if len(numbers) <= 6 else f"{numbers[0]} ... {numbers[-1]}"


def _switch(plan: Mapping[str, Any], switch_facts: object, external: Mapping[str, Any]) -> _Part:
    name = str(plan["scenario"].get("vswitch", ""))
    cores_of = (plan.get("placement") or {}).get("cores") or {}
    version = str(switch_facts.get("version", "")) if isinstance(switch_facts, Mapping) else ""
    if external:
        return str(external.get("name") or name), ((version,) if version else ()), "switch theirs"
    # Roles of other hosts have their host's name before them.
    roles = [r for r in cores_of if r != "tester" and not r.startswith("vnf") and ":" not in r]
    cores = sorted({cpu for role in roles for cpu in cores_of[role]})
    where = f"core{'s' * (len(cores) > 1)} {_numbers(cores)}" if cores else "in the kernel"
    if isinstance(switch_facts, Mapping) and "daemon" in str(switch_facts.get("forwarded by", "")):
        where = "in its daemon"  # threads that are not placed
    # "ovs-vswitchd (Open vSwitch) 3.1.0" has no room.
    short = re.sub(r"^\S+ \(([^)]+)\)", r"\1", version.partition("\n")[0])
    lines = (short, where) if version else (where,)
    graph = plan["scenario"].get("deployment") or {}
    return f"{'network' if graph.get('pods') else 'vSwitch'}: {name}", lines, "switch"


def _vnfs(plan: Mapping[str, Any], graph: Deployment) -> Iterator[_Part]:
    vnf = str(plan["scenario"].get("vnf", ""))
    numbers = graph.vnf_numbers
    for number in numbers if len(numbers) <= MOST else (0, -1, numbers[-1]):
        if number < 0:
            yield f"... {len(numbers) - 2} more", (), "vnf more"
            continue
        name, lines, css = _part(plan, f"vnf{number}", f"vnf{number}", "vnf")
        yield name, (vnf, *lines), css


class _Drawing:
    """Places the parts of a deployment, which are given from the bottom up."""

    def __init__(self, facts: ScenarioFacts, graph: Deployment, rows: Sequence[_Row]) -> None:
        self._facts, self._graph, self._rows = facts, graph, rows
        self._hosts: list[Box] = []
        self._parts: list[list[Box]] = []
        self._pins: dict[str, Pin] = {}
        self._joins: list[Join] = []
        self._around = 0

    def draw(self) -> Picture:
        """The picture."""
        height = self._place_boxes()
        self._place_ports()
        self._join()
        name = self._facts.plan["scenario"]["deployment"]["name"]
        parts = tuple(box for row in self._parts for box in row)
        return Picture(
            title=f"{name}: " + ", ".join(box.name for box in parts),
            scenarios=(),
            hosts=tuple(self._hosts),
            parts=parts,
            pins=tuple(self._pins.values()),
            joins=tuple(self._joins),
            height=height,
        )

    def _place_boxes(self) -> float:
        """Rows from the top down, in boxes of their hosts; returns the whole height."""
        self._parts = [[] for _ in self._rows]
        y = float(MARGIN)
        numbered = [(number, row) for number, row in enumerate(self._rows)][::-1]
        for host, host_rows in groupby(numbered, key=lambda pair: pair[1].host):
            rows = list(host_rows)
            top = y
            y += PAD if self._hosts else NAME  # cables come from above to all but the first
            for number, row in rows:
                self._parts[number] = list(self._side_by_side(row, y, number + 1 < len(self._rows)))
                y += self._parts[number][0].height + GAP
            below = bool(self._hosts)
            y += (NAME if below else PAD) - GAP
            css = "host theirs" if rows[0][1].parts[0][2] == "switch theirs" else "host"
            name, width = fitting(host, WIDTH - 40), WIDTH - 2 * MARGIN
            line = y - 9 if below else top + 18
            self._hosts.append(Box(name, MARGIN, top, width, y - top, line, css=css))
            y += GAP - PAD
        return y - GAP + PAD + MARGIN

    def _side_by_side(self, row: _Row, y: float, below: bool) -> Iterator[Box]:
        room = WIDTH - 2 * (MARGIN + PAD)
        width = (room - PAD * (len(row.parts) - 1)) / len(row.parts)
        for number, (name, lines, css) in enumerate(row.parts):
            x = MARGIN + PAD + number * (width + PAD)
            crossed = row.kind == "vswitch" and below  # forwarding passes between ports
            text = width * 0.55 if crossed else width - 16
            short = tuple(fitting(line, text) for line in lines[:2])
            height, first = (SWITCH, FIRST_OF_SWITCH) if crossed else (PART, FIRST)
            height = TESTER if row.kind in ("tester", "end") else height
            yield Box(fitting(name, width - 16), x, y, width, height, y + first, short, css)

    def _place_ports(self) -> None:
        switch = self._parts[0][0]
        for row, boxes in zip(self._rows, self._parts, strict=True):
            switch = boxes[0] if row.kind == "vswitch" else switch
            for number, x in enumerate(boxes[0].x + boxes[0].width * part for part in (0.2, 0.8)):
                if self._graph.apart:
                    self._place_apart(row, boxes[0])
                elif row.kind == "tester" and number in row.ends:
                    # Else in its own name, or the pod's at its cable.
                    named = len(row.ends) > 1 and self._graph.end_kind != "pod"
                    name = f"port {number}" if named else ""
                    self._pins[f"tester{number}"] = Pin(name, x, boxes[0].y, below=True)
                elif row.kind == "vswitch":
                    end = row.graph.ends[number]
                    name = row.graph.port_name(end)
                    self._pins[str(end)] = Pin(name, x, switch.y + switch.height)
                    for trunk in map(str, row.graph.trunks[number : number + 1]):
                        self._pins[trunk] = Pin(trunk, x, switch.y, below=True)
            for box in boxes if row.kind == "vnfs" else ():
                for index in (0, 1) if "more" not in box.css else ():
                    x = box.x + box.width * (0.18, 0.68)[index]
                    port = f"{box.name}.{index}"
                    self._pins[port] = Pin(port, x, switch.y, below=True)
                    self._pins[f"{port} of the VNF"] = Pin(str(index), x, box.y + box.height)

    def _place_apart(self, row: _Row, box: Box) -> None:
        """Ports above each other, from endpoint 0 up to endpoint 1."""
        x, low = box.x + box.width * 0.2, box.y + box.height
        if row.kind == "vswitch":
            first, second = row.graph.ends
            self._pins[str(first)] = Pin(row.graph.port_name(first), x, low)
            self._pins[str(second)] = Pin(row.graph.port_name(second), x, box.y, below=True)
        else:
            (end,) = row.ends
            self._pins[f"tester{end}"] = Pin("", x, low if end else box.y, below=not end)

    def _join(self) -> None:
        kinds, tunnel = self._kinds(), str(self._facts.plan["scenario"].get("tunnel", ""))
        for number, end in enumerate(self._graph.ends):
            label = kinds[number]
            self._cable(f"tester{number}", str(end), "cable", label)
        for a, b in self._graph.cables:
            in_tunnel = [tunnel] if a in self._graph.tunnelled else []
            label = ", ".join([self._between_hosts("dut", a.index), *in_tunnel])
            self._cable(str(a), str(b), "cable", label)
        for port in map(str, self._graph.vnf_ports()):
            if f"{port} of the VNF" in self._pins:
                self._cable(port, f"{port} of the VNF", "attached")
        for first, second in dict.fromkeys(
            tuple(sorted((h.src, h.dst), key=str)) for h in self._graph.hops
        ):
            self._inside(first, second)
        for number in self._graph.vnf_numbers:
            ends = [self._pins.get(f"vnf{number}.{index} of the VNF") for index in (0, 1)]
            if ends[0] and ends[1]:
                self._joins.append(_bow(ends[0], ends[1], -12))

    def _between_hosts(self, side: str, port: int) -> str:
        """What a cable between hosts is, from its lower end up; "" where there is none."""
        for plan in _by_host(self._facts.plan):
            for use in plan.get("cables") or ():
                if (use["side"], use["port"]) == (side, port):
                    far = use["far"].partition(":")[2]
                    ends = [end.removeprefix("0000:") for end in (use["nic"], far)]
                    return f"{plan.get('wire', '')} {' - '.join(ends)}"
        return ""

    def _kinds(self) -> tuple[str, str]:
        """What is between each of the tester's ports and the vSwitch."""
        plan = self._facts.plan
        nics = {(n["wire"], n["side"]): n for n in plan.get("nics") or ()}
        external_ports = ((plan.get("testbed") or {}).get("external") or {}).get("ports") or ()

        def kind(number: int, end: Port) -> str:
            if isinstance(end, VnfPort):
                if self._graph.end_kind == "pod":  # whose port has its name
                    return "in a VM" if number in self._graph.guests else ""
                return "in a VNF's place"
            if plan.get("wire") == "external" and number < len(external_ports):
                ends = (
                    external_ports[number].get("tester", ""),
                    external_ports[number].get("dut", ""),
                )
                return " - ".join(filter(None, ends))
            pair = [nics.get((number, side), {}).get("pci", "") for side in ("tester", "dut")]
            short = [address.removeprefix("0000:") for address in pair]  # the first PCI domain
            if all(pair):
                return " - ".join(short)
            return self._between_hosts("tester", end.index) or str(plan.get("wire", ""))

        first, second = (kind(n, end) for n, end in enumerate(self._graph.ends))
        return first, second

    def _cable(self, a: str, b: str, css: str, label: str = "") -> None:
        start, other = self._pins[a], self._pins[b]
        room = WIDTH * 0.265  # two labels stand between the cables
        if any(
            other.y + 1 < box.y + box.height and box.y < start.y - 1
            for row in self._parts
            for box in row
        ):
            self._joins.append(self._by_the_side(start, other, css, fitting(label, room)))
            return
        path = f"M{start.x:.0f} {start.y:.0f}L{other.x:.0f} {other.y:.0f}"
        middle = (start.y + other.y) / 2 + (12 if self._around else 4)  # below those by the side
        end = start.x > WIDTH / 2
        label_x = start.x - 9 if end else start.x + 9
        self._joins.append(Join(path, css, fitting(label, room), label_x, middle, end))

    def _by_the_side(self, start: Pin, other: Pin, css: str, label: str) -> Join:
        """A cable past the parts that stand between its ends; the first one is outermost."""
        lane = WIDTH - MARGIN - LANE * (self._around + 1)
        leaves = start.y - FIRST / 2 if start.below else start.y + FIRST / 2
        arrives = other.y + FIRST + LANE * 3 * self._around
        self._around += 1
        path = f"M{start.x:.0f} {start.y:.0f}V{leaves:.0f}H{lane}V{arrives:.0f}H{other.x:.0f}"
        end = other.x > WIDTH / 2
        label_x = other.x - 9 if end else other.x + 9
        return Join(f"{path}V{other.y:.0f}", css, label, label_x, other.y + FIRST + 11, end)

    def _inside(self, a: Port, b: Port) -> None:
        """Forwarding of the vSwitch between two of its ports."""
        start, other = self._pins.get(str(a)), self._pins.get(str(b))
        if start is None or other is None:
            return
        if start.y == other.y:
            self._joins.append(_bow(start, other, 20 if start.below else -14))
            return
        lower, upper = sorted((start, other), key=lambda pin: -pin.y)
        bend = (lower.y + upper.y) / 2
        path = f"M{lower.x:.0f} {lower.y:.0f}C{lower.x:.0f} {bend:.0f} {upper.x:.0f} {bend:.0f} "
        self._joins.append(Join(f"{path}{upper.x:.0f} {upper.y:.0f}", "forwards"))


def _bow(start: Pin, other: Pin, depth: float) -> Join:
    """Forwarding between two ports of one edge."""
    y = start.y + depth * 1.4
    path = f"M{start.x:.0f} {start.y:.0f}C{start.x:.0f} {y:.0f} {other.x:.0f} {y:.0f} "
    return Join(f"{path}{other.x:.0f} {other.y:.0f}", "forwards")


def fitting(text: str, room: float) -> str:
    """A text as far as it has room, in units of the picture."""
    most = max(4, int(room / CHARACTER))
    text = printable(text)
    return text if len(text) <= most else f"{text[: most - 1]}\u2026"
