"""Redacted copies of a run: names, addresses and serials replaced by pseudonyms."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, Final

from pydantic import BaseModel

from vnetperf.log.pseudonyms import (
    DIGITS_OF_MAC,
    EVERYWHERE,
    HIDDEN,
    KINDS,
    MAC_KEY,
    PCI,
    SECRET_KEY,
    TOKEN,
    Kind,
    Pseudonyms,
    names_in,
    split_words,
)
from vnetperf.log.records import (
    OTHER_HOSTS,
    EnvironmentRecord,
    Record,
    RedactedRecord,
    RestoredRecord,
    RunRecord,
    ScenarioRecord,
    TrialRecord,
)
from vnetperf.model.result import Redaction, RunIdentity
from vnetperf.model.testbed import Testbed

#: Fields whose texts are the project's own words, or numbers in disguise: never changed.
OWN: Final = ("type", "scenario", "test", "algorithm", "generator", "vswitch", "wire", "hdr")
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


#: Options of pytest and vnetperf whose names are the project's; values are looked at word by word.
_OPTIONS: Final = split_words("""
    -k -q -v -vv -x -s -n -m -o -p -ra --plan --preset --presets --tests --test --traffic
    --flows --frame-sizes --time-budget --vnf --vnf-mode --vnf-placement --vnfs --switch --set
    --guest --core --forwarding --rules --tunnel --generator --wire --endpoint-tool
    --endpoint-server --message-sizes --instances --pcap --results-dir --notes --testbed
    --repeat --interleave --resume --expect --live --retry-failed --tb --durations
    --collect-only --maxfail
""")
#: Words of command lines that are nobody's name, besides those of the log.
_WORDS: Final = split_words("""
    and or not no yes true false auto all pytest python python3 vnetperf testcases py
    cacheprovider smoke quick mlr csit strict mrr ndr pdr rfc2544 rfc2889 rfc9004 soak tst009
    single flow multi imix vloop vepc vm container process loadgen trex pktgen veth memif nic
    local lab
""")
_NUMBER_WORD: Final = re.compile(r"\d+(?:\.\d+)?[a-zA-Z%]{0,2}")
#: Options of the kernel that bear on results, and those that many machines have. Values of others,
#: and unknown options, are hidden: they name disks, hosts and secrets.
KERNEL_OPTIONS: Final = split_words("""
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
        accounts: Iterable[str] = (),
        public: Iterable[str] = (),
    ) -> None:
        """Learn the names that are to be replaced.

        Args:
            records: Those of the run.
            kept: Kinds that are left as they are.
            words: What must not be told either.
            names: Names that are known besides those of the records.
            accounts: Users of a machine, whose names count where a path has one.
            public: Texts of shipped testbeds.
        """
        self.records = records
        # What looks like a token is one in a copy only: a machine may be called host-12.
        is_copy = any(isinstance(record, RedactedRecord) for record in records)
        self.tokens = Pseudonyms(kept, standing=_tokens_in(records) if is_copy else ())
        self.limited: dict[str, str] = {}
        self._public = {text.strip() for text in public} - {""}
        self._vocabulary = {*EVERYWHERE, *_vocabulary(records)}
        self._whole_names: dict[str, Kind] = {}
        self._words: set[str] = set()
        self._whole_fields: dict[str, Callable[[str], str]] = {
            "hostname": lambda text: self._as_name(text, "hosts"),
            "command": self._command,
            "transport": self._transport,
        }
        for record in records:
            for kind, name in _find_names(record):
                self._know(kind, name)
        for kind, name in names:
            self._know(kind, name)
        for name in _find_path_owners(records, {*accounts} - _list_package_words()):
            self._know("users", name)
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
        # A last part alone, "com" or "example", is nobody's name. Of two parts the first is a
        # word ("core.lab") unless it has what words have not.
        if "." not in domain and first.isalpha() and domain:
            first = ""
        for part in dict.fromkeys((name, first, domain if "." in domain else "")):
            plain = part.casefold()
            if not plain or plain in EVERYWHERE:
                continue
            if plain in self._vocabulary or len(plain) < _SHORTEST:
                self._whole_names[plain] = kind
                self.limited[kind] = (
                    f"a {KINDS[kind]} is also a word of the log, or too short: it was replaced "
                    "only where it stands as such"
                )
            else:
                self.tokens.know(kind, part)

    def redacted(self, dropped: Mapping[str, str] | None = None) -> list[Record]:
        """The records with tokens, and one that lists them."""
        records = [self._record(record) for record in self.records]
        redaction = Redaction(
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            values=self.tokens.counts,
            kept=tuple(KINDS[kind] for kind in KINDS if kind in self.tokens.kept),
            limited=tuple(self.limited.values()),
            dropped=dict(dropped or {}),
        )
        return [*records[:1], RedactedRecord(redaction=redaction), *records[1:]]

    def _record(self, record: Record) -> Record:
        if isinstance(record, RedactedRecord):  # of what is a copy itself
            before = record.redaction
            dropped = {self.tokens.plain(name): reason for name, reason in before.dropped.items()}
            redaction = before.model_copy(update={"dropped": dropped})
            return record.model_copy(update={"redaction": redaction})
        changed: Record = self._model(record)
        if isinstance(changed, RunRecord):
            return changed.model_copy(update={"fingerprint": NO_FINGERPRINT})
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
        text = _GIVEN_ON.sub(rf"\1={HIDDEN}", text)
        is_free = _FREE.search(key) and text and not self._is_public(text)
        if is_free or (text.casefold() in self._words and _OF_SECTIONS.search(key)):
            return self.tokens.token("texts", text)
        if token := self._by_key(text, last):
            return token
        versions, hashes = _VERSIONS.search(key), _HASHES.search(key)
        return self.tokens.plain(
            text, versions=versions is not None, hashes=bool(versions or hashes)
        )

    def _by_key(self, text: str, key: str) -> str:
        """The token of a text whose key says what it is; "" where none does."""
        if not text or text.startswith("unknown"):
            return ""
        if SECRET_KEY.search(key):
            return self.tokens.token("secrets", text)
        if _SERIALS.search(key):
            return self.tokens.token("serials", text)
        is_mac = MAC_KEY.search(key) and re.fullmatch(DIGITS_OF_MAC, text)
        return self.tokens.mac(text) if is_mac else ""

    def _kernel_line(self, text: str) -> str:
        """A kernel's command line: known options, and their values where these are plain."""
        if text.startswith(("unknown", "not ")):
            return self.tokens.plain(text)
        words = []
        for word in text.split():
            name, equals, value = word.partition("=")
            if name.replace("-", "_") not in _KERNEL_NAMES:
                words.append(HIDDEN)
            elif _KERNEL_VALUE.fullmatch(value) or not equals:
                words.append(self.tokens.plain(word))
            else:
                words.append(f"{name}={HIDDEN}")
        return " ".join(words)

    def _command(self, text: str) -> str:
        """The command of a run: known options, and words that the log means something by."""
        try:
            words = shlex.split(text)
        except ValueError:
            return HIDDEN
        if not words:
            return text
        shown_words = [self._plain_words(PurePath(words[0]).name)]
        for word in words[1:]:
            name, equals, value = word.partition("=")
            if name.startswith("-"):
                shown = name if name in _OPTIONS else HIDDEN
                shown_words.append(f"{shown}={self._plain_words(value)}" if equals else shown)
            else:
                shown_words.append(self._plain_words(word))
        return " ".join(word if HIDDEN in word else shlex.quote(word) for word in shown_words)

    def _plain_words(self, text: str) -> str:
        """A text of which every word is known; hidden otherwise."""
        for word in re.findall(r"[^\W_]+", text):
            plain = word.casefold()
            is_known = plain in self._vocabulary | _WORDS and plain not in self._whole_names
            if not is_known and not _NUMBER_WORD.fullmatch(word):
                return HIDDEN
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
        return any(
            text == public_text or text.startswith(f"{public_text}; ")
            for public_text in self._public
        )

    def _as_name(self, text: str, kind: Kind) -> str:
        if self._whole_names.get(text.casefold()) == kind:
            return self.tokens.token(kind, text)
        return self.tokens.plain(text)


def _find_path_owners(records: Iterable[Record], accounts: Collection[str]) -> set[str]:
    """The accounts of which a path has the name: below /usr/local, /data or /scratch."""
    if not accounts:
        return set()
    part = re.compile(rf"(?<=/)(?:{'|'.join(map(re.escape, accounts))})(?![\w.-])")
    texts = (text for r in records for _, text in _texts(r.model_dump(), keys=True))
    return {name for text in texts for name in part.findall(text)}


def _list_package_words() -> set[str]:
    """What folders and modules of the project are called, of which paths and names are full."""
    package = Path(__file__).parents[1]
    names = (name for _, folders, files in os.walk(package) for name in (*folders, *files))
    return {PurePath(name).stem for name in names} | {"vnetperf", "python3"}


def _find_names(record: Record) -> Iterator[tuple[Kind, str]]:
    """Names and texts that a record is known to hold."""
    for _, text in _texts(record.model_dump(), keys=True):
        yield from names_in(text)
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
        yield from (
            ("devices", nic) for nic in _find_nics(testbed) if not _USUAL_NIC.fullmatch(nic)
        )
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


def _find_nics(testbed: Testbed) -> Iterator[str]:
    """Names of interfaces that the file gives; a PCI address is found by its form."""
    named = [*(end for cable in testbed.cables for end in (cable.end(0).nic, cable.end(1).nic))]
    named += [nic for wire in testbed.nics for nic in (wire.tester, wire.dut)]
    named += [text for key, text in _texts(testbed.sections) if key in _NIC_KEYS]
    return (nic for nic in named if not PCI.fullmatch(nic))


def _tokens_in(records: Iterable[Record]) -> set[str]:
    return {token for record in records for token in TOKEN.findall(record.model_dump_json())}


def _texts(value: Any, key: str = "", *, keys: bool = False) -> Iterator[tuple[str, str]]:
    """Key and text of every text of a tree of values; with `keys` the keys as well."""
    if isinstance(value, str | PurePath):
        yield key, str(value)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if keys:
                yield "", str(name)
            yield from _texts(inner, str(name), keys=keys)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, key, keys=keys)


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
    user, separator, host = (words[0] if words else "").rpartition("@")
    if host.count(":") == 1:
        host = host.partition(":")[0]
    return ([user] if separator else []) + users, host


def _vocabulary(records: Iterable[Record]) -> set[str]:
    """Words that a log means something by: they cannot be replaced everywhere."""
    vocabulary: set[str] = set()
    for record in records:
        for name in type(record).model_fields:
            value = getattr(record, name)
            if name in OWN and isinstance(value, str):
                vocabulary |= {word.casefold() for word in _WORD.findall(value)}
            elif isinstance(value, BaseModel):
                for inner in type(value).model_fields:
                    vocabulary.add(inner.casefold())
                    text = getattr(value, inner)
                    if inner in OWN and isinstance(text, str):
                        vocabulary |= {word.casefold() for word in _WORD.findall(text)}
            vocabulary.add(name.casefold())
        if isinstance(record, RunRecord):
            vocabulary |= {record.preset.name.casefold(), *record.settings}
    return vocabulary
