"""What files of the kernel, of other tools and programs have held although nobody expected it."""

from __future__ import annotations

from typing import Final

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
