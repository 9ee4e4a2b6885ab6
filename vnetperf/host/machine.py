"""What a backend is given to change a machine with: everything it does is undone with the run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from vnetperf.host import hugepages
from vnetperf.host.kill import RUN_ID_VARIABLE
from vnetperf.host.machine_links import MachineLinks
from vnetperf.host.machine_nics import MachineNics
from vnetperf.host.netns import run_in
from vnetperf.host.patience import patient
from vnetperf.host.process import ManagedProcess
from vnetperf.model.errors import HostError


class Machine(MachineLinks, MachineNics):
    """A machine in the hands of one run: its files, processes and memory; links and NICs besides.

    Args:
        run: The run's hold on the machine.
        facts: What is known of it.
    """

    def subdir(self, name: str) -> Path:
        """A private directory of the run, for a backend's sockets and files.

        Args:
            name: Name of the directory; short, a socket's path has at most 107 octets.

        Returns:
            The directory, made when missing.
        """
        return self._run.rundir.subdir(name)

    def remove_at_end(self, path: Path) -> None:
        """Have a file removed with the run's end that a program of the run makes elsewhere.

        Args:
            path: The file, outside the run's directory; it need not be there yet.
        """
        self._run.journal.intend("tree", f"remove {path}", {"path": str(path)})

    def spawn(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cpus: Iterable[int] | None = None,
        keep_stdin_open: bool = False,
        isolated: bool = False,
        netns: Path | None = None,
    ) -> ManagedProcess:
        """Start a program that ends with the run at the latest.

        Args:
            name: What it is called in messages; also its log file's name.
            argv: Program and arguments.
            env: Variables added to the environment.
            cpus: Processors it may run on; None for all.
            keep_stdin_open: True gives it a pipe that never ends instead of /dev/null.
            isolated: True starts it in the run's own network namespace.
            netns: File of another network namespace to start it in.

        Returns:
            The running process.

        Raises:
            HostError: When it cannot be started.
        """
        return self._run.processes.spawn(
            name,
            argv,
            env=env,
            cpus=cpus,
            netns=self.netns if isolated else netns,
            stdin=keep_stdin_open,
        )

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        timeout: float = 15.0,
        isolated: bool = False,
        netns: Path | None = None,
    ) -> str:
        """Run a short-lived tool to its end.

        Args:
            argv: Program and arguments.
            env: Variables added to the environment.
            timeout: Longest run, seconds.
            isolated: True runs it in the run's own network namespace.
            netns: File of another network namespace to run it in.

        Returns:
            Standard output.

        Raises:
            HostError: When it is missing, fails, or does not end in time.
        """
        environment = {**os.environ, RUN_ID_VARIABLE: self.run_id, **(env or {})}
        line = " ".join(argv)

        def call() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                argv,
                env=environment,
                capture_output=True,
                text=True,
                timeout=patient(timeout),
                check=False,
            )

        try:
            done = self.in_netns(call) if isolated else run_in(netns, call)
        except FileNotFoundError as error:
            raise HostError(
                f"{argv[0]} is not installed", cure="`vnetperf doctor` names the package"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise HostError(f"did not end within {timeout:.0f} s", where=line) from error
        if done.returncode:
            said = (done.stderr or done.stdout).strip()[-2000:]
            raise HostError(f"failed with status {done.returncode}: {said}", where=line)
        return done.stdout

    def reserve_hugepages(self, node: int, size_kb: int, pages: int) -> None:
        """Make hugepages free on a node; the previous number comes back with the run's end.

        Args:
            node: NUMA node.
            size_kb: Page size, KiB.
            pages: Pages that must be free.

        Raises:
            HostError: When the kernel does not give as many.
        """
        hugepages.reserve(self._run.journal, node, size_kb, pages)
