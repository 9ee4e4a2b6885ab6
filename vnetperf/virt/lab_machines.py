"""Several machines of the lab, cabled to each other, and the testbed file of them.

The command runs on this machine, as the controller of a testbed does whose hosts are reached by
ssh: it is no slower for the emulation, and its results are where they always are. Nothing of ours
listens: each machine's sshd serves a port of that machine whose other end is a socket in the run's
private directory. One connection for each is kept open, and every other goes through it
(ControlMaster).
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from vnetperf.host.linux import read_file
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import ConfigError, HostError
from vnetperf.virt import lab_guest
from vnetperf.virt.kernel import Kernel
from vnetperf.virt.lab_boot import BUS_NUMBERS, LabMachine, LabNic
from vnetperf.virt.tools import leashed, need_program, with_pdeathsig

#: Number of machines -> between which two each cable is. With two cables one machine is the tester
#: of another; of three each two have one, for a chain over two of them.
CABLES = {2: ((0, 1), (0, 1)), 3: ((0, 1), (0, 1), (1, 2), (0, 2))}
#: Memory of each machine unless the user gives another: three fit 8 GiB.
MEMORY = "2G"
#: Longest wait for the first connection to a machine that has started: keys are agreed on by an
#: emulated processor.
CONNECT_S = 120.0
#: What ssh adds to the name of a socket while it makes it; the longest name of a socket. Octets.
SSH_ADDS, LONGEST_SOCKET = 17, 107
#: Hands ssh the connection itself, so that nothing stands between the two.
_CONNECT = (
    "import socket as s,sys;c=s.socket(s.AF_UNIX);c.connect(sys.argv[1]);"
    "s.send_fds(s.socket(fileno=1),[b'.'],[c.fileno()])"
)
_SSHD_CONFIG = """\
HostKey {directory}/{name}/host
AuthorizedKeysFile {directory}/key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
PrintLastLog no
MaxSessions 100
LoginGraceTime 300
LogLevel ERROR
SetEnv XDG_CACHE_HOME={cache}
"""
#: One connection after the other; without one sshd finds the end of its input and is started again.
_SERVE = """\
hostname {name}
mkdir -p -m 755 /run/sshd
while :; do
    {sshd} -i -e -f {config} 0<>/dev/virtio-ports/vnetperf.ssh 1>&0
    sleep 1
done
"""
_SSH_CONFIG = """\
Host {names}
  User root
  IdentityFile {directory}/key
  IdentitiesOnly yes
  UserKnownHostsFile {directory}/known_hosts
  GlobalKnownHostsFile none
  StrictHostKeyChecking yes
  BatchMode yes
  ControlMaster auto
  ControlPath {directory}/%h.ctl
  ProxyUseFdpass yes
  ProxyCommand {connect} {directory}/%h.ssh
  LogLevel ERROR
"""


@dataclass(frozen=True, slots=True)
class Command:
    """What runs on this machine while the lab's machines run."""

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None


def machines(count: int, machine: LabMachine, directory: Path) -> dict[str, LabMachine]:
    """The machines by name, with the sockets of their cables in a directory.

    `machine` is what each is but for its NICs.
    """
    if count not in CABLES:
        raise ConfigError(
            f"{count} machines are not cabled", where="--machines", accepted="1, 2 or 3"
        )
    by_name = {}
    for number in range(count):
        nics: list[LabNic] = []
        for cable, ends in enumerate(CABLES[count]):
            if number not in ends:
                continue
            local_socket, remote_socket = (
                directory / f"c{cable}.{end}" for end in (number, sum(ends) - number)
            )
            nics.append(
                LabNic(
                    name=f"cable{cable}",
                    side="",
                    cable=cable,
                    node=0,
                    mac=f"52:54:00:1a:{number + 0xC0:02x}:{cable:02x}",
                    pci=f"0000:{BUS_NUMBERS[0] + 1 + len(nics):02x}:00.0",
                    wire=(local_socket, remote_socket),
                )
            )
        name = f"m{number + 1}"
        by_name[name] = replace(machine, nics=tuple(nics), ssh=directory / f"{name}.ssh")
    return by_name


def testbed_file(lab: Mapping[str, LabMachine], ssh_config: Path) -> str:
    """The testbed file of the machines: the first is the tester."""
    lines = [
        f'description = "virtual lab: {len(lab)} emulated machines, cabled to each other"',
        'isolation = "cables are sockets of a private directory; no frame leaves the machines"',
        "isolated = true",
        'wires = ["memif", "veth"]    # within a machine',
        "",
        "[cores]",
        "turn_us = 1000    # one thread emulates all processors of a machine",
        "",
        "[media]",
        "bits_per_second = 1e9    # as reported by igb",
        "nominal = true",
    ]
    cables: dict[int, list[str]] = {}
    for name, machine in lab.items():
        python = f"{sys.executable} -I"
        transport = f"ssh=-F {ssh_config} {name}//python={python}"
        role = "dut" if lines[-1].startswith("role") else "tester"
        lines += ["", f"[hosts.{name}]", f"transport = {json.dumps(transport)}"]
        lines += [f'role = "{role}"']
        for nic in machine.nics:
            cables.setdefault(nic.cable, []).append(f"{name}:{nic.pci}")
    for _, ends in sorted(cables.items()):
        lines += ["", "[[cables]]", f"ends = {json.dumps(ends)}"]
    return "\n".join(lines) + "\n"


def run(
    command: Command, kernel: Kernel, machine: LabMachine, count: int, tell: Callable[[str], None]
) -> int:
    """Run a command on this machine with a testbed of machines of the lab; its exit status."""
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        interrupts = _Interrupts(tell)
        stack.enter_context(lab_guest.signals(interrupts.come))
        directory = stack.enter_context(lab_guest.run_dir())
        lab = machines(count, machine, directory)
        require_place(directory, lab)
        ssh_config = write_keys(directory, lab)
        members = [
            _Machine(name, description, kernel, directory, tell)
            for name, description in lab.items()
        ]
        for member in members:
            stack.callback(member.close)
            member.start()
        _until_started(members)
        for member in members:
            stack.enter_context(_master(member.name, ssh_config, directory))
        testbed = directory / f"lab-{count}.toml"
        testbed.write_text(testbed_file(lab, ssh_config))
        took = time.monotonic() - began
        tell(f"{', '.join(lab)} run after {took:.0f} s; testbed {testbed}, ssh -F {ssh_config} m1")
        environment = {**command.environment, "VNETPERF_TESTBED": str(testbed)}
        return _run_command(replace(command, environment=environment), members, interrupts, tell)


def require_place(directory: Path, lab: Mapping[str, LabMachine]) -> None:
    """Refuse a directory whose name is too long for sockets, or has characters that end words."""
    longest = len(str(directory / f"{max(lab)}.ctl")) + SSH_ADDS
    if longest > LONGEST_SOCKET or any(c.isspace() or c in '"%' for c in str(directory)):
        raise HostError(
            "sockets of the lab cannot be there",
            where=str(directory),
            accepted=f"a path of at most {LONGEST_SOCKET - longest + len(str(directory))} "
            "characters without blanks",
            cure="set XDG_CACHE_HOME to a directory with a shorter name",
        )


def write_keys(directory: Path, lab: Mapping[str, LabMachine]) -> Path:
    """Make keys for this run, of which each side knows the other's; return the file of ssh."""
    keygen = need_program("ssh-keygen", "openssh-client")
    sshd = need_program("sshd", "openssh-server")
    cache = directory.parents[3]  # where what was built here is found, whoever the guest's user is
    known_hosts = []
    for path in (directory / "key", *(directory / name / "host" for name in lab)):
        path.parent.mkdir(exist_ok=True)
        argv = [keygen, "-q", "-t", "ed25519", "-N", "", "-C", "vnetperf lab", "-f", str(path)]
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, timeout=60)
    for name in lab:
        host = directory / name
        known_hosts.append(f"{name} {read_file(host / 'host.pub')}")
        config = host / "sshd_config"
        config.write_text(_SSHD_CONFIG.format(directory=directory, name=name, cache=cache))
        serve = _SERVE.format(name=name, sshd=shlex.quote(sshd), config=shlex.quote(str(config)))
        (host / "serve.sh").write_text(serve)
    (directory / "known_hosts").write_text("".join(known_hosts))
    ssh_config = directory / "ssh_config"
    connect = shlex.join([sys.executable, "-I", "-S", "-c", _CONNECT])
    text = _SSH_CONFIG.format(names=" ".join(lab), directory=directory, connect=connect)
    ssh_config.write_text(text)
    return ssh_config


class _Machine:
    """One of the machines, which is started again when QEMU crashes or hangs at its start."""

    def __init__(
        self,
        name: str,
        machine: LabMachine,
        kernel: Kernel,
        directory: Path,
        tell: Callable[[str], None],
    ) -> None:
        self.name = name
        self._machine, self._kernel, self._tell = machine, kernel, tell
        self._directory = directory / name
        self._running = contextlib.ExitStack()
        self._guest: lab_guest.LabGuest | None = None
        self._starts = 0

    def start(self) -> None:
        self._starts += 1
        task = lab_guest.Task(
            argv=["sh", str(self._directory / "serve.sh")],
            cwd=Path("/"),
            environment={"PATH": os.defpath + ":/usr/sbin:/sbin", "HOME": "/root"},
        )
        output = self._running.enter_context((self._directory / "sshd.log").open("ab"))
        outputs = output.fileno(), output.fileno()
        self._guest = self._running.enter_context(
            lab_guest.started(task, self._kernel, self._machine, self._directory, outputs)
        )

    def turn(self, timeout_s: float) -> bool:
        """Hear what it says; whether it has started."""
        if self._guest is None:
            return False
        try:
            for _ in self._guest.turn(timeout_s):
                pass
        except lab_guest.CrashedError as error:
            if self._starts == lab_guest.STARTS:
                raise
            self._tell(
                f"{self.name}: QEMU {error.symptom} at its start, once more: {error.last_line}"
            )
            self.close()
            self.start()
        return self._guest.ready

    def watch(self, timeout_s: float) -> None:
        """Hear what it says while the command runs, and report its end: the command goes on."""
        try:
            self.turn(timeout_s)
        except HostError as error:
            self._tell(f"{self.name}: {error.what}")
            self.close()

    def close(self) -> None:
        self._guest = None
        self._running.close()


def _until_started(members: Sequence[_Machine]) -> None:
    """Wait until all run, whose limits are those of each start.

    Not a `wait_for`: each turn hears what the machines say.
    """
    while sum(member.turn(0.25 / len(members)) for member in members) < len(members):
        pass


@contextlib.contextmanager
def _master(name: str, ssh_config: Path, directory: Path) -> Iterator[None]:
    """The connection to a machine that all others go through."""
    ssh = need_program("ssh", "openssh-client")
    log = directory / name / "ssh.log"
    control = directory / f"{name}.ctl"
    argv = [ssh, "-F", str(ssh_config), "-N", "-o", "ControlMaster=yes", name]

    def fail() -> HostError:
        said = read_file(log).strip() or "it printed nothing"
        return HostError(f"ssh does not connect: {said}", where=f"vnetperf lab, {name}")

    with leashed(argv, log) as process:

        def check() -> None:
            if process.poll() is not None:
                raise fail()

        description = f"the connection to {name}"
        wait_for(control.exists, CONNECT_S, description, poll_s=0.05, check=check, error=fail)
        yield


class _Interrupts:
    """Ctrl-C: the command's to end by; before it runs, and the second time, the whole lab's."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self.command: subprocess.Popen[bytes] | None = None
        self.deadline = float("inf")

    def come(self) -> None:
        """Handle SIGINT. From a terminal the command got it too."""
        if self.command is None or self.deadline < float("inf"):
            raise KeyboardInterrupt
        self._tell("interrupting the command; once more ends the lab at once")
        if not os.isatty(0):
            self.command.send_signal(signal.SIGINT)
        self.deadline = time.monotonic() + lab_guest.GRACE_S


def _run_command(
    command: Command,
    members: Sequence[_Machine],
    interrupts: _Interrupts,
    tell: Callable[[str], None],
) -> int:
    """Run the command, and hear what the machines say meanwhile."""
    began = time.monotonic()
    with HostError.explain_os_error("cannot be run", where=command.argv[0]):
        process = subprocess.Popen(
            with_pdeathsig(command.argv),
            env=command.environment,
            start_new_session=not os.isatty(0),  # which a terminal's signals must reach
        )
    interrupts.command = process
    try:
        while process.poll() is None:
            for member in members:
                member.watch(0.3 / len(members))
            if time.monotonic() > interrupts.deadline:
                raise KeyboardInterrupt
            if command.timeout_s is not None and time.monotonic() > began + command.timeout_s:
                tell(f"the command did not end within {command.timeout_s:g} s: ended")
                return lab_guest.TIMED_OUT
        code = process.returncode
        return code if code >= 0 else 128 - code
    finally:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(lab_guest.GRACE_S)
            process.kill()
            process.wait()
