"""Services by IPVS, the kernel's own load balancer, set up as kube-proxy's mode ipvs has it."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host import kernel
from vnetperf.host.linux import PROC, parse_number, read_file
from vnetperf.host.wait import wait_at_most
from vnetperf.model.balancing import BACKEND_PORT, SERVICE_PORT, Services
from vnetperf.model.errors import DutError
from vnetperf.model.testbed import KernelModule, Program
from vnetperf.vswitches.conntrack import NAT, TRACKING, write_settings
from vnetperf.vswitches.lb.rules import RuleBalancer

IPVSADM = Program(
    name="ipvsadm",
    package="ipvsadm",
    version_args=("--version",),
    software="ipvsadm",
    by_make=True,
)
#: The balancer, its scheduler (kube-proxy's default), and what empties conntrack: nft brings it.
MODULES = tuple(
    KernelModule(name=name, purpose=purpose, symbol=symbol)
    for name, purpose, symbol in (
        ("ip_vs", "services by IPVS", "ip_vs_conn_new"),
        ("ip_vs_rr", "services by IPVS", "ip_vs_rr_schedule"),
        ("nf_conntrack_netlink", "ending the sessions of IPVS", "ctnetlink_flush_conntrack"),
    )
)
#: The link that has all virtual addresses: that of the run's namespace. kube-proxy makes one of
#: kind dummy, whose module would have to stay loaded after the run.
LINK = "lo"
IPVS_SETTINGS = PROC / "sys/net/ipv4/vs"
#: As kube-proxy sets them: connections stand in conntrack too, and end with their backend.
#: `sloppy_tcp`, which kube-proxy leaves off: the tester's segments open no connections.
SETTINGS = {
    "conntrack": 1,
    "expire_nodest_conn": 1,
    "expire_quiescent_template": 1,
    "sloppy_tcp": 1,
}
#: What each backend has, and the connections themselves, which are never read whole: for each page
#: the kernel walks them from the first one on.
COUNTS, CONNECTIONS = (PROC / "thread-self/net" / name for name in ("ip_vs", "ip_vs_conn"))
#: Longest wait for all connections to end after their backends are gone, seconds.
EMPTY_S = 5.0


def ipvs_rules(services: Services, protocol: str) -> Iterator[str]:
    """Services and backends as ipvsadm restores them, in turn, by destination NAT."""
    kind = {"udp": "-u", "tcp": "-t"}[protocol]
    for number in range(services.services):
        virtual = f"{services.virtual(number)}:{SERVICE_PORT}"
        yield f"-A {kind} {virtual} -s rr"
        for backend in services.service_backends(number):
            yield f"-a {kind} {virtual} -r {backend}:{BACKEND_PORT} -m -w 1"


class IpvsBalancer(RuleBalancer):
    """IPVS: a hash of services, a hash of connections, and conntrack besides."""

    programs: ClassVar[tuple[Program, ...]] = (IPVSADM,)
    rules_by: ClassVar[dict[str, Program]] = {"ipvs": IPVSADM}
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = (TRACKING, NAT, *MODULES)
    does_it: ClassVar[str] = "IPVS in turn (rr) for"

    def rules(self) -> str:
        """What ipvsadm reads."""
        return "\n".join((*ipvs_rules(self.services, self.protocol), ""))

    def no_rules(self) -> str:
        """Services go with their backends, and by the settings their connections too."""
        return "-C\n"

    def load_line(self, program: str, file: str) -> list[str]:
        """It reads commands from its input; what was there is taken away before."""
        return ["sh", "-ec", '"$0" -C; exec "$0" --restore <"$1"', program, file]

    def _route(self) -> None:
        super()._route()
        write_settings(IPVS_SETTINGS, SETTINGS)

    def connect(self, streams: Any) -> None:
        """Make the services' addresses the node's own, then its services."""
        batch = self.machine.subdir(self.name) / "addresses"
        numbers = range(self.services.services)
        lines = (f"address replace {self.services.virtual(n)}/32 dev {LINK}\n" for n in numbers)
        batch.write_text("".join((f"link set {LINK} up\n", *lines)))
        self.machine.run(["ip", "-batch", str(batch)], isolated=True, timeout=60)
        super().connect(streams)

    def sessions(self) -> int:
        """Connections that IPVS holds."""
        return count_connections(self.machine.in_netns(lambda: kernel.read_value(COUNTS)))

    def end_sessions(self) -> None:
        """Take backends and services away, which ends their connections, and bring them back."""
        self._load(self.no_rules())
        description = "the end of all connections"
        if not wait_at_most(lambda: not self._has_any(), EMPTY_S, description, poll_s=0.01):
            raise DutError(
                "connections of IPVS are left whose backends are gone",
                where=self.name,
                cure="a kernel of 5.9 or later ends them with their backends",
            )
        self.flush_tracking()
        self._load(self.rules())

    def _has_any(self) -> bool:
        """Whether there are connections, those of backends that are gone too: by the first page."""

        def first_page() -> bytes:
            try:
                with CONNECTIONS.open("rb", buffering=0) as file:
                    return file.read(mmap.PAGESIZE)
            except OSError as error:
                raise DutError(
                    f"IPVS tells nothing of its connections: {error}",
                    where=str(CONNECTIONS),
                    cure="see by `lsmod` whether ip_vs is still loaded, and deploy again",
                ) from error

        return self.machine.in_netns(first_page).count(b"\n") > 1

    def facts(self) -> dict[str, Any]:
        """Besides: how connections are distributed, its settings, and room of their hash."""
        try:
            hashed = read_file(Path("/sys/module/ip_vs/parameters/conn_tab_bits")).strip()
        except OSError:
            hashed = "not told"
        settings = self.machine.in_netns(
            lambda: {
                name: kernel.read_text(IPVS_SETTINGS / name) or "not there" for name in SETTINGS
            }
        )
        return {
            **super().facts(),
            "scheduler": "rr",
            "settings of IPVS": settings,
            "bits of IPVS's hash": hashed,
        }

    def stop(self) -> None:
        """Take services and addresses away; interfaces stay."""
        if self.netdevs:
            super().stop()
            flush = ["ip", "address", "flush", "dev", LINK, "scope", "global"]
            self.machine.run(flush, isolated=True, timeout=60)


def count_connections(listing: str) -> int:
    """Connections of all backends, active and inactive, in the text that the kernel has of them."""
    lines = [line.split() for line in listing.splitlines() if line.startswith("  -> ")]
    below = (number for fields in lines[1:] for number in fields[-2:])  # the heading
    return sum(parse_number(number) or 0 for number in below)
