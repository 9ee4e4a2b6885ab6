"""Checksums of a log's lines: a number that was changed by hand is said, and never read.

A line ends in a digest of itself and of the digest before it, so that a line that was changed is
found, and one that was taken away, put in or moved shows at the next.
"""

from __future__ import annotations

import re
from hashlib import sha256

_DIGITS = 16
_SEAL = re.compile(rb',"digest":"([0-9a-f]{%d})"\}$' % _DIGITS)


def digest_of(body: bytes, before: str) -> str:
    """Digest of a line.

    Args:
        body: The record as JSON, without a digest.
        before: Digest of the line before; "" for the first.

    Returns:
        16 hexadecimal digits.
    """
    return sha256(before.encode() + b"\n" + body).hexdigest()[:_DIGITS]


def sealed(body: bytes, before: str) -> tuple[bytes, str]:
    """Put a record's digest into its line.

    Args:
        body: The record as a JSON object.
        before: Digest of the line before; "" for the first.

    Returns:
        The line without its end, and its digest.
    """
    digest = digest_of(body, before)
    return b'%s,"digest":"%s"}' % (body[:-1], digest.encode()), digest


def opened(line: bytes) -> tuple[bytes, str]:
    """Take the digest out of a line again.

    Args:
        line: The line without its end.

    Returns:
        The record as it was sealed, and its digest; "" for a line without one.
    """
    found = _SEAL.search(line)
    if found is None:
        return line, ""
    return line[: found.start()] + b"}", found[1].decode()
