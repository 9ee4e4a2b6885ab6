"""What was taken out of a copy of a run before it was given away."""

from __future__ import annotations

from pydantic import Field

from vnetperf.model.base import Frozen


class Redaction(Frozen):
    """What a copy of a run does not tell any more.

    Attributes:
        when: UTC, ISO 8601.
        values: Kind ("host name", "MAC address") -> number of different values that were replaced,
            each by the same token everywhere.
        kept: Kinds that were left on purpose.
        limited: What was replaced only where it is known to be a name, and why.
        dropped: Files of the run that the copy does not have -> why.
    """

    when: str
    values: dict[str, int] = Field(default_factory=dict)
    kept: tuple[str, ...] = ()
    limited: tuple[str, ...] = ()
    dropped: dict[str, str] = Field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """What a reader must know first."""
        counts = ", ".join(f"{number} x {kind}" for kind, number in self.values.items())
        return f"a redacted copy: values were replaced by tokens ({counts or 'none were found'})"
