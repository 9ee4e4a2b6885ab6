"""vepc in a VM: a core's programs in a guest, between two of its NICs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import IPv4Address
from typing import Any, ClassVar

from vnetperf.host.machine import Machine
from vnetperf.launchers.endpoint import Ends
from vnetperf.launchers.vm.guest import Guest
from vnetperf.model.core import Bearers, Stack
from vnetperf.model.errors import DutError
from vnetperf.model.machine import MachineFacts
from vnetperf.model.plan import Plan
from vnetperf.model.ports import WireEnd
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.vnfs.vepc import misfit, users
from vnetperf.vnfs.vepc.guest_core import CoreForm, GuestCore
from vnetperf.vnfs.vepc.sgsn import AttachPhase, runs_of
from vnetperf.vnfs.vepc.wire import sgsn_at
from vnetperf.vnfs.vloop.vm import VmVloop


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
        self.core: GuestCore | None = None
        self.phase: AttachPhase | None = None
        self.sessions: tuple[Bearers, ...] = ()

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps a guest with a core from running here."""
        return (
            misfit.of_scenario(scenario, "vepc")
            or misfit.of_guest(scenario)
            or super().missing(facts, scenario)
        )

    @property
    def stack(self) -> Stack:
        """The core."""
        found = self.plan.scenario.stack
        if found is None:
            raise DutError("no core has been chosen", where=self.role)
        return found

    def _bring_up(self, guest: Guest) -> None:
        """Boot, address both NICs, and start the core."""
        super()._bring_up(guest)
        scenario = self.plan.scenario
        core = GuestCore(guest, self.stack, scenario.core, self.role)
        names = [guest.interface(nic.mac) for nic in guest.domain.nics]
        core.start(names, misfit.modules(scenario), scenario.mtu)
        self.core = core

    def wait_ready(self, timeout_s: float) -> None:
        """Wait for the guest, and have the UEs attach over the wire."""
        super().wait_ready(timeout_s)
        if self.sessions:
            return
        asked, core = self.plan.scenario.core, self._core()
        with sgsn_at(
            self.machine, self.tester_ends, self.number, self.stack.attach.apn, core.check
        ) as sgsn:
            sgsn.echo()
            self.phase = sgsn.attach(asked.sessions, asked.ramp)
        self.phase.must_be_whole(f"{self.role}, attach to {self.stack.name}", core.tail)
        self.sessions = runs_of(
            [(one.teid_data, int(IPv4Address(one.ue))) for one in self.phase.contexts]
        )

    def _core(self) -> GuestCore:
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
        return users.missing(facts, plan.scenario, plan.wire)

    @contextmanager
    def users(self, ends: tuple[WireEnd, ...]) -> Iterator[Ends]:
        """Put a UE and a server in the tester's places."""
        self.sessions = ()
        with users.in_place_of_tester(self, self.stack, ends) as found:
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
