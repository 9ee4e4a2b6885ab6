"""Replaces names and addresses in a text by tokens, the same for the same value everywhere."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, Literal

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
_TOKENS: Final[Mapping[Kind, str]] = {
    "hosts": "host-{}",
    "users": "user-{}",
    "testbeds": "testbed-{}",
    "serials": "serial-{}",
    "texts": "(redacted text {})",
    "words": "word-{}",
}
#: The project's own (model/addresses.py): they are the same on every machine.
_OWN_MAC: Final = "02:76:"
#: Ranges for benchmarks and documents, loopback, masks, multicast: none tells where a machine is.
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
    """Names that a text tells by where they stand: below /home, in a mail address.

    Args:
        text: Any text.

    Yields:
        What it is, and the name.
    """
    if "/home/" in text or "/Users/" in text:
        yield from (("users", name) for name in _HOME.findall(text))
    if "@" in text:
        for user, domain in _MAIL.findall(text):
            yield "users", user
            yield "hosts", domain


class Tokens:
    """Tokens for what must not be told.

    Args:
        kept: Kinds that stay as they are.
    """

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
        """Have a name replaced wherever it stands.

        Args:
            kind: What it is.
            name: The name; parts of it are replaced on their own only if they are known too.
        """
        name = name.strip()
        if name and kind not in self.kept:
            self._kind_of.setdefault(name.casefold(), kind)
            self._names = None
            self._done.clear()

    def token(self, kind: Kind, value: str) -> str:
        """The token of a value.

        Args:
            kind: What it is.
            value: The value.

        Returns:
            Its token; the value itself when the kind is kept.
        """
        if kind in self.kept:
            return value
        held = self._held[kind]
        if value.casefold() not in held:
            held[value.casefold()] = self._make(kind, value, len(held) + 1)
        return held[value.casefold()]

    def survivors(self, text: str) -> list[str]:
        """Values with a token that a text still holds: none, unless something went wrong.

        Args:
            text: A text that was made from redacted records.

        Returns:
            Kinds, without the values themselves.
        """
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
        return _TOKENS[kind].format(number)

    def plain(self, text: str, *, versions: bool = False) -> str:
        """A text without what must not be told.

        Args:
            text: The text.
            versions: True where four numbers with dots are a version and no address.

        Returns:
            The text with tokens.
        """
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
        """Base64 of a text that has something in it which must not be told."""
        try:
            text = base64.b64decode(match[0], validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return match[0]
        return match[0] if self._known(text) == text and not _HOME.search(text) else _HIDDEN


def _pattern(name: str) -> str:
    """A name as it may stand in a text; volumes have its hyphens doubled."""
    text = re.escape(name).replace(r"\-", "--?")
    return text if len(name) >= _LONG_NAME else _EDGE.format(text)
