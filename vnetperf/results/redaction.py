"""Redacted copies of a run: names, addresses and serials replaced by pseudonyms."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import PurePath
from typing import Any, Final, Literal

from pydantic import BaseModel

from vnetperf.model.result import Redaction, RunIdentity
from vnetperf.model.testbed import Testbed
from vnetperf.results.records import (
    LOG_VERSION,
    EnvironmentRecord,
    Record,
    RedactedRecord,
    RestoredRecord,
    RunRecord,
    TrialRecord,
)

Put = Callable[[re.Match[str]], str]
Kind = Literal["hosts", "users", "testbeds", "macs", "serials", "addresses", "texts", "words"]

#: Kind -> what one value of it is called.
KINDS: Final[Mapping[Kind, str]] = {
    "hosts": "host name",
    "users": "user name",
    "testbeds": "testbed name",
    "macs": "MAC address",
    "serials": "serial number",
    "addresses": "IP address",
    "texts": "text of the operator",
    "words": "word that was named",
}
_PSEUDONYMS: Final[Mapping[Kind, str]] = {
    "hosts": "host-{}",
    "users": "user-{}",
    "testbeds": "testbed-{}",
    "serials": "serial-{}",
    "texts": "(redacted text {})",
    "words": "word-{}",
}
#: The project's own (model/deployment.py): they are the same on every machine.
_OWN_MAC: Final = "02:76:"
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
_MAC: Final = re.compile(
    _EDGE.format(r"[0-9a-f]{2}(?:([:-])[0-9a-f]{2})(?:\1[0-9a-f]{2}){4}"), re.I
)
_LINK_BY_MAC: Final = re.compile(r"(?<=enx)[0-9a-f]{12}(?![0-9a-f])", re.I)
_UUID: Final = re.compile(_EDGE.format(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), re.I)
_MACHINE_ID: Final = re.compile(r"(?<=machine_id=)[0-9a-f]{32}", re.I)
_IPV4: Final = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)")
_IPV6: Final = re.compile(r"(?<![\w:.])[0-9a-f:]*:[0-9a-f:]*:[0-9a-f:.]*(?![\w:])", re.I)
_HOME: Final = re.compile(r"(?<=/home/)[^/\s'\"\\]+|(?<=/Users/)[^/\s'\"\\]+")
_MAIL: Final = re.compile(r"([A-Za-z0-9][\w.+-]*)@([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)")
_BLOB: Final = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")
_HIDDEN: Final = "(redacted)"


def names_in(text: str) -> Iterator[tuple[Kind, str]]:
    """Names that a text reveals by where they stand: below /home, in a mail address."""
    if "/home/" in text or "/Users/" in text:
        yield from (("users", name) for name in _HOME.findall(text))
    if "@" in text:
        for user, domain in _MAIL.findall(text):
            yield "users", user
            yield "hosts", domain


class Pseudonyms:
    """Tokens for what must not be published."""

    def __init__(self, kept: Iterable[Kind] = ()) -> None:
        self.kept = frozenset(kept)
        self._held: dict[Kind, dict[str, str]] = {kind: {} for kind in KINDS}
        self._names: re.Pattern[str] | None = None
        self._done: dict[tuple[str, bool], str] = {}
        self._kind_of: dict[str, Kind] = {}

    @property
    def counts(self) -> dict[str, int]:
        """What a value is called -> how many different ones have a token."""
        return {KINDS[kind]: len(held) for kind, held in self._held.items() if held}

    def know(self, kind: Kind, name: str) -> None:
        """Have a name replaced wherever it stands."""
        name = name.strip()
        if name and kind not in self.kept:
            self._kind_of.setdefault(name.casefold(), kind)
            self._names = None
            self._done.clear()

    def token(self, kind: Kind, value: str) -> str:
        """The token of a value."""
        if kind in self.kept:
            return value
        held = self._held[kind]
        if value.casefold() not in held:
            held[value.casefold()] = self._make(kind, value, len(held) + 1)
        return held[value.casefold()]

    def survivors(self, text: str) -> list[str]:
        """Values with a token that a text still holds: none, unless something went wrong."""
        kinds: list[Kind] = ["hosts", "users", "testbeds", "macs", "serials", "words"]
        values = {value: kind for kind in kinds for value in self._held[kind]}
        values = {
            value: kind
            for value, kind in values.items()
            if value in self._kind_of or kind in ("macs", "serials")
        }
        if not values:
            return []
        pattern = "|".join(map(_pattern, values))
        found = {match.casefold() for match in re.findall(pattern, text, re.IGNORECASE)}
        return sorted({KINDS[values[value]] for value in found if value in values})

    def _make(self, kind: Kind, value: str, number: int) -> str:
        if kind == "macs":
            digits = f"{number:06x}"
            return f"02:5e:53:{digits[:2]}:{digits[2:4]}:{digits[4:]}"
        if kind == "addresses":
            if ":" in value:
                return f"2001:db8::{number:x}"
            return f"203.0.113.{number}" if number < 255 else f"(address {number})"
        return _PSEUDONYMS[kind].format(number)

    def plain(self, text: str, *, versions: bool = False) -> str:
        """A text without what must not be published."""
        if (text, versions) not in self._done:  # thread and port names stand in every trial
            made = self._known(text)
            for pattern, put in self._patterns(versions):
                made = pattern.sub(put, made)
            self._done[text, versions] = _BLOB.sub(self._blob, made)
        return self._done[text, versions]

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

    def _patterns(self, versions: bool) -> list[tuple[re.Pattern[str], Put]]:
        found: list[tuple[re.Pattern[str], Put]] = [
            (_MAC, self._mac),
            (_LINK_BY_MAC, self._link),
            (_UUID, lambda match: self.token("serials", match[0])),
            (_MACHINE_ID, lambda match: self.token("serials", match[0])),
            (_HOME, lambda match: self._user(match[0])),
            (_MAIL, lambda match: self.token("users", match[0])),
            (_IPV6, self._address),
        ]
        return found if versions else [*found, (_IPV4, self._address)]

    def _user(self, name: str) -> str:
        return name if name in self._held["users"].values() else self.token("users", name)

    def _mac(self, match: re.Match[str]) -> str:
        plain = match[0].replace("-", ":").lower()
        if plain.startswith(_OWN_MAC) or plain in self._held["macs"].values():
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
EVERYWHERE: Final = ("localhost", "vnetperf-lab", "root", "local", "lab", "tester", "dut", "self")
#: A copy is not continued: its trials would be mixed with those of another machine.
NO_FINGERPRINT: Final = "redacted"
_VERSIONS: Final = re.compile(r"version|firmware|release|microcode|software|model", re.IGNORECASE)
_SERIALS: Final = re.compile(r"serial|uuid|asset", re.IGNORECASE)
_FREE: Final = re.compile(r"(^| )notes( value)?$|testbed (description|isolation)$")
_SHORTEST: Final = 3
_SHORTEST_TEXT: Final = 12
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_SSH: Final = re.compile(r"^ssh=(?:(?P<user>[^@\s/]+)@)?(?P<host>[^\s/]+)")
_SERVER: Final = re.compile(r"^(?:tcp://)?(?P<host>[A-Za-z][\w.-]*)(?::\d+)?$")


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
            if name not in OWN
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
        if last == "hostname":
            return self._as_name(text, "hosts")
        if _FREE.search(key) and text and not self._is_public(text):
            return self.tokens.token("texts", text)
        if _SERIALS.search(last) and text and not text.startswith("unknown"):
            return self.tokens.token("serials", text)
        return self.tokens.plain(text, versions=_VERSIONS.search(key) is not None)

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
        host = str(record.facts.get("hostname", ""))
        yield "hosts", "" if host.startswith("unknown") else host
    if isinstance(record, RunRecord):
        testbed = record.testbed
        yield "texts", record.identity.notes
        yield "texts", testbed.description
        yield "texts", testbed.isolation
        yield "testbeds", testbed.name
        for backend in testbed.sections:
            if match := _SERVER.match(testbed.external_server(backend)):
                yield "hosts", match["host"]
        if match := _SSH.match(testbed.agent.transport):
            if match["user"]:
                yield "users", match["user"]
            if not re.fullmatch(r"[\d.:\[\]]+", match["host"]):
                yield "hosts", match["host"]


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
