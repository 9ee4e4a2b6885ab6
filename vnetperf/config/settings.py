"""Settings of a run.

Each is declared once: its type, its default, its docstring, and how it is typed. The options of
pytest and of the console script, the variables of the environment, `vnetperf show-config` and the
table of docs/configuration.md are made of that.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from vnetperf.config.files import (
    SHIPPED,
    SYSTEM,
    Model,
    find_file,
    load_model,
    read_toml,
    validate,
)
from vnetperf.host.trust import explain_distrust
from vnetperf.model.base import Frozen
from vnetperf.model.errors import ConfigError, accepted_names, did_you_mean, join_errors
from vnetperf.model.frame_change import FrameChange
from vnetperf.model.frames import AutoTunnel
from vnetperf.model.options import (
    DEFAULT_STACK,
    GuestOptions,
    MobileCore,
    MobileCoreOptions,
    SwitchOptions,
)
from vnetperf.model.preset import MOST_ROUNDS, FrameSizes
from vnetperf.model.profile import MOST_FLOWS
from vnetperf.model.scenario import Forwarding, PodHosts, PodKind, Rules, VnfPlacement
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import CHANGES
from vnetperf.model.transfer import (
    AUTO,
    MAX_INSTANCES,
    MAX_MESSAGE,
    MAX_PODS,
    MAX_RANKS,
    ServerPlace,
)
from vnetperf.model.trial import parse_capture
from vnetperf.model.units import parse_quantity, parse_time_s
from vnetperf.plugin import registry

ENV_PREFIX = "VNETPERF_"


def _numbers(text: str, key: str) -> tuple[int, ...]:
    """Whole numbers of octets from "64,512,1518"; 16K and 16 KiB are 16384."""
    numbers = []
    for part in _parts((text,), ","):
        quantity = parse_quantity(
            part.removesuffix("K") + (" KiB" if part[-1] == "K" else " octets")
        )
        quantity = parse_quantity(part) or quantity
        if quantity is None or quantity[1] != "octets" or not quantity[0].is_integer():
            which = "" if part == text.strip() else f": {part!r} is no number of octets"
            raise ConfigError(
                f"{text!r} is not a list of {key.replace('_', ' ')}{which}",
                where=key,
                accepted="whole numbers with commas, e.g. 64,512,1518",
            )
        numbers.append(int(quantity[0]))
    return tuple(numbers)


def _tests(text: str, key: str) -> tuple[str, ...]:
    """Tests from "throughput,latency", or "all"."""
    names = registry.test_names()
    if text.strip() == "all":
        return names
    tests = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in tests or ("",):
        if name not in names:
            raise ConfigError(
                f"{name!r} is not a test{did_you_mean(name, names)}",
                where=key,
                accepted=f"all, or a list of {', '.join(names)}",
            )
    return tests


def _testbeds(text: str, key: str) -> str:
    names = [part.strip() for part in text.split(",")]
    twice = [name for name in names if names.count(name) > 1]
    if not all(names) or twice:
        mistake = f"names {twice[0]} twice" if all(names) else "names a testbed without a name"
        raise ConfigError(
            f"{text!r} {mistake}", where=key, accepted="one name, or several: lab1,lab2,lab3"
        )
    return ",".join(names)


def _capture(text: str, key: str) -> str:
    parse_capture(text)
    return text


def _repeat(text: str, key: str) -> str:
    if text.removeprefix("-").isdecimal() and int(text) < 1:
        raise ConfigError(
            f"--{key} {text}: a case is deployed once or more; 5 and more give a usable interval"
        )
    return text


@dataclass(frozen=True, slots=True)
class Option:
    """How a setting is typed on the command line and in the environment."""

    metavar: str = ""  # What stands for its value in help texts; "" for a flag
    #: Text and key to value, where that is not the type's own way.
    parse: Callable[[str, str], Any] | None = None
    added_up: bool = False  # The option may be repeated, and single values are laid over others
    of_the_run: bool = False  # It belongs to the run as a whole: a variant cannot have another
    also: tuple[str, ...] = ()  # Other names of the option


_NAME = Option("NAME")


def _parts(texts: Iterable[str], separator: str) -> tuple[str, ...]:
    """What stands between separators; nothing of an empty text."""
    parts = (part.strip() for text in texts for part in text.split(separator))
    return tuple(part for part in parts if part)


_PAIRS = Option("KEY=VALUE", lambda text, _: _parts((text,), ";"), added_up=True)

MessageSizes = Annotated[
    tuple[Annotated[int, Field(ge=1, le=MAX_MESSAGE)], ...], Field(min_length=1)
]


class Options(Frozen):
    """Fields that can be given as text; the first paragraph of each docstring is its help."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _from_text(cls, value: object, info: ValidationInfo) -> object:
        key = str(info.field_name)
        parse = find_option(cls.model_fields[key]).parse
        if parse is None or isinstance(value, bool) or not isinstance(value, str | int):
            return value
        return parse(str(value), key)


class Settings(Options):
    """What a run is to do, apart from which scenarios."""

    testbed: Annotated[str, Option("NAME", _testbeds, of_the_run=True)] = "local"
    """A file under `conf/testbeds/`, or a path ending in `.toml`.

    Several with commas, `lab1,lab2,lab3`, are measured on [at once](ci.md#several-testbeds) with
    `-n 3`."""
    preset: Annotated[str, Option("NAME", of_the_run=True)] = ""
    """A file under `conf/presets/`, or a path; empty for `quick`, or for `shared` on a machine with
    fewer than four processors: pollers share these."""
    tests: Annotated[tuple[str, ...], Option("LIST", _tests, of_the_run=True)] = ()
    """Tests to run, e.g. `throughput,latency`, or `all`; empty for the preset's."""
    traffic: Annotated[str, _NAME] = "single-flow"
    """A file under `conf/traffic/`, or a path."""
    flows: Annotated[int, Option("N"), Field(ge=0, le=MOST_FLOWS)] = 0
    """Flows per direction in place of the traffic profile's, which names the fields that they
    differ in; 0 for the profile's."""
    frame_sizes: Annotated[FrameSizes, Option("LIST", _numbers, of_the_run=True)] = ()
    """Octets including FCS, e.g. `64,512,1518`; empty for the preset's.

    64 to 9216, no size twice."""
    time_budget: Annotated[
        str,
        Option("TIME", lambda text, key: text if parse_seconds(text, key) else "", of_the_run=True),
    ] = ""
    """Longest time of each throughput search with the waits around its trials, e.g. `90s`, `5m`,
    `1h`, to give the best estimate in it; empty for the preset's.

    For presets with algorithm `mlr`."""
    rounds: Annotated[int, Option("N", of_the_run=True), Field(ge=0, le=MOST_ROUNDS)] = 0
    """Searches of each throughput in a deployment, at least 15 s apart; 0 for the preset's.

    See [rounds](search.md#rounds)."""
    vnf: Annotated[str, _NAME] = "vloop"
    """VNF loader, and where it runs: `vloop`, `vloop:container`, `vloop:vm`."""
    vnf_mode: Annotated[str, Option("MODE")] = "auto"
    """Forwarding mode of the VNF: `io`, `mac`, `macswap`, `bridge` ...; `auto` for what the vSwitch
    needs.

    `auto` is `mac` where the vSwitch steers by address, learns it for parallel chains, or routes,
    else `io`. [vloop](backends/vloop.md) has `io`, `mac`, `macswap` and `5tswap` in a process, and
    more modes in a container or a VM."""
    vnf_placement: Annotated[VnfPlacement, Option("WHERE")] = "auto"
    """NUMA node of VNFs: `auto` where there is room, `local` on the pollers' node, `remote` on
    another, `unpinned` where the kernel puts them.

    See [where VNFs are](compare.md#where-vnfs-are)."""
    vnfs: Annotated[int | None, Option("N"), Field(ge=1, le=64)] = None
    """VNFs in `pvvp` (serial) and `pvpv` (parallel), 1 to 64; two by default."""
    switch: Annotated[str, _NAME] = "default"
    """Options of the vSwitch: a file under `conf/switch/`, or a path."""
    set: Annotated[tuple[str, ...], _PAIRS] = ()
    """One option of the vSwitch over those of the file, e.g. `mtu=9000` (may be repeated).

    The value is written as in TOML."""
    guest: Annotated[tuple[str, ...], _PAIRS] = ()
    """One option of guests, e.g. `memory_mib=1024`, or a file under `conf/guest/` (may be
    repeated).

    Where VNFs run in VMs; a path names a file as well."""
    core: Annotated[tuple[str, ...], _PAIRS] = ()
    """One option of a mobile core, e.g. `sessions=50`, or a file under `conf/stacks/` (may be
    repeated).

    Where the VNF is a mobile core ([vepc](vepc.md)); the file names the mobile core."""
    nat: Annotated[tuple[str, ...], _PAIRS] = ()
    """Sessions through a NAT and its blocks of ports, e.g. `subscribers=1024,ports=63` (may be
    repeated).

    Keys: `subscribers`, `ports` of each, `block`, `pool`, `inside`, `mapping`; for vSwitches that
    are a [NAT](cgnat.md)."""
    lb: Annotated[tuple[str, ...], _PAIRS] = ()
    """Services of a load balancer and flows to them, e.g. `services=1000,flows=50000` (may be
    repeated).

    Keys: `services`, `backends` of each, `flows` to all, `clients`; for vSwitches that
    [balance services](services.md#load-balancing-of-services)."""
    forwarding: Annotated[Forwarding, Option("LAYER")] = "l2"
    """`l2` switches frames, `l3` routes packets.

    Routed frames are addressed to the DUT, get new addresses and a TTL less by one."""
    rules: Annotated[Rules, Option("KIND")] = "port"
    """What the vSwitch forwards by: `port`, `stream` (a rule for each flow), `learning` (addresses
    that it learns)."""
    hosts: Annotated[PodHosts, Option("WHERE")] = "other"
    """Where the second of two pods is: on the `same` host as the first, or on the `other`.

    See [container networks](networks.md)."""
    tunnel: Annotated[AutoTunnel, Option("KIND")] = "auto"
    """Tunnel of the overlays `encap`, `decap` and `op2p`, and over the cables between vSwitches of
    several hosts: `vxlan`, `gre`, `geneve`; `auto` is `vxlan` in overlays, and none over hosts."""
    generator: Annotated[str, _NAME] = "loadgen"
    """Traffic generator: `loadgen`, `trex`, `pktgen`, `xdpgen`, or one that a plugin registers."""
    wire: Annotated[str, Option("KIND")] = "auto"
    """Kind of wire: `memif`, `veth`, `nic`; `auto` for the testbed's first that fits."""
    endpoint_tool: Annotated[str, _NAME] = AUTO
    """`iperf3`, `netperf` or `sockperf`; `auto` for the first that is installed and can do what
    the case does.

    See [endpoints](endpoints.md)."""
    endpoint_server: Annotated[ServerPlace, Option("WHERE")] = "far"
    """Where the second endpoint is: `far` at the tester's port 1, or `vnf`."""
    message_sizes: Annotated[MessageSizes, Option("LIST", _numbers, of_the_run=True)] = (
        *(64, 1024),
        16384,
    )
    """Octets of messages between endpoints, or ranks of MPI, e.g. `64,16K`.

    1 to 65536, over UDP to 65507."""
    instances: Annotated[int, Option("N"), Field(ge=1, le=MAX_INSTANCES)] = 1
    """Parallel processes of the endpoint tool at each end, 1 to 64."""
    pod: Annotated[PodKind, Option("KIND")] = "netns"
    """What pods with programs are: `netns`, namespaces with the machine's files, or containers of
    `runc` or `podman`, or of containerd by Kubernetes' `cri`.

    See [container networks](networks.md#pods)."""
    pods: Annotated[int, Option("N"), Field(ge=1, le=MAX_PODS)] = 2
    """Pods with ranks of [MPI](mpi.md), 1 to 64, every other one on the second host."""
    ranks: Annotated[int, Option("N"), Field(ge=1, le=MAX_RANKS)] = 2
    """Ranks of MPI in each pod, 1 to 64."""
    mpi_program: Annotated[str, _NAME] = AUTO
    """`loops`, `osu` or `hpcc`; `auto` for the first that is there and can do what the case does.

    See [MPI](mpi.md)."""
    pcap: Annotated[str, Option("FRAMES[:WHAT]", _capture, of_the_run=True)] = "0"
    """Frames of each trial to keep as pcap files; WHAT is `first`, `streams`, `gaps`, `foreign`.

    0 to 10000 frames of each port, see [captures](results.md#captures)."""
    profile: Annotated[bool, Option(of_the_run=True)] = False
    """Take a flame graph of the vSwitch's threads at the bounds of each search, in trials besides.

    Requires `perf`; see [profiles](results.md#profiles)."""
    results_dir: Annotated[str, Option("DIR", of_the_run=True)] = "results"
    """Folder that gets one folder for each run."""
    notes: Annotated[str, Option("TEXT", of_the_run=True)] = ""
    """Notes of the operator, quoted in the report."""

    @property
    def network_fields(self) -> dict[str, Any]:
        """What a scenario of a container network takes from them: fields of `Scenario`."""
        return {"pod_hosts": self.hosts, "pods": self.pods, "ranks": self.ranks, "pod": self.pod}

    @property
    def testbeds(self) -> tuple[str, ...]:
        """The testbeds that are named."""
        return tuple(self.testbed.split(","))


class CommandLine(Options):
    """Options of one command: no file and no variable can give them."""

    repeat: Annotated[int | None, Option("N", _repeat, also=("--interleave",))] = None
    """Deploy and measure all cases N times in turn, A B A B; the preset's by default.

    A deployment is the unit of repetition: trials within one are no replicates."""
    expect: Annotated[str, Option("FILE")] = ""
    """Thresholds that results must keep to, in TOML (docs/expectations.md)."""
    plan: Annotated[bool, Option()] = False
    """Print what would be done, and stop."""
    resume: Annotated[str, Option("DIR")] = ""
    """Continue an interrupted run's results folder, with the options of that run."""


def find_option(field: FieldInfo) -> Option:
    """How a field is typed."""
    return next(
        (annotation for annotation in field.metadata if isinstance(annotation, Option)), Option()
    )


#: Settings of which single ones are laid over others; all others are replaced.
ADDED_UP = tuple(k for k, f in Settings.model_fields.items() if find_option(f).added_up)
#: Settings of a run as a whole: a variant cannot have others.
OF_THE_RUN = tuple(k for k, f in Settings.model_fields.items() if find_option(f).of_the_run)


def variable_name(key: str) -> str:
    """The variable of a setting: "VNETPERF_FRAME_SIZES"."""
    return f"{ENV_PREFIX}{key.upper()}"


def fields() -> dict[str, FieldInfo]:
    """Everything that can stand on the command line."""
    return {**Settings.model_fields, **CommandLine.model_fields}


#: Setting -> kind of change to frames that it gives the options of.
CHANGE_SETTINGS: dict[str, type[FrameChange]] = {
    "nat": CHANGES["nat"],
    "lb": CHANGES["services"],
}
#: Option of KEY=VALUE -> the model that has the keys; what is no key; where there are more.
_KEYS_OF: dict[str, type[Frozen]] = {
    "set": SwitchOptions,
    "guest": GuestOptions,
    "core": MobileCoreOptions,
    **CHANGE_SETTINGS,
}
_NO_KEYS = ("name", "description")
_MORE_KEYS = {"set": "; each vSwitch's own are in docs/configuration.md"}
_LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")


def add_options(add: Callable[..., Any], *names: str) -> None:
    """Add options, all or those named, by pytest's `addoption` or argparse's `add_argument`.

    None has a default here, so that lower layers can be seen.
    """
    for key, field in fields().items():
        if names and key not in names:
            continue
        option = find_option(field)
        text = " ".join(str(field.description).split("\n\n")[0].split()).replace("`", "")
        text = _LINK.sub(r"\1", text)  # the same text is in the documents
        if model := _KEYS_OF.get(key):
            keys = ", ".join(name for name in model.model_fields if name not in _NO_KEYS)
            text = f"{text} Keys: {keys}{_MORE_KEYS.get(key, '')}."
        default = f" (default: {_text(field.default)})" if _text(field.default) else ""
        kind: dict[str, Any] = {"action": "append"} if option.added_up else {}
        kind |= {"metavar": option.metavar} if option.metavar else {"action": "store_true"}
        shown = (text + default).replace("%", "%%")
        name = f"--{key.replace('_', '-')}"
        add(name, *option.also, dest=key, default=None, help=shown, **kind)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value) if value not in (None, False, 0) else ""


def read_options(namespace: object, model: type[Options] = Settings) -> dict[str, Any]:
    """What stands on the command line, by key."""
    values = {key: getattr(namespace, key, None) for key in model.model_fields}
    return {key: value for key, value in values.items() if value is not None}


def settings_table() -> Iterator[str]:
    """The table of settings in docs/configuration.md."""
    yield "| Key | Type | Default | Accepted, meaning | Environment |"
    yield "|---|---|---|---|---|"
    for key, field in Settings.model_fields.items():
        default = {(): "[]", None: "none"}.get(field.default) or field.default
        shown = (
            f'`"{default}"`'
            if field.default == default and isinstance(default, str)
            else (_shown(default) if isinstance(default, int | str) else f"`{list(default)}`")
        )
        meaning = " ".join(str(field.description).split())
        yield f"| `{key}` | {_kind(field)} | {shown} | {meaning} | `{variable_name(key)}` |"


def _shown(default: int | str) -> int | str:
    return str(default).lower() if isinstance(default, bool) else default


def _kind(field: FieldInfo) -> str:
    if isinstance(field.default, bool):
        return "true, false"
    if isinstance(field.default, tuple):
        numbers = find_option(field).parse is _numbers
        return f"list of {'whole numbers' if numbers else 'text'}"
    return "text" if isinstance(field.default, str) else "whole number"


def switch_options(name: str, pairs: tuple[str, ...], where: str, where_set: str) -> SwitchOptions:
    """Options of the vSwitch: those of a file, named at `where`, and single ones over them."""
    path = find_file("switch", name, where)
    content = read_toml(path)
    keys = {*content, *(pair.partition("=")[0] for pair in pairs)}
    if keys <= {*SwitchOptions.model_fields}:
        return _options(SwitchOptions, pairs, where_set, path, content)
    options = _options(registry.switch_options_model(), pairs, where_set, path, content)
    return SwitchOptions.model_validate(options.model_dump(exclude_unset=True))


def check_trusted(path: Path, subject: str) -> None:
    """Refuse a file that names what is started as root, and that others could have written."""
    if path.resolve().is_relative_to(SHIPPED.resolve()):
        return  # as trustworthy as this code, which is beside it
    if reason := explain_distrust(path):
        raise ConfigError(
            f"{subject} is started as root, and {reason}",
            where=str(path),
            accepted="a file that, with all folders above it, belongs to you or root and that "
            "nobody else may write to",
            cure=f"look at what is in it, then give it to yourself (chown, chmod o-w), or put it "
            f"into {SYSTEM}",
        )


def read_testbed(name: str, where: str = "") -> Testbed:
    """A testbed file, named at `where`, with the sections that backends declare for it."""
    path = find_file("testbeds", name, where)
    content = {"name": path.stem, **read_toml(path)}  # once: what is checked is what is used
    plain = not content.get("programs") and set(content) <= set(Testbed.model_fields)
    takes = any(content.get(key) for key in ("isolated", "nics", "hosts", "environment"))
    if not plain or takes or content.get("agent", {}) not in ({}, {"transport": "local"}):
        check_trusted(path, "what this testbed file names")
    model = Testbed if plain else registry.testbed_model()
    testbed = validate(model, content, str(path))
    _check_host_programs(testbed, path)
    if not plain:
        testbed = Testbed.model_validate(testbed.model_dump(exclude_unset=True))
    # One host is the same, whether it has a name or not.
    return testbed.of_host(testbed.host_names[0]) if len(testbed.hosts) == 1 else testbed


def _check_host_programs(testbed: Testbed, path: Path) -> None:
    named = {(name, key) for name, host in testbed.hosts.items() for key in host.programs}
    program_keys = {program.setting for program in registry.programs().values()} if named else set()
    for name, key in sorted(named):
        if key not in program_keys:
            raise ConfigError(
                f"unknown key{did_you_mean(key, program_keys)}",
                where=f"{path}: hosts.{name}.programs.{key}",
                accepted=accepted_names(key, sorted(program_keys)),
            )


def guest_options(texts: tuple[str, ...], where: str = "guest") -> GuestOptions:
    """Options of guests: those of a file, if one is named, and single ones over them."""
    name, pairs = _name_and_pairs(texts, where)
    if not name:
        return _options(GuestOptions, pairs, where)
    path = find_file("guest", name, where)
    content = read_toml(path)
    # An image without a dot is the name of a built one.
    image = "." in str(content.get("image", "")) or "/" in str(content.get("image", ""))
    if image or any(content.get(key) for key in ("uri", "kernel", "initrd")):
        check_trusted(path, "what this guest file names")
    return _options(GuestOptions, pairs, where, path, content)


def mobile_core_options(texts: tuple[str, ...], where: str = "core") -> MobileCoreOptions:
    """Options of a mobile core."""
    _, pairs = _name_and_pairs(texts, where)
    return _options(MobileCoreOptions, pairs, where)


def mobile_core(texts: tuple[str, ...], where: str = "core") -> MobileCore:
    """The mobile core that is configured."""
    name, _ = _name_and_pairs(texts, where)
    path = find_file("stacks", name or DEFAULT_STACK, where)
    check_trusted(path, "what this stack file names")
    return load_model(MobileCore, path)


def change_options(setting: str, texts: tuple[str, ...], where: str = "") -> FrameChange:
    """Options of what a DUT does to frames, by the setting that gives them."""
    return _options(CHANGE_SETTINGS[setting], _parts(texts, ","), where or setting)


def _name_and_pairs(texts: tuple[str, ...], where: str) -> tuple[str, tuple[str, ...]]:
    """The file's name, "" for none, and the KEY=VALUE among what is given."""
    files = [option for option in texts if "=" not in option]
    if len(files) > 1:
        raise ConfigError(
            f"{files[1]!r} is a second file beside {files[0]!r}",
            where=where,
            accepted="one file and any number of KEY=VALUE",
        )
    return (files or [""])[0], tuple(option for option in texts if "=" in option)


def _options(
    model: type[Model],
    pairs: tuple[str, ...],
    where: str,
    path: Path | None = None,
    read: Mapping[str, Any] | None = None,
) -> Model:
    """Single options over what was read from a file."""
    content = dict(read or {})
    if path is not None:
        content = {"name": path.stem, **content}
        validate(model, content, str(path))  # so that an error names the layer it is in
    keys = [key for key in model.model_fields if key != "name"]
    errors: list[ConfigError] = []
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if equals and key in keys:
            content[key] = _toml_value(text)
            continue
        slip = "has no value" if key in keys else "is not an option"
        error = ConfigError(
            f"{pair!r} {slip}{did_you_mean(key, keys)}",
            where=where,
            accepted=f"KEY=VALUE with KEY one of {accepted_names(key, keys, _KEYS_AT)}",
        )
        errors.append(error)
    try:
        validated = validate(model, content, where if pairs else str(path or where))
    except ConfigError as error:
        errors.append(error)
    if errors:
        raise join_errors(errors)
    return validated


#: Where all keys of single options are.
_KEYS_AT = "docs/configuration.md has all"


def _toml_value(text: str) -> Any:
    """A value as TOML has it; a bare word is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # no TOML, or integers of thousands of digits
        return text


def parse_seconds(text: str, where: str) -> float | None:
    """A time from "300", "90s", "5m", "2.5 min" or "1 h 30 min"."""
    text = text.strip()
    if not text:
        return None
    seconds = parse_time_s(text) or 0.0
    if not 0.0 < seconds < float("inf"):
        raise ConfigError(
            f"{text!r} is not a time",
            where=where,
            accepted="seconds above 0, or with a unit: 90s, 5m, 2.5 min, 1h, 1 h 30 min",
        )
    return seconds
