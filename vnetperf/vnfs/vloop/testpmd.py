"""vloop as a process: dpdk-testpmd on virtio-user, a real vhost-user peer without a VM."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host.machine import Machine
from vnetperf.host.process import ManagedProcess
from vnetperf.host.telemetry import DpdkTelemetry
from vnetperf.model.errors import DutError, VnetperfError
from vnetperf.model.machine import MachineFacts
from vnetperf.model.plan import Plan, Pollers, RoleDemand
from vnetperf.model.ports import Attachment
from vnetperf.model.scenario import Scenario
from vnetperf.model.trial import HopCounters
from vnetperf.vnfs.base import Vnf

#: virtio-user must share its memory with the switch, which takes hugepages.
VNF_MIB = 128
#: Mbufs of 2176 octets that fit VNF_MIB beside the rings.
MBUFS = 16384
RING = 1024
#: RTE_MAX_LCORE of distributions' builds.
MAX_LCORE = 128


class Vloop(Vnf):
    """dpdk-testpmd forwarding between two virtio-user ports."""

    name: ClassVar[str] = "vloop"
    attachments: ClassVar[tuple[str, ...]] = ("vhost-user",)
    modes: ClassVar[tuple[str, ...]] = ("io", "mac", "macswap")

    def __init__(self, machine: Machine, plan: Plan, number: int) -> None:
        super().__init__(machine, plan, number)
        self.directory = machine.subdir(f"vnf{number}")
        self.process: ManagedProcess | None = None
        self.argv: list[str] = []
        self._telemetry: DpdkTelemetry | None = None

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps testpmd from running here.

        Args:
            facts: The machine.
            scenario: The scenario.

        Returns:
            "" or what is missing with its cure.
        """
        if scenario.vnf_mode not in cls.modes:
            return f"vloop has no mode {scenario.vnf_mode!r}; accepted: {', '.join(cls.modes)}"
        return facts.missing_program("dpdk-testpmd", "dpdk-dev")

    @classmethod
    def roles(cls, number: int) -> tuple[RoleDemand, ...]:
        """One forwarding thread.

        Args:
            number: Number of the VNF.

        Returns:
            The demand.
        """
        return (RoleDemand(role=f"vnf{number}", threads=1, group="vnf"),)

    @classmethod
    def hugepage_mib(cls) -> int:
        """Memory of one VNF.

        Returns:
            MiB.
        """
        return VNF_MIB

    @property
    def role(self) -> str:
        """Role of its forwarding thread."""
        return f"vnf{self.number}"

    def launch(self, attachments: tuple[Attachment, Attachment]) -> None:
        """Start testpmd between two vhost-user sockets.

        Args:
            attachments: Where its ports plug in.
        """
        self.argv = self._argv(attachments)
        self.process = self.machine.spawn(
            self.role,
            self.argv,
            env={"RUNTIME_DIRECTORY": str(self.directory)},
            keep_stdin_open=True,  # testpmd ends at the end of its input
        )

    def _argv(self, attachments: tuple[Attachment, Attachment]) -> list[str]:
        main = self.plan.placement.housekeeping[0]
        worker = self.plan.placement.cores[self.role][0]
        vdevs = []
        for index, attachment in enumerate(attachments):
            if attachment.kind not in self.attachments or attachment.socket is None:
                raise DutError(
                    f"vloop cannot plug into a {attachment.kind} attachment",
                    where=str(attachment.port),
                    accepted=", ".join(self.attachments),
                )
            server = ",server=1" if attachment.vnf_is_server else ""
            vdevs.append(
                f"--vdev=net_virtio_user{index},path={attachment.socket}{server},"
                f"queues={attachment.queues},queue_size={RING}"
            )
        # DPDK takes a thread's node from the processor that has its lcore's number, and testpmd
        # accepts only nodes of its lcores.
        lcore = worker if worker < MAX_LCORE else MAX_LCORE - 1
        main_lcore = main if main < MAX_LCORE and main != lcore else int(lcore == 0)
        node = self.plan.placement.node
        return [
            self.machine.facts.programs["dpdk-testpmd"],
            f"--lcores={main_lcore}@{main},{lcore}@{worker}",
            f"--main-lcore={main_lcore}",
            "--in-memory",
            "--single-file-segments",
            "--no-pci",
            f"--file-prefix={self.role}",
            "--socket-mem",
            ",".join(["0"] * node + [str(VNF_MIB)]),
            *vdevs,
            "--",
            "--auto-start",
            f"--forward-mode={self.plan.scenario.vnf_mode}",
            f"--total-num-mbufs={MBUFS}",
            f"--rxd={RING}",
            f"--txd={RING}",
            "--no-numa",
            f"--socket-num={node}",
            "--nb-cores=1",
            "--no-lsc-interrupt",
        ]

    def _running(self) -> ManagedProcess:
        if self.process is None:
            raise DutError("it has not been launched", where=self.role)
        return self.process

    def _socket(self) -> Path:
        return self.directory / "dpdk" / self.role / "dpdk_telemetry.v2"

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until testpmd answers and both its links are up.

        Args:
            timeout_s: Longest wait, seconds.
        """
        self._running().wait_for(self._links_up, timeout_s=timeout_s, what="both vhost-user links")

    def _links_up(self) -> bool:
        try:
            if self._telemetry is None:
                self._telemetry = DpdkTelemetry(self._socket())
            return all(
                self._telemetry.ask(f"/ethdev/link_status,{port}").get("status") == "UP"
                for port in (0, 1)
            )
        except (OSError, ValueError, VnetperfError):
            self._telemetry = None  # not there yet
            return False

    def counters(self) -> tuple[HopCounters, ...]:
        """What the VNF itself counted.

        Returns:
            One entry per port, e.g. "vnf0.0 (inside)".
        """
        if self._telemetry is None:
            return ()
        counters = []
        for port in (0, 1):
            stats = self._telemetry.ask(f"/ethdev/stats,{port}")
            counters.append(
                HopCounters(
                    port=f"{self.role}.{port} (inside)",
                    rx=stats["ipackets"],
                    tx=stats["opackets"],
                    rx_dropped=stats["imissed"] + stats["rx_nombuf"],
                    tx_dropped=stats["oerrors"],
                )
            )
        return tuple(counters)

    def pollers(self) -> tuple[Pollers, ...]:
        """The worker thread, by its names before and since DPDK 23.07.

        Returns:
            The VNF's role.
        """
        if self.process is None:
            return ()
        return tuple(
            Pollers(role=self.role, pid=self.process.pid, thread_prefix=prefix)
            for prefix in ("lcore-worker", "dpdk-worker")
        )

    def facts(self) -> dict[str, Any]:
        """Version, launch line, mode and rings.

        Returns:
            JSON values.
        """
        return {
            "application": "dpdk-testpmd",
            "version": self._telemetry.greeting.get("version", "unknown: telemetry does not say")
            if self._telemetry is not None
            else "unknown: it has not been asked",
            "launcher": "process (no VM): virtio-user",
            "mode": self.plan.scenario.vnf_mode,
            "launch line": " ".join(self.argv),
            "rx/tx descriptors": RING,
        }

    def check_alive(self) -> None:
        """Raise when testpmd has ended."""
        process = self._running()
        if not process.alive():
            raise DutError(
                f"{self.role} (dpdk-testpmd) has ended (status {process.returncode}); "
                f"log ends with:\n{process.log_tail(15)}",
                where=self.role,
            )

    def stop(self) -> None:
        """End testpmd."""
        if self._telemetry is not None:
            self._telemetry.close()
            self._telemetry = None
        if self.process is not None:
            self.process.stop(timeout_s=3.0)
            self.process = None
