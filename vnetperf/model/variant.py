"""A variant: what one scenario of a comparison has that the others have not."""

from __future__ import annotations

from vnetperf.model.base import Frozen

#: What a setting is given: one value, or several "KEY=VALUE" texts.
Value = str | int | tuple[str, ...]


class Variant(Frozen):
    """Settings laid over the user's own, as if typed last.

    Attributes:
        id: What tells it from the others, "rx_queues=2"; "" for no variant at all.
        settings: Name of a setting and its value, in the order in which they are laid over.
    """

    id: str = ""
    settings: tuple[tuple[str, Value], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.id)

    @property
    def typed(self) -> tuple[str, ...]:
        """The settings as a user would type them: "--set rx_queues=2"."""
        found = []
        for key, value in self.settings:
            values = value if isinstance(value, tuple) else (str(value),)
            found += [f"--{key.replace('_', '-')} {one}" for one in values]
        return tuple(found)

    def and_also(self, other: Variant) -> Variant:
        """Both, as one variant of a cross product.

        Args:
            other: Its settings are laid over these.

        Returns:
            The variant.
        """
        ids = ",".join(part for part in (self.id, other.id) if part)
        return Variant(id=ids, settings=self.settings + other.settings)


class Comparison(Frozen):
    """Variants of one scenario that are measured to be compared with each other.

    Attributes:
        name: Name of the test case.
        title: What it finds out, in one sentence; "" when the test case does not say.
        scenario: The scenario without a variant, "pvp_dpdk".
        variants: In the order in which they are to be shown.
    """

    name: str
    title: str = ""
    scenario: str
    variants: tuple[Variant, ...]
