"""Settings of the running kernel: values under /sys and /proc/sys, modules, the command line."""

from __future__ import annotations

import contextlib
import errno
import gzip
import logging
import os
import re
import shlex
import shutil
import subprocess
import time
import zlib
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from vnetperf.host import linux
from vnetperf.host.facts import SHOWN, is_unknown
from vnetperf.host.journal import Change, Journal, UndoData
from vnetperf.host.linux import parse_number, read_file, read_octets, run_program
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import KernelModule

log = logging.getLogger(__name__)

# A CPU mask is padded and split into groups of eight by the kernel; a CPU list ("0,2") is not one.
_CPU_MASK = re.compile(r"[0-9a-f]{1,8}(,[0-9a-f]{8})*")


def read_value(path: Path) -> str:
    """The value of a proc or sysfs file, without surrounding white space.

    Where a file lists choices with the current one in brackets (``always [madvise] never``), the
    current one is returned, which is what can be written back.
    """
    try:
        text = read_file(path).strip()
    except OSError as error:
        raise HostError(
            f"cannot be read: {error}",
            where=str(path),
            cure="check that this kernel has the feature and that you are root",
        ) from error
    words = text.split()
    chosen = [word[1:-1] for word in words if word.startswith("[") and word.endswith("]")]
    return chosen[0] if len(chosen) == 1 and len(words) > 1 else text


def read_text(path: Path, default: str = "") -> str:
    """The value of a file as `read_value` has it, or the default where it cannot be read."""
    try:
        return read_value(path)
    except HostError:
        return default


def need_number(path: Path) -> int:
    """The number in a file that a decision depends on.

    Raises:
        HostError: It cannot be read, or is no number.
    """
    text = read_value(path)
    if (number := parse_number(text)) is None:
        raise HostError(
            f"has {text[:SHOWN]!r}",
            where=str(path),
            accepted="a whole number",
            cure="see whether another file system is mounted over it",
        )
    return number


def read_number(path: Path, default: int, *, least: int = 0, most: int = 2**63 - 1) -> int:
    """The number in a file, or the default where there is none or it is out of range."""
    number = parse_number(read_text(path))
    return number if number is not None and least <= number <= most else default


def write_value(
    journal: Journal, path: Path, value: str, *, zero_first: bool = False, kind: str = "value"
) -> Change:
    """Set a proc or sysfs value for this run; undoing writes the previous one back."""
    previous = read_value(path)
    data = {"path": str(path), "previous": previous, "wanted": value, "zero_first": zero_first}
    with journal.changing(kind, f"{path}: {previous} -> {value}", data) as change:
        if not _same_value(previous, value):
            write_file(path, value, zero_first=zero_first and previous != "0")
        now = read_value(path)
        if not _same_value(now, value):
            write_file(path, previous, zero_first=zero_first and previous != "0")  # our doing
            raise HostError(
                f"{value!r} was written and {now!r} reads back",
                where=str(path),
                accepted="a value that reads back as written",
                cure="see dmesg for why the kernel did not take it",
            )
    return change


def undo_value(data: UndoData) -> str:
    """Write the previous value back, unless it is there, or somebody else has set another."""
    path, previous = Path(data["path"]), str(data["previous"])
    if not path.exists():
        return "gone with its device"
    now = read_value(path)
    if _same_value(now, previous):
        return f"already {previous}"
    zero_first = bool(data["zero_first"])
    is_midway = zero_first and now == "0"  # between two writes
    if not _same_value(now, str(data["wanted"])) and not is_midway:
        return f"left at {now}: somebody else has set it since"
    write_file(path, previous, zero_first=zero_first and now != "0" and previous != "0")
    after = read_value(path)
    if not _same_value(after, previous):
        raise HostError(f"was {previous!r}, is still {after!r} after writing it", where=str(path))
    return f"{now} -> {previous}"


def write_file(path: Path, value: str, *, zero_first: bool) -> None:
    """Write a value to a file of the kernel, after a 0 where it takes no other value at once.

    Raises:
        HostError: The kernel refuses it.
    """
    for text in ("0", value) if zero_first else (value,):
        with (
            HostError.explain_os_error(
                f"the kernel refused {text!r}",
                where=str(path),
                cure="check the value and that you are root; dmesg may have more",
            ),
            # No O_CREAT: a misspelt name must not become a regular file.
            linux.close_after(os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)) as fd,
        ):
            os.write(fd, (text + "\n").encode())


def _same_value(first: str, second: str) -> bool:
    """Whether two values mean the same: spacing, and hex masks padded by the kernel, differ."""
    return _normalised(first) == _normalised(second)


def _normalised(value: str) -> str:
    words = " ".join(value.split())
    if _CPU_MASK.fullmatch(words):
        return words.replace(",", "").lstrip("0") or "0"
    return words


#: Modules of links, NICs and guests, which belong to no backend alone.
COMMON_MODULES = (
    KernelModule(name="veth", symbol="veth_xmit"),
    KernelModule(name="tun", symbol="tun_net_xmit"),
    KernelModule(name="vhost_net", symbol="vhost_net_open"),
    KernelModule(name="vfio_pci", symbol="vfio_pci_probe"),
    KernelModule(name="vfio_iommu_type1", symbol="vfio_iommu_type1_ioctl"),
    KernelModule(name="uio_pci_generic"),
)
_MODULE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
KALLSYMS = Path("/proc/kallsyms")
MODULES = Path("/lib/modules")
PROC_SYS = Path("/proc/sys")
SYS_MODULE = Path("/sys/module")
PROC_MODULES = Path("/proc/modules")
#: Alias of a module that has a kind of link: `ip link add ... type KIND` loads it by that.
LINK_ALIAS = "rtnl-link-"


def module_loaded(name: str) -> bool:
    """Whether a module is loaded, or built into the kernel with something to show."""
    return (SYS_MODULE / _plain_name(name)).is_dir()


def module_problem(module: KernelModule | str) -> str:
    """What keeps a module from being used; nothing is loaded to find out."""
    kernel_module = _as_module(module)
    if module_loaded(kernel_module.name) or _is_built_in(kernel_module):
        return ""
    directory = MODULES / os.uname().release
    if not directory.is_dir():
        return f"it is not loaded, and {directory} is not there to load it from"
    if _plain_name(kernel_module.name) in _module_names(directory / "modules.dep"):
        return ""
    return f"it is neither loaded nor under {directory}"


def _as_module(module: KernelModule | str) -> KernelModule:
    if isinstance(module, KernelModule):
        return module
    common = {candidate.name: candidate for candidate in COMMON_MODULES}
    return common.get(_plain_name(module)) or KernelModule(name=module)


def _is_built_in(module: KernelModule) -> bool:
    """Whether the kernel has it, by its list, or by a symbol when the list is not installed."""
    listed = _module_names(MODULES / os.uname().release / "modules.builtin")
    if listed:
        return _plain_name(module.name) in listed
    return module.symbol in _symbols()


@cache
def _symbols() -> frozenset[str]:
    try:
        lines = read_file(KALLSYMS).splitlines()
    except OSError:
        return frozenset()
    words = (line.split(None, 3) for line in lines if not line.endswith("]"))
    return frozenset(parts[2] for parts in words if len(parts) > 2)


@cache
def _module_names(file: Path) -> frozenset[str]:
    try:
        lines = read_file(file).splitlines()
    except OSError:
        return frozenset()
    paths = (line.partition(":")[0].strip() for line in lines)
    return frozenset(_plain_name(Path(path).name.partition(".ko")[0]) for path in paths)


def configuration(root: Path = Path("/")) -> str:
    """The running kernel's build configuration; "" where it cannot be read."""
    release = os.uname().release
    try:
        return gzip.decompress(read_octets(root / "proc/config.gz")).decode(errors="replace")
    except (OSError, EOFError, zlib.error):
        places = (f"boot/config-{release}", f"lib/modules/{release}/config")
    for place in places:
        with contextlib.suppress(OSError):
            if text := read_file(root / place):
                return text
    return ""


#: Hands out devices without an IOMMU; the kernel has it only if it was built with it.
NOIOMMU = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode"


def has_noiommu(root: Path = Path("/")) -> bool:
    """Whether vfio can hand out devices without an IOMMU, by the kernel or its configuration."""
    return (root / NOIOMMU).exists() or "\nCONFIG_VFIO_NOIOMMU=y\n" in configuration(root)


def load_module(journal: Journal, module: KernelModule | str) -> Change | None:
    """Load a module and those it needs for this run; None when it is there or built in.

    What it turns on for everybody is turned off where the machine's own links are, and in each
    namespace that is there: bridges of others' containers are none of the run's. Writing that back
    would turn it on: the settings end with the module, or stay off with one that stays.
    """
    kernel_module = _as_module(module)
    name = kernel_module.name
    if not _MODULE_NAME.fullmatch(name):  # modprobe takes a path to a file for a module too
        raise HostError(
            f"{name!r} is no name of a kernel module", accepted="letters, digits, _ and -"
        )
    if module_loaded(name) or _is_built_in(kernel_module):
        return None
    modprobe = shutil.which("modprobe", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if modprobe is None or not PROC_MODULES.exists():
        raise HostError(
            "the running kernel cannot load modules" if modprobe else "modprobe is not installed",
            where=f"module {name}",
            accepted="a kernel with the module built in or loadable",
            cure="boot a distribution's kernel, install kmod",
        )
    order = run_modprobe([modprobe, "--show-depends", "--", name], name, journal.run_id)
    lines = [line.split() for line in order.splitlines()]
    needed = [_plain_name(Path(line[1]).name.split(".ko")[0]) for line in lines if len(line) > 1]
    missing = [needed_name for needed_name in needed if not module_loaded(needed_name)]
    description = f"load modules {' '.join(missing)}"
    with journal.changing("modules", description, {"modules": missing}) as change:
        run_modprobe([modprobe, "--", name], name, journal.run_id)
        if missing and not module_loaded(name):
            raise HostError("modprobe succeeded, but it is not loaded", where=f"module {name}")
        for setting in kernel_module.turns_on:
            write_file(PROC_SYS / setting, "0", zero_first=False)
        _turn_off_elsewhere(kernel_module.turns_on)
    if kernel_module.turns_on:
        data = {"modules": missing, "off": list(kernel_module.turns_on)}
        change = journal.supersede(change, "modules", data)
    return change


def _turn_off_elsewhere(settings: Sequence[str]) -> None:
    """Turn settings off in the network namespaces of others, which had none before."""
    if not settings:
        return
    own_namespace = str(Path("/proc/thread-self/ns/net").readlink())
    for name, namespace in linux.network_namespaces().items():
        if name == own_namespace:
            continue
        for setting in settings:
            write = partial(write_file, PROC_SYS / setting, "0", zero_first=False)
            try:
                linux.run_in(namespace, write)
            except (OSError, HostError) as error:  # it ended meanwhile, or all share one setting
                log.info("%s of %s is not turned off: %s", setting, name, error)


def undo_modules(data: UndoData) -> str:
    """Unload the modules that the run loaded, as far as nobody else can have begun to use them.

    Those that need others go first. What stays is no error: it has nothing turned on for the
    machine, and unloading a module takes links and devices of others away without a word.
    """
    if on := [
        setting for setting in data.get("off", ()) if read_text(PROC_SYS / setting, "0") != "0"
    ]:
        return f"left loaded: somebody has turned {on[0]} on since"  # no reference is counted
    unloaded, kept = [], []
    for module in reversed(data["modules"]):
        if not module_loaded(module):
            continue
        if reason := explain_unload_risk(module) or _unload_module(module):
            kept.append(f"{module} ({reason})")
        else:
            unloaded.append(module)
    if kept:
        log.warning("modules left loaded: %s", "; ".join(kept))
    parts = [f"unloaded {' '.join(unloaded)}"] if unloaded else []
    parts += [f"left loaded: {'; '.join(kept)}"] if kept else []
    return "; ".join(parts) or "already gone"


def explain_unload_risk(module: str) -> str:
    """Why unloading a module may take something of others away; "" when it cannot.

    The kernel counts no reference for a link: a module that has a kind of them deletes every
    link of that kind in every namespace, and who may see them all is never certain. Nor does it for
    a device that a driver has and nobody has open.
    """
    aliases = MODULES / os.uname().release / "modules.alias"
    try:
        lines = [line.split() for line in read_file(aliases).splitlines()]
    except OSError as error:
        return f"what it would take along is not known: {aliases}: {error.strerror}"
    kinds = [
        words[1].removeprefix(LINK_ALIAS)
        for words in lines
        if len(words) == 3
        and words[1].startswith(LINK_ALIAS)
        and _plain_name(words[2]) == _plain_name(module)
    ]
    if kinds:
        return f"it would delete every {'/'.join(kinds)} link in every namespace"
    drivers = (SYS_MODULE / _plain_name(module) / "drivers").glob("*")
    devices = [
        device.name
        for driver in drivers
        for device in driver.iterdir()
        if device.is_symlink() and device.name != "module"
    ]
    return f"its driver has {', '.join(sorted(devices))}" if devices else ""


#: Times that a module in use is tried, each 0.1 s apart: filters are freed by the kernel's workers.
_UNLOAD_TRIES = 50


def _unload_module(module: str) -> str:
    """Unload a module; what keeps it, when others use it."""
    for attempt in range(_UNLOAD_TRIES):
        try:
            linux.delete_module(module)
            return ""
        except OSError as error:
            if error.errno == errno.ENOENT:
                return ""
            if error.errno not in (errno.EBUSY, errno.EAGAIN):
                raise HostError(
                    f"cannot be unloaded: {error.strerror}",
                    where=f"module {module}",
                    cure="see dmesg, then run `vnetperf restore`",
                ) from error
            if attempt < _UNLOAD_TRIES - 1:
                time.sleep(0.1)  # references of dead processes, links and filters go later
    return "others use it, see lsmod"


#: Longest wait for modprobe, seconds.
MODPROBE_S = 60.0


def run_modprobe(command: list[str], name: str, run_id: str) -> str:
    """Run modprobe for a module and return its output.

    It carries the run's id, so that undoing ends one that still loads.

    Raises:
        HostError: It fails, or does not end within `MODPROBE_S` seconds.
    """
    environment = {**os.environ, linux.RUN_ID_VARIABLE: run_id}
    try:
        done = run_program(command, MODPROBE_S, env=environment)
    except subprocess.TimeoutExpired:
        raise HostError(
            f"modprobe has not ended within {MODPROBE_S:g} s",
            where=f"module {name}",
            cure="see dmesg for what the module waits for",
        ) from None
    if done.returncode:
        raise HostError(
            f"modprobe failed: {done.stderr.strip()}",
            where=f"module {name}",
            cure="install the package with this kernel's modules",
        )
    return done.stdout


def _plain_name(name: str) -> str:
    """The kernel takes - and _ for the same in names of modules and options."""
    return name.replace("-", "_")


NOT_GIVEN: Final = "not given"

#: Option -> what it does, as the kernel's documentation has it in a few words.
BOOT_OPTIONS: Final[Mapping[str, str]] = {
    "isolcpus": "processors on which the scheduler puts nothing by itself",
    "nohz_full": "processors without a timer tick while one task runs",
    "rcu_nocbs": "processors relieved of RCU callbacks",
    "irqaffinity": "processors that interrupts go to by default",
    "nosmt": "hardware threads of a core are not used",
    "maxcpus": "processors started at boot",
    "intel_pstate": "how the frequency driver of Intel works",
    "amd_pstate": "how the frequency driver of AMD works",
    "cpufreq.default_governor": "governor of the frequency from the boot on",
    "intel_idle.max_cstate": "deepest sleep of Intel's idle driver",
    "processor.max_cstate": "deepest sleep of the ACPI idle driver",
    "idle": "what an idle processor does: poll never sleeps",
    "hugepagesz": "size of the hugepages that are reserved next",
    "default_hugepagesz": "size of hugepages where none is named",
    "hugepages": "hugepages reserved at boot",
    "transparent_hugepage": "whether ordinary memory becomes hugepages by itself",
    "numa_balancing": "whether the kernel moves memory between nodes",
    "intel_iommu": "the IOMMU of Intel",
    "amd_iommu": "the IOMMU of AMD",
    "iommu": "pt: devices of the host are not translated",
    "iommu.passthrough": "1: devices of the host are not translated",
    "mitigations": "what is done against flaws of the processor",
    "spectre_v2": "what is done against Spectre variant 2",
    "retbleed": "what is done against Retbleed",
    "tsx": "transactional memory",
    "nopti": "no isolation of page tables",
    "pti": "isolation of page tables",
    "clocksource": "the clock that is requested",
    "tsc": "whether the TSC is believed",
    "nmi_watchdog": "an interrupt on every processor now and then, to find hangs",
    "nosoftlockup": "no search for hanging processors",
    "nowatchdog": "no search for hanging processors",
    "skew_tick": "timer ticks of processors at different moments",
    "preempt": "how readily the kernel lets itself be interrupted",
    "pcie_aspm": "sleep of PCIe links",
    "audit": "a record of system calls",
}


#: Those whose absence is worth a word.
REPORTED_IF_ABSENT: Final = (
    *("isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity", "mitigations"),
    *("intel_iommu", "amd_iommu", "iommu", "hugepages", "default_hugepagesz"),
    *("intel_pstate", "idle", "processor.max_cstate"),
)


def boot_options(cmdline: str) -> Any:
    """The options of `OPTIONS` as they were given, with what they mean."""
    if is_unknown(cmdline):
        return cmdline
    try:
        words = shlex.split(cmdline)
    except ValueError:  # a quote that is not closed
        words = cmdline.split()
    values_by_name: dict[str, list[str]] = {}
    for word in words:
        name, equals, value = word.partition("=")
        values_by_name.setdefault(_plain_name(name), []).append(value if equals else "yes")
    options: dict[str, Any] = {}
    for name, meaning in BOOT_OPTIONS.items():
        if values := values_by_name.get(_plain_name(name)):
            options[name] = {"value": "; ".join(values), "means": meaning}
        elif name in REPORTED_IF_ABSENT:
            options[name] = NOT_GIVEN
    return options
