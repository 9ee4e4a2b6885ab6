"""`vnetperf doctor`: what this machine can run, what is missing, how to get it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from vnetperf.commands.common import add_settings, given_settings

if TYPE_CHECKING:
    from vnetperf.config import Configuration
    from vnetperf.model.machine import MachineFacts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options.

    Args:
        parser: The subcommand's parser.
    """
    add_settings(parser, "testbed", "vnf", "vnf_mode", "vnfs", "traffic", "generator", "wire")
    add_settings(parser, "switch", "set", "forwarding", "rules", "tunnel")


def run(arguments: argparse.Namespace) -> int:
    """Look at the machine and plan every scenario.

    Args:
        arguments: Parsed arguments.

    Returns:
        0 when at least one scenario can run, 1 otherwise.
    """
    from vnetperf import config  # noqa: PLC0415 - slow to import
    from vnetperf.testbed.client import AgentClient  # noqa: PLC0415

    loaded = config.load(given_settings(arguments))
    client = AgentClient(loaded.testbed)
    try:
        facts = client.inventory()
    finally:
        client.close()
    _print_machine(facts)
    return 0 if _print_scenarios(loaded, facts) else 1


def _print_machine(facts: MachineFacts) -> None:
    print("machine")
    nodes = ", ".join(map(str, facts.nodes))
    print(f"  processors     {len(facts.cpus)} usable, NUMA node(s) {nodes}")
    for pool in facts.hugepages:
        print(
            f"  hugepages      node {pool.node}: {pool.free} of {pool.total} free, "
            f"{pool.size_kb} KiB each (more are reserved for a run and given back)"
        )
    for node, free in facts.memory_free_kb.items():
        print(f"  memory         node {node}: {free // 1024} MiB could become hugepages")
    print(f"  short slices   {facts.slices or 'available (EEVDF): pollers can share cores'}")
    print(f"  root           {'yes' if facts.is_root else 'no: run as root or allow sudo -n'}")
    print("programs")
    for name, path in facts.programs.items():
        version = facts.versions.get(name, "").splitlines()
        print(f"  {name:<18} {path or 'MISSING'}{f'  ({version[0]})' if version else ''}")


def _print_scenarios(loaded: Configuration, facts: MachineFacts) -> int:
    from vnetperf.bench.scenarios import make_scenario, scenario_ids  # noqa: PLC0415
    from vnetperf.model.errors import CapabilityError  # noqa: PLC0415
    from vnetperf.testbed.plan import make_plan  # noqa: PLC0415

    print("scenarios")
    runnable = 0
    for scenario_id in scenario_ids():
        try:
            plan = make_plan(make_scenario(scenario_id, loaded), loaded.testbed, facts)
        except CapabilityError as error:
            print(f"  {scenario_id:<16} no: {error}")
            continue
        runnable += 1
        print(f"  {scenario_id:<16} yes, over {plan.wire}, {plan.placement.mode} cores")
    return runnable
