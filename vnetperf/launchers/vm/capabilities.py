"""What libvirt found out about the machine's QEMUs, kept from one run to the next.

It starts each QEMU twice to find it out, which takes some seconds. What it reads from its files it
compares with QEMU's own file and modules, itself, the kernel, the microcode, CPUID and /dev/kvm,
and finds it out anew when one is another, or when a file is damaged. So a run is given copies of
the files that an earlier one kept. It has copies because libvirt refuses to work when it cannot
write them, and because runs may overlap.
"""

from __future__ import annotations

import contextlib
import platform
import shutil
import tempfile
from pathlib import Path

from vnetperf.host.paths import make_cache
from vnetperf.model.errors import HostError

#: Where libvirt's embedded driver keeps them, below its root.
PLACE = "cache/qemu/capabilities"


def bring(root: Path) -> None:
    """Give libvirt what was kept; it can do without.

    Args:
        root: Private directory of the embedded driver.
    """
    place = root / PLACE
    place.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError, HostError):
        for file in _kept().glob("*.xml"):
            shutil.copy2(file, place / file.name)


def keep(root: Path) -> None:
    """Keep what libvirt found out anew.

    Args:
        root: Private directory of the embedded driver.
    """
    with contextlib.suppress(OSError, HostError):
        kept = _kept()
        for file in (root / PLACE).glob("*.xml"):
            text = file.read_bytes()
            there = kept / file.name
            if not there.exists() or there.read_bytes() != text:
                with tempfile.NamedTemporaryFile(dir=kept, prefix=".", delete=False) as part:
                    part.write(text)
                Path(part.name).rename(there)


def _kept() -> Path:
    """Its directory. Machines that share a home directory, and the lab, have other kernels."""
    kernel = f"{platform.release()}-{platform.machine()}"
    return make_cache(f"vm/capabilities/{kernel}", "what libvirt found out")
