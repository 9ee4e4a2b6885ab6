"""vloop in a VM: testpmd or the kernel, forwarding between two NICs of a guest."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunning
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host import dpdk, threads
from vnetperf.host.machine import Machine
from vnetperf.host.wait import patient, virtual_lab
from vnetperf.host.xdp import CLANG
from vnetperf.model.deployment import Attachment
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.frames import MAX_FRAME_SIZE
from vnetperf.model.options import GuestOptions
from vnetperf.model.scenario import GUEST_SET_UP_S, Plan, Pollers, RoleDemand, Scenario
from vnetperf.model.testbed import MachineFacts, Program
from vnetperf.model.trial import HopCounters
from vnetperf.plugin.vnf import EndpointHost, VnfMemory
from vnetperf.virt import guest_facts, guest_plan, images
from vnetperf.virt.domain import BootFiles, NetdevBacking
from vnetperf.virt.endpoint import Endpoint, GuestPlace
from vnetperf.virt.guest import Guest, open_session, pin_vhost, vhost_placement
from vnetperf.virt.kvm import KvmProof, guest_kvm_proof
from vnetperf.vnfs.vloop import guest_requirements
from vnetperf.vnfs.vloop.guest_forwarders import GuestBuiltin, GuestKernel, GuestTestpmd
from vnetperf.vnfs.vloop.guest_requirements import BUILTIN
from vnetperf.vnfs.vloop.kernel_forwarders import (
    FORMS,
    Form,
    endpoint_problem,
    give_address,
    missing_in_image,
    xdp_problem,
)
from vnetperf.vnfs.vloop.process import Vloop, mode_problem

QEMU = "qemu-system-x86_64"
QEMU_PROGRAM = Program(
    name=QEMU,
    package="qemu-system-x86",
    places=(QEMU, "qemu-kvm"),
    key="qemu",
    software="qemu",
    debian=("qemu-system-x86", "qemu-system-arm"),
)
#: Only recorded: a run starts a private session by libvirt's library.
LIBVIRTD = Program(
    name="libvirtd",
    package="libvirt-daemon",
    software="libvirt",
    debian=("libvirt-daemon", "libvirt0"),
    optional=True,
)
PORTS = 2
#: What a kernel and its programs need beside testpmd's hugepages, MiB.
SYSTEM_MIB = 192
#: What QEMU takes beside the guest's memory, MiB.
QEMU_MIB = 192


class VmVloop(EndpointHost):
    """A guest that forwards between two NICs."""

    name: ClassVar[str] = "vloop:vm"
    programs: ClassVar[tuple[Program, ...]] = (QEMU_PROGRAM, LIBVIRTD, CLANG)
    attachments: ClassVar[tuple[str, ...]] = ("vhost-user", "tap", "macvtap", "vf")
    modes: ClassVar[tuple[str, ...]] = (*Vloop.modes, *FORMS, BUILTIN)
    max_frame_size: ClassVar[int] = MAX_FRAME_SIZE
    opens_multi_queue: ClassVar[bool] = False

    def __init__(self, machine: Machine, plan: Plan, number: int) -> None:
        super().__init__(machine, plan, number)
        self.guest: Guest | None = None
        self.forwarder: GuestTestpmd | GuestKernel | GuestBuiltin | None = None
        self.form: Form | None = FORMS.get(plan.scenario.vnf_mode)
        self.image: images.Image | None = None
        self.offloads: dict[str, str] = {}
        self.proof = KvmProof(False, "it was not requested")
        self._attachments: tuple[Attachment, ...] = ()
        self._ready: Future[None] | None = None
        self._starts = 0

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps a guest from running here."""
        return (
            _missing_software(facts)
            or ("" if scenario.guest.uri else facts.confinement)
            or cls._misfit(facts, scenario)
            or xdp_problem(facts, scenario.vnf_mode)
            or ("" if scenario.vnf_mode == BUILTIN else facts.missing_image(scenario.guest.image))
        )

    @classmethod
    def _misfit(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What is requested and cannot be met."""
        if problem := mode_problem(scenario, cls.modes, cls.name):
            return problem
        testpmd_inside = scenario.vnf_mode in Vloop.modes
        needed = SYSTEM_MIB + cls._inside_mib(scenario) if testpmd_inside else 0
        return guest_requirements.guest_problem(scenario, facts, needed)

    @classmethod
    def accepts(cls, scenario: Scenario) -> tuple[str, ...]:
        """Kinds that NICs of the requested model and options can plug into."""
        kinds = guest_requirements.fitting_kinds(scenario.guest, cls.attachments)
        form = FORMS.get(scenario.vnf_mode)
        if form is not None and "vf" not in form.attachments:
            return tuple(kind for kind in kinds if kind != "vf")
        return kinds

    @classmethod
    def narrowed_by(cls, scenario: Scenario) -> str:
        """The model, or the options of virtio NICs."""
        options = scenario.guest
        if options.nic != "virtio":
            return f" with {options.nic}"
        if (options.tx_ring or 0) > guest_plan.TAP_TX_RING:
            return f" with tx_ring={options.tx_ring}"
        if options.virtio_only:
            return f" with {options.virtio_only[0]}"
        return super().narrowed_by(scenario)

    @classmethod
    def roles(cls, scenario: Scenario, number: int) -> tuple[RoleDemand, ...]:
        """A processor for each forwarding vCPU that has a queue to poll."""
        threads = max(1, len(cls._workers(scenario)))
        return (RoleDemand(role=f"vnf{number}", threads=threads, group="vnf"),)

    @classmethod
    def _workers(cls, scenario: Scenario) -> tuple[int, ...]:
        """Numbers of vCPUs that testpmd polls on: no more than there are queues."""
        queues = PORTS * (scenario.options.rx_queues or 1)
        count = guest_plan.vcpu_count(scenario.guest)
        return tuple(range(1, count))[:queues] or (0,)

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts, number: int) -> dict[str, str]:
        """Where the guest goes."""
        role = f"vnf{number}"
        vhost = _has_vhost(facts)
        text = guest_plan.pins_line(plan.scenario.guest, plan.placement, role, vhost_net=vhost)
        return {f"guest {role}": text}

    @classmethod
    def memory(cls, scenario: Scenario, attachment: str) -> VnfMemory:
        """Memory of the guest, and of QEMU beside it."""
        guest = scenario.guest
        mib = guest.memory_mib if guest.hugepage_kb else 0
        ordinary = guest.memory_mib - mib + QEMU_MIB
        return VnfMemory(mib, guest.hugepage_kb, True, guest.node, ordinary)

    @classmethod
    def _inside_mib(cls, scenario: Scenario) -> int:
        """Hugepages that testpmd needs in the guest."""
        return dpdk.forwarder_memory_mib(PORTS, scenario.options.rx_queues or 1, scenario.mtu)

    @property
    def path_s(self) -> float:
        """A disk image of the user's is up when frames come through."""
        return self.options.boot_s if self.plan.scenario.vnf_mode == BUILTIN else 0.0

    def last_output(self) -> str:
        """The end of the guest's console."""
        return self._guest().error("passes nothing on").what if self.guest is not None else ""

    @property
    def options(self) -> GuestOptions:
        """Options of guests."""
        return self.plan.scenario.guest

    def launch(self, attachments: tuple[Attachment, Attachment]) -> None:
        """Begin to start the guest; others may begin meanwhile."""
        self._boot(attachments)

    def _boot(self, attachments: tuple[Attachment, ...]) -> None:
        self._attachments = attachments
        self._starts += 1
        directory = self.machine.new_subdir(self.role)  # an earlier QEMU could write to its own
        if self.options.disk is None:
            self.image = self._find_image()
            boot = guest_plan.image_boot(self.image)
        else:
            boot = guest_plan.disk_boot(self.options, directory)
        self.guest = self._make_guest(boot, directory)
        worker = ThreadPoolExecutor(1, thread_name_prefix=self.role)
        self._ready = worker.submit(self._bring_up, self.guest)
        worker.shutdown(wait=False)

    def _find_image(self) -> images.Image:
        image = images.find(self.options.image)
        if image is None:
            raise DutError(f"there is no guest image {self.options.image}", where=self.role)
        return image

    def _make_guest(self, boot: BootFiles, directory: Path) -> Guest:
        qemu = self.machine.facts.programs[QEMU]
        if self.options.accel != "tcg":
            self.proof = self._proof(qemu, boot)
            if self.options.accel == "kvm" and not self.proof.works:
                raise DutError(
                    f"hardware acceleration does not work: {self.proof.why}",
                    where="--guest accel=kvm",
                    cure="leave it out: guests are then emulated, as the result states",
                )
            if not self.proof.works and virtual_lab() is True:
                raise DutError(
                    "a guest that is emulated in an emulated machine does not come up, and "
                    f"hardware acceleration does not work: {self.proof.why}",
                    where=self.role,
                    cure="start the lab with `vnetperf lab run --threads multi -- ...`",
                )
        where = guest_plan.GuestResources(
            name=f"{self.role}-{self._starts}",
            boot=boot,
            mtu=self.plan.scenario.mtu,
            role=self.role,
            qemu=qemu,
            accelerator="kvm" if self.proof.works else "tcg",
            console=directory / f"console-{self._starts}.log",
            output=directory / f"testpmd-{self._starts}.log",
            own_macs=self.form is not None and self.form.keeps_own_mac,
            vhost_net=_has_vhost(self.machine.facts),
            placement=self.plan.placement,
        )
        domain = guest_plan.guest_domain(self._attachments, self.options, where)
        if domain.nics[0].backing.kind in ("tap", "macvtap") and domain.nics[0].backing.vhost:
            self.machine.load_module("vhost_net")
        taps = any(attachment.netdev for attachment in self._attachments)
        return Guest(open_session(self.machine, self.options.uri, in_netns=taps), domain)

    def _proof(self, qemu: str, boot: BootFiles) -> KvmProof:
        """Whether acceleration works: proved with a kernel that is known to boot."""
        kernel = boot.kernel
        if self.image is None and (built := images.find()) is not None:
            kernel = built.kernel
        if kernel is None:
            return KvmProof(
                False, "there is no kernel to prove it with: vnetperf image build vloop"
            )
        return guest_kvm_proof(self.machine, qemu, kernel)

    def _bring_up(self, guest: Guest) -> None:
        scenario = self.plan.scenario
        if scenario.vnf_mode == BUILTIN:
            guest.start()
            self._check_pins(guest)
            self.forwarder = GuestBuiltin(self.options.image)
            return
        guest.boot(self.options.boot_s)
        self._check_pins(guest)
        if self.form is not None:
            guest_facts.configure_nics(guest, self.options)
            self.offloads = guest_facts.nic_features(guest)
            kernel = GuestKernel(
                guest, self.form, self.role, self.plan, self._attachments, facts=self.machine.facts
            )
            kernel.set_up()
            self.forwarder = kernel
            return
        self.offloads = guest_facts.virtio_features(guest)
        packages = self.image.facts.get("packages", {}) if self.image is not None else {}
        running = GuestTestpmd(guest, self.role, packages)
        devices = running.take_nics(self._mtu)
        running.start(self._command(running, devices))
        self.forwarder = running

    def _check_pins(self, guest: Guest) -> None:
        """Pin what libvirt does not, and see where everything is."""
        pins = guest_plan.guest_pins(self.options, self.plan.placement, self.role)
        pin_vhost(guest.pid, pins.vhost)
        guest.check_pins()

    @property
    def _mtu(self) -> int:
        """MTU of its NICs, where the attachments do not have the scenario's."""
        return min(attachment.mtu or self.plan.scenario.mtu for attachment in self._attachments)

    def _command(self, running: GuestTestpmd, devices: tuple[str, ...]) -> dpdk.TestpmdCommand:
        scenario = self.plan.scenario
        queues = max(attachment.queues for attachment in self._attachments)
        peers = {running.number(n): a.peer_mac for n, a in enumerate(self._attachments)}
        return dpdk.TestpmdCommand(
            program=dpdk.TESTPMD,
            name=self.role,
            devices=devices,
            forwarding=tuple(running.number(n) for n in range(PORTS)),
            main=guest_plan.SYSTEM_VCPU,
            workers=self._workers(scenario),
            node=0,
            memory_mib=self._inside_mib(scenario),
            mode=scenario.vnf_mode,
            mtu=self._mtu,
            tells_mtu=devices[0].startswith("-a"),
            queues=queues,
            peers={number: mac for number, mac in peers.items() if mac},
        )

    def _running(self) -> GuestTestpmd | GuestKernel | GuestBuiltin:
        if self.forwarder is None:
            raise DutError("it is not up", where=self.role)
        return self.forwarder

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until testpmd in the guest forwards; a boot has a limit of its own."""
        if self._ready is None:
            raise DutError("it has not been launched", where=self.role)
        limit_s = patient(max(timeout_s, self.options.boot_s + GUEST_SET_UP_S))
        try:
            self._ready.result(limit_s)
        except StillRunning as error:
            problem = f"is not ready within {limit_s:g} s"
            if self.guest is None:
                raise DutError(problem, where=self.role) from error
            raise self.guest.error(problem) from error
        except HostError as error:
            raise self._guest().error(f"cannot be set up: {error}") from error
        # When the switch came back QEMU took its connection, and the link is up again.
        if isinstance(self.forwarder, GuestTestpmd):
            self.forwarder.wait_links(timeout_s)

    def _guest(self) -> Guest:
        if self.guest is None:
            raise DutError("it has not been launched", where=self.role)
        return self.guest

    @classmethod
    def no_inside(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """Only a kernel that routes has addresses."""
        return endpoint_problem(scenario, cls.name)

    @classmethod
    def lacks_inside(cls, scenario: Scenario, programs: Sequence[str]) -> str:
        """An image has what its recipe names."""
        return missing_in_image(scenario.guest.image, programs)

    @contextmanager
    def inside(self, address: str) -> Iterator[Endpoint]:
        """An address on the NIC of port 0, in the guest."""
        guest = self._guest()
        netdev = guest.interface(guest.domain.nics[0].mac)
        yield give_address(f"{self.role} (VM)", GuestPlace(guest), netdev, address)

    def counters(self) -> tuple[HopCounters, ...]:
        """What testpmd in the guest, or its kernel, counted."""
        return self.forwarder.counters() if self.forwarder is not None else ()

    def pollers(self) -> tuple[Pollers, ...]:
        """The vCPUs that testpmd polls on, or all that a kernel has, and QEMU's own thread.

        That one is among them where it carries the frames, for want of vhost.
        """
        if self.guest is None or not self.guest.pid:
            return ()
        domain, by_testpmd = self.guest.domain, self.plan.scenario.vnf_mode in Vloop.modes
        workers = self._workers(self.plan.scenario) if by_testpmd else range(domain.vcpus)
        prefixes = {f"CPU {vcpu}/": not by_testpmd for vcpu in workers}
        backings = [nic.backing for nic in domain.nics]
        if any(isinstance(backing, NetdevBacking) and not backing.vhost for backing in backings):
            prefixes[domain.emulator.name[: threads.COMM]] = True
        return tuple(
            Pollers(role=self.role, pid=self.guest.pid, thread_prefix=name, sleeps=sleeps)
            for name, sleeps in prefixes.items()
        )

    def facts(self) -> dict[str, Any]:
        """Image, acceleration, pins and memory as read back, what forwards and how."""
        guest, image = self._guest(), self.image
        domain = guest.domain
        return {
            **self._application(),
            "launcher": "VM",
            "mode": self.plan.scenario.vnf_mode,
            "acceleration": "kvm" if domain.accelerator == "kvm" else f"none: {self.proof.why}",
            **guest.session.call("version"),
            "image": f"{image.name} {image.key}" if image is not None else self.options.image,
            "image file": guest_facts.image_facts(image, Path(self.options.image)),
            "system": guest_facts.guest_system(
                None if self.plan.scenario.vnf_mode == BUILTIN else guest.agent, image
            ),
            "guest": {
                "vCPUs": domain.vcpus,
                "memory, MiB": domain.memory_mib,
                "pages, KiB": domain.hugepage_kb or "ordinary",
                "node asked for": guest_facts.memory_node(domain),
                "ready after, s": round(guest.boot_s, 2),
                "placement": guest.placement() | vhost_placement(guest.pid),
                "NICs in the guest": self.offloads or "not looked at",
            },
            "ports": [
                f"{attachment.port}: {attachment.kind}, {guest_plan.describe_nic(nic)}"
                for attachment, nic in zip(self._attachments, domain.nics, strict=True)
            ],
        }

    def _application(self) -> dict[str, Any]:
        return self._running().facts()

    def check_alive(self) -> None:
        """Raise when the guest has ended."""
        self._guest().check_alive()

    def stop(self) -> None:
        """End the guest."""
        guest, self.guest, self.forwarder = self.guest, None, None
        if guest is not None:
            guest.stop()
        if self._ready is not None and not self._ready.cancel():
            self._ready.exception(timeout=GUEST_SET_UP_S)  # it fails at once without its guest
        self._ready = None


class VmEnd(VmVloop):
    """A guest with one NIC, in which programs of an endpoint run."""

    def launch_alone(self, attachment: Attachment) -> None:
        """Begin to start it."""
        self._boot((attachment,))

    def _bring_up(self, guest: Guest) -> None:
        guest.boot(self.options.boot_s)
        self._check_pins(guest)
        guest_facts.configure_nics(guest, self.options)
        netdev = guest.interface(guest.domain.nics[0].mac)
        mtu = self._attachments[0].mtu  # of models that are not told theirs, too
        mtu_words = ["mtu", str(mtu)] if mtu else []
        guest.agent.run(["ip", "link", "set", "dev", netdev, *mtu_words, "up"])
        self.offloads = guest_facts.nic_features(guest)

    def _application(self) -> dict[str, Any]:
        return {"application": "Linux, with programs of an endpoint"}


VmVloop.alone = VmEnd


def _missing_software(facts: MachineFacts) -> str:
    if importlib.util.find_spec("libvirt") is None:
        return (
            "the Python package libvirt-python is not installed; run `pip install 'vnetperf[vm]'`, "
            "which requires libvirt-dev and pkg-config"
        )
    return facts.missing_program(QEMU_PROGRAM)


def _has_vhost(facts: MachineFacts) -> bool:
    return not facts.modules.get("vhost_net")
