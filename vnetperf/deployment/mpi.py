"""Ranks of MPI in pods: a place for each pod, and Open MPI's launcher, which enters them.

There is no sshd: `mpirun` starts its daemons by an agent, a script that enters a pod by its name.
It runs in the network of the first pod, so that all that it and the ranks say passes the pods' own.
"""

from __future__ import annotations

import re
import shlex
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from vnetperf import registry
from vnetperf.collectors import MachineSampler
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.endpoints import PREFIX_LENGTH
from vnetperf.deployment.pods import LOOPBACK, PodNetwork
from vnetperf.deployment.transfers import POLL_S, is_signal, machine_cpu
from vnetperf.host import threads
from vnetperf.host.machine import Machine
from vnetperf.host.paths import read_end
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import CapabilityError, GeneratorError
from vnetperf.model.outcomes import MPI_PAIRS, EndFacts, Transfer, TransferSpec
from vnetperf.model.scenario import Plan
from vnetperf.model.testbed import MachineFacts
from vnetperf.mpi.base import MpiOutputError, MpiProgram
from vnetperf.networks.base import PodPort
from vnetperf.virt.container import Container, ContainerProgram
from vnetperf.virt.oci import RANKS, make_pod

#: All pods' addresses (RFC 2544 appendix C.2.2): what the library may use of a pod's interfaces.
NETWORK = f"198.18.0.0/{PREFIX_LENGTH}"
#: Transports: messages of a rank to itself, and TCP for all others, also within a pod. One-sided
#: operations as messages: the ones in shared memory are no network's.
PARAMETERS = {
    "plm": "rsh",
    "plm_rsh_no_tree_spawn": "1",
    "pml": "ob1",
    "btl": "self,tcp",
    "osc": "^sm,ucx",
    "btl_tcp_if_include": NETWORK,
    "oob_tcp_if_include": NETWORK,
    "mpi_yield_when_idle": "1",
}
_LOST = re.compile(r"process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+)")
_EXITED = re.compile(r"Process name: \[\[\d+,\d+\],(\d+)\]\s+Exit code:\s+(\d+)")
_NUMBERS = count()
#: Most of a result file that is read, octets.
MOST_OUTPUT = 1 << 20


@dataclass(frozen=True, slots=True)
class MpiPod:
    """A pod with ranks.

    Attributes:
        name: What the launcher calls it.
        port: What the network gave it.
        place: Where its programs run.
    """

    name: str
    port: PodPort
    place: Container


def _processors(plan: Plan, facts: MachineFacts) -> tuple[int, ...]:
    """All that the testbed allows but the system's own; that too where one alone would be left."""
    allowed = set(plan.testbed.cores.allowed) or {cpu.cpu for cpu in facts.cpus}
    free = allowed - {*plan.placement.housekeeping}
    return tuple(sorted(free if len(free) > 1 else allowed))


@contextmanager
def pods_of(
    machine: Machine, plan: Plan, network: PodNetwork, most: int
) -> Iterator[tuple[MpiPod, ...]]:
    """Make a place for each of the first pods with its interface, and take them away again."""
    cpus = _processors(plan, machine.facts)
    ports, tag = network.pods[:most], next(_NUMBERS)
    first: dict[str, Container] = {}
    found: list[MpiPod] = []
    with ExitStack() as undo:
        for number, port in enumerate(ports):
            place = make_pod(plan.scenario.pod, machine, f"mpi{number}-{tag}", cpus)
            undo.callback(place.give_back)
            own, key = port.pod.netdev, f"{port.host} {port.pod.netdev}"
            if own == LOOPBACK:
                place.enter(network.netns_of(port))
            elif key in first:  # pods that have their host's network
                place.enter(Path(str(first[key].netns)))
            else:
                place.create(cpuset=False)
                place.take(own, mac=port.pod.mac)
            first.setdefault(key, place)
            found.append(MpiPod(f"pod{number}", port, place))
            lines = [f"address replace {port.pod.address}/{PREFIX_LENGTH} dev {own}"]
            if own != LOOPBACK:
                lines += [
                    f"neigh replace {far.pod.address} lladdr {network.next_hop(port, far)} "
                    f"dev {own} nud permanent"
                    for far in dict.fromkeys(ports)
                    if far != port
                ]
            batch = place.write("addresses", "".join(f"{line}\n" for line in lines).encode())
            place.run(["ip", "-batch", batch])
        yield tuple(found)


class MpiRun:
    """Runs of programs of MPI in pods."""

    def __init__(
        self, machine: Machine, plan: Plan, pods: Sequence[MpiPod], watch: Callable[[], None]
    ) -> None:
        self.machine, self.plan, self.pods, self.watch = machine, plan, pods, watch

    def run(self, spec: TransferSpec) -> Transfer:
        """Run a program once, with ranks in as many pods as are specified."""
        program: MpiProgram = registry.load("mpi", spec.tool)()
        where = f"{program.name} {spec.kind}"
        if why := program.cannot(spec) or program.missing(self.machine.facts, spec):
            raise CapabilityError(why, where="MPI", cure="--mpi-program auto")
        if spec.pods > len(self.pods):
            raise CapabilityError(f"{spec.pods} pods of {len(self.pods)} deployed", where="MPI")
        number = next(_NUMBERS)
        own = self.machine.new_subdir(f"mpi-{number}")
        directory = self._give_files(program.files(spec), own, str(number), where)
        line = self._launch_line(spec, own, directory)
        argv = [*line, *program.command(spec, self._programs)]
        sampler = MachineSampler(())
        sampler.start()
        began = time.monotonic()
        launcher = self._start(argv)
        try:
            self._wait(launcher, spec.duration_s + program.longest_s, where)
        finally:
            elapsed_s = time.monotonic() - began
            spent = machine_cpu(sampler.stop(), elapsed_s)
            launcher.end(signal.SIGTERM)
        output = launcher.output()
        if code := launcher.ended():
            raise GeneratorError(_why_failed(output, code), where=where, cure=_end_of(output))
        if program.result_file:
            output = read_end(directory / program.result_file, MOST_OUTPUT) or output
        try:
            figures = program.read(output, spec)
        except MpiOutputError as error:
            raise GeneratorError(str(error), where=where, cure=_end_of(output)) from error
        library = self.machine.facts.versions.get("mpirun", "").partition("\n")[0]
        kind = "" if self.plan.scenario.pod == "netns" else f" by {self.plan.scenario.pod}"
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

    def _give_files(self, files: Mapping[str, str], own: Path, name: str, where: str) -> Path:
        """The directory that ranks begin in: it is complete before pods, which write to it, see it.

        What a program that ran before has put in its place is replaced or an error, never followed.
        """
        made = own / "files"
        made.mkdir()
        for file, content in files.items():
            (made / file).write_text(content)
        directory = self.machine.subdir(RANKS) / name
        try:
            made.rename(directory)
        except OSError as error:
            text = f"a program in a pod has put something in place of its directory: {error}"
            raise GeneratorError(text, where=where) from error
        return directory

    def _launch_line(self, spec: TransferSpec, own: Path, directory: Path) -> list[str]:
        """Of the launcher, which has files of its own that no pod can replace.

        Its session's too: at its end it removes what it finds there, through links as well. Daemons
        in pods of runc have theirs in their pod's own /tmp.
        """
        pods = self.pods[: spec.pods]
        hosts = own / "pods"
        hosts.write_text("".join(f"{pod.name} slots={spec.ranks}\n" for pod in pods))
        cases = "".join(
            f'{pod.name}) exec {shlex.join(pod.place.entry(pod.name))} sh -c "$*" ;;\n'
            for pod in pods
        )
        agent = own / "enter"  # its directory may be one that nothing is executed from
        agent.write_text(f"pod=$1; shift\ncase $pod in\n{cases}esac\nexit 1\n")
        parameters = {**PARAMETERS, "plm_rsh_agent": f"/bin/sh {agent}"}
        line = ["env", f"TMPDIR={own}", self._programs["mpirun"], "--allow-run-as-root"]
        line += ["--do-not-resolve", "--leave-session-attached"]
        line += ["--bind-to", "none", "--oversubscribe"]
        line += ["--hostfile", str(hosts), "--wdir", str(directory)]
        by = "node" if spec.kind in MPI_PAIRS else "slot"
        line += ["-np", str(spec.pods * spec.ranks), "--map-by", by]
        return line + [
            part for name, value in parameters.items() for part in ("--mca", name, value)
        ]

    def _start(self, argv: Sequence[str]) -> ContainerProgram:
        """Start the launcher; ranks inherit its slices, without which they wait for each other."""
        # Outside of the pods' files, from where it can enter them all.
        launcher = Container.start(self.pods[0].place, "mpirun", argv)
        slice_us = self.plan.testbed.cores.slice_us
        if slice_us:
            threads.set_slice(launcher.pid, slice_us * 1000)
        return launcher

    def _wait(self, launcher: ContainerProgram, limit_s: float, where: str) -> None:
        def ended() -> bool:
            self.watch()
            return launcher.ended() is not None

        wait_for(
            ended,
            limit_s,
            "the end of all ranks",
            poll_s=POLL_S,
            error=lambda: GeneratorError(
                f"its ranks do not end within {limit_s:g} s",
                where=where,
                cure=_end_of(launcher.output()),
            ),
        )


def _why_failed(output: str, code: int) -> str:
    """Which rank was lost, and how; else how the launcher has ended."""
    if lost := _LOST.search(output):
        rank, pod, number = lost.groups()
        return f"rank {rank} in {pod} was lost: it ended by {signal.Signals(int(number)).name}"
    if exited := _EXITED.search(output):
        return f"rank {exited[1]} has ended with status {exited[2]}"
    how = f"by signal {abs(code) % 128}" if is_signal(code) else f"with status {code}"
    return f"its launcher mpirun has ended {how}"


def _end_of(output: str) -> str:
    own = [line for line in output.splitlines() if line.strip(" -*")]
    return f"its output ends with: {' / '.join(own[-6:])[-800:] or '(nothing)'}"


def transfer_mpi(
    deployment: LiveDeployment,
    specs: Sequence[TransferSpec],
    watch: Callable[[], None] = lambda: None,
) -> tuple[Transfer, ...]:
    """Run programs of MPI in the pods of a deployment, one after the other."""
    network = deployment.vswitch
    if not isinstance(network, PodNetwork):
        raise CapabilityError("there are no pods", where=deployment.plan.scenario.id)

    def watch_all() -> None:
        watch()
        deployment.check_alive()

    machine, plan = deployment.machine, deployment.plan
    most = max(spec.pods for spec in specs)
    with deployment.without_tester(), pods_of(machine, plan, network, most) as pods:
        run = MpiRun(machine, plan, pods, watch_all)
        return tuple(run.run(spec) for spec in specs)
