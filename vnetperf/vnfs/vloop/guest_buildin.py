"""A disk image of the user's that forwards by itself: nothing is asked of it, nothing is read."""

from __future__ import annotations

from vnetperf.model.trial import HopCounters


class GuestBuildin:
    """A guest without an agent. It is up when the path check passes.

    Args:
        image: Path of its disk image.
    """

    def __init__(self, image: str) -> None:
        self.image = image

    def counters(self) -> tuple[HopCounters, ...]:
        """None: what it counts inside is its own."""
        return ()

    def facts(self) -> dict[str, object]:
        """What is known of it.

        Returns:
            JSON values.
        """
        return {"application": "what its disk image does by itself", "version": self.image}
