"""Makes records of a run that can be given away: names, addresses and serials are tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from pathlib import PurePath
from typing import Any, Final

from pydantic import BaseModel

from vnetperf.model.redaction import Redaction
from vnetperf.model.result import RunIdentity
from vnetperf.model.testbed import Testbed
from vnetperf.results.records import (
    LOG_VERSION,
    EnvironmentRecord,
    Record,
    RedactedRecord,
    RunRecord,
    TrialRecord,
)
from vnetperf.results.tokens import KINDS, Kind, Tokens, names_in

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
    """Redacts the records of one run.

    Args:
        records: The log.
        kept: Kinds that stay as they are.
        words: More words that must not be told.
        names: Host and user names known besides, by kind.
        public: Texts of shipped testbeds, which tell nothing.
    """

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
        self.tokens = Tokens(kept)
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
        """The records with tokens, and one that says so.

        Args:
            dropped: Files of the run that are not given away -> why.

        Returns:
            Records in the same order, the one that says so after the first.
        """
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
        return changed

    def _model(self, model: Any) -> Any:
        # The fields of a testbed are named as a plan's are, where it is a tree of values.
        above = "testbed " if isinstance(model, Testbed) else ""
        update = {
            name: self._value(getattr(model, name), above + name)
            for name in type(model).model_fields
            if name not in OWN
        }
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
        for server in (testbed.trex.server, testbed.pktgen.server):
            if match := _SERVER.match(server):
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
