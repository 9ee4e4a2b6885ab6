"""The mode of the switch in a NIC, by devlink: legacy, or switchdev with an interface a port."""

from __future__ import annotations

import errno
from typing import Any

from vnetperf.host import pci
from vnetperf.host.journal import Change, Journal
from vnetperf.host.undo import Data
from vnetperf.model.errors import HostError

#: enum devlink_eswitch_mode of the kernel.
MODES = {"legacy": 0, "switchdev": 1}
ESWITCH_GET, ESWITCH_SET = 29, 30
#: NLM_F_REQUEST and NLM_F_ACK.
ASK = 0x1 | 0x4
#: What the kernel says of a NIC that is no switch for devlink: its driver has none, the NIC is not
#: in devlink, the kernel has no devlink.
NO_SWITCH = (errno.EOPNOTSUPP, errno.ENODEV, errno.ENOENT)


def mode(address: str) -> str:
    """Mode of the switch in a NIC.

    Args:
        address: PCI address of the physical function.

    Returns:
        "legacy" or "switchdev"; "" when its driver has no switch that devlink can set.

    Raises:
        HostError: It cannot be asked.
    """
    from pyroute2.netlink.exceptions import NetlinkError  # noqa: PLC0415 - takes 0.2 s to import

    try:
        found = _eswitch(address)
    except (NetlinkError, OSError) as error:
        if _number(error) in NO_SWITCH:
            return ""
        raise _refused(address, "tell its eswitch mode", error) from error
    return next((name for name, number in MODES.items() if number == found), "")


def set_mode(journal: Journal, address: str, wanted: str) -> Change | None:
    """Set the mode of the switch in a NIC; undoing brings the former one back.

    Drivers change it only while the NIC has no virtual functions, undoing included.

    Args:
        journal: The run's journal.
        address: PCI address of the physical function.
        wanted: "legacy" or "switchdev".

    Returns:
        Handle to undo it before the run ends; None when it was so before.

    Raises:
        HostError: The NIC has no such mode, or refuses it. The former one is then back.
    """
    before = mode(address)
    if not before:
        raise HostError(
            f"its driver {pci.nic(address).driver or '(none)'} has no {wanted} mode",
            where=address,
            accepted="a NIC whose driver offers an eswitch by devlink, e.g. mlx5_core or ice",
            cure="leave the mode out, or name another NIC in the testbed file",
        )
    if before == wanted:
        return None
    data = {"pci": address, "previous": before}
    what = f"eswitch mode of {address}: {before} -> {wanted}"
    with journal.changing("eswitch", what, data) as change:
        _set(address, wanted)
    return change


def undo_mode(data: Data) -> str:
    """Bring the former mode of a switch back."""
    address, previous = str(data["pci"]), str(data["previous"])
    if not pci.exists(address):
        return "gone with its device"
    now = mode(address)
    if now == previous:
        return f"already {previous}"
    _set(address, previous)
    return f"{now or 'unknown'} -> {previous}"


def attributes(address: str, number: int | None) -> list[tuple[str, object]]:
    """Attributes of a message about a switch.

    Args:
        address: PCI address of the physical function.
        number: Mode to set, by the kernel's number; None asks for it.

    Returns:
        Names as pyroute2 has them, and values.
    """
    found: list[tuple[str, object]] = [
        ("DEVLINK_ATTR_BUS_NAME", "pci"),
        ("DEVLINK_ATTR_DEV_NAME", address),
    ]
    return found if number is None else [*found, ("DEVLINK_ATTR_ESWITCH_MODE", number)]


def _set(address: str, wanted: str) -> None:
    from pyroute2.netlink.exceptions import NetlinkError  # noqa: PLC0415 - takes 0.2 s to import

    try:
        _eswitch(address, MODES[wanted])
    except (NetlinkError, OSError) as error:
        raise _refused(address, f"change its eswitch mode to {wanted}", error) from error
    if (now := mode(address)) != wanted:
        raise HostError(
            f"its eswitch mode was set to {wanted} and is {now or 'unknown'}",
            where=address,
            cure="see dmesg for what the driver says",
        )


def _eswitch(address: str, number: int | None = None) -> int | None:
    """Ask for a switch's mode, or set it; pyroute2 knows the messages and has no call for them."""
    from pyroute2 import DL  # noqa: PLC0415 - takes 0.2 s to import
    from pyroute2.netlink.devlink import devlinkcmd  # noqa: PLC0415

    message: Any = devlinkcmd()
    message["cmd"] = ESWITCH_GET if number is None else ESWITCH_SET
    message["attrs"] = attributes(address, number)
    with DL() as socket:
        answers: Any = tuple(socket.nlm_request(message, msg_type=socket.prid, msg_flags=ASK))
    told = [answer.get_attr("DEVLINK_ATTR_ESWITCH_MODE") for answer in answers]
    return next((value for value in told if value is not None), None)


def _number(error: Exception) -> int:
    return int(getattr(error, "code", 0) or getattr(error, "errno", 0) or 0)


def _refused(address: str, what: str, error: Exception) -> HostError:
    return HostError(
        f"its driver {pci.nic(address).driver or '(none)'} refuses to {what}: {error}",
        where=address,
        cure="see dmesg; nothing may use its virtual functions, and the firmware must allow it",
    )
