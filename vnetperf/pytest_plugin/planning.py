"""`--plan`: prints what each selected scenario would do, and stops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from vnetperf.model.errors import CapabilityError, ConfigError
from vnetperf.model.imix import IMIX
from vnetperf.model.units import LinkSpeed
from vnetperf.procedures.lasting import lasting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vnetperf.model.plan import Plan
    from vnetperf.model.preset import Preset
    from vnetperf.model.profile import TrafficProfile
    from vnetperf.pytest_plugin.session import BenchSession
    from vnetperf.pytest_plugin.variants import Selected


def print_plans(
    session: BenchSession, wanted: Sequence[tuple[Selected, bool]], terminal: Any
) -> None:
    """Plan scenarios and print the plans; nothing on the machine is touched.

    Args:
        session: The session.
        wanted: Selected scenarios and variants, and whether endpoints are in the tester's place;
            each once.
        terminal: pytest's terminal reporter.
    """
    from vnetperf.bench.transfers import as_endpoints
    from vnetperf.pytest_plugin.varied import scenario_of
    from vnetperf.testbed.client import AgentClient
    from vnetperf.testbed.plan import make_plan

    configuration = session.configuration
    media = LinkSpeed(configuration.testbed.media.bits_per_second)
    client = AgentClient(configuration.testbed)
    try:
        facts = client.inventory()
        for selected, endpoints in wanted:
            terminal.section(f"plan of {selected.id}")
            for said in selected.variant.typed:
                terminal.line(f"variant     {said}")
            try:
                scenario = scenario_of(configuration, selected, facts)
                if endpoints:
                    scenario = as_endpoints(configuration, scenario)
                plan = make_plan(scenario, configuration.testbed, facts)
            except CapabilityError as error:
                terminal.line(f"would be skipped: {error}")
                continue
            except ConfigError as error:
                if selected.variant:
                    terminal.line(f"would fail: {error}")
                    continue
                raise pytest.UsageError(str(error)) from None
            for line in describe(plan, configuration.preset, media):
                terminal.line(line)
    finally:
        client.close()


def describe(plan: Plan, preset: Preset, media: LinkSpeed) -> list[str]:
    """A plan as lines of text.

    Args:
        plan: The plan.
        preset: Says how long it takes.
        media: Says how long bursts are.

    Returns:
        Lines.
    """
    placement, scenario = plan.placement, plan.scenario
    lines = [
        f"deployment  {scenario.deployment.name}: {scenario.deployment.vnf_count} VNF(s), "
        f"{scenario.deployment.chains} chain(s), tester at "
        f"{' and '.join(str(end) for end in scenario.deployment.ends)}",
        f"forwarding  {'; '.join(str(hop) for hop in scenario.deployment.hops)}",
        *([f"conditions  {', '.join(scenario.conditions)}"] if scenario.conditions else []),
        f"wires       {plan.wire}, one per physical port"
        if scenario.deployment.phy_ports
        else "wires       none: the tester is in the place of VNFs",
        *(f"            wire {nic.wire}: {nic}" for nic in plan.nics),
        f"traffic     {scenario.traffic.name}: {scenario.traffic.description}",
        f"cores       {placement.mode}: {placement.reason}",
        *(
            f"            {role} on {', '.join(map(str, cpus))}"
            for role, cpus in placement.cores.items()
        ),
        *(
            f"            {role} anywhere on {', '.join(map(str, cpus))}"
            for role, cpus in placement.unpinned.items()
        ),
    ]
    if placement.shared:
        slices = f"{placement.slice_us} us" if placement.slice_us else placement.slice_note
        lines.append(f"            scheduler slices: {slices or 'the kernel own'}")
    for memory in plan.memory:
        users = ", ".join(f"{user} {mib} MiB" for user, mib in memory.users.items())
        lines.append(
            f"memory      {memory.pages} hugepages of {memory.size_kb} KiB free on node "
            f"{memory.node}: {users}"
        )
    lines += [f"command     {name}: {line}" for name, line in plan.commands.items()]
    return [*lines, *_times(preset, scenario.traffic, media)]


def _times(preset: Preset, traffic: TrafficProfile, media: LinkSpeed) -> list[str]:
    sizes = ", ".join(map(str, preset.frame_sizes)) if traffic.mix is None else IMIX
    lines = [
        f"tests       {', '.join(preset.tests)}",
        f"search      {preset.algorithm}, frame sizes {sizes}",
    ]
    too_small = [size for size in preset.frame_sizes if size < traffic.least_frame_size]
    if too_small:
        small = ", ".join(map(str, too_small))
        lines.append(f"            but not {small}: {traffic.why_that_size}")
    lines += [
        f"            goal {g.name}: loss {g.loss_ratio:g}, width {g.width:g}, trials of "
        f"{g.initial_trial_s:g} to {g.final_trial_s:g} s, {g.duration_sum_s:g} s a load"
        for g in preset.goals
    ]
    lines += [
        f"wall time   {_most(test, preset, traffic, media)}"
        for test in preset.tests
        if any(size not in too_small for size in preset.sizes_of(test))
    ]
    return lines


def _most(test: str, preset: Preset, traffic: TrafficProfile, media: LinkSpeed) -> str:
    """The longest that a test can take."""
    sizes = [size for size in preset.sizes_of(test) if size >= traffic.least_frame_size]
    at = f"at each of {len(sizes)} frame sizes" if len(sizes) > 1 else f"at {sizes[0]} octets"
    if test == "throughput":
        seconds = preset.time_budget_s or preset.max_trial_seconds
        if seconds is None:
            return f"{test}: not limited by the preset (max_trial_seconds)"
        more = "" if preset.time_budget_s else " of traffic, waits besides"
        return f"{test}: at most {_text(seconds)}{more}, {at}"
    found = lasting(test, preset, media.max_frame_rate(min(sizes)))
    if found is None:
        return f"{test}: as many trials as it takes"
    return (
        f"{test}: at most {found.trials} trials, {_text(found.wall_s(preset))} with their waits, "
        f"{at}"
    )


def _text(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= 100 else f"{seconds:.3g} s"
