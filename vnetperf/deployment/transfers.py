"""Transfers between endpoints: instances of a tool at both ends, their figures summed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from vnetperf.deployment.endpoints import TrafficWatchdog, listening_ports, plug_in_endpoints
from vnetperf.deployment.others import MachineWatch, list_processors
from vnetperf.deployment.trial import CollectorSession
from vnetperf.host.links import SHOW_IP, count_fragments, sum_counts
from vnetperf.host.processes import is_signal
from vnetperf.host.wait import patient, wait_for
from vnetperf.model.deployment import WireEnd
from vnetperf.model.errors import CapabilityError, GeneratorError, VnetperfError
from vnetperf.model.transfer import (
    EndFacts,
    Figures,
    Flow,
    OneWay,
    ServerPlace,
    Transfer,
    TransferSpec,
)
from vnetperf.plugin.endpoint_tool import EndpointTool, Sockets, ToolOutput, UnreadableError
from vnetperf.plugin.network import Network
from vnetperf.plugin.site import LOOPBACK, POLL_S, WorkloadSite
from vnetperf.plugin.tool_runs import (
    load_tool,
    processor_seconds,
    quote_tail,
    read_tool_version,
    require_started,
    sum_cpu_times,
    sum_figures,
)
from vnetperf.plugin.vnf import EndpointHost, UserPlane
from vnetperf.plugin.workload import Workload, load_runner
from vnetperf.virt.endpoint import CpuTime, Endpoint, EndpointPair, EndpointProgram, Place

if TYPE_CHECKING:
    from vnetperf.deployment.deploy import LiveDeployment


#: Longest waits: for a server to listen, and beyond a transfer, seconds.
LISTEN_S, GRACE_S = 5.0, 15.0
#: Ports of servers, each used once before the first is used again: a place that stays remembers
#: connections that have ended for a minute, and not every tool takes their ports then.
PORTS = range(5201, 30_001)
#: Rate of UDP where no TCP went before, bit/s.
FALLBACK_BPS = 10e6


@dataclass
class _Instance:
    """A server and a client of a tool, one way."""

    way: OneWay
    sender: Endpoint
    receiver: Endpoint
    port: int
    server: EndpointProgram | None = None
    client: EndpointProgram | None = None
    server_before: CpuTime | None = None
    output: ToolOutput | None = None

    @property
    def sockets(self) -> Sockets:
        """Addresses and port."""
        return Sockets(self.receiver.address, self.sender.address, self.port)


class Exchange:
    """Transfers between two ends.

    `machine` watches the whole machine that both are on; None where that is not this one.
    """

    def __init__(
        self,
        ends: EndpointPair,
        watch: Callable[[], None],
        machine: MachineWatch | None,
        fragments: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.ends, self.watch, self.machine = ends, watch, machine
        #: IP fragments that were made until now, where that is known.
        self.fragments = fragments
        self._versions: dict[tuple[str, str], str] = {}

    def run(self, specs: Sequence[TransferSpec]) -> list[Transfer]:
        """Run transfers one after the other."""
        transfers: list[Transfer] = []
        for requested in specs:
            spec = offered_rate(requested, transfers)
            tool = load_tool(spec)
            if spec.warmup_s:
                before = {"duration_s": spec.warmup_s, "warmup_s": 0}
                self._round(tool, spec.model_copy(update=before))
            transfers.append(self._round(tool, spec))
        return transfers

    def _round(self, tool: EndpointTool, spec: TransferSpec) -> Transfer:
        where = f"{tool.name} {spec.kind} {spec.way}"
        version, far = (self._version(tool, end) for end in (self.ends.client, self.ends.server))
        instances = list(self._instances(tool, spec))
        try:
            self._serve(tool, spec, instances, where)
            fragments = self.fragments()
            if self.machine is not None:
                self.machine.start()
            elapsed_s = self._talk(tool, spec, instances, where)
            spent: dict[str, Any] = {}
            if self.machine is not None:
                spent = self.machine.stop()
            cpu = self._cpu(instances)
            if fragments is not None:
                spent["fragments"] = (self.fragments() or fragments) - fragments
            for instance in instances:
                require_started(instance.server).end(tool.end_server_by)
            flows = self._read(tool, spec, instances, version, where)
        except BaseException:
            with suppress(VnetperfError):  # the first error is the cause
                self._end(tool, instances)
            raise
        self._end(tool, instances)
        output = instances[0].output
        client, server = (
            EndFacts(
                place=end.what,
                address=end.address,
                cpus=end.place.processors,
                version=tool.version(ToolOutput("", "", text)),
                **processor_seconds(time),
            )
            for end, time, text in zip(
                (self.ends.client, self.ends.server), cpu, (version, far), strict=True
            )
        )
        figures = sum_figures([flow.figures for flow in flows], of_machine=tool.reports_machine_cpu)
        notes = [*figures.notes, *self.ends.client.notes, *self.ends.server.notes]
        if client.version != server.version:
            notes.append(
                f"{tool.name} is of two versions: {client.version} in the {client.place}, "
                f"{server.version} in the {server.place}"
            )
        return Transfer(
            spec=spec,
            **figures.model_dump() | {"notes": tuple(notes)},
            flows=flows,
            version=tool.version(output) if output else "",
            elapsed_s=round(elapsed_s, 3),
            client=client,
            server=server,
            attach_s=self.ends.attach_s,
            **spent,
        )

    def _instances(self, tool: EndpointTool, spec: TransferSpec) -> Iterator[_Instance]:
        for way in spec.ways:
            ends = (self.ends.client, self.ends.server)
            sender, receiver = ends if way == "forth" else reversed(ends)
            for _ in range(spec.instances):
                yield _Instance(way, sender, receiver, take_ports(tool.ports))

    def _version(self, tool: EndpointTool, end: Endpoint) -> str:
        """Version of a tool's client at an end; that it is there at all is seen so."""
        key = (tool.name, end.what)
        if key not in self._versions:
            self._versions[key] = read_tool_version(tool, end.place, end.what)
        return self._versions[key]

    def _serve(
        self, tool: EndpointTool, spec: TransferSpec, instances: list[_Instance], where: str
    ) -> None:
        """Start the servers, and wait until all of them listen."""
        udp = tool.listens_by_udp(spec)
        for instance in instances:
            listening = listening_ports(instance.receiver.place, udp=udp) | listening_ports(
                instance.receiver.place, udp=False
            )
            needed = set(range(instance.port, instance.port + tool.ports))
            if busy := sorted(needed & listening):
                raise GeneratorError(
                    f"port {busy[0]} is taken in the {instance.receiver.what}",
                    where=where,
                    cure="end the program that listens there; a VNF's own servers must leave ports "
                    f"from {PORTS[0]} to {PORTS[-1]} free",
                )
        for instance in instances:
            instance.server = instance.receiver.place.start(
                f"{tool.name}-server", tool.server(instance.sockets, spec)
            )
        waiting = list(instances)

        def all_listen() -> bool:
            self.watch()
            for instance in waiting:
                self._expect_server(instance, where)
            places = {id(instance.receiver): instance.receiver for instance in waiting}
            open_ports = {key: listening_ports(end.place, udp=udp) for key, end in places.items()}
            waiting[:] = [
                instance
                for instance in waiting
                if instance.port not in open_ports[id(instance.receiver)]
            ]
            return not waiting

        wait_for(
            all_listen,
            LISTEN_S,
            f"the servers of {tool.name}",
            poll_s=POLL_S,
            error=lambda: GeneratorError(
                f"its server runs in the {waiting[0].receiver.what}, but does not listen at "
                f"port {waiting[0].port} within {LISTEN_S:g} s",
                where=where,
                cure=f"its output:\n{require_started(waiting[0].server).output()[-1000:]}",
            ),
        )

    def _expect_server(self, instance: _Instance, where: str) -> None:
        code = require_started(instance.server).ended()
        if code is not None:
            raise GeneratorError(
                f"its server in the {instance.receiver.what} has ended {_exit_text(code)}",
                where=where,
                cure=quote_tail(instance.server),
            )

    def _talk(
        self, tool: EndpointTool, spec: TransferSpec, instances: list[_Instance], where: str
    ) -> float:
        """Start all clients, and wait for their ends; how long they ran, seconds."""
        for instance in instances:
            instance.server_before = require_started(instance.server).cpu()
        arrivals = TrafficWatchdog(self.ends, waits=spec.kind == "UDP_RR")
        began = time.monotonic()
        for instance in instances:
            instance.client = instance.sender.place.start(
                f"{tool.name}-client", tool.client(instance.sockets, spec)
            )
        limit = began + spec.duration_s + patient(GRACE_S)
        running = list(instances)
        ended = began
        while running:
            self.watch()
            for instance in instances:
                self._expect_server(instance, where)
            still = [
                instance for instance in running if require_started(instance.client).ended() is None
            ]
            ended = time.monotonic()
            for instance in running:
                if instance not in still:
                    self._expect_success(instance, arrivals, where)
            running = still
            if running:
                arrivals.expect_some(where)
                if ended > limit:
                    raise GeneratorError(
                        f"its client in the {running[0].sender.what} does not end within "
                        f"{GRACE_S:g} s after its time",
                        where=where,
                        cure=quote_tail(running[0].client),
                    )
                time.sleep(POLL_S)
        return ended - began

    @staticmethod
    def _expect_success(instance: _Instance, arrivals: TrafficWatchdog, where: str) -> None:
        client = require_started(instance.client)
        code = client.ended()
        if code and is_signal(code):
            raise GeneratorError(
                f"its client in the {instance.sender.what} has ended {_exit_text(code)}",
                where=where,
                cure=quote_tail(client),
            )
        if code:
            arrivals.expect_any(where)

    @staticmethod
    def _read(
        tool: EndpointTool,
        spec: TransferSpec,
        instances: list[_Instance],
        version: str,
        where: str,
    ) -> tuple[Flow, ...]:
        flows = []
        for instance in instances:
            client = require_started(instance.client)
            instance.output = ToolOutput(
                client.output(), require_started(instance.server).output(), version
            )
            try:
                figures = tool.read(instance.output, spec)
            except UnreadableError as error:
                raise GeneratorError(str(error), where=where) from error
            if code := client.ended():
                raise GeneratorError(
                    f"its client has ended {_exit_text(code)}",
                    where=where,
                    cure=quote_tail(client),
                )
            flows.append(
                Flow(
                    way=instance.way, port=instance.port, figures=_swap_ends(instance.way, figures)
                )
            )
        return tuple(flows)

    def _cpu(self, instances: list[_Instance]) -> tuple[CpuTime | None, CpuTime | None]:
        """Processor time of all programs at each end, during the transfer."""
        times: dict[str, list[CpuTime | None]] = {
            self.ends.client.what: [],
            self.ends.server.what: [],
        }
        for instance in instances:
            times[instance.sender.what].append(require_started(instance.client).cpu())
            now, before = require_started(instance.server).cpu(), instance.server_before
            spent = None
            if now is not None and before is not None:
                spent = CpuTime(now.user_s - before.user_s, now.system_s - before.system_s)
            times[instance.receiver.what].append(spent)
        client, server = (
            sum_cpu_times(times[e.what]) for e in (self.ends.client, self.ends.server)
        )
        return client, server

    @staticmethod
    def _end(tool: EndpointTool, instances: list[_Instance]) -> None:
        """End all programs, clients first; the others too when one cannot be ended."""
        with ExitStack() as last:
            programs = (
                *(instance.client for instance in instances),
                *(instance.server for instance in instances),
            )
            for program in reversed(programs):
                if program is not None:
                    last.callback(program.end, tool.end_server_by)


def offered_rate(spec: TransferSpec, before: Sequence[Transfer]) -> TransferSpec:
    """A transfer with the rate that is offered."""
    if not (spec.is_udp and spec.is_stream and spec.rate_of_tcp) or spec.rate_bps:
        return spec
    reached = [
        transfer.bits_per_second
        for transfer in before
        if (transfer.spec.way, transfer.spec.kind) == (spec.way, "TCP_STREAM")
        and transfer.bits_per_second is not None
        and transfer.bits_per_second >= 1
    ]
    share = spec.instances * len(spec.ways)
    return spec.model_copy(update={"rate_bps": (reached or [FALLBACK_BPS])[-1] / share})


_used = count()


def take_ports(number: int) -> int:
    """Take ports that follow each other; return the first one."""
    while True:
        first = PORTS[next(_used) % len(PORTS)]
        for _ in range(number - 1):
            next(_used)
        if first + number - 1 in PORTS:
            return first


def _swap_ends(way: OneWay, figures: Figures) -> Figures:
    """Figures whose processors are those of the ends: back, a tool's client is at the server's."""
    if way == "forth":
        return figures
    return figures.model_copy(
        update={
            "client_cpu_percent": figures.server_cpu_percent,
            "server_cpu_percent": figures.client_cpu_percent,
        }
    )


def _exit_text(code: int) -> str:
    return f"by signal {abs(code) % 128}" if is_signal(code) else f"(status {code})"


PlugIn = Callable[[tuple[WireEnd, ...]], AbstractContextManager[EndpointPair]]


def transfer_users(
    deployment: LiveDeployment,
    specs: Sequence[TransferSpec],
    watch: Callable[[], None] = lambda: None,
) -> tuple[Transfer, ...]:
    """Let users of the VNF talk to a server in place of the tester."""
    vepc = next((vnf for vnf in deployment.vnfs if isinstance(vnf, UserPlane)), None)
    if vepc is None:
        raise CapabilityError("nothing here has users", where=deployment.plan.scenario.id)
    return run_without_tester(deployment, vepc.users, specs, watch)


def transfer_endpoints(
    deployment: LiveDeployment,
    specs: Sequence[TransferSpec],
    server: ServerPlace = "far",
    watch: Callable[[], None] = lambda: None,
) -> tuple[Transfer, ...]:
    """Let endpoints talk in place of the tester."""
    if server == "vnf" and not deployment.vnfs:
        raise CapabilityError("there is no VNF to be in", where=deployment.plan.scenario.id)
    inside = deployment.vnfs[0] if server == "vnf" else None
    if inside is not None and not isinstance(inside, EndpointHost):
        raise CapabilityError(f"{inside.name} cannot be an endpoint", where="endpoints")

    def plug_in(ends: tuple[WireEnd, ...]) -> AbstractContextManager[EndpointPair]:
        if (elsewhere := deployment.vswitch.endpoints()) is not None:
            return nullcontext(elsewhere)
        # Addresses are those of the whole way, whatever of it is on this host.
        plan, guests = deployment.plan.for_tester, deployment.end_guests
        return plug_in_endpoints(deployment.machine, plan, ends, inside, guests)

    return run_without_tester(deployment, plug_in, specs, watch)


def run_without_tester(
    deployment: LiveDeployment,
    plug_in: PlugIn,
    specs: Sequence[TransferSpec],
    watch: Callable[[], None],
) -> tuple[Transfer, ...]:
    """Take the tester away, run transfers, and bring it back."""
    with deployment.without_tester() as tester_ends, plug_in(tester_ends) as ends:

        def fragments() -> int | None:
            of_network = deployment.vswitch.fragments()
            if of_network is None:
                return None
            # An end in its host's namespace is counted there.
            places = [end.place for end in (ends.client, ends.server) if end.netdev != LOOPBACK]
            return sum_counts([of_network, *(count_fragments(p.run(SHOW_IP)) for p in places)])

        machine = None
        if deployment.vswitch.endpoints() is None:
            cpus = list_processors((ends.client.place, ends.server.place))
            machine = MachineWatch(deployment.pollers(), cpus)
        return tuple(Exchange(ends, deployment.watching(watch), machine, fragments).run(specs))


def run_workload(
    deployment: LiveDeployment,
    workload: Workload,
    specs: Sequence[TransferSpec],
    watch: Callable[[], None] = lambda: None,
) -> tuple[Transfer, ...]:
    """Take the tester away, run a workload's programs, and bring it back."""

    def watch_processors(places: Iterable[Place]) -> MachineWatch:
        return MachineWatch(deployment.pollers(), list_processors(places))

    network = deployment.vswitch
    with deployment.without_tester():
        site = WorkloadSite(
            deployment.machine,
            deployment.plan,
            network if isinstance(network, Network) else None,
            deployment.end_guests,
            deployment.watching(watch),
            watch_processors,
            tuple(deployment.vnfs),
            CollectorSession,
        )
        transfers: tuple[Transfer, ...] = load_runner(workload)(site, specs)
    return transfers
