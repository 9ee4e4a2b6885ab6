"""vloop in a container: a program on DPDK, or the kernel, in a network namespace of its own."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from vnetperf.host.machine import Machine
from vnetperf.host.processes import ManagedProcess
from vnetperf.model.deployment import Attachment
from vnetperf.model.errors import DutError
from vnetperf.model.scenario import Plan, Pollers, RoleDemand, Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts
from vnetperf.model.trial import HopCounters
from vnetperf.plugin import registry
from vnetperf.plugin.backend import NapiThreads, threaded_napi
from vnetperf.plugin.vnf import EndpointHost, VnfMemory
from vnetperf.virt.container import Container
from vnetperf.virt.endpoint import Endpoint
from vnetperf.vnfs.vloop.kernel_forwarders import (
    FORMS,
    Form,
    FormPort,
    KernelForwarder,
    endpoint_problem,
    give_address,
    network_beyond,
    xdp_problem,
)
from vnetperf.vnfs.vloop.process import PORTS, Vloop, main_and_worker

VF_KIND = "vf"


def vf_driver_problem(facts: MachineFacts, scenario: Scenario, consumer: str) -> str:
    """Whether a VNF would be given PCI devices where it needs interfaces."""
    offered = registry.load("vswitches", scenario.vswitch).capabilities.attachments
    driver = scenario.options.vf_driver
    if VF_KIND not in offered or driver == "kernel":
        return ""
    if driver is not None:
        reason = f"vf_driver is {driver}"
    elif any(nic.max_vfs and nic.iommu_group is not None for nic in facts.nics):
        reason = "where there is an IOMMU they go to vfio-pci"
    else:
        return ""
    return (
        f"{consumer} needs interfaces of the kernel, and virtual functions would be PCI devices "
        f"({reason}); --set vf_driver=kernel"
    )


LAUNCHER = "container"


class ContainerVloop(Vloop, EndpointHost):
    """vloop in a network namespace of its own, which takes the interfaces it plugs into.

    In the modes of a process it is as one; in the others nothing of it runs, and the kernel
    forwards on whichever processor a frame comes in.
    """

    #: A tap has one end, which is the switch's: there is none to give to a container.
    attachments: ClassVar[tuple[str, ...]] = ("veth", "vhost-user", "memif", "vf", "macvlan")
    modes: ClassVar[tuple[str, ...]] = (*Vloop.modes, *FORMS)
    launcher: ClassVar[str] = LAUNCHER
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = tuple(
        module for form in FORMS.values() for module in form.modules
    )

    def __init__(self, machine: Machine, plan: Plan, number: int) -> None:
        super().__init__(machine, plan, number)
        placement = plan.placement
        vnf_cpus = placement.unpinned.get(self.role) or placement.cores.get(self.role, ())
        cpus = (*vnf_cpus, *placement.housekeeping[:1])
        self.form: Form | None = FORMS.get(plan.scenario.vnf_mode)
        if self.form is None and vnf_cpus:
            main, _ = main_and_worker(plan, machine.facts, self.role)
            cpus = (*cpus, main)  # EAL does not start without it
        self.container = Container(machine, f"ct{number}", cpus)
        self.forwarder: KernelForwarder | None = None
        self.threads = NapiThreads(machine, plan, self.role)

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps the scenario's form from working in a container here."""
        form = FORMS.get(scenario.vnf_mode)
        if form is None:
            return super().missing(facts, scenario)
        troubles = (
            facts.missing_module(module, f"the form {form.name}") for module in form.modules
        )
        missing = next((trouble for trouble in troubles if trouble), "")
        missing = missing or xdp_problem(facts, form.name)
        return missing or vf_driver_problem(facts, scenario, f"mode {form.name}")

    @classmethod
    def accepts(cls, scenario: Scenario) -> tuple[str, ...]:
        """Kinds whose interfaces the form works on."""
        form = FORMS.get(scenario.vnf_mode)
        if form is None:
            return cls.attachments
        return tuple(kind for kind in cls.attachments if kind in form.attachments)

    @classmethod
    def roles(cls, scenario: Scenario, number: int) -> tuple[RoleDemand, ...]:
        """A thread of the program; the kernel's at its interfaces, where they are requested."""
        if scenario.vnf_mode not in FORMS:
            return super().roles(scenario, number)
        threads = PORTS * (scenario.options.rx_queues or 1)
        demand = RoleDemand(role=f"vnf{number}", threads=threads, group="vnf", sleeps=True)
        return (demand,) if threaded_napi(scenario) else ()

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts, number: int) -> dict[str, str]:
        """What is started in it; the kernel is there already."""
        kernel = plan.scenario.vnf_mode in FORMS
        return {} if kernel else super().launch_lines(plan, facts, number)

    @classmethod
    def memory(cls, scenario: Scenario, attachment: str) -> VnfMemory:
        """Memory of the program; the kernel has its own."""
        form = scenario.vnf_mode in FORMS
        return VnfMemory() if form else super().memory(scenario, attachment)

    def launch(self, attachments: tuple[Attachment, Attachment]) -> None:
        """Make the container, move the interfaces in, and start what forwards."""
        self.container.create()
        if self.form is None:
            super().launch(attachments)
            return
        self._attachments = attachments
        for attachment in attachments:
            if attachment.netdev is None:
                raise DutError(
                    f"the {attachment.kind} attachment is no kernel interface",
                    where=f"{attachment.port}, mode {self.form.name}",
                    accepted=f"interfaces of {', '.join(type(self).accepts(self.plan.scenario))}",
                    cure="--set vf_driver=kernel for a virtual function, or another --vnf-mode",
                )
            mac = "" if self.form.keeps_own_mac else attachment.mac or ""
            self.container.take(attachment.netdev, mac=mac)
        for module in self.form.modules:
            self.machine.load_module(module)
        first, second = (self._port(attachment) for attachment in attachments)
        self.forwarder = KernelForwarder(
            self.container, self.form, self.role, (first, second), self.machine.facts
        )
        self.forwarder.set_up()
        for attachment in attachments:
            if attachment.kind == "veth":
                self.threads.start(str(attachment.netdev))

    def _port(self, attachment: Attachment) -> FormPort:
        netdev = str(attachment.netdev)
        return FormPort(
            netdev=netdev,
            index=self.machine.link(netdev).index,
            peer_mac=attachment.peer_mac or "",
            network=network_beyond(self.plan.scenario.deployment, attachment.port),
        )

    def _address(self, netdev: str, mac: str) -> None:
        self.container.take(netdev, mac=mac)

    def _spawn(self, argv: list[str], env: dict[str, str]) -> ManagedProcess:
        return self.container.spawn(self.role, argv, env=env, keep_stdin_open=True)

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the program's links are up; the kernel forwards at once."""
        if self.forwarder is None:
            super().wait_ready(timeout_s)

    @classmethod
    def no_inside(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """Only a kernel that routes has addresses."""
        return endpoint_problem(scenario, f"{cls.name}:{LAUNCHER}")

    @contextmanager
    def inside(self, address: str) -> Iterator[Endpoint]:
        """An address on the interface of port 0, in the container."""
        netdev = str(self._attachments[0].netdev)
        yield give_address(f"{self.role} ({LAUNCHER})", self.container, netdev, address)

    def counters(self) -> tuple[HopCounters, ...]:
        """What the VNF itself counted."""
        return super().counters() if self.forwarder is None else self.forwarder.counters()

    def pollers(self) -> tuple[Pollers, ...]:
        """The thread of the program; the kernel's threads, where it has been given some."""
        return super().pollers() if self.forwarder is None else self.threads.pollers()

    def facts(self) -> dict[str, Any]:
        """What forwards, and what the container is made of."""
        container = self.container.facts()
        if self.forwarder is None:
            return super().facts() | {"container": container}
        del container["processors"]  # nothing of it runs there
        return {
            **self.forwarder.facts(),
            **self.threads.facts(),
            "version": f"Linux {platform.release()}",
            "launcher": LAUNCHER,
            "mode": self.plan.scenario.vnf_mode,
            "container": container | {"processors": "those that frames come in on"},
            "ports": [self._describe(attachment) for attachment in self._attachments],
        }

    def _describe(self, attachment: Attachment) -> str:
        link = self.machine.link(str(attachment.netdev))
        return f"{attachment.port}: {attachment.kind} {link.name}, {link.mac}, MTU {link.mtu}"

    def check_alive(self) -> None:
        """Raise when the program has ended, or what the kernel forwards between is gone."""
        if self.forwarder is None:
            super().check_alive()
        else:
            self.forwarder.check_alive()

    def stop(self) -> None:
        """End it, and give the interfaces back to whoever made them."""
        super().stop()
        self.forwarder = None
        self.container.give_back()
