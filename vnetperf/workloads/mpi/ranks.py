"""Ranks of MPI in pods: a place for each pod, and Open MPI's launcher, which enters them.

There is no sshd: `mpirun` starts its daemons by an agent, a script that enters a pod by its name.
It runs in the network of the first pod, so that all that it and the ranks say passes the pods' own.
"""

from __future__ import annotations

import logging
import re
import shlex
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from vnetperf.host import threads
from vnetperf.host.linux import read_file
from vnetperf.host.machine import Machine
from vnetperf.host.paths import read_end
from vnetperf.host.processes import is_signal
from vnetperf.host.trust import refuse_untrusted
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import CapabilityError, GeneratorError, VnetperfError
from vnetperf.model.scenario import Plan
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.transfer import EndFacts, Transfer, TransferSpec
from vnetperf.plugin import registry
from vnetperf.plugin.network import PodPort
from vnetperf.plugin.site import (
    LOOPBACK,
    POLL_S,
    PREFIX_LENGTH,
    PodSite,
    ProcessorWatch,
    WorkloadSite,
)
from vnetperf.virt.container import Container, ContainerProgram
from vnetperf.virt.endpoint import GuestPlace, GuestProgram, Place
from vnetperf.virt.oci import RANKS
from vnetperf.virt.pods import make_pod
from vnetperf.workloads.mpi.kinds import MPI_PAIRS
from vnetperf.workloads.mpi.program import MpiOutputError, MpiProgram, is_prrte

#: All pods' addresses (RFC 2544 appendix C.2.2): what the library may use of a pod's interfaces.
NETWORK = f"198.18.0.0/{PREFIX_LENGTH}"
#: Transports: messages of a rank to itself, and TCP for all others, also within a pod. One-sided
#: operations as messages: the ones in shared memory are no network's.
TRANSPORTS = {
    "pml": "ob1",
    "btl": "self,tcp",
    "osc": "^sm,ucx",
    "btl_tcp_if_include": NETWORK,
    "mpi_yield_when_idle": "1",
}
#: PRRTE breaks the sentence.
_LOST = re.compile(r"process rank (\d+) with PID \d+ on node (\S+)\s+exited\s+on\s+signal (\d+)")
#: "[[57012,1],2]" of Open MPI 4, "[prterun-host-27986@1,2]" of 5.
_EXITED = re.compile(r"Process name: \[\S+,(\d+)\]\s+Exit code:\s+(\d+)")
_ABORTED = re.compile(r"MPI_ABORT was invoked on rank (\d+)")
#: What a rank of Open MPI 5 says of another one before it ends as well, and is then named itself.
_VANISHED = re.compile(
    r"peer process has unexpectedly disconnected.*?Peer host:\s+(\S+)", re.DOTALL
)
#: Of the launcher's line its last command is the daemon, which is to be ended, not the shell alone,
#: from the moment that it is started.
IN_GUEST = "exec 2>&1; trap 'kill $!; exit 143' TERM; {} & wait $!"
_NUMBERS = count()
log = logging.getLogger(__name__)
#: Most of a result file that is read, octets.
MOST_OUTPUT = 1 << 20


class Launcher:
    """How Open MPI 4 and before call what its launcher is told."""

    def options(self, agent: str) -> list[str]:
        """Daemons are started by an agent, and use the pods' network alone.

        Names are not resolved: no DNS is in a pod's network, and waiting for none takes 20 s.
        """
        parameters = {
            "plm": "rsh",
            "plm_rsh_no_tree_spawn": "1",
            "plm_rsh_agent": agent,
            "oob_tcp_if_include": NETWORK,
        }
        return [
            *("--do-not-resolve", "--oversubscribe"),
            *(part for name, value in parameters.items() for part in ("--mca", name, value)),
        ]

    def map_by(self, unit: str) -> list[str]:
        """Ranks are given to pods in turn by "node", or to one after the other by "slot".

        There may be more of them than processors.
        """
        return ["--map-by", unit] if unit else []


class PrrteLauncher(Launcher):
    """The same of Open MPI 5 and later, whose launcher is that of PRRTE: it resolves no names."""

    def options(self, agent: str) -> list[str]:
        """The agent's component is ssh, whatever the agent is; options of its own are "prtemca"."""
        parameters = {
            "plm": "ssh",
            "plm_ssh_no_tree_spawn": "1",
            "plm_ssh_agent": agent,
            "prte_if_include": NETWORK,
        }
        return [part for name, value in parameters.items() for part in ("--prtemca", name, value)]

    def map_by(self, unit: str) -> list[str]:
        """More ranks than processors are a qualifier of the same option."""
        return ["--map-by", f"{unit}:OVERSUBSCRIBE"]


@dataclass(frozen=True, slots=True)
class MpiPod:
    """A pod with ranks.

    Attributes:
        name: What the launcher calls it.
        port: What the network gave it.
        place: Where its programs run.
        daemon: The launcher's daemon in a guest, which no program of the host enters; None where
            the launcher enters the pod itself.
    """

    name: str
    port: PodPort
    place: Container | GuestPlace
    daemon: GuestDaemon | None = None


class GuestDaemon:
    """Starts the launcher's daemon in a guest by the guest's agent, when the launcher asks.

    The launcher's agent is a script: it leaves the command line in a file and waits for another one
    with its end.
    """

    def __init__(self, place: GuestPlace) -> None:
        self._place = place
        self._program: GuestProgram | None = None
        self._asks = self._answers = Path()

    def expect(self, directory: Path, name: str) -> str:
        """Be ready for one start; what the launcher's agent runs for it."""
        self._program = None
        self._asks, self._answers = directory / f"{name}.asks", directory / f"{name}.ended"
        asks, answers = shlex.quote(str(self._asks)), shlex.quote(str(self._answers))
        return (
            f'printf %s "$*" >{asks}.new && mv {asks}.new {asks}; '
            f"until [ -e {answers} ]; do sleep 0.05; done; exit $(cat {answers})"
        )

    def serve(self) -> None:
        """Start the daemon once it is asked for, and tell of its end."""
        if self._program is None:
            if self._asks.is_file():
                line = read_file(self._asks)
                self._program = self._place.start("orted", ["sh", "-c", IN_GUEST.format(line)])
        elif (code := self._program.ended()) is not None:
            self._answer(code)

    def _answer(self, code: int) -> None:
        """Tell the launcher's agent, which waits for it without a bound."""
        if not self._answers.exists():
            draft = self._answers.with_suffix(".new")
            draft.write_text(f"{code}\n")
            draft.rename(self._answers)

    def end(self) -> str:
        """End it, and return what it has written."""
        try:
            if self._program is None:
                return ""
            self._program.end(signal.SIGTERM)
            return self._program.output()
        finally:
            self._answer(1)


def end_daemon(daemon: GuestDaemon) -> str:
    """End a daemon; return what it has written, "" when its guest does not answer."""
    try:
        return daemon.end()
    except VnetperfError as error:
        log.warning("%s", error)
        return ""


def _processors(plan: Plan, facts: MachineFacts) -> tuple[int, ...]:
    """All that the testbed allows but the system's own; that too where one alone would be left."""
    allowed = set(plan.testbed.cores.allowed) or {cpu.cpu for cpu in facts.cpus}
    free = allowed - {*plan.placement.housekeeping}
    return tuple(sorted(free if len(free) > 1 else allowed))


@contextmanager
def make_pods(site: WorkloadSite, network: PodSite, most: int) -> Iterator[tuple[MpiPod, ...]]:
    """Make a place for each of the first pods with its interface, and take them away again."""
    machine, plan, guests = site.machine, site.plan, site.guests
    cpus = _processors(plan, machine.facts)
    ports, tag = network.pods[:most], next(_NUMBERS)
    first: dict[str, Container] = {}
    pods: list[MpiPod] = []
    with ExitStack() as undo:
        for number, port in enumerate(ports):
            name = f"pod{number}"
            if number in guests:
                end = undo.enter_context(guests[number].inside(port.pod.address))
                if not isinstance(end.place, GuestPlace):
                    raise CapabilityError("ranks of MPI run in guests with an agent", where=name)
                end.place.run(["hostname", name])
                _tell_neighbours(end.place, end.netdev, network, port, ports)
                pods.append(MpiPod(name, port, end.place, GuestDaemon(end.place)))
                continue
            place = make_pod(plan.scenario.pod, machine, f"mpi{number}-{tag}", cpus)
            undo.callback(place.give_back)
            netdev, key = port.pod.netdev, f"{port.host} {port.pod.netdev}"
            if netdev == LOOPBACK:
                place.enter(network.find_netns(port))
            elif key in first:  # pods that have their host's network
                place.enter(Path(str(first[key].netns)))
            else:
                place.create(cpuset=False)
                place.take(netdev, mac=port.pod.mac)
            first.setdefault(key, place)
            pods.append(MpiPod(name, port, place))
            _tell_neighbours(place, netdev, network, port, ports)
        yield tuple(pods)


def _tell_neighbours(
    place: Place, netdev: str, network: PodSite, port: PodPort, ports: Sequence[PodPort]
) -> None:
    """Give a pod its address, and those of all others."""
    lines = [f"address replace {port.pod.address}/{PREFIX_LENGTH} dev {netdev}"]
    if netdev != LOOPBACK:
        lines += [
            f"neigh replace {far.pod.address} lladdr {network.next_hop(port, far)} "
            f"dev {netdev} nud permanent"
            for far in dict.fromkeys(ports)
            if far != port
        ]
    batch = place.write("addresses", "".join(f"{line}\n" for line in lines).encode())
    place.run(["ip", "-batch", batch])


class MpiRun:
    """Runs of programs of MPI in pods."""

    def __init__(
        self,
        machine: Machine,
        plan: Plan,
        pods: Sequence[MpiPod],
        watch: Callable[[], None],
        watch_processors: Callable[[Iterable[Place]], ProcessorWatch],
    ) -> None:
        self.machine, self.plan, self.pods, self.watch = machine, plan, pods, watch
        self.watch_processors = watch_processors

    def run(self, spec: TransferSpec) -> Transfer:
        """Run a program once, with ranks in as many pods as are specified."""
        program: MpiProgram = registry.load("mpi", spec.tool)()
        where = f"{program.name} {spec.kind}"
        if problem := program.cannot(spec) or program.missing(self.machine.facts, spec):
            raise CapabilityError(problem, where="MPI", cure="--mpi-program auto")
        if spec.pods > len(self.pods):
            raise CapabilityError(f"{spec.pods} pods of {len(self.pods)} deployed", where="MPI")
        command = program.command(spec, self._programs)
        refuse_untrusted(command)  # the launcher starts it, and only the launcher is looked at
        number = next(_NUMBERS)
        subdir = self.machine.new_subdir(f"mpi-{number}")
        directory = self.give_files(program.files(spec), subdir, str(number), where)
        line, options = self.make_launch_line(spec, subdir, directory)
        argv = [*line, *self.make_rank_words(spec, options, command)]
        daemons = [pod.daemon for pod in self.pods[: spec.pods] if pod.daemon is not None]
        places = [pod.place for pod in self.pods[: spec.pods]]
        processors = self.watch_processors(places)
        processors.start()
        began = time.monotonic()
        launcher = self._start(argv)
        try:
            self._wait(launcher, daemons, spec.duration_s + program.longest_s, where)
        finally:
            elapsed_s = time.monotonic() - began
            spent = processors.stop()
            launcher.end(signal.SIGTERM)
            daemon_output = "".join(map(end_daemon, daemons))
        output = launcher.output() + daemon_output
        if code := launcher.ended():
            raise GeneratorError(
                describe_failure(output, code), where=where, cure=_quote_end(output)
            )
        if program.result_file:
            output = read_end(directory / program.result_file, MOST_OUTPUT) or output
        try:
            figures = program.read(output, spec)
        except MpiOutputError as error:
            raise GeneratorError(str(error), where=where, cure=_quote_end(output)) from error
        library = self.machine.facts.versions.get("mpirun", "").partition("\n")[0]
        kind = "" if self.plan.scenario.pod == "netns" else f" by {self.plan.scenario.pod}"
        in_vms = [pod.name for pod in self.pods[: spec.pods] if pod.daemon is not None]
        kind += f" ({', '.join(in_vms)} in a VM)" if in_vms else ""
        where_ranks = f"{spec.pods} pods{kind} with {spec.ranks} ranks each"
        cpus = self.pods[0].place.processors
        return Transfer(
            spec=spec,
            **figures.model_dump(),
            version=", ".join(filter(None, (program.version(output), library))),
            elapsed_s=round(elapsed_s, 3),
            client=EndFacts(place=where_ranks, address=NETWORK, cpus=cpus),
            **spent,
        )

    @property
    def _programs(self) -> dict[str, str]:
        return self.machine.facts.programs

    @property
    def _launcher(self) -> Launcher:
        return PrrteLauncher() if is_prrte(self.machine.facts) else Launcher()

    def give_files(self, files: Mapping[str, str], subdir: Path, name: str, where: str) -> Path:
        """Make the directory that ranks begin in: complete before pods, which write to it, see it.

        What a program that ran before has put in its place is replaced or an error, never followed.
        """
        draft = subdir / "files"
        draft.mkdir()
        for file, content in files.items():
            (draft / file).write_text(content)
        directory = self.machine.subdir(RANKS) / name
        try:
            draft.rename(directory)
        except OSError as error:
            text = f"a program in a pod has put something in place of its directory: {error}"
            raise GeneratorError(text, where=where) from error
        return directory

    def make_rank_words(
        self, spec: TransferSpec, options: Sequence[str], command: Sequence[str]
    ) -> list[str]:
        """Make the words that start the ranks in all pods; guests get a copy of the executable."""
        if all(pod.daemon is None for pod in self.pods[: spec.pods]):
            by = self._launcher.map_by("node" if spec.kind in MPI_PAIRS else "slot")
            return ["-np", str(spec.pods * spec.ranks), *by, *options, *command]
        words = list(self._launcher.map_by(""))
        for pod in self.pods[: spec.pods]:
            program = command[0]
            if isinstance(pod.place, GuestPlace):
                program = pod.place.write(Path(program).name, Path(program).read_bytes())
                pod.place.run(["chmod", "755", program])
                pod.place.run(["mkdir", "-p", options[1]])
            apart = [":"] if "-np" in words else []
            words += [*apart, "-np", str(spec.ranks), "--host", pod.name]
            words += [*options, program, *command[1:]]
        return words

    def make_launch_line(
        self, spec: TransferSpec, subdir: Path, directory: Path
    ) -> tuple[list[str], list[str]]:
        """Make the words of the launcher, and of its ranks; no pod can replace the files in them.

        Its session's too: at its end it removes what it finds there, through links as well. Daemons
        in pods of runc have theirs in their pod's own /tmp.
        """
        pods = self.pods[: spec.pods]
        hosts = subdir / "pods"
        hosts.write_text("".join(f"{pod.name} slots={spec.ranks}\n" for pod in pods))
        cases = "".join(
            f'{pod.name}) exec {shlex.join(pod.place.entry(pod.name))} sh -c "$*" ;;\n'
            if isinstance(pod.place, Container)
            else f"{pod.name}) {pod.daemon.expect(subdir, pod.name) if pod.daemon else ''} ;;\n"
            for pod in pods
        )
        agent = subdir / "enter"  # its directory may be one that nothing is executed from
        agent.write_text(f"pod=$1; shift\ncase $pod in\n{cases}esac\nexit 1\n")
        line = ["env", f"TMPDIR={subdir}", self._programs["mpirun"], "--allow-run-as-root"]
        line += ["--leave-session-attached", "--bind-to", "none", "--hostfile", str(hosts)]
        line += self._launcher.options(f"/bin/sh {agent}")
        line += [part for name, value in TRANSPORTS.items() for part in ("--mca", name, value)]
        return line, ["--wdir", str(directory)]

    def _start(self, argv: Sequence[str]) -> ContainerProgram:
        """Start the launcher; ranks inherit its slices, without which they wait for each other."""
        # Outside of the pods' files, from where it can enter them all.
        first = self.pods[0].place
        if not isinstance(first, Container):
            raise CapabilityError("the launcher runs in the first pod's network", where="MPI")
        launcher = Container.start(first, "mpirun", argv)
        slice_us = self.plan.testbed.cores.slice_us
        if slice_us:
            threads.set_slice(launcher.pid, slice_us * 1000)
        return launcher

    def _wait(
        self,
        launcher: ContainerProgram,
        daemons: Sequence[GuestDaemon],
        limit_s: float,
        where: str,
    ) -> None:
        def ended() -> bool:
            self.watch()
            for daemon in daemons:
                daemon.serve()
            return launcher.ended() is not None

        wait_for(
            ended,
            limit_s,
            "the end of all ranks",
            poll_s=POLL_S,
            error=lambda: GeneratorError(
                f"its ranks do not end within {limit_s:g} s",
                where=where,
                cure=_quote_end(launcher.output()),
            ),
        )


def describe_failure(output: str, code: int) -> str:
    """Describe which rank was lost and how, or else how the launcher has ended."""
    if lost := _LOST.search(output):
        rank, pod, number = lost.groups()
        return f"rank {rank} in {pod} was lost: it ended by {signal_name(int(number))}"
    if exited := _EXITED.search(output):
        return f"rank {exited[1]} has ended with status {exited[2]}"
    if aborted := _ABORTED.search(output):
        return f"rank {aborted[1]} has ended all ranks by MPI_Abort, with status {code}"
    if vanished := _VANISHED.search(output):
        return f"a rank in {vanished[1]} was lost: its connection to another one has ended"
    manner = f"by signal {abs(code) % 128}" if is_signal(code) else f"with status {code}"
    return f"its launcher mpirun has ended {manner}"


def signal_name(number: int) -> str:
    """SIGKILL; by its number where it has no name, as most of the real-time signals."""
    return next(
        (member.name for member in signal.Signals if member.value == number), f"signal {number}"
    )


def _quote_end(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip(" -*")]
    return f"its output ends with: {' / '.join(lines[-6:])[-800:] or '(nothing)'}"


def run_ranks(site: WorkloadSite, specs: Sequence[TransferSpec]) -> tuple[Transfer, ...]:
    """Run programs of MPI in the pods of a deployment, one after the other."""
    if site.network is None:
        raise CapabilityError("there are no pods", where=site.plan.scenario.id)
    with make_pods(site, site.network, max(spec.pods for spec in specs)) as pods:
        run = MpiRun(site.machine, site.plan, pods, site.watch, site.watch_processors)
        return tuple(run.run(spec) for spec in specs)
