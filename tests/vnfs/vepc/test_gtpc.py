"""scapy is the judge of what the SGSN sends, and writes what it must read."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib import gtp

from vnetperf.vnfs.vepc import gtpc

NUMBERS = st.integers(0, 2**32 - 1)
SEQUENCES = st.integers(0, 2**16 - 1)
ADDRESSES = st.ip_addresses(v=4).map(str)
DIGITS = st.text("0123456789", min_size=15, max_size=15)
LABELS = st.lists(st.text("abcdefghij", min_size=1, max_size=20), min_size=1, max_size=4)


def subscribers() -> st.SearchStrategy[gtpc.Subscriber]:
    return st.builds(
        gtpc.Subscriber,
        imsi=DIGITS,
        msisdn=st.text("0123456789", min_size=10, max_size=14),
        apn=LABELS.map(".".join),
        teid=NUMBERS,
    )


def elements() -> st.SearchStrategy[tuple[int, bytes]]:
    fixed = st.sampled_from(sorted(gtpc.FIXED)).flatmap(
        lambda kind: st.tuples(
            st.just(kind), st.binary(min_size=gtpc.FIXED[kind], max_size=gtpc.FIXED[kind])
        )
    )
    return fixed | st.tuples(st.integers(128, 255), st.binary(max_size=300))


@given(SEQUENCES, subscribers(), ADDRESSES, ADDRESSES)
def test_scapy_reads_a_request_for_a_context(
    sequence: int, who: gtpc.Subscriber, control: str, user: str
) -> None:
    whole = gtp.GTPHeader(gtpc.create_request(sequence, who, control, user).encode())
    assert (whole.version, whole.gtp_type, whole.teid, whole.seq) == (1, 16, 0, sequence)
    body = whole[gtp.GTPCreatePDPContextRequest]
    found = {type(ie): ie for ie in body.IE_list}
    assert found[gtp.IE_IMSI].imsi.decode() == who.imsi
    endpoints = found[gtp.IE_TEIDI].TEIDI, found[gtp.IE_TEICP].TEICI
    assert endpoints == (who.teid, who.teid)
    assert found[gtp.IE_AccessPointName].APN.decode() == who.apn
    assert found[gtp.IE_NSAPI].NSAPI == 5
    assert found[gtp.IE_EndUserAddress].PDPTypeNumber == 0x21
    addresses = [ie.ipv4_address for ie in body.IE_list if isinstance(ie, gtp.IE_GSNAddress)]
    assert addresses == [control, user]
    assert not any(isinstance(ie, gtp.IE_NotImplementedTLV) for ie in body.IE_list)


@given(SEQUENCES)
def test_scapy_reads_an_echo(sequence: int) -> None:
    echo = gtp.GTPHeader(gtpc.echo_request(sequence).encode())
    assert (echo.gtp_type, echo.seq) == (1, sequence)


@given(SEQUENCES, st.tuples(NUMBERS, NUMBERS, NUMBERS), ADDRESSES, ADDRESSES)
def test_a_response_that_scapy_writes_is_read(
    sequence: int, teids: tuple[int, int, int], ue: str, gateway: str
) -> None:
    own, data, control = teids
    response = gtp.GTPHeader(S=1, teid=own, seq=sequence) / gtp.GTPCreatePDPContextResponse(
        IE_list=[
            gtp.IE_Cause(CauseValue=128),
            gtp.IE_ReorderingRequired(),
            gtp.IE_TEIDI(TEIDI=data),
            gtp.IE_TEICP(TEICI=control),
            gtp.IE_EndUserAddress(bytes.fromhex("800006f121") + _packed(ue)),
            gtp.IE_GSNAddress(length=4, ipv4_address=gateway),
            gtp.IE_GSNAddress(length=4, ipv4_address=gateway),
        ]
    )
    message = gtpc.decode(bytes(response))
    assert (message.kind, message.teid, message.sequence) == (17, own, sequence)
    assert gtpc.refusal_cause(message) == ""
    assert gtpc.parse_context(message) == gtpc.Context(data, control, ue, gateway)


def _packed(address: str) -> bytes:
    return bytes(int(part) for part in address.split("."))


@given(st.integers(0, 255), NUMBERS, SEQUENCES, st.lists(elements(), max_size=6).map(tuple))
def test_what_is_written_is_read(
    kind: int, teid: int, sequence: int, parts: tuple[tuple[int, bytes], ...]
) -> None:
    message = gtpc.Message(kind, teid, sequence, parts)
    assert gtpc.decode(message.encode()) == message


@given(st.binary(max_size=80))
def test_noise_is_read_or_refused(octets: bytes) -> None:
    with contextlib.suppress(gtpc.GtpError):
        message = gtpc.decode(octets)
        assert gtpc.decode(message.encode()) == message


@given(st.integers(1, 200))
def test_a_message_that_was_cut_is_refused(cut: int) -> None:
    who = gtpc.Subscriber("001010000000001", "880000000001", "internet", 1)
    whole = gtpc.create_request(1, who, "127.0.0.2", "192.0.2.2").encode()
    with pytest.raises(gtpc.GtpError):
        gtpc.decode(whole[: max(0, len(whole) - cut)])


@pytest.mark.parametrize(
    ("number", "said"), [(128, ""), (191, ""), (199, "no resources"), (250, "refused (cause 250)")]
)
def test_a_cause_is_told_in_words(number: int, said: str) -> None:
    message = gtpc.Message(17, 0, 0, ((gtpc.CAUSE, bytes((number,))),))
    assert gtpc.refusal_cause(message).startswith(said)
    assert bool(gtpc.refusal_cause(message)) == bool(said)


def test_an_answer_without_an_endpoint_is_refused() -> None:
    with pytest.raises(gtpc.GtpError, match="lacks"):
        gtpc.parse_context(gtpc.Message(17, 0, 0, ((gtpc.CAUSE, b"\x80"),)))
