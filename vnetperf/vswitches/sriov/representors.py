"""Which interface stands for which port of a NIC's switch in switchdev mode, by sysfs.

The kernel tells them by phys_switch_id, one for each switch, and phys_port_name: "p0" for the wire,
"pf0vf3" for a virtual function; "c1pf0vf3" is one of another controller and not ours. What they are
called is up to udev, and may change while we look.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from vnetperf.host.patience import patient
from vnetperf.host.pci import SYS
from vnetperf.model.errors import DutError

WIRE = re.compile(r"p\d+(s\d+)?")
#: With the number of its physical function; old drivers give the bare number.
FUNCTION = re.compile(r"(?:p\d+)?(?:pf(?P<physical>\d+)vf)?(?P<number>\d+)")
#: Longest wait for the interfaces of virtual functions that were just made, seconds.
APPEAR_S = 10.0


def uplink(address: str, *, sys: Path = SYS) -> str:
    """The interface of a switch's wire; some drivers put representors beside it.

    Args:
        address: PCI address of the physical function.
        sys: Root of sysfs.

    Returns:
        Its name; "" when there is none that can be told.
    """
    there = sorted(path.name for path in (sys / "bus/pci/devices" / address / "net").glob("*"))
    named = [name for name in there if WIRE.fullmatch(_read(sys, name, "phys_port_name"))]
    # A driver may leave the wire's without a name.
    nameless = [name for name in there if not _read(sys, name, "phys_port_name")]
    return next(iter(named or nameless), "")


def representor(address: str, number: int, *, sys: Path = SYS) -> str:
    """The interface that stands for a virtual function.

    Args:
        address: PCI address of its physical function.
        number: 0-based number of the virtual function.
        sys: Root of sysfs.

    Returns:
        Its name; "" when there is none.
    """
    wire = uplink(address, sys=sys)
    switch = _read(sys, wire, "phys_switch_id") if wire else ""
    if not switch:
        return ""
    found: dict[str, str] = {}
    for path in sorted((sys / "class/net").glob("*")):
        if path.name == wire or _read(sys, path.name, "phys_switch_id") != switch:
            continue
        match = FUNCTION.fullmatch(_read(sys, path.name, "phys_port_name"))
        if match and int(match["number"]) == number:
            found[match["physical"] or ""] = path.name
    if len(found) == 1:
        return next(iter(found.values()))
    # Several physical functions share the switch.
    return found.get(str(int(address.rpartition(".")[2], 16)), "")


def wait_for(address: str, count: int, *, sys: Path = SYS) -> tuple[str, ...]:
    """Interfaces of all virtual functions, once they are there.

    Args:
        address: PCI address of the physical function.
        count: How many virtual functions it has.
        sys: Root of sysfs.

    Returns:
        Names, by number.

    Raises:
        DutError: They do not appear.
    """
    deadline = time.monotonic() + patient(APPEAR_S)
    while True:
        names = tuple(representor(address, number, sys=sys) for number in range(count))
        if uplink(address, sys=sys) and all(names):
            return names
        if time.monotonic() > deadline:
            missing = ", ".join(str(number) for number, name in enumerate(names) if not name)
            raise DutError(
                f"there is no representor of virtual function {missing}" * bool(missing)
                or "there is no interface of its wire",
                where=address,
                cure="see dmesg; they are told by phys_switch_id and phys_port_name in "
                "/sys/class/net, in the machine's own network namespace",
            )
        time.sleep(0.05)


def _read(sys: Path, name: str, what: str) -> str:
    try:
        return (sys / "class/net" / name / what).read_text().strip()
    except OSError:  # the driver has no such thing, or the interface is just renamed
        return ""
