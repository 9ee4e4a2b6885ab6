"""A traffic profile.

Frame sizes and mixes (RFC 6985), headers, flows and directions, independent of the generator.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import lcm, prod
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from vnetperf.model.base import Frozen
from vnetperf.model.frames import (
    FCS_BYTES,
    MAX_FRAME_SIZE,
    MIN_FRAME_SIZE,
    NETWORKS,
    OCTETS,
    OUTER,
    PLAIN,
    STAMP_OCTETS,
    HeaderKind,
    VaryField,
    check_stack,
    count_field_values,
    field_number,
    find_carrier,
    first_outside,
    in_direction,
    index_of,
    plain_name,
    same_octets,
)

#: Letters of RFC 6985 section 4; "z" is the largest frame of the MTU.
GENES: dict[str, int] = {
    "a": 64, "b": 128, "c": 256, "d": 512, "e": 1024, "f": 1280, "g": 1518, "h": 2112, "i": 9000,
    "j": 16000,
}  # fmt: skip
#: Frame of an MTU of 1500, which "z" stands for.
MTU_GENE, MTU_FRAME = "z", 1518
#: What a mix is called where a frame size stands otherwise.
IMIX = "imix"
#: A genome is repeated; longer ones say nothing more.
LONGEST_GENOME = 256


class SizeShare(Frozen):
    """One size of a mix, octets with FCS; its weight is relative to those of the other sizes."""

    size: Annotated[int, Field(ge=MIN_FRAME_SIZE, le=MAX_FRAME_SIZE)]
    weight: Annotated[int, Field(ge=1, le=1_000_000)] = 1


class Mix(Frozen):
    """Sizes of frames that are sent together.

    Attributes:
        name: The genome, or "7x64 4x570 1x1518".
        sizes: Each size once, by rising size.
        sequence: Sizes of frames in the order of the genome, which is repeated; empty where the
            sizes have no order.
    """

    name: str
    sizes: tuple[SizeShare, ...]
    sequence: tuple[int, ...] = ()

    @property
    def total(self) -> int:
        """Sum of the weights."""
        return sum(share.weight for share in self.sizes)

    @property
    def mean_size(self) -> float:
        """Mean size of a frame, octets including FCS."""
        return float(self._mean())

    @property
    def key(self) -> int:
        """Frame size under which results are kept: the mean, rounded."""
        return max(MIN_FRAME_SIZE, round(self._mean()))

    @property
    def largest(self) -> int:
        """Largest frame, octets including FCS."""
        return max(share.size for share in self.sizes)

    def shares(self) -> tuple[tuple[int, float], ...]:
        """Each size, octets including FCS, with its share of the frames, 0..1; together 1."""
        return tuple((share.size, share.weight / self.total) for share in self.sizes)

    def _mean(self) -> Fraction:
        return Fraction(sum(share.size * share.weight for share in self.sizes), self.total)


def parse_genome(genome: str) -> Mix:
    """The mix that a genome stands for.

    Args:
        genome: Letters a to i and z, one for each frame of the sequence that is repeated.

    Returns:
        Its sizes and how often each comes.

    Raises:
        ValueError: A letter that is none, or a size that cannot be sent.
    """
    if not 1 <= len(genome) <= LONGEST_GENOME:
        raise ValueError(f"a genome has 1..{LONGEST_GENOME} letters, not {len(genome)}")
    letters = GENES | {MTU_GENE: MTU_FRAME}
    for letter in genome:
        if letter not in letters:
            accepted = ", ".join(f"{gene}={size}" for gene, size in letters.items())
            raise ValueError(f"genome {genome!r} has {letter!r}; accepted: {accepted}")
        if letters[letter] > MAX_FRAME_SIZE:
            raise ValueError(
                f"genome {genome!r}: {letter} stands for {letters[letter]} octets, "
                f"frames have {MAX_FRAME_SIZE} at most"
            )
    counts = Counter(letters[letter] for letter in genome)
    sequence = tuple(letters[letter] for letter in genome)
    return Mix(name=genome, sizes=_by_size(counts), sequence=sequence)


def mix_sizes(sizes: tuple[SizeShare, ...]) -> Mix:
    """The mix of a table of sizes and weights; `ValueError` for none, or a size twice."""
    if not sizes:
        raise ValueError("imix has no size")
    if len({share.size for share in sizes}) < len(sizes):
        raise ValueError("imix has a size twice: give its weight once")
    return Mix(
        name=" ".join(f"{share.weight}x{share.size}" for share in sizes),
        sizes=_by_size({share.size: share.weight for share in sizes}),
    )


def _by_size(counts: dict[int, int] | Counter[int]) -> tuple[SizeShare, ...]:
    return tuple(SizeShare(size=size, weight=counts[size]) for size in sorted(counts))


#: Most flows of a stream.
MOST_FLOWS = 16_777_216
#: Most of them that are learnt where there are more than a profile's `flows`: they are sent in
#: seconds, before each trial.
MOST_LEARNT = 1 << 20
#: Octets that a profile can add by itself behind its headers.
MOST_RAW = 256
#: Fields that differ between flows; a session of a mobile core brings two more.
MOST_VARIED = 6
#: The smaller of two directions' loads, as a share of the larger.
LEAST_LOAD = 0.001


class TrafficProfile(Frozen):
    """A traffic profile, one file under conf/traffic/.

    Attributes:
        name: The file's unless given.
        description: One sentence for the report.
        bidirectional: True sends into both ports (RFC 2544 section 14), false from port 0 only.
        loads: Load of each direction; one is 1.0, the other 0.001 to 1.0.
        headers: `ethernet`, `qinq`, `vlan`, `mpls`, `ipv4`, `ipv6`, `udp`, `tcp`, `vxlan`, `gre`,
            `geneve`, `gtpu`, `raw`, in an order that Ethernet has, from the outermost.
        values: Field = its value in the first flow; addresses as text. Addresses are those of
            direction 0; in direction 1 source and destination change places.
        raw: Octets of the header `raw`, hexadecimal, up to 256.
        flows: 1 to 16777216 flows of each stream; more than 1 needs `vary`. There are more where a
            field has fewer values and falls out of step.
        vary: [Fields](traffic.md#flows) that differ between flows; each takes `flows` values in
            step. `outer_...` is outside a tunnel.
        vary_mode: `inc` walks through the values in order, `random` picks uniformly (seeded).
        imix: A genome of RFC 6985, or `[[imix]]` with `size` and `weight`; replaces `frame_sizes`.
        broadcast: 0 to 0.5: share of the frames that go to the broadcast address (RFC 2544 section
            11.1). They are part of the load, and neither received nor lost.
        burst: 1 to 65536: frames that are sent back to back, then nothing until the load is met on
            average (RFC 2544 section 21).
        learning_frames: 0 to 16777216: frames per stream before each trial, at least one for each
            flow; never counted; 0 sends none.
        answers: ARP requests and neighbour solicitations that the tester answers: `own` for its
            streams' addresses and its end of a tunnel, `any` for every request, as the only
            neighbour of a router, `none`.
        announce: Own addresses are announced before learning frames: gratuitous ARP, unsolicited
            advertisements.
    """

    name: str = ""
    description: str = ""
    bidirectional: bool = True
    loads: tuple[float, float] = (1.0, 1.0)
    headers: tuple[HeaderKind, ...] = PLAIN
    values: dict[VaryField, int | str] = Field(default_factory=dict)
    raw: str = ""
    flows: int = Field(default=1, ge=1, le=MOST_FLOWS)
    vary: tuple[VaryField, ...] = ()
    vary_mode: Literal["inc", "random"] = "inc"
    imix: str | tuple[SizeShare, ...] = ""
    broadcast: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    burst: int = Field(default=1, ge=1, le=65_536)
    learning_frames: int = Field(default=64, ge=0, le=16_777_216)
    answers: Literal["own", "any", "none"] = "own"
    announce: bool = False

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: tuple[HeaderKind, ...]) -> tuple[HeaderKind, ...]:
        check_stack(headers)
        return headers

    @field_validator("raw")
    @classmethod
    def _raw_is_hexadecimal(cls, raw: str) -> str:
        try:
            octets = bytes.fromhex(raw)
        except ValueError as error:
            raise ValueError(f"raw is octets in hexadecimal, not {raw[:40]!r}") from error
        if len(octets) > MOST_RAW:
            raise ValueError(f"raw has {len(octets)} octets, {MOST_RAW} at most")
        return octets.hex()

    @model_validator(mode="after")
    def _loads_fit_the_directions(self) -> TrafficProfile:
        are_valid = all(LEAST_LOAD <= load <= 1.0 for load in self.loads)  # nan is not
        if not are_valid or max(self.loads) != 1.0:
            raise ValueError(
                f"loads = {list(self.loads)}: the greater is 1.0 and the other {LEAST_LOAD}..1.0"
            )
        if not self.bidirectional and self.loads != (1.0, 1.0):
            raise ValueError("loads is for two directions, and bidirectional is false")
        return self

    @model_validator(mode="after")
    def _fields_are_in_the_headers(self) -> TrafficProfile:
        if ("raw" in self.headers) != bool(self.raw):
            raise ValueError('raw = "..." is for headers with "raw", which need it')
        if len(set(self.vary)) < len(self.vary):
            raise ValueError("vary names a field twice")
        if len(self.vary) > MOST_VARIED:
            raise ValueError(f"vary names {len(self.vary)} fields, {MOST_VARIED} at most")
        for key, names in (("vary", self.vary), ("values", tuple(self.values))):
            for name in names:
                if not self._may_have(name):
                    raise ValueError(
                        f"{key} names {name}, which is in none of {', '.join(self.headers)}"
                    )
        for name, value in self.values.items():
            if name in NETWORKS:
                raise ValueError(f"values cannot set {name}; set {NETWORKS[name]}")
            field_number(name, value)
        for net, plain_field in NETWORKS.items():
            if {net, plain_field} <= {*self.vary}:
                raise ValueError(f"vary names {plain_field} and {net}, which is a part of it")
        for key, names in (("vary", self.vary), ("values", tuple(self.values))):
            if doubled := same_octets(names, self.headers):
                raise ValueError(
                    f"{key} names {doubled}, which are one in {', '.join(self.headers)}"
                )
        return self

    def _may_have(self, name: VaryField) -> bool:
        """Whether a frame can have a field; the deployment's tunnel may bring it."""
        has_tunnel = find_carrier(self.headers) is not None
        brought = name.startswith(OUTER) or name in ("vni", "teid")
        return index_of(name, self.headers) is not None or (brought and not has_tunnel)

    @model_validator(mode="after")
    def _flows_fit_their_fields(self) -> TrafficProfile:
        if self.flows > 1 and not self.vary:
            raise ValueError("flows > 1 needs `vary` to name at least one field")
        room = max(map(self.room, self.vary), default=1)
        if self.flows > room:
            cure = (
                "set the first value of a MAC address to one that ends in :00:00:00"
                if self.flows > self.room("eth_src")
                else f"vary eth_src as well, which has {self.room('eth_src')} values"
            )
            raise ValueError(
                f"{' and '.join(self.vary)} make at most {room} flows, not {self.flows}; {cure}"
            )
        return self

    @model_validator(mode="after")
    def _check_announce(self) -> TrafficProfile:
        if self.announce and self.answers == "none":
            raise ValueError('announce = true names addresses that answers = "none" denies')
        return self

    @model_validator(mode="after")
    def _sizes_have_room(self) -> TrafficProfile:
        mix = self.mix
        if mix is not None and mix.sizes[0].size < self.least_frame_size:
            raise ValueError(
                f"imix has frames of {mix.sizes[0].size} octets; {self.explain_smallest}"
            )
        return self

    def room(self, name: VaryField) -> int:
        """How many values a field can take from its first one, in every direction."""
        field = NETWORKS.get(name, name)
        firsts = [self._first(field, direction) for direction in self.directions]
        if name in NETWORKS:
            firsts = [None if first is None else first >> 8 & 255 for first in firsts]
        return min(count_field_values(name, first) for first in firsts)

    def _first(self, name: VaryField, direction: int) -> int | None:
        """A field's first value where it is set, also by its other name, or is the tunnel's."""
        place = index_of(name, self.headers)
        for spelling in (name, plain_name(name), OUTER + plain_name(name)):
            setting = self.value(spelling, direction)
            if setting is not None and (
                spelling == name or index_of(spelling, self.headers) == place
            ):
                return field_number(spelling, setting)
        return first_outside(name, self.headers)

    def value(self, name: str, direction: int) -> int | str | None:
        """What a field is set to in the first flow of a direction; None where it was not set."""
        return next(
            (v for key, v in self.values.items() if key == in_direction(name, direction)), None
        )

    @property
    def mix(self) -> Mix | None:
        """The mix of frame sizes; None where the size is a parameter of the test case."""
        if not self.imix:
            return None
        if isinstance(self.imix, str):
            return parse_genome(self.imix)
        return mix_sizes(self.imix)

    @property
    def header_octets(self) -> int:
        """Octets of all headers, those of a deployment's tunnel not counted."""
        return sum(OCTETS[kind] for kind in self.headers) + len(self.raw) // 2

    @property
    def least_frame_size(self) -> int:
        """Smallest frame that has room for the headers, octets including FCS."""
        return max(MIN_FRAME_SIZE, self.header_octets + STAMP_OCTETS + FCS_BYTES)

    @property
    def explain_smallest(self) -> str:
        """What the smallest frame is made of, for a message."""
        return (
            f"the headers of traffic profile {self.name or '(without a name)'} "
            f"({', '.join(self.headers)}: {self.header_octets} octets), the generator's stamp "
            f"({STAMP_OCTETS}) and the FCS ({FCS_BYTES}) need {self.least_frame_size}"
        )

    @property
    def carrier(self) -> HeaderKind | None:
        """The tunnel that the headers have by themselves; None for none."""
        return find_carrier(self.headers)

    @property
    def plain(self) -> bool:
        """True for frames of Ethernet, IPv4 and UDP with the usual values."""
        return self.headers == PLAIN and not self.values

    @property
    def flow_count(self) -> int:
        """Number of distinct flows that a stream has.

        Fields walk in step, each through its own number of values: a field that has fewer values
        than there are flows starts again sooner than the others, and new combinations arise: then
        there are more than `flows`.
        """
        if self.flows == 1:
            return 1
        counts = [min(self.flows, self.room(name)) for name in self.vary]
        return prod(counts) if self.vary_mode == "random" else lcm(*counts)

    @property
    def learning_frames_per_stream(self) -> int:
        """Learning frames that are sent: every flow must have been seen before it is measured.

        Of flows picked at random no number makes sure of that, and of more than `MOST_LEARNT` that
        come of fields out of step there are too many.
        """
        if not self.learning_frames:
            return 0
        learns_all = self.vary_mode != "random" and self.flow_count <= max(self.flows, MOST_LEARNT)
        return max(self.learning_frames, self.flow_count if learns_all else self.flows)

    @property
    def directions(self) -> tuple[int, ...]:
        """Numbers of the ports that send: (0, 1) or (0,)."""
        return (0, 1) if self.bidirectional else (0,)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What is special about the frames, for a reader; none of one size of IPv4 and UDP."""
        conditions = []
        if self.headers != PLAIN:
            conditions.append(f"frames of {', '.join(self.headers)}")
        if self.mix is not None:
            conditions.append(f"IMIX {self.mix.name}, mean {self.mix.mean_size:.1f} octets")
        if self.loads != (1.0, 1.0):
            conditions.append(f"loads of the directions {self.loads[0]:g} : {self.loads[1]:g}")
        if self.broadcast:
            conditions.append(f"{self.broadcast:.2%} of the frames broadcast, counted apart")
        if self.burst > 1:
            conditions.append(f"bursts of {self.burst} frames")
        return tuple(conditions)
