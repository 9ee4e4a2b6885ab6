"""vepc in a container: a mobile core's programs in a network namespace with both interfaces."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping
from contextlib import closing
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host import threads
from vnetperf.host.cpu import format_cpus
from vnetperf.host.linux import (
    parse_json,
    read_file,
    run_in,
)
from vnetperf.host.machine import Machine
from vnetperf.host.processes import ManagedProcess
from vnetperf.model.deployment import Attachment
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.options import GN_TESTER, GN_VEPC
from vnetperf.model.scenario import Plan, Pollers, RoleDemand, Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts, Program
from vnetperf.model.trial import HopCounters
from vnetperf.plugin.vnf import Vnf
from vnetperf.vnfs.vepc import stack
from vnetperf.vnfs.vepc.mobile_core import MobileCorePrograms, MobileCoreVnf
from vnetperf.vnfs.vepc.sgsn import AttachPhase, Sgsn, bearer_runs
from vnetperf.vnfs.vloop.container import LAUNCHER, ContainerVloop, vf_driver_problem

#: Longest run of a stack's own attach command, seconds.
ATTACH_S = 300.0
SNMP = Path("/proc/thread-self/net/snmp")


class ContainerPrograms(MobileCorePrograms):
    """The programs of a mobile core in a container."""

    def __init__(self, vnf: Vepc) -> None:
        super().__init__(vnf, vnf.container, vnf.container.directory)
        self.container, self.cpus = vnf.container, vnf.cpus
        self.processes: list[ManagedProcess] = []

    def start(self, interfaces: stack.MobileCoreInterfaces) -> None:
        """Start them; the first is what moves users' packets."""
        super().start(interfaces)
        if self.cpus:  # threads that it has started meanwhile, wherever it put them
            threads.pin_process(self.processes[0].pid, self.cpus)

    def spawn(self, number: int, line: str) -> None:
        """Start a program."""
        name, cpus = (f"{self.role}-{number}", ()) if number else (self.role, self.cpus)
        argv = shlex.split(line)
        self.processes.append(self.container.spawn(name, argv, cpus=cpus))

    def log(self, number: int) -> str:
        """Its whole output."""
        return self.processes[number].log_text()

    def ended(self, number: int) -> int | None:
        """Its exit status; None while it runs."""
        return self.processes[number].returncode

    def snmp(self) -> str:
        """The table of the container's namespace."""
        return run_in(self.container.netns, lambda: read_file(SNMP))


class Vepc(MobileCoreVnf[ContainerPrograms], ContainerVloop):
    """A mobile core: packets of UEs in GTP-U at port 0, plain at port 1."""

    name: ClassVar[str] = "vepc"
    programs: ClassVar[tuple[Program, ...]] = stack.PROGRAMS
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = (stack.GTP_MODULE, stack.TUN_MODULE)
    places: ClassVar[Mapping[str, str]] = {
        "container": "vnetperf.vnfs.vepc.container:Vepc",
        "vm": "vnetperf.vnfs.vepc.vm:VmVepc",
    }
    attachments: ClassVar[tuple[str, ...]] = ("veth", "vf", "macvlan")

    def __init__(self, machine: Machine, plan: Plan, number: int) -> None:
        super().__init__(machine, plan, number)
        placement = plan.placement
        #: Processors of what moves users' packets; empty where the kernel is to choose.
        pinned = self.role not in placement.unpinned
        self.cpus = placement.cores.get(self.role, ()) if pinned else ()

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps a mobile core from running here, or from what is wanted."""
        return stack.mobile_core_problem(facts, scenario, cls.name) or vf_driver_problem(
            facts, scenario, cls.name
        )

    @classmethod
    def roles(cls, scenario: Scenario, number: int) -> tuple[RoleDemand, ...]:
        """None where the kernel moves users' packets, on whichever processor they come in."""
        return () if scenario.core.gtpu_mode == "kernel" else Vnf.roles(scenario, number)

    def launch(self, attachments: tuple[Attachment, Attachment]) -> None:
        """Make the container with both interfaces, address them, and start the mobile core."""
        super().launch(attachments)
        for module in stack.kernel_modules(self.plan.scenario):
            self.machine.load_module(module)
        gn, sgi = (str(attachment.netdev) for attachment in attachments)
        self.mobile_core = ContainerPrograms(self)
        self.mobile_core.start(stack.MobileCoreInterfaces(gn, sgi))

    def wait_ready(self, timeout_s: float) -> None:
        """Have the UEs attach; users' packets are forwarded from then on."""
        # The attach phase takes what it takes, and is timed: `timeout_s` does not end it.
        self.check_alive()
        if self.sessions:
            return  # the switch came back, and the mobile core never noticed
        options = self.plan.scenario.core
        if self.stack.attach.by == "gtpc":
            phase = self._attach_by_gtpc(options.sessions, options.ramp)
            self.take_sessions(phase, self._launched())
        else:
            self.sessions = bearer_runs(self._attach_by_command(options.sessions))

    def _attach_by_gtpc(self, sessions: int, ramp: float) -> AttachPhase:
        def make() -> Sgsn:
            return Sgsn(stack.SGSN, GN_VEPC, GN_TESTER, self.stack.attach.apn, self.check_alive)

        with closing(run_in(self.container.netns, make)) as client:
            client.echo()
            return client.attach(sessions, ramp)

    def _attach_by_command(self, sessions: int) -> list[tuple[int, int]]:
        """Run the stack's own attach command; it prints a line for each session."""
        where, values = self.attach_place, self._launched().values
        argv = stack.program_argv(self.stack.attach.argv, values, self.stack)
        try:
            output = self.machine.run(argv, netns=self.container.netns, timeout=ATTACH_S)
            rows = [parse_json(line) for line in output.splitlines() if line.startswith("{")]
            bearers = [(int(row["teid"]), int(IPv4Address(row["ue"]))) for row in rows]
            bearer_runs(bearers)  # refuses what is no TEID
        except (HostError, ValueError, KeyError, TypeError) as error:
            self.check_alive()
            raise DutError(
                f"the attach command failed: {error}", where=self.attach_place
            ) from error
        if len(bearers) != sessions:
            raise DutError(
                f"the attach command made {len(bearers)} of {sessions} sessions", where=where
            )
        return bearers

    def counters(self) -> tuple[HopCounters, ...]:
        """Both interfaces, the one to the first program, and its GTP-U socket."""
        inside = self.mobile_core.counters() if self.mobile_core is not None else ()
        return (*super().counters(), *inside)

    def pollers(self) -> tuple[Pollers, ...]:
        """The thread that moves users' packets."""
        if self.mobile_core is None or self.plan.scenario.core.gtpu_mode == "kernel":
            return ()
        pid, name = self.mobile_core.processes[0].pid, Path(self.stack.programs[0].argv[0]).name
        return (Pollers(role=self.role, pid=pid, thread_prefix=name[: threads.COMM]),)

    def facts(self) -> dict[str, Any]:
        """The mobile core, how it was set up, and how the attach phase went."""
        scenario, programs = self.plan.scenario, self._launched()
        return {
            **programs.facts(),
            "version": stack.mobile_core_version(self.machine.facts, self.stack),
            "kernel": f"Linux {platform.release()}",
            "launcher": LAUNCHER,
            "mode": scenario.vnf_mode,
            "GTP-U in": "the kernel's gtp module"
            if scenario.core.gtpu_mode == "kernel"
            else "the mobile core's program, behind a tun interface",
            "attach": self.phase.facts() if self.phase else "by the stack's own command",
            "sessions": self.session_facts(),
            "files": programs.files,
            "threads": self._threads(),
            "set up by": [*(self.forwarder.lines if self.forwarder else ()), programs.mtu_line],
            "container": self.container.facts(),
            "ports": [self._describe(attachment) for attachment in self._attachments],
        }

    def _threads(self) -> dict[str, str]:
        """Where those of the first program may run, as the kernel reports it."""
        return {
            f"{thread.name} {thread.tid}": f"processors {format_cpus(thread.cpus)}"
            for thread in threads.list_threads(self._launched().processes[0].pid)
        }

    def check_alive(self) -> None:
        """Raise when a program has ended, or none was started."""
        self._launched().check()

    def stop(self) -> None:
        """End the programs, and give the interfaces back to whoever made them."""
        for process in reversed(self.mobile_core.processes if self.mobile_core else []):
            process.stop(timeout_s=3.0)
        self.mobile_core, self.sessions, self.phase = None, (), None
        super().stop()
