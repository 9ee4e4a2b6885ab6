"""What `--plan` prints: what would be deployed, what would be measured there, and for how long."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import pytest

from vnetperf.agent.hosts import TestbedClient
from vnetperf.analysis.sharing import TESTER, Sharing
from vnetperf.config import Configuration
from vnetperf.model.errors import CapabilityError, ConfigError
from vnetperf.model.frames import LinkSpeed
from vnetperf.model.parameters import THROUGHPUT
from vnetperf.model.preset import Preset
from vnetperf.model.profile import IMIX
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.transfer import Kind
from vnetperf.model.units import duration
from vnetperf.planning.capability_check import find_size_problem, require_frames
from vnetperf.planning.planner import largest_frame, make_plan
from vnetperf.plugin import registry
from vnetperf.plugin.procedure import DurationEstimate, duration_estimate, load_test
from vnetperf.plugin.workload import kind_name, load_workload
from vnetperf.pytest_plugin.cases import (
    Selected,
    build_scenario,
    find_selected,
    measured_test,
    round_count,
    usage_errors,
)
from vnetperf.pytest_plugin.session import BenchSession, load_configuration
from vnetperf.runner import transfers
from vnetperf.runner.conductor import require_generator
from vnetperf.runner.scenarios import address_scenario, can_be_loaded, session_scenario
from vnetperf.runner.transfers import Planner

#: What a test case measures with.
FRAMES, SOCKETS, USERS = "frames", "sockets", "users"
_ENDS = {FRAMES: "tester", USERS: "tester", SOCKETS: "endpoints"}
_IN_PLACE = {
    FRAMES: "the tester is in the place of VNFs",
    USERS: "the tester is in the place of VNFs",
    SOCKETS: "the endpoints are in the place of VNFs",
}


@dataclass(frozen=True)
class PlannedCase:
    """A test case that is selected.

    Attributes:
        test: Test of frames that it measures; of a function that names none, the throughput.
        frame_size: Octets including FCS; None where it sends no frames of a size.
        kind: What sockets or programs do; "" where the test case states it itself.
        clients: Parallel instances, where the test case has a number of its own.
        subject: FRAMES, SOCKETS, USERS, or a workload's name.
    """

    selected: Selected
    name: str
    test: str = THROUGHPUT
    frame_size: int | None = None
    kind: str = ""
    way: str = "forth"
    message_size: int | None = None
    clients: int | None = None
    subject: str = FRAMES

    @classmethod
    def read(cls, item: pytest.Item) -> list[PlannedCase]:
        """What a pytest item measures; several where it states sizes of its own."""
        if (selected := find_selected(item)) is None:
            return []
        params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
        name: str = getattr(item, "originalname", item.name)
        mark = item.get_closest_marker("transfers")
        kind = str(params.get("kind", mark.args[0] if mark is not None else ""))
        subject = FRAMES
        if kind == USERS:
            subject = USERS
        elif kind and (workload_name := kind_name(kind)):
            subject = workload_name
        elif kind or "message_size" in params:
            subject = SOCKETS
        meant = name.removeprefix("test_")
        case = cls(
            selected=replace(selected, round=0),
            name=name,
            test=measured_test(item) or (meant if meant in registry.test_names() else THROUGHPUT),
            frame_size=params.get("frame_size"),
            kind=kind,
            way=str(params.get("way", "forth")),
            message_size=params.get("message_size"),
            clients=params.get("clients"),
            subject=subject,
        )
        if subject != FRAMES or case.frame_size is not None:
            return [case]
        return [
            replace(case, test=test or case.test, frame_size=size)
            for test, size in stated_sizes(getattr(item, "function", None))
        ] or [case]


def stated_sizes(function: Any) -> list[tuple[str, int]]:
    """Tests and frame sizes that the text of a test case states: `bench.measure("mrr", 333)`.

    The test is "" where it is the function's own. What only a run can know is not among them.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return []
    stated: dict[tuple[str, int], None] = {}
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        if call.func.attr not in ("measure", "search_throughput"):
            continue
        arguments = [*call.args, *(word.value for word in call.keywords)]
        values = [constant.value for constant in arguments if isinstance(constant, ast.Constant)]
        default_test = THROUGHPUT if call.func.attr == "search_throughput" else ""
        test = next(
            (constant for constant in values if constant in registry.test_names()), default_test
        )
        sizes = (
            constant
            for constant in values
            if isinstance(constant, int) and not isinstance(constant, bool)
        )
        stated.update({(str(test), size): None for size in sizes})
    return [*stated]


@dataclass(frozen=True)
class TimeSum:
    """How long cases take at most, without what is deployed and calibrated for them."""

    seconds: float = 0.0
    cases: int = 0
    unlimited: tuple[str, ...] = ()

    def __add__(self, other: TimeSum) -> TimeSum:
        return TimeSum(
            self.seconds + other.seconds,
            self.cases + other.cases,
            tuple(dict.fromkeys((*self.unlimited, *other.unlimited))),
        )

    def __str__(self) -> str:
        named = ", ".join(self.unlimited)
        besides = f"; {named} beyond that, as long as it takes" if named else ""
        return (
            f"{self.cases} cases: at most {duration(self.seconds)} in all, deployment and "
            f"calibration besides{besides}"
        )


def print_plans(session: BenchSession, items: Iterable[pytest.Item], terminal: Any) -> None:
    """Plan scenarios on each testbed and print the plans; nothing on a machine is touched."""
    cases = [case for item in items for case in PlannedCase.read(item)]
    if (count := len(session.configuration.settings.testbeds)) < 2:
        _print_plans(session, session.configuration, cases, terminal)
        return
    for number in range(count):
        configuration = load_configuration(session.config, number=number)
        _print_plans(session, configuration, cases, terminal, f" on {configuration.testbed.name}")


def _print_plans(
    session: BenchSession,
    configuration: Configuration,
    planned: Iterable[PlannedCase],
    terminal: Any,
    on: str = "",
) -> None:
    """The plans of a testbed."""
    with usage_errors(), closing(TestbedClient(configuration.testbed, read_only=True)) as client:
        facts = client.inventory()
    groups: dict[tuple[Selected, str], dict[PlannedCase, None]] = {}
    for case in planned:
        groups.setdefault((case.selected, case.subject), {})[case] = None
    rounds, in_all = round_count(session.config, configuration), TimeSum()
    for (selected, subject), cases in groups.items():
        terminal.section(f"plan of {selected.id}{on}")
        for option in selected.variant.typed:
            terminal.line(f"variant     {option}")
        try:
            lines, times = _plan_lines(configuration, facts, selected, subject, [*cases])
        except CapabilityError as error:
            terminal.line(f"would be skipped: {error}")
            continue
        except ConfigError as error:
            if selected.variant or not can_be_loaded(selected.scenario):
                terminal.line(f"would fail: {error}")
                continue
            raise pytest.UsageError(str(error)) from None
        for line in lines:
            terminal.line(line)
        if rounds:
            terminal.line(f"            all of it in each of {rounds} deployments (--repeat)")
        for _ in range(rounds or 1):
            in_all += times
    if in_all.cases:
        terminal.section(f"time of all plans{on}")
        terminal.line(str(in_all))


def _plan_lines(
    configuration: Configuration,
    facts: MachineFacts,
    selected: Selected,
    subject: str,
    cases: Sequence[PlannedCase],
) -> tuple[list[str], TimeSum]:
    """The plan of a scenario and of its cases, and how long these take."""
    scenario = build_scenario(configuration, selected, facts)
    planner = Planner(
        configuration.varied(selected.variant),
        lambda: facts,
        lambda planned: make_plan(planned, configuration.testbed, facts),
    )
    if subject == FRAMES:
        plan = planner.plan(scenario)
        require_frames(scenario)
        lines = describe(plan)
        details, times = _frames(planner, scenario, cases)
        return lines + details, times
    done, times, problems = dict[str, list[str]](), TimeSum(), dict[str, None]()
    for case in cases:
        text, seconds, problem = _transfer(planner, scenario, case)
        if problem:
            problems[problem] = None
            continue
        times += TimeSum(seconds, 1)
        sizes = done.setdefault(text, [])
        sizes += [] if case.message_size is None else [str(case.message_size)]
    details = [
        f"transfer    {text}" + (f", messages of {', '.join(sizes)} octets" if sizes else "")
        for text, sizes in done.items()
    ]
    if not times.cases:
        return [f"would be skipped: {problem}" for problem in problems], times
    deployed = scenario
    if subject == SOCKETS:
        deployed = transfers.endpoint_scenario(planner.configuration, scenario)
    elif subject != USERS:
        mode = planner.configuration.settings.vnf_mode
        deployed = transfers.workload_scenario(load_workload(subject), scenario, mode)
    lines = [*describe(planner.plan(deployed), subject), *details]
    lines += [f"            not {problem}" for problem in problems]
    wall = f"wall time   at most {duration(times.seconds)}, deployment besides"
    return [*lines, wall], times


def _transfer(planner: Planner, scenario: Scenario, case: PlannedCase) -> tuple[str, float, str]:
    """A case of sockets or of a workload: what is done, its seconds, and why not."""
    kind: Any = case.kind
    size = case.message_size
    if case.subject == USERS:
        problem = transfers.find_users_problem(planner, scenario)
        specs = transfers.users_specs(planner)
        text = "TCP and UDP between users and a server, each both ways, by iperf3"
        return text, sum(spec.length_s for spec in specs), problem
    if case.subject != SOCKETS:
        try:
            problem = transfers.find_workload_problem(planner, scenario, kind, size)
        except ConfigError as error:  # the plugin of the workload is not installed
            problem = str(error)
        if problem:
            return "", 0.0, f"{kind}: {problem}"
        workload = load_workload(case.subject)
        spec = transfers.workload_spec(planner, scenario, kind, size)
        return workload.describe(spec), workload.longest_s(spec), ""
    configuration, clients = planner.configuration, case.clients
    # Of a function that states no kind: what most tools can do.
    stated: Kind = kind or "TCP_STREAM"
    octets = size or 1
    if problem := transfers.find_endpoint_traffic_problem(
        planner, scenario, stated, octets, clients
    ):
        return "", 0.0, f"{stated}: {problem}"
    deployed = transfers.endpoint_scenario(configuration, scenario)
    way: Any = case.way
    spec = transfers.endpoint_spec(planner, deployed, stated, octets, way, clients=clients)
    by = f"{kind} {way} by {spec.tool}" if kind else case.name
    return f"{by}, {spec.instances} instance(s)", spec.length_s, ""


def describe(plan: Plan, subject: str = FRAMES) -> list[str]:
    """What a plan deploys for frames, for sockets or for a workload, as lines of text."""
    placement, scenario = plan.placement, plan.scenario
    graph = scenario.deployment
    absent = () if subject in (FRAMES, USERS) else (TESTER,)  # it is taken away for others
    placed = {role: cpus for role, cpus in placement.cores.items() if role not in absent}
    sharing = Sharing.planned(plan, absent)
    ends = (
        ""
        if subject not in _ENDS
        else f", {_ENDS[subject]} at {' and '.join(map(str, graph.ends))}"
    )
    lines = [
        f"deployment  {graph.name}: {graph.vnf_count} VNF(s), {graph.chains} chain(s){ends}",
        f"forwarding  {'; '.join(str(hop) for hop in graph.hops)}",
        *(
            f"vnf         vnf{number}: {scenario.vnf}, mode {scenario.vnf_mode}"
            for number in graph.vnf_numbers
        ),
        *([f"conditions  {', '.join(scenario.conditions)}"] if scenario.conditions else []),
        *_hosts(plan),
        *([f"clocks      {plan.tester_text}"] if plan.tester_text else []),
        f"wires       {_wires(plan)}"
        if graph.phy_ports
        else f"wires       none: {_IN_PLACE.get(subject) or load_workload(subject).ends}",
        *(f"            wire {nic.wire}: {nic}" for nic in plan.nics),
        *(
            [f"traffic     {scenario.traffic.name}: {scenario.traffic.description}"]
            if subject == FRAMES
            else []
        ),
        *([f"cores       {_cores(sharing)}"] if placed else []),
        *(f"            {role} on {', '.join(map(str, cpus))}" for role, cpus in placed.items()),
        *(
            f"            {role} anywhere on {', '.join(map(str, cpus))}"
            for role, cpus in placement.unpinned.items()
        ),
    ]
    if placement.shared:
        sentences = (sharing.sentence, sharing.meaning)
        lines += [f"            {text}" for text in sentences if text]
        if placement.turn_us and not placement.emulated:
            lines.append(
                f"            turns: {placement.turn_us} us of those that share a processor with "
                "each other and sleep in between"
            )
        slices = f"{placement.slice_us} us" if placement.slice_us else placement.slice_note
        lines.append(f"            scheduler slices: {slices or 'the kernel own'}")
    for memory in plan.memory:
        users = ", ".join(f"{user} {mib} MiB" for user, mib in memory.users.items())
        lines.append(
            f"memory      {memory.pages} hugepages of {memory.size_kb} KiB are needed on node "
            f"{memory.node}: {users}"
        )
    return [*lines, *(f"command     {name}: {line}" for name, line in plan.commands.items())]


def _cores(sharing: Sharing) -> str:
    """Who shares processors, and why."""
    if sharing.label == sharing.mode:
        return f"{sharing.mode}: {sharing.reason}"
    return f"{sharing.label} ({sharing.reason})"


def _wires(plan: Plan) -> str:
    if not plan.hosts:
        passed = (f"; not {kind}: {reason}" for kind, reason in plan.wires_without_memory.items())
        return f"{plan.wire}, one per physical port{''.join(passed)}"
    (kind,) = {part.wire for part in plan.hosts}
    graph = plan.scenario.deployment
    elsewhere = (graph.tester_vnf_ports or kind != plan.wire) and not plan.scenario.apart
    looped = f"; the tester is calibrated over {plan.wire}" if elsewhere else ""
    return f"{kind}, those between hosts are cables{looped}"


def _hosts(plan: Plan) -> list[str]:
    """What each host has, where there are several."""
    lines = []
    for part in plan.hosts:
        scenario = part.scenario
        vnfs = [f"vnf{number}" for number in scenario.deployment.vnf_numbers]
        of_dut = f" ({', '.join([f'vSwitch {scenario.vswitch}', *vnfs])})" if part.has_dut else ""
        port = f"'s port {part.ends[0]}" if part.ends and part.has_tester else ""
        parts = " and ".join(
            f"{part_name}{port}" if part_name == "tester" else part_name for part_name in part.parts
        )
        lines.append(f"host        {part.host}: {parts}{of_dut}")
        lines += [f"            {use}" for use in part.cables]
        lines += [f"            {nic}" for nic in part.nics]
        lines += [
            f"            {scenario.tunnel} at {end.port}: {end.local} to {end.remote}"
            for end in scenario.tunnel_ends
            if part.has_dut
        ]
        local_cores = {role: cpus for role, cpus in part.placement.cores.items() if ":" not in role}
        lines += [
            f"            {role} on {', '.join(map(str, cpus))}"
            for role, cpus in local_cores.items()
        ]
    return lines


def _frames(
    planner: Planner, scenario: Scenario, cases: Sequence[PlannedCase]
) -> tuple[list[str], TimeSum]:
    """Tests of frames: their sizes, searches and times, and what is left out."""
    preset, traffic = planner.configuration.preset, scenario.traffic
    media = LinkSpeed(planner.configuration.testbed.media.bits_per_second)
    largest, lines, sizes_of = largest_frame(scenario), list[str](), dict[str, list[int]]()
    left_out: dict[str, dict[int, None]] = {}
    skipped: dict[str, str] = {}
    for case in cases:
        size = choose_size(case, preset)
        if problem := find_size_problem(scenario, size, largest):
            left_out.setdefault(problem, {})[size] = None
        elif problem := _find_test_problem(planner, case.test, scenario):
            skipped[case.test] = problem
        elif size not in sizes_of.setdefault(case.test, []):
            sizes_of[case.test].append(size)
    tests = [test for test in registry.test_names() if test in sizes_of]
    sizes = list(dict.fromkeys(size for test_sizes in sizes_of.values() for size in test_sizes))
    after = [
        test for test in tests if test != THROUGHPUT and load_test(test).needs_throughput(preset)
    ]
    searched = dict.fromkeys(
        size for test in (THROUGHPUT, *after) for size in sizes_of.get(test, ())
    )
    size_text = ", ".join(map(str, sizes)) if traffic.mix is None else IMIX
    lines.append(f"tests       {', '.join(tests) or 'none'}")
    if searched:
        lines.append(f"search      {preset.algorithm}, frame sizes {size_text}")
    elif tests:
        lines.append(f"frame sizes {size_text}")
    for problem, them in left_out.items():
        named = IMIX if traffic.mix is not None else ", ".join(map(str, them))
        lines.append(f"            but not {named}: {problem}")
    lines += [
        f"            {test} would be skipped: {problem}" for test, problem in skipped.items()
    ]
    if searched:
        lines += [
            f"            goal {g.name}: loss {g.loss_ratio:g}, width {g.width:g}, trials of "
            f"{g.initial_trial_s:g} to {g.final_trial_s:g} s, {g.duration_sum_s:g} s a load"
            for g in preset.goals
        ]
    times = TimeSum()
    if searched and THROUGHPUT not in tests:
        sizes_of[THROUGHPUT], tests = [*searched], [THROUGHPUT, *tests]
        lines.append(f"            the throughput is searched first, for {', '.join(after)}")
    elif THROUGHPUT in tests:
        sizes_of[THROUGHPUT] = [*searched]
    for test in tests:
        text, seconds = _longest(test, preset, media, sizes_of[test])
        lines.append(f"wall time   {text}")
        unlimited = () if seconds is not None else (test,)
        count = sum(
            case.test == test and choose_size(case, preset) in sizes_of[test] for case in cases
        )
        times += TimeSum((seconds or 0.0) * len(sizes_of[test]), count, unlimited)
    return lines, times


def choose_size(case: PlannedCase, preset: Preset) -> int:
    """Octets of a case's frames: where the test case names none, the smallest."""
    return case.frame_size or min(preset.frame_sizes)


def _find_test_problem(planner: Planner, test: str, scenario: Scenario) -> str:
    """What keeps a test from a scenario that carries frames."""
    preset = planner.configuration.preset
    try:
        if test in ("address_caching", "address_learning"):
            address_scenario(scenario, preset)
        elif test in ("connection_rate", "session_capacity"):
            session_scenario(scenario)
        if test != THROUGHPUT:
            require_generator(planner, scenario, test)
    except CapabilityError as error:
        return "; ".join(map(str.strip, str(error).splitlines()))
    return ""


def _longest_search(preset: Preset, sizes_text: str) -> tuple[str, float]:
    """The longest that all rounds of a throughput can take: text, and seconds."""
    seconds = preset.time_budget_s
    if seconds is None:  # its limit is of traffic: the waits of all trials besides
        seconds = preset.search_seconds
        trials = ceil(seconds / min(goal.initial_trial_s for goal in preset.goals))
        seconds = DurationEstimate(trials, seconds).wall_s(preset)
    most = max(preset.rounds, preset.most_rounds)
    warm = DurationEstimate(int(preset.warm_up_s), preset.warm_up_s).wall_s(preset)
    total_s = most * seconds + (most - 1) * preset.round_gap_s + warm
    rounds = f", {most} rounds of {duration(seconds)}" if most > 1 else ""
    text = (
        f"{THROUGHPUT}: at most {duration(total_s)} with all waits{rounds}, "
        f"deployment besides, {sizes_text}"
    )
    return text, total_s


def _longest(
    test: str, preset: Preset, media: LinkSpeed, sizes: Sequence[int]
) -> tuple[str, float | None]:
    """The longest that a test can take at one of its frame sizes: text, and seconds."""
    sizes_text = (
        f"at each of {len(sizes)} frame sizes" if len(sizes) > 1 else f"at {sizes[0]} octets"
    )
    if test == THROUGHPUT:
        return _longest_search(preset, sizes_text)
    estimate = duration_estimate(test, preset, media.max_frame_rate(min(sizes)))
    if estimate is None:
        return f"{test}: as many trials as it takes", None
    seconds = estimate.wall_s(preset)
    text = (
        f"{test}: at most {estimate.trials} trials, {duration(seconds)} with "
        f"all waits, deployment besides, {sizes_text}"
    )
    return text, seconds
