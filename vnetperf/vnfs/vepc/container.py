"""vepc in a container: a core's programs in a network namespace that takes both interfaces."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.backend import check_process
from vnetperf.host import links, threads
from vnetperf.host.cpu import format_cpus
from vnetperf.host.linux import run_in
from vnetperf.host.machine import Machine
from vnetperf.host.processes import ManagedProcess
from vnetperf.model.deployment import Attachment, WireEnd
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.options import GN_CORE, GN_TESTER, Bearers, MobileCore
from vnetperf.model.scenario import Plan, Pollers, RoleDemand, Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts, Program
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.virt.container import Container
from vnetperf.virt.endpoint import EndpointPair
from vnetperf.vnfs.base import Vnf
from vnetperf.vnfs.vepc import stack, ue
from vnetperf.vnfs.vepc.sgsn import AttachPhase, Sgsn, bearer_runs

LAUNCHER = "container"
#: Longest wait for each program of a core, seconds.
PROGRAM_S = 20.0
#: Longest run of a stack's own attach command, seconds.
ATTACH_S = 300.0
#: The kernel keeps so many characters of a thread's name.
COMM = 15


class Vepc(Vnf):
    """A mobile core: packets of UEs in GTP-U at port 0, plain at port 1."""

    name: ClassVar[str] = "vepc"
    programs: ClassVar[tuple[Program, ...]] = stack.PROGRAMS
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = (stack.GTP_MODULE, stack.TUN_MODULE)
    places: ClassVar[Mapping[str, str]] = {
        "container": "vnetperf.vnfs.vepc.container:Vepc",
        "vm": "vnetperf.vnfs.vepc.vm:VmVepc",
    }
    attachments: ClassVar[tuple[str, ...]] = ("veth", "vf", "macvlan")
    modes: ClassVar[tuple[str, ...]] = ("route",)
    user_plane: ClassVar[bool] = True
    max_frame_size: ClassVar[int] = 9000

    def __init__(self, machine: Machine, plan: Plan, number: int) -> None:
        super().__init__(machine, plan, number)
        placement = plan.placement
        anywhere = placement.unpinned.get(self.role, ())
        #: Processors of what moves users' packets; empty where the kernel is to choose.
        self.cpus = () if anywhere else placement.cores.get(self.role, ())
        cpus = (*(anywhere or self.cpus), *placement.housekeeping[:1])
        self.container = Container(machine, f"core{number}", cpus)
        self.processes: list[ManagedProcess] = []
        self.phase: AttachPhase | None = None
        self.sessions: tuple[Bearers, ...] = ()
        self.lines: list[str] = []
        self._files: dict[str, str] = {}
        self._known: dict[str, str] = {}
        self._attachments: tuple[Attachment, Attachment] | None = None

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps a core from running here, or from what is asked."""
        return stack.core_problem(facts, scenario, cls.name)

    @classmethod
    def roles(cls, number: int) -> tuple[RoleDemand, ...]:
        """The thread that moves users' packets."""
        return (RoleDemand(role=f"vnf{number}", threads=1, group="vnf"),)

    @classmethod
    def demands(cls, scenario: Scenario, number: int) -> tuple[RoleDemand, ...]:
        """None where the kernel moves them, on whichever processor they come in."""
        return () if scenario.core.gtpu_mode == "kernel" else cls.roles(number)

    @classmethod
    def hugepage_mib(cls, scenario: Scenario, attachment: str) -> int:
        """None: the kernel has its own memory."""
        del scenario, attachment
        return 0

    @property
    def role(self) -> str:
        """Role of the thread that moves users' packets."""
        return f"vnf{self.number}"

    @property
    def stack(self) -> MobileCore:
        """The core."""
        found = self.plan.scenario.stack
        if found is None:
            raise DutError("no core has been chosen", where=self.role)
        return found

    def launch(self, attachments: tuple[Attachment, Attachment]) -> None:
        """Make the container, move the interfaces in, address them, and start the core."""
        self._attachments = attachments
        self.container.create()
        names = [self._take(attachment) for attachment in attachments]
        scenario = self.plan.scenario
        for module in stack.kernel_modules(scenario):
            self.machine.load_module(module)
        interfaces = stack.CoreInterfaces(gn=names[0], sgi=names[1])
        radio, servers = (attachment.peer_mac or "" for attachment in attachments)
        for line in stack.network_commands(interfaces, radio, servers):
            self._tool(line)
        directory = self.container.directory
        self._known = stack.stack_values(self.stack, scenario.core, interfaces, directory)
        self._files = stack.stack_files(self.stack, self._known)
        for name, text in self._files.items():
            self._known[name] = self.container.write(name, text.encode())
        self._start()

    def _take(self, attachment: Attachment) -> str:
        if attachment.netdev is None:
            raise DutError(
                f"the {attachment.kind} attachment is no kernel interface",
                where=f"{attachment.port}, {self.name}",
                accepted=f"interfaces of {', '.join(self.attachments)}",
                cure="--set vf_driver=kernel for a virtual function",
            )
        self.container.take(attachment.netdev, mac=attachment.mac or "")
        return attachment.netdev

    def _tool(self, line: str) -> None:
        try:
            self.container.run(line.split())
        except HostError as error:
            raise DutError(f"the core's network could not be set up: {error}") from error
        self.lines.append(line)

    def _start(self) -> None:
        """Start the stack's programs, each once the one before is up."""
        for program in self.stack.programs:
            argv = stack.program_argv(program, self._known, self.stack)
            first = not self.processes
            name = self.role if first else f"{self.role}-{len(self.processes)}"
            process = self.container.spawn(
                name, argv, env={}, keep_stdin_open=False, cpus=self.cpus if first else ()
            )
            self.processes.append(process)
            ready = program.ready
            try:
                process.wait_for(
                    partial(_log_contains, process, ready),
                    timeout_s=PROGRAM_S,
                    what=f"{ready!r} in its log",
                )
            except HostError as error:
                raise DutError(f"the core does not start: {error}", where=self.role) from error
        if self.cpus:  # those that it has started meanwhile, wherever it put them
            threads.pin_process(self.processes[0].pid, self.cpus)
        there = self.container.statistics()
        if self.stack.tun not in there:
            raise DutError(
                f"{self.stack.name} runs, but has made no interface {self.stack.tun}",
                where=self.role,
                accepted=", ".join(there),
                cure=f"its log ends with:\n{self.processes[0].log_tail()}",
            )
        self._tool(f"ip link set dev {self.stack.tun} mtu {self.plan.scenario.mtu}")

    def wait_ready(self, timeout_s: float) -> None:
        """Have the UEs attach; users' packets are forwarded from then on."""
        del timeout_s  # the attach phase takes what it takes, and is timed
        self.check_alive()
        if self.sessions:
            return  # the switch came back, and the core never noticed
        core = self.plan.scenario.core
        if self.stack.attach.by == "gtpc":
            self.phase = self._by_gtpc(core.sessions, core.ramp)
            if self.phase.refusals:
                self.check_alive()
            where = f"{self.role}, attach to {self.stack.name}"
            self.phase.must_be_whole(where, self.processes[0].log_tail)
            found = [(c.teid_data, int(IPv4Address(c.ue))) for c in self.phase.contexts]
        else:
            found = self._by_command(core.sessions)
        self.sessions = bearer_runs(found)

    def _by_gtpc(self, sessions: int, ramp: float) -> AttachPhase:
        client: list[Sgsn] = []

        def make() -> None:
            apn = self.stack.attach.apn
            client.append(Sgsn(stack.SGSN, GN_CORE, GN_TESTER, apn, self.check_alive))

        run_in(self.container.netns, make)
        try:
            client[0].echo()
            return client[0].attach(sessions, ramp)
        finally:
            client[0].close()

    def _by_command(self, sessions: int) -> list[tuple[int, int]]:
        """Run the stack's own attach command; it prints a line for each session."""
        where = f"{self.role}, attach to {self.stack.name}"
        argv = stack.program_argv(self.stack.attach.argv, self._known, self.stack)
        try:
            said = self.machine.run(argv, netns=self.container.netns, timeout=ATTACH_S)
            rows = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
            found = [(int(row["teid"]), int(IPv4Address(row["ue"]))) for row in rows]
            bearer_runs(found)  # refuses what is no TEID
        except (HostError, ValueError, KeyError, TypeError) as error:
            self.check_alive()
            raise DutError(f"the attach command failed: {error}", where=where) from error
        if len(found) != sessions:
            raise DutError(
                f"the attach command made {len(found)} of {sessions} sessions", where=where
            )
        return found

    def streams(self, streams: tuple[Stream, ...]) -> tuple[Stream, ...]:
        """Streams of the sessions that are attached."""
        return tuple(stream.model_copy(update={"bearers": self.sessions}) for stream in streams)

    @classmethod
    def no_users(cls, facts: MachineFacts, plan: Plan) -> str:
        """What keeps a UE and a server from plugging in."""
        return ue.ue_problem(facts, plan.scenario, plan.wire)

    @contextmanager
    def users(self, ends: tuple[WireEnd, ...]) -> Iterator[EndpointPair]:
        """Put a UE and a server in the tester's places."""
        with ue.in_place_of_tester(self, self.stack, ends) as found:
            yield found

    def counters(self) -> tuple[HopCounters, ...]:
        """Both interfaces, the one to the core's program, and its GTP-U socket."""
        if self._attachments is None or self.container.netns is None:
            return ()
        try:
            table = self.container.statistics()
            names = {str(n): str(a.netdev) for n, a in enumerate(self._attachments)}
            names["tun"] = self.stack.tun
            found = [
                HopCounters(
                    port=f"{self.role}.{what} (inside)",
                    rx=table[name].rx,
                    tx=table[name].tx,
                    rx_dropped=table[name].rx_dropped,
                    tx_dropped=table[name].tx_dropped,
                )
                for what, name in names.items()
            ]
        except KeyError as error:
            raise DutError(f"gone: the core's interface {error}", where=self.role) from error
        if self.plan.scenario.core.gtpu_mode == "tun":
            port = f"{self.role}.gtp-u (inside)"
            found.append(stack.udp_counters(self.container.netns, port))
        return tuple(found)

    def pollers(self) -> tuple[Pollers, ...]:
        """The thread that moves users' packets."""
        if not self.processes or self.plan.scenario.core.gtpu_mode == "kernel":
            return ()
        core = self.processes[0]
        name = Path(self.stack.programs[0].argv[0]).name
        return (Pollers(role=self.role, pid=core.pid, thread_prefix=name[:COMM]),)

    def facts(self) -> dict[str, Any]:
        """The core, how it was set up, and how the attach phase went."""
        scenario = self.plan.scenario
        return {
            "application": self.stack.description or self.stack.name,
            "version": stack.core_version(self.machine.facts, self.stack),
            "kernel": f"Linux {platform.release()}",
            "launcher": LAUNCHER,
            "mode": scenario.vnf_mode,
            "GTP-U in": "the kernel's gtp module"
            if scenario.core.gtpu_mode == "kernel"
            else "the core's program, behind a tun interface",
            "attach": self.phase.facts() if self.phase else "by the stack's own command",
            "sessions": [
                f"{run.count} from UE {run.ue}, TEID {run.teid:#x}" for run in self.sessions
            ],
            "programs": [
                " ".join(stack.program_argv(program, self._known, self.stack))
                for program in self.stack.programs
            ],
            "files": self._files,
            "threads": self._threads(),
            "set up by": self.lines,
            "container": self.container.facts(),
            "ports": [self._describe(attachment) for attachment in self._attachments or ()],
        }

    def _threads(self) -> dict[str, str]:
        """Where those of the first program may run, as the kernel says."""
        pid = self.processes[0].pid if self.processes else 0
        return {
            f"{thread.name} {thread.tid}": f"processors {format_cpus(thread.cpus)}"
            for thread in threads.list_threads(pid)
        }

    def _describe(self, attachment: Attachment) -> str:
        link = links.get(str(attachment.netdev), self.container.netns)
        return f"{attachment.port}: {attachment.kind} {link.name}, {link.mac}, MTU {link.mtu}"

    def check_alive(self) -> None:
        """Raise when a program of the core has ended, or nothing was started."""
        if not self.processes:
            raise DutError("it has not been launched", where=self.role)
        for program, process in zip(self.stack.programs, self.processes, strict=False):
            check_process(process, f"{self.role} ({program.argv[0]})")

    def stop(self) -> None:
        """End the core, and give the interfaces back to whoever made them."""
        for process in reversed(self.processes):
            process.stop(timeout_s=3.0)
        self.processes, self.sessions, self.phase, self.lines = [], (), None, []
        self.container.give_back()


def _log_contains(process: ManagedProcess, text: str) -> bool:
    return text in process.log_text()
