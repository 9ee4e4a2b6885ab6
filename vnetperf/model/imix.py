"""Mixes of frame sizes, as the genome of RFC 6985 or as a table of sizes and weights."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Annotated

from pydantic import Field

from vnetperf.model.base import Frozen
from vnetperf.model.units import L1_OVERHEAD_BYTES, MAX_FRAME_SIZE, MIN_FRAME_SIZE

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
    """One size of a mix.

    Attributes:
        size: Octets including FCS.
        weight: Its share of the frames, relative to those of the other sizes.
    """

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
        return sum(one.weight for one in self.sizes)

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
        return max(one.size for one in self.sizes)

    def shares(self) -> tuple[tuple[int, float], ...]:
        """Each size's share of the frames.

        Returns:
            Octets including FCS, and 0..1; together 1.
        """
        return tuple((one.size, one.weight / self.total) for one in self.sizes)

    @property
    def l1_bits(self) -> float:
        """Mean bits that a frame occupies on the medium."""
        return (self.mean_size + L1_OVERHEAD_BYTES) * 8

    def _mean(self) -> Fraction:
        return Fraction(sum(one.size * one.weight for one in self.sizes), self.total)


def mix_of_genome(genome: str) -> Mix:
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
            known = ", ".join(f"{gene}={size}" for gene, size in letters.items())
            raise ValueError(f"genome {genome!r} has {letter!r}; accepted: {known}")
        if letters[letter] > MAX_FRAME_SIZE:
            raise ValueError(
                f"genome {genome!r}: {letter} stands for {letters[letter]} octets, "
                f"frames have {MAX_FRAME_SIZE} at most"
            )
    counts = Counter(letters[letter] for letter in genome)
    sequence = tuple(letters[letter] for letter in genome)
    return Mix(name=genome, sizes=_by_size(counts), sequence=sequence)


def mix_of_sizes(sizes: tuple[SizeShare, ...]) -> Mix:
    """The mix of a table of sizes and weights.

    Args:
        sizes: Sizes, each once.

    Returns:
        The mix.

    Raises:
        ValueError: None, or a size twice.
    """
    if not sizes:
        raise ValueError("imix has no size")
    if len({one.size for one in sizes}) < len(sizes):
        raise ValueError("imix has a size twice: give its weight once")
    return Mix(
        name=" ".join(f"{one.weight}x{one.size}" for one in sizes),
        sizes=_by_size({one.size: one.weight for one in sizes}),
    )


def _by_size(counts: dict[int, int] | Counter[int]) -> tuple[SizeShare, ...]:
    return tuple(SizeShare(size=size, weight=counts[size]) for size in sorted(counts))
