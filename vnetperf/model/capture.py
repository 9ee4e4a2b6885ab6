"""Which frames of each trial are kept as pcap files."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field

from vnetperf.model.base import Frozen

#: "first": the first that each of the tester's ports sends, and receives; "streams": the first of
#: each stream, sent and received; "gaps": received ones before which some of their stream are
#: missing; "foreign": received ones that are not of the trial.
CaptureWhat = Literal["first", "streams", "gaps", "foreign"]
WHATS: tuple[CaptureWhat, ...] = get_args(CaptureWhat)
#: Frames of each port or stream, each way.
MOST_FRAMES = 10_000


class CaptureSpec(Frozen):
    """What is captured.

    Attributes:
        frames: Frames of each port (or stream), each way, at most; 0 for none.
        what: Which frames.
    """

    frames: int = Field(default=0, ge=0, le=MOST_FRAMES)
    what: CaptureWhat = "first"


def parse_capture(text: str) -> CaptureSpec:
    """What a user has typed.

    Args:
        text: "FRAMES" or "FRAMES:WHAT".

    Returns:
        What to capture.

    Raises:
        ValueError: It is neither.
    """
    number, colon, what = text.partition(":")
    known = next((one for one in WHATS if one == what), None)
    if not number.isdecimal() or int(number) > MOST_FRAMES or (colon and known is None):
        raise ValueError(
            f"{text!r} is not FRAMES or FRAMES:WHAT, with 0..{MOST_FRAMES} frames and what of "
            f"{', '.join(WHATS)}"
        )
    return CaptureSpec(frames=int(number), what=known or "first")
