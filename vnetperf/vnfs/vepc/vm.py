"""vepc in a VM: a mobile core's programs in a guest, between two of its NICs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host.machine import Machine
from vnetperf.host.wait import wait_at_most, wait_for
from vnetperf.model.deployment import WireEnd
from vnetperf.model.errors import DutError
from vnetperf.model.options import Bearers, CoreOptions, MobileCore
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.virt.endpoint import EndpointPair
from vnetperf.virt.guest import Guest
from vnetperf.virt.guest_plan import SYSTEM_VCPU
from vnetperf.vnfs.vepc import stack, ue
from vnetperf.vnfs.vepc.sgsn import AttachPhase, bearer_runs, sgsn_on_wire
from vnetperf.vnfs.vloop.guest_forwarders import GuestFormPlace
from vnetperf.vnfs.vloop.kernel_forwarders import Form, FormPort, Step, run_step
from vnetperf.vnfs.vloop.vm import VmVloop

#: Where a guest's files of a core are.
GUEST_DIR = "/run"
#: Longest wait for each program of a core in an emulated guest, and between two looks, seconds.
PROGRAM_S, POLL_S = 60.0, 0.2
#: The interface goes with its program; the agent hears of the program's end a moment later.
REAPED_S = 2.0
TAIL_LINES = 15
#: What moves users' packets keeps to the vCPUs that forward: the plan gives them a processor, while
#: the system's shares its own with QEMU. Some interrupts cannot be moved.
TASKSET = "busybox taskset {mask}"
MOVE_INTERRUPTS = "for i in /proc/irq/*/smp_affinity; do echo {mask} >$i || true; done 2>/dev/null"


class CoreForm(Form):
    """The addresses and routes of a core: Gn at port 0, SGi at port 1."""

    name: ClassVar[str] = "route"
    attachments: ClassVar[tuple[str, ...]] = ("virtio",)

    @classmethod
    def steps(cls, ports: tuple[FormPort, FormPort]) -> tuple[Step, ...]:
        """As in a container."""
        gn, sgi = ports
        interfaces = stack.CoreInterfaces(gn=gn.netdev, sgi=sgi.netdev)
        return tuple(map(run_step, stack.network_commands(interfaces, gn.peer_mac, sgi.peer_mac)))


class GuestMobileCore:
    """The programs of a core in a guest."""

    def __init__(self, guest: Guest, what: MobileCore, options: CoreOptions, role: str) -> None:
        self.guest, self.stack, self.options, self.role = guest, what, options, role
        self.place = GuestFormPlace(guest)
        self.pids: list[int] = []
        self.lines: list[str] = []

    def start(self, names: Sequence[str], modules: Sequence[KernelModule], mtu: int) -> None:
        """Start the programs, each once the one before is up."""
        agent = self.guest.agent
        for module in modules:
            agent.run(["modprobe", module.name])
        mask = self._forwarding()
        if mask:
            agent.run(["sh", "-c", MOVE_INTERRUPTS.format(mask=mask)])
        interfaces = stack.CoreInterfaces(*names)
        known = stack.stack_values(self.stack, self.options, interfaces, Path(GUEST_DIR))
        for name, text in stack.stack_files(self.stack, known).items():
            known[name] = self.place.write(name, text.encode())
        for number, program in enumerate(self.stack.programs):
            line = shlex.join(stack.program_argv(program, known, self.stack))
            agent.write(self._log(number), "")  # it is read before the program can write
            pinned = f"{TASKSET.format(mask=mask)} {line}" if mask else line
            self.pids.append(agent.start(["sh", "-c", f"exec {pinned} >{self._log(number)} 2>&1"]))
            self.lines.append(line)
            self._wait(number, program.ready)
        if self.stack.tun not in self.place.statistics():
            raise self._error(0, f"runs, but has made no interface {self.stack.tun}")
        agent.run(["ip", "link", "set", "dev", self.stack.tun, "mtu", str(mtu)])

    def _forwarding(self) -> str:
        """The vCPUs that forward, those beside the system's; "" where there is one for all."""
        count = self.guest.domain.vcpus
        return f"{(1 << count) - 1 - (1 << SYSTEM_VCPU):x}" if count > 1 else ""

    @staticmethod
    def _log(number: int) -> str:
        return f"{GUEST_DIR}/core{number}.log"

    def _wait(self, number: int, ready: str) -> None:
        wait_for(
            lambda: ready in self.guest.agent.read(self._log(number)),
            PROGRAM_S,
            f"{ready!r} of {self.stack.programs[number].argv[0]}",
            poll_s=POLL_S,
            check=self.check,
            error=lambda: self._error(
                number, f"runs, but {ready!r} did not come in {PROGRAM_S:g} s"
            ),
        )

    def check(self) -> None:
        """Raise when a program has ended."""
        for number, pid in enumerate(self.pids):
            ended = self.guest.agent.ended(pid)
            if ended is not None:
                raise self._error(number, f"has ended (status {ended.status})")

    def _error(self, number: int, what: str) -> DutError:
        program = self.stack.programs[number].argv[0]
        return DutError(
            f"{program} in the guest {what}; log ends with:\n{self.tail(number)}",
            where=f"{self.role} ({program})",
        )

    def tail(self, number: int = 0) -> str:
        """The last lines of a program's log."""
        lines = self.guest.agent.read(self._log(number)).splitlines()
        return "\n".join(lines[-TAIL_LINES:])

    def counters(self) -> tuple[HopCounters, ...]:
        """The interface to the core's program, and its GTP-U socket."""
        there = self.place.statistics().get(self.stack.tun)
        if there is None:
            gone = DutError(f"gone: the core's interface {self.stack.tun}", where=self.role)
            # The end of its program is a better reason, and is seen a moment later.
            wait_at_most(self.check, REAPED_S, "the end of the core", poll_s=POLL_S)
            raise gone
        found = HopCounters(
            port=f"{self.role}.tun (inside)",
            rx=there.rx,
            tx=there.tx,
            rx_dropped=there.rx_dropped,
            tx_dropped=there.tx_dropped,
        )
        if self.options.gtpu_mode == "kernel":
            return (found,)
        text = self.guest.agent.read("/proc/net/snmp")
        return found, stack.parse_udp(text, f"{self.role}.gtp-u (inside)")

    def facts(self) -> dict[str, Any]:
        """What runs."""
        return {"application": self.stack.description or self.stack.name, "programs": self.lines}


class VmVepc(VmVloop):
    """A guest with a mobile core in it."""

    name: ClassVar[str] = "vepc:vm"
    places: ClassVar[Mapping[str, str]] = {}
    attachments: ClassVar[tuple[str, ...]] = ("vhost-user", "tap", "macvtap")
    wires: ClassVar[tuple[str, ...]] = ("veth",)
    modes: ClassVar[tuple[str, ...]] = ("route",)
    user_plane: ClassVar[bool] = True
    #: A core gives up all sessions of an SGSN that has started again. The UE's has the address of
    #: ours, and so it is to the core.
    ends_with_users: ClassVar[bool] = True
    max_frame_size: ClassVar[int] = 9000

    def __init__(self, machine: Machine, plan: Plan, number: int) -> None:
        super().__init__(machine, plan, number)
        self.form = CoreForm
        self.core: GuestMobileCore | None = None
        self.phase: AttachPhase | None = None
        self.sessions: tuple[Bearers, ...] = ()

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps a guest with a core from running here."""
        return (
            stack.scenario_problem(scenario, "vepc")
            or stack.guest_core_problem(scenario)
            or super().missing(facts, scenario)
        )

    @property
    def stack(self) -> MobileCore:
        """The core."""
        found = self.plan.scenario.stack
        if found is None:
            raise DutError("no core has been chosen", where=self.role)
        return found

    def _bring_up(self, guest: Guest) -> None:
        """Boot, address both NICs, and start the core."""
        super()._bring_up(guest)
        scenario = self.plan.scenario
        core = GuestMobileCore(guest, self.stack, scenario.core, self.role)
        names = [guest.interface(nic.mac) for nic in guest.domain.nics]
        core.start(names, stack.kernel_modules(scenario), scenario.mtu)
        self.core = core

    def wait_ready(self, timeout_s: float) -> None:
        """Wait for the guest, and have the UEs attach over the wire."""
        super().wait_ready(timeout_s)
        if self.sessions:
            return
        asked, core = self.plan.scenario.core, self._core()
        with sgsn_on_wire(
            self.machine, self.tester_ends, self.number, self.stack.attach.apn, core.check
        ) as sgsn:
            sgsn.echo()
            self.phase = sgsn.attach(asked.sessions, asked.ramp)
        self.phase.must_be_whole(f"{self.role}, attach to {self.stack.name}", core.tail)
        self.sessions = bearer_runs(
            [(one.teid_data, int(IPv4Address(one.ue))) for one in self.phase.contexts]
        )

    def _core(self) -> GuestMobileCore:
        if self.core is None:
            raise DutError("its core is not up", where=self.role)
        return self.core

    def streams(self, streams: tuple[Stream, ...]) -> tuple[Stream, ...]:
        """Streams of the sessions that are attached."""
        if not self.sessions:
            raise DutError(
                "its sessions ended when a UE attached from the same address",
                where=self.role,
                cure="deploy it again",
            )
        return tuple(stream.model_copy(update={"bearers": self.sessions}) for stream in streams)

    @classmethod
    def no_users(cls, facts: MachineFacts, plan: Plan) -> str:
        """What keeps a UE and a server from plugging in."""
        return ue.ue_problem(facts, plan.scenario, plan.wire)

    @contextmanager
    def users(self, ends: tuple[WireEnd, ...]) -> Iterator[EndpointPair]:
        """Put a UE and a server in the tester's places."""
        self.sessions = ()
        with ue.in_place_of_tester(self, self.stack, ends) as found:
            yield found

    def counters(self) -> tuple[HopCounters, ...]:
        """Both NICs, the interface to the core's program, and its GTP-U socket."""
        inside = self.core.counters() if self.core is not None else ()
        return (*super().counters(), *inside)

    def facts(self) -> dict[str, Any]:
        """The guest, the core in it, and how the attach phase went."""
        guest = super().facts()
        return {
            **guest,
            **self._core().facts(),
            "kernel": guest.get("version", ""),
            "version": f"of image {self.options.image}",
            "attach": self.phase.facts() if self.phase else {},
            "sessions": [
                f"{run.count} from UE {run.ue}, TEID {run.teid:#x}" for run in self.sessions
            ],
        }

    def stop(self) -> None:
        """End the guest."""
        self.core, self.phase, self.sessions = None, None, ()
        super().stop()
