"""A private VPP process.

What an installation lacks, its startup configuration, start and stop.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Collection, Sequence
from pathlib import Path

from vnetperf.host.machine import Machine
from vnetperf.host.processes import ManagedProcess
from vnetperf.model.deployment import PhyPort
from vnetperf.model.errors import CapabilityError, DutError, HostError
from vnetperf.model.scenario import NicUse, Plan, Scenario
from vnetperf.model.testbed import MachineFacts, Program
from vnetperf.plugin import vswitch
from vnetperf.plugin.backend import check_process
from vnetperf.vswitches.vpp import forwarding, install, interfaces
from vnetperf.vswitches.vpp.api import StatsSegment, VppApi
from vnetperf.vswitches.vpp.install import (
    REPORTS_MESSAGES,
    SUPPORTED_VPP,
    VppInstallation,
    VppStartup,
    find_installation,
    parse_vpp_version,
    plugin_file,
)

#: It is not started for its version: before 26.02 it takes "--version" for a piece of its
#: configuration.
PROGRAM = Program(
    name="vpp",
    package="vpp (from its project's package repository)",
    version_library=r"libvlib\.so\.(\d+\.\d+)",
    software="vpp",
    debian=("vpp",),
)
PLUGIN_CURE = "install VPP's package vpp-plugin-core"


def vpp_installation_problem(
    facts: MachineFacts, scenario: Scenario, plugins: Sequence[str] = ()
) -> str:
    """What an installed VPP lacks."""
    try:
        version = parse_vpp_version(facts.versions.get("vpp", ""))
    except DutError as error:
        return f"{error}; name another VPP in the testbed file under [programs] vpp"
    low, high = SUPPORTED_VPP
    if not low <= version <= high:
        return (
            f"VPP {version[0]}.{version[1]:02} is not supported; accepted: "
            f"{low[0]}.{low[1]:02} or newer; install another and name it in the testbed file "
            "under [programs] vpp"
        )
    installation = find_installation(facts.programs["vpp"])
    if version < REPORTS_MESSAGES and installation.plugin_dir and installation.api_dir is None:
        return (
            f"VPP {version[0]}.{version[1]:02} does not report its messages and has no definitions "
            "beside it (share/vpp/api); install VPP's packages whole"
        )
    for plugin in (*plugins, *_required_plugins(scenario)):
        if not installation.has(plugin):
            return f"VPP's plugin {plugin} is not in {installation.plugin_dir}; {PLUGIN_CURE}"
    workers, processors = scenario.options.workers or 1, len(facts.cpus)
    if workers > 1 and processors == workers:  # of fewer the planner tells
        return (
            f"VPP's main thread takes a processor that no worker has, so that {workers} workers "
            f"need {workers + 1}, and there are {processors}; set fewer with --set workers=N"
        )
    return vswitch.rxq_affinity_problem(scenario)


def _required_plugins(scenario: Scenario) -> list[str]:
    """Plugins that a scenario needs whatever is chosen later."""
    plugins = [forwarding.TUNNEL_PLUGINS[scenario.tunnel]] if scenario.deployment.tunnelled else []
    wire_plugin = _wire_plugin(scenario, scenario.wire)
    return [*plugins, wire_plugin] if wire_plugin else plugins


def _wire_plugin(scenario: Scenario, wire: str) -> str:
    """The plugin for a kind of wire; "" for NICs, whose drivers decide."""
    kind = {"memif": "memif", "veth": _kernel_interface_kind(scenario)}.get(wire)
    return interfaces.INTERFACE_PLUGINS[kind] if kind else ""


def _kernel_interface_kind(scenario: Scenario) -> str:
    """How kernel interfaces are taken."""
    return "xdp" if interfaces.uses_xdp(scenario.options) else "netdev"


def check_wire_plugin(plan: Plan, facts: MachineFacts) -> None:
    """Refuse a wire that was chosen and whose plugin is not there."""
    if problem := interfaces.xdp_wire_problem(plan.scenario, plan.wire):
        raise CapabilityError(problem, where=plan.scenario.id)
    plugin = _wire_plugin(plan.scenario, plan.wire)
    if not plugin or not plan.scenario.deployment.phy_ports:
        return  # NICs have nics_missing
    installation = find_installation(facts.programs["vpp"])
    if not installation.has(plugin):
        raise CapabilityError(
            f"VPP's plugin {plugin}, which a {plan.wire} wire needs, is not in "
            f"{installation.plugin_dir}",
            where=plan.scenario.id,
            cure=f"{PLUGIN_CURE}, or choose another wire with --wire",
        )


def nic_plugin_problem(nics: Sequence[NicUse], facts: MachineFacts) -> str:
    """What an installed VPP lacks for the drivers that NICs will have."""
    installation = find_installation(facts.programs["vpp"])
    for use in nics:
        plugin = interfaces.INTERFACE_PLUGINS["netdev" if use.kernel else "pci"]
        if use.side == "dut" and not installation.has(plugin):
            return (
                f"VPP's plugin {plugin}, which {use.pci} through {use.driver} needs, is not in "
                f"{installation.plugin_dir}; install VPP's package vpp-plugin-dpdk or "
                "vpp-plugin-core"
            )
    return ""


def make_startup(
    plan: Plan,
    facts: MachineFacts,
    directory: Path,
    prefix: str,
    attachments: Collection[str] = (),
    *,
    plugins: Sequence[str] = (),
    heap_mib: int = 0,
) -> install.VppStartup:
    """The startup configuration of a plan."""
    scenario = plan.scenario
    installation = find_installation(facts.programs["vpp"])
    cores = plan.placement.cores["worker"]
    main = install.choose_main_core(plan, tuple(cpu.cpu for cpu in facts.cpus))
    nics = _nic_devices(plan)
    memory = [
        (m.users[scenario.vswitch], m.size_kb) for m in plan.memory if m.users.get(scenario.vswitch)
    ]
    size = install.buffer_data_size(scenario.mtu)
    kinds = {*attachments, "memif", _kernel_interface_kind(scenario), *(["pci"] if nics else [])}
    loaded = [*(interfaces.INTERFACE_PLUGINS[kind] for kind in sorted(kinds)), *plugins]
    loaded += [forwarding.TUNNEL_PLUGINS[scenario.tunnel]] if scenario.deployment.tunnelled else []
    return install.VppStartup(
        directory=directory,
        prefix=prefix,
        main_core=main,
        workers=() if main in cores else cores,
        plugin_dir=installation.plugin_dir,
        plugins=tuple(plugin_file(name) for name in loaded if installation.has(name)),
        data_size=size,
        buffers=min(install.buffers_in(mib, size) for mib, _ in memory)
        if memory
        else install.DEFAULT_BUFFERS,
        page_kb=memory[0][1] if memory else 0,
        heap_mib=heap_mib,
        nics=nics,
    )


def _nic_devices(plan: Plan) -> tuple[install.VppNic, ...]:
    """NICs for the dpdk plugin, which takes devices only when VPP starts."""
    options = plan.scenario.options
    return tuple(
        install.VppNic(
            pci=use.pci,
            name=interfaces.nic_name(PhyPort(index=use.wire)),
            rx_queues=options.rx_queues or 1,
            tx_queues=options.workers or 1,
            rx_descriptors=options.rx_descriptors,
            tx_descriptors=options.tx_descriptors,
        )
        for use in plan.nics
        if use.side == "dut" and not use.kernel
    )


START_S = 60.0  # the end of the process is seen at once; one on starved cores is slow
STOP_S = 3.0
#: VPP aborts when a worker does not come to a standstill within a second, as happens where threads
#: wait for a processor; the function at which it does so stands in its log.
STARVED_WORKER, START_TRIES = "vlib_worker_thread_barrier_sync", 3


class PrivateVpp:
    """One VPP process with its API client and its counters."""

    def __init__(
        self, machine: Machine, installation: VppInstallation, version: tuple[int, int]
    ) -> None:
        self._machine = machine
        self._installation = installation
        self._version = version
        self._startup: VppStartup | None = None
        self._api: VppApi | None = None
        self._stats: StatsSegment | None = None
        self.process: ManagedProcess | None = None

    @property
    def directory(self) -> Path:
        """Its private directory."""
        return self._machine.subdir("vpp")

    @property
    def api(self) -> VppApi:
        """Its API."""
        if self._api is None:
            raise DutError("VPP has not been started", where="vpp")
        return self._api

    @property
    def stats(self) -> StatsSegment:
        """Its counters."""
        if self._stats is None:
            raise DutError("VPP has not been started", where="vpp")
        return self._stats

    def argv(self) -> list[str]:
        """Launch line."""
        return [str(self._installation.binary), "-c", str(self.directory / "startup.conf")]

    def start(self, startup: VppStartup) -> None:
        """Start it and wait until it answers."""
        for last in (False,) * (START_TRIES - 1) + (True,):
            try:
                self._launch(startup)
            except HostError as error:
                if not last and self._starved():
                    self.stop()
                    continue
                raise DutError(error.what, where=error.where, cure=error.cure) from error
            break
        self._stats = StatsSegment.open(startup.stats_socket)

    def _starved(self) -> bool:
        """Whether VPP gave up because a worker of its had no processor for too long."""
        process = self.process
        if process is None or process.alive():
            return False
        # Its code comes when the kernel has taken its memory back, later than `LAST_S`.
        return process.stop(STOP_S) == -signal.SIGABRT and STARVED_WORKER in process.log_text()

    def _launch(self, startup: VppStartup) -> None:
        self._startup = startup
        file = self.directory / "startup.conf"
        file.write_text(startup.text())
        for socket in (startup.api_socket, startup.stats_socket):
            socket.unlink(missing_ok=True)  # of the one before: it would look ready
        for path in startup.shared_memory:
            self._machine.schedule_removal(path)
        libraries = self._installation.library_dir
        self.process = self._machine.spawn(
            "vpp",
            self.argv(),
            env={
                **interfaces.XDP_ENVIRONMENT,
                **({"LD_LIBRARY_PATH": str(libraries)} if libraries else {}),
            },
        )
        self.process.wait_for(
            lambda: startup.api_socket.exists() and startup.stats_socket.exists(),
            timeout_s=START_S,
            description="its sockets",
            poll_s=0.01,
        )
        self._api = VppApi(startup.api_socket, self._installation, self._version)
        self.process.wait_for(self._answers, timeout_s=START_S, description="its API", poll_s=0.01)

    def _answers(self) -> bool:
        """A socket file does not mean ready: nobody may listen yet."""
        try:
            self.api.connect()
            self.api.call("show_version")
        except DutError as error:
            if isinstance(error.__cause__, OSError):
                return False
            raise
        return True

    def check_alive(self) -> None:
        """Raise when VPP has ended."""
        check_process(self.process, "vpp")

    def stop(self) -> None:
        """End it, and remove what it leaves behind. Idempotent."""
        if self._stats is not None:
            self._stats.close()
            self._stats = None
        if self.process is not None:
            self.process.stop(timeout_s=STOP_S)
            self.process = None
        if self._api is not None:  # after its end: one that hangs is not notified
            self._api.close()
            self._api = None
        if self._startup is not None:
            for path in self._startup.shared_memory:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
