"""Kernel modules loaded for a run."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path

from vnetperf.host import syscalls
from vnetperf.host.journal import Change, Journal
from vnetperf.host.undo import Data
from vnetperf.model.errors import HostError

#: Modules that backends and wires may need; the planner knows of these.
ASKED = (
    *("openvswitch", "vxlan", "geneve", "ip_gre", "bridge", "veth", "tun", "macvtap", "macvlan"),
    *("gtp", "vhost_net", "vfio_pci", "vfio_iommu_type1", "uio_pci_generic"),
    *("sch_ingress", "cls_matchall", "cls_u32", "cls_flower", "act_mirred", "act_pedit"),
)
#: A function of each that a kernel without a list of its built-in modules may have.
SYMBOLS = {
    "openvswitch": "ovs_dp_process_packet",
    "vxlan": "vxlan_xmit",
    "geneve": "geneve_xmit",
    "ip_gre": "gre_tap_xmit",
    "bridge": "br_handle_frame",
    "veth": "veth_xmit",
    "tun": "tun_net_xmit",
    "macvtap": "macvtap_newlink",
    "macvlan": "macvlan_start_xmit",
    "gtp": "gtp_dev_xmit",
    "vhost_net": "vhost_net_open",
    "vfio_pci": "vfio_pci_probe",
    "vfio_iommu_type1": "vfio_iommu_type1_ioctl",
    "sch_ingress": "ingress_init",
    "cls_matchall": "mall_classify",
    "cls_u32": "u32_classify",
    "cls_flower": "fl_classify",
    "act_mirred": "tcf_mirred_act",
    "act_pedit": "tcf_pedit_act",
}
KALLSYMS = Path("/proc/kallsyms")
MODULES = Path("/lib/modules")
SYS_MODULE = Path("/sys/module")
PROC_MODULES = Path("/proc/modules")


def loaded(name: str) -> bool:
    """Whether a module is loaded, or built into the kernel with something to show."""
    return (SYS_MODULE / _canonical(name)).is_dir()


def trouble(name: str) -> str:
    """What keeps a module from being used; nothing is loaded to find out.

    Args:
        name: Module name.

    Returns:
        "" when it is loaded, built in or can be loaded; otherwise why not.
    """
    if loaded(name) or _canonical(name) in _built_in():
        return ""
    directory = MODULES / os.uname().release
    if not directory.is_dir():
        return f"it is not loaded, and {directory} is not there to load it from"
    if _canonical(name) in _listed(directory / "modules.dep"):
        return ""
    return f"it is neither loaded nor under {directory}"


@cache
def _built_in() -> frozenset[str]:
    """Modules built into the kernel, by its list, or by symbols when the list is not installed."""
    listed = _listed(MODULES / os.uname().release / "modules.builtin")
    if listed:
        return listed
    try:
        text = KALLSYMS.read_text()
    except OSError:
        return frozenset()
    return frozenset(name for name, symbol in SYMBOLS.items() if f" {symbol}\n" in text)


@cache
def _listed(file: Path) -> frozenset[str]:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return frozenset()
    paths = (line.partition(":")[0].strip() for line in lines)
    return frozenset(_canonical(Path(path).name.partition(".ko")[0]) for path in paths)


def load_module(journal: Journal, name: str) -> Change | None:
    """Load a module and those it needs for this run; None when it is there or built in.

    Args:
        journal: The run's journal.
        name: Module name.

    Returns:
        Handle to unload it before the run ends.

    Raises:
        HostError: The kernel has no modules, or not this one.
    """
    if loaded(name) or _canonical(name) in _built_in():
        return None
    modprobe = shutil.which("modprobe", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if modprobe is None or not PROC_MODULES.exists():
        raise HostError(
            "the running kernel cannot load modules" if modprobe else "modprobe is not installed",
            where=f"module {name}",
            accepted="a kernel with the module built in or loadable",
            cure="boot a distribution's kernel, install kmod",
        )
    order = _run([modprobe, "--show-depends", name], name)
    lines = [line.split() for line in order.splitlines()]
    needed = [_canonical(Path(line[1]).name.split(".ko")[0]) for line in lines if len(line) > 1]
    missing = [module for module in needed if not loaded(module)]
    what = f"load modules {' '.join(missing)}"
    with journal.changing("modules", what, {"modules": missing}) as change:
        _run([modprobe, name], name)
        if missing and not loaded(name):
            raise HostError("modprobe said yes, but it is not loaded", where=f"module {name}")
    return change


def undo_modules(data: Data) -> str:
    """Unload the modules that the run loaded, those that need others first."""
    unloaded = []
    for module in reversed(data["modules"]):
        if not loaded(module):
            continue
        _unload(module)
        unloaded.append(module)
    return f"unloaded {' '.join(unloaded)}" if unloaded else "already gone"


def _unload(module: str) -> None:
    for attempt in range(10):
        try:
            syscalls.delete_module(module)
            return
        except OSError as error:
            if error.errno == errno.ENOENT:
                return
            if error.errno not in (errno.EBUSY, errno.EAGAIN) or attempt == 9:
                raise HostError(
                    f"cannot be unloaded: {error.strerror}",
                    where=f"module {module}",
                    cure="end what uses it (see lsmod), then run `vnetperf restore`",
                ) from error
            time.sleep(0.1)  # references of dead processes and links go a little later


def _run(command: list[str], name: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if result.returncode:
        raise HostError(
            f"modprobe failed: {result.stderr.strip()}",
            where=f"module {name}",
            cure="install the package with this kernel's modules",
        )
    return result.stdout


def _canonical(name: str) -> str:
    return name.replace("-", "_")
