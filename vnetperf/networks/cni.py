"""Pods that get their interfaces from CNI plugins, by a conflist of the user's.

The runtime (CNI specification 1.0) calls the plugins in the network namespace of the pod's host and
in a view of the file system of its own: what they write, is written into a folder of the run.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import AliasGenerator, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from vnetperf.config.files import SHIPPED, SYSTEM, is_file, read_user_text, validate
from vnetperf.config.settings import check_trusted
from vnetperf.host import links
from vnetperf.host.linux import (
    RUN_ID_VARIABLE,
    call_in_thread,
    keep_changes_in,
    parse_json,
    read_file,
    run_in,
    run_program,
    set_namespace,
)
from vnetperf.host.machine import Machine
from vnetperf.host.programs import EXTRA_PATH
from vnetperf.host.trust import explain_distrust
from vnetperf.host.wait import patient
from vnetperf.model.base import Frozen, text_like
from vnetperf.model.errors import ConfigError, DutError, did_you_mean
from vnetperf.model.scenario import ETHERNET_OCTETS, STANDARD_FRAME_SIZE, Plan, PodHosts, Scenario
from vnetperf.model.testbed import AbsolutePath, KernelModule, MachineFacts, Program, Testbed
from vnetperf.model.transfer import OCTETS_ADDED
from vnetperf.networks.bridge import BRIDGE_MODULE
from vnetperf.networks.macvlan import MACVLAN_MODULE, MODES, isolation_problem
from vnetperf.networks.vlan import VLAN_MODULE
from vnetperf.plugin.network import (
    TAG_OCTETS,
    Network,
    NetworkCapabilities,
    Pod,
    PodPort,
    pod_count,
)
from vnetperf.virt.pod_host import PROC_SYS, PodHost

log = logging.getLogger(__name__)

#: Where plugins are, the first counts: the specification's usual place, and Debian's.
PLACES = ("/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni")
#: Stands for the package with the plugins of the specification's authors.
PLUGINS = Program(
    name="cni-plugins",
    package="containernetworking-plugins",
    places=tuple(f"{folder}/host-local" for folder in PLACES),
    software="CNI plugins",
    by_make=True,
)
#: The conflist of a scenario that names none; ending of their files; folder of those shipped.
DEFAULT, ENDING, FOLDER = "bridge", ".conflist", "cni"
#: Versions of the specification that the runtime has; CHECK came with 0.4.0.
VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
WITHOUT_CHECK = VERSIONS[:2]
#: Longest time of one call of a plugin, seconds.
PLUGIN_S = 20.0
#: Folders that plugins may write to, each one of the run's own for them.
WRITABLE = (Path("/run"), Path("/tmp"), Path("/var/lib"), Path("/var/run"))  # noqa: S108 - its own
#: Version of the protocol whose networks have a broadcast address; addresses of the least network
#: that host-local takes; numbers of VLANs.
IPV4, LEAST_SUBNET, VLAN_IDS = 4, 4, 4095
#: What a conflist needs for rules of a packet filter, and plugins that write some.
IPTABLES = Program(name="iptables", package="iptables", version_args=("--version",), optional=True)
FILTERS = ("firewall", "portmap")
#: Plugins that change an interface, which one before them has made.
LATER = ("bandwidth", *FILTERS, "sbr", "tuning", "vrf")
VETH_MODULE = KernelModule(name="veth", purpose="veth pairs", symbol="veth_newlink", optional=True)


class PluginKind(NamedTuple):
    """What is known of a plugin that makes interfaces.

    Attributes:
        modules: Kernel modules that it needs.
        routed: Where packets between two pods are routed by their hosts.
        parent: Key of the host's interface that pods' are made on; "" for none.
        places: Where the second pod may be.
        added: Octets that frames between hosts are longer by; None for not known.
        most_on_host: Most pods that one host can have; None for any number.
    """

    modules: tuple[KernelModule, ...]
    routed: tuple[PodHosts, ...] = ()
    parent: str = ""
    places: tuple[PodHosts, ...] = ("same", "other")
    added: int | None = 0
    most_on_host: int | None = None


KINDS = {
    "bridge": PluginKind((BRIDGE_MODULE, VETH_MODULE), routed=("other",)),
    "ptp": PluginKind((VETH_MODULE,), routed=("same", "other")),
    "macvlan": PluginKind((MACVLAN_MODULE,), parent="master"),
    "vlan": PluginKind(
        (VLAN_MODULE,), parent="master", places=("other",), added=TAG_OCTETS, most_on_host=1
    ),
}
#: Any other plugin: it routes where --forwarding l3 is chosen.
OTHER = PluginKind((), added=None)


class _Keys(Frozen):
    """Keys are written as the specification has them; those of a plugin's own are kept."""

    model_config = ConfigDict(extra="allow", alias_generator=AliasGenerator(alias=to_camel))


Name = Annotated[
    str,
    text_like(
        r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", "letters, digits and _ . -, as in a file name", longest=60
    ),
]


class Ipam(_Keys):
    """The plugin that gives addresses.

    Attributes:
        type: File name of it; "" for no addresses.
    """

    type: Name | str = ""

    @model_validator(mode="after")
    def _plain(self) -> Ipam:
        if "/" in self.type:
            raise ValueError(f"{self.type!r} is no file name of a plugin")
        if self.type == "dhcp":
            raise ValueError(
                "type is 'dhcp', whose daemon has a socket that plugins of a run do not reach; "
                "choose host-local or static"
            )
        if self.type == "host-local" and self.addresses is None:
            raise ValueError('host-local needs ranges: [[{"subnet": "10.9.0.0/16"}]]')
        return self

    @property
    def addresses(self) -> int | None:
        """Pods that host-local has addresses for; None where unknown, ValueError for bad ranges."""
        keys = self.model_extra or {}
        ranges = keys.get("ranges") or []
        if not isinstance(ranges, list) or not all(
            isinstance(range_set, list) for range_set in ranges
        ):
            raise ValueError(f"ranges: {ranges!r} is no list of lists of tables")
        sets = [*([[keys]] if "subnet" in keys else []), *ranges]
        if self.type != "host-local" or not sets:
            return None
        return min(
            sum(
                _range_size(address_range, f"ranges.{n}.{m}")
                for m, address_range in enumerate(ranges)
            )
            for n, ranges in enumerate(sets)
        )


class Plugin(_Keys):
    """One plugin of a conflist.

    Attributes:
        type: File name of its program.
        mtu: MTU of the pod's interface; 0 for the kernel's own.
        capabilities: What it takes from the runtime: "mac", "ips".
        ipam: What gives it addresses.
    """

    type: Name
    mtu: Annotated[int, Field(ge=0, le=65535)] = 0
    capabilities: dict[str, bool] = Field(default_factory=dict)
    ipam: Ipam = Ipam()

    @model_validator(mode="after")
    def _possible(self) -> Plugin:
        keys = self.model_extra or {}
        if self.type == "macvlan" and (mode := keys.get("mode", "")) not in ("", *MODES):
            raise ValueError(f"mode is {mode!r}; accepted: {', '.join(MODES)}")
        if self.type == "bridge" and len(str(keys.get("bridge", ""))) > links.MAX_NAME:
            raise ValueError(f"bridge has a name of more than {links.MAX_NAME} characters")
        if self.type == "bridge" and keys.get("hairpinMode") and keys.get("promiscMode"):
            raise ValueError("a bridge has hairpinMode or promiscMode, not both")
        if self.type == "vlan" and keys.get("vlanId", 0) not in range(VLAN_IDS):
            raise ValueError(f"vlanId is {keys['vlanId']!r}; accepted: 0 to {VLAN_IDS - 1}")
        if self.type in ("ptp", "vlan") and not self.ipam.type:
            raise ValueError(f"{self.type} takes addresses, and there is no ipam with a type")
        return self

    @property
    def mode(self) -> str:
        """Mode of a macvlan; "" for the plugin's own choice."""
        return str((self.model_extra or {}).get("mode", "")) if self.type == "macvlan" else ""

    @property
    def filters(self) -> bool:
        """Whether it writes rules of iptables: newer plugins can take nftables for it."""
        keys = self.model_extra or {}
        if keys.get("ipMasq") and keys.get("ipMasqBackend", "iptables") == "iptables":
            return True
        return self.type in FILTERS and keys.get("backend", "iptables") == "iptables"


class Conflist(_Keys):
    """A network configuration list (CNI specification 1.1, section 1).

    Attributes:
        cni_version: Version of the specification that it is written for.
        name: Name of the network.
        disable_check: True when the plugins are not to be called with CHECK.
        plugins: In the order in which they are called.
    """

    cni_version: str
    name: Name
    disable_check: bool = False
    plugins: Annotated[tuple[Plugin, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _possible(self) -> Conflist:
        if self.cni_version not in VERSIONS:
            raise ValueError(f"cniVersion is {self.cni_version!r}; accepted: {', '.join(VERSIONS)}")
        if self.first.type in LATER:
            raise ValueError(
                f"plugins.0.type: {self.first.type} changes the interface that a plugin before it "
                "makes; it cannot be the first"
            )
        on_parent = {p.type for p in self.plugins if find_kind(p.type).parent or p.type == "ipvlan"}
        if len(on_parent) > 1:
            raise ValueError(
                f"plugins {' and '.join(sorted(on_parent))} cannot share an interface of the host"
            )
        for number, plugin in enumerate(self.plugins[1:], 1):
            if plugin.type in KINDS:
                raise ValueError(
                    f"plugins.{number}.type: {plugin.type} makes the pod's interface, which the "
                    f"first, {self.first.type}, has made"
                )
        return self

    @property
    def first(self) -> Plugin:
        """The plugin that makes the pod's interface."""
        return self.plugins[0]

    @property
    def commands(self) -> tuple[str, ...]:
        """What its plugins are called with, in this order."""
        checked = not self.disable_check and self.cni_version not in WITHOUT_CHECK
        return ("ADD", "CHECK", "DEL") if checked else ("ADD", "DEL")

    @property
    def types(self) -> dict[str, str]:
        """File names of all plugins, those for addresses too, and the key that first names each."""
        keys_by_type: dict[str, str] = {}
        for number, plugin in enumerate(self.plugins):
            keys_by_type.setdefault(plugin.type, f"plugins.{number}.type")
            if plugin.ipam.type:
                keys_by_type.setdefault(plugin.ipam.type, f"plugins.{number}.ipam.type")
        return keys_by_type


def _range_size(address_range: Any, where: str) -> int:
    """How many addresses host-local gives of a range: neither its gateway's nor a broadcast."""
    try:
        if not isinstance(address_range, dict):
            raise TypeError(f"{address_range!r} is no table; ranges are lists of lists of tables")
        subnet = ip_network(address_range["subnet"])
        if subnet.num_addresses < LEAST_SUBNET:
            raise ValueError(f"{subnet} is too small")
        first, last = subnet[1], subnet[-2 if subnet.version == IPV4 else -1]
        ends = [
            ip_address(address_range.get(*end))
            for end in (("rangeStart", first), ("rangeEnd", last))
        ]
        kept = ip_address(address_range.get("gateway", first))
        if not all(end in subnet for end in ends):
            raise ValueError(f"rangeStart {ends[0]} and rangeEnd {ends[1]} are not in {subnet}")
    except KeyError as error:
        raise ValueError(f"{where}: there is no {error.args[0]}") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error
    start, end = map(int, ends)
    if start > end:
        raise ValueError(f"{where}: rangeStart {ends[0]} is after rangeEnd {ends[1]}")
    return end - start + 1 - (start <= int(kept) <= end)


def find_kind(plugin: str) -> PluginKind:
    """What is known of a plugin."""
    return KINDS.get(plugin, OTHER)


#: File that this process has read a conflist from, for messages: a plan has what is in it.
_READ: dict[str, str] = {}


def read_conflist(value: Any) -> Any:
    """A conflist as JSON has it, from the path of one or the name of one that is shipped."""
    if value is None or isinstance(value, Mapping):
        where, content = "conflist", value
    else:
        path = _conflist_file(str(value))
        where = str(path)
        try:
            if path.exists() and not path.is_file():  # a pipe would be waited for
                raise OSError(errno.EINVAL, "it is no regular file")
            content = parse_json(read_user_text(path))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"cannot be read: {reason}", where=where, accepted="JSON") from error
        check_trusted(path, "what this conflist names")
    if content is None:
        return None
    if not isinstance(content, Mapping):
        raise ConfigError("is no JSON object", where=where, accepted="a CNI conflist")
    validate(Conflist, content, where)
    if where != "conflist":
        _READ[json.dumps(content, sort_keys=True)] = where
    return dict(content)


def _conflist_file(name: str) -> Path:
    if "/" in name or name.endswith(ENDING):
        return Path(name).expanduser().absolute()
    folders = (SYSTEM / FOLDER, SHIPPED / FOLDER)
    for folder in folders:
        if is_file(folder / f"{name}{ENDING}"):
            return folder / f"{name}{ENDING}"
    names = sorted({path.stem for folder in folders for path in folder.glob(f"*{ENDING}")})
    raise ConfigError(
        f"unknown name {name!r}{did_you_mean(name, names)}",
        where="conflist",
        accepted=f"{', '.join(names)}, or the path of a conflist",
    )


class CniOptions(Frozen):
    """Options of pods by CNI.

    Attributes:
        conflist: CNI network configuration list of `bmp2bmp_cni`: a path, or the name of one below
            `conf/cni/`. Left out: `bridge`. See [container networks](networks.md#cni-any-conflist).
    """

    conflist: Annotated[dict[str, Any] | None, BeforeValidator(read_conflist)] = None


class CniSection(Frozen):
    """The table [cni] of a testbed file.

    Attributes:
        path: Absolute paths of folders with CNI plugins, root's, in the order of the search; see
            [container networks](networks.md#cni-any-conflist).
    """

    path: tuple[AbsolutePath, ...] = PLACES


def look_into(folders: Iterable[str], names: Sequence[str] = ()) -> dict[str, dict[str, str]]:
    """What is in folders of plugins, all or some: why root starts it not, "" where it does."""
    refusals: dict[str, dict[str, str]] = {}
    for folder in map(Path, folders):
        files = sorted(folder.iterdir()) if folder.is_dir() else ()
        refusals[str(folder)] = {
            file.name: explain_distrust(file, only_root=True)
            or ("" if os.access(file, os.X_OK) else f"{file} is not executable")
            for file in files
            if file.is_file() and (not names or file.name in names)
        }
    return refusals


def plugin_problem(plugin: str, refusals: Mapping[str, Mapping[str, str]]) -> str:
    """What keeps a plugin from being started, with the cure; "" when nothing does.

    `refusals` is what is in the folders, by `look_into`: the first that has the plugin counts.
    """
    folder = next((folder for folder, files in refusals.items() if plugin in files), None)
    if folder is None:
        return (
            f"there is no CNI plugin {plugin!r} in {', '.join(refusals) or 'no folder'}; install "
            f"it there (Debian's are in the package {PLUGINS.package}), or name its folder in the "
            "testbed file: path under [cni]"
        )
    if reason := refusals[folder][plugin]:
        return (
            f"CNI plugin {plugin!r} is not started as root: {reason}; it has to be a program that, "
            "with all folders above it, only root may write to"
        )
    return ""


class CniRuntime:
    """Calls the plugins of conflists, which it finds in `folders`, and keeps their answers."""

    def __init__(self, machine: Machine, folders: Sequence[str]) -> None:
        self._machine = machine
        self._folders = tuple(folders)
        self._state = machine.subdir("cni")
        self._cache = machine.subdir("cni-results")

    def find(self, plugin: str) -> Path:
        """The program of a plugin, which only root can have put there."""
        # Once pods start, what the first folder has is all that counts, and takes the least time.
        first = [folder for folder in self._folders if (Path(folder) / plugin).is_file()][:1]
        refusals = look_into(first or self._folders, (plugin,))
        if reason := plugin_problem(plugin, refusals):
            raise DutError(reason, where="CNI")
        return next(Path(folder) / plugin for folder, files in refusals.items() if plugin in files)

    def add(
        self,
        conflist: Mapping[str, Any],
        attachment: CniAttachment,
        capabilities: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Call all plugins with ADD: the last one's result; a failure is undone with DEL.

        `capabilities` has values of capabilities: "mac", "ips".
        """
        result: dict[str, Any] | None = None
        record = {"conflist": dict(conflist), "capabilities": dict(capabilities)}
        try:
            for plugin in conflist["plugins"]:
                config = make_request(conflist, plugin, capabilities, result)
                result = self._call("ADD", plugin["type"], config, attachment)
            if result is None or not isinstance(result.get("interfaces") or [], list):
                raise DutError("ADD has no result", where=f"CNI network {conflist['name']}")
        except BaseException:
            self._cache_file(attachment).write_text(json.dumps({**record, "result": None}))
            self.delete(attachment, forgiving=True)
            raise
        self._cache_file(attachment).write_text(json.dumps({**record, "result": result}))
        return result

    def check(self, attachment: CniAttachment) -> None:
        """Call all plugins with CHECK, which say whether the interface is as they made it."""
        kept = self._cached(attachment)
        conflist = kept["conflist"]
        if "CHECK" not in Conflist.model_validate(conflist).commands:
            return
        for plugin in conflist["plugins"]:
            config = make_request(conflist, plugin, kept["capabilities"], kept["result"])
            self._call("CHECK", plugin["type"], config, attachment)

    def delete(self, attachment: CniAttachment, *, forgiving: bool = False) -> None:
        """Call all plugins with DEL, the last one first; all are called, whatever one answers."""
        if not self._cache_file(attachment).is_file():
            return
        kept = self._cached(attachment)
        failed: list[DutError] = []
        for plugin in reversed(kept["conflist"]["plugins"]):
            config = make_request(kept["conflist"], plugin, kept["capabilities"], kept["result"])
            try:
                self._call("DEL", plugin["type"], config, attachment)
            except DutError as error:
                failed.append(error)
        self._cache_file(attachment).unlink()
        for failure in failed:
            log.warning("%s", failure)
        if failed and not forgiving:
            raise failed[0]

    def _cache_file(self, attachment: CniAttachment) -> Path:
        return self._cache / f"{attachment.container}-{attachment.interface}.json"

    def _cached(self, attachment: CniAttachment) -> dict[str, Any]:
        record: dict[str, Any] = parse_json(read_file(self._cache_file(attachment)))
        return record

    def _call(
        self, command: str, plugin: str, config: Mapping[str, Any], attachment: CniAttachment
    ) -> dict[str, Any] | None:
        program, where = self.find(plugin), f"CNI plugin {plugin}, {command}"
        environment = {
            "PATH": EXTRA_PATH,
            RUN_ID_VARIABLE: self._machine.run_id,
            "XTABLES_LOCKFILE": "/run/xtables.lock",
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": attachment.container,
            "CNI_NETNS": str(attachment.sandbox),
            "CNI_IFNAME": attachment.interface,
            # A plugin that starts others finds only what root has put there, too.
            "CNI_PATH": ":".join(
                folder
                for folder in self._folders
                if Path(folder).is_dir() and not explain_distrust(Path(folder), only_root=True)
            ),
        }

        def call() -> subprocess.CompletedProcess[str]:
            keep_changes_in(self._state, WRITABLE, visible=self._machine.run_dir)
            set_namespace(attachment.host)
            return run_program(
                [str(program)],
                patient(PLUGIN_S),
                input=json.dumps(config),
                env=environment,
                cwd="/",
            )

        try:
            done = call_in_thread(call)
        except subprocess.TimeoutExpired as error:
            raise DutError(f"did not end within {PLUGIN_S:g} s", where=where) from error
        except (OSError, UnicodeDecodeError) as error:
            raise DutError(f"cannot be run: {error}", where=where) from error
        log.info(
            "CNI %s of %s for %s: status %d", command, plugin, attachment.container, done.returncode
        )
        return read_answer(done, command, where)


class CniAttachment(NamedTuple):
    """A pod's interface on a CNI network; plugins are called in its host's network namespace."""

    container: str
    interface: str
    sandbox: Path
    host: Path


def make_request(
    conflist: Mapping[str, Any],
    plugin: Mapping[str, Any],
    capabilities: Mapping[str, Any],
    result: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Make what a plugin reads (section 3: the derived configuration).

    Args:
        conflist: The whole list.
        plugin: Its own entry in it.
        capabilities: Values of capabilities: "mac", "ips".
        result: The result of the plugin before it; None for the first one.
    """
    base = {key: value for key, value in plugin.items() if key != "capabilities"}
    names = [
        name for name, on in plugin.get("capabilities", {}).items() if on and name in capabilities
    ]
    request = {**base, "cniVersion": conflist["cniVersion"], "name": conflist["name"]}
    if names:
        request["runtimeConfig"] = {name: capabilities[name] for name in names}
    if result is not None:
        request["prevResult"] = result
    return request


def read_answer(
    done: subprocess.CompletedProcess[str], command: str, where: str
) -> dict[str, Any] | None:
    """Read what a plugin has answered to a command; None when it has written nothing.

    Raises:
        DutError: It has failed, or ADD has no result.
    """
    try:
        answer = parse_json(done.stdout) if done.stdout.strip() else None
    except ValueError:
        answer = None
    if done.returncode:
        said = answer if isinstance(answer, dict) else {}
        parts = [said.get("msg"), said.get("details")]
        text = ": ".join(str(part) for part in parts if part)
        text = text or (done.stderr or done.stdout).strip()[-500:] or "no message"
        raise DutError(f"failed with status {done.returncode}: {text}", where=where)
    if command == "ADD" and not isinstance(answer, dict):
        raise DutError(
            f"answered {done.stdout.strip()[:200]!r} instead of a result in JSON", where=where
        )
    return answer


class CniNetwork(Network):
    """Whatever a conflist makes; the deployment adds routes of test addresses between hosts."""

    name: ClassVar[str] = "cni"
    programs: ClassVar[tuple[Program, ...]] = (PLUGINS, IPTABLES, *Network.programs)
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = tuple(
        module.model_copy(update={"optional": True})
        for module in (BRIDGE_MODULE, MACVLAN_MODULE, VLAN_MODULE)
    )
    Options: ClassVar[type[Frozen]] = CniOptions
    Section: ClassVar[type[Frozen]] = CniSection
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(
        port="veth", routed=("same", "other")
    )
    path: ClassVar[str] = "what the conflist makes, hosts' link, what the conflist makes"

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self._content = load_content(self.plan.scenario)
        self._conflist = Conflist.model_validate(self._content)
        self._runtime: CniRuntime | None = None
        self._sandboxes: dict[int, Path] = {}
        self._attached: dict[int, CniAttachment] = {}
        #: What the plugins have answered, by pod.
        self._results: dict[int, dict[str, Any]] = {}

    @property
    def runtime(self) -> CniRuntime:
        """The runtime of this deployment."""
        if self._runtime is None:
            self._runtime = CniRuntime(self.machine, self.section.path)
        return self._runtime

    @classmethod
    def external_program(cls, testbed: Testbed, path: str) -> str:
        """A plugin that is known, from the first folder that has one; else what was found."""
        if testbed.programs.get(PLUGINS.setting):
            return path
        names = ("host-local", *KINDS)
        paths = (
            shutil.which(f"{folder}/{n}")
            for folder in cls.read_section(testbed).path
            for n in names
        )
        return next(filter(None, paths), path)

    @classmethod
    def find_problem(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps the conflist from being run: what it says itself, then what a machine has."""
        content, conflist = load_content(scenario), load_conflist(scenario)
        name = _READ.get(json.dumps(content, sort_keys=True), f"conflist {conflist.name}")
        if reason := next(_whys_not(conflist, scenario), ""):
            return f"{name}: {reason}"
        if facts.confinement:
            return f"CNI plugins are kept from the machine's files: {facts.confinement}"
        needs = [facts.missing_program(PLUGINS)] if {*conflist.types} & {*KINDS} else []
        needs += [
            facts.missing_module(m) for p in conflist.plugins for m in find_kind(p.type).modules
        ]
        if any(plugin.filters for plugin in conflist.plugins):
            needs.append(facts.missing_program(IPTABLES))
        if refusals := facts.seen.get(cls.name):
            missed = ((key, plugin_problem(p, refusals)) for p, key in conflist.types.items())
            needs += [f"{name}: {key}: {reason}" for key, reason in missed if reason]
        return next((text for text in needs if text), "")

    @classmethod
    def look(cls, testbed: Testbed) -> dict[str, dict[str, str]]:
        """The plugins that there are, by folder: conflists name any of them."""
        return look_into(cls.read_section(testbed).path)

    @classmethod
    def routed_places(cls, scenario: Scenario) -> tuple[PodHosts, ...]:
        """Known of plugins that are; of any other where routing is chosen."""
        kind = find_kind(load_conflist(scenario).first.type)
        return cls.capabilities.routed if kind is OTHER and scenario.routed else kind.routed

    @classmethod
    def pod_mtu(cls, scenario: Scenario) -> int:
        """As the conflist has it; a veth pair has 1500 otherwise, an interface its parent's."""
        first = load_conflist(scenario).first
        default = STANDARD_FRAME_SIZE - ETHERNET_OCTETS
        usual = scenario.mtu if find_kind(first.type).parent else default
        return min(first.mtu or usual, scenario.mtu)

    def prepare(self, host: PodHost) -> None:
        """Load what the plugins need, and see that all are there."""
        for plugin in self._conflist.plugins:
            for module in find_kind(plugin.type).modules:
                self.machine.load_module(module)
        for name in self._conflist.types:
            self.runtime.find(name)

        def be_quiet() -> None:  # no neighbour discovery from what plugins make
            with_ipv6 = PROC_SYS / "net/ipv6/conf/default/disable_ipv6"
            if with_ipv6.exists():
                with_ipv6.write_text("1\n")

        run_in(host.netns, be_quiet)

    def attach(self, host: PodHost, pod: Pod) -> PodPort:
        """ADD and CHECK in a namespace of the pod's own; the tester then takes the interface."""
        number = pod.port.vnf
        if number in self._results and self.is_plugged(pod):
            return self._plug_in(host, pod, self._results[number])
        if number not in self._sandboxes:
            self._sandboxes[number] = self.machine.subdir(f"pod{number}") / "sandbox"
            self.machine.create_netns(self._sandboxes[number])
        attachment = CniAttachment(
            f"{self.machine.run_id}-pod{number}", pod.netdev, self._sandboxes[number], host.netns
        )
        capabilities = {"mac": pod.mac, "ips": [f"{pod.address}/{pod.network.partition('/')[2]}"]}
        content = dict(self._content)
        content["plugins"] = [_on_link(p, host.uplink) for p in content["plugins"]]
        result = self.runtime.add(content, attachment, capabilities)
        self._attached[number], self._results[number] = attachment, result
        self.runtime.check(attachment)
        links.move(pod.netdev, self.machine.netns, netns=attachment.sandbox)
        links.make_ready(pod.netdev, self.machine.netns, offloads=self.offloads)
        self.machine.set_link(pod.netdev, mac=pod.mac)
        return self._plug_in(host, pod, result)

    def _plug_in(self, host: PodHost, pod: Pod, result: dict[str, Any]) -> PodPort:
        """Route packets to a pod, where they are routed: its interface is there."""
        link = self.machine.link(pod.netdev)
        gateway, far = "", next(find_host_interfaces(result), "")
        if self.routes:
            if not far:
                raise DutError(
                    "the result names no interface of the host, and packets are to be routed there",
                    where=f"CNI network {self._conflist.name}",
                    cure="leave --forwarding out",
                )
            gateway = pod.gateway_mac
            host.set_mac(far, gateway)
        port = PodPort(
            pod=pod, host=host.number, kind=link.kind, mtu=link.mtu, gateway=gateway, far=far
        )
        if self.routes:
            self.route_pod(host, port, far)
        return port

    def detach(self, host: PodHost, port: PodPort) -> None:
        """Give the pod its interface back, and call DEL; after `stop`, which did, delete it."""
        attachment = self._attached.pop(port.pod.port.vnf, None)
        self._results.pop(port.pod.port.vnf, None)
        if attachment is None:
            super().detach(host, port)
            return
        links.move(attachment.interface, attachment.sandbox, netns=self.machine.netns)
        self.runtime.delete(attachment)
        # A plugin may leave it to the namespace's end.
        links.delete(attachment.interface, netns=attachment.sandbox)

    def remove(self, hosts: Sequence[PodHost]) -> None:
        """Call DEL for all pods, whose interfaces stay with whoever has them open."""
        failed = []
        while self._attached:
            try:
                self.runtime.delete(self._attached.popitem()[1])
            except DutError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def describe(self) -> dict[str, Any]:
        """The conflist, its programs, and what they have answered."""
        conflist, common = self._conflist, super().describe()
        added = find_kind(conflist.first.type).added
        del common[OCTETS_ADDED]
        return {
            **common,
            **({} if added is None else {OCTETS_ADDED: added}),
            "launch line": f"CNI {conflist.cni_version}: {', '.join(conflist.commands)}",
            "conflist": self._content,
            "plugins": {name: str(self.runtime.find(name)) for name in conflist.types},
            "results": {f"pod{n}": result for n, result in sorted(self._results.items())},
        }


def load_content(scenario: Scenario) -> dict[str, Any]:
    """The conflist of a scenario, as JSON has it."""
    configured = scenario.options.own(CniOptions).conflist
    content: dict[str, Any] = read_conflist(DEFAULT) if configured is None else configured
    return content


def load_conflist(scenario: Scenario) -> Conflist:
    """The conflist of a scenario."""
    return Conflist.model_validate(load_content(scenario))


def _whys_not(conflist: Conflist, scenario: Scenario) -> Iterator[str]:
    """Why a conflist joins no pods of a scenario, whatever the machine is: key and cure."""
    first, kind = conflist.first, find_kind(conflist.first.type)
    pods, hosts = pod_count(scenario), 2 if scenario.pod_hosts == "other" else 1
    for number, plugin in enumerate(conflist.plugins):
        if plugin.type == "ipvlan":
            yield (
                f"plugins.{number}.type: CNI plugin ipvlan is not run: its pods share the MAC "
                "address of the hosts' link, which a conflist cannot name; choose bmp2bmp_ipvlan"
            )
        has = plugin.ipam.addresses
        if has is not None and has < pods:
            yield (
                f"plugins.{number}.ipam: host-local has {has} address{'es' * (has != 1)} to give, "
                f"and there are {pods} pods; give it a larger range"
            )
    if scenario.pod_hosts not in kind.places:
        yield (
            f"plugins.0.type: CNI plugin {first.type} has one pod on each parent; "
            f"--hosts {kind.places[0]}"
        )
    if kind.most_on_host and pods > kind.most_on_host * hosts:
        yield (
            f"plugins.0.type: CNI plugin {first.type} has {kind.most_on_host} pod on a host; "
            f"choose --pods {kind.most_on_host * hosts}"
        )
    if reason := isolation_problem(first.mode or MODES[0], scenario):
        yield f"plugins.0.mode: {reason}"
    if first.mtu > scenario.mtu and kind is not OTHER and (kind.parent or hosts > 1):
        yield (
            f"plugins.0.mtu: {first.mtu} is more than the hosts' link has, {scenario.mtu}; "
            f"leave it out, or give the link as much: --set mtu={first.mtu}"
        )


def _on_link(plugin: Mapping[str, Any], uplink: str) -> dict[str, Any]:
    """A plugin's configuration with the hosts' link for the interface of the host that it names."""
    parent = find_kind(plugin["type"]).parent
    return {**plugin, parent: uplink} if parent else dict(plugin)


def find_host_interfaces(result: Mapping[str, Any]) -> Iterator[str]:
    """Find the names of the interfaces that a result has on the host."""
    interfaces = (
        interface for interface in result.get("interfaces") or () if isinstance(interface, Mapping)
    )
    return (
        str(interface["name"])
        for interface in interfaces
        if not interface.get("sandbox") and interface.get("name")
    )
