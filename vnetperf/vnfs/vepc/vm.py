"""vepc in a VM: a mobile core's programs in a guest, between two of its NICs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.trial import HopCounters
from vnetperf.virt.endpoint import GUEST_DIR, GuestPlace
from vnetperf.virt.guest import Guest
from vnetperf.virt.guest_plan import SYSTEM_VCPU
from vnetperf.vnfs.vepc import stack
from vnetperf.vnfs.vepc.mobile_core import MobileCorePrograms, MobileCoreVnf
from vnetperf.vnfs.vepc.sgsn import sgsn_on_wire
from vnetperf.vnfs.vloop.vm import VmVloop

#: What moves users' packets keeps to the vCPUs that forward: the plan gives them a processor, while
#: the system's shares its own with QEMU. Some interrupts cannot be moved.
TASKSET = "busybox taskset {mask}"
LOG = GUEST_DIR + "/core{}.log"
MOVE_INTERRUPTS = "for i in /proc/irq/*/smp_affinity; do echo {mask} >$i || true; done 2>/dev/null"


class GuestPrograms(MobileCorePrograms):
    """The programs of a mobile core in a guest."""

    where: ClassVar[str] = " in the guest"

    def __init__(self, vnf: VmVepc, guest: Guest) -> None:
        super().__init__(vnf, GuestPlace(guest), Path(GUEST_DIR))
        self.guest = guest
        self.pids: list[int] = []
        #: The vCPUs that forward, those beside the system's; "" where there is one for all.
        count = guest.domain.vcpus
        self.mask = f"{(1 << count) - 1 - (1 << SYSTEM_VCPU):x}" if count > 1 else ""

    def start(self, interfaces: stack.MobileCoreInterfaces) -> None:
        """Start them on the vCPUs that forward."""
        if self.mask:
            self.guest.agent.run(["sh", "-c", MOVE_INTERRUPTS.format(mask=self.mask)])
        super().start(interfaces)

    def spawn(self, number: int, line: str) -> None:
        """Start a program."""
        agent, log = self.guest.agent, LOG.format(number)
        agent.write(log, "")  # it is read before the program can write
        pinned = f"{TASKSET.format(mask=self.mask)} {line}" if self.mask else line
        self.pids.append(agent.start(["sh", "-c", f"exec {pinned} >{log} 2>&1"]))

    def log(self, number: int) -> str:
        """Its whole output."""
        return self.guest.agent.read(LOG.format(number))

    def ended(self, number: int) -> int | None:
        """Its exit status; None while it runs."""
        end = self.guest.agent.ended(self.pids[number])
        return None if end is None else end.status

    def snmp(self) -> str:
        """The guest's table."""
        return self.guest.agent.read("/proc/net/snmp")


class VmVepc(MobileCoreVnf[GuestPrograms], VmVloop):
    """A guest with a mobile core in it."""

    name: ClassVar[str] = "vepc:vm"
    places: ClassVar[Mapping[str, str]] = {}
    attachments: ClassVar[tuple[str, ...]] = ("vhost-user", "tap", "macvtap")
    wires: ClassVar[tuple[str, ...]] = ("veth",)
    #: A mobile core gives up all sessions of an SGSN that has started again. The UE's has the
    #: address of ours, and so it is to the mobile core.
    ends_with_users: ClassVar[bool] = True

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps a guest with a mobile core from running here."""
        return (
            stack.scenario_problem(scenario, "vepc")
            or stack.guest_mobile_core_problem(scenario)
            or super().missing(facts, scenario)
        )

    def _bring_up(self, guest: Guest) -> None:
        """Boot, address both NICs, and start the mobile core."""
        super()._bring_up(guest)
        for module in stack.kernel_modules(self.plan.scenario):
            guest.agent.run(["modprobe", module.name])
        programs = GuestPrograms(self, guest)
        gn, sgi = (guest.interface(nic.mac) for nic in guest.domain.nics)
        programs.start(stack.MobileCoreInterfaces(gn, sgi))
        self.mobile_core = programs

    def wait_ready(self, timeout_s: float) -> None:
        """Wait for the guest, and have the UEs attach over the wire."""
        super().wait_ready(timeout_s)
        if self.sessions:
            return
        options, programs = self.plan.scenario.core, self._launched()
        apn = self.stack.attach.apn
        with sgsn_on_wire(self.machine, self.tester_ends, self.number, apn, programs.check) as sgsn:
            sgsn.echo()
            phase = sgsn.attach(options.sessions, options.ramp)
        self.take_sessions(phase, programs)

    def counters(self) -> tuple[HopCounters, ...]:
        """Both NICs, the interface to the first program, and its GTP-U socket."""
        inside = self.mobile_core.counters() if self.mobile_core is not None else ()
        return (*super().counters(), *inside)

    def facts(self) -> dict[str, Any]:
        """The guest, the mobile core in it, and how the attach phase went."""
        guest = super().facts()
        return {
            **guest,
            **self._launched().facts(),
            "kernel": guest.get("version", ""),
            "version": f"of image {self.options.image}",
            "attach": self.phase.facts() if self.phase else {},
            "sessions": self.session_facts(),
        }

    def stop(self) -> None:
        """End the guest."""
        self.mobile_core, self.phase, self.sessions = None, None, ()
        super().stop()
