"""Redacted copies of a run: names, addresses and serials replaced by pseudonyms."""

from __future__ import annotations

import base64
import binascii
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import PurePath
from typing import Any, Final, Literal, cast

from pydantic import BaseModel

from vnetperf.model.result import Redaction, RunIdentity
from vnetperf.model.testbed import Testbed
from vnetperf.results.environment import OTHER_HOSTS
from vnetperf.results.records import (
    LOG_VERSION,
    EnvironmentRecord,
    Record,
    RedactedRecord,
    RestoredRecord,
    RunRecord,
    ScenarioRecord,
    TrialRecord,
)

Put = Callable[[re.Match[str]], str]
Kind = Literal[
    "hosts",
    "users",
    "testbeds",
    "macs",
    "serials",
    "addresses",
    "devices",
    "paths",
    "texts",
    "words",
]

#: Kind -> what one value of it is called.
KINDS: Final[Mapping[Kind, str]] = {
    "hosts": "host name",
    "users": "user name",
    "testbeds": "testbed name",
    "macs": "MAC address",
    "serials": "serial number",
    "addresses": "IP address",
    "devices": "PCI address",
    "paths": "path",
    "texts": "text of the operator",
    "words": "word that was named",
}
_PSEUDONYMS: Final[Mapping[Kind, str]] = {
    "hosts": "host-{}",
    "users": "user-{}",
    "testbeds": "testbed-{}",
    "serials": "serial-{}",
    "paths": "/path-{}",
    "texts": "(redacted text {})",
    "words": "word-{}",
}
#: The project's own (model/deployment.py): they are the same on every machine.
_OWN_MAC: Final = "02:76:"
#: Those of tokens, and other tokens: a copy of a copy has them as they are.
_PSEUDO_MAC: Final = "02:5e:53:"
_TOKEN: Final = re.compile(r"(?:host|user|testbed|serial|word|nic)-\d+|/path-\d+")
#: Ranges for benchmarks and documents, loopback, masks, multicast: none shows where a machine is.
_PUBLIC: Final = tuple(
    ip_network(text)
    for text in (
        *("198.18.0.0/15", "127.0.0.0/8", "0.0.0.0/32", "224.0.0.0/3", "192.0.2.0/24"),
        *("198.51.100.0/24", "203.0.113.0/24", "2001:2::/48", "2001:db8::/32"),
        *("::/128", "::1/128", "ff00::/8"),
    )
)
_LONG_NAME: Final = 6
_EDGE: Final = r"(?<![A-Za-z0-9]){}(?![A-Za-z0-9])"
#: A MAC address in every spelling: six groups, three (Cisco's), two, or none.
_MAC: Final = re.compile(
    _EDGE.format(
        r"(?:[0-9a-f]{2}([:-])[0-9a-f]{2}(?:\1[0-9a-f]{2}){4}(?![:-][0-9a-f]{2}(?![0-9a-f]))"
        r"|[0-9a-f]{4}([.-])[0-9a-f]{4}\2[0-9a-f]{4}"
        r"|(?=[\d:-]*[a-f])[0-9a-f]{6}[:-][0-9a-f]{6})"
    ),
    re.I,
)
_LINK_BY_MAC: Final = re.compile(r"(?<=enx)[0-9a-f]{12}(?![0-9a-f])", re.I)
_UUID: Final = re.compile(_EDGE.format(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), re.I)
_EUI64: Final = re.compile(_EDGE.format(r"[0-9a-f]{2}([:-])[0-9a-f]{2}(?:\1[0-9a-f]{2}){6}"), re.I)
#: Digits without a separator: MAC (12), EUI-64 and WWN (16), machine-id (32), container id (64).
_DIGITS: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:0x)?(?=\d*[a-f])(?=[a-f]*\d)"
    r"(?:[0-9a-f]{64}|[0-9a-f]{32}|[0-9a-f]{16}|[0-9a-f]{12})(?![A-Za-z0-9])",
    re.I,
)
_MACHINE_ID: Final = re.compile(r"(?<=machine_id=)[0-9a-f]{32}", re.I)
#: Names of storage: iSCSI (RFC 3720), NVMe, T10; World Wide Names.
_STORAGE: Final = re.compile(
    r"\b(?:iqn|nqn)\.\d{4}-\d\d\.[^\s\"',]+|\b(?:eui|naa)\.[0-9a-f]{16,32}\b"
    r"|\bwwn-0x[0-9a-f]+",
    re.I,
)
_STATED_SERIAL: Final = re.compile(
    r"(?i)((?<![\w/])(?:s/n|sn|serial(?: ?(?:no\.?|number))?|asset(?: ?tag)?|service ?tag|p/n)"
    r"\s*[:=#]\s*)([\w.-]+)"
)
_LABEL: Final = re.compile(r"\b((?:PART)?(?:LABEL|UUID)=)([^\s\"',]+)")
_PCI: Final = re.compile(r"(?<![\w:.])(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7](?!\w)", re.I)
_IPV4: Final = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)")
_IPV6: Final = re.compile(r"(?<![\w:.])[0-9a-f:]*:[0-9a-f:]*:[0-9a-f:.]*(?![\w:])", re.I)
_HOME: Final = re.compile(r"(?<=/home/)[^/\s'\"\\]+|(?<=/Users/)[^/\s'\"\\]+")
_MAIL: Final = re.compile(r"([A-Za-z0-9][\w.+-]*)@([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)")
_URL: Final = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s'\"<>]+", re.I)
_LOOPBACK_URL: Final = re.compile(r"[a-z]+://(?:localhost|127\.[\d.]+|\[::1\])(?=[:/]|$)", re.I)
#: A name with dots counts as a host's by its last label: files and modules have dots too.
_FQDN: Final = re.compile(
    r"(?<![\w./-])(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+(?:com|net|org|edu|gov|mil|int|info|biz|io|eu"
    r"|internal|intranet|local|localdomain|lan|corp|home|private|lab|example|test|invalid|cloud|tech"
    r"|de|uk|fr|it|nl|se|no|fi|dk|es|pt|ch|at|be|cz|hu|ro|ru|ua|tr|jp|cn|kr|in|au|nz|ca|us|br|mx|ar"
    r"|za|il|ie|gr|sg|hk|tw|ai|dev|arpa)(?![\w-])(?!\.\w)",
    re.I,
)
#: Paths that every machine has, and the project's own; whatever else is a path has a token.
_SAME_PATHS: Final = (
    r"(?:usr/(?:bin|sbin|lib|lib64|libexec|share|local/s?bin)|bin|sbin|lib|lib64|proc|sys"
    r"|run/vnetperf|var/(?:lib|log)/vnetperf|etc/vnetperf|tmp/vnetperf|root/\.cache/vnetperf|autogroup-\d+|path-\d+"
    r"|etc/(?:passwd|group|hosts|os-release|sudoers\.d)"
    r"|dev/(?:vfio|uio\d*|hugepages|shm|kvm|net|null|zero|vhost-net|vhost-vsock|infiniband))"
)
_PATH: Final = re.compile(
    rf"(?<![\w/.)%\]}}])/(?!{_SAME_PATHS}(?![\w.-]))[\w.+~@-]+(?:/[\w.+~@%:-]*)*(?<![.:])"
)
_BLOB: Final = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")
_HIDDEN: Final = "(redacted)"
#: PCI domain of tokens: no machine has so many.
_PSEUDO_DOMAIN: Final = "5e53"


def names_in(text: str) -> Iterator[tuple[Kind, str]]:
    """Names that a text reveals by where they stand: below /home, in a mail address."""
    if "/home/" in text or "/Users/" in text:
        yield from (("users", name) for name in _HOME.findall(text))
    if "@" in text:
        for user, domain in _MAIL.findall(text):
            yield "users", user
            yield "hosts", domain
    yield from (("hosts", name) for name in _FQDN.findall(text) if "." in name)


class Pseudonyms:
    """Tokens for what must not be published."""

    def __init__(self, kept: Iterable[Kind] = ()) -> None:
        self.kept = frozenset(kept)
        self._held: dict[Kind, dict[str, str]] = {kind: {} for kind in KINDS}
        self._names: re.Pattern[str] | None = None
        self._done: dict[tuple[str, bool, bool], str] = {}
        self._kind_of: dict[str, Kind] = {}

    @property
    def counts(self) -> dict[str, int]:
        """What a value is called -> how many different ones have a token."""
        return {KINDS[kind]: len(held) for kind, held in self._held.items() if held}

    def know(self, kind: Kind, name: str) -> None:
        """Have a name replaced wherever it stands."""
        name = name.strip()
        if name and kind not in self.kept and not _TOKEN.fullmatch(name):
            self._kind_of.setdefault(name.casefold(), kind)
            self._names = None
            self._done.clear()

    def token(self, kind: Kind, value: str) -> str:
        """The token of a value."""
        if kind in self.kept or _TOKEN.fullmatch(value):
            return value
        held = self._held[kind]
        if value.casefold() not in held:
            held[value.casefold()] = self._make(kind, value, len(held) + 1)
        return held[value.casefold()]

    def survivors(self, text: str) -> list[str]:
        """Values with a token that a text still holds: none, unless something went wrong."""
        named: list[Kind] = ["hosts", "users", "testbeds", "words"]
        values: dict[str, str] = {}
        for kind in named:
            values |= {_pattern(v): kind for v in self._held[kind] if v in self._kind_of}
        values |= {_pattern(v): "serials" for v in self._held["serials"]}
        values |= {_pattern(v): "devices" for v in self._held["devices"]}
        values |= {
            _EDGE.format("[:.-]?".join(v.replace(":", ""))): "macs" for v in self._held["macs"]
        }
        if not re.search("|".join(values) or "(?!)", text, re.IGNORECASE):
            return []
        found = (kind for v, kind in values.items() if re.search(v, text, re.IGNORECASE))
        return sorted({KINDS[cast("Kind", kind)] for kind in found})

    def _make(self, kind: Kind, value: str, number: int) -> str:
        if kind == "macs":
            digits = f"{number:06x}"
            return f"02:5e:53:{digits[:2]}:{digits[2:4]}:{digits[4:]}"
        if kind == "devices" and not _PCI.fullmatch(value):
            return f"nic-{number}"
        if kind == "devices":
            return f"{_PSEUDO_DOMAIN}:{number >> 5:02x}:{number & 31:02x}.0"
        if kind == "addresses":
            if ":" in value:
                return f"2001:db8::{number:x}"
            return f"203.0.113.{number}" if number < 255 else f"(address {number})"
        return _PSEUDONYMS[kind].format(number)

    def plain(self, text: str, *, versions: bool = False, hashes: bool = False) -> str:
        """A text without what must not be published.

        With `versions` four numbers with dots are a version, with `hashes` long hexadecimal numbers
        identify a build or an octet string.
        """
        key = text, versions, hashes
        if key not in self._done:  # thread and port names stand in every trial
            made = self._known(text)
            for pattern, put in self._patterns(versions, hashes):
                made = pattern.sub(put, made)
            self._done[key] = _BLOB.sub(self._blob, made)
        return self._done[key]

    def _known(self, text: str) -> str:
        """Replace known names, the longest first."""
        if self._names is None:
            names = sorted(self._kind_of, key=len, reverse=True)
            self._names = re.compile("|".join(map(_pattern, names)) or "(?!)", re.IGNORECASE)
        return self._names.sub(self._of_name, text)

    def _of_name(self, match: re.Match[str]) -> str:
        found = match[0].casefold()
        name = found if found in self._kind_of else found.replace("--", "-")
        return self.token(self._kind_of[name], name)

    def _patterns(self, versions: bool, hashes: bool) -> list[tuple[re.Pattern[str], Put]]:
        found: list[tuple[re.Pattern[str], Put]] = [
            (_STORAGE, self._serial),
            (_URL, self._url),
            (_LABEL, lambda match: match[1] + self._of_serial(match[2])),
            (_STATED_SERIAL, lambda match: match[1] + self._of_serial(match[2])),
            (_PATH, lambda match: self.token("paths", match[0])),
            (_EUI64, self._serial),
            (_MAC, self._mac),
            (_LINK_BY_MAC, self._link),
            (_UUID, self._serial),
            (_MACHINE_ID, self._serial),
            (_HOME, lambda match: self._user(match[0])),
            (_MAIL, lambda match: self.token("users", match[0])),
            (_FQDN, lambda match: self.token("hosts", match[0])),
            (_PCI, self._device),
            (_IPV6, self._address),
        ]
        if not hashes:
            found.append((_DIGITS, self._digits))
        return found if versions else [*found, (_IPV4, self._address)]

    def _serial(self, match: re.Match[str]) -> str:
        return self.token("serials", match[0])

    def _of_serial(self, value: str) -> str:
        made = value in self._held["serials"].values()
        return value if made or value == _HIDDEN else self.token("serials", value)

    def _digits(self, match: re.Match[str]) -> str:
        return self._mac(match) if len(match[0]) == 12 else self._serial(match)

    def _device(self, match: re.Match[str]) -> str:
        if match[0].startswith(_PSEUDO_DOMAIN):
            return match[0]
        whole = match[0] if match[0].count(":") == 2 else f"0000:{match[0]}"
        return match[0] if "devices" in self.kept else self.token("devices", whole)

    def _url(self, match: re.Match[str]) -> str:
        if "hosts" in self.kept:
            return match[0]
        if _LOOPBACK_URL.match(match[0]):
            place, mark, _ = re.split(r"([?#]|$)", match[0], maxsplit=1)
            return place + (mark and f"{mark}{_HIDDEN}")
        scheme = match[0].partition("://")[0]
        return f"{scheme}://{_HIDDEN}"

    def _user(self, name: str) -> str:
        return name if name in self._held["users"].values() else self.token("users", name)

    def _mac(self, match: re.Match[str]) -> str:
        digits = re.sub("[^0-9a-f]", "", match[0].lower())
        plain = ":".join(digits[n : n + 2] for n in range(0, 12, 2))
        if plain.startswith((_OWN_MAC, _PSEUDO_MAC)) or plain in self._held["macs"].values():
            return match[0]
        return match[0] if "macs" in self.kept else self.token("macs", plain)

    def _link(self, match: re.Match[str]) -> str:
        mac = ":".join(match[0][n : n + 2] for n in range(0, 12, 2)).lower()
        return match[0] if "macs" in self.kept else self.token("macs", mac).replace(":", "")

    def _address(self, match: re.Match[str]) -> str:
        try:
            address: IPv4Address | IPv6Address = ip_address(match[0].rstrip("."))
        except ValueError:
            return match[0]
        if any(address in network for network in _PUBLIC if network.version == address.version):
            return match[0]
        rest = match[0][len(match[0].rstrip(".")) :]
        return self.token("addresses", str(address)) + rest

    def _blob(self, match: re.Match[str]) -> str:
        """Base64, hidden where its text has something that must not be published."""
        try:
            text = base64.b64decode(match[0], validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return match[0]
        return match[0] if self._known(text) == text and not _HOME.search(text) else _HIDDEN


def _pattern(name: str) -> str:
    """A name as it may stand in a text; volumes have its hyphens doubled."""
    text = re.escape(name).replace(r"\-", "--?")
    return text if len(name) >= _LONG_NAME else _EDGE.format(text)


#: Fields whose texts are the project's own words, or numbers in disguise: never changed.
OWN: Final = ("type", "scenario", "test", "algorithm", "generator", "vswitch", "wire", "hdr")
#: Names that are on every machine.
EVERYWHERE: Final = (
    *("localhost", "vnetperf-lab", "root", "local", "lab", "tester", "dut", "self"),
    *("east", "west"),  # of the shipped testbed with two hosts
)
#: Names of interfaces that the kernel, udev and shipped testbeds give.
_USUAL_NIC: Final = re.compile(
    r"(?=.*\d)(?:c|p|port|eth|ib|veth|tap|en[opsx][0-9a-f]*)[0-9dfnpsvu]*"
)
#: A copy is not continued: its trials would be mixed with those of another machine.
NO_FINGERPRINT: Final = "redacted"
_VERSIONS: Final = re.compile(r"version|firmware|release|microcode|software|model", re.IGNORECASE)
_SERIALS: Final = re.compile(r"serial|uuid|asset", re.IGNORECASE)
_HASHES: Final = re.compile(
    r"\b(git|build|builds|hash|sha\d*|digest|checksum|identity|image)\b", re.I
)
#: Options whose values are given to others as they are, wherever they stand.
_GIVEN_ON: Final = re.compile(r"^(cmdline|uri)=.*", re.DOTALL)
_KERNEL_LINE: Final = ("cmdline", "command line", "kernel command line")
_FREE: Final = re.compile(
    r"(^| )notes( value)?$|testbed (description|isolation|hosts .*isolation)$"
)
#: Keys of backends' sections whose values are interfaces.
_NIC_KEYS: Final = ("tester",)
#: Numbers, addresses and paths: no text of an operator's, or found by their own form.
_FORMAL: Final = re.compile(r"[\d.:/]+|[0-9a-fA-F:.]+|/\S*|tcp://\S*")
#: Where a single word of an operator's may stand: in any other place it may be the project's own.
_OF_SECTIONS: Final = re.compile(r"(^| )testbed |(^| )vswitch ")
_SHORTEST: Final = 3
_SHORTEST_TEXT: Final = 12
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
#: ssh's options that have a value as their next word.
_SSH_VALUED: Final = frozenset("-" + letter for letter in "BbcDEeFIiJLlmOopQRSWw")
_SERVER: Final = re.compile(r"^(?:tcp://)?(?P<host>[A-Za-z][\w.-]*)(?::\d+){0,2}$")


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


#: Options of pytest and vnetperf whose names are the project's; values are looked at word by word.
_OPTIONS: Final = _set_of("""
    -k -q -v -vv -x -s -n -m -o -p -ra --plan --preset --presets --tests --test --traffic
    --flows --frame-sizes --time-budget --vnf --vnf-mode --vnf-placement --vnfs --switch --set
    --guest --core --forwarding --rules --tunnel --generator --wire --endpoint-tool
    --endpoint-server --message-sizes --instances --pcap --results-dir --notes --testbed
    --repeat --interleave --resume --expect --live --retry-failed --tb --durations
    --collect-only --maxfail
""")
#: Words of command lines that are nobody's name, besides those of the log.
_WORDS: Final = _set_of("""
    and or not no yes true false auto all pytest python python3 vnetperf testcases py
    cacheprovider smoke quick mlr csit strict mrr ndr pdr rfc2544 rfc2889 rfc9004 soak tst009
    single flow multi imix vloop vepc vm container process loadgen trex pktgen veth memif nic
    local lab
""")
_NUMBER_WORD: Final = re.compile(r"\d+(?:\.\d+)?[a-zA-Z%]{0,2}")
#: Options of the kernel that bear on results, and those that many machines have. Values of others,
#: and unknown options, are hidden: they name disks, hosts and secrets.
KERNEL_OPTIONS: Final = _set_of("""
    amd_iommu amd_pstate audit clocksource console cpufreq.default_governor cpuidle.governor
    cpuidle.off default_hugepagesz elevator hpet hugepages hugepagesz idle intel_idle.max_cstate
    intel_iommu intel_pstate iommu iommu.passthrough iommu.strict irqaffinity isolcpus kthread_cpus
    kvm-amd.nested kvm-intel.nested l1tf mce mds mitigations nmi_watchdog no_timer_check nohz
    nohz_full nokaslr nopti nosmt nosmap nosmep nosoftlockup noibrs noibpb nospectre_v1
    nospectre_v2 nowatchdog numa numa_balancing panic pci pcie_acs_override pcie_aspm
    pcie_port_pm preempt processor.max_cstate pti quiet rcu_nocb_poll rcu_nocbs retbleed ro rw
    rcupdate.rcu_expedited skew_tick spec_store_bypass_disable spectre_v2 splash srbds swiotlb
    systemd.unified_cgroup_hierarchy transparent_hugepage tsc tsx tsx_async_abort
    vfio_iommu_type1.allow_unsafe_interrupts workqueue.power_efficient nomodule reboot psi mem
    maxcpus nr_cpus
""")
_KERNEL_NAMES: Final = frozenset(name.replace("-", "_") for name in KERNEL_OPTIONS)
_KERNEL_VALUE: Final = re.compile(r"[\w.,:%+*-]{1,80}")


class Redactor:
    """Redacts the records of one run."""

    def __init__(
        self,
        records: Sequence[Record],
        *,
        kept: Iterable[Kind] = (),
        words: Iterable[str] = (),
        names: Iterable[tuple[Kind, str]] = (),
        public: Iterable[str] = (),
    ) -> None:
        self.records = records
        self.tokens = Pseudonyms(kept)
        self.limited: dict[str, str] = {}
        self._public = {text.strip() for text in public} - {""}
        self._vocabulary = {*EVERYWHERE, *_vocabulary(records)}
        self._whole: dict[str, Kind] = {}
        self._words: set[str] = set()
        self._whole_fields: dict[str, Callable[[str], str]] = {
            "hostname": lambda text: self._as_name(text, "hosts"),
            "command": self._command,
            "transport": self._transport,
        }
        for record in records:
            for kind, name in _names_of(record):
                self._know(kind, name)
        for kind, name in names:
            self._know(kind, name)
        for word in words:
            self.tokens.know("words", word)

    def _know(self, kind: Kind, name: str) -> None:
        if kind == "texts":
            if name.strip() in self._public or not name.strip():
                return
            if name.isalpha() and len(name) < _SHORTEST_TEXT:
                self._words.add(name.casefold())
            if len(name) < _SHORTEST_TEXT:
                self.limited[kind] = "a short text was replaced only where it stands as such"
            else:
                self.tokens.know(kind, name)
            return
        first, _, domain = name.partition(".")
        # A last part alone, "com" or "example", is nobody's name.
        for part in dict.fromkeys((name, first, domain if "." in domain else "")):
            plain = part.casefold()
            if not plain or plain in EVERYWHERE:
                continue
            if plain in self._vocabulary or len(plain) < _SHORTEST:
                self._whole[plain] = kind
                self.limited[kind] = (
                    f"a {KINDS[kind]} is also a word of the log, or too short: it was replaced "
                    "only where it stands as such"
                )
            else:
                self.tokens.know(kind, part)

    def redacted(self, dropped: Mapping[str, str] | None = None) -> list[Record]:
        """The records with tokens, and one that lists them."""
        made = [self._record(record) for record in self.records]
        redaction = Redaction(
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            values=self.tokens.counts,
            kept=tuple(KINDS[kind] for kind in KINDS if kind in self.tokens.kept),
            limited=tuple(self.limited.values()),
            dropped=dict(dropped or {}),
        )
        return [*made[:1], RedactedRecord(redaction=redaction), *made[1:]]

    def _record(self, record: Record) -> Record:
        changed: Record = self._model(record)
        if isinstance(changed, RunRecord):
            update: dict[str, Any] = {"fingerprint": NO_FINGERPRINT, "version": LOG_VERSION}
            return changed.model_copy(update=update)
        if isinstance(changed, TrialRecord):
            return changed.model_copy(update={"captures": ()})
        if isinstance(changed, RestoredRecord):  # of whatever else is on that machine
            texts = {"troubles": changed.troubles, "differences": changed.differences}
            hidden = {k: tuple("(left out)" for _ in v) for k, v in texts.items() if v}
            return changed.model_copy(update=hidden)
        return changed

    def _model(self, model: Any) -> Any:
        # The fields of a testbed are named as a plan's are, where it is a tree of values.
        above = "testbed " if isinstance(model, Testbed) else ""
        update = {
            name: self._value(getattr(model, name), above + name)
            for name in type(model).model_fields
            if name not in OWN or not isinstance(getattr(model, name), str)
        }
        update |= {k: self._value(v, above + k) for k, v in (model.model_extra or {}).items()}
        if isinstance(model, Testbed):
            update["name"] = self._as_name(model.name, "testbeds")
        if isinstance(model, RunIdentity):
            update["testbed"] = self._as_name(model.testbed, "testbeds")
        return model.model_copy(update=update)

    def _value(self, value: Any, key: str) -> Any:
        if isinstance(value, str) and not isinstance(value, Enum):
            return self._text(value, key)
        if isinstance(value, PurePath):
            return type(value)(self._text(str(value), key))
        if isinstance(value, BaseModel):
            return self._model(value)
        if isinstance(value, Mapping):
            return {
                self._text(k, "") if isinstance(k, str) else k: self._value(v, f"{key} {k}")
                for k, v in value.items()
            }
        if isinstance(value, list | tuple):
            return type(value)(self._value(item, key) for item in value)
        return value  # numbers; goals of a search have names of their own, and nothing else

    def _text(self, text: str, key: str) -> str:
        last = key.rpartition(" ")[2]
        if key.endswith(_KERNEL_LINE):
            return self._kernel_line(text)
        if last in self._whole_fields:
            return self._whole_fields[last](text)
        if key.startswith("settings ") and not key.endswith(" source"):
            text = self._setting(text)
        text = _GIVEN_ON.sub(rf"\1={_HIDDEN}", text)
        if _FREE.search(key) and text and not self._is_public(text):
            return self.tokens.token("texts", text)
        if text.casefold() in self._words and _OF_SECTIONS.search(key):
            return self.tokens.token("texts", text)
        if _SERIALS.search(last) and text and not text.startswith("unknown"):
            return self.tokens.token("serials", text)
        versions, hashes = _VERSIONS.search(key), _HASHES.search(key)
        return self.tokens.plain(
            text, versions=versions is not None, hashes=bool(versions or hashes)
        )

    def _kernel_line(self, text: str) -> str:
        """A kernel's command line: known options, and their values where these are plain."""
        if text.startswith(("unknown", "not ")):
            return self.tokens.plain(text)
        words = []
        for word in text.split():
            name, equals, value = word.partition("=")
            if name.replace("-", "_") not in _KERNEL_NAMES:
                words.append(_HIDDEN)
            elif _KERNEL_VALUE.fullmatch(value) or not equals:
                words.append(self.tokens.plain(word))
            else:
                words.append(f"{name}={_HIDDEN}")
        return " ".join(words)

    def _command(self, text: str) -> str:
        """The command of a run: known options, and words that the log means something by."""
        try:
            words = shlex.split(text)
        except ValueError:
            return _HIDDEN
        if not words:
            return text
        made = [self._plain_words(PurePath(words[0]).name)]
        for word in words[1:]:
            name, equals, value = word.partition("=")
            if name.startswith("-"):
                shown = name if name in _OPTIONS else _HIDDEN
                made.append(f"{shown}={self._plain_words(value)}" if equals else shown)
            else:
                made.append(self._plain_words(word))
        return " ".join(word if _HIDDEN in word else shlex.quote(word) for word in made)

    def _plain_words(self, text: str) -> str:
        """A text of which every word is known; hidden otherwise."""
        for word in re.findall(r"[^\W_]+", text):
            plain = word.casefold()
            known = plain in self._vocabulary | _WORDS and plain not in self._whole
            if not known and not _NUMBER_WORD.fullmatch(word):
                return _HIDDEN
        return text

    def _transport(self, text: str) -> str:
        """How an agent is reached: user and host by their tokens, and nothing else."""
        if not text.startswith("ssh="):
            return self.tokens.plain(text)
        users, host = ssh_names(text)
        user = f"{self._as_name(users[0], 'users')}@" if users else ""
        return f"ssh={user}{self._as_name(host, 'hosts')}"

    def _setting(self, text: str) -> str:
        """A setting: values that are paths, or are given to others as they are, have a token."""
        name, equals, value = text.partition("=")
        if _GIVEN_ON.match(text):
            return text
        if "/" in text or text.endswith(".toml"):
            head, place = (f"{name}=", value) if equals else ("", text)
            return head + self.tokens.token("paths", place)
        return text

    def _is_public(self, text: str) -> bool:
        """Whether it is the text of a shipped testbed, to which the tool may have added its own."""
        return any(text == known or text.startswith(f"{known}; ") for known in self._public)

    def _as_name(self, text: str, kind: Kind) -> str:
        if self._whole.get(text.casefold()) == kind:
            return self.tokens.token(kind, text)
        return self.tokens.plain(text)


def _names_of(record: Record) -> Iterator[tuple[Kind, str]]:
    """Names and texts that a record is known to hold."""
    yield from names_in(record.model_dump_json())
    if isinstance(record, EnvironmentRecord):
        others = record.facts.get(OTHER_HOSTS, {})
        for facts in (record.facts, *(others.values() if isinstance(others, Mapping) else ())):
            host = str(facts.get("hostname", ""))
            yield "hosts", "" if host.startswith("unknown") else host
    if isinstance(record, ScenarioRecord):
        network = record.facts.facts.get("vswitch", {})
        yield from (("hosts", str(node)) for node in network.get("cluster", {}).get("nodes", ()))
    if isinstance(record, RunRecord):
        testbed = record.testbed
        yield "texts", record.identity.notes
        yield "texts", testbed.description
        yield "texts", testbed.isolation
        yield "testbeds", testbed.name
        yield from (("hosts", name) for name in testbed.hosts)
        yield from (("texts", host.isolation) for host in testbed.hosts.values())
        yield from (("devices", nic) for nic in _nics_of(testbed) if not _USUAL_NIC.fullmatch(nic))
        for backend in testbed.sections:
            if match := _SERVER.match(testbed.external_server(backend)):
                yield "hosts", match["host"]
        for transport in (testbed.agent.transport, *(h.transport for h in testbed.hosts.values())):
            if not transport.startswith("ssh="):
                continue
            users, host = ssh_names(transport)
            yield from (("users", user) for user in users)
            if not re.fullmatch(r"[\d.:\[\]]*", host):
                yield "hosts", host
        for text in _prose(testbed.sections):
            is_word = text.isalpha() or len(text) >= _SHORTEST_TEXT
            yield ("texts" if is_word else "words"), text


def _nics_of(testbed: Testbed) -> Iterator[str]:
    """Names of interfaces that the file gives; a PCI address is found by its form."""
    named = [*(end for cable in testbed.cables for end in (cable.end(0).nic, cable.end(1).nic))]
    named += [nic for wire in testbed.nics for nic in (wire.tester, wire.dut)]
    named += [text for key, text in _texts(testbed.sections) if key in _NIC_KEYS]
    return (nic for nic in named if not _PCI.fullmatch(nic))


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Key and text of every text of a tree of values."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(inner, str(name))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, key)


def _prose(sections: Mapping[str, Any]) -> Iterator[str]:
    """What an operator wrote into backends' sections: no path, address or name of a NIC."""
    for key, text in _texts(sections):
        if text and key not in _NIC_KEYS and not _FORMAL.fullmatch(text):
            yield text


def ssh_names(transport: str) -> tuple[list[str], str]:
    """Users and host of an execnet specification `ssh=[options] [user@]host [...]//python=...`."""
    words = transport.removeprefix("ssh=").partition("//")[0].split()
    users: list[str] = []
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in _SSH_VALUED and words:
            value = words.pop(0)
            users += [value] if option == "-l" else []
        elif option.startswith("-l"):
            users.append(option[2:])
    user, at, host = (words[0] if words else "").rpartition("@")
    return ([user] if at else []) + users, host.partition(":")[0] if host.count(":") == 1 else host


def _vocabulary(records: Iterable[Record]) -> set[str]:
    """Words that a log means something by: they cannot be replaced everywhere."""
    found: set[str] = set()
    for record in records:
        for name in type(record).model_fields:
            value = getattr(record, name)
            if name in OWN and isinstance(value, str):
                found |= {word.casefold() for word in _WORD.findall(value)}
            elif isinstance(value, BaseModel):
                for inner in type(value).model_fields:
                    found.add(inner.casefold())
                    text = getattr(value, inner)
                    if inner in OWN and isinstance(text, str):
                        found |= {word.casefold() for word in _WORD.findall(text)}
            found.add(name.casefold())
        if isinstance(record, RunRecord):
            found |= {record.preset.name.casefold(), *record.settings}
    return found
