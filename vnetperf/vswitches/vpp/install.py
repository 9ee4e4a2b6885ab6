"""An installed VPP (plugins, libraries, message definitions) and its startup.conf.

Everything is found from the path of the binary, so that /usr, /opt and a build tree work alike.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from vnetperf.host.linux import PAGE_OCTETS
from vnetperf.model.base import Frozen
from vnetperf.model.errors import DutError
from vnetperf.model.scenario import Plan

SUPPORTED_VPP = ((23, 6), (27, 99))
#: From this version on a running VPP reports its messages itself.
REPORTS_MESSAGES = (24, 6)


@dataclass(frozen=True, slots=True)
class VppInstallation:
    """An installed VPP; None for directories that are not beside the program."""

    binary: Path
    plugin_dir: Path | None
    api_dir: Path | None
    plugins: frozenset[str]

    @property
    def library_dir(self) -> Path | None:
        """Its libraries; None when the system's loader knows them."""
        if self.plugin_dir is None or self.plugin_dir.is_relative_to("/usr/lib"):
            return None
        return self.plugin_dir.parent

    def has(self, plugin: str) -> bool:
        """Whether a plugin is there."""
        return self.plugin_dir is None or plugin_file(plugin) in self.plugins


def plugin_file(plugin: str) -> str:
    """File name of a plugin."""
    return f"{plugin}_plugin.so"


def find_installation(binary: str) -> VppInstallation:
    """Look around a VPP binary."""
    real = Path(binary).resolve()
    prefix = real.parent.parent
    places = [*sorted(prefix.glob("lib*/vpp_plugins")), *sorted(prefix.glob("lib*/*/vpp_plugins"))]
    plugin_dir = next((place for place in places if place.is_dir()), None)
    api_dir = prefix / "share/vpp/api"
    names = (p.name for p in plugin_dir.glob("*_plugin.so")) if plugin_dir else ()
    return VppInstallation(
        binary=real,
        plugin_dir=plugin_dir,
        api_dir=api_dir if api_dir.is_dir() else None,
        plugins=frozenset(names),
    )


def parse_vpp_version(text: str) -> tuple[int, int]:
    """Version of VPP."""
    numbers = r"(\d\d)\.(\d\d)(?!\d)"
    # Warnings may come first, with numbers of their own.
    match = re.search(rf"\bvpp v{numbers}", text) or re.search(rf"(?<!\d){numbers}", text)
    if match is None:
        raise DutError(f"no version in {text.strip()[:80]!r}", where="vpp")
    return int(match[1]), int(match[2])


#: What a buffer must hold by default, and for jumbo frames in one piece.
STANDARD_DATA, JUMBO_DATA = 2048, 9728
STANDARD_DATA_MTU = 1900
#: Buffers by NUMA node where ordinary memory is used: each takes a page of its own.
DEFAULT_BUFFERS = 16384
#: VPP's heap by default, whose pages are taken when they are written.
HEAP_MIB = 1024
#: What VPP keeps around a buffer's data: its header, space to prepend, and alignment.
BUFFER_OVERHEAD = 384
#: Hugepage memory that jumbo buffers, or those of a NIC, take by default.
JUMBO_MIB, NIC_MIB = 192, 128
#: Share of hugepage memory that buffers may take; a NIC's driver needs the rest.
BUFFER_SHARE = 0.75


class VppNic(Frozen):
    """A PCI device for VPP's dpdk plugin, which takes devices only when VPP starts."""

    pci: str
    name: str
    rx_queues: int = 1
    tx_queues: int = 1
    rx_descriptors: int | None = None
    tx_descriptors: int | None = None

    def section(self) -> str:
        """The device in the dpdk section."""
        settings = {
            "name": self.name,
            "num-rx-queues": self.rx_queues,
            "num-tx-queues": self.tx_queues,
            "num-rx-desc": self.rx_descriptors,
            "num-tx-desc": self.tx_descriptors,
        }
        lines = "\n".join(f"    {k} {v}" for k, v in settings.items() if v is not None)
        return f"  dev {self.pci} {{\n{lines}\n  }}"


class VppStartup(Frozen):
    """A startup configuration.

    Attributes:
        prefix: Begins the names of VPP's shared memory, which is the machine's.
        workers: Processors of the workers; none makes the main thread forward.
        data_size: Octets of frame that one buffer holds.
        page_kb: Size of the hugepages buffers lie in, KiB; 0 for ordinary memory.
        ordinary_kb: Size of ordinary pages, KiB.
        heap_mib: What its heap may grow by beyond its default, for tables; MiB.
    """

    directory: Path
    prefix: str
    main_core: int
    workers: tuple[int, ...]
    plugin_dir: Path | None
    plugins: tuple[str, ...]
    data_size: int
    buffers: int
    page_kb: int = 0
    ordinary_kb: int = PAGE_OCTETS // 1024
    heap_mib: int = 0
    nics: tuple[VppNic, ...] = ()

    @property
    def api_socket(self) -> Path:
        """Socket of the binary API."""
        return self.directory / "api.sock"

    @property
    def stats_socket(self) -> Path:
        """Socket that hands out the counters' memory."""
        return self.directory / "stats.sock"

    @property
    def shared_memory(self) -> tuple[Path, ...]:
        """Files that VPP makes outside its directory, and leaves behind when it is killed."""
        return tuple(
            Path("/dev/shm") / f"{self.prefix}-{name}"  # noqa: S108 - where shm_open puts it
            for name in ("global_vm", "vpe-api")
        )

    def text(self) -> str:
        """The file."""
        cpu = [f"main-core {self.main_core}"]
        if self.workers:
            cpu.append(f"corelist-workers {','.join(map(str, sorted(self.workers)))}")
        memory = [f"main-heap-page-size {self.ordinary_kb}k"]
        if self.heap_mib:
            memory.append(f"main-heap-size {HEAP_MIB + self.heap_mib}M")
        plugins = [f"path {self.plugin_dir}"] if self.plugin_dir else []
        plugins += ["plugin default { disable }"]
        plugins += [f"plugin {name} {{ enable }}" for name in self.plugins]
        sections = {
            "unix": [
                *("nodaemon", "nosyslog", "nocolor", "nobanner"),
                f"runtime-dir {self.directory}",
                f"cli-listen {self.directory}/cli.sock",
            ],
            "api-segment": [f"prefix {self.prefix}"],
            "socksvr": [f"socket-name {self.api_socket}"],
            "statseg": [f"socket-name {self.stats_socket}", f"page-size {self.ordinary_kb}k"],
            "memory": memory,
            "cpu": cpu,
            "buffers": [
                f"buffers-per-numa {self.buffers}",
                f"default data-size {self.data_size}",
                f"page-size {self.page_kb or self.ordinary_kb}k",
            ],
            "plugins": plugins,
        }
        text = "\n".join(_section(name, lines) for name, lines in sections.items())
        if self.nics:
            text += f"\ndpdk {{\n{chr(10).join(nic.section() for nic in self.nics)}\n}}"
        return text + "\n"


def _section(name: str, lines: list[str]) -> str:
    return "\n".join([f"{name} {{", *(f"  {line}" for line in lines), "}"])


def buffer_data_size(mtu: int) -> int:
    """What one buffer must hold, so that a frame is in one piece."""
    return STANDARD_DATA if mtu <= STANDARD_DATA_MTU else JUMBO_DATA


def buffer_memory_mib(mtu: int, *, nic: bool) -> int:
    """Hugepage memory that is needed: a buffer of ordinary memory is at most a page of it."""
    jumbo = JUMBO_MIB if buffer_data_size(mtu) > STANDARD_DATA else 0
    return max(jumbo, NIC_MIB) + NIC_MIB if nic else jumbo


def buffers_in(mib: int, size: int) -> int:
    """Buffers that hugepage memory has room for."""
    return int(mib * BUFFER_SHARE * (1 << 20)) // (size + BUFFER_OVERHEAD)


def choose_main_core(plan: Plan, processors: tuple[int, ...]) -> int:
    """Processor of the main thread, which VPP does not let share one with a worker."""
    workers = plan.placement.cores["worker"]
    wishes = (*plan.placement.housekeeping, *processors)
    return next((cpu for cpu in wishes if cpu not in workers), workers[0])
