"""Pods on an overlay network of docker's swarm, whose nodes are daemons of the run.

Each host has a dockerd, with its own containerd, in its network namespace and in namespaces of
mounts and processes of its own: what both write is written into a folder of the run, and with the
first process of those namespaces all of them end. Docker makes the pod's interface for a container,
whose first process sleeps; the tester, or the pod's programs, then take the interface over.
"""

from __future__ import annotations

import http.client
import io
import json
import logging
import shutil
import socket
import tarfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode

from vnetperf.host import links
from vnetperf.host.linux import (
    RUN_ID_VARIABLE,
    UNSHARE,
    parse_json,
)
from vnetperf.host.machine import Machine
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.programs import EXTRA_PATH
from vnetperf.host.wait import patient, wait_for
from vnetperf.model.addresses import TEST_ADDRESSES
from vnetperf.model.errors import DutError
from vnetperf.model.frames import OVERHEAD
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts, Program
from vnetperf.networks.bridge import BRIDGE_MODULE
from vnetperf.networks.cni import IPTABLES, VETH_MODULE
from vnetperf.networks.vxlan import VXLAN_MODULE
from vnetperf.plugin.backend import check_process
from vnetperf.plugin.network import Network, NetworkCapabilities, Pod, PodPort
from vnetperf.virt.cri import CONTAINERD
from vnetperf.virt.oci import OWN, RUNC, journal_cgroups, shared_directories
from vnetperf.virt.pod_host import PodHost

log = logging.getLogger(__name__)

DOCKERD = Program(
    name="dockerd",
    package="docker.io",
    places=("dockerd", "/usr/sbin/dockerd", "/usr/bin/dockerd"),
    version_args=("--version",),
    software="docker",
    debian=("docker.io", "docker-ce"),
    by_make=True,
)
#: Without it docker makes no bridge that keeps containers apart, and each node has one. Bridges of
#: the machine's guests have nothing to do with that: their frames are to pass no iptables by it.
NETFILTER_MODULE = KernelModule(
    name="br_netfilter",
    purpose="docker's bridge of a node",
    symbol="br_nf_pre_routing",
    turns_on=tuple(f"net/bridge/bridge-nf-call-{family}tables" for family in ("ip", "ip6", "arp")),
)
MODULES = (BRIDGE_MODULE, VXLAN_MODULE, NETFILTER_MODULE)
#: What pods' addresses are in (RFC 2544 appendix C.2.2), and where in it docker may choose
#: addresses of its own: those of its gateway and of each node.
SUBNET = str(TEST_ADDRESSES.whole)
OWN_RANGE, GATEWAY = "198.19.254.0/24", "198.19.254.1"
#: The overlay, and the image of the pods, which has links to the machine's files and no others.
OVERLAY, IMAGE = "pods", "vnetperf-pod"
#: Docker's names of a container's first interface and of the bridge that each node has besides.
INTERFACE, NODE_BRIDGE = "eth0", "docker_gwbridge"
#: UDP port of the overlay, and the one that managers listen at.
VXLAN_PORT, MANAGER_PORT = 4789, 2377
#: Longest wait for a daemon's first answer, and for every later one, seconds.
READY_S, ANSWER_S = 30.0, 40.0
#: Longest wait for interfaces to go with what they were joined to, seconds.
GONE_S = 10.0
LOG_LINES = 12
#: What each program of a node is found by, in the node's own view.
_PATH = f"{OWN}/bin:{EXTRA_PATH}"
#: Folders that are the node's own, by their names in its folder.
_WRITABLE = {"etc": "/etc", "run": "/run", "lib": "/var/lib", "tmp": "/tmp"}  # noqa: S108 - its own
#: Makes that view: all is read-only but the node's own folders, settings of the network and what
#: the kernel has in /dev and of cgroups; no profile of a security module is loaded. Then it starts
#: the daemon, and ends it with its own standard input: what is first in a namespace of processes
#: keeps signals to itself.
#: Views of single pods (`OWN_VIEW` of virt/oci.py) leave all that pods do not see as it is: their
#: engines have settings that name every place they write to, and docker has not.
_VIEW = f"""set -e
while read -r _ _ _ _ at _; do
    at=$(printf %b "$at")  # a blank is \\040
    case $at in
    /proc*|/sys/fs/cgroup*|/dev*) ;;
    *) mount -o remount,bind,ro "$at" 2>&3 || true ;;
    esac
done 3>/dev/null </proc/self/mountinfo
mount --bind "$1" {OWN}
mount -o remount,bind,rw {OWN}
for own in {" ".join(f"{name}:{place}" for name, place in _WRITABLE.items())}; do
    mount --bind "{OWN}/${{own%%:*}}" "${{own#*:}}"
done
mount --bind /proc/sys /proc/sys
mount --bind /proc/sys/net /proc/sys/net
mount -o remount,bind,ro /proc/sys
if [ -d /sys/kernel/security ]; then mount -t tmpfs none /sys/kernel/security; fi
shift
"$@" </dev/null &
daemon=$!
exec 3<&0
{{ cat <&3 >/dev/null; kill -KILL $daemon; }} &
wait $daemon
"""


class _Connection(http.client.HTTPConnection):
    """A connection to a daemon's socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("docker", timeout=patient(ANSWER_S))
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class DockerNode:
    """A docker in the network namespace of one host: a node of the run's swarm."""

    def __init__(self, machine: Machine, host: PodHost) -> None:
        self.machine = machine
        self.name = f"docker{host.number}"
        self.address = host.address
        self.directory = machine.new_subdir(self.name)
        self._cgroups = journal_cgroups(machine, f"vnetperf-{machine.run_id}-{self.name}")
        self._lay_out()
        line = [*UNSHARE, "sh", "-c", _VIEW, self.name, str(self.directory), *self.argv()]
        self.process: ManagedProcess = machine.spawn(
            self.name, line, netns=host.netns, keep_stdin_open=True
        )

    @property
    def socket(self) -> Path:
        """Where its daemon answers, seen from outside."""
        return self.directory / "run/docker.sock"

    def argv(self) -> list[str]:
        """Launch line of the daemon, which starts its containerd; the environment is its own."""
        return [
            *("env", "-", f"PATH={_PATH}", f"{RUN_ID_VARIABLE}={self.machine.run_id}"),
            self.machine.facts.programs[DOCKERD.name],
            *("--config-file", f"{OWN}/daemon.json", "--data-root", f"{OWN}/data"),
            *("--exec-root", "/run/docker", "--pidfile", "/run/docker.pid"),
            *("--host", "unix:///run/docker.sock", "--group", "0", "--bridge", "none"),
            *("--storage-driver", "vfs", "--log-driver", "none"),
            *("--exec-opt", "native.cgroupdriver=cgroupfs"),
            *("--cgroup-parent", f"/vnetperf-{self.machine.run_id}-{self.name}"),
        ]

    def _lay_out(self) -> None:
        """Its folders: of the machine's settings it has the names of users and programs alone."""
        for name in (*_WRITABLE, "bin", "data"):
            (self.directory / name).mkdir()
        (self.directory / "daemon.json").write_text("{}\n")
        for name in ("passwd", "group", "alternatives", "ld.so.cache"):
            source, target = Path("/etc") / name, self.directory / "etc" / name
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True)
            elif source.is_file():
                shutil.copy(source, target)
        programs = self.machine.facts.programs
        for program in (CONTAINERD, RUNC, IPTABLES):
            (self.directory / "bin" / program.name).symlink_to(programs[program.name])
        # Modules are loaded by the run, which unloads them; the kernel loads those of rules itself.
        (self.directory / "bin/modprobe").symlink_to("/bin/true")

    def wait_ready(self) -> None:
        """Wait until the daemon answers."""
        refused = ""

        def answers() -> bool:
            nonlocal refused
            try:
                self.call("GET", "/_ping")
            except DutError as error:
                refused = error.what
                return False
            return True

        wait_for(
            answers,
            READY_S,
            f"{self.name}'s daemon",
            poll_s=0.05,
            check=self.check_alive,
            error=lambda: DutError(
                f"does not answer within {READY_S:g} s: {refused}; log ends with:\n"
                + self.process.log_tail(LOG_LINES),
                where=self.name,
                cure="free this machine of other work; see docs/networks.md for what docker needs",
            ),
        )

    def check_alive(self) -> None:
        """Raise when the daemon has ended."""
        check_process(self.process, self.name)

    def call(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        """Call the daemon (Docker Engine API); octets are sent as they are, all else as JSON."""
        self.check_alive()
        where = f"{self.name}: {method} {path}"
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        kind = "application/x-tar" if isinstance(body, bytes) else "application/json"
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            with closing(_Connection(self.socket)) as connection:
                connection.request(method, target, data, {"Content-Type": kind} if data else {})
                answer = connection.getresponse()
                text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.check_alive()
            raise DutError(f"no answer: {error}", where=where) from error
        log.debug("%s: status %d", where, answer.status)
        try:
            reply = parse_json(text) if text else None
        except ValueError:  # plain text, or several values
            reply = text.decode(errors="replace")
        if answer.status >= http.client.BAD_REQUEST:
            said = reply.get("message") if isinstance(reply, dict) else reply
            tail = self.process.log_tail(LOG_LINES)
            raise DutError(
                f"failed with status {answer.status}: {said}; log ends with:\n{tail}", where=where
            )
        return reply

    def begin_swarm(self) -> None:
        """Be the first node of a swarm, and its manager."""
        self.call("POST", "/swarm/init", {**self._swarm_address(), "DataPathPort": VXLAN_PORT})

    def join_swarm(self, manager: DockerNode) -> None:
        """Be a worker of a swarm; its token is in no log and on no command line."""
        token = manager.call("GET", "/swarm")["JoinTokens"]["Worker"]
        managers = [f"{manager.address}:{MANAGER_PORT}"]
        request = {**self._swarm_address(), "RemoteAddrs": managers, "JoinToken": token}
        self.call("POST", "/swarm/join", request)

    def _swarm_address(self) -> dict[str, str]:
        return {"ListenAddr": f"{self.address}:{MANAGER_PORT}", "AdvertiseAddr": self.address}

    def make_image(self) -> None:
        """Make the image of pods: no registry is asked."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for place in shared_directories()[0]:
                link = tarfile.TarInfo(str(place.relative_to("/")))
                link.type, link.linkname = tarfile.SYMTYPE, str(place.readlink())
                tar.addfile(link)
        reply = self.call("POST", "/images/create", packed.getvalue(), fromSrc="-", repo=IMAGE)
        if "errorDetail" in str(reply):  # the status was sent before
            raise DutError(f"the pods' image was not made: {reply}", where=self.name)

    def start_container(self, pod: Pod) -> Path:
        """Start a pod's container on the overlay, and return its network namespace."""
        name = f"pod{pod.port.vnf}"
        # Docker writes files of its own into /etc.
        directories = [place for place in shared_directories()[1] if place != Path("/etc")]
        container = {
            "Image": IMAGE,
            "Hostname": name,
            "Cmd": ["sleep", "infinity"],
            "Env": [f"{RUN_ID_VARIABLE}={self.machine.run_id}"],
            "MacAddress": pod.mac,  # of API versions before 1.44
            "HostConfig": {
                "NetworkMode": OVERLAY,
                "Binds": [f"{place}:{place}:ro" for place in directories],
                "ReadonlyRootfs": True,
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges"],
            },
            "NetworkingConfig": {
                "EndpointsConfig": {
                    OVERLAY: {"IPAMConfig": {"IPv4Address": pod.address}, "MacAddress": pod.mac}
                }
            },
        }
        self.call("POST", "/containers/create", container, name=name)
        self.call("POST", f"/containers/{name}/start")
        settings = self.call("GET", f"/containers/{name}/json")["NetworkSettings"]
        endpoint = settings["Networks"][OVERLAY]
        if (endpoint["IPAddress"], endpoint["MacAddress"]) != (pod.address, pod.mac):
            raise DutError(
                f"gave the pod {endpoint['IPAddress']} and {endpoint['MacAddress']} instead of "
                f"{pod.address} and {pod.mac}",
                where=f"{self.name}: {name}",
            )
        return Path(f"/proc/{self.process.pid}/root{settings['SandboxKey']}")

    def remove_container(self, number: int) -> None:
        """End a pod's container, which gives its address back to the swarm."""
        self.call("DELETE", f"/containers/pod{number}", force="true")

    def stop(self) -> None:
        """End the daemon with all that it has started."""
        self.process.stop()
        self._cgroups.undo()


class DockerOverlayNetwork(Network):
    """An attachable overlay of a swarm, with a node for each host with pods."""

    name: ClassVar[str] = "docker_overlay"
    programs: ClassVar[tuple[Program, ...]] = (*Network.programs, DOCKERD, IPTABLES)
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = MODULES
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(
        port="veth", overhead=OVERHEAD["vxlan"]
    )
    path: ClassVar[str] = "veth, docker's bridge, VXLAN, hosts' link, VXLAN, docker's bridge, veth"

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self._nodes: dict[int, DockerNode] = {}
        #: Network namespaces of the pods' containers, which docker gave their interfaces to.
        self._sandboxes: dict[int, Path] = {}

    @classmethod
    def find_problem(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps a swarm from being made; all is needed."""
        if scenario.options.offloads is False:
            return "docker makes its interfaces with their offloads; leave offloads out"
        needs = map(facts.missing_program, (CONTAINERD, RUNC, IPTABLES))
        return cls.missing_requirement(facts) or next((text for text in needs if text), "")

    @property
    def _manager(self) -> DockerNode:
        return self._nodes[min(self._nodes)]

    def prepare(self, host: PodHost) -> None:
        """Start the host's docker; the first begins the swarm and its overlay, the others join."""
        for module in (*MODULES, VETH_MODULE):
            self.machine.load_module(module)
        node = self._nodes[host.number] = DockerNode(self.machine, host)
        node.wait_ready()
        node.make_image()
        if node is not self._manager:
            node.join_swarm(self._manager)
            return
        node.begin_swarm()
        addresses = {"Subnet": SUBNET, "IPRange": OWN_RANGE, "Gateway": GATEWAY}
        overlay = {
            "Name": OVERLAY,
            "Driver": "overlay",
            "Attachable": True,
            "IPAM": {"Config": [addresses]},
            # Docker takes what VXLAN adds off it.
            "Options": {"com.docker.network.driver.mtu": str(self.plan.scenario.mtu)},
        }
        node.call("POST", "/networks/create", overlay)

    def attach(self, host: PodHost, pod: Pod) -> PodPort:
        """The interface of a container on the overlay, moved to where the tester is."""
        number = pod.port.vnf
        if not self.is_plugged(pod):
            sandbox = self._nodes[host.number].start_container(pod)
            self._sandboxes[number] = sandbox
            self._hand_over(INTERFACE, sandbox, pod.netdev, self.machine.netns)
            links.make_ready(pod.netdev, self.machine.netns, offloads=self.offloads)
        link = self.machine.link(pod.netdev)
        return PodPort(pod=pod, host=host.number, kind=link.kind, mtu=link.mtu)

    @staticmethod
    def _hand_over(name: str, source: Path, new_name: str, target: Path) -> None:
        """Move an interface into another namespace under another name."""
        links.set_up(name, up=False, netns=source)
        index = links.get(name, source).index
        links.request(name, source, "set", index=index, ifname=new_name)
        links.move(new_name, target, netns=source)

    def check_alive(self) -> None:
        """Raise when a daemon has ended."""
        for node in self._nodes.values():
            node.check_alive()
        super().check_alive()

    def describe(self) -> dict[str, Any]:
        """Version and launch lines of the daemons, nodes of the swarm, and the overlay."""
        version = self.machine.facts.versions.get(DOCKERD.name, "")
        facts: dict[str, Any] = {
            **super().describe(),
            "version": version.splitlines()[0] if version else "unknown",
            "launch line": {f"host{n}": " ".join(node.argv()) for n, node in self._nodes.items()},
        }
        if self._nodes:
            overlay = self._manager.call("GET", f"/networks/{OVERLAY}")
            nodes = self._manager.call("GET", "/nodes")
            facts["overlay"] = {key: overlay[key] for key in ("Driver", "IPAM", "Options")}
            facts["nodes of the swarm"] = {
                node["Status"]["Addr"]: f"{node['Spec']['Role']}, {node['Status']['State']}"
                for node in nodes
            }
        return facts

    def detach(self, host: PodHost, port: PodPort) -> None:
        """Give the container its interface back, and remove it; after `stop` it is gone."""
        sandbox = self._sandboxes.pop(port.pod.port.vnf, None)
        if sandbox is None:
            return
        self._hand_over(port.pod.netdev, self.machine.netns, INTERFACE, sandbox)
        self._nodes[host.number].remove_container(port.pod.port.vnf)

    def remove(self, hosts: Sequence[PodHost]) -> None:
        """End the daemons and their containers, whose interfaces end with them."""
        while self._nodes:
            number, node = self._nodes.popitem()
            node.stop()
            hosts[number].delete(NODE_BRIDGE)
        ending = {self.netdev(number) for number in self._sandboxes}
        self._sandboxes = {}
        # The kernel takes them away a moment after the namespaces of their other ends.
        wait_for(
            lambda: not ending & set(self.machine.link_statistics()),
            GONE_S,
            "the end of pods' interfaces",
        )
