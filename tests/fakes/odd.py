"""What files of the kernel, of other tools and programs have held although nobody expected it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, Final

from hypothesis import strategies as st

#: Seen on machines, or of the same kind as what was.
SEEN: Final = (
    *(
        b" (null)\n",
        b"",
        b"\n",
        b"\0",
        b"\0\0\0\0",
        b"none\n",
        b"N/A\n",
        b"<unavailable>\n",
        b"Unknown",
    ),
    *(b"-1\n", b"0\n", b"65535\n", b"4294967295\n", b"18446744073709551615\n", b"-2147483648\n"),
    *(b"9" * 5000, b"0-4294967295\n", b"3-1\n", b"0-\n", b",\n", b"0,,1\n", b"0-1-2\n", b"1_0\n"),
    *(b"0x\n", b"0b1\n", b"1e9\n", b"nan\n", b"inf\n", b"1.5\n", b"+3\n", "\u0663".encode()),
    *(b"0\n1\n", b"[0]\n", b"[a] [b]\n", b":\n", b"::\n", b"0:\n", b"no colons here\n", b"= = =\n"),
    *(b"\xff\xfe\x00\x80", b"\xed\xa0\x80", b"a\r\nb\r\n", b"\x1b[2J\x07", b"MemFree:\n", b"(((\n"),
    *(b"processor\t: \n\n", b"processor\t: 0\nmodel name\n", b"Status: a\nPackage: dpdk\n"),
    *(b"x" * 100_000, b" " * 10_000, b"a b c d e f g h i j k l m n o p q r s t u v\n" * 50),
)
contents = st.one_of(st.sampled_from(SEEN), st.binary(max_size=60))
#: In a file's place: a directory, or nothing at all.
ABSENT: Final = ("a directory", "nothing")
places = st.one_of(contents, st.sampled_from(ABSENT))

#: Values that a program's JSON has had in place of others, or may have: nothing, -1 with a sign and
#: without, what is no number, other types.
VALUES: Final = (
    *(None, "", -1, 0, True, "x", "1e5", float("nan"), float("inf"), 1e308, 2**63, 2**64 - 1),
    *([], {}, [None], [[]], {"a": None}),
)


@st.composite
def changed(draw: Callable[[st.SearchStrategy[Any]], Any], told: Any) -> Any:
    """JSON of a program, with other values in some places, or without some of its keys."""
    found = copy.deepcopy(told)
    for _ in range(draw(st.integers(1, 3))):
        places = [path for path in _paths(found) if path]
        if not places:
            break
        *above, last = draw(st.sampled_from(places))
        here = found
        for part in above:
            here = here[part]
        if isinstance(here, dict) and draw(st.booleans()):
            del here[last]
        else:
            here[last] = copy.deepcopy(draw(st.sampled_from(VALUES)))
    return found


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        items = list(value.items())
    else:
        items = list(enumerate(value)) if isinstance(value, list) else []
    for key, below in items:
        yield from _paths(below, (*path, key))
