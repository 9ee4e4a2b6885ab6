"""A private Open vSwitch: its database server, its daemon and its ports.

All files are in a directory of the run, so that an OVS of the machine is not touched. vSwitches and
networks of pods have it in common.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from vnetperf.host.linux import parse_json
from vnetperf.host.machine import Machine
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.wait import patient, wait_at_most, wait_for
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.machine_load import DatapathWork
from vnetperf.model.scenario import Pollers
from vnetperf.model.trial import HopCounters
from vnetperf.openvswitch.control import UnixCtl, parse_dpctl_show, parse_pmd_stats
from vnetperf.plugin.backend import check_process

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
