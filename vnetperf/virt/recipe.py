"""What goes into an image: the only place that names packages, programs and kernel modules."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from vnetperf.model.errors import ConfigError, did_you_mean
from vnetperf.virt.tools import Package

#: Scripts of the guest: `boot` is first in its initramfs, the others come with its root.
SCRIPTS = Path(__file__).with_name("image_scripts")
#: Counted up when the way images are made changes, so that old ones are not taken for new ones.
METHOD = 2


@dataclass(frozen=True, slots=True)
class Recipe:
    """What an image is made of.

    Attributes:
        name: Name of the image.
        packages: Packages of the distribution, besides the kernel's; what they depend on comes too.
        unwanted: Patterns of packages that are left out although another depends on them.
        programs: Paths of programs; the libraries they need come along. A pattern takes all that
            match; each must match something.
        extras: Paths or patterns of programs and files that are taken when the release has them.
        modules: Kernel modules; those they need come along.
        boot_modules: Those that are needed to find the root, in the order in which to load them.
        cmdline: The kernel's command line, which the image's key is added to.
        limit_mib: The largest that it may become, MiB.
    """

    name: str
    packages: tuple[str, ...]
    unwanted: tuple[str, ...]
    programs: tuple[str, ...]
    extras: tuple[str, ...]
    modules: tuple[str, ...]
    boot_modules: tuple[str, ...]
    cmdline: str
    limit_mib: int = 200

    def key(self, packages: Iterable[Package], architecture: str) -> str:
        """What makes an image another one."""
        inputs = {
            "method": METHOD,
            "architecture": architecture,
            "recipe": dataclasses.asdict(self),
            "scripts": {
                path.name: path.read_text(encoding="utf-8") for path in sorted(SCRIPTS.iterdir())
            },
            "packages": sorted(
                (package.name, package.version, package.sha256) for package in packages
            ),
        }
        text = json.dumps(inputs, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


#: testpmd opens every driver in DPDK's directory at its start, which takes seconds when emulated.
_PMDS = "bus_pci bus_vdev mempool_ring net_virtio net_e1000 net_ixgbe net_iavf net_af_packet"

VLOOP = Recipe(
    name="vloop",
    packages=(
        "dpdk-dev",  # testpmd is in it
        "iproute2",
        "ethtool",
        "kmod",
        "busybox-static",
        "dash",  # as sh: busybox's own would take its own ip and tc for the real ones
        "qemu-guest-agent",
        "xdp-tools",
    ),
    # A guest that is not a distribution needs neither headers nor interpreters nor accounts.
    unwanted=(
        "*-dev",
        "python3*",
        "libpython3*",
        "perl*",
        "libperl*",
        "debconf",
        "dpkg",
        "passwd",
        "adduser",
        "udev",
        "usrmerge",
        "tar",
        "*-meta-*",
    ),
    programs=(
        "usr/bin/dpdk-testpmd",
        "usr/bin/busybox",
        "usr/bin/dash",
        "usr/bin/kmod",
        "usr/bin/ip",
        "usr/sbin/bridge",
        "usr/sbin/tc",
        "usr/sbin/ethtool",
        "usr/sbin/qemu-ga",
        *(f"usr/lib/*/dpdk/pmds-*/librte_{name}.so.*" for name in _PMDS.split()),
    ),
    extras=(
        "usr/lib/*/dpdk/pmds-*/librte_net_af_xdp.so.*",
        "usr/lib/*/dpdk/pmds-*/librte_net_tap.so.*",
        "usr/bin/ss",
        "usr/sbin/xdp-bench",
        "usr/sbin/xdp-loader",
        "usr/lib/*/bpf/*.o",
        "etc/iproute2/*",
        "usr/share/iproute2/*",
    ),
    modules=(
        *("virtio_net", "e1000", "e1000e", "8139cp", "8139too", "igb", "igbvf", "ixgbevf", "iavf"),
        *("vmxnet3", "vfio_pci", "vfio_iommu_type1", "uio_pci_generic", "virtio_rng"),
        *(
            "bridge",
            "br_netfilter",
            "8021q",
            "veth",
            "tun",
            "macvlan",
            "macvtap",
            "ipvlan",
            "dummy",
        ),
        *("vxlan", "geneve", "ip_gre", "gtp", "sch_ingress", "sch_fq", "sch_htb", "act_mirred"),
        *("act_gact", "act_skbedit", "act_pedit", "act_bpf", "cls_matchall", "cls_flower"),
        *("cls_u32", "cls_bpf", "overlay"),
    ),
    boot_modules=("virtio_pci", "virtio_blk", "squashfs"),
    cmdline="console=ttyS0 loglevel=4 panic=1 net.ifnames=0",
)

#: A mobile core in place of testpmd.
VEPC = dataclasses.replace(
    VLOOP,
    name="vepc",
    packages=(*(name for name in VLOOP.packages if name != "dpdk-dev"), "osmo-ggsn"),
    programs=(
        *(path for path in VLOOP.programs if "testpmd" not in path and "/dpdk/" not in path),
        "usr/bin/osmo-ggsn",
    ),
    extras=tuple(path for path in VLOOP.extras if "/dpdk/" not in path),
)

#: What talks from a guest, and what measures the guest itself. netperf is not in every release's
#: section.
_TOOLS = ("iperf3", "sockperf", "sysbench")

#: A kernel that routes, with tools of endpoints.
ENDPOINT = dataclasses.replace(
    VEPC,
    name="endpoint",
    packages=(*(name for name in VEPC.packages if name != "osmo-ggsn"), *_TOOLS),
    programs=(
        *(path for path in VEPC.programs if "osmo-ggsn" not in path),
        *(f"usr/bin/{name}" for name in _TOOLS),
    ),
)

#: Open MPI's plugins for ranks that talk by TCP, as Debian and Ubuntu cut them into files.
_MPI_PLUGINS = (
    *("allocator_*", "bml_r2", "btl_self", "btl_tcp", "coll_[bilst]*", "errmgr_*", "ess_*"),
    *("filem_raw", "grpcomm_direct", "iof_*", "odls_*", "oob_tcp", "op_avx", "osc_pt2pt"),
    *("osc_rdma", "patcher_overwrite", "plm_*", "pmix_ext3x", "pml_ob1", "pstat_linux"),
    *("rcache_grdma", "reachable_*", "regx_*", "rmaps_*", "rml_oob", "routed_*", "rtc_hwloc"),
    *("schizo_orte", "schizo_ompi", "shmem_*", "state_*", "topo_basic"),
)

#: What ranks of MPI need besides: its daemon, and the libraries of programs that the host brings.
MPI = dataclasses.replace(
    ENDPOINT,
    name="mpi",
    packages=(*(p for p in ENDPOINT.packages if p not in _TOOLS), "openmpi-bin"),
    programs=(
        *(p for p in ENDPOINT.programs if p.rpartition("/")[2] not in _TOOLS),
        "usr/bin/orted",
        "usr/lib/*/libmpi.so.*",
    ),
    extras=(
        *ENDPOINT.extras,
        *(f"usr/lib/*/openmpi/lib/openmpi*/mca_{name}.so" for name in _MPI_PLUGINS),
        "usr/lib/*/pmix*/lib/pmix/pmix_mca_p*.so",
        "usr/share/openmpi/help-*.txt",
        "etc/openmpi/openmpi-mca-params.conf",
    ),
)

RECIPES = {recipe.name: recipe for recipe in (VLOOP, VEPC, ENDPOINT, MPI)}


def recipe(name: str) -> Recipe:
    """A recipe by its name."""
    if name not in RECIPES:
        raise ConfigError(
            f"there is no image called {name!r}{did_you_mean(name, RECIPES)}",
            where="vnetperf image",
            accepted=", ".join(sorted(RECIPES)),
        )
    return RECIPES[name]
