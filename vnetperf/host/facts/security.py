"""Facts of what may refuse or slow down a run: lockdown, security modules, netfilter's hooks."""

from __future__ import annotations

import errno
import re
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from vnetperf.host.facts import attempt, file_text, is_unknown, unknown
from vnetperf.host.linux import CAPABILITIES, read_capabilities
from vnetperf.host.nic.users import attributes

#: Modes of seccomp, proc(5).
_SECCOMP: Final = {"0": "none", "1": "strict", "2": "filter"}
_ENFORCE: Final = {"0": "permissive", "1": "enforcing"}
_SWITCHED: Final = {"Y": "on", "N": "off", "1": "on", "0": "off"}
#: Modules whose hooks every packet of a namespace passes once it uses them.
FILTER_MODULES: Final = (
    *("nf_conntrack", "nf_tables", "nf_nat", "ip_tables", "ip6_tables", "arp_tables", "ebtables"),
    *("br_netfilter", "ip_vs", "xt_conntrack"),
)
#: Families and places of hooks (linux/netfilter.h), by the numbers that the kernel has for them.
_INET_HOOKS: Final = ("prerouting", "input", "forward", "output", "postrouting")
_FAMILIES: Final = {2: ("IPv4", _INET_HOOKS), 10: ("IPv6", _INET_HOOKS), 7: ("bridge", _INET_HOOKS)}
#: linux/netfilter/nfnetlink.h and nfnetlink_hook.h, from Linux 5.14 on; pyroute2 lacks them.
_SUBSYSTEM_HOOK, _HOOK_GET = 12, 0
_HOOK_NUMBER, _FUNCTION, _MODULE = 1, 4, 5
_REQUEST_DUMP, _ERROR, _DONE = 0x301, 2, 3

#: Family and place -> attributes of each hook there, by number.
ReadHooks = Callable[[int, int], list[dict[int, bytes]]]


def security_facts(*, sys: Path, proc: Path, read_hooks: ReadHooks | None = None) -> dict[str, Any]:
    """What keeps this machine's root from something, and what looks at each packet.

    Args:
        sys: Root of sysfs.
        proc: Root of procfs.
        read_hooks: Reads netfilter's hooks; None: those of this process's namespace are not
            those of the machine that is read.
    """
    security = sys / "kernel/security"
    lsm = file_text(security / "lsm")
    return {
        "lockdown": lockdown_mode(security),
        "security_modules": lsm,
        "selinux": _selinux(sys, lsm),
        "apparmor": _apparmor(sys, security, lsm),
        "confined_as": _read_label(proc),
        "seccomp": _seccomp(proc),
        "capabilities": _capabilities(proc),
        "user_namespace": _user_namespace(proc),
        "netfilter": {
            "hooks": attempt(lambda: filter_hooks(read_hooks))
            if read_hooks
            else unknown("they are of another machine"),
            "modules": _filter_modules(sys),
            "tables": _tables(proc),
            "connections": file_text(proc / "sys/net/netfilter/nf_conntrack_count"),
        },
    }


def lockdown_mode(security: Path) -> str:
    """The mode in brackets: `none`, `integrity` (no /dev/mem), `confidentiality` (no tracing)."""
    text = file_text(security / "lockdown")
    chosen = re.search(r"\[(\w+)\]", text)
    if chosen:
        return chosen[1]
    return text if is_unknown(text) else unknown(f"{security / 'lockdown'} has no mode in brackets")


def _selinux(sys: Path, lsm: str) -> str:
    file = sys / "fs/selinux/enforce"
    if file.exists():
        text = file_text(file)
        return _ENFORCE.get(text) or (text if is_unknown(text) else unknown(f"{file} has {text!r}"))
    return _not_in_use("selinux", lsm)


def _apparmor(sys: Path, security: Path, lsm: str) -> str:
    text = file_text(sys / "module/apparmor/parameters/enabled")
    if is_unknown(text):
        return _not_in_use("apparmor", lsm)
    state = _SWITCHED.get(text, unknown(f"its parameter `enabled` is {text!r}"))
    profiles = file_text(security / "apparmor/profiles")
    if state != "on" or is_unknown(profiles):
        return state
    lines = profiles.splitlines()
    enforced = sum(line.endswith("(enforce)") for line in lines)
    return f"on, {len(lines)} profiles, {enforced} of them enforced"


def _not_in_use(name: str, lsm: str) -> str:
    if is_unknown(lsm):
        return unknown(f"neither {name} nor the kernel's list of security modules is to be seen")
    return "on" if name in lsm.split(",") else "not in use"


def _read_label(proc: Path) -> str:
    """What a security module confines this process as, "unconfined" where it does not."""
    text = file_text(proc / "self/attr/current")
    return unknown("no security module labels processes") if is_unknown(text) else text


def _seccomp(proc: Path) -> str:
    mode = re.search(r"^Seccomp:\s*(\d+)$", file_text(proc / "self/status"), re.MULTILINE)
    mode_name = _SECCOMP.get(mode[1]) if mode else None
    return mode_name or unknown("/proc/self/status does not state it")


def _capabilities(proc: Path) -> str:
    capabilities = read_capabilities(proc=proc)
    if capabilities is None:
        return unknown("/proc/self/status does not state them")
    lacking = [f"CAP_{name}" for name in CAPABILITIES if name not in capabilities]
    if len(lacking) == len(CAPABILITIES):
        return "none"
    return f"all but {', '.join(lacking)}" if lacking else "all"


def _user_namespace(proc: Path) -> str:
    """Whether user 0 here is the machine's: in another user namespace it has no say outside."""
    text = file_text(proc / "self/uid_map")
    if is_unknown(text):
        return text
    return "the machine's" if text.split() == ["0", "0", "4294967295"] else "another"


def _filter_modules(sys: Path) -> list[str]:
    """Modules that are loaded, or built in with something to show."""
    return [name for name in FILTER_MODULES if (sys / "module" / name).is_dir()]


def _tables(proc: Path) -> dict[str, str]:
    """Tables of iptables; nftables' own are no file, their hooks tell of them."""
    files = {"IPv4": "ip_tables_names", "IPv6": "ip6_tables_names", "ARP": "arp_tables_names"}
    paths = {family: proc / "net" / name for family, name in files.items()}
    texts = {family: file_text(file) for family, file in paths.items() if file.exists()}
    return {
        family: "none" if text.endswith("is empty") else " ".join(text.split())
        for family, text in texts.items()
    }


def filter_hooks(read: ReadHooks) -> dict[str, str]:
    """What each packet of this process's network namespace passes: place -> functions in order."""
    hooks: dict[str, str] = {}
    for number, (family, places) in _FAMILIES.items():
        for place, name in enumerate(places):
            if functions := [_function(hook) for hook in read(number, place)]:
                hooks[f"{family} {name}"] = ", ".join(functions)
    return hooks


def _function(hook: dict[int, bytes]) -> str:
    function, module = (
        hook.get(key, b"").rstrip(b"\0").decode(errors="replace") for key in (_FUNCTION, _MODULE)
    )
    return f"{function or '?'} ({module})" if module else function or "?"


def read_filter_hooks(family: int, place: int) -> list[dict[int, bytes]]:
    """Ask the kernel for the hooks of one place.

    Raises:
        OSError: It was not built with CONFIG_NETFILTER_NETLINK_HOOK, or root is needed.
    """
    body = struct.pack("=BBH", family, 0, 0) + struct.pack("=HH", 8, _HOOK_NUMBER)
    body += struct.pack("!I", place)
    kind = _SUBSYSTEM_HOOK << 8 | _HOOK_GET
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as kernel:  # NETLINK_NETFILTER
        kernel.settimeout(2.0)
        kernel.send(struct.pack("=IHHII", 16 + len(body), kind, _REQUEST_DUMP, 1, 0) + body)
        return list(parse_hooks(iter(lambda: kernel.recv(1 << 16), b"")))


def parse_hooks(answers: Iterable[bytes]) -> Iterator[dict[int, bytes]]:
    """Attributes of each hook in the kernel's answers, until they end."""
    for octets in answers:
        offset = 0
        while offset + 16 <= len(octets):
            length, kind = struct.unpack_from("=IH", octets, offset)
            if kind == _DONE or length < 16:
                return
            message = octets[offset + 16 : offset + length]
            if kind == _ERROR:
                number = -struct.unpack_from("=i", message)[0] if len(message) >= 4 else 0
                if number in (0, errno.ENOENT, errno.EOPNOTSUPP):  # nothing hooks there
                    return
                name = errno.errorcode.get(number, str(number))
                raise OSError(number, f"the kernel does not list netfilter's hooks ({name})")
            yield dict(attributes(message[4:]))
            offset += (length + 3) & ~3
