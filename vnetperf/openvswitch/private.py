"""A private Open vSwitch: supported versions, database server, daemon, control socket.

All files are in a directory of the run, so that an OVS of the machine is not touched. vSwitches and
networks of pods have it in common.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from vnetperf.host import dpdk
from vnetperf.host.linux import parse_count, parse_json
from vnetperf.host.machine import Machine
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.wait import patient, receive, wait_at_most, wait_for
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.machine_load import DatapathWork
from vnetperf.model.scenario import ETHERNET_OCTETS, Placement, Plan, Pollers
from vnetperf.model.testbed import KernelModule, MachineFacts, Program
from vnetperf.model.trial import HopCounters
from vnetperf.plugin.backend import check_process

log = logging.getLogger(__name__)
SUPPORTED_OVS = ((2, 17), (4, 99))
DPDK_DAEMON, KERNEL_DAEMON = "ovs-vswitchd-dpdk", "ovs-vswitchd"
#: Tools of the private instance; those of another version may not understand a daemon's database.
OVS_TOOLS = tuple(
    Program(name=name, package=package, beside=(DPDK_DAEMON, KERNEL_DAEMON), by_make=True)
    for name, package in (
        ("ovsdb-server", "openvswitch-common"),
        ("ovs-vsctl", "openvswitch-switch"),
        ("ovs-ofctl", "openvswitch-common"),
        ("ovsdb-tool", "openvswitch-common"),
    )
)

#: The kernel's datapath, and one of threads without DPDK, can be driven by either build.
DAEMON = Program(
    name=KERNEL_DAEMON,
    package="openvswitch-switch",
    places=(
        "ovs-vswitchd",
        "/usr/lib/openvswitch-switch/ovs-vswitchd",
        "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk",
    ),
    version_args=("--version",),
    key="ovs_kernel",
    beside=(DPDK_DAEMON,),
    software="ovs",
    debian=("openvswitch-switch", "openvswitch-common"),
    by_make=True,
)
#: Its datapath with DPDK; a distribution's ovs-vswitchd may be built without.
DAEMON_WITH_DPDK = Program(
    name=DPDK_DAEMON,
    package="openvswitch-switch-dpdk",
    places=(
        "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk",
        "ovs-vswitchd-dpdk",
        "ovs-vswitchd",
    ),
    version_args=("--version",),
    version_contains="DPDK",
    key="ovs_vswitchd",
    beside=(KERNEL_DAEMON,),
    software="ovs-dpdk",
    by_make=True,
)
DATAPATH = KernelModule(
    name="openvswitch", purpose="the kernel's datapath", symbol="ovs_dp_process_packet"
)
#: What a stopped or killed instance leaves in its directory; VNFs' sockets are there as well.
LEFTOVERS = ("conf.db", ".conf.db.~lock~", "*.pid", "*.ctl", "db.sock", "*.mgmt", "*.snoop")
#: Longest wait for the daemon to take down what it made, seconds.
EXIT_S = 3.0
#: Rules that ovs-ofctl surely installs in a second, on a core it shares.
RULES_PER_S = 2000
#: Where distributions and `make install` keep the schema.
SCHEMAS = (
    "/usr/share/openvswitch/vswitch.ovsschema",
    "/usr/local/share/openvswitch/vswitch.ovsschema",
)


def tunnel_settings(kind: str, local: str, remote: str, key: int) -> tuple[str, ...]:
    """Settings of a tunnel's interface; GRE is without a key."""
    ends = (f"options:remote_ip={remote}", f"options:local_ip={local}")
    return (f"type={kind}", *ends, *(() if kind == "gre" else (f"options:key={key}",)))


def parse_ovs_version(text: str) -> tuple[int, int]:
    """Version of OVS."""
    match = re.search(r"\(Open vSwitch\)\s+([0-9]{1,4})\.([0-9]{1,4})\b", text)
    if match is None:
        raise DutError(f"no version in {text.strip()[:80]!r}", where="ovs-vswitchd --version")
    return int(match[1]), int(match[2])


def ovs_version_problem(facts: MachineFacts, daemon: Program) -> str:
    """Whether the version of a daemon is supported."""
    try:
        version = parse_ovs_version(facts.versions.get(daemon.name, ""))
    except DutError as error:
        return str(error)
    low, high = SUPPORTED_OVS
    if low <= version <= high:
        return ""
    return (
        f"OVS {version[0]}.{version[1]} is not supported; "
        f"accepted: {low[0]}.{low[1]} to {high[0]}.x; install another version and name it "
        f"in the testbed file under [programs] {daemon.setting}"
    )


#: Enough for a few ports of one queue at an MTU of 1500.
LEAST_MIB = 256
#: What is not packet buffers: rings, flow tables, the virtual devices' own.
OTHER_MIB = 96
#: OVS gives all ports of one MTU a pool of 262144 buffers, or half of that and so on until it
#: fits; it refuses fewer than this.
LEAST_BUFFERS = 16384
#: A buffer beside its data: headroom, metadata, alignment.
BUFFER_OCTETS, DATA_GRAIN = 512, 1024
#: OVS's own ring of a port.
DEFAULT_DESCRIPTORS = 2048
STEP_MIB = 64
#: Longest sleep of an idle PMD on shared cores, microseconds; it gives its core to the tester.
PMD_SLEEP_US = 50


def dpdk_memory_mib(descriptors: int, mtu: int) -> int:
    """Hugepages of a daemon whose ports have so many descriptors together."""
    buffers = LEAST_BUFFERS
    while buffers < descriptors:
        buffers *= 2
    data = -(-(mtu + ETHERNET_OCTETS) // DATA_GRAIN) * DATA_GRAIN
    needed = OTHER_MIB + buffers * (BUFFER_OCTETS + data) // (1 << 20)
    return max(LEAST_MIB, -(-needed // STEP_MIB) * STEP_MIB)


def socket_memory(plan: Plan, mib: int, *, memif: bool) -> tuple[int, ...]:
    """Hugepage memory on each node: the pollers', and those where ports have their buffers.

    A NIC's are on its node, those of vhost beside the rings of a guest, and those of memif on one
    node wherever it is polled: its driver names none, and OVS and the driver itself then take that.
    """
    home, memory_mib = plan.placement.node, plan.scenario.options.memory_mib
    ports = [n.node for n in plan.nics if n.side == "dut" and not n.kernel and n.node >= 0]
    ports.append(plan.placement.vnf_home_node)
    ports += [dpdk.MEMIF_NODE] if memif else []
    count = 1 + max(home, *plan.placement.nodes, *ports, len(memory_mib) - 1)
    if memory_mib:
        return (*memory_mib, *(0,) * (count - len(memory_mib)))
    return tuple(mib if n in (home, *ports) else 0 for n in range(count))


def cpu_mask(cpus: tuple[int, ...]) -> str:
    """A set of processors as OVS takes it."""
    return hex(sum(1 << cpu for cpu in cpus))


def main_lcore(placement: Placement, pmds: tuple[int, ...], facts: MachineFacts | None) -> int:
    """Processor of DPDK's main thread: most virtual devices get their memory from its node.

    OVS gives that thread its other processors back once DPDK is initialised, so it may be a
    poller's.
    """
    if facts is None:
        return placement.housekeeping[0]
    local_cpus = {cpu.cpu for cpu in facts.cpus if cpu.node == placement.node}
    choice = [cpu for cpu in placement.housekeeping if cpu in local_cpus]
    return choice[0] if choice else pmds[0]


def dpdk_config(
    plan: Plan,
    facts: MachineFacts | None,
    pmds: tuple[int, ...],
    mib: int,
    *,
    memif: bool = False,
) -> dict[str, str]:
    """The Open_vSwitch table's other_config for a daemon with DPDK.

    `pmds` are processors of its poll-mode threads, `mib` hugepages on each node that it needs, and
    `memif` tells whether ports are such devices.
    """
    version = (
        parse_ovs_version(facts.versions.get(DPDK_DAEMON, ""))
        if facts is not None
        else SUPPORTED_OVS[0]
    )
    memory = socket_memory(plan, mib, memif=memif)
    config = {
        "dpdk-init": "true",
        "dpdk-lcore-mask": cpu_mask((main_lcore(plan.placement, pmds, facts),)),
        "pmd-cpu-mask": cpu_mask(pmds),
        "dpdk-socket-mem": ",".join(str(mib) for mib in memory),
        # Without a limit OVS takes every free hugepage of a node, and 0 is no limit.
        "dpdk-socket-limit": ",".join(str(mib or 1) for mib in memory),
        # Otherwise DPDK takes every NIC that it can, the tester's too. One that is plugged in
        # is taken by its address.
        "dpdk-extra": "-a 0000:00:00.0" if plan.wire == "nic" else "--no-pci",
    }
    if plan.placement.takes_turns("pmd") and version >= (3, 1):
        config["pmd-sleep-max" if version >= (3, 2) else "pmd-maxsleep"] = str(PMD_SLEEP_US)
    return config


#: Lines of "dpif-netdev/pmd-stats-show", and of "pmd-perf-show", with a count: OVS 2.17 to 4.0.
_PMD = re.compile(r"^pmd thread numa_id \d+ core_id (\d+):$", re.MULTILINE)
_PMD_ITERATIONS = re.compile(
    r"^pmd thread numa_id \d+ core_id (\d+):\n\s+Iterations: +(\d+) .*\n(?: +- (?!idle).*\n)*"
    r" +- idle iterations: +(\d+) ",
    re.MULTILINE,
)
_PMD_COUNT = re.compile(r"^  ([a-z][a-z ]*): (\d{1,20})(?: \([^()]*%\))?\r?$", re.MULTILINE)
LOOKUPS = {
    "phwol hits": "hardware offload",
    "simple match hits": "simple match",
    "emc hits": "exact match cache",
    "smc hits": "signature match cache",
    "megaflow hits": "megaflow",
    "miss with success upcall": "upcall",
    "miss with failed upcall": "failed upcall",
}


def parse_pmd_stats(text: str, perf: str = "") -> tuple[DatapathWork, ...]:
    """What PMD threads have counted, from the commands' texts; the main thread is left out."""
    rounds = {core: (int(a), int(b)) for core, a, b in _PMD_ITERATIONS.findall(perf)}
    text = text.partition("main thread:")[0]
    pieces = _PMD.split(text)
    work = []
    for core, block in zip(pieces[1::2], pieces[2::2], strict=True):
        counts = {name: int(count) for name, count in _PMD_COUNT.findall(block)}
        try:
            work.append(
                DatapathWork(
                    thread=f"core {core}",
                    packets=counts["packets received"],
                    busy_cycles=counts.get("processing cycles", 0),
                    idle_cycles=counts.get("idle cycles", 0),
                    polls=rounds[core][0] if core in rounds else None,
                    empty_polls=rounds[core][1] if core in rounds else None,
                    lookups={LOOKUPS[n]: count for n, count in counts.items() if n in LOOKUPS},
                )
            )
        except KeyError:
            raise DutError(
                f"no count of packets of the PMD thread on core {core}",
                where="dpif-netdev/pmd-stats-show",
            ) from None
    return tuple(work)


_PORT_LINE = re.compile(r"^\s*port \d+: (\S+)", re.MULTILINE)
_COUNTERS_LINE = re.compile(r"\b(RX|TX) packets:(\d+|\?).*?dropped:(\d+|\?)")


def parse_dpctl_show(text: str, names: Mapping[str, str]) -> tuple[HopCounters, ...]:
    """Counters from the command's text."""
    pieces = _PORT_LINE.split(text)
    hops = []
    for interface, block in zip(pieces[1::2], pieces[2::2], strict=True):
        if interface not in names:
            continue
        counts = {
            side: (parse_count(packets), parse_count(dropped))
            for side, packets, dropped in _COUNTERS_LINE.findall(block)
        }
        none = (None, None)
        (rx, rx_dropped), (tx, tx_dropped) = (counts.get(side, none) for side in ("RX", "TX"))
        if rx is None or tx is None:
            continue  # a port that is not counted is unknown, not empty
        hops.append(
            HopCounters(
                port=names[interface],
                rx=rx,
                tx=tx,
                rx_dropped=rx_dropped or 0,
                tx_dropped=tx_dropped or 0,
            )
        )
    return tuple(sorted(hops, key=lambda counters: counters.port))


class UnixCtl:
    """A connection to a control socket (JSON-RPC 1.0 over a stream)."""

    def __init__(self, path: str, timeout_s: float = 10.0) -> None:
        self.path = path
        self.timeout_s = timeout_s
        #: Called every `CHECK_S` while an answer is waited for; raises when none will come.
        self.check: Callable[[], None] = lambda: None
        self._socket: socket.socket | None = None
        self._number = 0

    def call(self, command: str, *parameters: str) -> str:
        """Run a command."""
        try:
            answer = self._exchange(command, parameters)
        except (OSError, ValueError) as error:
            self.close()
            raise DutError(f"no answer to {command}: {error}", where=self.path) from error
        except DutError:  # of the check: a late answer would be taken for the next one
            self.close()
            raise
        log.debug("%s: %s %s", Path(self.path).name, command, " ".join(parameters))
        if answer.get("error"):
            raise DutError(f"{command}: {answer['error']}", where=self.path)
        return str(answer["result"])

    def _exchange(self, command: str, parameters: tuple[str, ...]) -> dict[str, Any]:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            self._socket.settimeout(patient(self.timeout_s))
            self._socket.connect(self.path)
        self._number += 1
        request = {"id": self._number, "method": command, "params": list(parameters)}
        self._socket.sendall(json.dumps(request).encode())
        text = b""
        while True:
            piece = receive(self._socket, 65536, patient(self.timeout_s), self.check)
            if not piece:
                raise OSError("the daemon closed the connection")
            text += piece
            with contextlib.suppress(ValueError):  # not whole yet
                answer: dict[str, Any] = parse_json(text)
                return answer

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class PrivateOvs:
    """An OVS whose database, sockets and logs live in a directory of the run.

    Args:
        machine: The machine.
        vswitchd: Path of the daemon.
        ovsdb_server: Path of the database server.
        name: Name of the directory.
        netns: Where its interfaces and its datapath are; None for the run's network namespace.
    """

    def __init__(
        self,
        machine: Machine,
        vswitchd: str,
        ovsdb_server: str,
        *,
        name: str = "ovs",
        netns: Path | None = None,
    ) -> None:
        self.machine = machine
        self.netns = netns
        self.directory = machine.subdir(name)
        self.vswitchd = vswitchd
        self.ovsdb_server = ovsdb_server
        self.env = {
            "OVS_RUNDIR": str(self.directory),
            "OVS_DBDIR": str(self.directory),
            "OVS_LOGDIR": str(self.directory),
            # DPDK puts its runtime files here instead of /var/run/dpdk.
            "RUNTIME_DIRECTORY": str(self.directory),
        }
        self.db_process: ManagedProcess | None = None
        self.switch_process: ManagedProcess | None = None
        self._control = UnixCtl(self.control("vswitchd"))
        self._control.check = self.check_alive

    @property
    def db(self) -> str:
        """Connection of the database server."""
        return f"unix:{self.directory}/db.sock"

    def control(self, program: str) -> str:
        """Control socket of a daemon, short and known before it starts."""
        return str(self.directory / f"{program}.ctl")

    def start_database(self) -> None:
        """Create an empty database and serve it; what an earlier start left is removed."""
        for pattern in LEFTOVERS:
            for leftover in self.directory.glob(pattern):
                leftover.unlink(missing_ok=True)
        built_schema = Path(self.vswitchd).parent.parent / "share/openvswitch/vswitch.ovsschema"
        schema = next((s for s in (str(built_schema), *SCHEMAS) if Path(s).exists()), None)
        if schema is None:
            raise DutError(
                "the OVS database schema is missing",
                where=" or ".join(SCHEMAS),
                cure="install the package openvswitch-common",
            )
        file = str(self.directory / "conf.db")
        self.tool("ovsdb-tool", "create", file, schema)
        self.db_process = self.machine.spawn(
            "ovsdb-server",
            [
                self.ovsdb_server,
                file,
                f"--remote=p{self.db}",
                f"--unixctl={self.control('ovsdb')}",
                "--no-chdir",
                "-vconsole:warn",
            ],
            env=self.env,
        )
        path = self.directory / "db.sock"
        self.db_process.wait_for(
            lambda: _listens(path), timeout_s=10, description="ovsdb-server's socket"
        )
        self.vsctl("--no-wait", "init")

    def switch_argv(self) -> list[str]:
        """Launch line of the daemon."""
        return [
            self.vswitchd,
            self.db,
            f"--unixctl={self.control('vswitchd')}",
            "--no-chdir",
            "-vconsole:info",
        ]

    def configure(self, config: Mapping[str, str]) -> None:
        """Set the Open_vSwitch table's other_config before the daemon starts."""
        settings = [f"other_config:{key}={json.dumps(value)}" for key, value in config.items()]
        if settings:
            self.vsctl("--no-wait", "set", "Open_vSwitch", ".", *settings)

    def start_switch(
        self, ready: Callable[[], bool], description: str, cure: str, timeout_s: float = 60.0
    ) -> None:
        """Start ovs-vswitchd in its network namespace and wait until it is ready."""
        self.switch_process = self.machine.spawn(
            "ovs-vswitchd",
            self.switch_argv(),
            env=self.env,
            netns=self.netns,
        )
        process = self.switch_process
        wait_for(
            ready,
            timeout_s,
            description,
            poll_s=0.05,
            check=self.check_alive,
            error=lambda: DutError(
                f"{description} is not initialised after {timeout_s:.0f} s; log ends with:\n"
                + process.log_tail(15),
                where="ovs-vswitchd",
                cure=cure,
            ),
        )

    def start_dpdk(self) -> None:
        """Start a daemon with DPDK and wait until that is initialised."""
        self.start_switch(
            lambda: self.vsctl("get", "Open_vSwitch", ".", "dpdk_initialized").strip() == "true",
            "DPDK",
            cure="see the log above; not enough free hugepages is the usual cause",
        )

    def pollers(self) -> tuple[Pollers, ...]:
        """Its poll-mode threads, which are called pmd-cNN/id:N."""
        if self.switch_process is None:
            return ()
        return (Pollers(role="pmd", pid=self.switch_process.pid, thread_prefix="pmd-c"),)

    def pmd_work(self) -> tuple[DatapathWork, ...]:
        """Packets, cycles, lookups and rounds of each poll-mode thread."""
        counts = self.appctl("dpif-netdev/pmd-stats-show")
        return parse_pmd_stats(counts, self.appctl("dpif-netdev/pmd-perf-show", "-nh"))

    def dpdk_facts(self) -> dict[str, Any]:
        """DPDK's version, and which thread polls which queue."""
        version = self.vsctl("get", "Open_vSwitch", ".", "dpdk_version")
        placement = self.appctl("dpif-netdev/pmd-rxq-show").splitlines()
        shown = [line.strip() for line in self.appctl("dpctl/show").splitlines()]
        return {
            "dpdk": version.strip().strip('"'),
            "workers": sum(line.startswith("pmd thread") for line in placement),
            "rx queue placement": placement,
            "ports of the datapath": [line for line in shown if line.startswith("port ")],
        }

    def answers(self) -> bool:
        """Whether the daemon's control socket answers."""
        try:
            return bool(self.appctl("version"))
        except DutError:
            return False

    def install(self, bridge: str, rules: Iterable[str], count: int) -> int:
        """Make rules the only ones of a bridge."""
        file, installed = self.directory / f"{bridge}.rules", 0
        with file.open("w") as out:
            for rule in rules:
                out.write(rule + "\n")
                installed += 1
        target, timeout = f"unix:{self.directory}/{bridge}.mgmt", 15.0 + count / RULES_PER_S
        self.tool("ovs-ofctl", "del-flows", target)
        self.tool("ovs-ofctl", "add-flows", target, str(file), timeout=timeout)
        return installed

    def tool(self, *argv: str, timeout: float = 15.0) -> str:
        """Run one of OVS's tools against the private instance."""
        try:
            program = self.machine.facts.programs.get(argv[0]) or argv[0]
            return self.machine.run([program, *argv[1:]], env=self.env, timeout=timeout)
        except HostError as error:
            raise DutError(error.what, where=error.where or argv[0], cure=error.cure) from error

    def vsctl(self, *args: str, timeout: float = 15.0) -> str:
        """Run ovs-vsctl."""
        wait = f"--timeout={max(1, round(patient(timeout)))}"
        return self.tool("ovs-vsctl", f"--db={self.db}", wait, *args, timeout=timeout + 5)

    def appctl(self, *args: str) -> str:
        """Run a command of the daemon, as ovs-appctl does."""
        return self._control.call(*args)

    def interfaces(self, *columns: str) -> list[dict[str, Any]]:
        """Columns of each of its interfaces."""
        names = f"--columns={','.join(columns)}"
        text = self.vsctl("--format=json", names, "list", "Interface")
        answer = parse_json(text)
        return [
            dict(zip(answer["headings"], map(_plain_ovsdb_value, row), strict=True))
            for row in answer["data"]
        ]

    def add_interface(self, bridge: str, name: str, *settings: str, port: str = "") -> None:
        """Add an interface to a bridge; `port` is a setting of the port that it is."""
        of_port = (port,) if port else ()
        of_interface = ("--", "set", "Interface", name, *settings) if settings else ()
        self.vsctl("add-port", bridge, name, *of_port, *of_interface)
        self.check_port(name)

    def counters(self, names: Mapping[str, str]) -> tuple[HopCounters, ...]:
        """Counters of interfaces that stand for ports: interface -> port."""
        return parse_dpctl_show(self.appctl("dpctl/show", "-s"), names)

    def links_down(self, names: Mapping[str, str]) -> tuple[str, ...]:
        """Ports whose link is down, of interfaces that stand for them."""
        rows = self.interfaces("name", "link_state")
        states = {row["name"]: row["link_state"] for row in rows}
        return tuple(port for name, port in names.items() if states.get(name) != "up")

    def check_port(self, name: str) -> None:
        """Raise when a port is not there: ovs-vsctl succeeds all the same, the database has it."""
        self.check_alive()
        rows = self.interfaces("name", "error", "ofport")
        row = next((r for r in rows if r["name"] == name), None)
        if row is None or row["error"] or not isinstance(row["ofport"], int) or row["ofport"] < 0:
            process = self.switch_process
            tail = f"; log ends with:\n{process.log_tail(8)}" if process else ""
            reason = row["error"] if row and row["error"] else "it has no OpenFlow port"
            raise DutError(f"the switch refuses port {name}: {reason}{tail}", where="ovs-vswitchd")

    def check_alive(self) -> None:
        """Raise when a daemon has ended."""
        check_process(self.db_process, "ovsdb-server")
        check_process(self.switch_process, "ovs-vswitchd")

    def stop(self) -> None:
        """Stop both daemons, the switch first; what it made goes with it."""
        running = self.switch_process
        if running is not None and running.alive() and not running.stopped:
            with contextlib.suppress(DutError):  # it may be dying; SIGTERM does the rest
                self.appctl("exit", "--cleanup")  # a datapath in the kernel would stay
                wait_at_most(lambda: not running.alive(), EXIT_S, "the end of ovs-vswitchd")
        self._control.close()
        for process in (self.switch_process, self.db_process):
            if process is not None:
                process.stop(timeout_s=5.0)
        self.switch_process = self.db_process = None


def _plain_ovsdb_value(value: Any) -> Any:
    """OVSDB's tagged JSON (RFC 7047 section 5.1) as plain values."""
    if isinstance(value, list) and len(value) == 2:
        tag, content = value
        if tag == "map":
            return {key: _plain_ovsdb_value(item) for key, item in content}
        if tag == "set":
            return [_plain_ovsdb_value(item) for item in content]
        if tag == "uuid":
            return content
    return value


def _listens(path: Path) -> bool:
    """Whether somebody listens: the socket's file is there a little earlier."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0
