"""`vnetperf doctor`: what this machine can run, what is missing, how to get it."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vnetperf.config.settings import Settings, add_options, read_options
from vnetperf.host.facts import is_unknown
from vnetperf.model.errors import CapabilityError, ConfigError
from vnetperf.plugin import registry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vnetperf.config import Configuration
    from vnetperf.model.scenario import Scenario
    from vnetperf.model.testbed import MachineFacts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_options(parser.add_argument, *Settings.model_fields)


def run(arguments: argparse.Namespace) -> int:
    """Look at the machine and plan every scenario."""
    from vnetperf import config
    from vnetperf.agent.hosts import TestbedClient
    from vnetperf.runner.scenarios import check_backends

    loaded = config.load(read_options(arguments))
    check_backends(loaded)
    client = TestbedClient(loaded.testbed, read_only=True)
    _show_life("looking at this machine and its programs ...")
    try:
        facts = client.inventory()
    finally:
        client.close()
        _show_life("")
    for number, (host, host_client) in enumerate(client.clients.items()):
        if host:
            print(("\n" if number else "") + f"host {host} ({host_client.testbed.agent.transport})")
        _print_machine(facts.of_host(host))
        if host_client.clock is not None:
            print("clock against this machine's")
            print(
                f"  {host_client.clock.offset_s:+.3f} s, within {host_client.clock.bound_s:.3f} s"
            )
        _print_last_restore(host_client.last_restore, host_client.troubles)
    for cable in loaded.testbed.cables:
        print(f"cable {' - '.join(cable.ends)}")
    return 0 if _print_scenarios(loaded, facts) else 1


def _show_life(text: str) -> None:
    """A line on the terminal while something takes long; "" takes it away."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _cures() -> dict[str, str]:
    """Program -> how to get it, by who needs it."""
    cures: dict[str, str] = {}
    for backend in registry.backends().values():
        for program in getattr(backend, "programs", ()):
            cures.setdefault(program.name, getattr(backend, "not_found", ""))
    return cures


def _print_machine(facts: MachineFacts) -> None:
    print("machine")
    nodes = ", ".join(map(str, facts.nodes))
    kinds = len({cpu.kind for cpu in facts.cpus})
    several = f", {kinds} kinds of cores (pollers get one)" if kinds > 1 else ""
    print(f"  processors     {len(facts.cpus)} usable, NUMA node(s) {nodes}{several}")
    for pool in facts.hugepages:
        _say(
            f"  hugepages      node {pool.node}: {pool.free} of {pool.total} free, "
            f"{pool.size_kb} KiB each (more are reserved for a run and given back)",
            17,
        )
    for node, free in facts.memory_free_kb.items():
        print(f"  memory         node {node}: {free // 1024} MiB could become hugepages")
    for text in facts.limits.texts:
        _say(f"  limit          {text}, as the kernel lets this process have", 17)
    _say(f"  short slices   {facts.slices or 'available (EEVDF): pollers can share cores'}", 17)
    _say(f"  BPF programs   {facts.bpf or 'can be loaded, and what they drop counted'}", 17)
    root = "yes" if facts.is_root else "no: run as root or allow sudo -n"
    _say(f"  root           {f'no: {facts.root_cure}' if facts.lacks else root}", 17)
    unreadable = facts.record.get("unreadable")
    for part, reason in unreadable.items() if isinstance(unreadable, dict) else ():
        _say(f"  not read       {part}: {reason}", 17)
    print("programs")
    declared, cures = registry.programs(), _cures()
    for name, path in facts.programs.items():
        version = facts.versions.get(name, "").splitlines()
        cure = cures.get(name) or facts.missing_program(declared.get(name, name)).partition("; ")[2]
        trouble = facts.program_troubles.get(name)
        missing = f"CANNOT BE USED: {trouble}" if trouble else f"MISSING: {cure}"
        shown = f"  ({version[0]})" if version and not is_unknown(version[0]) else ""
        _say(f"  {name:<18} {path or missing}{shown}", 21)
    _print_guests(facts)
    _print_pods(facts)


def _print_last_restore(last: Mapping[str, Any], troubles: Sequence[str]) -> None:
    """Whether the machine was as before the last run, and what earlier ones left."""
    print("last restore of this machine")
    if not last or "unknown" in last:
        reason = last.get("unknown", "no run has ended here since this is recorded")
        print(f"  unknown: {reason}")
    else:
        changes = [*last.get("troubles", ()), *(last.get("differences") or ())]
        word = (
            f"{len(changes)} difference(s) from before, by it or others:"
            if changes
            else "as before"
        )
        _say(f"  run {last.get('run')}, {last.get('when')}: {word}", 4)
        for text in changes:
            _say(f"    {text}", 6)
    for text in troubles:
        _say(f"  NOT restored: {text}", 4)


def _print_guests(facts: MachineFacts) -> None:
    """What VNFs in virtual machines need besides QEMU, which is among the programs."""
    from vnetperf.model.testbed import LIBVIRT_PYTHON
    from vnetperf.virt.images import DEFAULT_IMAGE

    print("guests (VNFs in virtual machines, --vnf vloop:vm)")
    libvirt = facts.versions.get(LIBVIRT_PYTHON) or "MISSING: `pip install 'vnetperf[vm]'`"
    print(f"  {LIBVIRT_PYTHON:<18} {libvirt}")
    for name in dict.fromkeys((DEFAULT_IMAGE, *facts.images)):
        trouble = facts.missing_image(name)
        says = f"MISSING: {trouble}" if trouble else "built, whole, for this machine's processors"
        _say(f"  {f'image {name}':<18} {says}", 21)


def _print_pods(facts: MachineFacts) -> None:
    """What kinds of pods with programs there are."""
    from vnetperf.virt.pods import PODS, missing_for_pods

    print("pods with programs (--pod)")
    for kind in PODS:
        reason = missing_for_pods(kind, facts)
        _say(f"  {kind:<18} {f'MISSING: {reason}' if reason else 'can be made'}", 21)


def _print_scenarios(loaded: Configuration, facts: MachineFacts) -> int:
    from vnetperf.host.facts import describe_error
    from vnetperf.planning.planner import make_plan
    from vnetperf.runner.scenarios import make_scenario, scenario_ids

    print("scenarios")
    able: list[str] = []
    count = 0
    by_vswitch: dict[str, list[Scenario]] = {}
    for problem in (*registry.broken(), *registry.disagreements()):
        _say(f"  {problem}", 4)
    for scenario_id in scenario_ids():
        try:
            scenario = make_scenario(scenario_id, loaded)
        except ConfigError:  # a vSwitch among the broken ones
            continue
        of_network = scenario.deployment.dut_family == "networks"
        dut_name = f"network {scenario.vswitch}" if of_network else scenario.vswitch
        by_vswitch.setdefault(dut_name, []).append(scenario)
    ways: dict[str, dict[str, str]] = {}
    for vswitch, scenarios in by_vswitch.items():
        for scenario in scenarios:
            name, count = scenario.deployment.name, count + 1
            try:
                plan = make_plan(scenario, loaded.testbed, facts)
                over = f"over {plan.wire}, " if scenario.deployment.phy_ports else ""
                way = f"yes, {over}{plan.placement.mode} cores"
                able.append(f"{name}_{vswitch.removeprefix('network ')}")
            except CapabilityError as error:
                obstacle = error.what.removeprefix(f"{name} ")  # so that alike ones are one line
                way = f"no: {obstacle}" + (f"; cure: {error.cure}" if error.cure else "")
            except Exception as error:  # noqa: BLE001 - a plugin's, on whatever its machine has
                way = f"unknown: {' '.join(describe_error(error).split())}"
            ways.setdefault(vswitch, {})[name] = way
    _print_groups(ways)
    command = _first_command(able, loaded)
    advice = "begin with:" if command else "what each lacks stands above"
    _say(f"{len(able)} of {count} scenarios can run here; {advice}", 2)
    if command:
        print(f"  {command}")  # in one line, to be copied
    return len(able)


def _named_together(names: Sequence[str]) -> str:
    """Several networks in one line: "networks bridge, cni"."""
    if len(names) == 1:
        return names[0]
    kinds = {name.partition(" ")[0] for name in names}
    networks = kinds == {"network"}
    plain = ", ".join(name.removeprefix("network ") if networks else name for name in names)
    return f"networks {plain}" if networks else plain


#: Scenarios that a first run may be of, the simplest first.
_FIRST = ("phy2phy_bridge", "phy2phy_testpmd", "pvp_dpdk")


def _first_command(able: Sequence[str], loaded: Configuration) -> str:
    """How to begin; "" where nothing can run."""
    if not able:
        return ""
    first = next((name for name in (*_FIRST, *able) if name in able), able[0])
    tests = "testcases/" if Path("testcases").is_dir() else "--pyargs vnetperf.testcases"
    bed = loaded.settings.testbed
    testbed_option = "" if loaded.sources["testbed"] == "default" else f" --testbed {bed}"
    return f"pytest {tests} -k {first} --preset smoke{testbed_option}"


def _print_groups(ways: Mapping[str, Mapping[str, str]]) -> None:
    """What each vSwitch can, then each cause of what cannot run, the commonest first."""
    # A network may have the name of a vSwitch.
    said = {
        (_plain_name(v), way) for v, by_deployment in ways.items() for way in by_deployment.values()
    }
    said_by = Counter(way for _, way in said)
    lacking: dict[str, dict[str, list[str]]] = {}  # cause -> vSwitch -> deployments
    for vswitch, by_deployment in ways.items():
        for name, way in by_deployment.items():
            cause = way if said_by[way] > 1 else _without_name(way, vswitch)
            lacking.setdefault(cause, {}).setdefault(vswitch, []).append(name)
    usable: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for vswitch, by_deployment in ways.items():
        kept = tuple((n, way) for n, way in by_deployment.items() if not way.startswith("no: "))
        usable.setdefault(kept, []).append(vswitch)
    for kept, vswitches in usable.items():
        if kept:
            _say(f"  {_named_together(vswitches)}", 4)
            _print_ways(dict(kept))
    lacks = {cause: where for cause, where in lacking.items() if cause.startswith("no: ")}
    if lacks:
        print("what cannot run, and why")
    for cause, where in sorted(lacks.items(), key=lambda item: -_count(item[1])):
        text = cause.replace(_ITSELF, " / ".join(dict.fromkeys(map(_plain_name, where))))
        text = text.removeprefix("no: ").replace("; cure: ", "; ")
        _say(f"  {_count(where):>3}  {'; '.join(_list_deployments(where, ways))}:", 7)
        _say(f"         {text}", 9)


def _count(where: Mapping[str, Sequence[str]]) -> int:
    """Scenarios that lack the same."""
    return sum(map(len, where.values()))


#: Columns at most, and of what is no terminal: programs read lines, and a file has no edge.
_WIDEST, _PIPED = 100, 10_000


def _say(line: str, indent: int) -> None:
    """Print a line in the terminal's columns; what does not fit stands below, indented.

    What is to be typed stays in one line; in a pipe every line does.
    """
    narrow = sys.stdout.isatty() or os.environ.get("COLUMNS")
    at_most = min(shutil.get_terminal_size().columns, _WIDEST) if narrow else _PIPED
    kept = re.sub("`[^`]*`", lambda match: match[0].replace(" ", "\0"), line)
    wrapped = textwrap.wrap(
        kept,
        at_most,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    print("\n".join(wrapped).replace("\0", " "))


#: Stands for a vSwitch's own name in what it lacks, so that several can lack the same.
_ITSELF = "\0"


def _plain_name(vswitch: str) -> str:
    return vswitch.removeprefix("network ")


def _without_name(way: str, vswitch: str) -> str:
    """What is lacking, without the name of the vSwitch that lacks it."""
    return re.sub(rf"(?<![\w-]){re.escape(_plain_name(vswitch))}(?![\w-])", _ITSELF, way)


def _list_deployments(
    where: Mapping[str, Sequence[str]], ways: Mapping[str, Mapping[str, str]]
) -> list[str]:
    """Deployments, and of which vSwitches: "pvp, vepc of ovs", "all of sriov"."""
    of_names: dict[str, list[str]] = {}
    for vswitch, names in where.items():
        for name in names:
            of_names.setdefault(name, []).append(vswitch)
    together: dict[tuple[str, ...], list[str]] = {}
    for name, vswitches in of_names.items():
        together.setdefault(tuple(vswitches), []).append(name)
    lines = []
    for those, names in together.items():
        covers_all = len(those) > 1 and all(
            [*those] == [v for v, by_deployment in ways.items() if name in by_deployment]
            for name in names
        )
        owners = "every vSwitch" if covers_all else _kinds_together(those)
        lines.append(f"{', '.join(names)} of {owners}")
    return lines


def _kinds_together(vswitches: Sequence[str]) -> str:
    """Names of vSwitches and, apart from them, of networks."""
    networks = [name for name in vswitches if name.startswith("network ")]
    others = [name for name in vswitches if name not in networks]
    return " and ".join(_named_together(names) for names in (others, networks) if names)


def _print_ways(ways: Mapping[str, str]) -> None:
    together: dict[str, list[str]] = {}
    for name, way in ways.items():
        together.setdefault(way, []).append(name)
    for way, names in together.items():
        _say(f"    {', '.join(names)}: {way}", 6)
