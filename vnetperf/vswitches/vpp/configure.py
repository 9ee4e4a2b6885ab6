"""What VPP is started with for a plan, and what an installation lacks for a scenario."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from vnetperf.model.errors import CapabilityError, DutError
from vnetperf.model.machine import MachineFacts
from vnetperf.model.plan import NicUse, Plan
from vnetperf.model.ports import PhyPort
from vnetperf.model.scenario import Scenario
from vnetperf.vswitches import pins
from vnetperf.vswitches.vpp import ports, queues, startup, tunnels, xdp
from vnetperf.vswitches.vpp.install import (
    SUPPORTED,
    TELLS_MESSAGES,
    find_installation,
    parse_version,
    plugin_file,
)

PACKAGE = "install VPP's package vpp-plugin-core"


def missing(facts: MachineFacts, scenario: Scenario) -> str:
    """What an installed VPP lacks.

    Args:
        facts: The machine, with a VPP.
        scenario: The scenario.

    Returns:
        "" or what is missing with its cure, in one sentence.
    """
    try:
        version = parse_version(facts.versions.get("vpp", ""))
    except DutError as error:
        return f"{error}; name another VPP in the testbed file under [programs] vpp"
    low, high = SUPPORTED
    if not low <= version <= high:
        return (
            f"VPP {version[0]}.{version[1]:02} is not supported; accepted: "
            f"{low[0]}.{low[1]:02} or newer; install another and name it in the testbed file "
            "under [programs] vpp"
        )
    installation = find_installation(facts.programs["vpp"])
    if version < TELLS_MESSAGES and installation.plugin_dir and installation.api_dir is None:
        return (
            f"VPP {version[0]}.{version[1]:02} does not tell its messages and has no definitions "
            "beside it (share/vpp/api); install VPP's packages whole"
        )
    for plugin in _needed(scenario):
        if not installation.has(plugin):
            return f"VPP's plugin {plugin} is not in {installation.plugin_dir}; {PACKAGE}"
    return pins.why_not(scenario)


def _needed(scenario: Scenario) -> list[str]:
    """Plugins that a scenario needs whatever is chosen later."""
    plugins = [tunnels.PLUGINS[scenario.tunnel]] if scenario.deployment.tunnelled else []
    if scenario.wire == "memif":
        plugins.append(ports.PLUGINS["memif"])
    elif scenario.wire == "veth":
        plugins.append(ports.PLUGINS[_netdev_kind(scenario)])
    return plugins


def _netdev_kind(scenario: Scenario) -> str:
    """How kernel interfaces are taken."""
    return "xdp" if xdp.asked(scenario.options) else "netdev"


def check_wire(plan: Plan, facts: MachineFacts) -> None:
    """Refuse a wire that was chosen and whose plugin is not there.

    Args:
        plan: The plan.
        facts: The machine, with a VPP.

    Raises:
        CapabilityError: Names the plugin, or the wire that the mode needs.
    """
    if problem := xdp.trouble_on_wire(plan.scenario, plan.wire):
        raise CapabilityError(problem, where=plan.scenario.id)
    kind = {"memif": "memif", "veth": _netdev_kind(plan.scenario)}.get(plan.wire)
    if kind is None or not plan.scenario.deployment.phy_ports:
        return  # NICs have nics_missing
    installation, plugin = find_installation(facts.programs["vpp"]), ports.PLUGINS[kind]
    if not installation.has(plugin):
        raise CapabilityError(
            f"VPP's plugin {plugin}, which a {plan.wire} wire needs, is not in "
            f"{installation.plugin_dir}",
            where=plan.scenario.id,
            cure=f"{PACKAGE}, or choose another wire with --wire",
        )


def nics_missing(nics: Sequence[NicUse], facts: MachineFacts) -> str:
    """What an installed VPP lacks for the drivers that NICs will have.

    Args:
        nics: NICs of the wires.
        facts: The machine, with a VPP.

    Returns:
        "" or what is missing with its cure, in one sentence.
    """
    installation = find_installation(facts.programs["vpp"])
    for use in nics:
        plugin = ports.PLUGINS["netdev" if use.kernel else "pci"]
        if use.side == "dut" and not installation.has(plugin):
            return (
                f"VPP's plugin {plugin}, which {use.pci} through {use.driver} needs, is not in "
                f"{installation.plugin_dir}; install VPP's package vpp-plugin-dpdk or "
                "vpp-plugin-core"
            )
    return ""


def hugepage_mib(scenario: Scenario) -> int:
    """Hugepage memory of a scenario.

    Args:
        scenario: The scenario.

    Returns:
        MiB; 0 lets buffers lie in ordinary memory.
    """
    return startup.hugepage_mib(scenario.mtu, nic=scenario.wire == "nic")


def rx_mode(plan: Plan) -> queues.RxMode:
    """How receive queues are served, other than those of shared memory.

    Args:
        plan: Cores.

    Returns:
        "polling" on cores of their own; on shared ones what gives the core away.
    """
    return "interrupt" if plan.placement.takes_turns("worker") else "polling"


def make_startup(
    plan: Plan,
    facts: MachineFacts,
    directory: Path,
    prefix: str,
    attachments: Collection[str] = (),
) -> startup.Startup:
    """The startup configuration of a plan.

    Args:
        plan: The plan.
        facts: The machine.
        directory: Private directory for sockets.
        prefix: Begins the names of shared memory.
        attachments: Kinds of attachment that were offered.

    Returns:
        The configuration.

    Raises:
        DutError: The placement has fewer processors than workers are asked for.
    """
    scenario = plan.scenario
    installation = find_installation(facts.programs["vpp"])
    cores = plan.placement.cores["worker"]
    asked = scenario.options.workers or 1
    if len(cores) < asked:
        raise DutError(
            f"VPP runs each worker on a processor of its own; {asked} are asked for, but they "
            f"have {len(cores)}",
            where="workers",
            accepted=f"up to {len(cores)}",
            cure="ask for fewer workers, or allow more processors under [cores]",
        )
    main = startup.main_core(plan, tuple(cpu.cpu for cpu in facts.cpus))
    nics = _nics(plan)
    memory = [
        (m.users[scenario.vswitch], m.size_kb) for m in plan.memory if m.users.get(scenario.vswitch)
    ]
    size = startup.data_size(scenario.mtu)
    kinds = {*attachments, "memif", _netdev_kind(scenario), *(["pci"] if nics else [])}
    plugins = [ports.PLUGINS[kind] for kind in sorted(kinds)]
    plugins += [tunnels.PLUGINS[scenario.tunnel]] if scenario.deployment.tunnelled else []
    return startup.Startup(
        directory=directory,
        prefix=prefix,
        main_core=main,
        workers=() if main in cores else cores,
        plugin_dir=installation.plugin_dir,
        plugins=tuple(plugin_file(name) for name in plugins if installation.has(name)),
        data_size=size,
        buffers=min(startup.buffers_in(mib, size) for mib, _ in memory)
        if memory
        else startup.BUFFERS,
        page_kb=memory[0][1] if memory else 0,
        nics=nics,
    )


def _nics(plan: Plan) -> tuple[startup.NicDevice, ...]:
    """NICs for the dpdk plugin, which takes devices only when VPP starts."""
    options = plan.scenario.options
    return tuple(
        startup.NicDevice(
            pci=use.pci,
            name=ports.nic_name(PhyPort(index=use.wire)),
            rx_queues=options.rx_queues or 1,
            tx_queues=options.workers or 1,
            rx_descriptors=options.rx_descriptors,
            tx_descriptors=options.tx_descriptors,
        )
        for use in plan.nics
        if use.side == "dut" and not use.kernel
    )
