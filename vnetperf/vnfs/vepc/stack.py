"""A mobile core's stack file with its values: files, command lines, network, requirements."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vnetperf.host.links import protocol_counters
from vnetperf.model.errors import ConfigError
from vnetperf.model.options import (
    GN_PREFIX,
    GN_TESTER,
    GN_VEPC,
    SERVER_NETWORK,
    UE_NETWORK,
    MobileCore,
    MobileCoreOptions,
    StackProgram,
)
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts, Program
from vnetperf.model.trial import HopCounters

#: Programs of the stack that is shipped; the builds of a GGSN differ by what they are linked with.
PROGRAMS = (
    Program(
        name="osmo-ggsn",
        package="osmo-ggsn",
        version_args=("--version",),
        records_libraries=True,
        by_make=True,
    ),
    Program(name="sgsnemu", package="osmo-ggsn", by_make=True),
)
GTP_MODULE = KernelModule(name="gtp", symbol="gtp_dev_xmit", optional=True)
TUN_MODULE = KernelModule(name="tun", symbol="tun_net_xmit", optional=True)
#: A value's place: its name may be that of a file, with a point.
VARIABLE = re.compile(r"\$\{([^{}]*)\}")
#: First address beyond tester port 1: the server, which is the UEs' resolver too.
SERVER = "198.19.0.1"
#: Where the SGSN's signalling comes from: an address of the mobile core's own loopback interface.
SGSN = "127.0.0.2"
#: Interface that the packets of a UE of users' traffic leave by.
UE_TUN = "ue0"


@dataclass(frozen=True)
class MobileCoreInterfaces:
    """Names of its interfaces towards the radio network (Gn) and the Internet (SGi)."""

    gn: str
    sgi: str


def _common_values(stack: MobileCore, gn: str, tun: str, directory: Path) -> dict[str, str]:
    """What `${NAME}` stands for in all of a stack's texts, besides the names of its files."""
    return {
        "apn": stack.attach.apn,
        "directory": str(directory),
        "gn": gn,
        "gn_address": GN_VEPC,
        "gn_prefix": str(GN_PREFIX),
        "radio_address": GN_TESTER,
        "server": SERVER,
        "server_network": SERVER_NETWORK,
        "tun": tun,
        "ue_network": UE_NETWORK,
    }


def stack_values(
    stack: MobileCore, options: MobileCoreOptions, interfaces: MobileCoreInterfaces, directory: Path
) -> dict[str, str]:
    """What `${NAME}` stands for in files and command lines of a mobile core."""
    values = {
        "dns": SERVER,
        "gtpu_mode": stack.gtpu_modes.get(options.gtpu_mode, ""),
        "ramp": f"{options.ramp:g}",
        "sessions": str(options.sessions),
        "sgi": interfaces.sgi,
        "sgsn_address": SGSN,
    }
    return dict(
        sorted((_common_values(stack, interfaces.gn, stack.tun, directory) | values).items())
    )


def ue_values(stack: MobileCore, radio: str, directory: Path) -> dict[str, str]:
    """What `${NAME}` stands for in the command line of a UE."""
    return _common_values(stack, radio, UE_TUN, directory)


def substitute(text: str, values: Mapping[str, str], where: str) -> str:
    """Put values into a text."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise ConfigError(
                f"${{{match[1]}}} stands for nothing", where=where, accepted=", ".join(values)
            )
        return values[match[1]]

    return VARIABLE.sub(value, text)


def stack_files(stack: MobileCore, values: Mapping[str, str]) -> dict[str, str]:
    """The stack's files with values in them."""
    where = f"conf/stacks/{stack.name}.toml"
    return {
        name: substitute(text, values, f"{where}: {name}") for name, text in stack.files.items()
    }


def program_argv(
    program: StackProgram | tuple[str, ...], values: Mapping[str, str], stack: MobileCore
) -> tuple[str, ...]:
    """A command line with values, and paths of files, in it."""
    argv = program.argv if isinstance(program, StackProgram) else program
    return tuple(
        substitute(word, values, f"conf/stacks/{stack.name}.toml: {argv[0]}") for word in argv
    )


def stack_problem(stack: MobileCore, options: MobileCoreOptions) -> str:
    """What is wrong with a stack, or with its options, before anything is started."""
    if options.gtpu_mode not in stack.gtpu_modes:
        return (
            f"{stack.name} has no gtpu_mode {options.gtpu_mode}; "
            f"accepted: {', '.join(stack.gtpu_modes)}"
        )
    if options.sessions > stack.max_sessions:
        return (
            f"{stack.name} supports at most {stack.max_sessions} sessions; "
            f"accepted: --core sessions=N with N up to {stack.max_sessions}"
        )
    values = stack_values(stack, options, MobileCoreInterfaces("gn", "sgi"), Path("/"))
    for name in values.keys() & stack.files.keys():
        return (
            f"the file {name!r} in conf/stacks/{stack.name}.toml is called like a value: "
            f"${{{name}}} would be either; call it otherwise"
        )
    paths = values | {name: f"/{name}" for name in stack.files}
    try:
        stack_files(stack, values)
        for program in stack.programs:
            program_argv(program, paths, stack)
        if stack.attach.argv:
            program_argv(stack.attach.argv, paths, stack)
        if stack.ue is not None:
            program_argv(stack.ue, ue_values(stack, "gn", Path("/")), stack)
    except ConfigError as error:
        return str(error)
    return ""


#: Next hop towards the servers; a link-local address that is never resolved.
SGI_HOP = "169.254.0.2"


def network_commands(
    interfaces: MobileCoreInterfaces, radio_mac: str, server_mac: str
) -> tuple[str, ...]:
    """Commands that address the mobile core's interfaces; nothing is resolved by ARP."""
    gn, sgi = interfaces.gn, interfaces.sgi
    return (
        # The interface that the program makes is silent from the start, on a kernel with IPv6.
        "sysctl -q -e -w net.ipv6.conf.default.disable_ipv6=1",
        "sysctl -q -w net.ipv4.ip_forward=1",
        # Users' packets come in by one interface and are answered by another.
        "sysctl -q -w net.ipv4.conf.all.rp_filter=0",
        "sysctl -q -w net.ipv4.conf.default.rp_filter=0",
        f"sysctl -q -w net.ipv4.conf.{gn}.rp_filter=0",
        f"sysctl -q -w net.ipv4.conf.{sgi}.rp_filter=0",
        f"sysctl -q -w net.ipv4.conf.{sgi}.send_redirects=0",
        f"ip address replace {GN_VEPC}/{GN_PREFIX} dev {gn}",
        f"ip neigh replace {GN_TESTER} lladdr {radio_mac} dev {gn} nud permanent",
        f"ip neigh replace {SGI_HOP} lladdr {server_mac} dev {sgi} nud permanent",
        f"ip route replace {SERVER_NETWORK} via {SGI_HOP} dev {sgi} onlink",
    )


def parse_udp(text: str, port: str) -> HopCounters | None:
    """Counters of UDP in a namespace's table of protocols; None where it does not tell them."""
    names = ("InDatagrams", "OutDatagrams", "RcvbufErrors", "NoPorts", "SndbufErrors")
    table = protocol_counters(text, "Udp")
    if not {*names} <= table.keys():
        return None
    received, sent, full, closed, unsent = (table[name] for name in names)
    return HopCounters(port=port, rx=received, tx=sent, rx_dropped=full + closed, tx_dropped=unsent)


#: Fields of a user's packet that the sessions decide on.
ADDRESS_FIELDS = ("ipv4_src", "ipv4_dst", "ipv4_src_net", "ipv4_dst_net")


def kernel_modules(scenario: Scenario) -> tuple[KernelModule, ...]:
    """Kernel modules that users' traffic goes through."""
    return (GTP_MODULE,) if scenario.core.gtpu_mode == "kernel" else (TUN_MODULE,)


def mobile_core_problem(facts: MachineFacts, scenario: Scenario, name: str) -> str:
    """What keeps a mobile core from a scenario."""
    return scenario_problem(scenario, name) or _machine_problem(facts, scenario)


def scenario_problem(scenario: Scenario, name: str) -> str:
    """What of a scenario no mobile core can do, or this one, wherever it runs."""
    if not scenario.deployment.gtp:
        return (
            f"{name} takes users' packets in GTP-U, which {scenario.deployment.name} does not "
            f"send; it is deployed as vepc_{scenario.vswitch}: -k vepc_{scenario.vswitch}"
        )
    varied = [field for field in scenario.traffic.vary if field in ADDRESS_FIELDS]
    problems = {
        f"{name} has no mode {scenario.vnf_mode!r}: a mobile core routes; leave --vnf-mode out": (
            scenario.vnf_mode != "route"
        ),
        "a vSwitch that routes knows the test networks, and not the mobile core's Gn network; "
        "leave --forwarding out": scenario.routed,
        "rules by flow look at addresses that GTP-U hides; choose --rules port or learning": (
            scenario.rules == "stream"
        ),
        f"the sessions decide on addresses of UEs, so that {', '.join(varied)} cannot be varied; "
        "request more sessions with --core sessions=N, and vary udp_src or udp_dst": bool(varied),
        "no mobile core has been chosen; name one of conf/stacks/ with --core": scenario.stack
        is None,
    }
    first = next((problem for problem, holds in problems.items() if holds), "")
    return first or (stack_problem(scenario.stack, scenario.core) if scenario.stack else "")


def _machine_problem(facts: MachineFacts, scenario: Scenario) -> str:
    for program in scenario.stack.programs if scenario.stack else ():
        if problem := missing_stack_program(facts, program):
            return problem
    if problem := _build_problem(facts, scenario):
        return problem
    purpose = f"gtpu_mode {scenario.core.gtpu_mode}"
    found_all = (facts.missing_module(module, purpose) for module in kernel_modules(scenario))
    return next((text for text in found_all if text), "")


def missing_stack_program(facts: MachineFacts, program: StackProgram) -> str:
    """What keeps a program of a stack from being started."""
    declared = {tool.name: tool for tool in PROGRAMS}
    # Programs of a stack of the user's own are not looked for: its log has what is missing.
    if (name := program.argv[0]) not in facts.programs:
        return ""
    return facts.missing_program(declared.get(name, name), program.package)


def _build_problem(facts: MachineFacts, scenario: Scenario) -> str:
    """Whether the mobile core that is installed was built with the mode."""
    mobile_core, mode = scenario.stack, scenario.core.gtpu_mode
    mark = mobile_core.mode_marks.get(mode, "") if mobile_core is not None else ""
    name = mobile_core.programs[0].argv[0] if mobile_core is not None else ""
    linked = facts.libraries.get(name)
    if not mark or linked is None or mark in linked:  # unknown: its log shows it at the start
        return ""
    return (
        f"this build of {name} has no gtpu_mode {mode} ({facts.programs.get(name, name)} is not "
        f"linked with {mark}); install one that is, or leave gtpu_mode out"
    )


def guest_mobile_core_problem(scenario: Scenario) -> str:
    """What of a scenario a mobile core in a VM cannot do."""
    mobile_core, mode = scenario.stack, scenario.core.gtpu_mode
    if mobile_core is None:
        return ""
    if mobile_core.attach.by == "command":
        return (
            "UEs attach to a mobile core in a VM by GTPv1-C over its wire, and to "
            f"{mobile_core.name} by a command of its own; choose --vnf vepc:container"
        )
    # An image of ours has the distribution's build.
    if (
        mobile_core.mode_marks.get(mode)
        and scenario.guest.image == MobileCore.model_fields["image"].default
    ):
        return (
            f"the mobile core in the image {scenario.guest.image} has no gtpu_mode {mode}: it is "
            f"not linked with {mobile_core.mode_marks[mode]}; name an image whose is with --guest "
            "image=NAME, or leave gtpu_mode out"
        )
    return ""


def mobile_core_version(facts: MachineFacts, stack: MobileCore) -> str:
    """Version of a mobile core."""
    program = Path(stack.programs[0].argv[0]).name
    text = facts.versions.get(program, "")
    return text.splitlines()[0] if text else f"unknown: the version of {program} is not read"
