"""What keeps a core from a scenario: told before anything is started."""

from __future__ import annotations

from pathlib import Path

from vnetperf.host import programs
from vnetperf.model.core import Stack
from vnetperf.model.machine import MachineFacts
from vnetperf.model.scenario import Scenario
from vnetperf.vnfs.vepc.stack import trouble as stack_trouble

#: Fields of a user's packet that the sessions decide on.
ADDRESSES = ("ipv4_src", "ipv4_dst", "ipv4_src_net", "ipv4_dst_net")


def modules(scenario: Scenario) -> tuple[str, ...]:
    """Kernel modules that users' traffic goes through.

    Args:
        scenario: The scenario.

    Returns:
        Names.
    """
    return ("gtp",) if scenario.core.gtpu_mode == "kernel" else ("tun",)


def trouble(facts: MachineFacts, scenario: Scenario, name: str) -> str:
    """What keeps a core from a scenario.

    Args:
        facts: The machine.
        scenario: The scenario.
        name: What the VNF is called.

    Returns:
        "" when nothing does; otherwise what and the cure, in one sentence.
    """
    return of_scenario(scenario, name) or _of_machine(facts, scenario)


def of_scenario(scenario: Scenario, name: str) -> str:
    """What of a scenario no core can do, or this one, wherever it runs.

    Args:
        scenario: The scenario.
        name: What the VNF is called.

    Returns:
        "" for nothing; otherwise what and the cure, in one sentence.
    """
    if not scenario.deployment.gtp:
        return (
            f"{name} takes users' packets in GTP-U, which {scenario.deployment.name} does not "
            f"send; it is deployed as vepc_{scenario.vswitch}: -k vepc_{scenario.vswitch}"
        )
    varied = [field for field in scenario.traffic.vary if field in ADDRESSES]
    found = {
        f"{name} has no mode {scenario.vnf_mode!r}: a core routes; leave --vnf-mode out": (
            scenario.vnf_mode != "route"
        ),
        "a vSwitch that routes knows the test networks, and not the core's Gn network; "
        "leave --forwarding out": scenario.routed,
        "rules by flow look at addresses that GTP-U hides; choose --rules port or learning": (
            scenario.rules == "stream"
        ),
        f"the sessions decide on addresses of UEs, so that {', '.join(varied)} cannot be varied; "
        "ask for more sessions with --core sessions=N, and vary udp_src or udp_dst": bool(varied),
        "no core has been chosen; name one of conf/stacks/ with --core": scenario.stack is None,
    }
    first = next((said for said, holds in found.items() if holds), "")
    return first or (stack_trouble(scenario.stack, scenario.core) if scenario.stack else "")


def _of_machine(facts: MachineFacts, scenario: Scenario) -> str:
    for program in scenario.stack.programs if scenario.stack else ():
        name = program.argv[0]
        if name in programs.PLACES and (found := facts.missing_program(name, program.package)):
            return found
    if found := _of_build(facts, scenario):
        return found
    purpose = f"gtpu_mode {scenario.core.gtpu_mode}"
    found_all = (facts.missing_module(module, purpose) for module in modules(scenario))
    return next((text for text in found_all if text), "")


def _of_build(facts: MachineFacts, scenario: Scenario) -> str:
    """Whether the core that is installed was built with the mode."""
    core, mode = scenario.stack, scenario.core.gtpu_mode
    mark = core.mode_marks.get(mode, "") if core is not None else ""
    name = core.programs[0].argv[0] if core is not None else ""
    linked = facts.libraries.get(name)
    if not mark or linked is None or mark in linked:  # unknown: its log says so when it starts
        return ""
    return (
        f"this build of {name} has no gtpu_mode {mode} ({facts.programs.get(name, name)} is not "
        f"linked with {mark}); install one that is, or leave gtpu_mode out"
    )


def of_guest(scenario: Scenario) -> str:
    """What of a scenario a core in a VM cannot do.

    Args:
        scenario: The scenario.

    Returns:
        "" for nothing; otherwise what and the cure, in one sentence.
    """
    core, mode = scenario.stack, scenario.core.gtpu_mode
    if core is None:
        return ""
    if core.attach.by == "command":
        return (
            f"UEs attach to a core in a VM by GTPv1-C over its wire, and to {core.name} by a "
            "command of its own; choose --vnf vepc:container"
        )
    # An image of ours has the distribution's build.
    if core.mode_marks.get(mode) and scenario.guest.image == Stack.model_fields["image"].default:
        return (
            f"the core in the image {scenario.guest.image} has no gtpu_mode {mode}: it is not "
            f"linked with {core.mode_marks[mode]}; name an image whose is with --guest image=NAME, "
            "or leave gtpu_mode out"
        )
    return ""


def version(facts: MachineFacts, stack: Stack) -> str:
    """Version of a core.

    Args:
        facts: The machine.
        stack: The core.

    Returns:
        What its first program says of itself, as far as it is one that is asked.
    """
    program = Path(stack.programs[0].argv[0]).name
    text = facts.versions.get(program, "")
    return text.splitlines()[0] if text else f"unknown: {program} is not asked"
